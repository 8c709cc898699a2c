// Groups that are calls of a library: products, convolutions, attention.
#include <algorithm>
#include <cmath>
#include <optional>

#include "absl/strings/str_cat.h"
#include "backends/common/group.h"
#include "backends/common/node_access.h"
#include "backends/cuda/codegen/half.h"
#include "backends/cuda/lower/lowering.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"

namespace rewright::cuda {
namespace {

constexpr int64_t kAttentionUnit = 8;  // elements of 16 bits in 16 bytes
constexpr int64_t kVector = 16;        // bytes that libraries read at a time
constexpr size_t kWorkspaceAlignment = 256;

class CallStep : public Kernel {
 public:
  explicit CallStep(std::unique_ptr<LibraryCall> call) : call_(std::move(call)) {}
  absl::Status Run(void* const* buffers, RunContext&) const override { return StatusOf(call_->Run(buffers)); }

 private:
  const std::unique_ptr<LibraryCall> call_;
};

// The dims with leading axes of size one up to rank 4.
Shape Extended(Shape dims) {
  dims.insert(dims.begin(), 4 - dims.size(), 1);
  return dims;
}
// A stride that leads over an axis of size one may be any: as in a dense tensor.
void CopyStrides(const Layout& layout, int64_t (&strides)[4]) {
  const size_t added = 4 - layout.dims.size();
  const int64_t whole = layout.Span();
  for (size_t k = 0; k < 4; ++k) {
    strides[k] = k < added ? whole : layout.strides[k - added];
  }
}

}  // namespace

absl::Status Lowering::EmitCall(std::unique_ptr<LibraryCall> call, std::vector<int> buffers, int result,
                                const std::string& label) {
  std::vector<BufferUse> uses;
  for (int id : buffers) uses.push_back(id == result ? Write(id) : Read(id));
  const int workspace = AddScratch(call->workspace_bytes());
  buffer(workspace).alignment = kWorkspaceAlignment;
  uses.push_back(Scratch(workspace));
  Emit(std::make_unique<CallStep>(std::move(call)), std::move(uses), label);
  return absl::OkStatus();
}

// A bias is stored like the result, one element for each channel.
absl::StatusOr<Lowering::Place> Lowering::Bias(Value value, int64_t channels, Storage storage) {
  std::vector<float> values(static_cast<size_t>(channels));
  if (value.node >= 0) {
    const auto folded = folded_.find(value);
    const Tensor& given = folded != folded_.end() ? folded->second : *graph_.arena()->Elements(value.node);
    for (int64_t c = 0; c < channels; ++c) {
      values[c] = static_cast<float>(given.At(given.num_elements() == 1 ? 0 : c));
    }
  }
  const bool native = storage == Storage::kNative;
  const std::vector<char> halves = native ? std::vector<char>() : Halves(values, storage == Storage::kFp16);
  ASSIGN_OR_RETURN(const int uploaded, native ? Upload(values.data(), values.size() * sizeof(float))
                                              : Upload(halves.data(), halves.size()));
  return Place{uploaded, Layout::RowMajor({channels}), true, storage};
}

absl::Status Lowering::AddEpilogue(const FusedGroup& group, bool bias, int64_t channels, const Layout& out,
                                   Storage storage, std::vector<int>* buffers) {
  if (bias) {
    ASSIGN_OR_RETURN(const Place place, Bias(group.bias, channels, storage));
    buffers->push_back(place.buffer);
  }
  if (group.residual.node >= 0) {
    ASSIGN_OR_RETURN(const Place place, FindAs(group.residual, out, storage, /*aligned=*/true));
    buffers->push_back(place.buffer);
  }
  return absl::OkStatus();
}

absl::Status Lowering::LowerParts(const FusedGroup& group, Epilogue epilogue) {
  for (const FusedGroup& part : FuseNodes(graph_, group.group.nodes, epilogue)) {
    RETURN_IF_ERROR(LowerGroup(part));
  }
  return absl::OkStatus();
}

absl::Status Lowering::LowerWithout(const FusedGroup& group, const Fault& fault) {
  RETURN_IF_ERROR(FinalStatusOf(fault));
  if (group.activation != Activation::kNone || group.residual.node >= 0) {
    return LowerParts(group, Epilogue::kBias);
  }
  const Value result = group.group.outputs[0];
  const Place out = Define(result, Layout::RowMajor(graph_.type(result).shape));
  return EmitGenerated(group.group.nodes, result, out, GroupLabel(graph_, group.group) + " (generated)");
}

// Returns whether the convolution is depthwise. The library's one plan for such a convolution with an epilogue is its
// most general engine; for one without, it has special engines.
static bool IsDepthwise(const Graph& graph, const Node& node) {
  return Int(node, "groups") > 1 && graph.type(node.operands[1]).shape[1] == 1;
}

absl::Status Lowering::LowerConv(const FusedGroup& group) {
  const Node& node = graph_.node(group.group.nodes[0]);
  const Value x = node.operands[0], w = node.operands[1];
  // Inputs that both ways read are laid out first, so that they are no part of the times.
  if (IsDepthwise(graph_, node) && group.group.nodes.size() > 1) {
    RETURN_IF_ERROR(FindImage(x).status());
    RETURN_IF_ERROR(FindImage(w).status());
    return LowerFastest({[&] { return LowerConvCall(group); }, [&] { return LowerParts(group, Epilogue::kNone); }});
  }
  // The library has one or two engines for relu with a limit, some of them compiled.
  if (std::isfinite(group.most)) {
    RETURN_IF_ERROR(FindImage(w).status());
    if (!Pads(node)) RETURN_IF_ERROR(FindImageOrSlice(x).status());
    return LowerFastest({[&] { return LowerPaddedConv(group); }, [&] { return LowerParts(group, Epilogue::kBias); }});
  }
  return LowerPaddedConv(group);
}

bool Lowering::Pads(const Node& node) const {
  return IsHalf(options_.precision) && options_.channels_last && Int(node, "groups") == 1 &&
         graph_.type(node.operands[0]).shape[1] % ChannelUnit() != 0;
}

absl::Status Lowering::LowerPaddedConv(const FusedGroup& group) {
  const Node& node = graph_.node(group.group.nodes[0]);
  // In 16 bits the library's engines for tensor cores copy images and filters whose channels are no multiples of 8 into
  // padded memory of their own, in every call. Padded here, filters are constants, and an image of 3 channels is
  // converted anyway.
  if (Pads(node)) {
    RETURN_IF_ERROR(FindImage(node.operands[1]).status());
    RETURN_IF_ERROR(FindPaddedImage(node.operands[1]).status());
    return LowerFastest({[&] { return LowerConvCall(group); }, [&] { return LowerConvCall(group, /*padded=*/true); }});
  }
  return LowerConvCall(group);
}

int64_t Lowering::ChannelUnit() const { return kVector / (IsHalf(options_.precision) ? 2 : 4); }

absl::StatusOr<Lowering::Place> Lowering::FindPaddedImage(Value value) {
  Shape dims = graph_.type(value).shape;
  dims[1] = (dims[1] + ChannelUnit() - 1) / ChannelUnit() * ChannelUnit();
  return FindAs(value, Layout::ChannelsLast(dims), StorageOf(DType::kFloat32), /*aligned=*/true);
}

Layout Lowering::ImageLayout(const Shape& dims) const {
  return options_.channels_last ? Layout::ChannelsLast(dims) : Layout::RowMajor(dims);
}

absl::StatusOr<Lowering::Place> Lowering::FindImage(Value value) {
  return FindAs(value, ImageLayout(graph_.type(value).shape), StorageOf(DType::kFloat32), /*aligned=*/true);
}

// Some channels of an image with channels innermost: pixels with gaps between them, each at a multiple of 16 bytes.
static bool IsChannelSlice(const Layout& layout, int64_t unit) {
  const int64_t pixel = layout.strides[3], row = layout.dims[3] * pixel;
  return layout.strides[1] == 1 && pixel >= layout.dims[1] && pixel % unit == 0 && layout.strides[2] == row &&
         (layout.dims[0] == 1 || layout.strides[0] == layout.dims[2] * row);
}

absl::StatusOr<Lowering::Place> Lowering::FindImageOrSlice(Value value) {
  ASSIGN_OR_RETURN(const Place found, Find(value));
  const bool reads = options_.channels_last && found.storage == StorageOf(DType::kFloat32) && found.aligned;
  return reads && IsChannelSlice(found.layout, ChannelUnit()) ? found : FindImage(value);
}

absl::Status Lowering::LowerConvCall(const FusedGroup& group, bool padded) {
  const Node& node = graph_.node(group.group.nodes[0]);
  const Value result = group.group.outputs[0];
  ASSIGN_OR_RETURN(Place x, padded                      ? FindPaddedImage(node.operands[0])
                            : IsDepthwise(graph_, node) ? FindImage(node.operands[0])
                                                        : FindImageOrSlice(node.operands[0]));
  ASSIGN_OR_RETURN(const Place w, padded ? FindPaddedImage(node.operands[1]) : FindImage(node.operands[1]));
  const ConcatSlot* slot = group.residual.node < 0 ? SlotOf(result) : nullptr;
  Layout out = slot != nullptr ? slot->layout : ImageLayout(graph_.type(result).shape);
  ConvProblem problem;
  for (size_t k = 0; k < 4; ++k) {
    problem.x[k] = x.layout.dims[k];
    problem.x_strides[k] = x.layout.strides[k];
    problem.w[k] = w.layout.dims[k];
    problem.w_strides[k] = w.layout.strides[k];
    problem.out[k] = out.dims[k];
    problem.out_strides[k] = out.strides[k];
    problem.pads[k] = Ints(node, "pads")[k];
  }
  for (size_t k = 0; k < 2; ++k) {
    problem.strides[k] = Ints(node, "strides")[k];
    problem.dilations[k] = Ints(node, "dilations")[k];
  }
  problem.groups = Int(node, "groups");
  problem.residual = group.residual.node >= 0;
  problem.relu = group.activation == Activation::kRelu;
  problem.most = group.most;
  // The library's ready-made engines have a bias in front of relu and behind an addition. Without one there are few,
  // each of which takes seconds to compile, in fp32 none: so there is always one, of zeros where there is none.
  problem.bias = group.bias.node >= 0 || (!IsDepthwise(graph_, node) && (problem.relu || problem.residual));
  problem.precision = options_.precision;
  std::vector<int> buffers = {x.buffer, w.buffer, -1};
  std::unique_ptr<LibraryCall> call;
  Fault fault = gpu_.Plan(problem, &call);
  if (!fault.empty() && slot != nullptr) {
    // Not every engine writes rows with gaps between them.
    out = ImageLayout(graph_.type(result).shape);
    std::copy(out.strides.begin(), out.strides.end(), problem.out_strides);
    fault = gpu_.Plan(problem, &call);
  }
  if (!fault.empty() && padded) {
    RETURN_IF_ERROR(FinalStatusOf(fault));
    return LowerConvCall(group);
  }
  if (const Layout dense = ImageLayout(x.layout.dims); !fault.empty() && x.layout != dense) {
    ASSIGN_OR_RETURN(x, FindImage(node.operands[0]));
    std::copy(dense.strides.begin(), dense.strides.end(), problem.x_strides);
    buffers[0] = x.buffer;
    fault = gpu_.Plan(problem, &call);
  }
  if (!fault.empty()) return LowerWithout(group, fault);
  RETURN_IF_ERROR(AddEpilogue(group, problem.bias, out.dims[1], out, StorageOf(DType::kFloat32), &buffers));
  const int written = buffers[2] = DefineCall(result, out).buffer;
  return EmitCall(std::move(call), std::move(buffers), written, GroupLabel(graph_, group.group));
}

// The stride at which a row-major walk over the leading axes `batch` moves; false where there is no one stride.
static bool BatchStride(const Layout& layout, const Shape& batch, int64_t* stride) {
  const size_t leading = layout.dims.size() - 2;
  int64_t expected = -1;
  *stride = 0;
  for (size_t k = batch.size(); k-- > 0;) {
    const size_t missing = batch.size() - leading;
    const int64_t step = k < missing || layout.dims[k - missing] == 1 ? 0 : layout.strides[k - missing];
    if (batch[k] == 1) continue;
    if (expected < 0) {
      *stride = expected = step;
    } else if (step != expected) {
      return false;
    }
    expected *= batch[k];
  }
  return true;
}

// The strides with which a product reads or writes matrices of this layout. Two batch axes may have a stride each where
// they lie `apart`; else one stride walks over all of them. False where there is no such reading.
static bool MatrixOf(const Layout& layout, const Shape& batch, bool apart, MatrixLayout* matrix) {
  const size_t rank = layout.dims.size();
  const int64_t rows = layout.dims[rank - 2], columns = layout.dims[rank - 1];
  matrix->row = layout.strides[rank - 2];
  matrix->column = layout.strides[rank - 1];
  // An axis of size one may have any stride.
  if (columns == 1) matrix->column = 1;
  if (rows == 1) matrix->row = matrix->column == 1 ? columns : 1;
  const bool by_rows = matrix->column == 1 && matrix->row >= columns;
  const bool by_columns = matrix->row == 1 && matrix->column >= rows;
  if (!by_rows && !by_columns) return false;
  if (!apart) return BatchStride(layout, batch, &matrix->batch);
  const auto stride = [&](size_t axis) {  // of two, of which the factor may have fewer
    const size_t missing = 4 - rank;
    return axis < missing || layout.dims[axis - missing] == 1 ? 0 : layout.strides[axis - missing];
  };
  matrix->outer = stride(0);
  matrix->batch = stride(1);
  return true;
}

Layout ProductLayout(const Graph& graph, Value result) {
  const Layout wanted = LayoutForReader(graph, result);
  const Shape& shape = wanted.dims;
  const Shape batch(shape.begin(), shape.end() - 2);
  // Batches that share a factor are one product of all their rows.
  const Shape& right = graph.type(graph.node(result.node).operands[1]).shape;
  const bool apart = shape.size() == 4;
  MatrixLayout matrix;
  const bool writes = NumElements(Shape(right.begin(), right.end() - 2)) > 1 &&
                      (MatrixOf(wanted, batch, false, &matrix) || (apart && MatrixOf(wanted, batch, true, &matrix)));
  return writes && matrix.column == 1 ? wanted : Layout::RowMajor(shape);
}

absl::StatusOr<MatrixLayout> Lowering::Matrix(Value value, const Shape& batch, Place* place) {
  ASSIGN_OR_RETURN(*place, Find(value));
  MatrixLayout matrix;
  const Storage storage = StorageOf(DType::kFloat32);
  Layout dense = Layout::RowMajor(graph_.type(value).shape);
  // Algorithms that read 16 bytes at a time need rows that begin at multiples of them. Where the rows of a constant do
  // not and its columns do (768 x 50257), it is stored by columns.
  const int64_t unit = kVector / ElementBytes(value, storage);
  const bool by_columns =
      graph_.IsKnown(value) && dense.dims.size() == 2 && dense.dims[1] % unit != 0 && dense.dims[0] % unit == 0;
  if (by_columns) dense.strides = {1, dense.dims[0]};
  if (place->storage == storage && MatrixOf(place->layout, batch, /*apart=*/false, &matrix) &&
      !(by_columns && matrix.column == 1)) {
    return matrix;
  }
  ASSIGN_OR_RETURN(*place, FindAs(value, dense, storage));
  if (!MatrixOf(place->layout, batch, /*apart=*/false, &matrix)) {
    return absl::UnimplementedError("batch axes that broadcast in turns");
  }
  return matrix;
}

absl::Status Lowering::LowerMatmul(const FusedGroup& group) {
  // The library that has the other epilogues does not have this one. Factors that both ways read are laid out first, so
  // that they are no part of the times.
  if (group.activation == Activation::kGeluErf) {
    const Node& node = graph_.node(group.group.nodes[0]);
    const Shape& shape = node.outputs[0].shape;
    Place place;
    for (Value factor : node.operands) Matrix(factor, Shape(shape.begin(), shape.end() - 2), &place).IgnoreError();
    return LowerFastest({[&] { return LowerMatmulCall(group); }, [&] { return LowerParts(group, Epilogue::kBias); }});
  }
  ASSIGN_OR_RETURN(const std::optional<ProductApart> apart, FindApart(group));
  if (!apart.has_value()) return LowerMatmulCall(group);
  const auto by_copies = [&]() -> absl::Status {
    RETURN_IF_ERROR(LowerMatmulCall(group));
    // Its reader's copy belongs to this way.
    const Value result = group.group.outputs[0];
    ASSIGN_OR_RETURN(const Place place, FindAs(result, apart->out, StorageOf(DType::kFloat32)));
    places_[result].insert(places_[result].begin(), place);
    return absl::OkStatus();
  };
  const auto in_place = [&]() -> absl::Status {
    std::unique_ptr<LibraryCall> call;
    if (Fault fault = gpu_.Plan(apart->problem, &call); !fault.empty()) {
      RETURN_IF_ERROR(FinalStatusOf(fault));
      return by_copies();
    }
    const int written = Define(group.group.outputs[0], apart->out, /*by_library=*/true).buffer;
    return EmitCall(std::move(call), {apart->left, apart->right, written}, written, GroupLabel(graph_, group.group));
  };
  return LowerFastest({in_place, by_copies});
}

// Heads lie side by side in memory: of several sequences no single stride walks over all of them.
absl::StatusOr<std::optional<Lowering::ProductApart>> Lowering::FindApart(const FusedGroup& group) {
  const Node& node = graph_.node(group.group.nodes[0]);
  const Value result = group.group.outputs[0];
  const Shape& shape = node.outputs[0].shape;
  if (group.group.nodes.size() > 1 || shape.size() != 4 || shape[0] == 1 || shape[1] == 1) return std::nullopt;
  if (results_.contains(result) || SlotOf(result) != nullptr) return std::nullopt;
  const Shape batch = {shape[0], shape[1]};
  ProductApart apart{ProblemOf(node)};
  apart.problem.outer = shape[0];
  apart.problem.batch = shape[1];
  bool needed = false;
  MatrixLayout unused;
  for (size_t i = 0; i < 2; ++i) {
    ASSIGN_OR_RETURN(const Place place, Find(node.operands[i]));
    MatrixLayout& matrix = i == 0 ? apart.problem.left : apart.problem.right;
    if (place.storage != StorageOf(DType::kFloat32) || !place.aligned) return std::nullopt;
    if (!MatrixOf(place.layout, batch, /*apart=*/true, &matrix)) return std::nullopt;
    needed = needed || !MatrixOf(place.layout, batch, /*apart=*/false, &unused);
    (i == 0 ? apart.left : apart.right) = place.buffer;
  }
  // Written in the order of the reader that puts the heads side by side again.
  apart.out = LayoutForReader(graph_, result);
  if (apart.out.strides.back() != 1 || !MatrixOf(apart.out, batch, /*apart=*/true, &apart.problem.out)) {
    return std::nullopt;
  }
  if (!needed && MatrixOf(apart.out, batch, /*apart=*/false, &unused)) return std::nullopt;
  return apart;
}

MatmulProblem Lowering::ProblemOf(const Node& node) const {
  const Shape& shape = node.outputs[0].shape;
  MatmulProblem problem;
  problem.batch = NumElements(Shape(shape.begin(), shape.end() - 2));
  problem.m = shape[shape.size() - 2];
  problem.k = graph_.type(node.operands[0]).shape.back();
  problem.n = shape.back();
  problem.precision = options_.precision;
  return problem;
}

absl::Status Lowering::LowerMatmulCall(const FusedGroup& group) {
  const Node& node = graph_.node(group.group.nodes[0]);
  const Value result = group.group.outputs[0];
  const Shape& shape = node.outputs[0].shape;  // the result may be the same elements in another shape
  const Shape batch(shape.begin(), shape.end() - 2);
  MatmulProblem problem = ProblemOf(node);
  Place a, b;
  absl::StatusOr<MatrixLayout> left_matrix = Matrix(node.operands[0], batch, &a);
  absl::StatusOr<MatrixLayout> right_matrix = Matrix(node.operands[1], batch, &b);
  if (!left_matrix.ok() || !right_matrix.ok()) {
    return LowerWithout(group, "no single stride walks over the batches");
  }
  if (!a.aligned || !b.aligned) problem.alignment = IsHalf(options_.precision) ? 2 : 4;
  problem.left = *left_matrix;
  problem.right = *right_matrix;
  Layout out = Layout::RowMajor(graph_.type(result).shape);
  problem.out = {problem.n, 1, problem.m * problem.n};
  const ConcatSlot* slot = group.residual.node < 0 && out.dims == shape ? SlotOf(result) : nullptr;
  const Layout wanted = slot != nullptr                 ? slot->layout
                        : group.group.nodes.size() == 1 ? ProductLayout(graph_, result)
                                                        : out;
  if (MatrixLayout matrix; wanted != out && MatrixOf(wanted, batch, /*apart=*/false, &matrix) && matrix.column == 1) {
    out = wanted;
    problem.out = matrix;
  }
  // One factor for all batches: their rows are the rows of one product.
  if (problem.batch > 1 && problem.right.batch == 0 && problem.left.column == 1 &&
      problem.left.batch == problem.m * problem.left.row && problem.out.batch == problem.m * problem.out.row) {
    problem.m *= problem.batch;
    problem.batch = 1;
    problem.left.batch = problem.out.batch = 0;
  }
  problem.bias = group.bias.node >= 0;
  problem.residual = group.residual.node >= 0;
  problem.activation = group.activation;
  // A result of the graph is written as its reader wants it.
  problem.wide = IsHalf(options_.precision) && results_.contains(result) && !options_.inside && out.IsRowMajor() &&
                 SlotOf(result) == nullptr && !problem.residual && problem.activation == Activation::kNone;
  std::unique_ptr<LibraryCall> call;
  Fault fault = gpu_.Plan(problem, &call);
  if (!fault.empty() && problem.wide) {
    problem.wide = false;
    fault = gpu_.Plan(problem, &call);
  }
  if (const Layout dense = Layout::RowMajor(out.dims); !fault.empty() && out != dense) {
    out = dense;
    problem.out = {problem.n, 1, problem.batch > 1 ? problem.m * problem.n : 0};
    fault = gpu_.Plan(problem, &call);
  }
  if (!fault.empty()) return LowerWithout(group, fault);
  std::vector<int> buffers = {a.buffer, b.buffer, -1};
  const Storage stored = problem.wide ? Storage::kNative : StorageOf(DType::kFloat32);
  RETURN_IF_ERROR(AddEpilogue(group, problem.bias, problem.n, out, stored, &buffers));
  const int written = buffers[2] = problem.wide ? Define(result, out).buffer : DefineCall(result, out).buffer;
  return EmitCall(std::move(call), std::move(buffers), written, GroupLabel(graph_, group.group));
}

// ---------------------------------------------------------------- attention

absl::StatusOr<Layout> Lowering::AttentionLayout(Value value, size_t inner) {
  ASSIGN_OR_RETURN(const Place found, Find(value));
  const Shape& dims = graph_.type(value).shape;
  // The library reads 16 bytes at a time.
  bool readable = found.storage == StorageOf(DType::kFloat32) && found.aligned && found.layout.strides[inner] == 1;
  for (size_t k = 0; k < dims.size(); ++k) {
    const int64_t stride = found.layout.strides[k];
    readable = readable && (k == inner || dims[k] == 1 || (stride > 0 && stride % kAttentionUnit == 0));
  }
  if (readable) return found.layout;
  Layout dense = Layout::RowMajor(dims);
  if (const size_t last = dims.size() - 1; inner != last) {
    dense.strides[inner] = 1;
    dense.strides[last] = dims[inner];
  }
  return dense;
}

absl::StatusOr<Lowering::AttentionParts> Lowering::PartsOfAttention(const FusedGroup& group) {
  const Node& first = graph_.node(group.group.nodes.front());
  const Node& last = graph_.node(group.group.nodes.back());
  const size_t rank = first.outputs[0].shape.size();
  AttentionParts parts;
  const size_t inner[] = {rank - 1, rank - 2, rank - 1};
  for (size_t i = 0; i < 3; ++i) {
    parts.factors[i] = i < 2 ? first.operands[i] : last.operands[1];
    ASSIGN_OR_RETURN(parts.layouts[i], AttentionLayout(parts.factors[i], inner[i]));
  }
  // Behind the heads stands the transpose that puts them side by side: written in its order, it is a view.
  parts.out = LayoutForReader(graph_, group.group.outputs[0]);
  if (parts.out.strides.back() != 1) parts.out = Layout::RowMajor(parts.out.dims);
  const Shape scores = Extended(first.outputs[0].shape);
  AttentionProblem& problem = parts.problem;
  problem.batch = scores[0];
  problem.heads = scores[1];
  problem.queries = scores[2];
  problem.keys = scores[3];
  problem.depth = parts.layouts[0].dims.back();
  problem.value_depth = parts.out.dims.back();
  problem.scale = group.scale;
  problem.precision = options_.precision;
  CopyStrides(parts.layouts[0], problem.query_strides);
  CopyStrides(parts.layouts[1], problem.key_strides);
  CopyStrides(parts.layouts[2], problem.value_strides);
  CopyStrides(parts.out, problem.out_strides);
  problem.mask = group.mask.node >= 0;
  if (problem.mask) {
    parts.mask = Layout::RowMajor(graph_.type(group.mask).shape);
    const Shape sizes = Extended(parts.mask.dims);
    std::copy(sizes.begin(), sizes.end(), problem.mask_sizes);
    CopyStrides(parts.mask, problem.mask_strides);
  }
  return parts;
}

absl::Status Lowering::LowerAttentionCall(const FusedGroup& group, const AttentionParts& parts) {
  std::unique_ptr<LibraryCall> call;
  RETURN_IF_ERROR(StatusOf(gpu_.Plan(parts.problem, &call)));
  std::vector<int> buffers;
  const Storage storage = StorageOf(DType::kFloat32);
  for (size_t i = 0; i < 3; ++i) {
    ASSIGN_OR_RETURN(const Place place, FindAs(parts.factors[i], parts.layouts[i], storage, /*aligned=*/true));
    buffers.push_back(place.buffer);
  }
  Place mask;
  if (parts.problem.mask) {
    ASSIGN_OR_RETURN(mask, FindAs(group.mask, parts.mask, storage, /*aligned=*/true));
  }
  const int written = Define(group.group.outputs[0], parts.out, /*by_library=*/true).buffer;
  buffers.push_back(written);
  if (parts.problem.mask) buffers.push_back(mask.buffer);
  return EmitCall(std::move(call), std::move(buffers), written, GroupLabel(graph_, group.group));
}

// With few heads and queries and many keys the library's one call keeps few multiprocessors busy: two products with a
// softmax between them can be faster.
absl::Status Lowering::LowerAttention(const FusedGroup& group) {
  ASSIGN_OR_RETURN(const AttentionParts parts, PartsOfAttention(group));
  const auto in_parts = [&] { return LowerParts(group, Epilogue::kWhole); };
  std::unique_ptr<LibraryCall> call;
  if (Fault fault = gpu_.Plan(parts.problem, &call); !fault.empty()) {
    RETURN_IF_ERROR(FinalStatusOf(fault));
    return in_parts();
  }
  return LowerFastest({[&] { return LowerAttentionCall(group, parts); }, in_parts});
}

}  // namespace rewright::cuda
