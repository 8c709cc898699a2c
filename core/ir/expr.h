// The index-expression language in which every operator states its meaning (core/ir/op.h).
//
// Three sorts are told apart by three C++ wrappers, so that a declaration which confuses them does not compile:
//
//   Index   integers: sizes, symbolic attributes, index variables, + - * div mod (div and mod round down);
//   Cond    truth values over indices (and over boolean elements): comparisons, and, or, not;
//   Scalar  elements: constants, reads of operands, scalar functions, select, reductions with bound index variables.
//
// All variables of one declaration are numbered from 0 by the OpBuilder that made it; an expression is closed only
// together with its Meaning. Readers (interpreter, verifier, cost features, printer) walk the nodes, most of them with
// the help of core/ir/rewrite.h; none of them knows an operator by name.
//
// Nodes are immutable and *interned*: two expressions of equal structure are one node (docs/decisions/023), so that
// `==` of ExprPtr is structural equality and a pointer is a key for memos. The printed names of variables and
// parameters are part of the structure. Making and dropping expressions is thread-safe.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/ir/functions.h"
#include "core/tensor/dtype.h"

namespace rewright {

enum class ExprKind : uint8_t {
  // Index sort.
  kInt,        // value
  kVar,        // variable number `variable`; name = its printed name
  kIndexAdd,   // args[0] + args[1]
  kIndexSub,   // args[0] - args[1]
  kIndexMul,   // args[0] * args[1]
  kFloorDiv,   // floor(args[0] / args[1]); the divisor is positive wherever the expression is evaluated
  kMod,        // args[0] - args[1] * floor(args[0] / args[1])
  kIndexMin,   // min(args[0], args[1])
  kIndexMax,   // max(args[0], args[1])
  kFromValue,  // the integer element args[0] (Scalar) used as an index: gather
  // Condition sort.
  kBool,       // truth
  kLess,       // args[0] < args[1] (Index)
  kLessEqual,  // args[0] <= args[1] (Index)
  kEqual,      // args[0] == args[1] (Index)
  kAnd,        // args[0] and args[1]; args[1] is evaluated only where args[0] holds
  kOr,         // args[0] or args[1]
  kNot,        // not args[0]
  kHolds,      // the boolean element args[0] (Scalar) is true
  // Scalar sort.
  kConst,      // real, of type dtype
  kParam,      // a real-valued symbolic attribute (alpha, epsilon): number `param`; name = its name
  kFromIndex,  // the integer args[0] (Index) as an element of type dtype
  kRead,       // operand number `operand` at indices args (Index); zero indices for a scalar operand
  kCall,       // fn(args...)
  kSelect,     // args[0] (Cond) ? args[1] : args[2]; only the chosen side is evaluated
  kReduce,     // reduction of the body over `bound` where the guard holds; args are the two
  kCast,       // args[0] converted to dtype
  kOpaque,     // of output `output` of an opaque operator (core/ir/op.h): the element that its reference function gives
               // for all operands; args are the position (Index) and the operator's symbolic attributes, name is the
               // operator with its structural attributes
};

// Reductions. An empty sum is 0, an empty product 1, an empty max -infinity, an empty min +infinity. kArgMax and
// kArgMin give the smallest value of the single bound variable at which the extremum is attained.
enum class ReduceKind : uint8_t { kSum, kProd, kMax, kMin, kArgMax, kArgMin };

class ExprNode;
using ExprPtr = std::shared_ptr<const ExprNode>;

// A variable bound by a reduction; it runs over 0 <= variable < extent. The extent stands outside of the reduction: it
// mentions none of the variables bound beside it.
struct BoundVar {
  int id = 0;
  std::string name;
  ExprPtr extent;  // Index
  friend bool operator==(const BoundVar&, const BoundVar&) = default;
};

// One node of an expression. Each kind has accessors for the data that it carries besides its arguments; calling one on
// another kind is a bug and ends the program.
class ExprNode : public std::enable_shared_from_this<ExprNode> {
 public:
  ExprKind kind() const { return kind_; }
  DType dtype() const { return dtype_; }  // Scalar sort: the type of the element
  const std::vector<ExprPtr>& args() const { return args_; }
  const ExprPtr& arg(size_t i) const { return args_[i]; }
  // Hash of the structure, the same in every process.
  uint64_t hash() const { return hash_; }

  int64_t value() const { return Of(ExprKind::kInt).number_; }
  bool truth() const { return Of(ExprKind::kBool).number_ != 0; }
  double real() const { return std::bit_cast<double>(Of(ExprKind::kConst).number_); }
  int variable() const { return static_cast<int>(Of(ExprKind::kVar).number_); }
  int param() const { return static_cast<int>(Of(ExprKind::kParam).number_); }
  int operand() const { return static_cast<int>(Of(ExprKind::kRead).number_); }
  int output() const { return static_cast<int>(Of(ExprKind::kOpaque).number_); }
  const std::string& name() const { return name_; }  // kVar, kParam, kOpaque; of others empty
  Fn fn() const { return static_cast<Fn>(Of(ExprKind::kCall).number_); }
  ReduceKind reduction() const { return static_cast<ReduceKind>(Of(ExprKind::kReduce).number_); }
  // The bound variables of a reduction in summation order, the first varying slowest; empty for other kinds.
  const std::vector<BoundVar>& bound() const { return bound_; }
  // Points where the guard fails are left out.
  const ExprPtr& guard() const { return Of(ExprKind::kReduce).args_[0]; }
  const ExprPtr& body() const { return Of(ExprKind::kReduce).args_[1]; }
  const ExprPtr& condition() const { return Of(ExprKind::kSelect).args_[0]; }
  const ExprPtr& yes() const { return Of(ExprKind::kSelect).args_[1]; }
  const ExprPtr& no() const { return Of(ExprKind::kSelect).args_[2]; }

  bool IsInt(int64_t value) const { return kind_ == ExprKind::kInt && number_ == value; }
  bool IsVariable() const { return kind_ == ExprKind::kVar; }
  bool IsVariable(int id) const { return kind_ == ExprKind::kVar && number_ == id; }
  bool IsTrue() const { return kind_ == ExprKind::kBool && number_ != 0; }
  bool IsFalse() const { return kind_ == ExprKind::kBool && number_ == 0; }
  bool IsConst() const { return kind_ == ExprKind::kConst; }
  bool IsRead() const { return kind_ == ExprKind::kRead; }
  bool IsRead(int operand) const { return kind_ == ExprKind::kRead && number_ == operand; }
  bool IsCall() const { return kind_ == ExprKind::kCall; }
  bool IsEquation() const { return kind_ == ExprKind::kEqual; }
  bool IsCall(Fn fn) const { return kind_ == ExprKind::kCall && number_ == static_cast<int64_t>(fn); }
  // True if the node or a node below it (arguments and extents) is of that kind.
  bool Contains(ExprKind kind) const { return (kinds_ >> static_cast<int>(kind) & 1) != 0; }
  bool Reduces() const { return Contains(ExprKind::kReduce); }
  // True if an index or condition depends on elements.
  bool ReadsData() const { return Contains(ExprKind::kFromValue) || Contains(ExprKind::kHolds); }
  // True if the variable may occur free; false is certain.
  bool MayMention(int variable) const { return (variables_ >> (variable & 63) & 1) != 0; }
  int greatest_variable() const { return greatest_variable_; }  // that occurs, free or bound; -1: none

  // Returns as text all that distinguishes the node apart from its arguments, bound variables and names.
  std::string Label() const;

  // Only for MakeExpr (core/ir/expr.cc), which makes all nodes; the functions below check sorts and types.
  struct Fields {
    ExprKind kind;
    DType dtype = DType::kFloat32;
    int64_t number = 0;
    std::string name;
    std::vector<ExprPtr> args;
    std::vector<BoundVar> bound;
  };
  explicit ExprNode(Fields fields);
  ExprNode(ExprNode&&) = default;
  ~ExprNode();

 private:
  friend class ExprTable;
  const ExprNode& Of(ExprKind kind) const {
    if (kind_ != kind) [[unlikely]]
      WrongKind(kind);
    return *this;
  }
  [[noreturn]] void WrongKind(ExprKind expected) const;

  ExprKind kind_;
  DType dtype_;
  bool interned_ = false;
  uint32_t kinds_ = 0;  // of the node and all below it, a bit each
  int greatest_variable_ = -1;
  uint64_t variables_ = 0;  // all that occur free, and possibly others: bit (id mod 64)
  uint64_t hash_ = 0;
  int64_t number_;  // by kind: a value, a truth value, bits of a real, the number of a variable, operand, function...
  std::string name_;
  std::vector<ExprPtr> args_;
  std::vector<BoundVar> bound_;
};

class Index {
 public:
  Index() = default;
  Index(int64_t value);                                     // NOLINT: an integer is an index expression
  Index(int value) : Index(static_cast<int64_t>(value)) {}  // NOLINT
  explicit Index(ExprPtr node) : node_(std::move(node)) {}
  const ExprPtr& node() const { return node_; }
  // Returns the value if the expression is an integer literal.
  bool IsInt(int64_t* value) const;
  bool Is(int64_t value) const { return node_->IsInt(value); }

 private:
  ExprPtr node_;
};

// Variable number `id` of a declaration, printed as `name`.
Index Variable(int id, std::string name);
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
  DType dtype() const { return node_->dtype(); }

 private:
  ExprPtr node_;
};

Scalar Constant(double value, DType dtype);
// Parameter number `id` of a declaration: a real attribute.
Scalar Parameter(int id, std::string name, DType dtype);
// The element of operand number `operand`, which has that type, at a position.
Scalar ReadOperand(int operand, const std::vector<Index>& at, DType dtype);
Scalar FromIndex(const Index& index, DType dtype);
Index ToIndex(const Scalar& value);  // value is an integer element
Cond Holds(const Scalar& value);     // value is a boolean element
Scalar Cast(const Scalar& value, DType dtype);

// The operands of one call have one type; a double literal takes the type of the other operand.
Scalar Call(Fn fn, const std::vector<Scalar>& args);
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
Scalar Pow(const Scalar& a, const Scalar& b);
// Exp(a) and all other real functions of the table.
#define REWRIGHT_REAL(Id, ...) \
  inline Scalar Id(const Scalar& a) { return Call(Fn::k##Id, {a}); }
#define REWRIGHT_UNARY(...)
#define REWRIGHT_BINARY(...)
#include "core/ir/functions.def"
Scalar Select(const Cond& condition, const Scalar& yes, const Scalar& no);
Scalar Select(const Cond& condition, const Scalar& yes, double no);
// Makes a reduction of `body` over the points at which `guard` holds. Positions (kArgMax, kArgMin) are of type i64 and
// bind one variable.
Scalar ReduceOver(ReduceKind kind, std::vector<BoundVar> bound, const Cond& guard, const Scalar& body);

// Makes the element of an opaque operator's output `output`; see ExprKind::kOpaque.
Scalar OpaqueElement(std::string name, int output, std::vector<ExprPtr> args, DType dtype);

// Makes the node with other children by the functions above: literals fold, and element types follow from the
// arguments.
ExprPtr WithChildren(const ExprPtr& node, std::vector<ExprPtr> args, std::vector<BoundVar> bound);

// Properties of kinds of nodes.
const char* ReduceName(ReduceKind kind);  // "sum", "max", ...
bool IsPosition(ReduceKind kind);         // kArgMax, kArgMin
bool IsIndexKind(ExprKind kind);
bool IsCondKind(ExprKind kind);
bool IsScalarKind(ExprKind kind);

// Returns the number of nodes that exist in this process.
size_t NumInternedExprs();

// The formula as a person writes it, for example
//   sum d, r, s: x[n, d, y + r, z + s] * w[o, d, r, s]
// Operand names print reads; a missing name prints as $k.
std::string PrintExpr(const ExprPtr& expr, const std::vector<std::string>& operand_names);

}  // namespace rewright
