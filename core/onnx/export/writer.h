// Builds the nodes and initializers of an ONNX model. For the sources of this folder only.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/ir/graph.h"
#include "core/onnx/proto.h"

namespace rewright {

class OnnxWriter;

// Attributes of a node of ONNX, in their order; reals are written as f32.
using OnnxAttr = std::variant<int64_t, double, std::string, std::vector<int64_t>>;
using OnnxAttrs = std::vector<std::pair<std::string, OnnxAttr>>;

// One application on its way out: its operands and results have names.
struct ExportedNode {
  const Node& node;
  std::vector<TensorType> operand_types;
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;

  int64_t Int(const char* attr) const { return std::get<int64_t>(node.attrs.at(attr)); }
  double Real(const char* attr) const { return std::get<double>(node.attrs.at(attr)); }
  const std::vector<int64_t>& Ints(const char* attr) const {
    return std::get<std::vector<int64_t>>(node.attrs.at(attr));
  }
  const TensorType& type() const { return node.outputs[0]; }
};

// Writes an application of an operator of core/ops as nodes of ONNX.
struct OnnxForm {
  void (*write)(OnnxWriter&, const ExportedNode&) = nullptr;
  const char* op_type = "";  // for functions that serve several operators
  int min_opset = 13;
};
// Returns the form; null if the operator has none in ONNX (export/ops.cc).
const OnnxForm* FindOnnxForm(const std::string& op);
// Return the forms of operators that move elements (export/move.cc), and of those that training and its gradients add
// (export/training.cc).
const absl::flat_hash_map<std::string, OnnxForm>& MovementForms();
const absl::flat_hash_map<std::string, OnnxForm>& TrainingForms();

class OnnxWriter {
 public:
  explicit OnnxWriter(int64_t opset) : opset_(opset) {}

  int64_t opset() const { return opset_; }

  // Returns an unused name: `wanted` itself if it is free.
  std::string UniqueName(const std::string& wanted);
  // Reserves the name. False if it is taken.
  bool Reserve(const std::string& name) { return taken_.insert(name).second; }

  void AddNode(absl::string_view op_type, absl::Span<const std::string> inputs, absl::Span<const std::string> outputs,
               const OnnxAttrs& attrs = {});
  // Adds a node of the file that was read, unchanged; its name gets a number if a copy already has the name.
  void AddCopy(onnx::NodeProto node);
  // Reserves the names of the file's nodes, since readers refuse two nodes of one name. Called before any node is
  // added.
  void KeepNodeName(const std::string& name) { file_names_.insert(name); }
  // Adds an initializer; `name` must be free (UniqueName). Returns the name.
  const std::string& AddInitializer(const std::string& name, const Tensor& tensor);
  // Adds a tensor as an initializer, or, where `compact` and its elements are many and equal, as a node that repeats
  // one.
  void AddTensor(const std::string& name, const Tensor& tensor, bool compact);
  // Return the names of lists and numbers that nodes read; equal ones are one initializer.
  std::string Ints(const std::vector<int64_t>& values);
  std::string Number(DType dtype, double value);

  // Returns a name for an intermediate value.
  std::string Temporary(const ExportedNode& node) { return UniqueName(node.outputs[0] + "_part"); }

  std::vector<onnx::NodeProto>& nodes() { return nodes_; }
  std::vector<std::pair<std::string, Tensor>>& initializers() { return initializers_; }

 private:
  std::string NumberedNodeName(const std::string& stem);

  int64_t opset_;
  absl::flat_hash_set<std::string> taken_;
  std::vector<onnx::NodeProto> nodes_;
  absl::flat_hash_map<std::string, int> node_counts_;  // by the name without its number
  absl::flat_hash_set<std::string> file_names_;        // of nodes
  absl::flat_hash_set<std::string> copied_;            // of nodes
  std::vector<std::pair<std::string, Tensor>> initializers_;
  std::map<std::vector<int64_t>, std::string> ints_;
  std::map<std::pair<DType, std::string>, std::string> numbers_;  // by their bytes
};

// Returns the attributes under ONNX's names.
OnnxAttrs AttrsOf(const ExportedNode& node);
// Adds a node with one intermediate result, and returns the name of that.
std::string Step(OnnxWriter& writer, const ExportedNode& node, absl::string_view op_type,
                 absl::Span<const std::string> inputs, const OnnxAttrs& attrs = {});
std::string CastTo(OnnxWriter& writer, const ExportedNode& node, const std::string& x, DType to);

// Writes a tensor spread out and padded (export/move.cc). Spreading appends zeros to every element, in a new axis, and
// cuts off those after the last element.
std::string WritePad(OnnxWriter& writer, const ExportedNode& node, std::string x, Shape shape,
                     const std::vector<int64_t>& before, std::vector<int64_t> after,
                     const std::vector<int64_t>& interior, double value);

}  // namespace rewright
