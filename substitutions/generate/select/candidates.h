// Pairs of equal graphs as statements that can be proved and looked for: the candidates for rules.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "substitutions/generate/enumerate/fingerprint.h"
#include "substitutions/generate/select/rule_builder.h"
#include "substitutions/language/rule.h"

namespace rewright::generate {

struct Candidate {
  Pair pair;  // first => second is the rule
  std::vector<int> outputs;
  Rule rule;  // as general as can be stated
  Generality generality = Generality::kSpace;
  std::string law, key;
  int inputs = 0;
  int64_t size = 0;
  bool merge = false;
  bool special = false;  // the weight of a convolution stands for an image
};

struct Candidates {
  std::vector<Candidate> candidates;    // from simple to complicated; no two say the same
  uint64_t unstated = 0, repeated = 0;  // pairs, as in SelectCounts
};

Candidates StateCandidates(const Space& space, const std::vector<Pair>& pairs, uint64_t seed);

// States the candidate with at most that generality, and with the condition unless it is empty. Nothing if it cannot be
// stated so.
std::optional<Rule> StateAs(const Space& space, const Candidate& candidate, Generality generality,
                            const std::string& condition);

}  // namespace rewright::generate
