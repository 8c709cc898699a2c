// Variables that conditions determine: the prover's use of the laws by which equations between indices are solved
// (core/index/laws.h), over polynomials and under guards that need not state the range of every variable.
#pragma once

#include <optional>

#include "verifier/integer/context.h"
#include "verifier/integer/law.h"
#include "verifier/normal_form/term.h"

namespace rewright::verifier {

// The value of v where p = 0, by the law `solve`; nothing where v does not stand alone in p.
std::optional<Poly> SolvedFor(const Context& ctx, const Poly& p, Var v);

// Each does one step on the guard of a term, by which the term's value does not change; false where none applies.
//
// Conditions on digits become conditions on each digit.
bool SplitCondition(Context& ctx, Term* t);
// One-point rule: an equation that gives a bound variable removes it.
bool EliminateByEquation(Context& ctx, Term* t);
// lo <= v and v <= lo: the same rule for a range of one point.
bool EliminateSingleton(Context& ctx, Term* t);
// Bound variables that a division gives, as far as the strategy says.
bool EliminateByDivision(Context& ctx, Term* t);

// Tells the observer that two terms are the same sum: guards or indices differ, but are the same where the guard holds.
void Restated(Context& ctx, Law law, const Term& before, const Term& after);

}  // namespace rewright::verifier
