// Operators for estimating rounding errors: the roundings inside of one operator, from its declaration, and the sum of
// their effects on a result. They are made when they are asked for, and live as long as the process. Thread-safe.
//
// Each operation of an element's expression gives (1 + d) times its result, |d| <= u (Higham, Accuracy and Stability of
// Numerical Algorithms, 2.2). The effect on the element is followed to first order:
//
//   worst(f(a, b))  = r |f(a, b)| + |df/da| worst(a) + |df/db| worst(b)
//   square(f(a, b)) = s k f(a, b)^2 + (df/da)^2 square(a) + (df/db)^2 square(b)
//
// in units of u and u^2, where r is the number of roundings of f: none of exact functions, 1 of + - * / and the root, 4
// of others, since libraries give these within two units in the last place. s is 0, 1 and 2. k = 0.18 is the mean
// square of a rounding, of numbers whose mantissas are distributed logarithmically. A sum S of n terms t is added up
// one term after another (Higham, 4.2):
//
//   worst  = sum worst(t) + n sum |t|
//   square = sum square(t) + k (n S^2 / 3 + (n Q - S^2) / 6),  Q = sum t^2
//
// The latter is the mean over all orders of the terms of the sum of squares of partial sums.
#pragma once

#include <optional>

#include "absl/status/statusor.h"
#include "core/ir/op.h"

namespace rewright {

// The mean square of one rounding, in units of the square of the unit roundoff: (3 / 8) / (3 ln 2), from errors that
// are uniform within half a unit in the last place and mantissas of density 1 / (m ln 2).
inline constexpr double kMeanSquareOfRounding = 0.18033688011112042;

// The number of roundings of a call at worst, and their mean square in units of that of one rounding.
struct Roundings {
  double worst = 0, square = 0;
};
Roundings RoundingsOf(const ExprNode& call);

// Returns the operator op_rounding(inputs of op; attributes of op), which gives tensors of the shape of output
// `output`: worst, and square if elements are made of reductions. They are in the type of that output, in units of the
// unit roundoff of the type in which op is computed. Magnitudes beyond 1e18 count as 1e18. Applying it is an error
// where the output is no float, or opaque.
const OpDef& RoundingOp(const OpDef& op, int output);

// Returns the roundings of an element that is one call of a function of reads and numbers, or none.
std::optional<Roundings> RoundingsOfOneCall(const ExprNode& element);

// Returns the operator op_carried(x of op.., e..; attributes of op), with an error e of the type of x for each operand
// x: by how much, to first order, the elements of output `output` move at most when those of operands move by |e|.
// Errors of integers are not read. Decisions that fall otherwise are left out. Applying it is an error where the
// output is no float, or opaque.
const OpDef& CarriedErrorOp(const OpDef& op, int output);

// Returns the identity with derivative 0.
const OpDef& HoldOp();

// ExtremumTermsOp gives op_terms(x, m; attributes of op) for an operator whose element is the extremum m of elements of
// operand 0, such as a window's maximum: the sum of the elements that equal m. Its derivative is 1 at every element
// that equals the extremum; a derivative of op itself would search for the extremum again.
bool IsExtremumOfReads(const OpDef& op, const Meaning& meaning);
const OpDef& ExtremumTermsOp(const OpDef& op);

// One cause of the error of a value, where u is the derivative of a result by the value: the worst case and the square
// that it adds.
enum class ErrorTerm : uint8_t {
  kOf,      // w: |u| |w| and u^2 w^2
  kSquare,  // w: 0 and u^2 w^2
  kRoot,    // q: |u| sqrt(q) and u^2 q
  kPair,    // w, s: |u| w and u^2 s
  kPlain,   // |u| and u^2
};
inline constexpr int kMostErrorTerms = 3;

// Returns the operator error_sum(u, operands of the terms..) of a list `terms`. Its result has an axis of two before
// the last `kept` axes of u: the sums over u's other axes of the terms' worst cases, each times the attribute worst0,
// worst1.., and of their squares, times square0, square1...
const OpDef& ErrorSumOp();

// True if output 0 of the operator is a sum of products of elements, one of each operand at most: the operator applied
// to squared operands then gives the sum of squares of the terms. `terms`: their number, an expression in sizes and
// attributes; null where it depends on the position.
bool IsSumOfProducts(const Meaning& meaning, ExprPtr* terms);

// Returns op_squares(inputs of op; attributes of op) for an operator of such a meaning: the sum of squares of its
// terms. It is the operator applied to squared operands, without the memory for these.
const OpDef& TermSquaresOp(const OpDef& op);

}  // namespace rewright
