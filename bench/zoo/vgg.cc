// VGG-19 (Simonyan and Zisserman, ICLR'15), as in torchvision (configuration E without batch norms).
#include "absl/strings/str_cat.h"
#include "bench/zoo/net.h"

namespace rewright::zoo {

absl::StatusOr<Graph> BuildVgg19(const ZooOptions& options) {
  Net net(options.seed);
  Value x = ImageInput(net, options, 224);
  const int64_t channels[] = {64, 128, 256, 512, 512};
  const int convolutions[] = {2, 2, 4, 4, 4};
  int position = 0;  // in torchvision's `features`, where a relu and a pool count too
  for (int stage = 0; stage < 5; ++stage) {
    for (int i = 0; i < convolutions[stage]; ++i) {
      const Gain gain = position == 0 ? kLinear : kAfterRelu;
      x = net.Relu(net.ConvBias(x, absl::StrCat("features.", position), Conv::Same(channels[stage], 3), gain));
      position += 2;
    }
    x = net.MaxPool(x, {2, 2, 0});
    position += 1;
  }
  if (net.ok() && net.Dim(x, 2) != 7) {
    // torchvision resamples to 7x7 here; the classifier's size is the architecture's, so the image's is too.
    return absl::InvalidArgumentError("the image size must be 224");
  }
  x = net.Reshape(x, {net.Dim(x, 0), 512 * 7 * 7});
  x = net.Relu(net.Linear(x, "classifier.0", 4096, kAfterRelu));
  x = net.Relu(net.Linear(x, "classifier.3", 4096, kAfterRelu));
  return net.Finish({{net.Linear(x, "classifier.6", 1000), "output"}});
}

}  // namespace rewright::zoo
