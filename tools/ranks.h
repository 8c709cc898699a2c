// Verbs that several processes work on.
#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "runtime/comm/communicator.h"
#include "tools/verb.h"

namespace rewright {

// What `work` gives. Where it fails on one of several ranks, that one says so, as one of `verb`, and ends all of them;
// an interruption, which all of them agree about, ends none.
absl::StatusOr<Answer> OnProcessRanks(const std::string& verb, Communicator& ranks, Console& console,
                                      const std::function<absl::StatusOr<Answer>()>& work);

}  // namespace rewright
