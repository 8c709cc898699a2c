#include "verifier/equal/equal_result.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "substitutions/language/rule_printer.h"
#include "verifier/equal/region.h"

namespace rewright {

void AddProved(RegionOutcome outcome, EqualResult* result) {
  if (outcome.by_rules) ++result->regions_by_rules;
  for (const std::string& rule : outcome.rules) {
    if (std::find(result->rules.begin(), result->rules.end(), rule) == result->rules.end()) {
      result->rules.push_back(rule);
    }
  }
  for (RegionProof& proof : outcome.proof) result->regions.push_back(std::move(proof));
  for (Folding& folding : outcome.foldings) result->foldings.push_back(std::move(folding));
  for (Folding& constant : outcome.constants) result->constants.push_back(std::move(constant));
}

void AddOpen(const Arena& arena, const std::vector<std::pair<Value, Value>>& pairs,
             const absl::flat_hash_set<Value>& cut, const std::string& name_a, const std::string& name_b,
             EqualResult* result) {
  const Region region = MakeRegion(arena, pairs, CommonCut(arena, pairs, cut));
  OpenRegion open{name_a, name_b, "", region.applications};
  const absl::StatusOr<Rule> rule = RegionRule(region, absl::StrCat("open-", result->open.size() + 1));
  open.text = rule.ok() ? PrintLaw(*rule) : std::string(rule.status().message());
  result->open.push_back(std::move(open));
}

void KeepSmallest(EqualResult* result) {
  constexpr size_t kShown = 3;
  std::stable_sort(result->open.begin(), result->open.end(),
                   [](const OpenRegion& a, const OpenRegion& b) { return a.applications < b.applications; });
  if (result->open.size() > kShown) result->open.resize(kShown);
}

}  // namespace rewright
