// Groups by themselves: what devices need to name and to measure them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "core/device/device.h"
#include "core/ir/graph.h"

namespace rewright {

// The operands of nodes at sorted positions of the graph that other nodes give, in order of first use.
std::vector<Value> InputsOf(const Graph& graph, const std::vector<int>& members);
// The group of nodes at sorted positions; what those of `sinks` give escapes, or else what the last one gives.
Group MakeGroup(const Graph& graph, const std::vector<int>& members, std::vector<int> sinks = {});

// The most bytes that a group reads of each of its inputs, in their order. Of a table of which rows are taken, that is
// little.
std::vector<double> BytesRead(const Graph& graph, const Group& group);

// The label of a group for traces: "conv2d+add+relu".
std::string GroupLabel(const Graph& graph, const Group& group);

// A weight or constant with a single element, whose very value shapes the code; null for anything else.
const Tensor* SingleConstant(const Graph& graph, Value value);

// The group as a graph of its own: its inputs are inputs, or weights with typical elements where they depend on weights
// alone, or constants where they are single ones. Several copies share nothing but these constants.
struct GroupGraph {
  Graph graph;
  absl::flat_hash_map<Value, Value> origin;  // of its inputs: the value of the graph that the group is from
};
// Error: too little memory for such a weight.
absl::StatusOr<GroupGraph> ExtractGroup(const Graph& graph, const Group& group, int copies = 1);

// The label of a group and the type of the largest tensor that it reads or writes, for messages.
std::string GroupText(const Graph& graph, const Group& group);

// Elements with which no function is slower than on others: reals in [0.5, 1.5), integers in [0, integers).
void FillTypical(void* data, DType dtype, int64_t elements, int64_t integers = 64);
// The number of different integers that a value's elements may be: indices lie within their axes, since a run ends with
// an error at others.
int64_t TypicalIntegers(const Graph& graph, Value value);

// Groups with equal signatures cost the same: operators, attributes, types, wiring, which operands depend on weights
// alone, single constants, and for each other operand what `context` says (how it lies in memory).
std::string GroupSignature(const Graph& graph, const Group& group, const std::function<std::string(Value)>& context);

}  // namespace rewright
