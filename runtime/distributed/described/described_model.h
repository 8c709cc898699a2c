// A transformer by its sizes, and what its parts cost on a described device: for steps that are simulated without
// weights and without graphs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/distributed/cluster.h"

namespace rewright::distributed {

struct DescribedModel {
  std::string name;
  int64_t layers = 0, hidden = 0, heads = 0, key_value_heads = 0, head_size = 0, mlp = 0, vocabulary = 0;
  int64_t sequence = 0;           // tokens of a sample
  int64_t batch = 0;              // samples of a step
  bool gated = true;              // the MLP has three products, otherwise two
  bool fused_attention = true;    // in one pass; otherwise the scores of all pairs of tokens go through the memory
  int64_t attention_weights = 0;  // of the projections of a layer, where they are not those of the sizes
  // Mixture of experts: `experts` MLPs of `expert_mlp` in every layer but the first `dense_layers`, `experts_per_token`
  // of which a token goes through, and `shared_experts` for all tokens.
  int64_t experts = 0, experts_per_token = 0, expert_mlp = 0, shared_experts = 0, dense_layers = 0;
  std::string precision = "bf16";  // of products, a name of the device's; attention is in bf16 at least
  int64_t weight_bytes = 2, gradient_bytes = 4, state_bytes = 12;  // of a parameter; states of the optimizer
  std::vector<std::string> sources;

  bool HasExperts(int64_t layer) const { return experts > 0 && layer >= dense_layers; }
  int64_t AttentionWeights() const;            // of a layer
  int64_t MlpWeights(int64_t layer) const;     // likewise, with shared experts and without those of HasExperts
  int64_t ExpertWeights(int64_t layer) const;  // of all experts
  int64_t HeadWeights() const { return hidden * vocabulary; }
  int64_t Weights() const;  // of the model, with an embedding of its own
};

// {"name": "llama-3-8b", "batch": 128, "precision": "bf16", "sources": [..],
//  "transformer": {"layers": 32, "hidden": 4096, "heads": 32, "key_value_heads": 8, "mlp": 14336,
//                  "vocabulary": 128256, "sequence": 8192}}
// Further sizes are fields of DescribedModel. Errors name the field, what was found and what was expected.
absl::StatusOr<DescribedModel> ParseDescribedModel(const std::string& json);

// Seconds of the parts of a layer for one micro-batch, on one of `tp` ranks that have a part of every product each.
class PartSeconds {
 public:
  // Errors: the device has no rate or efficiency for the model's precision.
  static absl::StatusOr<PartSeconds> Of(const DescribedModel& model, const ClusterDevice& device, int64_t tokens,
                                        int tp);

  // A forward pass, what a backward pass hands on, and gradients of weights.
  struct Passes {
    double forward = 0, backward = 0, of_weights = 0;
  };
  Passes Attention() const;                // with its norm
  Passes Mlp(int64_t layer) const;         // with its norm; with experts: router and shared ones
  Passes Experts(int64_t ranks) const;     // on one of the ranks that share them
  Passes Head() const;                     // of the logits, and the loss
  double Boundary() const;                 // a residual sum
  double Update(double parameters) const;  // of the optimizer

 private:
  PartSeconds(const DescribedModel& model, const ClusterDevice& device, int64_t tokens, int tp)
      : model_(model), device_(device), tokens_(static_cast<double>(tokens)), tp_(tp) {}
  // The seconds of a product of so many rows, columns and summed positions, of `times` matrices, in a precision and
  // with the efficiency of a kind.
  double Product(double rows, double columns, double sums, const std::string& precision, const std::string& kind,
                 double times = 1) const;
  Passes Products(double columns, double sums, const std::string& precision) const;
  Passes Products(double columns, double sums) const { return Products(columns, sums, model_.precision); }
  Passes Scores(double queries) const;  // of attention, and what they weight
  double Bytes(double bytes) const;
  Passes Dense(double mlp) const;

  DescribedModel model_;
  ClusterDevice device_;
  double tokens_;
  int tp_;
};

}  // namespace rewright::distributed
