#include "tools/groups.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/status_macros.h"

namespace rewright {
namespace {

GroupLine Describe(const Graph& graph, const Group& group) {
  GroupLine line;
  for (NodeId id : group.nodes) {
    const Node& node = graph.node(id);
    absl::StrAppend(&line.operators, line.operators.empty() ? "" : "+", node.op->name);
    std::vector<TensorType> inputs;
    for (Value operand : node.operands) inputs.push_back(graph.type(operand));
    line.flops += FeaturesOf(*node.meaning, inputs, node.attrs, node.outputs).flops;
  }
  for (Value input : group.inputs) line.bytes += static_cast<double>(graph.type(input).num_bytes());
  for (Value output : group.outputs) {
    line.bytes += static_cast<double>(graph.type(output).num_bytes());
    absl::StrAppend(&line.types, line.types.empty() ? "" : " ", graph.type(output).ToString());
  }
  return line;
}

}  // namespace

absl::StatusOr<std::vector<GroupLine>> GroupsOf(Device& device, const Graph& graph) {
  std::map<std::tuple<std::string, std::string, std::string>, GroupLine> lines;
  for (const Group& group : device.Partition(graph)) {
    absl::StatusOr<double> seconds = device.Cost(graph, group);
    if (!seconds.ok()) return seconds.status();
    if (*seconds <= 0) continue;
    GroupLine line = Describe(graph, group);
    ASSIGN_OR_RETURN(line.law, device.LawOf(graph, group));
    GroupLine& all = lines.try_emplace({line.operators, line.types, line.law}, line).first->second;
    // Groups that differ in their inputs alone stand in one line: the means of what they cost and do.
    const double before = all.count, after = ++all.count;
    all.seconds = (all.seconds * before + *seconds) / after;
    all.flops = (all.flops * before + line.flops) / after;
    all.bytes = (all.bytes * before + line.bytes) / after;
  }
  std::vector<GroupLine> sorted;
  for (auto& [key, line] : lines) sorted.push_back(std::move(line));
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const GroupLine& a, const GroupLine& b) { return a.seconds * a.count > b.seconds * b.count; });
  return sorted;
}

absl::StatusOr<std::map<std::string, int>> LawsOf(Device& device, const Graph& graph) {
  std::map<std::string, int> laws;
  for (const Group& group : device.Partition(graph)) {
    ASSIGN_OR_RETURN(const std::string law, device.LawOf(graph, group));
    if (!law.empty()) ++laws[law];
  }
  return laws;
}

std::string LawsText(const std::map<std::string, int>& laws) {
  return absl::StrJoin(laws, ", ", [](std::string* out, const auto& law) {
    absl::StrAppend(out, law.first, " (", law.second, law.second == 1 ? " time)" : " times)");
  });
}

}  // namespace rewright
