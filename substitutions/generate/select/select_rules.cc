#include "substitutions/generate/select/select_rules.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/cpu_time.h"
#include "core/base/status_macros.h"
#include "core/base/text_hash.h"
#include "core/base/threads.h"
#include "core/ops/ops.h"
#include "substitutions/egraph/derive.h"
#include "substitutions/generate/enumerate/journal.h"
#include "substitutions/generate/select/candidates.h"
#include "substitutions/generate/select/counterexamples.h"
#include "substitutions/instance/compiled_rule.h"
#include "substitutions/language/rule_printer.h"
#include "substitutions/match/matcher.h"
#include "substitutions/prover_hash.h"
#include "substitutions/rule_set.h"
#include "verifier/classify/classify_rule.h"
#include "verifier/infer/infer.h"

namespace rewright::generate {
namespace {

constexpr size_t kRound = 8;  // candidates taken up together

struct Judgement {
  Outcome outcome;
  bool used_finite_only_step = false;  // in its proof
  double derive_s = 0, prove_s = 0;    // CPU time
};

struct Kept {
  DirectedRule forward, backward;  // no matcher in `backward`: the rule cannot be read from right to left
  bool merge = false;              // two outputs from work that is shared on the right alone
  bool single = false;             // one output
};

class Selector {
 public:
  Selector(const Space& space, const SelectOptions& options) : space_(space), options_(options) {}

  absl::StatusOr<Selection> Run(const std::vector<Pair>& pairs) {
    RETURN_IF_ERROR(LearnKnown());
    const double start_s = verifier::ThreadCpuSeconds();
    Candidates stated = StateCandidates(space_, pairs, options_.seed);
    candidates_ = std::move(stated.candidates);
    result_.counts.pairs = pairs.size();
    result_.counts.unstated = stated.unstated;
    result_.counts.repeated = stated.repeated;
    result_.counts.candidates = candidates_.size();
    result_.counts.state_s = verifier::ThreadCpuSeconds() - start_s;
    if (!options_.journal.empty()) {
      const std::string header = absl::StrCat(
          space_.name, " max_ops=", space_.max_ops, " seed=", options_.seed, " rule_limit=", options_.rule_limit_s,
          " prover=", TextHash::Hex(ProverHash()), " known=", options_.known.size(), " given=", GivenText(),
          " candidates=", candidates_.size(), CounterexamplesText(space_));
      RETURN_IF_ERROR(journal_.Open(options_.journal, header));
    }
    for (size_t begin = 0; begin < candidates_.size(); begin += kRound) {
      if (Stopped()) {
        result_.complete = false;
        break;
      }
      RETURN_IF_ERROR(Round(begin, std::min(begin + kRound, candidates_.size())));
      if (options_.progress) options_.progress(result_.counts);
    }
    return std::move(result_);
  }

 private:
  bool Stopped() const { return IsStopped(options_.stop); }

  absl::Status LearnKnown() {
    for (const Rule& rule : options_.known) {
      if (!rule.proof) return absl::InvalidArgumentError(absl::StrCat("rule ", rule.name, " is known but not proved"));
      auto compiled = CompileRule(rule);
      if (!compiled.ok()) return compiled.status();
      Learn(std::make_shared<const Matcher>(*compiled, rule.proof->domain));
      taken_.insert(rule.name);
    }
    for (const std::shared_ptr<const Matcher>& matcher : options_.given) Learn(matcher);
    num_known_ = kept_.size();
    return absl::OkStatus();
  }

  std::string GivenText() const {
    TextHash hash;
    for (const std::shared_ptr<const Matcher>& matcher : options_.given) hash.Add(PrintLaw(matcher->rule().rule()));
    return hash.Hex();
  }

  void Learn(const std::shared_ptr<const Matcher>& matcher) {
    const CompiledRule& rule = matcher->rule();
    Learn(matcher, MergesWork(rule), rule.lhs().size() == 1 && !StandsForSeveral(rule, rule.lhs()[0]));
  }

  void Learn(std::shared_ptr<const Matcher> matcher, bool merge, bool single) {
    const std::vector<DirectedRule> directed = DirectedRules({std::move(matcher)}, /*both_ways=*/true);
    kept_.push_back({directed[0], directed.size() > 1 ? directed[1] : DirectedRule{}, merge, single});
  }

  // True if the value is all outputs of a split.
  static bool StandsForSeveral(const CompiledRule& rule, const RuleValue& value) {
    const RuleNode& node = rule.nodes()[value.node];
    return value.whole && node.op == ops::Split();
  }

  // Like IsMerge: true if outputs share work on the right alone.
  static bool MergesWork(const CompiledRule& rule) {
    const auto share = [&](const std::vector<RuleValue>& outputs) {
      if (outputs.size() == 1 && StandsForSeveral(rule, outputs[0])) return true;
      std::set<int> seen;
      for (const RuleValue& output : outputs) {
        std::set<int> cone;
        const auto visit = [&](const auto& self, int node) -> void {
          const RuleNode& n = rule.nodes()[node];
          if (n.op == nullptr || n.operands.empty() || !cone.insert(node).second) return;
          for (const RuleValue& operand : n.operands) self(self, operand.node);
        };
        visit(visit, output.node);
        for (int node : cone) {
          if (!seen.insert(node).second) return true;
        }
      }
      return false;
    };
    return !share(rule.lhs()) && share(rule.rhs());
  }

  // ---------------------------------------------------------------- rounds

  absl::Status Round(size_t begin, size_t end) {
    std::vector<Judgement> judgements(end - begin);
    std::vector<bool> known(end - begin, false);
    for (size_t i = begin; i < end; ++i) {
      const Outcome* found = journal_.Find(candidates_[i].key);
      if (found == nullptr) continue;
      judgements[i - begin].outcome = *found;
      known[i - begin] = true;
    }
    ForEachIndex(end - begin, options_.threads, [&](size_t k) {
      if (!known[k]) judgements[k] = Judge(candidates_[begin + k]);
    });
    if (Stopped()) {  // proofs may have been cut short
      result_.complete = false;
      return absl::OkStatus();
    }
    // Goes in order: a rule that follows from earlier ones of the same round is dropped too.
    const size_t before = kept_.size();
    std::vector<size_t> kept;  // of the round
    for (size_t k = 0; k < judgements.size(); ++k) {
      Outcome& outcome = judgements[k].outcome;
      if (outcome.fate != Fate::kProved) continue;
      const Candidate& candidate = candidates_[begin + k];
      const std::optional<Rule> rule = StateAs(space_, candidate, outcome.generality, outcome.detail);
      if (!rule) return absl::InternalError(absl::StrCat("a proved rule that cannot be stated:\n", candidate.law));
      if (!known[k] && kept_.size() > before) {
        const double start_s = verifier::ThreadCpuSeconds();
        if (const auto by = DerivedBy(*rule, candidate.merge)) {
          outcome.fate = Fate::kDerivable;
          outcome.detail = *by;
        }
        judgements[k].derive_s += verifier::ThreadCpuSeconds() - start_s;
      }
      if (outcome.fate != Fate::kProved) continue;
      RETURN_IF_ERROR(Keep(candidate, outcome, *rule));
      kept.push_back(k);
    }
    std::vector<double> classify_s(kept.size());
    std::vector<absl::Status> recorded(kept.size());
    ForEachIndex(kept.size(), options_.threads, [&](size_t j) {
      Judgement& judgement = judgements[kept[j]];
      const double start_s = verifier::ThreadCpuSeconds();
      Outcome& outcome = judgement.outcome;
      if (!known[kept[j]]) {
        RuleRounding rounding;
        const auto found = ClassifyRule(kept_[before + j].forward.matcher->rule(), outcome.limits, outcome.instances,
                                        judgement.used_finite_only_step, &rounding);
        outcome.rule_class = found.ok() ? *found : RuleClass::kFiniteOnly;
      }
      recorded[j] = Record(outcome, &result_.rules[before + j - num_known_]);
      classify_s[j] = verifier::ThreadCpuSeconds() - start_s;
    });
    for (size_t j = 0; j < kept.size(); ++j) {
      RETURN_IF_ERROR(recorded[j]);
      result_.counts.classify_s += classify_s[j];
    }
    std::vector<std::pair<std::string, Outcome>> fresh;
    for (size_t k = 0; k < judgements.size(); ++k) {
      Count(candidates_[begin + k], judgements[k]);
      if (!known[k]) fresh.emplace_back(candidates_[begin + k].key, judgements[k].outcome);
    }
    return journal_.Add(fresh);
  }

  // Tries the statements from general to special. A statement that is refuted for any sizes may hold under a condition,
  // or for the sizes of the space.
  Judgement Judge(const Candidate& candidate) const {
    Judgement judgement;
    Outcome& outcome = judgement.outcome;
    std::vector<std::pair<Generality, Rule>> statements;
    for (Generality generality : kGeneralities) {
      if (generality < candidate.generality) continue;
      if (auto rule = StateAs(space_, candidate, generality, "")) statements.emplace_back(generality, *std::move(rule));
    }
    // A candidate that does not follow for the most special sizes does not follow for others.
    const auto derived = [&](const Rule& rule) {
      const double start_s = verifier::ThreadCpuSeconds();
      auto by = DerivedBy(rule, candidate.merge);
      judgement.derive_s += verifier::ThreadCpuSeconds() - start_s;
      return by;
    };
    const bool derivable = !statements.empty() && derived(statements.back().second).has_value();
    const std::pair<Generality, Rule>* refuted = nullptr;  // the first that had attributes of its own, or sizes
    for (const auto& statement : statements) {
      const auto& [generality, rule] = statement;
      if (candidate.special && generality >= Generality::kAnyPools) {
        outcome.fate = Fate::kSpecial;
        outcome.detail = PrintLaw(candidate.rule);
        break;
      }
      outcome.generality = generality;
      if (const auto by = derivable ? derived(rule) : std::nullopt) {
        outcome.fate = Fate::kDerivable;
        outcome.detail = *by;
        break;
      }
      if (generality == Generality::kSpace && refuted != nullptr && Infer(*refuted, &judgement)) break;
      const double start_s = verifier::ThreadCpuSeconds();
      const RuleVerdict verdict = ProveRule(rule, ProofLimits());
      judgement.prove_s += verifier::ThreadCpuSeconds() - start_s;
      if (verdict.verdict == Verdict::kProved) {
        TakeProof(verdict, "", &judgement);
        break;
      }
      outcome.fate = verdict.verdict == Verdict::kRefuted ? Fate::kRefuted : Fate::kUnknown;
      outcome.detail = absl::StrCat(PrintLaw(rule), ": ", verdict.reason.substr(0, 400));
      if (refuted == nullptr && verdict.verdict == Verdict::kRefuted && generality >= Generality::kAnyAttrs) {
        refuted = &statement;
      }
    }
    return judgement;
  }

  RuleProofOptions ProofLimits() const {
    RuleProofOptions options;
    options.work_limit_s = options_.rule_limit_s;
    options.instance_limit_s = options_.rule_limit_s;
    options.seed = options_.seed;
    options.stop = options_.stop;
    options.classify = false;
    return options;
  }

  static void TakeProof(const RuleVerdict& verdict, const std::string& condition, Judgement* judgement) {
    judgement->outcome.fate = Fate::kProved;
    judgement->outcome.limits = verdict.limits;
    judgement->outcome.instances = verdict.instances;
    judgement->outcome.detail = condition;
    judgement->used_finite_only_step = verdict.used_finite_only_step;
  }

  // The weakest condition under which a refuted statement is true. False where none is found.
  bool Infer(const std::pair<Generality, Rule>& refuted, Judgement* judgement) const {
    const double start_s = verifier::ThreadCpuSeconds();
    const Inference inference = InferConditions(refuted.second, ProofLimits());
    judgement->prove_s += verifier::ThreadCpuSeconds() - start_s;
    for (const InferredCondition& answer : inference.answers) {
      // Conditions on elements hold of no input of a model.
      if (answer.when.find("positive") != std::string::npos) continue;
      judgement->outcome.generality = refuted.first;
      TakeProof(answer.verdict, answer.when, judgement);
      return true;
    }
    return false;
  }

  // Names of the kept rules that were used; nothing where the rule does not follow. A merge has to follow from the left
  // side alone: from rules of single outputs and from other merges.
  std::optional<std::string> DerivedBy(const Rule& rule, bool merge) const {
    if (merge) {  // few rules, which would drown among the others
      if (auto by = DerivedBy(rule, merge, true)) return by;
    }
    return DerivedBy(rule, merge, false);
  }

  std::optional<std::string> DerivedBy(const Rule& rule, bool merge, bool merges_only) const {
    const auto goal = CompileRule(rule);
    if (!goal.ok() || kept_.empty()) return std::nullopt;
    std::vector<DirectedRule> rules;
    for (const Kept& kept : kept_) {
      if (merges_only ? !kept.merge : merge && !kept.single && !kept.merge) continue;
      rules.push_back(kept.forward);
      if (kept.backward.matcher != nullptr && (!merge || kept.single)) rules.push_back(kept.backward);
    }
    DeriveOptions options;
    options.instances = 2;
    options.limits = {.max_rounds = 4, .max_nodes = 300, .max_matches_of_rule = 60};
    options.seed = options_.seed;
    const auto derivation = Derive(**goal, rules, options);
    if (!derivation.ok() || !derivation->derived) return std::nullopt;
    std::set<std::string> used;
    for (size_t i = 0; i < rules.size(); ++i) {
      if (derivation->uses[i] == 0) continue;
      used.insert((rules[i].forward != nullptr ? rules[i].forward : rules[i].matcher)->rule().name());
    }
    return absl::StrJoin(used, ", ");
  }

  // Takes a proved rule into the set, which others may then follow from.
  absl::Status Keep(const Candidate& candidate, const Outcome& outcome, Rule rule) {
    const std::string name = options_.prefix + LawName(rule);
    do {
      const int number = ++names_[name];
      rule.name = number == 1 ? name : absl::StrCat(name, "-", number);
    } while (!taken_.insert(rule.name).second);
    auto compiled = CompileRule(rule);
    if (!compiled.ok()) return compiled.status();
    Learn(std::make_shared<const Matcher>(*compiled, outcome.limits), candidate.merge, candidate.outputs.size() == 1);
    result_.rules.push_back(std::move(rule));
    return absl::OkStatus();
  }

  static absl::Status Record(const Outcome& outcome, Rule* rule) {
    RuleVerdict verdict;
    verdict.verdict = Verdict::kProved;
    verdict.rule_class = outcome.rule_class;
    verdict.limits = outcome.limits;
    verdict.instances = outcome.instances;
    absl::StatusOr<ProofRecord> record = RecordOf(*rule, verdict);
    if (!record.ok()) return record.status();
    rule->proof = *std::move(record);
    return absl::OkStatus();
  }

  void Count(const Candidate& candidate, const Judgement& judgement) {
    SelectCounts& counts = result_.counts;
    const std::string& detail = judgement.outcome.detail;
    ++counts.done;
    counts.derive_s += judgement.derive_s;
    counts.prove_s += judgement.prove_s;
    switch (judgement.outcome.fate) {
      case Fate::kProved: ++counts.kept; break;
      case Fate::kDerivable:
        ++counts.derivable;
        result_.explanations.push_back(absl::StrCat("derivable from ", detail, ":\n", candidate.law));
        break;
      case Fate::kRefuted:
        ++counts.refuted;
        result_.refuted.push_back(candidate.pair);
        result_.explanations.push_back(absl::StrCat("refuted: ", detail));
        break;
      case Fate::kUnknown:
        ++counts.unknown;
        result_.explanations.push_back(absl::StrCat("unknown: ", detail));
        break;
      case Fate::kSpecial:
        ++counts.special;
        result_.explanations.push_back(absl::StrCat("special: ", detail));
        break;
    }
  }

  const Space& space_;
  const SelectOptions& options_;
  Selection result_;
  SelectionJournal journal_;
  std::vector<Candidate> candidates_;
  std::vector<Kept> kept_;
  size_t num_known_ = 0;  // the first of kept_
  std::map<std::string, int> names_;
  std::set<std::string> taken_;  // names
};

}  // namespace

SelectCounts& SelectCounts::operator+=(const SelectCounts& other) {
  pairs += other.pairs;
  unstated += other.unstated;
  repeated += other.repeated;
  candidates += other.candidates;
  done += other.done;
  derivable += other.derivable;
  kept += other.kept;
  refuted += other.refuted;
  unknown += other.unknown;
  special += other.special;
  state_s += other.state_s;
  derive_s += other.derive_s;
  prove_s += other.prove_s;
  classify_s += other.classify_s;
  return *this;
}

absl::StatusOr<Selection> SelectRules(const Space& space, const std::vector<Pair>& pairs,
                                      const SelectOptions& options) {
  return Selector(space, options).Run(pairs);
}

}  // namespace rewright::generate
