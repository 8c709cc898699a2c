#include "verifier/prove/prove_instance.h"

#include <algorithm>
#include <new>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/ops/ops.h"
#include "verifier/integer/context.h"
#include "verifier/integer/give_up.h"
#include "verifier/normal_form/proof_observer.h"
#include "verifier/prove/attempt.h"
#include "verifier/prove/replay.h"
#include "verifier/refute/counterexample.h"
#include "verifier/refute/integer_search.h"
#include "verifier/refute/numeric_instance.h"
#include "verifier/smt/solver.h"

namespace rewright {

const char* VerdictName(Verdict verdict) {
  switch (verdict) {
    case Verdict::kProved: return "proved";
    case Verdict::kRefuted: return "refuted";
    case Verdict::kUnknown: return "unknown";
  }
  return "?";
}

namespace verifier {
namespace {

constexpr int kMoreTrials = 400;  // assignments tried after a proof that failed

// Skips strategies whose switches cannot matter, judging by what earlier attempts met.
class Differences {
 public:
  // An attempt that was cut short shows nothing.
  void Note(const Strategy& strategy, const Attempt* finished, Outcome outcome) {
    const bool cut_short = finished == nullptr;
    products_ = products_ || cut_short || finished->context().met_product;
    sums_ = sums_ || cut_short || finished->context().met_sum;
    literals_ = literals_ || cut_short || finished->context().met_literal;
    counts_ = counts_ || cut_short || finished->context().met_count;
    if (strategy.probe && (cut_short || outcome == Outcome::kNextStrategy)) unprobed_.push_back(strategy);
  }
  bool Matters(const Strategy& s) const {
    if (!products_ && (s.split_products || s.factor_order != 0)) return false;
    if (!sums_ && s.sum_cases) return false;
    if (s.unroll) return literals_;
    if (s.split_counts) return counts_;
    return s.probe || s.unfold || s.quotients || std::any_of(unprobed_.begin(), unprobed_.end(), [&](Strategy t) {
             t.probe = false;
             return t == s;
           });
  }

 private:
  bool products_ = false, sums_ = false, literals_ = false, counts_ = false;
  std::vector<Strategy> unprobed_;
};

// A concatenation of constants: the form of a matrix in a rule.
bool HasMatrix(const RuleInstance& instance) {
  const auto constant = [&](const SymbolicValue& value) {
    return instance.nodes[value.node].splat.has_value() || IsFill(instance.nodes[value.node]);
  };
  return std::any_of(instance.nodes.begin(), instance.nodes.end(), [&](const SymbolicNode& node) {
    return node.op == ops::Concat() && std::all_of(node.inputs.begin(), node.inputs.end(), constant);
  });
}

// Goes through the attempt that succeeded once more. A proof that ran into its time limit here would be told in part:
// there is none.
void TellSteps(const RuleInstance& instance, const std::vector<Strategy>& strategies, const Strategy& strategy,
               const ProofOptions& options, const ProofSession& found,
               const std::vector<std::vector<int64_t>>& assignments) {
  ProofSession told;
  told.work_limit_s = kNoLimit;
  told.query_cache = found.query_cache;
  told.observer = options.observer;
  std::string reason;
  Legality legal;
  options.observer->Begin(instance, assignments);
  Attempt first(instance, strategies[0], options, &told, assignments);
  const bool lawful = first.ProveLegality(&legal, &reason);
  Attempt attempt(instance, strategy, options, &told, assignments);
  if (!lawful || attempt.Run(&legal, &reason) != Outcome::kProved) {
    throw GiveUp("the proof does not come out again: " + reason);
  }
}

void TryStrategies(const RuleInstance& instance, const ProofOptions& options, ProofSession* session,
                   const std::vector<std::vector<int64_t>>& assignments, ProofResult* result) {
  Legality legal;
  legal.proved = options.legal;
  Differences differences;
  const std::vector<Strategy> strategies = Strategies();
  std::vector<const Strategy*> order;
  for (const Strategy& strategy : strategies) order.push_back(&strategy);
  // Only unrolling proves an instance with a matrix, so it is tried first.
  const bool unroll_first = HasMatrix(instance);
  if (unroll_first) std::rotate(order.begin(), order.end() - 1, order.end());
  if (options.tell_attempts && options.observer != nullptr) {
    options.observer->Begin(instance, assignments);
    session->observer = options.observer;
  }
  for (const Strategy* tried : order) {
    const Strategy& strategy = *tried;
    if (tried != order[0] && !differences.Matters(strategy)) continue;
    // Keeps the records of the first three obligations.
    session->steps.resize(legal.steps);
    session->smtlib.resize(legal.queries);
    std::string reason;
    bool finished = false;
    try {
      Attempt attempt(instance, strategy, options, session, assignments);
      Outcome outcome = attempt.Run(&legal, &reason);
      if (outcome == Outcome::kProved) {
        result->verdict = Verdict::kProved;
        result->strategy = static_cast<int>(&strategy - strategies.data());
        result->used_finite_only_step = attempt.used_finite_law();
        result->used_bounds = attempt.context().used_bounds;
        result->provisos = attempt.provisos();
        result->reason.clear();
        if (options.observer != nullptr && !options.tell_attempts)
          TellSteps(instance, strategies, strategy, options, *session, assignments);
        return;
      }
      finished = true;
      differences.Note(strategy, &attempt, outcome);
    } catch (const GiveUp& stopped) {
      reason = stopped.reason;
    } catch (const std::bad_alloc&) {
      reason = "out of memory";
    }
    if (!finished) differences.Note(strategy, nullptr, Outcome::kOpen);
    if (!reason.empty()) result->reason = reason;
    if (!legal.proved) return;
    if (session->RemainingSeconds() <= 0) {
      result->reason = absl::StrCat(kAtLimit, "; last: ", reason);
      return;
    }
  }
}

// Not where the search has found values: a solver need not be asked then. A note for readers: where it is not settled
// the proof counts as one that says something.
bool IsVacuous(const RuleInstance& instance, const ProofOptions& options, ProofSession* session) {
  try {
    return Attempt(instance, Strategies()[0], options, session, {}).IsVacuous();
  } catch (const GiveUp&) {
    return false;
  }
}

}  // namespace
}  // namespace verifier

ProofResult Prove(const RuleInstance& instance, const ProofOptions& options) {
  using verifier::CounterexampleSearch;
  using verifier::HasIntegers;
  using verifier::SearchIntegers;
  using verifier::SearchPositions;
  constexpr int kCounterexampleAttempts = 3;
  ProofResult result;
  verifier::ProofSession session;
  session.work_limit_s = options.work_limit_s;
  session.certify = options.keep_smtlib;
  verifier::QueryCache own;
  session.query_cache = options.query_cache != nullptr ? options.query_cache : &own;
  CounterexampleSearch search(instance, options.seed);
  std::string unconfirmed;
  auto refute = [&](int trials, double work_limit_s, bool large_sizes) {
    if (!options.search_counterexample) return;
    for (int attempt = 0; attempt < kCounterexampleAttempts && !result.counterexample; ++attempt) {
      result.counterexample = search.Run(trials, work_limit_s);
      if (!result.counterexample) break;
      // Nothing is called false that the interpreter has not computed to be.
      const absl::Status confirmed = ConfirmCounterexample(instance, *result.counterexample);
      if (confirmed.ok()) continue;
      unconfirmed = std::string(confirmed.message());
      result.counterexample.reset();
    }
    if (!result.counterexample && HasIntegers(instance) && !HasStandIn(instance)) {
      std::mt19937_64 rng(options.seed);
      result.counterexample = SearchIntegers(instance, search.assignments(), trials / 2, &rng);
      if (!result.counterexample && large_sizes) {
        result.counterexample = SearchPositions(instance, search.assignments(), &rng);
      }
    }
    if (!result.counterexample) return;
    result.verdict = Verdict::kRefuted;
    result.reason = result.counterexample->ToString();
    result.reason = result.reason.substr(0, result.reason.find('\n'));
  };
  refute(options.trials, options.work_limit_s / 4, /*large_sizes=*/false);
  if (result.verdict != Verdict::kRefuted) {
    const bool searched = options.search_counterexample && search.assignments().empty();
    result.vacuous = searched && verifier::IsVacuous(instance, options, &session);
    const auto& assignments = options.assignments != nullptr ? *options.assignments : search.assignments();
    verifier::TryStrategies(instance, options, &session, assignments, &result);
    if (result.verdict == Verdict::kUnknown) refute(verifier::kMoreTrials, options.work_limit_s, /*large_sizes=*/true);
  }
  if (result.verdict == Verdict::kUnknown && !unconfirmed.empty()) {
    absl::StrAppend(&result.reason, "; ", unconfirmed);
  }
  result.trials = search.trials();
  verifier::TakeSession(&session, &result);
  return result;
}

}  // namespace rewright
