// Values of ArgExpr, over numbers (an application to a graph) and over symbols (an instance to be proved): one
// evaluator for both, so that they cannot disagree.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/base/integer.h"
#include "core/ir/expr.h"
#include "substitutions/language/rule.h"

namespace rewright {

// Arithmetic on int64_t with overflow reported.
struct Concrete {
  using Int = int64_t;
  using Real = double;
  using Element = uint64_t;
  using Bool = bool;

  static bool Literal(const Int& a, int64_t* value) {
    *value = a;
    return true;
  }
  static bool Add(Int a, Int b, Int* out) { return CheckedAdd(a, b, out); }
  static bool Sub(Int a, Int b, Int* out) { return CheckedSubtract(a, b, out); }
  static bool Mul(Int a, Int b, Int* out) { return CheckedMultiply(a, b, out); }
  static bool Div(Int a, Int b, Int* out) { return CheckedFloorDivide(a, b, out); }
  static bool Mod(Int a, Int b, Int* out) { return CheckedRemainder(a, b, out); }
  static Real ToReal(Int a) { return static_cast<double>(a); }
  static Real FromDouble(double a) { return a; }
  static Element ToElement(Int a) { return static_cast<uint64_t>(a); }
};

// Arithmetic on index expressions. Reals are f32 in proofs: there the type stands for the real numbers.
struct Symbolic {
  using Int = Index;
  using Real = Scalar;
  using Element = Scalar;
  using Bool = Cond;

  static bool Literal(const Int& a, int64_t* value) { return a.IsInt(value); }
  static bool Add(const Int& a, const Int& b, Int* out) { return Set(a + b, out); }
  static bool Sub(const Int& a, const Int& b, Int* out) { return Set(a - b, out); }
  static bool Mul(const Int& a, const Int& b, Int* out) { return Set(a * b, out); }
  // A divisor that is no literal is proved positive by the prover.
  static bool Div(const Int& a, const Int& b, Int* out) { return Positive(b) && Set(FloorDiv(a, b), out); }
  static bool Mod(const Int& a, const Int& b, Int* out) { return Positive(b) && Set(rewright::Mod(a, b), out); }
  static Real ToReal(const Int& a) { return FromIndex(a, DType::kFloat32); }
  static Real FromDouble(double a) { return Constant(a, DType::kFloat32); }
  static Element ToElement(const Int& a) { return FromIndex(a, DType::kInt64); }

 private:
  static bool Set(Index value, Index* out) {
    *out = std::move(value);
    return true;
  }
  static bool Positive(const Index& a) {
    int64_t value;
    return !a.IsInt(&value) || value > 0;
  }
};

template <typename A>
struct ArgValue {
  // kElement: an integer that is an element of tensors. Its arithmetic wraps around as theirs does; it is no size.
  enum class Kind : uint8_t { kInt, kList, kReal, kElement, kDType, kBool };
  Kind kind = Kind::kInt;
  typename A::Int integer{};
  std::vector<typename A::Int> list;
  typename A::Real real{};
  typename A::Element element{};
  DType dtype = DType::kFloat32;
  typename A::Bool truth{};
};

// Evaluates expressions over the names of a rule. `Scope` gives the value of each name:
//   bool Get(ArgExpr::Ref ref, int id, ArgValue<A>* value)     false: not bound
//   bool TensorShape(int id, std::vector<A::Int>* shape)       false: not bound
//   bool Predicate(ArgFn fn, const ArgExpr& arg, bool positive_place, A::Bool* truth)
// A proof does not know a Predicate (weight, constant, positive, finite). `positive_place` is true if taking it for
// true makes the condition weaker.
template <typename A, typename Scope>
class ArgEvaluator {
 public:
  using Int = typename A::Int;
  using Value = ArgValue<A>;
  using Kind = typename Value::Kind;

  explicit ArgEvaluator(const Scope& scope) : scope_(scope) {}

  // False when the expression has no value: error() says why.
  bool Eval(const ArgExpr& expr, Value* value) {
    switch (expr.kind) {
      case ArgExpr::Kind::kInt: return SetInt(Int(expr.integer), value);
      case ArgExpr::Kind::kReal: return SetReal(A::FromDouble(expr.real), value);
      case ArgExpr::Kind::kDType:
        value->kind = Kind::kDType;
        value->dtype = expr.dtype;
        return true;
      case ArgExpr::Kind::kName:
      case ArgExpr::Kind::kAttr: return scope_.Get(expr.ref, expr.id, value) || Fail("a name is not bound");
      case ArgExpr::Kind::kList: return List(expr.args, value);
      case ArgExpr::Kind::kSplice: return Fail("`..` outside a list");
      case ArgExpr::Kind::kOp: return Op(expr, value);
      case ArgExpr::Kind::kElement: return Element(expr, value);
      case ArgExpr::Kind::kCall: return Call(expr, value);
    }
    return false;
  }

  bool Int64(const ArgExpr& expr, Int* result) {
    Value value;
    if (!Eval(expr, &value)) return false;
    if (value.kind != Kind::kInt) return Fail("expected an integer");
    *result = std::move(value.integer);
    return true;
  }

  // The elements of a list or shape, with splices.
  bool List(const std::vector<ArgExpr>& items, Value* value) {
    value->kind = Kind::kList;
    value->list.clear();
    for (const ArgExpr& item : items) {
      const bool splice = item.kind == ArgExpr::Kind::kSplice;
      Value element;
      if (!Eval(splice ? item.args[0] : item, &element)) return false;
      if (element.kind != (splice ? Kind::kList : Kind::kInt)) {
        return Fail(splice ? "expected a list before `..`" : "expected an integer in a list");
      }
      if (splice) {
        value->list.insert(value->list.end(), element.list.begin(), element.list.end());
      } else {
        value->list.push_back(std::move(element.integer));
      }
      if (value->list.size() > kMaxList) return Fail("a list is too long");
    }
    return true;
  }

  bool Condition(const ArgExpr& expr, typename A::Bool* truth) {
    Value value;
    if (!Eval(expr, &value)) return false;
    if (value.kind != Kind::kBool) return Fail("expected a condition");
    *truth = std::move(value.truth);
    return true;
  }

  const char* error() const { return error_; }

 private:
  static constexpr size_t kMaxList = 64;

  bool Fail(const char* why) {
    if (error_ == nullptr) error_ = why;
    return false;
  }
  bool SetInt(Int integer, Value* value) {
    value->kind = Kind::kInt;
    value->integer = std::move(integer);
    return true;
  }
  bool SetReal(typename A::Real real, Value* value) {
    value->kind = Kind::kReal;
    value->real = std::move(real);
    return true;
  }
  bool SetElement(typename A::Element element, Value* value) {
    value->kind = Kind::kElement;
    value->element = std::move(element);
    return true;
  }
  bool SetBool(typename A::Bool truth, Value* value) {
    value->kind = Kind::kBool;
    value->truth = std::move(truth);
    return true;
  }

  // ---------------------------------------------------------------- operators

  bool Op(const ArgExpr& expr, Value* value) {
    if (expr.op == ArgOp::kAnd || expr.op == ArgOp::kOr || expr.op == ArgOp::kNot) return Logic(expr, value);
    Value a, b;
    if (!Eval(expr.args[0], &a)) return false;
    if (expr.op == ArgOp::kNeg) {
      b = std::move(a);
      a = Value();
      if (b.kind == Kind::kReal) return SetReal(-b.real, value);
      if (b.kind == Kind::kElement) return SetElement(-b.element, value);
      SetInt(Int(0), &a);
      return Arithmetic(ArgOp::kSub, a, b, value);
    }
    if (!Eval(expr.args[1], &b)) return false;
    if (expr.op >= ArgOp::kEqual) return Compare(expr.op, a, b, value);
    return Arithmetic(expr.op, a, b, value);
  }

  bool Logic(const ArgExpr& expr, Value* value) {
    const bool negates = expr.op == ArgOp::kNot;
    positive_place_ ^= negates;
    typename A::Bool a{}, b{};
    const bool ok = Condition(expr.args[0], &a) && (negates || Condition(expr.args[1], &b));
    positive_place_ ^= negates;
    if (!ok) return false;
    return SetBool(negates ? !a : expr.op == ArgOp::kAnd ? a && b : a || b, value);
  }

  // Computes a op b for integers, for reals, for two lists element by element, or for a list and an integer.
  bool Arithmetic(ArgOp op, const Value& a, const Value& b, Value* value) {
    if (a.kind == Kind::kElement || b.kind == Kind::kElement) return ElementArithmetic(op, a, b, value);
    if (a.kind == Kind::kReal || b.kind == Kind::kReal || op == ArgOp::kQuotient)
      return RealArithmetic(op, a, b, value);
    if (a.kind == Kind::kInt && b.kind == Kind::kInt) {
      value->kind = Kind::kInt;
      return IntArithmetic(op, a.integer, b.integer, &value->integer);
    }
    const bool lists =
        (a.kind == Kind::kList || a.kind == Kind::kInt) && (b.kind == Kind::kList || b.kind == Kind::kInt);
    if (!lists) return Fail("arithmetic on what is no number");
    if (a.kind == Kind::kList && b.kind == Kind::kList && a.list.size() != b.list.size()) {
      return Fail("arithmetic on lists of different lengths");
    }
    const size_t size = a.kind == Kind::kList ? a.list.size() : b.list.size();
    value->kind = Kind::kList;
    value->list.assign(size, Int());
    for (size_t i = 0; i < size; ++i) {
      const Int& left = a.kind == Kind::kList ? a.list[i] : a.integer;
      const Int& right = b.kind == Kind::kList ? b.list[i] : b.integer;
      if (!IntArithmetic(op, left, right, &value->list[i])) return false;
    }
    return true;
  }

  bool IntArithmetic(ArgOp op, const Int& a, const Int& b, Int* result) {
    bool ok = false;
    switch (op) {
      case ArgOp::kAdd: ok = A::Add(a, b, result); break;
      case ArgOp::kSub: ok = A::Sub(a, b, result); break;
      case ArgOp::kMul: ok = A::Mul(a, b, result); break;
      case ArgOp::kDiv: ok = A::Div(a, b, result); break;
      case ArgOp::kMod: ok = A::Mod(a, b, result); break;
      default: break;
    }
    return ok || Fail("an integer is out of range, or divided by a number below one");
  }

  bool RealArithmetic(ArgOp op, const Value& a, const Value& b, Value* value) {
    for (const Value* side : {&a, &b}) {
      if (side->kind != Kind::kReal && side->kind != Kind::kInt) return Fail("arithmetic on what is no number");
    }
    const typename A::Real x = a.kind == Kind::kReal ? a.real : A::ToReal(a.integer);
    const typename A::Real y = b.kind == Kind::kReal ? b.real : A::ToReal(b.integer);
    switch (op) {
      case ArgOp::kAdd: return SetReal(x + y, value);
      case ArgOp::kSub: return SetReal(x - y, value);
      case ArgOp::kMul: return SetReal(x * y, value);
      case ArgOp::kQuotient: return SetReal(x / y, value);
      default: return Fail("div and mod are of integers");
    }
  }

  bool ElementArithmetic(ArgOp op, const Value& a, const Value& b, Value* value) {
    for (const Value* side : {&a, &b}) {
      if (side->kind != Kind::kElement && side->kind != Kind::kInt) return Fail("arithmetic of an integer and a real");
    }
    const typename A::Element x = a.kind == Kind::kElement ? a.element : A::ToElement(a.integer);
    const typename A::Element y = b.kind == Kind::kElement ? b.element : A::ToElement(b.integer);
    switch (op) {
      case ArgOp::kAdd: return SetElement(x + y, value);
      case ArgOp::kSub: return SetElement(x - y, value);
      case ArgOp::kMul: return SetElement(x * y, value);
      default: return Fail("integers of tensors are not divided");
    }
  }

  bool Compare(ArgOp op, const Value& a, const Value& b, Value* value) {
    if (a.kind == Kind::kDType && b.kind == Kind::kDType && (op == ArgOp::kEqual || op == ArgOp::kNotEqual)) {
      return SetBool((a.dtype == b.dtype) == (op == ArgOp::kEqual), value);
    }
    if (a.kind == Kind::kList && b.kind == Kind::kList && (op == ArgOp::kEqual || op == ArgOp::kNotEqual)) {
      typename A::Bool equal = a.list.size() == b.list.size();
      for (size_t i = 0; i < std::min(a.list.size(), b.list.size()); ++i) equal = equal && a.list[i] == b.list[i];
      return SetBool(op == ArgOp::kEqual ? equal : !equal, value);
    }
    if (a.kind == Kind::kList && b.kind == Kind::kInt && op > ArgOp::kNotEqual) {
      typename A::Bool all = true;
      for (const Int& element : a.list) all = all && IntCompare(op, element, b.integer);
      return SetBool(all, value);
    }
    if (a.kind != Kind::kInt || b.kind != Kind::kInt) return Fail("comparison of what is no integer");
    return SetBool(IntCompare(op, a.integer, b.integer), value);
  }

  static typename A::Bool IntCompare(ArgOp op, const Int& x, const Int& y) {
    switch (op) {
      case ArgOp::kEqual: return x == y;
      case ArgOp::kNotEqual: return !typename A::Bool(x == y);
      case ArgOp::kLess: return x < y;
      case ArgOp::kLessEqual: return x <= y;
      case ArgOp::kGreater: return y < x;
      default: return y <= x;
    }
  }

  // ---------------------------------------------------------------- lists

  bool Literal(const Int& integer, int64_t low, int64_t high, int64_t* result) {
    if (!A::Literal(integer, result)) return Fail("a position in a list, a length or an axis depends on a size");
    return (*result >= low && *result <= high) || Fail("a position in a list, a length or an axis is out of range");
  }

  bool Element(const ArgExpr& expr, Value* value) {
    Value list;
    Int at{};
    int64_t position;
    if (!ListArg(expr.args[0], &list) || !Int64(expr.args[1], &at)) return false;
    const int64_t size = static_cast<int64_t>(list.list.size());
    if (!Literal(at, -size, size - 1, &position)) return false;
    return SetInt(list.list[position < 0 ? position + size : position], value);
  }

  bool ListArg(const ArgExpr& expr, Value* value) {
    return Eval(expr, value) && (value->kind == Kind::kList || Fail("expected a list"));
  }

  bool Shape(const ArgExpr& expr, std::vector<Int>* shape) {
    if (expr.ref != ArgExpr::Ref::kTensor) return Fail("expected a tensor");
    return scope_.TensorShape(expr.id, shape) || Fail("the shape of a tensor is not known yet");
  }

  bool Call(const ArgExpr& expr, Value* value) {
    switch (expr.fn) {
      case ArgFn::kPositive:
      case ArgFn::kFinite:
      case ArgFn::kWeight:
      case ArgFn::kConstant:
      case ArgFn::kIncreasing:
      case ArgFn::kOdd:
      case ArgFn::kKeepsZero:
        value->kind = Kind::kBool;
        return scope_.Predicate(expr.fn, expr.args[0], positive_place_, &value->truth) || Fail("a name is not bound");
      case ArgFn::kRank:
      case ArgFn::kShape:
      case ArgFn::kDim: return ShapeCall(expr, value);
      case ArgFn::kMin:
      case ArgFn::kMax: return Extremum(expr, value);
      case ArgFn::kIota: {
        Int length{};
        int64_t count;
        if (!Int64(expr.args[0], &length) || !Literal(length, 0, kMaxList, &count)) return false;
        value->kind = Kind::kList;
        value->list.clear();
        for (int64_t i = 0; i < count; ++i) value->list.push_back(Int(i));
        return true;
      }
      case ArgFn::kRepeat: {
        Int element{}, length{};
        int64_t count;
        if (!Int64(expr.args[0], &element) || !Int64(expr.args[1], &length)) return false;
        if (!Literal(length, 0, kMaxList, &count)) return false;
        value->kind = Kind::kList;
        value->list.assign(static_cast<size_t>(count), element);
        return true;
      }
      default: return ListCall(expr, value);
    }
  }

  bool ShapeCall(const ArgExpr& expr, Value* value) {
    std::vector<Int> shape;
    if (!Shape(expr.args[0], &shape)) return false;
    if (expr.fn == ArgFn::kRank) return SetInt(Int(static_cast<int64_t>(shape.size())), value);
    if (expr.fn == ArgFn::kShape) {
      value->kind = Kind::kList;
      value->list = std::move(shape);
      return true;
    }
    Int at{};
    int64_t axis;
    const int64_t rank = static_cast<int64_t>(shape.size());
    if (!Int64(expr.args[1], &at) || !Literal(at, -rank, rank - 1, &axis)) return false;
    return SetInt(shape[axis < 0 ? axis + rank : axis], value);
  }

  bool Extremum(const ArgExpr& expr, Value* value) {
    Value a, b;
    if (!Eval(expr.args[0], &a) || !Eval(expr.args[1], &b)) return false;
    const auto pick = [&](const Int& x, const Int& y) -> Int {
      using rewright::Max;
      using rewright::Min;
      if constexpr (std::is_same_v<Int, int64_t>) {
        return expr.fn == ArgFn::kMin ? std::min(x, y) : std::max(x, y);
      } else {
        return expr.fn == ArgFn::kMin ? Min(x, y) : Max(x, y);
      }
    };
    if (a.kind == Kind::kInt && b.kind == Kind::kInt) return SetInt(pick(a.integer, b.integer), value);
    if (a.kind != Kind::kList || b.kind != Kind::kList || a.list.size() != b.list.size()) {
      return Fail("min and max are of two integers or two lists of one length");
    }
    value->kind = Kind::kList;
    value->list.clear();
    for (size_t i = 0; i < a.list.size(); ++i) value->list.push_back(pick(a.list[i], b.list[i]));
    return true;
  }

  bool ListCall(const ArgExpr& expr, Value* value) {
    Value list;
    if (!ListArg(expr.args[0], &list)) return false;
    const int64_t size = static_cast<int64_t>(list.list.size());
    switch (expr.fn) {
      case ArgFn::kLen: return SetInt(Int(size), value);
      case ArgFn::kSum:
      case ArgFn::kProd: {
        const bool sum = expr.fn == ArgFn::kSum;
        Int total(sum ? 0 : 1);
        for (const Int& element : list.list) {
          if (!IntArithmetic(sum ? ArgOp::kAdd : ArgOp::kMul, Int(total), element, &total)) return false;
        }
        return SetInt(total, value);
      }
      case ArgFn::kTake:
      case ArgFn::kDrop: {
        Int count{};
        int64_t n;
        if (!Int64(expr.args[1], &count) || !Literal(count, 0, size, &n)) return false;
        value->kind = Kind::kList;
        const auto cut = list.list.begin() + n;
        value->list =
            expr.fn == ArgFn::kTake ? std::vector<Int>(list.list.begin(), cut) : std::vector<Int>(cut, list.list.end());
        return true;
      }
      case ArgFn::kCompose: return Compose(expr, list, value);
      case ArgFn::kInverse: return Inverse(list, value);
      case ArgFn::kReplace: return Replace(expr, list, value);
      default: return Count(expr, list, value);
    }
  }

  bool Compose(const ArgExpr& expr, const Value& outer, Value* value) {
    Value inner;
    if (!ListArg(expr.args[1], &inner)) return false;
    value->kind = Kind::kList;
    value->list.clear();
    for (const Int& element : inner.list) {
      int64_t at;
      if (!Literal(element, 0, static_cast<int64_t>(outer.list.size()) - 1, &at)) return false;
      value->list.push_back(outer.list[at]);
    }
    return true;
  }

  bool Replace(const ArgExpr& expr, Value list, Value* value) {
    Value places;
    Int element{};
    if (!ListArg(expr.args[1], &places) || !Int64(expr.args[2], &element)) return false;
    for (const Int& place : places.list) {
      int64_t at;
      if (!Literal(place, 0, static_cast<int64_t>(list.list.size()) - 1, &at)) return false;
      list.list[at] = element;
    }
    *value = std::move(list);
    return true;
  }

  bool Inverse(const Value& list, Value* value) {
    value->kind = Kind::kList;
    value->list.assign(list.list.size(), Int(-1));
    for (size_t i = 0; i < list.list.size(); ++i) {
      int64_t at, taken;
      if (!Literal(list.list[i], 0, static_cast<int64_t>(list.list.size()) - 1, &at)) return false;
      Int& place = value->list[at];
      if (!A::Literal(place, &taken) || taken >= 0) return Fail("inverse of what is no permutation");
      place = Int(static_cast<int64_t>(i));
    }
    return true;
  }

  bool Count(const ArgExpr& expr, const Value& list, Value* value) {
    Int wanted{};
    int64_t bound, element;
    constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
    if (!Int64(expr.args[1], &wanted) || !Literal(wanted, -kMax, kMax, &bound)) return false;
    int64_t less = 0;
    bool found = false;
    for (const Int& item : list.list) {
      if (!Literal(item, -kMax, kMax, &element)) return false;
      less += element < bound ? 1 : 0;
      found |= element == bound;
    }
    if (expr.fn == ArgFn::kCountLess) return SetInt(Int(less), value);
    return SetBool(typename A::Bool(found), value);
  }

  const Scope& scope_;
  bool positive_place_ = true;
  const char* error_ = nullptr;
};

}  // namespace rewright
