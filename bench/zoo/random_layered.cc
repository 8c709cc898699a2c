// A graph without any structure that repeats, for the search at scale: layers of operators of many kinds on images and
// matrices, wired at random.
//
// Every value of a layer is read by the next; some operators read older values besides, and some values are read twice.
// Sums are scaled, factors are sigmoids and outputs are normalized, so that values keep an ordinary size through any
// depth.
#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/zoo/net.h"

namespace rewright::zoo {
namespace {

constexpr int64_t kImage = 8;      // height and width
constexpr int64_t kRows = 16;      // of matrices
constexpr int64_t kChannels = 16;  // of images and columns of matrices, or half as many, or twice
constexpr double kHalfVariance = 0.70710678118654752;
constexpr size_t kRemembered = 60;  // older values that may be read again

class Layers {
 public:
  Layers(Net& net, uint64_t seed) : net_(net), rng_(seed) {}

  void Start(const std::vector<Value>& inputs) { last_ = inputs; }

  void Grow(int64_t width) {
    std::shuffle(last_.begin(), last_.end(), rng_);
    std::vector<Value> left = std::exchange(last_, {});
    while (!left.empty()) {
      const Value x = left.back();
      left.pop_back();
      // Few values: each may be read twice. Many: they are brought together.
      const int64_t missing = width - static_cast<int64_t>(last_.size() + left.size());
      if (missing > 1 && Draw(0, 2) == 0) left.push_back(x);
      One(x, missing < 0, &left);
    }
    older_.insert(older_.end(), last_.begin(), last_.end());
    if (older_.size() > kRemembered) older_.erase(older_.begin(), older_.end() - kRemembered);
  }

  std::vector<Output> Outputs() {
    std::vector<Output> outputs;
    for (Value value : last_) {
      outputs.push_back({net_.LayerNorm(value, Name("norm"), 1e-5), absl::StrCat("output", outputs.size())});
    }
    return outputs;
  }

 private:
  int64_t Draw(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(rng_() % static_cast<uint64_t>(high - low + 1));
  }
  bool IsImage(Value x) const { return net_.Dim(x, 0) == 1; }
  // Channels of an image, columns of a matrix.
  int64_t Size(Value x) const { return net_.Dim(x, 1); }
  std::string Name(const char* what) { return absl::StrCat(what, count_++); }

  // A value like x that waits to be read, else an older one, else x.
  Value Partner(Value x, std::vector<Value>* left) {
    const auto like = [&](Value y) { return y != x && IsImage(y) == IsImage(x) && Size(y) == Size(x); };
    if (auto it = std::find_if(left->begin(), left->end(), like); it != left->end()) {
      const Value found = *it;
      left->erase(it);
      return found;
    }
    for (int attempt = 0; attempt < 8 && !older_.empty(); ++attempt) {
      const Value y = older_[Draw(0, static_cast<int64_t>(older_.size()) - 1)];
      if (like(y)) return y;
    }
    return x;
  }

  int64_t Channels() { return kChannels / 2 << Draw(0, 2); }

  void Keep(Value x) { last_.push_back(x); }

  // Applies one operator, or a few that belong together.
  void One(Value x, bool join, std::vector<Value>* left) {
    if (join || Draw(0, 3) == 0) return Join(x, left);
    if (Draw(0, 7) == 0) return Divide(x);
    return IsImage(x) ? OnImage(x) : OnMatrix(x);
  }

  void Join(Value x, std::vector<Value>* left) {
    const Value y = Partner(x, left);
    switch (Draw(0, 3)) {
      case 0: return Keep(net_.Mul(net_.Add(x, y), net_.Scalar(kHalfVariance)));
      case 1: return Keep(net_.Mul(net_.Mul(x, net_.Op("sigmoid", {y})), net_.Scalar(2)));
      case 2: return Keep(net_.Op("max", {x, y}));
      default:
        if (Size(x) > kChannels) return Keep(net_.Mul(net_.Op("sub", {x, y}), net_.Scalar(kHalfVariance)));
        return Keep(net_.Concat({x, y}, 1));
    }
  }

  void Divide(Value x) {
    if (Size(x) < kChannels) return Keep(net_.Relu(x));
    const int64_t half = Size(x) / 2;
    const Value first = net_.Op("slice", {x}, {{"starts", Starts(x, 0)}, {"stops", Stops(x, half)}});
    const Value second = net_.Op("slice", {x}, {{"starts", Starts(x, half)}, {"stops", Stops(x, 2 * half)}});
    Keep(first);
    Keep(second);
  }
  Shape Starts(Value x, int64_t at) const { return IsImage(x) ? Shape{0, at, 0, 0} : Shape{0, at}; }
  Shape Stops(Value x, int64_t at) const { return IsImage(x) ? Shape{1, at, kImage, kImage} : Shape{kRows, at}; }

  void OnImage(Value x) {
    switch (Draw(0, 8)) {
      case 0:
      case 1: return Keep(net_.Conv2d(x, Name("conv"), Conv::Same(Channels(), 1 + 2 * Draw(0, 1)), kLinear));
      case 2: return Keep(net_.Relu(net_.Conv2d(x, Name("conv"), Conv::Same(Channels(), 3))));
      case 3: return Keep(net_.BatchNorm(net_.Conv2d(x, Name("conv"), Conv::Same(Size(x), 1), kLinear), Name("bn")));
      case 4: return Keep(net_.MaxPool(x, {3, 1, 1}));
      case 5: return Keep(net_.AvgPool(x, {3, 1, 1}));
      case 6: return Keep(net_.Transpose(x, {0, 1, 3, 2}));
      case 7: return Keep(net_.Op(Draw(0, 1) == 0 ? "tanh" : "relu", {x}));
      default: {
        const Value scaled = net_.Mul(x, net_.Weight(Name("scale"), {Size(x), 1, 1}, 1, 0.05));
        return Keep(scaled);
      }
    }
  }

  void OnMatrix(Value x) {
    switch (Draw(0, 7)) {
      case 0:
      case 1: {
        const int64_t in = Size(x), out = Channels();
        const Value weight = net_.Weight(Name("matmul"), {in, out}, 0, 1 / std::sqrt(static_cast<double>(in)));
        return Keep(net_.MatMul(x, weight));
      }
      case 2: return Keep(net_.Linear(x, Name("linear"), Channels()));
      case 3: return Keep(net_.LayerNorm(x, Name("norm"), 1e-5));
      case 4: {  // rows against rows, then back
        const Value products = net_.MatMul(x, net_.Transpose(x, {1, 0}));
        return Keep(net_.MatMul(net_.Op("softmax", {products}, {{"axis", int64_t{1}}}), x));
      }
      case 5: return Keep(net_.Op(Draw(0, 1) == 0 ? "tanh" : "gelu", {x}));
      case 6: return Keep(net_.Reshape(net_.Relu(net_.Reshape(x, {kRows * Size(x)})), {kRows, Size(x)}));
      default: return Keep(net_.Add(x, net_.Weight(Name("bias"), {Size(x)}, 0, 0.05)));
    }
  }

  Net& net_;
  std::mt19937_64 rng_;
  std::vector<Value> last_, older_;
  int64_t count_ = 0;
};

}  // namespace

absl::StatusOr<Graph> BuildRandomLayered(const ZooOptions& options) {
  const int64_t width = Default(options.width, 20), layers = Default(options.layers, 355);
  if (width < 4) return absl::InvalidArgumentError(absl::StrCat("the width is ", width, "; expected at least 4"));
  Net net(options.seed);
  std::vector<Value> inputs;
  for (int i = 0; i < 2; ++i) {
    inputs.push_back(net.Input(absl::StrCat("image", i), DType::kFloat32, {1, kChannels, kImage, kImage}));
    inputs.push_back(net.Input(absl::StrCat("matrix", i), DType::kFloat32, {kRows, kChannels}));
  }
  Layers grown(net, options.seed);
  grown.Start(inputs);
  for (int64_t layer = 0; layer < layers; ++layer) grown.Grow(width);
  return net.Finish(grown.Outputs());
}

}  // namespace rewright::zoo
