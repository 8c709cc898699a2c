#include "substitutions/generate/presets/choices.h"
#include "substitutions/generate/presets/presets.h"

namespace rewright::generate {
namespace {

enum : int { kN, kC, kH, kW };
const std::vector<Size> kImage = {Var(kN), Var(kC), Var(kH), Var(kW)};
const std::vector<Size> kDepthwise = {Var(kC), Num(1), Num(3), Num(3)};
const std::vector<Size> kChannels = {Num(1), Var(kC), Num(1), Num(1)};  // a number for each channel

std::vector<Size> Kernel(int64_t r, int64_t s) { return {Var(kC), Var(kC), Num(r), Num(s)}; }

Space ImageSpace(const std::string& name, std::vector<InputGroup> inputs, int max_ops,
                 std::vector<OperatorChoice> operators) {
  return {.name = name,
          .variables = {"n", "c", "h", "w"},
          .inputs = std::move(inputs),
          .operators = std::move(operators),
          .max_ops = max_ops,
          // Channels are even, so that two groups are possible.
          .assignments = {{2, 2, 4, 3}, {3, 4, 3, 2}},
          .confirmation = {{2, 6, 5, 2}, {3, 2, 5, 6}},
          .nominal = {2, 4, 5, 5}};
}

Space OneOutput(Space space) {
  space.max_outputs = 1;
  return space;
}

}  // namespace

std::vector<Space> ConvSpaces() {
  using Kind = OperatorChoice::Constant;
  const InputGroup image{"i", kImage, 1}, images{"i", kImage, 2};
  const OperatorChoice conv3 = Conv(3, 3), conv1 = Conv(1, 1);
  OperatorChoice by_output = Transpose({1, 0, 2, 3}), mul_channels = Binary("mul");
  by_output.leaf_only = mul_channels.leaf_only = true;
  OperatorChoice twice = Concat(4, 1);
  twice.distinct = false;  // an image beside itself
  OperatorChoice beside = Concat(4, 0);
  beside.leaf_only = twice.leaf_only = true;
  Space batch_norm =
      OneOutput(ImageSpace("batch-norm", {image, {"u", Kernel(3, 3), 1, true}, {"p", kChannels, 2}}, 5,
                           {conv3, Stretched("mul", {4, 4}), Stretched("sub", {4, 4}), by_output, mul_channels}));
  batch_norm.max_simpler_ops = 3;
  const std::vector<std::vector<int64_t>> others = {{2, 4, 3}, {3, 2, 5}, {2, 3, 5}, {4, 2, 3}, {2, 4, 3}};
  return {
      ImageSpace("joins", {{"i", kImage, 3}}, 2, {Binary("add"), Concat(4, 1), Concat(4, 0)}),
      ImageSpace("kernels", {images, {"u", Kernel(3, 3), 2, true}}, 3,
                 {conv3, Binary("add"), Unary("relu"), Concat(4, 1), Concat(4, 0), Split(1), Split(0)}),
      ImageSpace("pools", {images, {"v", Kernel(1, 1), 1, true}, {"d", kDepthwise, 1, true}}, 3,
                 {conv3, conv1, Pool("avg_pool2d"), Pool("avg_pool2d", 2), Pool("max_pool2d"), Pool("max_pool2d", 2),
                  Conv(3, 3, false, 2), Constant("pool_kernel", Kind::kSplat, kDepthwise, 1, 9), Unary("relu"),
                  Binary("add"), Concat(4, 1), Concat(4, 0)}),
      // A scalar before and after a convolution.
      ImageSpace("scaled", {{"i", kImage, 1}, {"u", Kernel(3, 3), 1, true}, {"s", {}, 1}}, 2, {conv3, Scale()}),
      // Kernels of several extents: the smaller ones are surrounded by zeros.
      Merges(ImageSpace("enlarged", {image, {"u", Kernel(3, 3), 1, true}, {"v", Kernel(1, 1), 1, true}}, 4,
                        {conv3, conv1, Enlarge(3, 3), Concat(4, 0), Split(1)})),
      Merges(ImageSpace("groups", {image, {"d", kDepthwise, 2, true}}, 4, {conv3, beside, twice, Split(1)})),
      // A number for each channel before and after a convolution.
      OneOutput(ImageSpace("channels", {image, {"u", Kernel(3, 3), 1, true}, {"p", kChannels, 2}}, 3,
                           {conv3, Stretched("mul", {4, 4}), Stretched("add", {4, 4}), by_output, mul_channels})),
      ScaledParts("channels-in-two", 2, 1, {"n", "c", "h", "w"}, others, 4),
      ScaledParts("channels-in-three", 3, 1, {"n", "c", "h", "w"}, others, 4),
      // Batch normalization: (conv(x, k) - mean) factor; the shift that follows stays.
      batch_norm,
  };
}

}  // namespace rewright::generate
