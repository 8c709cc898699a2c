// Any operator: the reference interpreter, node by node.
#include <cstring>
#include <utility>

#include "backends/common/node_access.h"
#include "backends/cpu/kernel_list.h"
#include "core/base/status_macros.h"
#include "core/interpreter/interpreter.h"
#include "core/ir/index_range.h"

namespace rewright::cpu {
namespace {

// Elements of operand `operand` select positions in this range.
struct Indices {
  size_t operand = 0;
  IndexRange range;
};

std::vector<Indices> IndicesOf(const Graph& graph, NodeId id) {
  std::vector<Indices> indices;
  for (const IndexedAxis& at : IndexedAxes(*graph.node(id).meaning)) {
    if (at.wraps) indices.push_back({static_cast<size_t>(at.indices), IndexRange(graph, id, at)});
  }
  return indices;
}

// Buffers: the operands, the outputs; all row-major. An integer that has no value (a quotient by 0) becomes -1 in that
// element alone, as in pointwise kernels; an index outside its range is an error.
class ReferenceKernel : public Kernel {
 public:
  ReferenceKernel(CompiledMeaning meaning, std::vector<Indices> indices, std::vector<TensorType> inputs,
                  std::vector<TensorType> outputs, int threads)
      : meaning_(std::move(meaning)),
        indices_(std::move(indices)),
        inputs_(std::move(inputs)),
        outputs_(std::move(outputs)),
        threads_(threads) {}

  absl::Status Run(void* const* buffers, RunContext&) const override {
    std::vector<Tensor> inputs;
    for (size_t i = 0; i < inputs_.size(); ++i) inputs.emplace_back(inputs_[i], nullptr, buffers[i]);
    for (const Indices& at : indices_) RETURN_IF_ERROR(at.range.Check(inputs[at.operand]));
    ASSIGN_OR_RETURN(const std::vector<Tensor> outputs, meaning_.Run(inputs, threads_, Undefined::kMinusOne));
    for (size_t i = 0; i < outputs_.size(); ++i) {
      std::memcpy(buffers[inputs_.size() + i], outputs[i].data(), static_cast<size_t>(outputs_[i].num_bytes()));
    }
    return absl::OkStatus();
  }

 private:
  const CompiledMeaning meaning_;
  const std::vector<Indices> indices_;
  const std::vector<TensorType> inputs_;
  const std::vector<TensorType> outputs_;
  const int threads_;
};

absl::Status PlanNode(Lowering& lowering, NodeId id) {
  const Graph& graph = lowering.graph();
  const Node& node = graph.node(id);
  std::vector<TensorType> inputs = graph.types(node.operands);
  ASSIGN_OR_RETURN(CompiledMeaning meaning,
                   CompiledMeaning::Compile(*node.meaning, BindingsOf(*node.meaning, inputs, node.attrs), inputs,
                                            node.outputs, Precision::kNative));
  return lowering.EmitRowMajor(id,
                               std::make_unique<ReferenceKernel>(std::move(meaning), IndicesOf(graph, id),
                                                                 std::move(inputs), node.outputs, lowering.threads()),
                               node.op->name);
}

absl::StatusOr<bool> PlanReference(Lowering& lowering, const FusedGroup& group) {
  for (NodeId id : group.group.nodes) {
    RETURN_IF_ERROR(PlanNode(lowering, id));
  }
  return true;
}

}  // namespace

KernelEntry ReferenceEntry() { return {.ops = {}, .plan = PlanReference}; }

}  // namespace rewright::cpu
