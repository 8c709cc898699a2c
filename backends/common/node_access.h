// Helpers by which devices read a node: its attributes, and the operator's Meaning, without knowing the operator by
// name.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "backends/common/layout.h"
#include "core/ir/graph.h"
#include "core/ir/pointwise.h"

namespace rewright {

// Attributes by name, as the types that the operator declares.
inline const std::vector<int64_t>& Ints(const Node& node, const char* name) {
  return std::get<std::vector<int64_t>>(node.attrs.at(name));
}
inline int64_t Int(const Node& node, const char* name) { return std::get<int64_t>(node.attrs.at(name)); }
inline double Real(const Node& node, const char* name) { return std::get<double>(node.attrs.at(name)); }

// The values of the node's symbols.
Bindings BindingsOf(const Graph& graph, const Node& node);

// An index that is linear in the output position: constant + sum_k coefficients[k] * position_k.
struct LinearIndex {
  int64_t constant = 0;
  std::vector<int64_t> coefficients;  // one per axis of the output
};

// The places that one output of a node copies its elements from: element [i..] is operand `input` at `indices`.
struct CopyAccess {
  int input = 0;
  std::vector<LinearIndex> indices;  // one per axis of the operand
};

// Non-empty when output `output` of the node only copies, along indices linear in the position: transpose, slice,
// split, expand, reverse, identity.
std::optional<CopyAccess> CopyAccessOf(const Graph& graph, const Node& node, int output);

// True where every output of the node is its operand elsewhere, in row-major order (reshape) or along linear indices:
// a view where the operand's layout allows.
bool OnlyMoves(const Graph& graph, const Node& node);

// True when each position of channel c (`channel_axis` of the accumulated shape) meets one element of the operand in
// broadcasting: element c, or 0 of a single one.
bool IsPerChannel(const TensorType& operand, const TensorType& accumulated, int channel_axis);

// A layout for a result that its only reader, a transpose which leaves the last axis in place, turns into row-major;
// row-major where there is no such reader. `turned`: or one that exchanges the last two axes.
Layout LayoutForReader(const Graph& graph, Value value, bool turned = false);

// The layout of a copying node's result as a view of its operand, and the offset of its first element, both in
// elements. False where strides would be negative or a blocked operand is cut within its blocks.
bool ViewOf(const Layout& from, const CopyAccess& access, const Shape& dims, Layout* to, int64_t* offset);

// Where the elements of a value lie that a node only moves (reshape, or CopyAccessOf).
struct MovedView {
  int input = 0;         // the operand that has them
  bool is_view = false;  // else they must be copied
  Layout layout;         // in the operand's memory; of a reshape only where it is a view
  int64_t offset = 0;
};

// None where the node does more than move. `of`: the layout of an operand.
std::optional<MovedView> MovedViewOf(const Graph& graph, Value value, const std::function<Layout(size_t)>& of);

}  // namespace rewright
