#include "core/lift/lift.h"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "core/ir/made_op.h"
#include "core/ir/rewrite.h"

namespace rewright {
namespace {

constexpr char kMark[] = "each_";

struct Lifted {
  const OpDef* base = nullptr;
  SharedMeanings meanings;  // of the base
  OpDef op;
};

// The attribute that says how many devices there are where no operand does: degree, in a mesh degree2.
std::string DegreeOf(const OpDef& base) {
  std::string name = "degree";
  for (int k = 2; base.FindAttr(name) != nullptr; ++k) name = absl::StrCat("degree", k);
  return name;
}

// What is structural of the base's application on one device.
absl::StatusOr<StructuralKey> KeyOnDevice(const OpDef& base, const OpBuilder& b) {
  StructuralKey key = b.key();
  const size_t operands = key.ranks.size();
  for (size_t k = 0; k < operands; ++k) {
    if (key.ranks[k]-- == 0) return b.Error("an operand must have the device as its first axis");
    if (base.broadcasts) key.units[k] >>= 1;
  }
  return key;
}

// The device's part of a tensor that is on all of them.
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
  Lift(const OpDef& base, OpBuilder& b, const Meaning& meaning)
      : b_(b), meaning_(meaning), devices_(base.inputs.empty() ? b.Sym(DegreeOf(base)) : b.size(0, 0)) {
    for (const Meaning::Variable& var : meaning.variables) {
      const bool is_size = var.kind == Meaning::VarKind::kSize, is_attr = var.kind == Meaning::VarKind::kAttr;
      symbols_.push_back(is_size   ? b.size(var.input, var.axis + 1).node()
                         : is_attr ? b.Sym(var.attr, var.axis).node()
                                   : nullptr);
    }
  }

  void Run() {
    for (int k = 1; k < b_.num_inputs(); ++k) {
      b_.Require(devices_ == b_.size(k, 0), "all operands must be on as many devices");
    }
    Transplant here(b_, symbols_, nullptr);
    for (const Requirement& requirement : meaning_.requirements) {
      b_.Require(Cond(here(requirement.condition)), requirement.message);
    }
    if (meaning_.IsOpaque()) return Opaque(here);
    for (const OutputMeaning& output : meaning_.outputs) Output(output, here);
  }

 private:
  std::vector<Index> OnDevices(const std::vector<ExprPtr>& shape, Transplant& here) const {
    std::vector<Index> sizes = {devices_};
    for (const ExprPtr& size : shape) sizes.emplace_back(here(size));
    return sizes;
  }

  void Output(const OutputMeaning& output, Transplant& here) {
    std::vector<std::string> names = {"p"};
    for (int variable : output.index_vars) names.push_back(meaning_.variables[variable].name);
    const auto element = [&](const std::vector<Index>& position) {
      std::vector<ExprPtr> variables = symbols_;
      for (size_t axis = 0; axis < output.index_vars.size(); ++axis) {
        variables[output.index_vars[axis]] = position[axis + 1].node();
      }
      Transplant element(b_, std::move(variables), [&](int operand, const std::vector<Index>& at, DType dtype) {
        std::vector<Index> on_device = {position[0]};
        on_device.insert(on_device.end(), at.begin(), at.end());
        return ReadOperand(operand, on_device, dtype);
      });
      for (const ExprPtr& shift : meaning_.shifts) {
        const auto is_shift = [&](const ExprNode& node) { return &node == shift.get(); };
        if (AnyOf(output.element, is_shift)) b_.Shift(Scalar(element(shift)));
      }
      return Scalar(element(output.element));
    };
    b_.Output(output.dtype, OnDevices(output.shape, here), element, names);
  }

  // One device after the other.
  void Opaque(Transplant& here) {
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
  const Index devices_;
  std::vector<ExprPtr> symbols_;  // by the base's variables
};

// Attributes are as on a node: axes are counted from the front.
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

std::unique_ptr<Lifted> Make(const OpDef& base) {
  auto lifted = std::make_unique<Lifted>();
  lifted->base = &base;
  OpDef& op = lifted->op;
  op = base;
  op.name = kMark + base.name;
  op.summary = absl::StrCat("On every device (axis 0): ", base.name, ".");
  op.attrs = WithPlainAxes(base.attrs);
  if (base.inputs.empty()) {
    op.attrs.push_back({.name = DegreeOf(base), .kind = AttrKind::kInt, .doc = "number of devices", .min = 1});
  }
  op.meaning = [self = lifted.get()](OpBuilder& b) -> absl::Status {
    ASSIGN_OR_RETURN(const StructuralKey key, KeyOnDevice(*self->base, b));
    const auto meaning = self->meanings.Get(*self->base, key);
    if (!meaning.ok()) return b.Error(std::string(meaning.status().message()));
    Lift(*self->base, b, **meaning).Run();
    return absl::OkStatus();
  };
  op.sample = [&base](Rng& rng) { return SampleOf(base, rng); };
  return lifted;
}

class Registry {
 public:
  static Registry& Global() {
    static auto* const registry = new Registry;
    return *registry;
  }

  const OpDef* Of(const OpDef& base) {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::unique_ptr<Lifted>& lifted = made_[&base];
    if (lifted == nullptr) {
      lifted = Make(base);
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
  std::mutex mutex_;
  std::map<const OpDef*, std::unique_ptr<Lifted>> made_;
  std::map<const OpDef*, const OpDef*> bases_;
};

}  // namespace

const OpDef* LiftedOp(const OpDef& op) { return Registry::Global().Of(op); }
const OpDef* LiftedFrom(const OpDef& op) { return Registry::Global().BaseOf(op); }

const OpDef* FindLiftedOp(const std::string& name, const OpDef* (*find)(const std::string&)) {
  absl::string_view base = name;
  if (!absl::ConsumePrefix(&base, kMark)) return nullptr;
  const OpDef* op = find(std::string(base));
  return op != nullptr ? LiftedOp(*op) : nullptr;
}

}  // namespace rewright
