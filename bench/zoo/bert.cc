// BERT-base (Devlin et al., NAACL'19): the encoder and the pooler of Hugging Face's BertModel, with gelu written out
// as PyTorch's exporter writes it.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "bench/zoo/net.h"

namespace rewright::zoo {
namespace {

constexpr int64_t kBertPositions = 512;
constexpr int64_t kHidden = 768;
constexpr int64_t kHeads = kHidden / kHeadSize;
constexpr int64_t kFeedForward = 3072;
constexpr double kBertEpsilon = 1e-12;

// Token ids [n, s] to vectors [n, s, kHidden].
Value Embeddings(Net& net, Value ids, Value token_types) {
  constexpr int64_t kVocabulary = 30522;
  const std::string name = "embeddings.";
  const Value words = net.Weight(name + "word_embeddings.weight", {kVocabulary, kHidden}, 0, kEmbeddingStddev);
  const Value types = net.Weight(name + "token_type_embeddings.weight", {2, kHidden}, 0, kEmbeddingStddev);
  const Value positions =
      net.Weight(name + "position_embeddings.weight", {kBertPositions, kHidden}, 0, kEmbeddingStddev);
  const Value position_ids = net.Positions(net.Dim(ids, 1));
  Value x = net.Add(net.Op("gather", {words, ids}, {{"axis", int64_t{0}}}),
                    net.Op("gather", {types, token_types}, {{"axis", int64_t{0}}}));
  x = net.Add(x, net.Op("gather", {positions, position_ids}, {{"axis", int64_t{0}}}));
  return net.LayerNorm(x, name + "LayerNorm", kBertEpsilon);
}

// x [n, s, kHidden]; `mask` is added to the scores [n, heads, s, s] where it is given.
Value SelfAttention(Net& net, Value x, Value mask, const std::string& name) {
  const int64_t n = net.Dim(x, 0);
  const int64_t s = net.Dim(x, 1);
  const auto heads = [&](const std::string& part) {
    return net.Reshape(net.Linear(x, name + ".self." + part, kHidden), {n, s, kHeads, kHeadSize});
  };
  const Value q = net.Transpose(heads("query"), {0, 2, 1, 3});
  const Value k = net.Transpose(heads("key"), {0, 2, 3, 1});
  const Value v = net.Transpose(heads("value"), {0, 2, 1, 3});
  Value scores = net.Op("div", {net.MatMul(q, k), net.Scalar(std::sqrt(static_cast<double>(kHeadSize)))});
  if (mask.node >= 0) scores = net.Add(scores, mask);
  const Value probabilities = net.Op("softmax", {scores}, {{"axis", int64_t{3}}});
  const Value context = net.Transpose(net.MatMul(probabilities, v), {0, 2, 1, 3});
  const Value y = net.Linear(net.Reshape(context, {n, s, kHidden}), name + ".output.dense", kHidden);
  return net.LayerNorm(net.Add(y, x), name + ".output.LayerNorm", kBertEpsilon);
}

Value Layer(Net& net, Value x, Value mask, const std::string& name) {
  const Value attention = SelfAttention(net, x, mask, name + ".attention");
  const Value hidden = net.Gelu(net.Linear(attention, name + ".intermediate.dense", kFeedForward));
  const Value y = net.Linear(hidden, name + ".output.dense", kHidden, kAfterRelu);
  return net.LayerNorm(net.Add(y, attention), name + ".output.LayerNorm", kBertEpsilon);
}

// 1 where a token counts becomes 0 added to its scores, 0 becomes a large negative number.
Value AdditiveMask(Net& net, Value attention_mask) {
  const Value mask = net.Op("cast", {attention_mask}, {{"to", DType::kFloat32}});
  const Value wide = net.Reshape(mask, {net.Dim(mask, 0), 1, 1, net.Dim(mask, 1)});
  return net.Mul(net.Op("sub", {net.Scalar(1), wide}), net.Scalar(-10000));
}

}  // namespace

absl::StatusOr<Graph> BuildBertBase(const ZooOptions& options) {
  const int64_t length = Default(options.sequence_length, 128);
  if (length > kBertPositions) {
    return absl::InvalidArgumentError(
        absl::StrCat("the sequence length is ", length, "; expected at most ", kBertPositions));
  }
  Net net(options.seed);
  const Shape tokens = {Default(options.batch, 1), length};
  const Value ids = net.Input("input_ids", DType::kInt64, tokens);
  const Value types = net.Input("token_type_ids", DType::kInt64, tokens);
  Value mask;
  if (options.attention_mask) mask = AdditiveMask(net, net.Input("attention_mask", DType::kInt64, tokens));
  Value x = Embeddings(net, ids, types);
  const int64_t layers = Default(options.layers, 12);
  for (int64_t i = 0; i < layers; ++i) x = Layer(net, x, mask, absl::StrCat("encoder.layer.", i));
  const Shape stops = {tokens[0], 1, kHidden};
  const Value first =
      net.Reshape(net.Op("slice", {x}, {{"starts", Shape{0, 0, 0}}, {"stops", stops}}), {tokens[0], kHidden});
  const Value pooled = net.Op("tanh", {net.Linear(first, "pooler.dense", kHidden)});
  return net.Finish({{x, "last_hidden_state"}, {pooled, "pooler_output"}});
}

}  // namespace rewright::zoo
