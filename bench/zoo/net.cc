#include "bench/zoo/net.h"

#include <cmath>
#include <numeric>
#include <utility>

namespace rewright::zoo {
namespace {

// The generator of one weight. std::seed_seq and std::mt19937_64 give the same numbers everywhere.
std::mt19937_64 GeneratorFor(uint64_t seed, const std::string& name) {
  std::vector<uint32_t> material = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
  for (char c : name) material.push_back(static_cast<unsigned char>(c));
  std::seed_seq sequence(material.begin(), material.end());
  return std::mt19937_64(sequence);
}

// The standard library's distributions differ between implementations: two 24-bit fractions per draw instead.
void FillUniform(std::mt19937_64& generator, double low, double high, float* out, int64_t count) {
  const double step = (high - low) / (1 << 24);
  for (int64_t i = 0; i < count; i += 2) {
    const uint64_t bits = generator();
    out[i] = static_cast<float>(low + step * static_cast<double>(bits & 0xffffff));
    if (i + 1 < count) out[i + 1] = static_cast<float>(low + step * static_cast<double>((bits >> 24) & 0xffffff));
  }
}

Attrs PoolAttrs(const Pool& pool) {
  return {{"kernel", Shape{pool.kernel, pool.kernel}},
          {"strides", Shape{pool.stride, pool.stride}},
          {"pads", Shape{pool.pad, pool.pad, pool.pad, pool.pad}},
          {"ceil_mode", int64_t{pool.ceil_mode}}};
}

}  // namespace

Conv Conv::Same(int64_t out, int64_t kernel, int64_t stride, int64_t groups) {
  return {out, kernel, kernel, stride, kernel / 2, kernel / 2, groups};
}
Conv Conv::Valid(int64_t out, int64_t kernel, int64_t stride) { return {out, kernel, kernel, stride, 0, 0, 1}; }
Conv Conv::Rect(int64_t out, int64_t kernel_h, int64_t kernel_w) {
  return {out, kernel_h, kernel_w, 1, kernel_h / 2, kernel_w / 2, 1};
}

Net::Net(uint64_t seed) : seed_(seed) {}

void Net::Fail(const absl::Status& status) {
  if (status_.ok()) status_ = status;
}

int64_t Net::Dim(Value x, int axis) const { return ok() ? arena_->type(x).shape[axis] : 1; }

int64_t Net::Rank(Value x) const { return ok() ? static_cast<int64_t>(arena_->type(x).shape.size()) : 1; }

Value Net::Input(const std::string& name, DType dtype, const Shape& shape) {
  if (!ok()) return {};
  absl::StatusOr<Value> input = arena_->AddInput(name, TensorType{dtype, shape});
  if (!input.ok()) {
    Fail(input.status());
    return {};
  }
  inputs_.push_back(*input);
  return *input;
}

Value Net::Weight(const std::string& name, const Shape& shape, double mean, double stddev) {
  if (!ok()) return {};
  Tensor data(TensorType{DType::kFloat32, shape});
  std::mt19937_64 generator = GeneratorFor(seed_, name);
  const double half_width = std::sqrt(3.0) * stddev;
  FillUniform(generator, mean - half_width, mean + half_width, data.as<float>(), data.num_elements());
  absl::StatusOr<Value> weight = arena_->AddState(name, data);
  if (!weight.ok()) Fail(weight.status());
  return weight.ok() ? *weight : Value{};
}

Value Net::Scalar(double value) { return Constant(Tensor::Scalar(DType::kFloat32, value)); }

Value Net::Constant(const Tensor& data) { return ok() ? arena_->AddConstant(data) : Value{}; }

Value Net::Positions(int64_t count) {
  if (!ok()) return {};
  std::vector<int64_t> positions(static_cast<size_t>(count));
  std::iota(positions.begin(), positions.end(), 0);
  return Constant(Tensor::Int64s(positions));
}

Value Net::Op(const std::string& op, const std::vector<Value>& operands, const Attrs& attrs) {
  if (!ok()) return {};
  absl::StatusOr<Value> result = arena_->Apply(op, operands, attrs);
  if (!result.ok()) Fail(result.status());
  return result.ok() ? *result : Value{};
}

Value Net::Reshape(Value x, const Shape& shape) { return Op("reshape", {x}, {{"shape", shape}}); }
Value Net::Transpose(Value x, const Shape& perm) { return Op("transpose", {x}, {{"perm", perm}}); }
Value Net::Concat(const std::vector<Value>& parts, int64_t axis) { return Op("concat", parts, {{"axis", axis}}); }

Value Net::MaxPool(Value x, const Pool& pool) { return Op("max_pool2d", {x}, PoolAttrs(pool)); }

Value Net::AvgPool(Value x, const Pool& pool, bool count_include_pad) {
  Attrs attrs = PoolAttrs(pool);
  attrs["count_include_pad"] = int64_t{count_include_pad};
  return Op("avg_pool2d", {x}, attrs);
}

Value Net::GlobalAverage(Value x) {
  // As exporters write it: an average that keeps its axes, then a flatten.
  const Value mean = Op("reduce_mean", {x}, {{"axes", Shape{2, 3}}, {"keepdims", int64_t{1}}});
  return Reshape(mean, {Dim(x, 0), Dim(x, 1)});
}

Value Net::Conv2d(Value x, const std::string& name, const Conv& conv, Gain gain) {
  const int64_t in = Dim(x, 1);
  if (ok() && (conv.groups <= 0 || in % conv.groups != 0)) {
    Fail(absl::InternalError(name + ": " + std::to_string(in) + " channels in " + std::to_string(conv.groups) +
                             " groups"));
  }
  if (!ok()) return {};
  const Shape shape = {conv.out, in / conv.groups, conv.kernel_h, conv.kernel_w};
  const double fan_in = static_cast<double>(shape[1] * shape[2] * shape[3]);
  const Value weight = Weight(name + ".weight", shape, 0, gain.value / std::sqrt(fan_in));
  return Op("conv2d", {x, weight},
            {{"strides", Shape{conv.stride, conv.stride}},
             {"pads", Shape{conv.pad_h, conv.pad_w, conv.pad_h, conv.pad_w}},
             {"groups", conv.groups}});
}

Value Net::ConvBias(Value x, const std::string& name, const Conv& conv, Gain gain) {
  const Value y = Conv2d(x, name, conv, gain);
  const Value bias = Weight(name + ".bias", {conv.out}, 0, 0.1);
  return Add(y, Reshape(bias, {1, conv.out, 1, 1}));
}

Value Net::BatchNorm(Value x, const std::string& name, double epsilon, double gain) {
  const Shape shape = {Dim(x, 1)};
  const Value scale = Weight(name + ".weight", shape, gain, 0.1 * gain);
  const Value bias = Weight(name + ".bias", shape, 0, 0.1 * gain);
  const Value mean = Weight(name + ".running_mean", shape, 0, 0.1);
  const Value var = Weight(name + ".running_var", shape, 1, 0.25);  // uniform in 0.57..1.43
  return Op("batch_norm", {x, scale, bias, mean, var}, {{"epsilon", epsilon}});
}

Value Net::Linear(Value x, const std::string& name, int64_t out, Gain gain) {
  if (!ok()) return {};
  const int64_t in = arena_->type(x).shape.back();
  const Value weight = Weight(name + ".weight", {out, in}, 0, gain.value / std::sqrt(static_cast<double>(in)));
  const Value bias = Weight(name + ".bias", {out}, 0, 0.1);
  return Add(MatMul(x, Transpose(weight, {1, 0})), bias);
}

Value Net::LayerNorm(Value x, const std::string& name, double epsilon) {
  if (!ok()) return {};
  const Shape shape = {arena_->type(x).shape.back()};
  const Value scale = Weight(name + ".weight", shape, 1, 0.1);
  const Value bias = Weight(name + ".bias", shape, 0, 0.1);
  return Op("layer_norm", {x, scale, bias}, {{"epsilon", epsilon}});
}

Value Net::Gelu(Value x) {
  const Value erf = Op("erf", {Op("div", {x, Scalar(std::sqrt(2.0))})});
  return Mul(Mul(x, Add(erf, Scalar(1))), Scalar(0.5));
}

Value Net::CausalMask(int64_t length) {
  Tensor mask(TensorType{DType::kFloat32, {1, 1, length, length}});
  for (int64_t i = 0; i < length; ++i) {
    for (int64_t j = 0; j < length; ++j) mask.as<float>()[i * length + j] = j <= i ? 0.0f : -1e4f;
  }
  return Constant(mask);
}

absl::StatusOr<Graph> Net::Finish(const std::vector<Output>& outputs) {
  if (!ok()) return status_;
  for (const Output& output : outputs) arena_->SetName(output.value, output.name);
  return Graph(arena_, inputs_, outputs);
}

Value ImageInput(Net& net, const ZooOptions& options, int64_t default_size) {
  const int64_t size = Default(options.image_size, default_size);
  return net.Input("input", DType::kFloat32, {Default(options.batch, 1), 3, size, size});
}

}  // namespace rewright::zoo
