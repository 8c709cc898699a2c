// Training in micro-batches, shared by ranks: the same weights to the last bit on any number of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <omp.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "absl/strings/str_cat.h"
#include "backends/device_factory.h"
#include "core/base/status_macros.h"
#include "runtime/comm/in_process.h"
#include "runtime/executor.h"
#include "runtime/train/trainer.h"
#include "tests/tools/program_util.h"

namespace rewright {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using Json = nlohmann::ordered_json;

struct Trained {
  absl::Status status;
  std::vector<double> losses;           // by step
  std::optional<Measurement> measured;  // the last one
  std::string sha256;                   // of the weights
  int64_t position = 0;
  int64_t bytes_sent = 0;
};

// What a rank is told that others are not.
using Told = std::function<void(int rank, Json* config, TrainerOptions* options)>;

class RanksTest : public ::testing::Test {
 protected:
  RanksTest() {
    json_ = Json::parse(R"({"model": {"mlp": {"sizes": [64, 24, 10]}},
      "data": {"inputs": {"x": {"file": "train_x.npy", "scale": 0.0625}}, "target": "train_y.npy", "batch": 24,
               "micro_batches": 4},
      "loss": "cross_entropy",
      "optimizer": {"kind": "adamw", "learning_rate": 0.02, "weight_decay": 0.01, "clip_norm": 2,
                    "schedule": {"kind": "cosine", "warmup": 5, "steps": 45}},
      "steps": 50})");
    validation_ = Json::parse(R"({"validation": {"inputs": {"x": {"file": "test_x.npy", "scale": 0.0625}},
                                                 "target": "test_y.npy", "every_steps": 25}})");
  }

  // On so many ranks, each of them one thread; up to the end or until so many steps are made.
  std::vector<Trained> Train(const Json& json, int size, const std::string& checkpoints = "", bool resume = false,
                             int64_t stop_at = 0, const Told& told = nullptr, double limit = 60) {
    std::vector<Trained> outcomes(static_cast<size_t>(size));
    const auto statuses = OnRanks(size, [&](Communicator& ranks) {
      omp_set_num_threads(1);
      ranks.set_limit(limit);
      Trained& outcome = outcomes[static_cast<size_t>(ranks.rank())];
      Json own = json;
      TrainerOptions options;
      options.data_folder = REWRIGHT_SOURCE_DIR "/tools/examples/digits";
      options.checkpoint_folder = checkpoints.empty() ? "" : folder_ / checkpoints;
      options.resume = resume;
      options.ranks = &ranks;
      if (told != nullptr) told(ranks.rank(), &own, &options);
      // The last rank is the one that stops.
      const absl::Status status = TrainOne(own, options, ranks.rank() + 1 == size ? stop_at : 0, &outcome);
      outcome.bytes_sent = ranks.bytes_sent();
      return status;
    });
    for (size_t i = 0; i < outcomes.size(); ++i) outcomes[i].status = statuses[i];
    return outcomes;
  }
  // What all ranks agree about.
  Trained Common(const std::vector<Trained>& outcomes) {
    for (const Trained& outcome : outcomes) {
      EXPECT_TRUE(outcome.status.ok()) << outcome.status;
      EXPECT_EQ(outcome.sha256, outcomes[0].sha256);
      EXPECT_EQ(outcome.losses, outcomes[0].losses);
      EXPECT_EQ(outcome.position, outcomes[0].position);
    }
    return outcomes[0];
  }
  Json With(const std::string& patch) const {
    Json json = json_;
    json.merge_patch(Json::parse(patch));
    return json;
  }

  TemporaryFolder folder_;
  Json json_, validation_;

 private:
  static absl::Status TrainOne(const Json& json, const TrainerOptions& options, int64_t stop_at, Trained* outcome) {
    ASSIGN_OR_RETURN(const TrainConfig config, ParseTrainConfig(json.dump()));
    ASSIGN_OR_RETURN(const auto device, MakeDevice("cpu"));
    const auto runner = MakeGraphRunner(*device);
    const Graph model = MakeMlp(*config.mlp, config.micro_batch(), config.seed);
    ASSIGN_OR_RETURN(const auto trainer, Trainer::Create(config, model, *runner, options));
    const auto observe = [&](const StepReport& report) {
      outcome->losses.push_back(report.loss);
      if (report.measurement) outcome->measured = report.measurement;
    };
    const absl::Status status = trainer->Run(observe, [&] { return stop_at > 0 && trainer->position() >= stop_at; });
    outcome->position = trainer->position();
    ASSIGN_OR_RETURN(outcome->sha256, trainer->WeightsSha256());
    return status;
  }
};

TEST_F(RanksTest, AnyNumberOfRanksGivesTheSameBits) {
  json_.merge_patch(validation_);
  const Trained alone = Common(Train(json_, 1));
  ASSERT_EQ(alone.losses.size(), 50u);
  EXPECT_LT(alone.losses.back(), 0.5 * alone.losses.front());
  for (int size : {2, 3, 4}) {
    const Trained shared = Common(Train(json_, size));
    EXPECT_EQ(shared.sha256, alone.sha256) << size << " ranks";
    EXPECT_EQ(shared.losses, alone.losses) << size << " ranks";
    EXPECT_EQ(shared.measured->loss, alone.measured->loss) << size << " ranks";
    EXPECT_EQ(*shared.measured->accuracy, *alone.measured->accuracy) << size << " ranks";
  }
}

TEST_F(RanksTest, ARunGoesOnOnAnotherNumberOfRanks) {
  json_["checkpoint"] = {{"every_steps", 10}};
  const std::string expected = Common(Train(json_, 1)).sha256;
  const std::vector<std::vector<int>> widths = {{4, 1}, {1, 4}, {2, 4, 1}, {3, 2}};
  for (size_t i = 0; i < widths.size(); ++i) {
    const std::string checkpoints = absl::StrCat("ck", i);
    Trained last;
    for (size_t k = 0; k < widths[i].size(); ++k) {
      const bool ends = k + 1 == widths[i].size();
      last = Common(Train(json_, widths[i][k], checkpoints, k > 0, ends ? 0 : 17 * static_cast<int64_t>(k + 1)));
      EXPECT_EQ(last.position, ends ? 50 : 17 * static_cast<int64_t>(k + 1));
    }
    EXPECT_EQ(last.sha256, expected) << "run " << i;
  }
}

// Numbers of micro-batches that no number of ranks divides, and one sample in each.
TEST_F(RanksTest, MicroBatchesNeedNotBeEven) {
  for (const int64_t count : {3, 6, 12}) {
    const Json json = With(absl::StrCat(R"({"data": {"batch": 12, "micro_batches": )", count, R"(}, "steps": 12})"));
    const std::string expected = Common(Train(json, 1)).sha256;
    for (int size : {2, 3}) EXPECT_EQ(Common(Train(json, size)).sha256, expected) << count << " on " << size;
  }
}

// The mean over micro-batches is the mean over the batch, but for rounding.
TEST_F(RanksTest, MicroBatchesChangeOnlyTheRounding) {
  for (const char* optimizer :
       {R"({"kind": "sgd", "learning_rate": 0.1})", R"({"kind": "adam", "learning_rate": 0.01})",
        R"({"kind": "nesterov", "learning_rate": 0.05, "clip_norm": 1})"}) {
    Json json = With(R"({"steps": 20})");
    json["optimizer"] = Json::parse(optimizer);
    const Trained cut = Common(Train(json, 2));
    json["data"].erase("micro_batches");
    const Trained whole = Common(Train(json, 1));
    ASSERT_EQ(cut.losses.size(), whole.losses.size());
    for (size_t i = 0; i < cut.losses.size(); ++i) EXPECT_NEAR(cut.losses[i], whole.losses[i], 2e-5) << optimizer << i;
  }
}

TEST_F(RanksTest, EveryRankSendsTheBytesOfARing) {
  constexpr double kSteps = 50, kGradients = 4.0 * (64 * 24 + 24 + 24 * 10 + 10);
  for (int size : {2, 3, 4}) {
    const double formula = kSteps * kGradients * 2 * (size - 1) / size;
    for (const Trained& outcome : Train(json_, size)) {
      EXPECT_GE(static_cast<double>(outcome.bytes_sent), formula);
      EXPECT_LE(static_cast<double>(outcome.bytes_sent), 1.02 * formula) << size << " ranks";
    }
  }
}

TEST_F(RanksTest, ARankThatDiffersIsNamed) {
  const auto error = [&](const Told& told) {
    std::vector<std::string> messages;
    for (const Trained& outcome : Train(json_, 3, "", false, 0, told)) {
      messages.emplace_back(outcome.status.message());
    }
    return messages;
  };
  const std::string who = "the start: rank 2 differs from rank 0: ";
  EXPECT_THAT(error([](int rank, Json* config, TrainerOptions*) {
                if (rank == 2) (*config)["optimizer"]["learning_rate"] = 0.03;
              }),
              Each(HasSubstr(who + "the configuration")));
  EXPECT_THAT(error([](int rank, Json*, TrainerOptions* options) { options->threads = rank == 2 ? 2 : 1; }),
              Each(HasSubstr(who + "threads: found 2, rank 0 has 1")));
  // One bit of one sample.
  const std::string digits = REWRIGHT_SOURCE_DIR "/tools/examples/digits/";
  for (const char* file : {"train_x.npy", "train_y.npy"}) WriteContents(folder_ / file, FileContents(digits + file));
  std::string labels = FileContents(folder_ / "train_y.npy");
  labels[labels.size() - 700] ^= 1;
  WriteContents(folder_ / "train_y.npy", labels);
  EXPECT_THAT(error([&](int rank, Json*, TrainerOptions* options) {
                if (rank == 2) options->data_folder = folder_.path();
              }),
              Each(HasSubstr(who + "the data")));
  EXPECT_THAT(error([](int rank, Json*, TrainerOptions* options) {
                if (rank != 2) return;
                options->rewrite = [](const Graph& graph) -> absl::StatusOr<Graph> {
                  return Graph(graph.arena(), graph.inputs(), {graph.outputs().rbegin(), graph.outputs().rend()});
                };
              }),
              Each(HasSubstr(who + "the program")));
}

TEST_F(RanksTest, ARankThatFailsEndsTheOthersWithItsReason) {
  const auto failed = Train(json_, 3, "", false, 0, [](int rank, Json* config, TrainerOptions*) {
    if (rank == 1) (*config)["data"]["target"] = "absent.npy";
  });
  EXPECT_THAT(std::string(failed[0].status.message()), AllOf(HasSubstr("rank 1: "), HasSubstr("absent.npy")));
  EXPECT_THAT(std::string(failed[2].status.message()), AllOf(HasSubstr("rank 1: "), HasSubstr("absent.npy")));
}

TEST_F(RanksTest, ARankThatHangsIsNamed) {
  const auto failed = Train(
      json_, 3, "", false, 0,
      [](int rank, Json*, TrainerOptions* options) {
        if (rank != 1) return;
        // What it computes at first takes longer than the others wait.
        options->rewrite = [](const Graph& graph) -> absl::StatusOr<Graph> {
          std::this_thread::sleep_for(std::chrono::milliseconds(700));
          return graph;
        };
      },
      0.3);
  EXPECT_THAT(std::string(failed[0].status.message()), HasSubstr("the start: rank "));
  EXPECT_THAT(std::string(failed[0].status.message()), HasSubstr(" waited 0.3 s for rank 1"));
}

TEST_F(RanksTest, TheProgramOfGradientsIsPartOfACheckpoint) {
  Common(Train(json_, 2, "ck", false, 5));
  const std::string file = (folder_ / "ck") + "/step-00000005/gradients.txt";
  const std::string program = FileContents(file);
  EXPECT_THAT(program, AllOf(HasSubstr("output gradients.f32 = "), HasSubstr("x: f32[6,64]")));
  WriteContents(file, program + " ");
  for (const Trained& outcome : Train(json_, 2, "ck", true)) {
    EXPECT_THAT(std::string(outcome.status.message()), HasSubstr("gradients.txt: is damaged"));
  }
  // Without micro-batches there is none, said or not said.
  Json whole = With(R"({"data": {"micro_batches": 1}})");
  Common(Train(whole, 1, "whole", false, 5));
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator((folder_ / "whole") + "/step-00000005")) {
    names.push_back(entry.path().filename());
  }
  EXPECT_THAT(names, ::testing::UnorderedElementsAre("weights.safetensors", "optimizer.safetensors", "program.txt",
                                                     "train.json"));
  whole["data"].erase("micro_batches");
  EXPECT_EQ(Common(Train(whole, 1, "whole", true)).position, 50);
  EXPECT_THAT(std::string(Train(json_, 1, "whole", true)[0].status.message()),
              HasSubstr("data.micro_batches: found 4, the checkpoint has nothing"));
}

TEST_F(RanksTest, MoreRanksThanMicroBatchesAreRefused) {
  for (const Trained& outcome : Train(With(R"({"data": {"micro_batches": 2}})"), 3)) {
    EXPECT_THAT(std::string(outcome.status.message()),
                HasSubstr("data.micro_batches: found 2, expected at least 3, one for each rank"));
  }
}

}  // namespace
}  // namespace rewright
