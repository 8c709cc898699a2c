// The layouts of values on the CUDA device, told from their producers and readers alone.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "backends/common/layout.h"
#include "core/device/device.h"
#include "core/ir/graph.h"

namespace rewright::cuda {

// Concatenations that need no kernel: the library calls which compute the parts write them where they belong. A part's
// elements lie in the whole's memory, `offset` elements from the start.
struct ConcatSlot {
  Layout layout;
  int64_t offset = 0;
};

// The layout of a concatenation whose parts are written in place: images with channels innermost where convolutions
// have them so.
Layout ConcatLayout(const Shape& dims, bool channels_last);

// By operand of the concatenation `id`: its place in the whole, if it can be written there: it is the result of a
// product or convolution with at most a bias and relu behind it, no other node reads it, and its place is aligned to 16
// bytes (`element_bytes` each). Told from the operand's producers and readers alone. Empty for other operators.
std::vector<std::optional<ConcatSlot>> ConcatSlots(const Graph& graph, NodeId id, bool channels_last,
                                                   int element_bytes);

// The layout of a result of an application whose operands lie as `of` says: what costs are looked up by, and what
// lowering obeys. `channels_last`: of convolutions.
Layout ResultLayout(const Graph& graph, Value value, bool channels_last, const std::function<Layout(Value)>& of);

// The layout that a value has when its graph is lowered. Remembers its answers for one arena: nodes never change.
// Leaves and values that depend on weights alone are row-major. Not thread-safe.
class CudaLayouts {
 public:
  explicit CudaLayouts(bool channels_last) : channels_last_(channels_last) {}

  Layout Of(const Graph& graph, Value value);
  // Equal for groups whose inputs lie alike.
  uint64_t HashOf(const Graph& graph, const Group& group);
  // The signature of a group with its inputs as they lie (backends/common/group.h).
  std::string SignatureOf(const Graph& graph, const Group& group);

 private:
  Layout Known(const Graph& graph, Value value) const;
  void Prepare(const Graph& graph, Value value);

  const bool channels_last_;
  std::weak_ptr<Arena> arena_;
  absl::flat_hash_map<Value, std::unique_ptr<const Layout>> known_;  // null: row-major
};

}  // namespace rewright::cuda
