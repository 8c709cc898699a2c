#include "verifier/check/query_solver.h"

#include <z3++.h>

#include "absl/strings/str_cat.h"
#include "core/base/work.h"
#include "verifier/z3/watchdog.h"

namespace rewright {

const char* SmtAnswerName(SmtAnswer answer) {
  switch (answer) {
    case SmtAnswer::kUnsat: return "unsat";
    case SmtAnswer::kSat: return "sat";
    case SmtAnswer::kUnknown: return "unknown";
  }
  return "?";
}

absl::StatusOr<SmtAnswer> AskZ3(const SmtQuery& query, unsigned limit, double hang_s) {
  try {
    z3::context context;
    z3::solver solver(context, z3::solver::simple());
    solver.set(verifier::SolverParameters(context, limit));
    solver.add(context.parse_string(query.text.c_str()));
    z3::check_result result;
    {
      const verifier::Watchdog watchdog(context, hang_s);
      result = solver.check();
      if (watchdog.fired()) verifier::CountSteps(static_cast<int64_t>(hang_s * verifier::kStepsPerSecond));
    }
    verifier::CountSteps(verifier::UnitsUsed(solver));
    switch (result) {
      case z3::unsat: return SmtAnswer::kUnsat;
      case z3::sat: return SmtAnswer::kSat;
      case z3::unknown: break;
    }
    return SmtAnswer::kUnknown;
  } catch (const z3::exception& error) {
    return absl::InvalidArgumentError(absl::StrCat("z3: ", error.msg()));
  }
}

}  // namespace rewright
