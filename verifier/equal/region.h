// A piece of two models in a graph of its own: pairs of values that ought to be equal, computed from values that both
// models have. The shared values are the region's leaves. A proof knows only the type of a leaf, but a value that is
// known before a run keeps its computation and its elements.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "core/ir/graph.h"
#include "substitutions/language/rule.h"

namespace rewright {

struct Region {
  std::shared_ptr<Arena> arena;
  std::vector<std::pair<Value, Value>> pairs;
  int applications = 0;
};

// The region of `pairs` of `arena`: computed back to the values of `cut`, inputs and known leaves. The values of pairs
// themselves are not cut.
Region MakeRegion(const Arena& arena, const std::vector<std::pair<Value, Value>>& pairs,
                  const absl::flat_hash_set<Value>& cut);

// Values of `cut` and inputs at which the computation of `values` begins, those that are known left out; in order.
std::vector<Value> BeginningOf(const Arena& arena, const std::vector<Value>& values,
                               const absl::flat_hash_set<Value>& cut);

// The cut without values that are in the way of a common beginning of both sides, where there is one nearby.
absl::flat_hash_set<Value> CommonCut(const Arena& arena, const std::vector<std::pair<Value, Value>>& pairs,
                                     const absl::flat_hash_set<Value>& cut);

// Names sizes of a rule: those of an attribute that is not structural, or of a leaf, whose `attribute` is empty. Sizes
// without a name stay numbers.
using SizeNames =
    std::function<std::vector<ArgExpr>(NodeId node, const std::string& attribute, const std::vector<int64_t>& sizes)>;

// The region as a rule, the first of each pair on the left, at its own sizes or at those that `left` and `right` name
// on their sides. The rule is a conjecture: a proof of it proves the region. Errors: the right side reads leaves that
// the left one does not.
absl::StatusOr<Rule> RegionRule(const Region& region, const std::string& name, const SizeNames& left = nullptr,
                                const SizeNames& right = nullptr);

}  // namespace rewright
