// How the values of a graph grow with the past of its states (docs/decisions/161).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "core/ir/graph.h"
#include "core/onnx/changing_nodes.h"

namespace rewright {

// Where a state is joined with its new rows: present = concat(past, new).
struct Append {
  Value past, present;
  int axis = 0;
  int64_t rows = 0;  // of `new`
  std::string next;  // the name of the output
};

// Errors (kFailedPrecondition) begin so.
absl::Status Depends(const std::string& what, const std::string& how);
absl::Status OtherConstant(const TensorType& type);
// Names a node in errors.
std::string Text(const Graph& graph, NodeId id);
// True if `kept` is a part of `whole`: along each axis the first elements, or the last ones.
bool IsPart(const Tensor& whole, const Tensor& kept, bool last);

// The axis of each value that grows with the past, and the constants that do, out of the model at several lengths.
class Growth {
 public:
  // A value that is computed out of constants here, and is a constant at another length, since the importer folds few
  // elements.
  struct Folded {
    Value value;
    Tensor elements;
  };
  // How the elements of a constant follow from the length of the past.
  enum Kind : unsigned {
    kFirst = 1,   // they do not: a shorter past sees the first of them
    kLast = 2,    // a shorter past sees the last of them
    kNumber = 4,  // each is the length plus something
  };

  Growth(const Graph& whole, const std::map<std::string, Append>& appends);

  // Takes the model at a past that has `by` rows less. Error: it has other nodes, or differs in another way than those
  // before it.
  absl::Status Learn(const Graph& shorter, int64_t by);
  // Error: at a past of `by` rows less, `other` is not what follows from the lengths that were learned.
  absl::StatusOr<std::vector<Folded>> Check(const Graph& other, int64_t by) const;
  // Likewise of the values that change.
  absl::StatusOr<std::vector<Folded>> Check(const ChangedValues& other, int64_t by) const;

  int64_t capacity() const { return capacity_; }
  bool IsPast(Value value) const { return pasts_.contains(value); }
  int axis(Value value) const {  // -1: none grows
    const auto found = axes_.find(value);
    return found == axes_.end() ? -1 : found->second;
  }
  Kind KindOf(NodeId constant) const;
  // Numbers of attributes that are the capacity.
  bool Grows(NodeId id, const std::string& attr, int64_t number) const {
    return number == capacity_ && sized_.contains({id, attr});
  }

 private:
  // The values of another length, by those of this one.
  struct Matches {
    // False: the value here is matched with another one already, or stands for another one.
    bool Add(Value here, Value there);

    const absl::flat_hash_map<Value, Value>* leaves = nullptr;  // there, and what they stand for; null: none
    std::map<NodeId, NodeId, std::greater<>> nodes;             // still to be visited: users before operands
  };
  using Visitor = absl::FunctionRef<absl::Status(NodeId id, const Arena& arena, NodeId other)>;

  absl::StatusOr<Matches> Match(const Graph& other) const;
  // Visits matched nodes and those below them. Error: the nodes differ.
  absl::Status Visit(Matches matches, const Arena& arena, Visitor visit) const;
  absl::StatusOr<std::vector<Folded>> CheckAll(Matches matches, const Arena& arena, int64_t by) const;

  absl::Status LearnType(Value value, const TensorType& other, int64_t by);
  absl::Status LearnElements(NodeId id, const Tensor* other, int64_t by);
  absl::Status LearnAttrs(NodeId id, const Attrs& others, int64_t by);
  absl::Status CheckNode(NodeId id, const Node& other, const Tensor* elements, int64_t by) const;
  // The ways in which the elements at another length may follow from those here.
  unsigned KindsOf(NodeId id, const Tensor& other, int64_t by) const;
  // Error: the attributes differ otherwise than by sizes that are the capacity, or one that does not grow has these.
  absl::Status CompareAttrs(NodeId id, const Attrs& others, int64_t by,
                            absl::FunctionRef<bool(const std::string& attr)> grows) const;

  const Graph& whole_;
  int64_t capacity_;
  std::set<Value> pasts_;
  absl::flat_hash_map<Value, int> axes_;
  std::map<NodeId, unsigned> kinds_;  // that are possible
  std::set<std::pair<NodeId, std::string>> sized_;
};

}  // namespace rewright
