// Decides if two models compute the same: translation validation, as Alive2 does it for LLVM (Lopes et al., PLDI 2021).
//
// Both models are put into one arena (joint_models.h) and run on random inputs. Where outputs differ by more than both
// may round (equal_rounding.h) the models are different. Otherwise the values of B are visited from the inputs on, as
// in the sweeping of circuits (Kuehlmann, Krohm, DAC 1997). A value that is the same application of values known to be
// equal is equal. A value whose elements were those of a value of A is worth a proof, and becomes a leaf of all later
// proofs if one is found. A proof is about a region (region.h): equality saturation with proved rules first, then the
// prover, which takes the region as a rule. Weights that one side folded are recomputed (known_equal.h).
//
// The proof shows equality over the real numbers, once each weight that one side folded is what the other one computes
// in its place. Where it needs that other constants be equal, which differ by a few units in the last place, the answer
// is another one (kUpToConstants). A run in the models' own types shows the rest: the greatest difference beside the
// estimate of what both round, and infinities that only one of them has.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/stop.h"
#include "core/ir/graph.h"
#include "substitutions/egraph/saturate.h"
#include "verifier/equal/joint_models.h"

namespace rewright {

// The rules, and those that merge siblings also from right to left: the parts of a merged weight are known here.
std::vector<DirectedRule> RulesForEqual(const std::vector<std::shared_ptr<const Matcher>>& rules);

struct EqualOptions {
  std::vector<DirectedRule> rules;  // proved: RulesForEqual
  double time_limit_s = 60;         // of proofs, on the clock
  double region_limit_s = 3;        // seconds of work (work.h), the prover's for one region
  int trials = 20;                  // further inputs that attack the open outputs
  uint64_t seed = 1;
  int threads = 1;
  bool certify = false;  // certificates of the prover's proofs
  // Weights that one side computed beforehand are recognized by their elements. Off where both sides have the same
  // ones.
  bool folded_weights = true;
  // Known values that differ by a few units in the last place are taken for equal, and named in EqualResult::constants.
  // ProveEqual does so by itself where all else is proved.
  bool near_constants = false;
  // Both run in their own precision as well, for EqualResult::run and infinite.
  bool own_precision = true;
  // Both models' rounding is estimated before they are called different: a few passes of the interpreter.
  bool estimate_rounding = true;
  StopFlag stop = nullptr;
};

enum class Equality : uint8_t { kProved, kDifferent, kOpen, kUpToConstants };
// "proved", "different", "open", "equal up to constants"
const char* EqualityName(Equality equality);

// A known value that the models have in different bits, or that one of them computes.
struct Folding {
  std::string a, b;  // how each has it: a name of a weight, or the operator that computes it
  TensorType type;
  double error = 0;  // greatest difference relative to the largest magnitude, in f64
};

// A region that the prover proved.
struct RegionProof {
  Rule rule;
  std::string certificate;  // where one was asked for
};

struct OpenRegion {
  std::string a, b;  // the values in question
  std::string text;  // the region as a rule, or why it is none
  int applications = 0;
};

// Inputs at which the models differ.
struct ModelDifference {
  std::string output;
  std::vector<int64_t> at;
  double a = 0, b = 0;
  double tolerance = 0;  // the difference that rounding explains: of known values, or of the run where that is more
  std::vector<std::pair<std::string, Tensor>> inputs;
  // The first application of B that computes something else than A does, with an element of both where A has a tensor
  // of that name.
  std::string first;
};

// Both models in their own precision, on ordinary inputs and around the numbers that they hold: the output that is
// furthest off, of its largest element.
struct OwnRun {
  std::string output;
  DType dtype;
  std::vector<int64_t> at;  // where it differs most; its largest element where it is the same everywhere
  double a = 0, b = 0;
  double difference = 0;
  double largest = 0;                                 // magnitude of the output
  std::optional<std::pair<double, double>> rounding;  // of both models together, estimated: worst, typical
};

// An infinity, or no number, of one model in its own precision where the other has something else.
struct InfiniteDifference {
  std::string output;
  std::vector<int64_t> at;
  double a = 0, b = 0;
  std::string kind;  // of inputs: "very large inputs"
  std::vector<std::pair<std::string, Tensor>> inputs;
};

struct EqualResult {
  Equality equality = Equality::kOpen;
  int values = 0;                  // of B that a run computes
  int shared = 0;                  // of them: the same applications of equal values
  int regions_by_rules = 0;        // proved regions
  std::vector<std::string> rules;  // that were applied there
  std::vector<RegionProof> regions;
  std::vector<Folding> foldings;
  std::vector<Folding> constants;  // taken for equal, of kUpToConstants: neither is what the other model computes
  std::vector<OpenRegion> open;    // smallest first
  std::optional<ModelDifference> difference;
  // Outputs that differ over the real numbers by more than the known weights explain, and not by more than both round
  // when they run: the largest such difference.
  std::optional<ModelDifference> within_rounding;
  std::optional<OwnRun> run;                 // unless they are different
  std::vector<InfiniteDifference> infinite;  // by output, the most ordinary inputs
  int trials = 0;                            // inputs on which the models were compared
  bool time_out = false;
};

// Nodes that this project does not compute are taken for unknown functions (custom_op_cut.h): equal models have the
// same ones. A difference that shows only in the draws of their results leaves the verdict open. Errors: those of
// JoinModels; other such nodes; the models cannot be run.
absl::StatusOr<EqualResult> ProveEqual(const Graph& a, const Graph& b, const EqualOptions& options);

}  // namespace rewright
