// Tests training with a step cut over ranks: tensor parallelism, ZeRO, gradients that are summed layer by layer.
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "core/ir/text.h"
#include "runtime/distributed/plan_cost.h"
#include "runtime/parallel/owner_computes_executable.h"
#include "runtime/parallel/rank_executable.h"
#include "runtime/training/parallel/layered_plan.h"
#include "runtime/training/parallel/layout.h"
#include "runtime/training/parallel/pipeline.h"
#include "tests/runtime/training/layouts_util.h"
#include "tests/runtime/training/stored_forms_util.h"

namespace rewright {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST_F(LayoutsTest, ZeroGivesTheSameBitsOnAnyNumberOfRanks) {
  json_["steps"] = 20;
  json_["optimizer"]["clip_norm"] = 0.1;  // always in force: the bits of the norm count
  const std::string expected = Common(Train(json_, 1)).sha256;
  for (int zero : {1, 2, 3}) {
    for (int size : {2, 3, 4}) {
      UseDegree("dp", size, absl::StrCat(",zero=", zero));
      EXPECT_EQ(Common(Train(json_, size)).sha256, expected) << "zero " << zero << ", " << size << " ranks";
    }
  }
}

// No number of ranks divides the micro-batches; there are several layers and few samples.
TEST_F(LayoutsTest, LayersGiveTheSameBitsWhateverTheMicroBatches) {
  for (const int64_t count : {3, 6}) {
    const Json json = With(absl::StrCat(R"({"model": {"mlp": {"sizes": [64, 24, 13, 24, 10], "activation": "tanh"}},
        "data": {"batch": 12, "micro_batches": )",
                                        count, R"(}, "steps": 6})"));
    Use("");
    const std::string expected = Common(Train(json, 1)).sha256;
    for (const int64_t bucket : {int64_t{1}, int64_t{4000}, int64_t{1} << 30}) {
      bucket_bytes_ = bucket;
      for (int zero : {0, 1, 2, 3}) {
        UseDegree("dp", 2, absl::StrCat(",zero=", zero));
        EXPECT_EQ(Common(Train(json, 2)).sha256, expected) << count << " zero " << zero << " buckets of " << bucket;
      }
    }
  }
}

struct Memory {
  int64_t states = 0, gathered = 0, gradients = 0, gather_bytes = 0;
  int layers = 0;
};

TEST_F(LayoutsTest, ZeroSendsAndKeepsWhatItSays) {
  // Forward passes alone read few bytes of the weights: those of the first layer, and biases.
  const std::vector<int64_t> sizes = {64, 12, 240, 240, 12};
  Json json = With(R"({"steps": 3})");
  json["model"]["mlp"]["sizes"] = sizes;
  double gradients = 0, forward_only = 4 * (64 * 12), largest = 4.0 * 240 * 240;
  for (size_t i = 1; i < sizes.size(); ++i) gradients += 4.0 * static_cast<double>(sizes[i] * (sizes[i - 1] + 1));
  for (size_t i = 1; i < sizes.size(); ++i) forward_only += 4.0 * static_cast<double>(sizes[i]);
  for (int size : {2, 3, 4}) {
    // A micro-batch for each rank: the formulas are those of a step without accumulation.
    json["data"]["micro_batches"] = size;
    const double share = static_cast<double>(size - 1) / size;
    for (int zero : {1, 2, 3}) {
      SCOPED_TRACE(absl::StrCat("zero ", zero, ", ", size, " ranks"));
      Memory memory;
      UseDegree("dp", size, absl::StrCat(",zero=", zero));
      look_ = [&](int rank, Trainer& trainer) {
        if (rank != 0) return;
        memory.states = dynamic_cast<const RankExecutable&>(*trainer.running().step).state_bytes();
        const distributed::PlanExecutor& sums = *trainer.running().sums;
        memory.gathered = sums.gathered_bytes();
        memory.gradients = distributed::PeakLeafBytes(sums.plan(), 0);
        memory.layers = static_cast<int>(sums.plan().subgraphs.size()) / 2;
        memory.gather_bytes = 0;
        for (const distributed::Action& action : sums.plan().lists[0]) {
          const bool gathers = action.kind == distributed::Action::Kind::kAllGather &&
                               sums.plan().tensors[static_cast<size_t>(action.tensors[0])].kind ==
                                   distributed::PlanTensor::Kind::kWeight;
          if (!gathers) continue;
          for (int64_t bytes : distributed::BytesSent(sums.plan(), 0, action)) memory.gather_bytes += bytes;
        }
      };
      const double sent = BytesOfStep(json, size), formula = gradients * share * (zero == 3 ? 3 : 2);
      EXPECT_GE(sent, formula - (zero == 3 ? share * forward_only : 0));
      EXPECT_LE(sent, 1.02 * formula);
      EXPECT_GT(sent, 0.98 * formula);
      EXPECT_GT(memory.layers, 2);
      // The weights, Adam's two states for each, the number of the step.
      const double weights = zero == 3 ? gradients / size : gradients;
      EXPECT_EQ(static_cast<double>(memory.states), weights + 2 * gradients / size + 8);
      if (zero == 3) {
        EXPECT_EQ(static_cast<double>(memory.gather_bytes), share * (2 * gradients - forward_only));
      }
      // Two layers, up to the alignment of their tensors.
      EXPECT_LE(static_cast<double>(memory.gathered), zero == 3 ? 2 * (largest + 4 * 240 + 1024) : 0);
      if (zero >= 2) {
        EXPECT_LE(static_cast<double>(memory.gradients), 1.1 * largest + 4096);
      }
      look_ = nullptr;
    }
  }
}

TEST_F(LayoutsTest, ARunGoesOnInAnotherLayout) {
  json_["steps"] = 20;
  json_["checkpoint"] = {{"every_steps", 10}};
  const std::string expected = Common(Train(json_, 1)).sha256;
  Use("dp=4,zero=3");
  EXPECT_EQ(Common(Train(json_, 4, "ck", false, 4)).position, 4);
  Use("dp=2,zero=1");
  EXPECT_EQ(Common(Train(json_, 2, "ck", true, 7)).position, 7);
  Use("dp=3,zero=2");
  EXPECT_EQ(Common(Train(json_, 3, "ck", true, 13)).position, 13);
  Use("dp=2,pp=2,zero=3");
  EXPECT_EQ(Common(Train(json_, 4, "ck", true, 15)).position, 15);
  Use("dp=2,pp=2,zero=1");
  EXPECT_EQ(Common(Train(json_, 4, "ck", true, 17)).position, 17);
  Use("");
  EXPECT_EQ(Common(Train(json_, 3, "ck", true)).sha256, expected);
}

// Checkpoints hold the weights one by one: ranks that cut them can resume a run that kept them joined, and one process
// can resume the ranks' run.
TEST_F(LayoutsTest, ARunWithStoredFormsGoesOnOnSeveralRanks) {
  json_.merge_patch(Json::parse(R"({"model": {"mlp": {"sizes": [64, 24, 24, 10]}}, "data": {"micro_batches": 1},
                                    "steps": 9})"));
  const Told join = [](int, Json*, TrainerOptions* options) {
    options->rewrite_whole = InForms({{0, {"layer1.bias", "layer0.bias"}}});
  };
  std::string sha256;
  for (const bool joined : {false, true}) {
    Use("");
    const std::string checkpoints = joined ? "joined" : "apart";
    EXPECT_EQ(Common(Train(json_, 1, checkpoints, false, 4, joined ? join : Told())).position, 4);
    const auto kept = ReadCheckpoint(folder_ / checkpoints);
    ASSERT_TRUE(kept.ok()) << kept.status();
    EXPECT_EQ(kept->progress.contains("stored_forms"), joined);
    std::vector<size_t> notes(2);
    look_ = [&](int rank, Trainer& trainer) {
      EXPECT_TRUE(trainer.stored_forms().empty());
      notes[static_cast<size_t>(rank)] = trainer.notes().size();
    };
    Use("tp=2", {{"layer0.weight", 1}, {"layer0.bias", 0}, {"layer1.weight", 0}});
    const Trained together = Common(Train(json_, 2, checkpoints, true, 7));
    EXPECT_EQ(together.position, 7);
    EXPECT_THAT(notes, ::testing::Each(joined ? 1 : 0));
    look_ = nullptr;
    Use("");
    const Trained alone = Common(Train(json_, 1, checkpoints, true));
    if (sha256.empty()) sha256 = alone.sha256;
    EXPECT_EQ(alone.sha256, sha256);
  }
}

const StateAxes kColumnsThenRows = {{"layer0.weight", 1}, {"layer0.bias", 0}, {"layer1.weight", 0}};
// Likewise for two more layers.
const StateAxes kColumnsThenRowsTwice = {{"layer0.weight", 1}, {"layer0.bias", 0}, {"layer1.weight", 0},
                                         {"layer2.weight", 1}, {"layer2.bias", 0}, {"layer3.weight", 0}};

TEST_F(LayoutsTest, TensorParallelIsOneRankButForRounding) {
  Json json = With(R"({"data": {"micro_batches": 1}, "steps": 20})");
  const NamedTensors alone = Common(Train(json, 1)).weights;
  // One rank computes the same sums in another order.
  const double order =
      Distance(alone, Common(Train(With(R"({"data": {"micro_batches": 2}, "steps": 20})"), 1)).weights);
  ASSERT_GT(order, 0);
  for (int size : {2, 3, 4}) {
    UseDegree("tp", size, "", kColumnsThenRows);
    const double deviation = Distance(alone, Common(Train(Placed(json), size)).weights);
    EXPECT_LE(deviation, 3 * order) << size << " ranks";
    std::cout << size << " ranks: " << deviation << ", another order " << order << "\n";
  }
}

TEST_F(LayoutsTest, TensorParallelSendsWhatThePlacementsPromise) {
  Json json = With(R"({"data": {"micro_batches": 1, "batch": 240}, "steps": 5})");
  json["optimizer"].erase("clip_norm");
  for (int size : {2, 4}) {
    UseDegree("tp", size, "", kColumnsThenRows);
    const double sent = BytesOfStep(Placed(json), size);
    // Only one sum is large: that of layer 1's result, [240, 10].
    EXPECT_GE(bytes_of_step_, 2.0 * (size - 1) / size * 240 * 10 * 4);
    EXPECT_NEAR(sent, bytes_of_step_, 0.03 * bytes_of_step_) << size;
  }
}

TEST_F(LayoutsTest, GroupsOfRanksAreDataAndTensorParallel) {
  json_["steps"] = 12;
  json_["checkpoint"] = {{"every_steps", 6}};
  const NamedTensors alone = Common(Train(json_, 1)).weights;
  Use("dp=2,tp=2", kColumnsThenRows);
  EXPECT_LT(Distance(alone, Common(Train(json_, 4)).weights), 1e-4);
  // Resumes in another layout.
  Use("tp=2", kColumnsThenRows);
  EXPECT_EQ(Common(Train(json_, 2, "ck", false, 6)).position, 6);
  EndsAlone(12, alone);
}

TEST_F(LayoutsTest, WhatIsCutMeansTheSame) {
  json_.merge_patch(Json::parse(R"({"model": {"mlp": {"sizes": [64, 24, 16, 24, 12]}}, "steps": 1})"));
  const std::pair<const char*, int> layouts[] = {{"tp=2", 2},
                                                 {"dp=2,zero=3", 2},
                                                 {"dp=2,tp=2", 4},
                                                 {"tp=2,zero=1", 2},
                                                 {"dp=2,tp=2,zero=2", 4},
                                                 {"dp=2,tp=2,zero=3", 4},
                                                 {"pp=2,tp=2", 4},
                                                 {"dp=2,pp=2,tp=2", 8},
                                                 {"pp=2,tp=2,schedule=interleaved", 4},
                                                 {"dp=2,pp=2,zero=2", 4},
                                                 {"dp=2,pp=2,zero=3", 4},
                                                 {"dp=2,pp=2,tp=2,zero=3", 8}};
  for (const auto& [layout, size] : layouts) {
    SCOPED_TRACE(layout);
    Use(layout, kColumnsThenRowsTwice);
    cut_graphs_.clear();
    Common(Train(json_, size));
    EXPECT_THAT(cut_graphs_, Not(IsEmpty()));
    for (const CutGraph& made : cut_graphs_) ExpectSameMeaning(made);
  }
}

// Cut channels cut the dropout mask, too: a rank makes its own block of it.
TEST_F(LayoutsTest, TensorParallelDropsWhatOneRankDrops) {
  const auto json = [](double dropout) {
    Json config = Json::parse(R"({"model": {"conv_net": {"image": [1, 8, 8], "channels": [4, 8], "classes": 10}},
      "data": {"inputs": {"x": {"file": "train_x.npy", "scale": 0.0625}}, "target": "train_y.npy", "batch": 12},
      "loss": "cross_entropy", "optimizer": {"kind": "sgd", "learning_rate": 0.1}, "steps": 4})");
    config["model"]["conv_net"]["dropout"] = dropout;
    return config;
  };
  const NamedTensors alone = Common(Train(json(0.4), 1)).weights;
  ASSERT_GT(Distance(alone, Common(Train(json(0), 1)).weights), 1e-2);
  Use("tp=2", {{"conv1.weight", 0}, {"norm1.*", 0}, {"head.weight", 0}});
  EXPECT_LT(Distance(alone, Common(Train(Placed(json(0.4)), 2)).weights), 1e-4);
  ASSERT_EQ(cut_graphs_.size(), 1u);
  EXPECT_THAT(PrintGraph(cut_graphs_[0].cut), HasSubstr("block_random_uniform("));
  ExpectSameMeaning(cut_graphs_[0]);
}

// Statistics are per micro-batch, and running averages take their means, on any number of ranks.
TEST_F(LayoutsTest, BatchNormIsThatOfMicroBatches) {
  json_ =
      Json::parse(R"({"model": {"conv_net": {"image": [1, 8, 8], "channels": [4, 8], "classes": 10, "dropout": 0.2}},
      "data": {"inputs": {"x": {"file": "train_x.npy", "scale": 0.0625}}, "target": "train_y.npy", "batch": 24,
               "micro_batches": 4},
      "loss": "cross_entropy", "optimizer": {"kind": "adam", "learning_rate": 0.02, "clip_norm": 1}, "steps": 2,
      "checkpoint": {"every_steps": 1}})");
  const Trained alone = Common(Train(json_, 1));
  const Tensor& mean = alone.weights.at("norm0.mean");
  EXPECT_NE(mean.At(0), 0);
  std::vector<std::pair<const char*, int>> layouts = {
      {"dp=2,zero=3", 2}, {"dp=2,pp=2,zero=2", 4}, {"pp=2,schedule=interleaved", 2}};
  if (std::getenv("REWRIGHT_FULL") != nullptr) {
    layouts.insert(layouts.end(), {{"dp=2", 2},
                                   {"dp=4,zero=1", 4},
                                   {"dp=2,zero=2", 2},
                                   {"pp=2", 2},
                                   {"pp=3,schedule=gpipe", 3},
                                   {"dp=2,pp=2", 4},
                                   {"dp=2,pp=2,zero=3,schedule=interleaved", 4}});
  }
  for (const auto& [layout, size] : layouts) {
    Use(layout);
    const Trained trained = Common(Train(json_, size));
    EXPECT_EQ(trained.sha256, alone.sha256) << layout;
    EXPECT_EQ(trained.losses, alone.losses) << layout;
  }
  const StateAxes places = {{"conv1.weight", 0}, {"norm1.*", 0}, {"head.weight", 0}};
  for (const auto& [layout, size] : {std::pair("tp=2,zero=3", 2), {"pp=2,tp=2", 4}}) {
    if (std::getenv("REWRIGHT_FULL") == nullptr) break;  // proofs take seconds
    Use(layout, places);
    EXPECT_LT(Distance(alone.weights, Common(Train(Placed(json_), size)).weights), 2e-4) << layout;
  }
  json_["model"].erase("places");
  Use("dp=2,pp=2,zero=1");
  EXPECT_EQ(Common(Train(json_, 4, "ck", false, 1)).position, 1);
  Use("");
  EXPECT_EQ(Common(Train(json_, 1, "ck", true)).sha256, alone.sha256);
}

// docs/training.md states it: a pipeline gives the bits of one rank for any cut into stages.
TEST_F(LayoutsTest, PipelinesGiveTheBitsOfOneRank) {
  const char* const models[] = {
      R"({"gpt": {"vocabulary": 128, "length": 8, "width": 16, "heads": 2, "layers": 1, "dropout": 0.1}})",
      R"({"lstm": {"vocabulary": 128, "length": 8, "width": 8, "hidden": 16, "layers": 1, "dropout": 0.1}})"};
  for (const char* model : models) {
    json_ = Json::parse(R"({"data": {"inputs": {"x": {"file": "../characters/train.txt", "tokens": {"stride": 3}}},
        "target": {"file": "../characters/train.txt", "tokens": {"stride": 3, "shift": 1}}, "batch": 12,
        "micro_batches": 4}, "loss": "cross_entropy", "optimizer": {"kind": "adamw", "learning_rate": 0.01},
        "steps": 2})");
    json_["model"] = Json::parse(model);
    ExpectBitsOfOneRank({{"pp=2", 2}, {"pp=3", 3}, {"pp=2,schedule=interleaved,chunks=4", 2}});
  }
}

// Stages hand images on row by row, and the CPU computes with blocks of channels: sums over images, such as the
// statistics of batch norms, are joined in one order all the same. Channels that fill their blocks, and others.
TEST_F(LayoutsTest, PipelinesOfConvolutionsGiveTheBitsOfOneRank) {
  for (const char* channels : {"[16, 32]", "[32, 16, 16]", "[12, 24]"}) {
    json_ = Json::parse(R"({"model": {"conv_net": {"image": [1, 8, 8], "classes": 10}},
        "data": {"inputs": {"x": {"file": "train_x.npy", "scale": 0.0625}}, "target": "train_y.npy", "batch": 24,
                 "micro_batches": 4},
        "loss": "cross_entropy", "optimizer": {"kind": "sgd", "learning_rate": 0.1}, "steps": 2})");
    json_["model"]["conv_net"]["channels"] = Json::parse(channels);
    ExpectBitsOfOneRank({{"pp=2", 2},
                         {"pp=3", 3},
                         {"pp=2,schedule=interleaved,chunks=4", 2},
                         {"pp=3,schedule=zero_bubble", 3},
                         {"dp=2,pp=2,schedule=interleaved,chunks=4,zero=2", 4}});
  }
}

// If samples are cut, laws give the statistics of a batch norm over the whole batch.
TEST_F(LayoutsTest, StatisticsAreThoseOfAllRanksWhereSamplesAreCut) {
  json_ = Json::parse(R"({"model": {"conv_net": {"image": [1, 8, 8], "channels": [4], "classes": 10}},
      "data": {"inputs": {"x": {"file": "train_x.npy", "scale": 0.0625}}, "target": "train_y.npy", "batch": 12},
      "loss": "cross_entropy", "optimizer": {"kind": "sgd", "learning_rate": 0.1}, "steps": 4})");
  const NamedTensors alone = Common(Train(json_, 1)).weights;
  const NamedTensors apart = Common(Train(With(R"({"data": {"micro_batches": 2}})"), 1)).weights;
  EXPECT_GT(Distance(alone, apart), 1e-2) << "each half by statistics of its own";
  Use("tp=2", {{"x", 0}, {"target", 0}});
  EXPECT_LT(Distance(alone, Common(Train(Placed(json_), 2)).weights), 1e-4);
  ASSERT_EQ(cut_graphs_.size(), 1u);
  EXPECT_THAT(PrintGraph(cut_graphs_[0].cut), HasSubstr("each_conv2d("));
  ExpectSameMeaning(cut_graphs_[0]);
  Use("tp=2", {{"y", 0}});
  EXPECT_THAT(std::string(Train(Placed(json_), 2)[0].status.message()),
              HasSubstr("model.places: `y` fits no weight and is no input"));
}

TEST_F(LayoutsTest, EveryRankSendsWhatItsPlanSays) {
  json_.merge_patch(Json::parse(R"({"model": {"mlp": {"sizes": [64, 60, 48, 60, 12]}}, "steps": 1,
                                    "data": {"batch": 60, "micro_batches": 5}})"));
  const std::pair<const char*, int> layouts[] = {{"dp=3", 3},
                                                 {"dp=3,zero=1", 3},
                                                 {"dp=4,zero=2", 4},
                                                 {"dp=3,zero=3", 3},
                                                 {"tp=3", 3},
                                                 {"pp=3", 3},
                                                 {"dp=2,tp=2", 4},
                                                 {"dp=2,tp=2,zero=1", 4},
                                                 {"dp=2,tp=2,zero=3", 4},
                                                 {"dp=2,pp=2", 4},
                                                 {"dp=2,pp=2,zero=1", 4},
                                                 {"dp=2,pp=2,zero=2", 4},
                                                 {"pp=2,tp=2", 4},
                                                 {"dp=2,pp=2,zero=3,schedule=interleaved", 4}};
  for (const auto& [layout, size] : layouts) {
    Use(layout, kColumnsThenRowsTwice);
    std::vector<double> planned;
    const std::vector<double> sent = BytesOfRanks(Placed(json_), size, &planned);
    for (size_t rank = 0; rank < sent.size(); ++rank) {
      // Each step also asks whether to stop.
      EXPECT_NEAR(sent[rank], planned[rank], 0.005 * planned[rank] + 4 * size) << layout << ", rank " << rank;
      EXPECT_GT(planned[rank], 1000) << layout << ", rank " << rank;
    }
  }
}

// The optimizer's states are cut over all ranks of groups that compute together. The bits are the same for any cut and
// any number of groups.
TEST_F(LayoutsTest, ZeroOfGroupsGivesTheBitsOfOneGroup) {
  json_["steps"] = 12;
  const NamedTensors alone = Common(Train(json_, 1)).weights;
  Use("tp=2,zero=1", kColumnsThenRows);
  const Trained group = Common(Train(json_, 2));
  EXPECT_LT(Distance(alone, group.weights), 1e-4);
  for (const char* layout : {"tp=2,zero=2", "tp=2,zero=3"}) {
    Use(layout, kColumnsThenRows);
    EXPECT_EQ(Common(Train(json_, 2)).sha256, group.sha256) << layout;
  }
  for (const char* layout : {"dp=2,tp=2,zero=1", "dp=2,tp=2,zero=2", "dp=2,tp=2,zero=3"}) {
    Use(layout, kColumnsThenRows);
    EXPECT_EQ(Common(Train(json_, 4)).sha256, group.sha256) << layout;
  }
}

TEST_F(LayoutsTest, ZeroOfGroupsKeepsItsBlocksAlone) {
  json_["steps"] = 1;
  json_["model"]["mlp"]["sizes"] = {64, 24, 12};
  const int64_t parameters = 64 * 24 + 24 + 24 * 12 + 12;
  for (int zero : {1, 2, 3}) {
    int64_t states = 0;
    look_ = [&](int rank, Trainer& trainer) {
      if (rank == 0) states = dynamic_cast<const RankExecutable&>(*trainer.running().step).state_bytes();
    };
    Use(absl::StrCat("dp=2,tp=2,zero=", zero), kColumnsThenRows);
    Common(Train(json_, 4));
    EXPECT_EQ(states, 4 * parameters / (zero == 3 ? 4 : 1) + 8 * parameters / 4 + 8);  // optimizer.step
  }
  look_ = nullptr;
  json_["data"]["micro_batches"] = 1;
  Use("tp=2,zero=1", kColumnsThenRows);
  EXPECT_THAT(std::string(Train(json_, 2)[0].status.message()),
              HasSubstr("data.micro_batches: found 1, expected at least 2 with the layout tp=2,zero=1"));
}

// A stage's states are cut over the groups. The bits are those of one rank, also if the groups do not divide the
// micro-batches.
TEST_F(LayoutsTest, ZeroOfPipelinesGivesTheBitsOfOneRank) {
  json_.merge_patch(Json::parse(R"({"model": {"mlp": {"sizes": [64, 24, 18, 24, 10]}}, "data": {"batch": 30},
                                    "steps": 6})"));
  for (const int64_t count : {6, 5}) {
    json_["data"]["micro_batches"] = count;
    Use("");
    const Trained alone = Common(Train(json_, 1));
    const std::pair<const char*, int> layouts[] = {{"dp=2,pp=2,zero=1", 4},
                                                   {"dp=2,pp=2,zero=2", 4},
                                                   {"dp=2,pp=2,zero=3", 4},
                                                   {"dp=3,pp=2,zero=3,schedule=gpipe", 6},
                                                   {"dp=2,pp=3,zero=2,schedule=gpipe", 6},
                                                   {"dp=2,pp=2,zero=1,schedule=interleaved", 4},
                                                   {"dp=2,pp=2,zero=3,schedule=interleaved", 4},
                                                   {"dp=2,pp=2,zero=3,schedule=zero_bubble", 4},
                                                   {"pp=2,zero=2", 2}};
    for (const auto& [layout, size] : layouts) {
      Use(layout);
      const Trained trained = Common(Train(json_, size));
      EXPECT_EQ(trained.sha256, alone.sha256) << layout << ", " << count << " micro-batches";
      EXPECT_EQ(trained.losses, alone.losses) << layout;
    }
  }
}

TEST_F(LayoutsTest, ZeroOfPipelinesKeepsItsBlocksAlone) {
  json_.merge_patch(Json::parse(R"({"model": {"mlp": {"sizes": [64, 24, 16, 24, 12]}}, "steps": 1})"));
  const int64_t parameters = 64 * 24 + 24 + 24 * 16 + 16 + 16 * 24 + 24 + 24 * 12 + 12;
  for (int zero : {1, 2, 3}) {
    for (const bool interleaved : {false, true}) {
      std::vector<int64_t> states(4, 0), gathered(4, 0);
      look_ = [&](int rank, Trainer& trainer) {
        const auto number = static_cast<size_t>(rank);
        states[number] = dynamic_cast<const OwnerComputesExecutable&>(*trainer.running().step).state_bytes() - 8;
        gathered[number] = trainer.running().sums->gathered_bytes();
      };
      Use(absl::StrCat("dp=2,pp=2,zero=", zero, interleaved ? ",schedule=interleaved" : ""));
      Common(Train(json_, 4));
      // A rank holds half of the optimizer's states of each stage, and with zero=3 half of the weights.
      for (size_t rank : {0, 1}) EXPECT_EQ(states[rank], states[rank + 2]);
      EXPECT_EQ(states[0] + states[1], parameters * (zero == 3 ? 6 : 8));
      // The weights of one stage at a time are whole.
      const int64_t weights = gathered[0] + gathered[1];
      EXPECT_GT(weights, zero == 3 ? 0 : -1);
      EXPECT_LE(weights, zero == 3 ? (interleaved ? 3 : 4) * parameters + 1024 : 0) << zero << interleaved;
    }
  }
}

// Several ranks compute each stage; the order of passes, the number of groups and ZeRO do not change the bits.
TEST_F(LayoutsTest, StagesAreComputedBySeveralRanks) {
  json_.merge_patch(Json::parse(R"({"model": {"mlp": {"sizes": [64, 24, 16, 24, 10]}}, "steps": 8})"));
  const NamedTensors alone = Common(Train(json_, 1)).weights;
  Use("tp=2", kColumnsThenRowsTwice);
  EXPECT_LT(Distance(alone, Common(Train(json_, 2)).weights), 1e-4);
  std::string sha256;
  for (const auto& [layout, size] : {std::pair("pp=2,tp=2", 4),
                                     {"pp=2,tp=2,schedule=gpipe", 4},
                                     {"dp=2,pp=2,tp=2", 8},
                                     {"dp=2,pp=2,tp=2,zero=1", 8},
                                     {"dp=2,pp=2,tp=2,zero=3", 8}}) {
    Use(layout, kColumnsThenRowsTwice);
    const Trained trained = Common(Train(json_, size));
    EXPECT_LT(Distance(alone, trained.weights), 1e-4) << layout;
    if (sha256.empty()) sha256 = trained.sha256;
    EXPECT_EQ(trained.sha256, sha256) << layout;
  }
  Use("pp=2,tp=2,schedule=interleaved", kColumnsThenRowsTwice);
  EXPECT_LT(Distance(alone, Common(Train(json_, 4)).weights), 1e-4);
}

// A rank updates only its own weights and optimizer states.
TEST_F(LayoutsTest, RanksOfAStageShareItsUpdate) {
  json_.merge_patch(Json::parse(R"({"model": {"mlp": {"sizes": [64, 24, 16, 24, 10]}}, "steps": 1})"));
  std::vector<int64_t> states(4, 0);
  look_ = [&](int rank, Trainer& trainer) {
    states[static_cast<size_t>(rank)] =
        dynamic_cast<const OwnerComputesExecutable&>(*trainer.running().step).state_bytes();
  };
  Use("pp=2,tp=2", kColumnsThenRows);
  Common(Train(json_, 4));
  const int64_t parameters = 64 * 24 + 24 + 24 * 16 + 16 + 16 * 24 + 24 + 24 * 10 + 10;
  int64_t all = 0;
  for (int64_t bytes : states) {
    EXPECT_GE(bytes, 8);
    all += bytes - 8;
  }
  EXPECT_EQ(all, 12 * parameters);
}

TEST_F(LayoutsTest, ARunGoesOnInStagesOfSeveralRanks) {
  json_.merge_patch(Json::parse(R"({"steps": 9, "checkpoint": {"every_steps": 3}})"));
  const NamedTensors alone = Common(Train(json_, 1)).weights;
  Use("pp=2,tp=2", kColumnsThenRows);
  EXPECT_EQ(Common(Train(json_, 4, "ck", false, 3)).position, 3);
  Use("dp=2,tp=2,zero=3", kColumnsThenRows);
  EXPECT_EQ(Common(Train(json_, 4, "ck", true, 6)).position, 6);
  EndsAlone(9, alone);
}

}  // namespace
}  // namespace rewright
