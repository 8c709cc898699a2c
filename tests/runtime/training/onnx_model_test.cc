// Tests a network of an ONNX file with batch norm and dropout: it learns, its running averages are those of its
// batches, and a resumed run draws the masks that the uninterrupted run would have drawn.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "backends/device_factory.h"
#include "core/ir/random_tensors.h"
#include "runtime/executor.h"
#include "runtime/reference_runner.h"
#include "runtime/training/trainer.h"
#include "tests/core/onnx/model_util.h"

namespace rewright {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kSamples = 30, kBatch = 5;
constexpr double kMomentum = 0.9;

// x [5,1,6,6] -> batch norm -> 3x3 convolution of 4 channels -> batch norm -> relu -> max pool -> dropout -> logits.
TestModel ConvNet(bool dropout) {
  Rng rng(1);
  const auto random = [&](const Shape& shape, double low, double high) {
    return RandomTensor({DType::kFloat32, shape}, rng, low, high);
  };
  const auto fill = [](int64_t count, double value) {
    return Tensor::FromVector(DType::kFloat32, {count}, std::vector<double>(static_cast<size_t>(count), value));
  };
  TestModel model(15);
  model.Input("x", {kBatch, 1, 6, 6}).Initializer("conv.weight", random({4, 1, 3, 3}, -0.3, 0.3));
  for (const auto& [name, channels] : {std::pair("first", 1), std::pair("second", 4)}) {
    const std::string layer = name;
    model.Initializer(layer + ".weight", fill(channels, 1)).Initializer(layer + ".bias", fill(channels, 0));
    model.Initializer(layer + ".mean", fill(channels, 0)).Initializer(layer + ".var", fill(channels, 1));
    model.Node("BatchNormalization",
               {layer == "first" ? "x" : "c", layer + ".weight", layer + ".bias", layer + ".mean", layer + ".var"},
               {layer}, {{"training_mode", int64_t{1}}, {"momentum", kMomentum}});
    if (layer == "first") model.Node("Conv", {"first", "conv.weight"}, {"c"}, {{"pads", std::vector<int64_t>(4, 1)}});
  }
  return model.Node("Relu", {"second"}, {"r"})
      .Node("MaxPool", {"r"}, {"p"},
            {{"kernel_shape", std::vector<int64_t>{3, 3}}, {"strides", std::vector<int64_t>{2, 2}}})
      .Node("Flatten", {"p"}, {"f"})
      .Initializer("ratio", Tensor::Scalar(DType::kFloat32, 0.3))
      .Initializer("training", Tensor::Scalar(DType::kBool, dropout ? 1 : 0))
      .Node("Dropout", {"f", "ratio", "training"}, {"d"})
      .Initializer("dense.weight", random({16, 2}, -0.25, 0.25))
      .Node("MatMul", {"d", "dense.weight"}, {"logits"})
      .Output("logits");
}

class OnnxModelTest : public ::testing::Test {
 protected:
  OnnxModelTest() : device_(*MakeDevice("cpu")), runner_(MakeGraphRunner(*device_)) {
    // Noise with a bright row or a bright column; the label tells which.
    Rng rng(2);
    x_ = RandomTensor({DType::kFloat32, {kSamples, 1, 6, 6}}, rng, 0, 1);
    Tensor labels({DType::kInt64, {kSamples}});
    for (int64_t i = 0; i < kSamples; ++i) {
      labels.SetInt(i, i % 2);
      const auto line = static_cast<int64_t>(rng() % 6);
      for (int64_t k = 0; k < 6; ++k) x_.Set(36 * i + (i % 2 == 0 ? 6 * line + k : 6 * k + line), 3);
    }
    Write(x_);
    EXPECT_TRUE(SaveNpy(folder_ / "y.npy", labels).ok());
    json_ = Json::parse(R"({"model": {"onnx": "model.onnx"},
      "data": {"inputs": {"x": "x.npy"}, "target": "y.npy", "batch": 5},
      "validation": {"inputs": {"x": "x.npy"}, "target": "y.npy", "every_steps": 30},
      "loss": "cross_entropy", "optimizer": {"kind": "adam", "learning_rate": 0.01}, "steps": 20})");
  }

  void Write(const Tensor& x) { EXPECT_TRUE(SaveNpy(folder_ / "x.npy", x).ok()); }
  Json With(const std::string& patch) const {
    Json json = json_;
    json.merge_patch(Json::parse(patch));
    return json;
  }

  // Makes a trainer; a failure fails the test.
  std::unique_ptr<Trainer> Make(const TestModel& model, const Json& json, const std::string& checkpoints = "",
                                bool resume = false, GraphRunner* runner = nullptr) {
    const TrainConfig config = *ParseTrainConfig(json.dump());
    ImportOptions import;
    import.seed = config.seed;
    import.training = OnnxTraining::kOff;
    const auto inference = model.Import(import);
    import.training = OnnxTraining::kStep;
    const auto training = model.Import(import);
    EXPECT_TRUE(inference.ok() && training.ok()) << inference.status() << training.status();
    TrainerOptions options;
    options.data_folder = folder_.path();
    options.checkpoint_folder = checkpoints.empty() ? "" : folder_ / checkpoints;
    options.resume = resume;
    auto trainer = Trainer::Create(config, TrainableModel(inference->graph, training->graph),
                                   runner != nullptr ? *runner : *runner_, options);
    EXPECT_TRUE(trainer.ok()) << trainer.status();
    return *std::move(trainer);
  }
  // Returns the losses up to the last step, or to `stop_at`.
  static std::vector<double> Run(Trainer& trainer, int64_t stop_at = 0) {
    std::vector<double> losses;
    const absl::Status status = trainer.Run([&](const StepReport& report) { losses.push_back(report.loss); },
                                            [&] { return stop_at > 0 && trainer.position() >= stop_at; });
    EXPECT_TRUE(status.ok()) << status;
    return losses;
  }

  TemporaryFolder folder_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<GraphRunner> runner_;
  Tensor x_;
  Json json_;
};

TEST_F(OnnxModelTest, LearnsWithBatchNormAndDropout) {
  for (const bool dropout : {false, true}) {
    const auto trainer = Make(ConvNet(dropout), With(R"({"steps": 150})"));
    const std::vector<double> losses = Run(*trainer);
    ASSERT_EQ(losses.size(), 150u);
    EXPECT_GT(losses.front(), 0.5);
    EXPECT_LT(losses.back(), 0.2);
    const auto measured = trainer->Measure();
    ASSERT_TRUE(measured.ok()) << measured.status();
    EXPECT_EQ(*measured->accuracy, 1) << "by the running averages, with nothing dropped";
  }
}

// The averages of the first layer follow from the data alone.
TEST_F(OnnxModelTest, RunningAveragesAreThoseOfTheBatches) {
  const auto trainer = Make(ConvNet(true), json_);
  Run(*trainer);
  double mean = 0, var = 1;
  const BatchOrder order(kSamples, kBatch, 1);
  for (int64_t step = 0; step < 20; ++step) {
    double sum = 0, squares = 0;
    const std::vector<int64_t> rows = order.Rows(step);
    for (int64_t row : rows) {
      for (int64_t k = 0; k < 36; ++k) sum += x_.At(36 * row + k);
    }
    const double batch_mean = sum / (36 * kBatch);
    for (int64_t row : rows) {
      for (int64_t k = 0; k < 36; ++k) squares += std::pow(x_.At(36 * row + k) - batch_mean, 2);
    }
    mean = kMomentum * mean + (1 - kMomentum) * batch_mean;
    var = kMomentum * var + (1 - kMomentum) * squares / (36 * kBatch);
  }
  const NamedTensors weights = *trainer->Weights();
  EXPECT_NEAR(weights.at("first.mean").At(0), mean, 1e-5);
  EXPECT_NEAR(weights.at("first.var").At(0), var, 1e-5);
  EXPECT_FALSE(weights.contains(kDropoutState)) << "no weight of the model";

  // The exported model normalizes by them.
  const Graph trained = *trainer->Trained();
  EXPECT_EQ(trained.mode(), Mode::kInference);
  const auto executable = *MakeReferenceRunner(1)->Prepare(trained);
  std::vector<Tensor> logits[2];
  Tensor batch({DType::kFloat32, {kBatch, 1, 6, 6}});
  for (int64_t k = 0; k < batch.num_elements(); ++k) batch.Set(k, x_.At(k));
  for (std::vector<Tensor>& result : logits) ASSERT_TRUE(executable->Run({batch}, &result).ok());
  EXPECT_TRUE(logits[0][0].BitEqual(logits[1][0])) << "nothing is drawn";
}

// Each micro-batch is normalized by its own statistics; the averages follow the means of these, once a step.
TEST_F(OnnxModelTest, RunningAveragesFollowTheMeansOfMicroBatches) {
  const auto trainer = Make(ConvNet(false), With(R"({"data": {"batch": 15, "micro_batches": 3}, "steps": 6})"));
  Run(*trainer);
  double mean = 0, var = 1;
  const BatchOrder order(kSamples, 3 * kBatch, 1);
  for (int64_t step = 0; step < 6; ++step) {
    double means = 0, variances = 0;
    for (int64_t part = 0; part < 3; ++part) {
      double sum = 0, squares = 0;
      const std::vector<int64_t> rows = order.Rows(step, part * kBatch, kBatch);
      for (int64_t row : rows) {
        for (int64_t k = 0; k < 36; ++k) sum += x_.At(36 * row + k);
      }
      const double own = sum / (36 * kBatch);
      for (int64_t row : rows) {
        for (int64_t k = 0; k < 36; ++k) squares += std::pow(x_.At(36 * row + k) - own, 2);
      }
      means += own / 3;
      variances += squares / (36 * kBatch) / 3;
    }
    mean = kMomentum * mean + (1 - kMomentum) * means;
    var = kMomentum * var + (1 - kMomentum) * variances;
  }
  const NamedTensors weights = *trainer->Weights();
  EXPECT_NEAR(weights.at("first.mean").At(0), mean, 1e-5);
  EXPECT_NEAR(weights.at("first.var").At(0), var, 1e-5);
}

TEST_F(OnnxModelTest, AResumedRunDrawsTheSameMasks) {
  const TestModel model = ConvNet(true);
  const auto whole = Make(model, json_);
  const std::vector<double> losses = Run(*whole);
  const std::string sha256 = *whole->WeightsSha256();
  EXPECT_NE(
      *[&] {
        const auto other = Make(ConvNet(false), json_);
        Run(*other);
        return other->WeightsSha256();
      }(),
      sha256)
      << "dropout takes part";
  for (const int64_t stop : {1, 6, 19}) {
    const std::string name = "ck" + std::to_string(stop);
    Run(*Make(model, json_, name), stop);
    const auto rest = Make(model, json_, name, /*resume=*/true);
    const std::vector<double> found = Run(*rest);
    EXPECT_EQ(found, std::vector<double>(losses.begin() + stop, losses.end()));
    EXPECT_EQ(*rest->WeightsSha256(), sha256) << "stopped behind step " << stop;
  }
}

TEST_F(OnnxModelTest, TheDeviceAgreesWithTheReference) {
  const auto reference = MakeReferenceRunner(1);
  const std::vector<double> fast = Run(*Make(ConvNet(true), json_));
  const std::vector<double> slow = Run(*Make(ConvNet(true), json_, "", false, reference.get()));
  ASSERT_EQ(fast.size(), slow.size());
  for (size_t i = 0; i < fast.size(); ++i) EXPECT_NEAR(fast[i], slow[i], 1e-4) << "step " << i + 1;
}

// Otherwise the averages would be infinite from there on.
TEST_F(OnnxModelTest, AStepThatIsSkippedChangesNoAverage) {
  x_.Set(36 * 3 + 7, std::numeric_limits<double>::infinity());
  Write(x_);
  const auto trainer = Make(ConvNet(true), With(R"({"non_finite": "skip", "validation": null})"));
  int skipped = 0;
  ASSERT_TRUE(
      trainer->Run([&](const StepReport& report) { skipped += report.skipped ? 1 : 0; }, [] { return false; }).ok());
  EXPECT_GT(skipped, 0);
  const NamedTensors weights = *trainer->Weights();
  for (const auto& [name, weight] : weights) {
    for (int64_t i = 0; i < weight.num_elements(); ++i) EXPECT_TRUE(std::isfinite(weight.At(i))) << name;
  }
}

}  // namespace
}  // namespace rewright
