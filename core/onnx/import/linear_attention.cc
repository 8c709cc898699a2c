// LinearAttention and CausalConvWithState: attention with a state of fixed size instead of all earlier keys and values
// (Katharopoulos et al. 2020; with gates Yang et al. 2024; the delta rule Schlag et al. 2021), written out position by
// position, and the short convolution in front of it.
#include <algorithm>
#include <cmath>

#include "core/base/status_macros.h"
#include "core/onnx/operators.h"

namespace rewright {
namespace {

class LinearAttention {
 public:
  explicit LinearAttention(OnnxNode& node) : node_(node) {}

  // Updates the state S [b, heads, dk, dv] with decay g and rate r of position t:
  //   S = exp(g) S;  S = S + r k (v - S^T k)^T  or, without a rate,  S = S + k v^T;  output: scale S^T q
  Values Run() {
    RETURN_IF_ERROR(ReadAttributes());
    RETURN_IF_ERROR(ReadShapes());
    const Value q = ByPosition(node_.input(0), heads_, group_, key_size_);
    const Value k = ByPosition(node_.input(1), heads_, 1, key_size_);
    const Value v = ByPosition(node_.input(2), heads_, 1, value_size_);
    std::optional<Value> decay, rate;
    const bool each_key = decays_ && node_.input_type(4).shape[2] != heads_;
    if (decays_) decay = ByPosition(node_.input(4), heads_, each_key ? key_size_ : 1, 1);
    if (corrects_) rate = ByPosition(node_.input(5), node_.input_type(5).shape[2], 1, 1);
    Value state = InitialState();
    std::vector<Value> rows;
    for (int64_t t = 0; t < positions_; ++t) {
      if (decay) state = node_("mul", {state, node_("exp", {At(*decay, t)})});
      const Value key = At(k, t);  // [b, heads, 1, dk]
      Value added = At(v, t);      // [b, heads, 1, dv]
      if (rate) added = node_("mul", {At(*rate, t), node_("sub", {added, node_("matmul", {key, state})})});
      state = node_("add", {state, node_("mul", {node_.Transpose(key, {0, 1, 3, 2}), added})});
      const Value row = node_("matmul", {At(q, t), state});  // [b, heads, group, dv]
      rows.push_back(node_.Reshape(row, {batch_, 1, heads_ * group_ * value_size_}));
    }
    Value output = node_.Concat(rows, 1);
    output = node_("mul", {output, node_.Number(output, scale_)});
    const DType type = node_.input_type(0).dtype;
    return std::vector<Value>{node_.CastTo(output, type), node_.CastTo(state, type)};
  }

 private:
  absl::Status ReadAttributes() {
    node_.Ignore({"chunk_size"});
    const std::string rule = node_.String("update_rule", "gated_delta");
    if (rule != "linear" && rule != "gated" && rule != "delta" && rule != "gated_delta") {
      return InvalidArgument("update_rule is ", rule, ", expected linear, gated, delta or gated_delta");
    }
    decays_ = rule == "gated" || rule == "gated_delta";
    corrects_ = rule == "delta" || rule == "gated_delta";
    if (decays_ && !node_.has_input(4)) return InvalidArgument("update_rule ", rule, " without decay");
    if (corrects_ && !node_.has_input(5)) return InvalidArgument("update_rule ", rule, " without beta");
    const int64_t query_heads = node_.Int("q_num_heads");
    heads_ = node_.Int("kv_num_heads");
    if (heads_ < 1 || query_heads < heads_ || query_heads % heads_ != 0) {
      return InvalidArgument("q_num_heads is ", query_heads, " and kv_num_heads ", heads_,
                             ", expected a multiple of the latter");
    }
    group_ = query_heads / heads_;
    scale_ = node_.Float("scale", 0);
    return absl::OkStatus();
  }

  absl::Status ReadShapes() {
    const auto wrong = [&](int input, const std::string& expected) {
      return InvalidArgument("input ", input, " is ", node_.input_type(input).ToString(), ", expected ", expected);
    };
    for (int i = 0; i < 3; ++i) {
      if (node_.input_rank(i) != 3) return wrong(i, "[batch, positions, heads * size]");
    }
    const Shape& q = node_.shape(node_.input(0));
    batch_ = q[0], positions_ = q[1];
    if (q[2] < 1 || q[2] % (heads_ * group_) != 0) return wrong(0, absl::StrCat(heads_ * group_, " heads"));
    key_size_ = q[2] / (heads_ * group_);
    const Shape& v = node_.shape(node_.input(2));
    if (v[2] < 1 || v[2] % heads_ != 0) return wrong(2, absl::StrCat(heads_, " heads"));
    value_size_ = v[2] / heads_;
    const auto require = [&](int input, const Shape& expected) {
      return node_.shape(node_.input(input)) == expected ? absl::OkStatus() : wrong(input, ShapeString(expected));
    };
    RETURN_IF_ERROR(require(1, {batch_, positions_, heads_ * key_size_}));
    RETURN_IF_ERROR(require(2, {batch_, positions_, heads_ * value_size_}));
    if (node_.has_input(3)) RETURN_IF_ERROR(require(3, {batch_, heads_, key_size_, value_size_}));
    if (decays_ && node_.shape(node_.input(4)) != Shape{batch_, positions_, heads_}) {
      RETURN_IF_ERROR(require(4, {batch_, positions_, heads_ * key_size_}));
    }
    if (corrects_ && node_.shape(node_.input(5)) != Shape{batch_, positions_, 1}) {
      RETURN_IF_ERROR(require(5, {batch_, positions_, heads_}));
    }
    if (batch_ < 1 || positions_ < 1 || positions_ > kMaxRecurrentSteps) {
      return Unimplemented(positions_, " positions; expected 1 to ", kMaxRecurrentSteps);
    }
    if (scale_ == 0) scale_ = 1 / std::sqrt(static_cast<double>(key_size_));
    return absl::OkStatus();
  }

  // Reshapes [b, t, heads * rows * columns] to [t, b, heads, rows, columns].
  Value ByPosition(Value x, int64_t heads, int64_t rows, int64_t columns) {
    x = node_.Reshape(node_.CastTo(x, computed()), {batch_, positions_, heads, rows, columns});
    return node_.Transpose(x, {1, 0, 2, 3, 4});
  }
  Value At(Value x, int64_t t) {
    const Shape shape = node_.shape(x);
    return node_.Reshape(node_.SliceAxis(x, 0, t, t + 1), Shape(shape.begin() + 1, shape.end()));
  }

  Value InitialState() {
    if (node_.has_input(3)) return node_.CastTo(node_.input(3), computed());
    return node_.Expand(node_.Number(computed(), 0), {batch_, heads_, key_size_, value_size_});
  }
  // The state stays in f32: rounding it to 16 bits at each position would lose earlier terms.
  DType computed() const { return ComputedDType(node_.input_type(0).dtype); }

  OnnxNode& node_;
  bool decays_ = false, corrects_ = false;
  int64_t heads_ = 1, group_ = 1;  // of keys and values; query heads to each of them
  double scale_ = 0;
  int64_t batch_ = 0, positions_ = 0, key_size_ = 0, value_size_ = 0;
};

Values ImportLinearAttention(OnnxNode& node) { return LinearAttention(node).Run(); }

// Convolves each channel with its own kernel, over the positions of the state and those of the input.
Values CausalConv(OnnxNode& node) {
  const Value x = node.input(0), w = node.input(1);
  if (node.input_rank(0) != 3 || node.input_rank(1) != 3) {
    return InvalidArgument("operands ", node.type(x).ToString(), " and ", node.type(w).ToString(),
                           "; expected [batch, channels, length] and [channels, 1, kernel]");
  }
  const Shape shape = node.shape(x), kernel = node.shape(w);
  const int64_t before = kernel[2] - 1;
  if (kernel[0] != shape[1] || kernel[1] != 1 || before < 0) {
    return InvalidArgument("the kernel is ", ShapeString(kernel), ", expected ", ShapeString({shape[1], 1}),
                           " and its size");
  }
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return Unimplemented("an empty operand");
  const std::string activation = node.String("activation", "none");
  if (activation != "none" && activation != "silu" && activation != "swish") {
    return InvalidArgument("activation is ", activation, ", expected silu, swish or none");
  }
  Value all = x;
  if (before > 0) {
    const Shape earlier = {shape[0], shape[1], before};
    const Value past = node.has_input(3) ? node.input(3) : node.Expand(node.Number(x, 0), earlier);
    if (node.shape(past) != earlier) {
      return InvalidArgument("past_state is ", node.type(past).ToString(), ", expected ", ShapeString(earlier));
    }
    all = node.Concat({past, x}, 2);
  }
  const Value images = node.Reshape(all, {shape[0], shape[1], 1, before + shape[2]});
  const Value kernels = node.Reshape(w, {shape[1], 1, 1, kernel[2]});
  Value y = node.Reshape(node("conv2d", {images, kernels}, {{"groups", shape[1]}}), shape);
  if (node.has_input(2)) y = node("add", {y, node.Reshape(node.input(2), {shape[1], 1})});
  if (activation != "none") y = node("swish", {y});
  std::vector<Value> results = {y};
  if (node.wants_output(1)) {
    if (before == 0) return Unimplemented("the state of a kernel of one element, which is empty");
    results.push_back(node.SliceAxis(all, 2, shape[2], shape[2] + before));
  }
  return results;
}

}  // namespace

OnnxOperatorList LinearAttentionOperators() {
  return {{"LinearAttention", {27, 27, 3, 6, ImportLinearAttention}},
          {"CausalConvWithState", {27, 27, 2, 4, CausalConv}}};
}

}  // namespace rewright
