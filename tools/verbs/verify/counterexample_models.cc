#include "tools/verbs/verify/counterexample_models.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"
#include "substitutions/instance/compiled_rule.h"
#include "substitutions/instance/instances.h"
#include "substitutions/instance/random_application.h"
#include "substitutions/match/applier.h"
#include "tools/program/models.h"
#include "tools/verbs/equal/equal_settings.h"

namespace rewright {
namespace {

// The left side at the sizes of the counterexample.
absl::StatusOr<RandomApplication> LeftSide(const CompiledRule& rule, const RuleVerdict& verdict) {
  std::vector<int64_t> symbols;
  for (const auto& symbol : verdict.counterexample->symbols) symbols.push_back(symbol.second);
  std::optional<RandomApplication> left;
  const absl::Status visited = ForEachStructuralAssignment(
      rule, DomainLimits(), [&](const StructuralAssignment& structure, const RuleInstance& instance) {
        if (instance.description != verdict.instance || instance.symbols.size() != symbols.size()) {
          return absl::OkStatus();
        }
        left = ApplicationAt(rule, structure, instance, symbols);
        return absl::CancelledError("found");
      });
  if (left) return *std::move(left);
  return absl::IsCancelled(visited) || visited.ok() ? absl::UnimplementedError("no operators stand for its left side")
                                                    : visited;
}

Tensor TensorOf(const Counterexample::Input& input) {
  Tensor tensor(input.type);
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    if (IsFloating(input.type.dtype)) {
      tensor.Set(i, input.values[i]);
    } else {
      tensor.SetInt(i, input.integers.empty() ? static_cast<int64_t>(input.values[i]) : input.integers[i]);
    }
  }
  return tensor;
}

}  // namespace

absl::Status WriteCounterexample(const std::string& folder, const Rule& rule, const RuleVerdict& verdict) {
  if (!verdict.counterexample->reals.empty()) return absl::UnimplementedError("it has numbers of its own");
  ASSIGN_OR_RETURN(const std::shared_ptr<const CompiledRule> compiled, CompileRule(rule));
  ASSIGN_OR_RETURN(const RandomApplication left, LeftSide(*compiled, verdict));
  ASSIGN_OR_RETURN(const ValueMap replaced, BuildReplacement(left.graph, left.match));
  std::vector<Output> outputs = left.graph.outputs();
  for (Output& output : outputs) {
    if (const auto found = replaced.find(output.value); found != replaced.end()) output.value = found->second;
  }
  const Graph right(left.graph.arena(), left.graph.inputs(), std::move(outputs));
  std::vector<std::pair<std::string, Tensor>> inputs;
  for (const Counterexample::Input& input : verdict.counterexample->inputs) {
    const bool is_input = std::any_of(right.inputs().begin(), right.inputs().end(), [&](Value value) {
      return right.node(value.node).name == input.name;
    });
    if (is_input) inputs.emplace_back(input.name, TensorOf(input));
  }
  const std::string own = absl::StrCat(folder, "/", NpyNameOf(rule.name));
  RETURN_IF_ERROR(WriteInputs(own, inputs));
  RETURN_IF_ERROR(WriteModel(left.graph, {}, own + "/left.onnx"));
  return WriteModel(right, {}, own + "/right.onnx");
}

}  // namespace rewright
