// The layout of a described model: that of a run, with keys that no run has.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "runtime/distributed/rank_layout.h"

namespace rewright::distributed {

struct DescribedLayout {
  RankLayout ranks;
  bool recompute = false;        // remat=full: a layer keeps what it reads, and is computed again for its gradients
  bool offload = false;          // offload=1: what a layer keeps waits in the memory of the host
  bool overlap = false;          // overlap=1: products and collectives of tensor parallel in parts, beside one another
  bool replicas_inside = false;  // inner=dp: replicas of a stage are neighbours, rather than the stages of a replica
  bool expert_parallel = false;  // ep=N, the number of replicas: every replica has its part of the experts
};

// The keys of ParseLayout, and remat=none|full, offload=0|1, overlap=0|1, inner=pp|dp and ep=1|DP. micro=0 is one
// sample a micro-batch.
absl::StatusOr<DescribedLayout> ParseDescribedLayout(const std::string& text);
std::string PrintLayout(const DescribedLayout& layout);

}  // namespace rewright::distributed
