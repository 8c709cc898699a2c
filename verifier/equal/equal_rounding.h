// Estimates the part of rounding in the difference of two models over the same leaves (joint_models.h): the error of
// values that are known before a run, the rounding of both runs, and the results in the models' own precision.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "core/ir/graph.h"
#include "verifier/equal/equal.h"

namespace rewright {

using NamedTensors = absl::flat_hash_map<std::string, Tensor>;

// True if a floating number reaches a choice in one of the graphs: a comparison, a rounding to integers.
bool Decides(const Graph& a, const Graph& b);

// By output, in f64: how far each element may be moved by the rounding of known values that only one of the graphs has.
// Weights are off by up to half a unit in the last place of their type, in directions that are drawn; numbers by a
// unit. Values that a graph folds are off by the roundings of its own types on the way (a cast to a narrower type is a
// folding).
class KnownRounding {
 public:
  KnownRounding(const Graph& a, const Graph& b, uint64_t seed, int threads)
      : graphs_{&a, &b}, seed_(seed), threads_(threads) {}

  // `a` and `b` are the outputs on these inputs. Choices (Decides) fall otherwise at few elements: with `jumps` each
  // element may differ by the largest change of its output. Errors: a graph cannot be run.
  absl::StatusOr<std::vector<Tensor>> Allowed(const NamedTensors& inputs, const std::vector<Tensor>& a,
                                              const std::vector<Tensor>& b, bool jumps) const;

 private:
  absl::StatusOr<std::vector<Tensor>> Moved(const Graph& graph, const Graph& other, const NamedTensors& inputs,
                                            int sample) const;

  const Graph* graphs_[2];
  uint64_t seed_;
  int threads_;
};

// Errors of both graphs together when they give this element, in their own types: the sum of both estimates. Nothing if
// no estimate can be made, for example for an operator without a derivative.
struct BothRound {
  double worst = 0, typical = 0;
  // The largest difference that is taken for rounding: the worst case, or 16 times the typical one, if that is less. In
  // deep models the worst case is thousands of times the errors that ever come about; the typical error has been off by
  // 2.5 at most.
  double Most() const { return std::min(worst, 16 * typical); }
};
std::optional<BothRound> RoundingOfBoth(const Graph& a, const Graph& b, const NamedTensors& inputs,
                                        const std::string& output, int64_t element, int threads);

// Runs both models in their own precision: on ordinary inputs and around the groups of numbers for `run`, and on inputs
// that make numbers overflow for `infinite`. A model that cannot be run is left out.
void RunInOwnPrecision(const Graph& a, const Graph& b, const std::vector<std::vector<double>>& numbers,
                       const EqualOptions& options, int64_t least_integer, EqualResult* result);

}  // namespace rewright
