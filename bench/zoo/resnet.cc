// ResNet-50 (He et al., CVPR'16) and ResNeXt-50 32x4d (Xie et al., CVPR'17), as in torchvision: the stride of a block
// is on its 3x3 convolution.
#include "absl/strings/str_cat.h"
#include "bench/zoo/net.h"

namespace rewright::zoo {
namespace {

struct Variant {
  int64_t groups = 1;
  int64_t width_per_group = 64;
};

Value Bottleneck(Net& net, Value x, const std::string& name, int64_t planes, int64_t stride, const Variant& variant) {
  const int64_t width = planes * variant.width_per_group / 64 * variant.groups;
  const int64_t out = planes * 4;
  Value y = net.Conv2d(x, name + ".conv1", Conv::Same(width, 1));
  y = net.Relu(net.BatchNorm(y, name + ".bn1"));
  y = net.Conv2d(y, name + ".conv2", Conv::Same(width, 3, stride, variant.groups));
  y = net.Relu(net.BatchNorm(y, name + ".bn2"));
  y = net.Conv2d(y, name + ".conv3", Conv::Same(out, 1));
  y = net.BatchNorm(y, name + ".bn3", 1e-5, kResidualGain);
  Value shortcut = x;
  if (stride != 1 || net.Dim(x, 1) != out) {
    shortcut = net.Conv2d(x, name + ".downsample.0", Conv::Same(out, 1, stride));
    shortcut = net.BatchNorm(shortcut, name + ".downsample.1");
  }
  return net.Relu(net.Add(y, shortcut));
}

absl::StatusOr<Graph> Build(const ZooOptions& options, const Variant& variant) {
  Net net(options.seed);
  Value x = ImageInput(net, options, 224);
  x = net.Conv2d(x, "conv1", Conv::Same(64, 7, 2), kLinear);
  x = net.Relu(net.BatchNorm(x, "bn1"));
  x = net.MaxPool(x, {3, 2, 1});
  const int64_t blocks[] = {3, 4, 6, 3};
  for (int stage = 0; stage < 4; ++stage) {
    const int64_t planes = int64_t{64} << stage;
    for (int64_t block = 0; block < blocks[stage]; ++block) {
      const int64_t stride = block == 0 && stage > 0 ? 2 : 1;
      x = Bottleneck(net, x, absl::StrCat("layer", stage + 1, ".", block), planes, stride, variant);
    }
  }
  return net.Finish({{net.Linear(net.GlobalAverage(x), "fc", 1000), "output"}});
}

}  // namespace

absl::StatusOr<Graph> BuildResNet50(const ZooOptions& options) { return Build(options, {1, 64}); }
absl::StatusOr<Graph> BuildResNeXt50(const ZooOptions& options) { return Build(options, {32, 4}); }

// relu(conv 3x3 (relu(conv 3x3 (x))) + conv 1x1 (x)): whether the 1x1 kernel should grow, so that both readers of x are
// one convolution, depends on the device.
absl::StatusOr<Graph> BuildResidualBlock(const ZooOptions& options) {
  Net net(options.seed);
  const int64_t width = Default(options.width, 256), size = Default(options.image_size, 14);
  const Value x = net.Input("input", DType::kFloat32, {Default(options.batch, 1), width, size, size});
  const Value left =
      net.Conv2d(net.Relu(net.Conv2d(x, "conv1", Conv::Same(width, 3), kLinear)), "conv2", Conv::Same(width, 3));
  const Value right = net.Conv2d(x, "shortcut", Conv::Same(width, 1), kLinear);
  return net.Finish({{net.Relu(net.Add(left, right)), "output"}});
}

}  // namespace rewright::zoo
