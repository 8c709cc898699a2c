// Tests which rules follow from others.
//
// A goal is derived when at several of its instances (structural values, with sizes and attributes that differ wherever
// the goal lets them) the rules make its two sides one class of an e-graph. This is a test at instances, not a proof: a
// derived goal may be false at other sizes. The verifier decides if it is true; a goal that is true and derived need
// not be kept beside the rules.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "substitutions/egraph/saturate.h"
#include "substitutions/instance/compiled_rule.h"
#include "substitutions/instance/random_application.h"

namespace rewright {

struct DeriveOptions {
  SaturationLimits limits = {.max_rounds = 8, .max_nodes = 2000, .max_matches_of_rule = 200, .max_merge_rounds = 2};
  // The number of structures, or of sizes of one structure if there are fewer.
  int instances = 3;
  uint64_t seed = 1;  // of sizes and attributes
};

struct Derivation {
  bool derived = false;
  int instances = 0;    // at which the sides met
  std::string missing;  // the first instance at which they did not: its structural values and sizes
  SaturationEnd end = SaturationEnd::kSaturated;  // there; kDone where derived
  std::vector<int64_t> uses;                      // by rule: matches that made classes equal, needed or not
};

// Errors: no instance of the goal can be drawn, or its right side cannot be built at one.
absl::StatusOr<Derivation> Derive(const CompiledRule& goal, const std::vector<DirectedRule>& rules,
                                  const DeriveOptions& options = {});

// The instances at which Derive() looks, one after the other, until `visit` gives false.
absl::Status ForEachDrawnInstance(const CompiledRule& goal, const DeriveOptions& options,
                                  const std::function<bool(const RandomApplication&)>& visit);

// Saturates the e-graph until the two values of each pair, which are added, are equal. kDone: they are.
SaturationResult MakeEqual(EGraph& egraph, const std::vector<std::pair<Value, Value>>& pairs,
                           const std::vector<DirectedRule>& rules, SaturationLimits limits);

}  // namespace rewright
