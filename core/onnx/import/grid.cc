// Images read at computed positions: GridSample, AffineGrid.
#include <algorithm>

#include "core/base/status_macros.h"
#include "core/onnx/operators.h"

namespace rewright {
namespace {

// An element of the image beside a position, along one axis: its index and its weight. Both [n, positions.., 1].
struct Tap {
  Value index;  // a whole number, as a real one
  Value weight;
};

class GridSampler {
 public:
  explicit GridSampler(OnnxNode& node) : node_(node) {}

  Values Run() {
    mode_ = node_.String("mode", "linear");
    padding_ = node_.String("padding_mode", "zeros");
    align_ = node_.Flag("align_corners");
    if (mode_ == "bilinear") mode_ = "linear";  // before opset 20
    if (mode_ == "bicubic") mode_ = "cubic";
    if (mode_ != "linear" && mode_ != "nearest" && mode_ != "cubic") {
      return InvalidArgument("attribute mode is \"", mode_, "\"");
    }
    if (padding_ != "zeros" && padding_ != "border" && padding_ != "reflection") {
      return InvalidArgument("attribute padding_mode is \"", padding_, "\"");
    }
    const Shape x = node_.input_type(0).shape;
    const Shape grid = node_.input_type(1).shape;
    const size_t axes = x.size() - 2;
    if (x.size() < 3 || grid.size() != x.size() || grid.back() != static_cast<int64_t>(axes) || grid[0] != x[0]) {
      return InvalidArgument("grid ", node_.input_type(1).ToString(), " for ", node_.input_type(0).ToString());
    }
    if (mode_ == "cubic" && axes != 2) return Unimplemented("cubic interpolation of other than images");
    if (std::find(x.begin(), x.end(), 0) != x.end()) return Unimplemented("an empty image");
    // Moves channels last: a position is then a row of the table that is read.
    const auto rank = static_cast<int64_t>(x.size());
    std::vector<int64_t> perm = AxesFrom(0, rank);
    perm.erase(perm.begin() + 1);
    perm.push_back(1);
    // The image and the grid may have two types; the wider one is used.
    const DType type = node_.input_type(0).dtype, of_grid = node_.input_type(1).dtype;
    computed_ = IsFloating(type) && IsFloating(of_grid) && BitsOf(of_grid) > BitsOf(type) ? of_grid : type;
    const Value image = node_.CastTo(node_.input(0), computed_);
    const Value positions = node_.CastTo(node_.input(1), computed_);
    const int64_t points = NumElements(Shape(x.begin() + 2, x.end()));
    const Value table = node_.Reshape(node_.Transpose(image, perm), {x[0] * points, x[1]});
    std::vector<std::vector<Tap>> taps;
    for (size_t k = 0; k < axes; ++k) {
      // The last axis of the image is the first coordinate.
      const auto at = static_cast<int64_t>(axes - 1 - k);
      taps.push_back(TapsOf(node_.SliceAxis(positions, rank - 1, at, at + 1), x[2 + k]));
    }
    std::vector<int64_t> back = AxesFrom(0, rank - 1);
    back.insert(back.begin() + 1, rank - 1);
    return OneOutput(node_.CastTo(node_.Transpose(SumOf(table, taps, x, points), back), type));
  }

 private:
  Value Number(double value) { return node_.Number(computed_, value); }
  Value Add(Value a, Value b) { return node_("add", {a, b}); }
  Value Sub(Value a, Value b) { return node_("sub", {a, b}); }
  Value Mul(Value a, Value b) { return node_("mul", {a, b}); }

  // Mirrors the position at both ends until it lies between them.
  Value Reflected(Value x, int64_t size) {
    const double low = align_ ? 0 : -0.5;
    const double high = static_cast<double>(size) - (align_ ? 1 : 0.5);
    if (high == low) return Mul(x, Number(0));
    const Value from_low = node_("abs", {Sub(x, Number(low))});
    const Value turns = node_("floor", {node_("div", {from_low, Number(high - low)})});
    const Value rest = Sub(from_low, Mul(turns, Number(high - low)));
    const Value half = node_("div", {turns, Number(2)});
    const Value is_odd = node_("not_equal", {half, node_("floor", {half})});
    return node_("where", {is_odd, Sub(Number(high), rest), Add(rest, Number(low))});
  }

  Value Clamped(Value x, int64_t size) {
    return node_("clip", {x}, {{"min", 0.0}, {"max", static_cast<double>(size - 1)}});
  }

  std::vector<Tap> TapsOf(Value coordinate, int64_t size) {
    const auto width = static_cast<double>(size);
    // Maps [-1, 1] to the centers of the elements at the border, or to their edges.
    const Value shifted = Add(coordinate, Number(1));
    Value x = align_ ? Mul(shifted, Number((width - 1) / 2)) : Sub(Mul(shifted, Number(width / 2)), Number(0.5));
    if (padding_ == "reflection") x = Reflected(x, size);
    if (padding_ == "border" && mode_ != "cubic") x = Clamped(x, size);
    if (mode_ == "nearest") return {{node_("round", {x}), Number(1)}};
    const Value first = node_("floor", {x});
    const Value t = Sub(x, first);
    if (mode_ == "linear") return {{first, Sub(Number(1), t)}, {Add(first, Number(1)), t}};
    std::vector<Tap> taps;
    for (int k = -1; k <= 2; ++k) {
      // Weight of cubic convolution with a = -0.75 (Keys 1981), by distance.
      const Value d = node_("abs", {Sub(t, Number(k))});
      const double a = -0.75;
      const Value near = Add(Mul(Mul(Sub(Mul(Number(a + 2), d), Number(a + 3)), d), d), Number(1));
      const Value far = Sub(Mul(Add(Mul(Sub(Mul(Number(a), d), Number(5 * a)), d), Number(8 * a)), d), Number(4 * a));
      taps.push_back({Add(first, Number(k)), k == 0 || k == 1 ? near : far});
    }
    return taps;
  }

  Value SumOf(Value table, const std::vector<std::vector<Tap>>& taps, const Shape& x, int64_t points) {
    // Row number at which each image begins.
    const Value number = node_.CountAlong(x[0], 0, static_cast<int>(x.size()));
    const Value base = Mul(number, node_.Number(number, static_cast<double>(points)));
    std::vector<size_t> chosen(taps.size(), 0);
    std::optional<Value> sum;
    while (true) {
      Value row, weight;
      for (size_t k = 0; k < taps.size(); ++k) {
        const Tap& tap = taps[k][chosen[k]];
        const int64_t size = x[2 + k];
        Value index = padding_ == "reflection" ? Reflected(tap.index, size) : tap.index;
        Value own = tap.weight;
        if (padding_ == "zeros") {
          const Value inside =
              node_("logical_and", {node_("less_equal", {Number(0), index}),
                                    node_("less_equal", {index, Number(static_cast<double>(size - 1))})});
          own = node_("where", {inside, own, Number(0)});
        }
        index = node_("cast", {Clamped(index, size)}, {{"to", DType::kInt64}});
        row = k == 0 ? index : Add(Mul(row, node_.Number(base, static_cast<double>(size))), index);
        weight = k == 0 ? own : Mul(weight, own);
      }
      row = Add(row, base);
      Shape shape = node_.shape(row);
      shape.pop_back();
      row = node_.Reshape(row, shape);
      const Value term = Mul(node_("gather", {table, row}, {{"axis", int64_t{0}}}), weight);
      sum = sum ? Add(*sum, term) : term;
      size_t k = 0;
      while (k < chosen.size() && ++chosen[k] == taps[k].size()) chosen[k++] = 0;
      if (k == chosen.size()) return *sum;
    }
  }

  OnnxNode& node_;
  std::string mode_, padding_;
  bool align_ = false;
  DType computed_ = DType::kFloat32;
};

Values GridSample(OnnxNode& node) { return GridSampler(node).Run(); }

// Returns the positions of an image of `size` under affine maps theta [n, d, d + 1], as GridSample reads them.
Values AffineGrid(OnnxNode& node) {
  const std::vector<int64_t> size = node.IntsInput(1, "size");
  const bool align = node.Flag("align_corners");
  const Value theta = node.input(0);
  if (size.size() < 4 || size.size() > 5) return InvalidArgument(size.size(), " sizes; expected 4 or 5");
  const auto axes = static_cast<int64_t>(size.size()) - 2;
  RETURN_IF_ERROR(OnnxNode::CheckMagnitude("size", size));
  if (node.shape(theta) != Shape{size[0], axes, axes + 1} || *std::min_element(size.begin(), size.end()) < 1) {
    return InvalidArgument("theta ", node.type(theta).ToString(), " for the size ", ShapeString(size));
  }
  ASSIGN_OR_RETURN(const int64_t points, CheckedElements(Shape(size.begin() + 2, size.end())));
  RETURN_IF_ERROR(node.CheckListed(points));
  const TensorType type{node.type(theta).dtype, {points, axes + 1}};
  RETURN_IF_ERROR(node.ChargeGenerated(type));
  // Rows (x, y, .., 1): the last axis is the first coordinate.
  std::vector<double> rows;
  for (int64_t i = 0; i < points; ++i) {
    std::vector<double> row(static_cast<size_t>(axes) + 1, 1);
    int64_t rest = i;
    for (int64_t k = 0; k < axes; ++k) {
      const int64_t width = size[static_cast<size_t>(1 + axes - k)];
      const auto at = static_cast<double>(rest % width);
      const auto count = static_cast<double>(width);
      row[static_cast<size_t>(k)] = !align ? (2 * at + 1) / count - 1 : width == 1 ? 0 : 2 * at / (count - 1) - 1;
      rest /= width;
    }
    rows.insert(rows.end(), row.begin(), row.end());
  }
  const Value grid = node.Constant(Tensor::FromVector(type.dtype, type.shape, rows));
  Shape shape(size.begin() + 2, size.end());
  shape.insert(shape.begin(), size[0]);
  shape.push_back(axes);
  return OneOutput(node.Reshape(node.Transpose(node.MapAxis(theta, grid, 2), {0, 2, 1}), shape));
}

}  // namespace

OnnxOperatorList GridOperators() {
  return {
      {"GridSample", {16, 22, 2, 2, GridSample}},
      {"AffineGrid", {20, 20, 2, 2, AffineGrid}},
  };
}

}  // namespace rewright
