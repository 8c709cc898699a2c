#include "core/numerics/retype.h"

#include "absl/strings/str_cat.h"
#include "core/adjoint/operators.h"
#include "core/base/status_macros.h"
#include "core/numerics/rounding_op.h"
#include "core/tensor/memory.h"

namespace rewright {
namespace {

class Retyper {
 public:
  Retyper(const Graph& graph, const RetypeOptions& options)
      : graph_(graph), options_(options), arena_(std::make_shared<Arena>(graph.mode())) {}

  absl::StatusOr<Retyped> Run() {
    for (const NodeId id : graph_.nodes()) {
      const Node& node = graph_.node(id);
      if (auto status = node.op == nullptr ? AddLeaf(id, node) : AddApplication(id, node); !status.ok()) {
        return ErrorAt(absl::StrCat(node.op == nullptr ? node.name : node.op->name, " (node ", id, ") in ",
                                    DTypeName(options_.to)),
                       status);
      }
      for (size_t o = 0; o < node.outputs.size(); ++o) {
        const Value value{id, static_cast<int32_t>(o)};
        arena_->SetName(values_.at(value), graph_.arena()->name(value));
      }
    }
    std::vector<Value> inputs;
    for (const Value input : graph_.inputs()) {
      if (!values_.contains(input)) RETURN_IF_ERROR(AddLeaf(input.node, graph_.node(input.node)));
      inputs.push_back(values_.at(input));
    }
    std::vector<Output> outputs;
    for (const Output& output : graph_.outputs()) {
      outputs.push_back(output);
      outputs.back().value = values_.at(output.value);
      if (output.updates.node >= 0) outputs.back().updates = values_.at(output.updates);
    }
    return Retyped{Graph(arena_, std::move(inputs), std::move(outputs)), std::move(values_), std::move(applications_),
                   std::move(plain_)};
  }

 private:
  TensorType TypeOf(TensorType type) const {
    if (IsFloating(type.dtype)) type.dtype = options_.to;
    return type;
  }

  absl::Status AddLeaf(NodeId id, const Node& node) {
    const Value value{id, 0};
    if (node.leaf == LeafKind::kInput) {
      ASSIGN_OR_RETURN(values_[value], arena_->AddInput(node.name, TypeOf(node.outputs[0])));
      return absl::OkStatus();
    }
    const Tensor& elements = node.leaf == LeafKind::kConstant ? node.data : *graph_.arena()->Elements(id);
    if (elements.data() == nullptr) return InvalidArgument("the weight ", node.name, " has no elements");
    ASSIGN_OR_RETURN(const Tensor converted,
                     IsFloating(elements.dtype()) ? Converted(elements, options_.to) : elements);
    if (node.leaf == LeafKind::kConstant) {
      values_[value] = arena_->AddConstant(converted);
    } else {
      ASSIGN_OR_RETURN(values_[value], arena_->AddState(node.name, converted));
    }
    return absl::OkStatus();
  }

  absl::Status AddApplication(NodeId id, const Node& node) {
    std::vector<Value> operands;
    for (const Value operand : node.operands) operands.push_back(values_.at(operand));
    Attrs attrs = node.attrs;
    for (auto& [name, attr] : attrs) {
      if (auto* dtype = std::get_if<DType>(&attr); dtype != nullptr && IsFloating(*dtype)) *dtype = options_.to;
    }
    if (options_.for_derivatives) {
      const std::vector<TensorType> types = arena_->types(operands);
      std::vector<TensorType> outputs;
      bool floats = false;
      for (const TensorType& type : node.outputs) {
        outputs.push_back(TypeOf(type));
        floats = floats || IsFloating(type.dtype);
      }
      for (size_t k = 0; k < operands.size() && floats; ++k) {
        if (!IsFloating(types[k].dtype)) continue;
        if (!node.meaning->IsOpaque() && GradientCall(*node.op, types, attrs, outputs, static_cast<int>(k)).ok()) {
          continue;
        }
        ASSIGN_OR_RETURN(const NodeId held, arena_->Add(HoldOp(), {operands[k]}));
        operands[k] = {held, 0};
      }
    }
    ASSIGN_OR_RETURN(const NodeId made, arena_->Add(*node.op, operands, attrs));
    applications_[id] = made;
    if (options_.for_derivatives && IsExtremumOfReads(*node.op, *node.meaning) && IsFloating(node.outputs[0].dtype)) {
      // Writes m + (t - t), with m and one t held.
      ASSIGN_OR_RETURN(const NodeId extremum, arena_->Add(HoldOp(), {{made, 0}}));
      operands.push_back({extremum, 0});
      ASSIGN_OR_RETURN(const NodeId terms, arena_->Add(ExtremumTermsOp(*node.op), operands, attrs));
      ASSIGN_OR_RETURN(const NodeId held, arena_->Add(HoldOp(), {{terms, 0}}));
      ASSIGN_OR_RETURN(const Value nothing, arena_->Apply("sub", {{terms, 0}, {held, 0}}));
      ASSIGN_OR_RETURN(values_[Value({id, 0})], arena_->Apply("add", {{extremum, 0}, nothing}));
      plain_[values_[Value({id, 0})]] = {made, 0};
      return absl::OkStatus();
    }
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      values_[{id, static_cast<int32_t>(o)}] = {made, static_cast<int32_t>(o)};
    }
    return absl::OkStatus();
  }

  const Graph& graph_;
  const RetypeOptions options_;
  std::shared_ptr<Arena> arena_;
  ValueMap values_;
  absl::flat_hash_map<NodeId, NodeId> applications_;
  ValueMap plain_;
};

}  // namespace

absl::StatusOr<Tensor> Converted(const Tensor& tensor, DType to) {
  if (tensor.dtype() == to) return tensor;
  ASSIGN_OR_RETURN(Tensor converted, AllocateUninitialized(TensorType{to, tensor.shape()}, "a tensor"));
  ConvertElements(tensor.dtype(), tensor.data(), to, converted.data(), tensor.num_elements());
  return converted;
}

absl::StatusOr<Retyped> Retype(const Graph& graph, const RetypeOptions& options) {
  return Retyper(graph, options).Run();
}

}  // namespace rewright
