// The model zoo: known architectures built as graphs, with seeded random weights.
//
// The weights are scaled so that activations keep an ordinary size through the depth of the network, whatever the
// seed; the same options give the same bits on every machine. Weights are named as in a PyTorch state dict
// ("layer1.0.conv1.weight"). Models keep what an exporter keeps: batch norms are batch_norm nodes, linear layers
// multiply by a transposed weight.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/ir/graph.h"

namespace rewright {

// Zero means the default of the model.
struct ZooOptions {
  int64_t batch = 0;            // 1
  int64_t image_size = 0;       // height and width: 224, or 299 for inception_v3
  int64_t sequence_length = 0;  // bert_base, gpt2_small, llama_small: 128; taso_bert: 64; mirage_*: 4096
  int64_t layers = 0;           // transformer layers, attention blocks, cells, recurrent steps, hidden or random layers
  // gpt2_small, llama_small: 768; nasrnn: 512; residual_block: 256; nasnet_a: 1056, the last cells'; random_layered:
  // 20, the values of a layer; mirage_*: 4096
  int64_t width = 0;
  bool attention_mask = false;  // bert_base: a third input, 1 where a token counts
  uint64_t seed = 1;
};

struct ZooModel {
  std::string name;
  std::string description;  // one line
  // The options of ZooOptions that it takes beside the seed, as the program spells them: "image-size".
  std::vector<std::string> options;
};

// In the order in which they are listed to users.
const std::vector<ZooModel>& ZooModels();

// Errors: an unknown name (the message lists the known ones), an option that the model does not take (the message lists
// those that it takes), or sizes that the architecture cannot have.
absl::StatusOr<Graph> BuildZooModel(const std::string& name, const ZooOptions& options = {});

}  // namespace rewright
