#include "verifier/prove/replay.h"

#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/cpu_time.h"
#include "verifier/integer/give_up.h"
#include "verifier/normal_form/proof_observer.h"
#include "verifier/prove/attempt.h"
#include "verifier/smt/solver.h"

namespace rewright {
namespace verifier {

// From cheap to thorough. First only laws that hold for infinities too.
std::vector<Strategy> Strategies() {
  std::vector<Strategy> out;
  for (bool probe : {true, false}) {
    for (bool finite_laws : {false, true}) {
      for (int order : {0, 1}) {
        out.push_back({.finite_laws = finite_laws, .probe = probe, .factor_order = order});
        out.push_back({.sum_cases = true, .finite_laws = finite_laws, .probe = probe, .factor_order = order});
        out.push_back({.split_products = true, .finite_laws = finite_laws, .probe = probe, .factor_order = order});
      }
    }
  }
  out.push_back({.finite_laws = true, .unfold = true});
  for (bool digits : {false, true}) {
    for (int order = 0; order <= (digits ? 1 : 0); ++order) {
      for (bool split : {false, true}) {
        out.push_back(
            {.split_products = split, .finite_laws = true, .factor_order = order, .quotients = true, .digits = digits});
      }
    }
  }
  out.push_back({.unroll = true});
  for (bool finite_laws : {false, true}) out.push_back({.finite_laws = finite_laws, .split_counts = true});
  return out;
}

void TakeSession(ProofSession* session, ProofResult* result) {
  result->queries = session->queries;
  result->steps = std::move(session->steps);
  result->smtlib = std::move(session->smtlib);
  result->cpu_ms = 1000 * (ThreadCpuSeconds() - session->cpu_start_s);
}

namespace {

void FollowStrategy(const RuleInstance& instance, int number, ProofObserver* observer, ProofSession* session,
                    ProofResult* result) {
  const std::vector<Strategy> strategies = Strategies();
  if (number < 0 || number >= static_cast<int>(strategies.size())) {
    result->reason = absl::StrCat("found strategy ", number, ", expected one from 0 to ", strategies.size() - 1);
    return;
  }
  const Strategy& strategy = strategies[number];
  session->observer = observer;
  if (observer != nullptr) observer->Begin(instance, {});
  try {
    Legality legal;
    if (number != 0) {
      // The first three obligations are settled by the first attempt.
      Attempt first(instance, strategies[0], {}, session, {});
      if (!first.ProveLegality(&legal, &result->reason)) return;
    }
    Attempt attempt(instance, strategy, {}, session, {});
    if (attempt.Run(&legal, &result->reason) != Outcome::kProved) return;
    result->verdict = Verdict::kProved;
    result->strategy = number;
    result->used_finite_only_step = attempt.used_finite_law();
  } catch (const GiveUp& stopped) {
    result->reason = stopped.reason;
  } catch (const std::bad_alloc&) {
    result->reason = "out of memory";
  }
}

}  // namespace
}  // namespace verifier

ProofResult ReplayProof(const RuleInstance& instance, int strategy,
                        const std::function<bool(const SmtQuery&)>& known_unsat, verifier::ProofObserver* observer) {
  ProofResult result;
  verifier::ProofSession session;
  session.work_limit_s = verifier::kNoLimit;
  session.certify = true;
  session.known_unsat = known_unsat;
  verifier::QueryCache query_cache;
  session.query_cache = &query_cache;
  verifier::FollowStrategy(instance, strategy, observer, &session, &result);
  verifier::TakeSession(&session, &result);
  return result;
}

}  // namespace rewright
