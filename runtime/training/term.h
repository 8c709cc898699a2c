// Formulas over the values of an arena, written as they stand in papers.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "core/ir/graph.h"

namespace rewright {

// A value and the arena it is of. Operators broadcast as in NumPy; a number stands for a constant of the other
// operand's type. Operands that do not fit together are a bug of ours (CHECK).
class Term {
 public:
  Term(Arena& arena, Value value) : arena_(&arena), value_(value) {}
  static Term Number(Arena& arena, DType dtype, double value);

  Value value() const { return value_; }
  Arena& arena() const { return *arena_; }
  const TensorType& type() const { return arena_->type(value_); }

  // A constant of this term's element type.
  Term Like(double value) const { return Number(*arena_, type().dtype, value); }
  Term Cast(DType dtype) const;
  Term Reshape(const Shape& shape) const;

 private:
  Arena* arena_;
  Value value_;
};

// The operator of that name (core/ops) applied to these.
Term Apply(const OpDef* op, const std::vector<Term>& operands, Attrs attrs = {});

Term operator+(const Term& a, const Term& b);
Term operator-(const Term& a, const Term& b);
Term operator*(const Term& a, const Term& b);
Term operator/(const Term& a, const Term& b);
Term operator-(const Term& a);
inline Term operator+(const Term& a, double b) { return a + a.Like(b); }
inline Term operator-(const Term& a, double b) { return a - a.Like(b); }
inline Term operator*(const Term& a, double b) { return a * a.Like(b); }
inline Term operator/(const Term& a, double b) { return a / a.Like(b); }
inline Term operator+(double a, const Term& b) { return b.Like(a) + b; }
inline Term operator-(double a, const Term& b) { return b.Like(a) - b; }
inline Term operator*(double a, const Term& b) { return b.Like(a) * b; }
inline Term operator/(double a, const Term& b) { return b.Like(a) / b; }

Term Sqrt(const Term& x);
Term Abs(const Term& x);
Term Floor(const Term& x);
Term Cos(const Term& x);
Term Pow(const Term& base, const Term& exponent);
Term Min(const Term& a, const Term& b);
Term Max(const Term& a, const Term& b);
Term Less(const Term& a, const Term& b);
Term Equal(const Term& a, const Term& b);
Term Where(const Term& condition, const Term& a, const Term& b);
// Over these axes, which go.
Term Sum(const Term& x, const std::vector<int64_t>& axes);
Term Mean(const Term& x, const std::vector<int64_t>& axes);
// Over all axes but the first `kept`.
std::vector<int64_t> AxesFrom(const Term& x, int kept);
// Values one after another along an axis, by binary concatenations in a balanced tree: laws of two operands apply to
// it, and gradients of the parts are halves of halves. REQUIRES: a value. Errors: values that do not fit together.
absl::StatusOr<Value> ConcatTree(Arena& arena, const std::vector<Value>& values, int64_t axis);
// The largest magnitude of an element, a scalar: NaN where there is one.
Term LargestMagnitude(const Term& x);

}  // namespace rewright
