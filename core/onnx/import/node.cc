#include "core/onnx/import/node.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/base/check.h"
#include "core/base/integer.h"
#include "core/base/status_macros.h"
#include "core/interpreter/interpreter.h"
#include "core/interpreter/known_values.h"
#include "core/onnx/proto.h"

namespace rewright {
namespace {

// The greatest number of elements of a result that is computed while importing: shapes and index lists, not weights.
constexpr int64_t kMaxFoldedIntegers = 4096;
constexpr int64_t kMaxFoldedReals = 16;
// The limit on elements of inputs that must be known (shapes, axes, bounds).
constexpr int64_t kMaxKnownElements = 1 << 20;
// The limit on the bytes of all tensors that take part in computing one known value.
constexpr int64_t kMaxEvaluatedBytes = int64_t{16} << 30;

bool SmallEnoughToFold(const TensorType& type) {
  return type.num_elements() <= (IsFloating(type.dtype) ? kMaxFoldedReals : kMaxFoldedIntegers);
}

}  // namespace

OnnxNode::OnnxNode(ImportState& state, const onnx::NodeProto& proto, const OnnxOperator& op,
                   std::vector<std::optional<Value>> inputs)
    : state_(state), proto_(proto), op_(op), inputs_(std::move(inputs)) {}

Value OnnxNode::Fail(const absl::Status& error) {
  if (status_.ok()) status_ = error;
  return Value{};
}

const TensorType& OnnxNode::type(Value value) const {
  static const auto* const stand_in = new TensorType{DType::kFloat32, Shape(kMaxRank, 1)};
  return value.node < 0 ? *stand_in : state_.arena->type(value);
}

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
    if (!has_input(i)) return InvalidArgument("input ", i, " is missing");
  }
  return absl::OkStatus();
}

const Tensor* OnnxNode::KnownTensor(Value value) const {
  if (value.node < 0) return nullptr;
  const Node& node = state_.arena->node(value.node);
  return node.leaf == LeafKind::kConstant ? &node.data : nullptr;
}

absl::Status OnnxNode::CheckKnown(int i, const std::string& name) {
  if (state_.arena->IsKnown(input(i))) return absl::OkStatus();
  return Unimplemented("input ", name, " (tensor \"", proto_.input(i),
                       "\") depends on the inputs of the model; its value must be known beforehand");
}

Tensor OnnxNode::ConstantInput(int i, const std::string& name) {
  const Value value = input(i);
  if (const Tensor* known = KnownTensor(value)) return *known;
  if (const absl::Status status = CheckKnown(i, name); !status.ok()) {
    Fail(status);
  } else if (type(value).num_elements() > kMaxKnownElements) {
    Fail(InvalidArgument("input ", name, ": ", type(value).ToString(), " is too large"));
  } else if (const absl::StatusOr<Tensor> computed = EvaluateWeightOnly(state_.arena, value); computed.ok()) {
    return *computed;
  } else {
    Fail(computed.status());
  }
  return Tensor::Int64s({});
}

std::vector<int64_t> OnnxNode::IntsInput(int i, const std::string& name) {
  const Tensor tensor = ConstantInput(i, name);
  if (!IsInteger(tensor.dtype()) || tensor.type().rank() > 1) {
    Fail(InvalidArgument("input ", name, " is ", tensor.type().ToString(), "; expected a list of integers"));
    return {};
  }
  std::vector<int64_t> values;
  for (int64_t k = 0; k < tensor.num_elements(); ++k) values.push_back(tensor.AtInt(k));
  return values;
}

// ---------------------------------------------------------------- training

Value OnnxNode::StateInput(int i) {
  const Value value = input(i);
  if (state_.arena->node(value.node).leaf == LeafKind::kState) return value;
  const Tensor* known = KnownTensor(value);
  if (known == nullptr)
    return Fail(Unimplemented("input ", i, " (tensor \"", proto_.input(i), "\") is no initializer"));
  const absl::StatusOr<Value> state = state_.arena->AddState(proto_.input(i), *known);
  return state.ok() ? *state : Fail(state.status());
}

Value OnnxNode::Latest(Value state) const {
  for (const Output& update : state_.updates) {
    if (update.updates == state) return update.value;
  }
  return state;
}

void OnnxNode::SetLatest(Value state, Value next) {
  if (!status_.ok()) return;
  for (Output& update : state_.updates) {
    if (update.updates != state) continue;
    update.value = next;
    return;
  }
  state_.updates.push_back({next, state_.arena->node(state.node).name, state});
}

Value OnnxNode::Random(const Shape& shape) {
  // Streams of one seed do not overlap below 2^32; 31 bits leave room for that number of steps.
  Tensor start({DType::kInt64, {}});
  start.SetInt(0, static_cast<int64_t>(MixBits(state_.seed) >> 33));
  const absl::StatusOr<Value> seed = state_.arena->AddState(kDropoutState, start);
  if (!seed.ok()) return Fail(seed.status());
  SetLatest(*seed, (*this)("add", {*seed, Number(DType::kInt64, 1)}));
  return (*this)("random_uniform", {*seed}, {{"shape", shape}, {"stream", state_.masks++}});
}

// ---------------------------------------------------------------- attributes

const onnx::AttributeProto* OnnxNode::Find(const std::string& name) {
  known_attributes_.insert(name);
  return FindAttribute(proto_, name);
}

const onnx::AttributeProto* OnnxNode::Find(const std::string& name, int type, bool required) {
  const onnx::AttributeProto* attribute = Find(name);
  if (attribute == nullptr) {
    if (required) Fail(InvalidArgument("attribute ", name, " is missing"));
    return nullptr;
  }
  if (!attribute->ref_attr_name().empty()) {
    Fail(InvalidArgument("attribute ", name, " refers to an attribute of a function; there is none around"));
    return nullptr;
  }
  if (attribute->type() == type) return attribute;
  Fail(InvalidArgument(
      "attribute ", name, " is of type ", onnx::AttributeProto::AttributeType_Name(attribute->type()), "; expected ",
      onnx::AttributeProto::AttributeType_Name(static_cast<onnx::AttributeProto::AttributeType>(type))));
  return nullptr;
}

bool OnnxNode::HasAttribute(const std::string& name) { return Find(name) != nullptr; }

int64_t OnnxNode::Int(const std::string& name, std::optional<int64_t> fallback) {
  const onnx::AttributeProto* attribute = Find(name, onnx::AttributeProto::INT, !fallback);
  return attribute != nullptr ? attribute->i() : fallback.value_or(0);
}

double OnnxNode::Float(const std::string& name, std::optional<double> fallback) {
  const onnx::AttributeProto* attribute = Find(name, onnx::AttributeProto::FLOAT, !fallback);
  return attribute != nullptr ? attribute->f() : fallback.value_or(0);
}

std::string OnnxNode::String(const std::string& name, const std::string& fallback) {
  const onnx::AttributeProto* attribute = Find(name, onnx::AttributeProto::STRING, false);
  return attribute != nullptr ? attribute->s() : fallback;
}

std::vector<int64_t> OnnxNode::Ints(const std::string& name, const std::vector<int64_t>& fallback) {
  const onnx::AttributeProto* attribute = Find(name, onnx::AttributeProto::INTS, false);
  if (attribute == nullptr) return fallback;
  return {attribute->ints().begin(), attribute->ints().end()};
}

std::vector<double> OnnxNode::Floats(const std::string& name) {
  const onnx::AttributeProto* attribute = Find(name, onnx::AttributeProto::FLOATS, true);
  if (attribute == nullptr) return {};
  return {attribute->floats().begin(), attribute->floats().end()};
}

std::vector<std::string> OnnxNode::Strings(const std::string& name, const std::vector<std::string>& fallback) {
  const onnx::AttributeProto* attribute = Find(name, onnx::AttributeProto::STRINGS, false);
  if (attribute == nullptr) return fallback;
  return {attribute->strings().begin(), attribute->strings().end()};
}

Tensor OnnxNode::SparseAttribute(const std::string& name) {
  const onnx::AttributeProto* attribute = Find(name, onnx::AttributeProto::SPARSE_TENSOR, true);
  if (attribute == nullptr) return Tensor::Int64s({});
  const absl::StatusOr<Tensor> tensor = DenseFromProto(attribute->sparse_tensor(), state_.directory);
  if (tensor.ok()) return *tensor;
  Fail(ErrorAt(absl::StrCat("attribute ", name), tensor.status()));
  return Tensor::Int64s({});
}

Tensor OnnxNode::TensorAttribute(const std::string& name) {
  const onnx::AttributeProto* attribute = Find(name, onnx::AttributeProto::TENSOR, true);
  if (attribute == nullptr) return Tensor::Int64s({});
  const absl::StatusOr<Tensor> tensor = TensorFromProto(attribute->t(), state_.directory);
  if (tensor.ok()) return *tensor;
  Fail(ErrorAt(absl::StrCat("attribute ", name), tensor.status()));
  return Tensor::Int64s({});
}

DType OnnxNode::DTypeAttribute(const std::string& name, std::optional<DType> fallback) {
  const int64_t number = fallback ? Int(name, 0) : Int(name);
  if (fallback && number == 0) return *fallback;
  const absl::StatusOr<DType> dtype = DTypeFromOnnx(number);
  if (!dtype.ok()) Fail(dtype.status());
  return dtype.value_or(DType::kFloat32);
}

void OnnxNode::Ignore(std::initializer_list<const char*> names) {
  known_attributes_.insert(names.begin(), names.end());
}

absl::Status OnnxNode::CheckAttributes() const {
  for (const onnx::AttributeProto& attribute : proto_.attribute()) {
    if (!known_attributes_.contains(attribute.name())) {
      return InvalidArgument("attribute ", attribute.name(), " is not known in opset ", state_.opset);
    }
  }
  return absl::OkStatus();
}

absl::Status OnnxNode::CheckMagnitude(const std::string& what, const std::vector<int64_t>& values) {
  constexpr int64_t kLimit = int64_t{1} << 31;
  for (int64_t value : values) {
    if (value < -kLimit || value > kLimit) return InvalidArgument(what, ": ", value, " is too large");
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> OnnxNode::Axis(int64_t axis, int rank) {
  if (axis < -rank || axis >= rank) return InvalidArgument("axis ", axis, " of a tensor with ", rank, " axes");
  return axis < 0 ? axis + rank : axis;
}

absl::StatusOr<std::vector<int64_t>> OnnxNode::Axes(const std::vector<int64_t>& axes, int rank) {
  if (axes.size() > static_cast<size_t>(rank)) return InvalidArgument(axes.size(), " axes of a tensor with ", rank);
  std::vector<int64_t> result;
  for (int64_t axis : axes) {
    ASSIGN_OR_RETURN(const int64_t canonical, Axis(axis, rank));
    if (std::find(result.begin(), result.end(), canonical) != result.end()) {
      return InvalidArgument("axis ", axis, " is named twice");
    }
    result.push_back(canonical);
  }
  return result;
}

absl::StatusOr<int64_t> OnnxNode::AxisAttribute(std::optional<int64_t> fallback, int rank) {
  const int64_t axis = Int("axis", fallback);
  RETURN_IF_ERROR(status_);
  return Axis(axis, rank);
}

// ---------------------------------------------------------------- building

Values OnnxNode::ApplyAll(absl::string_view op, absl::Span<const Value> operands, const Attrs& attrs) {
  RETURN_IF_ERROR(status_);
  Arena& arena = *state_.arena;
  ASSIGN_OR_RETURN(const NodeId id, arena.Add(std::string(op), {operands.begin(), operands.end()}, attrs));
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

Value OnnxNode::operator()(absl::string_view op, absl::Span<const Value> operands) {
  return (*this)(op, operands, Attrs());
}

Value OnnxNode::operator()(absl::string_view op, absl::Span<const Value> operands, const Attrs& attrs) {
  const Values values = ApplyAll(op, operands, attrs);
  return values.ok() ? values->front() : Fail(values.status());
}

Value OnnxNode::Reshape(Value x, const Shape& shape) {
  if (this->shape(x) == shape) return x;
  const absl::StatusOr<int64_t> elements = CheckedElements(shape);
  if (!elements.ok()) return Fail(elements.status());
  if (*elements == 0 && type(x).num_elements() == 0) return Constant(Tensor(TensorType{type(x).dtype, shape}));
  return (*this)("reshape", {x}, {{"shape", shape}});
}

Value OnnxNode::Transpose(Value x, const std::vector<int64_t>& perm) {
  return perm == AxesFrom(0, type(x).rank()) ? x : (*this)("transpose", {x}, {{"perm", perm}});
}

Value OnnxNode::Expand(Value x, const Shape& shape) {
  if (this->shape(x) == shape) return x;
  const absl::StatusOr<int64_t> elements = CheckedElements(shape);
  if (!elements.ok()) return Fail(elements.status());
  if (*elements == 0) return Constant(Tensor(TensorType{type(x).dtype, shape}));
  return (*this)("expand", {x}, {{"shape", shape}});
}

Value OnnxNode::CastTo(Value x, DType dtype) {
  return type(x).dtype == dtype ? x : (*this)("cast", {x}, {{"to", dtype}});
}

Value OnnxNode::SliceAxis(Value x, int64_t axis, int64_t begin, int64_t end) {
  std::vector<int64_t> starts(shape(x).size(), 0), stops = shape(x);
  const size_t at = axis;
  if (begin == 0 && end == stops[at]) return x;
  starts[at] = begin;
  stops[at] = end;
  return (*this)("slice", {x}, {{"starts", starts}, {"stops", stops}});
}

Value OnnxNode::Concat(const std::vector<Value>& parts, int64_t axis) {
  return parts.size() == 1 ? parts[0] : (*this)("concat", parts, {{"axis", axis}});
}

Value OnnxNode::MapAxis(Value x, Value matrix, int64_t axis) {
  const Value y =
      (*this)("dot_general", {x, matrix},
              {{"lhs_contracting", std::vector<int64_t>{axis}}, {"rhs_contracting", std::vector<int64_t>{1}}});
  // The new axis is last.
  std::vector<int64_t> perm = AxesFrom(0, type(y).rank() - 1);
  perm.insert(perm.begin() + axis, type(y).rank() - 1);
  return Transpose(y, perm);
}

Value OnnxNode::CountAlong(int64_t count, int64_t axis, int rank) {
  if (count < 1) return Fail(Unimplemented("an empty axis"));
  Shape shape(static_cast<size_t>(rank - axis), 1);
  shape[0] = count;
  return (*this)("iota", {}, {{"shape", shape}, {"axis", int64_t{0}}, {"dtype", DType::kInt64}});
}

absl::Status OnnxNode::CheckListed(int64_t count) const {
  constexpr int64_t kMostListed = int64_t{1} << 24;
  return count <= kMostListed ? absl::OkStatus() : Unimplemented("a list of ", count, " numbers");
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

// ---------------------------------------------------------------- outputs and leaves

Values OneOutput(absl::StatusOr<Value> value) {
  if (!value.ok()) return value.status();
  return std::vector<Value>{*value};
}

std::vector<int64_t> AxesFrom(int64_t first, int64_t end) {
  std::vector<int64_t> axes(static_cast<size_t>(end - first));
  std::iota(axes.begin(), axes.end(), first);
  return axes;
}

Value NormOf(OnnxNode& node, Value squares) {
  if (!node.differentiated()) return node("sqrt", {squares});
  const Value zero = node.Number(squares, 0), none = node("equal", {squares, zero});
  return node("where", {none, zero, node("sqrt", {node("where", {none, node.Number(squares, 1), squares})})});
}

absl::StatusOr<Value> AddModelTensor(Arena& arena, const std::string& name, const Tensor& data) {
  constexpr int64_t kMostQuantized = 64;  // elements of tensors that may be parameters of quantization
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
