// Inception v3 (Szegedy et al., CVPR'16), as in torchvision's inference graph (no auxiliary classifier).
#include "absl/strings/str_cat.h"
#include "bench/zoo/net.h"

namespace rewright::zoo {
namespace {

// A module of the network: names its layers and applies convolution, batch norm, relu.
class Module {
 public:
  Module(Net& net, std::string name) : net_(net), name_(std::move(name)) {}

  Value ConvBnRelu(Value x, const std::string& layer, const Conv& conv, Gain gain = kAfterRelu) const {
    const std::string name = name_.empty() ? layer : name_ + "." + layer;
    return net_.Relu(net_.BatchNorm(net_.Conv2d(x, name + ".conv", conv, gain), name + ".bn", 1e-3));
  }
  Value Average(Value x) const { return net_.AvgPool(x, {3, 1, 1}); }
  Value Reduce(Value x) const { return net_.MaxPool(x, {3, 2, 0}); }
  Value Join(const std::vector<Value>& parts) const { return net_.Concat(parts, 1); }

 private:
  Net& net_;
  std::string name_;
};

Value InceptionA(const Module& m, Value x, int64_t pool_features) {
  const Value b1 = m.ConvBnRelu(x, "branch1x1", Conv::Same(64, 1));
  Value b5 = m.ConvBnRelu(x, "branch5x5_1", Conv::Same(48, 1));
  b5 = m.ConvBnRelu(b5, "branch5x5_2", Conv::Same(64, 5));
  Value b3 = m.ConvBnRelu(x, "branch3x3dbl_1", Conv::Same(64, 1));
  b3 = m.ConvBnRelu(b3, "branch3x3dbl_2", Conv::Same(96, 3));
  b3 = m.ConvBnRelu(b3, "branch3x3dbl_3", Conv::Same(96, 3));
  const Value pool = m.ConvBnRelu(m.Average(x), "branch_pool", Conv::Same(pool_features, 1));
  return m.Join({b1, b5, b3, pool});
}

Value InceptionB(const Module& m, Value x) {
  const Value b3 = m.ConvBnRelu(x, "branch3x3", Conv::Valid(384, 3, 2));
  Value dbl = m.ConvBnRelu(x, "branch3x3dbl_1", Conv::Same(64, 1));
  dbl = m.ConvBnRelu(dbl, "branch3x3dbl_2", Conv::Same(96, 3));
  dbl = m.ConvBnRelu(dbl, "branch3x3dbl_3", Conv::Valid(96, 3, 2));
  return m.Join({b3, dbl, m.Reduce(x)});
}

Value InceptionC(const Module& m, Value x, int64_t c7) {
  const Value b1 = m.ConvBnRelu(x, "branch1x1", Conv::Same(192, 1));
  Value b7 = m.ConvBnRelu(x, "branch7x7_1", Conv::Same(c7, 1));
  b7 = m.ConvBnRelu(b7, "branch7x7_2", Conv::Rect(c7, 1, 7));
  b7 = m.ConvBnRelu(b7, "branch7x7_3", Conv::Rect(192, 7, 1));
  Value dbl = m.ConvBnRelu(x, "branch7x7dbl_1", Conv::Same(c7, 1));
  dbl = m.ConvBnRelu(dbl, "branch7x7dbl_2", Conv::Rect(c7, 7, 1));
  dbl = m.ConvBnRelu(dbl, "branch7x7dbl_3", Conv::Rect(c7, 1, 7));
  dbl = m.ConvBnRelu(dbl, "branch7x7dbl_4", Conv::Rect(c7, 7, 1));
  dbl = m.ConvBnRelu(dbl, "branch7x7dbl_5", Conv::Rect(192, 1, 7));
  const Value pool = m.ConvBnRelu(m.Average(x), "branch_pool", Conv::Same(192, 1));
  return m.Join({b1, b7, dbl, pool});
}

Value InceptionD(const Module& m, Value x) {
  Value b3 = m.ConvBnRelu(x, "branch3x3_1", Conv::Same(192, 1));
  b3 = m.ConvBnRelu(b3, "branch3x3_2", Conv::Valid(320, 3, 2));
  Value b7 = m.ConvBnRelu(x, "branch7x7x3_1", Conv::Same(192, 1));
  b7 = m.ConvBnRelu(b7, "branch7x7x3_2", Conv::Rect(192, 1, 7));
  b7 = m.ConvBnRelu(b7, "branch7x7x3_3", Conv::Rect(192, 7, 1));
  b7 = m.ConvBnRelu(b7, "branch7x7x3_4", Conv::Valid(192, 3, 2));
  return m.Join({b3, b7, m.Reduce(x)});
}

Value InceptionE(const Module& m, Value x) {
  const Value b1 = m.ConvBnRelu(x, "branch1x1", Conv::Same(320, 1));
  const Value b3 = m.ConvBnRelu(x, "branch3x3_1", Conv::Same(384, 1));
  const Value b3a = m.ConvBnRelu(b3, "branch3x3_2a", Conv::Rect(384, 1, 3));
  const Value b3b = m.ConvBnRelu(b3, "branch3x3_2b", Conv::Rect(384, 3, 1));
  Value dbl = m.ConvBnRelu(x, "branch3x3dbl_1", Conv::Same(448, 1));
  dbl = m.ConvBnRelu(dbl, "branch3x3dbl_2", Conv::Same(384, 3));
  const Value dbla = m.ConvBnRelu(dbl, "branch3x3dbl_3a", Conv::Rect(384, 1, 3));
  const Value dblb = m.ConvBnRelu(dbl, "branch3x3dbl_3b", Conv::Rect(384, 3, 1));
  const Value pool = m.ConvBnRelu(m.Average(x), "branch_pool", Conv::Same(192, 1));
  return m.Join({b1, m.Join({b3a, b3b}), m.Join({dbla, dblb}), pool});
}

}  // namespace

absl::StatusOr<Graph> BuildInceptionV3(const ZooOptions& options) {
  Net net(options.seed);
  const Module stem(net, "");
  Value x = ImageInput(net, options, 299);
  x = stem.ConvBnRelu(x, "Conv2d_1a_3x3", Conv::Valid(32, 3, 2), kLinear);
  x = stem.ConvBnRelu(x, "Conv2d_2a_3x3", Conv::Valid(32, 3));
  x = stem.ConvBnRelu(x, "Conv2d_2b_3x3", Conv::Same(64, 3));
  x = stem.Reduce(x);
  x = stem.ConvBnRelu(x, "Conv2d_3b_1x1", Conv::Same(80, 1));
  x = stem.ConvBnRelu(x, "Conv2d_4a_3x3", Conv::Valid(192, 3));
  x = stem.Reduce(x);
  x = InceptionA(Module(net, "Mixed_5b"), x, 32);
  x = InceptionA(Module(net, "Mixed_5c"), x, 64);
  x = InceptionA(Module(net, "Mixed_5d"), x, 64);
  x = InceptionB(Module(net, "Mixed_6a"), x);
  x = InceptionC(Module(net, "Mixed_6b"), x, 128);
  x = InceptionC(Module(net, "Mixed_6c"), x, 160);
  x = InceptionC(Module(net, "Mixed_6d"), x, 160);
  x = InceptionC(Module(net, "Mixed_6e"), x, 192);
  x = InceptionD(Module(net, "Mixed_7a"), x);
  x = InceptionE(Module(net, "Mixed_7b"), x);
  x = InceptionE(Module(net, "Mixed_7c"), x);
  return net.Finish({{net.Linear(net.GlobalAverage(x), "fc", 1000), "output"}});
}

}  // namespace rewright::zoo
