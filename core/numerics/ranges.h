// Facts about the values of a graph: the interval of the elements, whether a run may compute another number than over
// the reals, and the decisions that a value reaches.
//
// All facts follow from the declarations of operators, the elements of weights and constants (read once each), and the
// caller's facts about inputs. Values of an arena never change, so facts of a value hold in all its graphs: a rewritten
// graph costs only its new nodes, a few microseconds each.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/ir/graph.h"
#include "core/numerics/decisions.h"
#include "core/numerics/element_facts.h"
#include "core/numerics/facts.h"

namespace rewright {

struct NumericsOptions {
  // The intervals of inputs, by name. Inputs that are not named are finite and unbounded (integers: within their type).
  std::map<std::string, Interval> inputs;
};

// Not thread-safe.
class Numerics {
 public:
  explicit Numerics(NumericsOptions options = {}) : options_(std::move(options)) {}

  // Returns the facts of a value of an arena; values below it are examined first if needed. The arena must be that of
  // all earlier calls.
  const Facts& Of(const Arena& arena, Value value);
  // Returns the facts of a leaf, or of an application whose operands have these facts, in an arena or on its own.
  Facts OfLeaf(const Arena& arena, NodeId leaf);
  std::vector<Facts> OfApplication(const Node& node, const std::vector<const Facts*>& operands,
                                   const std::vector<TensorType>& operand_types);

  // Returns for every value of the graph the decisions that depend on it. A value without readers reaches none.
  absl::flat_hash_map<Value, Decisions> DecisionsOf(const Graph& graph);
  // Returns the decisions that an operand of a node reaches, from those that the node's outputs reach.
  Decisions OfOperand(const Node& node, int operand, const std::vector<Decisions>& outputs);

 private:
  struct Operator {
    std::shared_ptr<const Meaning> meaning;
    std::unique_ptr<ElementFacts> facts;
  };
  struct Flows {
    std::shared_ptr<const Meaning> meaning;
    std::vector<std::vector<Flow>> flows;
  };
  ElementFacts& FactsOfOperator(const Node& node);
  const std::vector<std::vector<Flow>>& FlowsOfOperator(const Node& node);
  void RefineByOperands(const Arena& arena, NodeId id, std::vector<Facts>* facts);

  NumericsOptions options_;
  // Operands that are one value are treated as one: x * x is a square.
  std::map<std::pair<const Meaning*, std::vector<int>>, Operator> operators_;
  std::map<std::pair<const Meaning*, size_t>, Flows> flows_;  // by the number of operands
  absl::flat_hash_map<NodeId, std::vector<Facts>> nodes_;
};

// Returns the facts of given elements, found in one pass over them.
Facts FactsOfElements(const Tensor& elements);

}  // namespace rewright
