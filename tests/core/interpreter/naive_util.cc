#include "tests/core/interpreter/naive_util.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"

namespace rewright {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// An element: `real` for floating types (f32 values are kept rounded to float), `integer` for the others.
struct Element {
  DType dtype = DType::kFloat32;
  double real = 0;
  int64_t integer = 0;
};

Element Real(DType dtype, double value) {
  return {dtype, dtype == DType::kFloat32 ? static_cast<double>(static_cast<float>(value)) : value, 0};
}

Element Integer(DType dtype, int64_t value) {
  if (dtype == DType::kInt32) value = static_cast<int32_t>(value);
  return {dtype, 0, dtype == DType::kBool ? value != 0 : value};
}

Element Make(DType dtype, double value) {
  return IsFloating(dtype) ? Real(dtype, value) : Integer(dtype, static_cast<int64_t>(value));
}

double MaxOf(double a, double b) { return std::isnan(a) || std::isnan(b) ? std::nan("") : std::max(a, b); }
double MinOf(double a, double b) { return std::isnan(a) || std::isnan(b) ? std::nan("") : std::min(a, b); }

class Naive {
 public:
  Naive(const Bindings& bindings, const std::vector<Tensor>& inputs)
      : vars_(bindings.variables), params_(bindings.params), inputs_(inputs) {}

  std::vector<int64_t>& vars() { return vars_; }
  const absl::Status& status() const { return status_; }

  int64_t Index(const ExprPtr& e) {
    if (e->kind() == ExprKind::kInt) return e->value();
    if (e->kind() == ExprKind::kVar) return vars_[e->variable()];
    if (e->kind() == ExprKind::kFromValue) return Scalar(e->arg(0)).integer;
    const int64_t a = Index(e->arg(0));
    const int64_t b = Index(e->arg(1));
    const auto floor_div = [&] { return static_cast<int64_t>(std::floor(static_cast<long double>(a) / b)); };
    switch (e->kind()) {
      case ExprKind::kIndexAdd: return a + b;
      case ExprKind::kIndexSub: return a - b;
      case ExprKind::kIndexMul: return a * b;
      case ExprKind::kFloorDiv: return floor_div();
      case ExprKind::kMod: return a - b * floor_div();
      case ExprKind::kIndexMin: return std::min(a, b);
      default: return std::max(a, b);
    }
  }

  bool Cond(const ExprPtr& e) {
    switch (e->kind()) {
      case ExprKind::kBool: return e->truth();
      case ExprKind::kLess: return Index(e->arg(0)) < Index(e->arg(1));
      case ExprKind::kLessEqual: return Index(e->arg(0)) <= Index(e->arg(1));
      case ExprKind::kEqual: return Index(e->arg(0)) == Index(e->arg(1));
      case ExprKind::kAnd: return Cond(e->arg(0)) && Cond(e->arg(1));
      case ExprKind::kOr: return Cond(e->arg(0)) || Cond(e->arg(1));
      case ExprKind::kNot: return !Cond(e->arg(0));
      default: return Scalar(e->arg(0)).integer != 0;
    }
  }

  Element Scalar(const ExprPtr& e) {
    switch (e->kind()) {
      case ExprKind::kConst: return Make(e->dtype(), e->real());
      case ExprKind::kParam: return Make(e->dtype(), params_[e->param()]);
      case ExprKind::kFromIndex: {
        const int64_t index = Index(e->arg(0));
        return IsFloating(e->dtype()) ? Real(e->dtype(), static_cast<double>(index)) : Integer(e->dtype(), index);
      }
      case ExprKind::kRead: return Read(e);
      case ExprKind::kCall: {
        const Element a = Scalar(e->arg(0));
        return Call(e->fn(), e->dtype(), a, e->args().size() > 1 ? Scalar(e->arg(1)) : a);
      }
      case ExprKind::kSelect: return Scalar(Cond(e->condition()) ? e->yes() : e->no());
      case ExprKind::kReduce: return Reduce(e);
      case ExprKind::kCast: {
        const Element a = Scalar(e->arg(0));
        if (IsFloating(e->dtype()))
          return Real(e->dtype(), IsFloating(a.dtype) ? a.real : static_cast<double>(a.integer));
        if (e->dtype() == DType::kBool) return Integer(e->dtype(), IsFloating(a.dtype) ? a.real != 0 : a.integer);
        return Integer(e->dtype(), IsFloating(a.dtype) ? static_cast<int64_t>(a.real) : a.integer);
      }
      default: Fail("not a scalar"); return {};
    }
  }

 private:
  void Fail(const std::string& message) {
    if (status_.ok()) status_ = absl::InternalError(message);
  }

  Element Read(const ExprPtr& e) {
    const Tensor& x = inputs_[e->operand()];
    int64_t offset = 0;
    for (size_t axis = 0; axis < e->args().size(); ++axis) {
      const int64_t index = Index(e->arg(axis));
      if (index < 0 || index >= x.shape()[axis]) {
        Fail(
            absl::StrCat("operand ", e->operand(), ": index ", index, " on axis ", axis, " of size ", x.shape()[axis]));
        return Make(e->dtype(), 0);
      }
      offset = offset * x.shape()[axis] + index;
    }
    if (IsFloating(e->dtype())) return Real(e->dtype(), x.At(offset));
    return Integer(e->dtype(), x.AtInt(offset));
  }

  template <typename F>
  static F Apply(Fn fn, F a, F b) {
    switch (fn) {
      case Fn::kAdd: return a + b;
      case Fn::kSub: return a - b;
      case Fn::kMul: return a * b;
      case Fn::kDiv: return a / b;
      case Fn::kNeg: return -a;
      case Fn::kPow: return std::pow(a, b);
      case Fn::kExp: return std::exp(a);
      case Fn::kLog: return std::log(a);
      case Fn::kSqrt: return std::sqrt(a);
      case Fn::kErf: return std::erf(a);
      case Fn::kTanh: return std::tanh(a);
      case Fn::kSigmoid: return 1 / (1 + std::exp(-a));
      case Fn::kAbs: return std::fabs(a);
      case Fn::kFloor: return std::floor(a);
      default: return std::ceil(a);
    }
  }

  Element Call(Fn fn, DType dtype, const Element& a, const Element& b) {
    const bool real = IsFloating(a.dtype);
    switch (fn) {
      case Fn::kLess: return Integer(dtype, real ? a.real < b.real : a.integer < b.integer);
      case Fn::kLessEqual: return Integer(dtype, real ? a.real <= b.real : a.integer <= b.integer);
      case Fn::kEqual: return Integer(dtype, real ? a.real == b.real : a.integer == b.integer);
      case Fn::kAnd: return Integer(dtype, a.integer && b.integer);
      case Fn::kOr: return Integer(dtype, a.integer || b.integer);
      case Fn::kNot: return Integer(dtype, !a.integer);
      case Fn::kMax: return real ? Real(dtype, MaxOf(a.real, b.real)) : Integer(dtype, std::max(a.integer, b.integer));
      case Fn::kMin: return real ? Real(dtype, MinOf(a.real, b.real)) : Integer(dtype, std::min(a.integer, b.integer));
      default: break;
    }
    if (dtype == DType::kFloat32) {
      return Real(dtype, Apply<float>(fn, static_cast<float>(a.real), static_cast<float>(b.real)));
    }
    if (dtype == DType::kFloat64) return Real(dtype, Apply<double>(fn, a.real, b.real));
    const uint64_t x = static_cast<uint64_t>(a.integer), y = static_cast<uint64_t>(b.integer);
    switch (fn) {
      case Fn::kAdd: return Integer(dtype, static_cast<int64_t>(x + y));
      case Fn::kSub: return Integer(dtype, static_cast<int64_t>(x - y));
      case Fn::kMul: return Integer(dtype, static_cast<int64_t>(x * y));
      case Fn::kNeg: return Integer(dtype, static_cast<int64_t>(-x));
      case Fn::kAbs: return Integer(dtype, a.integer < 0 ? static_cast<int64_t>(-x) : a.integer);
      case Fn::kPow: return Integer(dtype, static_cast<int64_t>(std::pow(a.integer, b.integer)));
      default:
        if (b.integer == 0) {
          if (status_.ok()) status_ = absl::OutOfRangeError("division by zero");
          return Integer(dtype, 0);
        }
        return Integer(dtype, a.integer / b.integer);
    }
  }

  Element Reduce(const ExprPtr& e) {
    const DType dtype = e->body()->dtype();
    Element acc;
    switch (e->reduction()) {
      case ReduceKind::kSum: acc = Make(dtype, 0); break;
      case ReduceKind::kProd: acc = Make(dtype, 1); break;
      case ReduceKind::kMax:
      case ReduceKind::kArgMax:
        acc = IsFloating(dtype) ? Real(dtype, -kInf)
                                : Integer(dtype, dtype == DType::kInt64 ? std::numeric_limits<int64_t>::min()
                                                                        : std::numeric_limits<int32_t>::min());
        break;
      default:
        acc = IsFloating(dtype) ? Real(dtype, kInf)
                                : Integer(dtype, dtype == DType::kInt64 ? std::numeric_limits<int64_t>::max()
                                                                        : std::numeric_limits<int32_t>::max());
    }
    int64_t position = -1;
    Loop(e, 0, acc, position);
    if (e->reduction() == ReduceKind::kArgMax || e->reduction() == ReduceKind::kArgMin) {
      return Integer(e->dtype(), std::max<int64_t>(position, 0));
    }
    return acc;
  }

  void Loop(const ExprPtr& e, size_t depth, Element& acc, int64_t& position) {
    if (depth < e->bound().size()) {
      const int64_t extent = Index(e->bound()[depth].extent);
      int64_t& var = vars_[e->bound()[depth].id];
      for (int64_t i = 0; i < extent; ++i) {
        var = i;
        Loop(e, depth + 1, acc, position);
      }
      return;
    }
    if (!Cond(e->guard())) return;
    const Element value = Scalar(e->body());
    const DType dtype = value.dtype;
    switch (e->reduction()) {
      case ReduceKind::kSum: acc = Call(Fn::kAdd, dtype, acc, value); break;
      case ReduceKind::kProd: acc = Call(Fn::kMul, dtype, acc, value); break;
      case ReduceKind::kMax: acc = Call(Fn::kMax, dtype, acc, value); break;
      case ReduceKind::kMin: acc = Call(Fn::kMin, dtype, acc, value); break;
      default: {
        const bool max = e->reduction() == ReduceKind::kArgMax;
        const bool better = IsFloating(dtype) ? (max ? value.real > acc.real : value.real < acc.real) ||
                                                    (std::isnan(value.real) && !std::isnan(acc.real))
                                              : (max ? value.integer > acc.integer : value.integer < acc.integer);
        if (position < 0 || better) {
          acc = value;
          position = vars_[e->bound()[0].id];
        }
      }
    }
  }

  std::vector<int64_t> vars_;
  const std::vector<double>& params_;
  const std::vector<Tensor>& inputs_;
  absl::Status status_;
};

}  // namespace

absl::StatusOr<std::vector<Tensor>> NaiveInterpret(const Meaning& meaning, const Bindings& bindings,
                                                   const std::vector<TensorType>& outputs,
                                                   const std::vector<Tensor>& inputs) {
  Naive naive(bindings, inputs);
  std::vector<Tensor> results;
  for (size_t k = 0; k < outputs.size(); ++k) {
    const OutputMeaning& output = meaning.outputs[k];
    Tensor result(outputs[k]);
    for (int64_t i = 0; i < result.num_elements(); ++i) {
      int64_t rest = i;
      for (size_t axis = output.index_vars.size(); axis-- > 0;) {
        naive.vars()[output.index_vars[axis]] = rest % outputs[k].shape[axis];
        rest /= outputs[k].shape[axis];
      }
      const Element element = naive.Scalar(output.element);
      if (!naive.status().ok()) return naive.status();
      if (IsFloating(output.dtype)) {
        result.Set(i, element.real);
      } else {
        result.SetInt(i, element.integer);
      }
    }
    results.push_back(result);
  }
  return results;
}

}  // namespace rewright
