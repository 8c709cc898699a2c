// The plan of a step whose gradients are computed layer by layer (runtime/parallel/layers.h): while one is computed,
// the gradients of the one before are summed over the ranks, and the weights of the next one are gathered.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/device/device.h"
#include "core/ir/graph.h"
#include "runtime/distributed/plan.h"
#include "runtime/parallel/layers.h"
#include "runtime/training/parallel/layout.h"

namespace rewright {

// The mesh of a layout, the outermost axis first: dp, pp, and tp or cp, along which ranks compute a pass together.
distributed::Mesh MeshOf(const RankLayout& layout);

// The axes along which replicas have blocks, by state of the gradients and by input of the step; -1: all of it. Empty:
// nothing is cut.
struct PlanCuts {
  std::vector<int> weights, sums;
};

// The tensors and subgraphs of a plan: those of the layers, by their numbers, and the sums, which are the inputs of the
// step. `gradients` is unpacked.
distributed::Plan PlanOfLayers(const Graph& gradients, const Layers& layers, const Graph& step, distributed::Mesh mesh,
                               int64_t micro_batches, const PlanCuts& cuts = {});
// Likewise, where one executable that has the weights itself computes all gradients of a micro-batch, by ranks along
// the innermost axis together. A sum that is cut is one of the blocks that the ranks of a replica have of it.
distributed::Plan PlanOfOnePass(const Graph& gradients, const Graph& step, distributed::Mesh mesh,
                                int64_t micro_batches, const std::vector<int>& cuts);

struct LayeredOptions {
  int64_t bucket_bytes = int64_t{25} << 20;                // of gradients, before a layer ends
  std::function<std::vector<Group>(const Graph&)> groups;  // that the device runs as one; null: none is known
};

// Gradients in layers of about as many bytes of gradients.
struct LayeredStep {
  Graph gradients;  // unpacked
  Layers layers;
};
absl::StatusOr<LayeredStep> CutStep(const Graph& gradients, const Graph& step, const std::vector<std::string>& updated,
                                    const LayeredOptions& options);

// How a rank runs its layers.
struct LayeredPlan {
  int64_t bytes = 0;          // of memory: what layers share, and what some have beside it
  std::vector<Group> groups;  // of the gradients, in the order in which a micro-batch runs them; none: not known
  std::vector<int64_t> live;  // by group, what its layer computes, and what is handed on to it and over it
};
// `gradients` and `step` are StepGraphs'. Errors: those of `bytes_of`.
absl::StatusOr<LayeredPlan> PlanLayers(const Graph& gradients, const Graph& step,
                                       const std::vector<std::string>& updated, const LayeredOptions& options,
                                       const SubgraphBytesOf& bytes_of);

}  // namespace rewright
