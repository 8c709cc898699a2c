#include "core/adjoint/free_shift.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "core/ir/made_op.h"
#include "core/ir/rewrite.h"

namespace rewright {
namespace {

constexpr char kMark[] = "_free_shift";

struct FreeShift {
  const OpDef* base = nullptr;
  int shifts = 0;
  SharedMeanings meanings;  // of the base
  OpDef op;
};

bool Contains(const OutputMeaning& output, const ExprPtr& shift) {
  return AnyOf(output.element, [&](const ExprNode& node) { return &node == shift.get(); });
}

// Returns the output that the shift is part of; null if there is none.
const OutputMeaning* OutputOf(const Meaning& meaning, const ExprPtr& shift) {
  for (const OutputMeaning& output : meaning.outputs) {
    if (Contains(output, shift)) return &output;
  }
  return nullptr;
}

absl::Status DeclareFree(FreeShift& made, OpBuilder& b) {
  const size_t inputs = made.base->inputs.size();
  StructuralKey key = b.key();
  key.ranks.resize(inputs);
  key.dtypes.resize(inputs);
  if (made.base->broadcasts) {
    const auto first = key.units.begin() + static_cast<std::ptrdiff_t>(inputs);
    key.units.erase(first, first + made.shifts);
  }
  const auto found = made.meanings.Get(*made.base, key);
  if (!found.ok()) return b.Error(std::string(found.status().message()));
  const Meaning& meaning = **found;
  if (static_cast<int>(meaning.shifts.size()) != made.shifts) return b.Error("another number of shifts");

  const std::vector<ExprPtr> symbols = SymbolsOf(b, meaning, [&](int input, int axis) { return b.size(input, axis); });
  ExprReindexer here(b, symbols, nullptr);
  for (const Requirement& requirement : meaning.requirements) {
    b.Require(Cond(here(requirement.condition)), requirement.message);
  }
  for (int s = 0; s < made.shifts; ++s) {
    const OutputMeaning* output = OutputOf(meaning, meaning.shifts[s]);
    const int operand = static_cast<int>(inputs) + s;
    if (output == nullptr) return b.Error("a shift that is part of no output");
    const int rank = static_cast<int>(output->shape.size());
    if (b.rank(operand) != rank || b.dtype(operand) != meaning.shifts[s]->dtype()) {
      return b.Error(absl::StrCat(b.op().inputs[operand], " must be of ", DTypeName(meaning.shifts[s]->dtype()),
                                  " and rank ", rank, ", as the output"));
    }
    for (int axis = 0; axis < rank; ++axis) {
      b.Require(b.size(operand, axis) == Index(here(output->shape[axis])),
                absl::StrCat(b.op().inputs[operand], " must have the shape of the output"));
    }
  }
  for (const OutputMeaning& output : meaning.outputs) {
    std::vector<Index> shape;
    for (const ExprPtr& size : output.shape) shape.emplace_back(here(size));
    const ExprPtr freed = RewriteExpr(output.element, [&](const ExprPtr& node) {
      for (int s = 0; s < made.shifts; ++s) {
        if (node != meaning.shifts[s]) continue;
        std::vector<Index> at;
        for (const int id : output.index_vars) at.emplace_back(Variable(id, meaning.variables[id].name));
        return ReadOperand(static_cast<int>(inputs) + s, at, node->dtype()).node();
      }
      return node;
    });
    const auto element = [&](const std::vector<Index>& position) {
      std::vector<ExprPtr> variables = symbols;
      for (size_t axis = 0; axis < output.index_vars.size(); ++axis) {
        variables[output.index_vars[axis]] = position[axis].node();
      }
      ExprReindexer at_position(b, std::move(variables), ReadOperand);
      return Scalar(at_position(freed));
    };
    b.Output(output.dtype, shape, element);
  }
  return absl::OkStatus();
}

OpSample SampleOf(FreeShift& made, Rng& rng) {
  OpSample sample = made.base->sample(rng);
  const absl::StatusOr<Application> application = made.meanings.Applied(*made.base, sample.inputs, sample.attrs);
  CHECK(application.ok()) << application.status().ToString();
  for (TensorType& type : ShiftTypes(*application)) sample.inputs.push_back(std::move(type));
  return sample;
}

absl::StatusOr<std::unique_ptr<FreeShift>> Make(const OpDef& base) {
  if (base.variadic) return Unimplemented(base.name, " takes operands of any number: its shifts have no place");
  auto made = std::make_unique<FreeShift>();
  made->base = &base;
  Rng rng(0);
  const OpSample sample = base.sample(rng);
  ASSIGN_OR_RETURN(const Application application, made->meanings.Applied(base, sample.inputs, sample.attrs));
  made->shifts = static_cast<int>(application.meaning->shifts.size());
  if (made->shifts == 0) return absl::NotFoundError(absl::StrCat(base.name, " marks no value as a shift"));
  OpDef& op = made->op;
  op = base;
  op.name = base.name + kMark;
  op.summary = absl::StrCat("The operator ", base.name, " with free tensors in the place of what it marks as shifts.");
  op.commutative = false;
  for (int s = 0; s < made->shifts; ++s) op.inputs.push_back(absl::StrCat("shift", s));
  op.meaning = [self = made.get()](OpBuilder& b) { return DeclareFree(*self, b); };
  op.sample = [self = made.get()](Rng& rng) { return SampleOf(*self, rng); };
  return made;
}

}  // namespace

std::vector<TensorType> ShiftTypes(const Application& application) {
  std::vector<TensorType> types;
  for (const ExprPtr& shift : application.meaning->shifts) {
    const OutputMeaning* output = OutputOf(*application.meaning, shift);
    CHECK(output != nullptr) << "a shift that is part of no output";
    const auto number = static_cast<size_t>(output - application.meaning->outputs.data());
    types.push_back({shift->dtype(), application.outputs[number].shape});
  }
  return types;
}

absl::StatusOr<const OpDef*> FreeShiftOp(const OpDef& op) {
  static auto* const all = new Memo<const OpDef*, absl::StatusOr<std::unique_ptr<FreeShift>>>;
  const auto& made = all->Get(&op, [&] { return Make(op); });
  if (!made.ok()) return made.status();
  return &(*made)->op;
}

const OpDef* FindFreeShiftOp(const std::string& name, const OpDef* (*find)(const std::string&)) {
  absl::string_view base = name;
  if (!absl::ConsumeSuffix(&base, kMark)) return nullptr;
  const OpDef* op = find(std::string(base));
  if (op == nullptr) return nullptr;
  const absl::StatusOr<const OpDef*> made = FreeShiftOp(*op);
  return made.ok() ? *made : nullptr;
}

}  // namespace rewright
