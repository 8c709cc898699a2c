#include "search/replay/replacement_text.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "core/base/check.h"
#include "core/ir/text.h"

namespace rewright {
namespace {

std::string NameOf(const Graph& graph, Value value) {
  return absl::StrCat("n", graph.index(value.node), ".", value.output);
}

std::optional<Value> ValueNamed(const Graph& graph, absl::string_view name) {
  const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(name, absl::MaxSplits('.', 1));
  absl::string_view position = parts.first;
  int node = -1, output = -1;
  if (!absl::ConsumePrefix(&position, "n") || !absl::SimpleAtoi(position, &node) ||
      !absl::SimpleAtoi(parts.second, &output) || node < 0 || output < 0 ||
      static_cast<size_t>(node) >= graph.nodes().size()) {
    return std::nullopt;
  }
  const Value value{graph.nodes()[node], output};
  // One way to write it: `n01.0` is no name.
  if (static_cast<size_t>(output) >= graph.node(value.node).outputs.size() || NameOf(graph, value) != name) {
    return std::nullopt;
  }
  return value;
}

absl::StatusOr<Value> ValueOf(const Graph& graph, const std::string& name, const TensorType& type) {
  const std::optional<Value> value = ValueNamed(graph, name);
  if (!value) return absl::InvalidArgumentError(absl::StrCat("found ", name, ", expected a value of the graph before"));
  if (graph.type(*value) != type) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, " is ", type.ToString(), ", expected ", graph.type(*value).ToString()));
  }
  return *value;
}

}  // namespace

std::string PrintReplacement(const Graph& graph, const ValueMap& replacement) {
  const auto arena = std::make_shared<Arena>();
  std::vector<Value> inputs;
  ValueMap copies;
  const auto copy_input = [&](Value value) {
    const auto input = arena->AddInput(NameOf(graph, value), graph.type(value));
    CHECK(input.ok()) << input.status().ToString();
    inputs.push_back(*input);
    copies[value] = *input;
  };
  const auto copy_node = [&](NodeId id) {
    const Node& node = graph.node(id);
    CHECK(node.op != nullptr || node.leaf == LeafKind::kConstant) << "a leaf that the graph does not have";
    const absl::Status copied = CopyNode(*graph.arena(), id, *arena, &copies);
    CHECK(copied.ok()) << copied.ToString();
  };
  std::vector<std::pair<Value, Value>> pairs(replacement.begin(), replacement.end());
  std::sort(pairs.begin(), pairs.end());
  std::vector<Output> outputs;
  for (const auto& [from, to] : pairs) {
    if (!graph.contains(from.node)) continue;  // nothing reads it
    std::vector<Value> stack = {to};
    while (!stack.empty()) {
      const Value value = stack.back();
      const size_t before = stack.size();
      if (!copies.contains(value) && graph.contains(value.node)) {
        copy_input(value);
      } else if (!copies.contains(value)) {
        for (Value operand : graph.node(value.node).operands) {
          if (!copies.contains(operand)) stack.push_back(operand);
        }
        if (stack.size() > before) continue;
        copy_node(value.node);
      }
      stack.pop_back();
    }
    outputs.push_back({copies.at(to), NameOf(graph, from)});
  }
  return PrintGraph(Graph(arena, std::move(inputs), std::move(outputs)));
}

absl::StatusOr<ValueMap> ParseReplacement(const Graph& graph, const std::string& text) {
  const absl::StatusOr<Graph> parsed = ParseGraph(text);
  if (!parsed.ok()) return parsed.status();
  ValueMap built;
  for (NodeId id : parsed->nodes()) {
    const Node& node = parsed->node(id);
    if (node.leaf == LeafKind::kState) {
      return absl::InvalidArgumentError(absl::StrCat("found state ", node.name, ", expected inputs alone"));
    }
    if (node.leaf == LeafKind::kInput) {
      const absl::StatusOr<Value> value = ValueOf(graph, node.name, node.outputs[0]);
      if (!value.ok()) return value.status();
      built[{id, 0}] = *value;
      continue;
    }
    if (absl::Status status = CopyNode(*parsed->arena(), id, *graph.arena(), &built); !status.ok()) return status;
  }
  ValueMap replacement;
  for (const Output& output : parsed->outputs()) {
    const absl::StatusOr<Value> from = ValueOf(graph, output.name, parsed->type(output.value));
    if (!from.ok()) return from.status();
    if (!replacement.emplace(*from, built.at(output.value)).second) {
      return absl::InvalidArgumentError(absl::StrCat(output.name, " is replaced twice"));
    }
  }
  return replacement;
}

}  // namespace rewright
