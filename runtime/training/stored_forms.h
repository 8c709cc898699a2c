// Weights that a step keeps joined: one state, with the parts along an axis, and likewise optimizer states of
// them. Names and shapes outside of the step (checkpoints, validation, models that are written) are those of the parts.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/ir/graph.h"
#include "nlohmann/json.hpp"

namespace rewright {

struct StoredForm {
  int64_t axis = 0;
  std::vector<std::string> parts;  // names of weights, at least two

  // The name of the state that stands for the weights, or of the optimizer's state for them (`suffix`, optimizer.h).
  std::string Name(const std::string& suffix = "") const;
  friend bool operator==(const StoredForm&, const StoredForm&) = default;
};

// The step of training with these states in the place of their parts: what read a part reads a slice, and next values
// are concatenated, as balanced trees of binary concatenations, which laws of two operands can be applied to. `trained`
// are the weights in the order of the magnitudes (StepGraphs::trained), which are computed form by form and put in
// order again. Values of the states are joined, too. Errors: a part that is no weight with a next value, of another
// type or shape than the others but for the axis, or of two forms; parts for which the optimizer keeps different
// things.
absl::StatusOr<Graph> InStoredForms(const Graph& step, const std::vector<StoredForm>& forms,
                                    const std::vector<std::string>& trained);

// An equal step in such forms.
struct StoredStep {
  Graph graph;  // with the interface that InStoredForms gives
  std::vector<StoredForm> forms;
};

// Values of such states out of those of their parts; others stay. Errors: a part is missing, or does not fit.
absl::StatusOr<std::map<std::string, Tensor>> JoinedStates(const std::map<std::string, Tensor>& states,
                                                           const std::vector<StoredForm>& forms);

// The place in which a state of the step without forms is kept.
struct StoredPart {
  std::string state;
  int64_t axis = 0, begin = 0;
  TensorType type;  // of the part
};
// By name of the part; states of no form are not among them. REQUIRES: InStoredForms admits the forms for `step`.
std::map<std::string, StoredPart> PartsOf(const Graph& step, const std::vector<StoredForm>& forms);
// The part of the value of its state.
Tensor Part(const Tensor& whole, const StoredPart& part);

// The forms as a checkpoint keeps them. Errors: anything else.
nlohmann::ordered_json StoredFormsJson(const std::vector<StoredForm>& forms);
absl::StatusOr<std::vector<StoredForm>> ParseStoredForms(const nlohmann::ordered_json& json);

}  // namespace rewright
