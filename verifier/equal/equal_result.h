// Notes results in the same form for all ways of proving models equal (equal.h).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "verifier/equal/equal.h"
#include "verifier/equal/prove_region.h"

namespace rewright {

void AddProved(RegionOutcome outcome, EqualResult* result);

// A pair that stays open, with its region; the names say which values they are.
void AddOpen(const Arena& arena, const std::vector<std::pair<Value, Value>>& pairs,
             const absl::flat_hash_set<Value>& cut, const std::string& name_a, const std::string& name_b,
             EqualResult* result);

// The smallest open regions, in order.
void KeepSmallest(EqualResult* result);

}  // namespace rewright
