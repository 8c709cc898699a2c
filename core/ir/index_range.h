// Indices that are data, such as those of gather: the elements that select positions, and the range of positions.
//
// The declarations of gather and scatter_add give every index a meaning (k mod n), so that laws about it need no side
// conditions. In a model, an index outside -n <= k < n is a fault, as in ONNX, which a run reports.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "core/ir/graph.h"

namespace rewright {

// Elements of operand `indices` tell at which positions along `axis` operand `indexed` is read (gather), or which of
// them a term belongs to (scatter_add).
struct IndexedAxis {
  int indices = 0;
  int indexed = 0;
  int axis = 0;
  bool wraps = false;  // at the element itself mod the size; else at an index computed from the element and clamped
  // The variable of the meaning that is the size of the axis if no operand has it (the gradient of gather knows the
  // shape of x by an attribute). `indexed` and `axis` are then meaningless.
  int size_variable = -1;

  int64_t Size(const Graph& graph, NodeId node) const;
};

std::vector<IndexedAxis> IndexedAxes(const Meaning& meaning);

// True if the condition is an equation whose sides use elements as indices.
bool IsDataEquation(const ExprNode& condition);
// Returns the outer variables that data equations in the guard of a reduction mention, elements left aside. A term of
// the reduction belongs to one position along these, or to few.
std::set<int> PositionsFromData(const ExprNode& reduction);

// The indices that an application accepts along an axis of size n: -n <= index < n.
class IndexRange {
 public:
  IndexRange(const Graph& graph, NodeId node, const IndexedAxis& at);

  int64_t size() const { return size_; }
  bool Contains(int64_t index) const { return index >= -size_ && index < size_; }
  // Returns an OutOfRangeError that names the application, the index, where it was found and what was expected.
  absl::Status Error(int64_t element, int64_t index) const;
  // Returns the error of the first element that is outside.
  absl::Status Check(const Tensor& indices) const;

 private:
  std::string application_;  // "gather (node 7)"
  std::string indices_;      // "input_ids i64[1,128]"
  std::string axis_;         // "axis 0 of f32[30522,768]"
  int64_t size_;
};

// The index range of an application that reads a graph input as indices. `input` is a position in Graph::inputs().
struct IndexInput {
  size_t input = 0;
  IndexRange range;
};
std::vector<IndexInput> IndexInputs(const Graph& graph);

}  // namespace rewright
