// Plans of a made-up model in layers, without graphs.
#pragma once

#include <string>
#include <vector>

#include "runtime/distributed/generate.h"
#include "runtime/distributed/pipeline_schedule.h"
#include "runtime/distributed/plan.h"

namespace rewright::distributed {

struct PlanOptions {
  int dp = 1, pp = 1, tp = 1, zero = 0, chunks = 1;
  int64_t micro_batches = 4;
  PipelineSchedule schedule = PipelineSchedule::k1F1B;
  int layers = 2;  // where there is no pipeline

  // "dp=2,pp=2,zero=1,micro=4,schedule=1f1b"
  std::string ToString() const;
};
// Reads what ToString writes, each key at most once; keys that are left out have their defaults.
PlanOptions ParsePlanOptions(const std::string& text);

// Layer i of the model multiplies what it reads by weight i. The last layer reads the result of the first, too, if
// there are three, and its weight as well: a connection that skips layers, and a tied weight.
// `alike`: Plan::alike.
Plan MakePlan(const PlanOptions& options, const std::vector<int>& alike = {});

// All layouts of exactly this many ranks, with every zero, schedule and up to two chunks a rank.
std::vector<PlanOptions> LayoutsOf(int ranks);

// The lists without this action of a rank, and without the WAIT for it.
Plan Without(Plan plan, int rank, int action);

// The lists with one more action of a rank, before the one of this number.
Plan With(Plan plan, int rank, int before, Action action);

}  // namespace rewright::distributed
