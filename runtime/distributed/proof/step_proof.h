// A proof that the lists of a plan compute the step that one device computes.
//
// One device computes the gradients of each micro-batch by one graph, adds them, and updates the weights by a second
// graph. The claim has both, the plan, and the graphs that ranks run. The proof follows each rank's list by terms
// instead of numbers. Each tensor of a rank has a statement: it is this value of the gradients' graph for that
// micro-batch, all of it or a block; or the sum of such values. Graphs are put together node by node in one arena,
// where equal terms are one node. At an UPDATE each sum must be the gradient of every micro-batch, once.
//
//   RUN             what a subgraph reads stands in the place of its inputs; what it makes are the terms that follow
//   SEND, RECEIVE   the statement goes to the other rank
//   ALL_GATHER      blocks of all places are the whole: combine(partition(x)) = x
//   ALL_REDUCE      the terms of all places, added
//   REDUCE_SCATTER  the same, of which a rank gets its block
//   ACCUMULATE      one more term
//
// Graphs that ranks run together are cut over them by laws. A caller derives the cut once more from laws that it
// proves, and must get the same graph. A rank's part of a cut graph is what runtime/parallel/rank_graph.h makes of it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/ir/graph.h"
#include "runtime/distributed/plan.h"

namespace rewright::distributed {

// A graph that is cut over devices, its states and inputs along these axes.
struct CutByLaws {
  std::vector<std::pair<std::string, int>> axes;
  int degree = 1;
  bool exact_only = false;    // by laws that keep the bits
  bool takes_blocks = false;  // a rank is given its blocks of the inputs, not all of them
  Graph graph;                // on devices
};

struct StepClaim {
  Graph gradients;  // of a micro-batch: output k is what sum k adds. Input and state k are input and weight k
  Graph step;       // the update: input k is sum k
  Plan plan;
  // By number, those that run: inputs and outputs are what the subgraph reads and makes. An empty graph makes nothing.
  // Where the plan has no weights, states stand for themselves.
  std::vector<Graph> subgraphs;
  std::map<int, CutByLaws> passes;    // of subgraphs that ranks run together
  std::optional<CutByLaws> update;    // how ranks run `step`; none: each as it is, or by owners
  std::map<std::string, int> owners;  // of states and inputs of the step, ranks of a replica; empty: all have all
  // By replica, the micro-batches in the order in which the data come to it (MicroBatchesOf).
  std::vector<std::vector<int64_t>> loads;
};

// Cuts a graph as the claim says, by laws that are proved.
using CutDerivation = std::function<absl::StatusOr<Graph>(const Graph& graph, const CutByLaws& cut)>;

struct StepVerdict {
  enum class Kind : uint8_t { kProved, kRefuted, kUnproved };
  Kind kind = Kind::kUnproved;
  // Where it is not proved: the rank, the action and the tensor; where it is refuted, elements of both sides, too.
  std::string reason;
  int64_t statements = 0;  // about tensors of ranks
};
const char* StepVerdictName(StepVerdict::Kind kind);  // "proved", ..

// Errors: those of `derive` and of the interpreter, by which statements that differ are refuted.
absl::StatusOr<StepVerdict> ProveStep(const StepClaim& claim, const CutDerivation& derive);

}  // namespace rewright::distributed
