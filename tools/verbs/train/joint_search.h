// The search over a whole step of training: rewrites that cross forward pass, backward pass and update, and the forms
// in which states are stored (docs/decisions/067).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/ir/graph.h"
#include "runtime/training/stored_forms.h"
#include "search/optimize/optimize.h"

namespace rewright {

// The rules beside core.rules that a step is searched with.
inline constexpr char kTrainingRules[] = "training.rules";

// The laws of stored_forms.rules. Errors: those of reading them.
absl::StatusOr<RuleSet> StoredFormRules();

// The step in these forms, with what is computed part by part led together by the laws. Errors: those of InStoredForms.
absl::StatusOr<Graph> LoweredInForms(const Graph& step, const std::vector<StoredForm>& forms,
                                     const std::vector<std::string>& trained, const RuleSet& laws);

// Concatenations of neighbouring parts of a state become views of it, by the same laws.
absl::StatusOr<Graph> WithViewsOfStates(const Graph& graph, const RuleSet& laws);

// Forms that may pay, in families of which all or none are taken: vectors of one size, with equal updates; weights that
// `searched`, an equal graph that a search found, joins to multiply by them at once.
std::vector<std::vector<StoredForm>> FormFamilies(const Graph& step, const std::vector<std::string>& trained,
                                                  const Graph& searched);

// Seconds of a step as the device says, beside the form of its states that they are of.
struct FormTrial {
  std::vector<StoredForm> family;
  double seconds = 0;                   // with the family, and with those that were kept before it
  std::optional<Measurement> measured;  // against the step that was the best before
  bool kept = false;
};

// Times two steps whole, in turn: `candidate` against `original`, each with states of its own.
using WholeSteps = std::function<absl::StatusOr<Measurement>(const Graph& original, const Graph& candidate)>;

// A step, lowered (LowerGradients), and what a search made of it.
struct SearchedStep {
  Graph step;
  OptimizeReport report;
};

// Returns the better one of two equal steps: `first`, unless the search result for `other` is cheaper and, where steps
// are timed, faster by the sign test. Errors: those of the device and of `time`.
absl::StatusOr<SearchedStep> FasterStep(SearchedStep first, SearchedStep other, Device& device, const WholeSteps& time);

struct JointStep {
  Graph graph;
  std::vector<StoredForm> forms;  // of its states; empty: those of the step
  double seconds = 0;
  std::vector<FormTrial> trials;  // the first one of no family: magnitudes alone are led together
  OptimizeReport report;          // of the search that found it; nothing where that is the one before
  Graph start;                    // that it began with
};

// The cheapest of what was made of the step and of what `search` finds in stored forms. `search` optimizes a graph
// without timing or checking it. Families are tried one after the other, and one is kept where the step is cheaper with
// it and, where steps are timed, faster by the sign test: costs are of groups by themselves, whose operands lie in
// caches, and know nothing of the order in which a whole step uses memory. Null `time`: costs decide. Errors: those of
// `search`, of the device and of `time`.
absl::StatusOr<JointStep> SearchStep(const SearchedStep& searched, const std::vector<std::string>& trained,
                                     Device& device,
                                     const std::function<absl::StatusOr<OptimizeReport>(const Graph&)>& search,
                                     const WholeSteps& time = nullptr);

}  // namespace rewright
