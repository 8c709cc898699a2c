// Tests dropout, batch normalization and losses in training: values against formulas, gradients against differences.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/autodiff/autodiff.h"
#include "core/interpreter/interpreter.h"
#include "core/ir/random_tensors.h"
#include "core/ir/text.h"
#include "tests/core/onnx/import/training_util.h"
#include "tests/core/onnx/model_util.h"

namespace rewright {
namespace {

using ::testing::HasSubstr;

constexpr DType kF32 = DType::kFloat32, kF64 = DType::kFloat64, kI64 = DType::kInt64;

Tensor Truth(bool value) { return Tensor::Scalar(DType::kBool, value ? 1 : 0); }

// ---------------------------------------------------------------- dropout

TestModel TwoDropouts(double ratio, bool training = true) {
  return TestModel(13)
      .Input("x", {50, 40})
      .Initializer("ratio", Tensor::Scalar(kF32, ratio))
      .Initializer("training", Truth(training))
      .Node("Dropout", {"x", "ratio", "training"}, {"y", "mask"}, {{"seed", int64_t{7}}})
      .Node("Dropout", {"x", "ratio", "training"}, {"z"})
      .Output("y")
      .Output("mask")
      .Output("z");
}

TEST(ImportTrainingTest, DropoutDrawsAMaskFromAState) {
  const TestModel model = TestModel(13)
                              .Input("x", {2, 3})
                              .Initializer("training", Truth(true))
                              .Node("Dropout", {"x", "", "training"}, {"y"})
                              .Output("y");
  const auto step = model.Import(Training(OnnxTraining::kStep));
  ASSERT_TRUE(step.ok()) << step.status();
  EXPECT_EQ(step->graph.mode(), Mode::kTraining);
  const std::string printed = PrintGraph(step->graph);
  EXPECT_THAT(printed, HasSubstr("random_uniform(dropout.seed, shape=[2,3])"));
  EXPECT_THAT(printed, HasSubstr("update dropout.seed"));
  for (const OnnxTraining off : {OnnxTraining::kOff, OnnxTraining::kAsWritten}) {
    const auto imported = TwoDropouts(0.5, off == OnnxTraining::kOff).Import(Training(off));
    ASSERT_TRUE(imported.ok()) << imported.status();
    EXPECT_EQ(imported->graph.results()[0].value, imported->graph.inputs()[0]) << "nothing is dropped at inference";
    EXPECT_TRUE(imported->graph.states().empty());
  }
}

TEST(ImportTrainingTest, DropoutKeepsItsShareAndScalesIt) {
  Rng rng(3);
  const Tensor x = RandomTensor({kF32, {50, 40}}, rng, 1, 2);
  for (const double ratio : {0.1, 0.5, 0.8}) {
    const auto step = TwoDropouts(ratio).Import(Training(OnnxTraining::kStep));
    ASSERT_TRUE(step.ok()) << step.status();
    const auto first = Compute(step->graph, {{"x", x}});
    int64_t kept = 0, same = 0;
    for (int64_t i = 0; i < x.num_elements(); ++i) {
      const bool keeps = first.at("mask").At(i) != 0;
      kept += keeps ? 1 : 0;
      same += keeps == (first.at("z").At(i) != 0) ? 1 : 0;
      EXPECT_NEAR(first.at("y").At(i), keeps ? x.At(i) / (1 - static_cast<float>(ratio)) : 0, 1e-5);
    }
    // The tolerance is five standard deviations of 2,000 draws.
    EXPECT_NEAR(static_cast<double>(kept) / 2000, 1 - ratio, 5 * std::sqrt(ratio * (1 - ratio) / 2000));
    const double agree = ratio * ratio + (1 - ratio) * (1 - ratio);
    EXPECT_NEAR(static_cast<double>(same) / 2000, agree, 5 * std::sqrt(agree * (1 - agree) / 2000))
        << "the masks of two nodes are independent";

    const auto again = Compute(step->graph, {{"x", x}});
    EXPECT_TRUE(again.at("mask").BitEqual(first.at("mask")));
    const auto next = Compute(step->graph, {{"x", x}, {kDropoutState, first.at(kDropoutState)}});
    EXPECT_FALSE(next.at("mask").BitEqual(first.at("mask"))) << "every step has another mask";
    const auto other = TwoDropouts(ratio).Import(Training(OnnxTraining::kStep, 2));
    EXPECT_FALSE(Compute(other->graph, {{"x", x}}).at("mask").BitEqual(first.at("mask"))) << "and every seed";
  }
}

TEST(ImportTrainingTest, DropoutSaysWhatIsWrong) {
  EXPECT_THAT(TwoDropouts(0.5).Error(), HasSubstr("Dropout: training_mode = true, except in `rewright train`"));
  const ImportOptions step = Training(OnnxTraining::kStep);
  EXPECT_THAT(TwoDropouts(1).Error(step), HasSubstr("ratio 1; expected 0 or more, and less than 1"));
  EXPECT_THAT(TwoDropouts(-0.5).Error(step), HasSubstr("ratio -0.5; expected"));
  EXPECT_EQ(TwoDropouts(0).Error(), "") << "nothing is dropped";
  TestModel taken(13);
  taken.Input(kDropoutState, {3}).Initializer("t", Truth(true)).Node("Dropout", {kDropoutState, "", "t"}, {"y"});
  EXPECT_THAT(taken.Output("y").Error(step), HasSubstr("dropout.seed: the name is taken"));
}

// ---------------------------------------------------------------- batch normalization

TestModel BatchNorm(const Tensor& mean, const Tensor& var) {
  return TestModel(15)
      .Input("x", {4, mean.num_elements(), 3})
      .Initializer("scale", RandomTensor({kF32, mean.type().shape}, *std::make_unique<Rng>(5), 0.5, 2))
      .Initializer("bias", RandomTensor({kF32, mean.type().shape}, *std::make_unique<Rng>(6), -1, 1))
      .Initializer("mean", mean)
      .Initializer("var", var)
      .Node("BatchNormalization", {"x", "scale", "bias", "mean", "var"}, {"y", "next_mean", "next_var"},
            {{"training_mode", int64_t{1}}, {"momentum", 0.75}, {"epsilon", 0.01}})
      .Output("y");
}

TEST(ImportTrainingTest, RunningAveragesAreNextValues) {
  Rng rng(4);
  for (const int64_t channels : {1, 2, 5}) {
    const Tensor mean = RandomTensor({kF32, {channels}}, rng, -1, 1), var = RandomTensor({kF32, {channels}}, rng, 1, 2);
    const Tensor x = RandomTensor({kF32, {4, channels, 3}}, rng, -2, 3);
    const TestModel model = BatchNorm(mean, var);
    const auto step = model.Import(Training(OnnxTraining::kStep));
    const auto off = model.Import(Training(OnnxTraining::kOff));
    ASSERT_TRUE(step.ok() && off.ok()) << step.status() << off.status();
    const auto found = Compute(step->graph, {{"x", x}});
    ASSERT_EQ(found.size(), 3u);
    const auto scale = RandomTensor({kF32, {channels}}, *std::make_unique<Rng>(5), 0.5, 2);
    const auto bias = RandomTensor({kF32, {channels}}, *std::make_unique<Rng>(6), -1, 1);
    const auto used = Compute(off->graph, {{"x", x}, {"mean", found.at("mean")}, {"var", found.at("var")}});
    ASSERT_EQ(used.size(), 1u) << "at inference nothing is updated";
    for (int64_t c = 0; c < channels; ++c) {
      double sum = 0, squares = 0;
      const auto at = [&](int64_t k) { return (k / 3 * channels + c) * 3 + k % 3; };
      for (int64_t k = 0; k < 12; ++k) sum += x.At(at(k));
      for (int64_t k = 0; k < 12; ++k) squares += std::pow(x.At(at(k)) - sum / 12, 2);
      const double next_mean = 0.75 * mean.At(c) + 0.25 * sum / 12, next_var = 0.75 * var.At(c) + 0.25 * squares / 12;
      EXPECT_NEAR(found.at("mean").At(c), next_mean, 1e-5);
      EXPECT_NEAR(found.at("var").At(c), next_var, 1e-5);
      for (int64_t k = 0; k < 12; ++k) {
        const double value = x.At(at(k));
        EXPECT_NEAR(found.at("y").At(at(k)),
                    (value - sum / 12) / std::sqrt(squares / 12 + 0.01) * scale.At(c) + bias.At(c), 1e-4);
        EXPECT_NEAR(used.at("y").At(at(k)), (value - next_mean) / std::sqrt(next_var + 0.01) * scale.At(c) + bias.At(c),
                    1e-4);
      }
    }
  }
}

TEST(ImportTrainingTest, AveragesThatTwoNodesShareTakeInBoth) {
  Rng rng(7);
  const Tensor zeros = Tensor::FromVector<double>(kF32, {2}, {0, 0}),
               ones = Tensor::FromVector<double>(kF32, {2}, {1, 1});
  TestModel model = BatchNorm(zeros, ones);
  model.Input("z", {1, 2, 1})
      .Node("BatchNormalization", {"z", "scale", "bias", "mean", "var"}, {"w"},
            {{"training_mode", int64_t{1}}, {"momentum", 0.5}})
      .Output("w");
  const auto step = model.Import(Training(OnnxTraining::kStep));
  ASSERT_TRUE(step.ok()) << step.status();
  Tensor x({kF32, {4, 2, 3}});
  for (int64_t i = 0; i < 24; ++i) x.Set(i, i % 6 < 3 ? 8 : 16);
  const auto found = Compute(step->graph, {{"x", x}, {"z", Tensor::FromVector<double>(kF32, {1, 2, 1}, {10, 20})}});
  EXPECT_NEAR(found.at("mean").At(0), 0.5 * (0.25 * 8) + 5, 1e-5);
  EXPECT_NEAR(found.at("mean").At(1), 0.5 * (0.25 * 16) + 10, 1e-5);
  EXPECT_NEAR(found.at("var").At(0), 0.5 * 0.75, 1e-5);
}

TEST(ImportTrainingTest, BatchNormSaysWhatIsWrong) {
  const ImportOptions step = Training(OnnxTraining::kStep);
  TestModel model(15);
  model.Input("x", {2, 3, 4}).Input("fed", {3});
  for (const char* name : {"p", "q"}) model.Initializer(name, Iota({3}));
  const TestAttrs training = {{"training_mode", int64_t{1}}};
  TestModel fed = model, wrong = model, flat = model;
  fed.Node("BatchNormalization", {"x", "p", "q", "fed", "p"}, {"y"}, training).Output("y");
  EXPECT_THAT(fed.Error(step), HasSubstr("input 3 (tensor \"fed\") is no initializer"));
  EXPECT_EQ(fed.Error(), "") << "a run of its own keeps no averages";
  wrong.Initializer("one", Iota({1})).Node("BatchNormalization", {"x", "p", "q", "p", "one"}, {"y"}, training);
  EXPECT_THAT(wrong.Output("y").Error(step), HasSubstr("running averages f32[1]; expected 3 elements, one a channel"));
  flat.Node("BatchNormalization", {"fed", "p", "q", "p", "p"}, {"y"}, training).Output("y");
  EXPECT_THAT(flat.Error(step), HasSubstr("operand f32[3]; expected [n, c, ..]"));
}

// ---------------------------------------------------------------- losses

struct LossCase {
  Shape shape;  // [n, classes, ..]
  bool weights;
  std::optional<int64_t> ignored;
};

// Computes the loss by its definition: one label after another, in f64.
std::vector<double> LossOf(const LossCase& loss, const Tensor& x, const Tensor& labels, const Tensor& weights,
                           bool softmax, const std::string& reduction) {
  const int64_t classes = loss.shape[1], inner = x.num_elements() / loss.shape[0] / classes;
  std::vector<double> each;
  double sum = 0, total = 0;
  for (int64_t i = 0; i < labels.num_elements(); ++i) {
    const auto at = [&](int64_t c) { return x.At((i / inner * classes + c) * inner + i % inner); };
    double exponentials = 0;
    for (int64_t c = 0; c < classes; ++c) exponentials += std::exp(at(c));
    const int64_t label = labels.AtInt(i);
    const bool counts = label != loss.ignored;
    const double weight = !counts ? 0 : loss.weights ? weights.At(label) : 1;
    each.push_back(counts ? -weight * (at(label) - (softmax ? std::log(exponentials) : 0)) : 0);
    sum += each.back();
    total += weight;
  }
  if (reduction == "none") return each;
  return {reduction == "sum" ? sum : sum / total};
}

TEST(ImportTrainingTest, LossesAndTheirGradients) {
  Rng rng(8);
  const std::vector<LossCase> cases = {{{3, 5}, false, {}},        {{4, 3, 2}, true, {}}, {{6, 4}, false, 2},
                                       {{2, 3, 3, 2}, true, 1},    {{5, 4}, true, -100},  {{1, 1}, false, {}},
                                       {{3, 7, 1, 2}, false, 1000}};
  for (const LossCase& loss : cases) {
    Shape shape = loss.shape;
    shape.erase(shape.begin() + 1);
    const int64_t classes = loss.shape[1];
    const Tensor x = RandomTensor({kF64, loss.shape}, rng, -3, 3), weights = RandomTensor({kF64, {classes}}, rng, 1, 2);
    Tensor labels({kI64, shape});
    for (int64_t i = 0; i < labels.num_elements(); ++i) {
      labels.SetInt(i, static_cast<int64_t>(rng() % static_cast<uint64_t>(classes)));
    }
    if (loss.ignored) labels.SetInt(0, *loss.ignored);
    labels.SetInt(labels.num_elements() - 1, 0);  // one counts
    for (const bool softmax : {false, true}) {
      for (const std::string reduction : {"none", "sum", "mean"}) {
        TestModel model(13);
        model.Input("x", loss.shape, kF64).Input("labels", shape, kI64);
        std::vector<std::string> inputs = {"x", "labels"};
        if (loss.weights) model.Initializer(inputs.emplace_back("weights"), weights);
        TestAttrs attrs = {{"reduction", reduction}};
        if (loss.ignored) attrs["ignore_index"] = *loss.ignored;
        model.Node(softmax ? "SoftmaxCrossEntropyLoss" : "NegativeLogLikelihoodLoss", inputs, {"loss"}, attrs);
        const auto imported = model.Output("loss").Import();
        ASSERT_TRUE(imported.ok()) << imported.status();
        SCOPED_TRACE(PrintGraph(imported->graph));
        const auto value = [&](const Tensor& at) {
          return Compute(imported->graph, {{"x", at}, {"labels", labels}}).at("loss");
        };
        const Tensor found = value(x);
        const std::vector<double> expected = LossOf(loss, x, labels, weights, softmax, reduction);
        ASSERT_EQ(found.type().shape, reduction == "none" ? shape : Shape{});
        for (size_t i = 0; i < expected.size(); ++i) {
          EXPECT_NEAR(found.At(static_cast<int64_t>(i)), expected[i], 1e-12);
        }
        if (reduction == "none") continue;
        const std::shared_ptr<Arena>& arena = imported->graph.arena();
        const auto gradient = Gradients(*arena, imported->graph.outputs()[0].value, {imported->graph.inputs()[0]});
        ASSERT_TRUE(gradient.ok()) << gradient.status();
        const Tensor slopes =
            Compute(Graph(arena, imported->graph.inputs(), {{(*gradient)[0], "g"}}), {{"x", x}, {"labels", labels}})
                .at("g");
        for (int64_t i = 0; i < x.num_elements(); ++i) {
          constexpr double kDistance = 1e-5;
          Tensor more(x.type()), less(x.type());
          for (int64_t k = 0; k < x.num_elements(); ++k) {
            more.Set(k, x.At(k) + (k == i ? kDistance : 0));
            less.Set(k, x.At(k) - (k == i ? kDistance : 0));
          }
          EXPECT_NEAR(slopes.At(i), (value(more).At(0) - value(less).At(0)) / (2 * kDistance), 1e-8) << i;
        }
      }
    }
  }
}

// exp(1000) overflows, and log(softmax) of the other class would be log(0).
TEST(ImportTrainingTest, CrossEntropyIsStable) {
  TestModel model(13);
  model.Input("x", {2, 2}).Initializer("labels", Tensor::Int64s({0, 1}));
  model.Node("SoftmaxCrossEntropyLoss", {"x", "labels"}, {"loss", "logs"}, {{"reduction", std::string("none")}});
  const auto imported = model.Output("loss").Output("logs").Import();
  ASSERT_TRUE(imported.ok()) << imported.status();
  const auto found =
      Compute(imported->graph, {{"x", Tensor::FromVector<double>(kF32, {2, 2}, {1000, -1000, 1000, -1000})}});
  EXPECT_EQ(found.at("loss").At(0), 0);
  EXPECT_EQ(found.at("loss").At(1), 2000);
  EXPECT_EQ(found.at("logs").At(3), -2000);
}

TEST(ImportTrainingTest, LossesSayWhatIsWrong) {
  TestModel model(13);
  model.Input("x", {2, 3, 4}).Input("labels", {2, 4}, kI64).Input("reals", {2, 4}).Initializer("w", Iota({4}));
  const auto error = [&](const std::vector<std::string>& inputs, const TestAttrs& attrs = {}) {
    TestModel copy = model;
    copy.Node("NegativeLogLikelihoodLoss", inputs, {"y"}, attrs);
    return copy.Output("y").Error();
  };
  EXPECT_EQ(error({"x", "labels"}), "");
  EXPECT_THAT(error({"x", "labels"}, {{"reduction", std::string("max")}}),
              HasSubstr("attribute reduction is \"max\"; expected none, sum or mean"));
  EXPECT_THAT(error({"x", "reals"}), HasSubstr("expected [n, classes, ..] and integers [n, ..]"));
  EXPECT_THAT(error({"reals", "labels"}), HasSubstr("labels i64[2,4] for f32[2,4]; expected [2]"));
  EXPECT_THAT(error({"x", "labels", "w"}), HasSubstr("weights f32[4]; expected one a class"));
}

// ---------------------------------------------------------------- kinks

// The first step of a recurrence from a state of zeros: each row is the bias that the other steps add.
TEST(ImportTrainingTest, ComputedRowsThatAreAParameterOfTheFileAreTheParameter) {
  Rng rng(9);
  const Tensor bias = RandomTensor({kF32, {3}}, rng, -1, 1);
  for (const Shape& shape : {Shape{1, 4, 3}, Shape{1, 1, 3}}) {
    for (const bool is_zero : {false, true}) {
      Tensor rows(TensorType{kF32, shape});
      for (int64_t i = 0; i < rows.num_elements(); ++i) rows.Set(i, is_zero ? 0 : bias.At(i % 3));
      TestModel model = TestModel(17)
                            .Input("x", {4, 3})
                            .Initializer("l.bias", is_zero ? Filled({3}, 0) : bias)
                            .Initializer("linear_1", rows)
                            .Node("Add", {"linear_1", "x"}, {"first"})
                            .Node("Relu", {"first"}, {"state"})
                            .Node("Add", {"state", "l.bias"}, {"y"})
                            .Output("y");
      SayParameters("p_b: PARAMETER target='l.bias'\np_w: PARAMETER target='l.weight'\n", &model);
      SayFoldedFrom("linear_1", "['l.bias', 'l.weight', 'zeros']", &model);
      ImportOptions options = Training(OnnxTraining::kStep);
      ExpectSameResults(model, options, {{"x", RandomTensor({kF32, {4, 3}}, rng, -1, 1)}});
      if (is_zero && rows.num_elements() == 3) continue;  // equal by chance
      const auto imported = model.Import(options);
      EXPECT_THAT(TrainedStates(*imported), ::testing::ElementsAre("l.bias"));
      EXPECT_THAT(imported->weight_notes, ::testing::Contains(HasSubstr("one weight, trained as l.bias")));
      options.parts = [](const std::string& name) { return name == "l.bias"; };
      EXPECT_THAT(TrainedStates(*model.Import(options)), ::testing::SizeIs(2));
    }
  }
}

// Returns the gradients of the sum of y by x, for an ONNX operator that becomes several operators here.
std::vector<double> GradientByX(const TestModel& model, const std::vector<double>& x, const Shape& shape) {
  ImportOptions options;
  options.differentiated = true;
  const auto imported = model.Import(options);
  EXPECT_TRUE(imported.ok()) << imported.status();
  const Graph& graph = imported->graph;
  const Value y = graph.outputs()[0].value;
  const Value ones = *graph.arena()->Apply("expand", {graph.arena()->AddConstant(Tensor::Scalar(kF32, 1))},
                                           {{"shape", graph.type(y).shape}});
  const auto gradients = PullBack(*graph.arena(), {y}, {ones}, graph.inputs());
  EXPECT_TRUE(gradients.ok()) << gradients.status();
  const auto found = Compute(Graph(graph.arena(), graph.inputs(), {{(*gradients)[0], "g"}}),
                             {{"x", Tensor::FromVector(kF32, shape, x)}});
  std::vector<double> numbers;
  for (int64_t i = 0; i < found.at("g").num_elements(); ++i) numbers.push_back(found.at("g").At(i));
  return numbers;
}

TEST(ImportTrainingTest, GradientsOfNormsAreZeroAtZeros) {
  const std::vector<double> x = {3, 4, 0, 0};
  const TestModel reduced =
      TestModel(13).Input("x", {2, 2}).Node("ReduceL2", {"x"}, {"y"}, {{"axes", std::vector<int64_t>{1}}}).Output("y");
  EXPECT_THAT(GradientByX(reduced, x, {2, 2}),
              ::testing::ElementsAre(::testing::DoubleNear(0.6, 1e-6), ::testing::DoubleNear(0.8, 1e-6), 0, 0));
  for (int64_t p : {1, 2}) {
    const TestModel normal =
        TestModel(13).Input("x", {2, 2}).Node("LpNormalization", {"x"}, {"y"}, {{"p", p}}).Output("y");
    const std::vector<double> g = GradientByX(normal, x, {2, 2});
    EXPECT_EQ(g[2], 0);
    EXPECT_EQ(g[3], 0);
  }
  const TestModel pooled = TestModel(13)
                               .Input("x", {1, 1, 2, 2})
                               .Node("LpPool", {"x"}, {"y"}, {{"kernel_shape", std::vector<int64_t>{1, 2}}})
                               .Output("y");
  EXPECT_THAT(GradientByX(pooled, x, {1, 1, 2, 2}),
              ::testing::ElementsAre(::testing::DoubleNear(0.6, 1e-6), ::testing::DoubleNear(0.8, 1e-6), 0, 0));
}

TEST(ImportTrainingTest, TheGradientOfPReluAtZeroIsItsSlope) {
  const TestModel model = TestModel(16)
                              .Input("x", {3})
                              .Initializer("slope", Tensor::FromVector<double>(kF32, {1}, {0.25}))
                              .Node("PRelu", {"x", "slope"}, {"y"})
                              .Output("y");
  EXPECT_THAT(GradientByX(model, {-1, 0, 1}, {3}), ::testing::ElementsAre(0.25, 0.25, 1));
}

}  // namespace
}  // namespace rewright
