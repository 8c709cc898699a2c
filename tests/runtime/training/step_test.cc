// Tests the graph of a step: its gradients against differences of the loss, its loss against its formula.
#include "runtime/training/step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "core/interpreter/interpreter.h"
#include "core/ir/random_tensors.h"
#include "core/ir/text.h"
#include "runtime/training/model.h"

namespace rewright {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Key;

using Named = absl::flat_hash_map<std::string, Tensor>;

// Returns outputs by name; `values` are the inputs, and states whose values differ from the declared ones.
std::map<std::string, Tensor> Compute(const Graph& graph, const Named& values) {
  const auto results = InterpretGraph(graph, values);
  EXPECT_TRUE(results.ok()) << results.status();
  std::map<std::string, Tensor> by_name;
  for (size_t i = 0; i < graph.outputs().size(); ++i) by_name[graph.outputs()[i].name] = (*results)[i];
  return by_name;
}

// Returns the mean loss of a step with these values, and compares each gradient with central differences along a random
// direction. The model is in f64.
void ExpectGradients(const Graph& model, LossKind loss, const Named& batch, uint64_t seed) {
  StepOptions options;
  options.loss = loss;
  options.optimizer.kind = OptimizerOptions::Kind::kSgd;
  options.optimizer.learning_rate = 1;
  const auto graphs = BuildStep(model, options);
  ASSERT_TRUE(graphs.ok()) << graphs.status();
  const std::map<std::string, Tensor> step = Compute(graphs->step, batch);
  Rng rng(seed);
  for (const std::string& name : graphs->trained) {
    Tensor weight;
    for (Value state : model.states()) {
      if (model.node(state.node).name == name) weight = *model.arena()->Elements(state.node);
    }
    const Tensor direction = RandomTensor(weight.type(), rng, -1, 1);
    double slope = 0;  // the gradient, which SGD at rate 1 subtracts, along the direction
    for (int64_t k = 0; k < weight.num_elements(); ++k) {
      slope += (weight.At(k) - step.at(name).At(k)) * direction.At(k);
    }
    double losses[2];
    constexpr double kDistance = 1e-5;
    for (int side = 0; side < 2; ++side) {
      Tensor moved(weight.type());
      for (int64_t k = 0; k < weight.num_elements(); ++k) {
        moved.Set(k, weight.At(k) + (side == 0 ? -kDistance : kDistance) * direction.At(k));
      }
      Named values = batch;
      values[name] = moved;
      losses[side] = Compute(graphs->step, values).at(kLossResult).At(0);
    }
    EXPECT_NEAR(slope, (losses[1] - losses[0]) / (2 * kDistance), 1e-7) << name;
    EXPECT_GT(std::fabs(slope), 1e-4) << name;
  }
}

// An mlp in f64 whose printed form is that of the built-in one.
Graph Mlp64(const std::vector<int64_t>& sizes, const std::string& activation, int64_t batch) {
  std::string text = PrintGraph(MakeModel(MlpOptions{sizes, activation}, batch, 1).inference);
  std::map<std::string, Tensor> states;
  for (size_t at = 0; (at = text.find("f32", at)) != std::string::npos;) text.replace(at, 3, "f64");
  const auto declared = ParseGraph(text);
  EXPECT_TRUE(declared.ok()) << declared.status();
  Rng rng(2);
  for (Value state : declared->states()) {
    states[declared->node(state.node).name] = RandomTensor(declared->type(state), rng, -0.7, 0.7);
  }
  return *ParseGraph(text, states);
}

TEST(StepTest, GradientsAreThoseOfTheLoss) {
  Rng rng(4);
  for (const char* activation : {"relu", "tanh", "sigmoid", "gelu"}) {
    const Graph model = Mlp64({5, 7, 6, 4}, activation, 3);
    const Tensor x = RandomTensor({DType::kFloat64, {3, 5}}, rng, -1, 1);
    ExpectGradients(model, LossKind::kCrossEntropy, {{"x", x}, {"target", Tensor::Int64s({2, 0, 3})}}, 5);
    ExpectGradients(model, LossKind::kMeanSquaredError,
                    {{"x", x}, {"target", RandomTensor({DType::kFloat64, {3, 4}}, rng, -1, 1)}}, 6);
  }
}

TEST(StepTest, LossesFollowTheirFormulas) {
  const Graph model = *ParseGraph("input x: f32[2,3]\nstate w: f32[3]\n%0 = add(x, w)\noutput y = %0\n",
                                  {{"w", Tensor::FromVector(DType::kFloat32, {3}, std::vector<double>{0, 0, 0})}});
  StepOptions options;
  // exp(1000) overflows; the loss is computed from shifted logits.
  Named batch = {{"x", Tensor::FromVector(DType::kFloat32, {2, 3}, std::vector<double>{1, 2, 3, 1000, 0, -1000})},
                 {"target", Tensor::Int64s({1, 2})}};
  auto graphs = BuildStep(model, options);
  ASSERT_TRUE(graphs.ok()) << graphs.status();
  auto measured = Compute(graphs->evaluation, batch);
  const double first = std::log(std::exp(-1.0) + 1 + std::exp(1.0));
  EXPECT_NEAR(measured.at("samples").At(0), first, 1e-6);
  EXPECT_NEAR(measured.at("samples").At(1), 2000, 1e-3);
  EXPECT_NEAR(Compute(graphs->step, batch).at(kLossResult).At(0), (first + 2000) / 2, 1e-3);
  EXPECT_EQ(measured.at("correct").At(0), 0);
  batch["target"] = Tensor::Int64s({2, 0});
  measured = Compute(graphs->evaluation, batch);
  EXPECT_EQ(measured.at("correct").At(0), 1);
  EXPECT_EQ(measured.at("correct").At(1), 1);
  EXPECT_EQ(measured.at("samples").At(1), 0);

  options.loss = LossKind::kMeanSquaredError;
  graphs = BuildStep(model, options);
  ASSERT_TRUE(graphs.ok()) << graphs.status();
  batch["target"] = Tensor::FromVector(DType::kFloat32, {2, 3}, std::vector<double>{1, 2, 6, 1000, 3, -1000});
  measured = Compute(graphs->evaluation, batch);
  EXPECT_EQ(measured.size(), 1u);
  EXPECT_EQ(measured.at("samples").At(0), 3);
  EXPECT_EQ(measured.at("samples").At(1), 3);
}

TEST(StepTest, SaysWhatIsWrong) {
  const std::string text =
      "input x: f32[2,3]\nstate w: f32[3]\nstate k: i64[3]\n%0 = add(x, w)\n%1 = reduce_sum(x, axes=[0,1], "
      "keepdims=0)\n%2 = cast(%0, to=i64)\n%3 = add(%2, k)\noutput y = %0\noutput s = %1\noutput i = %3\n";
  const Graph model = *ParseGraph(text);
  const auto error = [&](const StepOptions& options) { return BuildStep(model, options).status(); };
  StepOptions options;
  EXPECT_EQ(error(options).message(), "the model has the outputs y, s, i; which one is the loss of? (model.output)");
  options.output = "z";
  EXPECT_EQ(error(options).message(), "the model has no output z; it has y, s, i");
  options.output = "s";
  EXPECT_EQ(error(options).message(),
            "the loss: found an output f32[], expected an axis of samples and one of classes");
  options.output = "i";
  EXPECT_EQ(error(options).message(), "the loss: found an output i64[2,3], expected floating-point elements");
  options.output = "y";
  options.frozen = {"v*"};
  EXPECT_EQ(error(options).message(), "model.frozen: `v*` fits no weight");
  options.frozen = {"w"};
  EXPECT_EQ(error(options).message(), "the model has no weight to train");
}

TEST(StepTest, FrozenWeightsHaveNoNextValue) {
  StepOptions options;
  options.frozen = {"layer0.*"};
  const auto graphs = BuildStep(MakeModel(MlpOptions{{4, 5, 3}, "relu"}, 2, 1).inference, options);
  ASSERT_TRUE(graphs.ok()) << graphs.status();
  EXPECT_EQ(graphs->trained.size(), 2u);
  for (const Output& output : graphs->step.outputs()) EXPECT_THAT(output.name, ::testing::Not(HasSubstr("layer0")));
}

// The sum of the gradients of two halves gives the next values of the whole batch; for two element types.
TEST(StepTest, MicroBatchesMakeTheSameStep) {
  const auto model = [](int64_t batch) {
    return *ParseGraph(
        "input x: f64[" + std::to_string(batch) +
            ",3]\nstate w: f64[3,4]\nstate b: f32[4]\nstate k: f64[4]\n%0 = matmul(x, w)\n%1 = cast(b, "
            "to=f64)\n%2 = add(%0, %1)\n%3 = mul(%2, k)\noutput y = %3\n",
        {{"w", Tensor::FromVector(DType::kFloat64, {3, 4}, std::vector<double>{1, 2, 3, 4, 0, 1, 2, 3, -1, 0, 1, 2})},
         {"b", Tensor::FromVector(DType::kFloat32, {4}, std::vector<double>{0.5, 1, 2, 0})},
         {"k", Tensor::FromVector(DType::kFloat64, {4}, std::vector<double>{1, -1, 2, 0.5})}});
  };
  StepOptions options;
  options.frozen = {"k"};
  options.optimizer.clip_norm = 0.1;
  const auto whole = BuildStep(model(4), options);
  options.micro_batches = 2;
  const auto halves = BuildStep(model(2), options);
  ASSERT_TRUE(whole.ok()) << whole.status();
  ASSERT_TRUE(halves.ok()) << halves.status();
  EXPECT_FALSE(whole->has_gradients());
  ASSERT_TRUE(halves->has_gradients());
  EXPECT_EQ(halves->trained, whole->trained);
  Rng rng(6);
  const Tensor x = RandomTensor({DType::kFloat64, {4, 3}}, rng, -1, 1);
  const std::vector<int64_t> labels = {3, 0, 2, 1};
  Named sums;
  for (int64_t half = 0; half < 2; ++half) {
    Tensor rows({DType::kFloat64, {2, 3}});
    for (int64_t i = 0; i < 6; ++i) rows.Set(i, x.At(6 * half + i));
    const auto results =
        Compute(halves->gradients, {{"x", rows},
                                    {"target", Tensor::Int64s({labels[static_cast<size_t>(2 * half)],
                                                               labels[static_cast<size_t>(2 * half + 1)]})}});
    EXPECT_EQ(results.at("gradients.f64").shape(), Shape{1 + 12});
    EXPECT_EQ(results.at("gradients.f32").shape(), Shape{4});
    // The results hold the inputs of the step one after another, by element type.
    std::map<DType, std::pair<const Tensor*, int64_t>> rest = {{DType::kFloat64, {&results.at("gradients.f64"), 0}},
                                                               {DType::kFloat32, {&results.at("gradients.f32"), 0}}};
    for (Value input : halves->step.inputs()) {
      const TensorType& type = halves->step.type(input);
      auto& [from, at] = rest.at(type.dtype);
      Tensor& sum = sums.try_emplace(halves->step.node(input.node).name, type).first->second;
      for (int64_t i = 0; i < sum.num_elements(); ++i) sum.Set(i, sum.At(i) + from->At(at++));
    }
  }
  EXPECT_THAT(sums, Contains(Key(kLossSum)));
  const auto expected = Compute(whole->step, {{"x", x}, {"target", Tensor::Int64s(labels)}});
  const auto found = Compute(halves->step, sums);
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [name, tensor] : expected) {
    const Tensor& other = found.at(name);
    ASSERT_EQ(other.type(), tensor.type()) << name;
    for (int64_t i = 0; i < tensor.num_elements(); ++i) EXPECT_NEAR(other.At(i), tensor.At(i), 1e-7) << name << i;
  }
  EXPECT_GT(expected.at(kGradientNormResult).At(0), 0.1) << "what is clipped is the mean";
}

TEST(StepTest, TheProgramReadsBackAsItIsPrinted) {
  StepOptions options;
  options.optimizer.clip_norm = 1;
  const auto graphs = BuildStep(MakeModel(MlpOptions{{4, 5, 3}, "gelu"}, 2, 1).inference, options);
  ASSERT_TRUE(graphs.ok()) << graphs.status();
  const std::string program = PrintGraph(graphs->step);
  const auto parsed = ParseGraph(program);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(PrintGraph(*parsed), program);
  EXPECT_TRUE(CheckSameInterface(*parsed, graphs->step).ok());
  EXPECT_THAT(std::string(CheckSameInterface(*parsed, graphs->evaluation).message()), HasSubstr("states: found "));
}

TEST(ModelTest, WeightsFollowFromTheSeedAndTheirNames) {
  const auto values = [](const Graph& graph) {
    std::map<std::string, Tensor> values;
    for (Value state : graph.states()) values[graph.node(state.node).name] = *graph.arena()->Elements(state.node);
    return values;
  };
  const auto a = values(MakeModel(MlpOptions{{16, 8, 8}, "relu"}, 2, 1).inference),
             b = values(MakeModel(MlpOptions{{16, 8, 8}, "relu"}, 5, 1).inference);
  const auto c = values(MakeModel(MlpOptions{{16, 8, 8}, "relu"}, 2, 2).inference);
  ASSERT_EQ(a.size(), 4u);
  for (const auto& [name, value] : a) {
    EXPECT_TRUE(value.BitEqual(b.at(name))) << name;
    EXPECT_FALSE(value.BitEqual(c.at(name))) << name;
    double largest = 0;
    for (int64_t k = 0; k < value.num_elements(); ++k) largest = std::max(largest, std::fabs(value.At(k)));
    const double bound = name[5] == '0' ? 0.25 : 1 / std::sqrt(8.0);
    EXPECT_LE(largest, bound) << name;
    EXPECT_GT(largest, bound / 2) << name;
  }
  EXPECT_FALSE(a.at("layer0.bias").BitEqual(a.at("layer1.bias")));
}

}  // namespace
}  // namespace rewright
