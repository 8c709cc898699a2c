#include "verifier/claims/fold_claims.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/ir/made_op.h"
#include "core/ir/rewrite.h"
#include "core/ops/ops.h"

namespace rewright {
namespace {

// The subexpressions of bodies in whose place arbitrary elements stand.
class Abstraction {
 public:
  struct Leaf {
    ExprPtr expr;
    std::vector<int> positions;  // variables, the loop's left out
  };

  explicit Abstraction(const Fold& fold) : fold_(fold) {}

  // Takes the leaves of a body.
  void Add(const ExprPtr& expr) {
    if (!IsScalarKind(expr->kind())) return;
    const bool varies = fold_.Varies(expr), carried = fold_.ReadsCarried(expr);
    if (varies != carried) {
      AddLeaf(varies ? &varying_ : &fixed_, expr);
    } else if (varies) {
      for (const ExprPtr& arg : expr->args()) Add(arg);
    }
  }

  const std::vector<Leaf>& varying() const { return varying_; }
  const std::vector<Leaf>& fixed() const { return fixed_; }

  int NumberOf(const std::vector<Leaf>& leaves, const ExprPtr& expr) const {
    const auto found = std::find_if(leaves.begin(), leaves.end(), [&](const Leaf& leaf) { return leaf.expr == expr; });
    return found == leaves.end() ? -1 : static_cast<int>(found - leaves.begin());
  }

 private:
  void AddLeaf(std::vector<Leaf>* leaves, const ExprPtr& expr) {
    if (NumberOf(*leaves, expr) >= 0) return;
    Leaf leaf{expr, {}};
    for (const int v : FreeVariables(expr)) {
      if (v != fold_.variable && fold_.IsPosition(v)) leaf.positions.push_back(v);
    }
    leaves->push_back(std::move(leaf));
  }

  const Fold& fold_;
  std::vector<Leaf> varying_, fixed_;
};

enum class Piece : uint8_t { kWhole, kFirst, kSecond };

// Writes carried numbers as expressions of these operands: of each varying leaf the whole and its two pieces, then of
// each fixed one the old and the new.
class Writer {
 public:
  Writer(OpBuilder& b, const Fold& fold, const Abstraction& leaves) : b_(b), fold_(fold), leaves_(leaves) {}

  int InputOf(Piece piece, int leaf) const { return 3 * leaf + static_cast<int>(piece); }
  int FixedInput(int leaf, bool is_new) const {
    return 3 * static_cast<int>(leaves_.varying().size()) + 2 * leaf + (is_new ? 1 : 0);
  }

  // The number carried over that piece; terms read new values, but those of the first piece.
  Scalar Over(Piece piece, int number, const std::vector<Index>& at) {
    const Carried& carried = fold_.carried[static_cast<size_t>(number)];
    const Positions positions = PositionsAt(carried, at);
    // Leaves have the loop's axis as their last one; a count has none, and takes the first leaf's.
    const int axis = static_cast<int>(leaves_.varying()[0].positions.size());
    const Index t = b_.NewBound("t");
    const std::function<ExprPtr(const ExprPtr&)> written = [&](const ExprPtr& expr) -> ExprPtr {
      if (const int k = leaves_.NumberOf(leaves_.varying(), expr); k >= 0) {
        std::vector<Index> there = At(leaves_.varying()[static_cast<size_t>(k)], positions);
        there.push_back(t);
        return ReadOperand(InputOf(piece, k), there, expr->dtype()).node();
      }
      if (const int k = leaves_.NumberOf(leaves_.fixed(), expr); k >= 0) {
        return ReadOperand(FixedInput(k, piece != Piece::kFirst),
                           At(leaves_.fixed()[static_cast<size_t>(k)], positions), expr->dtype())
            .node();
      }
      std::vector<ExprPtr> args;
      for (const ExprPtr& arg : expr->args()) args.push_back(written(arg));
      return WithChildren(expr, std::move(args), {});
    };
    return ReduceOver(carried.kind, {{t.node()->variable(), "t", b_.size(InputOf(piece, 0), axis).node()}}, Cond(true),
                      Scalar(written(carried.body)));
  }

  // The number carried behind the second piece, from the one behind the first.
  Scalar Step(int number, const std::vector<Index>& at) {
    const Carried& carried = fold_.carried[static_cast<size_t>(number)];
    const Scalar before = carried.repair == nullptr ? Over(Piece::kFirst, number, at)
                                                    : Scalar(Repaired(carried.repair, PositionsAt(carried, at)));
    const Scalar second = Over(Piece::kSecond, number, at);
    return Fold::Joined(carried.kind, before, second);
  }

  // The extent of a carried number's position: that of a leaf which has it.
  std::vector<Index> ShapeOf(const Carried& carried) const {
    std::vector<Index> shape;
    for (const int v : carried.positions) shape.push_back(ExtentOf(v));
    return shape;
  }

 private:
  using Positions = std::map<int, Index>;

  Positions PositionsAt(const Carried& carried, const std::vector<Index>& at) const {
    Positions positions;
    for (size_t k = 0; k < at.size(); ++k) positions[carried.positions[k]] = at[k];
    return positions;
  }

  Index ExtentOf(int v) const {
    const auto axis_of = [&](const Abstraction::Leaf& leaf) {
      const auto found = std::find(leaf.positions.begin(), leaf.positions.end(), v);
      return found == leaf.positions.end() ? -1 : static_cast<int>(found - leaf.positions.begin());
    };
    for (size_t k = 0; k < leaves_.varying().size(); ++k) {
      const int axis = axis_of(leaves_.varying()[k]);
      if (axis >= 0) return b_.size(InputOf(Piece::kWhole, static_cast<int>(k)), axis);
    }
    for (size_t k = 0; k < leaves_.fixed().size(); ++k) {
      const int axis = axis_of(leaves_.fixed()[k]);
      if (axis >= 0) return b_.size(FixedInput(static_cast<int>(k), true), axis);
    }
    return 1;
  }

  std::vector<Index> At(const Abstraction::Leaf& leaf, const Positions& positions) const {
    std::vector<Index> at;
    for (const int v : leaf.positions) at.push_back(positions.at(v));
    return at;
  }

  ExprPtr Repaired(const ExprPtr& expr, const Positions& positions) {
    const int count = static_cast<int>(fold_.carried.size());
    for (size_t k = 0; k < leaves_.fixed().size(); ++k) {
      const Abstraction::Leaf& leaf = leaves_.fixed()[k];
      for (const bool is_new : {false, true}) {
        if (expr != (is_new ? fold_.Renewed(leaf.expr) : leaf.expr)) continue;
        return ReadOperand(FixedInput(static_cast<int>(k), is_new), At(leaf, positions), expr->dtype()).node();
      }
    }
    if (expr->IsRead() && expr->operand() >= fold_.num_operands) {
      const int number = expr->operand() - fold_.num_operands;
      std::vector<Index> at;
      for (const int v : fold_.carried[static_cast<size_t>(number % count)].positions) at.push_back(positions.at(v));
      return Over(number < count ? Piece::kFirst : Piece::kWhole, number % count, at).node();
    }
    std::vector<ExprPtr> args;
    for (const ExprPtr& arg : expr->args()) args.push_back(Repaired(arg, positions));
    return WithChildren(expr, std::move(args), {});
  }

  OpBuilder& b_;
  const Fold& fold_;
  const Abstraction& leaves_;
};

// The two sides of a law, as operators.
struct Sides {
  Fold fold;
  Abstraction leaves;
  int number;
  OpDef whole, step;

  Sides(const Fold& of, int of_number) : fold(of), leaves(fold), number(of_number) {
    for (int k = 0; k <= number; ++k) leaves.Add(fold.carried[static_cast<size_t>(k)].body);
    whole = Side(absl::StrCat("carried_", number), [this](Writer& writer, const std::vector<Index>& at) {
      return writer.Over(Piece::kWhole, number, at);
    });
    step = Side(absl::StrCat("carried_", number, "_by_pieces"),
                [this](Writer& writer, const std::vector<Index>& at) { return writer.Step(number, at); });
  }
  Sides(const Sides&) = delete;
  Sides& operator=(const Sides&) = delete;

 private:
  OpDef Side(std::string name, std::function<Scalar(Writer&, const std::vector<Index>&)> element) {
    OpDef op;
    op.name = std::move(name);
    op.inputs = {"x"};
    op.variadic = true;
    op.meaning = [this, element = std::move(element)](OpBuilder& b) {
      Writer writer(b, fold, leaves);
      const Carried& carried = fold.carried[static_cast<size_t>(number)];
      b.Output(carried.body->dtype(), writer.ShapeOf(carried),
               [&](const std::vector<Index>& at) { return element(writer, at); });
      return absl::OkStatus();
    };
    return op;
  }
};

class LawBuilder {
 public:
  explicit LawBuilder(const Sides& sides) : sides_(sides) {}

  absl::StatusOr<RuleInstance> Build() {
    const ExprPtr sizes[] = {Size("p"), Size("q")};
    std::vector<SymbolicValue> operands;
    // Leaves come before applications.
    std::vector<SymbolicValue> pieces;
    for (size_t k = 0; k < sides_.leaves.varying().size(); ++k) {
      for (int piece = 0; piece < 2; ++piece) {
        pieces.push_back(Leaf(absl::StrCat(piece == 0 ? "a" : "b", k), sides_.leaves.varying()[k], sizes[piece]));
      }
    }
    std::vector<SymbolicValue> fixed;
    for (size_t k = 0; k < sides_.leaves.fixed().size(); ++k) {
      for (const char* name : {"old", "new"}) {
        fixed.push_back(Leaf(absl::StrCat(name, k), sides_.leaves.fixed()[k], nullptr));
      }
    }
    for (size_t k = 0; k < pieces.size(); k += 2) {
      const SymbolicNode& piece = instance_.nodes[static_cast<size_t>(pieces[k].node)];
      const int rank = static_cast<int>(piece.shapes[0].size());
      SymbolicNode join;
      join.op = ops::Concat();
      join.inputs = {pieces[k], pieces[k + 1]};
      StructuralKey key{{rank, rank}, {piece.dtypes[0], piece.dtypes[0]}, {}, {}, {}};
      key.attrs["axis"] = Attr(int64_t{rank - 1});
      RETURN_IF_ERROR(BindMeaning(instance_.nodes, key, {{}}, meanings_, &join));
      operands.insert(operands.end(), {Add(std::move(join)), pieces[k], pieces[k + 1]});
    }
    operands.insert(operands.end(), fixed.begin(), fixed.end());
    ASSIGN_OR_RETURN(const SymbolicValue left, Apply(sides_.whole, operands));
    instance_.num_lhs_nodes = static_cast<int>(instance_.nodes.size());
    ASSIGN_OR_RETURN(const SymbolicValue right, Apply(sides_.step, operands));
    instance_.lhs = {left};
    instance_.rhs = {right};
    return std::move(instance_);
  }

 private:
  ExprPtr Size(const std::string& name) {
    instance_.symbols.push_back({name, 1, true});
    return Variable(static_cast<int>(instance_.symbols.size()) - 1, name).node();
  }
  SymbolicValue Leaf(std::string name, const Abstraction::Leaf& of, const ExprPtr& along) {
    SymbolicNode leaf;
    leaf.name = std::move(name);
    leaf.dtypes = {of.expr->dtype()};
    std::vector<ExprPtr> shape;
    for (const int v : of.positions) {
      ExprPtr& size = extents_[v];
      if (size == nullptr) size = Size(absl::StrCat("n", v));
      shape.push_back(size);
    }
    if (along != nullptr) shape.push_back(along);
    leaf.shapes = {std::move(shape)};
    return Add(std::move(leaf));
  }
  SymbolicValue Add(SymbolicNode node) {
    instance_.nodes.push_back(std::move(node));
    return {static_cast<int>(instance_.nodes.size()) - 1, 0};
  }
  absl::StatusOr<SymbolicValue> Apply(const OpDef& op, const std::vector<SymbolicValue>& inputs) {
    SymbolicNode node;
    node.op = &op;
    node.inputs = inputs;
    StructuralKey key;
    for (const SymbolicValue& input : inputs) {
      const SymbolicNode& from = instance_.nodes[static_cast<size_t>(input.node)];
      key.ranks.push_back(static_cast<int>(from.shapes[0].size()));
      key.dtypes.push_back(from.dtypes[0]);
    }
    RETURN_IF_ERROR(BindMeaning(instance_.nodes, key, {}, meanings_, &node));
    return Add(std::move(node));
  }

  const Sides& sides_;
  MeaningCache meanings_;
  RuleInstance instance_;
  std::map<int, ExprPtr> extents_;  // by position variable
};

}  // namespace

absl::StatusOr<FoldLaw> LawOfCarried(const Fold& fold, int number) {
  const auto sides = std::make_shared<Sides>(fold, number);
  if (sides->leaves.varying().empty()) return absl::NotFoundError("nothing varies along the axis");
  if (!fold.carried[static_cast<size_t>(number)].guard->IsTrue()) {
    return absl::UnimplementedError("a reduction leaves out positions");
  }
  ASSIGN_OR_RETURN(RuleInstance instance, LawBuilder(*sides).Build());
  instance.rule = sides->whole.name;
  return FoldLaw{std::move(instance), sides};
}

}  // namespace rewright
