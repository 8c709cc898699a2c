#include "runtime/training/model.h"

#include <cmath>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/integer.h"
#include "core/base/status_macros.h"
#include "core/base/text_hash.h"
#include "core/ir/random_tensors.h"
#include "core/ir/text.h"
#include "core/ops/ops.h"
#include "runtime/training/term.h"

namespace rewright {
namespace {

constexpr double kEpsilon = 1e-5;
constexpr double kKept = 0.9;  // of a running average in a step

// Behind it a score has no weight after softmax.
constexpr double kHidden = -1e9;

// The layers of a model in one mode: of training or at inference. Both have the same weights.
class Builder {
 public:
  Builder(Mode mode, uint64_t seed) : arena_(std::make_shared<Arena>(mode)), seed_(seed) {}

  Term Input(DType dtype, const Shape& shape) {
    const auto input = arena_->AddInput("x", {dtype, shape});
    CHECK(input.ok()) << input.status();
    input_ = *input;
    return Term(*arena_, input_);
  }

  // Uniform in +-bound.
  Term Weight(const std::string& name, const Shape& shape, double bound) {
    TextHash hash;
    hash.Add(name);
    Rng rng(MixBits(seed_) ^ hash.value());
    return State(name, RandomTensor({DType::kFloat32, shape}, rng, -bound, bound));
  }
  Term Filled(const std::string& name, int64_t size, double value) {
    return State(name,
                 Tensor::FromVector(DType::kFloat32, {size}, std::vector<double>(static_cast<size_t>(size), value)));
  }

  // [.., in] -> [.., out]
  Term Dense(const Term& x, const std::string& name, int64_t out, double weight_bound, double bias_bound) {
    Shape shape = x.type().shape;
    const int64_t in = shape.back();
    const Term weight = Weight(name + ".weight", {in, out}, weight_bound);
    const Term bias = Weight(name + ".bias", {out}, bias_bound);
    // All positions are rows of one product.
    const Term y = Apply(ops::Matmul(), {x.Reshape({x.type().num_elements() / in, in}), weight}) + bias;
    shape.back() = out;
    return y.Reshape(shape);
  }
  Term Dense(const Term& x, const std::string& name, int64_t out) {
    const double bound = 1 / std::sqrt(static_cast<double>(x.type().shape.back()));
    return Dense(x, name, out, bound, bound);
  }

  Term LayerNorm(const Term& x, const std::string& name) {
    const int64_t width = x.type().shape.back();
    const Term scale = Filled(name + ".scale", width, 1), bias = Filled(name + ".bias", width, 0);
    return Apply(ops::LayerNorm(), {x, scale, bias}, {{"epsilon", kEpsilon}});
  }

  // In training by mean and variance of the batch, which the running averages follow; at inference by these. Composed
  // of operators that devices have kernels and gradients for.
  Term BatchNorm(const Term& x, const std::string& name) {
    const int64_t channels = x.type().shape[1];
    const Term scale = Filled(name + ".scale", channels, 1), bias = Filled(name + ".bias", channels, 0);
    const Term averages[2] = {Filled(name + ".mean", channels, 0), Filled(name + ".var", channels, 1)};
    Term statistics[2] = {averages[0], averages[1]};
    if (training()) {
      std::vector<int64_t> axes = AxesFrom(x, 1);
      axes[0] = 0;
      Shape row(x.type().shape.size(), 1);
      row[1] = channels;
      statistics[0] = Mean(x, axes);
      const Term centered = x - statistics[0].Reshape(row);
      statistics[1] = Mean(centered * centered, axes);
      for (int k : {0, 1}) SetNext(averages[k], averages[k] * kKept + statistics[k] * (1 - kKept));
    }
    return Apply(ops::BatchNorm(), {x, scale, bias, statistics[0], statistics[1]}, {{"epsilon", kEpsilon}});
  }

  // Each mask is a stream of its own of a seed that is a state and advances by one each step.
  Term Dropout(const Term& x, double ratio) {
    if (!training() || ratio == 0) return x;
    if (!mask_seed_) {
      Tensor start({DType::kInt64, {}});
      start.SetInt(0, static_cast<int64_t>(MixBits(seed_) >> 33));  // room for 2^31 steps below 2^32
      mask_seed_ = State("dropout.seed", start);
      SetNext(*mask_seed_, *mask_seed_ + 1);
    }
    const Term random = Apply(ops::RandomUniform(), {*mask_seed_}, {{"shape", x.type().shape}, {"stream", masks_++}});
    return Where(Less(random, random.Like(ratio)), x.Like(0), x * (1 / (1 - ratio)));
  }

  // i64[..] -> [.., width]
  Term Embedding(const Term& x, const std::string& name, int64_t count, int64_t width, double bound) {
    return Apply(ops::Gather(), {Weight(name, {count, width}, bound), x}, {{"axis", int64_t{0}}});
  }

  Graph Finish(const Term& logits) {
    std::vector<Output> outputs = {{logits.value(), "logits"}};
    outputs.insert(outputs.end(), next_.begin(), next_.end());
    return Graph(arena_, {input_}, std::move(outputs));
  }

 private:
  bool training() const { return arena_->mode() == Mode::kTraining; }
  Term State(const std::string& name, const Tensor& value) {
    const auto state = arena_->AddState(name, value);
    CHECK(state.ok()) << state.status();
    return Term(*arena_, *state);
  }
  void SetNext(const Term& state, const Term& next) {
    next_.push_back({next.value(), arena_->node(state.value().node).name, state.value()});
  }

  const std::shared_ptr<Arena> arena_;
  const uint64_t seed_;
  Value input_;
  std::vector<Output> next_;
  std::optional<Term> mask_seed_;
  int64_t masks_ = 0;
};

// The parts of these sizes along an axis: halves, of which the halves are taken alike. The gradient of each is then two
// parts joined, where that of slices would be as many sums of whole tensors as there are.
std::vector<Term> Parts(const Term& x, int64_t axis, const std::vector<int64_t>& sizes) {
  if (sizes.size() == 1) return {x};
  const auto middle = sizes.begin() + static_cast<ptrdiff_t>(sizes.size() / 2);
  const std::vector<int64_t> halves[] = {{sizes.begin(), middle}, {middle, sizes.end()}};
  const auto total = [](const std::vector<int64_t>& half) {
    return std::accumulate(half.begin(), half.end(), int64_t{0});
  };
  const Term both =
      Apply(ops::Split(), {x}, {{"axis", axis}, {"sizes", std::vector<int64_t>{total(halves[0]), total(halves[1])}}});
  std::vector<Term> parts;
  for (int32_t k : {0, 1}) {
    const Term half(x.arena(), Value{both.value().node, k});
    for (const Term& part : Parts(half, axis, halves[k])) parts.push_back(part);
  }
  return parts;
}

Term Transpose(const Term& x, const std::vector<int64_t>& perm) {
  return Apply(ops::Transpose(), {x}, {{"perm", perm}});
}

Graph Make(const MlpOptions& options, int64_t batch, Builder builder) {
  const std::vector<int64_t>& sizes = options.sizes;
  CHECK(sizes.size() >= 2) << sizes.size();
  Term x = builder.Input(DType::kFloat32, {batch, sizes[0]});
  for (size_t i = 0; i + 1 < sizes.size(); ++i) {
    x = builder.Dense(x, absl::StrCat("layer", i), sizes[i + 1]);
    if (i + 2 < sizes.size()) x = Apply(FindOp(options.activation), {x});
  }
  return builder.Finish(x);
}

Graph Make(const ConvNetOptions& options, int64_t batch, Builder builder) {
  Shape shape = options.image;
  shape.insert(shape.begin(), batch);
  Term x = builder.Input(DType::kFloat32, shape);
  for (size_t i = 0; i < options.channels.size(); ++i) {
    const int64_t in = x.type().shape[1];
    const Term kernel = builder.Weight(absl::StrCat("conv", i, ".weight"), {options.channels[i], in, 3, 3},
                                       1 / std::sqrt(static_cast<double>(9 * in)));
    x = Apply(ops::Conv2d(), {x, kernel}, {{"pads", std::vector<int64_t>{1, 1, 1, 1}}});
    x = Apply(ops::Relu(), {builder.BatchNorm(x, absl::StrCat("norm", i))});
    const std::vector<int64_t> two = {2, 2};
    x = Apply(ops::MaxPool2d(), {x}, {{"kernel", two}, {"strides", two}});
  }
  x = builder.Dropout(Mean(x, {2, 3}), options.dropout);
  return builder.Finish(builder.Dense(x, "head", options.classes));
}

// One layer over [length, batch, in]; the states before the first step are zero.
Term LstmLayer(Builder& builder, const Term& x, const std::string& name, int64_t hidden) {
  const int64_t length = x.type().shape[0], batch = x.type().shape[1];
  const double bound = 1 / std::sqrt(static_cast<double>(hidden));
  // The input's part of the gates is one product for all steps.
  const Term projected = builder.Dense(x, name + ".input", 4 * hidden, bound, bound);
  const Term recurrent = builder.Weight(name + ".recurrent.weight", {hidden, 4 * hidden}, bound);
  std::vector<Value> rows;
  std::optional<Term> state, cell;
  for (const Term& step : Parts(projected, 0, std::vector<int64_t>(static_cast<size_t>(length), 1))) {
    Term sum = step.Reshape({batch, 4 * hidden});
    if (state) sum = sum + Apply(ops::Matmul(), {*state, recurrent});
    const std::vector<Term> gates = Parts(sum, 1, {hidden, hidden, hidden, hidden});
    const auto opened = [&](size_t gate) { return Apply(ops::Sigmoid(), {gates[gate]}); };
    const Term added = opened(0) * Apply(ops::Tanh(), {gates[2]});
    cell = cell ? opened(1) * *cell + added : added;
    state = opened(3) * Apply(ops::Tanh(), {*cell});
    rows.push_back(state->Reshape({1, batch, hidden}).value());
  }
  const absl::StatusOr<Value> joined = ConcatTree(x.arena(), rows, 0);
  CHECK(joined.ok()) << joined.status();
  return Term(x.arena(), *joined);
}

Graph Make(const LstmOptions& options, int64_t batch, Builder builder) {
  Term x = builder.Input(DType::kInt64, {batch, options.length});
  x = builder.Embedding(x, "embedding.weight", options.vocabulary, options.width, 1);
  x = builder.Dropout(Transpose(x, {1, 0, 2}), options.dropout);
  for (int64_t i = 0; i < options.layers; ++i) {
    x = builder.Dropout(LstmLayer(builder, x, absl::StrCat("lstm", i), options.hidden), options.dropout);
  }
  return builder.Finish(Transpose(builder.Dense(x, "head", options.vocabulary), {1, 0, 2}));
}

// bool[length, length]: true at [i, j] if position j comes after position i.
Term Later(const Term& x, int64_t length) {
  const auto position = [&](const Shape& shape, int64_t axis) {
    const auto node = x.arena().Add(*ops::Iota(), {}, {{"shape", shape}, {"axis", axis}, {"dtype", DType::kInt64}});
    CHECK(node.ok()) << node.status();
    return Term(x.arena(), Value{*node, 0});
  };
  return Less(position({length, 1}, 0), position({1, length}, 1));
}

Graph Make(const GptOptions& options, int64_t batch, Builder builder) {
  const int64_t length = options.length, width = options.width, heads = options.heads, size = width / heads;
  CHECK(size * heads == width) << width << ", " << heads;
  // Weights begin as those of GPT-2: with a standard deviation of 0.02, smaller by the number of branches where these
  // end.
  const double bound = 0.02 * std::sqrt(3.0), end = bound / std::sqrt(2.0 * static_cast<double>(options.layers));
  const Term tokens = builder.Input(DType::kInt64, {batch, length});
  const Term table = builder.Weight("token.weight", {options.vocabulary, width}, bound);
  Term x = Apply(ops::Gather(), {table, tokens}, {{"axis", int64_t{0}}}) +
           builder.Weight("position.weight", {length, width}, bound);
  x = builder.Dropout(x, options.dropout);
  const Term later = Later(x, length);
  for (int64_t i = 0; i < options.layers; ++i) {
    const std::string name = absl::StrCat("layer", i, ".");
    const Term qkv = builder.Dense(builder.LayerNorm(x, name + "norm0"), name + "attention", 3 * width, bound, 0);
    const std::vector<Term> parts = Parts(qkv, 2, {width, width, width});
    const auto part = [&](size_t k, const std::vector<int64_t>& perm) {
      return Transpose(parts[k].Reshape({batch, length, heads, size}), perm);
    };
    const Term scores = Apply(ops::Matmul(), {part(0, {0, 2, 1, 3}), part(1, {0, 2, 3, 1})}) *
                        (1 / std::sqrt(static_cast<double>(size)));
    Term shares = Apply(ops::Softmax(), {Where(later, scores.Like(kHidden), scores)}, {{"axis", int64_t{3}}});
    shares = builder.Dropout(shares, options.dropout);
    const Term mixed = Transpose(Apply(ops::Matmul(), {shares, part(2, {0, 2, 1, 3})}), {0, 2, 1, 3});
    x = x + builder.Dropout(builder.Dense(mixed.Reshape({batch, length, width}), name + "projection", width, end, 0),
                            options.dropout);
    const Term inner =
        Apply(ops::Gelu(), {builder.Dense(builder.LayerNorm(x, name + "norm1"), name + "expand", 4 * width, bound, 0)});
    x = x + builder.Dropout(builder.Dense(inner, name + "contract", width, end, 0), options.dropout);
  }
  x = builder.LayerNorm(x, "norm").Reshape({batch * length, width});
  return builder.Finish(
      Apply(ops::Matmul(), {x, Transpose(table, {1, 0})}).Reshape({batch, length, options.vocabulary}));
}

}  // namespace

const std::vector<std::string>& MlpActivations() {
  static const auto* const names = new std::vector<std::string>{"relu", "tanh", "sigmoid", "gelu"};
  return *names;
}

absl::StatusOr<TrainableModel> WithWeights(const TrainableModel& model, const NamedTensors& weights) {
  const auto with = [&](const Graph& graph) -> absl::StatusOr<Graph> {
    NamedTensors states = StatesOf(graph);
    for (const auto& [name, tensor] : weights) {
      const auto state = states.find(name);
      if (state == states.end()) {
        return absl::InvalidArgumentError(absl::StrCat("tensor ", name, ": the model has no such weight"));
      }
      if (tensor.type() != state->second.type()) {
        return absl::InvalidArgumentError(absl::StrCat("tensor ", name, ": found ", tensor.type().ToString(),
                                                       ", expected ", state->second.type().ToString()));
      }
      state->second = tensor;
    }
    return ParseGraph(PrintGraph(graph), states);
  };
  ASSIGN_OR_RETURN(const Graph inference, with(model.inference));
  ASSIGN_OR_RETURN(const Graph training, with(model.training));
  return TrainableModel(inference, training, model.left);
}

TrainableModel MakeModel(const BuiltInModel& options, int64_t batch, uint64_t seed) {
  const auto in = [&](Mode mode) {
    return std::visit([&](const auto& model) { return Make(model, batch, Builder(mode, seed)); }, options);
  };
  return TrainableModel(in(Mode::kInference), in(Mode::kTraining));
}

}  // namespace rewright
