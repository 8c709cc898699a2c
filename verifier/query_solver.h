// Settles queries of certificates: each by itself, from its text alone, in a solver that knows nothing else.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "verifier/smt_query.h"

namespace rewright {

enum class SmtAnswer : uint8_t { kUnsat, kSat, kUnknown };
const char* SmtAnswerName(SmtAnswer answer);

// Z3 in this process, under a limit of its resource units, and of wall-clock seconds where `limit_s` is not 0 (by an
// interrupt: the timers of Z3 4.8 can deadlock).
// Several times what the prover allows a query is usual: the order of assertions is the same, but a parsed text may be
// searched in another order.
// Error: Z3 does not understand the text.
absl::StatusOr<SmtAnswer> AskZ3(const SmtQuery& query, unsigned limit = 50000000, double limit_s = 0);

// cvc5, a process of its own for all the queries, which come to it as one script with a reset after each; one that it
// gives up is put to it by itself, then with another strategy. `limit_s` seconds for each query, each time. Errors:
// NotFound where there is no program `cvc5`; it does not understand the script.
absl::StatusOr<std::vector<SmtAnswer>> AskCvc5(const std::vector<SmtQuery>& queries, double limit_s);

}  // namespace rewright
