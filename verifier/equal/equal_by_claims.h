// Equality along a path of claims, by congruence.
#pragma once

#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/ir/graph.h"
#include "verifier/equal/equal.h"

namespace rewright {

// A claimed step from a graph to an equal one: values, and their replacements.
using EqualityClaim = std::vector<std::pair<Value, Value>>;

// Proves that two graphs of one arena are equal, from claims that are proved one by one. The outputs are equal if they
// are congruent by the proved claims. An unproved claim is not used; the outputs may be proved all the same. Nothing is
// run and nothing attacked: the answer is kProved or kOpen.
absl::StatusOr<EqualResult> ProveByClaims(const Graph& a, const Graph& b, const std::vector<EqualityClaim>& claims,
                                          const EqualOptions& options);

}  // namespace rewright
