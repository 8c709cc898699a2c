// Training with the graph of a step cut over ranks: tensor parallel, and ZeRO 1.
#include <cmath>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "runtime/comm/group.h"
#include "runtime/train/layout.h"
#include "substitutions/sharding/shard.h"
#include "tests/runtime/train/ranks_util.h"
#include "verifier/sharding_laws.h"

namespace rewright {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

TEST(LayoutTest, IsReadAndChecked) {
  const auto layout = ParseLayout("dp=3,tp=2", 6);
  ASSERT_TRUE(layout.ok()) << layout.status();
  EXPECT_THAT(layout->GroupOfRank(3), ElementsAre(2, 3));
  EXPECT_THAT(layout->PartnersOfRank(3), ElementsAre(1, 3, 5));
  EXPECT_EQ(ParseLayout("", 4)->dp, 4);
  EXPECT_EQ(ParseLayout("dp=2,zero=1", 2)->zero, 1);
  const auto error = [](const char* text, int ranks) {
    return std::string(ParseLayout(text, ranks).status().message());
  };
  for (const char* text : {"tp", "pp=2", "tp=0", "tp=x", "tp=2,tp=2", "dp=2,zero=2", "dp=2,", "tp=99999999999"}) {
    EXPECT_THAT(error(text, 2), HasSubstr(absl::StrCat("--layout: found `", text, "`, expected dp=N, tp=N")));
  }
  EXPECT_THAT(error("dp=2,tp=2", 3), HasSubstr("expected mpirun -n 4 rewright train .., found 3 ranks"));
  EXPECT_THAT(error("tp=2,zero=1", 2), HasSubstr("expected zero=1 without tp"));
}

TEST(LayoutTest, WhatTheOptimizerKeepsIsCutAsItsWeightIs) {
  StepOptions options;
  options.micro_batches = 2;
  const auto graphs = BuildStep(MakeMlp({{4, 6, 3}, "relu"}, 2, 1), options);
  ASSERT_TRUE(graphs.ok()) << graphs.status();
  const auto placed = PlacedStates(graphs->step, {{"layer0.*", 1}, {"*.weight", 0}});
  ASSERT_TRUE(placed.ok()) << placed.status();
  EXPECT_THAT(*placed, ::testing::UnorderedElementsAre(
                           Pair("layer0.weight", 1), Pair("layer0.weight.adam_m", 1), Pair("layer0.weight.adam_v", 1),
                           Pair("layer0.bias", 1), Pair("layer0.bias.adam_m", 1), Pair("layer0.bias.adam_v", 1),
                           Pair("layer1.weight", 0), Pair("layer1.weight.adam_m", 0), Pair("layer1.weight.adam_v", 0)));
  EXPECT_THAT(std::string(PlacedStates(graphs->step, {{"layer2.*", 0}}).status().message()),
              HasSubstr("model.places: `layer2.*` fits no weight"));
  // By 4: [4,6] along axis 0; [6], [6,3] and [3] have no such axis.
  EXPECT_THAT(OptimizerStates(graphs->step, 4),
              ::testing::UnorderedElementsAre(Pair("layer0.weight.adam_m", 0), Pair("layer0.weight.adam_v", 0),
                                              Pair("gradients.layer0.weight", 0)));
  EXPECT_THAT(OptimizerStates(graphs->step, 5), IsEmpty());
}

// The laws that steps need, proved once.
absl::StatusOr<std::unique_ptr<RankExecutable>> CutOver(Communicator& ranks, const Graph& graph, const StateAxes& axes,
                                                        bool exact_only, GraphRunner& runner, double* bytes = nullptr) {
  static std::mutex mutex;
  static auto* const laws = new ProvedLaws(2);
  std::vector<sharding::Placement> placements;
  for (const auto& [name, axis] : axes) placements.push_back({name, axis});
  const std::lock_guard<std::mutex> lock(mutex);
  ASSIGN_OR_RETURN(const sharding::Sharded sharded,
                   sharding::Shard(graph, placements, ranks.size(), std::ref(*laws), exact_only));
  if (bytes != nullptr) {
    *bytes = 0;
    for (const sharding::Exchange& exchange : sharding::ExchangesOf(sharded.graph)) *bytes += exchange.bytes;
  }
  return RankExecutable::Create(sharded.graph, ranks, runner);
}

class LayoutsTest : public RanksTest {
 protected:
  void UseZero() {
    with_runner_ = [this](TrainerOptions* options, GraphRunner& runner) -> std::shared_ptr<void> {
      options->prepare_step = [ranks = options->ranks, &runner,
                               this](const Graph& graph) -> absl::StatusOr<std::unique_ptr<RankExecutable>> {
        ASSIGN_OR_RETURN(auto step,
                         CutOver(*ranks, graph, OptimizerStates(graph, ranks->size()), /*exact_only=*/true, runner));
        if (ranks->rank() == 0) state_bytes_ = step->state_bytes();
        return step;
      };
      return nullptr;
    };
  }
  // In groups of so many ranks.
  void UseTensorParallel(int tp, const StateAxes& places) {
    with_runner_ = [this, tp, places](TrainerOptions* options, GraphRunner& runner) -> std::shared_ptr<void> {
      struct Groups {
        std::unique_ptr<Communicator> own, partners;
      };
      const Layout layout{.dp = options->ranks->size() / tp, .tp = tp};
      const int rank = options->ranks->rank();
      auto groups = std::make_shared<Groups>(Groups{GroupOf(*options->ranks, layout.GroupOfRank(rank)),
                                                    GroupOf(*options->ranks, layout.PartnersOfRank(rank))});
      options->batch_ranks = groups->partners.get();
      options->prepare_step =
          options->prepare_gradients = [&own = *groups->own, places, &runner,
                                        this](const Graph& graph) -> absl::StatusOr<std::unique_ptr<RankExecutable>> {
        ASSIGN_OR_RETURN(const StateAxes axes, PlacedStates(graph, places));
        return CutOver(own, graph, axes, /*exact_only=*/false, runner, own.rank() == 0 ? &bytes_of_step_ : nullptr);
      };
      return groups;
    };
  }
  void UseNothing() { with_runner_ = nullptr; }

  // What rank 0 sends in a step, without what is sent once.
  double BytesOfStep(const Json& json, int size) {
    Json longer = json;
    const auto steps = json["steps"].get<int64_t>();
    longer["steps"] = 2 * steps;
    return static_cast<double>(Common(Train(longer, size)).bytes_sent - Common(Train(json, size)).bytes_sent) /
           static_cast<double>(steps);
  }

  double bytes_of_step_ = 0;  // as the placements promise
  int64_t state_bytes_ = 0;   // of rank 0
};

TEST_F(LayoutsTest, ZeroGivesTheSameBitsOnAnyNumberOfRanks) {
  json_["steps"] = 20;
  const std::string expected = Common(Train(json_, 1)).sha256;
  UseZero();
  for (int size : {2, 3, 4}) EXPECT_EQ(Common(Train(json_, size)).sha256, expected) << size << " ranks";
}

TEST_F(LayoutsTest, ZeroSendsNoMoreThanDataParallel) {
  Json json = With(R"({"model": {"mlp": {"sizes": [64, 240, 12]}}, "steps": 5})");
  json["optimizer"].erase("clip_norm");
  const double gradients = 4.0 * (64 * 240 + 240 + 240 * 12 + 12);
  UseZero();
  for (int size : {2, 4}) {
    const double formula = gradients * 2 * (size - 1) / size, sent = BytesOfStep(json, size);
    EXPECT_GE(sent, formula);
    EXPECT_LE(sent, 1.02 * formula) << size;
    // The weights, a part of Adam's two states for each, the number of the step.
    EXPECT_EQ(static_cast<double>(state_bytes_), gradients + 2 * gradients / size + 8);
  }
}

TEST_F(LayoutsTest, ARunGoesOnInAnotherLayout) {
  json_["steps"] = 20;
  json_["checkpoint"] = {{"every_steps", 10}};
  const std::string expected = Common(Train(json_, 1)).sha256;
  UseZero();
  EXPECT_EQ(Common(Train(json_, 4, "ck", false, 7)).position, 7);
  EXPECT_EQ(Common(Train(json_, 2, "ck", true, 13)).position, 13);
  UseNothing();
  EXPECT_EQ(Common(Train(json_, 3, "ck", true)).sha256, expected);
}

const StateAxes kColumnsThenRows = {{"layer0.weight", 1}, {"layer0.bias", 0}, {"layer1.weight", 0}};

double Distance(const NamedTensors& a, const NamedTensors& b) {
  double sum = 0;
  for (const auto& [name, tensor] : a) {
    for (int64_t i = 0; i < tensor.num_elements(); ++i) sum += std::pow(tensor.At(i) - b.at(name).At(i), 2);
  }
  return std::sqrt(sum);
}

TEST_F(LayoutsTest, TensorParallelIsOneRankButForRounding) {
  Json json = With(R"({"data": {"micro_batches": 1}, "steps": 20})");
  const NamedTensors alone = Common(Train(json, 1)).weights;
  // The same sums in another order on one rank.
  const double order =
      Distance(alone, Common(Train(With(R"({"data": {"micro_batches": 2}, "steps": 20})"), 1)).weights);
  ASSERT_GT(order, 0);
  for (int size : {2, 3, 4}) {
    UseTensorParallel(size, kColumnsThenRows);
    const double deviation = Distance(alone, Common(Train(json, size)).weights);
    UseNothing();
    EXPECT_LE(deviation, 3 * order) << size << " ranks";
    std::cout << size << " ranks: " << deviation << ", another order " << order << "\n";
  }
}

TEST_F(LayoutsTest, TensorParallelSendsWhatThePlacementsPromise) {
  Json json = With(R"({"data": {"micro_batches": 1, "batch": 240}, "steps": 5})");
  json["optimizer"].erase("clip_norm");
  for (int size : {2, 4}) {
    UseTensorParallel(size, kColumnsThenRows);
    const double sent = BytesOfStep(json, size);
    // The sum of what layer 1 gives, [240, 10], is the only one that is large.
    EXPECT_GE(bytes_of_step_, 2.0 * (size - 1) / size * 240 * 10 * 4);
    EXPECT_NEAR(sent, bytes_of_step_, 0.03 * bytes_of_step_) << size;
  }
}

TEST_F(LayoutsTest, GroupsOfRanksAreDataAndTensorParallel) {
  json_["steps"] = 12;
  json_["checkpoint"] = {{"every_steps", 6}};
  const NamedTensors alone = Common(Train(json_, 1)).weights;
  UseTensorParallel(2, kColumnsThenRows);
  EXPECT_LT(Distance(alone, Common(Train(json_, 4)).weights), 1e-4);
  // From one layout to another.
  EXPECT_EQ(Common(Train(json_, 2, "ck", false, 6)).position, 6);
  UseNothing();
  const Trained resumed = Common(Train(json_, 1, "ck", true));
  EXPECT_EQ(resumed.position, 12);
  EXPECT_LT(Distance(alone, resumed.weights), 1e-4);
}

}  // namespace
}  // namespace rewright
