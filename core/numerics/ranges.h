// Facts of the values of a graph: in which interval elements lie, whether what a run computes may be another number
// than over the reals, and which decisions a value reaches.
//
// Everything follows from the declarations of operators, the elements of weights and constants (read once each), and
// what the caller says of inputs. Values of an arena never change, so what is found of one holds in all its graphs: a
// rewritten graph costs its new nodes alone, a few microseconds each.
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
  // By name of an input: where its elements lie. Inputs that are not named are finite and unbounded (integers: within
  // their type).
  std::map<std::string, Interval> inputs;
};

// Not thread-safe.
class Numerics {
 public:
  explicit Numerics(NumericsOptions options = {}) : options_(std::move(options)) {}

  // Gives the facts of a value of an arena; values below it are looked at first, where they have not been. The arena is
  // that of all calls before.
  const Facts& Of(const Arena& arena, Value value);
  // Gives those of a leaf, or of an application whose operands have these facts, in an arena or on its own.
  Facts OfLeaf(const Arena& arena, NodeId leaf);
  std::vector<Facts> OfApplication(const Node& node, const std::vector<const Facts*>& operands,
                                   const std::vector<TensorType>& operand_types);

  // Gives for every value of the graph the decisions that lie behind it. A value that nothing reads reaches none.
  absl::flat_hash_map<Value, Decisions> DecisionsOf(const Graph& graph);
  // Gives what an operand of a node reaches, where the node's outputs reach these.
  Decisions OfOperand(const Node& node, int operand, const std::vector<Decisions>& outputs);

 private:
  struct Operator {
    std::shared_ptr<const Meaning> meaning;
    std::unique_ptr<ElementFacts> facts;
    std::vector<std::vector<Flow>> flows;
  };
  Operator& OperatorOf(const Node& node);
  void RefineByOperands(const Arena& arena, NodeId id, std::vector<Facts>* facts);

  NumericsOptions options_;
  // Operands that are one value are one operand: x * x is a square.
  std::map<std::pair<const Meaning*, std::vector<int>>, Operator> operators_;
  absl::flat_hash_map<NodeId, std::vector<Facts>> nodes_;
};

// Facts of given elements, found in one pass over them.
Facts FactsOfElements(const Tensor& elements);

}  // namespace rewright
