// A multi-layer perceptron.
#include "absl/strings/str_cat.h"
#include "bench/zoo/net.h"

namespace rewright::zoo {

absl::StatusOr<Graph> BuildMlp(const ZooOptions& options) {
  Net net(options.seed);
  Value x = net.Input("input", DType::kFloat32, {Default(options.batch, 1), 784});
  const int64_t layers = Default(options.layers, 3);
  for (int64_t i = 0; i < layers; ++i) {
    x = net.Relu(net.Linear(x, absl::StrCat("layers.", i), 512, i == 0 ? kLinear : kAfterRelu));
  }
  return net.Finish({{net.Linear(x, "head", 10), "output"}});
}

}  // namespace rewright::zoo
