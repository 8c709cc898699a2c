// MobileNetV2 (Sandler et al., CVPR'18), as in torchvision. relu6 is clip to [0, 6].
#include "absl/strings/str_cat.h"
#include "bench/zoo/net.h"

namespace rewright::zoo {
namespace {

Value ConvBnRelu6(Net& net, Value x, const std::string& name, const Conv& conv, Gain gain) {
  x = net.BatchNorm(net.Conv2d(x, name + ".0", conv, gain), name + ".1");
  return net.Op("clip", {x}, {{"min", 0.0}, {"max", 6.0}});
}

Value InvertedResidual(Net& net, Value x, const std::string& block, int64_t out, int64_t stride, int64_t expand) {
  const int64_t in = net.Dim(x, 1);
  const int64_t hidden = in * expand;
  const std::string name = block + ".conv";
  int position = 0;
  Value y = x;
  if (expand != 1) y = ConvBnRelu6(net, y, absl::StrCat(name, ".", position++), Conv::Same(hidden, 1), kLinear);
  y = ConvBnRelu6(net, y, absl::StrCat(name, ".", position++), Conv::Same(hidden, 3, stride, hidden), kAfterRelu);
  y = net.Conv2d(y, absl::StrCat(name, ".", position), Conv::Same(out, 1));
  const bool residual = stride == 1 && in == out;
  y = net.BatchNorm(y, absl::StrCat(name, ".", position + 1), 1e-5, residual ? kResidualGain : 1);
  return residual ? net.Add(x, y) : y;
}

}  // namespace

absl::StatusOr<Graph> BuildMobileNetV2(const ZooOptions& options) {
  struct Stage {
    int64_t expand, out, repeats, stride;
  };
  const Stage stages[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                          {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
  Net net(options.seed);
  Value x = ImageInput(net, options, 224);
  int position = 0;
  x = ConvBnRelu6(net, x, absl::StrCat("features.", position++), Conv::Same(32, 3, 2), kLinear);
  for (const Stage& stage : stages) {
    for (int64_t i = 0; i < stage.repeats; ++i) {
      const int64_t stride = i == 0 ? stage.stride : 1;
      x = InvertedResidual(net, x, absl::StrCat("features.", position++), stage.out, stride, stage.expand);
    }
  }
  x = ConvBnRelu6(net, x, absl::StrCat("features.", position), Conv::Same(1280, 1), kLinear);
  return net.Finish({{net.Linear(net.GlobalAverage(x), "classifier.1", 1000), "output"}});
}

}  // namespace rewright::zoo
