#include "tools/step_memory.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/base/status_macros.h"
#include "runtime/host_memory.h"
#include "runtime/memory_plan.h"
#include "runtime/parallel/layers.h"
#include "runtime/parallel/stages.h"
#include "substitutions/rule_set.h"
#include "tools/ranks.h"

namespace rewright {
namespace {

constexpr size_t kNamed = 5;

std::string Megabytes(int64_t bytes) { return absl::StrFormat("%.1f MB", static_cast<double>(bytes) / 1e6); }

// What lies in the buffer first.
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

// That the law holds by which all is replaced.
absl::Status CheckLaw() {
  ASSIGN_OR_RETURN(const std::string path, FindRuleFile("recomputation.rules"));
  ASSIGN_OR_RETURN(const RuleSet rules, RuleSet::FromFiles({path}));
  if (rules.Find(kRecomputationRule) != nullptr) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(path, ": has no rule ", kRecomputationRule));
}

absl::Status Unreachable(const StepMemory& least, int64_t limit) {
  return absl::ResourceExhaustedError(absl::StrCat(
      "--memory-limit: found ", Megabytes(limit), "; the least that was reached is ", Megabytes(least.run.bytes),
      ": states of ", Megabytes(least.state_bytes), ", and activations and gradients, of which at the fullest point ",
      Megabytes(least.live_bytes), " are alive, above all ", absl::StrJoin(least.largest, ", ")));
}

}  // namespace

absl::StatusOr<StepMemory> MemoryOf(const Graph& graph, Device& device) {
  ASSIGN_OR_RETURN(const Schedule schedule, device.Compile(graph));
  ASSIGN_OR_RETURN(const MemoryPlan plan, PlanMemory(schedule));
  StepMemory memory;
  memory.run.groups = schedule.groups;
  for (const Buffer& buffer : schedule.buffers) {
    if (buffer.kind == Buffer::Kind::kState && buffer.alias_of < 0) {
      memory.state_bytes += static_cast<int64_t>(buffer.bytes);
    }
  }
  memory.run.bytes = memory.state_bytes + plan.arena_bytes;
  memory.live_bytes = plan.peak_live_bytes;
  std::vector<Lifetime> lifetimes;  // of those in the arena
  for (const Lifetime& life : plan.lifetimes) {
    if (life.bytes > 0) lifetimes.push_back(life);
  }
  if (lifetimes.empty()) return memory;
  const int fullest = FullestStep(lifetimes);
  for (int step = 0; step <= fullest; ++step) {
    if (schedule.steps[step].group >= 0) memory.run.fullest = schedule.steps[step].group;
  }
  std::stable_sort(lifetimes.begin(), lifetimes.end(),
                   [](const Lifetime& a, const Lifetime& b) { return a.bytes > b.bytes; });
  for (const Lifetime& life : lifetimes) {
    if (life.first > fullest || life.last < fullest) continue;
    if (memory.largest.size() < kNamed) memory.largest.push_back(TensorText(graph, schedule, life));
  }
  return memory;
}

absl::StatusOr<StepMemory> MemoryOfPart(const RankGraph& part, const Graph& graph, Device& device) {
  RankGraph rank = part;
  rank.graph = graph;
  ASSIGN_OR_RETURN(const Stages stages, StagesOf(rank));
  const StageUses uses = UsesOf(rank, stages);
  const std::vector<TensorType>& types = stages.pieces.tensors;
  StepMemory memory;
  std::vector<Lifetime> lifetimes;  // of what stages hand on
  for (size_t k = 0; k < types.size(); ++k) {
    if (uses.has_next[k]) memory.run.bytes += types[k].num_bytes();
    if (uses.uses[k].last >= 0) lifetimes.push_back({types[k].num_bytes(), uses.uses[k].first, uses.uses[k].last});
  }
  memory.run.bytes += PlaceLifetimes(lifetimes).arena_bytes;
  for (size_t k = 0; k < rank.states.size(); ++k) memory.state_bytes += types[graph.inputs().size() + k].num_bytes();
  memory.run.bytes += memory.state_bytes;
  absl::flat_hash_set<NodeId> placed;  // what only moves elements may be in several stages
  for (int s = 0; s < static_cast<int>(stages.pieces.pieces.size()); ++s) {
    const Pieces::Piece& piece = stages.pieces.pieces[static_cast<size_t>(s)];
    if (piece.outputs.empty()) continue;
    ASSIGN_OR_RETURN(StepMemory stage, MemoryOf(piece.graph, device));
    memory.run.bytes += stage.run.bytes - stage.state_bytes;
    int64_t live = stage.live_bytes;
    for (const Lifetime& life : lifetimes) live += life.first <= 2 * s && 2 * s <= life.last ? life.bytes : 0;
    if (live > memory.live_bytes) {
      memory.live_bytes = live;
      memory.largest = std::move(stage.largest);
      memory.run.fullest = static_cast<int>(memory.run.groups.size()) + stage.run.fullest;
    }
    for (Group& group : stage.run.groups) {
      for (NodeId& id : group.nodes) id = piece.origins.at(id);
      std::erase_if(group.nodes, [&](NodeId id) { return !placed.insert(id).second; });
      for (auto* values : {&group.inputs, &group.outputs}) {
        for (Value& value : *values) value.node = piece.origins.at(value.node);
      }
      memory.run.groups.push_back(std::move(group));
    }
  }
  return memory;
}

absl::StatusOr<Recomputation> WithinMemory(const Graph& graph, Device& device, int64_t limit, bool measured,
                                           const std::function<absl::StatusOr<int64_t>(const Graph&)>& arena_bytes) {
  RETURN_IF_ERROR(CheckLaw());
  RecomputeOptions options;
  options.plan = [&](const Graph& candidate) -> absl::StatusOr<RunPlan> {
    ASSIGN_OR_RETURN(StepMemory memory, MemoryOf(candidate, device));
    if (arena_bytes != nullptr) {
      ASSIGN_OR_RETURN(const int64_t bytes, arena_bytes(candidate));
      memory.run.bytes = memory.state_bytes + bytes;
    }
    return std::move(memory.run);
  };
  options.seconds = [&](const Graph& candidate) -> absl::StatusOr<std::vector<double>> {
    if (measured) return MeasuredSeconds(candidate, device);
    return GuessedSeconds(candidate);
  };
  if (limit > 0) options.limit = limit;
  ASSIGN_OR_RETURN(Recomputation found, Recompute(graph, options));
  if (limit <= 0 || found.bytes <= limit) return found;
  ASSIGN_OR_RETURN(const StepMemory least, MemoryOf(found.graph, device));
  return Unreachable(least, limit);
}

absl::StatusOr<Recomputation> WithinMemory(const RankGraph& part, Device& device, int64_t limit) {
  RETURN_IF_ERROR(CheckLaw());
  RecomputeOptions options;
  options.plan = [&](const Graph& candidate) -> absl::StatusOr<RunPlan> {
    ASSIGN_OR_RETURN(StepMemory memory, MemoryOfPart(part, candidate, device));
    return std::move(memory.run);
  };
  options.seconds = [](const Graph& candidate) { return GuessedSeconds(candidate); };
  if (limit > 0) options.limit = limit;
  ASSIGN_OR_RETURN(Recomputation found, Recompute(part.graph, options));
  if (limit <= 0 || found.bytes <= limit) return found;
  ASSIGN_OR_RETURN(const StepMemory least, MemoryOfPart(part, found.graph, device));
  return Unreachable(least, limit);
}

}  // namespace rewright
