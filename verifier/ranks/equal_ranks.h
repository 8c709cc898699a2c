// Decides if the graphs of ranks compute together what one graph computes on one device.
//
// The ranks' graphs are one program (rank_program.h), whose tensors have the mesh as their first axes (device_terms.h).
// Both are run in f64 on the same inputs: outputs that differ are a difference. Each tensor of the ranks then gets a
// statement: it is this value of the model, cut along an axis, whole or in summands along each axis of the mesh. The
// elements suggest statements (placement_search.h). A claim proves one: a rule whose left side is the value in the
// model and whose right side is what the ranks compute, from values about which there are statements. Where ranks hold
// shares of a sum or a mean, the claim is about any shares. Model and ranks are equal if the outputs have proved
// statements with the placements that the plan says.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/stop.h"
#include "substitutions/language/rule.h"
#include "verifier/equal/equal.h"
#include "verifier/ranks/rank_plan.h"

namespace rewright {

struct EqualRanksOptions {
  double time_limit_s = 60;  // of proofs, on the clock
  double claim_limit_s = 3;  // seconds of work of the prover for one claim
  uint64_t seed = 1;
  int threads = 1;
  StopFlag stop = nullptr;
};

// An output that the ranks hold otherwise than the model computes it.
struct RankDifference {
  std::string output;
  std::vector<int64_t> at;
  double whole = 0, ranks = 0;
  double factor = 0;     // of all elements, where there is one
  std::string disagree;  // ranks that should hold the same and do not
};

// Where the ranks part from the model.
struct RankFault {
  std::string node;        // the first whose result is no value of the model, or that holds it otherwise
  std::string collective;  // at fault: one that is there, or "none" where one is missing
  std::string ranks;
  std::string text;  // a sentence
};

struct EqualRanksResult {
  Equality equality = Equality::kOpen;
  int values = 0;      // of the ranks' program that a run computes
  int statements = 0;  // about them, proved
  int immediate = 0;   // of them: both sides are the same term
  std::vector<Rule> claims;  // the others, each once
  int at_any_size = 0;       // of them: for any sizes, and any number of ranks along each axis of the mesh
  std::vector<std::string> assumed;  // of indices, by claims: "0 <= ids < 8, the places along axis 0 of table"
  std::vector<Rule> undecided;  // claims without a proof that the elements suggest, where outputs are open
  std::vector<RankDifference> differences;
  std::optional<RankFault> fault;
  std::vector<std::string> open;  // outputs without a proof, or why there is none
  bool time_out = false;
};

// `model` and the graphs of the plan have inputs and outputs of the same names. Errors: others; shapes that are not
// those of the placements; a model that cannot be run.
absl::StatusOr<EqualRanksResult> ProveRanks(const Graph& model, const RankPlan& plan, const EqualRanksOptions& options);

}  // namespace rewright
