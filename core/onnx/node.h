// One node of an ONNX model while it is imported: its attributes and inputs, and the means to build its value from our
// operators. For the sources of this folder only.
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
#include "core/ir/graph.h"
#include "core/onnx/onnx.h"
#include "core/onnx/proto.h"

namespace rewright {

// What all nodes of one import share.
struct ImportState {
  std::shared_ptr<Arena> arena = std::make_shared<Arena>();
  int64_t opset = 0;
  std::string directory;  // of external data; empty: none is read
  int64_t generated_bytes_left = 0;
  OnnxTraining training = OnnxTraining::kAsWritten;
  uint64_t seed = 1;
  int64_t masks = 0;            // drawn by the nodes so far
  std::vector<Output> updates;  // the next values of states, by the nodes so far
};

class OnnxNode;
// Gives the values of the node's outputs, of which the last may be left away if they are optional. An
// UnimplementedError: the node uses what Rewright does not support.
using OnnxImporter = absl::StatusOr<std::vector<Value>> (*)(OnnxNode&);

// An operator of ONNX's own domain.
struct OnnxOperator {
  int first_opset = 1;
  int newest_version = 1;  // the last version of the definition that the importer knows
  int min_inputs = 0;
  int max_inputs = 0;  // -1: any number
  OnnxImporter import = nullptr;
  const char* op = "";  // of ours, for importers that serve several operators
};

// All that can be imported, by name (operators.cc).
const absl::flat_hash_map<std::string, OnnxOperator>& OnnxOperatorTable();

class OnnxNode {
 public:
  // `inputs` has no value where an optional input is left away.
  OnnxNode(ImportState& state, const onnx::NodeProto& proto, const OnnxOperator& op,
           std::vector<std::optional<Value>> inputs);

  const std::string& op_type() const { return proto_.op_type(); }
  // Our operator of the table's entry.
  std::string op() const { return op_.op; }
  int64_t opset() const { return state_.opset; }
  Arena& arena() { return *state_.arena; }
  const std::shared_ptr<Arena>& shared_arena() { return state_.arena; }
  int num_outputs() const { return proto_.output_size(); }
  const std::string& output_name(int i) const { return proto_.output(i); }
  // Whether anything may read the output.
  bool wants_output(int i) const { return i < proto_.output_size() && !proto_.output(i).empty(); }

  // ---- inputs
  int num_inputs() const { return static_cast<int>(inputs_.size()); }
  bool has_input(int i) const { return i < num_inputs() && inputs_[i].has_value(); }
  Value input(int i) const;           // the required ones exist
  std::vector<Value> inputs() const;  // those that are given
  // Where some that may be left away stand before one that may not.
  absl::Status CheckGiven(std::initializer_list<int> required) const;
  const TensorType& type(Value value) const { return state_.arena->type(value); }
  const Shape& shape(Value value) const { return type(value).shape; }
  const TensorType& input_type(int i) const { return type(input(i)); }
  int input_rank(int i) const { return input_type(i).rank(); }
  // An input whose value must be known while importing; computed where it depends on weights and constants alone.
  absl::StatusOr<Tensor> ConstantInput(int i, const std::string& name);
  // The same of integers, in a list of one axis or a scalar.
  absl::StatusOr<std::vector<int64_t>> IntsInput(int i, const std::string& name);
  // The value of a constant without computing anything; null for all others.
  const Tensor* KnownTensor(Value value) const;

  // ---- training
  OnnxTraining training() const { return state_.training; }
  // An input that must be an initializer, as a state of its name, of a single element too.
  absl::StatusOr<Value> StateInput(int i);
  // What the state holds behind the nodes so far, and what it holds from here on.
  Value Latest(Value state) const;
  void SetLatest(Value state, Value next);
  // Numbers in [0, 1) that differ from those of all other nodes and steps.
  absl::StatusOr<Value> Random(const Shape& shape);

  // ---- attributes; an error where the type is another. Those that are never asked for are unknown.
  bool HasAttribute(const std::string& name);
  absl::StatusOr<int64_t> Int(const std::string& name, std::optional<int64_t> fallback);
  absl::StatusOr<double> Float(const std::string& name, std::optional<double> fallback);
  absl::StatusOr<std::string> String(const std::string& name, const std::string& fallback);
  absl::StatusOr<std::vector<int64_t>> Ints(const std::string& name, const std::vector<int64_t>& fallback);
  absl::StatusOr<std::vector<double>> Floats(const std::string& name);
  absl::StatusOr<std::vector<std::string>> Strings(const std::string& name, const std::vector<std::string>& fallback);
  absl::StatusOr<Tensor> TensorAttribute(const std::string& name);
  // Takes note of attributes that make no difference here.
  void Ignore(std::initializer_list<const char*> names);
  // An error naming an attribute that nobody asked for.
  absl::Status CheckAttributes() const;

  // Counts of elements, steps, sizes: integers whose products cannot overflow.
  static absl::Status CheckMagnitude(const std::string& what, const std::vector<int64_t>& values);
  // 0..rank-1 of an axis that may be counted from the end.
  static absl::StatusOr<int64_t> Axis(int64_t axis, int rank);
  static absl::StatusOr<std::vector<int64_t>> Axes(const std::vector<int64_t>& axes, int rank);

  // ---- building; applications to small constants are computed at once
  absl::StatusOr<Value> Apply(const std::string& op, std::vector<Value> operands, Attrs attrs = {});
  absl::StatusOr<std::vector<Value>> ApplyAll(const std::string& op, std::vector<Value> operands, Attrs attrs = {});
  Value Constant(const Tensor& data) { return state_.arena->AddConstant(data); }
  Value Number(DType dtype, double value) { return Constant(Tensor::Scalar(dtype, value)); }
  // These give the operand itself where there is nothing to do.
  absl::StatusOr<Value> Reshape(Value x, const Shape& shape);
  absl::StatusOr<Value> Transpose(Value x, const std::vector<int64_t>& perm);
  absl::StatusOr<Value> Expand(Value x, const Shape& shape);
  absl::StatusOr<Value> CastTo(Value x, DType dtype);
  // The indices [begin, end) of one axis.
  absl::StatusOr<Value> SliceAxis(Value x, int64_t axis, int64_t begin, int64_t end);
  absl::StatusOr<Value> Concat(const std::vector<Value>& parts, int64_t axis);
  // Sums over `axis` of x times a row of the matrix [k, n], for each k, which takes the place of n.
  absl::StatusOr<Value> MapAxis(Value x, Value matrix, int64_t axis);
  // 0, 1, .. count - 1 along an axis of tensors with `rank` axes; the others are of size one.
  absl::StatusOr<Value> CountAlong(int64_t count, int64_t axis, int rank);
  // Whether so many numbers may be listed one by one while importing.
  absl::Status CheckListed(int64_t count) const;
  // A new tensor that the model does not hold: charged against the limit. Weights or constants as for initializers.
  absl::Status ChargeGenerated(const TensorType& type);

  // ---- errors
  absl::Status Unsupported(const std::string& what) const { return absl::UnimplementedError(what); }
  absl::Status Invalid(const std::string& what) const { return absl::InvalidArgumentError(what); }

 private:
  const onnx::AttributeProto* Find(const std::string& name);
  absl::StatusOr<const onnx::AttributeProto*> Find(const std::string& name, int type, bool required);

  ImportState& state_;
  const onnx::NodeProto& proto_;
  const OnnxOperator& op_;
  std::vector<std::optional<Value>> inputs_;
  std::set<std::string> known_attributes_;
};

// A composition of operators whose shapes need not be looked at on the way. Remembers the first error; after it
// nothing more is built.
class Formula {
 public:
  explicit Formula(OnnxNode& node) : node_(node) {}
  Value operator()(const std::string& op, const std::vector<Value>& operands, const Attrs& attrs = {});
  // The number as a scalar of the type of `like`, which is an input of the node.
  Value Number(Value like, double value);
  absl::StatusOr<Value> Done(Value result) const;
  // The same for the single output of a node.
  absl::StatusOr<std::vector<Value>> Output(Value result) const;

 private:
  OnnxNode& node_;
  absl::Status status_;
};

// A node's only output.
absl::StatusOr<std::vector<Value>> OneOutput(absl::StatusOr<Value> value);

// A leaf for data of the model: floating tensors of several elements are weights, and so are quantized ones of many;
// all others are constants.
absl::StatusOr<Value> AddModelTensor(Arena& arena, const std::string& name, const Tensor& data);

// The value, which depends on weights and constants alone.
absl::StatusOr<Tensor> EvaluateWeightOnly(const std::shared_ptr<Arena>& arena, Value value);

}  // namespace rewright
