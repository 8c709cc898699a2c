// A small language in which the models of the zoo are written.
//
// A Net adds nodes to a fresh arena. The first error is kept and later calls do nothing, so that a model reads as a
// sequence of layers; Finish gives the graph or that error.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/zoo/zoo.h"
#include "core/ir/graph.h"

namespace rewright::zoo {

// A convolution's sizes. The kernel is kernel_h x kernel_w, padded on both sides by pad_h and pad_w.
struct Conv {
  int64_t out = 0;
  int64_t kernel_h = 1;
  int64_t kernel_w = 1;
  int64_t stride = 1;
  int64_t pad_h = 0;
  int64_t pad_w = 0;
  int64_t groups = 1;

  // A square kernel, padded by half of it: the image keeps its size at stride 1.
  static Conv Same(int64_t out, int64_t kernel, int64_t stride = 1, int64_t groups = 1);
  // A kernel without padding.
  static Conv Valid(int64_t out, int64_t kernel, int64_t stride = 1);
  // Not square, padded by half.
  static Conv Rect(int64_t out, int64_t kernel_h, int64_t kernel_w);
};

struct Pool {
  int64_t kernel = 2;
  int64_t stride = 2;
  int64_t pad = 0;
  bool ceil_mode = false;
};

// The factor by which a layer scales the standard deviation of what it reads.
struct Gain {
  double value = 1;
};
// For layers whose input is a relu's output (He): the relu halves the mean square.
inline constexpr Gain kAfterRelu{1.4142135623730951};
inline constexpr Gain kLinear{1};
// Mean of the scale of a residual branch's last batch norm: 16 residual sums keep an ordinary size.
inline constexpr double kResidualGain = 0.5;

// Sizes and weights of the transformers here.
inline constexpr int64_t kHeadSize = 64;
inline constexpr double kEmbeddingStddev = 0.5;

class Net {
 public:
  explicit Net(uint64_t seed);

  bool ok() const { return status_.ok(); }
  // Keeps the first error.
  void Fail(const absl::Status& status);
  // Size of an axis; 1 after an error.
  int64_t Dim(Value x, int axis) const;
  // Number of axes; 1 after an error.
  int64_t Rank(Value x) const;

  // ---- leaves
  Value Input(const std::string& name, DType dtype, const Shape& shape);
  // Elements are uniform with this mean and standard deviation, a function of the seed and the name alone.
  Value Weight(const std::string& name, const Shape& shape, double mean, double stddev);
  Value Scalar(double value);
  Value Constant(const Tensor& data);
  // The constant [0, 1, .. count - 1], i64.
  Value Positions(int64_t count);

  // ---- operators
  Value Op(const std::string& op, const std::vector<Value>& operands, const Attrs& attrs = {});
  Value Relu(Value x) { return Op("relu", {x}); }
  Value Add(Value a, Value b) { return Op("add", {a, b}); }
  Value Mul(Value a, Value b) { return Op("mul", {a, b}); }
  Value MatMul(Value a, Value b) { return Op("matmul", {a, b}); }
  Value Reshape(Value x, const Shape& shape);
  Value Transpose(Value x, const Shape& perm);
  Value Concat(const std::vector<Value>& parts, int64_t axis);
  Value MaxPool(Value x, const Pool& pool);
  // The average counts padding as zeros unless `count_include_pad` is false.
  Value AvgPool(Value x, const Pool& pool, bool count_include_pad = true);
  // [n, c, h, w] to [n, c].
  Value GlobalAverage(Value x);

  // ---- layers
  // Weight "<name>.weight" [out, in/groups, kernel_h, kernel_w].
  Value Conv2d(Value x, const std::string& name, const Conv& conv, Gain gain = kAfterRelu);
  // The same and "<name>.bias".
  Value ConvBias(Value x, const std::string& name, const Conv& conv, Gain gain = kAfterRelu);
  // Weights as PyTorch names them; `gain` is the mean of the scale.
  Value BatchNorm(Value x, const std::string& name, double epsilon = 1e-5, double gain = 1);
  // x [.., in] times the transpose of "<name>.weight" [out, in], plus "<name>.bias".
  Value Linear(Value x, const std::string& name, int64_t out, Gain gain = kLinear);
  Value LayerNorm(Value x, const std::string& name, double epsilon);
  // 0.5 * x * (1 + erf(x / sqrt 2)), written out as PyTorch's exporter writes it.
  Value Gelu(Value x);
  // The summand of scores [n, heads, length, length]: 0, and -1e4 for tokens that come later; [1, 1, length, length].
  Value CausalMask(int64_t length);

  absl::StatusOr<Graph> Finish(const std::vector<Output>& outputs);

 private:
  std::shared_ptr<Arena> arena_ = std::make_shared<Arena>();
  std::vector<Value> inputs_;
  uint64_t seed_;
  absl::Status status_;
};

// `value` where it is given (not zero), else `fallback`.
inline int64_t Default(int64_t value, int64_t fallback) { return value == 0 ? fallback : value; }

// An image [batch, 3, size, size] called "input".
Value ImageInput(Net& net, const ZooOptions& options, int64_t default_size);

// ---- the architectures, one file per family
absl::StatusOr<Graph> BuildResNet50(const ZooOptions& options);
absl::StatusOr<Graph> BuildResNeXt50(const ZooOptions& options);
absl::StatusOr<Graph> BuildResidualBlock(const ZooOptions& options);
absl::StatusOr<Graph> BuildVgg19(const ZooOptions& options);
absl::StatusOr<Graph> BuildSqueezeNet(const ZooOptions& options);
absl::StatusOr<Graph> BuildInceptionV3(const ZooOptions& options);
absl::StatusOr<Graph> BuildMobileNetV2(const ZooOptions& options);
absl::StatusOr<Graph> BuildConvNeXtTiny(const ZooOptions& options);
absl::StatusOr<Graph> BuildBertBase(const ZooOptions& options);
absl::StatusOr<Graph> BuildGpt2Small(const ZooOptions& options);
absl::StatusOr<Graph> BuildLlamaSmall(const ZooOptions& options);
absl::StatusOr<Graph> BuildNasNetA(const ZooOptions& options);
absl::StatusOr<Graph> BuildNasRnn(const ZooOptions& options);
absl::StatusOr<Graph> BuildRandomLayered(const ZooOptions& options);
absl::StatusOr<Graph> BuildMlp(const ZooOptions& options);
absl::StatusOr<Graph> BuildTasoResNet50(const ZooOptions& options);
absl::StatusOr<Graph> BuildTasoResNeXt50(const ZooOptions& options);
absl::StatusOr<Graph> BuildTasoNasNetA(const ZooOptions& options);
absl::StatusOr<Graph> BuildTasoNasRnn(const ZooOptions& options);
absl::StatusOr<Graph> BuildTasoBert(const ZooOptions& options);
absl::StatusOr<Graph> BuildMirageGqa(const ZooOptions& options);
absl::StatusOr<Graph> BuildMirageQkNorm(const ZooOptions& options);
absl::StatusOr<Graph> BuildMirageRmsNorm(const ZooOptions& options);
absl::StatusOr<Graph> BuildMirageLora(const ZooOptions& options);
absl::StatusOr<Graph> BuildMirageGatedMlp(const ZooOptions& options);
absl::StatusOr<Graph> BuildMirageNTrans(const ZooOptions& options);

}  // namespace rewright::zoo
