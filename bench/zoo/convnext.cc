// ConvNeXt-T (Liu et al., CVPR'22), as in torchvision: stages of 96, 192, 384 and 768 channels, blocks of a depthwise
// convolution of 7x7 and two linear layers over the channels, with gelu written out. Layer norms and linear layers act
// on the last axis, so images are transposed before them and back behind them, as PyTorch's exporter writes it.
#include "absl/strings/str_cat.h"
#include "bench/zoo/net.h"

namespace rewright::zoo {
namespace {

constexpr double kConvNeXtEpsilon = 1e-6;
constexpr int64_t kExpansion = 4;
// Mean of the factors by channel on a residual branch; they begin at 1e-6 and are trained.
constexpr double kLayerScale = 0.5;

Value ChannelsLast(Net& net, Value x) { return net.Transpose(x, {0, 2, 3, 1}); }
Value ChannelsFirst(Net& net, Value x) { return net.Transpose(x, {0, 3, 1, 2}); }

Value LayerNorm2d(Net& net, Value x, const std::string& name) {
  return ChannelsFirst(net, net.LayerNorm(ChannelsLast(net, x), name, kConvNeXtEpsilon));
}

Value Block(Net& net, Value x, const std::string& name) {
  const int64_t channels = net.Dim(x, 1);
  Value y = net.ConvBias(x, name + ".block.0", Conv::Same(channels, 7, 1, channels), kLinear);
  y = net.LayerNorm(ChannelsLast(net, y), name + ".block.2", kConvNeXtEpsilon);
  y = net.Gelu(net.Linear(y, name + ".block.3", kExpansion * channels));
  y = ChannelsFirst(net, net.Linear(y, name + ".block.5", channels, kAfterRelu));
  return net.Add(x, net.Mul(net.Weight(name + ".layer_scale", {channels, 1, 1}, kLayerScale, 0.1), y));
}

}  // namespace

absl::StatusOr<Graph> BuildConvNeXtTiny(const ZooOptions& options) {
  struct Stage {
    int64_t channels, blocks;
  };
  Net net(options.seed);
  Value x = ImageInput(net, options, 224);
  x = net.ConvBias(x, "features.0.0", Conv::Valid(96, 4, 4), kLinear);
  x = LayerNorm2d(net, x, "features.0.1");
  int position = 1;
  for (const Stage& stage : {Stage{96, 3}, Stage{192, 3}, Stage{384, 9}, Stage{768, 3}}) {
    if (position > 1) {
      x = LayerNorm2d(net, x, absl::StrCat("features.", position, ".0"));
      x = net.ConvBias(x, absl::StrCat("features.", position, ".1"), Conv::Valid(stage.channels, 2, 2), kLinear);
      ++position;
    }
    for (int64_t i = 0; i < stage.blocks; ++i) x = Block(net, x, absl::StrCat("features.", position, ".", i));
    ++position;
  }
  x = net.Op("reduce_mean", {x}, {{"axes", Shape{2, 3}}, {"keepdims", int64_t{1}}});
  x = LayerNorm2d(net, x, "classifier.0");
  x = net.Reshape(x, {net.Dim(x, 0), net.Dim(x, 1)});
  return net.Finish({{net.Linear(x, "classifier.2", 1000), "output"}});
}

}  // namespace rewright::zoo
