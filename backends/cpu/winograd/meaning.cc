#include "backends/cpu/winograd/meaning.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"

namespace rewright::cpu {
namespace {

using List = std::vector<int64_t>;

// One direction of the images.
struct Axis {
  int m, r, place;            // of images [n, c, h, w]
  int64_t size, before, end;  // end: padding behind, up to whole tiles
  int64_t tiles, out;

  Axis(int m, int r, int place, int64_t size, int64_t before, int64_t after)
      : m(m), r(r), place(place), size(size), before(before) {
    out = size + before + after - r + 1;
    tiles = (out + m - 1) / m;
    end = r == 1 ? after : m * tiles + r - 1 - size - before;
  }
  bool plain() const { return r == 1; }
  int products() const { return m + r - 1; }
  int64_t padded() const { return size + before + end; }
};

// Adds applications until one fails.
class Builder {
 public:
  explicit Builder(Arena& arena) : arena_(arena) {}

  Value Apply(const char* op, std::vector<Value> operands, Attrs attrs) {
    if (!status_.ok()) return {};
    absl::StatusOr<Value> value = arena_.Apply(op, std::move(operands), std::move(attrs));
    if (value.ok()) return *value;
    status_ = value.status();
    return {};
  }
  const Shape& ShapeOf(Value value) const { return arena_.type(value).shape; }
  const absl::Status& status() const { return status_; }

  // A concatenation of rows of numbers.
  Value Matrix(const Ratio* entries, int rows, int columns) {
    std::vector<Value> lines;
    for (int i = 0; i < rows; ++i) {
      std::vector<Value> line;
      for (int j = 0; j < columns; ++j) {
        Tensor number(TensorType{DType::kFloat32, {1, 1}});
        *static_cast<float*>(number.data()) = static_cast<float>(entries[i * columns + j].value());
        line.push_back(arena_.AddConstant(number));
      }
      lines.push_back(Apply("concat", line, {{"axis", int64_t{1}}}));
    }
    return Apply("concat", lines, {{"axis", int64_t{0}}});
  }

  Value Dot(Value lhs, Value rhs, int64_t lhs_axis, int64_t rhs_axis, const List& batch = {}) {
    return Apply("dot_general", {lhs, rhs},
                 {{"lhs_batch", batch},
                  {"rhs_batch", batch},
                  {"lhs_contracting", List{lhs_axis}},
                  {"rhs_contracting", List{rhs_axis}}});
  }

  // The windows of all tiles along the axis, element by element, on a new axis in front.
  Value Windows(Value x, const Axis& axis) {
    if (!status_.ok()) return {};
    const Shape shape = ShapeOf(x);
    const size_t at = shape.size() - 4 + axis.place;
    std::vector<Value> parts;
    for (int j = 0; j < axis.products(); ++j) {
      List starts(shape.size(), 0), stops = shape, steps(shape.size(), 1), expanded = shape;
      starts[at] = j;
      stops[at] = axis.m * axis.tiles + j + 1 - axis.m;
      steps[at] = axis.m;
      expanded[at] = axis.tiles;
      expanded.insert(expanded.begin(), 1);
      const Value part = Apply("slice", {x}, {{"starts", starts}, {"stops", stops}, {"steps", steps}});
      parts.push_back(Apply("expand", {part}, {{"shape", expanded}}));
    }
    return Apply("concat", parts, {{"axis", int64_t{0}}});
  }

  // The outputs of all tiles along the axis, which lie along the first one, side by side.
  Value Spread(Value y, const Axis& axis) {
    if (!status_.ok()) return {};
    const Shape shape = ShapeOf(y);
    const size_t at = shape.size() - 5 + axis.place;
    Value sum;
    for (int i = 0; i < axis.m; ++i) {
      List starts(shape.size(), 0), stops = shape;
      starts[0] = i;
      stops[0] = i + 1;
      const Value slice = Apply("slice", {y}, {{"starts", starts}, {"stops", stops}});
      const Value part = Apply("reduce_sum", {slice}, {{"axes", List{0}}, {"keepdims", int64_t{0}}});
      List before(shape.size() - 1, 0), after = before, interior = before;
      before[at] = i;
      after[at] = axis.m - 1 - i;
      interior[at] = axis.m - 1;
      const Value spread = Apply("pad", {part}, {{"before", before}, {"after", after}, {"interior", interior}});
      sum = i == 0 ? spread : Apply("add", {sum, spread}, {});
    }
    return sum;
  }

 private:
  Arena& arena_;
  absl::Status status_;
};

}  // namespace

std::string WinogradLaw(const WinogradForm& form) {
  return absl::StrCat("conv-winograd-", form.rows, "x", form.columns, "-", form.kernel_rows, "x", form.kernel_columns);
}

absl::StatusOr<Value> WinogradMeaning(Arena& arena, Value x, Value w, const std::vector<int64_t>& pads,
                                      const WinogradForm& form) {
  const Shape image = arena.type(x).shape, kernel = arena.type(w).shape;
  const Axis rows(form.rows, form.kernel_rows, 2, image[2], pads[0], pads[2]);
  const Axis columns(form.columns, form.kernel_columns, 3, image[3], pads[1], pads[3]);
  const Axis& axis = columns.plain() ? rows : columns;
  const WinogradFactors factors = FactorsOf(axis.m, axis.r);
  if (factors.out == nullptr) return absl::InvalidArgumentError("no such algorithm");
  Builder b(arena);
  const Value A = b.Matrix(factors.out, axis.m, axis.products());
  const Value G = b.Matrix(factors.kernel, axis.products(), axis.r);
  const Value B = b.Matrix(factors.data, axis.products(), axis.products());
  const Value padded = b.Apply(
      "pad", {x}, {{"before", List{0, 0, rows.before, columns.before}}, {"after", List{0, 0, rows.end, columns.end}}});
  Value y;
  if (rows.plain() || columns.plain()) {
    const Value data = b.Dot(B, b.Windows(padded, axis), 1, 0);
    const Value taps = b.Apply("reshape", {w}, {{"shape", List{kernel[0], kernel[1], axis.r}}});
    y = b.Spread(b.Dot(A, b.Dot(b.Dot(G, taps, 1, 2), data, 2, 2, {0}), 1, 0), axis);
  } else {
    const Value windows = b.Windows(b.Windows(padded, rows), columns);
    const Value data = b.Dot(B, b.Dot(B, windows, 1, 0), 1, 1);
    const Value taps = b.Dot(G, b.Dot(G, w, 1, 3), 1, 3);
    const Value products = b.Dot(taps, data, 3, 3, {0, 1});
    y = b.Spread(b.Spread(b.Dot(A, b.Dot(A, products, 1, 0), 1, 1), columns), rows);
  }
  const Value order = b.Apply("transpose", {y}, {{"perm", List{1, 0, 2, 3}}});
  const Value out = b.Apply(
      "slice", {order}, {{"starts", List{0, 0, 0, 0}}, {"stops", List{image[0], kernel[0], rows.out, columns.out}}});
  if (!b.status().ok()) return b.status();
  return out;
}

}  // namespace rewright::cpu
