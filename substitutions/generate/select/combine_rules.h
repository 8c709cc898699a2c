// One set for the search out of several files of proved rules.
//
// The generator's files hold laws: what follows from others in either direction is left out, and what can never gain is
// kept as long as something follows from it. A search reads rules from left to right and looks at every match, so its
// set is chosen differently. The rules of the first file, the base, are given. Of the others, from simple to
// complicated, a rule is added
//   for what it gains     at some of its instances, with some of its inputs weights, it takes fewer operators, less
//                         arithmetic or less traffic, and the rules so far, read from left to right, do not lead from
//                         its two sides to one graph: it says more than they do, and does not undo one of them;
//   for what it enables   read backwards it fits into the left side of a rule that gains, and of these two steps the
//                         rules without it do not say as much.
// A rule that leads back by itself, x + (y + z) => y + (x + z), would be applied without end: the base says where to
// exchange what. Outputs that meet in a number alone would make every pair of its readers a match. A rule of the base
// without conditions on values that another covers is replaced by it.
//
// All of this is looked at on instances (substitutions/egraph/derive.h); that the rules are true is for their proofs.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "substitutions/language/rule.h"

namespace rewright::generate {

struct CombineOptions {
  int threads = 1;  // the result does not depend on it
  uint64_t seed = 1;
  const std::atomic<bool>* stop = nullptr;
  std::function<void(size_t done, size_t all)> progress;  // rules of the files after the base
};

struct Combination {
  std::vector<Rule> rules;                              // the base, and then what was added
  int replaced = 0;                                     // rules of the base
  int gaining = 0, enabling = 0;                        // added
  int derivable = 0, exchanging = 0, unrelated = 0, without_gain = 0;  // left out
  std::vector<std::string> explanations;                // of what was replaced or left out, and of what enables
  bool complete = true;                                 // false: stopped
};

// Errors: a rule without a proof, or one that does not compile; a name that occurs twice.
absl::StatusOr<Combination> CombineRules(const std::vector<std::vector<Rule>>& files, const CombineOptions& options);

}  // namespace rewright::generate
