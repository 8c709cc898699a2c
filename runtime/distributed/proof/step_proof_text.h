// The printed form of a claim about a step (step_proof.h), which `rewright check` proves anew.
//
//   rewright step proof 1
//   == law
//   abs(combine(x[d, f], axis=0)) => ..    a law by which graphs are cut; as many sections as there are laws
//   == gradients
//   training                               a graph (core/ir/text.h); of a cut of a model alone: the model
//   ..
//   == step
//   == plan
//   == subgraph 0                          those that run
//   == cut subgraph 0 degree 2             placements, a line `graph`, the graph on devices
//   layer0.weight:1
//   graph
//   ..
//   == cut update degree 4 exact blocks    exact: by laws that keep the bits; blocks: ranks have blocks of its inputs
//   == owners
//   layer0.weight 1
//   == loads                               by replica, the micro-batches in the order in which its data come
//   0 1
//   2 3
//   seal 0123..                            SHA-256 of all before
//
// A claim that a model alone is cut has the sections `law`, `model` and `cut model`.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/distributed/proof/step_proof.h"

namespace rewright::distributed {

// A model that is cut over devices.
struct ModelClaim {
  Graph model;
  CutByLaws cut;
};

struct ProofText {
  std::vector<std::string> laws;
  std::optional<StepClaim> step;  // exactly one of them
  std::optional<ModelClaim> model;
};

inline constexpr char kStepProofHead[] = "rewright step proof 1\n";

std::string PrintProof(const ProofText& proof);
// The text may come from anywhere. Errors name the section, the line in it, what was found and what was expected: those
// of graphs and plans, a section that is missing or unknown, another seal.
absl::StatusOr<ProofText> ParseProof(const std::string& text);

}  // namespace rewright::distributed
