#include "substitutions/egraph/derive.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "substitutions/instance/random_application.h"
#include "substitutions/match/applier.h"

namespace rewright {
namespace {

// Instances that lie evenly among all within small limits: the first and the last are among them.
absl::StatusOr<std::vector<std::pair<StructuralAssignment, RuleInstance>>> Spread(const CompiledRule& goal,
                                                                                  int wanted) {
  std::vector<std::pair<StructuralAssignment, RuleInstance>> all;
  const absl::Status status = ForEachStructuralAssignment(
      goal, SmallLimits(goal), [&](const StructuralAssignment& structure, RuleInstance instance) {
        all.emplace_back(structure, std::move(instance));
        return absl::OkStatus();
      });
  if (!status.ok()) return status;
  const size_t count = all.size(), some = std::min(count, static_cast<size_t>(std::max(wanted, 1)));
  std::vector<std::pair<StructuralAssignment, RuleInstance>> spread;
  for (size_t k = 0; k < some; ++k) spread.push_back(std::move(all[some == 1 ? 0 : k * (count - 1) / (some - 1)]));
  return spread;
}

}  // namespace

absl::Status ForEachDrawnInstance(const CompiledRule& goal, const DeriveOptions& options,
                                  const std::function<bool(const RandomApplication&)>& visit) {
  const auto instances = Spread(goal, options.instances);
  if (!instances.ok()) return instances.status();
  std::mt19937_64 rng(options.seed);
  for (int i = 0; i < std::max(options.instances, static_cast<int>(instances->size())); ++i) {
    const auto& [structure, instance] = (*instances)[static_cast<size_t>(i) % instances->size()];
    const DrawOptions draw = {.tries = 4000, .distinct = true, .tensors = false};
    const auto application = DrawApplication(goal, structure, instance, draw, rng);
    if (application && !visit(*application)) break;  // nothing: no sizes were found at which it is legal
  }
  return absl::OkStatus();
}

SaturationResult MakeEqual(EGraph& egraph, const std::vector<std::pair<Value, Value>>& pairs,
                           const std::vector<DirectedRule>& rules, SaturationLimits limits) {
  std::vector<std::pair<Value, Value>> sides;
  for (const auto& [a, b] : pairs) {
    const Value first = egraph.Add(a);
    sides.emplace_back(first, egraph.Add(b));
  }
  limits.done = [&] {
    return std::all_of(sides.begin(), sides.end(), [&](const auto& s) { return egraph.Equal(s.first, s.second); });
  };
  SaturationResult result = Saturate(egraph, rules, limits);
  if (limits.done()) result.end = SaturationEnd::kDone;
  return result;
}

absl::StatusOr<Derivation> Derive(const CompiledRule& goal, const std::vector<DirectedRule>& rules,
                                  const DeriveOptions& options) {
  Derivation derivation;
  derivation.uses.resize(rules.size(), 0);
  derivation.derived = true;
  absl::Status built;
  const absl::Status visited = ForEachDrawnInstance(goal, options, [&](const RandomApplication& application) {
    EGraph egraph(application.graph.arena());
    const absl::StatusOr<ValueMap> right = BuildReplacement(*egraph.arena(), application.match);
    built = right.status();
    if (!built.ok()) return false;
    std::vector<std::pair<Value, Value>> sides;
    for (Value root : application.match.roots) {
      const auto it = right->find(root);
      if (it != right->end()) sides.emplace_back(root, it->second);
    }
    const SaturationResult result = MakeEqual(egraph, sides, rules, options.limits);
    for (size_t rule = 0; rule < rules.size(); ++rule) derivation.uses[rule] += result.uses[rule];
    derivation.end = result.end;
    if (result.end != SaturationEnd::kDone) {
      derivation.missing = application.description;
      derivation.derived = false;
      return false;
    }
    ++derivation.instances;
    return true;
  });
  if (!visited.ok()) return visited;
  if (!built.ok()) return built;
  if (derivation.derived && derivation.instances == 0) {
    return absl::InvalidArgumentError(absl::StrCat("rule ", goal.name(), ": found no sizes at which it applies"));
  }
  return derivation;
}

}  // namespace rewright
