// GPT-2 (Radford et al., 2019): the decoder and the language-model head of Hugging Face's GPT2LMHeadModel, with the
// tanh form of gelu written out and the causal mask as a constant, as PyTorch's exporter writes them.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "bench/zoo/net.h"

namespace rewright::zoo {
namespace {

constexpr int64_t kGptPositions = 1024;
constexpr double kGpt2Epsilon = 1e-5;

// gelu(x) = 0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)))
Value Gelu(Net& net, Value x) {
  const Value cube = net.Op("pow", {x, net.Scalar(3)});
  const Value inner = net.Add(x, net.Mul(cube, net.Scalar(0.044715)));
  const Value tanh = net.Op("tanh", {net.Mul(inner, net.Scalar(std::sqrt(2 / std::acos(-1.0))))});
  return net.Mul(net.Mul(x, net.Scalar(0.5)), net.Add(tanh, net.Scalar(1)));
}

// x [n, s, in] times "<name>.weight" [in, out] plus "<name>.bias": GPT-2 keeps its weights untransposed, and its
// exporter multiplies all tokens as one matrix.
Value Project(Net& net, Value x, const std::string& name, int64_t out, Gain gain) {
  const int64_t n = net.Dim(x, 0), s = net.Dim(x, 1), in = net.Dim(x, 2);
  const Value weight = net.Weight(name + ".weight", {in, out}, 0, gain.value / std::sqrt(static_cast<double>(in)));
  const Value bias = net.Weight(name + ".bias", {out}, 0, 0.1);
  return net.Reshape(net.Add(net.MatMul(net.Reshape(x, {n * s, in}), weight), bias), {n, s, out});
}

Value Attention(Net& net, Value x, Value mask, const std::string& name) {
  const int64_t n = net.Dim(x, 0), s = net.Dim(x, 1), width = net.Dim(x, 2);
  const Value qkv = Project(net, x, name + ".c_attn", 3 * width, kLinear);
  const auto heads = [&](int64_t part, const Shape& perm) {
    const Shape starts = {0, 0, part * width}, stops = {n, s, (part + 1) * width};
    const Value y = net.Op("slice", {qkv}, {{"starts", starts}, {"stops", stops}});
    return net.Transpose(net.Reshape(y, {n, s, width / kHeadSize, kHeadSize}), perm);
  };
  const Value q = heads(0, {0, 2, 1, 3}), k = heads(1, {0, 2, 3, 1}), v = heads(2, {0, 2, 1, 3});
  const Value scores = net.Op("div", {net.MatMul(q, k), net.Scalar(std::sqrt(static_cast<double>(kHeadSize)))});
  const Value probabilities = net.Op("softmax", {net.Add(scores, mask)}, {{"axis", int64_t{3}}});
  const Value context = net.Transpose(net.MatMul(probabilities, v), {0, 2, 1, 3});
  return Project(net, net.Reshape(context, {n, s, width}), name + ".c_proj", width, kLinear);
}

}  // namespace

absl::StatusOr<Graph> BuildGpt2Small(const ZooOptions& options) {
  const int64_t length = Default(options.sequence_length, 128), width = Default(options.width, 768);
  if (length > kGptPositions) {
    return absl::InvalidArgumentError(
        absl::StrCat("the sequence length is ", length, "; expected at most ", kGptPositions));
  }
  if (width % kHeadSize != 0) {
    return absl::InvalidArgumentError(absl::StrCat("the width is ", width, "; expected a multiple of ", kHeadSize));
  }
  Net net(options.seed);
  const Value ids = net.Input("input_ids", DType::kInt64, {Default(options.batch, 1), length});
  constexpr int64_t kVocabulary = 50257;
  const Value words = net.Weight("transformer.wte.weight", {kVocabulary, width}, 0, kEmbeddingStddev);
  const Value positions = net.Weight("transformer.wpe.weight", {kGptPositions, width}, 0, kEmbeddingStddev);
  Value x = net.Add(net.Op("gather", {words, ids}, {{"axis", int64_t{0}}}),
                    net.Op("gather", {positions, net.Positions(length)}, {{"axis", int64_t{0}}}));
  const Value mask = net.CausalMask(length);
  const int64_t layers = Default(options.layers, 12);
  for (int64_t i = 0; i < layers; ++i) {
    const std::string name = absl::StrCat("transformer.h.", i);
    x = net.Add(x, Attention(net, net.LayerNorm(x, name + ".ln_1", kGpt2Epsilon), mask, name + ".attn"));
    const Value hidden =
        Gelu(net, Project(net, net.LayerNorm(x, name + ".ln_2", kGpt2Epsilon), name + ".mlp.c_fc", 4 * width, kLinear));
    x = net.Add(x, Project(net, hidden, name + ".mlp.c_proj", width, kAfterRelu));
  }
  x = net.LayerNorm(x, "transformer.ln_f", kGpt2Epsilon);
  return net.Finish({{net.MatMul(x, net.Transpose(words, {1, 0})), "logits"}});
}

}  // namespace rewright::zoo
