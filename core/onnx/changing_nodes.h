// Finds the nodes of a model file that give something else at another size, and imports those alone.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "core/ir/graph.h"

namespace rewright {

class OnnxSource;
struct OnnxOperator;

// The values at another size.
struct ChangedValues {
  std::shared_ptr<Arena> arena;
  std::vector<std::pair<Value, Value>> results;  // a value at the size of the source, and that in its place
  absl::flat_hash_map<Value, Value> leaves;      // inputs of `arena`, and the values of the source that they stand for
  absl::Status status;                           // of the first node that cannot be imported; its results are missing
};

// Two nodes import alike if they have equal attributes, and their operands equal types that grow along the same axes,
// or are the same known value. So each layer of a model that repeats itself is imported once.
class ChangingNodes {
 public:
  // The axis along which a value of the source's arena grows with the size; -1: none. Nothing for values that are not
  // in the graph.
  using AxisOf = std::function<std::optional<int>(Value value)>;

  // Nothing if the graph is not that of the source, or a value grows that no such node gives.
  static std::optional<ChangingNodes> Find(std::shared_ptr<const OnnxSource> source, const Graph& graph,
                                           const AxisOf& axis);

  // The values of these nodes where the axes that grow have `by` elements less.
  ChangedValues ImportAt(int64_t by) const;

  int num_nodes() const { return static_cast<int>(steps_.size()); }  // that are imported
  // False: some nodes are not, since they hold graphs, or are not known. Conditions of branches are among the results.
  bool complete() const { return complete_; }

 private:
  struct Operand {
    enum Kind { kNone, kLeaf, kResult, kUnknown } kind = kNone;
    Value leaf;     // of the source
    int axis = -1;  // along which it grows
    int step = 0, output = 0;
    bool changes() const { return kind == kResult || kind == kUnknown || (kind == kLeaf && axis >= 0); }
  };
  struct Step {
    int node = 0;                      // of the file
    const OnnxOperator* op = nullptr;  // null: the result is the operand
    std::vector<Operand> operands;
    std::vector<std::pair<Value, int>> results;  // values of the graph, and the outputs that give them
  };
  class Finder;
  class Import;

  explicit ChangingNodes(std::shared_ptr<const OnnxSource> source) : source_(std::move(source)) {}

  std::shared_ptr<const OnnxSource> source_;
  std::vector<Step> steps_;
  bool complete_ = true;
};

}  // namespace rewright
