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
#include "core/tensor/tensor.h"

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
  kState,     // a weight, or an optimizer's state: it has a name and a type; its value is no part of the node
  kConstant,  // part of the program: scalars, index lists; conditions of rules may read it
};

// Purpose of a graph. For inference, states keep the values that they have when the graph is compiled. In training a
// run may replace them, so no value that is computed from them is known beforehand.
enum class Mode : uint8_t { kInference, kTraining };

const char* ModeName(Mode mode);  // "inference", "training"

struct Node {
  LeafKind leaf = LeafKind::kNone;
  const OpDef* op = nullptr;  // null for leaves
  std::vector<Value> operands;
  Attrs attrs;                             // canonical
  std::shared_ptr<const Meaning> meaning;  // null for leaves
  std::vector<TensorType> outputs;
  std::string name;          // of an input or state: its identity. Empty for constants and applications
  Tensor data;               // of a constant
  bool reads_input = false;  // an input is among the leaves below (or is the node itself)
  bool reads_state = false;  // likewise a state
  // A rounding to integers depends on every bit of its elements (Arena::KeepBits). It is no part of the node's
  // identity.
  bool keeps_bits = false;
  uint64_t hash = 0;  // of the structure below; the same in every arena and run
};

// Owns nodes, and the values of states. All graphs of an arena are of one mode: the cost of a node and the rewrites
// that it admits depend on the mode. Not thread-safe while nodes are being added.
class Arena {
 public:
  explicit Arena(Mode mode = Mode::kInference) : mode_(mode) {}
  Mode mode() const { return mode_; }

  // Add leaves. A name taken by a different leaf is an error; the same leaf again is the same node.
  absl::StatusOr<Value> AddInput(const std::string& name, const TensorType& type);
  // `value` is the state's value before the first run.
  absl::StatusOr<Value> AddState(const std::string& name, const Tensor& value);
  Value AddConstant(const Tensor& data);

  // Adds an application: attributes are completed and made canonical, types are inferred. Commutative operators keep
  // the given order. Errors: those of CanonicalAttrs, the meaning and InferTypes.
  absl::StatusOr<NodeId> Add(const OpDef& op, std::vector<Value> operands, Attrs attrs = {});
  // By name, as Apply: defined beside the registry (core/ops/ops.cc).
  absl::StatusOr<NodeId> Add(const std::string& op, std::vector<Value> operands, Attrs attrs = {});
  // Adds an application and returns its output 0.
  absl::StatusOr<Value> Apply(const std::string& op, std::vector<Value> operands, Attrs attrs = {});

  // Adds the application `like`, of any arena, to operands of the same types, without inference. It keeps its bits if
  // `like` does.
  NodeId AddLike(const Node& like, std::vector<Value> operands);

  const Node& node(NodeId id) const { return *nodes_[id]; }
  const TensorType& type(Value value) const { return node(value.node).outputs[value.output]; }
  std::vector<TensorType> types(const std::vector<Value>& values) const;
  int32_t size() const { return static_cast<int32_t>(nodes_.size()); }

  // True if the node's elements are known before a run and are therefore computed once, when a graph is compiled: it
  // depends on constants alone, and for inference on states.
  bool IsKnown(const Node& node) const { return !node.reads_input && (mode_ == Mode::kInference || !node.reads_state); }
  bool IsKnown(Value value) const { return IsKnown(node(value.node)); }
  // True for applications that a run computes.
  bool IsRun(const Node& node) const { return node.op != nullptr && !IsKnown(node); }
  // Returns the elements of a constant or of a state (before the first run); null for all other nodes.
  const Tensor* Elements(NodeId leaf) const;
  // Returns the elements if they are known before a run; null for others, such as states in training or without a
  // value.
  const Tensor* KnownElements(NodeId leaf) const {
    const Tensor* elements = IsKnown(node(leaf)) ? Elements(leaf) : nullptr;
    return elements != nullptr && elements->data() != nullptr ? elements : nullptr;
  }

  MeaningCache& meanings() { return meanings_; }

  // Marks the application, and those below it down to marked ones: rewrites must leave every bit of their elements
  // unchanged, since one bit can move a rounding to integers by a step.
  void KeepBits(NodeId id);

  // The name of the original model's tensor that a value equals; empty if it has none. A rewrite passes the name on to
  // the value that replaces it. Several values of one graph may have the same name.
  const std::string& name(Value value) const;
  void SetName(Value value, const std::string& name);

 private:
  NodeId Intern(Node node);
  // Fills in which kinds of leaves lie below.
  void NoteLeaves(Node* application) const;

  const Mode mode_;
  std::vector<std::unique_ptr<Node>> nodes_;
  absl::flat_hash_map<NodeId, Tensor> states_;
  absl::flat_hash_map<uint64_t, std::vector<NodeId>> by_hash_;
  absl::flat_hash_map<std::string, NodeId> leaves_;
  absl::flat_hash_map<Value, std::string> names_;
  MeaningCache meanings_;
};

// A value that a run computes: one that the caller gets, or the next value of a state.
struct Output {
  Value value;
  std::string name;
  // The state, or the input, that takes this value when the run has ended (XLA: an input-output alias); no node: none
  // does. Every read of it during the run gives the value before.
  Value updates = {};
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
  std::vector<TensorType> types(const std::vector<Value>& values) const { return arena_->types(values); }
  Mode mode() const { return arena_->mode(); }
  // See Arena::IsKnown.
  bool IsKnown(const Node& node) const { return arena_->IsKnown(node); }
  bool IsKnown(Value value) const { return arena_->IsKnown(value); }
  // Applications that a run computes.
  bool IsRun(const Node& node) const { return arena_->IsRun(node); }
  bool contains(NodeId id) const { return index_.contains(id); }
  // Position in nodes().
  int index(NodeId id) const { return index_.at(id); }
  // Nodes that read some output of nodes()[i], each once, by position in nodes(), ascending.
  const std::vector<int>& users(int i) const { return users_[i]; }
  // Nodes whose outputs nodes()[i] reads, each once, by position, in order of first use.
  const std::vector<int>& producers(int i) const { return producers_[i]; }
  // Returns the outputs that the caller of a run gets: those that are not next values of states.
  std::vector<Output> results() const;
  // The states in order of nodes(), then those that are only written.
  std::vector<Value> states() const;
  // True when the value is an output of the graph.
  bool is_output(Value value) const;

  // The number of applications (non-leaves), and of those that a run computes.
  int num_applications() const;
  int num_runtime_nodes() const;

  // A hash that is independent of the order of construction and of the names of weights and tensors. Equal hashes mean
  // the same graph up to a renaming of leaves of equal type (constants count by content).
  uint64_t CanonicalHash() const;

 private:
  std::shared_ptr<Arena> arena_;
  std::vector<Value> inputs_;
  std::vector<Output> outputs_;
  std::vector<Value> output_values_;  // ascending
  std::vector<NodeId> nodes_;
  absl::flat_hash_map<NodeId, int> index_;
  std::vector<std::vector<int>> users_;
  std::vector<std::vector<int>> producers_;
};

using ValueMap = absl::flat_hash_map<Value, Value>;

// Returns the graph in which every use of a key of `replacement` reads its value instead; nodes downstream are rebuilt
// in the same arena. Keys and values must have equal types. Uses inside the replacing values are left as they are.
absl::StatusOr<Graph> ReplaceValues(const Graph& graph, const ValueMap& replacement);

// Replaces keys also inside the replacing values: many replacements in different places take effect at the price of
// one. Errors: as above, and if a value would come to depend on itself.
absl::StatusOr<Graph> ReplaceEverywhere(const Graph& graph, const ValueMap& replacement);

// Adds a copy of a node of another arena: a leaf with its name and elements, an application to the copies of its
// operands. `copies` must have these, and gets the copies of the node's outputs. Error: another leaf has the name.
absl::Status CopyNode(const Arena& from, NodeId id, Arena& to, ValueMap* copies);

// Copies the graph into a fresh arena, with names; nodes that it does not reach are dropped.
Graph CopyGraph(const Graph& graph, Mode mode);
inline Graph CopyGraph(const Graph& graph) { return CopyGraph(graph, graph.mode()); }

}  // namespace rewright
