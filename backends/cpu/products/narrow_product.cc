#include "backends/cpu/products/narrow_product.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "backends/cpu/kernels/strided.h"
#include "backends/cpu/onednn/epilogue.h"
#include "core/base/status_macros.h"
#include "core/interpreter/known_values.h"
#include "core/tensor/memory.h"

namespace rewright::cpu {
namespace {

constexpr int64_t kRunBytes = 64, kPlaces = 16;
constexpr int64_t kTileColumns = 32;
constexpr double kSerialTerms = 50e3;

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace

int64_t NarrowForm::column_bytes() const { return CeilDiv(depth * bits, kRunBytes * 8) * kRunBytes; }
int64_t NarrowForm::groups() const { return CeilDiv(depth, kPlaces << group_shift); }
int64_t NarrowForm::bytes() const {
  return columns * (column_bytes() + groups() * static_cast<int64_t>(sizeof(float) + (zeros ? 1 : 0)));
}
SimdTable::NarrowColumns NarrowForm::At(const void* memory) const {
  const auto* const codes = static_cast<const unsigned char*>(memory);
  const unsigned char* const scales = codes + columns * column_bytes();
  const unsigned char* const points = scales + columns * groups() * static_cast<int64_t>(sizeof(float));
  return {.codes = codes,
          .scales = reinterpret_cast<const float*>(scales),
          .zeros = zeros ? points : nullptr,
          .zero = zero,
          .depth = depth,
          .column_bytes = column_bytes(),
          .groups = groups(),
          .bits = bits,
          .group_shift = group_shift};
}

namespace {

// ---------------------------------------------------------------- from the graph to the form

// Elements of a tensor that broadcasts to a shape, by their place in that.
class Spread {
 public:
  Spread(const Tensor& tensor, const Shape& shape) : tensor_(tensor) {
    const Shape& dims = tensor.shape();
    std::vector<int64_t> strides(shape.size(), 0);
    int64_t step = 1;
    for (size_t k = 1; k <= dims.size(); ++k) {
      if (dims[dims.size() - k] != 1) strides[shape.size() - k] = step;
      step *= dims[dims.size() - k];
    }
    axes_ = MergedAxes(shape, strides);
  }
  const Tensor& tensor() const { return tensor_; }
  int64_t Index(int64_t place) const {
    int64_t index = 0;
    for (size_t k = axes_.size(); k-- > 0;) {
      index += place % axes_[k].size * axes_[k].stride;
      place /= axes_[k].size;
    }
    return index;
  }

 private:
  Tensor tensor_;
  std::vector<StridedAxis> axes_;
};

// The elements of a part.
class PartElements {
 public:
  static absl::StatusOr<PartElements> Of(const Graph& graph, const NarrowPart& part, int threads) {
    std::vector<Value> wanted = {part.codes, part.scale};
    if (part.zero.node >= 0) wanted.push_back(part.zero);
    std::vector<Value> computed;
    for (Value value : wanted) {
      if (graph.node(value.node).op != nullptr) computed.push_back(value);
    }
    ASSIGN_OR_RETURN(std::vector<Tensor> tensors, ComputeKnown(graph.arena(), computed, threads));
    const auto elements = [&](Value value) {
      const auto found = std::find(computed.begin(), computed.end(), value);
      return found == computed.end() ? *graph.arena()->Elements(value.node) : tensors[found - computed.begin()];
    };
    const Shape& shape = graph.type(part.codes).shape;
    const Tensor zero = part.zero.node >= 0 ? elements(part.zero) : Tensor::Scalar(DType::kInt32, 0);
    return PartElements(part, elements(part.codes), Spread(elements(part.scale), shape), Spread(zero, shape));
  }

  int64_t columns() const { return part_.view.dims[1]; }
  int64_t depth() const { return part_.view.dims[0]; }
  int64_t Place(int64_t k, int64_t column) const {
    return part_.offset + k * part_.view.strides[0] + column * part_.view.strides[1];
  }
  bool is_signed() const { return codes_.dtype() == DType::kInt8; }
  // Fields of `bits` bits, from 0 on.
  uint8_t Field(int64_t place, int bits) const {
    return static_cast<uint8_t>(static_cast<const uint8_t*>(codes_.data())[place] + Lift(bits));
  }
  float Scale(int64_t place) const { return static_cast<const float*>(scale_.tensor().data())[scale_.Index(place)]; }
  double Zero(int64_t place, int bits) const { return zero_.tensor().At(zero_.Index(place)) + Lift(bits); }
  bool HaveFourBits() const {
    const auto* const codes = static_cast<const uint8_t*>(codes_.data());
    const int lift = Lift(4);
    return std::all_of(codes, codes + codes_.num_elements(),
                       [&](uint8_t code) { return static_cast<uint8_t>(code + lift) < 16; });
  }

 private:
  PartElements(const NarrowPart& part, Tensor codes, Spread scale, Spread zero)
      : part_(part), codes_(std::move(codes)), scale_(std::move(scale)), zero_(std::move(zero)) {}
  int Lift(int bits) const { return is_signed() ? 1 << (bits - 1) : 0; }

  NarrowPart part_;
  Tensor codes_;
  Spread scale_, zero_;
};

// A column of one of the parts.
struct ColumnAt {
  const PartElements* part;
  int64_t column;
};

// The length of the groups in which a column's scales and zero points are equal, at most `most`, a power of two; 0
// where a scale is too large, or a zero point no byte.
int64_t GroupLength(const ColumnAt& at, int bits, int64_t most) {
  float scale = 0;
  double zero = 0;
  for (int64_t k = 0; k < at.part->depth(); ++k) {
    const int64_t place = at.part->Place(k, at.column);
    const float next = at.part->Scale(place);
    const double point = at.part->Zero(place, bits);
    if (k > 0 && next == scale && point == zero) continue;
    if (!std::isfinite(next * 256) || !(point >= 0 && point <= 255) || point != std::floor(point)) return 0;
    if (k > 0) most = std::min(most, k & -k);
    scale = next;
    zero = point;
  }
  return most;
}

void PackColumn(const ColumnAt& at, const NarrowForm& form, int64_t column, unsigned char* memory, float* scales,
                uint8_t* zeros) {
  auto* const words = reinterpret_cast<uint32_t*>(memory + column * form.column_bytes());
  std::memset(words, 0, static_cast<size_t>(form.column_bytes()));
  const int64_t fields = 32 / form.bits;
  for (int64_t k = 0; k < form.depth; ++k) {
    const int64_t vector = k / kPlaces;
    const uint32_t field = at.part->Field(at.part->Place(k, at.column), form.bits);
    words[vector / fields * kPlaces + k % kPlaces] |= field << (vector % fields * form.bits);
  }
  for (int64_t group = 0; group < form.groups(); ++group) {
    const int64_t place = at.part->Place(group * (kPlaces << form.group_shift), at.column);
    scales[column * form.groups() + group] = at.part->Scale(place);
    zeros[column * form.groups() + group] = static_cast<uint8_t>(at.part->Zero(place, form.bits));
  }
}

}  // namespace

absl::StatusOr<std::optional<NarrowFactor>> FindNarrowFactor(Lowering& lowering, Value factor) {
  const Graph& graph = lowering.graph();
  std::vector<PartElements> parts;
  std::vector<ColumnAt> columns;
  for (const NarrowPart& part : NarrowPartsOf(graph, factor)) {
    ASSIGN_OR_RETURN(PartElements elements, PartElements::Of(graph, part, lowering.threads()));
    parts.push_back(std::move(elements));
  }
  for (const PartElements& part : parts) {
    for (int64_t column = 0; column < part.columns(); ++column) columns.push_back({&part, column});
  }
  if (columns.empty() || parts[0].depth() == 0) return std::optional<NarrowFactor>();
  NarrowForm form{.depth = parts[0].depth(), .columns = static_cast<int64_t>(columns.size())};
  const bool four = std::all_of(parts.begin(), parts.end(), [](const PartElements& p) { return p.HaveFourBits(); });
  form.bits = four ? 4 : 8;
  int64_t length = int64_t{1} << 20;
#pragma omp parallel for schedule(static) num_threads(lowering.threads()) reduction(min : length)
  for (size_t j = 0; j < columns.size(); ++j) length = std::min(length, GroupLength(columns[j], form.bits, length));
  if (length < kPlaces) return std::optional<NarrowFactor>();
  while (kPlaces << form.group_shift < length) ++form.group_shift;
  std::vector<float> scales(columns.size() * static_cast<size_t>(form.groups()));
  std::vector<uint8_t> zeros(scales.size());
  form.zeros = true;  // as much memory as there may be
  ASSIGN_OR_RETURN(std::shared_ptr<void> memory,
                   AllocatePacked(static_cast<size_t>(form.bytes()), graph.type(factor)));
#pragma omp parallel for schedule(static) num_threads(lowering.threads())
  for (size_t j = 0; j < columns.size(); ++j) {
    PackColumn(columns[j], form, static_cast<int64_t>(j), static_cast<unsigned char*>(memory.get()), scales.data(),
               zeros.data());
  }
  const SimdTable::NarrowColumns at = form.At(memory.get());
  std::memcpy(const_cast<float*>(at.scales), scales.data(), scales.size() * sizeof(float));
  std::memcpy(const_cast<uint8_t*>(at.zeros), zeros.data(), zeros.size());
  form.zero = zeros[0];
  form.zeros = std::any_of(zeros.begin(), zeros.end(), [&](uint8_t zero) { return zero != zeros[0]; });
  const int buffer = lowering.AddConstant(std::move(memory), static_cast<size_t>(form.bytes()));
  return std::optional(NarrowFactor{form, buffer});
}

void WidenColumns(const NarrowForm& form, const void* memory, int64_t first_column, int64_t columns, int64_t first,
                  int64_t depth, int64_t column_step, float* to) {
  const SimdTable::NarrowColumns at = form.At(memory);
  for (int64_t j = 0; j < columns; ++j) {
    Simd().narrow_column(at, first_column + j, first, depth, to + j * column_step);
  }
}

// ---------------------------------------------------------------- few rows

namespace {

// Threads have columns side by side, of which each reads its weights once.
class NarrowKernel : public Kernel {
 public:
  NarrowKernel(const MatmulProblem& problem, int threads) : problem_(problem), form_(*problem.narrow) {
    const size_t rank = problem.c.dims.size();
    rows_ = problem.c.num_elements() / form_.columns;
    a_row_ = problem.a.strides[rank - 2];
    a_step_ = problem.a.strides[rank - 1];
    c_row_ = problem.c.strides[rank - 2];
    r_row_ = problem.post_ops.residual ? problem.residual.strides[rank - 2] : 0;
    threads_ = static_cast<double>(form_.depth * form_.columns) < kSerialTerms ? 1 : threads;
  }

  absl::Status Run(void* const* buffers, RunContext&) const override {
    const auto* a = static_cast<const float*>(*buffers++);
    const SimdTable::NarrowColumns weights = form_.At(*buffers++);
    const ConvEpilogue at = TakeEpilogue(problem_.post_ops, &buffers);
    int64_t a_row = a_row_;
    if (NarrowScratchBytes(problem_) > 0) {
      a = Padded(a, static_cast<float*>(*buffers++));
      a_row = AlignUp(form_.depth, kPlaces);
    }
    auto* const c = static_cast<float*>(*buffers);
    ForEach(CeilDiv(form_.columns, kTileColumns), threads_, [&](int64_t tile) {
      const int64_t first = tile * kTileColumns, n = std::min(kTileColumns, form_.columns - first);
      SimdTable::NarrowColumns mine = weights;
      mine.codes += first * weights.column_bytes;
      mine.scales += first * weights.groups;
      if (mine.zeros != nullptr) mine.zeros += first * weights.groups;
      float y[kFewRows * kTileColumns];
      Simd().narrow_product(a, a_row, mine, rows_, n, y, kTileColumns);
      for (int64_t i = 0; i < rows_; ++i) Finish(at, i, first, n, y + i * kTileColumns, c + i * c_row_ + first);
    });
    return absl::OkStatus();
  }

 private:
  // The left factor with zeros behind its rows.
  const float* Padded(const float* a, float* to) const {
    const int64_t width = AlignUp(form_.depth, kPlaces);
    for (int64_t i = 0; i < rows_; ++i) {
      float* const row = to + i * width;
      for (int64_t k = 0; k < form_.depth; ++k) row[k] = a[i * a_row_ + k * a_step_];
      std::fill(row + form_.depth, row + width, 0.0f);
    }
    return to;
  }

  void Finish(const ConvEpilogue& at, int64_t row, int64_t first, int64_t n, float* y, float* to) const {
    if (at.bias != nullptr) Simd().f32[kTileAdd](y, y, at.bias + first, nullptr, n);
    ApplyPostOps(at, problem_.post_ops, at.residual == nullptr ? nullptr : at.residual + row * r_row_, first, n, y);
    std::memcpy(to, y, static_cast<size_t>(n) * sizeof(float));
  }

  const MatmulProblem problem_;
  const NarrowForm form_;
  int64_t rows_ = 0, a_row_ = 0, a_step_ = 0, c_row_ = 0, r_row_ = 0;
  int threads_ = 1;
};

}  // namespace

bool HasFewRows(const MatmulProblem& problem) {
  const size_t rank = problem.c.dims.size();
  const int64_t rows = problem.c.dims[rank - 2];
  return rows <= kFewRows && problem.c.num_elements() == rows * problem.c.dims[rank - 1];
}

size_t NarrowScratchBytes(const MatmulProblem& problem) {
  const int64_t depth = problem.a.dims.back(), rows = problem.c.dims[problem.c.dims.size() - 2];
  if (problem.a.strides.back() == 1 && depth % kPlaces == 0) return 0;
  return static_cast<size_t>(rows * AlignUp(depth, kPlaces)) * sizeof(float);
}

KernelPtr MakeNarrowKernel(const MatmulProblem& problem, int threads) {
  return std::make_unique<NarrowKernel>(problem, threads);
}

}  // namespace rewright::cpu
