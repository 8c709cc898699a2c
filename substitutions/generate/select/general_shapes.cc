#include "substitutions/generate/select/general_shapes.h"

#include <algorithm>
#include <functional>

#include "absl/status/status.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "core/ir/rewrite.h"
#include "core/ops/ops.h"

namespace rewright::generate {
namespace {

// The name of a size by rank and axis.
std::string HintOf(size_t rank, size_t axis) {
  static const char* const kHints[5][4] = {{}, {"n"}, {"m", "n"}, {"b", "m", "n"}, {"n", "c", "h", "w"}};
  return rank < std::size(kHints) ? kHints[rank][axis] : "n";
}

absl::Status Error(const std::string& message) { return absl::InvalidArgumentError(message); }

}  // namespace

bool HasWindows(const OperatorChoice& choice) {
  return choice.op == "conv2d" || choice.op == "max_pool2d" || choice.op == "avg_pool2d";
}

// The size as a polynomial. `kernel`: the shape is that of a convolution's kernel, whose extent may be any.
GeneralShapes::Poly GeneralShapes::SizeOf(const Size& size, size_t axis, size_t rank, bool kernel) {
  const bool extent =
      kernel && size.variable < 0 && (axis >= 2 || (generality_ == Generality::kAnyGroups && axis == 1));
  const bool any = generality_ == Generality::kAnyAxis || (extent && generality_ < Generality::kAnyPools);
  if (size.variable < 0 && !any) return Poly(size.number);
  const int64_t nominal = NominalOf(size);
  if (generality_ == Generality::kAnyAxis && axis != axis_) {
    const auto [at, fresh] = shared_.try_emplace(static_cast<int>(axis));
    if (fresh) at->second = NewSize(HintOf(rank, axis), nominal);
    return at->second;
  }
  if (generality_ == Generality::kAnyAxis) return NewSize("s", nominal);
  if (generality_ != Generality::kSpace) return NewSize(HintOf(rank, axis), nominal);
  const auto [at, fresh] = shared_.try_emplace(size.variable);
  if (fresh) at->second = NewSize(space_.variables[size.variable], nominal);
  return at->second;
}

int64_t GeneralShapes::NominalOf(const Size& size) const {
  return size.variable < 0 ? size.number : space_.nominal[size.variable];
}

GeneralShapes::Poly GeneralShapes::NewSize(const std::string& hint, int64_t nominal) {
  Poly size = sizes_.New(hint);
  nominals_[size] = nominal;
  return size;
}

std::optional<int64_t> GeneralShapes::NominalOf(const Poly& size) const {
  int64_t sum = 0;
  for (const auto& [monomial, factor] : size.terms()) {
    int64_t product = factor;
    for (int variable : monomial) {
      const auto found = nominals_.find(Poly::Of(variable));
      if (found == nominals_.end()) return std::nullopt;
      product *= found->second;
    }
    sum += product;
  }
  return sum;
}

GeneralTensor GeneralShapes::Fresh(const std::vector<Size>& shape) {
  GeneralTensor tensor;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    const Size& size = shape[axis];
    const bool kernel = shape.size() == 4 && shape[0].variable >= 0;  // a bias is [1, c, 1, 1]
    tensor.sizes.push_back(SizeOf(size, axis, shape.size(), kernel));
    tensor.nominal.push_back(NominalOf(size));
  }
  tensor.cuts.resize(shape.size());
  return tensor;
}

GeneralTensor GeneralShapes::Fresh(const InputGroup& group) {
  GeneralTensor tensor = Fresh(group.shape);
  const size_t axis = group.cut_axis;
  if (group.cuts.empty() || (generality_ == Generality::kAnyAxis && axis != axis_)) return tensor;
  Poly begin(0);
  int64_t nominal_begin = 0;
  for (const Size& cut : group.cuts) {
    const Poly size = SizeOf(cut, axis, group.shape.size(), false);
    if (generality_ != Generality::kSpace) {  // the size of a part
      nominals_[size] = NominalOf(cut) - nominal_begin;
      nominal_begin = NominalOf(cut);
    }
    begin = generality_ == Generality::kSpace ? size : begin + size;
    tensor.cuts[axis].push_back(begin);
  }
  if (generality_ != Generality::kSpace) {
    nominals_[tensor.sizes[axis]] = tensor.nominal[axis] - nominal_begin;
    tensor.sizes[axis] = begin + tensor.sizes[axis];
  }
  return tensor;
}

const GeneralTensor& GeneralShapes::Input(Ref input) {
  const auto found = inputs_.find(input);
  if (found != inputs_.end()) return found->second;
  int number = input;
  for (const InputGroup& group : space_.inputs) {
    if (number < group.count) return inputs_[input] = Fresh(group);
    number -= group.count;
  }
  CHECK(false) << "an input without a group";
  return inputs_[input];
}

const GeneralTensor& GeneralShapes::Of(Ref ref, const Values& values) {
  if (ref < kOutputs) return Input(ref);
  return values[(ref - kOutputs) / kMaxOutputs][(ref - kOutputs) % kMaxOutputs];
}

absl::Status GeneralShapes::Infer(const SmallGraph& graph, Values* values) {
  for (int i = 0; i < graph.size; ++i) {
    const OperatorChoice& choice = space_.operators[graph.applications[i].op];
    std::vector<GeneralTensor> operands;
    for (int k = 0; k < choice.arity; ++k) operands.push_back(Of(graph.applications[i].operands[k], *values));
    if (choice.constant != OperatorChoice::Constant::kNone) {
      values->push_back({Fresh(choice.shape)});
      continue;
    }
    absl::StatusOr<std::vector<GeneralTensor>> outputs = InferOne(choice, operands);
    if (!outputs.ok()) return outputs.status();
    values->push_back(*std::move(outputs));
  }
  return absl::OkStatus();
}

absl::Status GeneralShapes::Derive(const OperatorChoice& choice, const std::vector<GeneralTensor>& operands,
                                   Attrs* nominal, PolyLists* symbolic) {
  *nominal = choice.attrs;
  switch (choice.derived) {
    case Derived::kNone: return absl::OkStatus();
    case Derived::kGroups: {
      const int64_t ratio = operands[0].nominal[1] / operands[1].nominal[1];
      (*nominal)["groups"] = ratio;
      absl::StatusOr<Poly> groups = DeriveGroups(operands, ratio);
      if (!groups.ok()) return groups.status();
      groups_.push_back(*groups);
      (*symbolic)["groups"] = {*groups};
      return absl::OkStatus();
    }
    case Derived::kParts: {
      const size_t axis = std::get<int64_t>(choice.attrs.at("axis"));
      const std::vector<Poly>& cuts = operands[0].cuts[axis];
      const size_t parts = choice.parts;
      if (cuts.size() + 1 < parts) return Error("a split of what was not put together");
      std::vector<Poly> sizes;
      Poly begin(0);
      for (size_t k = cuts.size() + 1 - parts; k < cuts.size(); ++k) {
        sizes.push_back(cuts[k] - begin);
        begin = cuts[k];
      }
      sizes.push_back(operands[0].sizes[axis] - begin);
      (*symbolic)["sizes"] = sizes;
      (*nominal)["sizes"] = NominalParts(sizes, operands[0].nominal[axis]);
      return absl::OkStatus();
    }
    case Derived::kFirst: {
      const size_t axis = choice.axis;
      if (operands[0].cuts[axis].empty()) return Error("a slice of what was not put together");
      std::vector<Poly> stops = operands[0].sizes;
      Shape nominal_stops = operands[0].nominal;
      stops[axis] = operands[0].cuts[axis].back();
      nominal_stops[axis] = std::max<int64_t>(1, nominal_stops[axis] - 1);
      (*symbolic)["starts"] = std::vector<Poly>(stops.size(), Poly(0));
      (*symbolic)["stops"] = stops;
      (*nominal)["starts"] = std::vector<int64_t>(stops.size(), 0);
      (*nominal)["stops"] = nominal_stops;
      return absl::OkStatus();
    }
    case Derived::kShape: {
      const GeneralTensor shape = Fresh(choice.shape);
      (*symbolic)["shape"] = shape.sizes;
      (*nominal)["shape"] = shape.nominal;
      return absl::OkStatus();
    }
    case Derived::kMerge: {
      std::vector<Poly> shape;
      Shape nominal_shape;
      for (const std::vector<int>& axes : choice.merged) {
        shape.push_back(Poly(1));
        nominal_shape.push_back(1);
        for (int axis : axes) {
          shape.back() = shape.back() * operands[0].sizes[axis];
          nominal_shape.back() *= operands[0].nominal[axis];
        }
      }
      (*symbolic)["shape"] = shape;
      (*nominal)["shape"] = nominal_shape;
      return absl::OkStatus();
    }
    case Derived::kEnlarge: {
      std::vector<Poly> before = {Poly(0), Poly(0)}, after = before;
      std::vector<int64_t> nominal_before = {0, 0}, nominal_after = {0, 0};
      for (size_t k = 0; k < 2; ++k) {
        const int64_t more = choice.extent[k] - operands[0].nominal[2 + k];
        nominal_before.push_back(more / 2);
        nominal_after.push_back(more - more / 2);
        before.push_back(Poly(more / 2));
        after.push_back(Poly(more - more / 2));
      }
      (*nominal)["before"] = nominal_before;
      (*nominal)["after"] = nominal_after;
      (*symbolic)["before"] = before;
      (*symbolic)["after"] = after;
      return absl::OkStatus();
    }
  }
  return absl::OkStatus();
}

// Nominal sizes of the parts of an axis. If the parts are not known, or do not add up to the axis in the space, any
// sizes that add up do.
std::vector<int64_t> GeneralShapes::NominalParts(const std::vector<Poly>& parts, int64_t whole) const {
  std::vector<int64_t> sizes;
  int64_t rest = whole;
  for (const Poly& part : parts) {
    sizes.push_back(NominalOf(part).value_or(0));
    rest -= sizes.back();
  }
  if (rest == 0 && std::all_of(sizes.begin(), sizes.end(), [](int64_t size) { return size > 0; })) return sizes;
  sizes.assign(parts.size(), 1);
  sizes.back() = whole - static_cast<int64_t>(parts.size()) + 1;
  return sizes;
}

// The groups: the number of times that the image's channels are the kernel's.
absl::StatusOr<GeneralShapes::Poly> GeneralShapes::DeriveGroups(const std::vector<GeneralTensor>& operands,
                                                                int64_t ratio) {
  const Poly &channels = operands[0].sizes[1], &group = operands[1].sizes[1], &out = operands[1].sizes[0];
  Poly groups(ratio);
  if (generality_ == Generality::kAnyGroups) {
    std::optional<Poly> found = GroupsOf(operands[0], operands[1]);
    for (size_t i = 0; i < groups_.size() && !found; ++i) {
      const std::optional<Poly> of_another = sizes_.Resolve(channels).DividedBy(sizes_.Resolve(groups_[i]));
      if (of_another && sizes_.Equate(group, *of_another)) found = groups_[i];
    }
    groups = found ? *found : sizes_.New("g");
    if (!found && !sizes_.Equate(channels, groups * group)) return Error("channels that do not fit");
  } else if (sizes_.Resolve(group).Is(1) && ratio != 1) {
    groups = channels;
  } else if (!sizes_.Equate(channels, groups * group)) {
    return Error("channels that do not fit");
  }
  groups = sizes_.Resolve(groups);
  // If the channels are a sum, none of its parts need be a multiple of the groups.
  const bool single = sizes_.Resolve(out).terms().size() == 1;
  if (single && !groups.Is(1) && !sizes_.Resolve(out).DividedBy(groups) &&
      !sizes_.Equate(out, groups * sizes_.New("o"))) {
    return Error("output channels that do not fit");
  }
  return groups;
}

std::optional<GeneralShapes::Poly> GeneralShapes::GroupsOf(const GeneralTensor& image,
                                                           const GeneralTensor& kernel) const {
  const Poly channels = sizes_.Resolve(image.sizes[1]), group = sizes_.Resolve(kernel.sizes[1]);
  return channels == group ? Poly(1) : channels.DividedBy(group);
}

absl::StatusOr<std::vector<GeneralTensor>> GeneralShapes::InferOne(const OperatorChoice& choice,
                                                                   const std::vector<GeneralTensor>& operands) {
  Attrs attrs;
  PolyLists symbolic;
  RETURN_IF_ERROR(Derive(choice, operands, &attrs, &symbolic));
  std::vector<TensorType> types;
  for (const GeneralTensor& operand : operands) types.push_back({DType::kFloat32, operand.nominal});
  if (choice.same_shape) {
    // An axis that has size one in the space alone is not one that is stretched.
    for (size_t axis = 0; axis < operands[0].sizes.size(); ++axis) {
      if (!sizes_.Equate(operands[0].sizes[axis], operands[1].sizes[axis])) return Error("operands that do not fit");
      const bool unit = sizes_.Resolve(operands[0].sizes[axis]).Is(1);
      for (TensorType& type : types) type.shape[axis] = unit ? 1 : std::max<int64_t>(type.shape[axis], 2);
    }
  }
  absl::StatusOr<Application> applied = rewright::Apply(*FindOp(choice.op), types, attrs, meanings_);
  if (!applied.ok()) return applied.status();
  const Meaning& meaning = *applied->meaning;
  std::vector<std::optional<Poly>> variables(meaning.variables.size());
  for (size_t v = 0; v < meaning.variables.size(); ++v) {
    const Meaning::Variable& variable = meaning.variables[v];
    if (variable.kind == Meaning::VarKind::kSize) {
      variables[v] = operands[variable.input].sizes[variable.axis];
    } else if (variable.kind == Meaning::VarKind::kAttr) {
      const auto given = symbolic.find(variable.attr);
      const Attr& attr = applied->attrs.at(variable.attr);
      const size_t at = variable.axis;
      if (given != symbolic.end()) {
        variables[v] = given->second[at];
      } else if (AnyAttrs(choice)) {
        variables[v] = AnyAttr(BundleOf(choice), variable.attr, at);
      } else if (const auto* list = std::get_if<std::vector<int64_t>>(&attr)) {
        variables[v] = Poly((*list)[at]);
      } else if (const auto* number = std::get_if<int64_t>(&attr)) {
        variables[v] = Poly(*number);
      }
    }
  }
  for (const Requirement& requirement : meaning.requirements) {
    if (!Demand(requirement.condition, variables)) return Error("operands that do not fit");
  }
  std::vector<GeneralTensor> outputs;
  for (size_t k = 0; k < meaning.outputs.size(); ++k) {
    GeneralTensor output;
    for (const ExprPtr& size : meaning.outputs[k].shape) {
      std::optional<Poly> value = Evaluate(size, variables);
      if (!value && AnyAttrs(choice)) value = WindowCount(size, variables);
      if (!value) return Error("a size that is no polynomial");
      output.sizes.push_back(*value);
    }
    output.nominal = choice.same_shape ? operands[0].nominal : applied->outputs[k].shape;
    output.cuts = CutsOf(choice, operands, static_cast<int>(k), meaning.outputs[k]);
    outputs.push_back(std::move(output));
  }
  return outputs;
}

bool GeneralShapes::AnyAttrs(const OperatorChoice& choice) const {
  if (generality_ == Generality::kAnyPools) return HasWindows(choice) && choice.op != "conv2d";
  return (generality_ == Generality::kAnyAttrs || generality_ == Generality::kAnyGroups) && HasWindows(choice);
}
std::string GeneralShapes::BundleOf(const OperatorChoice& choice) {
  const bool pool = choice.op != "conv2d";
  std::vector<const OperatorChoice*>& bundles = bundles_[pool ? 1 : 0];
  const auto found = std::find_if(bundles.begin(), bundles.end(), [&](const OperatorChoice* other) {
    return pool ? other->op == choice.op && other->attrs == choice.attrs : other->attrs == choice.attrs;
  });
  const auto number = found - bundles.begin();
  if (found == bundles.end()) bundles.push_back(&choice);
  return std::string(1, static_cast<char>((pool ? 'p' : 'c') + number));
}

GeneralShapes::Poly GeneralShapes::AnyAttr(const std::string& bundle, const std::string& attr, size_t element) {
  const auto [at, fresh] = any_attrs_.try_emplace({bundle, attr, element});
  if (fresh) at->second = sizes_.New("a");
  return at->second;
}
// The number of windows along an axis: the same for the same sizes.
GeneralShapes::Poly GeneralShapes::WindowCount(const ExprPtr& size, const std::vector<std::optional<Poly>>& variables) {
  std::vector<Poly> reads;
  Visit(size, [&](const ExprPtr& e) {
    if (e->IsVariable() && variables[e->variable()]) reads.push_back(sizes_.Resolve(*variables[e->variable()]));
  });
  const auto [at, fresh] = counts_.try_emplace(reads);
  if (fresh) at->second = sizes_.New("z");
  return at->second;
}

std::optional<GeneralShapes::Poly> GeneralShapes::Evaluate(const ExprPtr& e,
                                                           const std::vector<std::optional<Poly>>& variables) {
  if (e->kind() == ExprKind::kInt) return Poly(e->value());
  if (e->IsVariable()) {
    const std::optional<Poly>& value = variables[e->variable()];
    return value ? std::optional<Poly>(sizes_.Resolve(*value)) : std::nullopt;
  }
  if (e->args().size() != 2) return std::nullopt;
  const std::optional<Poly> a = Evaluate(e->arg(0), variables), b = Evaluate(e->arg(1), variables);
  if (!a || !b) return std::nullopt;
  switch (e->kind()) {
    case ExprKind::kIndexAdd: return *a + *b;
    case ExprKind::kIndexSub: return *a - *b;
    case ExprKind::kIndexMul: return *a * *b;
    case ExprKind::kFloorDiv: return a->DividedBy(*b);
    default: return std::nullopt;
  }
}

// Equations are demanded; the rest is left to the verifier. False where they cannot hold.
bool GeneralShapes::Demand(const ExprPtr& cond, const std::vector<std::optional<Poly>>& variables) {
  if (cond->kind() == ExprKind::kAnd) return Demand(cond->arg(0), variables) && Demand(cond->arg(1), variables);
  if (!cond->IsEquation()) return true;
  const std::optional<Poly> a = Evaluate(cond->arg(0), variables), b = Evaluate(cond->arg(1), variables);
  return !a || !b || sizes_.Equate(*a, *b);
}

// Like Terms::CutsOf.
std::vector<std::vector<GeneralShapes::Poly>> GeneralShapes::CutsOf(const OperatorChoice& choice,
                                                                    const std::vector<GeneralTensor>& operands,
                                                                    int output, const OutputMeaning& meaning) {
  const size_t rank = meaning.shape.size();
  std::vector<std::vector<Poly>> cuts(rank);
  const size_t at = choice.op == "concat" || choice.op == "split"
                        ? static_cast<size_t>(std::get<int64_t>(choice.attrs.at("axis")))
                        : rank;
  for (size_t axis = 0; axis < rank; ++axis) {
    if (axis == at && choice.op == "concat") {
      cuts[axis] = operands[0].cuts[axis];
      std::vector<Poly> ends;
      Poly end(0);
      for (size_t k = 1; k < operands.size(); ++k) {
        end = end + operands[k - 1].sizes[axis];
        ends.push_back(end);
        for (const Poly& cut : operands[k].cuts[axis]) cuts[axis].push_back(cut + end);
      }
      cuts[axis].insert(cuts[axis].end(), ends.begin(), ends.end());
    } else if (axis == at && choice.parts > 2) {
      continue;
    } else if (axis == at) {
      cuts[axis] = PartCuts(operands[0].cuts[axis], output);
    } else {
      cuts[axis] = CarriedCuts(operands, meaning, axis);
    }
  }
  return cuts;
}

// A cut belongs to the first part where the middle less the cut is a size.
std::vector<GeneralShapes::Poly> GeneralShapes::PartCuts(const std::vector<Poly>& cuts, int output) {
  std::vector<Poly> result;
  const Poly middle = sizes_.Resolve(cuts.back());
  for (size_t k = 0; k + 1 < cuts.size(); ++k) {
    const Poly rest = middle - sizes_.Resolve(cuts[k]);
    const bool before =
        std::all_of(rest.terms().begin(), rest.terms().end(), [](const auto& t) { return t.second > 0; });
    if (before == (output == 0)) result.push_back(output == 0 ? cuts[k] : cuts[k] - middle);
  }
  return result;
}

std::vector<GeneralShapes::Poly> GeneralShapes::CarriedCuts(const std::vector<GeneralTensor>& operands,
                                                            const OutputMeaning& meaning, size_t axis) {
  std::vector<Poly> result;
  bool first = true;
  Visit(meaning.element, [&](const ExprPtr& e) {
    if (!e->IsRead()) return;
    const GeneralTensor& operand = operands[e->operand()];
    for (size_t k = 0; k < e->args().size(); ++k) {
      if (!e->arg(k)->IsVariable(meaning.index_vars[axis])) continue;
      std::vector<Poly> carried;
      for (const Poly& cut : operand.cuts[k]) carried.push_back(sizes_.Resolve(cut));
      if (first) result = carried;
      if (result.size() != carried.size() || !(result == carried)) result.clear();
      first = false;
    }
  });
  return result;
}

}  // namespace rewright::generate
