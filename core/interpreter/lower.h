// Lowers an expression to a stage: declarations that lower.cc, lower_scatter.cc and residues.cc share.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "core/index/solve.h"
#include "core/interpreter/fixed_extents.h"
#include "core/interpreter/stage.h"
#include "core/ir/index_value.h"

namespace rewright::interp {

// The greatest number of elements of a reduction inside an element that becomes a stage of its own. It does so if that
// saves at least half of its evaluations, unless the whole is small.
inline constexpr double kMaxMaterialized = 1 << 25;

// State that the lowerings of all stages of one Meaning share.
struct Context {
  const Meaning& meaning;
  const Bindings& bindings;
  std::vector<TensorType> inputs;  // as they are read
  Program* program = nullptr;
  absl::flat_hash_map<const ExprNode*, int> heights;
  absl::flat_hash_map<const ExprNode*, std::optional<int64_t>> numbers;
  absl::Status status;

  void Fail(absl::Status error) {
    if (status.ok()) status = std::move(error);
  }

  // Returns the number of an index that sizes and attributes decide; nothing of another one. The stages of all results
  // share it: the place of the last of many parts is the sum of their sizes.
  std::optional<int64_t> NumberOf(const ExprNode* e) {
    if (e->kind() == ExprKind::kInt) return e->value();
    if (e->kind() == ExprKind::kFromValue) return std::nullopt;
    if (e->kind() == ExprKind::kVar) {
      const auto variable = static_cast<size_t>(e->variable());
      const bool fixed = IsFixed(meaning.variables[variable].kind);
      return fixed ? std::optional<int64_t>(bindings.variables[variable]) : std::nullopt;
    }
    if (const auto it = numbers.find(e); it != numbers.end()) return it->second;
    std::optional<int64_t> number;
    const std::optional<int64_t> a = NumberOf(e->arg(0).get()), b = NumberOf(e->arg(1).get());
    int64_t value;
    if (a && b && EvalIndex(e->kind(), *a, *b, &value)) number = value;
    return numbers[e] = number;
  }

  // Returns the greatest nesting depth of bound variables inside `e`. It gives equal reductions the same variables,
  // wherever they occur.
  int Height(const ExprNode* e) {
    if (!e->Reduces()) return 0;
    if (const auto it = heights.find(e); it != heights.end()) return it->second;
    int height = 0;
    for (const ExprPtr& arg : e->args()) height = std::max(height, Height(arg.get()));
    height += static_cast<int>(e->bound().size());
    heights[e] = height;
    return height;
  }
};

// The forms of a meaning's variables: the numbers of its bindings, but for the few variables that are set. A meaning of
// many operands or results has many variables, and each result is lowered apart.
class VariableForms {
 public:
  // The caller keeps the numbers alive.
  explicit VariableForms(const std::vector<int64_t>& numbers) : numbers_(&numbers) {}

  index::Form operator[](int id) const {
    const auto at = Find(id);
    return at == set_.end() ? index::Form((*numbers_)[static_cast<size_t>(id)]) : at->second;
  }
  void Set(int id, index::Form form) {
    const auto at = set_.begin() + (Find(id) - set_.begin());
    if (at == set_.end()) {
      set_.emplace_back(id, std::move(form));
    } else {
      at->second = std::move(form);
    }
  }
  // Returns the same forms, but those that are no numbers replaced by `form` of their variable.
  VariableForms Mapped(absl::FunctionRef<index::Form(int)> form) const {
    VariableForms result = *this;
    for (auto& [id, old] : result.set_) {
      if (!old.IsConstant()) old = form(id);
    }
    return result;
  }

 private:
  using Entry = std::pair<int, index::Form>;
  std::vector<Entry>::const_iterator Find(int id) const {
    return std::find_if(set_.begin(), set_.end(), [&](const Entry& entry) { return entry.first == id; });
  }

  const std::vector<int64_t>* numbers_;
  std::vector<Entry> set_;
};

class StageLowering {
 public:
  StageLowering(Context& context, std::vector<int64_t> extents)
      : context_(context), b_(std::move(extents)), vars_(context.bindings.variables) {}

  StageBuilder& builder() { return b_; }
  void SetVar(int id, index::Form value) {
    substituted_ = substituted_ || (!value.IsConstant() && value.AsAtom() == nullptr);
    vars_.Set(id, std::move(value));
  }

  int Element(const ExprNode* e) {
    const int root = LowerScalar(e, -1);
    if (b_.overflow()) context_.Fail(absl::InvalidArgumentError("an index does not fit 64 bits"));
    return root;
  }

 private:
  using Key = std::pair<const ExprNode*, int>;  // expression, mask
  // A variable of the meaning that a term's guard determines, and the stride of its axis in the result.
  struct Target {
    int id = 0;
    int64_t extent = 1;
    int64_t stride = 1;
  };
  struct ScatterPlan {
    std::vector<int> bits;  // of the variables that are axes of the result
    Stage result;
    std::vector<Target> targets;
    std::vector<int> ids;  // by axis of the terms: other positions, then the bound variables of the reduction
    Scatter scatter;       // its loops are the axes of the terms
  };
  struct TermRoots {
    int place = -1;  // where a term goes
    int term = -1;
  };

  index::Form LowerIndex(const ExprNode* e, int mask);
  int LowerCond(const ExprNode* e, int mask);
  int LowerScalar(const ExprNode* e, int mask);
  int LowerScalarAnew(const ExprNode* e, int mask);
  int LowerRead(const ExprNode* e, int mask);
  int WithoutData(int mask, const std::vector<index::Form>& inside) const;
  int LowerCall(const ExprNode* e, int mask);
  int LowerSelect(const ExprNode* e, int mask);
  int LowerReduce(const ExprNode* e, int mask);
  int ReduceNode(const ExprNode* e, int mask);
  // A sum over a range of one place is its term (HasFixedExtents): no zero is added, which would make 0 of -0.
  bool IsSumOverOnePlace(const ExprNode* e);
  // ---- sums whose guard has equations between indices
  // A guard after its equations between indices have been solved for the variables that the reduction binds.
  struct SolvedGuard {
    std::vector<int> bits;            // of the variables of the loops, in order
    std::vector<int64_t> extents;     // by bound variable, 1 where no loop is left
    std::vector<index::Form> values;  // of the bound variables
    std::vector<index::Condition> conditions;
    std::vector<const ExprNode*> rest;  // conditions that are no such equations
  };
  std::optional<SolvedGuard> SolveGuard(const ExprNode* e, int mask);
  int EnterSolved(const ExprNode* e, const SolvedGuard& solved, int mask);
  bool WorthMaterializing(int id) const;
  int Materialize(const ExprNode* e, uint64_t deps);
  int ReadStage(Stage stage, Rep rep, const std::vector<int>& bits);
  // ---- lower_scatter.cc
  int Scattered(const ExprNode* e, int mask);
  bool PlanScatter(const ExprNode* e, ScatterPlan* plan);
  bool LowerTermsOver(const ExprNode* e, const ScatterPlan& plan, uint64_t among, TermRoots* roots,
                      StageLowering* inner);
  bool LowerTerms(const ExprNode* e, const std::vector<Target>& targets, int* place, int* term);
  // Returns the bit of a variable of the meaning; -1 if the variable is replaced by another form.
  int BitOf(int id) const {
    const index::Form form = vars_[id];
    const index::Atom* atom = form.AsAtom();
    return atom != nullptr && atom->IsLeaf() && atom->tag < kMaxVariables ? atom->tag : -1;
  }
  int AddStage(Stage stage);
  Rep RepOfNode(const ExprNode* e) const { return RepOf(context_.program->precision, e->dtype()); }

  Context& context_;
  StageBuilder b_;
  VariableForms vars_;
  bool substituted_ = false;      // some of them are neither variables of the stage nor numbers
  std::vector<int64_t> binders_;  // extents of the variables bound around the current expression
  absl::flat_hash_map<Key, index::Form> indices_;
  absl::flat_hash_map<Key, int> scalars_;  // and conditions
};

}  // namespace rewright::interp
