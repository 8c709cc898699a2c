// Products and convolutions of 8-bit integers (quantized.h): how their factors lie, what is known of them before the
// run, and the kernel for that (byte_product.h).
#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "backends/common/group.h"
#include "backends/common/node_access.h"
#include "backends/cpu/kernel_list.h"
#include "backends/cpu/kernels/byte_product.h"
#include "backends/cpu/onednn/epilogue.h"
#include "core/base/status_macros.h"
#include "core/ops/ops.h"
#include "core/tensor/memory.h"

namespace rewright::cpu {
namespace {

constexpr double kSerialByteProducts = 200000;

FactorBytes BytesOf(const Graph& graph, const CentredFactor& factor) {
  FactorBytes bytes{.dtype = factor.dtype, .is_difference = factor.is_difference};
  if (factor.zero.node < 0) return bytes;
  bytes.zero_at_run = !graph.IsKnown(factor.zero);
  if (!bytes.zero_at_run) bytes.zero = static_cast<int>(*KnownInteger(graph, factor.zero));
  return bytes;
}

void PlanMatrices(Layout a, Shape out, const std::optional<Layout>& b, ByteProblem* problem) {
  problem->depth = a.dims.back();
  problem->columns = out.back();
  // All rows against one matrix are one product.
  if (Layout flat; !b && ReshapeLayout(a, {a.num_elements() / problem->depth, problem->depth}, &flat)) {
    a = flat;
    out = {flat.dims[0], problem->columns};
  }
  const size_t rank = out.size();
  const std::vector<int64_t> a_numbers = Numbered(BatchStarts(a, out), &problem->matrices.starts);
  std::vector<int64_t> b_numbers(a_numbers.size(), 0);
  if (b) {
    b_numbers = Numbered(BatchStarts(*b, out), &problem->right_starts);
    problem->right_row = b->strides[rank - 2];
    problem->right_column = b->strides[rank - 1];
  }
  problem->matrices.rows = out[rank - 2];
  problem->matrices.row = a.strides[rank - 2];
  problem->matrices.step = a.strides[rank - 1];
  problem->segments = {0};
  problem->segment_depth = AlignUp(problem->depth, 4) / 4;
  problem->direct = problem->left.dtype == DType::kUInt8 && !problem->left.is_difference && problem->depth % 4 == 0 &&
                    problem->matrices.step == 1;
  problem->a_row = problem->direct ? problem->matrices.row : 4 * problem->segment_depth;
  for (size_t g = 0; g < a_numbers.size(); ++g) {
    const int64_t start = problem->direct ? problem->matrices.starts[a_numbers[g]]
                                          : a_numbers[g] * problem->matrices.rows * problem->a_row;
    for (int64_t i = 0; i < problem->matrices.rows; i += kTaskRows) {
      problem->lines.push_back({start + i * problem->a_row,
                                (static_cast<int64_t>(g) * problem->matrices.rows + i) * problem->columns, b_numbers[g],
                                std::min(kTaskRows, problem->matrices.rows - i)});
    }
  }
}

void PlanImages(const Node& node, const Layout& x, const Shape& w, ByteProblem* problem) {
  const Shape& out = node.outputs[0].shape;
  const std::vector<int64_t>&strides = Ints(node, "strides"), &pads = Ints(node, "pads"),
        &dilations = Ints(node, "dilations");
  problem->conv = true;
  problem->depth = w[1] * w[2] * w[3];
  problem->columns = w[0];
  LeftImages& images = problem->images;
  images = {.images = x.dims[0],
            .channels = x.dims[1],
            .height = x.dims[2],
            .width = x.dims[3],
            .image = x.strides[0],
            .channel = x.strides[1],
            .row = x.strides[2],
            .column = x.strides[3],
            .top = pads[0],
            .left = pads[1],
            .laid_height = x.dims[2] + pads[0] + pads[2],
            .laid_width = x.dims[3] + pads[1] + pads[3],
            .laid_channels = AlignUp(x.dims[1], 4)};
  const bool no_margin = std::all_of(pads.begin(), pads.end(), [](int64_t pad) { return pad == 0; });
  problem->direct = problem->left.dtype == DType::kUInt8 && !problem->left.is_difference && no_margin &&
                    images.laid_channels == images.channels && x == Layout::ChannelsLast(x.dims);
  const int64_t channels = images.laid_channels, row = images.laid_width * channels, image = images.laid_height * row;
  // Neighbouring columns of a window lie in one piece.
  const bool whole = dilations[1] == 1 || w[3] == 1;
  for (int64_t r = 0; r < w[2]; ++r) {
    for (int64_t s = 0; s < (whole ? 1 : w[3]); ++s) {
      problem->segments.push_back(r * dilations[0] * row + s * dilations[1] * channels);
    }
  }
  problem->segment_depth = channels / 4 * (whole ? w[3] : 1);
  problem->a_row = strides[1] * channels;
  for (int64_t n = 0; n < out[0]; ++n) {
    for (int64_t y = 0; y < out[2]; ++y) {
      problem->lines.push_back(
          {n * image + y * strides[0] * row, (n * out[2] + y) * out[3] * problem->columns, 0, out[3]});
    }
  }
}

// A zero point that brings all weights into the range of bytes with a sign; none where they are too far apart.
std::optional<int> ZeroPointFor(const Tensor& weights) {
  const int32_t* const w = static_cast<const int32_t*>(weights.data());
  const auto [least, most] = std::minmax_element(w, w + weights.num_elements());
  if (static_cast<int64_t>(*most) - *least > 255) return std::nullopt;
  if (*least >= -128 && *most <= 127) return 0;
  if (*least < -(1 << 20) || *most > 1 << 20) return std::nullopt;
  return -128 - *least;
}

// One number for each column that panels have.
template <typename T>
std::vector<T> ByColumn(const Tensor& given, const ByteProblem& problem) {
  std::vector<T> values(static_cast<size_t>(problem.laid_columns()), T{0});
  const T* const from = static_cast<const T*>(given.data());
  for (int64_t j = 0; j < problem.columns; ++j) values[j] = from[given.num_elements() == 1 ? 0 : j];
  return values;
}

// The panels of weights and the sums of their columns.
absl::StatusOr<std::pair<int, int>> PackKnown(Lowering& lowering, const Tensor& weights, const ByteProblem& problem) {
  ASSIGN_OR_RETURN(Tensor panels,
                   AllocateTensor({DType::kInt8, {problem.panels() * problem.panel_bytes()}}, "packed weights"));
  std::vector<int32_t> sums(static_cast<size_t>(problem.laid_columns()));
  const int32_t* const w = static_cast<const int32_t*>(weights.data());
  const Shape& dims = weights.shape();
  const int64_t channels = problem.images.laid_channels;
  const auto at = [&](int64_t k, int64_t j) -> int8_t {
    int64_t place = k * problem.columns + j;
    if (problem.conv) {
      const int64_t c = k % channels, window = k / channels;
      if (c >= dims[1]) return 0;
      place = (j * dims[1] + c) * dims[2] * dims[3] + window;
    } else if (k >= problem.depth) {
      return 0;
    }
    return static_cast<int8_t>(w[place] + problem.right_zero);
  };
  const int64_t width = Simd().gemm_columns;
  for (int64_t panel = 0; panel < problem.panels(); ++panel) {
    int8_t* const to = static_cast<int8_t*>(panels.data()) + panel * problem.panel_bytes();
    const int64_t first = panel * width;
    PackPanel(
        problem, 0, std::min(width, problem.columns - first), [&](int64_t k, int64_t j) { return at(k, first + j); },
        to);
    ColumnSums(problem, to, sums.data() + panel * width);
  }
  const int buffer = lowering.AddConstant(std::move(panels));
  return std::pair(buffer, lowering.AddConstantNumbers(std::move(sums)));
}

absl::StatusOr<bool> PlanQuantizedProduct(Lowering& lowering, const FusedGroup& group) {
  if (group.kind != FusedGroup::Kind::kQuantized) return false;
  const Graph& graph = lowering.graph();
  const QuantizedProduct& product = *group.quantized;
  const Node& node = graph.node(product.product);
  const Shape& out = node.outputs[0].shape;
  ByteProblem problem;
  problem.left = BytesOf(graph, product.left);
  problem.requantized = product.requantized;
  Tensor factors, weights;
  if (product.requantized) {
    ASSIGN_OR_RETURN(factors, lowering.ConstantTensor(product.requantized->factor));
    const float* const f = static_cast<const float*>(factors.data());
    if (!std::all_of(f, f + factors.num_elements(), [](float x) { return std::isfinite(x); })) return false;
  }
  if (!product.right) {
    ASSIGN_OR_RETURN(weights, lowering.ConstantTensor(node.operands[1]));
    const std::optional<int> zero = ZeroPointFor(weights);
    if (!zero) return false;
    problem.packed = true;
    problem.right_zero = *zero;
  }
  const auto rank = static_cast<int64_t>(out.size());
  Place place;
  ASSIGN_OR_RETURN(const Layout left, PlainOperand(lowering, product.left.value, rank, &place));
  std::vector<BufferUse> buffers = {Lowering::Read(place.buffer)};
  if (problem.left.zero_at_run) {
    ASSIGN_OR_RETURN(buffers.emplace_back(), lowering.ReadRowMajor(product.left.zero));
  }
  std::optional<Layout> right;
  if (product.right) {
    problem.right = BytesOf(graph, *product.right);
    ASSIGN_OR_RETURN(right, PlainOperand(lowering, product.right->value, rank, &place));
    buffers.push_back(Lowering::Read(place.buffer));
  }
  if (problem.right.zero_at_run) {
    ASSIGN_OR_RETURN(buffers.emplace_back(), lowering.ReadRowMajor(product.right->zero));
  }
  if (node.op == ops::Conv2d()) {
    PlanImages(node, left, graph.type(node.operands[1]).shape, &problem);
  } else {
    PlanMatrices(left, out, right, &problem);
  }
  const double products = static_cast<double>(NumElements(out)) * static_cast<double>(problem.depth);
  problem.threads = products < kSerialByteProducts ? 1 : lowering.threads();
  if (problem.packed) {
    ASSIGN_OR_RETURN(const auto packed, PackKnown(lowering, weights, problem));
    buffers.push_back(Lowering::Read(packed.first));
    buffers.push_back(Lowering::Read(packed.second));
  }
  Tensor bias(TensorType{DType::kInt32, {1}});
  if (product.bias.node >= 0) {
    ASSIGN_OR_RETURN(bias, lowering.ConstantTensor(product.bias));
  }
  buffers.push_back(Lowering::Read(lowering.AddConstantNumbers(ByColumn<int32_t>(bias, problem))));
  if (product.requantized) {
    buffers.push_back(Lowering::Read(lowering.AddConstantNumbers(ByColumn<float>(factors, problem))));
  }
  ByteProduct made = MakeByteProduct(std::move(problem));
  buffers.push_back(Lowering::Scratch(lowering.AddScratch(made.scratch_bytes)));
  const Value result = product.result();
  buffers.push_back(Lowering::Write(lowering.Define(result, lowering.LayoutOf(group, result)).buffer));
  lowering.Emit(std::move(made.kernel), std::move(buffers),
                absl::StrCat(GroupLabel(graph, group.group), " (bytes, ", Simd().name, ")"));
  return true;
}

std::optional<Layout> QuantizedLayout(const LayoutQuery& query) {
  if (query.group.kind != FusedGroup::Kind::kQuantized) return std::nullopt;
  const bool conv = query.graph.node(query.group.quantized->product).op == ops::Conv2d();
  return conv ? Layout::ChannelsLast(query.dims()) : Layout::RowMajor(query.dims());
}

}  // namespace

KernelEntry QuantizedProductEntry() { return {.ops = {}, .plan = PlanQuantizedProduct, .layout = QuantizedLayout}; }

}  // namespace rewright::cpu
