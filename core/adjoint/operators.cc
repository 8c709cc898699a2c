#include "core/adjoint/operators.h"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "core/ir/rewrite.h"

namespace rewright {
namespace {

enum class Kind : uint8_t { kGradient, kScattered, kTangent };

constexpr char kGradientMark[] = "_grad_";
constexpr char kTangentMark[] = "_tangent";

// Meanings of one operator. Thread-safe.
class Meanings {
 public:
  absl::StatusOr<std::shared_ptr<const Meaning>> Get(const OpDef& op, const StructuralKey& key) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return cache_.Get(op, key);
  }
  absl::StatusOr<Application> Applied(const OpDef& op, const std::vector<TensorType>& inputs, const Attrs& attrs) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return Apply(op, inputs, attrs, cache_);
  }

 private:
  std::mutex mutex_;
  MeaningCache cache_;
};

// How the operands and attributes of a derived operator stand for those of its base.
struct Layout {
  const OpDef* base = nullptr;
  Kind kind = Kind::kGradient;
  int input = -1;  // of a gradient

  int num_fixed = 0;              // inputs of the base, without the variadic one
  std::vector<int> kept;          // fixed inputs that are operands
  bool keeps_group = false;       // so are those of the variadic one
  std::set<int> typed;            // fixed inputs whose element type is an attribute; num_fixed is the variadic one
  bool directions_vary = false;   // there are as many as outputs, or members of the group
  std::vector<int> directions;    // else: the outputs, or fixed inputs
  std::shared_ptr<Meanings> meanings = std::make_shared<Meanings>();

  bool Keeps(int fixed) const { return std::find(kept.begin(), kept.end(), fixed) != kept.end(); }
  const std::string& NameOf(int fixed) const { return base->inputs[std::min<size_t>(fixed, base->inputs.size() - 1)]; }
  std::string Shape(int fixed) const { return NameOf(fixed) + "_shape"; }
  std::string Ranks() const { return base->inputs.back() + "_ranks"; }
  std::string Type(int fixed) const { return NameOf(fixed) + "_dtype"; }
  // Whether the shape of a fixed input is that of its tangent.
  bool HasTangent(int fixed) const {
    return kind == Kind::kTangent && std::find(directions.begin(), directions.end(), fixed) != directions.end();
  }
  bool GroupHasTangents() const { return kind == Kind::kTangent && directions_vary; }
  bool GroupIsAbsent() const { return base->variadic && !keeps_group && !GroupHasTangents(); }
};

// ---------------------------------------------------------------- what is read

// One application of the base, of a structure that no other sample has had.
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

std::vector<int> FloatingOutputs(const Application& application) {
  std::vector<int> floating;
  for (size_t o = 0; o < application.outputs.size(); ++o) {
    if (IsFloating(application.outputs[o].dtype)) floating.push_back(static_cast<int>(o));
  }
  return floating;
}

absl::Status Unsupported(const OpDef& op, const std::string& what) {
  return absl::UnimplementedError(absl::StrCat(op.name, ": ", what));
}

// Fills in what samples tell.
absl::Status FromSamples(Layout* layout) {
  const OpDef& op = *layout->base;
  const bool tangent = layout->kind == Kind::kTangent;
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
    if (tangent) {
      for (int o : outputs) elements.push_back(TangentOf(op, study.key, meaning, o).element);
      for (int k = 0; k < n; ++k) {
        if (!is_floating(k) || outputs.empty()) continue;
        differentiable = true;
        (k < layout->num_fixed ? void(directions.insert(k)) : void(group_has_tangents = true));
      }
    } else if (is_floating(layout->input) && !outputs.empty()) {
      differentiable = true;
      elements.push_back(GradientOf(op, study.key, meaning, layout->input).element);
      num_outputs.insert(study.application.outputs.size());
      directions.insert(outputs.begin(), outputs.end());
    }
    for (const ExprPtr& element : elements) {
      for (int operand : OperandsRead(element)) {
        if (operand >= n) continue;
        (operand < layout->num_fixed ? void(read.insert(operand)) : void(group_is_read = true));
      }
    }
    if (elements.empty()) continue;
    for (int k = 0; k < n; ++k) {
      const bool differs = tangent ? !is_floating(k)
                                   : study.sample.inputs[k].dtype != study.application.outputs[outputs[0]].dtype;
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

// Names of cotangents: u, or v, u2, u3.. where that is taken.
std::string FreeName(const Layout& layout, const std::vector<std::string>& suffixes) {
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

std::vector<std::string> InputNames(const Layout& layout, bool* variadic) {
  std::vector<std::string> names;
  for (int k : layout.kept) names.push_back(layout.NameOf(k));
  if (layout.kind == Kind::kTangent) {
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

std::vector<AttrSpec> AttrSpecs(const Layout& layout) {
  std::vector<AttrSpec> specs = layout.base->attrs;
  for (AttrSpec& spec : specs) {
    if (spec.kind != AttrKind::kAxis && spec.kind != AttrKind::kAxes) continue;
    // Axes of an input that need not be the first operand here, if it is one at all.
    const auto* axis = spec.fallback ? std::get_if<int64_t>(&*spec.fallback) : nullptr;
    if (axis == nullptr || *axis < 0) spec.fallback.reset();
    spec.kind = spec.kind == AttrKind::kAxis ? AttrKind::kInt : AttrKind::kInts;
    spec.structural = true;
    spec.min = 0;
  }
  const auto add = [&](AttrSpec spec) { specs.push_back(std::move(spec)); };
  for (int k = 0; k < layout.num_fixed; ++k) {
    if (layout.Keeps(k)) continue;
    if (!layout.HasTangent(k)) {
      add({.name = layout.Shape(k),
           .kind = AttrKind::kInts,
           .doc = absl::StrCat("shape of ", layout.NameOf(k)),
           .min = 1,
           .is_shape = true});
    }
    if (layout.typed.contains(k) && !layout.HasTangent(k)) {
      add({.name = layout.Type(k), .kind = AttrKind::kDType, .doc = absl::StrCat("element type of ", layout.NameOf(k))});
    }
  }
  if (layout.GroupIsAbsent()) {
    const std::string& name = layout.base->inputs.back();
    add({.name = layout.Ranks(),
         .kind = AttrKind::kInts,
         .structural = true,
         .doc = absl::StrCat("ranks of ", name, "0, ", name, "1.."),
         .min = 0});
    add({.name = layout.Shape(layout.num_fixed),
         .kind = AttrKind::kInts,
         .doc = absl::StrCat("shapes of ", name, "0, ", name, "1.., one behind the other"),
         .min = 1});
    if (layout.typed.contains(layout.num_fixed)) {
      add({.name = layout.Type(layout.num_fixed), .kind = AttrKind::kDType, .doc = "their element type"});
    }
  }
  return specs;
}

// The original application, as seen from one of the derived operator.
struct Original {
  StructuralKey key;
  int num_inputs = 0;
  int first_direction = 0;         // operand
  int num_directions = 0;
  std::vector<int> operands;       // by original input; -1: it is none
  std::vector<int> group_offsets;  // in the list of the absent group's shapes, by member

  int MemberOf(const Layout& layout, int input) const { return input - layout.num_fixed; }
};

uint32_t UnitsAt(const StructuralKey& key, size_t at) { return at < key.units.size() ? key.units[at] : 0; }

Original OriginalOf(const Layout& layout, const StructuralKey& key) {
  Original original;
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

// ---------------------------------------------------------------- meaning

class MeaningBuilder {
 public:
  MeaningBuilder(const Layout& layout, OpBuilder& b) : layout_(layout), b_(b), original_(OriginalOf(layout, b.key())) {}

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
    for (const Meaning::Variable& var : meaning_->variables) symbols_.push_back(SymbolOf(var));
    for (const Requirement& requirement : meaning_->requirements) {
      b_.Require(Cond(InSymbols(requirement.condition)), requirement.message);
    }
    return layout_.kind == Kind::kTangent ? Tangents() : Gradient();
  }

 private:
  // What a size or attribute of the original is here.
  ExprPtr SymbolOf(const Meaning::Variable& var) const {
    if (var.kind == Meaning::VarKind::kAttr) return b_.Sym(var.attr, var.axis).node();
    if (var.kind != Meaning::VarKind::kSize) return nullptr;
    return SizeOf(var.input, var.axis).node();
  }
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

  // The direction is like a tensor of that type and shape.
  absl::Status Match(int direction, DType dtype, const std::vector<Index>& shape, const std::string& what) {
    const int operand = original_.first_direction + direction;
    const std::string& name = b_.op().inputs[std::min<size_t>(operand, b_.op().inputs.size() - 1)];
    if (b_.dtype(operand) != dtype || b_.rank(operand) != static_cast<int>(shape.size())) {
      return b_.Error(absl::StrCat(name, " must be of ", DTypeName(dtype), " and rank ", shape.size(), ", as ", what));
    }
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      const Index size = b_.size(operand, static_cast<int>(axis));
      if (size.node() == shape[axis].node()) continue;
      b_.Require(size == shape[axis],
                 absl::StrCat(name, " must have the shape of ", what));
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
                           layout_.kind == Kind::kScattered ? Inversion::kScattered : Inversion::kGathered));
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
    bound_.clear();
    here_.clear();
    b_.Output(
        derivative.dtype, InSymbols(derivative.shape),
        [&](const std::vector<Index>& position) {
          std::vector<ExprPtr> at;
          for (const Index& index : position) at.push_back(index.node());
          for (const ExprPtr& shift : derivative.shifts) b_.Shift(Scalar(Here(shift, derivative, at)));
          return Scalar(Here(derivative.element, derivative, at));
        },
        derivative.position_names);
    return absl::OkStatus();
  }

  // An expression of the derivative in the variables, operands and parameters of the operator. Not by Rewrite: on the
  // way to new numbers of all variables no node may have old ones and new ones.
  ExprPtr Here(const ExprPtr& expr, const Derivative& derivative, const std::vector<ExprPtr>& at) {
    if (const auto found = here_.find(expr); found != here_.end()) return found->second;
    return here_[expr] = NewHere(expr, derivative, at);
  }

  ExprPtr NewHere(const ExprPtr& expr, const Derivative& derivative, const std::vector<ExprPtr>& at) {
    if (expr->IsVariable()) {
      const int id = expr->variable();
      const auto place = std::find(derivative.position.begin(), derivative.position.end(), id);
      if (place != derivative.position.end()) return at[place - derivative.position.begin()];
      const bool is_symbol = static_cast<size_t>(id) < symbols_.size() && symbols_[id] != nullptr;
      return is_symbol ? symbols_[id] : Bound(id, expr->name());
    }
    if (expr->kind() == ExprKind::kParam) return b_.Real(expr->name(), expr->dtype()).node();
    std::vector<ExprPtr> args;
    for (const ExprPtr& arg : expr->args()) args.push_back(Here(arg, derivative, at));
    if (expr->IsRead()) {
      return ReadOperand(operands_[expr->operand()], {args.begin(), args.end()}, expr->dtype()).node();
    }
    std::vector<BoundVar> bound;
    for (const BoundVar& var : expr->bound()) {
      bound.push_back({Bound(var.id, var.name)->variable(), var.name, Here(var.extent, derivative, at)});
    }
    return WithChildren(expr, std::move(args), std::move(bound));
  }

  ExprPtr Bound(int id, const std::string& name) {
    const auto [found, is_new] = bound_.try_emplace(id);
    if (is_new) found->second = b_.NewBound(name).node();
    return found->second;
  }

  const Layout& layout_;
  OpBuilder& b_;
  const Original original_;
  std::shared_ptr<const Meaning> meaning_;
  std::vector<ExprPtr> symbols_;  // by the original's variables
  std::vector<int> operands_;     // by the original's operands, directions included
  absl::flat_hash_map<int, ExprPtr> bound_;
  absl::flat_hash_map<ExprPtr, ExprPtr> here_;
};

// ---------------------------------------------------------------- operators

DerivedCall CallOf(const Layout& layout, const OpDef* derived, const std::vector<TensorType>& inputs,
                   const Attrs& attrs, int num_outputs) {
  DerivedCall call{.op = derived, .attrs = attrs};
  const int n = static_cast<int>(inputs.size());
  for (int k : layout.kept) call.operands.push_back({false, k});
  for (int d : layout.directions_vary ? std::vector<int>() : layout.directions) call.operands.push_back({true, d});
  if (layout.directions_vary) {
    const bool tangent = layout.kind == Kind::kTangent;
    for (int d = tangent ? layout.num_fixed : 0; d < (tangent ? n : num_outputs); ++d) {
      call.operands.push_back({true, d});
    }
  }
  for (int k = layout.num_fixed; layout.keeps_group && k < n; ++k) call.operands.push_back({false, k});
  for (int k = 0; k < layout.num_fixed; ++k) {
    if (derived->FindAttr(layout.Shape(k)) != nullptr && !layout.Keeps(k)) call.attrs[layout.Shape(k)] = inputs[k].shape;
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

// A sample of the base of which there is the derivative.
OpSample Sample(const Layout& layout, const OpDef* derived, Rng& rng) {
  constexpr int kTries = 10000;
  for (int i = 0; i < kTries; ++i) {
    OpSample sample = layout.base->sample(rng);
    const int n = static_cast<int>(sample.inputs.size());
    const auto is_floating = [&](int k) { return k < n && IsFloating(sample.inputs[k].dtype); };
    if (layout.kind != Kind::kTangent && !is_floating(layout.input)) continue;
    const absl::StatusOr<Application> application =
        layout.meanings->Applied(*layout.base, sample.inputs, sample.attrs);
    CHECK(application.ok()) << application.status().ToString();
    DerivedCall call = CallOf(layout, derived, sample.inputs, application->attrs,
                              static_cast<int>(application->outputs.size()));
    std::vector<TensorType> types;
    bool fits = !FloatingOutputs(*application).empty();
    for (const DerivedCall::Operand& operand : call.operands) {
      const bool is_output = operand.is_direction && layout.kind != Kind::kTangent;
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

std::string InputName(const OpDef& op, int input) {
  const int fixed = static_cast<int>(op.inputs.size()) - op.variadic;
  return input < fixed ? op.inputs[input] : absl::StrCat(op.inputs.back(), input - fixed);
}

std::string DerivedName(const OpDef& op, Kind kind, int input) {
  switch (kind) {
    case Kind::kGradient: return absl::StrCat(op.name, kGradientMark, InputName(op, input));
    case Kind::kScattered: return absl::StrCat(op.name, "_scatter_", InputName(op, input));
    case Kind::kTangent: break;
  }
  return absl::StrCat(op.name, kTangentMark);
}

struct Derived {
  Layout layout;
  OpDef op;
};

absl::StatusOr<std::unique_ptr<Derived>> Make(const OpDef& base, Kind kind, int input) {
  auto derived = std::make_unique<Derived>();
  Layout& layout = derived->layout;
  layout.base = &base;
  layout.kind = kind;
  layout.input = input;
  layout.num_fixed = static_cast<int>(base.inputs.size()) - base.variadic;
  if (kind != Kind::kTangent && (input < 0 || (input >= layout.num_fixed && !base.variadic))) {
    return absl::InvalidArgumentError(absl::StrCat(base.name, " has no input number ", input));
  }
  RETURN_IF_ERROR(FromSamples(&layout));
  OpDef& op = derived->op;
  op.name = DerivedName(base, kind, input);
  op.summary = kind == Kind::kTangent ? absl::StrCat("The tangent of ", base.name, "'s output.")
                                      : absl::StrCat("The gradient of ", base.name, " by ", InputName(base, input),
                                                     ", of a cotangent of its output.");
  op.inputs = InputNames(layout, &op.variadic);
  op.broadcasts = base.broadcasts;
  op.ties = base.ties;
  op.attrs = AttrSpecs(layout);
  const Layout* where = &layout;
  const OpDef* self = &op;
  op.meaning = [where](OpBuilder& b) { return MeaningBuilder(*where, b).Run(); };
  op.sample = [where, self](Rng& rng) { return Sample(*where, self, rng); };
  return derived;
}

class Registry {
 public:
  static Registry& Global() {
    static auto* const registry = new Registry;
    return *registry;
  }

  absl::StatusOr<const Derived*> Get(const OpDef& base, Kind kind, int input) {
    const auto key = std::tuple(&base, kind, input);
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (const auto found = made_.find(key); found != made_.end()) return Found(found->second);
    }
    // Made without the lock: others may be asked for meanwhile. The first to be done is the one that is kept.
    absl::StatusOr<std::unique_ptr<Derived>> made = Make(base, kind, input);
    const std::lock_guard<std::mutex> lock(mutex_);
    return Found(made_.try_emplace(key, std::move(made)).first->second);
  }

 private:
  static absl::StatusOr<const Derived*> Found(const absl::StatusOr<std::unique_ptr<Derived>>& made) {
    if (!made.ok()) return made.status();
    return made->get();
  }

  std::mutex mutex_;
  std::map<std::tuple<const OpDef*, Kind, int>, absl::StatusOr<std::unique_ptr<Derived>>> made_;
};

absl::StatusOr<const OpDef*> OpOf(const OpDef& op, Kind kind, int input) {
  const absl::StatusOr<const Derived*> derived = Registry::Global().Get(op, kind, input);
  if (!derived.ok()) return derived.status();
  return &(*derived)->op;
}

// The number of an input by its name; -1 where there is none.
int InputByName(const OpDef& op, const std::string& name) {
  const int fixed = static_cast<int>(op.inputs.size()) - op.variadic;
  for (int k = 0; k < fixed; ++k) {
    if (op.inputs[k] == name) return k;
  }
  int member = 0;
  absl::string_view number = name;
  if (!op.variadic || !absl::ConsumePrefix(&number, op.inputs.back()) || !absl::SimpleAtoi(number, &member)) return -1;
  return member >= 0 && absl::StrCat(op.inputs.back(), member) == name ? fixed + member : -1;
}

}  // namespace

absl::StatusOr<const OpDef*> GradientOp(const OpDef& op, int input) { return OpOf(op, Kind::kGradient, input); }
absl::StatusOr<const OpDef*> ScatteredGradientOp(const OpDef& op, int input) {
  return OpOf(op, Kind::kScattered, input);
}
absl::StatusOr<const OpDef*> TangentOp(const OpDef& op) { return OpOf(op, Kind::kTangent, -1); }

const OpDef* FindDerivedOp(const std::string& name, const OpDef* (*find)(const std::string&)) {
  if (absl::string_view base = name; absl::ConsumeSuffix(&base, kTangentMark)) {
    const OpDef* op = find(std::string(base));
    const absl::StatusOr<const OpDef*> derived = op != nullptr ? TangentOp(*op) : absl::NotFoundError("");
    return derived.ok() ? *derived : nullptr;
  }
  const size_t mark = name.rfind(kGradientMark);
  if (mark == std::string::npos) return nullptr;
  const OpDef* op = find(name.substr(0, mark));
  const int input = op != nullptr ? InputByName(*op, name.substr(mark + std::size(kGradientMark) - 1)) : -1;
  if (input < 0) return nullptr;
  const absl::StatusOr<const OpDef*> derived = GradientOp(*op, input);
  return derived.ok() ? *derived : nullptr;
}

absl::StatusOr<DerivedCall> GradientCall(const OpDef& op, const std::vector<TensorType>& inputs, const Attrs& attrs,
                                         const std::vector<TensorType>& outputs, int input) {
  const absl::StatusOr<const Derived*> derived = Registry::Global().Get(op, Kind::kGradient, input);
  if (!derived.ok()) return derived.status();
  return CallOf((*derived)->layout, &(*derived)->op, inputs, attrs, static_cast<int>(outputs.size()));
}

absl::StatusOr<DerivedCall> TangentCall(const OpDef& op, const std::vector<TensorType>& inputs, const Attrs& attrs) {
  const absl::StatusOr<const Derived*> derived = Registry::Global().Get(op, Kind::kTangent, -1);
  if (!derived.ok()) return derived.status();
  return CallOf((*derived)->layout, &(*derived)->op, inputs, attrs, 0);
}

}  // namespace rewright
