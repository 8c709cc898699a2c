// Training as a user does it: the shipped example, runs that are killed and go on, what is said when something is
// wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <random>
#include <set>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/ir/random_tensors.h"
#include "core/onnx/onnx.h"
#include "core/tensor/npy.h"
#include "tests/core/onnx/model_util.h"
#include "tests/tools/program/program_util.h"

namespace rewright {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::ordered_json;

const std::string kDigits = std::string(REWRIGHT_SOURCE_DIR) + "/tools/examples/digits/";

std::vector<Json> Lines(const std::string& text) {
  std::vector<Json> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    lines.push_back(Json::parse(line, nullptr, /*allow_exceptions=*/false));
    EXPECT_TRUE(lines.back().is_object()) << line;
  }
  return lines;
}

class TrainTest : public ::testing::Test {
 protected:
  // A short run on the digits, its data by absolute paths; the patch is a JSON merge patch.
  std::string Config(const std::string& patch = "{}") {
    Json json = Json::parse(FileContents(kDigits + "digits.json"));
    for (Json* data : {&json["data"], &json["validation"]}) {
      Json& x = (*data)["inputs"]["x"]["file"];
      x = kDigits + x.get<std::string>();
      (*data)["target"] = kDigits + (*data)["target"].get<std::string>();
    }
    json["model"]["mlp"]["sizes"] = {64, 10};
    json["epochs"] = 2;
    json.merge_patch(Json::parse(patch));
    WriteContents(folder_ / "config.json", json.dump());
    return folder_ / "config.json";
  }
  // Weights of a layer that gives ten classes.
  static Tensor Weight() {
    Rng rng(1);
    return RandomTensor({DType::kFloat32, {64, 10}}, rng, -0.1, 0.1);
  }
  // The last line of a run that ends well.
  static Json Trained(const std::string& arguments) {
    const Outcome outcome = Rewright("train --threads 1 --json --quiet " + arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    const std::vector<Json> lines = Lines(outcome.out);
    return lines.empty() ? Json::object() : lines.back();
  }

  TemporaryFolder folder_;
};

// A table that an exporter computed, of a parameter or of a constant.
TEST_F(TrainTest, WhatAFileDoesNotSayIsAsked) {
  Rng rng(3);
  const auto random = [&](const Shape& shape) { return RandomTensor({DType::kFloat32, shape}, rng, -1, 1); };
  const std::string bytes = TestModel(17)
                                .Input("x", {44, 64})
                                .Initializer("onnx::Add_7", random({44, 64}))
                                .Initializer("w", random({64, 10}))
                                .Node("Add", {"x", "onnx::Add_7"}, {"a"})
                                .Node("MatMul", {"a", "w"}, {"y"})
                                .Output("y")
                                .Bytes();
  WriteContents(folder_ / "model.onnx", bytes);
  const auto run = [&](const std::string& more) {
    Json model = {{"mlp", nullptr}, {"onnx", "model.onnx"}};
    model.update(Json::parse(more));
    const std::string config = Config(Json({{"model", model},
                                            {"optimizer", {{"groups", nullptr}}},
                                            {"steps", 2},
                                            {"epochs", nullptr},
                                            {"validation", nullptr},
                                            {"data", {{"batch", 44}}}})
                                          .dump());
    return Rewright("train --threads 1 --json --quiet " + config);
  };
  const Outcome asked = run("{}");
  EXPECT_EQ(asked.status, 2);
  EXPECT_THAT(asked.err,
              HasSubstr("model.onnx: initializer onnx::Add_7 f32[44,64] was computed by the exporter, and the "
                        "file does not say from what: a parameter, such as a table of positions, or a "
                        "constant. Expected the name in model.trained or model.frozen"));
  const Outcome trained = run(R"({"trained": ["onnx::Add_7"]})"), frozen = run(R"({"frozen": ["onnx::Add_7"]})");
  ASSERT_EQ(trained.status, 0) << trained.err;
  ASSERT_EQ(frozen.status, 0) << frozen.err;
  const auto names = [](const Outcome& run) { return Lines(run.out)[0]["trained"].get<std::set<std::string>>(); };
  EXPECT_EQ(names(trained), (std::set<std::string>{"onnx::Add_7", "w"}));
  EXPECT_EQ(names(frozen), std::set<std::string>{"w"});
}

TEST_F(TrainTest, TheDigitsReachTheirAccuracy) {
  const std::string model = folder_ / "digits.onnx";
  const Outcome outcome = Rewright("train " + kDigits + "digits.json --json -o " + model);
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const std::vector<Json> lines = Lines(outcome.out);
  ASSERT_EQ(lines.size(), 30u * 44 + 1) << "one line a step, and the last one";
  EXPECT_EQ(lines[0]["step"], 1);
  EXPECT_GT(lines[0]["loss"], 1.5);
  EXPECT_FALSE(lines[42].contains("accuracy"));
  EXPECT_TRUE(lines[43].contains("accuracy"));
  const Json& last = lines.back();
  EXPECT_GE(last["accuracy"], 0.97);
  EXPECT_EQ(last["steps"], 1320);
  EXPECT_LT(last["final_loss"], 0.2);
  EXPECT_EQ(last["weights_sha256"].get<std::string>().size(), 64u);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("epoch 30, step 1320"), HasSubstr("accuracy 9")));

  // The model that was written, on the first images of the test set.
  WriteContents(folder_ / "test_x.npy", FileContents(kDigits + "test_x.npy"));
  const std::string bytes = FileContents(kDigits + "test_x.npy"), labels = FileContents(kDigits + "test_y.npy");
  const auto layout = ReadNpyLayout(*InputFile::Open(kDigits + "test_x.npy"));
  const auto label_layout = ReadNpyLayout(*InputFile::Open(kDigits + "test_y.npy"));
  ASSERT_TRUE(layout.ok() && label_layout.ok());
  Tensor x({DType::kFloat32, {32, 64}});
  for (int64_t k = 0; k < 32 * 64; ++k) {
    x.Set(k, static_cast<unsigned char>(bytes[static_cast<size_t>(layout->offset + k)]) / 16.0);
  }
  ASSERT_TRUE(SaveNpy(folder_ / "x.npy", x).ok());
  const Outcome run = Rewright("run " + model + " --input x=" + (folder_ / "x.npy") + " --iterations 1 --output-dir " +
                               (folder_ / "out"));
  ASSERT_EQ(run.status, 0) << run.err;
  const auto logits = LoadTensorFile((folder_ / "out") + "/logits.npy");
  ASSERT_TRUE(logits.ok()) << logits.status();
  int right = 0;
  for (int64_t i = 0; i < 32; ++i) {
    int64_t best = 0;
    for (int64_t c = 1; c < 10; ++c) best = logits->At(10 * i + c) > logits->At(10 * i + best) ? c : best;
    right += best == labels[static_cast<size_t>(label_layout->offset + i)] ? 1 : 0;
  }
  EXPECT_GE(right, 29);
}

// Killed at random moments, most of the time while a checkpoint is written, and resumed.
// (Without --foreground `timeout` kills itself, too, and does not wait until the run has ended and freed its folder.
// The status is 124 where the run ended by itself just before it was killed.)
TEST_F(TrainTest, ARunThatIsKilledEndsWithTheSameWeights) {
  const std::string config = Config(R"({"checkpoint": {"every_steps": 1, "keep": 2}})");
  const std::string folder = folder_ / "checkpoints";
  // Moments are drawn from the time that an undisturbed run takes here.
  const auto start = std::chrono::steady_clock::now();
  const std::string sha256 = Trained(config + " --checkpoint-dir " + folder)["weights_sha256"];
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::filesystem::remove_all(folder);
  std::mt19937_64 rng(11);
  const int kills = std::getenv("REWRIGHT_FULL") != nullptr ? 100 : 4;
  int killed = 0, resumed = 0, finished = 0;
  while ((killed < kills || resumed == 0) && killed + finished < 4 * kills) {
    const bool resume = std::filesystem::exists(folder + "/latest");
    resumed += resume ? 1 : 0;
    const Outcome outcome = RewrightScript(absl::StrFormat(
        "timeout --foreground -s KILL %.3f $program train %s --threads 1 --checkpoint-dir %s %s >$out 2>$err",
        seconds * static_cast<double>(1 + rng() % 1100) / 1000, config, folder, resume ? "--resume" : ""));
    if (outcome.status == 0 || outcome.status == 124) {
      ++finished;
      EXPECT_EQ(Trained(config + " --resume --checkpoint-dir " + folder)["weights_sha256"], sha256);
      std::filesystem::remove_all(folder);
    } else {
      ASSERT_EQ(outcome.status, 137) << outcome.err;
      ++killed;
    }
  }
  EXPECT_GT(resumed, 0);
  const bool resume = std::filesystem::exists(folder + "/latest");
  const Json last = Trained(absl::StrCat(config, resume ? " --resume" : "", " --checkpoint-dir ", folder));
  EXPECT_EQ(last["weights_sha256"], sha256);
  EXPECT_EQ(last["steps"], 88);
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) names.push_back(entry.path().filename());
  EXPECT_THAT(names, ::testing::UnorderedElementsAre("latest", "lock", "step-00000087", "step-00000088"));
}

TEST_F(TrainTest, AnInterruptedRunSavesWhereItStands) {
  const std::string config = Config(R"({"epochs": 100000, "checkpoint": {"every_steps": 1000000000}})");
  const std::string folder = folder_ / "checkpoints";
  const Outcome outcome =
      RewrightInterrupted("train --threads 1 " + config + " --checkpoint-dir " + folder, "epoch 2,");
  EXPECT_EQ(outcome.status, 130);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("interrupted after step "), HasSubstr("--resume goes on from there")));
  const Outcome resumed = RewrightInterrupted("train --threads 1 --resume " + config + " --checkpoint-dir " + folder,
                                              "resumed after step");
  EXPECT_THAT(resumed.err, HasSubstr("resumed after step "));
}

// A mask of -inf is no weight, whatever decays.
TEST_F(TrainTest, AMaskOfAFileStaysAsItIs) {
  constexpr double kNever = -std::numeric_limits<double>::infinity();
  Rng rng(1);
  Tensor mask({DType::kFloat32, {8, 8}});
  for (int64_t i = 0; i < 64; ++i) mask.Set(i, i % 8 > i / 8 ? kNever : 0);
  for (const bool initializer : {false, true}) {
    TestModel model = TestModel(17).Input("x", {2, 8, 3});
    model.Initializer("w", RandomTensor({DType::kFloat32, {3, 8}}, rng, -1, 1));
    if (initializer) {
      model.Initializer("mask", mask);
    } else {
      model.Node("Constant", {}, {"mask"}, {{"value", mask}});
    }
    model.Node("MatMul", {"x", "w"}, {"a"}).Node("Add", {"a", "mask"}, {"b"}).Node("Softmax", {"b"}, {"y"}).Output("y");
    WriteContents(folder_ / "m.onnx", model.Bytes());
    ASSERT_TRUE(SaveNpy(folder_ / "x.npy", RandomTensor({DType::kFloat32, {8, 8, 3}}, rng, -1, 1)).ok());
    ASSERT_TRUE(SaveNpy(folder_ / "t.npy", RandomTensor({DType::kFloat32, {8, 8, 8}}, rng, 0, 1)).ok());
    WriteContents(folder_ / "c.json", R"({"model": {"onnx": "m.onnx"}, "steps": 4, "loss": "mean_squared_error",
        "data": {"inputs": {"x": "x.npy"}, "target": "t.npy", "batch": 2},
        "optimizer": {"kind": "momentum", "learning_rate": 0.1, "weight_decay": 0.01}})");
    const Outcome outcome =
        Rewright("train --json --threads 1 " + (folder_ / "c.json") + " -o " + (folder_ / "o.onnx"));
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr(R"({"trained":["w"],"left":{"mask":")"));
    EXPECT_THAT(outcome.out, Not(HasSubstr("null")));
    const auto trained = ImportOnnx(folder_ / "o.onnx");
    ASSERT_TRUE(trained.ok()) << trained.status();
    for (Value state : trained->graph.states()) {
      if (trained->graph.node(state.node).name == "mask") {
        EXPECT_TRUE(trained->graph.arena()->Elements(state.node)->BitEqual(mask));
      }
    }
  }
}

TEST_F(TrainTest, SaysWhatIsWrong) {
  const auto error = [](const std::string& arguments) {
    const Outcome outcome = Rewright("train " + arguments);
    EXPECT_EQ(outcome.status, 2) << outcome.err;
    EXPECT_THAT(outcome.out, ::testing::IsEmpty());
    return outcome.err;
  };
  EXPECT_THAT(error(""), HasSubstr("config is required"));
  EXPECT_THAT(error("/nonexistent.json"), HasSubstr("/nonexistent.json: cannot open"));
  EXPECT_THAT(error(Config() + " --resume"), HasSubstr("--resume: expected --checkpoint-dir, too"));
  EXPECT_THAT(error(Config(R"({"optimizer": {"rate": 1}})")),
              HasSubstr("config.json: optimizer.rate: is no field; expected "));
  EXPECT_THAT(error(Config(R"({"data": {"target": "absent.npy"}})")), HasSubstr("/absent.npy: cannot open"));
  EXPECT_THAT(error(Config() + " -o " + folder_.path()), HasSubstr("is a folder"));
  EXPECT_THAT(error(Config(R"({"model": {"mlp": null, "onnx": "absent.onnx"}})")), HasSubstr("absent.onnx"));
}

TEST_F(TrainTest, MetricsAreWrittenAsEvents) {
  const std::string events = folder_ / "events";
  Trained(Config(R"({"epochs": 1})") + " --tensorboard " + events);
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(events)) files.push_back(entry.path());
  ASSERT_EQ(files.size(), 1u);
  const std::string contents = FileContents(files[0]);
  size_t losses = 0;
  for (size_t at = 0; (at = contents.find("\x0a\x04loss", at)) != std::string::npos; ++at) ++losses;
  EXPECT_EQ(losses, 44u) << "one a step";
  EXPECT_THAT(contents,
              AllOf(HasSubstr("validation/accuracy"), HasSubstr("learning_rate"), HasSubstr("gradient_norm")));
  WriteContents(folder_ / "taken", "");
  EXPECT_THAT(Rewright("train " + Config() + " --tensorboard " + (folder_ / "taken")).err, HasSubstr("/taken: "));
}

// The examples that come with the program besides the digits above, made short; `most_loss` on the validation data.
struct ExampleCase {
  std::string name, config, patch;
  double most_loss;
};

void PrintTo(const ExampleCase& example, std::ostream* os) { *os << example.name; }

class Examples : public TrainTest, public ::testing::WithParamInterface<ExampleCase> {
 protected:
  // The example, its files by absolute paths.
  std::string Changed(const std::string& patch) {
    const std::filesystem::path path = std::string(REWRIGHT_SOURCE_DIR) + "/tools/examples/" + GetParam().config;
    const auto make_absolute = [&](Json& file) { file = (path.parent_path() / file.get<std::string>()).string(); };
    Json json = Json::parse(FileContents(path));
    for (Json* data : {&json["data"], &json["validation"]}) {
      make_absolute((*data)["inputs"]["x"]["file"]);
      Json& target = (*data)["target"];
      make_absolute(target.is_object() ? target["file"] : target);
    }
    json.merge_patch(Json::parse(GetParam().patch));
    json.merge_patch(Json::parse(patch));
    WriteContents(folder_ / "config.json", json.dump());
    return folder_ / "config.json";
  }
};

// Goes on with the order of samples, the masks of dropout and the running averages that it would have had.
TEST_P(Examples, LearnAndGoOnWhereTheyWere) {
  const std::string checkpoints = " --checkpoint-dir " + (folder_ / "checkpoints"), model = folder_ / "model.onnx";
  const Json whole = Trained(Changed("{}") + " -o " + model);
  EXPECT_LT(whole["validation_loss"], GetParam().most_loss);
  const int64_t steps = whole["steps"];
  Trained(Changed(absl::StrFormat(R"({"steps": %d})", steps / 3)) + checkpoints);
  EXPECT_EQ(Trained(Changed("{}") + " --resume" + checkpoints)["weights_sha256"], whole["weights_sha256"]);
  EXPECT_THAT(Rewright("inspect " + model).out, ::testing::Not(HasSubstr("random_uniform")));
  EXPECT_EQ(Rewright("run --iterations 1 " + model).status, 0);

  // The weights that were found, in the place of those that it starts with.
  std::filesystem::copy_file((folder_ / "checkpoints") + absl::StrFormat("/step-%08d/weights.safetensors", steps),
                             folder_ / "found");
  const Json further = Trained(Changed(R"({"model": {"weights": "found"}, "steps": 1, "validation": {"every_steps": 1},
                                           "optimizer": {"schedule": null, "learning_rate": 0}})"));
  // Running averages follow the batch of this step.
  EXPECT_NEAR(further["validation_loss"], whole["validation_loss"], 0.3 * whole["validation_loss"].get<double>());
  EXPECT_THAT(Rewright("train " + Changed(R"({"model": {"weights": "none"}})")).err, HasSubstr("none: cannot open"));
}

// Guessing by how often letters occur alone leaves a loss of 3.0.
constexpr char kShort[] = R"({"steps": 150, "data": {"batch": 16}, "validation": {"every_steps": 150},
                              "optimizer": {"schedule": null, "learning_rate": 0.004}})";
INSTANTIATE_TEST_SUITE_P(
    Examples, Examples,
    ::testing::Values(ExampleCase{"conv_net", "digits/conv_net.json",
                                  R"({"epochs": null, "steps": 120, "optimizer": {"schedule": null},
                                                           "validation": {"every_steps": 120}})",
                                  0.5},
                      ExampleCase{"lstm", "characters/lstm.json", kShort, 2.6},
                      ExampleCase{"gpt", "characters/gpt.json", kShort, 2.6}),
    [](const auto& info) { return info.param.name; });

// The general way: a model from a file, its weights frozen in part.
TEST_F(TrainTest, APageHasCurvesAndTheLanesOfRanks) {
  const std::string page = folder_ / "run.html";
  Trained(Config(R"({"data": {"micro_batches": 2}})") + " --report " + page);
  const std::string html = FileContents(page);
  for (const char* title : {"<h2>loss</h2>", "<h2>learning_rate</h2>", "<h2>seconds</h2>", "<h2>Ranks</h2>"}) {
    EXPECT_THAT(html, HasSubstr(title));
  }
  EXPECT_THAT(html, HasSubstr("validation/loss: "));
  EXPECT_THAT(html, HasSubstr("RUN s0 of 0: "));
  EXPECT_THAT(html, HasSubstr("RUN s0 of 1: "));
  EXPECT_THAT(html, Not(HasSubstr("<script")));
  EXPECT_EQ(Rewright("train " + Config() + " --report /nonexistent/r.html").status, 2);
}

TEST_F(TrainTest, AModelOfAFileIsTrained) {
  const std::string first = folder_ / "first.onnx", second = folder_ / "second.onnx";
  const Json before = Trained(Config() + " -o " + first);
  const Json after =
      Trained(Config(R"({"model": {"mlp": null, "onnx": "first.onnx"}, "epochs": 3})") + " -o " + second);
  EXPECT_LT(after["validation_loss"], before["validation_loss"]);
  EXPECT_GT(after["accuracy"], 0.9);
  EXPECT_THAT(Rewright("train " + Config(R"({"model": {"mlp": null, "onnx": "first.onnx", "frozen": ["*"]}})")).err,
              HasSubstr("the model has no weight to train"));
  TestModel fixed;
  fixed.Input("x", {32, 64}).Initializer("w", Weight()).Node("MatMul", {"x", "w"}, {"y"}).Output("y");
  WriteContents(folder_ / "fixed.onnx", fixed.Bytes());
  EXPECT_THAT(
      Rewright("train " + Config(R"({"model": {"mlp": null, "onnx": "fixed.onnx"}, "data": {"batch": 16}})")).err,
      HasSubstr("data.batch: found 16, expected the size of axis 0 of input x f32[32,64]"));
}

// Rows of a batch do not see each other, so each is what it is alone.
TEST_F(TrainTest, ATrainedModelRunsAtAnyBatch) {
  const std::string first = folder_ / "first.onnx", second = folder_ / "second.onnx";
  Trained(Config() + " -o " + first);
  Trained(Config(R"({"model": {"mlp": null, "onnx": "first.onnx"}, "data": {"batch": 16}, "epochs": 1})") + " -o " +
          second);
  for (const std::string& path : {first, second}) {
    std::vector<std::vector<Tensor>> outputs;
    for (const int64_t batch : {3, 1}) {
      const auto model = ImportOnnx(path, {.dims = {{"batch", batch}}});
      ASSERT_TRUE(model.ok()) << model.status();
      outputs.push_back(OutputsOf(model->graph, {{"x", Iota({batch, 64})}}));
    }
    ASSERT_EQ(outputs[0][0].type().shape, (Shape{3, 10}));
    for (int64_t i = 0; i < 10; ++i) EXPECT_EQ(outputs[0][0].At(i), outputs[1][0].At(i));
  }
}

// A size that the nodes of the file have as a number, too.
TEST_F(TrainTest, ATrainedModelOfOneBatchIsSaidToBeThat) {
  TestModel model;
  model.Input("x", {-1, 64})
      .Initializer("w", Weight())
      .Node("MatMul", {"x", "w"}, {"p"})
      .Ints("shape", {32, 10})
      .Node("Reshape", {"p", "shape"}, {"y"})
      .Output("y");
  WriteContents(folder_ / "model.onnx", model.Bytes());
  const std::string path = folder_ / "trained.onnx";
  const std::string config = Config(R"({"model": {"mlp": null, "onnx": "model.onnx", "dims": {"x:0": 32}},
                                        "optimizer": {"groups": null}})");
  const Outcome outcome = Rewright("train --threads 1 " + config + " -o " + path);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr(path + ": runs at x:0 = 32 alone: "));
  EXPECT_EQ(Rewright("run --iterations 1 " + path).status, 0);
}

TEST_F(TrainTest, ARunIsResumedWhereThereIsNothingYet) {
  const std::string arguments = "train --threads 1 --resume --checkpoint-dir " + (folder_ / "ck") + " " + Config();
  EXPECT_THAT(Rewright(arguments).err, HasSubstr("ck: no checkpoint yet, the run begins"));
  EXPECT_THAT(Rewright(arguments).err, HasSubstr("resumed after step "));
}

// The search is not repeated where a run goes on: it takes the program that was found.
TEST_F(TrainTest, AStepThatWasSearchedForTrainsAlike) {
  const auto config = [this](int epochs) {
    return Config(absl::StrFormat(R"({"epochs": %d, "optimizer": {"schedule": null}})", epochs));
  };
  const std::string checkpoints = " --checkpoint-dir " + (folder_ / "checkpoints"), search = " --search-time 5";
  const Outcome outcome = Rewright("train --threads 1 --json " + config(1) + search + checkpoints);
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("the step: "));
  const std::vector<Json> lines = Lines(outcome.out);
  EXPECT_GT(lines[0]["cost_before_ms"], 0);
  EXPECT_LE(lines[0]["cost_after_ms"], lines[0]["cost_before_ms"]);
  const Json whole = Trained(config(2)), resumed = Trained(config(2) + search + " --resume" + checkpoints);
  EXPECT_NEAR(resumed["final_loss"], whole["final_loss"], 1e-4);
  EXPECT_EQ(resumed["steps"], whole["steps"]);
  EXPECT_THAT(Rewright("train --search-time -1 " + config(1)).err, HasSubstr("--search-time"));
}

// Two graphs are made of the file for training; a run that is interrupted goes on with the masks that would have come,
// and the model that is written drops nothing.
TEST_F(TrainTest, DropoutAndBatchNormOfAFileAreTrained) {
  Rng rng(3);
  const auto per_feature = [](double value) {
    return Tensor::FromVector(DType::kFloat32, {64}, std::vector<double>(64, value));
  };
  TestModel model(15);
  model.Input("x", {-1, 64}).Initializer("w", RandomTensor({DType::kFloat32, {64, 10}}, rng, -0.1, 0.1));
  for (const auto& [name, value] : {std::pair("norm.scale", 1), {"norm.bias", 0}, {"norm.mean", 0}, {"norm.var", 1}}) {
    model.Initializer(name, per_feature(value));
  }
  model
      .Node("BatchNormalization", {"x", "norm.scale", "norm.bias", "norm.mean", "norm.var"}, {"b"},
            {{"training_mode", int64_t{1}}})
      .Initializer("ratio", Tensor::Scalar(DType::kFloat32, 0.2))
      .Initializer("training", Tensor::Scalar(DType::kBool, 1))
      .Node("Dropout", {"b", "ratio", "training"}, {"d"})
      .Node("MatMul", {"d", "w"}, {"logits"})
      .Output("logits");
  WriteContents(folder_ / "model.onnx", model.Bytes());
  const auto config = [this](int epochs) {
    return Config(absl::StrFormat(R"({"model": {"mlp": null, "onnx": "model.onnx"}, "optimizer": {"schedule": null},
                                      "epochs": %d})",
                                  epochs));
  };
  const std::string trained = folder_ / "trained.onnx", checkpoints = " --checkpoint-dir " + (folder_ / "checkpoints");
  const Json whole = Trained(config(2) + " -o " + trained);
  EXPECT_GT(whole["accuracy"], 0.85);
  EXPECT_NE(Trained(config(2) + " --seed 5")["weights_sha256"], whole["weights_sha256"]);
  Trained(config(1) + checkpoints);
  EXPECT_EQ(Trained(config(2) + " --resume" + checkpoints)["weights_sha256"], whole["weights_sha256"]);
  const Outcome shown = Rewright("inspect " + trained);
  EXPECT_THAT(shown.out, AllOf(HasSubstr("batch_norm"), ::testing::Not(HasSubstr("random_uniform"))));
  EXPECT_EQ(Rewright("run --iterations 1 " + trained).status, 0);
}

}  // namespace
}  // namespace rewright
