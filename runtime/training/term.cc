#include "runtime/training/term.h"

#include <utility>

#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "core/ops/ops.h"

namespace rewright {

Term Apply(const OpDef* op, const std::vector<Term>& operands, Attrs attrs) {
  CHECK(!operands.empty());
  Arena& arena = operands.front().arena();
  std::vector<Value> values;
  for (const Term& operand : operands) values.push_back(operand.value());
  const auto node = arena.Add(*op, std::move(values), std::move(attrs));
  CHECK(node.ok()) << node.status();
  return Term(arena, Value{*node, 0});
}

Term Term::Number(Arena& arena, DType dtype, double value) {
  return Term(arena, arena.AddConstant(Tensor::Scalar(dtype, value)));
}

Term Term::Cast(DType dtype) const {
  return type().dtype == dtype ? *this : Apply(ops::Cast(), {*this}, {{"to", dtype}});
}

Term Term::Reshape(const Shape& shape) const {
  return type().shape == shape ? *this : Apply(ops::Reshape(), {*this}, {{"shape", shape}});
}

Term operator+(const Term& a, const Term& b) { return Apply(ops::Add(), {a, b}); }
Term operator-(const Term& a, const Term& b) { return Apply(ops::Sub(), {a, b}); }
Term operator*(const Term& a, const Term& b) { return Apply(ops::Mul(), {a, b}); }
Term operator/(const Term& a, const Term& b) { return Apply(ops::Div(), {a, b}); }
Term operator-(const Term& a) { return Apply(ops::Neg(), {a}); }

Term Sqrt(const Term& x) { return Apply(ops::Sqrt(), {x}); }
Term Abs(const Term& x) { return Apply(ops::Abs(), {x}); }
Term Floor(const Term& x) { return Apply(ops::Floor(), {x}); }
Term Cos(const Term& x) { return Apply(ops::Cos(), {x}); }
Term Pow(const Term& base, const Term& exponent) { return Apply(ops::Pow(), {base, exponent}); }
Term Min(const Term& a, const Term& b) { return Apply(ops::Min(), {a, b}); }
Term Max(const Term& a, const Term& b) { return Apply(ops::Max(), {a, b}); }
Term Less(const Term& a, const Term& b) { return Apply(ops::Less(), {a, b}); }
Term Equal(const Term& a, const Term& b) { return Apply(ops::Equal(), {a, b}); }
Term Where(const Term& condition, const Term& a, const Term& b) { return Apply(ops::Where(), {condition, a, b}); }

Term Sum(const Term& x, const std::vector<int64_t>& axes) {
  return axes.empty() ? x : Apply(ops::ReduceSum(), {x}, {{"axes", axes}, {"keepdims", int64_t{0}}});
}

Term Mean(const Term& x, const std::vector<int64_t>& axes) {
  return axes.empty() ? x : Apply(ops::ReduceMean(), {x}, {{"axes", axes}, {"keepdims", int64_t{0}}});
}

std::vector<int64_t> AxesFrom(const Term& x, int kept) {
  std::vector<int64_t> axes;
  for (int axis = kept; axis < x.type().rank(); ++axis) axes.push_back(axis);
  return axes;
}

absl::StatusOr<Value> ConcatTree(Arena& arena, const std::vector<Value>& values, int64_t axis) {
  if (values.size() == 1) return values[0];
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  ASSIGN_OR_RETURN(const Value first, ConcatTree(arena, {values.begin(), middle}, axis));
  ASSIGN_OR_RETURN(const Value second, ConcatTree(arena, {middle, values.end()}, axis));
  return arena.Apply("concat", {first, second}, {{"axis", axis}});
}

Term LargestMagnitude(const Term& x) {
  const std::vector<int64_t> axes = AxesFrom(x, 0);
  return axes.empty() ? Abs(x) : Apply(ops::ReduceMax(), {Abs(x)}, {{"axes", axes}, {"keepdims", int64_t{0}}});
}

}  // namespace rewright
