// Lowers expressions to stages.
#include "core/interpreter/lower.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <memory>

#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "core/index/compose.h"
#include "core/index/range.h"
#include "core/interpreter/kernels.h"
#include "core/interpreter/residues.h"
#include "core/ir/rewrite.h"

namespace rewright::interp {

using index::Form;

namespace {

using index::Atom;

// Returns for each bound variable the remaining free variable that loops in its place. Nothing if these loops visit
// points in another order than the old ones.
std::optional<std::vector<const Atom*>> LoopsInOrder(const std::vector<Form>& values,
                                                     const std::vector<const Atom*>& free) {
  std::vector<const Atom*> loops(values.size(), nullptr);
  std::vector<const Atom*> outer;
  for (size_t i = 0; i < values.size(); ++i) {
    for (const Atom* variable : free) {
      if (!Contains(values[i], variable) || std::find(outer.begin(), outer.end(), variable) != outer.end()) continue;
      Form factor, rest;
      const bool grows = SplitAt(values[i], variable, &factor, &rest) && IsPositive(factor) && factor.IsConstant();
      if (!grows || loops[i] != nullptr || !ExtentOf(variable).IsConstant()) return std::nullopt;
      loops[i] = variable;
    }
    if (loops[i] != nullptr) outer.push_back(loops[i]);
  }
  if (outer.size() != free.size()) return std::nullopt;
  return loops;
}

}  // namespace

// ---------------------------------------------------------------- indices and conditions

Form StageLowering::LowerIndex(const ExprNode* e, int mask) {
  if (e->kind() == ExprKind::kInt) return e->value();
  if (e->kind() == ExprKind::kVar) return vars_[e->variable()];
  if (const std::optional<int64_t> number = context_.NumberOf(e)) return *number;
  if (!e->Contains(ExprKind::kFromValue)) mask = -1;  // an index without elements is the same under every mask
  if (const auto it = indices_.find({e, mask}); it != indices_.end()) return it->second;
  Form result;
  if (e->kind() == ExprKind::kFromValue) {
    const int value = LowerScalar(e->arg(0).get(), mask);
    result = b_.OfElement(b_.Intern(Node{.kind = NodeKind::kFromValue, .args = {value}}));
  } else {
    const Form x = LowerIndex(e->arg(0).get(), mask);
    const Form y = LowerIndex(e->arg(1).get(), mask);
    // A divisor that is not positive occurs only if a guard excludes it; the value there does not matter.
    const bool divides = e->kind() == ExprKind::kFloorDiv || e->kind() == ExprKind::kMod;
    if (!divides || !y.IsConstant() || y.constant() > 0) result = index::Apply(e->kind(), x, y);
  }
  indices_[{e, mask}] = result;
  return result;
}

int StageLowering::LowerCond(const ExprNode* e, int mask) {
  const auto index = [&](int i) { return LowerIndex(e->arg(i).get(), mask); };
  switch (e->kind()) {
    case ExprKind::kBool: return b_.Bool(e->truth());
    case ExprKind::kLess: return b_.NonNegative(index(1) - index(0) - 1, mask);
    case ExprKind::kLessEqual: return b_.NonNegative(index(1) - index(0), mask);
    case ExprKind::kEqual: return b_.IsZero(index(1) - index(0));
    case ExprKind::kAnd: {
      const int left = LowerCond(e->arg(0).get(), mask);
      if (b_.IsBool(left, false)) return left;
      return b_.AndThen(left, LowerCond(e->arg(1).get(), b_.AndThen(mask, left)));
    }
    case ExprKind::kOr: {
      const int left = LowerCond(e->arg(0).get(), mask);
      return b_.Or(left, LowerCond(e->arg(1).get(), mask));
    }
    case ExprKind::kNot: return b_.Not(LowerCond(e->arg(0).get(), mask));
    case ExprKind::kHolds: return LowerScalar(e->arg(0).get(), mask);
    default: CHECK(false) << "not a condition"; return 0;
  }
}

// ---------------------------------------------------------------- elements

int StageLowering::LowerScalar(const ExprNode* e, int mask) {
  if (const auto it = scalars_.find({e, mask}); it != scalars_.end()) return it->second;
  const int id = LowerScalarAnew(e, mask);
  scalars_[{e, mask}] = id;
  return id;
}

int StageLowering::LowerScalarAnew(const ExprNode* e, int mask) {
  const Rep rep = RepOfNode(e);
  switch (e->kind()) {
    case ExprKind::kConst: return b_.Const(rep, e->real());
    case ExprKind::kParam: return b_.Const(rep, context_.bindings.params[e->param()]);
    case ExprKind::kFromIndex:
      return b_.Intern(
          Node{.kind = NodeKind::kFromIndex, .rep = rep, .linear = b_.LinearOf(LowerIndex(e->arg(0).get(), mask))});
    case ExprKind::kCast: {
      const int arg = LowerScalar(e->arg(0).get(), mask);
      if (b_.node(arg).rep == rep) return arg;
      return b_.Intern(Node{.kind = NodeKind::kCast, .rep = rep, .args = {arg}});
    }
    case ExprKind::kRead: return LowerRead(e, mask);
    case ExprKind::kCall: return LowerCall(e, mask);
    case ExprKind::kSelect: return LowerSelect(e, mask);
    case ExprKind::kReduce: return LowerReduce(e, mask);
    default: return LowerCond(e, mask);
  }
}

int StageLowering::LowerRead(const ExprNode* e, int mask) {
  const size_t operand = e->operand();
  const TensorType& type = context_.inputs[operand];
  const Rep rep = RepOfNode(e);
  CHECK(e->args().size() == type.shape.size()) << "operand " << operand << ": " << e->args().size() << " indices";
  if (DTypeOf(rep) != type.dtype) {
    context_.Fail(
        InvalidArgument("operand ", operand, " is ", type.ToString(), ", expected elements ", DTypeName(e->dtype())));
  }
  Node read{.kind = NodeKind::kRead, .rep = rep, .operand = static_cast<int>(operand)};
  bool always_inside = true;
  std::vector<Form> inside;  // not negative where the indices are
  Form offset;
  for (size_t axis = 0; axis < e->args().size(); ++axis) {
    const Form index = LowerIndex(e->arg(axis).get(), mask);
    const int64_t size = type.shape[axis];
    const Form room = Form(size - 1) - index;
    inside.insert(inside.end(), {index, room});
    always_inside &= b_.Proves(-1, index) && b_.Proves(-1, room);
    if (!b_.Proves(mask, index) || !b_.Proves(mask, room)) {
      read.checks.push_back(BoundsCheck{static_cast<int>(axis), b_.NodeOf(index), size, b_.IsFromData(index)});
    }
    offset = offset * size + index;
  }
  read.linear = b_.LinearOf(ExpandMods(offset, [](const index::Atom& mod) { return StageBuilder::IsFromData(mod.a); }));
  if (!always_inside) read.mask = read.checks.empty() ? WithoutData(mask, inside) : mask;
  return b_.Intern(std::move(read));
}

// Returns the mask without its last conditions on elements, as far as the rest shows that the forms are not negative: a
// read need not wait for these.
int StageLowering::WithoutData(int mask, const std::vector<Form>& inside) const {
  while (b_.node(mask).kind == NodeKind::kAndThen) {
    const int rest = b_.node(mask).args[0], last = b_.node(mask).args[1];
    const auto proves = [&](const Form& form) { return b_.Proves(rest, form); };
    if (b_.node(last).kind != NodeKind::kCall || !std::all_of(inside.begin(), inside.end(), proves)) break;
    mask = rest;
  }
  return mask;
}

int StageLowering::LowerCall(const ExprNode* e, int mask) {
  Node call{.kind = NodeKind::kCall, .rep = RepOfNode(e), .fn = e->fn()};
  for (const ExprPtr& arg : e->args()) call.args.push_back(LowerScalar(arg.get(), mask));
  const Rep operand_rep = b_.node(call.args[0]).rep;
  for (int k = 0; e->fn() == Fn::kMul && IsFloating(e->dtype()) && k < 2; ++k) {
    const Node& factor = b_.node(call.args[k]);
    if (factor.kind == NodeKind::kConst && factor.real == 1) return call.args[1 - k];
  }
  if (e->fn() == Fn::kNot) return b_.Not(call.args[0]);
  const FnKernels kernels = KernelsOf(operand_rep, e->fn());
  if (kernels.unary == nullptr && kernels.binary == nullptr && kernels.partial == nullptr) {
    context_.Fail(Unimplemented("the function ", FnName(e->fn()), " of ", DTypeName(e->arg(0)->dtype()), " elements"));
  }
  if (kernels.partial != nullptr) call.mask = mask;
  return b_.Intern(std::move(call));
}

int StageLowering::LowerSelect(const ExprNode* e, int mask) {
  const int condition = LowerCond(e->arg(0).get(), mask);
  if (b_.IsBool(condition, true)) return LowerScalar(e->arg(1).get(), mask);
  if (b_.IsBool(condition, false)) return LowerScalar(e->arg(2).get(), mask);
  const int yes_mask = b_.AndThen(mask, condition);
  const int yes = LowerScalar(e->arg(1).get(), yes_mask);
  const int no = LowerScalar(e->arg(2).get(), b_.AndThen(mask, b_.Not(condition)));
  if (yes == no) return yes;
  // A guarded read fills in the constant that the selection gives elsewhere.
  const Node& read = b_.node(yes);
  if (read.kind == NodeKind::kRead && read.mask == yes_mask && read.fill < 0 && b_.node(no).kind == NodeKind::kConst) {
    Node filled = read;
    filled.fill = no;
    return b_.Intern(std::move(filled));
  }
  return b_.Intern(Node{.kind = NodeKind::kSelect, .rep = RepOfNode(e), .args = {condition, yes, no}});
}

// ---------------------------------------------------------------- reductions

// Reductions that cannot fail are evaluated whether or not the mask holds, so that they can be shared and hoisted.
int StageLowering::LowerReduce(const ExprNode* e, int mask) {
  const bool one_place = IsSumOverOnePlace(e);
  if (const int id = one_place ? -1 : Scattered(e, mask); id >= 0) return id;
  const int id = ReduceNode(e, -1);
  if (mask >= 0 && b_.node(id).fallible) return ReduceNode(e, mask);
  if (substituted_) {
    for (int v : FreeVariables(e->shared_from_this())) {
      if (!vars_[v].IsConstant() && BitOf(v) < 0) return id;
    }
  }
  if (!WorthMaterializing(id)) return id;
  return Materialize(e, b_.node(id).deps);
}

bool StageLowering::IsSumOverOnePlace(const ExprNode* e) {
  if (e->reduction() != ReduceKind::kSum) return false;
  return std::all_of(e->bound().begin(), e->bound().end(),
                     [&](const BoundVar& var) { return context_.NumberOf(var.extent.get()) == 1; });
}

int StageLowering::ReduceNode(const ExprNode* e, int mask) {
  Node reduce{.kind = NodeKind::kReduce, .rep = RepOfNode(e), .reduce = e->reduction()};
  const int height = context_.Height(e);
  const bool one_place = IsSumOverOnePlace(e);
  int within = -1;  // the part of the guard that bounds variables of varying extent
  const size_t outer_binders = binders_.size();
  for (size_t i = 0; i < e->bound().size(); ++i) {
    const BoundVar& var = e->bound()[i];
    const Form extent = LowerIndex(var.extent.get(), mask);
    int64_t limit = RangeOf(extent).high;
    if (limit >= std::numeric_limits<int32_t>::max()) {
      context_.Fail(Unimplemented("no bound is known for the variable ", var.name));
      limit = 1;
    }
    limit = std::max<int64_t>(limit, 0);
    Form value;
    if (limit != 1) {
      const int bit = b_.BoundBit(height - static_cast<int>(i), limit);
      if (bit < 0) {
        context_.Fail(absl::UnimplementedError("too many bound variables"));
        break;
      }
      value = b_.Var(bit);
      reduce.bound.push_back(bit);
    }
    if (!extent.IsConstant()) within = b_.AndThen(within, b_.NonNegative(extent - value - 1, mask));
    if (vars_[var.id] != value) {  // nodes lowered under another value of the variable are no longer valid
      indices_.clear();
      scalars_.clear();
      vars_.Set(var.id, value);
    }
    binders_.push_back(limit);
  }
  const int inner = b_.AndThen(mask, within);
  const auto outer = static_cast<std::ptrdiff_t>(outer_binders);
  const bool plain =
      within < 0 && std::all_of(binders_.begin() + outer, binders_.end(), [](int64_t extent) { return extent > 0; });
  int guard = -1;
  if (std::optional<SolvedGuard> solved = plain ? SolveGuard(e, mask) : std::nullopt) {
    std::copy(solved->extents.begin(), solved->extents.end(), binders_.begin() + outer);
    guard = EnterSolved(e, *solved, mask);
    reduce.bound = std::move(solved->bits);
  } else {
    guard = LowerCond(e->guard().get(), inner);
  }
  const int body = LowerScalar(e->body().get(), b_.AndThen(inner, guard));
  binders_.resize(outer_binders);
  const int whole_guard = b_.AndThen(within, guard);
  if (one_place) {
    if (b_.IsBool(whole_guard, true)) return body;
    const int zero = b_.Const(reduce.rep, 0);
    return b_.Intern(Node{.kind = NodeKind::kSelect, .rep = reduce.rep, .args = {whole_guard, body, zero}});
  }
  reduce.args = {whole_guard, body};
  return b_.Intern(std::move(reduce));
}

bool StageLowering::WorthMaterializing(int id) const {
  const Node& n = b_.node(id);
  double trips = 1;
  for (int bit : n.bound) trips *= static_cast<double>(b_.extent(bit));
  double here = 1, own = 1;
  for (size_t axis = 0; axis < b_.axes(); ++axis) here *= static_cast<double>(b_.extent(static_cast<int>(axis)));
  for (int64_t extent : binders_) here *= static_cast<double>(extent);
  for (uint64_t rest = n.deps; rest != 0; rest &= rest - 1) {
    own *= static_cast<double>(b_.extent(std::countr_zero(rest)));
  }
  return trips >= 2 && own * 2 <= here && here * trips >= context_.program->tuning.min_hoisted &&
         own <= kMaxMaterialized && std::popcount(n.deps) <= kFirstBound;
}

int StageLowering::Materialize(const ExprNode* e, uint64_t deps) {
  std::vector<int64_t> extents;
  std::vector<int> bits;
  for (uint64_t rest = deps; rest != 0; rest &= rest - 1) {
    bits.push_back(std::countr_zero(rest));
    extents.push_back(b_.extent(bits.back()));
  }
  StageLowering inner(context_, extents);
  // Variables on which the value does not depend are fixed to 0.
  inner.vars_ = vars_.Mapped([&](int variable) {
    const auto axis = std::find(bits.begin(), bits.end(), BitOf(variable));
    return axis == bits.end() ? Form() : inner.b_.Axis(static_cast<int>(axis - bits.begin()));
  });
  const int root = inner.Element(e);
  return ReadStage(inner.b_.Take(root), RepOfNode(e), bits);
}

// Returns a read of the stage's element at the current values of the variables that are its axes.
int StageLowering::ReadStage(Stage stage, Rep rep, const std::vector<int>& bits) {
  Form place;
  for (size_t axis = 0; axis < bits.size(); ++axis) place = place * stage.extents[axis] + b_.Var(bits[axis]);
  Node read{.kind = NodeKind::kRead, .rep = rep, .linear = b_.LinearOf(place)};
  read.operand = AddStage(std::move(stage));
  return b_.Intern(std::move(read));
}

// Returns the operand that holds the stage's result; an equal stage is not added again.
int StageLowering::AddStage(Stage stage) {
  std::vector<Stage>& stages = context_.program->stages;
  const auto same = [&](const Stage& other) {
    return !other.part && other.scatter == stage.scatter && other.extents == stage.extents &&
           other.bound_extents == stage.bound_extents && other.root == stage.root &&
           std::equal(other.nodes.begin(), other.nodes.end(), stage.nodes.begin(), stage.nodes.end(), SameNode);
  };
  const auto it = std::find_if(stages.begin(), stages.end(), same);
  const int operand = static_cast<int>(context_.inputs.size() + static_cast<size_t>(it - stages.begin()));
  if (it == stages.end()) stages.push_back(std::move(stage));
  return operand;
}

absl::StatusOr<std::unique_ptr<Program>> Lower(const Meaning& meaning, const Bindings& bindings,
                                               const std::vector<TensorType>& inputs,
                                               const std::vector<TensorType>& outputs, Precision precision,
                                               const InterpretTuning& tuning) {
  auto program = std::make_unique<Program>();
  program->precision = precision;
  program->tuning = tuning;
  const auto stored = [&](TensorType type) {
    type.dtype = StoredDType(precision, type.dtype);
    return type;
  };
  for (const TensorType& type : inputs) {
    program->inputs.push_back(stored(type));
    program->computed.push_back({DTypeOf(RepOf(precision, type.dtype)), type.shape});
  }
  for (const TensorType& type : outputs) program->outputs.push_back(stored(type));
  CHECK(outputs.size() == meaning.outputs.size()) << outputs.size();
  if (meaning.IsOpaque()) {
    program->reference = meaning.reference;
    program->bindings = bindings;
    return program;
  }
  Context context{.meaning = meaning, .bindings = bindings, .inputs = program->computed, .program = program.get()};
  for (size_t k = 0; k < outputs.size(); ++k) {
    const OutputMeaning& output = meaning.outputs[k];
    if (outputs[k].rank() > kFirstBound) return Unimplemented("a tensor with ", outputs[k].rank(), " axes");
    program->output_stages.push_back(LowerOutput(context, output, outputs[k].shape));
    if (!context.status.ok()) return context.status;
  }
  return program;
}

// ---------------------------------------------------------------- sums whose guard has equations between indices
//
// Taken as it is written, a sum such as
//   out[y] = sum r: u[(y - r) div 2] where (y - r) mod 2 = 0
// visits every r, half of them in vain. Here the equations are solved for the bound variables of the reduction
// (core/index/solve.h), r = 2 h + y mod 2, and the loops are over the remaining variables. Terms keep their order, so
// the bits of the sums are the same.

std::optional<StageLowering::SolvedGuard> StageLowering::SolveGuard(const ExprNode* e, int mask) {
  if (IsPosition(e->reduction())) return std::nullopt;  // points are numbered by the loops
  SolvedGuard solved;
  std::vector<Form> equations;
  for (const ExprPtr& condition : Conjuncts(e->guard())) {
    const bool binds = std::any_of(e->bound().begin(), e->bound().end(),
                                   [&](const BoundVar& var) { return condition->MayMention(var.id); });
    if (binds && condition->IsEquation() && !condition->Contains(ExprKind::kFromValue)) {
      equations.push_back(LowerIndex(condition->arg(0).get(), mask) - LowerIndex(condition->arg(1).get(), mask));
    } else {
      solved.rest.push_back(condition.get());
    }
  }
  if (equations.empty()) return std::nullopt;
  std::vector<const Atom*> unknowns;
  for (const BoundVar& var : e->bound()) {
    if (const Atom* atom = vars_[var.id].AsAtom(); atom != nullptr) unknowns.push_back(atom);
  }
  std::optional<index::Solution> solution = index::Solve({}, unknowns, equations, index::Residues::kTakenApart);
  if (!solution || solution->free == unknowns) return std::nullopt;
  for (const BoundVar& var : e->bound()) {
    const Form variable = vars_[var.id];
    solved.values.push_back(variable.AsAtom() == nullptr ? variable : solution->values.at(variable.AsAtom()));
  }
  const auto loops = LoopsInOrder(solved.values, solution->free);
  if (!loops) return std::nullopt;

  index::Substitution substitution;
  const int height = context_.Height(e);
  for (size_t i = 0; i < loops->size(); ++i) {
    const Atom* variable = (*loops)[i];
    solved.extents.push_back(variable == nullptr ? 1 : ExtentOf(variable).constant());
    if (variable == nullptr) continue;
    const int bit = b_.BoundBit(height - static_cast<int>(i), solved.extents.back());
    if (bit < 0) return std::nullopt;
    solved.bits.push_back(bit);
    substitution[variable] = {b_.Var(bit)};
  }
  for (Form& value : solved.values) value = Compose(value, substitution);
  for (index::Condition& condition : solution->conditions) condition.form = Compose(condition.form, substitution);
  solved.conditions = std::move(solution->conditions);
  return solved;
}

// Sets the bound variables to their values; returns the condition under which a term exists.
int StageLowering::EnterSolved(const ExprNode* e, const SolvedGuard& solved, int mask) {
  for (size_t i = 0; i < solved.values.size(); ++i) vars_.Set(e->bound()[i].id, solved.values[i]);
  substituted_ = true;
  indices_.clear();
  scalars_.clear();
  int guard = -1;
  for (const index::Condition& condition : solved.conditions) {
    const bool zero = condition.kind == index::Condition::Kind::kZero;
    const int holds = zero ? b_.IsZero(condition.form) : b_.NonNegative(condition.form, b_.AndThen(mask, guard));
    guard = b_.AndThen(guard, holds);
  }
  for (const ExprNode* condition : solved.rest) {
    guard = b_.AndThen(guard, LowerCond(condition, b_.AndThen(mask, guard)));
  }
  return guard < 0 ? b_.Bool(true) : guard;
}

}  // namespace rewright::interp
