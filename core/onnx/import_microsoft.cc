// Operators of the domain com.microsoft that onnxruntime's optimizations write for floats: composed of what was fused.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/onnx/operators.h"

namespace rewright {
namespace {

using Values = absl::StatusOr<std::vector<Value>>;

constexpr double kSkipEpsilon = 1e-12f;

// y through the function that attribute `activation` names; none where there is none.
absl::StatusOr<Value> Activated(OnnxNode& node, Value y, const std::vector<double>& params) {
  ASSIGN_OR_RETURN(const std::string name, node.String("activation", ""));
  if (name.empty()) return y;
  const auto param = [&](size_t i, double fallback) { return i < params.size() ? params[i] : fallback; };
  Formula f(node);
  if (name == "Relu") return f.Done(f("relu", {y}));
  if (name == "Sigmoid") return f.Done(f("sigmoid", {y}));
  if (name == "Tanh") return f.Done(f("tanh", {y}));
  if (name == "LeakyRelu") return f.Done(f("leaky_relu", {y}, {{"alpha", param(0, 0.01f)}}));
  if (name == "Clip" && params.size() == 2) return f.Done(f("clip", {y}, {{"min", params[0]}, {"max", params[1]}}));
  if (name == "HardSigmoid") {
    const Value line = f("add", {f("mul", {y, f.Number(y, param(0, 0.2f))}), f.Number(y, param(1, 0.5f))});
    return f.Done(f("clip", {line}, {{"min", 0.0}, {"max", 1.0}}));
  }
  return node.Unsupported(absl::StrCat("activation ", name, " of ", params.size(), " parameters"));
}

// A convolution with its bias, a sum with input 3, a function.
Values FusedConv(OnnxNode& node) {
  std::vector<double> params;
  if (node.HasAttribute("activation_params")) {
    ASSIGN_OR_RETURN(params, node.Floats("activation_params"));
  }
  ASSIGN_OR_RETURN(Value y, ConvOf(node));
  if (node.has_input(3)) {
    ASSIGN_OR_RETURN(y, node.Apply("add", {y, node.input(3)}));
  }
  return OneOutput(Activated(node, y, params));
}

Values FusedGemm(OnnxNode& node) {
  std::vector<double> params;
  for (const char* name : {"activation_alpha", "activation_beta", "activation_gamma"}) {
    if (!node.HasAttribute(name)) continue;
    ASSIGN_OR_RETURN(params.emplace_back(), node.Float(name, std::nullopt));
  }
  ASSIGN_OR_RETURN(const Value y, GemmOf(node));
  return OneOutput(Activated(node, y, params));
}

absl::StatusOr<Value> LastTwoExchanged(OnnxNode& node, Value x) {
  std::vector<int64_t> perm;
  const int rank = node.type(x).rank();
  for (int64_t axis = 0; axis < rank; ++axis) perm.push_back(axis);
  if (rank >= 2) std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  return node.Transpose(x, perm);
}

// alpha * A' B'
Values FusedMatMul(OnnxNode& node) {
  ASSIGN_OR_RETURN(const double alpha, node.Float("alpha", 1));
  ASSIGN_OR_RETURN(const int64_t batch_a, node.Int("transBatchA", 0));
  ASSIGN_OR_RETURN(const int64_t batch_b, node.Int("transBatchB", 0));
  if (batch_a != 0 || batch_b != 0) return node.Unsupported("transBatchA or transBatchB");
  std::vector<Value> factors;
  for (const auto& [i, name] : {std::pair(0, "transA"), {1, "transB"}}) {
    ASSIGN_OR_RETURN(const int64_t turned, node.Int(name, 0));
    factors.push_back(node.input(i));
    if (turned == 0) continue;
    ASSIGN_OR_RETURN(factors.back(), LastTwoExchanged(node, node.input(i)));
  }
  ASSIGN_OR_RETURN(const Value product, Product(node, factors[0], factors[1]));
  Formula f(node);
  return alpha == 1 ? OneOutput(product) : f.Output(f("mul", {product, f.Number(product, alpha)}));
}

// The function of our name for the operator, of x or x + bias.
Values Gelu(OnnxNode& node) {
  Formula f(node);
  Value x = node.input(0);
  if (node.has_input(1)) x = f("add", {x, node.input(1)});
  return f.Output(f(node.op(), {x}));
}

// x * sigmoid(alpha * x)
Values QuickGelu(OnnxNode& node) {
  ASSIGN_OR_RETURN(const double alpha, node.Float("alpha", 1.702f));
  const Value x = node.input(0);
  Formula f(node);
  return f.Output(f("mul", {x, f("sigmoid", {f("mul", {x, f.Number(x, alpha)})})}));
}

// A sum over its last axis, normalized; beside it the sum. Statistics are not given.
absl::StatusOr<Value> LayerNormalized(OnnxNode& node, Value x, Value scale, std::optional<Value> bias, double epsilon) {
  Formula f(node);
  if (!bias) bias = f("mul", {scale, f.Number(scale, 0)});
  RETURN_IF_ERROR(f.Done(*bias).status());
  return node.Apply("layer_norm", {x, scale, *bias},
                    {{"axis", int64_t{node.type(x).rank() - 1}}, {"epsilon", epsilon}});
}

absl::StatusOr<Value> SumOf(OnnxNode& node, int bias) {
  Formula f(node);
  Value sum = f("add", {node.input(0), node.input(1)});
  if (node.has_input(bias)) sum = f("add", {sum, node.input(bias)});
  return f.Done(sum);
}

absl::Status CheckNoStatistics(const OnnxNode& node) {
  const bool wanted = node.wants_output(1) || node.wants_output(2);
  return wanted ? node.Unsupported("output 1 or 2, the statistics") : absl::OkStatus();
}

// Inputs: x, skip, scale, shift, bias of the sum. Outputs: the result, two statistics, the sum.
Values SkipLayerNormalization(OnnxNode& node) {
  ASSIGN_OR_RETURN(const double epsilon, node.Float("epsilon", kSkipEpsilon));
  RETURN_IF_ERROR(CheckNoStatistics(node));
  ASSIGN_OR_RETURN(const Value sum, SumOf(node, 4));
  const std::optional<Value> shift = node.has_input(3) ? std::optional(node.input(3)) : std::nullopt;
  ASSIGN_OR_RETURN(const Value y, LayerNormalized(node, sum, node.input(2), shift, epsilon));
  return std::vector<Value>{y, y, y, sum};
}

// Inputs: x, skip, scale, bias of the sum.
Values SkipSimplifiedLayerNormalization(OnnxNode& node) {
  ASSIGN_OR_RETURN(const double epsilon, node.Float("epsilon", kSkipEpsilon));
  RETURN_IF_ERROR(CheckNoStatistics(node));
  ASSIGN_OR_RETURN(const Value sum, SumOf(node, 3));
  ASSIGN_OR_RETURN(const Value y, RmsNormalized(node, sum, node.input(2), node.type(sum).rank() - 1, epsilon));
  return std::vector<Value>{y, y, y, sum};
}

// Inputs: tokens, segments, tables of words, positions and segments, scale, shift, mask, positions. Outputs: the sum of
// the rows, normalized; how many of the mask are set; the sum.
Values EmbedLayerNormalization(OnnxNode& node) {
  ASSIGN_OR_RETURN(const double epsilon, node.Float("epsilon", kSkipEpsilon));
  ASSIGN_OR_RETURN(const int64_t mask_type, node.Int("mask_index_type", 1));
  RETURN_IF_ERROR(node.CheckGiven({2, 3, 5, 6}));
  if (node.input_rank(0) != 2) return node.Invalid(absl::StrCat("tokens ", node.input_type(0).ToString()));
  if (node.has_input(1) != node.has_input(4)) return node.Invalid("segments and their table are given together");
  const Shape tokens = node.input_type(0).shape;
  Formula f(node);
  const auto rows = [&](int table, Value at) { return f("gather", {node.input(table), at}, {{"axis", int64_t{0}}}); };
  Value positions;
  if (node.has_input(8)) {
    positions = node.input(8);
  } else {
    ASSIGN_OR_RETURN(positions, node.CountAlong(tokens[1], 0, 1));
  }
  Value sum = f("add", {rows(2, node.input(0)), rows(3, positions)});
  if (node.has_input(1)) sum = f("add", {sum, rows(4, node.input(1))});
  RETURN_IF_ERROR(f.Done(sum).status());
  ASSIGN_OR_RETURN(const Value y, LayerNormalized(node, sum, node.input(5), node.input(6), epsilon));
  std::vector<Value> results = {y, y, sum};
  if (!node.wants_output(1)) return results;
  if (mask_type != 1) return node.Unsupported(absl::StrCat("mask_index_type = ", mask_type));
  results[1] = node.Constant(Tensor(TensorType{DType::kInt32, {tokens[0]}}));
  if (node.has_input(7)) {
    results[1] = f("reduce_sum", {node.input(7)}, {{"axes", std::vector<int64_t>{1}}, {"keepdims", int64_t{0}}});
    RETURN_IF_ERROR(f.Done(results[1]).status());
  }
  return results;
}

}  // namespace

OnnxOperatorList MicrosoftOperators() {
  return {
      {"com.microsoft.FusedConv", {1, 1, 2, 4, FusedConv}},
      {"com.microsoft.FusedGemm", {1, 1, 2, 3, FusedGemm}},
      {"com.microsoft.FusedMatMul", {1, 1, 2, 2, FusedMatMul}},
      {"com.microsoft.Gelu", {1, 1, 1, 1, Gelu, "gelu"}},
      {"com.microsoft.BiasGelu", {1, 1, 2, 2, Gelu, "gelu"}},
      {"com.microsoft.FastGelu", {1, 1, 1, 2, Gelu, "gelu_tanh"}},
      {"com.microsoft.QuickGelu", {1, 1, 1, 1, QuickGelu}},
      {"com.microsoft.SkipLayerNormalization", {1, 1, 3, 5, SkipLayerNormalization}},
      {"com.microsoft.SkipSimplifiedLayerNormalization", {1, 1, 3, 4, SkipSimplifiedLayerNormalization}},
      {"com.microsoft.EmbedLayerNormalization", {1, 1, 1, 9, EmbedLayerNormalization}},
  };
}

}  // namespace rewright
