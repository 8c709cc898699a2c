// Builds the graph of a model file: inputs and initializers, the walk over the nodes, subgraphs, outputs. For the
// sources of this folder only.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/onnx/import/node.h"
#include "core/onnx/onnx.h"
#include "core/onnx/proto.h"

namespace rewright {

inline constexpr int kMaxNodes = 1000000;

bool IsOnnxDomain(const std::string& domain);
// Returns the operator's name, with its domain unless that is ONNX's own.
std::string QualifiedName(const onnx::NodeProto& node);
// Names a node for the user: by its name, or by the first of its outputs.
std::string NodeText(const onnx::NodeProto& node);
// Returns null if the operator, at that opset, is not supported.
const OnnxOperator* FindOperator(const onnx::NodeProto& node, int64_t opset);
bool IsControlFlow(const onnx::NodeProto& node);
// Imports a node of that operator: `operands` has a value for each input, and none for omitted ones. Errors:
// kUnimplemented for a use that is not supported.
Values ImportOperator(ImportState& state, const onnx::NodeProto& node, const OnnxOperator& op,
                      std::vector<std::optional<Value>> operands);
bool HoldsSubgraph(const onnx::NodeProto& node);
// Returns the tensors that the node reads: its inputs, and those that its graphs read from outside.
std::vector<std::string> ReadsOf(const onnx::NodeProto& node);

// Collects unsupported parts of the model: uses of operators, each with the nodes where it occurs, and tensors.
class UnsupportedList {
 public:
  void Add(const std::string& what, const onnx::NodeProto& node);
  void Add(const std::string& tensor);
  bool empty() const { return entries_.empty(); }
  // Makes the error; `subject`: "operators are", if the list has no tensor; `hint`: the end of the message.
  absl::Status ToStatus(const std::string& subject, const std::string& hint = "") const;

 private:
  struct Entry {
    int count = 0;  // 0: a tensor
    std::vector<std::string> nodes;
  };
  std::map<std::string, Entry> entries_;
};

// The initializers that were read, by name.
using InitializersByName = absl::flat_hash_map<std::string, Tensor>;

class GraphImporter {
 public:
  // The elements of initializers move from the model into `initializers`, or are there already. With `map` the elements
  // in files stay there.
  GraphImporter(onnx::ModelProto& model, InitializersByName& initializers, const std::string& directory, bool map,
                int64_t opset, const ImportOptions& options);

  // Returns the graph and what is found with it: dimensions, notes, opaque nodes.
  absl::StatusOr<ImportedModel> Import();

  const absl::flat_hash_map<std::string, Value>& values() const { return values_; }
  // Positions of the nodes of the tail (ImportOptions::keep_tail).
  const std::vector<int>& tail() const { return tail_; }

 private:
  absl::Status CheckOperators();

  absl::Status Define(const std::string& name, Value value, const std::string& what);

  absl::Status ReadInitializers();
  absl::Status ImportInitializers();
  // Reads the default of an input, if it fits; otherwise adds a note.
  void TakeDefault(const std::string& name, const TensorType& type);

  // Adds the leaf for an initializer. In training, one of a single element is a state, too, if it is trained.
  absl::StatusOr<Value> InitializerValue(const std::string& name, const Tensor& tensor);

  // Fills in ImportedModel::left.
  void NoteLeft(const Graph& graph);

  absl::Status ImportInputs();

  // Notes a tensor whose type is not supported; the list of unsupported parts then omits nodes that read it.
  void LeaveAside(const std::string& tensor, const std::string& where, const absl::Status& why);

  absl::StatusOr<TensorType> InputType(const onnx::ValueInfoProto& info);
  // Reads the sizes that defaults have along symbolic dimensions, by name.
  void ReadDefaultSizes();

  // Returns the sizes of the names in a sum; ImportOptions::other_sizes for names whose size is not given.
  index::NamedSizes SizesIn(const SizeRelation& sum) const;

  // Checks the given sizes of dimensions. A size for a dimension that the model lacks is an error; a missing one is
  // noted.
  absl::Status CheckDims();

  // Finds the node that gives each tensor; every tensor is given once.
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

  // opaque_nodes.cc: imports the node as an opaque one; its results have the types that the file declares. Adds it to
  // the list of such nodes, with the reason. Errors: the file declares no types, or the node holds a graph, which reads
  // values other than the node's inputs.
  absl::StatusOr<std::vector<Value>> OpaqueValues(const onnx::NodeProto& node, const std::string& why);
  absl::StatusOr<TensorType> DeclaredType(const std::string& name);
  // Returns a hint for errors about nodes that are not read: a way to run the model nevertheless; empty if there is
  // none.
  std::string HintOf(const std::vector<const onnx::NodeProto*>& nodes);

  // control_flow.cc: replaces If, Loop and Scan whose conditions and counts are known by their subgraphs, one copy per
  // iteration.
  absl::StatusOr<std::vector<Value>> ControlFlow(const onnx::NodeProto& node);
  absl::StatusOr<std::vector<Value>> ImportIf(const onnx::NodeProto& node);
  absl::StatusOr<std::vector<Value>> ImportLoop(const onnx::NodeProto& node);
  absl::StatusOr<std::vector<Value>> ImportScan(const onnx::NodeProto& node);
  // Returns the outputs of a subgraph on these inputs; its names are forgotten afterwards.
  absl::StatusOr<std::vector<Value>> Subgraph(const onnx::GraphProto& graph, const std::vector<Value>& inputs);
  // Returns an element of a tensor that is known; `what` names it in errors.
  absl::StatusOr<int64_t> KnownNumber(const std::string& name, const std::string& what);

  // Names a value; its first name stays, and names inside subgraphs are their own.
  void NameValue(Value value, const std::string& name);

  // The name in the graph of an input or output (ImportOptions::names).
  std::string GivenName(const std::string& name) const;
  absl::Status CheckNames() const;

  absl::StatusOr<std::vector<Output>> ImportOutputs();
  // Notes an output whose shape differs from the declared one, which is only a declaration.
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
  std::map<std::string, std::string> left_;    // floating initializers that are not trained, and why
  absl::flat_hash_set<std::string> trained_;   // the others
  std::vector<std::string>* scope_ = nullptr;  // of the innermost subgraph: the tensors that it has named so far
  int depth_ = 0;                              // of subgraphs
  int64_t imported_ = 0;                       // nodes
};

}  // namespace rewright
