// Settles queries of certificates: each by itself, from its text alone, in a solver that knows nothing else.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "verifier/integer/smt_query.h"

namespace rewright {

enum class SmtAnswer : uint8_t { kUnsat, kSat, kUnknown };
const char* SmtAnswerName(SmtAnswer answer);

// Asks Z3 in this process, under a limit of its resource units, which count as work (work.h). If it does not count them
// it is interrupted after `hang_s` seconds on the clock (the timers of Z3 4.8 can deadlock), which then count as work.
// A limit several times that of the prover is usual: the order of assertions is the same, but a parsed text may be
// searched in another order.
// Error: Z3 does not understand the text.
absl::StatusOr<SmtAnswer> AskZ3(const SmtQuery& query, unsigned limit = 50000000, double hang_s = 60);

}  // namespace rewright
