// Tests stages of a model on separate ranks: weights equal those of one rank to the last bit, and messages and
// micro-batches in flight are those of the schedule.
#include "runtime/training/parallel/pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "absl/strings/str_cat.h"
#include "runtime/distributed/generate.h"
#include "runtime/distributed/plan_cost.h"
#include "runtime/parallel/owner_computes_executable.h"
#include "runtime/training/parallel/layout.h"
#include "tests/runtime/training/ranks_util.h"

namespace rewright {
namespace {

using distributed::PipelineSchedule;
using distributed::PipelineShape;
using distributed::StageAction;
using distributed::StageSchedule;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Bytes that a rank sends by its list.
int64_t SentBy(const distributed::Plan& plan, int rank) {
  int64_t sum = 0;
  for (int64_t bytes : distributed::BytesSent(plan, rank)) sum += bytes;
  return sum;
}

std::string Shown(const std::vector<StageAction>& actions) {
  std::string text;
  for (const StageAction& action : actions) {
    absl::StrAppend(&text,
                    action.forward      ? "F"
                    : action.of_weights ? "W"
                                        : "B",
                    action.micro_batch, std::string(action.chunk, '\''), " ");
  }
  return text;
}

TEST(StageScheduleTest, IsThatOfThePapers) {
  const auto shown = [](int rank, int ranks, int64_t micro_batches, PipelineSchedule schedule, int chunks = 1) {
    return Shown(StageSchedule(rank, {.ranks = ranks, .chunks = chunks}, micro_batches, schedule));
  };
  EXPECT_EQ(shown(0, 2, 4, PipelineSchedule::kGPipe), "F0 F1 F2 F3 B0 B1 B2 B3 ");
  EXPECT_EQ(shown(0, 2, 4, PipelineSchedule::k1F1B), "F0 F1 B0 F2 B1 F3 B2 B3 ");
  EXPECT_EQ(shown(1, 2, 4, PipelineSchedule::k1F1B), "F0 B0 F1 B1 F2 B2 F3 B3 ");
  EXPECT_EQ(shown(0, 4, 2, PipelineSchedule::k1F1B), "F0 F1 B0 B1 ");
  EXPECT_EQ(shown(2, 4, 3, PipelineSchedule::k1F1B), "F0 F1 B0 F2 B1 B2 ");
  EXPECT_EQ(shown(0, 2, 4, PipelineSchedule::kInterleaved, 2),
            "F0 F1 F0' F1' F2 B0' F3 B1' F2' B0 F3' B1 B2' B3' B2 B3 ");
  EXPECT_EQ(shown(1, 2, 4, PipelineSchedule::kInterleaved, 2),
            "F0 F1 F0' B0' F1' B1' F2 B0 F3 B1 F2' B2' F3' B3' B2 B3 ");
  EXPECT_EQ(shown(0, 3, 4, PipelineSchedule::kZeroBubble), "F0 F1 F2 B0 W0 F3 B1 W1 B2 W2 B3 W3 ");
  EXPECT_EQ(shown(2, 3, 4, PipelineSchedule::kZeroBubble), "F0 B0 F1 B1 F2 B2 W0 F3 B3 W1 W2 W3 ");
}

// Runs every pass as early as possible and returns the length of the schedule, with 1 for a forward and 2 for a
// backward pass; -1: ranks wait for each other for ever.
int64_t TimeOf(const PipelineShape& shape, int64_t micro_batches, PipelineSchedule schedule) {
  std::map<std::tuple<bool, int, int64_t>, int64_t> done;  // direction, stage, micro-batch
  std::vector<std::vector<StageAction>> actions;
  std::vector<size_t> next(static_cast<size_t>(shape.ranks), 0);
  std::vector<int64_t> time(next.size(), 0);
  for (int rank = 0; rank < shape.ranks; ++rank) {
    actions.push_back(StageSchedule(rank, shape, micro_batches, schedule));
  }
  const int last = shape.stages() - 1;
  for (bool moves = true; moves;) {
    moves = false;
    for (size_t rank = 0; rank < next.size(); ++rank) {
      for (; next[rank] < actions[rank].size(); ++next[rank]) {
        const StageAction& action = actions[rank][next[rank]];
        const int stage = action.chunk * shape.ranks + static_cast<int>(rank);
        std::vector<std::tuple<bool, int, int64_t>> needs;
        if (action.forward && stage > 0) needs.emplace_back(true, stage - 1, action.micro_batch);
        if (!action.forward) needs.emplace_back(true, stage, action.micro_batch);
        if (!action.forward && stage < last) needs.emplace_back(false, stage + 1, action.micro_batch);
        const bool ready =
            std::all_of(needs.begin(), needs.end(), [&](const auto& need) { return done.contains(need); });
        if (!ready) break;
        for (const auto& need : needs) time[rank] = std::max(time[rank], done[need]);
        time[rank] += action.forward ? 1 : 2;
        done[{action.forward, stage, action.micro_batch}] = time[rank];
        moves = true;
      }
    }
  }
  const auto all = static_cast<size_t>(2 * shape.stages() * micro_batches);
  return done.size() == all ? *std::max_element(time.begin(), time.end()) : -1;
}

TEST(StageScheduleTest, EveryPassIsMadeOnceAndNobodyWaitsForEver) {
  for (int ranks = 2; ranks <= 6; ++ranks) {
    for (int64_t micro_batches = 1; micro_batches <= 15; ++micro_batches) {
      const PipelineShape plain{.ranks = ranks};
      const int64_t bubbles = 3 * (micro_batches + ranks - 1);
      EXPECT_EQ(TimeOf(plain, micro_batches, PipelineSchedule::kGPipe), bubbles);
      EXPECT_EQ(TimeOf(plain, micro_batches, PipelineSchedule::k1F1B), bubbles);
      for (int chunks = 2; chunks <= 4; ++chunks) {
        const PipelineShape shape{.ranks = ranks, .chunks = chunks};
        EXPECT_GT(TimeOf(shape, micro_batches, PipelineSchedule::kInterleaved), 0)
            << ranks << " ranks, " << chunks << " chunks, " << micro_batches << " micro-batches";
        if (micro_batches % ranks != 0) continue;
        // Interleaving divides bubbles and passes by the number of chunks.
        EXPECT_EQ(TimeOf(shape, micro_batches, PipelineSchedule::kInterleaved),
                  3 * (micro_batches * chunks + ranks - 1));
      }
    }
  }
}

StepGraphs Graphs(const std::vector<int64_t>& sizes, int64_t micro_batches, double clip = 1) {
  StepOptions options;
  options.micro_batches = micro_batches;
  options.optimizer.clip_norm = clip;
  return *BuildStep(MakeModel(MlpOptions{sizes, "relu"}, 6, 1).inference, options);
}

TEST(PipelinePlanTest, StagesAreBalancedAndSendOneActivationEach) {
  const StepGraphs graphs = Graphs({512, 512, 512, 512, 512}, 4);
  const auto plan = PlanPipeline(graphs.gradients, graphs.step, graphs.updated, {.ranks = 4});
  ASSERT_TRUE(plan.ok()) << plan.status();
  const auto [least, most] = std::minmax_element(plan->seconds.begin(), plan->seconds.end());
  EXPECT_LT(*most, 1.6 * *least);  // the first one makes no gradient of its input
  // Sends an activation [6,512] forward to the next stage, and its gradient backward.
  distributed::Plan lists = plan->Tensors(graphs.step, /*replicas=*/1, /*micro_batches=*/4);
  distributed::WritePipeline(plan->shape, PipelineSchedule::k1F1B, /*zero=*/0, &lists);
  int sends = 0;
  for (int rank = 0; rank < 4; ++rank) {
    for (const distributed::Action& action : lists.lists[static_cast<size_t>(rank)]) {
      if (action.kind != distributed::Action::Kind::kSend) continue;
      ++sends;
      EXPECT_EQ(std::abs(action.target - rank), 1);
      EXPECT_EQ(lists.tensors[static_cast<size_t>(action.tensors[0])].type.ToString(), "f32[6,512]");
    }
  }
  EXPECT_EQ(sends, 6 * 4);
  EXPECT_EQ(SentBy(lists, 0), 4 * 6 * 512 * 4);
  EXPECT_EQ(SentBy(lists, 1), 2 * 4 * 6 * 512 * 4);
  EXPECT_EQ(SentBy(lists, 3), 4 * 6 * 512 * 4);
  // Each stage has one layer and the optimizer's states for it.
  std::map<int, std::vector<std::string>> owned;
  for (const auto& [name, stage] : plan->owners) owned[stage].push_back(name);
  EXPECT_THAT(owned[1],
              ElementsAre("gradients.layer1.bias", "gradients.layer1.weight", "layer1.bias", "layer1.bias.adam_m",
                          "layer1.bias.adam_v", "layer1.weight", "layer1.weight.adam_m", "layer1.weight.adam_v"));
  EXPECT_THAT(
      std::string(PlanPipeline(graphs.gradients, graphs.step, graphs.updated, {.ranks = 99}).status().message()),
      HasSubstr("found 99 stages, expected at most "));
}

class PipelineTest : public RanksTest {
 protected:
  PipelineTest() {
    json_.merge_patch(Json::parse(R"({"model": {"mlp": {"sizes": [64, 24, 20, 16, 10]}}, "steps": 12})"));
  }
  void Use(const std::string& text) {
    with_ = [text](TrainerOptions* options) {
      if (text.empty() || options->ranks->size() == 1) return;
      const auto layout = ParseLayout(text, options->ranks->size());
      ASSERT_TRUE(layout.ok()) << layout.status();
      options->sharing.layout = *layout;
    };
  }
  double BytesOfStep(int rank, int size) {
    Json longer = json_;
    longer["steps"] = 2 * json_["steps"].get<int64_t>();
    const auto sent = [&](const Json& json) {
      return static_cast<double>(Train(json, size)[static_cast<size_t>(rank)].bytes_sent);
    };
    return (sent(longer) - sent(json_)) / json_["steps"].get<double>();
  }
};

TEST_F(PipelineTest, AnyNumberOfStagesGivesTheSameBits) {
  json_.merge_patch(validation_);
  const Trained alone = Common(Train(json_, 1));
  const std::pair<const char*, int> layouts[] = {{"pp=2", 2},
                                                 {"pp=3", 3},
                                                 {"pp=4", 4},
                                                 {"pp=2,schedule=gpipe", 2},
                                                 {"pp=3,schedule=gpipe", 3},
                                                 {"dp=2,pp=2", 4},
                                                 {"pp=2,schedule=interleaved", 2},
                                                 {"pp=2,schedule=interleaved,chunks=4", 2},
                                                 {"pp=3,schedule=interleaved", 3},
                                                 {"dp=2,pp=2,schedule=interleaved", 4},
                                                 {"pp=2,schedule=zero_bubble", 2},
                                                 {"pp=4,schedule=zero_bubble", 4},
                                                 {"dp=2,pp=2,schedule=zero_bubble", 4}};
  for (const auto& [layout, size] : layouts) {
    Use(layout);
    const Trained staged = Common(Train(json_, size));
    EXPECT_EQ(staged.sha256, alone.sha256) << layout;
    EXPECT_EQ(staged.losses, alone.losses) << layout;
    EXPECT_EQ(staged.measured->loss, alone.measured->loss) << layout;
  }
}

TEST_F(PipelineTest, OptimizersAndActivationsOfAllKindsGiveTheSameBits) {
  for (const char* activation : {"tanh", "sigmoid", "gelu"}) {
    for (const char* optimizer : {R"({"kind": "sgd", "learning_rate": 0.1})", R"({"kind": "nesterov", "learning_rate":
                                    0.05, "clip_norm": 1})"}) {
      Json json = json_;
      json["model"]["mlp"]["activation"] = activation;
      json["optimizer"] = Json::parse(optimizer);
      Use("");
      const std::string expected = Common(Train(json, 1)).sha256;
      Use("pp=3");
      EXPECT_EQ(Common(Train(json, 3)).sha256, expected) << activation << ", " << optimizer;
    }
  }
}

TEST_F(PipelineTest, HoldsAsManyMicroBatchesAsThereAreStagesBehind) {
  json_["data"]["micro_batches"] = 8;
  json_["steps"] = 3;
  for (const bool gpipe : {false, true}) {
    std::vector<int> in_flight(3, 0);
    look_ = [&](int rank, Trainer& trainer) {
      in_flight[static_cast<size_t>(rank)] = distributed::MostInFlight(trainer.running().sums->plan(), rank);
    };
    Use(gpipe ? "pp=3,schedule=gpipe" : "pp=3");
    Common(Train(json_, 3));
    if (gpipe) {
      EXPECT_THAT(in_flight, ElementsAre(8, 8, 8));
    } else {
      EXPECT_THAT(in_flight, ElementsAre(3, 2, 1));
    }
  }
  // Each rank has two stages. The last rank has a turn of three micro-batches and one more in flight; each earlier rank
  // has two more than the next.
  std::vector<int> in_flight(3, 0);
  look_ = [&](int rank, Trainer& trainer) {
    in_flight[static_cast<size_t>(rank)] = distributed::MostInFlight(trainer.running().sums->plan(), rank);
  };
  json_["data"]["micro_batches"] = 6;
  Use("pp=3,schedule=interleaved");
  Common(Train(json_, 3));
  EXPECT_THAT(in_flight, ElementsAre(8, 6, 4));
}

TEST_F(PipelineTest, SendsWhatThePlanSays) {
  json_["steps"] = 4;
  for (const char* layout : {"pp=2", "pp=3", "pp=2,schedule=interleaved"}) {
    Use(layout);
    const int size = layout[3] - '0';
    for (int rank = 0; rank < size; ++rank) {
      double planned = 0;
      look_ = [&](int of, Trainer& trainer) {
        if (of != rank) return;
        planned =
            static_cast<double>(SentBy(trainer.running().sums->plan(), rank) +
                                dynamic_cast<const OwnerComputesExecutable&>(*trainer.running().step).bytes_sent());
      };
      // Each step also asks whether to stop.
      const double sent = BytesOfStep(rank, size);
      EXPECT_GE(sent, planned);
      EXPECT_LE(sent, 1.02 * planned + 8.0 * size) << layout << ", rank " << rank;
    }
  }
}

TEST_F(PipelineTest, ARankHasItsStageAlone) {
  json_["steps"] = 1;
  std::vector<int64_t> states(4, 0);
  look_ = [&](int rank, Trainer& trainer) {
    states[static_cast<size_t>(rank)] =
        dynamic_cast<const OwnerComputesExecutable&>(*trainer.running().step).state_bytes();
  };
  Use("pp=4");
  Common(Train(json_, 4));
  const int64_t parameters = 64 * 24 + 24 + 24 * 20 + 20 + 20 * 16 + 16 + 16 * 10 + 10;
  int64_t all = 0;
  for (int64_t bytes : states) {
    EXPECT_GE(bytes, 8);
    EXPECT_LT(bytes, 12 * 0.7 * parameters);
    all += bytes - 8;  // all ranks have optimizer.step
  }
  EXPECT_EQ(all, 12 * parameters);
}

TEST_F(PipelineTest, ARunGoesOnInAnotherLayout) {
  json_["checkpoint"] = {{"every_steps", 4}};
  const std::string expected = Common(Train(json_, 1)).sha256;
  Use("pp=3");
  EXPECT_EQ(Common(Train(json_, 3, "ck", false, 4)).position, 4);
  Use("dp=2");
  EXPECT_EQ(Common(Train(json_, 2, "ck", true, 7)).position, 7);
  Use("dp=2,pp=2");
  EXPECT_EQ(Common(Train(json_, 4, "ck", true)).sha256, expected);
}

TEST_F(PipelineTest, WhatCannotBeStagedIsRefused) {
  const auto error = [&](const char* layout, int size, const char* patch) {
    Use(layout);
    return std::string(Train(With(patch), size)[0].status.message());
  };
  EXPECT_THAT(error("pp=2", 2, R"({"data": {"micro_batches": 1}})"),
              HasSubstr("data.micro_batches: found 1, expected at least 2 with the layout pp=2"));
  EXPECT_THAT(error("dp=2,pp=2", 4, R"({"data": {"batch": 24, "micro_batches": 1}})"),
              HasSubstr("data.micro_batches: found 1, expected at least 2, one for each group of ranks"));
}

}  // namespace
}  // namespace rewright
