#include "tools/verbs/compare/groups.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "backends/common/group.h"
#include "core/base/status_macros.h"
#include "core/index/cost_features.h"

namespace rewright {
namespace {

GroupLine Describe(const Graph& graph, const Group& group) {
  GroupLine line;
  for (NodeId id : group.nodes) {
    const Node& node = graph.node(id);
    absl::StrAppend(&line.operators, line.operators.empty() ? "" : "+", node.op->name);
    line.flops += FeaturesOf(*node.meaning, graph.types(node.operands), node.attrs, node.outputs).flops;
  }
  for (const double bytes : BytesRead(graph, group)) line.bytes += bytes;
  for (Value output : group.outputs) {
    line.bytes += static_cast<double>(graph.type(output).num_bytes());
    absl::StrAppend(&line.types, line.types.empty() ? "" : " ", graph.type(output).ToString());
  }
  return line;
}

}  // namespace

absl::StatusOr<std::vector<CostedGroup>> CostedGroupsOf(Device& device, const Graph& graph) {
  std::vector<CostedGroup> costed;
  for (Group& group : device.Partition(graph)) {
    ASSIGN_OR_RETURN(const double seconds, device.Cost(graph, group));
    GroupLine line = Describe(graph, group);
    line.count = 1;
    line.seconds = seconds;
    if (seconds > 0) {
      ASSIGN_OR_RETURN(line.law, device.LawOf(graph, group));
    }
    costed.push_back({std::move(group.nodes), std::move(line)});
  }
  return costed;
}

GroupLine WorkOf(const Graph& graph, NodeId application) {
  const Node& node = graph.node(application);
  Group group = {{application}, node.operands, {}};
  std::sort(group.inputs.begin(), group.inputs.end());
  group.inputs.erase(std::unique(group.inputs.begin(), group.inputs.end()), group.inputs.end());
  for (int32_t k = 0; k < static_cast<int32_t>(node.outputs.size()); ++k) group.outputs.push_back({application, k});
  return Describe(graph, group);
}

std::vector<GroupLine> Merged(const std::vector<CostedGroup>& groups) {
  std::map<std::tuple<std::string, std::string, std::string>, GroupLine> lines;
  for (const auto& [nodes, line] : groups) {
    if (line.seconds <= 0) continue;
    const auto [at, first] = lines.try_emplace({line.operators, line.types, line.law}, line);
    if (first) continue;
    // Groups that differ in their inputs alone stand in one line: the means of what they cost and do.
    GroupLine& all = at->second;
    const double before = all.count, after = ++all.count;
    all.seconds = (all.seconds * before + line.seconds) / after;
    all.flops = (all.flops * before + line.flops) / after;
    all.bytes = (all.bytes * before + line.bytes) / after;
  }
  std::vector<GroupLine> sorted;
  for (auto& [key, line] : lines) sorted.push_back(std::move(line));
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const GroupLine& a, const GroupLine& b) { return a.seconds * a.count > b.seconds * b.count; });
  return sorted;
}

absl::StatusOr<std::vector<GroupLine>> GroupsOf(Device& device, const Graph& graph) {
  ASSIGN_OR_RETURN(const std::vector<CostedGroup> groups, CostedGroupsOf(device, graph));
  return Merged(groups);
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
