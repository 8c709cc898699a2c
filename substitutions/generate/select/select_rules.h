// The second half of the generator: selects a small set of proved rules from which the other pairs of equal graphs
// follow.
//
// Pairs are stated as rules, as general as can be proved, and taken up from simple to complicated. One that follows
// from the rules kept so far by equality saturation (substitutions/egraph/derive.h) is dropped; the others go to the
// verifier. The work is done in rounds of fixed size, so that the result does not depend on the number of threads, and
// each finished round is in the journal.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/stop.h"
#include "substitutions/generate/enumerate/find_pairs.h"
#include "substitutions/generate/select/rule_builder.h"
#include "substitutions/language/rule.h"
#include "substitutions/match/matcher.h"

namespace rewright::generate {

struct SelectCounts {
  uint64_t pairs = 0;
  // Pairs that make no useful rule: a side that cannot be looked for, sides that are one graph in this project's
  // operators, or a constant on both sides.
  uint64_t unstated = 0;
  uint64_t repeated = 0;    // pairs that are stated by the same rule as another
  uint64_t candidates = 0;  // different rules
  uint64_t done = 0;        // of these, so far; below:
  uint64_t derivable = 0, kept = 0, refuted = 0, unknown = 0, special = 0;  // Fate
  // CPU seconds of this run's own work: statements, derivability, proofs and counterexamples, numerical classes.
  double state_s = 0, derive_s = 0, prove_s = 0, classify_s = 0;

  SelectCounts& operator+=(const SelectCounts& other);
};

struct SelectOptions {
  int threads = 1;
  uint64_t seed = 1;
  double rule_limit_s = 1;  // seconds of work for a proof (core/base/work.h)
  std::string prefix;       // of the rules' names
  std::vector<Rule> known;  // proved rules, no part of the selection; their consequences are dropped
  std::vector<std::shared_ptr<const Matcher>> given;  // likewise
  std::string journal;                                // a file to be resumed from and appended to; empty: none
  StopFlag stop = nullptr;
  std::function<void(const SelectCounts&)> progress;
};

struct Selection {
  SelectCounts counts;
  std::vector<Rule> rules;                // with names and proofs, in the order in which they were kept
  std::vector<Pair> refuted;              // pairs that are false: under every statement of theirs
  std::vector<std::string> explanations;  // of dropped candidates: the rules that derive it, or why it is not proved
  bool complete = true;                   // false: stopped
};

// Errors: of the journal.
absl::StatusOr<Selection> SelectRules(const Space& space, const std::vector<Pair>& pairs, const SelectOptions& options);

}  // namespace rewright::generate
