// Tests training in micro-batches that ranks share: the same weights to the last bit on any number of ranks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "absl/strings/str_cat.h"
#include "tests/runtime/training/ranks_util.h"

namespace rewright {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

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

// No number of ranks divides these numbers of micro-batches; each has one sample.
TEST_F(RanksTest, MicroBatchesNeedNotBeEven) {
  for (const int64_t count : {3, 6, 12}) {
    const Json json = With(absl::StrCat(R"({"data": {"batch": 12, "micro_batches": )", count, R"(}, "steps": 12})"));
    const std::string expected = Common(Train(json, 1)).sha256;
    for (int size : {2, 3}) EXPECT_EQ(Common(Train(json, size)).sha256, expected) << count << " on " << size;
  }
}

// The mean over micro-batches equals the mean over the batch up to rounding.
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
  const std::string digits = DigitsFolder() + "/";
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
        // The first computation of this rank takes longer than the others wait.
        options->rewrite = [](const Graph& graph) -> absl::StatusOr<Graph> {
          std::this_thread::sleep_for(std::chrono::milliseconds(2500));
          return graph;
        };
      },
      1);
  EXPECT_THAT(std::string(failed[0].status.message()), HasSubstr("the start: rank "));
  // Rank 2 waits for rank 0, which gathers.
  EXPECT_THAT(std::string(failed[0].status.message()),
              testing::ContainsRegex(" waited 1 s for (rank 0, which waits for )?rank 1"));
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
  // Without micro-batches there is no gradients.txt, whether the setting is given or not.
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
