#include "core/adjoint/operators.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/adjoint/derived_meaning.h"
#include "core/adjoint/layout.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "core/lift/lift.h"

namespace rewright {
namespace {

constexpr char kGradientMark[] = "_grad_";
constexpr char kScatterMark[] = "_scatter_";
constexpr char kTangentMark[] = "_tangent";
// The greatest number of members of a list whose gradients have a name: names come from files, and a sample has as many
// operands.
constexpr int kMaxNamedMembers = 4096;

DerivedCall CallOf(const DerivedLayout& layout, const OpDef* derived, const std::vector<TensorType>& inputs,
                   const Attrs& attrs, int num_outputs) {
  DerivedCall call{.op = derived, .attrs = attrs};
  const int n = static_cast<int>(inputs.size());
  for (int k : layout.kept) call.operands.push_back({false, k});
  for (int d : layout.directions_vary ? std::vector<int>() : layout.directions) call.operands.push_back({true, d});
  if (layout.directions_vary) {
    const bool tangent = layout.kind == DerivedKind::kTangent;
    for (int d = tangent ? layout.num_fixed : 0; d < (tangent ? n : num_outputs); ++d) {
      call.operands.push_back({true, d});
    }
  }
  for (int k = layout.num_fixed; layout.keeps_group && k < n; ++k) call.operands.push_back({false, k});
  for (int k = 0; k < layout.num_fixed; ++k) {
    if (derived->FindAttr(layout.Shape(k)) != nullptr && !layout.Keeps(k))
      call.attrs[layout.Shape(k)] = inputs[k].shape;
    if (!layout.Keeps(k) && layout.typed.contains(k) && !layout.HasTangent(k)) {
      call.attrs[layout.Type(k)] = inputs[k].dtype;
    }
  }
  if (layout.GroupIsAbsent()) {
    std::vector<int64_t> ranks, shapes;
    for (int k = layout.num_fixed; k < n; ++k) {
      ranks.push_back(inputs[k].rank());
      shapes.insert(shapes.end(), inputs[k].shape.begin(), inputs[k].shape.end());
    }
    call.attrs[layout.Ranks()] = ranks;
    call.attrs[layout.Shape(layout.num_fixed)] = shapes;
    if (layout.typed.contains(layout.num_fixed)) {
      call.attrs[layout.Type(layout.num_fixed)] = n > layout.num_fixed ? inputs.back().dtype : DType::kFloat32;
    }
  }
  return call;
}

// Lengthens the sample, which has fewer operands, to `operands` operands: the last operand is repeated, likewise the
// last element of a list with one number per operand (the sizes of parts), and a size that these add up to is adjusted.
// Nothing if no such application is legal.
std::optional<OpSample> Lengthened(const DerivedLayout& layout, OpSample sample, size_t operands) {
  const auto members = static_cast<int64_t>(sample.inputs.size()) - layout.num_fixed;
  if (members < 1) return std::nullopt;
  const auto more = static_cast<int64_t>(operands - sample.inputs.size());
  sample.inputs.resize(operands, sample.inputs.back());
  MeaningCache meanings;
  const auto is_legal = [&] { return Apply(*layout.base, sample.inputs, sample.attrs, meanings).ok(); };
  if (is_legal()) return sample;
  for (auto& [name, attr] : sample.attrs) {
    auto* const list = std::get_if<std::vector<int64_t>>(&attr);
    if (list == nullptr || std::ssize(*list) != members) continue;
    const int64_t added = more * list->back();
    const std::vector<int64_t> before = *list;
    list->resize(list->size() + static_cast<size_t>(more), list->back());
    for (auto& [other, total] : sample.attrs) {
      auto* const sizes = std::get_if<std::vector<int64_t>>(&total);
      if (sizes == nullptr || other == name) continue;
      for (int64_t& size : *sizes) {
        size += added;
        if (is_legal()) return sample;
        size -= added;
      }
    }
    *list = before;
  }
  return std::nullopt;
}

// Draws a sample of the base at which the derivative exists.
OpSample Sample(const DerivedLayout& layout, const OpDef* derived, Rng& rng) {
  constexpr int kTries = 10000, kTriesAsTheyAre = 200;
  for (int i = 0; i < kTries; ++i) {
    OpSample sample = layout.base->sample(rng);
    if (i >= kTriesAsTheyAre && layout.input >= std::ssize(sample.inputs)) {
      std::optional<OpSample> longer = Lengthened(layout, sample, static_cast<size_t>(layout.input) + 1);
      if (longer) sample = *std::move(longer);
    }
    const int n = static_cast<int>(sample.inputs.size());
    const auto is_floating = [&](int k) { return k < n && IsFloating(sample.inputs[k].dtype); };
    if (layout.kind != DerivedKind::kTangent && !is_floating(layout.input)) continue;
    const absl::StatusOr<Application> application = layout.meanings->Applied(*layout.base, sample.inputs, sample.attrs);
    CHECK(application.ok()) << application.status().ToString();
    DerivedCall call =
        CallOf(layout, derived, sample.inputs, application->attrs, static_cast<int>(application->outputs.size()));
    std::vector<TensorType> types;
    bool fits = !FloatingOutputs(*application).empty();
    for (const DerivedCall::Operand& operand : call.operands) {
      const bool is_output = operand.is_direction && layout.kind != DerivedKind::kTangent;
      if (is_output && operand.number >= static_cast<int>(application->outputs.size())) {
        fits = false;
        break;
      }
      types.push_back(is_output ? application->outputs[operand.number] : sample.inputs[operand.number]);
      fits &= !operand.is_direction || IsFloating(types.back().dtype);
    }
    if (!fits) continue;
    sample.inputs = std::move(types);
    sample.attrs = std::move(call.attrs);
    return sample;
  }
  CHECK(false) << derived->name << ": no sample of " << layout.base->name << " has a derivative";
  return {};
}

std::string DerivedName(const OpDef& op, DerivedKind kind, int input) {
  switch (kind) {
    case DerivedKind::kGradient: return absl::StrCat(op.name, kGradientMark, op.InputName(input));
    case DerivedKind::kScattered: return absl::StrCat(op.name, kScatterMark, op.InputName(input));
    case DerivedKind::kTangent: break;
  }
  return absl::StrCat(op.name, kTangentMark);
}

struct Derived {
  DerivedLayout layout;
  OpDef op;
};

absl::StatusOr<std::unique_ptr<Derived>> Make(const OpDef& base, DerivedKind kind, int input) {
  ASSIGN_OR_RETURN(DerivedLayout layout, LayoutOf(base, kind, input));
  auto derived = std::make_unique<Derived>(Derived{std::move(layout), {}});
  OpDef& op = derived->op;
  op.name = DerivedName(base, kind, input);
  op.summary = kind == DerivedKind::kTangent ? absl::StrCat("The tangent of ", base.name, "'s output.")
                                             : absl::StrCat("The gradient of ", base.name, " by ",
                                                            base.InputName(input), ", of a cotangent of its output.");
  op.inputs = OperandNames(derived->layout, &op.variadic);
  op.broadcasts = base.broadcasts;
  op.ties = base.ties;
  op.attrs = AttrSpecsOf(derived->layout);
  const DerivedLayout* where = &derived->layout;
  const OpDef* self = &op;
  op.meaning = [where](OpBuilder& b) { return DeriveMeaning(*where, b); };
  op.sample = [where, self](Rng& rng) { return Sample(*where, self, rng); };
  return derived;
}

absl::StatusOr<const Derived*> DerivedFrom(const OpDef& base, DerivedKind kind, int input) {
  using Key = std::tuple<const OpDef*, DerivedKind, int>;
  static auto* const all = new Memo<Key, absl::StatusOr<std::unique_ptr<Derived>>>;
  if (BlockFrom(base) != nullptr) {
    return Unimplemented(base.name, ": has no gradient; a graph is cut over devices when its gradients are in it");
  }
  const auto& made = all->Get({&base, kind, input}, [&] { return Make(base, kind, input); });
  if (!made.ok()) return made.status();
  return made->get();
}

absl::StatusOr<const OpDef*> OpOf(const OpDef& op, DerivedKind kind, int input) {
  if (const OpDef* base = LiftedFrom(op)) {
    absl::StatusOr<const OpDef*> derived = OpOf(*base, kind, input);
    if (derived.ok()) derived = LiftedOp(**derived);
    return derived;
  }
  ASSIGN_OR_RETURN(const Derived* derived, DerivedFrom(op, kind, input));
  return &derived->op;
}

// Returns the number of an input by its name; -1 if there is none.
int InputByName(const OpDef& op, const std::string& name) {
  const int fixed = static_cast<int>(op.inputs.size()) - op.variadic;
  for (int k = 0; k < fixed; ++k) {
    if (op.inputs[k] == name) return k;
  }
  int member = 0;
  absl::string_view number = name;
  if (!op.variadic || !absl::ConsumePrefix(&number, op.inputs.back()) || !absl::SimpleAtoi(number, &member)) return -1;
  const bool is_name = member >= 0 && member < kMaxNamedMembers && absl::StrCat(op.inputs.back(), member) == name;
  return is_name ? fixed + member : -1;
}

}  // namespace

absl::StatusOr<const OpDef*> GradientOp(const OpDef& op, int input) { return OpOf(op, DerivedKind::kGradient, input); }
absl::StatusOr<const OpDef*> ScatteredGradientOp(const OpDef& op, int input) {
  return OpOf(op, DerivedKind::kScattered, input);
}
absl::StatusOr<const OpDef*> TangentOp(const OpDef& op) { return OpOf(op, DerivedKind::kTangent, -1); }

const OpDef* FindDerivedOp(const std::string& name, const OpDef* (*find)(const std::string&)) {
  if (absl::string_view base = name; absl::ConsumeSuffix(&base, kTangentMark)) {
    const OpDef* op = find(std::string(base));
    const absl::StatusOr<const OpDef*> derived = op != nullptr ? TangentOp(*op) : absl::NotFoundError("");
    return derived.ok() ? *derived : nullptr;
  }
  // The later of two marks is the outer one.
  const size_t gradient = name.rfind(kGradientMark), scatter = name.rfind(kScatterMark);
  const bool scattered = scatter != std::string::npos && (gradient == std::string::npos || scatter > gradient);
  const size_t at = scattered ? scatter : gradient;
  if (at == std::string::npos) return nullptr;
  const OpDef* op = find(name.substr(0, at));
  const std::string operand = name.substr(at + std::string(scattered ? kScatterMark : kGradientMark).size());
  const int input = op != nullptr ? InputByName(*op, operand) : -1;
  if (input < 0) return nullptr;
  const absl::StatusOr<const OpDef*> derived =
      OpOf(*op, scattered ? DerivedKind::kScattered : DerivedKind::kGradient, input);
  return derived.ok() ? *derived : nullptr;
}

namespace {

std::vector<TensorType> OnOneDevice(std::vector<TensorType> types) {
  for (TensorType& type : types) type.shape.erase(type.shape.begin());
  return types;
}

absl::StatusOr<DerivedCall> Lifted(absl::StatusOr<DerivedCall> call) {
  if (call.ok()) call->op = LiftedOp(*call->op);
  return call;
}

}  // namespace

absl::StatusOr<DerivedCall> GradientCall(const OpDef& op, const std::vector<TensorType>& inputs, const Attrs& attrs,
                                         const std::vector<TensorType>& outputs, int input) {
  if (const OpDef* base = LiftedFrom(op)) {
    return Lifted(GradientCall(*base, OnOneDevice(inputs), attrs, OnOneDevice(outputs), input));
  }
  ASSIGN_OR_RETURN(const Derived* derived, DerivedFrom(op, DerivedKind::kGradient, input));
  return CallOf(derived->layout, &derived->op, inputs, attrs, static_cast<int>(outputs.size()));
}

absl::StatusOr<DerivedCall> TangentCall(const OpDef& op, const std::vector<TensorType>& inputs, const Attrs& attrs) {
  if (const OpDef* base = LiftedFrom(op)) return Lifted(TangentCall(*base, OnOneDevice(inputs), attrs));
  ASSIGN_OR_RETURN(const Derived* derived, DerivedFrom(op, DerivedKind::kTangent, -1));
  return CallOf(derived->layout, &derived->op, inputs, attrs, 0);
}

}  // namespace rewright
