// The graph of a model file as a graph of ours: inputs and initializers, the walk over the nodes, subgraphs, outputs.
// For the sources of this folder only.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/onnx/node.h"
#include "core/onnx/onnx.h"
#include "core/onnx/proto.h"

namespace rewright {

inline constexpr int kMaxNodes = 1000000;

bool IsOnnxDomain(const std::string& domain);
// With its domain, unless that is ONNX's own.
std::string QualifiedName(const onnx::NodeProto& node);
// A node as a person finds it: by its name, or by the first of its outputs.
std::string NodeText(const onnx::NodeProto& node);
// Null where the operator, at that opset, is not supported.
const OnnxOperator* FindOperator(const onnx::NodeProto& node, int64_t opset);
bool IsControlFlow(const onnx::NodeProto& node);
bool HoldsSubgraph(const onnx::NodeProto& node);
// The tensors that the node reads: its inputs, and what the graphs that it holds read from outside of them.
std::vector<std::string> ReadsOf(const onnx::NodeProto& node);

// Things that are not supported: uses of operators, each with the nodes where it occurs, and tensors.
class UnsupportedList {
 public:
  void Add(const std::string& what, const onnx::NodeProto& node);
  void Add(const std::string& tensor);
  bool empty() const { return entries_.empty(); }
  // `subject`: "operators are", where no tensor is in the list; `hint`: what stands at the end.
  absl::Status ToStatus(const std::string& subject, const std::string& hint = "") const;

 private:
  struct Entry {
    int count = 0;  // 0: a tensor
    std::vector<std::string> nodes;
  };
  std::map<std::string, Entry> entries_;
};

// Those that were read.
using InitializersByName = absl::flat_hash_map<std::string, Tensor>;

class GraphImporter {
 public:
  // The elements of initializers move from the model into `initializers`, or are there already. `map`: those of files
  // stay there.
  GraphImporter(onnx::ModelProto& model, InitializersByName& initializers, const std::string& directory, bool map,
                int64_t opset, const ImportOptions& options);

  // The graph, and what is found with it: dimensions, notes, opaque nodes.
  absl::StatusOr<ImportedModel> Import();

  const absl::flat_hash_map<std::string, Value>& values() const { return values_; }
  // Positions of the nodes of the tail (ImportOptions::keep_tail).
  const std::vector<int>& tail() const { return tail_; }

 private:
  absl::Status CheckOperators();

  absl::Status Define(const std::string& name, Value value, const std::string& what);

  absl::Status ReadInitializers();
  absl::Status ImportInitializers();
  // The default of an input, if it fits; a note where it does not.
  void TakeDefault(const std::string& name, const TensorType& type);

  // The leaf for an initializer; in training one of a single element is a state, too, where it is trained.
  absl::StatusOr<Value> InitializerValue(const std::string& name, const Tensor& tensor);

  // Fills in ImportedModel::left.
  void NoteLeft(const Graph& graph);

  absl::Status ImportInputs();

  // A tensor whose type is not supported: the list goes on without what reads it.
  void LeaveAside(const std::string& tensor, const std::string& where, const absl::Status& why);

  absl::StatusOr<TensorType> InputType(const onnx::ValueInfoProto& info);
  // The sizes that defaults have along symbolic dimensions, by name.
  void ReadDefaultSizes();

  // Returns the sizes of the names in a sum; 1 for names whose size is not given.
  index::NamedSizes SizesIn(const SizeRelation& sum) const;

  // Sizes given for dimensions that the model has not got are mistakes; sizes not given are worth a note.
  absl::Status CheckDims();

  // Which node gives which tensor; every tensor is given once.
  absl::Status FindProducers();

  absl::StatusOr<Value> Operand(const std::string& name) const;

  absl::Status ImportNode(const onnx::NodeProto& node);

  absl::StatusOr<std::vector<Value>> NodeValues(const onnx::NodeProto& node);
  // Returns the values of a node by whichever import succeeds: its own importer, control flow, or an opaque node.
  absl::StatusOr<std::vector<Value>> ValuesOf(const onnx::NodeProto& node);

  bool KeepsTail() const { return options_.keep_unknown && options_.keep_tail && scope_ == nullptr; }
  void AddToTail(const onnx::NodeProto& node, const std::string& why);
  // Makes outputs of the values that the tail reads from the graph, except inputs and weights.
  absl::Status AddCut(std::vector<Output>* outputs);

  // opaque_nodes.cc: the node as an opaque one, its results of the types that the file declares; the list of such nodes
  // gets it, with the reason. Errors: it declares none, or the node holds a graph, which reads what is no input.
  absl::StatusOr<std::vector<Value>> OpaqueValues(const onnx::NodeProto& node, const std::string& why);
  absl::StatusOr<TensorType> DeclaredType(const std::string& name);
  // For errors, of nodes that are not read: what runs the model nevertheless; empty where nothing does.
  std::string HintOf(const std::vector<const onnx::NodeProto*>& nodes);

  // control_flow.cc: replaces If, Loop and Scan whose conditions and counts are known by their subgraphs, one copy per
  // iteration.
  absl::StatusOr<std::vector<Value>> ControlFlow(const onnx::NodeProto& node);
  absl::StatusOr<std::vector<Value>> ImportIf(const onnx::NodeProto& node);
  absl::StatusOr<std::vector<Value>> ImportLoop(const onnx::NodeProto& node);
  absl::StatusOr<std::vector<Value>> ImportScan(const onnx::NodeProto& node);
  // The outputs of a subgraph on these inputs; what it names is forgotten.
  absl::StatusOr<std::vector<Value>> Subgraph(const onnx::GraphProto& graph, const std::vector<Value>& inputs);
  // An element of a tensor that is known; `what` stands in errors.
  absl::StatusOr<int64_t> KnownNumber(const std::string& name, const std::string& what);

  // The first name of a value stays; what subgraphs name is theirs.
  void NameValue(Value value, const std::string& name);

  absl::StatusOr<std::vector<Output>> ImportOutputs();
  // A note where an output is not of the shape that is declared, which no one has to believe.
  void NoteOtherShape(const onnx::ValueInfoProto& info, const TensorType& type);

  const onnx::ModelProto& model_;
  onnx::GraphProto& graph_;
  InitializersByName& initializers_;
  const bool map_;
  const ImportOptions& options_;
  ImportState state_;
  ImportedModel result_;
  std::vector<Value> inputs_;
  absl::flat_hash_map<std::string, Value> values_;
  absl::flat_hash_map<std::string, int> producers_;  // positions of nodes
  absl::flat_hash_set<std::string> with_default_;    // inputs that keep theirs: up to version 3 all weights are listed
  std::map<std::string, int64_t> default_sizes_;     // of dimensions of theirs
  absl::flat_hash_set<std::string> unknown_;         // tensors behind uses that are not supported
  UnsupportedList unsupported_;
  std::vector<const onnx::NodeProto*> unread_;                              // nodes in that list
  absl::flat_hash_map<std::string, const onnx::ValueInfoProto*> declared_;  // by tensor; filled when first asked for
  int at_ = 0;                                                              // of the nodes of the file
  std::vector<int> tail_;
  UnsupportedList tail_list_;
  std::map<std::string, std::string> left_;    // floating initializers that are not trained, and why
  absl::flat_hash_set<std::string> trained_;   // the others
  std::vector<std::string>* scope_ = nullptr;  // of the innermost subgraph: the tensors that it has named so far
  int depth_ = 0;                              // of subgraphs
  int64_t imported_ = 0;                       // nodes
};

}  // namespace rewright
