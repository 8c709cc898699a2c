#include "backends/cpu/kernels/byte_product.h"

#include <omp.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "backends/cpu/kernels/strided.h"
#include "core/base/status_macros.h"
#include "core/tensor/memory.h"

namespace rewright::cpu {
namespace {

constexpr int64_t kAlign = 64;

class ByteProductKernel : public Kernel {
 public:
  explicit ByteProductKernel(ByteProblem problem) : problem_(std::move(problem)) {
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
    panels_at_ = AlignUp(problem_.left_bytes(), kAlign);
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
      return ForEach(lines, static_cast<int>(problem_.threads),
                     [&](int64_t line) { LayImageLine(at, line, to + line * bytes); });
    }
    const LeftRows& rows = problem_.matrices;
    const auto count = static_cast<int64_t>(rows.starts.size()) * rows.rows;
    problem_.left.Read(at.a, at.left_zero, [&](auto element) {
      ForEach(count, static_cast<int>(problem_.threads), [&](int64_t i) {
        const int64_t from = rows.starts[i / rows.rows] + i % rows.rows * rows.row;
        uint8_t* const line = to + i * problem_.a_row;
        if (rows.step == 1) {
#pragma omp simd
          for (int64_t k = 0; k < problem_.depth; ++k) line[k] = element(from + k);
        } else {
          for (int64_t k = 0; k < problem_.depth; ++k) line[k] = element(from + k * rows.step);
        }
        std::fill(line + problem_.depth, line + problem_.a_row, uint8_t{0});
      });
    });
  }

  // Lays one line of an image, or zero points where the line lies in the padding. Channels that fill up the last group
  // are 0.
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
    ForEach(units, static_cast<int>(problem_.threads), [&](int64_t unit) {
      const int64_t start = problem_.right_starts[unit / problem_.panels()], first = unit % problem_.panels() * width;
      int8_t* const panel = panels + unit * problem_.panel_bytes();
      LayPanel(at, start + first * problem_.right_column, std::min(width, problem_.columns - first), panel);
      ColumnSums(problem_, panel, sums + unit * width);
    });
  }

  // Lays one panel of the right factor. Four bytes that lie side by side are put together as one number.
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
        const int64_t tiles = AlignUp(line.rows, simd.gemm_rows) / simd.gemm_rows;
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

}  // namespace

void ColumnSums(const ByteProblem& problem, const int8_t* panel, int32_t* sums) {
  static constexpr long kStart = 0;
  const std::vector<uint8_t> ones(static_cast<size_t>(problem.fours() * 4), 1);
  const std::vector<int32_t> nothing(static_cast<size_t>(Simd().gemm_columns), 0);
  Simd().byte_block({ones.data(), 0, &kStart, 1, problem.fours()}, panel, sums, 0, 1, Simd().gemm_columns,
                    {nullptr, nothing.data(), nullptr, 0, 0, 0});
}

ByteProduct MakeByteProduct(ByteProblem problem) {
  auto kernel = std::make_unique<ByteProductKernel>(std::move(problem));
  const int64_t scratch_bytes = kernel->scratch_bytes();
  return {std::move(kernel), scratch_bytes};
}

}  // namespace rewright::cpu
