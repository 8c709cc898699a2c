// The nodes of a model file and the values that they became. A rewritten graph is written with the nodes of the file
// wherever no rule touched them: their names, attributes and composites, weights shared as in the file. For the sources
// of this folder only.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "core/ir/graph.h"
#include "core/onnx/proto.h"

namespace rewright {

// The greatest number of bytes of a constant that is written as it is, even if nodes computed it.
inline constexpr int64_t kSmallBytes = 1024;

class OnnxSource {
 public:
  // `values` are the tensors of the model by name, those of the file's graph alone; `tail` the positions of the nodes
  // of its tail (ImportOptions::keep_tail).
  OnnxSource(std::shared_ptr<const onnx::ModelProto> model, int64_t opset, std::shared_ptr<Arena> arena,
             absl::flat_hash_map<std::string, Value> values, std::vector<int> tail = {});

  const std::shared_ptr<Arena>& arena() const { return arena_; }
  int64_t opset() const { return opset_; }
  int num_nodes() const { return model_->graph().node_size(); }
  const onnx::NodeProto& node(int i) const { return model_->graph().node(i); }
  // True if the node may be written into a model of that opset: it means the same there, and reads only its inputs,
  // unlike nodes with subgraphs.
  bool CanBeKept(int i, int64_t opset) const;

  const std::vector<int>& tail() const { return tail_; }
  // True if all nodes of the tail, and those of graphs that they hold, mean the same in a model of that opset.
  bool TailMeansTheSame(int64_t opset) const;
  // True if the tensor became a value.
  bool has(const std::string& name) const { return values_.contains(name); }

  // True if the file declares types of tensors between its inputs and outputs.
  bool describes() const { return model_->graph().value_info_size() > 0; }

  // Returns the graph of the file, without the elements of its initializers.
  const onnx::GraphProto& graph() const { return model_->graph(); }
  // Returns the functions of the file, which its nodes may call.
  const google::protobuf::RepeatedPtrField<onnx::FunctionProto>& functions() const { return model_->functions(); }

  // The value that a tensor of the model became; every tensor that was read has one.
  Value value(const std::string& name) const { return values_.at(name); }
  // Returns the elements of a tensor that is a leaf and known; null for others and for unknown names.
  const Tensor* Elements(const std::string& name) const;
  // Returns the node that gives a tensor; -1 for inputs and initializers.
  int producer(const std::string& name) const;

 private:
  const std::shared_ptr<const onnx::ModelProto> model_;
  const int64_t opset_;
  const std::shared_ptr<Arena> arena_;
  const absl::flat_hash_map<std::string, Value> values_;
  const std::vector<int> tail_;
  absl::flat_hash_map<std::string, int> producers_;
};

// True if the node calls one of the functions of its file.
bool CallsFunction(const onnx::NodeProto& node,
                   const google::protobuf::RepeatedPtrField<onnx::FunctionProto>& functions);

// True if a node of a model of opset `from` means the same in one of opset `to`, which is not lower.
bool MeansTheSame(const onnx::NodeProto& node, int64_t from, int64_t to);

// A node of the source that is written with its inputs bound to values of the graph.
struct KeptNode {
  std::vector<int> before;                     // nodes of the source that compute its inputs, written with it
  absl::flat_hash_map<Value, Value> bindings;  // values of inputs in the source, and the values read instead
};

// Decides for each node of a graph how it is written: kept, as a node of the source; own, in the exporter's forms; or
// not at all, as part of a composite that is kept.
//
// A node of the source is kept for a value of the graph if the value's operators are those that the node was imported
// as, possibly on other operands: the operands may be rewritten. The value's name only finds the candidate. If a rule
// changed the inside of one node alone, and several nodes would replace it, the node is restored: its value, by its
// name, equals the node's result, and so do its inputs. A single node leaves the computation to the program that runs
// the file, which may have a kernel for it.
class ExportPlan {
 public:
  // `fused` gives for a node the one whose own form includes it (a convolution for the sum with its bias): if both
  // would be own, neither is kept. Without a source all nodes are own. `sized`: constants that kept nodes read as they
  // are, however large.
  ExportPlan(const Graph& graph, const OnnxSource* source, int64_t opset,
             const absl::flat_hash_map<NodeId, NodeId>& fused, absl::flat_hash_set<NodeId> sized = {});

  bool IsOwn(NodeId id) const { return own_.contains(id); }
  // Returns the node of the source that gives the value; -1 if none is kept for it.
  int KeptFor(Value value) const;
  // Returns the value of the graph for output `name` of a kept node; no node if there is none.
  Value KeptOutput(const std::string& name) const;
  // Returns the nodes of the source, in order, that compute a large constant for own nodes; null if it is written as it
  // is.
  const std::vector<int>* GeneratedBy(Value constant) const {
    const auto found = generated_.find(constant);
    return found == generated_.end() ? nullptr : &found->second;
  }
  const KeptNode& kept(int node) const { return kept_.at(node); }
  const absl::flat_hash_map<int, KeptNode>& kept() const { return kept_; }

 private:
  // Keeps one node of the source for the needed outputs of `id`, if possible.
  bool Keep(NodeId id, const std::vector<Value>& needed);
  // Matches the node's operators in the values and returns its inputs; null if they do not match.
  std::optional<KeptNode> Matched(int node, const std::vector<std::string>& names,
                                  const std::vector<Value>& values) const;
  // Binds the node's inputs by their names if a rule changed its inside and several nodes would replace it alone; if
  // very many would, nodes before it whose results are gone are also written.
  std::optional<KeptNode> Restored(int node, NodeId id) const;
  // Notes the result of GeneratedBy for an operand of an own node.
  void NoteGenerated(Value value);
  // Counts the nodes that would be written for `id` alone, between it and the values in `read`.
  int CountBetween(NodeId id, const absl::flat_hash_map<Value, Value>& read) const;

  const Graph& graph_;
  const OnnxSource* const source_;
  const int64_t opset_;
  const absl::flat_hash_map<NodeId, NodeId> fused_;
  const absl::flat_hash_set<NodeId> sized_;
  absl::flat_hash_map<std::string, Value> by_name_;  // of the run
  absl::flat_hash_set<NodeId> own_;
  absl::flat_hash_map<Value, std::string> kept_for_;  // the tensor of the source
  absl::flat_hash_map<std::string, Value> outputs_;   // the other way
  absl::flat_hash_map<int, KeptNode> kept_;
  absl::flat_hash_map<Value, std::vector<int>> generated_;
};

}  // namespace rewright
