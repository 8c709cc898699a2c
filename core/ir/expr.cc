#include "core/ir/expr.h"

#include <utility>

#include "core/base/check.h"
#include "core/base/integer.h"

namespace rewright {
namespace {

ExprPtr Make(ExprKind kind, std::vector<ExprPtr> args) {
  auto node = std::make_shared<ExprNode>();
  node->kind = kind;
  node->args = std::move(args);
  return node;
}

ExprPtr MakeInt(int64_t value) {
  auto node = std::make_shared<ExprNode>();
  node->kind = ExprKind::kInt;
  node->integer = value;
  return node;
}

ExprPtr MakeBool(bool value) {
  auto node = std::make_shared<ExprNode>();
  node->kind = ExprKind::kBool;
  node->integer = value ? 1 : 0;
  return node;
}

bool IsBool(const ExprPtr& node, bool value) { return node->kind == ExprKind::kBool && (node->integer != 0) == value; }

Index Binary(ExprKind kind, const Index& a, const Index& b) { return Index(Make(kind, {a.node(), b.node()})); }

}  // namespace

// ---------------------------------------------------------------- indices

Index::Index(int64_t value) : node_(MakeInt(value)) {}

bool Index::IsInt(int64_t* value) const {
  if (node_->kind != ExprKind::kInt) return false;
  *value = node_->integer;
  return true;
}

bool Index::Is(int64_t value) const { return node_->kind == ExprKind::kInt && node_->integer == value; }

Index operator+(const Index& a, const Index& b) {
  int64_t x, y, sum;
  if (a.IsInt(&x) && b.IsInt(&y) && CheckedAdd(x, y, &sum)) return Index(sum);
  if (a.Is(0)) return b;
  if (b.Is(0)) return a;
  return Binary(ExprKind::kIndexAdd, a, b);
}

Index operator-(const Index& a, const Index& b) {
  int64_t x, y, difference;
  if (a.IsInt(&x) && b.IsInt(&y) && CheckedSubtract(x, y, &difference)) return Index(difference);
  if (b.Is(0)) return a;
  return Binary(ExprKind::kIndexSub, a, b);
}

Index operator*(const Index& a, const Index& b) {
  int64_t x, y, product;
  if (a.IsInt(&x) && b.IsInt(&y) && CheckedMultiply(x, y, &product)) return Index(product);
  if (a.Is(0) || b.Is(0)) return Index(0);
  if (a.Is(1)) return b;
  if (b.Is(1)) return a;
  return Binary(ExprKind::kIndexMul, a, b);
}

Index FloorDiv(const Index& a, const Index& b) {
  int64_t x, y;
  if (b.Is(1)) return a;
  if (a.IsInt(&x) && b.IsInt(&y) && y > 0) return Index(FloorDivide(x, y));
  return Binary(ExprKind::kFloorDiv, a, b);
}

Index Mod(const Index& a, const Index& b) {
  int64_t x, y;
  if (b.Is(1)) return Index(0);
  if (a.IsInt(&x) && b.IsInt(&y) && y > 0) return Index(FloorRemainder(x, y));
  return Binary(ExprKind::kMod, a, b);
}

Index CeilDiv(const Index& a, const Index& b) { return FloorDiv(a + b - 1, b); }

Index Min(const Index& a, const Index& b) {
  int64_t x, y;
  if (a.IsInt(&x) && b.IsInt(&y)) return Index(x < y ? x : y);
  return Binary(ExprKind::kIndexMin, a, b);
}

Index Max(const Index& a, const Index& b) {
  int64_t x, y;
  if (a.IsInt(&x) && b.IsInt(&y)) return Index(x > y ? x : y);
  return Binary(ExprKind::kIndexMax, a, b);
}

// ---------------------------------------------------------------- conditions

Cond::Cond(bool value) : node_(MakeBool(value)) {}

Cond operator<(const Index& a, const Index& b) {
  int64_t x, y;
  if (a.IsInt(&x) && b.IsInt(&y)) return Cond(x < y);
  return Cond(Make(ExprKind::kLess, {a.node(), b.node()}));
}

Cond operator<=(const Index& a, const Index& b) {
  int64_t x, y;
  if (a.IsInt(&x) && b.IsInt(&y)) return Cond(x <= y);
  return Cond(Make(ExprKind::kLessEqual, {a.node(), b.node()}));
}

Cond operator>(const Index& a, const Index& b) { return b < a; }
Cond operator>=(const Index& a, const Index& b) { return b <= a; }

Cond operator==(const Index& a, const Index& b) {
  int64_t x, y;
  if (a.IsInt(&x) && b.IsInt(&y)) return Cond(x == y);
  return Cond(Make(ExprKind::kEqual, {a.node(), b.node()}));
}

Cond operator&&(const Cond& a, const Cond& b) {
  if (IsBool(a.node(), true)) return b;
  if (IsBool(b.node(), true)) return a;
  if (IsBool(a.node(), false)) return a;
  return Cond(Make(ExprKind::kAnd, {a.node(), b.node()}));
}

Cond operator||(const Cond& a, const Cond& b) {
  if (IsBool(a.node(), false)) return b;
  if (IsBool(b.node(), false)) return a;
  if (IsBool(a.node(), true)) return a;
  return Cond(Make(ExprKind::kOr, {a.node(), b.node()}));
}

Cond operator!(const Cond& a) {
  if (a.node()->kind == ExprKind::kBool) return Cond(a.node()->integer == 0);
  if (a.node()->kind == ExprKind::kNot) return Cond(a.node()->args[0]);
  return Cond(Make(ExprKind::kNot, {a.node()}));
}

Cond InRange(const Index& x, const Index& lo, const Index& hi) { return lo <= x && x < hi; }

// ---------------------------------------------------------------- scalars

Scalar Constant(double value, DType dtype) {
  auto node = std::make_shared<ExprNode>();
  node->kind = ExprKind::kConst;
  node->real = value;
  node->dtype = dtype;
  return Scalar(std::move(node));
}

Scalar FromIndex(const Index& index, DType dtype) {
  auto node = std::make_shared<ExprNode>();
  node->kind = ExprKind::kFromIndex;
  node->args = {index.node()};
  node->dtype = dtype;
  return Scalar(std::move(node));
}

Index ToIndex(const Scalar& value) {
  CHECK(IsInteger(value.dtype())) << DTypeName(value.dtype());
  return Index(Make(ExprKind::kFromValue, {value.node()}));
}

Cond Holds(const Scalar& value) {
  CHECK(value.dtype() == DType::kBool) << DTypeName(value.dtype());
  return Cond(Make(ExprKind::kHolds, {value.node()}));
}

Scalar Cast(const Scalar& value, DType dtype) {
  if (value.dtype() == dtype) return value;
  auto node = std::make_shared<ExprNode>();
  node->kind = ExprKind::kCast;
  node->args = {value.node()};
  node->dtype = dtype;
  return Scalar(std::move(node));
}

Scalar Call(Fn fn, std::vector<Scalar> args) {
  CHECK(static_cast<int>(args.size()) == FnArity(fn)) << FnName(fn) << " of " << args.size();
  auto node = std::make_shared<ExprNode>();
  node->kind = ExprKind::kCall;
  node->fn = fn;
  for (const Scalar& arg : args) {
    CHECK(arg.dtype() == args[0].dtype())
        << FnName(fn) << " of " << DTypeName(args[0].dtype()) << " and " << DTypeName(arg.dtype());
    node->args.push_back(arg.node());
  }
  const bool compares = fn == Fn::kLess || fn == Fn::kLessEqual || fn == Fn::kEqual;
  node->dtype = compares ? DType::kBool : args[0].dtype();
  return Scalar(std::move(node));
}

Scalar operator+(const Scalar& a, const Scalar& b) { return Call(Fn::kAdd, {a, b}); }
Scalar operator-(const Scalar& a, const Scalar& b) { return Call(Fn::kSub, {a, b}); }
Scalar operator*(const Scalar& a, const Scalar& b) { return Call(Fn::kMul, {a, b}); }
Scalar operator/(const Scalar& a, const Scalar& b) { return Call(Fn::kDiv, {a, b}); }
Scalar operator+(const Scalar& a, double b) { return a + Constant(b, a.dtype()); }
Scalar operator-(const Scalar& a, double b) { return a - Constant(b, a.dtype()); }
Scalar operator*(const Scalar& a, double b) { return a * Constant(b, a.dtype()); }
Scalar operator/(const Scalar& a, double b) { return a / Constant(b, a.dtype()); }
Scalar operator+(double a, const Scalar& b) { return Constant(a, b.dtype()) + b; }
Scalar operator-(double a, const Scalar& b) { return Constant(a, b.dtype()) - b; }
Scalar operator*(double a, const Scalar& b) { return Constant(a, b.dtype()) * b; }
Scalar operator/(double a, const Scalar& b) { return Constant(a, b.dtype()) / b; }
Scalar operator-(const Scalar& a) { return Call(Fn::kNeg, {a}); }
Scalar Max(const Scalar& a, const Scalar& b) { return Call(Fn::kMax, {a, b}); }
Scalar Max(const Scalar& a, double b) { return Max(a, Constant(b, a.dtype())); }
Scalar Min(const Scalar& a, const Scalar& b) { return Call(Fn::kMin, {a, b}); }
Scalar Exp(const Scalar& a) { return Call(Fn::kExp, {a}); }
Scalar Log(const Scalar& a) { return Call(Fn::kLog, {a}); }
Scalar Sqrt(const Scalar& a) { return Call(Fn::kSqrt, {a}); }
Scalar Erf(const Scalar& a) { return Call(Fn::kErf, {a}); }
Scalar Tanh(const Scalar& a) { return Call(Fn::kTanh, {a}); }
Scalar Sigmoid(const Scalar& a) { return Call(Fn::kSigmoid, {a}); }
Scalar Pow(const Scalar& a, const Scalar& b) { return Call(Fn::kPow, {a, b}); }

Scalar Select(const Cond& condition, const Scalar& yes, const Scalar& no) {
  if (IsBool(condition.node(), true)) return yes;
  if (IsBool(condition.node(), false)) return no;
  CHECK(yes.dtype() == no.dtype()) << "select of " << DTypeName(yes.dtype()) << " and " << DTypeName(no.dtype());
  auto node = std::make_shared<ExprNode>();
  node->kind = ExprKind::kSelect;
  node->args = {condition.node(), yes.node(), no.node()};
  node->dtype = yes.dtype();
  return Scalar(std::move(node));
}

Scalar Select(const Cond& condition, const Scalar& yes, double no) {
  return Select(condition, yes, Constant(no, yes.dtype()));
}

// ---------------------------------------------------------------- tables

namespace {

struct FnInfo {
  const char* name;
  int arity;
  bool infix;
};

// In the order of Fn.
constexpr FnInfo kFns[] = {
    {"+", 2, true},      {"-", 2, true},     {"*", 2, true},     {"/", 2, true},        {"neg", 1, false},
    {"max", 2, false},   {"min", 2, false},  {"pow", 2, false},  {"exp", 1, false},     {"log", 1, false},
    {"sqrt", 1, false},  {"erf", 1, false},  {"tanh", 1, false}, {"sigmoid", 1, false}, {"abs", 1, false},
    {"floor", 1, false}, {"ceil", 1, false}, {"<", 2, true},     {"<=", 2, true},       {"==", 2, true},
    {"and", 2, true},    {"or", 2, true},    {"not", 1, false},
};
static_assert(sizeof(kFns) / sizeof(kFns[0]) == static_cast<size_t>(Fn::kNot) + 1);

constexpr const char* kReduceNames[] = {"sum", "prod", "max", "min", "argmax", "argmin"};

}  // namespace

const char* FnName(Fn fn) { return kFns[static_cast<int>(fn)].name; }
int FnArity(Fn fn) { return kFns[static_cast<int>(fn)].arity; }
bool FnIsInfix(Fn fn) { return kFns[static_cast<int>(fn)].infix; }
const char* ReduceName(ReduceKind kind) { return kReduceNames[static_cast<int>(kind)]; }
bool IsIndexKind(ExprKind kind) { return kind <= ExprKind::kFromValue; }
bool IsCondKind(ExprKind kind) { return kind >= ExprKind::kBool && kind <= ExprKind::kHolds; }
bool IsScalarKind(ExprKind kind) { return kind >= ExprKind::kConst; }

// ---------------------------------------------------------------- substitution

ExprPtr Substitute(const ExprPtr& expr, const std::vector<ExprPtr>& indices, const std::vector<ExprPtr>& params) {
  const size_t id = expr->integer;
  if (expr->kind == ExprKind::kVar) return id < indices.size() && indices[id] ? indices[id] : expr;
  if (expr->kind == ExprKind::kParam) return id < params.size() && params[id] ? params[id] : expr;
  std::vector<ExprPtr> args;
  bool changed = false;
  for (const ExprPtr& arg : expr->args) {
    args.push_back(Substitute(arg, indices, params));
    changed |= args.back() != arg;
  }
  std::vector<BoundVar> bound = expr->bound;
  for (BoundVar& var : bound) {
    ExprPtr extent = Substitute(var.extent, indices, params);
    changed |= extent != var.extent;
    var.extent = std::move(extent);
  }
  if (!changed) return expr;
  // Rebuilt through the operators, which fold literals.
  switch (expr->kind) {
    case ExprKind::kIndexAdd: return (Index(args[0]) + Index(args[1])).node();
    case ExprKind::kIndexSub: return (Index(args[0]) - Index(args[1])).node();
    case ExprKind::kIndexMul: return (Index(args[0]) * Index(args[1])).node();
    case ExprKind::kFloorDiv: return FloorDiv(Index(args[0]), Index(args[1])).node();
    case ExprKind::kMod: return Mod(Index(args[0]), Index(args[1])).node();
    case ExprKind::kIndexMin: return Min(Index(args[0]), Index(args[1])).node();
    case ExprKind::kIndexMax: return Max(Index(args[0]), Index(args[1])).node();
    case ExprKind::kLess: return (Index(args[0]) < Index(args[1])).node();
    case ExprKind::kLessEqual: return (Index(args[0]) <= Index(args[1])).node();
    case ExprKind::kEqual: return (Index(args[0]) == Index(args[1])).node();
    case ExprKind::kAnd: return (Cond(args[0]) && Cond(args[1])).node();
    case ExprKind::kOr: return (Cond(args[0]) || Cond(args[1])).node();
    case ExprKind::kNot: return (!Cond(args[0])).node();
    case ExprKind::kSelect: return Select(Cond(args[0]), Scalar(args[1]), Scalar(args[2])).node();
    default: break;
  }
  auto copy = std::make_shared<ExprNode>(*expr);
  copy->args = std::move(args);
  copy->bound = std::move(bound);
  return copy;
}

// ---------------------------------------------------------------- printing

namespace {

// Binding strength: larger binds tighter.
enum Level {
  kLowest = 0,
  kSelectLevel,
  kOrLevel,
  kAndLevel,
  kNotLevel,
  kCompareLevel,
  kSumLevel,
  kProductLevel,
  kAtom
};

class Printer {
 public:
  explicit Printer(const std::vector<std::string>& operands) : operands_(operands) {}

  std::string Print(const ExprPtr& e, int level) const {
    switch (e->kind) {
      case ExprKind::kInt:
        return e->integer < 0 ? Wrap(std::to_string(e->integer), kSumLevel, level) : std::to_string(e->integer);
      case ExprKind::kVar:
      case ExprKind::kParam: return e->name;
      case ExprKind::kIndexAdd: return Infix(e, "+", kSumLevel, level);
      case ExprKind::kIndexSub: return Infix(e, "-", kSumLevel, level);
      case ExprKind::kIndexMul: return Infix(e, "*", kProductLevel, level);
      case ExprKind::kFloorDiv: return Infix(e, "div", kProductLevel, level);
      case ExprKind::kMod: return Infix(e, "mod", kProductLevel, level);
      case ExprKind::kIndexMin: return "min" + Arguments(e->args);
      case ExprKind::kIndexMax: return "max" + Arguments(e->args);
      case ExprKind::kFromValue:
      case ExprKind::kHolds:
      case ExprKind::kFromIndex: return Print(e->args[0], level);
      case ExprKind::kBool: return e->integer ? "true" : "false";
      case ExprKind::kLess: return Infix(e, "<", kCompareLevel, level);
      case ExprKind::kLessEqual: return Infix(e, "<=", kCompareLevel, level);
      case ExprKind::kEqual: return Infix(e, "=", kCompareLevel, level);
      case ExprKind::kAnd: return Infix(e, "and", kAndLevel, level);
      case ExprKind::kOr: return Infix(e, "or", kOrLevel, level);
      case ExprKind::kNot: return Wrap("not " + Print(e->args[0], kNotLevel + 1), kNotLevel, level);
      case ExprKind::kConst: return Real(e->real);
      case ExprKind::kRead: return Read(e);
      case ExprKind::kCall: return CallText(e, level);
      case ExprKind::kSelect:
        return Wrap(
            Print(e->args[0], kOrLevel) + " ? " + Print(e->args[1], kOrLevel) + " : " + Print(e->args[2], kSelectLevel),
            kSelectLevel, level);
      case ExprKind::kReduce: return Reduction(e, level);
      case ExprKind::kCast: return std::string(DTypeName(e->dtype)) + "(" + Print(e->args[0], kLowest) + ")";
    }
    return "";
  }

 private:
  static std::string Wrap(std::string text, int own, int level) {
    return own < level ? "(" + std::move(text) + ")" : text;
  }

  static std::string Real(double value) {
    std::string text = std::to_string(value);
    if (text.find('.') != std::string::npos) {
      while (text.back() == '0') text.pop_back();
      if (text.back() == '.') text.pop_back();
    }
    return text;
  }

  std::string Infix(const ExprPtr& e, const std::string& sign, int own, int level) const {
    return Wrap(Print(e->args[0], own) + " " + sign + " " + Print(e->args[1], own + 1), own, level);
  }

  std::string Arguments(const std::vector<ExprPtr>& args) const {
    std::string text = "(";
    for (size_t i = 0; i < args.size(); ++i) text += (i > 0 ? ", " : "") + Print(args[i], kLowest);
    return text + ")";
  }

  std::string Read(const ExprPtr& e) const {
    const size_t operand = e->integer;
    std::string text = operand < operands_.size() ? operands_[operand] : "$" + std::to_string(operand);
    if (e->args.empty()) return text;
    text += "[";
    for (size_t i = 0; i < e->args.size(); ++i) text += (i > 0 ? ", " : "") + Print(e->args[i], kLowest);
    return text + "]";
  }

  std::string CallText(const ExprPtr& e, int level) const {
    if (e->fn == Fn::kNeg) return Wrap("-" + Print(e->args[0], kProductLevel), kProductLevel, level);
    if (!FnIsInfix(e->fn)) return FnName(e->fn) + Arguments(e->args);
    int own = kCompareLevel;
    if (e->fn == Fn::kAdd || e->fn == Fn::kSub) own = kSumLevel;
    if (e->fn == Fn::kMul || e->fn == Fn::kDiv) own = kProductLevel;
    if (e->fn == Fn::kAnd) own = kAndLevel;
    if (e->fn == Fn::kOr) own = kOrLevel;
    return Infix(e, FnName(e->fn), own, level);
  }

  std::string Reduction(const ExprPtr& e, int level) const {
    std::string text = ReduceName(e->reduce);
    for (size_t i = 0; i < e->bound.size(); ++i) {
      text += (i > 0 ? ", " : " ") + e->bound[i].name + " < " + Print(e->bound[i].extent, kSumLevel);
    }
    if (!IsBool(e->args[0], true)) text += " if " + Print(e->args[0], kOrLevel);
    return Wrap(text + ": " + Print(e->args[1], kProductLevel), kSumLevel, level);
  }

  const std::vector<std::string>& operands_;
};

}  // namespace

std::string PrintExpr(const ExprPtr& expr, const std::vector<std::string>& operand_names) {
  return Printer(operand_names).Print(expr, kLowest);
}

}  // namespace rewright
