#include "substitutions/generate/definitions/parts.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/ir/rewrite.h"
#include "core/ops/ops.h"

namespace rewright::generate {
namespace {

absl::Status NotRead(const std::string& why) { return absl::UnimplementedError(why); }

// The variables of a product of variables; empty where it is none.
std::multiset<int> Factors(const ExprPtr& expr) {
  if (expr->IsVariable()) return {expr->variable()};
  if (expr->kind() != ExprKind::kIndexMul) return {};
  std::multiset<int> factors = Factors(expr->arg(0));
  factors.merge(Factors(expr->arg(1)));
  return factors;
}

// A sum divided by the number of its terms.
bool IsMean(const ExprPtr& expr) {
  if (!expr->IsCall(Fn::kDiv)) return false;
  const ExprPtr& sum = expr->arg(0);
  const ExprPtr& count = expr->arg(1);
  if (sum->kind() != ExprKind::kReduce || sum->reduction() != ReduceKind::kSum ||
      count->kind() != ExprKind::kFromIndex) {
    return false;
  }
  std::multiset<int> extents;
  for (const BoundVar& bound : sum->bound()) {
    if (!bound.extent->IsVariable()) return false;
    extents.insert(bound.extent->variable());
  }
  return extents == Factors(count->arg(0));
}

// The meaning at operands of f32 of these ranks, and the canonical attributes.
absl::StatusOr<std::pair<Attrs, std::shared_ptr<const Meaning>>> MeaningOf(const OpDef& op,
                                                                           const std::vector<int>& ranks,
                                                                           const Attrs& attrs) {
  std::vector<TensorType> types;
  for (int rank : ranks) {
    // No axis of size one, which could be stretched.
    types.push_back(TensorType{DType::kFloat32, Shape(static_cast<size_t>(rank), 5)});
  }
  absl::StatusOr<Attrs> canonical = CanonicalAttrs(op, types, attrs);
  if (!canonical.ok()) return canonical.status();
  MeaningCache cache;
  auto meaning = cache.Get(op, StructuralKeyOf(op, types, *canonical));
  if (!meaning.ok()) return meaning.status();
  if ((*meaning)->outputs.size() != 1) return NotRead("several outputs");
  return std::make_pair(*std::move(canonical), *std::move(meaning));
}

// ---------------------------------------------------------------- operators that do one thing

// A read of each operand at the position of the result.
bool ReadsEach(const std::vector<ExprPtr>& reads, const std::vector<int>& position) {
  for (size_t k = 0; k < reads.size(); ++k) {
    const ExprNode& read = *reads[k];
    if (!read.IsRead(static_cast<int>(k))) return false;
    for (size_t axis = 0; axis < position.size(); ++axis) {
      if (!read.arg(axis)->IsVariable(position[axis])) return false;
    }
  }
  return true;
}

// A reduction of operand 0 as it is, all of it.
bool ReducesOperand(const ExprNode& expr) {
  if (expr.kind() != ExprKind::kReduce || !expr.guard()->IsTrue() || expr.bound().size() != 1) return false;
  const ExprNode& read = *expr.body();
  return read.IsRead() && read.arg(0)->IsVariable(expr.bound()[0].id);
}

struct Images {
  std::map<Fn, const OpDef*> fns;
  std::map<ReduceKind, const OpDef*> reductions;
  const OpDef* mean = nullptr;

  Images() {
    for (const OpDef* op : AllOps()) {
      if (op->variadic) continue;
      if (op->attrs.empty()) {
        AddElementwise(op);
      } else if (op->inputs.size() == 1 && op->attrs[0].kind == AttrKind::kAxes) {
        AddReduction(op);
      }
    }
  }

  void AddElementwise(const OpDef* op) {
    const auto read = MeaningOf(*op, std::vector<int>(op->inputs.size(), 1), {});
    if (!read.ok()) return;
    const OutputMeaning& output = read->second->outputs[0];
    if (output.dtype != DType::kFloat32 || output.index_vars.size() != 1) return;
    const ExprNode& element = *output.element;
    if (element.IsCall() && element.args().size() == op->inputs.size() &&
        ReadsEach(element.args(), output.index_vars)) {
      fns.emplace(element.fn(), op);
    }
  }

  void AddReduction(const OpDef* op) {
    const auto read = MeaningOf(*op, {1}, {{op->attrs[0].name, std::vector<int64_t>{0}}});
    if (!read.ok()) return;
    const OutputMeaning& output = read->second->outputs[0];
    if (output.dtype != DType::kFloat32 || output.shape.size() != 1) return;
    const ExprPtr& element = output.element;
    if (ReducesOperand(*element)) {
      reductions.emplace(element->reduction(), op);
    } else if (mean == nullptr && IsMean(element) && ReducesOperand(*element->arg(0))) {
      mean = op;
    }
  }
};

const Images& TheImages() {
  static const Images* const images = new Images;
  return *images;
}

// ---------------------------------------------------------------- reading

class Reader {
 public:
  Reader(const std::vector<int>& ranks, const Meaning& meaning, Definition* definition)
      : ranks_(ranks), params_(meaning.params), definition_(*definition) {
    const OutputMeaning& output = meaning.outputs[0];
    for (size_t axis = 0; axis < output.index_vars.size(); ++axis) {
      axis_of_[output.index_vars[axis]] = static_cast<int>(axis);
    }
    definition_.rank = static_cast<int>(output.index_vars.size());
    definition_.operand_axes.resize(ranks.size());
    definition_.reduced.resize(output.index_vars.size());
    read_.resize(ranks.size());
  }

  absl::StatusOr<PartPtr> Read(const ExprPtr& expr) {
    switch (expr->kind()) {
      case ExprKind::kConst: return MakeNumber(expr->real());
      case ExprKind::kParam: return MakeReal(params_[expr->param()]);
      case ExprKind::kRead: return ReadOperand(*expr);
      case ExprKind::kCall: {
        if (IsMean(expr) && MeanOperator() != nullptr) return ReadReduction(*expr->arg(0), MeanOperator());
        const OpDef* op = OperatorOf(expr->fn());
        if (op == nullptr) return NotRead(absl::StrCat("no operator for ", FnName(expr->fn())));
        std::vector<PartPtr> operands;
        for (const ExprPtr& arg : expr->args()) {
          absl::StatusOr<PartPtr> operand = Read(arg);
          if (!operand.ok()) return operand.status();
          operands.push_back(*std::move(operand));
        }
        return MakeApply(op, std::move(operands));
      }
      case ExprKind::kReduce: {
        const OpDef* op = OperatorOf(expr->reduction());
        if (op == nullptr) return NotRead(absl::StrCat("no operator for ", ReduceName(expr->reduction())));
        return ReadReduction(*expr, op);
      }
      case ExprKind::kSelect: return NotRead("a choice by position");
      case ExprKind::kCast: return NotRead("a conversion of type");
      case ExprKind::kOpaque: return NotRead("an opaque operator");
      default: return NotRead("a position as an element");
    }
  }

 private:
  absl::StatusOr<PartPtr> ReadOperand(const ExprNode& read) {
    const size_t operand = read.operand();
    std::vector<int> axes;
    for (const ExprPtr& at : read.args()) {
      const auto found = at->IsVariable() ? axis_of_.find(at->variable()) : axis_of_.end();
      if (found == axis_of_.end()) return NotRead("a read at a computed position");
      if (!axes.empty() && found->second <= axes.back()) return NotRead("a read along axes in another order");
      axes.push_back(found->second);
    }
    if (read_[operand] && definition_.operand_axes[operand] != axes) return NotRead("an operand read along other axes");
    read_[operand] = true;
    definition_.operand_axes[operand] = axes;
    return MakeOperand(static_cast<int>(operand));
  }

  // The axis of an operand that has the result's axes, at which a read inside has the variable.
  std::optional<int> AxisOf(int variable, const ExprPtr& expr) const {
    if (expr->IsRead() && ranks_[expr->operand()] == definition_.rank) {
      for (size_t axis = 0; axis < expr->args().size(); ++axis) {
        if (expr->arg(axis)->IsVariable(variable)) return static_cast<int>(axis);
      }
    }
    for (const ExprPtr& arg : expr->args()) {
      if (const auto axis = AxisOf(variable, arg)) return axis;
    }
    return std::nullopt;
  }

  absl::StatusOr<PartPtr> ReadReduction(const ExprNode& reduction, const OpDef* op) {
    if (!reduction.guard()->IsTrue()) return NotRead("a reduction over positions that a condition chooses");
    const ExprPtr& body = reduction.body();
    std::vector<int> axes;
    for (const BoundVar& bound : reduction.bound()) {
      const auto axis = bound.extent->IsVariable() ? AxisOf(bound.id, body) : std::nullopt;
      if (!axis) return NotRead("a reduction over no axis of the result");
      axis_of_[bound.id] = *axis;
      axes.push_back(*axis);
    }
    // A variable takes the place of an axis, at which nothing else may be read inside.
    std::set<int> taken;
    for (int variable : FreeVariables(body)) {
      const auto found = axis_of_.find(variable);
      if (found != axis_of_.end() && !taken.insert(found->second).second) {
        return NotRead("a reduction over an axis that its terms have, too");
      }
    }
    std::sort(axes.begin(), axes.end());
    if (std::adjacent_find(axes.begin(), axes.end()) != axes.end()) return NotRead("two reductions over one axis");
    absl::StatusOr<PartPtr> operand = Read(body);
    if (!operand.ok()) return operand;
    for (int axis : axes) definition_.reduced[axis] = true;
    return MakeApply(op, {*operand}, std::move(axes));
  }

  const std::vector<int>& ranks_;
  const std::vector<std::string>& params_;
  Definition& definition_;
  std::map<int, int> axis_of_;  // by variable
  std::vector<bool> read_;      // by operand
};

// Ranks of the other operands, the highest first, at which the operator can be applied. Errors: why not at the first.
absl::StatusOr<std::vector<int>> FindRanks(const OpDef& op, int rank, const Attrs& attrs) {
  if (op.inputs.empty()) return NotRead("no operands");
  std::vector<int> ranks(op.inputs.size(), rank);
  const absl::Status first = MeaningOf(op, ranks, attrs).status();
  while (!MeaningOf(op, ranks, attrs).ok()) {
    size_t k = ranks.size() - 1;
    while (k > 0 && ranks[k] == 0) ranks[k--] = rank;
    if (k == 0) return first;
    --ranks[k];
  }
  return ranks;
}

}  // namespace

// ---------------------------------------------------------------- parts

PartPtr MakeNumber(double number) {
  Part part{.kind = Part::Kind::kNumber, .number = number};
  part.key = AttrString(Attr(number));
  return std::make_shared<const Part>(std::move(part));
}

PartPtr MakeReal(const std::string& name) {
  return std::make_shared<const Part>(Part{.kind = Part::Kind::kReal, .name = name, .key = "?" + name});
}

PartPtr MakeOperand(int operand) {
  return std::make_shared<const Part>(
      Part{.kind = Part::Kind::kOperand, .operand = operand, .key = absl::StrCat("$", operand)});
}

PartPtr MakeApply(const OpDef* op, std::vector<PartPtr> operands, std::vector<int> reduced) {
  const auto is_number = [](const PartPtr& part) {
    return part->kind == Part::Kind::kNumber || part->kind == Part::Kind::kReal;
  };
  if (op->commutative && is_number(operands[0]) && !is_number(operands[1])) std::swap(operands[0], operands[1]);
  Part part{.kind = Part::Kind::kApply, .op = op, .operands = std::move(operands), .reduced = std::move(reduced)};
  part.key = absl::StrCat(
      op->name, "(",
      absl::StrJoin(part.operands, ",", [](std::string* out, const PartPtr& operand) { out->append(operand->key); }),
      part.reduced.empty() ? "" : ";", absl::StrJoin(part.reduced, ","), ")");
  return std::make_shared<const Part>(std::move(part));
}

std::vector<const Part*> Applications(const PartPtr& part) {
  std::vector<const Part*> found;  // operands before users
  std::set<std::string> seen;
  const auto visit = [&](const auto& self, const PartPtr& at) -> void {
    if (at->kind != Part::Kind::kApply || !seen.insert(at->key).second) return;
    for (const PartPtr& operand : at->operands) self(self, operand);
    found.push_back(at.get());
  };
  visit(visit, part);
  std::reverse(found.begin(), found.end());
  return found;
}

bool DependsOn(const PartPtr& part, int operand) {
  if (part->kind == Part::Kind::kOperand) return part->operand == operand;
  return std::any_of(part->operands.begin(), part->operands.end(),
                     [&](const PartPtr& at) { return DependsOn(at, operand); });
}

// ---------------------------------------------------------------- operators

const OpDef* OperatorOf(Fn fn) {
  const auto found = TheImages().fns.find(fn);
  return found == TheImages().fns.end() ? nullptr : found->second;
}

const OpDef* OperatorOf(ReduceKind kind) {
  const auto found = TheImages().reductions.find(kind);
  return found == TheImages().reductions.end() ? nullptr : found->second;
}

const OpDef* MeanOperator() { return TheImages().mean; }

absl::StatusOr<Definition> ReadDefinition(const OpDef& op, const std::vector<int>& ranks, const Attrs& attrs) {
  const auto read = MeaningOf(op, ranks, attrs);
  if (!read.ok()) return read.status();
  const auto& [canonical, meaning] = *read;
  if (meaning->outputs[0].dtype != DType::kFloat32) return NotRead("a result of another type");
  Definition definition{.op = &op, .attrs = canonical};
  absl::StatusOr<PartPtr> whole = Reader(ranks, *meaning, &definition).Read(meaning->outputs[0].element);
  if (!whole.ok()) return whole.status();
  definition.whole = *std::move(whole);
  const auto is_full = [&](const std::vector<int>& axes) { return static_cast<int>(axes.size()) == definition.rank; };
  if (std::none_of(definition.operand_axes.begin(), definition.operand_axes.end(), is_full)) {
    return NotRead("no operand with the result's axes");
  }
  return definition;
}

absl::StatusOr<std::vector<Definition>> ReadDefinitions(const OpDef& op) {
  absl::Status reason;
  for (int rank : {4, 3, 2}) {
    std::vector<int64_t> axes = {rank / 2};  // those in the middle first
    for (int64_t axis = 0; axis < rank; ++axis) {
      if (axis != axes[0]) axes.push_back(axis);
    }
    Attrs attrs;
    std::string axis_attr;
    for (const AttrSpec& attr : op.attrs) {
      if (attr.kind == AttrKind::kAxis && axis_attr.empty()) axis_attr = attr.name;
      if (attr.kind == AttrKind::kReal) attrs[attr.name] = 0.5;
      if (attr.kind == AttrKind::kAxes) attrs[attr.name] = std::vector<int64_t>{axes[0]};
    }
    if (axis_attr.empty()) axes.resize(1);
    std::vector<Definition> definitions;
    for (int64_t axis : axes) {
      if (!axis_attr.empty()) attrs[axis_attr] = axis;
      const auto ranks = FindRanks(op, rank, attrs);
      absl::StatusOr<Definition> definition =
          ranks.ok() ? ReadDefinition(op, *ranks, attrs) : absl::StatusOr<Definition>(ranks.status());
      if (definition.ok()) {
        definitions.push_back(*std::move(definition));
      } else if (reason.ok()) {
        reason = definition.status();
      }
    }
    if (!definitions.empty()) return definitions;
  }
  return reason;
}

}  // namespace rewright::generate
