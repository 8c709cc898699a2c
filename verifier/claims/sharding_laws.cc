#include "verifier/claims/sharding_laws.h"

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "core/base/status_macros.h"
#include "substitutions/language/rule_parser.h"

namespace rewright {
namespace {

using sharding::Conjecture;
using sharding::Factor;

struct SampledApplication {
  OpSample sample;
  Application application;
};

// Applications to numbers of 32 bits first: laws say nothing about element types.
absl::StatusOr<std::vector<SampledApplication>> Structures(const OpDef& op, int count) {
  constexpr uint64_t kSeeds = 200;
  std::vector<SampledApplication> structures;
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

std::string Describe(const OpDef& op, const SampledApplication& structure) {
  std::vector<int> ranks;
  for (const TensorType& input : structure.sample.inputs) ranks.push_back(input.rank());
  std::string text = ranks.empty() ? "" : absl::StrCat("ranks ", absl::StrJoin(ranks, " "));
  for (const auto& [name, attr] : StructuralKeyOf(op, structure.sample.inputs, structure.application.attrs).attrs) {
    if (std::holds_alternative<DType>(attr)) continue;
    absl::StrAppend(&text, text.empty() ? "" : "; ", name, "=", AttrString(attr));
  }
  return text;
}

absl::StatusOr<ShardingLaw> Judge(const Conjecture& conjecture, const std::string& name, double work_limit_s,
                                  bool certify = false) {
  RuleProofOptions options;
  options.work_limit_s = options.instance_limit_s = work_limit_s;
  options.certify = certify;
  ASSIGN_OR_RETURN(const std::vector<Rule> rules,
                   ParseRules(absl::StrCat("rule ", name, "\n  ", conjecture.rule, "\n"), name));
  return ShardingLaw{rules[0], ProveRule(rules[0], options)};
}

// A largest or smallest element of all is the same number in any order of comparisons.
bool OnlyOrdersZeros(const Conjecture& conjecture, const RuleVerdict& verdict) {
  return conjecture.effect == sharding::Effect::kPartial && verdict.rule_class == RuleClass::kReassociating &&
         (conjecture.detail.starts_with("max") || conjecture.detail.starts_with("min"));
}

}  // namespace

absl::StatusOr<std::vector<FactorLaws>> ShardingLaws(const OpDef& op, int structures, double work_limit_s,
                                                     bool certify) {
  std::vector<FactorLaws> all;
  ASSIGN_OR_RETURN(const std::vector<SampledApplication> applications, Structures(op, structures));
  for (size_t number = 0; number < applications.size(); ++number) {
    const SampledApplication& structure = applications[number];
    ASSIGN_OR_RETURN(std::vector<Factor> factors,
                     sharding::FactorsOf(op, structure.sample.inputs, structure.application.attrs));
    for (Factor& factor : factors) {
      FactorLaws laws{.structure = Describe(op, structure), .factor = std::move(factor)};
      const std::string name = absl::StrReplaceAll(
          absl::StrCat(op.name, "-", number, "-", absl::StrJoin(laws.factor.axes, "-")), {{".", ""}, {"_", "-"}});
      for (size_t k = 0; k < laws.factor.conjectures.size(); ++k) {
        const Conjecture& conjecture = laws.factor.conjectures[k];
        if (conjecture.special && !laws.laws.empty()) continue;
        const std::string suffix = laws.laws.empty() ? "" : "-by-position";
        ASSIGN_OR_RETURN(ShardingLaw law, Judge(conjecture, name + suffix, work_limit_s, certify));
        law.conjecture = static_cast<int>(k);
        const bool proved = law.verdict.verdict == Verdict::kProved;
        (proved ? laws.laws : laws.failed).push_back(std::move(law));
        if (proved && !conjecture.special) break;
      }
      all.push_back(std::move(laws));
    }
  }
  return all;
}

absl::StatusOr<const sharding::ProvedLaw*> ProvedLaws::Proved(const OpDef& op, const Conjecture& conjecture) {
  const auto [found, is_new] = laws_.try_emplace(conjecture.rule);
  if (is_new) {
    const std::string name =
        absl::StrReplaceAll(absl::StrCat(op.name, "-", sharding::EffectName(conjecture.effect)), {{"_", "-"}});
    ASSIGN_OR_RETURN(const ShardingLaw law, Judge(conjecture, name, time_limit_s_));
    auto compiled = CompileRule(law.rule);
    if (law.verdict.verdict == Verdict::kProved && compiled.ok()) {
      found->second =
          sharding::ProvedLaw{.effect = conjecture.effect,
                              .operands = conjecture.operands,
                              .exact = law.verdict.rule_class == RuleClass::kExact,
                              .same_numbers = OnlyOrdersZeros(conjecture, law.verdict),
                              .matcher = std::make_shared<const Matcher>(*std::move(compiled), law.verdict.limits)};
      ++num_proved_;
    }
  }
  return found->second ? &*found->second : nullptr;
}

std::vector<std::string> ProvedLaws::Texts() const {
  std::vector<std::string> texts;
  for (const auto& [text, law] : laws_) {
    if (law) texts.push_back(absl::StrReplaceAll(text, {{"\n", " "}}));
  }
  return texts;
}

absl::StatusOr<const sharding::ProvedLaw*> ProvedLaws::LawOf(const OpDef& op, JudgedFactor& factor, size_t conjecture) {
  for (size_t k = factor.laws.size(); k <= conjecture; ++k) {
    const Conjecture& next = factor.conjectures[k];
    factor.laws.push_back(nullptr);
    if (factor.has_general || (factor.has_some && next.special)) continue;
    const auto law = Proved(op, next);
    if (!law.ok()) {
      factor.laws.pop_back();
      return law.status();
    }
    factor.laws.back() = *law;
    factor.has_some |= *law != nullptr;
    factor.has_general |= *law != nullptr && !next.special;
  }
  return factor.laws[conjecture];
}

absl::StatusOr<std::vector<sharding::ConjecturedLaw>> ProvedLaws::operator()(const OpDef& op,
                                                                             const std::vector<TensorType>& inputs,
                                                                             const Attrs& attrs) {
  std::string application = op.name;
  for (const TensorType& input : inputs) absl::StrAppend(&application, " ", input.ToString());
  for (const auto& [name, attr] : attrs) absl::StrAppend(&application, " ", name, "=", AttrString(attr));
  const auto known = of_applications_.find(application);
  if (known != of_applications_.end()) return known->second;
  std::vector<sharding::ConjecturedLaw> laws;
  ASSIGN_OR_RETURN(std::vector<Factor> factors, sharding::FactorsOf(op, inputs, attrs));
  for (Factor& factor : factors) {
    const auto judged = std::make_shared<JudgedFactor>(JudgedFactor{std::move(factor.conjectures)});
    for (size_t k = 0; k < judged->conjectures.size(); ++k) {
      const Conjecture& conjecture = judged->conjectures[k];
      laws.push_back(
          {conjecture.effect, conjecture.operands, [this, &op, judged, k] { return LawOf(op, *judged, k); }});
    }
  }
  return of_applications_[application] = std::move(laws);
}

}  // namespace rewright
