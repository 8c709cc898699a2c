#include "core/adjoint/layout.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/adjoint/adjoint.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "core/ir/attr_specs.h"
#include "core/ir/rewrite.h"

namespace rewright {
namespace {

// ---------------------------------------------------------------- operands that are read

// One application of the base, with a structure that no other sample has.
struct Study {
  OpSample sample;
  Application application;
  StructuralKey key;
};

std::vector<Study> Studies(const OpDef& op) {
  constexpr uint64_t kSeeds = 80;
  constexpr size_t kStructures = 16;
  std::vector<Study> studies;
  std::set<StructuralKey> seen;
  MeaningCache cache;
  for (uint64_t seed = 0; seed < kSeeds && studies.size() < kStructures; ++seed) {
    Rng rng(seed);
    Study study{.sample = op.sample(rng)};
    auto application = Apply(op, study.sample.inputs, study.sample.attrs, cache);
    CHECK(application.ok()) << op.name << ": " << application.status().ToString();
    study.application = *std::move(application);
    study.key = StructuralKeyOf(op, study.sample.inputs, study.application.attrs);
    if (seen.insert(study.key).second) studies.push_back(std::move(study));
  }
  return studies;
}

absl::Status Unsupported(const OpDef& op, const std::string& what) { return Unimplemented(op.name, ": ", what); }

// True if derivatives support the kind of node; they would silently ignore another kind.
bool IsKnown(const ExprNode& node) {
  if (!IsScalarKind(node.kind())) return true;
  switch (node.kind()) {
    case ExprKind::kConst:
    case ExprKind::kParam:
    case ExprKind::kFromIndex:
    case ExprKind::kRead:
    case ExprKind::kCall:
    case ExprKind::kSelect:
    case ExprKind::kReduce:
    case ExprKind::kCast: return true;
    default: return false;
  }
}

// Returns the inputs, of n, whose gradients have the same form as the gradient by layout.input. Members of a variadic
// input are alike: samples with few members decide for all.
std::vector<int> InputsLike(const DerivedLayout& layout, int n) {
  std::vector<int> inputs;
  const bool member = layout.input >= layout.num_fixed;
  for (int k = member ? layout.num_fixed : layout.input; k < (member ? n : std::min(n, layout.input + 1)); ++k) {
    inputs.push_back(k);
  }
  return inputs;
}

// Fills in the facts that samples show.
absl::Status FromSamples(DerivedLayout* layout) {
  const OpDef& op = *layout->base;
  const bool tangent = layout->kind == DerivedKind::kTangent;
  if (!op.sample) return Unsupported(op, "an operator without samples has no derivatives");
  std::set<int> read, directions;
  std::set<size_t> num_outputs;
  bool group_is_read = false, group_has_tangents = false, differentiable = false;
  for (const Study& study : Studies(op)) {
    const int n = static_cast<int>(study.sample.inputs.size());
    const std::vector<int> outputs = FloatingOutputs(study.application);
    const auto is_floating = [&](int k) { return k < n && IsFloating(study.sample.inputs[k].dtype); };
    std::vector<ExprPtr> elements;
    const Meaning& meaning = *study.application.meaning;
    for (const OutputMeaning& output : meaning.outputs) {
      if (AnyOf(output.element, [](const ExprNode& node) { return !IsKnown(node); })) {
        return Unsupported(op, "its elements are no expressions of its operands' elements, so nothing is derived");
      }
    }
    if (tangent) {
      for (int o : outputs) elements.push_back(TangentOf(op, study.key, meaning, o).element);
      for (int k = 0; k < n; ++k) {
        if (!is_floating(k) || outputs.empty()) continue;
        differentiable = true;
        (k < layout->num_fixed ? void(directions.insert(k)) : void(group_has_tangents = true));
      }
    } else {
      for (int k : InputsLike(*layout, n)) {
        if (!is_floating(k) || outputs.empty()) continue;
        differentiable = true;
        elements.push_back(GradientOf(op, study.key, meaning, k).element);
        num_outputs.insert(study.application.outputs.size());
        directions.insert(outputs.begin(), outputs.end());
      }
    }
    for (const ExprPtr& element : elements) {
      for (int operand : OperandsRead(element)) {
        if (operand >= n) continue;
        (operand < layout->num_fixed ? void(read.insert(operand)) : void(group_is_read = true));
      }
    }
    if (elements.empty()) continue;
    for (int k = 0; k < n; ++k) {
      const bool differs =
          tangent ? !is_floating(k) : study.sample.inputs[k].dtype != study.application.outputs[outputs[0]].dtype;
      if (differs) layout->typed.insert(std::min(k, layout->num_fixed));
    }
  }
  if (!differentiable) {
    return absl::InvalidArgumentError(
        tangent ? absl::StrCat(op.name, " has no tangent: no floating-point numbers go in and out")
                : absl::StrCat(op.name, " has no gradient by its input number ", layout->input,
                               ": no floating-point numbers go in there and out"));
  }
  layout->kept.assign(read.begin(), read.end());
  layout->keeps_group = group_is_read;
  layout->directions_vary = tangent ? group_has_tangents : num_outputs.size() > 1;
  layout->directions.assign(directions.begin(), directions.end());
  if (layout->directions_vary && (group_is_read || (tangent && !directions.empty()))) {
    return Unsupported(op, "its derivative would have two lists of operands");
  }
  if (op.broadcasts && layout->GroupIsAbsent()) return Unsupported(op, "shapes of a list that broadcasts");
  return absl::OkStatus();
}

// ---------------------------------------------------------------- operands and attributes

// Names of cotangents: u, or v, u2, u3.. if that is taken.
std::string FreeName(const DerivedLayout& layout, const std::vector<std::string>& suffixes) {
  const auto is_taken = [&](const std::string& name) {
    const std::vector<std::string>& inputs = layout.base->inputs;
    return std::find(inputs.begin(), inputs.end(), name) != inputs.end() ||
           layout.base->FindAttr(name + "_shape") != nullptr;
  };
  for (int i = 0;; ++i) {
    const std::string name = i == 0 ? "u" : i == 1 ? "v" : absl::StrCat("u", i, "_");
    if (std::none_of(suffixes.begin(), suffixes.end(), [&](const std::string& s) { return is_taken(name + s); })) {
      return name;
    }
  }
}

uint32_t UnitsAt(const StructuralKey& key, size_t at) { return at < key.units.size() ? key.units[at] : 0; }

}  // namespace

std::vector<int> FloatingOutputs(const Application& application) {
  std::vector<int> floating;
  for (size_t o = 0; o < application.outputs.size(); ++o) {
    if (IsFloating(application.outputs[o].dtype)) floating.push_back(static_cast<int>(o));
  }
  return floating;
}

absl::StatusOr<DerivedLayout> LayoutOf(const OpDef& base, DerivedKind kind, int input) {
  DerivedLayout layout;
  layout.base = &base;
  layout.kind = kind;
  layout.input = input;
  layout.num_fixed = static_cast<int>(base.inputs.size()) - base.variadic;
  if (kind != DerivedKind::kTangent && (input < 0 || (input >= layout.num_fixed && !base.variadic))) {
    return InvalidArgument(base.name, " has no input number ", input);
  }
  RETURN_IF_ERROR(FromSamples(&layout));
  return layout;
}

std::vector<std::string> OperandNames(const DerivedLayout& layout, bool* variadic) {
  std::vector<std::string> names;
  for (int k : layout.kept) names.push_back(layout.NameOf(k));
  if (layout.kind == DerivedKind::kTangent) {
    for (int k : layout.directions) names.push_back("d" + layout.NameOf(k));
    if (layout.directions_vary) names.push_back("d" + layout.base->inputs.back());
  } else if (layout.directions_vary || layout.directions.size() == 1) {
    names.push_back(FreeName(layout, {""}));
  } else {
    std::vector<std::string> numbers;
    for (int o : layout.directions) numbers.push_back(absl::StrCat(o));
    const std::string name = FreeName(layout, numbers);
    for (const std::string& number : numbers) names.push_back(name + number);
  }
  if (layout.keeps_group) names.push_back(layout.base->inputs.back());
  *variadic = layout.keeps_group || layout.directions_vary;
  return names;
}

std::vector<AttrSpec> AttrSpecsOf(const DerivedLayout& layout) {
  std::vector<AttrSpec> specs = WithPlainAxes(layout.base->attrs);
  for (int k = 0; k < layout.num_fixed; ++k) {
    if (layout.Keeps(k) || layout.HasTangent(k)) continue;
    specs.push_back(SymbolicInts(layout.Shape(k), std::nullopt, 1, absl::StrCat("shape of ", layout.NameOf(k))));
    specs.back().is_shape = true;
    if (layout.typed.contains(k)) {
      specs.push_back(DTypeAttr(layout.Type(k), absl::StrCat("element type of ", layout.NameOf(k))));
    }
  }
  if (layout.GroupIsAbsent()) {
    const std::string members = absl::StrCat(layout.base->inputs.back(), "0, ", layout.base->inputs.back(), "1..");
    specs.push_back(StructuralInts(layout.Ranks(), "ranks of " + members, std::nullopt, 0));
    specs.push_back(SymbolicInts(layout.Shape(layout.num_fixed), std::nullopt, 1,
                                 absl::StrCat("shapes of ", members, ", one behind the other")));
    if (layout.typed.contains(layout.num_fixed)) {
      specs.push_back(DTypeAttr(layout.Type(layout.num_fixed), "their element type"));
    }
  }
  return specs;
}

OriginalApplication OriginalOf(const DerivedLayout& layout, const StructuralKey& key) {
  OriginalApplication original;
  const int operands = static_cast<int>(key.ranks.size());
  const int num_kept = static_cast<int>(layout.kept.size());
  original.first_direction = num_kept;
  original.num_directions = layout.directions_vary ? operands - num_kept : static_cast<int>(layout.directions.size());
  int members = 0;
  if (layout.keeps_group) members = operands - num_kept - original.num_directions;
  if (layout.GroupHasTangents()) members = original.num_directions;
  std::vector<int64_t> ranks;
  if (layout.GroupIsAbsent()) {
    ranks = std::get<std::vector<int64_t>>(key.attrs.at(layout.Ranks()));
    members = static_cast<int>(ranks.size());
  }
  original.num_inputs = layout.num_fixed + members;
  const DType common = operands > num_kept ? key.dtypes[num_kept] : DType::kFloat32;
  const auto typed = [&](int k) {
    const auto found = key.attrs.find(layout.Type(k));
    return found == key.attrs.end() ? common : std::get<DType>(found->second);
  };
  size_t next_shape = static_cast<size_t>(operands);
  for (const AttrSpec& spec : layout.base->attrs) next_shape += spec.is_shape;
  const size_t base_shapes = static_cast<size_t>(operands);
  int offset = 0;
  for (int k = 0; k < original.num_inputs; ++k) {
    const bool fixed = k < layout.num_fixed;
    const int member = k - layout.num_fixed;
    int operand = -1;  // whose rank, type and units are the input's
    if (fixed && layout.Keeps(k)) {
      operand = static_cast<int>(std::find(layout.kept.begin(), layout.kept.end(), k) - layout.kept.begin());
    } else if (!fixed && layout.keeps_group) {
      operand = num_kept + original.num_directions + member;
    }
    original.operands.push_back(operand);
    if (fixed && operand < 0 && layout.HasTangent(k)) {
      operand = num_kept + static_cast<int>(std::find(layout.directions.begin(), layout.directions.end(), k) -
                                            layout.directions.begin());
    } else if (!fixed && operand < 0 && layout.GroupHasTangents()) {
      operand = num_kept + member;
    }
    if (operand >= 0) {
      original.key.ranks.push_back(key.ranks[operand]);
      original.key.dtypes.push_back(key.dtypes[operand]);
      if (layout.base->broadcasts) original.key.units.push_back(UnitsAt(key, static_cast<size_t>(operand)));
      continue;
    }
    original.key.dtypes.push_back(typed(fixed ? k : layout.num_fixed));
    if (fixed) {
      original.key.ranks.push_back(key.lengths.at(layout.Shape(k)));
      if (layout.base->broadcasts) original.key.units.push_back(UnitsAt(key, next_shape++));
    } else {
      original.key.ranks.push_back(static_cast<int>(ranks[member]));
      original.group_offsets.push_back(offset);
      offset += static_cast<int>(ranks[member]);
    }
  }
  if (layout.base->broadcasts) {
    size_t at = base_shapes;
    for (const AttrSpec& spec : layout.base->attrs) {
      if (spec.is_shape) original.key.units.push_back(UnitsAt(key, at++));
    }
  }
  for (const AttrSpec& spec : layout.base->attrs) {
    if (const auto found = key.attrs.find(spec.name); found != key.attrs.end()) original.key.attrs.insert(*found);
    if (const auto found = key.lengths.find(spec.name); found != key.lengths.end()) original.key.lengths.insert(*found);
  }
  return original;
}

}  // namespace rewright
