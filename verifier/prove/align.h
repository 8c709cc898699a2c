// Changes of summation variables that carry one term to another, found by unifying index polynomials.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "verifier/integer/context.h"
#include "verifier/normal_form/term.h"

namespace rewright::verifier {

// Solves the equations p = 0 for the unknowns that stand alone with coefficient 1 or -1; may leave some unsolved.
Substitution SolveLinear(Context& ctx, std::vector<Poly> equations, const std::vector<Var>& unknowns);

// The determinant of a square matrix; nothing where a number on the way does not fit 64 bits.
std::optional<int64_t> Determinant(std::vector<std::vector<int64_t>> matrix);

// Substitutions of t.bound by polynomials over anchor.bound that are bijections of Z^k (integer, unimodular) and that
// match the atoms of the two terms as far as unification sees.
std::vector<Substitution> Alignments(Context& ctx, const Term& t, const Term& anchor);

// t after the substitution, summed over the anchor's variables.
Term ApplyAlignment(Context& ctx, const Term& t, const Substitution& s, const Term& anchor);

// The same for changes that are not bijections, like v -> 2 v + 1: the term is summed over the anchor's variables u
// as  SUM_u SUM_v [u = f(v)] t(v),  and each v is given by an equation  c v = e,  which says that c divides e and that
// v is the quotient. Terms of the anchor's bound variables.
struct StretchedTerm {
  Term term;
  Substitution forward;   // t's variables by the anchor's
  Substitution backward;  // the anchor's variables by t's
};
std::vector<StretchedTerm> StretchedAlignments(Context& ctx, const Term& t, const Term& anchor);

// The same sum over fresh variables that have no recorded range: facts about them follow from the guard alone.
Term FreeAnchor(Context& ctx, const Term& t);
Family FreeAnchor(Context& ctx, const Family& b);

}  // namespace rewright::verifier
