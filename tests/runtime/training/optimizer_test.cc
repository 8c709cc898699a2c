// Compares optimizers with their formulas, written here as loops over numbers.
#include "runtime/training/optimizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <numbers>
#include <random>

#include "backends/device_factory.h"
#include "core/ir/random_tensors.h"
#include "core/ir/text.h"
#include "runtime/executor.h"
#include "runtime/reference_runner.h"
#include "runtime/training/term.h"

namespace rewright {
namespace {

using Kind = OptimizerOptions::Kind;
using ::testing::HasSubstr;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Two weights whose gradients and loss are inputs: one step of the optimizer.
class Steps {
 public:
  explicit Steps(const OptimizerOptions& options, const std::string& engine = "reference") {
    auto arena = std::make_shared<Arena>(Mode::kTraining);
    Rng rng(3);
    std::vector<Value> weights, gradients, inputs;
    const std::vector<std::pair<std::string, TensorType>> types = {{"a.weight", {DType::kFloat32, {5, 3}}},
                                                                   {"a.bias", {DType::kFloat64, {3}}}};
    for (const auto& [name, type] : types) {
      values_.push_back(RandomTensor(type, rng, -1, 1));
      weights.push_back(*arena->AddState(name, values_.back()));
      gradients.push_back(*arena->AddInput("g." + name, type));
      names_.push_back(name);
    }
    inputs = gradients;
    inputs.push_back(*arena->AddInput("loss", {DType::kFloat32, {}}));
    auto graph = AddOptimizer(*arena, options, weights, gradients, inputs.back(), names_);
    status_ = graph.status();
    if (!graph.ok()) return;
    std::vector<Output> outputs = {{graph->magnitudes, "magnitudes"}, {graph->learning_rate, "rate"}};
    outputs.insert(outputs.end(), graph->updates.begin(), graph->updates.end());
    const Graph step(arena, inputs, outputs);
    const auto parsed = ParseGraph(PrintGraph(step));
    EXPECT_TRUE(parsed.ok()) << parsed.status();
    if (engine == "cpu") device_ = *MakeDevice("cpu");
    runner_ = device_ != nullptr ? MakeGraphRunner(*device_) : MakeReferenceRunner(1);
    executable_ = *runner_->Prepare(step);
  }

  const absl::Status& status() const { return status_; }
  Executable& executable() { return *executable_; }
  std::vector<Tensor> values() const { return values_; }

  // Checks magnitudes and the learning rate.
  std::vector<Tensor> Run(const std::vector<Tensor>& gradients, double loss = 1) {
    std::vector<Tensor> inputs = gradients, outputs;
    inputs.push_back(Tensor::Scalar(DType::kFloat32, loss));
    const absl::Status status = executable_->Run(inputs, &outputs);
    EXPECT_TRUE(status.ok()) << status;
    return outputs;
  }
  std::vector<Tensor> Gradients(uint64_t seed) const {
    Rng rng(seed);
    std::vector<Tensor> gradients;
    for (const Tensor& value : values_) gradients.push_back(RandomTensor(value.type(), rng, -2, 2));
    return gradients;
  }
  Tensor Weight(size_t i) { return *executable_->ReadState(names_[i]); }

 private:
  absl::Status status_;
  std::vector<std::string> names_;
  std::vector<Tensor> values_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<GraphRunner> runner_;
  std::unique_ptr<Executable> executable_;
};

// One element of a weight under an optimizer.
struct Element {
  double w, m = 0, v = 0;
  void Step(const OptimizerOptions& o, double g, double rate, double decay, int t) {
    if (o.kind == Kind::kAdamW) {
      w -= rate * decay * w;
    } else {
      g += decay * w;
    }
    switch (o.kind) {
      case Kind::kSgd: w -= rate * g; break;
      case Kind::kMomentum: w -= rate * (m = o.momentum * m + g); break;
      case Kind::kNesterov:
        m = o.momentum * m + g;
        w -= rate * (g + o.momentum * m);
        break;
      default:
        m = o.beta1 * m + (1 - o.beta1) * g;
        v = o.beta2 * v + (1 - o.beta2) * g * g;
        w -= rate * (m / (1 - std::pow(o.beta1, t))) / (std::sqrt(v / (1 - std::pow(o.beta2, t))) + o.epsilon);
    }
  }
};

class OptimizerTest : public ::testing::TestWithParam<std::tuple<Kind, std::string>> {};

TEST_P(OptimizerTest, FollowsItsFormula) {
  OptimizerOptions options;
  options.kind = std::get<0>(GetParam());
  options.learning_rate = 0.05;
  options.weight_decay = 0.02;
  options.clip_norm = 3;
  options.schedule = {.kind = RateSchedule::Kind::kStep, .warmup = 2, .every = 3, .gamma = 0.5};
  options.groups = {{"*.bias", 0.0, 0.1}, {"*", 0.03, 1}, {"a.*", 100.0, 100}};
  Steps steps(options, std::get<1>(GetParam()));
  ASSERT_TRUE(steps.status().ok()) << steps.status();
  std::vector<std::vector<Element>> elements(2);
  for (size_t i = 0; i < 2; ++i) {
    for (int64_t k = 0; k < steps.values()[i].num_elements(); ++k) elements[i].push_back({steps.values()[i].At(k)});
  }
  for (int t = 1; t <= 12; ++t) {
    const std::vector<Tensor> gradients = steps.Gradients(static_cast<uint64_t>(t));
    const std::vector<Tensor> outputs = steps.Run(gradients, 0.25);
    double squares = 0, rate = 0.05;
    for (const Tensor& gradient : gradients) {
      double largest = 0;
      for (int64_t k = 0; k < gradient.num_elements(); ++k) {
        squares += gradient.At(k) * gradient.At(k);
        largest = std::max(largest, std::fabs(gradient.At(k)));
      }
      EXPECT_DOUBLE_EQ(outputs[0].At(1 + (&gradient - gradients.data())), largest);
    }
    rate = t <= 2 ? 0.05 * t / 2 : 0.05 * std::pow(0.5, (t - 3) / 3);
    EXPECT_DOUBLE_EQ(outputs[0].At(0), 0.25);
    EXPECT_NEAR(outputs[1].At(0), rate, 1e-12);
    const double clip = std::min(1.0, 3 / (std::sqrt(squares) + 1e-6));
    EXPECT_LT(clip, 1);
    for (size_t i = 0; i < 2; ++i) {
      const Tensor weight = steps.Weight(i);
      for (int64_t k = 0; k < weight.num_elements(); ++k) {
        Element& element = elements[i][static_cast<size_t>(k)];
        element.Step(options, gradients[i].At(k) * clip, i == 0 ? rate : 0.1 * rate, i == 0 ? 0.03 : 0, t);
        ASSERT_NEAR(weight.At(k), element.w, 2e-6) << "step " << t << ", weight " << i << ", element " << k;
      }
    }
    EXPECT_EQ(steps.executable().ReadState("optimizer.step")->AtInt(0), t);
  }
}

TEST_P(OptimizerTest, KeepsEveryStateWhereANumberIsNotFinite) {
  OptimizerOptions options;
  options.kind = std::get<0>(GetParam());
  options.clip_norm = 1;
  Steps steps(options, std::get<1>(GetParam()));
  ASSERT_TRUE(steps.status().ok()) << steps.status();
  steps.Run(steps.Gradients(1));
  const auto states = [&] {
    std::vector<Tensor> values = {steps.Weight(0), steps.Weight(1), *steps.executable().ReadState("optimizer.step")};
    for (const char* name : {"a.weight.momentum", "a.weight.adam_m", "a.weight.adam_v", "a.bias.adam_v"}) {
      const auto value = steps.executable().ReadState(name);
      if (value.ok()) values.push_back(*value);
    }
    return values;
  };
  const std::vector<Tensor> before = states();
  EXPECT_EQ(before.size(), options.kind == Kind::kSgd                                    ? 3u
                           : options.kind == Kind::kAdam || options.kind == Kind::kAdamW ? 6u
                                                                                         : 4u);
  const auto expect_kept = [&](const std::string& what) {
    const std::vector<Tensor> after = states();
    for (size_t i = 0; i < before.size(); ++i) EXPECT_TRUE(after[i].BitEqual(before[i])) << what << ", state " << i;
  };
  for (double bad : {kInfinity, -kInfinity, std::nan("")}) {
    EXPECT_FALSE(std::isfinite(steps.Run(steps.Gradients(2), bad)[0].At(0)));
    expect_kept("loss");
    for (size_t i = 0; i < 2; ++i) {
      for (int64_t k : {int64_t{0}, before[i].num_elements() - 1}) {
        std::vector<Tensor> gradients = steps.Gradients(2);
        gradients[i].Set(k, bad);
        const Tensor magnitudes = steps.Run(gradients)[0];
        for (int64_t j = 0; j < 3; ++j) {
          EXPECT_EQ(std::isfinite(magnitudes.At(j)), j != static_cast<int64_t>(i) + 1) << bad << " in " << i;
        }
        expect_kept("gradient");
      }
    }
  }
  steps.Run(steps.Gradients(2));
  EXPECT_FALSE(steps.Weight(0).BitEqual(before[0])) << "a good step goes on";
}

INSTANTIATE_TEST_SUITE_P(Kinds, OptimizerTest,
                         ::testing::Combine(::testing::Values(Kind::kSgd, Kind::kMomentum, Kind::kNesterov, Kind::kAdam,
                                                              Kind::kAdamW),
                                            ::testing::Values("reference", "cpu")));

double RateAt(const RateSchedule& schedule, int64_t step) {
  auto arena = std::make_shared<Arena>(Mode::kTraining);
  const Value s = *arena->AddInput("s", {DType::kInt64, {}});
  const Graph graph(arena, {s}, {{AddSchedule(*arena, 0.8, schedule, s), "rate"}});
  std::vector<Tensor> outputs;
  EXPECT_TRUE((*MakeReferenceRunner(1)->Prepare(graph))
                  ->Run({Tensor::FromVector(DType::kInt64, {}, std::vector<int64_t>{step})}, &outputs)
                  .ok());
  return outputs[0].At(0);
}

TEST(ScheduleTest, FollowsItsFormula) {
  for (int64_t step : {0, 1, 5, 1000}) EXPECT_DOUBLE_EQ(RateAt({}, step), 0.8);
  const RateSchedule warm = {.warmup = 4};
  EXPECT_DOUBLE_EQ(RateAt(warm, 0), 0.2);
  EXPECT_DOUBLE_EQ(RateAt(warm, 2), 0.6);
  EXPECT_DOUBLE_EQ(RateAt(warm, 3), 0.8);
  EXPECT_DOUBLE_EQ(RateAt(warm, 9), 0.8);
  const RateSchedule cosine = {.kind = RateSchedule::Kind::kCosine, .warmup = 2, .steps = 10, .final_rate = 0.1};
  EXPECT_DOUBLE_EQ(RateAt(cosine, 0), 0.4);
  for (int64_t step = 2; step < 20; ++step) {
    const double s = std::min<double>(static_cast<double>(step) - 2, 10);
    EXPECT_NEAR(RateAt(cosine, step), 0.1 + 0.7 * (1 + std::cos(std::numbers::pi * s / 10)) / 2, 1e-12) << step;
  }
  EXPECT_NEAR(RateAt(cosine, 12), 0.1, 1e-12);
}

TEST(OptimizerErrorTest, NamesWhatDoesNotFit) {
  OptimizerOptions options;
  options.groups = {{"*.scale", 0.0, 1}};
  EXPECT_EQ(Steps(options).status().message(),
            "the group `*.scale` fits none of the 2 weights that are trained, such as a.weight");
  auto arena = std::make_shared<Arena>(Mode::kTraining);
  const TensorType type{DType::kFloat32, {2}};
  const Value w = *arena->AddState("w", Tensor(type)), g = *arena->AddInput("g", type);
  const Value loss = *arena->AddInput("l", {DType::kFloat32, {}});
  options.groups.clear();
  EXPECT_EQ(AddOptimizer(*arena, options, {w}, {g}, loss, {"w", "w.adam_v"}).status().message(),
            "the model has a tensor named w.adam_v, a name that the optimizer needs");
}

TEST(PatternTest, FitsWholeNames) {
  for (const char* pattern : {"layer.bias", "*", "*.bias", "layer.*", "l*r.b*s", "?ayer.bias", "**", "*?*.bias*"}) {
    EXPECT_TRUE(MatchesPattern(pattern, "layer.bias")) << pattern;
  }
  for (const char* pattern : {"", "layer", "bias", "*.bia", "ayer*", "layer.bias?", "*x*"}) {
    EXPECT_FALSE(MatchesPattern(pattern, "layer.bias")) << pattern;
  }
  EXPECT_TRUE(MatchesPattern("", ""));
  EXPECT_TRUE(MatchesPattern("*a*a*a", "aaaa"));
}

}  // namespace
}  // namespace rewright
