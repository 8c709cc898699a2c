// The index-expression language in which every operator states its meaning (core/ir/op.h).
//
// An expression is an immutable tree, shared by pointer. Three sorts are told apart by three C++ wrappers, so that a
// declaration which confuses them does not compile:
//
//   Index   integers: sizes, symbolic attributes, index variables, + - * div mod (div and mod round down);
//   Cond    truth values over indices (and over boolean elements): comparisons, and, or, not;
//   Scalar  elements: constants, reads of operands, scalar functions, select, reductions with bound index variables.
//
// All variables of one declaration are numbered from 0 by the OpBuilder that made it; an expression is closed only
// together with its Meaning. Readers (interpreter, verifier, cost features, printer) walk the nodes; none of them
// knows an operator by name.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/ir/dtype.h"

namespace rewright {

enum class ExprKind : uint8_t {
  // Index sort.
  kInt,        // integer
  kVar,        // integer = variable id; name = its printed name
  kIndexAdd,   // args[0] + args[1]
  kIndexSub,   // args[0] - args[1]
  kIndexMul,   // args[0] * args[1]
  kFloorDiv,   // floor(args[0] / args[1]); the divisor is positive wherever the expression is evaluated
  kMod,        // args[0] - args[1] * floor(args[0] / args[1])
  kIndexMin,   // min(args[0], args[1])
  kIndexMax,   // max(args[0], args[1])
  kFromValue,  // the integer element args[0] (Scalar) used as an index: gather
  // Condition sort.
  kBool,       // integer = 0 or 1
  kLess,       // args[0] < args[1] (Index)
  kLessEqual,  // args[0] <= args[1] (Index)
  kEqual,      // args[0] == args[1] (Index)
  kAnd,        // args[0] and args[1]; args[1] is evaluated only where args[0] holds
  kOr,         // args[0] or args[1]
  kNot,        // not args[0]
  kHolds,      // the boolean element args[0] (Scalar) is true
  // Scalar sort.
  kConst,      // real, of type dtype
  kParam,      // a real-valued symbolic attribute (alpha, epsilon): integer = parameter id; name = its name
  kFromIndex,  // the integer args[0] (Index) as an element of type dtype
  kRead,       // operand number `integer` at indices args (Index); zero indices for a scalar operand
  kCall,       // fn(args...)
  kSelect,     // args[0] (Cond) ? args[1] : args[2]; only the chosen side is evaluated
  kReduce,     // reduce over `bound`, see below
  kCast,       // args[0] converted to dtype
};

// Scalar functions. Semantics on IEEE floats follow the C library; max and min propagate NaN; div of integers
// truncates toward zero.
enum class Fn : uint8_t {
  kAdd,
  kSub,
  kMul,
  kDiv,
  kNeg,
  kMax,
  kMin,
  kPow,
  kExp,
  kLog,
  kSqrt,
  kErf,
  kTanh,
  kSigmoid,
  kAbs,
  kFloor,
  kCeil,
  kLess,
  kLessEqual,
  kEqual,  // of two elements, giving a bool
  kAnd,
  kOr,
  kNot,  // of bool elements
};

// Reductions. An empty sum is 0, an empty product 1, an empty max -infinity, an empty min +infinity. kArgMax and
// kArgMin give the smallest value of the single bound variable at which the extremum is attained.
enum class ReduceKind : uint8_t { kSum, kProd, kMax, kMin, kArgMax, kArgMin };

struct ExprNode;
using ExprPtr = std::shared_ptr<const ExprNode>;

// A variable bound by a reduction; it runs over 0 <= variable < extent.
struct BoundVar {
  int id = 0;
  std::string name;
  ExprPtr extent;  // Index
};

struct ExprNode {
  ExprKind kind;
  DType dtype = DType::kFloat32;  // Scalar sort: the type of the element
  Fn fn = Fn::kAdd;
  ReduceKind reduce = ReduceKind::kSum;
  int64_t integer = 0;
  double real = 0;
  std::string name;
  std::vector<ExprPtr> args;    // kReduce: {guard (Cond), body (Scalar)}; points where the guard fails are left out
  std::vector<BoundVar> bound;  // kReduce: in summation order, the first varying slowest
};

class Index {
 public:
  Index() = default;
  Index(int64_t value);                                     // NOLINT: an integer is an index expression
  Index(int value) : Index(static_cast<int64_t>(value)) {}  // NOLINT
  explicit Index(ExprPtr node) : node_(std::move(node)) {}
  const ExprPtr& node() const { return node_; }
  // The value when the expression is an integer literal.
  bool IsInt(int64_t* value) const;
  bool Is(int64_t value) const;

 private:
  ExprPtr node_;
};

Index operator+(const Index& a, const Index& b);
Index operator-(const Index& a, const Index& b);
Index operator*(const Index& a, const Index& b);
Index FloorDiv(const Index& a, const Index& b);
Index Mod(const Index& a, const Index& b);
Index CeilDiv(const Index& a, const Index& b);  // floor((a + b - 1) / b)
Index Min(const Index& a, const Index& b);
Index Max(const Index& a, const Index& b);

class Cond {
 public:
  Cond() = default;
  Cond(bool value);  // NOLINT: a truth value is a condition
  explicit Cond(ExprPtr node) : node_(std::move(node)) {}
  const ExprPtr& node() const { return node_; }

 private:
  ExprPtr node_;
};

Cond operator<(const Index& a, const Index& b);
Cond operator<=(const Index& a, const Index& b);
Cond operator>(const Index& a, const Index& b);
Cond operator>=(const Index& a, const Index& b);
Cond operator==(const Index& a, const Index& b);
Cond operator&&(const Cond& a, const Cond& b);
Cond operator||(const Cond& a, const Cond& b);
Cond operator!(const Cond& a);
// lo <= x < hi
Cond InRange(const Index& x, const Index& lo, const Index& hi);

class Scalar {
 public:
  Scalar() = default;
  explicit Scalar(ExprPtr node) : node_(std::move(node)) {}
  const ExprPtr& node() const { return node_; }
  DType dtype() const { return node_->dtype; }

 private:
  ExprPtr node_;
};

Scalar Constant(double value, DType dtype);
Scalar FromIndex(const Index& index, DType dtype);
Index ToIndex(const Scalar& value);  // value is an integer element
Cond Holds(const Scalar& value);     // value is a boolean element
Scalar Cast(const Scalar& value, DType dtype);

// The operands of one call have one type; a double literal takes the type of the other operand.
Scalar Call(Fn fn, std::vector<Scalar> args);
Scalar operator+(const Scalar& a, const Scalar& b);
Scalar operator-(const Scalar& a, const Scalar& b);
Scalar operator*(const Scalar& a, const Scalar& b);
Scalar operator/(const Scalar& a, const Scalar& b);
Scalar operator+(const Scalar& a, double b);
Scalar operator-(const Scalar& a, double b);
Scalar operator*(const Scalar& a, double b);
Scalar operator/(const Scalar& a, double b);
Scalar operator+(double a, const Scalar& b);
Scalar operator-(double a, const Scalar& b);
Scalar operator*(double a, const Scalar& b);
Scalar operator/(double a, const Scalar& b);
Scalar operator-(const Scalar& a);
Scalar Max(const Scalar& a, const Scalar& b);
Scalar Max(const Scalar& a, double b);
Scalar Min(const Scalar& a, const Scalar& b);
Scalar Exp(const Scalar& a);
Scalar Log(const Scalar& a);
Scalar Sqrt(const Scalar& a);
Scalar Erf(const Scalar& a);
Scalar Tanh(const Scalar& a);
Scalar Sigmoid(const Scalar& a);
Scalar Pow(const Scalar& a, const Scalar& b);
Scalar Select(const Cond& condition, const Scalar& yes, const Scalar& no);
Scalar Select(const Cond& condition, const Scalar& yes, double no);

// Properties of the tables above, for readers of expressions.
const char* FnName(Fn fn);                // "exp", "max", ...; for infix functions the sign: "+"
int FnArity(Fn fn);                       // 1 or 2
bool FnIsInfix(Fn fn);                    // + - * / and comparisons
const char* ReduceName(ReduceKind kind);  // "sum", "max", ...
bool IsIndexKind(ExprKind kind);
bool IsCondKind(ExprKind kind);
bool IsScalarKind(ExprKind kind);

// `expr` with variable id v replaced by indices[v] where that exists and is not null, and parameter p by params[p]
// likewise. Shares what does not change.
ExprPtr Substitute(const ExprPtr& expr, const std::vector<ExprPtr>& indices, const std::vector<ExprPtr>& params);

// The formula as a person writes it, for example
//   sum d, r, s: x[n, d, y + r, z + s] * w[o, d, r, s]
// Operand names print reads; a missing name prints as $k.
std::string PrintExpr(const ExprPtr& expr, const std::vector<std::string>& operand_names);

}  // namespace rewright
