// Nodes of model files that are not known here: by onnxruntime, one by one (docs/decisions/064).
#include <utility>

#include "backends/cpu/kernel_list.h"
#include "backends/onnxruntime/opaque_nodes.h"
#include "core/base/status_macros.h"
#include "core/ops/foreign.h"

namespace rewright::cpu {
namespace {

absl::StatusOr<bool> PlanOpaque(Lowering& lowering, const FusedGroup& group) {
  const Graph& graph = lowering.graph();
  const NodeId id = group.group.nodes[0];
  const Node& node = graph.node(id);
  if (!IsForeign(node) || lowering.context()->opaque == nullptr) return false;
  std::vector<Tensor> tensors(node.operands.size());
  std::vector<const Tensor*> known(node.operands.size(), nullptr);
  std::vector<BufferUse> buffers;
  for (size_t k = 0; k < node.operands.size(); ++k) {
    if (lowering.IsConstant(node.operands[k])) {
      ASSIGN_OR_RETURN(tensors[k], lowering.ConstantTensor(node.operands[k]));
      known[k] = &tensors[k];
    } else {
      ASSIGN_OR_RETURN(buffers.emplace_back(), lowering.ReadRowMajor(node.operands[k]));
    }
  }
  ASSIGN_OR_RETURN(KernelPtr kernel, lowering.context()->opaque->MakeKernel(graph, id, known, lowering.threads()));
  for (int32_t k = 0; k < static_cast<int32_t>(node.outputs.size()); ++k) {
    buffers.push_back(lowering.WriteRowMajor({id, k}));
  }
  lowering.Emit(std::move(kernel), std::move(buffers), node.op->name);
  return true;
}

}  // namespace

KernelEntry OpaqueEntry() { return {.ops = {}, .plan = PlanOpaque}; }

}  // namespace rewright::cpu
