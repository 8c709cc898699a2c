#include "core/onnx/node.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/integer.h"
#include "core/base/status_macros.h"
#include "core/interpreter/interpreter.h"
#include "core/interpreter/known_values.h"
#include "core/onnx/tensor_proto.h"

namespace rewright {
namespace {

// Results of at most so many elements are computed while importing: shapes and index lists, not weights.
constexpr int64_t kMaxFoldedIntegers = 4096;
constexpr int64_t kMaxFoldedReals = 16;
// Inputs that must be known (shapes, axes, bounds) have few elements.
constexpr int64_t kMaxKnownElements = 1 << 20;
// A limit on all tensors that take part in computing one value that is known before the run.
constexpr int64_t kMaxEvaluatedBytes = int64_t{16} << 30;

bool SmallEnoughToFold(const TensorType& type) {
  return type.num_elements() <= (IsFloating(type.dtype) ? kMaxFoldedReals : kMaxFoldedIntegers);
}

}  // namespace

OnnxNode::OnnxNode(ImportState& state, const onnx::NodeProto& proto, const OnnxOperator& op,
                   std::vector<std::optional<Value>> inputs)
    : state_(state), proto_(proto), op_(op), inputs_(std::move(inputs)) {}

// ---------------------------------------------------------------- inputs

Value OnnxNode::input(int i) const {
  CHECK(has_input(i)) << op_type() << ": input " << i;
  return *inputs_[i];
}

std::vector<Value> OnnxNode::inputs() const {
  std::vector<Value> values;
  for (const std::optional<Value>& input : inputs_) {
    if (input) values.push_back(*input);
  }
  return values;
}

absl::Status OnnxNode::CheckGiven(std::initializer_list<int> required) const {
  for (int i : required) {
    if (!has_input(i)) return Invalid(absl::StrCat("input ", i, " is missing"));
  }
  return absl::OkStatus();
}

const Tensor* OnnxNode::KnownTensor(Value value) const {
  const Node& node = state_.arena->node(value.node);
  return node.leaf == LeafKind::kConstant ? &node.data : nullptr;
}

absl::StatusOr<Tensor> OnnxNode::ConstantInput(int i, const std::string& name) {
  const Value value = input(i);
  if (const Tensor* known = KnownTensor(value)) return *known;
  if (!state_.arena->IsKnown(value)) {
    return Unsupported(absl::StrCat("input ", name, " (tensor \"", proto_.input(i),
                                    "\") depends on the inputs of the model; its value must be known beforehand"));
  }
  if (type(value).num_elements() > kMaxKnownElements) {
    return Invalid(absl::StrCat("input ", name, ": ", type(value).ToString(), " is too large"));
  }
  return EvaluateWeightOnly(state_.arena, value);
}

absl::StatusOr<std::vector<int64_t>> OnnxNode::IntsInput(int i, const std::string& name) {
  ASSIGN_OR_RETURN(const Tensor tensor, ConstantInput(i, name));
  if (!IsInteger(tensor.dtype()) || tensor.type().rank() > 1) {
    return Invalid(absl::StrCat("input ", name, " is ", tensor.type().ToString(), "; expected a list of integers"));
  }
  std::vector<int64_t> values;
  for (int64_t k = 0; k < tensor.num_elements(); ++k) values.push_back(tensor.AtInt(k));
  return values;
}

// ---------------------------------------------------------------- training

absl::StatusOr<Value> OnnxNode::StateInput(int i) {
  const Value value = input(i);
  if (state_.arena->node(value.node).leaf == LeafKind::kState) return value;
  const Tensor* known = KnownTensor(value);
  if (known == nullptr) {
    return Unsupported(absl::StrCat("input ", i, " (tensor \"", proto_.input(i), "\") is no initializer"));
  }
  return state_.arena->AddState(proto_.input(i), *known);
}

Value OnnxNode::Latest(Value state) const {
  for (const Output& update : state_.updates) {
    if (update.updates == state) return update.value;
  }
  return state;
}

void OnnxNode::SetLatest(Value state, Value next) {
  for (Output& update : state_.updates) {
    if (update.updates != state) continue;
    update.value = next;
    return;
  }
  state_.updates.push_back({next, state_.arena->node(state.node).name, state});
}

absl::StatusOr<Value> OnnxNode::Random(const Shape& shape) {
  // Streams of one seed do not overlap up to 2^32: 31 bits leave room for as many steps.
  Tensor start({DType::kInt64, {}});
  start.SetInt(0, static_cast<int64_t>(MixBits(state_.seed) >> 33));
  ASSIGN_OR_RETURN(const Value seed, state_.arena->AddState(kDropoutState, start));
  ASSIGN_OR_RETURN(const Value next, Apply("add", {seed, Number(DType::kInt64, 1)}));
  SetLatest(seed, next);
  return Apply("random_uniform", {seed}, {{"shape", shape}, {"stream", state_.masks++}});
}

// ---------------------------------------------------------------- attributes

const onnx::AttributeProto* OnnxNode::Find(const std::string& name) {
  known_attributes_.insert(name);
  for (const onnx::AttributeProto& attribute : proto_.attribute()) {
    if (attribute.name() == name) return &attribute;
  }
  return nullptr;
}

absl::StatusOr<const onnx::AttributeProto*> OnnxNode::Find(const std::string& name, int type, bool required) {
  const onnx::AttributeProto* attribute = Find(name);
  if (attribute == nullptr) {
    if (required) return Invalid(absl::StrCat("attribute ", name, " is missing"));
    return attribute;
  }
  if (!attribute->ref_attr_name().empty()) {
    return Invalid(absl::StrCat("attribute ", name, " refers to an attribute of a function; there is none around"));
  }
  if (attribute->type() != type) {
    return Invalid(absl::StrCat(
        "attribute ", name, " is of type ", onnx::AttributeProto::AttributeType_Name(attribute->type()), "; expected ",
        onnx::AttributeProto::AttributeType_Name(static_cast<onnx::AttributeProto::AttributeType>(type))));
  }
  return attribute;
}

bool OnnxNode::HasAttribute(const std::string& name) { return Find(name) != nullptr; }

absl::StatusOr<int64_t> OnnxNode::Int(const std::string& name, std::optional<int64_t> fallback) {
  ASSIGN_OR_RETURN(const auto* attribute, Find(name, onnx::AttributeProto::INT, !fallback));
  return attribute != nullptr ? attribute->i() : *fallback;
}

absl::StatusOr<double> OnnxNode::Float(const std::string& name, std::optional<double> fallback) {
  ASSIGN_OR_RETURN(const auto* attribute, Find(name, onnx::AttributeProto::FLOAT, !fallback));
  return attribute != nullptr ? attribute->f() : *fallback;
}

absl::StatusOr<std::string> OnnxNode::String(const std::string& name, const std::string& fallback) {
  ASSIGN_OR_RETURN(const auto* attribute, Find(name, onnx::AttributeProto::STRING, false));
  return attribute != nullptr ? attribute->s() : fallback;
}

absl::StatusOr<std::vector<int64_t>> OnnxNode::Ints(const std::string& name, const std::vector<int64_t>& fallback) {
  ASSIGN_OR_RETURN(const auto* attribute, Find(name, onnx::AttributeProto::INTS, false));
  if (attribute == nullptr) return fallback;
  return std::vector<int64_t>(attribute->ints().begin(), attribute->ints().end());
}

absl::StatusOr<std::vector<double>> OnnxNode::Floats(const std::string& name) {
  ASSIGN_OR_RETURN(const auto* attribute, Find(name, onnx::AttributeProto::FLOATS, true));
  return std::vector<double>(attribute->floats().begin(), attribute->floats().end());
}

absl::StatusOr<std::vector<std::string>> OnnxNode::Strings(const std::string& name,
                                                           const std::vector<std::string>& fallback) {
  ASSIGN_OR_RETURN(const auto* attribute, Find(name, onnx::AttributeProto::STRINGS, false));
  if (attribute == nullptr) return fallback;
  return std::vector<std::string>(attribute->strings().begin(), attribute->strings().end());
}

absl::StatusOr<Tensor> OnnxNode::TensorAttribute(const std::string& name) {
  ASSIGN_OR_RETURN(const auto* attribute, Find(name, onnx::AttributeProto::TENSOR, true));
  auto tensor = TensorFromProto(attribute->t(), state_.directory);
  if (tensor.ok()) return tensor;
  return ErrorAt(absl::StrCat("attribute ", name), tensor.status());
}

void OnnxNode::Ignore(std::initializer_list<const char*> names) {
  known_attributes_.insert(names.begin(), names.end());
}

absl::Status OnnxNode::CheckAttributes() const {
  for (const onnx::AttributeProto& attribute : proto_.attribute()) {
    if (!known_attributes_.contains(attribute.name())) {
      return Invalid(absl::StrCat("attribute ", attribute.name(), " is not known in opset ", state_.opset));
    }
  }
  return absl::OkStatus();
}

absl::Status OnnxNode::CheckMagnitude(const std::string& what, const std::vector<int64_t>& values) {
  constexpr int64_t kLimit = int64_t{1} << 31;
  for (int64_t value : values) {
    if (value < -kLimit || value > kLimit) {
      return absl::InvalidArgumentError(absl::StrCat(what, ": ", value, " is too large"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> OnnxNode::Axis(int64_t axis, int rank) {
  if (axis < -rank || axis >= rank) {
    return absl::InvalidArgumentError(absl::StrCat("axis ", axis, " of a tensor with ", rank, " axes"));
  }
  return axis < 0 ? axis + rank : axis;
}

absl::StatusOr<std::vector<int64_t>> OnnxNode::Axes(const std::vector<int64_t>& axes, int rank) {
  if (axes.size() > static_cast<size_t>(rank)) {
    return absl::InvalidArgumentError(absl::StrCat(axes.size(), " axes of a tensor with ", rank));
  }
  std::vector<int64_t> result;
  for (int64_t axis : axes) {
    ASSIGN_OR_RETURN(const int64_t canonical, Axis(axis, rank));
    if (std::find(result.begin(), result.end(), canonical) != result.end()) {
      return absl::InvalidArgumentError(absl::StrCat("axis ", axis, " is named twice"));
    }
    result.push_back(canonical);
  }
  return result;
}

// ---------------------------------------------------------------- building

absl::StatusOr<std::vector<Value>> OnnxNode::ApplyAll(const std::string& op, std::vector<Value> operands, Attrs attrs) {
  Arena& arena = *state_.arena;
  ASSIGN_OR_RETURN(const NodeId id, arena.Add(op, std::move(operands), std::move(attrs)));
  const Node& node = arena.node(id);
  std::vector<Value> values;
  for (int32_t i = 0; i < static_cast<int32_t>(node.outputs.size()); ++i) values.push_back(Value{id, i});

  std::vector<Tensor> known;
  std::vector<TensorType> types;
  for (Value operand : node.operands) {
    const Tensor* tensor = KnownTensor(operand);
    if (tensor == nullptr) return values;
    known.push_back(*tensor);
    types.push_back(tensor->type());
  }
  if (!std::all_of(node.outputs.begin(), node.outputs.end(), SmallEnoughToFold)) return values;
  ASSIGN_OR_RETURN(const std::vector<Tensor> results,
                   Interpret(*node.meaning, BindingsOf(*node.meaning, types, node.attrs), node.outputs, known));
  for (size_t i = 0; i < values.size(); ++i) values[i] = arena.AddConstant(results[i]);
  return values;
}

absl::StatusOr<Value> OnnxNode::Apply(const std::string& op, std::vector<Value> operands, Attrs attrs) {
  ASSIGN_OR_RETURN(const std::vector<Value> values, ApplyAll(op, std::move(operands), std::move(attrs)));
  return values[0];
}

absl::StatusOr<Value> OnnxNode::Reshape(Value x, const Shape& shape) {
  if (this->shape(x) == shape) return x;
  ASSIGN_OR_RETURN(const int64_t elements, CheckedElements(shape));
  if (elements == 0 && type(x).num_elements() == 0) return Constant(Tensor(TensorType{type(x).dtype, shape}));
  return Apply("reshape", {x}, {{"shape", shape}});
}

absl::StatusOr<Value> OnnxNode::Transpose(Value x, const std::vector<int64_t>& perm) {
  std::vector<int64_t> same(shape(x).size());
  std::iota(same.begin(), same.end(), 0);
  if (perm == same) return x;
  return Apply("transpose", {x}, {{"perm", perm}});
}

absl::StatusOr<Value> OnnxNode::Expand(Value x, const Shape& shape) {
  if (this->shape(x) == shape) return x;
  ASSIGN_OR_RETURN(const int64_t elements, CheckedElements(shape));
  if (elements == 0) return Constant(Tensor(TensorType{type(x).dtype, shape}));
  return Apply("expand", {x}, {{"shape", shape}});
}

absl::StatusOr<Value> OnnxNode::CastTo(Value x, DType dtype) {
  if (type(x).dtype == dtype) return x;
  return Apply("cast", {x}, {{"to", dtype}});
}

absl::StatusOr<Value> OnnxNode::SliceAxis(Value x, int64_t axis, int64_t begin, int64_t end) {
  std::vector<int64_t> starts(shape(x).size(), 0);
  std::vector<int64_t> stops = shape(x);
  const size_t at = axis;
  if (begin == 0 && end == stops[at]) return x;
  starts[at] = begin;
  stops[at] = end;
  return Apply("slice", {x}, {{"starts", starts}, {"stops", stops}});
}

absl::StatusOr<Value> OnnxNode::Concat(const std::vector<Value>& parts, int64_t axis) {
  if (parts.size() == 1) return parts[0];
  return Apply("concat", parts, {{"axis", axis}});
}

absl::StatusOr<Value> OnnxNode::MapAxis(Value x, Value matrix, int64_t axis) {
  ASSIGN_OR_RETURN(const Value y, Apply("dot_general", {x, matrix},
                                        {{"lhs_contracting", std::vector<int64_t>{axis}},
                                         {"rhs_contracting", std::vector<int64_t>{1}}}));
  // The new axis is last.
  std::vector<int64_t> perm(static_cast<size_t>(type(y).rank()) - 1);
  std::iota(perm.begin(), perm.end(), 0);
  perm.insert(perm.begin() + axis, type(y).rank() - 1);
  return Transpose(y, perm);
}

absl::StatusOr<Value> OnnxNode::CountAlong(int64_t count, int64_t axis, int rank) {
  if (count < 1) return Unsupported("an empty axis");
  Shape shape(static_cast<size_t>(rank - axis), 1);
  shape[0] = count;
  return Apply("iota", {}, {{"shape", shape}, {"axis", int64_t{0}}, {"dtype", DType::kInt64}});
}

absl::Status OnnxNode::CheckListed(int64_t count) const {
  constexpr int64_t kMostListed = int64_t{1} << 24;
  return count <= kMostListed ? absl::OkStatus() : Unsupported(absl::StrCat("a list of ", count, " numbers"));
}

absl::Status OnnxNode::ChargeGenerated(const TensorType& type) {
  RETURN_IF_ERROR(CheckedElements(type.shape).status());
  if (type.num_bytes() > state_.generated_bytes_left) {
    return absl::ResourceExhaustedError(absl::StrCat("generating ", type.ToString(), ", of ", type.num_bytes(),
                                                     " bytes, exceeds the limit; ", state_.generated_bytes_left,
                                                     " are left"));
  }
  state_.generated_bytes_left -= type.num_bytes();
  return absl::OkStatus();
}

// ---------------------------------------------------------------- formulas and leaves

Value Formula::operator()(const std::string& op, const std::vector<Value>& operands, const Attrs& attrs) {
  if (!status_.ok()) return Value{};
  absl::StatusOr<Value> value = node_.Apply(op, operands, attrs);
  if (value.ok()) return *value;
  status_ = value.status();
  return Value{};
}

Value Formula::Number(Value like, double value) {
  return status_.ok() ? node_.Number(node_.type(like).dtype, value) : Value{};
}

absl::StatusOr<Value> Formula::Done(Value result) const {
  if (!status_.ok()) return status_;
  return result;
}

absl::StatusOr<std::vector<Value>> Formula::Output(Value result) const { return OneOutput(Done(result)); }

absl::StatusOr<std::vector<Value>> OneOutput(absl::StatusOr<Value> value) {
  if (!value.ok()) return value.status();
  return std::vector<Value>{*value};
}

absl::StatusOr<Value> AddModelTensor(Arena& arena, const std::string& name, const Tensor& data) {
  constexpr int64_t kMostQuantized = 64;  // elements of what may be parameters of quantization
  const bool quantized = IsNarrow(data.dtype()) && data.num_elements() > kMostQuantized;
  if ((IsFloating(data.dtype()) && data.num_elements() > 1) || quantized) return arena.AddState(name, data);
  return arena.AddConstant(data);
}

absl::StatusOr<Tensor> EvaluateWeightOnly(const std::shared_ptr<Arena>& arena, Value value) {
  const Graph graph(arena, {}, {Output{value, "value"}});
  int64_t bytes = 0;
  for (NodeId id : graph.nodes()) {
    for (const TensorType& type : graph.node(id).outputs) {
      if (type.num_bytes() > kMaxEvaluatedBytes - bytes) {
        return absl::ResourceExhaustedError(absl::StrCat("computing it takes more than ", kMaxEvaluatedBytes,
                                                         " bytes (", type.ToString(), " alone is ", type.num_bytes(),
                                                         ")"));
      }
      bytes += type.num_bytes();
    }
  }
  ASSIGN_OR_RETURN(const std::vector<Tensor> results, ComputeKnown(arena, {value}));
  return results[0];
}

}  // namespace rewright
