// The recurrent cell found by neural architecture search (Zoph and Le, ICLR'17, figure 8), as TensorFlow's NASCell has
// it: eight products of the state and eight of the input, and a second state that is fed in on the way. Every product
// stands by itself, as a program writes them; the weights are the same at every step.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "bench/zoo/net.h"

namespace rewright::zoo {

absl::StatusOr<Graph> BuildNasRnn(const ZooOptions& options) {
  Net net(options.seed);
  const int64_t batch = Default(options.batch, 1), width = Default(options.width, 512);
  const int64_t steps = Default(options.layers, 5);
  const double stddev = 1 / std::sqrt(2 * static_cast<double>(width));
  std::vector<Value> from_state, from_input, bias;
  for (int i = 0; i < 8; ++i) {
    from_state.push_back(net.Weight(absl::StrCat("state.", i, ".weight"), {width, width}, 0, stddev));
    from_input.push_back(net.Weight(absl::StrCat("input.", i, ".weight"), {width, width}, 0, stddev));
    bias.push_back(net.Weight(absl::StrCat("bias.", i), {width}, 0, 0.1));
  }
  const auto sigmoid = [&](Value v) { return net.Op("sigmoid", {v}); };
  const auto tanh = [&](Value v) { return net.Op("tanh", {v}); };
  Value state = net.Input("state", DType::kFloat32, {batch, width});
  Value cell = net.Input("cell", DType::kFloat32, {batch, width});
  for (int64_t step = 0; step < steps; ++step) {
    const Value x = net.Input(absl::StrCat("input", step), DType::kFloat32, {batch, width});
    std::vector<Value> h, y;
    for (size_t i = 0; i < 8; ++i) {
      h.push_back(net.MatMul(state, from_state[i]));
      y.push_back(net.Add(net.MatMul(x, from_input[i]), bias[i]));
    }
    const auto sum = [&](size_t i) { return net.Add(y[i], h[i]); };
    const Value a0 = sigmoid(sum(0)), a1 = net.Relu(sum(1)), a2 = sigmoid(sum(2)), a3 = net.Relu(net.Mul(y[3], h[3]));
    const Value a4 = tanh(sum(4)), a5 = sigmoid(sum(5)), a6 = tanh(sum(6)), a7 = sigmoid(sum(7));
    const Value b0 = tanh(net.Add(tanh(net.Mul(a0, a1)), cell));
    const Value b1 = tanh(net.Add(a2, a3)), b2 = tanh(net.Mul(a4, a5)), b3 = sigmoid(net.Add(a6, a7));
    cell = net.Mul(b0, b1);
    state = tanh(net.Mul(cell, tanh(net.Add(b2, b3))));
  }
  return net.Finish({{state, "state_out"}, {cell, "cell_out"}});
}

}  // namespace rewright::zoo
