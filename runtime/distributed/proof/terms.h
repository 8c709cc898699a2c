// Terms of the proof of a step: values of micro-batches over the inputs and weights of one device.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/statusor.h"
#include "core/ir/graph.h"

namespace rewright::distributed {

// A value of one micro-batch, as a term over the inputs of that micro-batch and the weights.
struct Term {
  Value value;
  int64_t micro_batch = -1;  // -1: of weights alone

  friend bool operator==(const Term& a, const Term& b) = default;
  friend bool operator<(const Term& a, const Term& b) {
    return std::tie(a.micro_batch, a.value) < std::tie(b.micro_batch, b.value);
  }
};

// The terms of all graphs of a claim, in one arena. States are inputs there: the proof holds for all their values.
class Terms {
 public:
  Terms() : arena_(std::make_shared<Arena>(Mode::kTraining)) {}

  // The leaf of that name. Error: there is one of another type.
  absl::StatusOr<Value> Leaf(const std::string& name, const TensorType& type) { return arena_->AddInput(name, type); }
  const TensorType& type(Value value) const { return arena_->type(value); }

  // The outputs of a graph whose leaves are these values. The trigger of after(x, t) says when x is made, not what it
  // is. Error (kFailedPrecondition): a leaf has no value.
  absl::StatusOr<std::vector<Value>> OutputsOf(const Graph& graph, ValueMap values);

  // The elements of a term on one draw: weights are the same in all micro-batches.
  absl::StatusOr<Tensor> ElementsOf(const Term& term, const std::set<Value>& weights);

 private:
  const std::shared_ptr<Arena> arena_;
  std::map<Term, Tensor> elements_;
};

}  // namespace rewright::distributed
