// Products of bf16 by oneDNN, where the processor multiplies such numbers: sums in f32, rounded once behind the
// epilogue where the result is bf16, as the product of f32 with conversions around it does in about twice the time
// (docs/decisions/080). Where oneDNN has no such kernel for the layouts of the factors, that one runs (wide.cc).
#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "backends/common/group.h"
#include "backends/cpu/kernel_list.h"
#include "backends/cpu/onednn/epilogue.h"
#include "backends/cpu/onednn/reorder.h"
#include "backends/cpu/simd/simd.h"
#include "core/base/status_macros.h"
#include "core/ops/ops.h"

namespace rewright::cpu {
namespace {

using dnnl::memory;
using MatmulPrimitive = dnnl::matmul::primitive_desc;

// The same as MatmulProblem, for bf16. With `packs` oneDNN chooses how b lies.
struct Bf16Problem {
  Layout a, b, c;
  dnnl_data_type_t result = dnnl_bf16;  // or dnnl_f32
  bool packs = false;
  PostOps post_ops;
};

// Strides of axes of size 1 as they are in memory without gaps: oneDNN knows layouts by their strides.
memory::desc Bf16Desc(Layout layout, dnnl_data_type_t type = dnnl_bf16) {
  for (size_t axis = layout.dims.size(); axis-- > 0;) {
    if (layout.dims[axis] != 1) continue;
    layout.strides[axis] = axis + 1 < layout.dims.size() ? layout.dims[axis + 1] * layout.strides[axis + 1] : 1;
  }
  const std::optional<memory::desc> desc = DescOf(layout, type);
  if (!desc) throw dnnl::error(dnnl_unimplemented, "no form for the layout");
  return *desc;
}

MatmulPrimitive MakeDesc(const DnnlContext& context, const Bf16Problem& problem) {
  const memory::desc a = Bf16Desc(problem.a), c = Bf16Desc(problem.c, problem.result);
  const memory::desc b = problem.packs ? memory::desc(problem.b.dims, memory::data_type::bf16, memory::format_tag::any)
                                       : Bf16Desc(problem.b);
  Shape columns(problem.c.dims.size(), 1);
  columns.back() = problem.c.dims.back();
  const memory::desc per_column = *DescOf(Layout::RowMajor(columns));  // f32, one element each
  const dnnl::matmul::desc desc =
      problem.post_ops.bias ? dnnl::matmul::desc(a, b, per_column, c) : dnnl::matmul::desc(a, b, c);
  const MatmulPrimitive made(desc, AttrOf(problem.post_ops, per_column, c), context.engine);
  if (Slowness(made.impl_info_str()) > 0) throw dnnl::error(dnnl_unimplemented, "no kernel made for bf16");
  return made;
}

// The buffer of a constant factor as oneDNN reads it, once for all products of as many rows with it.
absl::StatusOr<int> Packed(Lowering& lowering, Value b, const Bf16Problem& problem, const memory::desc& packed) {
  ASSIGN_OR_RETURN(const Place weights, lowering.Find(b));
  const int64_t k = problem.b.dims[0], n = problem.b.dims[1];
  const std::vector<int64_t>& strides = weights.layout.strides;
  int& known =
      lowering.PackedFactorOf(weights.buffer, k, n, strides[strides.size() - 2], strides.back(), problem.c.dims[0]);
  if (known >= 0) return known;
  ASSIGN_OR_RETURN(KernelPtr pack, MakeReorder(lowering.context(), Bf16Desc(Layout::RowMajor({k, n})), packed));
  ASSIGN_OR_RETURN(known, PackWeights(lowering, b, {std::move(pack), packed.get_size(), "reorder"}));
  return known;
}

// The product of the group, and its factors as bf16.
struct Factors {
  NodeId product = -1;
  Value a, b;
};

std::optional<Factors> FactorsOf(const Graph& graph, const FusedGroup& group) {
  const bool rounded = group.kind == FusedGroup::Kind::kRounded;
  if (!rounded && (group.kind != FusedGroup::Kind::kMatmul || !MultipliesBf16() ||
                   !IsOfType(graph, group.group, DType::kBFloat16))) {
    return std::nullopt;
  }
  const auto product = std::find_if(group.group.nodes.begin(), group.group.nodes.end(),
                                    [&](NodeId id) { return graph.node(id).op == ops::Matmul(); });
  const auto factor = [&](int k) {
    const Value value = graph.node(*product).operands[k];
    return rounded ? graph.node(value.node).operands[0] : value;
  };
  return Factors{*product, factor(0), factor(1)};
}

absl::StatusOr<bool> PlanBf16Product(Lowering& lowering, const FusedGroup& group) {
  const Graph& graph = lowering.graph();
  const std::optional<Factors> factors = FactorsOf(graph, group);
  if (!factors) return false;
  const Node& node = graph.node(factors->product);
  const Value a = factors->a, b = factors->b, out = group.group.outputs[0];
  const Shape &dims = node.outputs[0].shape, &b_dims = graph.type(b).shape;
  const auto rank = static_cast<int64_t>(dims.size());
  const int64_t n = dims.back(), k = b_dims[b_dims.size() - 2];
  const Layout out_layout = lowering.LayoutOf(group, out);
  if (!out_layout.IsRowMajor()) return false;

  Bf16Problem problem;
  problem.post_ops = PostOpsOf(group);
  problem.c = Layout::RowMajor(dims);
  if (graph.type(out).dtype == DType::kFloat32) problem.result = dnnl_f32;
  Place a_place, b_place;
  ASSIGN_OR_RETURN(problem.a, PlainOperand(lowering, a, rank, &a_place));
  const bool one_matrix = NumElements(b_dims) == k * n;
  Layout rows;
  const bool flat = one_matrix && ReshapeLayout(problem.a, {NumElements(dims) / n, k}, &rows);
  if (flat) {  // all rows of all batches against one matrix
    problem.a = rows;
    problem.c = Layout::RowMajor({rows.dims[0], n});
  }
  problem.packs = flat && lowering.IsConstant(b);
  if (problem.packs) {
    problem.b = Layout::RowMajor({k, n});
  } else {
    ASSIGN_OR_RETURN(problem.b, PlainOperand(lowering, b, rank, &b_place));
    if (flat) {
      problem.b = Layout{{k, n}, {problem.b.strides[rank - 2], problem.b.strides.back()}};
    }
  }
  const absl::StatusOr<MatmulPrimitive> desc =
      CatchDnnl("matmul", [&] { return MakeDesc(*lowering.context(), problem); });
  if (!desc.ok()) return false;

  if (problem.packs) {
    ASSIGN_OR_RETURN(b_place.buffer, Packed(lowering, b, problem, desc->weights_desc()));
  }
  std::vector<BufferUse> buffers = {Lowering::Read(a_place.buffer), Lowering::Read(b_place.buffer)};
  RETURN_IF_ERROR(ReadEpilogue(lowering, group, n, n, Layout::RowMajor(dims), &buffers));
  buffers.push_back(Lowering::Write(lowering.Define(out, out_layout).buffer));
  lowering.UseScratch(desc->scratchpad_desc().get_size(), &buffers);
  ASSIGN_OR_RETURN(KernelPtr kernel, CatchDnnl("matmul", [&]() -> KernelPtr {
                     return std::make_unique<DnnlKernel>(lowering.context(), dnnl::matmul(*desc),
                                                         ArgsOf(*desc, ProductArgs(problem.post_ops)));
                   }));
  lowering.Emit(std::move(kernel), std::move(buffers),
                absl::StrCat(GroupLabel(graph, group.group), " (", desc->impl_info_str(), ")"));
  return true;
}

// The layout of what it gives is that of the products with conversions.
std::optional<Layout> Bf16ProductLayout(const LayoutQuery& query) {
  return FactorsOf(query.graph, query.group) ? std::optional(Layout::RowMajor(query.dims())) : std::nullopt;
}

}  // namespace

KernelEntry Bf16ProductEntry() {
  return {.ops = {ops::Matmul(), ops::Cast()}, .plan = PlanBf16Product, .layout = Bf16ProductLayout, .version = 2};
}

}  // namespace rewright::cpu
