// LinearAttention and CausalConvWithState: attention with a state of fixed size instead of all earlier keys and values
// (Katharopoulos et al. 2020; with gates Yang et al. 2024; the delta rule Schlag et al. 2021), written out position by
// position, and the short convolution in front of it.
#include <algorithm>
#include <cmath>
#include <optional>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/onnx/operators.h"

namespace rewright {
namespace {

using Values = absl::StatusOr<std::vector<Value>>;

class LinearAttention {
 public:
  explicit LinearAttention(OnnxNode& node) : node_(node), f_(node) {}

  // With the state S [b, heads, dk, dv], decay g and rate r of position t:
  //   S = exp(g) S;  S = S + r k (v - S^T k)^T  or, without a rate,  S = S + k v^T;  output: scale S^T q
  Values Run() {
    RETURN_IF_ERROR(ReadAttributes());
    RETURN_IF_ERROR(ReadShapes());
    ASSIGN_OR_RETURN(const Value q, ByPosition(node_.input(0), heads_, group_, key_size_));
    ASSIGN_OR_RETURN(const Value k, ByPosition(node_.input(1), heads_, 1, key_size_));
    ASSIGN_OR_RETURN(const Value v, ByPosition(node_.input(2), heads_, 1, value_size_));
    std::optional<Value> decay, rate;
    if (decays_) {
      const bool each_key = node_.shape(node_.input(4))[2] != heads_;
      ASSIGN_OR_RETURN(decay, ByPosition(node_.input(4), heads_, each_key ? key_size_ : 1, 1));
    }
    if (corrects_) {
      ASSIGN_OR_RETURN(rate, ByPosition(node_.input(5), node_.shape(node_.input(5))[2], 1, 1));
    }
    ASSIGN_OR_RETURN(Value state, InitialState());
    std::vector<Value> rows;
    for (int64_t t = 0; t < positions_; ++t) {
      const auto at = [&](Value x) { return At(x, t); };
      if (decay) {
        ASSIGN_OR_RETURN(const Value g, at(*decay));
        state = f_("mul", {state, f_("exp", {g})});
      }
      ASSIGN_OR_RETURN(const Value key, at(k));  // [b, heads, 1, dk]
      ASSIGN_OR_RETURN(Value added, at(v));      // [b, heads, 1, dv]
      if (rate) {
        ASSIGN_OR_RETURN(const Value r, at(*rate));
        added = f_("mul", {r, f_("sub", {added, f_("matmul", {key, state})})});
      }
      const Value column = f_("transpose", {key}, {{"perm", std::vector<int64_t>{0, 1, 3, 2}}});
      state = f_("add", {state, f_("mul", {column, added})});
      ASSIGN_OR_RETURN(const Value query, at(q));
      ASSIGN_OR_RETURN(const Value row, f_.Done(f_("matmul", {query, state})));  // [b, heads, group, dv]
      ASSIGN_OR_RETURN(rows.emplace_back(), node_.Reshape(row, {batch_, 1, heads_ * group_ * value_size_}));
    }
    ASSIGN_OR_RETURN(Value output, node_.Concat(rows, 1));
    output = f_("mul", {output, f_.Number(output, scale_)});
    ASSIGN_OR_RETURN(output, f_.Done(output));
    ASSIGN_OR_RETURN(state, f_.Done(state));
    ASSIGN_OR_RETURN(output, node_.CastTo(output, node_.input_type(0).dtype));
    ASSIGN_OR_RETURN(state, node_.CastTo(state, node_.input_type(0).dtype));
    return std::vector<Value>{output, state};
  }

 private:
  absl::Status ReadAttributes() {
    node_.Ignore({"chunk_size"});
    ASSIGN_OR_RETURN(const std::string rule, node_.String("update_rule", "gated_delta"));
    if (rule != "linear" && rule != "gated" && rule != "delta" && rule != "gated_delta") {
      return node_.Invalid(absl::StrCat("update_rule is ", rule, ", expected linear, gated, delta or gated_delta"));
    }
    decays_ = rule == "gated" || rule == "gated_delta";
    corrects_ = rule == "delta" || rule == "gated_delta";
    if (decays_ && !node_.has_input(4)) return node_.Invalid(absl::StrCat("update_rule ", rule, " without decay"));
    if (corrects_ && !node_.has_input(5)) return node_.Invalid(absl::StrCat("update_rule ", rule, " without beta"));
    ASSIGN_OR_RETURN(const int64_t query_heads, node_.Int("q_num_heads", std::nullopt));
    ASSIGN_OR_RETURN(heads_, node_.Int("kv_num_heads", std::nullopt));
    if (heads_ < 1 || query_heads < heads_ || query_heads % heads_ != 0) {
      return node_.Invalid(absl::StrCat("q_num_heads is ", query_heads, " and kv_num_heads ", heads_,
                                        ", expected a multiple of the latter"));
    }
    group_ = query_heads / heads_;
    ASSIGN_OR_RETURN(scale_, node_.Float("scale", 0));
    return absl::OkStatus();
  }

  absl::Status ReadShapes() {
    const auto wrong = [&](int input, const std::string& expected) {
      return node_.Invalid(
          absl::StrCat("input ", input, " is ", node_.input_type(input).ToString(), ", expected ", expected));
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
      return node_.Unsupported(absl::StrCat(positions_, " positions; expected 1 to ", kMaxRecurrentSteps));
    }
    if (scale_ == 0) scale_ = 1 / std::sqrt(static_cast<double>(key_size_));
    return absl::OkStatus();
  }

  // [b, t, heads * rows * columns] as [t, b, heads, rows, columns]
  absl::StatusOr<Value> ByPosition(Value x, int64_t heads, int64_t rows, int64_t columns) {
    ASSIGN_OR_RETURN(x, node_.CastTo(x, computed()));
    ASSIGN_OR_RETURN(const Value parted, node_.Reshape(x, {batch_, positions_, heads, rows, columns}));
    return node_.Transpose(parted, {1, 0, 2, 3, 4});
  }
  absl::StatusOr<Value> At(Value x, int64_t t) {
    ASSIGN_OR_RETURN(const Value part, node_.SliceAxis(x, 0, t, t + 1));
    const Shape shape = node_.shape(part);
    return node_.Reshape(part, Shape(shape.begin() + 1, shape.end()));
  }

  absl::StatusOr<Value> InitialState() {
    if (node_.has_input(3)) return node_.CastTo(node_.input(3), computed());
    return node_.Expand(node_.Number(computed(), 0), {batch_, heads_, key_size_, value_size_});
  }
  // A state that is rounded to 16 bits at each position would forget.
  DType computed() const { return ComputedDType(node_.input_type(0).dtype); }

  OnnxNode& node_;
  Formula f_;
  bool decays_ = false, corrects_ = false;
  int64_t heads_ = 1, group_ = 1;  // of keys and values; query heads to each of them
  double scale_ = 0;
  int64_t batch_ = 0, positions_ = 0, key_size_ = 0, value_size_ = 0;
};

Values ImportLinearAttention(OnnxNode& node) { return LinearAttention(node).Run(); }

// Each channel is convolved with its own kernel, over what came before the first position and what is here.
Values CausalConv(OnnxNode& node) {
  const Value x = node.input(0), w = node.input(1);
  if (node.input_rank(0) != 3 || node.input_rank(1) != 3) {
    return node.Invalid(absl::StrCat("operands ", node.type(x).ToString(), " and ", node.type(w).ToString(),
                                     "; expected [batch, channels, length] and [channels, 1, kernel]"));
  }
  const Shape shape = node.shape(x), kernel = node.shape(w);
  const int64_t before = kernel[2] - 1;
  if (kernel[0] != shape[1] || kernel[1] != 1 || before < 0) {
    return node.Invalid(absl::StrCat("the kernel is ", ShapeString(kernel), ", expected ", ShapeString({shape[1], 1}),
                                     " and its size"));
  }
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return node.Unsupported("an empty operand");
  ASSIGN_OR_RETURN(const std::string activation, node.String("activation", "none"));
  if (activation != "none" && activation != "silu" && activation != "swish") {
    return node.Invalid(absl::StrCat("activation is ", activation, ", expected silu, swish or none"));
  }
  Value all = x;
  if (before > 0) {
    const Shape earlier = {shape[0], shape[1], before};
    Value past;
    if (node.has_input(3)) {
      past = node.input(3);
      if (node.shape(past) != earlier) {
        return node.Invalid(
            absl::StrCat("past_state is ", node.type(past).ToString(), ", expected ", ShapeString(earlier)));
      }
    } else {
      ASSIGN_OR_RETURN(past, node.Expand(node.Number(node.type(x).dtype, 0), earlier));
    }
    ASSIGN_OR_RETURN(all, node.Concat({past, x}, 2));
  }
  ASSIGN_OR_RETURN(const Value images, node.Reshape(all, {shape[0], shape[1], 1, before + shape[2]}));
  ASSIGN_OR_RETURN(const Value kernels, node.Reshape(w, {shape[1], 1, 1, kernel[2]}));
  ASSIGN_OR_RETURN(const Value images_out, node.Apply("conv2d", {images, kernels}, {{"groups", shape[1]}}));
  ASSIGN_OR_RETURN(Value y, node.Reshape(images_out, shape));
  if (node.has_input(2)) {
    ASSIGN_OR_RETURN(const Value bias, node.Reshape(node.input(2), {shape[1], 1}));
    ASSIGN_OR_RETURN(y, node.Apply("add", {y, bias}));
  }
  if (activation != "none") {
    ASSIGN_OR_RETURN(y, node.Apply("swish", {y}));
  }
  std::vector<Value> results = {y};
  if (node.wants_output(1)) {
    if (before == 0) return node.Unsupported("the state of a kernel of one element, which is empty");
    ASSIGN_OR_RETURN(results.emplace_back(), node.SliceAxis(all, 2, shape[2], shape[2] + before));
  }
  return results;
}

}  // namespace

OnnxOperatorList LinearAttentionOperators() {
  return {{"LinearAttention", {27, 27, 3, 6, ImportLinearAttention}},
          {"CausalConvWithState", {27, 27, 2, 4, CausalConv}}};
}

}  // namespace rewright
