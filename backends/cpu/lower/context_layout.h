// The groups of a graph on the CPU device and the layouts of what they give, as lowering will have them: what costs
// depend on.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "backends/common/layout.h"
#include "backends/cpu/fuse/fusion.h"
#include "backends/cpu/onednn/dnnl_util.h"
#include "core/device/device.h"
#include "core/ir/graph.h"

namespace rewright::cpu {

// Tells in which layout the CPU device keeps each value of a graph. The layout depends on the group that makes the
// value, on the readers of the values within that group, and on the layouts of its operands. So ResultLayout
// (kernel_list.h) is asked group by group for the graph as a whole. Layouts of a group's results are remembered by the
// layouts of its operands, for one arena; whole graphs are kept while they are among those asked for last. Thread-safe.
class CpuLayouts {
 public:
  explicit CpuLayouts(std::shared_ptr<const DnnlContext> context) : context_(std::move(context)) {}

  std::vector<Group> GroupsOf(const Graph& graph);
  // As it is fused; nothing where the graph has no such group.
  std::optional<FusedGroup> FusedOf(const Graph& graph, const Group& group);
  // The layout of a value that the graph computes in a group of its own, or of an input; row-major for other values.
  Layout Of(const Graph& graph, Value value);
  // Equal for groups whose inputs lie alike.
  uint64_t HashOf(const Graph& graph, const Group& group);
  // The signature of a group with its inputs as they lie (backends/common/group.h).
  std::string SignatureOf(const Graph& graph, const Group& group);

 private:
  struct Laid {
    Layout layout;
    uint64_t hash = 0;
  };
  using LaidPtr = std::shared_ptr<const Laid>;  // null: row-major
  // The groups and layouts of one graph.
  struct Table {
    std::weak_ptr<Arena> arena;
    std::vector<NodeId> nodes;
    std::vector<Value> outputs;
    std::vector<FusedGroup> groups;
    absl::flat_hash_map<NodeId, size_t> group_of;  // by its first node
    absl::flat_hash_map<Value, LaidPtr> laid;

    bool IsOf(const Graph& graph) const;
    LaidPtr Find(Value value) const;
  };

  std::shared_ptr<const Table> TableOf(const Graph& graph);
  // The layout of a value that the group gives. Requires the mutex.
  LaidPtr Lay(const Graph& graph, const FusedGroup& group, Value value, const Table& before);

  const std::shared_ptr<const DnnlContext> context_;
  std::mutex mutex_;                                 // of what follows
  std::deque<std::shared_ptr<const Table>> tables_;  // those asked for last come first
  std::weak_ptr<Arena> arena_;                       // of what is remembered
  absl::flat_hash_map<std::vector<uint64_t>, LaidPtr> remembered_;
};

}  // namespace rewright::cpu
