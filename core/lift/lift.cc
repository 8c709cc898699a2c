#include "core/lift/lift.h"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "core/ir/attr_specs.h"
#include "core/ir/made_op.h"
#include "core/ir/rewrite.h"

namespace rewright {
namespace {

constexpr char kEach[] = "each_", kBlock[] = "block_";

struct Lifted {
  const OpDef* base = nullptr;
  SharedMeanings meanings;  // of the base
  OpDef op;
};

// Returns a name that no attribute of the base has: degree, or degree2 for a mesh.
std::string FreeName(const OpDef& base, const std::string& stem) {
  std::string name = stem;
  for (int k = 2; base.FindAttr(name) != nullptr; ++k) name = absl::StrCat(stem, k);
  return name;
}
// The attribute that gives the number of devices if no operand does.
std::string DegreeOf(const OpDef& base) { return FreeName(base, "degree"); }

// The distribution of operands and results over devices: by number the cut axis of the whole tensor; -1: not cut.
struct Cuts {
  std::vector<int64_t> operands, results;
  bool edges = false;  // devices have edges of their neighbours' blocks
};

// Returns the structural key of the base's application: to the operands of one device, or to whole tensors if blocks
// are `cut`.
absl::StatusOr<StructuralKey> KeyOfBase(const OpDef& base, const OpBuilder& b, const Cuts& cuts) {
  StructuralKey key = b.key();
  const size_t operands = key.ranks.size();
  for (size_t k = 0; k < operands; ++k) {
    if (key.ranks[k]-- == 0) return b.Error("an operand must have the device as its first axis");
    if (!base.broadcasts) continue;
    key.units[k] >>= 1;
    if (k < cuts.operands.size() && cuts.operands[k] >= 0) key.units[k] &= ~(1u << cuts.operands[k]);
  }
  std::erase_if(key.attrs, [&](const auto& attr) { return base.FindAttr(attr.first) == nullptr; });
  std::erase_if(key.lengths, [&](const auto& attr) { return base.FindAttr(attr.first) == nullptr; });
  return key;
}

// Returns the device's part of a tensor that is on all devices.
Tensor PartOf(const Tensor& whole, int64_t device) {
  TensorType type = whole.type();
  type.shape.erase(type.shape.begin());
  Tensor part(type);
  const int64_t bytes = part.num_bytes();
  std::copy_n(static_cast<const char*>(whole.data()) + device * bytes, bytes, static_cast<char*>(part.data()));
  return part;
}

class Lift {
 public:
  // Builds the meaning of each_f, or with cuts that of block_f.
  Lift(const OpDef& base, OpBuilder& b, const Meaning& meaning, const std::optional<Cuts>& cuts)
      : b_(b),
        meaning_(meaning),
        names_(base),
        cuts_(cuts.value_or(Cuts())),
        devices_(base.inputs.empty() ? b.Sym(cuts ? names_.here : names_.degree) : b.size(0, 0)),
        degree_(cuts ? b.Sym(names_.degree) : devices_),
        first_(cuts ? b.Sym(names_.first) : Index(0)) {
    symbols_ = SymbolsOf(b, meaning, [&](int operand, int axis) { return SizeOf(operand, axis); });
    if (!cuts) return;
    b.Require(first_ + devices_ <= degree_, "no device may have a number of degree or above");
    for (int k = 0; k < b.num_inputs(); ++k) {
      if (CutOf(k) >= 0) b.Require(Own(k) >= 1, "a block must not be empty");
    }
  }

  void Run() {
    for (int k = 1; k < b_.num_inputs(); ++k) {
      b_.Require(devices_ == b_.size(k, 0), "all operands must be on as many devices");
    }
    ExprReindexer here(b_, symbols_, nullptr);
    for (const Requirement& requirement : meaning_.requirements) {
      b_.Require(Cond(here(requirement.condition)), requirement.message);
    }
    if (meaning_.IsOpaque()) return Opaque(here);
    for (size_t k = 0; k < meaning_.outputs.size(); ++k) {
      Output(meaning_.outputs[k], cuts_.results.empty() ? -1 : cuts_.results[k], here);
    }
  }

 private:
  int64_t CutOf(int operand) const { return cuts_.operands.empty() ? -1 : cuts_.operands[operand]; }
  Index Before(int operand) const { return b_.Sym(names_.before, operand); }
  // Returns the size of the operand's block, without edges.
  Index Own(int operand) const {
    const Index size = b_.size(operand, static_cast<int>(CutOf(operand)) + 1);
    return cuts_.edges ? size - Before(operand) - b_.Sym(names_.after, operand) : size;
  }
  // Returns the size of the base's operand.
  Index SizeOf(int operand, int axis) const {
    return axis == CutOf(operand) ? degree_ * Own(operand) : b_.size(operand, axis + 1);
  }

  std::vector<Index> OnDevices(const std::vector<ExprPtr>& shape, ExprReindexer& here) const {
    std::vector<Index> sizes = {devices_};
    for (const ExprPtr& size : shape) sizes.emplace_back(here(size));
    return sizes;
  }

  // Reads the base's operand at a position from the device's block; 0 if another device holds that position.
  Scalar ReadOf(int operand, const Index& device, const std::vector<Index>& at, DType dtype) const {
    std::vector<Index> there = {device};
    there.insert(there.end(), at.begin(), at.end());
    const int64_t cut = CutOf(operand);
    if (cut < 0) return ReadOperand(operand, there, dtype);
    const Index own = Own(operand), block = first_ + device;
    Index& position = there[cut + 1];
    Cond has;
    if (cuts_.edges) {
      position = position - block * own + Before(operand);
      has = InRange(position, 0, b_.size(operand, static_cast<int>(cut) + 1));
    } else {
      has = FloorDiv(position, own) == block;
      position = Mod(position, own);
    }
    return Select(has, ReadOperand(operand, there, dtype), Constant(0, dtype));
  }

  void Output(const OutputMeaning& output, int64_t cut, ExprReindexer& here) {
    std::vector<std::string> names = {"p"};
    for (int variable : output.index_vars) names.push_back(meaning_.variables[variable].name);
    std::vector<Index> shape = OnDevices(output.shape, here);
    if (cut >= 0) {
      const Index whole = shape[cut + 1];
      shape[cut + 1] = FloorDiv(whole, degree_);
      b_.Require(whole == degree_ * shape[cut + 1], "the size of the result's axis must be a multiple of degree");
    }
    const auto element = [&](const std::vector<Index>& position) {
      std::vector<ExprPtr> variables = symbols_;
      for (size_t axis = 0; axis < output.index_vars.size(); ++axis) {
        Index at = position[axis + 1];
        if (static_cast<int64_t>(axis) == cut) at = (first_ + position[0]) * shape[cut + 1] + at;
        variables[output.index_vars[axis]] = at.node();
      }
      ExprReindexer element(b_, std::move(variables), [&](int operand, const std::vector<Index>& at, DType dtype) {
        return ReadOf(operand, position[0], at, dtype);
      });
      for (const ExprPtr& shift : meaning_.shifts) {
        const auto is_shift = [&](const ExprNode& node) { return &node == shift.get(); };
        if (AnyOf(output.element, is_shift)) b_.Shift(Scalar(element(shift)));
      }
      return Scalar(element(output.element));
    };
    b_.Output(output.dtype, shape, element, names);
  }

  // Computes the devices one after another.
  void Opaque(ExprReindexer& here) {
    std::vector<std::pair<DType, std::vector<Index>>> outputs;
    for (const OutputMeaning& output : meaning_.outputs) {
      outputs.emplace_back(output.dtype, OnDevices(output.shape, here));
    }
    std::vector<int> from;  // by the base's variables: the variable here
    for (const ExprPtr& symbol : symbols_) {
      from.push_back(symbol != nullptr && symbol->IsVariable() ? symbol->variable() : -1);
    }
    const auto reference = [base = meaning_.reference, from](const Bindings& bindings,
                                                             const std::vector<Tensor>& inputs,
                                                             std::vector<Tensor>* outputs) {
      Bindings on_device{std::vector<int64_t>(from.size()), bindings.params};
      for (size_t v = 0; v < from.size(); ++v) {
        if (from[v] >= 0) on_device.variables[v] = bindings.variables[from[v]];
      }
      for (int64_t device = 0; device < (*outputs)[0].shape()[0]; ++device) {
        std::vector<Tensor> parts, results;
        for (const Tensor& input : inputs) parts.push_back(PartOf(input, device));
        for (const Tensor& output : *outputs) results.push_back(PartOf(output, device));
        RETURN_IF_ERROR(base(on_device, parts, &results));
        for (size_t k = 0; k < results.size(); ++k) {
          const int64_t bytes = results[k].num_bytes();
          std::copy_n(static_cast<const char*>(results[k].data()), bytes,
                      static_cast<char*>((*outputs)[k].data()) + device * bytes);
        }
      }
      return absl::OkStatus();
    };
    const bool counted = meaning_.work != nullptr;
    b_.Opaque(outputs, reference, counted ? devices_ * Index(here(meaning_.work)) : Index());
  }

  OpBuilder& b_;
  const Meaning& meaning_;
  const BlockNames names_;
  const Cuts cuts_;
  const Index devices_;           // the devices here: numbers first_ to first_ + devices_ - 1
  const Index degree_, first_;    // ..of degree_
  std::vector<ExprPtr> symbols_;  // by the base's variables
};

// Attributes are canonical, as on a node: axes are counted from the front.
OpSample SampleOf(const OpDef& base, Rng& rng) {
  OpSample sample = base.sample(rng);
  const absl::StatusOr<Attrs> attrs = CanonicalAttrs(base, sample.inputs, sample.attrs);
  CHECK(attrs.ok()) << attrs.status().ToString();
  sample.attrs = *attrs;
  const auto devices = static_cast<int64_t>(1 + rng() % 3);
  for (TensorType& type : sample.inputs) type.shape.insert(type.shape.begin(), devices);
  if (base.inputs.empty()) sample.attrs[DegreeOf(base)] = devices;
  return sample;
}

std::unique_ptr<Lifted> MadeFrom(const OpDef& base, const char* mark) {
  auto lifted = std::make_unique<Lifted>();
  lifted->base = &base;
  lifted->op = base;
  lifted->op.name = mark + base.name;
  lifted->op.attrs = WithPlainAxes(base.attrs);
  return lifted;
}

std::unique_ptr<Lifted> MakeEach(const OpDef& base) {
  std::unique_ptr<Lifted> lifted = MadeFrom(base, kEach);
  OpDef& op = lifted->op;
  op.summary = absl::StrCat("On every device (axis 0): ", base.name, ".");
  if (base.inputs.empty()) {
    op.attrs.push_back(SymbolicInt(DegreeOf(base), std::nullopt, 1, "number of devices"));
  }
  op.meaning = [self = lifted.get()](OpBuilder& b) -> absl::Status {
    ASSIGN_OR_RETURN(const StructuralKey key, KeyOfBase(*self->base, b, {}));
    const auto meaning = self->meanings.Get(*self->base, key);
    if (!meaning.ok()) return b.Error(std::string(meaning.status().message()));
    Lift(*self->base, b, **meaning, std::nullopt).Run();
    return absl::OkStatus();
  };
  op.sample = [&base](Rng& rng) { return SampleOf(base, rng); };
  return lifted;
}

// Reads the cuts. Errors: lists whose lengths differ from the numbers of operands or results, or axes that do not
// exist.
absl::StatusOr<Cuts> CutsOf(const OpDef& base, const OpBuilder& b) {
  const BlockNames names(base);
  Cuts cuts{b.Ints(names.cut), b.Ints(names.result), b.Length(names.before) > 0};
  if (cuts.operands.size() != static_cast<size_t>(b.num_inputs())) {
    return b.Error(absl::StrCat(names.cut, " must have an axis, or -1, for each operand"));
  }
  for (int k = 0; k < b.num_inputs(); ++k) {
    if (cuts.operands[k] + 1 >= b.rank(k)) return b.Error(absl::StrCat(names.cut, " must be axes of the operands"));
  }
  const int edges = cuts.edges ? b.num_inputs() : 0;
  if (b.Length(names.before) != edges || b.Length(names.after) != edges) {
    return b.Error(absl::StrCat(names.before, " and ", names.after, " must have a number for each operand, or none"));
  }
  return cuts;
}

absl::Status BlockMeaning(Lifted& self, OpBuilder& b) {
  ASSIGN_OR_RETURN(const Cuts cuts, CutsOf(*self.base, b));
  ASSIGN_OR_RETURN(const StructuralKey key, KeyOfBase(*self.base, b, cuts));
  const auto meaning = self.meanings.Get(*self.base, key);
  if (!meaning.ok()) return b.Error(std::string(meaning.status().message()));
  if ((*meaning)->IsOpaque()) return b.Error("no declaration says what its elements are");
  const std::vector<OutputMeaning>& outputs = (*meaning)->outputs;
  const std::string& name = BlockNames(*self.base).result;
  if (cuts.results.size() != outputs.size()) return b.Error(name + " must have an axis, or -1, for each result");
  for (size_t k = 0; k < outputs.size(); ++k) {
    if (cuts.results[k] >= static_cast<int64_t>(outputs[k].shape.size())) {
      return b.Error(name + " must be axes of the results");
    }
  }
  Lift(*self.base, b, **meaning, cuts).Run();
  return absl::OkStatus();
}

// Draws blocks along some axis of an operand and of the result whose sizes the number of devices divides.
OpSample BlockSampleOf(const OpDef& base, Rng& rng) {
  const BlockNames names(base);
  OpSample sample = base.sample(rng);
  MeaningCache cache;
  const absl::StatusOr<Application> whole = Apply(base, sample.inputs, sample.attrs, cache);
  CHECK(whole.ok()) << whole.status().ToString();
  sample.attrs = whole->attrs;
  const auto degree = static_cast<int64_t>(1 + rng() % 3), first = static_cast<int64_t>(rng() % degree);
  const auto some_axis = [&](const TensorType& type) {
    std::vector<int64_t> axes = {-1};
    for (int axis = 0; axis < type.rank(); ++axis) {
      const bool stretches = base.broadcasts && type.shape[axis] == 1;  // along with another operand
      if (!stretches && type.shape[axis] > 0 && type.shape[axis] % degree == 0) axes.push_back(axis);
    }
    return axes[rng() % axes.size()];
  };
  std::vector<int64_t> cut, result, before, after;
  const bool edges = rng() % 2 == 0;
  for (TensorType& type : sample.inputs) {
    cut.push_back(some_axis(type));
    for (std::vector<int64_t>* side : {&before, &after}) {
      if (edges) side->push_back(static_cast<int64_t>(rng() % 2));
    }
    if (cut.back() >= 0) {
      type.shape[cut.back()] = type.shape[cut.back()] / degree + (edges ? before.back() + after.back() : 0);
    }
    type.shape.insert(type.shape.begin(), degree - first);
  }
  for (const TensorType& type : whole->outputs) result.push_back(some_axis(type));
  sample.attrs.insert({{names.cut, cut},
                       {names.result, result},
                       {names.before, before},
                       {names.after, after},
                       {names.degree, degree},
                       {names.first, first}});
  if (base.inputs.empty()) sample.attrs[names.here] = degree - first;
  return sample;
}

std::unique_ptr<Lifted> MakeBlock(const OpDef& base) {
  const BlockNames names(base);
  std::unique_ptr<Lifted> lifted = MadeFrom(base, kBlock);
  OpDef& op = lifted->op;
  op.summary = absl::StrCat("On every device (axis 0) what it can say of ", base.name, " of the whole.");
  const Attr none = std::vector<int64_t>();
  for (const AttrSpec& spec :
       {StructuralInts(names.cut, "for each operand the axis of the whole that is cut, or -1", std::nullopt, -1),
        StructuralInts(names.result, "for each result the axis of which a device makes its block, or -1", std::nullopt,
                       -1),
        SymbolicInts(names.before, none, INT64_MIN, "for each operand: elements that precede its block"),
        SymbolicInts(names.after, none, INT64_MIN, "for each operand: elements that follow its block"),
        SymbolicInt(names.degree, std::nullopt, 1, "number of all devices"),
        SymbolicInt(names.first, Attr(int64_t{0}), 0, "number of the first device that is here")}) {
    op.attrs.push_back(spec);
  }
  if (base.inputs.empty()) {
    op.attrs.push_back(SymbolicInt(names.here, std::nullopt, 1, "number of devices that are here"));
  }
  op.meaning = [self = lifted.get()](OpBuilder& b) { return BlockMeaning(*self, b); };
  op.sample = [&base](Rng& rng) { return BlockSampleOf(base, rng); };
  return lifted;
}

class Registry {
 public:
  using Maker = std::unique_ptr<Lifted> (*)(const OpDef& base);
  explicit Registry(Maker make) : make_(make) {}

  const OpDef* Of(const OpDef& base) {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::unique_ptr<Lifted>& lifted = made_[&base];
    if (lifted == nullptr) {
      lifted = make_(base);
      bases_[&lifted->op] = &base;
    }
    return &lifted->op;
  }
  const OpDef* BaseOf(const OpDef& op) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = bases_.find(&op);
    return found == bases_.end() ? nullptr : found->second;
  }

 private:
  const Maker make_;
  std::mutex mutex_;
  std::map<const OpDef*, std::unique_ptr<Lifted>> made_;
  std::map<const OpDef*, const OpDef*> bases_;
};

Registry& AllEach() {
  static auto* const registry = new Registry(MakeEach);
  return *registry;
}

Registry& AllBlocks() {
  static auto* const registry = new Registry(MakeBlock);
  return *registry;
}

}  // namespace

BlockNames::BlockNames(const OpDef& base)
    : cut(FreeName(base, "cut")),
      result(FreeName(base, "result")),
      before(FreeName(base, "before")),
      after(FreeName(base, "after")),
      degree(FreeName(base, "degree")),
      first(FreeName(base, "first")),
      here(FreeName(base, "here")) {}

const OpDef* LiftedOp(const OpDef& op) { return AllEach().Of(op); }
const OpDef* LiftedFrom(const OpDef& op) { return AllEach().BaseOf(op); }
const OpDef* BlockOp(const OpDef& op) { return AllBlocks().Of(op); }
const OpDef* BlockFrom(const OpDef& op) { return AllBlocks().BaseOf(op); }

bool IsOnDevices(const OpDef& op) { return LiftedFrom(op) != nullptr || BlockFrom(op) != nullptr; }

Attrs OnlyBlockOf(const OpDef& op, Attrs attrs, int64_t device) {
  const OpDef& base = *BlockFrom(op);
  const BlockNames names(base);
  attrs[names.first] = std::get<int64_t>(attrs.at(names.first)) + device;
  if (base.inputs.empty()) attrs[names.here] = int64_t{1};
  return attrs;
}

const OpDef* FindLiftedOp(const std::string& name, const OpDef* (*find)(const std::string&)) {
  using Maker = const OpDef* (*)(const OpDef&);
  for (const auto& [mark, make] :
       std::initializer_list<std::pair<absl::string_view, Maker>>{{kEach, LiftedOp}, {kBlock, BlockOp}}) {
    absl::string_view base = name;
    if (!absl::ConsumePrefix(&base, mark)) continue;
    const OpDef* op = find(std::string(base));
    if (op != nullptr) return make(*op);
  }
  return nullptr;
}

}  // namespace rewright
