// Products and convolutions of 8-bit integers (quantized.h), read and written as bytes: a factor is x - zero, so that
//   sum (a - za) (b - zb) = sum a b - za sum b - zb sum a + k za zb,
// where a is taken without a sign and b with one, as AVX-512 VNNI multiplies them. The sums over b are known for
// weights, and zb is 0 there. All sums wrap, as those of the interpreter do. Images have their channels innermost: with
// a margin of zero points around them, a window is a few pieces of memory, which the inner loop reads where they lie.
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "backends/attrs.h"
#include "backends/cpu/kernel_list.h"
#include "backends/cpu/simd/simd.h"
#include "backends/group.h"
#include "core/base/status_macros.h"
#include "core/ir/memory.h"
#include "core/ops/ops.h"

namespace rewright::cpu {
namespace {

constexpr int64_t kSerialProducts = 200000;
constexpr int64_t kTaskRows = 48;  // that one panel is multiplied with before the next
constexpr int64_t kAlign = 64;

int64_t RoundUp(int64_t n, int64_t step) { return (n + step - 1) / step * step; }

// How the elements of a factor are read as bytes without a sign: x, x + 128 of an i8, x - zero + zero.
struct FactorBytes {
  DType dtype = DType::kUInt8;
  bool is_difference = false;
  bool zero_at_run = false;  // a buffer has it
  int zero = 0;

  int offset() const { return dtype == DType::kInt8 ? 128 : 0; }
  // Calls f with the element at an offset as a byte; `zero` is that of the bytes.
  template <typename F>
  void Read(const void* from, int zero_of_bytes, const F& f) const {
    if (is_difference) {
      f([x = static_cast<const int32_t*>(from), zero_of_bytes](int64_t i) {
        return static_cast<uint8_t>(x[i] + zero_of_bytes);
      });
    } else {
      f([x = static_cast<const uint8_t*>(from), flip = static_cast<uint8_t>(offset())](int64_t i) {
        return static_cast<uint8_t>(x[i] ^ flip);
      });
    }
  }
};

// Where the left factor lies, and where it is laid anew as bytes: rows with a depth that is a multiple of four, or
// images with a margin. In elements, or bytes.
struct LeftRows {
  std::vector<int64_t> starts;  // of distinct matrices
  int64_t rows = 0, row = 0, step = 0;
};
struct LeftImages {
  int64_t images = 0, channels = 0, height = 0, width = 0;
  int64_t image = 0, channel = 0, row = 0, column = 0;  // strides
  int64_t top = 0, left = 0, laid_height = 0, laid_width = 0, laid_channels = 0;
};

// Neighbouring rows of the result, whose left rows are equally far apart.
struct Line {
  int64_t a = 0, c = 0, b = 0, rows = 0;  // places in bytes and elements, number of the right matrix, count
};

struct ByteProblem {
  FactorBytes left, right;
  bool conv = false;
  bool direct = false;  // the left bytes are used where they lie
  LeftRows matrices;
  LeftImages images;
  std::vector<long> segments;  // of a row (simd.h)
  int64_t segment_depth = 0, a_row = 0;
  int64_t depth = 0, columns = 0, threads = 1;
  std::vector<Line> lines;
  // The right factor: packed beforehand, or matrices at these places.
  bool packed = false;
  int right_zero = 0;  // of the packed bytes
  std::vector<int64_t> right_starts;
  int64_t right_row = 0, right_column = 0;
  std::optional<QuantizedProduct::Requantized> requantized;

  int64_t fours() const { return static_cast<int64_t>(segments.size()) * segment_depth; }
  int64_t panels() const { return RoundUp(columns, Simd().gemm_columns) / Simd().gemm_columns; }
  int64_t panel_bytes() const { return fours() * 4 * Simd().gemm_columns; }
  int64_t laid_columns() const { return panels() * Simd().gemm_columns; }
  int64_t left_bytes() const {
    if (direct) return 0;
    if (!conv) return static_cast<int64_t>(matrices.starts.size()) * matrices.rows * a_row;
    return images.images * images.laid_height * images.laid_width * images.laid_channels;
  }
};

// The sums of the columns of a panel: its product with ones.
void ColumnSums(const ByteProblem& problem, const int8_t* panel, int32_t* sums) {
  static constexpr long kStart = 0;
  const std::vector<uint8_t> ones(static_cast<size_t>(problem.fours() * 4), 1);
  const std::vector<int32_t> nothing(static_cast<size_t>(Simd().gemm_columns), 0);
  Simd().byte_block({ones.data(), 0, &kStart, 1, problem.fours()}, panel, sums, 0, 1, Simd().gemm_columns,
                    {nullptr, nothing.data(), nullptr, 0, 0, 0});
}

// A panel of bytes with a sign, f(k, column), from a k on that four divides; `count` columns are given. k counts the
// laid depth.
template <typename F>
void PackPanel(const ByteProblem& problem, int64_t first, int64_t count, const F& f, int8_t* panel) {
  const int64_t width = Simd().gemm_columns;
  std::fill(panel + first * width, panel + problem.panel_bytes(), int8_t{0});
  for (int64_t k = first; k < problem.fours() * 4; ++k) {
    int8_t* const to = panel + k / 4 * 4 * width + k % 4;
    for (int64_t j = 0; j < count; ++j) to[4 * j] = f(k, j);
  }
}

// Buffers: left, [its zero point], right or its panels, [its zero point], column sums and biases of panels, [factors],
// scratch, the result.
class QuantizedProductKernel : public Kernel {
 public:
  explicit QuantizedProductKernel(ByteProblem problem) : problem_(std::move(problem)) {
    const auto& lines = problem_.lines;
    for (size_t first = 0; first < lines.size();) {
      size_t last = first;
      int64_t rows = 0;
      while (last < lines.size() && lines[last].b == lines[first].b &&
             (rows == 0 || rows + lines[last].rows <= kTaskRows)) {
        rows += lines[last++].rows;
      }
      tasks_.push_back({first, last});
      most_rows_ = std::max(most_rows_, rows);
      first = last;
    }
    const auto tasks = static_cast<int64_t>(tasks_.size());
    if (tasks < problem_.threads) column_parts_ = std::min(problem_.panels(), problem_.threads);
    const int64_t matrices = problem_.packed ? 0 : static_cast<int64_t>(problem_.right_starts.size());
    panels_at_ = RoundUp(problem_.left_bytes(), kAlign);
    sums_at_ = panels_at_ + matrices * problem_.panels() * problem_.panel_bytes();
    columns_at_ = sums_at_ + matrices * problem_.laid_columns() * 4;
    rows_at_ = columns_at_ + std::max<int64_t>(1, matrices) * problem_.laid_columns() * 4;
    scratch_bytes_ = rows_at_ + problem_.threads * most_rows_ * 4;
  }

  size_t scratch_bytes() const { return static_cast<size_t>(scratch_bytes_); }

  absl::Status Run(void* const* buffers, RunContext&) const override {
    const ByteProblem& p = problem_;
    At at;
    at.a = *buffers++;
    at.left_zero = p.left.zero;
    if (p.left.zero_at_run) at.left_zero = *static_cast<const int32_t*>(*buffers++);
    at.left_zero += p.left.offset();
    at.b = *buffers++;
    at.right_zero = p.packed ? p.right_zero : p.right.zero;
    if (p.right.zero_at_run) at.right_zero = *static_cast<const int32_t*>(*buffers++);
    if (!p.packed) at.right_zero += p.right.offset() - 128;
    at.known_sums = p.packed ? static_cast<const int32_t*>(*buffers++) : nullptr;
    at.bias = static_cast<const int32_t*>(*buffers++);
    at.factor = p.requantized ? static_cast<const float*>(*buffers++) : nullptr;
    char* const scratch = static_cast<char*>(*buffers++);
    at.left = p.direct ? static_cast<const uint8_t*>(at.a) : reinterpret_cast<const uint8_t*>(scratch);
    at.panels = p.packed ? static_cast<const int8_t*>(at.b) : reinterpret_cast<const int8_t*>(scratch + panels_at_);
    at.columns = reinterpret_cast<const int32_t*>(scratch + columns_at_);
    at.rows = reinterpret_cast<int32_t*>(scratch + rows_at_);
    at.c = *buffers;
    if (!p.direct) LayLeft(at, reinterpret_cast<uint8_t*>(scratch));
    if (!p.packed)
      LayRight(at, reinterpret_cast<int8_t*>(scratch + panels_at_), reinterpret_cast<int32_t*>(scratch + sums_at_));
    AddUpColumns(at, reinterpret_cast<const int32_t*>(scratch + sums_at_),
                 reinterpret_cast<int32_t*>(scratch + columns_at_));
    const int64_t units = static_cast<int64_t>(tasks_.size()) * column_parts_;
#pragma omp parallel for schedule(static) num_threads(static_cast <int>(p.threads)) if (p.threads > 1)
    for (int64_t unit = 0; unit < units; ++unit) {
      const int64_t part = unit % column_parts_;
      Multiply(at, tasks_[unit / column_parts_], p.panels() * part / column_parts_,
               p.panels() * (part + 1) / column_parts_);
    }
    return absl::OkStatus();
  }

 private:
  struct Task {
    size_t first, last;  // lines
  };
  struct At {
    const void *a, *b;
    void* c;
    int left_zero, right_zero;  // of the bytes
    const uint8_t* left;
    const int8_t* panels;
    const int32_t *known_sums, *bias, *columns;
    const float* factor;
    int32_t* rows;
  };

  void LayLeft(const At& at, uint8_t* to) const {
    if (problem_.conv) {
      const int64_t lines = problem_.images.images * problem_.images.laid_height;
      const int64_t bytes = problem_.images.laid_width * problem_.images.laid_channels;
#pragma omp parallel for schedule(static) num_threads(static_cast <int>(problem_.threads)) if (problem_.threads > 1)
      for (int64_t line = 0; line < lines; ++line) LayImageLine(at, line, to + line * bytes);
      return;
    }
    const LeftRows& rows = problem_.matrices;
    const auto count = static_cast<int64_t>(rows.starts.size()) * rows.rows;
    problem_.left.Read(at.a, at.left_zero, [&](auto element) {
#pragma omp parallel for schedule(static) num_threads(static_cast <int>(problem_.threads)) if (problem_.threads > 1)
      for (int64_t i = 0; i < count; ++i) {
        const int64_t from = rows.starts[i / rows.rows] + i % rows.rows * rows.row;
        uint8_t* const line = to + i * problem_.a_row;
        if (rows.step == 1) {
#pragma omp simd
          for (int64_t k = 0; k < problem_.depth; ++k) line[k] = element(from + k);
        } else {
          for (int64_t k = 0; k < problem_.depth; ++k) line[k] = element(from + k * rows.step);
        }
        std::fill(line + problem_.depth, line + problem_.a_row, uint8_t{0});
      }
    });
  }

  // One line of an image, zero points where it has none. What fills channels up is 0.
  void LayImageLine(const At& at, int64_t line, uint8_t* to) const {
    const LeftImages& x = problem_.images;
    const int64_t channels = x.laid_channels, y = line % x.laid_height - x.top;
    const auto zero = static_cast<uint8_t>(at.left_zero);
    const bool inside = y >= 0 && y < x.height;
    const int64_t begin = inside ? x.left : x.laid_width, end = inside ? x.left + x.width : x.laid_width;
    if (channels == x.channels) {
      std::fill(to, to + begin * channels, zero);
      std::fill(to + end * channels, to + x.laid_width * channels, zero);
    } else {
      std::fill(to, to + x.laid_width * channels, uint8_t{0});
      for (int64_t column = 0; column < x.laid_width; ++column) {
        if (column >= begin && column < end) continue;
        std::fill_n(to + column * channels, x.channels, zero);
      }
    }
    if (!inside) return;
    to += begin * channels;
    const int64_t from = line / x.laid_height * x.image + y * x.row;
    problem_.left.Read(at.a, at.left_zero, [&](auto element) {
      if (x.channel == 1 && x.column == channels) {
#pragma omp simd
        for (int64_t i = 0; i < x.width * channels; ++i) to[i] = element(from + i);
        return;
      }
      for (int64_t c = 0; c < x.channels; ++c) {
        for (int64_t i = 0; i < x.width; ++i) to[i * channels + c] = element(from + c * x.channel + i * x.column);
      }
    });
  }

  void LayRight(const At& at, int8_t* panels, int32_t* sums) const {
    const auto units = static_cast<int64_t>(problem_.right_starts.size()) * problem_.panels();
    const int64_t width = Simd().gemm_columns;
#pragma omp parallel for schedule(static) num_threads(static_cast <int>(problem_.threads)) if (problem_.threads > 1)
    for (int64_t unit = 0; unit < units; ++unit) {
      const int64_t start = problem_.right_starts[unit / problem_.panels()], first = unit % problem_.panels() * width;
      int8_t* const panel = panels + unit * problem_.panel_bytes();
      LayPanel(at, start + first * problem_.right_column, std::min(width, problem_.columns - first), panel);
      ColumnSums(problem_, panel, sums + unit * width);
    }
  }

  // Of bytes in one piece, four are put together as a number.
  void LayPanel(const At& at, int64_t start, int64_t count, int8_t* panel) const {
    const int64_t width = Simd().gemm_columns, row = problem_.right_row, column = problem_.right_column;
    const int64_t whole = problem_.right.is_difference || (row != 1 && column != 1) ? 0 : problem_.depth / 4;
    const uint32_t flip = problem_.right.offset() == 0 ? 0x80808080u : 0;
    const auto* const from = static_cast<const uint8_t*>(at.b) + (whole > 0 ? start : 0);
    for (int64_t four = 0; four < whole; ++four) {
      uint32_t* const to = reinterpret_cast<uint32_t*>(panel + 4 * four * width);
      if (row == 1) {
        for (int64_t j = 0; j < count; ++j) {
          uint32_t bytes;
          std::memcpy(&bytes, from + 4 * four + j * column, sizeof bytes);
          to[j] = bytes ^ flip;
        }
      } else {
        const uint8_t* const x = from + 4 * four * row;
#pragma omp simd
        for (int64_t j = 0; j < count; ++j) {
          to[j] = (uint32_t{x[j]} | uint32_t{x[row + j]} << 8 | uint32_t{x[2 * row + j]} << 16 |
                   uint32_t{x[3 * row + j]} << 24) ^
                  flip;
        }
      }
      std::fill(to + count, to + width, 0u);
    }
    problem_.right.Read(at.b, at.right_zero + 128, [&](auto element) {
      PackPanel(
          problem_, 4 * whole, count,
          [&](int64_t k, int64_t j) {
            return k >= problem_.depth ? int8_t{0} : static_cast<int8_t>(element(start + k * row + j * column) ^ 0x80);
          },
          panel);
    });
  }

  // bias - za sum b + k za zb
  void AddUpColumns(const At& at, const int32_t* sums, int32_t* columns) const {
    const int64_t laid = problem_.laid_columns();
    const int64_t count = laid * (problem_.packed ? 1 : static_cast<int64_t>(problem_.right_starts.size()));
    const int32_t* const of_b = problem_.packed ? at.known_sums : sums;
    const auto za = static_cast<uint32_t>(at.left_zero);
    const uint32_t all = static_cast<uint32_t>(problem_.depth) * za * static_cast<uint32_t>(at.right_zero);
    for (int64_t j = 0; j < count; ++j) {
      columns[j] =
          static_cast<int32_t>(static_cast<uint32_t>(at.bias[j % laid]) - za * static_cast<uint32_t>(of_b[j]) + all);
    }
  }

  // -zb sum a, by row of a line.
  void AddUpRows(const At& at, const Line& line, int32_t* rows) const {
    for (int64_t i = 0; i < line.rows; ++i) {
      uint32_t sum = 0;
      for (long offset : problem_.segments) {
        const uint8_t* const piece = at.left + line.a + i * problem_.a_row + offset;
#pragma omp simd reduction(+ : sum)
        for (int64_t k = 0; k < 4 * problem_.segment_depth; ++k) sum += piece[k];
      }
      rows[i] = static_cast<int32_t>(0u - static_cast<uint32_t>(at.right_zero) * sum);
    }
  }

  void Multiply(const At& at, const Task& task, int64_t first_panel, int64_t last_panel) const {
    const SimdTable& simd = Simd();
    const ByteProblem& p = problem_;
    const int64_t width = simd.gemm_columns, element = p.requantized ? 1 : 4;
    int32_t* const rows = at.rows + omp_get_thread_num() * most_rows_;
    if (at.right_zero != 0) {
      int32_t* next = rows;
      for (size_t l = task.first; l < task.last; next += p.lines[l++].rows) AddUpRows(at, p.lines[l], next);
    }
    const int64_t matrix = p.lines[task.first].b;
    SimdTable::ByteSums sums = {};
    if (p.requantized) {
      sums.point = p.requantized->point;
      sums.low = p.requantized->low;
      sums.high = p.requantized->high;
    }
    for (int64_t panel = first_panel; panel < last_panel; ++panel) {
      const int64_t column = panel * width;
      const int8_t* const b = at.panels + (matrix * p.panels() + panel) * p.panel_bytes();
      sums.column = at.columns + matrix * p.laid_columns() + column;
      sums.factor = at.factor == nullptr ? nullptr : at.factor + column;
      const int32_t* row = rows;
      for (size_t l = task.first; l < task.last; ++l) {
        const Line& line = p.lines[l];
        const int64_t tiles = RoundUp(line.rows, simd.gemm_rows) / simd.gemm_rows;
        for (int64_t tile = 0; tile < tiles; ++tile) {
          const int64_t i = line.rows * tile / tiles, next = line.rows * (tile + 1) / tiles;
          sums.row = at.right_zero != 0 ? row + i : nullptr;
          simd.byte_block({at.left + line.a + i * p.a_row, p.a_row, p.segments.data(),
                           static_cast<long>(p.segments.size()), p.segment_depth},
                          b, static_cast<char*>(at.c) + (line.c + i * p.columns + column) * element, p.columns,
                          next - i, std::min(width, p.columns - column), sums);
        }
        row += line.rows;
      }
    }
  }

  const ByteProblem problem_;
  std::vector<Task> tasks_;
  int64_t most_rows_ = 0, column_parts_ = 1;
  int64_t panels_at_ = 0, sums_at_ = 0, columns_at_ = 0, rows_at_ = 0, scratch_bytes_ = 0;
};

// ---------------------------------------------------------------- planning

Layout ChannelsLast(const Shape& dims) { return {dims, {dims[1] * dims[2] * dims[3], 1, dims[3] * dims[1], dims[1]}}; }

FactorBytes BytesOf(const Graph& graph, const CentredFactor& factor) {
  FactorBytes bytes{.dtype = factor.dtype, .is_difference = factor.is_difference};
  if (factor.zero.node < 0) return bytes;
  bytes.zero_at_run = !graph.IsKnown(factor.zero);
  if (!bytes.zero_at_run) bytes.zero = static_cast<int>(*KnownInteger(graph, factor.zero));
  return bytes;
}

// The value's place, plain, with leading axes of size one up to `rank`.
absl::StatusOr<Place> PlainPlace(Lowering& lowering, Value value, size_t rank) {
  ASSIGN_OR_RETURN(Place place, lowering.Find(value));
  if (place.layout.blocked()) {
    ASSIGN_OR_RETURN(place, lowering.FindRowMajor(value));
  }
  const size_t added = rank - place.layout.dims.size();
  place.layout.dims.insert(place.layout.dims.begin(), added, 1);
  place.layout.strides.insert(place.layout.strides.begin(), added, 0);
  return place;
}

// Where the matrices of each batch begin.
std::vector<int64_t> Starts(const Layout& layout, const Shape& out) {
  std::vector<int64_t> starts = {0};
  for (size_t axis = 0; axis + 2 < out.size(); ++axis) {
    std::vector<int64_t> longer;
    for (int64_t start : starts) {
      for (int64_t i = 0; i < out[axis]; ++i) {
        longer.push_back(start + (layout.dims[axis] == 1 ? 0 : i * layout.strides[axis]));
      }
    }
    starts = std::move(longer);
  }
  return starts;
}

// Numbers places in order of their first use.
std::vector<int64_t> Numbered(const std::vector<int64_t>& places, std::vector<int64_t>* distinct) {
  std::map<int64_t, int64_t> numbers;
  std::vector<int64_t> result;
  for (int64_t place : places) {
    const auto [found, added] = numbers.emplace(place, static_cast<int64_t>(distinct->size()));
    if (added) distinct->push_back(place);
    result.push_back(found->second);
  }
  return result;
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
  const std::vector<int64_t> a_numbers = Numbered(Starts(a, out), &problem->matrices.starts);
  std::vector<int64_t> b_numbers(a_numbers.size(), 0);
  if (b) {
    b_numbers = Numbered(Starts(*b, out), &problem->right_starts);
    problem->right_row = b->strides[rank - 2];
    problem->right_column = b->strides[rank - 1];
  }
  problem->matrices.rows = out[rank - 2];
  problem->matrices.row = a.strides[rank - 2];
  problem->matrices.step = a.strides[rank - 1];
  problem->segments = {0};
  problem->segment_depth = RoundUp(problem->depth, 4) / 4;
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
            .laid_channels = RoundUp(x.dims[1], 4)};
  const bool no_margin = std::all_of(pads.begin(), pads.end(), [](int64_t pad) { return pad == 0; });
  problem->direct = problem->left.dtype == DType::kUInt8 && !problem->left.is_difference && no_margin &&
                    images.laid_channels == images.channels && x == ChannelsLast(x.dims);
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

template <typename T>
int AddNumbers(Lowering& lowering, std::vector<T> values) {
  const auto held = std::make_shared<std::vector<T>>(std::move(values));
  return lowering.AddConstant(std::shared_ptr<void>(held, held->data()), held->size() * sizeof(T));
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
  const auto held = std::make_shared<Tensor>(std::move(panels));
  const int buffer =
      lowering.AddConstant(std::shared_ptr<void>(held, held->data()), static_cast<size_t>(held->num_bytes()));
  return std::pair(buffer, AddNumbers(lowering, std::move(sums)));
}

absl::StatusOr<bool> Plan(Lowering& lowering, const FusedGroup& group) {
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
  ASSIGN_OR_RETURN(const Place a, PlainPlace(lowering, product.left.value, out.size()));
  std::vector<BufferUse> buffers = {Lowering::Read(a.buffer)};
  const auto read_zero = [&](const FactorBytes& factor, Value zero) -> absl::Status {
    if (!factor.zero_at_run) return absl::OkStatus();
    ASSIGN_OR_RETURN(const Place place, lowering.FindRowMajor(zero));
    buffers.push_back(Lowering::Read(place.buffer));
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(read_zero(problem.left, product.left.zero));
  std::optional<Layout> right;
  if (product.right) {
    problem.right = BytesOf(graph, *product.right);
    ASSIGN_OR_RETURN(const Place b, PlainPlace(lowering, product.right->value, out.size()));
    right = b.layout;
    buffers.push_back(Lowering::Read(b.buffer));
    RETURN_IF_ERROR(read_zero(problem.right, product.right->zero));
  }
  if (node.op == ops::Conv2d()) {
    PlanImages(node, a.layout, graph.type(node.operands[1]).shape, &problem);
  } else {
    PlanMatrices(a.layout, out, right, &problem);
  }
  const double products = static_cast<double>(NumElements(out)) * static_cast<double>(problem.depth);
  problem.threads = products < kSerialProducts ? 1 : lowering.threads();
  if (problem.packed) {
    ASSIGN_OR_RETURN(const auto packed, PackKnown(lowering, weights, problem));
    buffers.push_back(Lowering::Read(packed.first));
    buffers.push_back(Lowering::Read(packed.second));
  }
  Tensor bias(TensorType{DType::kInt32, {1}});
  if (product.bias.node >= 0) {
    ASSIGN_OR_RETURN(bias, lowering.ConstantTensor(product.bias));
  }
  buffers.push_back(Lowering::Read(AddNumbers(lowering, ByColumn<int32_t>(bias, problem))));
  if (product.requantized) buffers.push_back(Lowering::Read(AddNumbers(lowering, ByColumn<float>(factors, problem))));
  auto kernel = std::make_unique<QuantizedProductKernel>(std::move(problem));
  buffers.push_back(Lowering::Scratch(lowering.AddScratch(kernel->scratch_bytes())));
  const Value result = product.result();
  buffers.push_back(Lowering::Write(lowering.Define(result, lowering.LayoutOf(group, result)).buffer));
  lowering.Emit(std::move(kernel), std::move(buffers),
                absl::StrCat(GroupLabel(graph, group.group), " (bytes, ", Simd().name, ")"));
  return true;
}

std::optional<Layout> QuantizedLayout(const LayoutQuery& query) {
  if (query.group.kind != FusedGroup::Kind::kQuantized) return std::nullopt;
  const bool conv = query.graph.node(query.group.quantized->product).op == ops::Conv2d();
  return conv ? ChannelsLast(query.dims()) : Layout::RowMajor(query.dims());
}

}  // namespace

KernelEntry QuantizedProductEntry() { return {.ops = {}, .plan = Plan, .layout = QuantizedLayout}; }

}  // namespace rewright::cpu
