// Operators of the domain com.microsoft that onnxruntime's optimizations write for floats, composed of the operators
// that were fused.
#include "core/base/status_macros.h"
#include "core/onnx/operators.h"

namespace rewright {
namespace {

constexpr double kSkipEpsilon = 1e-12f;

// Applies the function that attribute `activation` names to y; returns y if it names none.
Value Activated(OnnxNode& node, Value y, const std::vector<double>& params) {
  const std::string name = node.String("activation", "");
  if (name.empty()) return y;
  const auto param = [&](size_t i, double fallback) { return i < params.size() ? params[i] : fallback; };
  if (name == "Relu") return node("relu", {y});
  if (name == "Sigmoid") return node("sigmoid", {y});
  if (name == "Tanh") return node("tanh", {y});
  if (name == "LeakyRelu") return node("leaky_relu", {y}, {{"alpha", param(0, 0.01f)}});
  if (name == "Clip" && params.size() == 2) return node("clip", {y}, {{"min", params[0]}, {"max", params[1]}});
  if (name == "HardSigmoid") {
    const Value line = node("add", {node("mul", {y, node.Number(y, param(0, 0.2f))}), node.Number(y, param(1, 0.5f))});
    return node("clip", {line}, {{"min", 0.0}, {"max", 1.0}});
  }
  return node.Fail(Unimplemented("activation ", name, " of ", params.size(), " parameters"));
}

// A convolution with its bias, a sum with input 3, and a function.
Values FusedConv(OnnxNode& node) {
  std::vector<double> params;
  if (node.HasAttribute("activation_params")) params = node.Floats("activation_params");
  ASSIGN_OR_RETURN(Value y, ConvOf(node));
  if (node.has_input(3)) y = node("add", {y, node.input(3)});
  return OneOutput(Activated(node, y, params));
}

Values FusedGemm(OnnxNode& node) {
  std::vector<double> params;
  for (const char* name : {"activation_alpha", "activation_beta", "activation_gamma"}) {
    if (node.HasAttribute(name)) params.push_back(node.Float(name));
  }
  ASSIGN_OR_RETURN(const Value y, GemmOf(node));
  return OneOutput(Activated(node, y, params));
}

Value LastTwoExchanged(OnnxNode& node, Value x) {
  std::vector<int64_t> perm = AxesFrom(0, node.type(x).rank());
  if (perm.size() >= 2) std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  return node.Transpose(x, perm);
}

// alpha * A' B'
Values FusedMatMul(OnnxNode& node) {
  const double alpha = node.Float("alpha", 1);
  if (node.Flag("transBatchA") || node.Flag("transBatchB")) return Unimplemented("transBatchA or transBatchB");
  Value a = node.input(0), b = node.input(1);
  if (node.Flag("transA")) a = LastTwoExchanged(node, a);
  if (node.Flag("transB")) b = LastTwoExchanged(node, b);
  return OneOutput(Scaled(node, Product(node, a, b), alpha));
}

// Applies the function of core/ops for the operator to x or x + bias.
Values GeluOfSum(OnnxNode& node) {
  Value x = node.input(0);
  if (node.has_input(1)) x = node("add", {x, node.input(1)});
  return OneOutput(node(node.op(), {x}));
}

// x * sigmoid(alpha * x)
Values QuickGelu(OnnxNode& node) {
  const double alpha = node.Float("alpha", 1.702f);
  const Value x = node.input(0);
  return OneOutput(node("mul", {x, node("sigmoid", {node("mul", {x, node.Number(x, alpha)})})}));
}

// Normalizes a sum over its last axis; also returns the sum. Statistics are not given.
Value LayerNormalized(OnnxNode& node, Value x, Value scale, std::optional<Value> bias, double epsilon) {
  if (!bias) bias = node("mul", {scale, node.Number(scale, 0)});
  return node("layer_norm", {x, scale, *bias}, {{"axis", int64_t{node.type(x).rank() - 1}}, {"epsilon", epsilon}});
}

Value SumOf(OnnxNode& node, int bias) {
  Value sum = node("add", {node.input(0), node.input(1)});
  if (node.has_input(bias)) sum = node("add", {sum, node.input(bias)});
  return sum;
}

absl::Status CheckNoStatistics(const OnnxNode& node) {
  const bool wanted = node.wants_output(1) || node.wants_output(2);
  return wanted ? Unimplemented("output 1 or 2, the statistics") : absl::OkStatus();
}

// Inputs: x, skip, scale, shift, bias of the sum. Outputs: the result, two statistics, the sum.
Values SkipLayerNormalization(OnnxNode& node) {
  const double epsilon = node.Float("epsilon", kSkipEpsilon);
  RETURN_IF_ERROR(CheckNoStatistics(node));
  const Value sum = SumOf(node, 4);
  const Value y = LayerNormalized(node, sum, node.input(2), node.optional_input(3), epsilon);
  return std::vector<Value>{y, y, y, sum};
}

// Inputs: x, skip, scale, bias of the sum.
Values SkipSimplifiedLayerNormalization(OnnxNode& node) {
  const double epsilon = node.Float("epsilon", kSkipEpsilon);
  RETURN_IF_ERROR(CheckNoStatistics(node));
  const Value sum = SumOf(node, 3);
  const Value y = RmsNormalized(node, sum, node.input(2), node.type(sum).rank() - 1, epsilon);
  return std::vector<Value>{y, y, y, sum};
}

// Inputs: tokens, segments, tables of words, positions and segments, scale, shift, mask, positions. Outputs: the
// normalized sum of the rows; the number of set mask elements; the sum.
Values EmbedLayerNormalization(OnnxNode& node) {
  const double epsilon = node.Float("epsilon", kSkipEpsilon);
  const int64_t mask_type = node.Int("mask_index_type", 1);
  RETURN_IF_ERROR(node.CheckGiven({2, 3, 5, 6}));
  if (node.input_rank(0) != 2) return InvalidArgument("tokens ", node.input_type(0).ToString());
  if (node.has_input(1) != node.has_input(4)) return InvalidArgument("segments and their table are given together");
  const Shape tokens = node.input_type(0).shape;
  const auto rows = [&](int table, Value at) {
    return node("gather", {node.input(table), at}, {{"axis", int64_t{0}}});
  };
  const Value positions = node.has_input(8) ? node.input(8) : node.CountAlong(tokens[1], 0, 1);
  Value sum = node("add", {rows(2, node.input(0)), rows(3, positions)});
  if (node.has_input(1)) sum = node("add", {sum, rows(4, node.input(1))});
  const Value y = LayerNormalized(node, sum, node.input(5), node.input(6), epsilon);
  std::vector<Value> results = {y, y, sum};
  if (!node.wants_output(1)) return results;
  if (mask_type != 1) return Unimplemented("mask_index_type = ", mask_type);
  results[1] = node.Constant(Tensor(TensorType{DType::kInt32, {tokens[0]}}));
  if (node.has_input(7)) {
    results[1] = node("reduce_sum", {node.input(7)}, {{"axes", std::vector<int64_t>{1}}, {"keepdims", int64_t{0}}});
  }
  return results;
}

}  // namespace

OnnxOperatorList MicrosoftOperators() {
  return {
      {"com.microsoft.FusedConv", {1, 1, 2, 4, FusedConv}},
      {"com.microsoft.FusedGemm", {1, 1, 2, 3, FusedGemm}},
      {"com.microsoft.FusedMatMul", {1, 1, 2, 2, FusedMatMul}},
      {"com.microsoft.Gelu", {1, 1, 1, 1, GeluOfSum, "gelu"}},
      {"com.microsoft.BiasGelu", {1, 1, 2, 2, GeluOfSum, "gelu"}},
      {"com.microsoft.FastGelu", {1, 1, 1, 2, GeluOfSum, "gelu_tanh"}},
      {"com.microsoft.QuickGelu", {1, 1, 1, 1, QuickGelu}},
      {"com.microsoft.SkipLayerNormalization", {1, 1, 3, 5, SkipLayerNormalization}},
      {"com.microsoft.SkipSimplifiedLayerNormalization", {1, 1, 3, 4, SkipSimplifiedLayerNormalization}},
      {"com.microsoft.EmbedLayerNormalization", {1, 1, 1, 9, EmbedLayerNormalization}},
  };
}

}  // namespace rewright
