// Operations on contiguous rows: softmax and layer normalization.
#include <algorithm>

#include "backends/common/node_access.h"
#include "backends/cpu/kernel_list.h"
#include "backends/cpu/kernels/strided.h"
#include "backends/cpu/simd/simd.h"
#include "core/base/status_macros.h"
#include "core/ops/ops.h"

namespace rewright::cpu {
namespace {

int ThreadsForRows(int64_t rows, int64_t size, int threads) {
  return ThreadsFor(rows * size, kSharedElements / 2, rows, threads);
}

// Buffers: x, out: `rows` rows of `size` contiguous elements. out may be x.
class SoftmaxKernel : public Kernel {
 public:
  SoftmaxKernel(bool logarithm, int64_t rows, int64_t size, int threads)
      : logarithm_(logarithm), rows_(rows), size_(size), threads_(ThreadsForRows(rows, size, threads)) {}
  absl::Status Run(void* const* buffers, RunContext&) const override {
    const float* x = static_cast<const float*>(buffers[0]);
    float* out = static_cast<float*>(buffers[1]);
    const auto f = logarithm_ ? Simd().log_softmax_row : Simd().softmax_row;
    ForEach(rows_, threads_, [&](int64_t row) { f(out + row * size_, x + row * size_, size_); });
    return absl::OkStatus();
  }

 private:
  const bool logarithm_;
  const int64_t rows_, size_;
  const int threads_;
};

// Buffers: x, scale, bias, out.
class LayerNormKernel : public Kernel {
 public:
  LayerNormKernel(int64_t rows, int64_t size, double epsilon, int threads)
      : rows_(rows),
        size_(size),
        epsilon_(static_cast<float>(epsilon)),
        threads_(ThreadsForRows(rows, size, threads)) {}
  absl::Status Run(void* const* buffers, RunContext&) const override {
    const float* x = static_cast<const float*>(buffers[0]);
    const float* scale = static_cast<const float*>(buffers[1]);
    const float* bias = static_cast<const float*>(buffers[2]);
    float* out = static_cast<float*>(buffers[3]);
    ForEach(rows_, threads_, [&](int64_t row) {
      Simd().layer_norm_row(out + row * size_, x + row * size_, scale, bias, size_, epsilon_);
    });
    return absl::OkStatus();
  }

 private:
  const int64_t rows_, size_;
  const float epsilon_;
  const int threads_;
};

// The axis must be innermost; the result keeps the layout in which it is.
Layout RowsLayout(const Node& node) {
  const Shape& dims = node.outputs[0].shape;
  const size_t axis = Int(node, "axis");
  Layout layout = Layout::RowMajor(dims);
  if (SizesAround(dims, axis).inner != 1) {
    for (size_t k = axis + 1; k < dims.size(); ++k) layout.strides[k] *= dims[axis];
    layout.strides[axis] = 1;
  }
  return layout;
}

std::optional<Layout> SoftmaxLayout(const LayoutQuery& query) {
  if (query.node().outputs[0].dtype != DType::kFloat32) return std::nullopt;
  return RowsLayout(query.node());
}

absl::StatusOr<bool> PlanSoftmax(Lowering& lowering, const FusedGroup& group) {
  const NodeId id = group.group.nodes[0];
  const Node& node = lowering.graph().node(id);
  const Value x = node.operands[0], out{id, 0};
  if (node.outputs[0].dtype != DType::kFloat32) return false;
  const Layout layout = RowsLayout(node);
  ASSIGN_OR_RETURN(const Place place, lowering.FindAs(x, layout));
  const int over = lowering.CanOverwrite(x, place, out, layout) ? place.buffer : -1;
  const int result = lowering.DefineOver(out, layout, over);
  const bool logarithm = node.op == ops::LogSoftmax();
  const int64_t size = layout.dims[Int(node, "axis")];
  lowering.Emit(std::make_unique<SoftmaxKernel>(logarithm, layout.num_elements() / size, size, lowering.threads()),
                {Lowering::Read(place.buffer), Lowering::Write(result)}, node.op->name);
  return true;
}

absl::StatusOr<bool> PlanLayerNorm(Lowering& lowering, const FusedGroup& group) {
  const Graph& graph = lowering.graph();
  const NodeId id = group.group.nodes[0];
  const Node& node = graph.node(id);
  const TensorType& type = node.outputs[0];
  if (type.dtype != DType::kFloat32) return false;
  const int64_t size = graph.type(node.operands[1]).num_elements();
  RETURN_IF_ERROR(lowering.EmitRowMajor(
      id,
      std::make_unique<LayerNormKernel>(type.num_elements() / size, size, Real(node, "epsilon"), lowering.threads()),
      node.op->name));
  return true;
}

}  // namespace

KernelEntry SoftmaxEntry() {
  return {.ops = {ops::Softmax(), ops::LogSoftmax()}, .plan = PlanSoftmax, .layout = SoftmaxLayout};
}

KernelEntry LayerNormEntry() { return {.ops = {ops::LayerNorm()}, .plan = PlanLayerNorm}; }

}  // namespace rewright::cpu
