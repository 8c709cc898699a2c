#include "core/interpreter/oracle.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/interpreter/fixed_extents.h"
#include "core/ir/index_value.h"

namespace rewright {

// ---------------------------------------------------------------- elements

namespace {

OracleElement Real(DType dtype, double value) { return {dtype, NearestOf(ComputedDType(dtype), value), 0}; }

OracleElement Integer(DType dtype, int64_t value) {
  if (ComputedDType(dtype) == DType::kInt32) value = static_cast<int32_t>(value);
  if (dtype == DType::kBool) value = value != 0;
  return {dtype, 0, value};
}

// Truncates; values beyond the range of int64 are clamped, NaN is 0.
int64_t Truncate(double value) {
  if (std::isnan(value)) return 0;
  if (value >= 9223372036854775808.0) return std::numeric_limits<int64_t>::max();
  if (value < -9223372036854775808.0) return std::numeric_limits<int64_t>::min();
  return static_cast<int64_t>(value);
}

// Returns the result of an empty reduction of that kind.
OracleElement Identity(const OracleArithmetic& arithmetic, ReduceKind kind, DType dtype) {
  if (kind == ReduceKind::kSum) return arithmetic.FromInteger(dtype, 0);
  if (kind == ReduceKind::kProd) return arithmetic.FromInteger(dtype, 1);
  const bool least = kind == ReduceKind::kMax || kind == ReduceKind::kArgMax;
  if (dtype == DType::kBool) return Integer(dtype, !least);
  return VisitDType(ComputedDType(dtype), [&](auto t) {
    using T = typename decltype(t)::Type;
    if constexpr (std::is_integral_v<T>) {
      const T value = least ? std::numeric_limits<T>::min() : std::numeric_limits<T>::max();
      return Integer(dtype, static_cast<int64_t>(value));
    } else {
      const double infinity = std::numeric_limits<double>::infinity();
      return arithmetic.Number(dtype, least ? -infinity : infinity);
    }
  });
}

}  // namespace

OracleElement OracleArithmetic::Number(DType dtype, double value) const {
  if (IsFloating(dtype)) return Real(dtype, value);
  return Integer(dtype, dtype == DType::kBool ? value != 0 : Truncate(value));
}

OracleElement OracleArithmetic::FromInteger(DType dtype, int64_t value) const {
  return IsFloating(dtype) ? Real(dtype, static_cast<double>(value)) : Integer(dtype, value);
}

OracleElement OracleArithmetic::Read(DType dtype, const Tensor& tensor, int64_t at) const {
  return IsFloating(dtype) ? Real(dtype, tensor.At(at)) : Integer(dtype, tensor.AtInt(at));
}

void OracleArithmetic::Write(const OracleElement& element, Tensor* tensor, int64_t at) const {
  if (IsFloating(element.dtype)) {
    tensor->Set(at, element.real);
  } else {
    tensor->SetInt(at, element.integer);
  }
}

bool OracleArithmetic::Call(Fn fn, const OracleElement& a, const OracleElement& b, OracleElement* value) const {
  const DType result = FnHas(fn, FnTrait::kCompares) ? DType::kBool : a.dtype;
  const auto give = [&](const auto& computed) {
    if (!computed.exists) return false;
    *value = IsFloating(result) ? Real(result, static_cast<double>(computed.value))
                                : Integer(result, static_cast<int64_t>(computed.value));
    return true;
  };
  switch (ComputedDType(a.dtype)) {
    case DType::kFloat32: return give(Evaluate(fn, static_cast<float>(a.real), static_cast<float>(b.real)));
    case DType::kFloat64: return give(Evaluate(fn, a.real, b.real));
    case DType::kInt32: return give(Evaluate(fn, static_cast<int32_t>(a.integer), static_cast<int32_t>(b.integer)));
    case DType::kInt64: return give(Evaluate(fn, a.integer, b.integer));
    case DType::kUInt64: return give(Evaluate(fn, static_cast<uint64_t>(a.integer), static_cast<uint64_t>(b.integer)));
    case DType::kBool: return give(Evaluate(fn, static_cast<uint8_t>(a.integer), static_cast<uint8_t>(b.integer)));
    default: return false;
  }
}

// ---------------------------------------------------------------- expressions

namespace {

class Oracle {
 public:
  Oracle(const Meaning& meaning, const Bindings& bindings, const std::vector<Tensor>& inputs,
         const OracleArithmetic& arithmetic)
      : meaning_(meaning),
        variables_(bindings.variables),
        params_(bindings.params),
        inputs_(inputs),
        arithmetic_(arithmetic) {}

  // Computes the element at the position that the variables hold.
  OracleElement Element(const ExprPtr& e) { return OfScalar(*e); }
  void SetVariable(int id, int64_t value) { variables_[id] = value; }
  const absl::Status& status() const { return status_; }

 private:
  int64_t OfIndex(const ExprNode& e) {
    switch (e.kind()) {
      case ExprKind::kInt: return e.value();
      case ExprKind::kVar: return variables_[e.variable()];
      case ExprKind::kFromValue: return OfScalar(*e.arg(0)).integer;
      default: break;
    }
    if (e.kind() > ExprKind::kFromValue) return Fail("not an index"), 0;
    int64_t value;
    if (EvalIndex(e.kind(), OfIndex(*e.arg(0)), OfIndex(*e.arg(1)), &value)) return value;
    return Fail("an index has no value of 64 bits"), 0;
  }

  bool OfCond(const ExprNode& e) {
    switch (e.kind()) {
      case ExprKind::kBool: return e.truth();
      case ExprKind::kLess: return OfIndex(*e.arg(0)) < OfIndex(*e.arg(1));
      case ExprKind::kLessEqual: return OfIndex(*e.arg(0)) <= OfIndex(*e.arg(1));
      case ExprKind::kEqual: return OfIndex(*e.arg(0)) == OfIndex(*e.arg(1));
      case ExprKind::kAnd: return OfCond(*e.arg(0)) && OfCond(*e.arg(1));
      case ExprKind::kOr: return OfCond(*e.arg(0)) || OfCond(*e.arg(1));
      case ExprKind::kNot: return !OfCond(*e.arg(0));
      case ExprKind::kHolds: return OfScalar(*e.arg(0)).integer != 0;
      default: return Fail("not a condition"), false;
    }
  }

  OracleElement OfScalar(const ExprNode& e) {
    switch (e.kind()) {
      case ExprKind::kConst: return arithmetic_.Number(e.dtype(), e.real());
      case ExprKind::kParam: return arithmetic_.Number(e.dtype(), params_[e.param()]);
      case ExprKind::kFromIndex: return arithmetic_.FromInteger(e.dtype(), OfIndex(*e.arg(0)));
      case ExprKind::kRead: return OfRead(e);
      case ExprKind::kCall: {
        const OracleElement a = OfScalar(*e.arg(0));
        return Call(e.fn(), a, e.args().size() > 1 ? OfScalar(*e.arg(1)) : a);
      }
      case ExprKind::kSelect: return OfScalar(OfCond(*e.condition()) ? *e.yes() : *e.no());
      case ExprKind::kReduce: return OfReduction(e);
      case ExprKind::kCast: {
        const OracleElement a = OfScalar(*e.arg(0));
        if (IsFloating(a.dtype)) return arithmetic_.Number(e.dtype(), a.real);
        if (a.dtype == DType::kUInt64 && IsFloating(e.dtype())) {
          return arithmetic_.Number(e.dtype(), static_cast<double>(static_cast<uint64_t>(a.integer)));
        }
        return arithmetic_.FromInteger(e.dtype(), a.integer);
      }
      default: return Fail("not an element"), OracleElement();
    }
  }

  OracleElement OfRead(const ExprNode& e) {
    const Tensor& x = inputs_[e.operand()];
    int64_t offset = 0;
    for (size_t axis = 0; axis < e.args().size(); ++axis) {
      const int64_t index = OfIndex(*e.arg(axis)), size = x.shape()[axis];
      if (index < 0 || index >= size) {
        Fail(absl::StrCat("operand ", e.operand(), ": index ", index, " on axis ", axis, " of size ", size));
        return arithmetic_.FromInteger(e.dtype(), 0);
      }
      offset = offset * size + index;
    }
    return arithmetic_.Read(e.dtype(), x, offset);
  }

  OracleElement Call(Fn fn, const OracleElement& a, const OracleElement& b) {
    OracleElement value{a.dtype};
    if (!arithmetic_.Call(fn, a, b, &value) && status_.ok()) {
      status_ = absl::OutOfRangeError(absl::StrCat("the function ", FnName(fn), " has no value"));
    }
    return value;
  }
  bool Test(Fn fn, const OracleElement& a, const OracleElement& b) { return Call(fn, a, b).integer != 0; }

  // Terms are accumulated one after the other: the last bound variable runs fastest. A sum begins with 0; a sum over a
  // range of one place is its term, and keeps the sign of a zero.
  OracleElement OfReduction(const ExprNode& e) {
    OracleElement result = Identity(arithmetic_, e.reduction(), e.body()->dtype());
    int64_t position = -1;  // at which the extremum first occurred; -1: there was no term
    const auto is_one = [&](const BoundVar& variable) { return OfIndex(*variable.extent) == 1; };
    const bool one_place = HasFixedExtents(meaning_, e) && std::all_of(e.bound().begin(), e.bound().end(), is_one);
    OverTerms(e, 0, [&] {
      const OracleElement term = OfScalar(*e.body());
      switch (e.reduction()) {
        case ReduceKind::kSum: result = one_place ? term : Call(Fn::kAdd, result, term); break;
        case ReduceKind::kProd: result = Call(Fn::kMul, result, term); break;
        case ReduceKind::kMax: result = Call(Fn::kMax, result, term); break;
        case ReduceKind::kMin: result = Call(Fn::kMin, result, term); break;
        case ReduceKind::kArgMax:
        case ReduceKind::kArgMin:
          if (position < 0 || Beats(term, result, e.reduction() == ReduceKind::kArgMax)) {
            result = term;
            position = variables_[e.bound()[0].id];
          }
          break;
      }
    });
    return IsPosition(e.reduction()) ? Integer(e.dtype(), std::max<int64_t>(position, 0)) : result;
  }

  // The first NaN beats all numbers.
  bool Beats(const OracleElement& term, const OracleElement& best, bool max) {
    const bool new_nan = !Test(Fn::kEqual, term, term) && Test(Fn::kEqual, best, best);
    return new_nan || (max ? Test(Fn::kLess, best, term) : Test(Fn::kLess, term, best));
  }

  template <typename F>
  void OverTerms(const ExprNode& e, size_t depth, const F& take) {
    if (depth == e.bound().size()) {
      if (OfCond(*e.guard())) take();
      return;
    }
    const BoundVar& variable = e.bound()[depth];
    const int64_t extent = OfIndex(*variable.extent);
    for (int64_t i = 0; i < extent; ++i) {
      variables_[variable.id] = i;
      OverTerms(e, depth + 1, take);
    }
  }

  void Fail(const std::string& message) {
    if (status_.ok()) status_ = absl::InternalError(message);
  }

  const Meaning& meaning_;
  std::vector<int64_t> variables_;
  const std::vector<double>& params_;
  const std::vector<Tensor>& inputs_;
  const OracleArithmetic& arithmetic_;
  absl::Status status_;
};

}  // namespace

absl::StatusOr<std::vector<Tensor>> RunOracle(const Meaning& meaning, const Bindings& bindings,
                                              const std::vector<TensorType>& outputs, const std::vector<Tensor>& inputs,
                                              const OracleArithmetic& arithmetic) {
  std::vector<Tensor> results;
  if (meaning.IsOpaque()) {  // the reference function is the meaning
    for (const TensorType& type : outputs) results.emplace_back(type);
    RETURN_IF_ERROR(meaning.reference(bindings, inputs, &results));
    return results;
  }
  Oracle oracle(meaning, bindings, inputs, arithmetic);
  for (size_t k = 0; k < outputs.size(); ++k) {
    const OutputMeaning& output = meaning.outputs[k];
    Tensor result(outputs[k]);
    for (int64_t i = 0; i < result.num_elements(); ++i) {
      int64_t rest = i;
      for (size_t axis = output.index_vars.size(); axis-- > 0; rest /= outputs[k].shape[axis]) {
        oracle.SetVariable(output.index_vars[axis], rest % outputs[k].shape[axis]);
      }
      const OracleElement element = oracle.Element(output.element);
      if (!oracle.status().ok()) return oracle.status();
      arithmetic.Write(element, &result, i);
    }
    results.push_back(result);
  }
  return results;
}

}  // namespace rewright
