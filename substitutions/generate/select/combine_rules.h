// Combines several files of proved rules into one set for the search.
//
// The generator's files hold laws: a law that follows from others in either direction is left out, and a law that can
// never gain is kept as long as something follows from it. A search reads rules from left to right and looks at every
// match, so its set is chosen differently. The first file is the base: its rules are given. The rules of the other
// files are visited from simple to complicated, and a rule is added
//   for its gain          at some of its instances, with some of its inputs weights, it takes fewer operators, less
//                         arithmetic or less traffic, and the rules so far, read from left to right, do not lead from
//                         its two sides to one graph: it adds something, and does not undo one of them;
//   for what it enables   read backwards it fits into the left side of a rule that gains, and the rules without it do
//                         not derive the result of these two steps.
// A rule that leads back by itself, x + (y + z) => y + (x + z), would be applied without end, so it is left out: the
// base has the exchanges that are wanted. A rule whose outputs share only a scalar is left out: every pair of the
// scalar's readers would be a match. A new rule replaces a rule of the base that it covers, if that one has no
// conditions on values.
//
// All these tests run on instances (substitutions/egraph/derive.h); the proofs of the rules show that they are true.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/stop.h"
#include "substitutions/language/rule.h"

namespace rewright::generate {

struct CombineOptions {
  int threads = 1;  // the result does not depend on it
  uint64_t seed = 1;
  StopFlag stop = nullptr;
  std::function<void(size_t done, size_t all)> progress;  // rules of the files after the base
};

struct Combination {
  std::vector<Rule> rules;                                             // the base, and then the rules that were added
  int replaced = 0;                                                    // rules of the base
  int gaining = 0, enabling = 0;                                       // added
  int derivable = 0, exchanging = 0, unrelated = 0, without_gain = 0;  // left out
  std::vector<std::string> explanations;  // of rules that are replaced, left out, or enable others
  bool complete = true;                   // false: stopped
};

// Errors: a rule without a proof, or one that does not compile; a name that occurs twice.
absl::StatusOr<Combination> CombineRules(const std::vector<std::vector<Rule>>& files, const CombineOptions& options);

}  // namespace rewright::generate
