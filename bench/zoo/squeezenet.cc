// SqueezeNet 1.1 (Iandola et al., 2016), as in torchvision.
#include "absl/strings/str_cat.h"
#include "bench/zoo/net.h"

namespace rewright::zoo {
namespace {

Value Fire(Net& net, Value x, const std::string& name, int64_t squeeze, int64_t expand) {
  const Value s = net.Relu(net.ConvBias(x, name + ".squeeze", Conv::Same(squeeze, 1)));
  const Value e1 = net.Relu(net.ConvBias(s, name + ".expand1x1", Conv::Same(expand, 1)));
  const Value e3 = net.Relu(net.ConvBias(s, name + ".expand3x3", Conv::Same(expand, 3)));
  return net.Concat({e1, e3}, 1);
}

}  // namespace

absl::StatusOr<Graph> BuildSqueezeNet(const ZooOptions& options) {
  Net net(options.seed);
  const Pool pool = {3, 2, 0, /*ceil_mode=*/true};
  Value x = ImageInput(net, options, 224);
  x = net.Relu(net.ConvBias(x, "features.0", Conv::Valid(64, 3, 2), kLinear));
  x = net.MaxPool(x, pool);
  x = Fire(net, x, "features.3", 16, 64);
  x = Fire(net, x, "features.4", 16, 64);
  x = net.MaxPool(x, pool);
  x = Fire(net, x, "features.6", 32, 128);
  x = Fire(net, x, "features.7", 32, 128);
  x = net.MaxPool(x, pool);
  x = Fire(net, x, "features.9", 48, 192);
  x = Fire(net, x, "features.10", 48, 192);
  x = Fire(net, x, "features.11", 64, 256);
  x = Fire(net, x, "features.12", 64, 256);
  x = net.Relu(net.ConvBias(x, "classifier.1", Conv::Same(1000, 1)));
  return net.Finish({{net.GlobalAverage(x), "output"}});
}

}  // namespace rewright::zoo
