// The graphs on which TASO (Jia et al., SOSP'19) times its optimizer, as its example programs build them: no batch
// norms, no biases, and easier than the architectures whose names they bear. Kept for comparisons on equal work.
//
// taso_bert is a polynomial of degree 3 in the input per block and cannot keep any size but 0 or infinity: its weights
// are such that values fade to 0 within a few blocks. Compare values with one or two blocks.
//
// The arena shares equal nodes, which TASO's programs do not: an average that one cell of NasNet-A asks for twice is
// one node here.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "bench/zoo/net.h"

namespace rewright::zoo {
namespace {

// ---------------------------------------------------------------- residual networks

struct Stage {
  int64_t width, blocks, stride;
};

// The sum of a block reads two branches of ordinary size: the last convolution shrinks its part.
constexpr Gain kResidual{0.5};

Value Bottleneck(Net& net, Value x, const std::string& name, int64_t width, int64_t out, int64_t stride,
                 int64_t groups) {
  Value y = net.Relu(net.Conv2d(x, name + ".conv1", Conv::Same(width, 1)));
  y = net.Relu(net.Conv2d(y, name + ".conv2", Conv::Same(width, 3, stride, groups)));
  y = net.Conv2d(y, name + ".conv3", Conv::Same(out, 1), kResidual);
  Value shortcut = x;
  if (stride != 1 || net.Dim(x, 1) != out) {
    shortcut = net.Relu(net.Conv2d(x, name + ".shortcut", Conv::Same(out, 1, stride)));
  }
  return net.Relu(net.Add(y, shortcut));
}

Value Stages(Net& net, Value x, const std::vector<Stage>& stages, int64_t expansion, int64_t groups) {
  for (size_t i = 0; i < stages.size(); ++i) {
    const auto [width, blocks, stride] = stages[i];
    for (int64_t block = 0; block < blocks; ++block) {
      const std::string name = absl::StrCat("stage", i, ".", block);
      x = Bottleneck(net, x, name, width, expansion * width, block == 0 ? stride : 1, groups);
    }
  }
  return x;
}

// ---------------------------------------------------------------- NasNet-A

// A convolution with few input channels per group, then one of 1x1.
Value TasoSeparable(Net& net, Value x, const std::string& name, int64_t channels, int64_t kernel, int64_t stride) {
  // The weight is [channels, in/channels, kernel, kernel]: as many groups as output channels.
  const Value y = net.Conv2d(x, name + ".depthwise", Conv::Same(channels, kernel, stride, channels), kLinear);
  return net.Conv2d(y, name + ".pointwise", Conv::Same(channels, 1), kLinear);
}

Value Squeeze(Net& net, Value x, const std::string& name, int64_t channels) {
  return net.Relu(net.Conv2d(x, name, Conv::Same(channels, 1)));
}

// The previous cell's output, brought to the size of the current one.
Value Fit(Net& net, Value current, Value previous, const std::string& name, int64_t channels) {
  if (net.Dim(previous, 2) == net.Dim(current, 2)) return Squeeze(net, previous, name, channels);
  return net.Relu(net.Conv2d(previous, name, Conv::Same(channels, 3, 2)));
}

Value TasoNormalCell(Net& net, Value previous, Value current, const std::string& name, int64_t channels) {
  const Value cur = Squeeze(net, current, name + ".squeeze", channels);
  const Value prev = Fit(net, cur, previous, name + ".fit", channels);
  int count = 0;
  const auto sep = [&](Value x) {
    return TasoSeparable(net, x, absl::StrCat(name, ".separable", count++), channels, 3, 1);
  };
  const auto average = [&](Value x) { return net.AvgPool(x, {3, 1, 1}); };
  const Value a = net.Add(sep(cur), cur);
  const Value b_prev = sep(prev);
  const Value b = net.Add(b_prev, sep(cur));
  const Value c = net.Add(average(cur), prev);
  const Value d = net.Add(average(prev), average(prev));
  const Value e_first = sep(prev);
  const Value e = net.Add(e_first, sep(prev));
  return net.Concat({a, b, c, d, e}, 1);
}

Value TasoReductionCell(Net& net, Value previous, Value current, const std::string& name, int64_t channels) {
  const Value cur = Squeeze(net, current, name + ".squeeze", channels);
  const Value prev = Fit(net, cur, previous, name + ".fit", channels);
  int count = 0;
  const auto sep = [&](Value x, int64_t kernel, int64_t stride) {
    return TasoSeparable(net, x, absl::StrCat(name, ".separable", count++), channels, kernel, stride);
  };
  const Pool halve = {3, 2, 1};
  const Value o0_prev = sep(prev, 7, 2);
  const Value o0 = net.Add(o0_prev, sep(cur, 5, 2));
  const Value o1 = net.Add(net.MaxPool(cur, halve), sep(prev, 7, 2));
  const Value o2 = net.Add(net.AvgPool(cur, halve), sep(prev, 5, 2));
  const Value o3 = net.Add(net.MaxPool(cur, halve), sep(o0, 3, 1));
  const Value o4 = net.Add(net.AvgPool(o0, {3, 1, 1}), o1);
  return net.Concat({o0, o1, o2, o3, o4}, 1);
}

// ---------------------------------------------------------------- recurrent cell, attention

// A product with a fresh square weight.
Value Product(Net& net, Value x, const std::string& name) {
  const int64_t size = net.Dim(x, 1);
  return net.MatMul(x, net.Weight(name, {size, size}, 0, 1 / std::sqrt(static_cast<double>(size))));
}

// One step of the cell; `name` makes its weights its own.
Value NasStep(Net& net, Value state, Value x, const std::string& name) {
  std::vector<Value> t;
  for (int i = 0; i < 8; ++i) {
    const Value from_state = Product(net, state, absl::StrCat(name, ".state", i));
    t.push_back(net.Add(from_state, Product(net, x, absl::StrCat(name, ".input", i))));
  }
  const auto sigmoid = [&](Value v) { return net.Op("sigmoid", {v}); };
  const auto tanh = [&](Value v) { return net.Op("tanh", {v}); };
  const Value m0 = net.Add(net.Relu(t[0]), sigmoid(t[3]));
  const Value m1 = net.Add(sigmoid(t[1]), tanh(t[2]));
  const Value m2 = net.Mul(sigmoid(t[4]), tanh(t[5]));
  const Value m3 = net.Mul(sigmoid(t[6]), net.Relu(t[7]));
  const Value m4 = net.Add(sigmoid(m1), tanh(m2));
  const Value m5 = net.Mul(tanh(m0), tanh(m3));
  const Value m6 = net.Mul(tanh(m4), tanh(m5));
  return tanh(m6);
}

Value AttentionBlock(Net& net, Value x, const std::string& name) {
  constexpr int64_t kHeads = 16;
  const int64_t length = net.Dim(x, 0);
  const int64_t hidden = net.Dim(x, 1);
  const auto heads = [&](const char* part) {
    return net.Reshape(Product(net, x, absl::StrCat(name, ".", part)), {length, kHeads, hidden / kHeads});
  };
  const Value q = net.Transpose(heads("query"), {1, 0, 2});
  const Value k = net.Transpose(heads("key"), {1, 2, 0});
  const Value v = net.Transpose(heads("value"), {1, 0, 2});
  const Value mixed = net.MatMul(net.MatMul(q, k), v);
  // Without a softmax the products grow with the length and the head size: the last weight makes up for it.
  const Value y = net.Reshape(net.Transpose(mixed, {1, 0, 2}), {length, hidden});
  const double growth = std::sqrt(static_cast<double>(length * hidden / kHeads));
  const double stddev = 1 / (std::sqrt(static_cast<double>(hidden)) * growth);
  return net.MatMul(y, net.Weight(name + ".output", {hidden, hidden}, 0, stddev));
}

}  // namespace

absl::StatusOr<Graph> BuildTasoResNet50(const ZooOptions& options) {
  Net net(options.seed);
  const int64_t size = Default(options.image_size, 56);
  Value x = net.Input("input", DType::kFloat32, {Default(options.batch, 1), 64, size, size});
  x = Stages(net, x, {{64, 3, 1}, {128, 4, 2}, {256, 6, 2}, {512, 3, 2}}, 4, 1);
  return net.Finish({{x, "output"}});
}

absl::StatusOr<Graph> BuildTasoResNeXt50(const ZooOptions& options) {
  Net net(options.seed);
  Value x = ImageInput(net, options, 224);
  x = net.Relu(net.Conv2d(x, "stem", Conv::Same(64, 7, 2), kLinear));
  x = net.MaxPool(x, {3, 2, 1});
  x = Stages(net, x, {{128, 3, 1}, {256, 4, 2}, {512, 6, 2}, {1024, 3, 2}}, 2, 32);
  return net.Finish({{x, "output"}});
}

absl::StatusOr<Graph> BuildTasoNasNetA(const ZooOptions& options) {
  Net net(options.seed);
  Value x = ImageInput(net, options, 224);
  x = net.Relu(net.Conv2d(x, "stem", Conv::Same(64, 7, 2), kLinear));
  x = net.MaxPool(x, {3, 2, 1});
  int64_t channels = 128;
  const int64_t normal_cells = Default(options.layers, 5);
  for (int stage = 0; stage < 3; ++stage) {
    Value previous = x;
    Value current = x;
    for (int64_t cell = 0; cell < normal_cells; ++cell) {
      const Value next = TasoNormalCell(net, previous, current, absl::StrCat("stage", stage, ".", cell), channels);
      previous = current;
      current = next;
    }
    channels *= 2;
    x = TasoReductionCell(net, previous, current, absl::StrCat("stage", stage, ".reduction"), channels);
  }
  return net.Finish({{x, "output"}});
}

absl::StatusOr<Graph> BuildTasoNasRnn(const ZooOptions& options) {
  constexpr int64_t kHidden = 512;
  Net net(options.seed);
  const int64_t batch = Default(options.batch, 1);
  const int64_t steps = Default(options.layers, 5);
  Value state = net.Weight("state", {batch, kHidden}, 0, 1);
  for (int64_t step = 0; step < steps; ++step) {
    const Value x = net.Input(absl::StrCat("input", step), DType::kFloat32, {batch, kHidden});
    state = NasStep(net, state, x, absl::StrCat("step", step));
  }
  return net.Finish({{state, "output"}});
}

absl::StatusOr<Graph> BuildTasoBert(const ZooOptions& options) {
  Net net(options.seed);
  Value x = net.Input("input", DType::kFloat32, {Default(options.sequence_length, 64), 1024});
  x = net.Relu(x);
  const int64_t blocks = Default(options.layers, 8);
  for (int64_t i = 0; i < blocks; ++i) x = AttentionBlock(net, x, absl::StrCat("block", i));
  return net.Finish({{x, "output"}});
}

}  // namespace rewright::zoo
