// Rules read from right to left, where that gains.
//
// The generator states a law once, from its complicated side to its simple one, and derives others from it in both
// directions. A search reads rules from left to right: where the other direction gains, it is a rule of its own. That
// is so where the complicated side does with as many operators less arithmetic or traffic at some sizes, or where with
// some inputs weights so much of it is computed at load that there are fewer operators or divisions left: then these
// have to be weights. Kernels of convolutions are taken for weights; a model in which they are not loses nothing, since
// costs decide.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "substitutions/language/rule.h"

namespace rewright::generate {

struct ReverseOptions {
  int threads = 1;  // the result does not depend on it
  uint64_t seed = 1;
  double rule_limit_s = 1;  // seconds of work for a proof (core/base/work.h)
  std::string prefix;       // of the rules' names
  const std::atomic<bool>* stop = nullptr;
  std::function<void()> progress;  // called for every rule, from any thread
};

// Of proved rules of one output: those reversed ones that gain and that no single step of the rules does, with names
// and proofs of their own. What is not proved in time is left out. Errors: a rule without a proof, or one that does not
// compile.
absl::StatusOr<std::vector<Rule>> ReverseRules(const std::vector<Rule>& rules, const ReverseOptions& options);

}  // namespace rewright::generate
