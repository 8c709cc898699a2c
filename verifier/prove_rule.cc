#include "verifier/prove_rule.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/cpu_time.h"
#include "core/ops/ops.h"
#include "substitutions/instance/compiled_rule.h"
#include "substitutions/instance/instances.h"
#include "substitutions/language/operator_variables.h"
#include "substitutions/language/rule_printer.h"
#include "substitutions/language/stand_ins.h"
#include "substitutions/prover_hash.h"
#include "substitutions/rule_set.h"
#include "verifier/certify.h"
#include "verifier/classify/classify_rule.h"
#include "verifier/integer/give_up.h"
#include "verifier/prove/merged_axes.h"
#include "verifier/smt/solver.h"

namespace rewright {
namespace {

// Ranks in the first domain that is tried.
constexpr int kSmallestDomain = 3;
// Instances that are tried at as many sizes as ProofOptions says before the proof; later ones at fewer.
constexpr int kThoroughInstances = 24;
constexpr int kFewTrials = 8;

// Ends the enumeration early; the verdict says why.
absl::Status Enough() { return absl::CancelledError("enough"); }

// True if `expr` uses the number of axes other than to name an axis (`position`) or as the length of a list: then a law
// of six axes is not one of seven.
bool CountsAxes(const ArgExpr& expr, bool position) {
  if (expr.kind == ArgExpr::Kind::kCall) {
    switch (expr.fn) {
      case ArgFn::kRank:
      case ArgFn::kLen: return !position;
      case ArgFn::kDim: return CountsAxes(expr.args[1], true);
      case ArgFn::kRepeat:
      case ArgFn::kTake:
      case ArgFn::kDrop: return CountsAxes(expr.args[0], position) || CountsAxes(expr.args[1], true);
      case ArgFn::kIota: return CountsAxes(expr.args[0], position);
      default: position = false;
    }
  }
  if (expr.kind == ArgExpr::Kind::kElement) return CountsAxes(expr.args[0], position) || CountsAxes(expr.args[1], true);
  if (expr.kind == ArgExpr::Kind::kOp) position = position && (expr.op == ArgOp::kAdd || expr.op == ArgOp::kSub);
  return std::any_of(expr.args.begin(), expr.args.end(), [&](const ArgExpr& arg) { return CountsAxes(arg, position); });
}

bool MentionsNumberOfAxes(const CompiledRule& rule) {
  const auto counts = [](const ArgExpr& expr) { return CountsAxes(expr, false); };
  return std::any_of(rule.conditions().begin(), rule.conditions().end(), counts) ||
         std::any_of(rule.nodes().begin(), rule.nodes().end(), [&](const RuleNode& node) {
           for (size_t k = 0; k < node.attrs.size(); ++k) {
             if (CountsAxes(node.attrs[k], IsStructural(node.op->attrs[k]))) return true;
           }
           return (node.value && counts(*node.value)) ||
                  std::any_of(node.shape.dims.begin(), node.shape.dims.end(), counts);
         });
}

// Proves the instances of a rule domain by domain, each within the next.
class RuleProof {
 public:
  RuleProof(const CompiledRule& rule, const RuleProofOptions& options) : rule_(rule), options_(options) {}

  // True when every instance within the limits is proved, and there is one.
  bool Prove(const DomainLimits& limits) {
    int instances = 0;
    const int proofs_before = verdict_.proofs;
    const absl::Status status = ForEachInstance(rule_, limits, meanings_, [&](const RuleInstance& instance) {
      ++instances;
      return Visit(instance);
    });
    if (!status.ok() && reason_.empty()) reason_ = std::string(status.message());
    if (!status.ok() || instances == 0) return false;
    verdict_.verdict = Verdict::kProved;
    verdict_.instances = instances;
    verdict_.limits = limits;
    verdict_.every_rank = verdict_.proofs == proofs_before && !MentionsNumberOfAxes(rule_);
    return true;
  }

  // An instance was met that is not proved: larger domains hold it too.
  bool stuck() const { return stuck_; }
  void ClearReason() { reason_.clear(); }

  RuleVerdict Finish() {
    if (verdict_.interrupted) verdict_.verdict = Verdict::kUnknown;  // not all that could be proved
    if (verdict_.verdict == Verdict::kProved && verdict_.vacuous == verdict_.proofs) {
      verdict_.verdict = Verdict::kUnknown;
      reason_ = "no sizes and attributes satisfy the conditions";
    }
    if (verdict_.verdict == Verdict::kProved && HasOperatorVariable(rule_.rule())) {
      for (std::string& name : OperatorsOf(rule_.rule())) verdict_.operators.push_back({std::move(name)});
      if (verdict_.operators.empty()) {
        verdict_ = RuleVerdict();
        reason_ = "no operator has the property";
      }
    }
    if (verdict_.verdict == Verdict::kProved) {
      Classify();
      if (options_.certify && !verdict_.interrupted) WriteCertificate();
    }
    verdict_.reason = reason_;
    return verdict_;
  }

 private:
  absl::Status Visit(const RuleInstance& instance) {
    // The instance may come again from a smaller domain, or be the same as another one with axes merged.
    const auto [visited, first] = visited_.emplace(PrintInstance(instance), Visited());
    if (!first) return absl::OkStatus();
    bool& used_finite_law = visited->second.used_finite_law;
    const double start_s = verifier::ThreadCpuSeconds();
    const std::string& key = visited->second.merged_axes_key = verifier::MergedAxesKey(instance);
    verdict_.cpu_ms += 1000 * (verifier::ThreadCpuSeconds() - start_s);
    const auto same = proved_.find(key);
    if (same != proved_.end() && !options_.certify) {  // a certificate holds every instance
      used_finite_law = same->second;
      return absl::OkStatus();
    }
    const double left_s = options_.work_limit_s - (verifier::ThreadWorkSeconds() - start_s_);
    if (IsStopped(options_.stop)) return GiveUp("interrupted");
    if (left_s <= 0) return GiveUp(absl::StrCat(verifier::kAtLimit, " of ", options_.work_limit_s, " s"));
    ProofOptions proof_options;
    proof_options.work_limit_s = std::min(left_s, options_.instance_limit_s);
    proof_options.seed = options_.seed;
    proof_options.keep_smtlib = options_.certify;
    proof_options.query_cache = &query_cache_;
    proof_options.observer = options_.observer;
    // The first instances show the faults that many instances share.
    if (verdict_.proofs >= kThoroughInstances) proof_options.trials = kFewTrials;
    const ProofResult proof = rewright::Prove(instance, proof_options);
    verdict_.cpu_ms += proof.cpu_ms;
    verdict_.trials += proof.trials;
    if (proof.verdict == Verdict::kProved) {
      used_finite_law = proof.used_finite_only_step;
      if (proved_.emplace(key, used_finite_law).second) {
        ++verdict_.proofs;
        verdict_.vacuous += proof.vacuous;
      }
      verdict_.provisos.insert(proof.provisos.begin(), proof.provisos.end());
      verdict_.used_bounds = verdict_.used_bounds || proof.used_bounds;
      return options_.certify ? AddCertificate(instance, proof) : absl::OkStatus();
    }
    if (proof.verdict == Verdict::kRefuted) {
      verdict_.verdict = Verdict::kRefuted;
      verdict_.witness = proof.counterexample->ToString();
      verdict_.counterexample = proof.counterexample;
      verdict_.instance = instance.description;
    }
    return GiveUp(absl::StrCat(proof.reason, instance.description.empty() ? "" : " at ", instance.description));
  }

  // Classifies by the instances within the domain that is proved; others may have been met in one that is not.
  void Classify() {
    if (std::any_of(visited_.begin(), visited_.end(),
                    [](const auto& visited) { return visited.second.used_finite_law; })) {
      const absl::Status status = ForEachInstance(rule_, verdict_.limits, meanings_, [&](const RuleInstance& instance) {
        verdict_.used_finite_only_step =
            verdict_.used_finite_only_step || visited_.at(PrintInstance(instance)).used_finite_law;
        return absl::OkStatus();
      });
      if (!status.ok()) return NoteTrouble("instances", status);
    }
    if (!options_.classify) return;
    const ProofRemains remains{&query_cache_, [this](const RuleInstance& instance) {
                                 return visited_.at(PrintInstance(instance)).merged_axes_key;
                               }};
    const auto found = ClassifyRule(rule_, verdict_.limits, verdict_.instances, verdict_.used_finite_only_step,
                                    &verdict_.rounding, &verdict_.operators, options_.stop, &remains);
    verdict_.interrupted = absl::IsCancelled(found.status()) || StopScope::Stopped();  // samples may be missing
    if (verdict_.interrupted) {
      verdict_.verdict = Verdict::kUnknown;
      reason_ = "interrupted";
      return;
    }
    if (!found.ok()) return NoteTrouble("class", found.status());
    verdict_.rule_class = *found;
  }

  void NoteTrouble(const char* of, const absl::Status& status) {
    if (verdict_.trouble.empty()) verdict_.trouble = absl::StrCat(of, ": ", std::string(status.message()));
  }

  absl::Status AddCertificate(const RuleInstance& instance, const ProofResult& proof) {
    absl::StatusOr<InstanceCertificate> certificate = Certify(instance, proof);
    if (!certificate.ok()) return GiveUp(std::string(certificate.status().message()));
    const std::string key = certificate->instance;
    certificates_.emplace(key, *std::move(certificate));
    return absl::OkStatus();
  }

  void WriteCertificate() {
    Certificate certificate;
    certificate.law = PrintLaw(rule_.rule());
    certificate.prover = ProverHash();
    certificate.domain = verdict_.limits;
    certificate.rule_class = verdict_.rule_class;
    const absl::StatusOr<uint64_t> hash = SpecHash(rule_);
    if (!hash.ok()) return NoteTrouble("certificate", hash.status());
    certificate.spec_hash = *hash;
    const absl::Status status = ForEachInstance(rule_, verdict_.limits, meanings_, [&](const RuleInstance& instance) {
      certificate.instances.push_back(std::move(certificates_.at(PrintInstance(instance))));
      return absl::OkStatus();
    });
    if (!status.ok()) return NoteTrouble("certificate", status);
    verdict_.certificate = PrintCertificate(certificate);
  }

  // Ends the proof without a verdict, or with a refutation that is noted already. After an interrupt any other end is
  // its work: a proof, or its certificate, was cut short.
  absl::Status GiveUp(const std::string& reason) {
    stuck_ = true;
    verdict_.interrupted = verdict_.verdict != Verdict::kRefuted && IsStopped(options_.stop);
    reason_ = verdict_.interrupted ? "interrupted" : reason;
    return Enough();
  }

  const CompiledRule& rule_;
  const RuleProofOptions& options_;
  RuleVerdict verdict_;
  verifier::QueryCache query_cache_;
  MeaningCache meanings_;
  const double start_s_ = verifier::ThreadWorkSeconds();
  struct Visited {
    bool used_finite_law = false;  // the proof used a law that holds for finite values only
    std::string merged_axes_key;
  };
  std::map<std::string, Visited> visited_;                   // by PrintInstance
  absl::flat_hash_map<std::string, bool> proved_;            // by the text with axes merged: used_finite_law
  std::map<std::string, InstanceCertificate> certificates_;  // by PrintInstance
  std::string reason_;
  bool stuck_ = false;
};

std::string DomainText(const RuleVerdict& verdict) {
  const std::string sizes =
      verdict.provisos.empty() ? "" : absl::StrCat(" with ", absl::StrJoin(verdict.provisos, ", "));
  const std::string tried =
      absl::StrCat("; ", verdict.trials, verdict.trials == 1 ? " assignment" : " assignments", " tried");
  const std::string vacuous = verdict.vacuous == 0 ? "" : absl::StrCat(", ", verdict.vacuous, " of them vacuous");
  return absl::StrCat("every size", verdict.used_bounds ? " below 2^31" : "", sizes, "; ranks to ",
                      verdict.limits.max_rank, verdict.every_rank ? " (by merged axes: any)" : " (each by itself)",
                      ", permutations to ", verdict.limits.max_perm_rank, ", broadcasts to ",
                      verdict.limits.max_broadcast_rank, "; ", verdict.instances,
                      verdict.instances == 1 ? " instance" : " instances", vacuous, tried);
}

RuleVerdict ProveCompiled(const CompiledRule& rule, const RuleProofOptions& options) {
  RuleProof proof(rule, options);
  for (int rank = std::min(kSmallestDomain, options.limits.max_rank); rank <= options.limits.max_rank; ++rank) {
    DomainLimits limits = options.limits;
    limits.max_rank = rank;
    limits.max_perm_rank = std::min(limits.max_perm_rank, rank);
    limits.max_broadcast_rank = std::min(limits.max_broadcast_rank, rank);
    // A domain may hold no instance at all, and a larger one some.
    if (rank > kSmallestDomain && !proof.stuck()) proof.ClearReason();
    proof.Prove(limits);
    if (proof.stuck()) break;
  }
  return proof.Finish();
}

}  // namespace

// Finds an operator for which the rule is refuted, if it is not proved for any function.
static void RefuteByOperator(const Rule& rule, const RuleProofOptions& options, RuleVerdict* verdict) {
  RuleProofOptions own = options;
  own.observer = nullptr;
  own.certify = own.classify = false;
  for (const std::string& name : OperatorsOf(rule)) {
    RuleVerdict found = ProveRule(PutOperator(rule, *FindOp(name)), own);
    if (found.verdict != Verdict::kRefuted) continue;
    found.reason = absl::StrCat("for the operator ", name, ": ", found.reason);
    found.cpu_ms += verdict->cpu_ms;
    *verdict = std::move(found);
    return;
  }
}

RuleVerdict ProveRule(const Rule& rule, const RuleProofOptions& options) {
  const StopScope scope(options.stop);
  RuleVerdict verdict;
  absl::StatusOr<std::shared_ptr<const CompiledRule>> compiled = CompileRule(rule, options.use);
  if (compiled.ok()) {
    verdict = ProveCompiled(**compiled, options);
    if (verdict.verdict == Verdict::kUnknown && HasOperatorVariable(rule)) RefuteByOperator(rule, options, &verdict);
  } else {
    verdict.reason = std::string(compiled.status().message());
  }
  if (verdict.verdict == Verdict::kProved) verdict.domain = DomainText(verdict);
  return verdict;
}

std::vector<std::string> OperatorsOf(const Rule& rule) {
  std::vector<std::string> names;
  RuleProofOptions options;
  options.classify = false;
  for (const OpDef* op : ElementwiseOps(OperandsOfVariable(rule))) {
    const std::vector<Rule> laws = PropertyRules(rule, *op);
    const bool holds = std::all_of(laws.begin(), laws.end(), [&](const Rule& law) {
      const RuleVerdict verdict = ProveRule(law, options);
      return verdict.verdict == Verdict::kProved && !verdict.used_finite_only_step;
    });
    if (holds) names.push_back(op->name);
  }
  return names;
}

absl::StatusOr<ProofRecord> RecordOf(const Rule& rule, const RuleVerdict& verdict, const std::string& certificate,
                                     bool halves) {
  if (!verdict.trouble.empty()) {
    return absl::InternalError(absl::StrCat("rule ", rule.name, ": no record: ", verdict.trouble));
  }
  absl::StatusOr<std::shared_ptr<const CompiledRule>> compiled = CompileRule(rule);
  if (!compiled.ok()) return compiled.status();
  ProofRecord record;
  record.rule_class = verdict.rule_class;
  record.domain = verdict.limits;
  record.instances = verdict.instances;
  record.prover = ProverHash();
  record.certificate = certificate;
  std::vector<OperatorClass> operators = verdict.operators;
  if (halves) {
    std::set<int> new_values;
    const auto measured = ClassifyOnHalves(**compiled, record.domain, record.instances, verdict.rule_class,
                                           verdict.rounding, &new_values, &operators);
    if (!measured.ok()) return measured.status();
    record.halves = *measured;
    record.new_values.assign(new_values.begin(), new_values.end());
  }
  const auto exact = [](RuleClass wide, std::optional<RuleClass> half) {
    return wide == RuleClass::kExact && half.value_or(RuleClass::kExact) == RuleClass::kExact;
  };
  for (const OperatorClass& op : operators) {
    record.operators.push_back(op.name);
    if (exact(op.rule_class, op.halves) && !exact(record.rule_class, record.halves)) record.exact.push_back(op.name);
  }
  const absl::StatusOr<uint64_t> hash = RecordHash(**compiled, record);
  if (!hash.ok()) return hash.status();
  record.spec_hash = *hash;
  return record;
}

std::string ConditionsText(const Rule& rule) {
  return absl::StrJoin(rule.conditions, " and ",
                       [](std::string* out, const ArgExpr& condition) { out->append(PrintArg(condition)); });
}

}  // namespace rewright
