// The layouts of values on the CUDA device, told from their producers and readers alone.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "backends/context_layout.h"
#include "backends/layout.h"
#include "core/ir/graph.h"

namespace rewright::cuda {

// Concatenations that need no kernel: the library calls which compute the parts write them where they belong. A part's
// elements lie in the whole's memory, `offset` elements from the start.
struct ConcatSlot {
  Layout layout;
  int64_t offset = 0;
};

// How the result of a concatenation lies that has parts in place: images with channels innermost where convolutions
// have them so.
Layout ConcatLayout(const Shape& dims, bool channels_last);

// By operand of the concatenation `id`: its place in the whole, if it can be written there: it is the result of a
// product or convolution with at most a bias and relu behind it, nobody else reads it, and its place is aligned to 16
// bytes (`element_bytes` each). Told from the operand's producers and readers alone. Empty for other operators.
std::vector<std::optional<ConcatSlot>> ConcatSlots(const Graph& graph, NodeId id, bool channels_last,
                                                   int element_bytes);

// The layout of a result of an application whose operands lie as `of` says: what costs are looked up by, and what
// lowering obeys. `channels_last`: of convolutions.
Layout ResultLayout(const Graph& graph, Value value, bool channels_last, const std::function<Layout(Value)>& of);

class CudaLayouts : public ContextLayouts {
 public:
  explicit CudaLayouts(bool channels_last) : channels_last_(channels_last) {}

 private:
  Layout Compute(const Graph& graph, Value value) const override {
    return ResultLayout(graph, value, channels_last_, [&](Value operand) { return Known(graph, operand); });
  }

  const bool channels_last_;
};

}  // namespace rewright::cuda
