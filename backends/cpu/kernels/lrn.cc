// Local response normalization over channels by oneDNN, in the layout of its operand.
#include "backends/common/node_access.h"
#include "backends/cpu/kernel_list.h"
#include "core/base/status_macros.h"
#include "core/ops/ops.h"

namespace rewright::cpu {
namespace {

// Buffers: src, dst (laid out alike), [scratch].
struct LrnPlan {
  Layout dst;
  size_t scratch_bytes = 0;
  KernelPtr kernel;
};

absl::StatusOr<LrnPlan> MakeLrn(const std::shared_ptr<const DnnlContext>& context, const Node& node,
                                const Layout& src) {
  const std::optional<dnnl::memory::desc> from = DescOf(src);
  if (!from) return absl::UnimplementedError("lrn: no oneDNN layout");
  return CatchDnnl("lrn", [&] {
    const auto real = [&](const char* name) { return static_cast<float>(Real(node, name)); };
    const dnnl::lrn_forward::desc desc(dnnl::prop_kind::forward_inference, dnnl::algorithm::lrn_across_channels, *from,
                                       Int(node, "size"), real("alpha"), real("beta"), real("bias"));
    const dnnl::lrn_forward::primitive_desc primitive(desc, AttrOf(), context->engine);
    const std::optional<Layout> dst = LayoutOf(primitive.dst_desc());
    if (!dst) throw dnnl::error(dnnl_unimplemented, "no layout for the result");
    LrnPlan plan;
    plan.dst = *dst;
    plan.scratch_bytes = primitive.scratchpad_desc().get_size();
    plan.kernel = std::make_unique<DnnlKernel>(context, dnnl::lrn_forward(primitive),
                                               ArgsOf(primitive, {DNNL_ARG_SRC, DNNL_ARG_DST}));
    return plan;
  });
}

// The layout that is read, and written. oneDNN's window is symmetric.
std::optional<Layout> SourceLayout(const Node& node, const Layout& given) {
  if (node.outputs[0].dtype != DType::kFloat32 || Int(node, "size") % 2 == 0) return std::nullopt;
  return given.blocked() ? given : Layout::RowMajor(given.dims);
}

std::optional<Layout> LrnLayout(const LayoutQuery& query) { return SourceLayout(query.node(), query.operand(0)); }

absl::StatusOr<bool> PlanLrn(Lowering& lowering, const FusedGroup& group) {
  const NodeId id = group.group.nodes[0];
  const Node& node = lowering.graph().node(id);
  const Value x = node.operands[0];
  ASSIGN_OR_RETURN(Place place, lowering.Find(x));
  const std::optional<Layout> src = SourceLayout(node, place.layout);
  if (!src) return false;
  absl::StatusOr<LrnPlan> plan = MakeLrn(lowering.context(), node, *src);
  if (!plan.ok()) return false;
  ASSIGN_OR_RETURN(place, lowering.FindAs(x, *src));
  const int result = lowering.Define(Value{id, 0}, plan->dst).buffer;
  std::vector<BufferUse> buffers = {Lowering::Read(place.buffer), Lowering::Write(result)};
  lowering.UseScratch(plan->scratch_bytes, &buffers);
  lowering.Emit(std::move(plan->kernel), std::move(buffers), node.op->name);
  return true;
}

}  // namespace

KernelEntry LrnEntry() { return {.ops = {ops::Lrn()}, .plan = PlanLrn, .layout = LrnLayout}; }

}  // namespace rewright::cpu
