// Declarations that the sources of the algebra share: cases.cc (case analysis), one_term.cc (laws of one term),
// product_laws.cc, signs.cc, extrema.cc, monotone.cc, products.cc, function_laws.cc, real_functions.cc. Sources that
// compose or encode terms include this, too (prove/elements.cc, prove/reductions.cc, smt/encode_functions.cc).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "verifier/integer/context.h"
#include "verifier/normal_form/term.h"

namespace rewright::verifier {

// More terms than any honest rule makes; one with literal matrices multiplies them out.
inline size_t MostTerms(const Context& ctx) { return ctx.strategy.unroll ? 20000 : 600; }

using Families = std::vector<Family>;

// ---- cases.cc
// The form where `literal` holds and its negation does not.
NormalForm AssumeForm(Context& ctx, const NormalForm& n, const Guard& literal, const Guard& negation);
Atom AssumeAtom(Context& ctx, const Atom& a, const Guard& literal, const Guard& negation);
// Literals of the terms' guards that mention none of the variables bound by their own term.
std::vector<Guard> FreeLiterals(const Context& ctx, const NormalForm& n);

// ---- one_term.cc
// The a of max{a, 0}, or null.
const NormalForm* PositivePartOf(const Atom& a);
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

// ---- product_laws.cc
// One law of the term's factors, as long as one applies.
bool SimplifyFactors(Context& ctx, Term* t);

// ---- signs.cc
bool IsPositiveAtom(Context& ctx, const Atom& a);
bool IsNonnegativeAtom(Context& ctx, const Atom& a);
// The product of the atoms is >= 0.
bool IsNonnegativeTerm(Context& ctx, const Term& t);

// ---- function_laws.cc
// Whether it is of integers: its name ends in their type.
bool IsIntegerFunction(const std::string& name);
// True if the type in the name holds the number.
bool FitsType(const Rational& value, const std::string& name);

// ---- monotone.cc
// A function that increases on its domain, with its value num / den at `anchor`; den is 0 where no value is known.
struct Increasing {
  enum class Domain : uint8_t { kReals, kNonnegative, kPositive };
  const char* name;
  Domain domain;
  bool strictly;
  int64_t anchor, num, den;
};
const Increasing* FindIncreasing(const std::string& fn);  // null where it is none
bool IsInDomain(Context& ctx, const Increasing& fn, const NormalForm& argument);
// Takes increasing functions out of the families of a maximum; true where all of it is one, of another maximum.
bool PullIncreasing(Context& ctx, Families* families, NormalForm* maximum);
// The point where the family is greatest. It does not depend on a part that is the same everywhere, on positive
// factors, or on functions that increase strictly.
NormalForm ArgmaxOver(Context& ctx, const Family& family);

// ---- real_functions.cc
NormalForm ApplyFloor(Context& ctx, const NormalForm& x);
NormalForm ApplyRound(Context& ctx, const NormalForm& x);
NormalForm ApplySqrt(Context& ctx, const NormalForm& x);
std::optional<NormalForm> PowerOfLog(Context& ctx, const Term& t);
std::optional<NormalForm> TruthByCases(Context& ctx, const NormalForm& x, bool zero);

// ---- extrema.cc
// The positive rational that makes all coefficients coprime integers when they are divided by it.
Rational ContentOf(const Families& families);
// Removes one factor `factor` from each term; all terms have it.
void RemoveFactor(const Context& ctx, const Atom& factor, NormalForm* n);

}  // namespace rewright::verifier
