// Costs a graph: the sum over the groups that the device runs, each asked of the device once.
//
// Two groups are the same to a device when they have the same operators, attributes, types, inner edges, aliased
// inputs, kinds of inputs (weights or activations, small constants by content) and escaping values, and when the device
// names the same context (the layouts in which operands arrive). This signature is the key of the memory, so a hundred
// equal layers are costed once and a search may ask as often as it likes.
//
// Work that is done once at load counts next to nothing: it only breaks ties, and so does the number of nodes.
//
// Thread-safe: the device is asked for one cost at a time, but its Partition and CostContext may be called by several
// threads at once when several share the model.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "core/device/device.h"

namespace rewright {

struct GraphCost {
  double seconds = 0;    // of the groups
  double tie_break = 0;  // far below what can be measured
  double total() const { return seconds + tie_break; }
};

class CostModel {
 public:
  // The device outlives the model. It is asked nothing more once `stop` says so.
  explicit CostModel(Device& device, std::function<bool()> stop = nullptr) : device_(device), stop_(std::move(stop)) {}

  // Errors: those of Device::Cost, with the operators of the group; kDeadlineExceeded where it may not be asked.
  absl::StatusOr<GraphCost> Cost(const Graph& graph);

  Device& device() const { return device_; }

 private:
  using Signature = std::vector<int64_t>;

  absl::StatusOr<double> GroupCost(const Graph& graph, const Group& group);

  Device& device_;
  const std::function<bool()> stop_;
  mutable absl::Mutex mutex_;
  absl::flat_hash_map<Signature, double> seconds_;
  absl::flat_hash_map<Signature, absl::Status> refused_;
};

// Seconds that stand for work at load, and for each node that runs: see above.
double TieBreak(const Graph& graph);

}  // namespace rewright
