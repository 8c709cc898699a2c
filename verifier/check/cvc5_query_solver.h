// Asks cvc5, in a process of its own. It is a second opinion: its answers can refuse a proof, and make none.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "verifier/check/query_solver.h"

namespace rewright {

// Starts one process for all the queries, which come to it as one script with a reset after each; one that it
// gives up is put to it by itself, then with another strategy. `limit_s` seconds of work for each query, each time,
// counted in its resource units. Errors: NotFound where there is no program `cvc5`; it does not understand the script,
// or ends before it has answered all of it; it hangs.
absl::StatusOr<std::vector<SmtAnswer>> AskCvc5(const std::vector<SmtQuery>& queries, double limit_s);

}  // namespace rewright
