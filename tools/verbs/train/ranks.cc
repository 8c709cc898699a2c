#include "tools/verbs/train/ranks.h"

#include <chrono>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/ir/text.h"

namespace rewright {

absl::StatusOr<Answer> OnProcessRanks(const std::string& verb, Communicator& ranks, Console& console,
                                      const std::function<absl::StatusOr<Answer>()>& work) {
  if (ranks.size() == 1) return work();
  const absl::StatusOr<Answer> answer = Guarded(work);
  if (answer.ok() || absl::IsCancelled(answer.status())) return answer;
  // An error that all ranks find is printed once, by rank 0, which ends the others meanwhile.
  if (ranks.rank() != 0) std::this_thread::sleep_for(std::chrono::milliseconds(500));
  console.Error(absl::StrCat("rewright ", verb, ": rank ", ranks.rank(), ": ", std::string(answer.status().message())));
  ranks.Abort(answer.status());
  return answer;
}

absl::StatusOr<Graph> CutOnRanks(const Graph& graph, Communicator& ranks,
                                 const std::function<absl::StatusOr<Graph>()>& cut) {
  ASSIGN_OR_RETURN(const std::string text, FromRankZero(ranks, "the cut graph", [&]() -> absl::StatusOr<std::string> {
                     ASSIGN_OR_RETURN(const Graph made, cut());
                     return PrintGraph(made);
                   }));
  std::map<std::string, Tensor> states;
  for (Value state : graph.states()) states[graph.node(state.node).name] = *graph.arena()->Elements(state.node);
  return ParseGraph(text, states);
}

absl::StatusOr<std::vector<double>> MeasuredSeconds(const Graph& graph, Device& device) {
  std::vector<double> seconds(graph.nodes().size(), 0);
  for (const Group& group : device.Partition(graph)) {
    ASSIGN_OR_RETURN(const double cost, device.Cost(graph, group));
    for (NodeId id : group.nodes) seconds[graph.index(id)] += cost / static_cast<double>(group.nodes.size());
  }
  return seconds;
}

}  // namespace rewright
