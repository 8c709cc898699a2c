#include "verifier/classify/classify_rule.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "core/base/status_macros.h"
#include "core/ops/ops.h"
#include "substitutions/instance/instances.h"
#include "substitutions/language/operator_variables.h"
#include "verifier/classify/prove_rounding.h"
#include "verifier/classify/rule_classifier.h"
#include "verifier/prove/merged_axes.h"
#include "verifier/smt/solver.h"

namespace rewright {
namespace {

// Seeds of ClassifyRule. Several, since the cases that decide a class may be rare.
constexpr uint64_t kSeeds[] = {1, 2, 3};
// Instances that all seeds together measure: enough to meet every kind of instance; a rule may have thousands. If there
// are few instances, each is measured with every seed; otherwise each is measured with one.
constexpr int kMeasuredInstances = 24;
// A rule with few instances gets more size assignments for each: some classes show only at certain sizes (for example,
// a kernel larger than 1).
constexpr size_t kMostAssignments = 6;
constexpr size_t kAssignmentsOfAll = 18;

int RankOf(RuleClass rule_class) {
  switch (rule_class) {
    case RuleClass::kExact: return 0;
    case RuleClass::kReassociating: return 1;
    case RuleClass::kFiniteOnly: return 2;
    case RuleClass::kNumericallyRisky: return 3;
  }
  return 3;
}

RuleClass Worse(RuleClass a, RuleClass b) { return RankOf(a) < RankOf(b) ? b : a; }

struct Classified {
  RuleClass rule_class = RuleClass::kExact;
  bool measured = false;
};

absl::Status Continue(StopFlag stop) {
  return IsStopped(stop) ? absl::CancelledError("interrupted") : absl::OkStatus();
}

// The instances that differ by more than numbers of axes that could be merged.
class DistinctInstances {
 public:
  // `proof`: of the instances; null: nothing is known of them.
  explicit DistinctInstances(const ProofRemains* proof = nullptr) : proof_(proof) {}

  void Add(const RuleInstance& instance) {
    const bool known = proof_ != nullptr && proof_->merged_axes_key;
    std::string key = known ? proof_->merged_axes_key(instance) : verifier::MergedAxesKey(instance);
    if (keys_.insert(std::move(key)).second) instances_.push_back(instance);
  }
  const std::vector<RuleInstance>& instances() const { return instances_; }

 private:
  const ProofRemains* const proof_;
  std::set<std::string> keys_;
  std::vector<RuleInstance> instances_;
};

// `distinct`: receives the instances; null: none are kept.
absl::StatusOr<Classified> Measure(const CompiledRule& rule, const DomainLimits& domain, int instances,
                                   bool used_finite_only_step, std::optional<DType> half, bool ranged,
                                   MeaningCache& meanings, DistinctInstances* distinct = nullptr,
                                   StopFlag stop = nullptr) {
  const auto measured = static_cast<size_t>(std::clamp(instances, 1, kMeasuredInstances));
  std::vector<RuleClassifier> classifiers;
  for (uint64_t seed : kSeeds) {
    classifiers.emplace_back(seed, std::clamp(kAssignmentsOfAll / measured, kLeastAssignments, kMostAssignments), half,
                             ranged);
    if (used_finite_only_step) classifiers.back().UsedFiniteOnlyStep();
  }
  int number = 0;
  bool worst_found = false;
  const absl::Status status = ForEachInstance(rule, domain, meanings, [&](const RuleInstance& instance) {
    if (distinct != nullptr) distinct->Add(instance);
    // Evenly spread, the first among them, and over the seeds.
    const int64_t begin = (int64_t{number} * kMeasuredInstances + instances - 1) / instances;
    const int64_t end = ((int64_t{number} + 1) * kMeasuredInstances + instances - 1) / instances;
    ++number;
    const auto seeds = static_cast<int64_t>(classifiers.size());
    const Inspection inspection = Inspect(instance);
    for (RuleClassifier& classifier : classifiers) classifier.Note(inspection);
    for (int64_t k = begin; k < std::min(end, begin + seeds) && !worst_found; ++k) {
      RuleClassifier& classifier = classifiers[static_cast<size_t>(k % seeds)];
      classifier.Measure(instance);
      worst_found = classifier.IsWorst();
    }
    return Continue(stop);
  });
  if (!status.ok()) return status;
  Classified result;
  for (const RuleClassifier& classifier : classifiers) {
    result.rule_class = Worse(result.rule_class, classifier.Class());
    result.measured |= classifier.samples() > 0;
  }
  return result;
}

// The worst of the laws of all instances; that of operations is tried where `same_bits`. Once one side is known to lose
// more than any class but the worst allows, the other instances are left out.
absl::StatusOr<RuleRounding> RoundingOf(const DistinctInstances& distinct, bool same_bits, StopFlag stop,
                                        verifier::QueryCache* query_cache) {
  verifier::QueryCache own;
  ProofOptions options;
  options.query_cache = query_cache != nullptr ? query_cache : &own;
  RuleRounding worst{.same_operations = same_bits};
  for (const RuleInstance& instance : distinct.instances()) {
    if (std::max(worst.growth, worst.loss) > kRiskFactor) break;
    const RoundingOfInstance found = ProveRounding(instance, worst.same_operations, options);
    worst.same_operations = worst.same_operations && found.same_operations;
    worst.growth = std::max(worst.growth, found.growth);
    worst.loss = std::max(worst.loss, found.loss);
    RETURN_IF_ERROR(Continue(stop));
  }
  return worst;
}

// The same for elements of 16 bits: tells if the operations are the same, and gives the new values. `same_operations`
// tells it for wider elements.
absl::StatusOr<bool> RoundingOnHalvesOf(const CompiledRule& rule, const DomainLimits& domain, bool same_operations,
                                        MeaningCache& meanings, std::set<int>* new_values) {
  DistinctInstances distinct;
  RETURN_IF_ERROR(ForEachInstance(rule, domain, meanings, [&](const RuleInstance& instance) {
    distinct.Add(instance);
    return absl::OkStatus();
  }));
  verifier::QueryCache query_cache;
  ProofOptions options;
  options.query_cache = &query_cache;
  for (const RuleInstance& instance : distinct.instances()) {
    const RoundingOnHalves found = ProveRoundingOnHalves(instance, same_operations, options);
    same_operations = same_operations && found.same_operations;
    // An instance with other numbers of siblings has other nodes: then all may be new.
    if (instance.nodes.size() == rule.nodes().size()) {
      new_values->insert(found.new_values.begin(), found.new_values.end());
    } else if (!found.new_values.empty()) {
      for (int node = rule.num_lhs_nodes(); node < std::ssize(rule.nodes()); ++node) new_values->insert(node);
    }
  }
  return same_operations;
}

RuleClass WithRounding(RuleClass measured, bool same_operations, const RuleRounding& rounding, double risk) {
  RuleClass known = same_operations ? RuleClass::kExact : RuleClass::kReassociating;
  if (rounding.growth > risk || rounding.loss > risk) known = RuleClass::kNumericallyRisky;
  return Worse(known, measured);
}

absl::StatusOr<std::shared_ptr<const CompiledRule>> RuleOf(const CompiledRule& family, const OperatorClass& op) {
  return CompileRule(PutOperator(family.rule(), *FindOp(op.name)), RuleUse::kProof);
}

}  // namespace

absl::StatusOr<RuleClass> ClassifyRule(const CompiledRule& rule, const DomainLimits& domain, int instances,
                                       bool used_finite_only_step, RuleRounding* rounding,
                                       std::vector<OperatorClass>* operators, StopFlag stop,
                                       const ProofRemains* proof) {
  verifier::QueryCache* const query_cache = proof != nullptr ? proof->query_cache : nullptr;
  if (!HasOperatorVariable(rule.rule())) {
    MeaningCache meanings;
    DistinctInstances distinct(proof);
    ASSIGN_OR_RETURN(const Classified found, Measure(rule, domain, instances, used_finite_only_step, std::nullopt,
                                                     /*ranged=*/false, meanings, &distinct, stop));
    ASSIGN_OR_RETURN(*rounding, RoundingOf(distinct, found.rule_class == RuleClass::kExact, stop, query_cache));
    return WithRounding(found.rule_class, rounding->same_operations, *rounding, kRiskFactor);
  }
  RuleClass worst = RuleClass::kExact;
  const ProofRemains of_operators{.query_cache = query_cache};  // their instances are others
  for (OperatorClass& op : *operators) {
    ASSIGN_OR_RETURN(const auto own, RuleOf(rule, op));
    ASSIGN_OR_RETURN(op.rule_class, ClassifyRule(*own, domain, instances, used_finite_only_step, &op.rounding,
                                                 /*operators=*/nullptr, stop, &of_operators));
    worst = Worse(worst, op.rule_class);
  }
  return worst;
}

absl::StatusOr<std::optional<RuleClass>> ClassifyOnHalves(const CompiledRule& rule, const DomainLimits& domain,
                                                          int instances, RuleClass wide, const RuleRounding& rounding,
                                                          std::set<int>* new_values,
                                                          std::vector<OperatorClass>* operators) {
  std::optional<RuleClass> worst;
  if (HasOperatorVariable(rule.rule())) {
    for (OperatorClass& op : *operators) {
      ASSIGN_OR_RETURN(const auto own, RuleOf(rule, op));
      ASSIGN_OR_RETURN(op.halves, ClassifyOnHalves(*own, domain, instances, op.rule_class, op.rounding, new_values));
      if (op.halves) worst = Worse(worst.value_or(wide), *op.halves);
    }
    return worst;
  }
  std::set<int> own_values;
  MeaningCache meanings;
  ASSIGN_OR_RETURN(const bool same_operations,
                   RoundingOnHalvesOf(rule, domain, rounding.same_operations, meanings, &own_values));
  for (DType half : {DType::kFloat16, DType::kBFloat16}) {
    ASSIGN_OR_RETURN(const Classified found, Measure(rule, domain, instances, wide == RuleClass::kFiniteOnly, half,
                                                     !own_values.empty(), meanings));
    if (found.measured) worst = Worse(worst.value_or(wide), found.rule_class);
  }
  new_values->merge(own_values);
  if (!worst) return worst;
  return WithRounding(*worst, same_operations, rounding, kHalfRiskFactor);
}

}  // namespace rewright
