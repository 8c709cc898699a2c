// Llama (Touvron et al., 2023) at the size of GPT-2 small: RMS norms, rotary positions (Su et al., 2021), gated linear
// layers, no biases. Written out as PyTorch's exporter writes Hugging Face's LlamaForCausalLM, with the rotations and
// the causal mask as constants.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "bench/zoo/net.h"

namespace rewright::zoo {
namespace {

constexpr double kRotaryBase = 10000;

Value RmsNorm(Net& net, Value x, const std::string& name) {
  const Value mean = net.Op("reduce_mean", {net.Op("pow", {x, net.Scalar(2)})},
                            {{"axes", Shape{net.Rank(x) - 1}}, {"keepdims", int64_t{1}}});
  const Value root = net.Op("sqrt", {net.Add(mean, net.Scalar(1e-5))});
  const Value scale = net.Weight(name + ".weight", {net.Dim(x, static_cast<int>(net.Rank(x)) - 1)}, 1, 0.1);
  return net.Mul(scale, net.Mul(x, net.Op("div", {net.Scalar(1), root})));
}

// x [n, s, in] times the transpose of "<name>.weight" [out, in].
Value Project(Net& net, Value x, const std::string& name, int64_t out, Gain gain = kLinear) {
  const int64_t in = net.Dim(x, 2);
  const Value weight = net.Weight(name + ".weight", {out, in}, 0, gain.value / std::sqrt(static_cast<double>(in)));
  return net.MatMul(x, net.Transpose(weight, {1, 0}));
}

// cos (or sin) of position times frequency, [length, kHeadSize]: the second half of a head turns as the first does.
Value Rotations(Net& net, int64_t length, double (*function)(double)) {
  Tensor table(TensorType{DType::kFloat32, {length, kHeadSize}});
  for (int64_t position = 0; position < length; ++position) {
    for (int64_t i = 0; i < kHeadSize; ++i) {
      const double exponent = static_cast<double>(i % (kHeadSize / 2)) / (kHeadSize / 2);
      const double angle = static_cast<double>(position) * std::pow(kRotaryBase, -exponent);
      table.as<float>()[position * kHeadSize + i] = static_cast<float>(function(angle));
    }
  }
  return net.Constant(table);
}

struct Tables {
  Value cos, sin, mask;
};

// x [n, heads, s, kHeadSize] turned by its positions.
Value Rotate(Net& net, Value x, const Tables& tables) {
  const Shape dims = {net.Dim(x, 0), net.Dim(x, 1), net.Dim(x, 2)};
  const auto half = [&](int64_t first) {
    const Shape starts = {0, 0, 0, first}, stops = {dims[0], dims[1], dims[2], first + kHeadSize / 2};
    return net.Op("slice", {x}, {{"starts", starts}, {"stops", stops}});
  };
  const Value turned = net.Concat({net.Op("neg", {half(kHeadSize / 2)}), half(0)}, 3);
  return net.Add(net.Mul(x, tables.cos), net.Mul(turned, tables.sin));
}

Value Attention(Net& net, Value x, const Tables& tables, const std::string& name) {
  const int64_t n = net.Dim(x, 0), s = net.Dim(x, 1), width = net.Dim(x, 2);
  const auto heads = [&](const std::string& part) {
    const Value y = net.Reshape(Project(net, x, name + part, width), {n, s, width / kHeadSize, kHeadSize});
    return net.Transpose(y, {0, 2, 1, 3});
  };
  const Value q = Rotate(net, heads(".q_proj"), tables), k = Rotate(net, heads(".k_proj"), tables);
  const Value products = net.MatMul(q, net.Transpose(k, {0, 1, 3, 2}));
  const Value scores = net.Mul(products, net.Scalar(1 / std::sqrt(static_cast<double>(kHeadSize))));
  const Value probabilities = net.Op("softmax", {net.Add(scores, tables.mask)}, {{"axis", int64_t{3}}});
  const Value context = net.Transpose(net.MatMul(probabilities, heads(".v_proj")), {0, 2, 1, 3});
  return Project(net, net.Reshape(context, {n, s, width}), name + ".o_proj", width);
}

// The product of silu(gate) and up, brought back to the width.
Value GatedMlp(Net& net, Value x, const std::string& name) {
  const int64_t width = net.Dim(x, 2), hidden = width * 8 / 3;
  const Value gate = Project(net, x, name + ".gate_proj", hidden);
  const Value silu = net.Mul(gate, net.Op("sigmoid", {gate}));
  return Project(net, net.Mul(silu, Project(net, x, name + ".up_proj", hidden)), name + ".down_proj", width,
                 kAfterRelu);
}

}  // namespace

absl::StatusOr<Graph> BuildLlamaSmall(const ZooOptions& options) {
  const int64_t length = Default(options.sequence_length, 128), width = Default(options.width, 768);
  if (width % (3 * kHeadSize) != 0) {
    return absl::InvalidArgumentError(absl::StrCat("the width is ", width, "; expected a multiple of ", 3 * kHeadSize));
  }
  Net net(options.seed);
  const Value ids = net.Input("input_ids", DType::kInt64, {Default(options.batch, 1), length});
  constexpr int64_t kVocabulary = 32000;
  const Value words = net.Weight("model.embed_tokens.weight", {kVocabulary, width}, 0, kEmbeddingStddev);
  const Tables tables = {Rotations(net, length, std::cos), Rotations(net, length, std::sin), net.CausalMask(length)};
  Value x = net.Op("gather", {words, ids}, {{"axis", int64_t{0}}});
  const int64_t layers = Default(options.layers, 12);
  for (int64_t i = 0; i < layers; ++i) {
    const std::string name = absl::StrCat("model.layers.", i);
    x = net.Add(x, Attention(net, RmsNorm(net, x, name + ".input_layernorm"), tables, name + ".self_attn"));
    x = net.Add(x, GatedMlp(net, RmsNorm(net, x, name + ".post_attention_layernorm"), name + ".mlp"));
  }
  return net.Finish({{Project(net, RmsNorm(net, x, "model.norm"), "lm_head", kVocabulary), "logits"}});
}

}  // namespace rewright::zoo
