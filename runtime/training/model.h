// Models that a configuration describes itself, without a file. All have an input `x` and the output `logits`; what a
// weight is at first follows from the seed and its name alone. Weights of dense layers are [in, out].
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "core/ir/graph.h"
#include "runtime/training/files/safetensors.h"
#include "runtime/training/step.h"

namespace rewright {

// Dense layers with an activation between them: x f32[batch, sizes[0]] -> logits f32[batch, sizes.back()]. States
// `layer<i>.weight` [in, out] and `layer<i>.bias` [out], uniform in +-1/sqrt(in).
struct MlpOptions {
  std::vector<int64_t> sizes;  // at least two
  std::string activation = "relu";
};

// Blocks of a 3x3 convolution, batch norm, relu and 2x2 max pooling, then the mean over positions, dropout and a dense
// layer: x f32[batch, image] -> logits f32[batch, classes].
struct ConvNetOptions {
  Shape image;                    // [channels, height, width]; the last two at least 2^blocks
  std::vector<int64_t> channels;  // that each block gives
  int64_t classes = 2;
  double dropout = 0;
};

// An embedding, layers of LSTM (Hochreiter and Schmidhuber 1997, with the forget gate of Gers et al. 2000) written out
// step by step, a dense layer: x i64[batch, length], each below `vocabulary` -> logits f32[batch, length, vocabulary].
// Gates stand in the order input, forget, cell, output. Dropout is behind the embedding and behind each layer.
struct LstmOptions {
  int64_t vocabulary = 0, length = 0;
  int64_t width = 64;  // of the embedding
  int64_t hidden = 128, layers = 1;
  double dropout = 0;
};

// A decoder as GPT-2's (Radford et al. 2019), smaller, with the exact gelu and the embedding as the last layer: x
// i64[batch, length], each below `vocabulary` -> logits f32[batch, length, vocabulary]. Dropout is behind the
// embedding, of the attention's weights, and behind both parts of a layer.
struct GptOptions {
  int64_t vocabulary = 0, length = 0;
  int64_t width = 64, heads = 4, layers = 2;  // width: a multiple of heads
  double dropout = 0;
};

using BuiltInModel = std::variant<MlpOptions, ConvNetOptions, LstmOptions, GptOptions>;

TrainableModel MakeModel(const BuiltInModel& options, int64_t batch, uint64_t seed);

// The same with these values of weights; others keep theirs. Errors: a tensor that is no weight of the model, or one of
// another type.
absl::StatusOr<TrainableModel> WithWeights(const TrainableModel& model, const NamedTensors& weights);

// The activations: operators of one floating operand.
const std::vector<std::string>& MlpActivations();

}  // namespace rewright
