// Both sides of a rule as graphs that are compiled once and run on many leaves, for attacks on what records say.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/interpreter/interpreter.h"
#include "core/ir/graph.h"
#include "substitutions/instance/instances.h"
#include "substitutions/instance/random_application.h"
#include "substitutions/match/matcher.h"

namespace rewright::attack {

using Rng = std::mt19937_64;

// A graph whose applications are compiled once for many runs.
class CompiledGraph {
 public:
  using Leaves = std::map<std::string, Tensor>;     // in order: draws do not hang on a hash
  using Values = std::vector<std::vector<Tensor>>;  // by position of the node

  // Errors: a value is too large, or an operator opaque.
  static absl::StatusOr<CompiledGraph> Make(const Graph& graph, Precision precision);

  // Leaves are by name, in the types of the graph; constants are its own. `change` may alter what an application gives.
  absl::StatusOr<Values> Run(const Leaves& leaves, const std::function<void(Tensor*)>& change = nullptr) const;
  const Tensor& At(const Values& values, Value value) const {
    return values[static_cast<size_t>(graph_.index(value.node))][static_cast<size_t>(value.output)];
  }
  const Graph& graph() const { return graph_; }

 private:
  CompiledGraph(const Graph& graph, Precision precision) : graph_(graph), precision_(precision) {}

  Graph graph_;
  Precision precision_;
  std::vector<std::optional<CompiledMeaning>> programs_;
};

// Both sides of a rule at one match, in one type.
struct Sides {
  CompiledGraph left, right;
  std::optional<CompiledGraph> truth, right_truth;  // the sides in f64
  std::set<NodeId> new_values;                      // of the right side's graph
  std::set<NodeId> added;                           // applications that the right side adds
  DType type;
  std::string description;
  std::set<std::string> positive, finite;  // leaves
};

// A left side and its match in one type; without a type, in those that the rule names. Nothing where the type cannot be
// put in the place of these.
struct TypedMatch {
  Graph left;
  Match match;
};
std::optional<TypedMatch> MatchInType(const RandomApplication& application, std::optional<DType> type);

// Nothing where the type cannot be put in the place of the rule's own, or a value is too large.
std::optional<Sides> MakeSides(const CompiledRule& rule, const RuleInstance& instance,
                               const RandomApplication& application, std::optional<DType> type);

// The largest magnitude of a floating element; infinity of NaN.
double Magnitude(const Tensor& tensor);

}  // namespace rewright::attack
