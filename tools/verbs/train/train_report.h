// The page about a training run: curves of what was measured, and what ranks do in a step.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "runtime/distributed/plan.h"
#include "runtime/training/trainer.h"

namespace rewright {

// Measurements of a run, by name: "loss", "learning_rate", "seconds", and where it was measured "gradient_norm",
// "validation/loss", "validation/accuracy".
std::vector<std::pair<std::string, double>> MetricsOf(const StepReport& report);

class TrainingCurves {
 public:
  void Add(const StepReport& report);
  // Markup of a plot for each metric with at least two points, the loss first; losses of training and validation are in
  // one.
  std::string Markup() const;

 private:
  std::map<std::string, std::vector<std::pair<double, double>>> points_;  // (step, value), by metric
};

// Markup of a lane for each rank: its subgraphs and updates with the seconds that were measured, messages as if they
// took no time. Errors: those of Simulate.
absl::StatusOr<std::string> RankLanes(const distributed::Plan& plan);

// The page, with those two parts. `lanes` may be empty.
std::string TrainingPage(const std::string& title, const std::string& note, const TrainingCurves& curves,
                         const std::string& lanes);

}  // namespace rewright
