#include "core/ir/expr.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "core/base/check.h"
#include "core/base/integer.h"

namespace rewright {

// ---------------------------------------------------------------- interning

// A table of every existing node. It does not own them: a node is removed when its last user drops it. It is divided
// into shards, each with its own lock; no lock is held while nodes of other shards are made or destroyed.
class ExprTable {
 public:
  // Never destroyed: expressions may outlive all other static objects.
  static ExprTable& Global() {
    static auto* const table = new ExprTable;
    return *table;
  }

  ExprPtr Intern(ExprNode candidate) {
    Shard& shard = ShardOf(candidate);
    const std::lock_guard<std::mutex> lock(shard.mutex);
    const auto found = shard.nodes.find(&candidate);
    if (found != shard.nodes.end()) {
      // Called on a non-const node: a const one would convert a weak_ptr, for which libstdc++ makes a temporary
      // shared_ptr, and dropping a node's last shared_ptr takes the lock. Returns null for a node whose last user is
      // waiting for the lock to remove it; the caller then replaces that node.
      if (ExprPtr node = const_cast<ExprNode*>(*found)->weak_from_this().lock()) return node;
      shard.nodes.erase(found);
    }
    auto node = std::make_shared<ExprNode>(std::move(candidate));
    node->interned_ = true;
    shard.nodes.insert(node.get());
    return node;
  }

  void Forget(const ExprNode* node) {
    Shard& shard = ShardOf(*node);
    const std::lock_guard<std::mutex> lock(shard.mutex);
    const auto found = shard.nodes.find(node);
    if (found != shard.nodes.end() && *found == node) shard.nodes.erase(found);
  }

  size_t size() {
    size_t size = 0;
    for (Shard& shard : shards_) {
      const std::lock_guard<std::mutex> lock(shard.mutex);
      size += shard.nodes.size();
    }
    return size;
  }

 private:
  struct Hash {
    size_t operator()(const ExprNode* node) const { return node->hash_; }
  };
  struct Equal {
    bool operator()(const ExprNode* a, const ExprNode* b) const {
      return a == b ||
             (a->hash_ == b->hash_ && a->kind_ == b->kind_ && a->dtype_ == b->dtype_ && a->number_ == b->number_ &&
              a->args_ == b->args_ && a->name_ == b->name_ && a->bound_ == b->bound_);
    }
  };
  struct alignas(64) Shard {
    std::mutex mutex;
    absl::flat_hash_set<const ExprNode*, Hash, Equal> nodes;
  };

  Shard& ShardOf(const ExprNode& node) { return shards_[node.hash_ >> 58]; }

  std::array<Shard, 64> shards_;
};

namespace {

uint64_t Mix(uint64_t hash, uint64_t word) { return MixBits(hash + word); }

uint64_t Mix(uint64_t hash, const std::string& text) {
  hash = Mix(hash, text.size());
  for (char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

constexpr int kExactVariables = 64;  // numbers below have a bit of their own

}  // namespace

ExprNode::ExprNode(Fields fields)
    : kind_(fields.kind),
      dtype_(fields.dtype),
      kinds_(uint32_t{1} << static_cast<int>(fields.kind)),
      number_(fields.number),
      name_(std::move(fields.name)),
      args_(std::move(fields.args)),
      bound_(std::move(fields.bound)) {
  static_assert(static_cast<int>(ExprKind::kOpaque) < 32);
  hash_ = Mix(static_cast<uint64_t>(kind_) << 8 | static_cast<uint64_t>(dtype_), static_cast<uint64_t>(number_));
  if (!name_.empty()) hash_ = Mix(hash_, name_);
  const auto take = [this](const ExprNode& child) {
    kinds_ |= child.kinds_;
    variables_ |= child.variables_;
    greatest_variable_ = std::max(greatest_variable_, child.greatest_variable_);
    hash_ = Mix(hash_, child.hash_);
  };
  for (const ExprPtr& arg : args_) take(*arg);
  if (kind_ == ExprKind::kVar) {
    greatest_variable_ = static_cast<int>(number_);
    variables_ = uint64_t{1} << (number_ & 63);
  }
  for (const BoundVar& var : bound_) greatest_variable_ = std::max(greatest_variable_, var.id);
  for (const BoundVar& var : bound_) {
    if (greatest_variable_ < kExactVariables) variables_ &= ~(uint64_t{1} << var.id);
  }
  for (const BoundVar& var : bound_) {
    take(*var.extent);
    hash_ = Mix(Mix(hash_, static_cast<uint64_t>(var.id)), var.name);
  }
}

ExprNode::~ExprNode() {
  if (interned_) ExprTable::Global().Forget(this);
}

void ExprNode::WrongKind(ExprKind expected) const {
  CHECK(false) << "an expression of kind " << static_cast<int>(kind_) << " is read as one of kind "
               << static_cast<int>(expected) << ": " << PrintExpr(shared_from_this(), {});
  std::abort();
}

std::string ExprNode::Label() const {
  std::string text = std::to_string(static_cast<int>(kind_));
  for (int64_t part : {static_cast<int64_t>(dtype_), number_}) text.append(".").append(std::to_string(part));
  return text;
}

size_t NumInternedExprs() { return ExprTable::Global().size(); }

namespace {

ExprPtr MakeExpr(ExprNode::Fields fields) { return ExprTable::Global().Intern(ExprNode(std::move(fields))); }

ExprPtr Make(ExprKind kind, std::vector<ExprPtr> args) { return MakeExpr({.kind = kind, .args = std::move(args)}); }

Index Binary(ExprKind kind, const Index& a, const Index& b) { return Index(Make(kind, {a.node(), b.node()})); }

}  // namespace

// ---------------------------------------------------------------- indices

Index::Index(int64_t value) : node_(MakeExpr({.kind = ExprKind::kInt, .number = value})) {}

Index Variable(int id, std::string name) {
  CHECK(id >= 0) << name << " has number " << id;
  return Index(MakeExpr({.kind = ExprKind::kVar, .number = id, .name = std::move(name)}));
}

bool Index::IsInt(int64_t* value) const {
  if (node_->kind() != ExprKind::kInt) return false;
  *value = node_->value();
  return true;
}

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

Cond::Cond(bool value) : node_(MakeExpr({.kind = ExprKind::kBool, .number = value})) {}

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
  if (a.node()->IsTrue()) return b;
  if (b.node()->IsTrue()) return a;
  if (a.node()->IsFalse()) return a;
  return Cond(Make(ExprKind::kAnd, {a.node(), b.node()}));
}

Cond operator||(const Cond& a, const Cond& b) {
  if (a.node()->IsFalse()) return b;
  if (b.node()->IsFalse()) return a;
  if (a.node()->IsTrue()) return a;
  return Cond(Make(ExprKind::kOr, {a.node(), b.node()}));
}

Cond operator!(const Cond& a) {
  if (a.node()->kind() == ExprKind::kBool) return Cond(!a.node()->truth());
  if (a.node()->kind() == ExprKind::kNot) return Cond(a.node()->arg(0));
  return Cond(Make(ExprKind::kNot, {a.node()}));
}

Cond InRange(const Index& x, const Index& lo, const Index& hi) { return lo <= x && x < hi; }

// ---------------------------------------------------------------- scalars

Scalar Constant(double value, DType dtype) {
  return Scalar(MakeExpr({.kind = ExprKind::kConst, .dtype = dtype, .number = std::bit_cast<int64_t>(value)}));
}

Scalar Parameter(int id, std::string name, DType dtype) {
  return Scalar(MakeExpr({.kind = ExprKind::kParam, .dtype = dtype, .number = id, .name = std::move(name)}));
}

Scalar ReadOperand(int operand, const std::vector<Index>& at, DType dtype) {
  std::vector<ExprPtr> args;
  for (const Index& index : at) args.push_back(index.node());
  return Scalar(MakeExpr({.kind = ExprKind::kRead, .dtype = dtype, .number = operand, .args = std::move(args)}));
}

Scalar FromIndex(const Index& index, DType dtype) {
  return Scalar(MakeExpr({.kind = ExprKind::kFromIndex, .dtype = dtype, .args = {index.node()}}));
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
  return Scalar(MakeExpr({.kind = ExprKind::kCast, .dtype = dtype, .args = {value.node()}}));
}

Scalar Call(Fn fn, const std::vector<Scalar>& args) {
  CHECK(static_cast<int>(args.size()) == FnArity(fn)) << FnName(fn) << " of " << args.size();
  ExprNode::Fields fields{.kind = ExprKind::kCall, .number = static_cast<int64_t>(fn)};
  for (const Scalar& arg : args) {
    CHECK(arg.dtype() == args[0].dtype())
        << FnName(fn) << " of " << DTypeName(args[0].dtype()) << " and " << DTypeName(arg.dtype());
    fields.args.push_back(arg.node());
  }
  fields.dtype = FnHas(fn, FnTrait::kCompares) ? DType::kBool : args[0].dtype();
  return Scalar(MakeExpr(std::move(fields)));
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
Scalar Pow(const Scalar& a, const Scalar& b) { return Call(Fn::kPow, {a, b}); }

Scalar Select(const Cond& condition, const Scalar& yes, const Scalar& no) {
  if (condition.node()->IsTrue()) return yes;
  if (condition.node()->IsFalse()) return no;
  CHECK(yes.dtype() == no.dtype()) << "select of " << DTypeName(yes.dtype()) << " and " << DTypeName(no.dtype());
  return Scalar(
      MakeExpr({.kind = ExprKind::kSelect, .dtype = yes.dtype(), .args = {condition.node(), yes.node(), no.node()}}));
}

Scalar Select(const Cond& condition, const Scalar& yes, double no) {
  return Select(condition, yes, Constant(no, yes.dtype()));
}

Scalar ReduceOver(ReduceKind kind, std::vector<BoundVar> bound, const Cond& guard, const Scalar& body) {
  CHECK(!IsPosition(kind) || bound.size() == 1) << ReduceName(kind) << " binds " << bound.size() << " variables";
  for (const BoundVar& var : bound) {
    for (const BoundVar& other : bound) {
      CHECK(!other.extent->MayMention(var.id) || std::max(var.id, other.extent->greatest_variable()) >= kExactVariables)
          << "the extent of " << other.name << " mentions " << var.name;
    }
  }
  return Scalar(MakeExpr({.kind = ExprKind::kReduce,
                          .dtype = IsPosition(kind) ? DType::kInt64 : body.dtype(),
                          .number = static_cast<int64_t>(kind),
                          .args = {guard.node(), body.node()},
                          .bound = std::move(bound)}));
}

Scalar OpaqueElement(std::string name, int output, std::vector<ExprPtr> args, DType dtype) {
  return Scalar(MakeExpr(
      {.kind = ExprKind::kOpaque, .dtype = dtype, .number = output, .name = std::move(name), .args = std::move(args)}));
}

ExprPtr WithChildren(const ExprPtr& node, std::vector<ExprPtr> args, std::vector<BoundVar> bound) {
  const auto index = [&](size_t i) { return Index(args[i]); };
  const auto cond = [&](size_t i) { return Cond(args[i]); };
  const auto scalar = [&](size_t i) { return Scalar(args[i]); };
  switch (node->kind()) {
    case ExprKind::kInt:
    case ExprKind::kVar:
    case ExprKind::kBool:
    case ExprKind::kConst:
    case ExprKind::kParam: return node;
    case ExprKind::kIndexAdd: return (index(0) + index(1)).node();
    case ExprKind::kIndexSub: return (index(0) - index(1)).node();
    case ExprKind::kIndexMul: return (index(0) * index(1)).node();
    case ExprKind::kFloorDiv: return FloorDiv(index(0), index(1)).node();
    case ExprKind::kMod: return Mod(index(0), index(1)).node();
    case ExprKind::kIndexMin: return Min(index(0), index(1)).node();
    case ExprKind::kIndexMax: return Max(index(0), index(1)).node();
    case ExprKind::kFromValue: return ToIndex(scalar(0)).node();
    case ExprKind::kLess: return (index(0) < index(1)).node();
    case ExprKind::kLessEqual: return (index(0) <= index(1)).node();
    case ExprKind::kEqual: return (index(0) == index(1)).node();
    case ExprKind::kAnd: return (cond(0) && cond(1)).node();
    case ExprKind::kOr: return (cond(0) || cond(1)).node();
    case ExprKind::kNot: return (!cond(0)).node();
    case ExprKind::kHolds: return Holds(scalar(0)).node();
    case ExprKind::kFromIndex: return FromIndex(index(0), node->dtype()).node();
    case ExprKind::kRead:
      return ReadOperand(node->operand(), std::vector<Index>(args.begin(), args.end()), node->dtype()).node();
    case ExprKind::kCall: return Call(node->fn(), std::vector<Scalar>(args.begin(), args.end())).node();
    case ExprKind::kSelect: return Select(cond(0), scalar(1), scalar(2)).node();
    case ExprKind::kReduce: return ReduceOver(node->reduction(), std::move(bound), cond(0), scalar(1)).node();
    case ExprKind::kCast: return Cast(scalar(0), node->dtype()).node();
    case ExprKind::kOpaque: return OpaqueElement(node->name(), node->output(), std::move(args), node->dtype()).node();
  }
  CHECK(false) << "an expression of an unknown kind";
  return nullptr;
}

// ---------------------------------------------------------------- tables

namespace {

constexpr const char* kReduceNames[] = {"sum", "prod", "max", "min", "argmax", "argmin"};

}  // namespace

const char* ReduceName(ReduceKind kind) { return kReduceNames[static_cast<int>(kind)]; }
bool IsPosition(ReduceKind kind) { return kind == ReduceKind::kArgMax || kind == ReduceKind::kArgMin; }
bool IsIndexKind(ExprKind kind) { return kind <= ExprKind::kFromValue; }
bool IsCondKind(ExprKind kind) { return kind >= ExprKind::kBool && kind <= ExprKind::kHolds; }
bool IsScalarKind(ExprKind kind) { return kind >= ExprKind::kConst; }

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
    switch (e->kind()) {
      case ExprKind::kInt:
        return e->value() < 0 ? Wrap(std::to_string(e->value()), kSumLevel, level) : std::to_string(e->value());
      case ExprKind::kVar:
      case ExprKind::kParam: return e->name();
      case ExprKind::kIndexAdd: return Infix(e, "+", kSumLevel, level);
      case ExprKind::kIndexSub: return Infix(e, "-", kSumLevel, level);
      case ExprKind::kIndexMul: return Infix(e, "*", kProductLevel, level);
      case ExprKind::kFloorDiv: return Infix(e, "div", kProductLevel, level);
      case ExprKind::kMod: return Infix(e, "mod", kProductLevel, level);
      case ExprKind::kIndexMin: return "min" + Arguments(e->args());
      case ExprKind::kIndexMax: return "max" + Arguments(e->args());
      case ExprKind::kFromValue:
      case ExprKind::kHolds:
      case ExprKind::kFromIndex: return Print(e->arg(0), level);
      case ExprKind::kBool: return e->truth() ? "true" : "false";
      case ExprKind::kLess: return Infix(e, "<", kCompareLevel, level);
      case ExprKind::kLessEqual: return Infix(e, "<=", kCompareLevel, level);
      case ExprKind::kEqual: return Infix(e, "=", kCompareLevel, level);
      case ExprKind::kAnd: return Infix(e, "and", kAndLevel, level);
      case ExprKind::kOr: return Infix(e, "or", kOrLevel, level);
      case ExprKind::kNot: return Wrap("not " + Print(e->arg(0), kNotLevel + 1), kNotLevel, level);
      case ExprKind::kConst: return Real(e->real());
      case ExprKind::kRead: return Read(e);
      case ExprKind::kCall: return CallText(e, level);
      case ExprKind::kSelect:
        return Wrap(
            Print(e->arg(0), kOrLevel) + " ? " + Print(e->arg(1), kOrLevel) + " : " + Print(e->arg(2), kSelectLevel),
            kSelectLevel, level);
      case ExprKind::kReduce: return Reduction(e, level);
      case ExprKind::kCast: return std::string(DTypeName(e->dtype())) + "(" + Print(e->arg(0), kLowest) + ")";
      case ExprKind::kOpaque: return e->name() + "." + std::to_string(e->output()) + Arguments(e->args());
    }
    return "";
  }

 private:
  static std::string Wrap(std::string text, int own, int level) {
    return own < level ? "(" + std::move(text) + ")" : text;
  }

  static std::string Real(double value) {
    std::string text = std::to_string(value);
    if (std::abs(value) < 1e-6 && value != 0) {  // would print as 0
      char digits[40];
      std::snprintf(digits, sizeof digits, "%.17g", value);
      return digits;
    }
    if (text.find('.') != std::string::npos) {
      while (text.back() == '0') text.pop_back();
      if (text.back() == '.') text.pop_back();
    }
    return text;
  }

  std::string Infix(const ExprPtr& e, const std::string& sign, int own, int level) const {
    return Wrap(Print(e->arg(0), own) + " " + sign + " " + Print(e->arg(1), own + 1), own, level);
  }

  std::string Arguments(const std::vector<ExprPtr>& args) const {
    std::string text = "(";
    for (size_t i = 0; i < args.size(); ++i) text += (i > 0 ? ", " : "") + Print(args[i], kLowest);
    return text + ")";
  }

  std::string Read(const ExprPtr& e) const {
    const size_t operand = e->operand();
    std::string text = operand < operands_.size() ? operands_[operand] : "$" + std::to_string(operand);
    if (e->args().empty()) return text;
    text += "[";
    for (size_t i = 0; i < e->args().size(); ++i) text += (i > 0 ? ", " : "") + Print(e->args()[i], kLowest);
    return text + "]";
  }

  std::string CallText(const ExprPtr& e, int level) const {
    if (e->fn() == Fn::kNeg) return Wrap("-" + Print(e->arg(0), kProductLevel), kProductLevel, level);
    if (!FnIsInfix(e->fn())) return FnName(e->fn()) + Arguments(e->args());
    int own = kCompareLevel;
    if (e->fn() == Fn::kAdd || e->fn() == Fn::kSub) own = kSumLevel;
    if (e->fn() == Fn::kMul || e->fn() == Fn::kDiv) own = kProductLevel;
    if (e->fn() == Fn::kAnd) own = kAndLevel;
    if (e->fn() == Fn::kOr) own = kOrLevel;
    return Infix(e, FnName(e->fn()), own, level);
  }

  std::string Reduction(const ExprPtr& e, int level) const {
    std::string text = ReduceName(e->reduction());
    for (size_t i = 0; i < e->bound().size(); ++i) {
      text += (i > 0 ? ", " : " ") + e->bound()[i].name + " < " + Print(e->bound()[i].extent, kSumLevel);
    }
    if (!e->guard()->IsTrue()) text += " if " + Print(e->guard(), kOrLevel);
    return Wrap(text + ": " + Print(e->body(), kProductLevel), kSumLevel, level);
  }

  const std::vector<std::string>& operands_;
};

}  // namespace

std::string PrintExpr(const ExprPtr& expr, const std::vector<std::string>& operand_names) {
  return Printer(operand_names).Print(expr, kLowest);
}

}  // namespace rewright
