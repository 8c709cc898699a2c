// Subgraphs of a plan whose ranks exchange data while they run, as actions: generators write a list of whole passes,
// and the passes are then replaced by their bodies.
#pragma once

#include <utility>
#include <vector>

#include "runtime/distributed/plan.h"

namespace rewright::distributed {

// Stands in a list for a pass: subgraphs by number among those of all bodies, and actions without a micro-batch;
// a WAIT counts actions of the body.
struct RunBody {
  std::vector<PlanSubgraph> subgraphs;
  std::vector<Action> actions;  // targets of RUN count subgraphs of the body
  bool accumulates = false;     // the leaves that it makes; the list has no action for that
};

// Writes a body. Tensors are numbers; -1 is none.
class BodyWriter {
 public:
  explicit BodyWriter(const Plan* plan) : plan_(*plan) {}

  void Start(bool accumulates) {
    body_ = {{}, {}, accumulates};
    completed_.clear();
  }
  // A subgraph; one with the action before where that runs, too. It reads what collectives have completed since the
  // last one.
  void Run(double seconds, const std::vector<int>& reads, const std::vector<int>& makes);
  // A collective of a value over its axis: the number to wait for; -1 where there is no value.
  int Begin(Action::Kind kind, int value);
  void Wait(int number);
  void Accumulate(const std::vector<int>& sums);
  // OFFLOAD or FETCH.
  void Move(Action::Kind kind, int value) { body_.actions.push_back({kind, -1, {value}}); }
  RunBody Take() { return std::move(body_); }

 private:
  const Plan& plan_;
  RunBody body_;
  std::vector<int> completed_;  // values
};

// The subgraph that a body is to the lists' writers: what it reads of others, and all that it makes.
PlanSubgraph OutsideOf(const Plan& plan, const RunBody& body);

// Makes every sum stand behind the subgraph that makes its leaf.
void PlaceSums(Plan* plan);

// Replaces subgraph p of the plan by body p, in its lists too.
void ExpandRuns(const std::vector<RunBody>& bodies, Plan* plan);

}  // namespace rewright::distributed
