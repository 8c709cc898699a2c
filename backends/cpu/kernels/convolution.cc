// Convolutions of any form by oneDNN's three: what is computed forward, by the gradient of a convolution by its data,
// or by that by its weights. The gradients of conv2d are lowered to such forms, and transposed convolutions are
// imported as them. A product over images and points is a gradient by weights of one point.
#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "backends/common/node_access.h"
#include "backends/cpu/kernel_list.h"
#include "backends/cpu/onednn/epilogue.h"
#include "backends/cpu/onednn/reorder.h"
#include "core/base/status_macros.h"
#include "core/ops/ops.h"

namespace rewright::cpu {
namespace {

using dnnl::memory;

enum class Direction : uint8_t { kForward, kData, kWeights };

// The convolution y = src * weights that is run in a direction; `after` may be negative.
struct ConvolutionProblem {
  Direction direction = Direction::kForward;
  Shape src, dst;                                  // n, c, i..
  Shape weights;                                   // groups, o / groups, c / groups, r..
  memory::dims strides, dilations, before, after;  // dilations as oneDNN counts them: less one
};

int64_t PointsOf(const Shape& shape) {
  return std::accumulate(shape.begin() + 2, shape.end(), int64_t{1}, std::multiplies<>());
}

std::vector<int64_t> IntsOr(const Node& node, const char* name, size_t axes, int64_t otherwise) {
  const std::vector<int64_t>& given = Ints(node, name);
  return given.empty() ? std::vector<int64_t>(axes, otherwise) : given;
}

// The problem of out = convolution(x, w), with m the size of axis 1 of w. None where no direction fits.
//
// Data: with distances e of the elements of x, element h of x reaches y = h e - before + r' d, where r' = K - 1 - r and
// before = (K - 1) d - pad: that is how a convolution with strides e hands back the gradient of y.
// Weights: where the kernel is larger than the result, x[a, m, ..] and w[o, m, ..] are data and cotangents of images m,
// and out[a, o, ..] are weights. So they are in any case where the graph says so (FusedGroup::Kind::kWeightGradient).
std::optional<ConvolutionProblem> ProblemOf(const Graph& graph, const Node& node, bool by_weights = false) {
  const TensorType& type = graph.type(node.operands[0]);
  const Shape &x = type.shape, &w = graph.type(node.operands[1]).shape, &out = node.outputs[0].shape;
  const size_t axes = x.size() - 2;
  if (type.dtype != DType::kFloat32 || axes > 3) return std::nullopt;
  const int64_t groups = Int(node, "groups");
  const std::vector<int64_t> strides = IntsOr(node, "strides", axes, 1), pads = IntsOr(node, "pads", 2 * axes, 0);
  const std::vector<int64_t> spread = IntsOr(node, "lhs_dilations", axes, 1),
                             taps = IntsOr(node, "rhs_dilations", axes, 1);
  const auto all_one = [](const std::vector<int64_t>& list) {
    return std::all_of(list.begin(), list.end(), [](int64_t value) { return value == 1; });
  };
  ConvolutionProblem problem;
  std::vector<int64_t> dilations = taps;
  if (all_one(spread) && (by_weights || PointsOf(w) > PointsOf(out))) {
    problem.direction = Direction::kWeights;
    problem.src = x;
    problem.src[0] = w[1];
    problem.src[1] = x[0] * groups;
    problem.dst = w;
    std::swap(problem.dst[0], problem.dst[1]);
    problem.weights = {groups, w[0] / groups, x[0]};
    problem.weights.insert(problem.weights.end(), out.begin() + 2, out.end());
    problem.strides = taps;
    dilations = strides;
  } else if (all_one(spread) || all_one(strides)) {
    problem.direction = all_one(spread) ? Direction::kForward : Direction::kData;
    problem.src = x;
    problem.dst = out;
    problem.weights = {groups, w[0] / groups, w[1]};
    problem.strides = strides;
    if (problem.direction == Direction::kData) {
      std::swap(problem.src, problem.dst);
      std::swap(problem.weights[1], problem.weights[2]);
      problem.strides = spread;
    }
    problem.weights.insert(problem.weights.end(), w.begin() + 2, w.end());
  } else {
    return std::nullopt;
  }
  for (size_t k = 0; k < axes; ++k) {
    const int64_t reach = (problem.weights[3 + k] - 1) * dilations[k];
    problem.dilations.push_back(dilations[k] - 1);
    problem.before.push_back(problem.direction == Direction::kData ? reach - pads[k] : pads[k]);
    if (problem.before[k] < 0) return std::nullopt;
    problem.after.push_back((problem.dst[2 + k] - 1) * problem.strides[k] + reach + 1 - problem.src[2 + k] -
                            problem.before[k]);
  }
  return problem;
}

// The problem of out[o, c] = sum n, i..: u[n, o, i..] * x[n, c, i..], with x for the data and u for the cotangent. None
// for other products.
std::optional<ConvolutionProblem> PointwiseProblemOf(const Graph& graph, const Node& node) {
  const TensorType &u = graph.type(node.operands[0]), &x = graph.type(node.operands[1]);
  std::vector<int64_t> all_but_channels(u.shape.size());
  std::iota(all_but_channels.begin(), all_but_channels.end(), int64_t{0});
  if (u.dtype != DType::kFloat32 || u.rank() < 3 || u.rank() > 5 || x.rank() != u.rank()) return std::nullopt;
  all_but_channels.erase(all_but_channels.begin() + 1);
  if (Ints(node, "lhs_contracting") != all_but_channels || Ints(node, "rhs_contracting") != all_but_channels) {
    return std::nullopt;
  }
  const size_t axes = u.shape.size() - 2;
  ConvolutionProblem problem{.direction = Direction::kWeights, .src = x.shape, .dst = u.shape};
  problem.weights.assign(axes + 3, 1);
  problem.weights[1] = u.shape[1];
  problem.weights[2] = x.shape[1];
  problem.strides.assign(axes, 1);
  problem.dilations = problem.before = problem.after = memory::dims(axes, 0);
  return problem;
}

// Weights without an axis of groups where there is one group, as oneDNN wants them.
Layout WithoutGroup(Layout layout) {
  if (layout.dims[0] != 1) return layout;
  layout.dims.erase(layout.dims.begin());
  layout.strides.erase(layout.strides.begin());
  return layout;
}

// The order of the axes of ConvolutionProblem::weights in w, or in the result of direction kWeights: there the groups
// are parts of the outputs, which stand behind.
Layout PlainWeights(const ConvolutionProblem& problem) {
  const Shape& dims = problem.weights;
  Layout layout = Layout::RowMajor(dims);
  const int64_t points = PointsOf(Shape(dims.begin() + 1, dims.end()));
  if (problem.direction == Direction::kData) {  // w[g, c, o, r..]
    layout.strides[1] = points;
    layout.strides[2] = dims[1] * points;
  } else if (problem.direction == Direction::kWeights) {  // out[c, g, o, r..]
    layout.strides[0] = dims[1] * points;
    layout.strides[1] = points;
    layout.strides[2] = dims[0] * dims[1] * points;
  }
  return WithoutGroup(layout);
}

// A primitive with its arguments, in the layouts that it takes.
struct Choice {
  DnnlArg src, weights, dst;
  memory::desc scratch;
  dnnl::primitive primitive;
  std::string implementation;
  int slowness = 0;
};

std::optional<Choice> ChoiceOf(Direction direction, const dnnl::primitive_desc_base& desc) {
  if (IsEmpty(desc)) return std::nullopt;
  const auto arg = [&](int number) { return DnnlArg{number, desc.query_md(dnnl::query::exec_arg_md, number)}; };
  Choice choice{arg(direction == Direction::kData ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC),
                arg(direction == Direction::kWeights ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS),
                arg(direction == Direction::kForward ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST),
                desc.scratchpad_desc(),
                dnnl::primitive(desc.get()),
                desc.impl_info_str()};
  choice.slowness = Slowness(choice.implementation);
  if (!LayoutOf(choice.src.desc) || !LayoutOf(choice.dst.desc)) return std::nullopt;
  return choice;
}

// None where oneDNN has no implementation in these layouts.
std::optional<Choice> Make(const DnnlContext& context, const ConvolutionProblem& p, const memory::desc& src,
                           const memory::desc& dst) {
  constexpr auto kDirect = dnnl::algorithm::convolution_direct;
  const Shape dims = WithoutGroup(Layout::RowMajor(p.weights)).dims;
  const memory::desc weights(dims, memory::data_type::f32, memory::format_tag::any);
  const dnnl::primitive_attr attr = AttrOf();
  const bool forward = p.direction == Direction::kForward;
  const auto kind = forward ? dnnl::prop_kind::forward_inference : dnnl::prop_kind::forward_training;
  const dnnl::convolution_forward::primitive_desc hint(
      {kind, kDirect, src, weights, dst, p.strides, p.dilations, p.before, p.after}, attr, context.engine, true);
  if (forward || IsEmpty(hint)) return ChoiceOf(p.direction, hint);
  if (p.direction == Direction::kData) {
    const dnnl::convolution_backward_data::primitive_desc desc(
        {kDirect, src, weights, dst, p.strides, p.dilations, p.before, p.after}, attr, context.engine, hint, true);
    return ChoiceOf(p.direction, desc);
  }
  const dnnl::convolution_backward_weights::primitive_desc desc(
      {kDirect, src, weights, dst, p.strides, p.dilations, p.before, p.after}, attr, context.engine, hint, true);
  return ChoiceOf(p.direction, desc);
}

// The best in any layout, blocked ones first; none where loops over single elements would run.
std::optional<Choice> Choose(const DnnlContext& context, const ConvolutionProblem& problem) {
  const auto choose = [&] {
    const auto any = [](const Shape& dims) {
      return memory::desc(dims, memory::data_type::f32, memory::format_tag::any);
    };
    const auto plain = [](const Shape& dims) { return *DescOf(Layout::RowMajor(dims)); };
    const auto blocked = [&](const Shape& dims) { return *DescOf(Layout::Blocked(dims, context.block)); };
    std::optional<Choice> best;
    const auto take = [&](const memory::desc& src, const memory::desc& dst) {
      if (best && best->slowness == 0) return;
      std::optional<Choice> choice = Make(context, problem, src, dst);
      if (choice && choice->slowness < 2 && (!best || choice->slowness < best->slowness)) best = std::move(choice);
    };
    take(blocked(problem.src), blocked(problem.dst));
    take(plain(problem.src), blocked(problem.dst));
    take(any(problem.src), any(problem.dst));
    take(plain(problem.src), plain(problem.dst));
    return best;
  };
  return CatchDnnl("convolution", choose).value_or(std::nullopt);
}

// The value with its first two axes exchanged, as the primitive reads it. Images of several groups, x[a, g * m, ..],
// are copied to [m, g * a, ..] first.
absl::StatusOr<int> Exchanged(Lowering& lowering, Value value, int64_t groups, const memory::desc& wanted) {
  ASSIGN_OR_RETURN(Place place, lowering.Find(value));
  if (place.layout.blocked() || groups > 1 || !DescOf(place.layout)) {
    ASSIGN_OR_RETURN(place, lowering.FindRowMajor(value));
  }
  Layout layout = place.layout;
  std::swap(layout.dims[0], layout.dims[1]);
  std::swap(layout.strides[0], layout.strides[1]);
  if (groups > 1) {
    Layout from = layout;
    from.dims[0] /= groups;
    from.dims.insert(from.dims.begin() + 1, groups);
    from.strides.insert(from.strides.begin() + 1, from.dims[0] * from.strides[0]);
    layout.dims[0] = from.dims[0];
    layout.dims[1] = groups * from.dims[2];
    layout = Layout::RowMajor(layout.dims);
    place.buffer = lowering.EmitToScratch(
        MakeCopyKernel(from, 0, Layout::RowMajor(from.dims), 0, sizeof(float), lowering.threads()), place.buffer,
        static_cast<size_t>(layout.num_elements()) * sizeof(float), "copy");
  }
  const memory::desc found = *DescOf(layout);
  if (found == wanted) return place.buffer;
  ASSIGN_OR_RETURN(KernelPtr reorder, MakeReorder(lowering.context(), found, wanted));
  return lowering.EmitToScratch(std::move(reorder), place.buffer, wanted.get_size(), "reorder");
}

// The kernel as the primitive reads it: for direction kData turned round in every axis.
absl::StatusOr<int> Kernels(Lowering& lowering, Value w, const ConvolutionProblem& problem,
                            const memory::desc& wanted) {
  std::vector<PackingStep> steps;
  if (problem.direction == Direction::kData) {
    const Layout to = Layout::RowMajor(lowering.graph().type(w).shape);
    Layout from = to;
    int64_t last = 0;
    for (size_t k = 2; k < from.dims.size(); ++k) {
      last += (from.dims[k] - 1) * from.strides[k];
      from.strides[k] = -from.strides[k];
    }
    steps.push_back({MakeCopyKernel(from, last, to, 0, sizeof(float), lowering.threads()),
                     static_cast<size_t>(to.num_elements()) * sizeof(float), "reverse"});
  }
  ASSIGN_OR_RETURN(KernelPtr pack, MakeReorder(lowering.context(), *DescOf(PlainWeights(problem)), wanted));
  steps.push_back({std::move(pack), wanted.get_size(), "reorder"});
  return PackWeights(lowering, w, std::move(steps));
}

std::optional<Layout> ConvolutionLayout(const LayoutQuery& query) {
  if (query.node().op != ops::Convolution() || query.group.kind == FusedGroup::Kind::kWeightGradient) {
    return std::nullopt;  // weights are row-major
  }
  const std::optional<ConvolutionProblem> problem = ProblemOf(query.graph, query.node());
  if (!problem || problem->direction == Direction::kWeights) return std::nullopt;
  const std::optional<Choice> choice = Choose(query.context, *problem);
  if (!choice) return std::nullopt;
  return LayoutOf((problem->direction == Direction::kData ? choice->src : choice->dst).desc);
}

void EmitPrimitive(Lowering& lowering, const Node& node, const Choice& choice, std::vector<DnnlArg> args,
                   std::vector<BufferUse> uses) {
  if (choice.scratch.get_size() > 0) args.push_back({DNNL_ARG_SCRATCHPAD, choice.scratch});
  lowering.UseScratch(choice.scratch.get_size(), &uses);
  lowering.Emit(std::make_unique<DnnlKernel>(lowering.context(), choice.primitive, std::move(args)), std::move(uses),
                absl::StrCat(node.op->name, " (", choice.implementation, ")"));
}

// Steps of direction kWeights: `src` and `dst` are in the layouts of the choice, the result is `plain` in memory.
absl::Status EmitWeights(Lowering& lowering, const Node& node, const Choice& choice, int src, int dst,
                         const Layout& plain, Value out) {
  const memory::desc wanted = *DescOf(plain);
  const int result = lowering.Define(out, Layout::RowMajor(lowering.graph().type(out).shape)).buffer;
  const memory::desc& found = choice.weights.desc;
  const int weights = found == wanted ? result : lowering.AddScratch(found.get_size());
  EmitPrimitive(lowering, node, choice, {choice.src, choice.dst, choice.weights},
                {Lowering::Read(src), Lowering::Read(dst), Lowering::Write(weights)});
  if (weights == result) return absl::OkStatus();
  ASSIGN_OR_RETURN(KernelPtr unpack, MakeReorder(lowering.context(), found, wanted));
  lowering.Emit(std::move(unpack), {Lowering::Read(weights), Lowering::Write(result)}, "reorder");
  return absl::OkStatus();
}

// The gradient by weights of `x`, images with cotangent `u`: out[o, c, ..], or out[c, o, ..] where it is `exchanged`.
absl::StatusOr<bool> PlanWeights(Lowering& lowering, const Node& node, const ConvolutionProblem& problem, Value x,
                                 Value u, Value out, bool exchanged) {
  const std::optional<Choice> choice = Choose(*lowering.context(), problem);
  if (!choice) return false;
  ASSIGN_OR_RETURN(const Place src, lowering.FindAs(x, *LayoutOf(choice->src.desc)));
  ASSIGN_OR_RETURN(const Place dst, lowering.FindAs(u, *LayoutOf(choice->dst.desc)));
  const Layout plain = exchanged ? PlainWeights(problem) : WithoutGroup(Layout::RowMajor(problem.weights));
  RETURN_IF_ERROR(EmitWeights(lowering, node, *choice, src.buffer, dst.buffer, plain, out));
  return true;
}

// Where images lie in blocks of channels, of which other products need copies. In training in any case: where images
// lie is a matter of where the model is cut into pieces, and other products add in another order.
absl::StatusOr<bool> PlanProduct(Lowering& lowering, const Node& node, Value out) {
  const std::optional<ConvolutionProblem> problem = PointwiseProblemOf(lowering.graph(), node);
  if (!problem) return false;
  bool wanted = lowering.graph().mode() == Mode::kTraining;
  for (Value operand : node.operands) {
    ASSIGN_OR_RETURN(const Place place, lowering.Find(operand));
    wanted = wanted || place.layout.blocked();
  }
  if (!wanted) return false;
  return PlanWeights(lowering, node, *problem, node.operands[1], node.operands[0], out, /*exchanged=*/false);
}

// With the transposes of its operands, and with that of its result where the group has it.
absl::StatusOr<bool> PlanWeightGradient(Lowering& lowering, const FusedGroup& group) {
  const Graph& graph = lowering.graph();
  const std::vector<NodeId>& nodes = group.group.nodes;
  const NodeId id =
      *std::find_if(nodes.begin(), nodes.end(), [&](NodeId node) { return graph.node(node).op == ops::Convolution(); });
  const Node& node = graph.node(id);
  const std::optional<ConvolutionProblem> problem = ProblemOf(graph, node, /*by_weights=*/true);
  if (!problem) return false;
  const Value x = graph.node(node.operands[0].node).operands[0], u = graph.node(node.operands[1].node).operands[0];
  return PlanWeights(lowering, node, *problem, x, u, group.group.outputs[0], /*exchanged=*/nodes.back() == id);
}

absl::StatusOr<bool> PlanConvolution(Lowering& lowering, const FusedGroup& group) {
  if (group.kind == FusedGroup::Kind::kWeightGradient) return PlanWeightGradient(lowering, group);
  if (lowering.graph().node(group.group.nodes[0]).op == ops::Transpose()) return false;
  const NodeId id = group.group.nodes[0];
  const Node& node = lowering.graph().node(id);
  const Value x = node.operands[0], w = node.operands[1], out{id, 0};
  if (node.op == ops::DotGeneral()) return PlanProduct(lowering, node, out);
  const std::optional<ConvolutionProblem> problem = ProblemOf(lowering.graph(), node);
  if (!problem) return false;
  const std::optional<Choice> choice = Choose(*lowering.context(), *problem);
  if (!choice) return false;
  if (problem->direction == Direction::kWeights) {
    ASSIGN_OR_RETURN(const int src, Exchanged(lowering, x, problem->weights[0], choice->src.desc));
    ASSIGN_OR_RETURN(const int dst, Exchanged(lowering, w, 1, choice->dst.desc));
    RETURN_IF_ERROR(EmitWeights(lowering, node, *choice, src, dst, PlainWeights(*problem), out));
    return true;
  }
  const bool data = problem->direction == Direction::kData;
  const DnnlArg &read = data ? choice->dst : choice->src, &written = data ? choice->src : choice->dst;
  ASSIGN_OR_RETURN(const Place place, lowering.FindAs(x, *LayoutOf(read.desc)));
  ASSIGN_OR_RETURN(const int kernels, Kernels(lowering, w, *problem, choice->weights.desc));
  const int result = lowering.Define(out, *LayoutOf(written.desc)).buffer;
  EmitPrimitive(lowering, node, *choice, {read, choice->weights, written},
                {Lowering::Read(place.buffer), Lowering::Read(kernels), Lowering::Write(result)});
  return true;
}

}  // namespace

KernelEntry ConvolutionEntry() {
  return {.ops = {ops::Convolution(), ops::DotGeneral(), ops::Transpose()},
          .plan = PlanConvolution,
          .layout = ConvolutionLayout,
          .version = 2};
}

}  // namespace rewright::cpu
