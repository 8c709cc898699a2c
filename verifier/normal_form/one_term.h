// The laws of one term, and the merging of equal terms.
#pragma once

#include <vector>

#include "verifier/integer/context.h"
#include "verifier/normal_form/term.h"

namespace rewright::verifier {

// Drops the conditions that the others imply. A bound variable's recorded range counts if they state it.
Guard SimplifyGuard(Context& ctx, const Guard& g, const std::vector<Var>& bound);
bool MentionedByAtoms(const Term& t, Var v);
// The plain bounds lo <= v < lo + count of a variable that nothing else mentions. `rest` is the guard without them.
bool PlainRange(Context& ctx, const std::vector<Var>& bound, const Guard& guard, Var v, Poly* count, Guard* rest);

// Conditions (each >= 0) under which some integer v fulfils the guard: lower bounds -p / a and upper bounds q / b have
// an integer between them where a q + b p >= (a - 1)(b - 1), and where a = b already if p + q >= a - 1 (the dark shadow
// of Pugh's Omega test, 1991). False where the guard is no conjunction of such bounds on v.
bool Project(const Context& ctx, const Guard& guard, Var v, std::vector<Poly>* conditions, Guard* rest);
// True if the family holds a point at all sizes. Incomplete.
bool HasPoint(Context& ctx, const Family& family);

// Simplifies a family of values: the one-point rules, and, unless it counts how often a value `repeats`, dropping a
// variable over a non-empty range that nothing else mentions. False when the family is empty.
bool SimplifyFamily(Context& ctx, Family* family, bool repeats);

}  // namespace rewright::verifier
