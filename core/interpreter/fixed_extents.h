// Tells which reductions have the same range at every element. A sum over one place that does is its term: no zero is
// added, which would make 0 of -0 (docs/decisions/127).
#pragma once

#include <algorithm>
#include <vector>

#include "core/ir/op.h"
#include "core/ir/rewrite.h"

namespace rewright {

// True of variables that sizes and attributes give.
inline bool IsFixed(Meaning::VarKind kind) {
  return kind == Meaning::VarKind::kSize || kind == Meaning::VarKind::kAttr;
}

// True if sizes and attributes alone decide the extents of the reduction.
inline bool HasFixedExtents(const Meaning& meaning, const ExprNode& reduction) {
  const auto is_fixed = [&](int variable) { return IsFixed(meaning.variables[static_cast<size_t>(variable)].kind); };
  return std::all_of(reduction.bound().begin(), reduction.bound().end(), [&](const BoundVar& bound) {
    const std::vector<int> free = FreeVariables(bound.extent);
    return !bound.extent->ReadsData() && std::all_of(free.begin(), free.end(), is_fixed);
  });
}

}  // namespace rewright
