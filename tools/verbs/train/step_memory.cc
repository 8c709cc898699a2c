#include "tools/verbs/train/step_memory.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/base/status_macros.h"
#include "core/ops/ops.h"
#include "runtime/host_memory.h"
#include "runtime/memory_plan.h"
#include "runtime/offload/offload.h"
#include "runtime/parallel/layers.h"
#include "runtime/parallel/segments.h"
#include "substitutions/rule_set.h"
#include "tools/verbs/train/ranks.h"

namespace rewright {
namespace {

constexpr size_t kNamed = 5;

std::string Megabytes(int64_t bytes) { return absl::StrFormat("%.1f MB", static_cast<double>(bytes) / 1e6); }

// Describes the first tensor of a buffer.
std::string TensorText(const Graph& graph, const Schedule& schedule, const Lifetime& life) {
  const Step& step = schedule.steps[life.first];
  std::string type;
  if (step.group >= 0) {
    for (Value output : schedule.groups[step.group].outputs) {
      if (graph.type(output).num_bytes() == life.bytes) type = graph.type(output).ToString() + " ";
    }
  }
  return absl::StrCat(Megabytes(life.bytes), " ", type, "of ", step.label);
}

// The memory of one of several subgraphs, from the bytes of its arena. A device's own memory is not shared with the
// tensors that subgraphs hand on.
SubgraphBytes AmongSubgraphs(int64_t arena, Device& device) {
  const bool is_shared = device.memory() == nullptr || device.memory()->is_host();
  return {is_shared ? arena : 0, is_shared ? 0 : arena};
}

// Checks that the laws hold by which all is replaced.
absl::Status CheckLaws() {
  ASSIGN_OR_RETURN(const std::string path, FindRuleFile("recomputation.rules"));
  ASSIGN_OR_RETURN(const RuleSet rules, RuleSet::FromFiles({path}));
  for (const char* law : {kRecomputationRule, kOffloadRule}) {
    if (rules.Find(law) == nullptr) return absl::InternalError(absl::StrCat(path, ": has no rule ", law));
  }
  return absl::OkStatus();
}

// The seconds of a run: those of its nodes, and those that copies to a second tier and back add.
double SecondsOf(const Graph& graph, const Schedule& schedule, const StepCosts& costs) {
  const double seconds = std::accumulate(costs.seconds.begin(), costs.seconds.end(), 0.0);
  if (!costs.second_tier) return seconds;
  std::vector<double> by_group, by_step(schedule.steps.size(), 0);
  for (const Group& group : schedule.groups) {
    by_group.push_back(0);
    for (NodeId id : group.nodes) by_group.back() += costs.seconds[graph.index(id)];
  }
  for (size_t s = schedule.steps.size(); s-- > 0;) {  // all of a group at its last step
    const int group = schedule.steps[s].group;
    if (group >= 0) by_step[s] = std::exchange(by_group[group], 0);
  }
  const CopySeconds copies = CopySecondsOf(schedule, by_step, costs.second_tier->seconds_per_byte);
  return seconds + copies.waited + costs.second_tier->lost * copies.copied;
}

absl::Status LimitError(const StepMemory& least, Device& device, int64_t limit) {
  const std::optional<SecondTier> tier = device.second_tier(/*measured=*/false);
  return absl::ResourceExhaustedError(absl::StrCat(
      "--memory-limit: found ", Megabytes(limit), "; the least that was reached is ", Megabytes(least.run.bytes),
      ": states of ", Megabytes(least.state_bytes), ", and activations and gradients, of which at the fullest point ",
      Megabytes(least.live_bytes), " are alive, above all ", absl::StrJoin(least.largest, ", "),
      tier ? absl::StrCat("; ", Megabytes(least.run.stored_bytes), " would be in the second tier, which has ",
                          Megabytes(tier->bytes))
           : ""));
}

}  // namespace

absl::StatusOr<StepMemory> MemoryOf(const Graph& graph, Device& device, const StepCosts* costs) {
  ASSIGN_OR_RETURN(const Schedule schedule, device.Compile(graph));
  ASSIGN_OR_RETURN(const MemoryPlan plan, PlanMemory(schedule));
  StepMemory memory;
  memory.run.groups = schedule.groups;
  memory.run.live.assign(schedule.groups.size(), 0);
  memory.run.stored_bytes = plan.stored_bytes;
  for (const Buffer& buffer : schedule.buffers) {
    if (buffer.kind == Buffer::Kind::kState && buffer.alias_of < 0) {
      memory.state_bytes += static_cast<int64_t>(buffer.bytes);
    }
  }
  memory.run.bytes = memory.state_bytes + plan.arena_bytes;
  memory.live_bytes = plan.peak_live_bytes;
  if (costs != nullptr) memory.run.seconds = SecondsOf(graph, schedule, *costs);
  std::vector<Lifetime> lifetimes;  // of those in the arena
  for (const Lifetime& life : plan.lifetimes) {
    if (life.bytes > 0) lifetimes.push_back(life);
  }
  if (lifetimes.empty()) return memory;
  const int fullest = FullestStep(lifetimes);
  const std::vector<int64_t> live = LiveBytes(lifetimes);
  int group = 0;  // glue counts with the group before it
  for (size_t step = 0; step < live.size() && step < schedule.steps.size(); ++step) {
    if (schedule.steps[step].group >= 0) group = schedule.steps[step].group;
    memory.run.live[group] = std::max(memory.run.live[group], live[step]);
  }
  std::stable_sort(lifetimes.begin(), lifetimes.end(),
                   [](const Lifetime& a, const Lifetime& b) { return a.bytes > b.bytes; });
  for (const Lifetime& life : lifetimes) {
    if (life.first > fullest || life.last < fullest) continue;
    if (memory.largest.size() < kNamed) memory.largest.push_back(TensorText(graph, schedule, life));
  }
  return memory;
}

absl::StatusOr<SubgraphBytes> BytesOfSubgraph(const Graph& graph, Device& device) {
  ASSIGN_OR_RETURN(const StepMemory memory, MemoryOf(graph, device));
  return AmongSubgraphs(memory.run.bytes - memory.state_bytes, device);
}

absl::StatusOr<SubgraphBytes> BytesOfSubgraph(const RankGraph& part, Device& device) {
  ASSIGN_OR_RETURN(const StepMemory memory, MemoryOfPart(part, part.graph, device));
  return AmongSubgraphs(memory.run.bytes - memory.state_bytes, device);
}

absl::StatusOr<StepMemory> MemoryOfPart(const RankGraph& part, const Graph& graph, Device& device) {
  RankGraph rank = part;
  rank.graph = graph;
  ASSIGN_OR_RETURN(const Segments segments, SegmentsOf(rank));
  const SegmentUses uses = UsesOf(rank, segments);
  const std::vector<TensorType>& types = segments.subgraphs.tensors;
  StepMemory memory;
  std::vector<Lifetime> lifetimes;  // of what segments hand on, then of their arenas
  for (size_t k = 0; k < types.size(); ++k) {
    if (uses.has_next[k]) memory.run.bytes += types[k].num_bytes();
    if (uses.uses[k].last >= 0) lifetimes.push_back({types[k].num_bytes(), uses.uses[k].first, uses.uses[k].last});
  }
  const size_t num_handed_on = lifetimes.size();
  for (size_t k = 0; k < rank.states.size(); ++k) memory.state_bytes += types[graph.inputs().size() + k].num_bytes();
  memory.run.bytes += memory.state_bytes;
  absl::flat_hash_set<NodeId> placed;  // what only moves elements may be in several segments
  for (int s = 0; s < static_cast<int>(segments.subgraphs.subgraphs.size()); ++s) {
    const Subgraphs::Subgraph& subgraph = segments.subgraphs.subgraphs[static_cast<size_t>(s)];
    if (subgraph.graph.outputs().empty()) continue;
    ASSIGN_OR_RETURN(StepMemory segment, MemoryOf(subgraph.graph, device));
    const SubgraphBytes bytes = AmongSubgraphs(segment.run.bytes - segment.state_bytes, device);
    memory.run.bytes += bytes.own;
    lifetimes.push_back({bytes.shared, 2 * s, 2 * s});
    int64_t handed_on = 0;
    for (size_t k = 0; k < num_handed_on; ++k) {
      handed_on += lifetimes[k].first <= 2 * s && 2 * s <= lifetimes[k].last ? lifetimes[k].bytes : 0;
    }
    if (handed_on + segment.live_bytes > memory.live_bytes) {
      memory.live_bytes = handed_on + segment.live_bytes;
      memory.largest = std::move(segment.largest);
    }
    for (int64_t live : segment.run.live) memory.run.live.push_back(handed_on + live);
    for (Group& group : segment.run.groups) {
      for (NodeId& id : group.nodes) id = subgraph.origins.at(id);
      std::erase_if(group.nodes, [&](NodeId id) { return !placed.insert(id).second; });
      for (auto* values : {&group.inputs, &group.outputs}) {
        for (Value& value : *values) value.node = subgraph.origins.at(value.node);
      }
      memory.run.groups.push_back(std::move(group));
    }
  }
  memory.run.bytes += PlaceLifetimes(lifetimes).arena_bytes;
  return memory;
}

namespace {

// Without a plan.
RematerializeOptions OptionsOf(Device& device, int64_t limit, bool measured) {
  RematerializeOptions options;
  options.seconds = [&device, measured](const Graph& candidate) -> absl::StatusOr<std::vector<double>> {
    if (measured) return MeasuredSeconds(candidate, device);
    std::vector<double> seconds = GuessedSeconds(candidate);
    for (size_t i = 0; i < seconds.size(); ++i) {
      if (candidate.node(candidate.nodes()[i]).op == ops::Fetch()) seconds[i] = 0;  // the schedule knows
    }
    return seconds;
  };
  if (limit > 0) options.limit = limit;
  return options;
}

}  // namespace

absl::StatusOr<Rematerialization> FitMemory(const Graph& graph, Device& device, int64_t limit, bool measured) {
  RETURN_IF_ERROR(CheckLaws());
  RematerializeOptions options = OptionsOf(device, limit, measured);
  if (limit > 0) options.second_tier = device.second_tier(measured);
  options.plan = [&](const Graph& candidate) -> absl::StatusOr<RunPlan> {
    StepCosts costs{{}, options.second_tier};
    ASSIGN_OR_RETURN(costs.seconds, options.seconds(candidate));
    ASSIGN_OR_RETURN(StepMemory memory, MemoryOf(candidate, device, &costs));
    return std::move(memory.run);
  };
  ASSIGN_OR_RETURN(Rematerialization found, Rematerialize(graph, options));
  const bool has_room = found.stored_bytes == 0 || found.stored_bytes <= options.second_tier->bytes;
  if (limit <= 0 || (found.bytes <= limit && has_room)) return found;
  return Unreachable(found, device, limit);
}

absl::Status Unreachable(const Rematerialization& least, Device& device, int64_t limit) {
  ASSIGN_OR_RETURN(StepMemory memory, MemoryOf(least.graph, device));
  memory.run.bytes = least.bytes;  // another one where the graph does not run as one
  return LimitError(memory, device, limit);
}

absl::StatusOr<Rematerialization> FitPlan(const Graph& graph, Device& device, int64_t limit, bool measured,
                                          const std::function<absl::StatusOr<LayeredPlan>(const Graph&)>& plan,
                                          bool pointwise_only) {
  RETURN_IF_ERROR(CheckLaws());
  RematerializeOptions options = OptionsOf(device, limit, measured);
  options.pointwise_only = pointwise_only;
  bool in_layers = true;  // candidates are found in the order in which layers run
  options.plan = [&](const Graph& candidate) -> absl::StatusOr<RunPlan> {
    StepCosts costs;
    ASSIGN_OR_RETURN(costs.seconds, options.seconds(candidate));
    ASSIGN_OR_RETURN(StepMemory memory, MemoryOf(candidate, device, &costs));
    ASSIGN_OR_RETURN(LayeredPlan made, plan(candidate));
    memory.run.bytes = made.bytes;
    in_layers = in_layers && !made.groups.empty();
    if (in_layers) {
      memory.run.groups = std::move(made.groups);
      memory.run.live = std::move(made.live);
    }
    return std::move(memory.run);
  };
  ASSIGN_OR_RETURN(Rematerialization found, Rematerialize(graph, options));
  if (!in_layers) return found;
  in_layers = false;  // what waits between two layers is not all that takes memory: each computes something, too
  ASSIGN_OR_RETURN(Rematerialization other, Rematerialize(graph, options));
  const auto fits = [&](const Rematerialization& one) { return limit > 0 && one.bytes <= limit; };
  const bool better = fits(found) && fits(other) ? other.seconds < found.seconds : other.bytes < found.bytes;
  return better ? std::move(other) : std::move(found);
}

absl::StatusOr<Rematerialization> FitMemory(const RankGraph& part, Device& device, int64_t limit) {
  RETURN_IF_ERROR(CheckLaws());
  RematerializeOptions options;
  options.plan = [&](const Graph& candidate) -> absl::StatusOr<RunPlan> {
    ASSIGN_OR_RETURN(StepMemory memory, MemoryOfPart(part, candidate, device));
    return std::move(memory.run);
  };
  options.seconds = [](const Graph& candidate) { return GuessedSeconds(candidate); };
  if (limit > 0) options.limit = limit;
  ASSIGN_OR_RETURN(Rematerialization found, Rematerialize(part.graph, options));
  if (limit <= 0 || found.bytes <= limit) return found;
  ASSIGN_OR_RETURN(const StepMemory least, MemoryOfPart(part, found.graph, device));
  return LimitError(least, device, limit);
}

std::vector<std::string> OffloadedTexts(const Rematerialization& found, const Graph& graph) {
  std::map<std::string, int> counts;
  std::vector<std::pair<int64_t, std::string>> all;  // less bytes, so that most come first
  for (Value value : found.offloaded) {
    const TensorType& type = graph.type(value);
    const std::string text =
        absl::StrCat(Megabytes(type.num_bytes()), " ", type.ToString(), " of ", graph.node(value.node).op->name);
    if (++counts[text] == 1) all.emplace_back(-type.num_bytes(), text);
  }
  std::sort(all.begin(), all.end());
  std::vector<std::string> texts;
  for (const auto& [bytes, text] : all) texts.push_back(absl::StrCat(counts[text], " x ", text));
  return texts;
}

}  // namespace rewright
