// The layout of a step of training whose estimated time is the shortest on a cluster: ranks by dp, pp and tp, ZeRO,
// micro-batches, schedule, the weights that tp cuts and the values that are computed again, together.
//
// Every layout is simulated by the lists that would run. Plain data parallel is among them, so the choice is not slower
// by the estimate. Layouts that exceed the memory compute as much again as it takes (StepPlanner::Fit), in the order of
// their seconds, as long as they may be shorter than what was found. The choice keeps the number of micro-batches and
// the model.places of the configuration, and the keys beside `auto`.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/distributed/cluster.h"
#include "runtime/distributed/simulate.h"
#include "tools/verbs/layout/layout_file.h"
#include "tools/verbs/layout/step_planner.h"

namespace rewright {

// "auto" or "auto,dp=2,zero=1".
bool IsAutoLayout(const std::string& layout);

struct LayoutChoiceOptions {
  int ranks = 1;
  std::string layout = "auto";  // with the keys that are kept
  int64_t memory_bytes = 0;     // of a rank; 0: any number
  bool keep_all = false;        // nothing is computed again
  bool measured = false;        // what is computed again is chosen by measured costs, else by guessed ones
  // The model at the batch of a micro-batch of the configuration.
  std::function<absl::StatusOr<TrainableModel>(const TrainConfig&)> load;
  StepPlanner::Options planner;
  distributed::CollectiveBy collectives = distributed::CollectiveBy::kDirect;
};

struct LayoutCandidate {
  RankLayout layout;
  StateAxes places;  // of tp; empty: those of the configuration
  double seconds = 0;
  int64_t bytes = 0;       // of the fullest rank
  int64_t kept_bytes = 0;  // of them, states
  struct Again {
    int64_t memory_bytes = 0;  // that a rank has
    int replaced = 0;          // uses of the law (kRecomputationRule)
    double seconds = 0;        // of a step that keeps everything
    int64_t bytes = 0;         // likewise
  };
  std::optional<Again> again;  // values are computed again
  std::string bound_by;        // what most of its time goes to
};

struct LayoutChoice {
  std::vector<LayoutCandidate> found;  // that fit, the best first
  int64_t tried = 0;
  std::vector<std::string> reasons;  // by axis and by tensor: why, and what the second best costs

  LayoutFile File() const;
};

// Errors: no layout that is asked for fits the model, or the memory; the message has the least that one needs.
absl::StatusOr<LayoutChoice> ChooseLayout(const TrainConfig& config, const distributed::Cluster& cluster,
                                          Device& memory_of, const LayoutChoiceOptions& options);

// Names what the most time of the ranks goes to.
std::string BoundOf(const distributed::Mesh& mesh, const distributed::SimulatedStep& step);

}  // namespace rewright
