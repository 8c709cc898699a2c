// One node of an ONNX model during its import: its attributes and inputs, and functions that build its value from the
// operators of core/ops. For the sources of this folder only.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/base/status_macros.h"
#include "core/ir/graph.h"
#include "core/onnx/onnx.h"
#include "core/onnx/proto.h"

namespace rewright {

// State that all nodes of one import share.
struct ImportState {
  std::shared_ptr<Arena> arena = std::make_shared<Arena>();
  int64_t opset = 0;
  std::string directory;  // of external data; empty: none is read
  int64_t generated_bytes_left = 0;
  OnnxTraining training = OnnxTraining::kAsWritten;
  bool differentiated = false;
  uint64_t seed = 1;
  int64_t masks = 0;            // drawn by the nodes so far
  std::vector<Output> updates;  // the next values of states, by the nodes so far
};

class OnnxNode;
using Values = absl::StatusOr<std::vector<Value>>;
// Gives the values of the node's outputs; the last ones may be left out if they are optional. UnimplementedError: the
// node uses a feature that Rewright does not support. An error that the node remembers (OnnxNode::status) takes
// precedence over the importer's result.
using OnnxImporter = Values (*)(OnnxNode&);

// An operator of ONNX's own domain.
struct OnnxOperator {
  int first_opset = 1;
  int newest_version = 1;  // the last version of the definition that the importer knows
  int min_inputs = 0;
  int max_inputs = 0;  // -1: any number
  OnnxImporter import = nullptr;
  const char* op = "";  // operator of core/ops, for importers that serve several operators
};

// Returns the table of all operators that can be imported, by name (operators.cc).
const absl::flat_hash_map<std::string, OnnxOperator>& OnnxOperatorTable();

// The first error in reading or building is remembered. After it nothing more is built, and every result is a
// placeholder value. The placeholder's shape has the maximum number of axes, all of size one, so importers check the
// status only before they rely on more than that: for instance before a loop over the axes of a value that they built.
class OnnxNode {
 public:
  // `inputs` has no value for an omitted optional input.
  OnnxNode(ImportState& state, const onnx::NodeProto& proto, const OnnxOperator& op,
           std::vector<std::optional<Value>> inputs);

  const absl::Status& status() const { return status_; }
  const std::string& op_type() const { return proto_.op_type(); }
  // Returns the operator of core/ops in the table's entry.
  std::string op() const { return op_.op; }
  int64_t opset() const { return state_.opset; }
  Arena& arena() { return *state_.arena; }
  const std::shared_ptr<Arena>& shared_arena() { return state_.arena; }
  int num_outputs() const { return proto_.output_size(); }
  const std::string& output_name(int i) const { return proto_.output(i); }
  // True if something may read the output.
  bool wants_output(int i) const { return i < proto_.output_size() && !proto_.output(i).empty(); }

  // ---- inputs
  int num_inputs() const { return static_cast<int>(inputs_.size()); }
  bool has_input(int i) const { return i < num_inputs() && inputs_[i].has_value(); }
  Value input(int i) const;           // the required ones exist
  std::vector<Value> inputs() const;  // those that are given
  std::optional<Value> optional_input(int i) const { return has_input(i) ? inputs_[i] : std::nullopt; }
  // Checks that required inputs are given; needed if optional inputs precede them.
  absl::Status CheckGiven(std::initializer_list<int> required) const;
  const TensorType& type(Value value) const;
  const Shape& shape(Value value) const { return type(value).shape; }
  const TensorType& input_type(int i) const { return type(input(i)); }
  int input_rank(int i) const { return input_type(i).rank(); }
  // Returns an input whose value must be known while importing; it is computed if it depends on weights and constants
  // alone. Has no elements after an error.
  Tensor ConstantInput(int i, const std::string& name);
  // Returns an error if the input is not known; it may be of any size.
  absl::Status CheckKnown(int i, const std::string& name);
  // Returns known integers, from a list of one axis or a scalar.
  std::vector<int64_t> IntsInput(int i, const std::string& name);
  // Returns the value of a constant without computing anything; null for all others.
  const Tensor* KnownTensor(Value value) const;

  // ---- training
  OnnxTraining training() const { return state_.training; }
  // True if gradients will be taken (ImportOptions::differentiated).
  bool differentiated() const { return state_.differentiated; }
  // Returns an input that must be an initializer as a state of its name, even if it has a single element.
  Value StateInput(int i);
  // The value that the state holds after the nodes so far; SetLatest sets it for the nodes from here on.
  Value Latest(Value state) const;
  void SetLatest(Value state, Value next);
  // Returns numbers in [0, 1) that differ from those of all other nodes and steps.
  Value Random(const Shape& shape);

  // ---- attributes. Errors: the type is another, or one without a fallback is missing. CheckAttributes rejects those
  // that were not read.
  bool HasAttribute(const std::string& name);
  int64_t Int(const std::string& name, std::optional<int64_t> fallback = std::nullopt);
  bool Flag(const std::string& name, bool fallback = false) { return Int(name, fallback) != 0; }
  double Float(const std::string& name, std::optional<double> fallback = std::nullopt);
  std::string String(const std::string& name, const std::string& fallback);
  std::vector<int64_t> Ints(const std::string& name, const std::vector<int64_t>& fallback = {});
  std::vector<double> Floats(const std::string& name);
  std::vector<std::string> Strings(const std::string& name, const std::vector<std::string>& fallback);
  Tensor TensorAttribute(const std::string& name);
  Tensor SparseAttribute(const std::string& name);  // with all its zeros
  // Returns an element type by its number; for number 0 the fallback, if there is one.
  DType DTypeAttribute(const std::string& name, std::optional<DType> fallback = std::nullopt);
  // Marks attributes as read that make no difference here.
  void Ignore(std::initializer_list<const char*> names);
  // Returns an error that names an attribute that the importer did not read.
  absl::Status CheckAttributes() const;

  // Checks counts of elements, steps or sizes: their products must not overflow.
  static absl::Status CheckMagnitude(const std::string& what, const std::vector<int64_t>& values);
  // Returns an axis in 0..rank-1 from one that may be counted from the end.
  static absl::StatusOr<int64_t> Axis(int64_t axis, int rank);
  static absl::StatusOr<std::vector<int64_t>> Axes(const std::vector<int64_t>& axes, int rank);
  // Returns the axis of the attribute `axis`.
  absl::StatusOr<int64_t> AxisAttribute(std::optional<int64_t> fallback, int rank);

  // ---- building values; applications to small constants are computed at once
  Value operator()(absl::string_view op, absl::Span<const Value> operands);
  Value operator()(absl::string_view op, absl::Span<const Value> operands, const Attrs& attrs);
  Values ApplyAll(absl::string_view op, absl::Span<const Value> operands, const Attrs& attrs);
  Value Constant(const Tensor& data) { return state_.arena->AddConstant(data); }
  Value Number(DType dtype, double value) { return Constant(Tensor::Scalar(dtype, value)); }
  // A number of the type of `like`.
  Value Number(Value like, double value) { return Number(type(like).dtype, value); }
  // Reshape, Transpose, Expand and CastTo return the operand itself if there is nothing to do.
  Value Reshape(Value x, const Shape& shape);
  Value Transpose(Value x, const std::vector<int64_t>& perm);
  Value Expand(Value x, const Shape& shape);
  Value CastTo(Value x, DType dtype);
  // Returns the indices [begin, end) of one axis.
  Value SliceAxis(Value x, int64_t axis, int64_t begin, int64_t end);
  Value Concat(const std::vector<Value>& parts, int64_t axis);
  // Sums over `axis` of x times a row of the matrix [k, n], for each k, which replaces n.
  Value MapAxis(Value x, Value matrix, int64_t axis);
  // Returns 0, 1, .. count - 1 along an axis of a tensor with `rank` axes; the others are of size one.
  Value CountAlong(int64_t count, int64_t axis, int rank);
  // Returns an error if `count` numbers are too many to list one by one while importing.
  absl::Status CheckListed(int64_t count) const;
  // Charges a new tensor that the model does not hold against the limit.
  absl::Status ChargeGenerated(const TensorType& type);

  // Remembers the error; returns the placeholder value.
  Value Fail(const absl::Status& error);

 private:
  const onnx::AttributeProto* Find(const std::string& name);
  // Null after an error.
  const onnx::AttributeProto* Find(const std::string& name, int type, bool required);

  ImportState& state_;
  const onnx::NodeProto& proto_;
  const OnnxOperator& op_;
  std::vector<std::optional<Value>> inputs_;
  std::set<std::string> known_attributes_;
  absl::Status status_;
};

// The root of a sum of squares. If gradients are taken, the gradient at 0 is 0, as in PyTorch's norms.
Value NormOf(OnnxNode& node, Value squares);

// A node's only output.
Values OneOutput(absl::StatusOr<Value> value);

// Returns first, first + 1, .. end - 1.
std::vector<int64_t> AxesFrom(int64_t first, int64_t end);

// Adds a leaf for data of the model: floating tensors of several elements are weights, and so are quantized ones of
// many; all others are constants.
absl::StatusOr<Value> AddModelTensor(Arena& arena, const std::string& name, const Tensor& data);

// Computes a value that depends on weights and constants alone.
absl::StatusOr<Tensor> EvaluateWeightOnly(const std::shared_ptr<Arena>& arena, Value value);

}  // namespace rewright
