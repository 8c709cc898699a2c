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

// cvc5, a process of its own for all the queries, which come to it as one script with a reset after each; one that it
// gives up is put to it by itself, then with another strategy. `limit_s` seconds of work for each query, each time,
// counted in its resource units. Errors: NotFound where there is no program `cvc5`; it does not understand the script,
// or ends before it has answered all of it; it hangs.
absl::StatusOr<std::vector<SmtAnswer>> AskCvc5(const std::vector<SmtQuery>& queries, double limit_s);

}  // namespace rewright
