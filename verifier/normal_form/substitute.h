// Substitution in terms, and fresh names for bound variables. Bound variables are renamed where they would capture.
#pragma once

#include "verifier/integer/context.h"
#include "verifier/normal_form/term.h"

namespace rewright::verifier {

Atom Subst(Context& ctx, const Atom& a, const Substitution& s);
// Substitutes in guard and atoms; the term's own bound variables are left to the caller (s may replace them).
Term SubstFree(Context& ctx, const Term& t, const Substitution& s);
NormalForm Subst(Context& ctx, const NormalForm& n, const Substitution& s);
Family Subst(Context& ctx, const Family& b, const Substitution& s);
// Substitutes v given times * v = multiple: v becomes `quotient` = multiple / times, and its multiples of `times`
// become exact. The caller handles the term's own bound variables.
Term SubstQuotient(Context& ctx, const Term& t, Var v, const Poly& times, const Poly& multiple, const Poly& quotient);
// Fresh names for the term's own bound variables.
Term RenameBound(Context& ctx, const Term& t);
Family RenameBound(Context& ctx, const Family& b);
// Fresh names for every bound variable, inside atoms too.
NormalForm RenameAll(Context& ctx, const NormalForm& n);

}  // namespace rewright::verifier
