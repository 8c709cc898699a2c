#include "verifier/sharding_laws.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "core/base/status_macros.h"
#include "substitutions/rule_parser.h"

namespace rewright {
namespace {

using sharding::Conjecture;
using sharding::Factor;

struct Structure {
  OpSample sample;
  Application application;
};

// Applications to numbers of 32 bits first: laws say nothing about element types.
absl::StatusOr<std::vector<Structure>> Structures(const OpDef& op, int count) {
  constexpr uint64_t kSeeds = 200;
  std::vector<Structure> structures;
  std::set<StructuralKey> seen;
  MeaningCache cache;
  for (const bool plain : {true, false}) {
    for (uint64_t seed = 0; seed < kSeeds && static_cast<int>(structures.size()) < count; ++seed) {
      Rng rng(seed);
      OpSample sample = op.sample(rng);
      const auto is_plain = [](const TensorType& type) { return type.dtype != DType::kFloat64; };
      const auto is_float = [](const TensorType& type) { return type.dtype == DType::kFloat32; };
      const bool wanted = plain ? sample.inputs.empty() || is_float(sample.inputs[0]) : true;
      if (!wanted || !std::all_of(sample.inputs.begin(), sample.inputs.end(), is_plain)) continue;
      ASSIGN_OR_RETURN(Application application, Apply(op, sample.inputs, sample.attrs, cache));
      StructuralKey key = StructuralKeyOf(op, sample.inputs, application.attrs);
      key.dtypes.clear();
      std::erase_if(key.attrs, [](const auto& attr) { return std::holds_alternative<DType>(attr.second); });
      if (seen.insert(std::move(key)).second) structures.push_back({std::move(sample), std::move(application)});
    }
  }
  return structures;
}

std::string Describe(const OpDef& op, const Structure& structure) {
  std::vector<int> ranks;
  for (const TensorType& input : structure.sample.inputs) ranks.push_back(input.rank());
  std::string text = ranks.empty() ? "" : absl::StrCat("ranks ", absl::StrJoin(ranks, " "));
  for (const auto& [name, attr] : StructuralKeyOf(op, structure.sample.inputs, structure.application.attrs).attrs) {
    if (std::holds_alternative<DType>(attr)) continue;
    absl::StrAppend(&text, text.empty() ? "" : "; ", name, "=", AttrString(attr));
  }
  return text;
}

}  // namespace

absl::StatusOr<std::vector<FactorLaws>> ShardingLaws(const OpDef& op, int structures, double time_limit_s) {
  std::vector<FactorLaws> all;
  ASSIGN_OR_RETURN(const std::vector<Structure> applications, Structures(op, structures));
  RuleProofOptions options;
  options.time_limit_s = options.instance_limit_s = time_limit_s;
  for (size_t number = 0; number < applications.size(); ++number) {
    const Structure& structure = applications[number];
    ASSIGN_OR_RETURN(std::vector<Factor> factors,
                     sharding::FactorsOf(op, structure.sample.inputs, structure.application.attrs));
    for (Factor& factor : factors) {
      FactorLaws laws{.structure = Describe(op, structure), .factor = std::move(factor)};
      const std::string name = absl::StrReplaceAll(
          absl::StrCat(op.name, "-", number, "-", absl::StrJoin(laws.factor.axes, "-")), {{".", ""}, {"_", "-"}});
      for (size_t k = 0; k < laws.factor.conjectures.size() && !laws.law; ++k) {
        const Conjecture& conjecture = laws.factor.conjectures[k];
        ASSIGN_OR_RETURN(const std::vector<Rule> rules,
                         ParseRules(absl::StrCat("rule ", name, "\n  ", conjecture.rule, "\n"), op.name));
        ShardingLaw law{rules[0], ProveRule(rules[0], options)};
        if (law.verdict.verdict == Verdict::kProved) {
          laws.proved = static_cast<int>(k);
          laws.law = std::move(law);
        } else {
          laws.failed.push_back(std::move(law));
        }
      }
      all.push_back(std::move(laws));
    }
  }
  return all;
}

}  // namespace rewright
