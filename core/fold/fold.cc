#include "core/fold/fold.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/adjoint/scope.h"
#include "core/base/status_macros.h"
#include "core/ir/rewrite.h"

namespace rewright {
namespace {

// Gives bound variables the numbers first, first + 1, .. by the depth at which they are bound: expressions that differ
// by the names of bound variables become one node.
class BoundByDepth {
 public:
  explicit BoundByDepth(int first) : first_(first) {}

  ExprPtr operator()(const ExprPtr& expr) const { return At(expr, {}, 0); }

 private:
  using Names = std::map<int, ExprPtr>;

  ExprPtr At(const ExprPtr& expr, const Names& names, int depth) const {
    if (expr->IsVariable()) {
      const auto name = names.find(expr->variable());
      return name == names.end() ? expr : name->second;
    }
    std::vector<BoundVar> bound;
    Names inner = names;
    for (const BoundVar& var : expr->bound()) {
      const int id = first_ + depth + static_cast<int>(bound.size());
      const std::string name = absl::StrCat("r", depth + static_cast<int>(bound.size()));
      bound.push_back({id, name, At(var.extent, names, depth)});
      inner[var.id] = Variable(id, name).node();
    }
    std::vector<ExprPtr> args;
    for (const ExprPtr& arg : expr->args()) args.push_back(At(arg, inner, depth + static_cast<int>(bound.size())));
    return WithChildren(expr, std::move(args), std::move(bound));
  }

  const int first_;
};

// A product of factors, each of them above or below the line.
struct Factor {
  ExprPtr value;
  bool below = false;
};

void FactorsOf(const ExprPtr& expr, bool below, std::vector<Factor>* factors) {
  if (expr->IsCall(Fn::kMul)) {
    for (const ExprPtr& arg : expr->args()) FactorsOf(arg, below, factors);
  } else if (expr->IsCall(Fn::kDiv)) {
    FactorsOf(expr->arg(0), below, factors);
    FactorsOf(expr->arg(1), !below, factors);
  } else {
    factors->push_back({expr, below});
  }
}

Scalar ProductOf(const std::vector<Factor>& factors, DType dtype) {
  std::optional<Scalar> product;
  for (const Factor& factor : factors) {
    if (factor.below) continue;
    const Scalar value(factor.value);
    product = product ? *product * value : value;
  }
  Scalar result = product.value_or(Constant(1, dtype));
  for (const Factor& factor : factors) {
    if (factor.below) result = result / Scalar(factor.value);
  }
  return result;
}

// A sum of terms with signs.
struct Addend {
  ExprPtr value;
  bool negative = false;
};

void AddendsOf(const ExprPtr& expr, bool negative, std::vector<Addend>* addends) {
  if (expr->IsCall(Fn::kAdd) || expr->IsCall(Fn::kSub)) {
    AddendsOf(expr->arg(0), negative, addends);
    AddendsOf(expr->arg(1), negative != expr->IsCall(Fn::kSub), addends);
  } else if (expr->IsCall(Fn::kNeg)) {
    AddendsOf(expr->arg(0), !negative, addends);
  } else {
    addends->push_back({expr, negative});
  }
}

Scalar SumOf(const std::vector<Addend>& addends, DType dtype) {
  std::optional<Scalar> sum;
  for (const bool negative : {false, true}) {
    for (const Addend& addend : addends) {
      if (addend.negative != negative) continue;
      const Scalar value(addend.value);
      sum = !sum ? (negative ? -value : value) : negative ? *sum - value : *sum + value;
    }
  }
  return sum.value_or(Constant(0, dtype));
}

class Folder {
 public:
  Folder(const Meaning& meaning, const ExprPtr& extent, int num_operands)
      : meaning_(meaning),
        scope_(meaning, Scope::Uses::kEquations),
        loop_(scope_.FormOf(extent)),
        first_bound_(static_cast<int>(meaning.variables.size()) + 1),
        canonical_(first_bound_) {
    fold_.num_operands = num_operands;
    fold_.variable = static_cast<int>(meaning.variables.size());
    fold_.extent = extent;
  }

  absl::StatusOr<Fold> Run(const OutputMeaning& output) {
    for (const int v : output.index_vars) positions_.insert(v);
    NoteAxes();
    fold_.element = WithoutReductions(output.element);
    RETURN_IF_ERROR(status_);
    if (fold_.carried.empty()) return absl::NotFoundError("no reduction runs along the axis");
    const int carried = static_cast<int>(fold_.carried.size());
    for (Carried& c : fold_.carried) {
      if (c.repair != nullptr)
        c.repair = fold_.Renumbered(c.repair, [&](int k) { return k >= kNew ? k - kNew + carried : k; });
    }
    return std::move(fold_);
  }

 private:
  void NoteAxes() {
    for (size_t v = 0; v < meaning_.variables.size(); ++v) {
      const Meaning::Variable& var = meaning_.variables[v];
      if (var.kind != Meaning::VarKind::kSize) continue;
      if (RunsAlong(Variable(static_cast<int>(v), var.name).node())) fold_.along.emplace_back(var.input, var.axis);
    }
  }
  // Operands are read along the axis at the loop's variable alone.
  void CheckReads(const ExprPtr& body) {
    Visit(body, [&](const ExprPtr& node) {
      if (!node->IsRead()) return;
      for (const auto& [operand, axis] : fold_.along) {
        if (node->operand() == operand && !node->arg(static_cast<size_t>(axis))->IsVariable(fold_.variable)) {
          Fail("an operand is read at another position of the axis");
        }
      }
    });
  }
  bool RunsAlong(const ExprPtr& extent) { return scope_.FormOf(extent) == loop_; }
  ExprPtr LoopVariable() const { return Variable(fold_.variable, "t").node(); }
  // New values have these numbers until it is known how many there are.
  static constexpr int kNew = 1 << 20;

  void Fail(const std::string& reason) {
    if (status_.ok()) status_ = absl::NotFoundError(reason);
  }

  // The expression with reads of carried numbers in place of reductions along the axis, the innermost first.
  ExprPtr WithoutReductions(const ExprPtr& expr) {
    return RewriteExpr(expr, [&](const ExprPtr& node) {
      if (node->kind() != ExprKind::kReduce || !status_.ok()) return node;
      const auto along = std::find_if(node->bound().begin(), node->bound().end(),
                                      [&](const BoundVar& var) { return RunsAlong(var.extent); });
      if (along == node->bound().end()) return node;
      return InPlaceOf(*node, *along);
    });
  }

  ExprPtr InPlaceOf(const ExprNode& reduction, const BoundVar& along) {
    if (IsPosition(reduction.reduction())) {
      Fail("a position is searched along the axis");
      return reduction.shared_from_this();
    }
    std::vector<BoundVar> others;
    for (const BoundVar& var : reduction.bound()) {
      if (var.id != along.id) others.push_back(var);
    }
    std::vector<ExprPtr> to_loop(static_cast<size_t>(along.id) + 1);
    to_loop[static_cast<size_t>(along.id)] = LoopVariable();
    const auto in_loop = [&](const ExprPtr& expr) { return Substitute(expr, to_loop, {}); };
    ExprPtr body = in_loop(reduction.body()), guard = in_loop(reduction.guard());
    if (!others.empty()) {
      body = ReduceOver(reduction.reduction(), others, Cond(guard), Scalar(body)).node();
      guard = Cond(true).node();
    }
    return Read(reduction.reduction(), Counted(canonical_(body)), canonical_(guard)).node();
  }

  // The length of the axis as an element is what has been counted so far: the two are equal at the end, and numbers
  // that are carried from block to block, such as a mean, then stand for the blocks that were read.
  ExprPtr Counted(const ExprPtr& body) {
    return RewriteExpr(body, [&](const ExprPtr& node) {
      if (node->kind() != ExprKind::kFromIndex || !RunsAlong(node->arg(0)) || fold_.Varies(node)) return node;
      return Read(ReduceKind::kSum, Constant(1, node->dtype()).node(), Cond(true).node()).node();
    });
  }

  // Reads the reduction of `body`, which is carried from now on.
  Scalar Read(ReduceKind kind, const ExprPtr& body, const ExprPtr& guard) {
    if (kind != ReduceKind::kSum) return ReadAsItIs(kind, body, guard);
    // Factors that do not vary leave the sum.
    std::vector<Factor> factors, inside, outside;
    FactorsOf(body, false, &factors);
    for (const Factor& factor : factors) {
      if (factor.value->IsConst() && factor.value->real() == 1) continue;
      (fold_.Varies(factor.value) ? inside : outside).push_back(factor);
    }
    const Scalar sum = ReadAsItIs(kind, ProductOf(inside, body->dtype()).node(), guard);
    if (outside.empty()) return sum;
    outside.insert(outside.begin(), {sum.node(), false});
    return ProductOf(outside, body->dtype());
  }

  Scalar ReadAsItIs(ReduceKind kind, const ExprPtr& body, const ExprPtr& guard) {
    const std::pair<ReduceKind, std::pair<ExprPtr, ExprPtr>> key{kind, {body, guard}};
    auto found = numbers_.find(key);
    if (found == numbers_.end()) {
      std::set<int> positions;
      for (const ExprPtr& part : {body, guard}) {
        for (const int v : FreeVariables(part)) {
          if (v == fold_.variable || IsSymbol(v)) continue;
          if (!positions_.contains(v)) Fail("a reduction along the axis stands in another one along other axes");
          positions.insert(v);
        }
      }
      CheckReads(body);
      if (fold_.ReadsCarried(guard)) Fail("the positions that count depend on what is carried");
      Carried carried{kind, body, guard, {positions.begin(), positions.end()}, nullptr};
      const bool depends = fold_.ReadsCarried(body) && status_.ok();
      const Scalar repair = depends ? RepairOf(kind, body, guard) : Scalar();
      // Numbers that the repair needs have been carried meanwhile: they stand before this one.
      const int number = static_cast<int>(fold_.carried.size());
      found = numbers_.emplace(key, number).first;
      fold_.carried.push_back(std::move(carried));
      if (depends) {
        const ExprPtr old = ReadNumber(number, body->dtype()).node();
        fold_.carried.back().repair =
            RewriteExpr(repair.node(), [&](const ExprPtr& node) { return node->IsRead(kSelf) ? old : node; });
      }
    }
    const int number = found->second;
    return ReadNumber(number, body->dtype());
  }

  Scalar ReadNumber(int number, DType dtype) const {
    std::vector<Index> at;
    for (const int v : fold_.carried[static_cast<size_t>(number)].positions)
      at.push_back(Variable(v, scope_.NameOf(v)));
    return ReadOperand(fold_.num_operands + number, at, dtype);
  }

  bool IsSymbol(int v) const {
    return v < scope_.num_variables() &&
           (scope_.KindOf(v) == Meaning::VarKind::kSize || scope_.KindOf(v) == Meaning::VarKind::kAttr);
  }

  // The old value of the number that is about to be carried, in the repair.
  Scalar Old(DType dtype) const { return ReadOperand(kSelf, {}, dtype); }
  static constexpr int kSelf = 1 << 21;

  // By what a term of the reduction changes when carried numbers do.
  Scalar RepairOf(ReduceKind kind, const ExprPtr& body, const ExprPtr& guard) {
    const DType dtype = body->dtype();
    if (kind != ReduceKind::kSum) {
      const std::optional<Scalar> shift = ShiftOf(body);
      if (kind == ReduceKind::kProd || !shift) Fail("a reduction depends on another one in an unknown way");
      return Old(dtype) + shift.value_or(Constant(0, dtype));
    }
    std::vector<Factor> factors, fixed, shifted;
    FactorsOf(body, false, &factors);
    Scalar ratio = Constant(1, dtype);
    bool changes = false;
    std::vector<Scalar> shifts;
    for (const Factor& factor : factors) {
      if (!fold_.ReadsCarried(factor.value)) {
        fixed.push_back(factor);
        continue;
      }
      if (factor.value->IsCall(Fn::kExp)) {
        const std::optional<Scalar> shift = ShiftOf(factor.value->arg(0));
        if (!shift) Fail("an exponent depends on carried numbers in an unknown way");
        const Scalar step = Exp(shift.value_or(Constant(0, dtype)));
        ratio = factor.below ? ratio / step : changes ? ratio * step : step;
        changes = true;
        fixed.push_back(factor);
        continue;
      }
      const std::optional<Scalar> shift = factor.below ? std::nullopt : ShiftOf(factor.value);
      if (!shift) Fail("a factor depends on carried numbers in an unknown way");
      shifted.push_back(factor);
      shifts.push_back(shift.value_or(Constant(0, dtype)));
    }
    if (!status_.ok()) return Old(dtype);
    // The product of (a_j + shift_j) over all j is a sum over the sets of factors that are replaced by their shifts.
    constexpr size_t kMostShifted = 4;
    if (shifted.size() > kMostShifted) Fail("too many factors depend on carried numbers");
    std::vector<std::pair<std::pair<ExprPtr, ExprPtr>, int>> terms;  // shifts, what is left; how often
    for (unsigned set = 1; set < 1u << shifted.size(); ++set) {
      std::vector<Factor> left = fixed;
      std::optional<Scalar> moved;
      for (size_t j = 0; j < shifted.size(); ++j) {
        if (set >> j & 1) {
          moved = moved ? *moved * shifts[j] : shifts[j];
        } else {
          left.push_back(shifted[j]);
        }
      }
      const std::pair<ExprPtr, ExprPtr> term{moved->node(), ProductOf(left, dtype).node()};
      const auto same =
          std::find_if(terms.begin(), terms.end(), [&](const auto& other) { return other.first == term; });
      if (same == terms.end()) {
        terms.push_back({term, 1});
      } else {
        ++same->second;
      }
    }
    Scalar sum = Old(dtype);
    for (const auto& [term, times] : terms) {
      Scalar added = Scalar(term.first) * Read(ReduceKind::kSum, term.second, guard);
      if (times > 1) added = Constant(times, dtype) * added;
      sum = sum + added;
    }
    return changes ? sum * ratio : sum;
  }

  // new - old of an expression whose addends that depend on carried numbers do not vary along the axis.
  std::optional<Scalar> ShiftOf(const ExprPtr& expr) const {
    std::vector<Addend> addends, changes;
    AddendsOf(expr, false, &addends);
    for (const Addend& addend : addends) {
      if (!fold_.ReadsCarried(addend.value)) continue;
      if (fold_.Varies(addend.value)) return std::nullopt;
      changes.push_back({fold_.Renumbered(addend.value, [](int k) { return k + kNew; }), addend.negative});
      changes.push_back({addend.value, !addend.negative});
    }
    return SumOf(changes, expr->dtype());
  }

  const Meaning& meaning_;
  Scope scope_;
  const index::Form loop_;
  const int first_bound_;
  const BoundByDepth canonical_;
  std::set<int> positions_;
  Fold fold_;
  std::map<std::pair<ReduceKind, std::pair<ExprPtr, ExprPtr>>, int> numbers_;
  absl::Status status_;
};

}  // namespace

absl::StatusOr<Fold> DeriveFold(const Meaning& meaning, int output, int operand, int axis) {
  if (meaning.IsOpaque()) return absl::NotFoundError("the operator is opaque");
  int operands = 0;
  ExprPtr extent;
  for (size_t v = 0; v < meaning.variables.size(); ++v) {
    const Meaning::Variable& var = meaning.variables[v];
    if (var.kind != Meaning::VarKind::kSize) continue;
    operands = std::max(operands, var.input + 1);
    if (var.input == operand && var.axis == axis) extent = Variable(static_cast<int>(v), var.name).node();
  }
  if (extent == nullptr) return absl::InvalidArgumentError(absl::StrCat("operand ", operand, " has no axis ", axis));
  return Folder(meaning, extent, operands).Run(meaning.outputs[static_cast<size_t>(output)]);
}

bool Fold::IsPosition(int v) const {
  return std::any_of(carried.begin(), carried.end(), [v](const Carried& c) {
    return std::find(c.positions.begin(), c.positions.end(), v) != c.positions.end();
  });
}

Scalar Fold::Joined(ReduceKind kind, const Scalar& a, const Scalar& b) {
  switch (kind) {
    case ReduceKind::kSum: return a + b;
    case ReduceKind::kProd: return a * b;
    case ReduceKind::kMax: return Max(a, b);
    default: return Min(a, b);
  }
}

bool Fold::Varies(const ExprPtr& expr) const {
  const std::vector<int> free = FreeVariables(expr);
  return std::binary_search(free.begin(), free.end(), variable);
}

bool Fold::ReadsCarried(const ExprPtr& expr) const {
  return AnyOf(expr, [&](const ExprNode& node) { return node.IsRead() && node.operand() >= num_operands; });
}

ExprPtr Fold::Renumbered(const ExprPtr& expr, absl::FunctionRef<int(int operand)> number) const {
  return RewriteExpr(expr, [&](const ExprPtr& node) {
    if (!node->IsRead() || node->operand() < num_operands) return node;
    return ReadOperand(number(node->operand()), {node->args().begin(), node->args().end()}, node->dtype()).node();
  });
}

ExprPtr Fold::Renewed(const ExprPtr& expr) const {
  return Renumbered(expr, [&](int operand) { return operand + static_cast<int>(carried.size()); });
}

std::string Fold::ToString(const std::vector<std::string>& operand_names) const {
  std::vector<std::string> names = operand_names;
  names.resize(static_cast<size_t>(num_operands), "?");
  for (const char* const mark : {"", "'"}) {
    for (size_t k = 0; k < carried.size(); ++k) names.push_back(absl::StrCat("c", k, mark));
  }
  std::string text;
  for (size_t k = 0; k < carried.size(); ++k) {
    const Carried& c = carried[k];
    absl::StrAppend(&text, "c", k, " = ", ReduceName(c.kind), " t: ", PrintExpr(c.body, names));
    if (!c.guard->IsTrue()) absl::StrAppend(&text, " where ", PrintExpr(c.guard, names));
    absl::StrAppend(&text, "\n");
    if (c.repair != nullptr) absl::StrAppend(&text, "  from ", PrintExpr(c.repair, names), "\n");
  }
  absl::StrAppend(&text, "element = ", PrintExpr(element, names), "\n");
  return text;
}

}  // namespace rewright
