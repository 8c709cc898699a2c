// Tensor graphs.
//
// Nodes are hash-consed in an Arena: equal applications are one node, so common subexpressions are shared and two
// graphs of one arena are equal exactly when their roots are. An arena only grows; operands always precede their
// users, so a graph is never cyclic. A Graph is a light, immutable view: its roots, its declared inputs, and the nodes
// reachable from the roots in topological order. A rewrite adds nodes to the arena and makes a new Graph.
//
// Graphs hold no fused operators and no layouts: both belong to the device.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "core/ir/op.h"
#include "core/ir/tensor.h"

namespace rewright {

using NodeId = int32_t;

// One output of a node.
struct Value {
  NodeId node = -1;
  int32_t output = 0;
  friend bool operator==(Value a, Value b) { return a.node == b.node && a.output == b.output; }
  friend bool operator!=(Value a, Value b) { return !(a == b); }
  friend bool operator<(Value a, Value b) { return std::pair(a.node, a.output) < std::pair(b.node, b.output); }
  template <typename H>
  friend H AbslHashValue(H h, Value v) {
    return H::combine(std::move(h), v.node, v.output);
  }
};

enum class LeafKind : uint8_t {
  kNone,      // not a leaf: an operator application
  kInput,     // fed at every run
  kWeight,    // constant at inference, variable in training
  kConstant,  // part of the program: scalars, index lists; conditions of rules may read it
};

struct Node {
  LeafKind leaf = LeafKind::kNone;
  const OpDef* op = nullptr;  // null for leaves
  std::vector<Value> operands;
  Attrs attrs;                             // canonical
  std::shared_ptr<const Meaning> meaning;  // null for leaves
  std::vector<TensorType> outputs;
  std::string name;          // of an input or weight: its identity. Empty for constants and applications
  Tensor data;               // of a weight or constant
  bool weight_only = false;  // depends on weights and constants alone: computed once at load in inference
  uint64_t hash = 0;         // of the structure below; the same in every arena and run
};

// Owns nodes. Not thread-safe while nodes are being added.
class Arena {
 public:
  // Leaves. A name taken by a different leaf is an error; the same leaf again is the same node.
  absl::StatusOr<Value> AddInput(const std::string& name, const TensorType& type);
  absl::StatusOr<Value> AddWeight(const std::string& name, const Tensor& data);
  Value AddConstant(const Tensor& data);

  // An application: attributes are completed and made canonical, types are inferred. Commutative operators keep the
  // order given. Errors: those of CanonicalAttrs, the meaning and InferTypes.
  absl::StatusOr<NodeId> Add(const OpDef& op, std::vector<Value> operands, Attrs attrs = {});
  absl::StatusOr<NodeId> Add(const std::string& op, std::vector<Value> operands, Attrs attrs = {});
  // The same, giving output 0.
  absl::StatusOr<Value> Apply(const std::string& op, std::vector<Value> operands, Attrs attrs = {});

  // The application `like`, of any arena, to operands of the same types: nothing needs to be inferred again.
  NodeId AddLike(const Node& like, std::vector<Value> operands);

  const Node& node(NodeId id) const { return *nodes_[id]; }
  const TensorType& type(Value value) const { return node(value.node).outputs[value.output]; }
  int32_t size() const { return static_cast<int32_t>(nodes_.size()); }
  MeaningCache& meanings() { return meanings_; }

  // The name of the tensor of the original model that a value equals; empty when it has none. A rewrite hands the
  // name on to the value that replaces it. Within one graph a name may occur on several values.
  const std::string& name(Value value) const;
  void SetName(Value value, const std::string& name);

 private:
  NodeId Intern(Node node);

  std::vector<std::unique_ptr<Node>> nodes_;
  absl::flat_hash_map<uint64_t, std::vector<NodeId>> by_hash_;
  absl::flat_hash_map<std::string, NodeId> leaves_;
  absl::flat_hash_map<Value, std::string> names_;
  MeaningCache meanings_;
};

struct Output {
  Value value;
  std::string name;
};

class Graph {
 public:
  Graph() = default;
  // `inputs` are the declared inputs in order (one may be unused).
  Graph(std::shared_ptr<Arena> arena, std::vector<Value> inputs, std::vector<Output> outputs);

  const std::shared_ptr<Arena>& arena() const { return arena_; }
  const std::vector<Value>& inputs() const { return inputs_; }
  const std::vector<Output>& outputs() const { return outputs_; }
  // Reachable nodes, leaves included, operands before users; the order depends on the structure alone.
  const std::vector<NodeId>& nodes() const { return nodes_; }
  const Node& node(NodeId id) const { return arena_->node(id); }
  const TensorType& type(Value value) const { return arena_->type(value); }
  bool contains(NodeId id) const { return index_.contains(id); }
  // Position in nodes().
  int index(NodeId id) const { return index_.at(id); }
  // Nodes that read some output of nodes()[i], each once, by position in nodes(), ascending.
  const std::vector<int>& users(int i) const { return users_[i]; }
  // Nodes whose outputs nodes()[i] reads, each once, by position, in order of first use.
  const std::vector<int>& producers(int i) const { return producers_[i]; }
  // True when the value is an output of the graph.
  bool is_output(Value value) const;

  // Applications (non-leaves), and those that do work at run time (not weight-only).
  int num_applications() const;
  int num_runtime_nodes() const;

  // Independent of order of construction and of the names of weights and tensors. Equal hashes: the same graph up to
  // a renaming of leaves of equal type (constants count by content).
  uint64_t CanonicalHash() const;

 private:
  std::shared_ptr<Arena> arena_;
  std::vector<Value> inputs_;
  std::vector<Output> outputs_;
  std::vector<NodeId> nodes_;
  absl::flat_hash_map<NodeId, int> index_;
  std::vector<std::vector<int>> users_;
  std::vector<std::vector<int>> producers_;
};

using ValueMap = absl::flat_hash_map<Value, Value>;

// The graph in which every use of a key of `replacement` reads its value instead; nodes downstream are rebuilt in the
// same arena. Keys and values have equal types (else an error). Uses inside the replacing values themselves are left
// as they are.
absl::StatusOr<Graph> ReplaceValues(const Graph& graph, const ValueMap& replacement);

// The same, but keys are replaced inside the replacing values too: what many replacements in different places amount
// to, at the price of one. Errors: as above, and when a value would come to depend on itself.
absl::StatusOr<Graph> ReplaceEverywhere(const Graph& graph, const ValueMap& replacement);

// A copy of the graph in a fresh arena (dropping what it does not reach), with names.
Graph CopyGraph(const Graph& graph);

// FLOPs and bytes of the nodes that run at inference, and elements of the weights.
struct GraphFeatures {
  double flops = 0;
  double bytes = 0;
  int64_t parameters = 0;
};
GraphFeatures FeaturesOf(const Graph& graph);

}  // namespace rewright
