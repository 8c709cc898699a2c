// RNN, GRU and LSTM, written out step by step. What reads the input alone is one product for all steps.
#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/onnx/operators.h"

namespace rewright {
namespace {

using Values = absl::StatusOr<std::vector<Value>>;

// Of one direction.
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
        f_(node),
        gates_(node.op_type() == "LSTM"  ? 4
               : node.op_type() == "GRU" ? 3
                                         : 1) {}

  Values Run() {
    RETURN_IF_ERROR(ReadAttributes());
    RETURN_IF_ERROR(ReadShapes());
    std::vector<std::vector<Value>> steps;  // by direction and time
    std::vector<Value> hidden, cell;
    for (int64_t d = 0; d < directions_; ++d) {
      ASSIGN_OR_RETURN(const Weights weights, WeightsOf(d));
      ASSIGN_OR_RETURN(State state, InitialState(d));
      ASSIGN_OR_RETURN(const Value projected, Projected(weights));
      const bool backward = direction_ == "reverse" || d == 1;
      std::vector<Value> outputs(static_cast<size_t>(steps_));
      for (int64_t i = 0; i < steps_; ++i) {
        const int64_t t = backward ? steps_ - 1 - i : i;
        ASSIGN_OR_RETURN(const Value row, node_.SliceAxis(projected, 0, t, t + 1));
        ASSIGN_OR_RETURN(const Value x, node_.Reshape(row, {batch_, gates_ * size_}));
        ASSIGN_OR_RETURN(state, Step(x, state, weights, d));
        ASSIGN_OR_RETURN(outputs[static_cast<size_t>(t)], node_.Reshape(state.hidden, {1, 1, batch_, size_}));
      }
      steps.push_back(std::move(outputs));
      ASSIGN_OR_RETURN(hidden.emplace_back(), node_.Reshape(state.hidden, {1, batch_, size_}));
      if (gates_ == 4) {
        ASSIGN_OR_RETURN(cell.emplace_back(), node_.Reshape(state.cell, {1, batch_, size_}));
      }
    }
    std::vector<Value> rows;
    for (int64_t t = 0; t < steps_; ++t) {
      std::vector<Value> both;
      for (const std::vector<Value>& direction : steps) both.push_back(direction[static_cast<size_t>(t)]);
      ASSIGN_OR_RETURN(rows.emplace_back(), node_.Concat(both, 1));
    }
    std::vector<Value> results(2);
    ASSIGN_OR_RETURN(results[0], node_.Concat(rows, 0));  // [t, d, b, h]
    ASSIGN_OR_RETURN(results[1], node_.Concat(hidden, 0));
    if (gates_ == 4) {
      ASSIGN_OR_RETURN(results.emplace_back(), node_.Concat(cell, 0));
    }
    if (batch_first_) {
      ASSIGN_OR_RETURN(results[0], node_.Transpose(results[0], {2, 0, 1, 3}));
      for (size_t k = 1; k < results.size(); ++k) {
        ASSIGN_OR_RETURN(results[k], node_.Transpose(results[k], {1, 0, 2}));
      }
    }
    return results;
  }

 private:
  absl::Status ReadAttributes() {
    ASSIGN_OR_RETURN(direction_, node_.String("direction", "forward"));
    if (direction_ != "forward" && direction_ != "reverse" && direction_ != "bidirectional") {
      return node_.Invalid(absl::StrCat("attribute direction is \"", direction_, "\""));
    }
    directions_ = direction_ == "bidirectional" ? 2 : 1;
    ASSIGN_OR_RETURN(const int64_t layout, node_.Int("layout", 0));
    batch_first_ = layout != 0;
    ASSIGN_OR_RETURN(const int64_t after, node_.Int("linear_before_reset", 0));
    reset_after_product_ = after != 0;
    ASSIGN_OR_RETURN(const int64_t coupled, node_.Int("input_forget", 0));
    if (coupled != 0) return node_.Unsupported("input_forget = 1");
    if (node_.HasAttribute("clip")) return node_.Unsupported("attribute clip");
    node_.Ignore({"hidden_size", "activation_alpha", "activation_beta"});
    std::vector<std::string> activations = {"Sigmoid", "Tanh", "Tanh"};
    if (gates_ == 1) activations = {"Tanh"};
    if (gates_ == 3) activations = {"Sigmoid", "Tanh"};
    const size_t count = activations.size();
    if (directions_ == 2) {
      activations.resize(2 * count);
      std::copy_n(activations.begin(), count, activations.begin() + static_cast<ptrdiff_t>(count));
    }
    ASSIGN_OR_RETURN(activations, node_.Strings("activations", activations));
    if (activations.size() != count * static_cast<size_t>(directions_)) {
      return node_.Invalid(absl::StrCat(activations.size(), " activations; expected ", count, " a direction"));
    }
    for (const std::string& name : activations) {
      const std::string op = absl::AsciiStrToLower(name);
      if (op != "sigmoid" && op != "tanh" && op != "relu") return node_.Unsupported("activation " + name);
      activations_.push_back(op);
    }
    return absl::OkStatus();
  }

  absl::Status ReadShapes() {
    const Shape& x = node_.input_type(0).shape;
    const Shape& w = node_.input_type(1).shape;
    const Shape& r = node_.input_type(2).shape;
    if (x.size() != 3 || w.size() != 3 || r.size() != 3) return node_.Invalid("X, W and R have three axes");
    steps_ = x[batch_first_ ? 1 : 0];
    batch_ = x[batch_first_ ? 0 : 1];
    input_ = x[2];
    size_ = r[2];
    if (w != Shape{directions_, gates_ * size_, input_} || r != Shape{directions_, gates_ * size_, size_}) {
      return node_.Invalid(absl::StrCat("weights ", node_.input_type(1).ToString(), " and ",
                                        node_.input_type(2).ToString(), " for ", node_.input_type(0).ToString(),
                                        " and ", directions_, " directions"));
    }
    if (steps_ < 1 || steps_ > kMaxRecurrentSteps)
      return node_.Unsupported(absl::StrCat(steps_, " steps; expected 1 to ", kMaxRecurrentSteps));
    if (node_.has_input(4)) {
      ASSIGN_OR_RETURN(const std::vector<int64_t> lengths, node_.IntsInput(4, "sequence_lens"));
      const bool whole = std::all_of(lengths.begin(), lengths.end(), [&](int64_t n) { return n == steps_; });
      if (!whole) return node_.Unsupported("sequence_lens, except of whole sequences");
    }
    return absl::OkStatus();
  }

  // Part d of an input of shape [d, ..], as a tensor of `shape`.
  absl::StatusOr<Value> Part(int input, int64_t d, const Shape& shape) {
    Shape whole = shape;
    whole.insert(whole.begin(), directions_);
    if (node_.input_type(input).shape != whole) {
      return node_.Invalid(
          absl::StrCat("input ", input, " is ", node_.input_type(input).ToString(), "; expected ", ShapeString(whole)));
    }
    ASSIGN_OR_RETURN(const Value part, node_.SliceAxis(node_.input(input), 0, d, d + 1));
    return node_.Reshape(part, shape);
  }

  absl::StatusOr<Weights> WeightsOf(int64_t d) {
    Weights weights;
    const int64_t rows = gates_ * size_;
    ASSIGN_OR_RETURN(const Value input, Part(1, d, {rows, input_}));
    ASSIGN_OR_RETURN(weights.input, node_.Transpose(input, {1, 0}));
    ASSIGN_OR_RETURN(const Value recurrent, Part(2, d, {rows, size_}));
    ASSIGN_OR_RETURN(weights.recurrent, node_.Transpose(recurrent, {1, 0}));
    if (node_.has_input(3)) {
      ASSIGN_OR_RETURN(const Value both, Part(3, d, {2 * rows}));
      ASSIGN_OR_RETURN(weights.input_bias, node_.SliceAxis(both, 0, 0, rows));
      ASSIGN_OR_RETURN(weights.recurrent_bias, node_.SliceAxis(both, 0, rows, 2 * rows));
    } else {
      ASSIGN_OR_RETURN(weights.input_bias, node_.Expand(node_.Number(node_.input_type(0).dtype, 0), {rows}));
      weights.recurrent_bias = weights.input_bias;
    }
    if (gates_ == 4 && node_.has_input(7)) {
      ASSIGN_OR_RETURN(weights.peephole, Part(7, d, {3 * size_}));
    }
    return weights;
  }

  absl::StatusOr<State> InitialState(int64_t d) {
    State state;
    for (int k = 0; k < (gates_ == 4 ? 2 : 1); ++k) {
      Value& value = k == 0 ? state.hidden : state.cell;
      if (!node_.has_input(5 + k)) {
        ASSIGN_OR_RETURN(value, node_.Expand(node_.Number(node_.input_type(0).dtype, 0), {batch_, size_}));
        continue;
      }
      Value given = node_.input(5 + k);
      if (node_.type(given).rank() != 3) {
        return node_.Invalid(absl::StrCat("input ", 5 + k, " is ", node_.type(given).ToString()));
      }
      if (batch_first_) {
        ASSIGN_OR_RETURN(given, node_.Transpose(given, {1, 0, 2}));
      }
      if (node_.shape(given) != Shape{directions_, batch_, size_}) {
        return node_.Invalid(absl::StrCat("input ", 5 + k, " is ", node_.input_type(5 + k).ToString()));
      }
      ASSIGN_OR_RETURN(const Value part, node_.SliceAxis(given, 0, d, d + 1));
      ASSIGN_OR_RETURN(value, node_.Reshape(part, {batch_, size_}));
    }
    return state;
  }

  // What the gates take from the input, of all steps: [t, b, gates * h]. The biases that are added to it later at any
  // rate are in it.
  absl::StatusOr<Value> Projected(const Weights& weights) {
    Value x = node_.input(0);
    if (batch_first_) {
      ASSIGN_OR_RETURN(x, node_.Transpose(x, {1, 0, 2}));
    }
    ASSIGN_OR_RETURN(x, node_.Reshape(x, {steps_ * batch_, input_}));
    Value bias = weights.input_bias;
    if (!reset_after_product_) bias = f_("add", {bias, weights.recurrent_bias});
    ASSIGN_OR_RETURN(const Value y, f_.Done(f_("add", {f_("matmul", {x, weights.input}), bias})));
    return node_.Reshape(y, {steps_, batch_, gates_ * size_});
  }

  absl::StatusOr<State> Step(Value x, const State& state, const Weights& weights, int64_t d) {
    if (gates_ == 1) return RnnStep(x, state, weights, d);
    return gates_ == 3 ? GruStep(x, state, weights, d) : LstmStep(x, state, weights, d);
  }

  // Activation number k of the direction.
  Value Act(int64_t d, size_t k, Value x) {
    return f_(activations_[k + static_cast<size_t>(d) * activations_.size() / static_cast<size_t>(directions_)], {x});
  }
  // Gate k of [.., gates * h].
  absl::StatusOr<Value> Gate(Value x, int64_t k) {
    return node_.SliceAxis(x, node_.type(x).rank() - 1, k * size_, (k + 1) * size_);
  }

  absl::StatusOr<State> RnnStep(Value x, const State& state, const Weights& weights, int64_t d) {
    ASSIGN_OR_RETURN(const Value hidden,
                     f_.Done(Act(d, 0, f_("add", {x, f_("matmul", {state.hidden, weights.recurrent})}))));
    return State{hidden, {}};
  }

  // Gates z, r, h (Cho et al. 2014): h' = (1 - z) * n + z * h.
  absl::StatusOr<State> GruStep(Value x, const State& state, const Weights& weights, int64_t d) {
    const Value h = state.hidden;
    Value product = f_("matmul", {h, weights.recurrent});
    if (reset_after_product_) product = f_("add", {product, weights.recurrent_bias});
    RETURN_IF_ERROR(f_.Done(product).status());
    std::vector<Value> own(3), recurrent(3);
    for (int64_t k = 0; k < 3; ++k) {
      ASSIGN_OR_RETURN(own[static_cast<size_t>(k)], Gate(x, k));
      ASSIGN_OR_RETURN(recurrent[static_cast<size_t>(k)], Gate(product, k));
    }
    const Value z = Act(d, 0, f_("add", {own[0], recurrent[0]}));
    const Value r = Act(d, 0, f_("add", {own[1], recurrent[1]}));
    Value candidate;
    if (reset_after_product_) {
      candidate = f_("mul", {r, recurrent[2]});
    } else {
      ASSIGN_OR_RETURN(const Value weight, Gate(weights.recurrent, 2));
      candidate = f_("matmul", {f_("mul", {r, h}), weight});
    }
    const Value n = Act(d, 1, f_("add", {own[2], candidate}));
    const Value kept = f_("sub", {f_.Number(h, 1), z});
    ASSIGN_OR_RETURN(const Value next, f_.Done(f_("add", {f_("mul", {kept, n}), f_("mul", {z, h})})));
    return State{next, {}};
  }

  // Gates i, o, f, c (Hochreiter and Schmidhuber 1997, with the forget gate of Gers et al. 2000).
  absl::StatusOr<State> LstmStep(Value x, const State& state, const Weights& weights, int64_t d) {
    const Value sum = f_("add", {x, f_("matmul", {state.hidden, weights.recurrent})});
    RETURN_IF_ERROR(f_.Done(sum).status());
    std::vector<Value> gates(4);
    for (int64_t k = 0; k < 4; ++k) {
      ASSIGN_OR_RETURN(gates[static_cast<size_t>(k)], Gate(sum, k));
    }
    const auto peep = [&](int64_t k, Value cell) -> absl::Status {
      if (!weights.peephole) return absl::OkStatus();
      ASSIGN_OR_RETURN(const Value weight, Gate(*weights.peephole, k));
      gates[static_cast<size_t>(k)] = f_("add", {gates[static_cast<size_t>(k)], f_("mul", {weight, cell})});
      return absl::OkStatus();
    };
    RETURN_IF_ERROR(peep(0, state.cell));
    RETURN_IF_ERROR(peep(2, state.cell));
    const Value forgotten = f_("mul", {Act(d, 0, gates[2]), state.cell});
    ASSIGN_OR_RETURN(const Value cell,
                     f_.Done(f_("add", {forgotten, f_("mul", {Act(d, 0, gates[0]), Act(d, 1, gates[3])})})));
    RETURN_IF_ERROR(peep(1, cell));
    ASSIGN_OR_RETURN(const Value hidden, f_.Done(f_("mul", {Act(d, 0, gates[1]), Act(d, 2, cell)})));
    return State{hidden, cell};
  }

  OnnxNode& node_;
  Formula f_;
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
