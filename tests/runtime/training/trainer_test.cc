// Tests the training loop: results do not depend on interruptions, threads or the device.
#include "runtime/training/trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <limits>

#include "absl/strings/str_cat.h"
#include "backends/device_factory.h"
#include "core/base/sha256.h"
#include "core/ir/random_tensors.h"
#include "runtime/executor.h"
#include "runtime/reference_runner.h"
#include "tests/runtime/training/stored_forms_util.h"
#include "tests/tools/program/program_util.h"

namespace rewright {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Json = nlohmann::ordered_json;

class TrainerTest : public ::testing::Test {
 protected:
  TrainerTest() : device_(*MakeDevice("cpu")), runner_(MakeGraphRunner(*device_)) {
    Rng rng(1);
    WriteSamples("train", 23, rng);
    WriteSamples("valid", 7, rng);
    json_ = Json::parse(R"({"model": {"mlp": {"sizes": [6, 9, 3]}},
      "data": {"inputs": {"x": "train_x.npy"}, "target": "train_y.npy", "batch": 4},
      "loss": "cross_entropy",
      "optimizer": {"kind": "adamw", "learning_rate": 0.02, "weight_decay": 0.01, "clip_norm": 2,
                    "schedule": {"kind": "cosine", "warmup": 2, "steps": 20}},
      "steps": 12})");
    with_validation_ =
        Json::parse(R"({"validation": {"inputs": {"x": "valid_x.npy"}, "target": "valid_y.npy", "every_steps": 3}})");
  }

  // Random points; the label tells which of the first three coordinates is the largest.
  void WriteSamples(const std::string& name, int64_t count, Rng& rng) {
    const Tensor x = RandomTensor({DType::kFloat32, {count, 6}}, rng, -1, 1);
    Tensor y({DType::kInt64, {count}});
    for (int64_t i = 0; i < count; ++i) {
      int64_t label = 0;
      for (int64_t k = 1; k < 3; ++k) label = x.At(6 * i + k) > x.At(6 * i + label) ? k : label;
      y.SetInt(i, label);
    }
    ASSERT_TRUE(SaveNpy(folder_ / (name + "_x.npy"), x).ok());
    ASSERT_TRUE(SaveNpy(folder_ / (name + "_y.npy"), y).ok());
  }

  absl::StatusOr<std::unique_ptr<Trainer>> Make(const Json& json, const std::string& checkpoints = "",
                                                bool resume = false, GraphRunner* runner = nullptr,
                                                const std::vector<StoredForm>& forms = {}) {
    const auto config = ParseTrainConfig(json.dump());
    if (!config.ok()) return config.status();
    TrainerOptions options;
    options.data_folder = folder_.path();
    options.checkpoint_folder = checkpoints.empty() ? "" : folder_ / checkpoints;
    options.resume = resume;
    if (!forms.empty()) options.rewrite_whole = InForms(forms);
    const TrainableModel model = MakeModel(*config->built_in, config->micro_batch(), config->seed);
    return Trainer::Create(*config, model, runner != nullptr ? *runner : *runner_, options);
  }
  std::string Error(const Json& json, const std::string& checkpoints = "", bool resume = false) {
    return std::string(Make(json, checkpoints, resume).status().message());
  }
  Json With(const std::string& patch) const {
    Json json = json_;
    json.merge_patch(Json::parse(patch));
    return json;
  }

  struct Outcome {
    std::vector<StepReport> reports;
    absl::Status status;
    std::string sha256, ended_by;
  };
  // Runs to the end, or until `stop_at` steps are made.
  static Outcome Run(Trainer& trainer, int64_t stop_at = 0) {
    Outcome outcome;
    outcome.status = trainer.Run([&](const StepReport& report) { outcome.reports.push_back(report); },
                                 [&] { return stop_at > 0 && trainer.position() >= stop_at; });
    outcome.sha256 = *trainer.WeightsSha256();
    outcome.ended_by = trainer.ended_by();
    return outcome;
  }
  Outcome RunAll(const Json& json) {
    const auto trainer = Make(json);
    EXPECT_TRUE(trainer.ok()) << trainer.status();
    return Run(**trainer);
  }

  TemporaryFolder folder_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<GraphRunner> runner_;
  Json json_, with_validation_;
};

TEST_F(TrainerTest, LearnsWhatCanBeLearnt) {
  Json json = With(R"({"steps": 300})");
  json.merge_patch(with_validation_);
  json["optimizer"]["schedule"] = nullptr;
  json["optimizer"].erase("schedule");
  const Outcome outcome = RunAll(json);
  ASSERT_TRUE(outcome.status.ok()) << outcome.status;
  ASSERT_EQ(outcome.reports.size(), 300u);
  EXPECT_EQ(outcome.ended_by, "steps");
  EXPECT_GT(outcome.reports.front().loss, 0.7);
  EXPECT_LT(outcome.reports.back().loss, 0.1);
  EXPECT_EQ(outcome.reports[299].epoch, 60);
  EXPECT_EQ(outcome.reports[298].measurement.has_value(), false);
  EXPECT_TRUE(outcome.reports[299].measurement.has_value());
  EXPECT_EQ(outcome.reports[0].gradient_norm.has_value(), true);
}

TEST_F(TrainerTest, ThreadsThatReadAheadChangeNothing) {
  const std::string expected = RunAll(With(R"({"data": {"prefetch_threads": 0}})")).sha256;
  for (int threads : {1, 2, 5}) {
    EXPECT_EQ(RunAll(With(absl::StrCat(R"({"data": {"prefetch_threads": )", threads, "}}"))).sha256, expected);
  }
  EXPECT_NE(RunAll(With(R"({"seed": 2})")).sha256, expected);
}

TEST_F(TrainerTest, TheDeviceAgreesWithTheReference) {
  const Outcome fast = RunAll(json_);
  const auto reference = MakeReferenceRunner(1);
  const auto trainer = Make(json_, "", false, reference.get());
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  const Outcome slow = Run(**trainer);
  ASSERT_EQ(fast.reports.size(), slow.reports.size());
  for (size_t i = 0; i < fast.reports.size(); ++i) {
    EXPECT_NEAR(fast.reports[i].loss, slow.reports[i].loss, 1e-5) << "step " << i + 1;
    EXPECT_NEAR(*fast.reports[i].gradient_norm, *slow.reports[i].gradient_norm, 1e-5) << "step " << i + 1;
  }
}

TEST_F(TrainerTest, AResumedRunIsTheSameToTheLastBit) {
  Json json = With(R"({"checkpoint": {"every_steps": 5}})");
  json.merge_patch(with_validation_);
  const Outcome whole = RunAll(json);
  ASSERT_TRUE(whole.status.ok()) << whole.status;
  for (int64_t stop : {1, 5, 7, 11}) {
    const std::string name = absl::StrCat("ck", stop);
    {
      const auto first = Make(json, name);
      ASSERT_TRUE(first.ok()) << first.status();
      EXPECT_EQ(Run(**first, stop).ended_by, "stop");
      EXPECT_EQ((*first)->position(), stop);
    }
    const auto second = Make(json, name, /*resume=*/true);
    ASSERT_TRUE(second.ok()) << second.status();
    EXPECT_EQ((*second)->position(), stop);
    const Outcome rest = Run(**second);
    ASSERT_TRUE(rest.status.ok()) << rest.status;
    EXPECT_EQ(rest.sha256, whole.sha256) << "stopped behind step " << stop;
    ASSERT_EQ(rest.reports.size(), static_cast<size_t>(12 - stop));
    for (size_t i = 0; i < rest.reports.size(); ++i) {
      EXPECT_EQ(rest.reports[i].loss, whole.reports[i + static_cast<size_t>(stop)].loss);
    }
    EXPECT_EQ(rest.reports.back().measurement->loss, whole.reports.back().measurement->loss);
    const auto third = Make(json, name, /*resume=*/true);  // at the end there is nothing to do
    ASSERT_TRUE(third.ok()) << third.status();
    const Outcome nothing = Run(**third);
    EXPECT_TRUE(nothing.reports.empty());
    EXPECT_EQ(nothing.sha256, whole.sha256);
  }
}

// A step that keeps weights joined writes checkpoints and models with the names and shapes of a step without.
TEST_F(TrainerTest, StoredFormsAreSeenNowhereOutsideOfTheStep) {
  Json json = json_;
  json["model"] = Json::parse(R"({"mlp": {"sizes": [6, 9, 9, 3]}})");
  json.update(with_validation_);
  const std::vector<StoredForm> forms = {{0, {"layer1.bias", "layer0.bias"}}};
  const auto make = [&](const std::string& name, int64_t steps, bool resume, bool store) {
    json["steps"] = steps;
    auto trainer = Make(json, name, resume, nullptr, store ? forms : std::vector<StoredForm>());
    EXPECT_TRUE(trainer.ok()) << trainer.status();
    return *std::move(trainer);
  };
  const auto plain = make("plain", 12, false, false), stored = make("stored", 12, false, true);
  const auto parts = make("parts", 5, false, true);
  EXPECT_EQ(stored->stored_forms(), forms);
  EXPECT_EQ(stored->state_bytes(), plain->state_bytes());
  Run(*plain), Run(*stored), Run(*parts);
  EXPECT_EQ(*stored->WeightsSha256(), *plain->WeightsSha256());
  EXPECT_EQ(stored->Measure()->loss, plain->Measure()->loss);
  // Resumes with the program that it finds, forms included, without a search.
  const auto resumed = make("parts", 12, true, false);
  EXPECT_EQ(resumed->stored_forms(), forms);
  Run(*resumed);
  EXPECT_EQ(*resumed->WeightsSha256(), *plain->WeightsSha256());
  const auto a = ReadCheckpoint(folder_ / "plain"), b = ReadCheckpoint(folder_ / "stored");
  ASSERT_TRUE(a.ok() && b.ok()) << a.status() << b.status();
  EXPECT_EQ(SafetensorsSha256(a->weights), SafetensorsSha256(b->weights));
  EXPECT_EQ(SafetensorsSha256(a->optimizer), SafetensorsSha256(b->optimizer));
}

TEST_F(TrainerTest, MeasuresEverySampleOnce) {
  double losses[2], accuracies[2];
  for (int i = 0; i < 2; ++i) {
    Json json = With(i == 0 ? R"({"data": {"batch": 4}})" : R"({"data": {"batch": 7}})");
    json.merge_patch(with_validation_);
    const auto trainer = Make(json);
    ASSERT_TRUE(trainer.ok()) << trainer.status();
    const auto measurement = (*trainer)->Measure();  // of the initial weights, which are the same
    ASSERT_TRUE(measurement.ok()) << measurement.status();
    losses[i] = measurement->loss;
    accuracies[i] = *measurement->accuracy;
  }
  EXPECT_NEAR(losses[0], losses[1], 1e-6);
  EXPECT_EQ(accuracies[0], accuracies[1]);
  EXPECT_NEAR(7 * accuracies[0], std::round(7 * accuracies[0]), 1e-9);
}

TEST_F(TrainerTest, EndsWhereTheValidationLossNoLongerFalls) {
  Json json = With(R"({"steps": 500, "optimizer": {"learning_rate": 0}})");
  json.merge_patch(with_validation_);
  json["validation"]["patience"] = 2;
  const auto trainer = Make(json, "ck");
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  const Outcome outcome = Run(**trainer);
  EXPECT_EQ(outcome.ended_by, "patience");
  EXPECT_EQ(outcome.reports.size(), 9u) << "measured behind steps 3, 6 and 9";
  const auto resumed = Make(json, "ck", /*resume=*/true);
  ASSERT_TRUE(resumed.ok()) << resumed.status();
  EXPECT_TRUE(Run(**resumed).reports.empty());
}

TEST_F(TrainerTest, NumbersThatAreNotFiniteStopTheRunOrSkipTheStep) {
  Tensor x = *LoadNpy(*InputFile::Open(folder_ / "train_x.npy"));
  x.Set(6 * 11, std::numeric_limits<double>::infinity());
  ASSERT_TRUE(SaveNpy(folder_ / "train_x.npy", x).ok());
  const auto trainer = Make(With(R"({"checkpoint": {"every_steps": 1, "keep": 1}, "steps": 10})"), "ck");
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  const Outcome stopped = Run(**trainer);
  const auto step = static_cast<int64_t>(stopped.reports.size()) + 1;
  EXPECT_THAT(std::string(stopped.status.message()),
              AllOf(HasSubstr(absl::StrCat("step ", step, ": ")), HasSubstr(" is not finite (found "),
                    HasSubstr("the weights are as before this step")));
  EXPECT_EQ((*trainer)->position(), step - 1);
  EXPECT_EQ(ReadCheckpoint(folder_ / "ck")->progress["position"], step - 1);
  EXPECT_EQ(SafetensorsSha256(ReadCheckpoint(folder_ / "ck")->weights), stopped.sha256);

  const Outcome skipped = RunAll(With(R"({"non_finite": "skip", "steps": 10})"));
  ASSERT_TRUE(skipped.status.ok()) << skipped.status;
  ASSERT_EQ(skipped.reports.size(), 10u);
  int64_t count = 0;
  for (const StepReport& report : skipped.reports) count += report.skipped ? 1 : 0;
  EXPECT_GE(count, 1);
  EXPECT_LE(count, 2) << "once an epoch";
  EXPECT_TRUE(skipped.reports[static_cast<size_t>(step) - 1].skipped);
  // The optimizer has made one step fewer: a skipped step's learning rate is used again.
  EXPECT_EQ(skipped.reports[static_cast<size_t>(step)].learning_rate,
            skipped.reports[static_cast<size_t>(step) - 1].learning_rate);
}

// No batch changes anything; such a run is an error.
TEST_F(TrainerTest, ARunWhoseStepsAreAllSkippedIsAnError) {
  Tensor x = *LoadNpy(*InputFile::Open(folder_ / "train_x.npy"));
  for (int64_t i = 0; i < 23; ++i) x.Set(6 * i, std::numeric_limits<double>::quiet_NaN());
  ASSERT_TRUE(SaveNpy(folder_ / "train_x.npy", x).ok());
  const Outcome skipped = RunAll(With(R"({"non_finite": "skip", "steps": 30})"));
  EXPECT_EQ(skipped.reports.size(), 5u) << "an epoch";
  EXPECT_THAT(std::string(skipped.status.message()), HasSubstr("the last 5 steps were skipped"));
}

// Gradients are finite, but values computed from them are not: squares, and a quotient of zeros.
TEST_F(TrainerTest, NextValuesThatAreNotFiniteAreNotTaken) {
  Tensor x = *LoadNpy(*InputFile::Open(folder_ / "train_x.npy"));
  for (int64_t i = 0; i < 23; ++i) x.Set(6 * i + 5, 1e25);
  ASSERT_TRUE(SaveNpy(folder_ / "train_x.npy", x).ok());
  const Outcome large = RunAll(With(R"({"model": {"mlp": {"sizes": [6, 3]}}, "optimizer": {"clip_norm": 0}})"));
  EXPECT_THAT(std::string(large.status.message()), HasSubstr("step 1: the gradient of layer0.weight is too large"));

  for (int64_t i = 0; i < 23; ++i) x.Set(6 * i + 5, 0);  // the gradient of a row of the weight
  ASSERT_TRUE(SaveNpy(folder_ / "train_x.npy", x).ok());
  const auto trainer = Make(With(R"({"optimizer": {"epsilon": 0}})"), "ck");
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  const NamedTensors before = *(*trainer)->Weights();
  const Outcome quotient = Run(**trainer);
  EXPECT_THAT(std::string(quotient.status.message()),
              AllOf(HasSubstr("step 1: the next value of layer0.weight is not finite (found nan)"),
                    HasSubstr("the weights are as before this step")));
  EXPECT_EQ(SafetensorsSha256(before), quotient.sha256);
  EXPECT_FALSE(HasCheckpoint(folder_ / "ck"));
}

TEST_F(TrainerTest, AFolderIsOfOneRunAtATime) {
  const auto first = Make(With(R"({"checkpoint": {"every_steps": 3}})"), "ck");
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_THAT(Error(json_, "ck"), HasSubstr("another run writes its checkpoints there, process "));
  EXPECT_TRUE(Run(**first, 3).status.ok());
  const auto second = Make(json_, "ck", true);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_THAT(Error(json_, "ck", true), HasSubstr("another run writes its checkpoints there, process "));
}

TEST_F(TrainerTest, TheCheckpointThatLatestNamesIsKept) {
  // The folder belongs to a run that was killed before it named its last checkpoint.
  std::filesystem::create_directories(folder_ / "ck/step-00000099");
  const auto trainer = Make(With(R"({"checkpoint": {"every_steps": 3, "keep": 1}, "steps": 6})"), "ck");
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  EXPECT_TRUE(Run(**trainer).status.ok());
  const auto checkpoint = ReadCheckpoint(folder_ / "ck");
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_EQ(checkpoint->progress["position"], 6);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "ck/step-00000003"));
}

// A run that was killed before it named its first checkpoint, or a file that was lost.
TEST_F(TrainerTest, ACheckpointThatIsNotNamedCounts) {
  const Json json = With(R"({"checkpoint": {"every_steps": 3, "keep": 1}, "steps": 6})");
  {
    const auto trainer = Make(json, "ck");
    ASSERT_TRUE(trainer.ok()) << trainer.status();
    EXPECT_TRUE(Run(**trainer, 3).status.ok());
  }
  std::filesystem::remove(folder_ / "ck/latest");
  EXPECT_TRUE(HasCheckpoint(folder_ / "ck"));
  EXPECT_THAT(Error(json, "ck"), HasSubstr("checkpoint"));
  const auto resumed = Make(json, "ck", true);
  ASSERT_TRUE(resumed.ok()) << resumed.status();
  EXPECT_EQ((*resumed)->position(), 3);
}

TEST_F(TrainerTest, TheTrainedModelIsTheOneThatWasMeasured) {
  Json json = json_;
  json.merge_patch(with_validation_);
  const auto trainer = Make(json);
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  const Outcome outcome = Run(**trainer);
  const auto model = (*trainer)->Trained();
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->mode(), Mode::kInference);
  const Tensor x = *LoadNpy(*InputFile::Open(folder_ / "valid_x.npy"));
  const Tensor y = *LoadNpy(*InputFile::Open(folder_ / "valid_y.npy"));
  int64_t right = 0;
  auto executable = *MakeReferenceRunner(1)->Prepare(*model);
  for (int64_t first = 0; first < 7; first += 4) {
    Tensor batch({DType::kFloat32, {4, 6}});
    for (int64_t k = 0; k < std::min<int64_t>(24, 42 - 6 * first); ++k) batch.Set(k, x.At(6 * first + k));
    std::vector<Tensor> logits;
    ASSERT_TRUE(executable->Run({batch}, &logits).ok());
    for (int64_t i = 0; i < std::min<int64_t>(4, 7 - first); ++i) {
      int64_t best = 0;
      for (int64_t c = 1; c < 3; ++c) best = logits[0].At(3 * i + c) > logits[0].At(3 * i + best) ? c : best;
      right += best == y.AtInt(first + i) ? 1 : 0;
    }
  }
  EXPECT_NEAR(*outcome.reports.back().measurement->accuracy, static_cast<double>(right) / 7, 1e-9);
}

TEST_F(TrainerTest, SaysWhatDoesNotFit) {
  EXPECT_EQ(Error(With(R"({"data": {"batch": 24}})")),
            "data.batch: found 24, expected at most the 23 samples that there are");
  EXPECT_EQ(Error(With(R"({"data": {"inputs": {"x": null, "z": "train_x.npy"}}})")),
            "data.inputs.x: is missing; the model has that input, f32[4,6]");
  EXPECT_EQ(Error(With(R"({"data": {"inputs": {"z": "train_x.npy"}}})")), "data.inputs.z: the model has no such input");
  EXPECT_THAT(Error(With(R"({"data": {"target": "train_x.npy"}})")), HasSubstr("train_x.npy: found an array [23,6]"));
  EXPECT_THAT(Error(With(R"({"model": {"mlp": {"sizes": [6, 2]}}})")), HasSubstr("found 2, expected 0 to 1"));
  EXPECT_THAT(Error(With(R"({"optimizer": {"groups": [{"match": "bias"}]}})")), HasSubstr("`bias` fits none"));
}

TEST_F(TrainerTest, AResumedRunIsOfTheSameConfiguration) {
  {
    const auto trainer = Make(json_, "ck", /*resume=*/true);  // nothing is there yet: the run begins
    ASSERT_TRUE(trainer.ok()) << trainer.status();
    Run(**trainer, 3);
  }
  EXPECT_EQ(Error(json_, "ck"), (folder_ / "ck") +
                                    ": holds checkpoints; --resume goes on from the last, "
                                    "another folder begins anew");
  EXPECT_EQ(Error(With(R"({"seed": 2})"), "ck", true), (folder_ / "ck") + ": seed: found 2, the checkpoint has 1");
  EXPECT_THAT(Error(With(R"({"optimizer": {"clip_norm": 3}})"), "ck", true), HasSubstr("optimizer.clip_norm: found 3"));
  EXPECT_TRUE(Make(With(R"({"steps": 15})"), "ck", true).ok()) << "a run may become longer";
}

// Changes at random the data from which a run resumes: a file of its checkpoint, the forms in which its program keeps
// weights, the configuration. A changed checkpoint is never run: its digests show the change, or, if these fit, its
// contents.
class DamagedTest : public TrainerTest {
 protected:
  // Saves the files of a checkpoint after step 3.
  void Save(bool joined) {
    json_["model"] = Json::parse(R"({"mlp": {"sizes": [6, 9, 9, 3]}})");
    const auto trainer = Make(json_, "ck", false, nullptr, joined ? kForms : std::vector<StoredForm>());
    ASSERT_TRUE(trainer.ok()) << trainer.status();
    Run(**trainer, 3);
    for (const std::string& file : files_) good_[file] = FileContents(file);
  }
  // Writes digests that fit the changed files.
  void Seal() {
    Json json = Json::parse(FileContents(files_[3]), nullptr, false);
    if (!json.is_object()) return;
    for (int i = 0; i < 3; ++i) {
      json["sha256"][std::filesystem::path(files_[i]).filename()] = Sha256::HexOf(FileContents(files_[i]));
    }
    WriteContents(files_[3], json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
    WriteContents(files_[4], "step-00000003 " + Sha256::HexOf(FileContents(files_[3])) + "\n");
  }
  std::string Changed(std::string bytes) {
    for (uint64_t k = rng_() % 3; k < 3; ++k) {
      const char common[] = "0123456789[]{}:,\"%=()";
      const size_t at = rng_() % std::min<size_t>(bytes.size(), 4000);
      bytes[at] = static_cast<char>(rng_() % 3 == 0 ? rng_() : common[rng_() % (sizeof common - 1)]);
    }
    if (rng_() % 8 == 0) bytes.resize(rng_() % bytes.size());
    return bytes;
  }
  // Uses other valid forms than those of the program.
  std::string WithOtherForms(const std::string& progress) {
    Json json = Json::parse(progress);
    Json& forms = json["progress"]["stored_forms"];
    const char* names[] = {"layer0.bias", "layer1.bias", "layer1.weight", "layer2.bias", "optimizer.step", "x", ""};
    for (uint64_t k = rng_() % 2; k < 2; ++k) {
      Json form = {{"axis", static_cast<int64_t>(rng_() % 5) - 1}, {"parts", Json::array()}};
      if (rng_() % 8 == 0) form["axis"] = std::numeric_limits<int64_t>::max() - static_cast<int64_t>(rng_() % 2);
      for (uint64_t n = rng_() % 4; n < 4; ++n) form["parts"].push_back(names[rng_() % std::size(names)]);
      if (rng_() % 2 == 0) forms = Json::array();
      forms.push_back(form);
    }
    return json.dump(2) + "\n";
  }
  // True if resuming the run was refused; a run that is accepted makes a step.
  bool IsRefused(const Json& json) {
    const auto trainer = Make(json, "ck", true);
    if (!trainer.ok()) {
      EXPECT_THAT(std::string(trainer.status().message()), HasSubstr(folder_ / "ck"));
      return true;
    }
    Run(**trainer, 4);
    std::filesystem::remove_all((folder_ / "ck") + "/step-00000004");
    return false;
  }

  const std::vector<StoredForm> kForms = {{0, {"layer1.bias", "layer0.bias"}}};
  const std::string step_ = (folder_ / "ck") + "/step-00000003/";
  const std::vector<std::string> files_ = {step_ + "weights.safetensors", step_ + "optimizer.safetensors",
                                           step_ + "program.txt", step_ + "train.json", (folder_ / "ck") + "/latest"};
  std::map<std::string, std::string> good_;
  Rng rng_{8};
};

TEST_F(DamagedTest, CheckpointsAreRefused) {
  for (const bool joined : {false, true}) {
    std::filesystem::remove_all(folder_ / "ck");
    Save(joined);
    const int count = std::getenv("REWRIGHT_FULL") != nullptr ? 8'000 : 150;
    int refused = 0;
    for (int i = 0; i < count; ++i) {
      for (const auto& [file, contents] : good_) WriteContents(file, contents);
      const bool sealed = i % 2 == 0, forms = sealed && joined && i % 8 == 0;
      const std::string& file = files_[forms ? 3 : rng_() % (sealed ? 4 : 5)];
      const std::string bytes = forms ? WithOtherForms(good_[file]) : Changed(good_[file]);
      WriteContents(file, bytes);
      if (sealed) Seal();
      if (bytes == good_[file]) continue;
      const bool is_refused = IsRefused(json_);
      refused += is_refused;
      EXPECT_TRUE(sealed || is_refused) << file << " was changed";
    }
    EXPECT_GT(refused, count / 2);
  }
}

// States may differ between versions, as running averages did.
TEST_F(DamagedTest, CheckpointsOfOtherStatesAreRefusedByName) {
  Save(/*joined=*/false);
  auto weights = ReadSafetensors(files_[0]);
  ASSERT_TRUE(weights.ok()) << weights.status();
  const auto states = static_cast<int>(weights->size()) + static_cast<int>(ReadSafetensors(files_[1])->size());
  const Tensor bias = weights->at("layer0.bias");
  weights->erase("layer1.bias");
  weights->emplace("norm.running_mean", bias);
  (*weights)["layer0.bias"] = Tensor({DType::kFloat32, {2}});
  ASSERT_TRUE(WriteSafetensors(files_[0], *weights).ok());
  Seal();
  EXPECT_THAT(Error(json_, "ck", true),
              HasSubstr(absl::StrCat("the checkpoint's tensors: found ", states, ", expected the ", states,
                                     " states of this run; it lacks layer1.bias, and has beside them "
                                     "norm.running_mean, and has layer0.bias f32[2] in place of f32[9]")));
}

TEST_F(DamagedTest, ConfigurationsAreReadOrRefused) {
  Save(/*joined=*/true);
  const std::string text = json_.dump();
  int refused = 0;
  const int count = std::getenv("REWRIGHT_FULL") != nullptr ? 4'000 : 150;
  for (int i = 0; i < count; ++i) {
    for (const auto& [file, contents] : good_) WriteContents(file, contents);
    const Json json = Json::parse(Changed(text), nullptr, false);
    const auto trainer = Make(json, "ck", true);
    refused += !trainer.ok();
    if (trainer.ok()) Run(**trainer, 4);
    std::filesystem::remove_all((folder_ / "ck") + "/step-00000004");
  }
  EXPECT_GT(refused, count / 2);
}

}  // namespace
}  // namespace rewright
