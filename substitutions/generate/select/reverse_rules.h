// Reverses rules that gain when they are read from right to left.
//
// The generator states a law once, from its complicated side to its simple one, and derives others from it in both
// directions. A search reads rules from left to right: where the other direction gains, it needs a rule of its own. The
// other direction gains if the complicated side takes as many operators and, at some sizes, less arithmetic or traffic.
// It also gains if, with some inputs weights, so much of it is computed at load that fewer operators or divisions are
// left: then these inputs have to be weights. Kernels of convolutions are taken for weights; a model in which they are
// not loses nothing, since costs decide.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/stop.h"
#include "substitutions/language/rule.h"

namespace rewright::generate {

struct ReverseOptions {
  int threads = 1;  // the result does not depend on it
  uint64_t seed = 1;
  double rule_limit_s = 1;  // seconds of work for a proof (core/base/work.h)
  std::string prefix;       // of the rules' names
  StopFlag stop = nullptr;
  std::function<void()> progress;  // called for every rule, from any thread
};

// The reversed rules that gain and that no single step of the rules does, with names and proofs of their own. `rules`
// are proved and have one output. Rules that are not proved in time are left out. Errors: a rule without a proof, or
// one that does not compile.
absl::StatusOr<std::vector<Rule>> ReverseRules(const std::vector<Rule>& rules, const ReverseOptions& options);

}  // namespace rewright::generate
