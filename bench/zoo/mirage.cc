// The workloads on which Mirage (Wu et al., "Mirage: A Multi-Level Superoptimizer for Tensor Programs", OSDI 2025,
// section 8) is measured, at the sizes of the benchmark programs that its authors published with it (repository
// mirage-project/mirage, folder benchmark): parts of language models that decode with a cache. Written here from their
// definitions: queries and keys are normalized where those programs normalize queries and values, and the normalized
// transformer has the Euclidean norm, the difference, and the step (alpha) of every element that its paper asks for
// (Loshchilov et al., "nGPT", 2024).
//
// Weights of linear layers are weights; caches and low-rank adapters, which change from request to request, are inputs.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "bench/zoo/net.h"

namespace rewright::zoo {
namespace {

constexpr int64_t kQueries = 256;  // rows of queries that share a head of keys and values
constexpr int64_t kRank = 16;      // of an adapter

Value Squares(Net& net, Value x, const char* reduction) {
  const Shape axes = {net.Rank(x) - 1};
  return net.Op(reduction, {net.Mul(x, x)}, {{"axes", axes}, {"keepdims", true}});
}

// x over the root of the mean of its squares along the last axis, without a scale.
Value RmsNorm(Net& net, Value x) {
  const Value mean = net.Add(Squares(net, x, "reduce_mean"), net.Scalar(1e-6));
  return net.Op("div", {x, net.Op("sqrt", {mean})});
}

// x over its Euclidean norm along the last axis.
Value UnitNorm(Net& net, Value x) { return net.Op("div", {x, net.Op("sqrt", {Squares(net, x, "reduce_sum")})}); }

Value Matrix(Net& net, const std::string& name, int64_t rows, int64_t columns) {
  return net.Weight(name, {rows, columns}, 0, 1 / std::sqrt(static_cast<double>(rows)));
}

struct Heads {
  Value q, k, v;  // [heads, kQueries, kHeadSize], [heads, length, kHeadSize] twice
};

Heads HeadInputs(Net& net, const ZooOptions& options) {
  const int64_t heads = 2 * Default(options.batch, 1), length = Default(options.sequence_length, 4096);
  return {net.Input("q", DType::kFloat32, {heads, kQueries, kHeadSize}),
          net.Input("k", DType::kFloat32, {heads, length, kHeadSize}),
          net.Input("v", DType::kFloat32, {heads, length, kHeadSize})};
}

Value Attention(Net& net, const Heads& heads) {
  const Value scores = net.MatMul(heads.q, net.Transpose(heads.k, {0, 2, 1}));
  const Value scaled = net.Op("div", {scores, net.Scalar(std::sqrt(static_cast<double>(kHeadSize)))});
  return net.MatMul(net.Op("softmax", {scaled}, {{"axis", int64_t{2}}}), heads.v);
}

}  // namespace

absl::StatusOr<Graph> BuildMirageGqa(const ZooOptions& options) {
  Net net(options.seed);
  return net.Finish({{Attention(net, HeadInputs(net, options)), "context"}});
}

absl::StatusOr<Graph> BuildMirageQkNorm(const ZooOptions& options) {
  Net net(options.seed);
  Heads heads = HeadInputs(net, options);
  heads.q = RmsNorm(net, heads.q);
  heads.k = RmsNorm(net, heads.k);
  return net.Finish({{Attention(net, heads), "context"}});
}

absl::StatusOr<Graph> BuildMirageRmsNorm(const ZooOptions& options) {
  Net net(options.seed);
  const int64_t width = Default(options.width, 4096);
  const Value x = net.Input("x", DType::kFloat32, {2 * Default(options.batch, 1), width});
  return net.Finish({{net.MatMul(RmsNorm(net, x), Matrix(net, "weight", width, width * 3 / 2)), "y"}});
}

absl::StatusOr<Graph> BuildMirageLora(const ZooOptions& options) {
  Net net(options.seed);
  const int64_t width = Default(options.width, 4096), in = width / kRank;
  if (width % kRank != 0) {
    return absl::InvalidArgumentError(absl::StrCat("the width is ", width, "; expected a multiple of ", kRank));
  }
  const Value x = net.Input("x", DType::kFloat32, {2 * Default(options.batch, 1), in});
  const Value a = net.Input("a", DType::kFloat32, {in, kRank});
  const Value b = net.Input("b", DType::kFloat32, {kRank, width});
  const Value low_rank = net.MatMul(net.MatMul(x, a), b);
  return net.Finish({{net.Add(net.MatMul(x, Matrix(net, "weight", in, width)), low_rank), "y"}});
}

absl::StatusOr<Graph> BuildMirageGatedMlp(const ZooOptions& options) {
  Net net(options.seed);
  const int64_t width = Default(options.width, 4096);
  const Value x = net.Input("x", DType::kFloat32, {Default(options.batch, 1), width});
  const Value gate = net.MatMul(x, Matrix(net, "gate", width, width));
  const Value silu = net.Mul(gate, net.Op("sigmoid", {gate}));
  return net.Finish({{net.Mul(silu, net.MatMul(x, Matrix(net, "up", width, width))), "y"}});
}

absl::StatusOr<Graph> BuildMirageNTrans(const ZooOptions& options) {
  Net net(options.seed);
  const int64_t width = Default(options.width, 4096), rows = 8 * Default(options.batch, 1);
  const Value x = net.Input("x", DType::kFloat32, {rows, width});
  const Value h = net.Input("h", DType::kFloat32, {rows, width});
  const Value step = net.Op("sub", {UnitNorm(net, h), x});
  const Value moved = net.Add(x, net.Mul(net.Weight("alpha", {width}, 0.5, 0.1), step));
  return net.Finish({{UnitNorm(net, moved), "y"}});
}

}  // namespace rewright::zoo
