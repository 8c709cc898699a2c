// RNN, GRU and LSTM, written out step by step. One product computes the terms of all steps that read the input alone.
#include <algorithm>

#include "absl/strings/ascii.h"
#include "core/base/status_macros.h"
#include "core/onnx/operators.h"

namespace rewright {
namespace {

// Weights of one direction.
struct Weights {
  Value input, recurrent;            // [i, gates * h], [h, gates * h], transposed from the model's
  Value input_bias, recurrent_bias;  // [gates * h]
  std::optional<Value> peephole;     // of LSTM: [3 * h]
};

struct State {
  Value hidden, cell;  // [b, h]; the cell is LSTM's
};

class Recurrence {
 public:
  explicit Recurrence(OnnxNode& node)
      : node_(node),
        gates_(node.op_type() == "LSTM"  ? 4
               : node.op_type() == "GRU" ? 3
                                         : 1) {}

  Values Run() {
    RETURN_IF_ERROR(ReadAttributes());
    RETURN_IF_ERROR(ReadShapes());
    std::vector<std::vector<Value>> steps;  // by direction and time
    std::vector<Value> hidden, cell;
    for (int64_t d = 0; d < directions_; ++d) {
      const Weights weights = WeightsOf(d);
      State state = InitialState(d);
      const Value projected = Projected(weights);
      const bool backward = direction_ == "reverse" || d == 1;
      std::vector<Value> outputs(static_cast<size_t>(steps_));
      for (int64_t i = 0; i < steps_; ++i) {
        const int64_t t = backward ? steps_ - 1 - i : i;
        const Value row = node_.SliceAxis(projected, 0, t, t + 1);
        const Value x = node_.Reshape(row, {batch_, gates_ * size_});
        state = Step(x, state, weights, d);
        outputs[static_cast<size_t>(t)] = node_.Reshape(state.hidden, {1, 1, batch_, size_});
      }
      steps.push_back(std::move(outputs));
      hidden.push_back(node_.Reshape(state.hidden, {1, batch_, size_}));
      if (gates_ == 4) cell.push_back(node_.Reshape(state.cell, {1, batch_, size_}));
    }
    std::vector<Value> rows;
    for (int64_t t = 0; t < steps_; ++t) {
      std::vector<Value> both;
      for (const std::vector<Value>& direction : steps) both.push_back(direction[static_cast<size_t>(t)]);
      rows.push_back(node_.Concat(both, 1));
    }
    std::vector<Value> results = {node_.Concat(rows, 0), node_.Concat(hidden, 0)};  // [t, d, b, h], [d, b, h]
    if (gates_ == 4) results.push_back(node_.Concat(cell, 0));
    if (batch_first_) {
      results[0] = node_.Transpose(results[0], {2, 0, 1, 3});
      for (size_t k = 1; k < results.size(); ++k) results[k] = node_.Transpose(results[k], {1, 0, 2});
    }
    return results;
  }

 private:
  absl::Status ReadAttributes() {
    direction_ = node_.String("direction", "forward");
    if (direction_ != "forward" && direction_ != "reverse" && direction_ != "bidirectional") {
      return InvalidArgument("attribute direction is \"", direction_, "\"");
    }
    directions_ = direction_ == "bidirectional" ? 2 : 1;
    batch_first_ = node_.Flag("layout");
    reset_after_product_ = node_.Flag("linear_before_reset");
    if (node_.Flag("input_forget")) return Unimplemented("input_forget = 1");
    if (node_.HasAttribute("clip")) return Unimplemented("attribute clip");
    node_.Ignore({"hidden_size", "activation_alpha", "activation_beta"});
    std::vector<std::string> activations = {"Sigmoid", "Tanh", "Tanh"};
    if (gates_ == 1) activations = {"Tanh"};
    if (gates_ == 3) activations = {"Sigmoid", "Tanh"};
    const size_t count = activations.size();
    if (directions_ == 2) {
      activations.resize(2 * count);
      std::copy_n(activations.begin(), count, activations.begin() + static_cast<ptrdiff_t>(count));
    }
    activations = node_.Strings("activations", activations);
    if (activations.size() != count * static_cast<size_t>(directions_)) {
      return InvalidArgument(activations.size(), " activations; expected ", count, " a direction");
    }
    for (const std::string& name : activations) {
      const std::string op = absl::AsciiStrToLower(name);
      if (op != "sigmoid" && op != "tanh" && op != "relu") return Unimplemented("activation " + name);
      activations_.push_back(op);
    }
    return absl::OkStatus();
  }

  absl::Status ReadShapes() {
    const Shape& x = node_.input_type(0).shape;
    const Shape& w = node_.input_type(1).shape;
    const Shape& r = node_.input_type(2).shape;
    if (x.size() != 3 || w.size() != 3 || r.size() != 3) return InvalidArgument("X, W and R have three axes");
    steps_ = x[batch_first_ ? 1 : 0];
    batch_ = x[batch_first_ ? 0 : 1];
    input_ = x[2];
    size_ = r[2];
    if (w != Shape{directions_, gates_ * size_, input_} || r != Shape{directions_, gates_ * size_, size_}) {
      return InvalidArgument("weights ", node_.input_type(1).ToString(), " and ", node_.input_type(2).ToString(),
                             " for ", node_.input_type(0).ToString(), " and ", directions_, " directions");
    }
    if (steps_ < 1 || steps_ > kMaxRecurrentSteps)
      return Unimplemented(steps_, " steps; expected 1 to ", kMaxRecurrentSteps);
    if (node_.has_input(4)) {
      const std::vector<int64_t> lengths = node_.IntsInput(4, "sequence_lens");
      const bool whole = std::all_of(lengths.begin(), lengths.end(), [&](int64_t n) { return n == steps_; });
      if (!whole) return Unimplemented("sequence_lens, except of whole sequences");
    }
    return absl::OkStatus();
  }

  // Returns part d of an input of shape [d, ..], as a tensor of `shape`.
  Value Part(int input, int64_t d, const Shape& shape) {
    Shape whole = shape;
    whole.insert(whole.begin(), directions_);
    if (node_.input_type(input).shape != whole) {
      return node_.Fail(InvalidArgument("input ", input, " is ", node_.input_type(input).ToString(), "; expected ",
                                        ShapeString(whole)));
    }
    return node_.Reshape(node_.SliceAxis(node_.input(input), 0, d, d + 1), shape);
  }

  Weights WeightsOf(int64_t d) {
    Weights weights;
    const int64_t rows = gates_ * size_;
    weights.input = node_.Transpose(Part(1, d, {rows, input_}), {1, 0});
    weights.recurrent = node_.Transpose(Part(2, d, {rows, size_}), {1, 0});
    if (node_.has_input(3)) {
      const Value both = Part(3, d, {2 * rows});
      weights.input_bias = node_.SliceAxis(both, 0, 0, rows);
      weights.recurrent_bias = node_.SliceAxis(both, 0, rows, 2 * rows);
    } else {
      weights.input_bias = node_.Expand(node_.Number(node_.input_type(0).dtype, 0), {rows});
      weights.recurrent_bias = weights.input_bias;
    }
    if (gates_ == 4 && node_.has_input(7)) weights.peephole = Part(7, d, {3 * size_});
    return weights;
  }

  State InitialState(int64_t d) {
    State state;
    state.hidden = InitialValue(5, d);
    if (gates_ == 4) state.cell = InitialValue(6, d);
    return state;
  }

  Value InitialValue(int input, int64_t d) {
    if (!node_.has_input(input)) {
      return node_.Expand(node_.Number(node_.input_type(0).dtype, 0), {batch_, size_});
    }
    const Value given = node_.input(input);
    const Shape expected = batch_first_ ? Shape{batch_, directions_, size_} : Shape{directions_, batch_, size_};
    if (node_.shape(given) != expected) {
      return node_.Fail(InvalidArgument("input ", input, " is ", node_.type(given).ToString()));
    }
    const Value ordered = batch_first_ ? node_.Transpose(given, {1, 0, 2}) : given;
    return node_.Reshape(node_.SliceAxis(ordered, 0, d, d + 1), {batch_, size_});
  }

  // Returns the input's contribution to the gates for all steps: [t, b, gates * h]. It includes the biases that would
  // be added to it later in any case.
  Value Projected(const Weights& weights) {
    Value x = node_.input(0);
    if (batch_first_) x = node_.Transpose(x, {1, 0, 2});
    x = node_.Reshape(x, {steps_ * batch_, input_});
    Value bias = weights.input_bias;
    if (!reset_after_product_) bias = node_("add", {bias, weights.recurrent_bias});
    const Value y = node_("add", {node_("matmul", {x, weights.input}), bias});
    return node_.Reshape(y, {steps_, batch_, gates_ * size_});
  }

  State Step(Value x, const State& state, const Weights& weights, int64_t d) {
    if (gates_ == 1) return RnnStep(x, state, weights, d);
    return gates_ == 3 ? GruStep(x, state, weights, d) : LstmStep(x, state, weights, d);
  }

  // Applies activation number k of the direction.
  Value Act(int64_t d, size_t k, Value x) {
    return node_(activations_[k + static_cast<size_t>(d) * activations_.size() / static_cast<size_t>(directions_)],
                 {x});
  }
  // Returns gate k of [.., gates * h].
  Value Gate(Value x, int64_t k) { return node_.SliceAxis(x, node_.type(x).rank() - 1, k * size_, (k + 1) * size_); }

  State RnnStep(Value x, const State& state, const Weights& weights, int64_t d) {
    return {Act(d, 0, node_("add", {x, node_("matmul", {state.hidden, weights.recurrent})})), {}};
  }

  // Gates z, r, h (Cho et al. 2014): h' = (1 - z) * n + z * h.
  State GruStep(Value x, const State& state, const Weights& weights, int64_t d) {
    const Value h = state.hidden;
    Value product = node_("matmul", {h, weights.recurrent});
    if (reset_after_product_) product = node_("add", {product, weights.recurrent_bias});
    std::vector<Value> own, recurrent;
    for (int64_t k = 0; k < 3; ++k) {
      own.push_back(Gate(x, k));
      recurrent.push_back(Gate(product, k));
    }
    const Value z = Act(d, 0, node_("add", {own[0], recurrent[0]}));
    const Value r = Act(d, 0, node_("add", {own[1], recurrent[1]}));
    const Value candidate = reset_after_product_ ? node_("mul", {r, recurrent[2]})
                                                 : node_("matmul", {node_("mul", {r, h}), Gate(weights.recurrent, 2)});
    const Value n = Act(d, 1, node_("add", {own[2], candidate}));
    const Value kept = node_("sub", {node_.Number(h, 1), z});
    return {node_("add", {node_("mul", {kept, n}), node_("mul", {z, h})}), {}};
  }

  // Gates i, o, f, c (Hochreiter and Schmidhuber 1997, with the forget gate of Gers et al. 2000).
  State LstmStep(Value x, const State& state, const Weights& weights, int64_t d) {
    const Value sum = node_("add", {x, node_("matmul", {state.hidden, weights.recurrent})});
    // Computes gate k, which may read the cell.
    const auto gate = [&](int64_t k, Value cell) {
      const Value own = Gate(sum, k);
      return weights.peephole ? node_("add", {own, node_("mul", {Gate(*weights.peephole, k), cell})}) : own;
    };
    const Value in = Act(d, 0, gate(0, state.cell));
    const Value forgotten = node_("mul", {Act(d, 0, gate(2, state.cell)), state.cell});
    const Value cell = node_("add", {forgotten, node_("mul", {in, Act(d, 1, Gate(sum, 3))})});
    return {node_("mul", {Act(d, 0, gate(1, cell)), Act(d, 2, cell)}), cell};
  }

  OnnxNode& node_;
  const int64_t gates_;
  std::string direction_;
  int64_t directions_ = 1, steps_ = 0, batch_ = 0, input_ = 0, size_ = 0;
  bool batch_first_ = false;
  bool reset_after_product_ = false;  // of GRU
  std::vector<std::string> activations_;
};

Values Recurrent(OnnxNode& node) { return Recurrence(node).Run(); }

}  // namespace

OnnxOperatorList RecurrentOperators() {
  return {
      {"RNN", {7, 22, 3, 6, Recurrent}},
      {"GRU", {7, 22, 3, 6, Recurrent}},
      {"LSTM", {7, 22, 3, 8, Recurrent}},
  };
}

}  // namespace rewright
