// Sums of products over any axes as products of matrices: the axes of each operand are taken in the order batch, free,
// contracted, as one each.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "backends/common/node_access.h"
#include "backends/cpu/kernel_list.h"
#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/onednn/epilogue.h"
#include "backends/cpu/simd/simd.h"
#include "core/base/status_macros.h"
#include "core/ops/ops.h"

namespace rewright::cpu {
namespace {

// An operand in memory, as [batch, free, contracted].
struct Matrices {
  Layout layout;
  int buffer = -1;
};

// Where its axes do not lie so that three strides do, it is copied.
absl::StatusOr<Matrices> MatricesOf(Lowering& lowering, const Node& node, size_t input, const char* batch_name,
                                    const char* contracting_name) {
  ASSIGN_OR_RETURN(const Place place, lowering.FindPlain(node.operands[input]));
  const std::vector<int64_t>&batch = Ints(node, batch_name), &contracting = Ints(node, contracting_name);
  const auto has = [](const std::vector<int64_t>& list, int64_t axis) {
    return std::find(list.begin(), list.end(), axis) != list.end();
  };
  std::vector<int64_t> order = batch;
  for (int64_t axis = 0; axis < place.layout.rank(); ++axis) {
    if (!has(batch, axis) && !has(contracting, axis)) order.push_back(axis);
  }
  order.insert(order.end(), contracting.begin(), contracting.end());
  Layout moved;
  Shape dims(3, 1);
  for (size_t k = 0; k < order.size(); ++k) {
    const auto axis = static_cast<size_t>(order[k]);
    moved.dims.push_back(place.layout.dims[axis]);
    moved.strides.push_back(place.layout.strides[axis]);
    dims[k < batch.size() ? 0 : k < order.size() - contracting.size() ? 1 : 2] *= moved.dims.back();
  }
  Matrices matrices;
  matrices.buffer = place.buffer;
  if (ReshapeLayout(moved, dims, &matrices.layout)) return matrices;
  matrices.layout = Layout::RowMajor(dims);
  matrices.buffer = lowering.EmitToScratch(
      MakeCopyKernel(moved, 0, Layout::RowMajor(moved.dims), 0, sizeof(float), lowering.threads()), place.buffer,
      static_cast<size_t>(moved.num_elements()) * sizeof(float), "transpose");
  return matrices;
}

absl::StatusOr<bool> PlanDotGeneral(Lowering& lowering, const FusedGroup& group) {
  const Graph& graph = lowering.graph();
  const NodeId id = group.group.nodes[0];
  const Node& node = graph.node(id);
  if (node.outputs[0].dtype != DType::kFloat32) return false;
  ASSIGN_OR_RETURN(const Matrices lhs, MatricesOf(lowering, node, 0, "lhs_batch", "lhs_contracting"));
  ASSIGN_OR_RETURN(Matrices rhs, MatricesOf(lowering, node, 1, "rhs_batch", "rhs_contracting"));
  std::swap(rhs.layout.dims[1], rhs.layout.dims[2]);
  std::swap(rhs.layout.strides[1], rhs.layout.strides[2]);
  const int64_t k = rhs.layout.dims[1], n = rhs.layout.dims[2];
  MatmulProblem problem;
  problem.a = lhs.layout;
  problem.b = rhs.layout;
  problem.c = Layout::RowMajor({lhs.layout.dims[0], lhs.layout.dims[1], n});
  const bool constant = lowering.buffer(rhs.buffer).kind == Buffer::Kind::kConstant;
  if (lowering.PacksFactors() && constant && rhs.layout.dims[0] == 1) {
    problem.packed = true;
    problem.b = Layout::RowMajor({1, k, n});
    ASSIGN_OR_RETURN(rhs.buffer, PackedFactor(lowering, rhs.buffer, graph.type(node.operands[1]), k, n,
                                              rhs.layout.strides[1], rhs.layout.strides[2]));
  }
  std::vector<BufferUse> uses = {Lowering::Read(lhs.buffer), Lowering::Read(rhs.buffer)};
  lowering.UseScratch(MatmulScratchBytes(problem, lowering.threads()), &uses);
  uses.push_back(lowering.WriteRowMajor({id, 0}));
  lowering.Emit(MakeMatmulKernel(problem, lowering.threads()), std::move(uses),
                absl::StrCat(node.op->name, " (", Simd().name, ")"));
  return true;
}

}  // namespace

KernelEntry DotGeneralEntry() { return {.ops = {ops::DotGeneral()}, .plan = PlanDotGeneral}; }

}  // namespace rewright::cpu
