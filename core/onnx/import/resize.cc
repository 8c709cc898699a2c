// Resize and Upsample: each output position along an axis reads a few input positions, with weights that are known.
#include <algorithm>
#include <cmath>
#include <map>

#include "core/base/status_macros.h"
#include "core/onnx/operators.h"

namespace rewright {
namespace {

// Up to this number of input positions per output position, adding them up is cheaper than a product with a matrix.
constexpr size_t kMaxTaps = 4;
constexpr int64_t kMaxSize = 1 << 18;  // of an axis that is resized

// One axis that is resized: `scale` is the requested one; if it was given, out / in only approximates it.
struct AxisResize {
  int64_t axis = 0;
  int64_t in = 0, out = 0;
  double scale = 1;
  double begin = 0, end = 1;  // the part of the axis that is read, for tf_crop_and_resize

  bool IsIdentity() const { return in == out && scale == 1 && begin == 0 && end == 1; }
};

struct Modes {
  std::string mode = "nearest";
  std::string coordinates = "asymmetric";  // before opset 11
  std::string nearest = "floor";
  double cubic_a = -0.75;
  bool exclude_outside = false;
  bool antialias = false;
  double extrapolation = 0;
};

// Returns the position on the input axis for an output position (ONNX's coordinate_transformation_mode).
double SourceOf(const AxisResize& axis, const std::string& coordinates, double x) {
  const double width = axis.scale * static_cast<double>(axis.in);  // of the output, before rounding
  const double last = static_cast<double>(axis.in - 1);
  const double half = (x + 0.5) / axis.scale - 0.5;
  if (coordinates == "align_corners") return width == 1 ? 0 : x * last / (width - 1);
  if (coordinates == "asymmetric") return x / axis.scale;
  if (coordinates == "tf_half_pixel_for_nn") return (x + 0.5) / axis.scale;
  if (coordinates == "pytorch_half_pixel") return width == 1 ? 0 : half;
  if (coordinates == "half_pixel_symmetric") {
    return static_cast<double>(axis.in) / 2 * (1 - static_cast<double>(axis.out) / width) + half;
  }
  if (coordinates == "tf_crop_and_resize") {
    const double extent = (axis.end - axis.begin) * last;
    return axis.begin * last + (width == 1 ? extent / 2 : x * extent / (width - 1));
  }
  return half;
}

int64_t NearestTo(double x, const std::string& mode) {
  if (mode == "floor") return static_cast<int64_t>(std::floor(x));
  if (mode == "ceil") return static_cast<int64_t>(std::ceil(x));
  return static_cast<int64_t>(mode == "round_prefer_ceil" ? std::floor(x + 0.5) : std::ceil(x - 0.5));
}

// Returns the weight of an element at distance t: linear, or cubic convolution (Keys 1981).
double Kernel(const Modes& modes, double t) {
  t = std::abs(t);
  if (modes.mode == "linear") return std::max(0.0, 1 - t);
  const double a = modes.cubic_a;
  if (t <= 1) return ((a + 2) * t - (a + 3)) * t * t + 1;
  return t < 2 ? ((a * t - 5 * a) * t + 8 * a) * t - 4 * a : 0;
}

using Taps = std::map<int64_t, double>;  // weight by input position

// Positions outside become those at the border, or are left out.
Taps TapsAt(const AxisResize& axis, const Modes& modes, double x) {
  Taps taps;
  const auto clamped = [&](int64_t i) { return std::clamp<int64_t>(i, 0, axis.in - 1); };
  if (modes.mode == "nearest") {
    taps[clamped(NearestTo(x, modes.nearest))] = 1;
    return taps;
  }
  // Antialiasing widens the kernel if an axis shrinks, so that all elements take part.
  const double stretch = modes.antialias ? std::min(axis.scale, 1.0) : 1;
  const double reach = (modes.mode == "linear" ? 1 : 2) / stretch;
  double sum = 0;
  for (auto i = static_cast<int64_t>(std::floor(x - reach)); i <= static_cast<int64_t>(std::ceil(x + reach)); ++i) {
    const double weight = Kernel(modes, (static_cast<double>(i) - x) * stretch);
    if (weight == 0 || (modes.exclude_outside && clamped(i) != i)) continue;
    taps[clamped(i)] += weight;
    sum += weight;
  }
  for (auto& [i, weight] : taps) weight /= sum;
  return taps;
}

class Resizer {
 public:
  Resizer(OnnxNode& node, Modes modes) : node_(node), modes_(std::move(modes)) {}

  absl::StatusOr<Value> Along(Value x, const AxisResize& axis) {
    std::vector<Taps> taps(static_cast<size_t>(axis.out));
    std::vector<bool> outside(taps.size());
    size_t most = 1;
    for (size_t i = 0; i < taps.size(); ++i) {
      const double source = SourceOf(axis, modes_.coordinates, static_cast<double>(i));
      if (!(std::abs(source) < 1e15)) return InvalidArgument("resizing by ", axis.scale);
      taps[i] = TapsAt(axis, modes_, source);
      if (taps[i].empty()) return Unimplemented("exclude_outside where no element is inside");
      most = std::max(most, taps[i].size());
      outside[i] =
          modes_.coordinates == "tf_crop_and_resize" && (source < 0 || source > static_cast<double>(axis.in - 1));
    }
    ASSIGN_OR_RETURN(const Value y, most <= kMaxTaps ? Sum(x, axis, taps, most) : Product(x, axis, taps));
    return Extrapolated(y, axis, outside);
  }

 private:
  // Sums the elements at the first, second, .. positions that are read, each times its weight.
  absl::StatusOr<Value> Sum(Value x, const AxisResize& axis, const std::vector<Taps>& taps, size_t most) {
    const DType dtype = node_.type(x).dtype;
    RETURN_IF_ERROR(node_.ChargeGenerated({DType::kInt64, {axis.out, static_cast<int64_t>(2 * most)}}));
    Value sum;
    for (size_t k = 0; k < most; ++k) {
      std::vector<int64_t> indices;
      std::vector<double> weights;
      for (const Taps& row : taps) {
        const auto tap = k < row.size() ? std::next(row.begin(), static_cast<ptrdiff_t>(k)) : row.begin();
        indices.push_back(tap->first);
        weights.push_back(k < row.size() ? tap->second : 0);
      }
      Value term = node_("gather", {x, node_.Constant(Tensor::Int64s(indices))}, {{"axis", axis.axis}});
      if (most > 1 || modes_.mode != "nearest") {
        term = node_("mul", {term, AlongAxis(Tensor::FromVector(dtype, {axis.out}, weights), axis.axis, x)});
      }
      sum = k == 0 ? term : node_("add", {sum, term});
    }
    return sum;
  }

  absl::StatusOr<Value> Product(Value x, const AxisResize& axis, const std::vector<Taps>& taps) {
    const TensorType type{node_.type(x).dtype, {axis.out, axis.in}};
    RETURN_IF_ERROR(node_.CheckListed(axis.out * axis.in));
    RETURN_IF_ERROR(node_.ChargeGenerated(type));
    std::vector<double> weights(static_cast<size_t>(axis.out * axis.in), 0);
    for (size_t i = 0; i < taps.size(); ++i) {
      for (const auto& [k, weight] : taps[i])
        weights[i * static_cast<size_t>(axis.in) + static_cast<size_t>(k)] = weight;
    }
    const Value matrix = node_.Constant(Tensor::FromVector(type.dtype, type.shape, weights));
    return node_.MapAxis(x, matrix, axis.axis);
  }

  Value Extrapolated(Value y, const AxisResize& axis, const std::vector<bool>& outside) {
    if (std::find(outside.begin(), outside.end(), true) == outside.end()) return y;
    const Tensor mask =
        Tensor::FromVector(DType::kBool, {axis.out}, std::vector<double>(outside.begin(), outside.end()));
    return node_("where", {AlongAxis(mask, axis.axis, y), node_.Number(y, modes_.extrapolation), y});
  }

  // Returns a list as a tensor that broadcasts along the other axes of `like`.
  Value AlongAxis(const Tensor& list, int64_t axis, Value like) {
    Shape shape(static_cast<size_t>(node_.type(like).rank() - axis), 1);
    shape[0] = list.num_elements();
    return node_.Reshape(node_.Constant(list), shape);
  }

  OnnxNode& node_;
  const Modes modes_;
};

absl::StatusOr<Modes> ReadModes(OnnxNode& node) {
  Modes modes;
  modes.mode = node.String("mode", "nearest");
  if (modes.mode == "bilinear") modes.mode = "linear";  // of opset 7 and 8
  if (modes.mode != "nearest" && modes.mode != "linear" && modes.mode != "cubic") {
    return InvalidArgument("attribute mode is \"", modes.mode, "\"; expected nearest, linear or cubic");
  }
  if (node.op_type() != "Resize" || node.opset() < 11) return modes;
  modes.coordinates = node.String("coordinate_transformation_mode", "half_pixel");
  modes.nearest = node.String("nearest_mode", "round_prefer_floor");
  modes.cubic_a = node.Float("cubic_coeff_a", -0.75);
  modes.exclude_outside = node.Flag("exclude_outside");
  modes.antialias = node.Flag("antialias");
  modes.extrapolation = node.Float("extrapolation_value", 0);
  const std::vector<std::string> known = {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners",
                                          "asymmetric", "tf_half_pixel_for_nn", "tf_crop_and_resize"};
  if (std::find(known.begin(), known.end(), modes.coordinates) == known.end()) {
    return InvalidArgument("attribute coordinate_transformation_mode is \"", modes.coordinates, "\"");
  }
  return modes;
}

// Returns a list of reals from an input, or from an attribute before opset 9; empty if it is not given.
std::vector<double> Reals(OnnxNode& node, int input, const std::string& name) {
  std::vector<double> reals;
  if (!node.has_input(input)) return reals;
  const Tensor tensor = node.ConstantInput(input, name);
  for (int64_t i = 0; i < tensor.num_elements(); ++i) reals.push_back(tensor.At(i));
  return reals;
}

// Reads the resizes of the named axes, from scales or sizes, whichever is given.
absl::StatusOr<std::vector<AxisResize>> ReadResizes(OnnxNode& node) {
  const Shape& shape = node.input_type(0).shape;
  const bool resize = node.op_type() == "Resize";
  const bool newer = resize && node.opset() >= 11;
  std::vector<int64_t> given = AxesFrom(0, node.input_rank(0));
  if (newer) given = node.Ints("axes", given);
  ASSIGN_OR_RETURN(const std::vector<int64_t> names, OnnxNode::Axes(given, node.input_rank(0)));
  const std::vector<double> scales =
      !resize && node.opset() < 9 ? node.Floats("scales") : Reals(node, newer ? 2 : 1, "scales");
  std::vector<double> roi;
  std::vector<int64_t> sizes;
  if (newer && node.has_input(3)) sizes = node.IntsInput(3, "sizes");
  if (newer) roi = Reals(node, 1, "roi");
  if (scales.empty() == sizes.empty()) return InvalidArgument("either scales or sizes are given");
  const std::string policy = node.String("keep_aspect_ratio_policy", "stretch");
  if (std::max(scales.size(), sizes.size()) != names.size()) {
    return InvalidArgument(std::max(scales.size(), sizes.size()), " scales or sizes for ", names.size(), " axes");
  }
  std::vector<AxisResize> axes;
  for (size_t i = 0; i < names.size(); ++i) {
    AxisResize axis;
    axis.axis = names[i];
    axis.in = shape[static_cast<size_t>(names[i])];
    if (axis.in == 0) return Unimplemented("resizing an empty axis");
    axis.scale = scales.empty() ? static_cast<double>(sizes[i]) / static_cast<double>(axis.in) : scales[i];
    if (roi.size() == 2 * names.size()) {
      axis.begin = roi[i];
      axis.end = roi[i + names.size()];
    }
    axes.push_back(axis);
  }
  if (!sizes.empty() && policy != "stretch") {
    const auto [low, high] = std::minmax_element(
        axes.begin(), axes.end(), [](const AxisResize& a, const AxisResize& b) { return a.scale < b.scale; });
    const double scale = policy == "not_larger" ? low->scale : high->scale;
    for (AxisResize& axis : axes) axis.scale = scale;
  }
  for (size_t i = 0; i < axes.size(); ++i) {
    AxisResize& axis = axes[i];
    const double size = axis.scale * static_cast<double>(axis.in);
    if (!(size >= 1 && size < 2147483648.0)) {
      return InvalidArgument("resizing ", axis.in, " by ", axis.scale);
    }
    axis.out = static_cast<int64_t>(size);
    if (!sizes.empty()) axis.out = policy == "stretch" ? sizes[i] : static_cast<int64_t>(size + 0.5);
    if (!axis.IsIdentity() && std::max(axis.in, axis.out) > kMaxSize) {
      return Unimplemented("resizing ", axis.in, " to ", axis.out);
    }
  }
  return axes;
}

// Integer factors that repeat every element.
bool Repeats(const AxisResize& axis, const Modes& modes) {
  if (modes.mode != "nearest" || axis.out % axis.in != 0 || modes.coordinates == "tf_crop_and_resize") return false;
  for (int64_t i = 0; i < axis.out; ++i) {
    const Taps taps = TapsAt(axis, modes, SourceOf(axis, modes.coordinates, static_cast<double>(i)));
    if (taps.begin()->first != i / (axis.out / axis.in)) return false;
  }
  return true;
}

Values Resize(OnnxNode& node) {
  ASSIGN_OR_RETURN(const Modes modes, ReadModes(node));
  ASSIGN_OR_RETURN(const std::vector<AxisResize> axes, ReadResizes(node));
  Value x = node.input(0);
  if (modes.mode != "nearest" && !IsFloating(node.type(x).dtype)) {
    return Unimplemented("mode ", modes.mode, " of integers");
  }
  std::vector<int64_t> repeats(node.shape(x).size(), 1);
  for (const AxisResize& axis : axes) {
    if (Repeats(axis, modes)) repeats[static_cast<size_t>(axis.axis)] = axis.out / axis.in;
  }
  x = Repeat(node, x, repeats, /*inner=*/true);
  Resizer resizer(node, modes);
  for (const AxisResize& axis : axes) {
    if (axis.IsIdentity() || Repeats(axis, modes)) continue;
    ASSIGN_OR_RETURN(x, resizer.Along(x, axis));
  }
  return std::vector<Value>{x};
}

}  // namespace

OnnxOperatorList ResizeOperators() {
  return {
      {"Upsample", {7, 10, 1, 2, Resize}},
      {"Resize", {10, 19, 1, 4, Resize}},
  };
}

}  // namespace rewright
