#include "substitutions/egraph/derive.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "substitutions/random_application.h"

namespace rewright {
namespace {

// Instances that lie evenly among all within small limits.
absl::StatusOr<std::vector<std::pair<Structure, RuleInstance>>> Spread(const CompiledRule& goal, int wanted) {
  int count = 0;
  const DomainLimits limits = SmallLimits(goal);
  absl::Status status = ForEachInstance(goal, limits, [&](RuleInstance) {
    ++count;
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  std::vector<std::pair<Structure, RuleInstance>> spread;
  int at = 0;
  status = ForEachStructure(goal, limits, [&](const Structure& structure, RuleInstance instance) {
    // The first and the last are among them.
    const int64_t next = static_cast<int64_t>(spread.size());
    const int64_t place = wanted <= 1 ? 0 : next * (count - 1) / std::max(1, std::min(wanted, count) - 1);
    if (at++ == place && next < wanted) spread.emplace_back(structure, std::move(instance));
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  return spread;
}

}  // namespace

absl::StatusOr<Derivation> Derive(const CompiledRule& goal, const std::vector<DirectedRule>& rules,
                                  const DeriveOptions& options) {
  auto instances = Spread(goal, options.instances);
  if (!instances.ok()) return instances.status();
  std::mt19937_64 rng(options.seed);
  Derivation derivation;
  derivation.uses.resize(rules.size(), 0);
  for (int i = 0; i < std::max(options.instances, static_cast<int>(instances->size())); ++i) {
    const auto& [structure, instance] = (*instances)[static_cast<size_t>(i) % instances->size()];
    const auto application = DrawApplication(goal, structure, instance, {.tries = 4000, .distinct = true}, rng);
    if (!application) continue;  // no sizes were found at which it is legal
    EGraph egraph(application->graph.arena());
    const absl::StatusOr<ValueMap> right = Instantiate(*egraph.arena(), application->match);
    if (!right.ok()) return right.status();
    std::vector<std::pair<Value, Value>> sides;
    for (Value root : application->match.roots) {
      const auto it = right->find(root);
      if (it != right->end()) sides.emplace_back(egraph.Add(root), egraph.Add(it->second));
    }
    const auto met = [&] {
      return std::all_of(sides.begin(), sides.end(), [&](const auto& s) { return egraph.Equal(s.first, s.second); });
    };
    SaturationLimits limits = options.limits;
    limits.done = met;
    const SaturationResult result = Saturate(egraph, rules, limits);
    for (size_t rule = 0; rule < rules.size(); ++rule) derivation.uses[rule] += result.uses[rule];
    derivation.end = result.end;
    if (!met()) {
      derivation.missing = application->description;
      return derivation;
    }
    ++derivation.instances;
  }
  if (derivation.instances == 0) {
    return absl::InvalidArgumentError(absl::StrCat("rule ", goal.name(), ": found no sizes at which it applies"));
  }
  derivation.derived = true;
  derivation.end = SaturationEnd::kDone;
  return derivation;
}

}  // namespace rewright
