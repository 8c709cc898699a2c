// NASNet-A (Zoph et al., CVPR'18), the mobile form "4 @ 1056": cells as in figure 4 of the paper and the authors'
// program, separable convolutions applied twice, a batch norm after each.
#include "absl/strings/str_cat.h"
#include "bench/zoo/net.h"

namespace rewright::zoo {
namespace {

constexpr double kNasNetEpsilon = 1e-3;
// A node of a cell adds two branches: each keeps half of the variance.
constexpr double kBranch = 0.70710678118654752;

Value ConvNorm(Net& net, Value x, const std::string& name, const Conv& conv, Gain gain = kAfterRelu) {
  return net.BatchNorm(net.Conv2d(x, name + ".conv", conv, gain), name + ".bn", kNasNetEpsilon);
}

// Twice relu, depthwise, pointwise, batch norm; the first has the stride.
Value Separable(Net& net, Value x, const std::string& name, int64_t channels, int64_t kernel, int64_t stride) {
  for (int layer = 1; layer <= 2; ++layer) {
    const std::string at = absl::StrCat(name, ".", layer);
    const int64_t in = net.Dim(x, 1);
    const Conv depthwise = Conv::Same(in, kernel, layer == 1 ? stride : 1, in);
    x = net.Conv2d(net.Relu(x), at + ".depthwise", depthwise, kAfterRelu);
    x = net.Conv2d(x, at + ".pointwise", Conv::Same(channels, 1), kLinear);
    x = net.BatchNorm(x, at + ".bn", kNasNetEpsilon, layer == 1 ? 1 : kBranch);
  }
  return x;
}

// Halves the image by two 1x1 paths, the second shifted by one pixel.
Value FactorizedReduction(Net& net, Value x, const std::string& name, int64_t channels) {
  x = net.Relu(x);
  const Pool every_second = {1, 2, 0};
  const Value first = net.Conv2d(net.AvgPool(x, every_second), name + ".path1", Conv::Same(channels / 2, 1));
  const int64_t n = net.Dim(x, 0), c = net.Dim(x, 1), h = net.Dim(x, 2), w = net.Dim(x, 3);
  const Value padded = net.Op("pad", {x}, {{"before", Shape{0, 0, 0, 0}}, {"after", Shape{0, 0, 1, 1}}});
  const Value shifted =
      net.Op("slice", {padded}, {{"starts", Shape{0, 0, 1, 1}}, {"stops", Shape{n, c, h + 1, w + 1}}});
  const Value second =
      net.Conv2d(net.AvgPool(shifted, every_second), name + ".path2", Conv::Same(channels - channels / 2, 1));
  return net.BatchNorm(net.Concat({first, second}, 1), name + ".bn", kNasNetEpsilon);
}

struct Cell {
  Net& net;
  std::string name;
  int64_t channels;
  int count = 0;

  // The previous cell's output, brought to the size and the channels of this one. The first cell has none, and reads
  // its input twice as it is.
  Value Fit(Value previous, Value current) {
    if (previous == current) return current;
    if (net.Dim(previous, 2) != net.Dim(current, 2)) {
      return FactorizedReduction(net, previous, name + ".fit", channels);
    }
    return ConvNorm(net, net.Relu(previous), name + ".fit", Conv::Same(channels, 1));
  }
  Value Squeeze(Value current) { return ConvNorm(net, net.Relu(current), name + ".squeeze", Conv::Same(channels, 1)); }
  Value Sep(Value x, int64_t kernel, int64_t stride = 1) {
    return Separable(net, x, absl::StrCat(name, ".separable", count++), channels, kernel, stride);
  }
  Value Average(Value x, int64_t stride = 1) { return net.AvgPool(x, {3, stride, 1}, /*count_include_pad=*/false); }
  Value Max(Value x) { return net.MaxPool(x, {3, 2, 1}); }
};

Value NormalCell(Net& net, Value previous, Value current, const std::string& name, int64_t channels) {
  Cell cell{net, name, channels};
  const Value p = cell.Fit(previous, current), h = cell.Squeeze(current);
  const Value a_first = cell.Sep(h, 5), a = net.Add(a_first, cell.Sep(p, 3));
  const Value b_first = cell.Sep(p, 5), b = net.Add(b_first, cell.Sep(p, 3));
  const Value c = net.Add(cell.Average(h), p);
  const Value d = net.Add(cell.Average(p), cell.Average(p));
  const Value e = net.Add(cell.Sep(h, 3), h);
  return net.Concat({p, a, b, c, d, e}, 1);
}

Value ReductionCell(Net& net, Value previous, Value current, const std::string& name, int64_t channels) {
  Cell cell{net, name, channels};
  const Value p = cell.Fit(previous, current), h = cell.Squeeze(current);
  const Value a_first = cell.Sep(h, 5, 2), a = net.Add(a_first, cell.Sep(p, 7, 2));
  const Value b = net.Add(cell.Max(h), cell.Sep(p, 7, 2));
  const Value c = net.Add(cell.Average(h, 2), cell.Sep(p, 5, 2));
  const Value d = net.Add(b, cell.Average(a));
  const Value e = net.Add(cell.Sep(a, 3), cell.Max(h));
  return net.Concat({b, c, d, e}, 1);
}

}  // namespace

absl::StatusOr<Graph> BuildNasNetA(const ZooOptions& options) {
  // The last cells give 24 times as many channels as the first normal cell has filters.
  const int64_t filters = Default(options.width, 1056) / 24;
  if (filters < 4 || Default(options.width, 1056) % 24 != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("the width is ", options.width, "; expected a multiple of 24, at least 96"));
  }
  Net net(options.seed);
  const Value image = ImageInput(net, options, 224);
  const Value stem = ConvNorm(net, image, "conv0", Conv::Valid(32, 3, 2), kLinear);
  const Value stem0 = ReductionCell(net, stem, stem, "cell_stem_0", filters / 4);
  Value previous = stem0, current = ReductionCell(net, stem, stem0, "cell_stem_1", filters / 2);
  const int64_t normal_cells = Default(options.layers, 4);
  int index = 0;
  for (int stage = 0; stage < 3; ++stage) {
    const int64_t channels = filters << stage;
    if (stage > 0) {
      const Value reduced = ReductionCell(net, previous, current, absl::StrCat("reduction_cell_", stage - 1), channels);
      previous = current;
      current = reduced;
    }
    for (int64_t cell = 0; cell < normal_cells; ++cell) {
      const Value next = NormalCell(net, previous, current, absl::StrCat("cell_", index++), channels);
      previous = current;
      current = next;
    }
  }
  const Value features = net.GlobalAverage(net.Relu(current));
  return net.Finish({{net.Linear(features, "last_linear", 1000), "output"}});
}

}  // namespace rewright::zoo
