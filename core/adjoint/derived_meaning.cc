#include "core/adjoint/derived_meaning.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/adjoint/adjoint.h"
#include "core/base/status_macros.h"
#include "core/ir/rewrite.h"

namespace rewright {
namespace {

class MeaningBuilder {
 public:
  MeaningBuilder(const DerivedLayout& layout, OpBuilder& b)
      : layout_(layout), b_(b), original_(OriginalOf(layout, b.key())) {}

  absl::Status Run() {
    if (layout_.GroupIsAbsent()) {
      int total = 0;
      for (int rank : std::vector<int>(original_.key.ranks.begin() + layout_.num_fixed, original_.key.ranks.end())) {
        total += rank;
      }
      if (b_.Length(layout_.Shape(layout_.num_fixed)) != total) return b_.Error("shapes and ranks do not agree");
    }
    auto meaning = layout_.meanings->Get(*layout_.base, original_.key);
    if (!meaning.ok()) return b_.Error(std::string(meaning.status().message()));
    meaning_ = *std::move(meaning);
    symbols_ = SymbolsOf(b_, *meaning_, [&](int input, int axis) { return SizeOf(input, axis); });
    for (const Requirement& requirement : meaning_->requirements) {
      b_.Require(Cond(InSymbols(requirement.condition)), requirement.message);
    }
    return layout_.kind == DerivedKind::kTangent ? Tangents() : Gradient();
  }

 private:
  // Returns a size of the original application.
  Index SizeOf(int input, int axis) const {
    if (layout_.base->broadcasts && (original_.key.units[input] >> axis & 1) != 0) return 1;
    if (original_.operands[input] >= 0) return b_.size(original_.operands[input], axis);
    if (input < layout_.num_fixed) {
      if (!layout_.HasTangent(input)) return b_.Sym(layout_.Shape(input), axis);
      const auto at = std::find(layout_.directions.begin(), layout_.directions.end(), input);
      return b_.size(original_.first_direction + static_cast<int>(at - layout_.directions.begin()), axis);
    }
    const int member = input - layout_.num_fixed;
    if (layout_.GroupHasTangents()) return b_.size(original_.first_direction + member, axis);
    return b_.Sym(layout_.Shape(layout_.num_fixed), original_.group_offsets[member] + axis);
  }
  ExprPtr InSymbols(const ExprPtr& expr) const { return Substitute(expr, symbols_, {}); }
  std::vector<Index> InSymbols(const std::vector<ExprPtr>& shape) const {
    std::vector<Index> sizes;
    for (const ExprPtr& size : shape) sizes.emplace_back(InSymbols(size));
    return sizes;
  }

  // Requires that the direction has that type and shape.
  absl::Status Match(int direction, DType dtype, const std::vector<Index>& shape, const std::string& what) {
    const int operand = original_.first_direction + direction;
    const std::string& name = b_.op().inputs[std::min<size_t>(operand, b_.op().inputs.size() - 1)];
    if (b_.dtype(operand) != dtype || b_.rank(operand) != static_cast<int>(shape.size())) {
      return b_.Error(absl::StrCat(name, " must be of ", DTypeName(dtype), " and rank ", shape.size(), ", as ", what));
    }
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      const Index size = b_.size(operand, static_cast<int>(axis));
      if (size.node() == shape[axis].node()) continue;
      b_.Require(size == shape[axis], absl::StrCat(name, " must have the shape of ", what));
    }
    return absl::OkStatus();
  }

  absl::Status Gradient() {
    const int n = original_.num_inputs;
    std::vector<int> outputs = layout_.directions;
    if (layout_.directions_vary) {
      outputs.clear();
      for (size_t o = 0; o < meaning_->outputs.size(); ++o) outputs.push_back(static_cast<int>(o));
    }
    if (static_cast<int>(outputs.size()) != original_.num_directions) {
      return b_.Error(absl::StrCat("found ", original_.num_directions, " cotangents, expected ", outputs.size()));
    }
    if (layout_.input >= n) return b_.Error(absl::StrCat("there is no input number ", layout_.input));
    operands_ = original_.operands;
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (outputs[i] >= static_cast<int>(meaning_->outputs.size())) return b_.Error("there are fewer outputs");
      const OutputMeaning& output = meaning_->outputs[outputs[i]];
      if (!IsFloating(output.dtype)) return b_.Error(absl::StrCat("a cotangent of ", DTypeName(output.dtype)));
      RETURN_IF_ERROR(Match(static_cast<int>(i), output.dtype, InSymbols(output.shape), "the output"));
      operands_.resize(std::max<size_t>(operands_.size(), n + outputs[i] + 1), -1);
      operands_[n + outputs[i]] = original_.first_direction + static_cast<int>(i);
    }
    if (!IsFloating(original_.key.dtypes[layout_.input])) {
      return b_.Error(absl::StrCat("a gradient by an input of ", DTypeName(original_.key.dtypes[layout_.input])));
    }
    return Emit(GradientOf(*layout_.base, original_.key, *meaning_, layout_.input,
                           layout_.kind == DerivedKind::kScattered ? Inversion::kScattered : Inversion::kGathered));
  }

  absl::Status Tangents() {
    const int n = original_.num_inputs;
    std::vector<int> inputs = layout_.directions;
    if (layout_.directions_vary) {
      for (int k = layout_.num_fixed; k < n; ++k) inputs.push_back(k);
    }
    operands_ = original_.operands;
    operands_.resize(static_cast<size_t>(2 * n), -1);
    for (size_t i = 0; i < inputs.size(); ++i) {
      const int k = inputs[i];
      if (!IsFloating(original_.key.dtypes[k])) {
        return b_.Error(absl::StrCat("a tangent of ", DTypeName(original_.key.dtypes[k])));
      }
      std::vector<Index> shape;
      for (int axis = 0; axis < original_.key.ranks[k]; ++axis) shape.push_back(SizeOf(k, axis));
      RETURN_IF_ERROR(Match(static_cast<int>(i), original_.key.dtypes[k], shape, layout_.NameOf(k)));
      operands_[n + k] = original_.first_direction + static_cast<int>(i);
    }
    bool some = false;
    for (size_t o = 0; o < meaning_->outputs.size(); ++o) {
      if (!IsFloating(meaning_->outputs[o].dtype)) continue;
      some = true;
      RETURN_IF_ERROR(Emit(TangentOf(*layout_.base, original_.key, *meaning_, static_cast<int>(o))));
    }
    return some ? absl::OkStatus() : b_.Error("no output is of a floating type");
  }

  absl::Status Emit(const Derivative& derivative) {
    for (int operand : OperandsRead(derivative.element)) {
      if (operand < static_cast<int>(operands_.size()) && operands_[operand] >= 0) continue;
      return b_.Error(absl::StrCat("elements of operand ", operand, " are read, which no sample of ",
                                   layout_.base->name, " needs"));
    }
    b_.Output(
        derivative.dtype, InSymbols(derivative.shape),
        [&](const std::vector<Index>& position) {
          std::vector<ExprPtr> variables = symbols_;
          for (size_t axis = 0; axis < position.size(); ++axis) {
            const size_t id = static_cast<size_t>(derivative.position[axis]);
            if (id >= variables.size()) variables.resize(id + 1);
            variables[id] = position[axis].node();
          }
          ExprReindexer here(b_, std::move(variables), [&](int operand, const std::vector<Index>& at, DType dtype) {
            return ReadOperand(operands_[operand], at, dtype);
          });
          for (const ExprPtr& shift : derivative.shifts) b_.Shift(Scalar(here(shift)));
          return Scalar(here(derivative.element));
        },
        derivative.position_names);
    return absl::OkStatus();
  }

  const DerivedLayout& layout_;
  OpBuilder& b_;
  const OriginalApplication original_;
  std::shared_ptr<const Meaning> meaning_;
  std::vector<ExprPtr> symbols_;  // by the original's variables
  std::vector<int> operands_;     // by the original's operands, directions included
};

}  // namespace

absl::Status DeriveMeaning(const DerivedLayout& layout, OpBuilder& b) { return MeaningBuilder(layout, b).Run(); }

}  // namespace rewright
