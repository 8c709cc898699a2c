// Tests steps of described models: their lists are sound and golden, their times hold against closed forms, and the
// search of layouts against all layouts.
#include "runtime/distributed/described/described_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <random>

#include "absl/strings/str_cat.h"
#include "runtime/distributed/check_plan.h"
#include "runtime/distributed/described/layout_search.h"
#include "runtime/distributed/plan_text.h"
#include "tests/runtime/distributed/plans_util.h"

namespace rewright::distributed {
namespace {

using ::testing::HasSubstr;
using Kind = Action::Kind;

constexpr char kSmall[] = R"({"name": "small", "batch": 16, "transformer": {"layers": 4, "hidden": 64, "heads": 4,
    "key_value_heads": 2, "mlp": 128, "vocabulary": 256, "sequence": 32}})";
constexpr char kExperts[] = R"({"name": "experts", "batch": 16, "transformer": {"layers": 4, "hidden": 64, "heads": 4,
    "mlp": 128, "vocabulary": 256, "sequence": 32, "experts": 8, "experts_per_token": 2, "expert_mlp": 32,
    "dense_layers": 1}})";

DescribedModel Model(const std::string& json) {
  auto model = ParseDescribedModel(json);
  EXPECT_TRUE(model.ok()) << model.status();
  return *model;
}

// Nodes of four devices, slow enough for small models that all parts of a step count.
Cluster SmallCluster(int64_t memory_bytes = int64_t{1} << 40) {
  Cluster cluster{"small", memory_bytes, {{"inner", 4, 1e9, 1e-6}, {"outer", 4096, 1e8, 1e-5}}};
  cluster.device = ClusterDevice{
      "slow", {{"bf16", 1e11}}, 1e10, 1e-6, {{"bf16", 0.5}, {"attention", 0.5}, {"experts", 0.5}, {"memory", 0.5}}};
  cluster.device->host_bytes_per_second = 1e9;
  return cluster;
}

DescribedLayout Layout(const std::string& text) {
  auto layout = ParseDescribedLayout(text);
  EXPECT_TRUE(layout.ok()) << layout.status();
  return *layout;
}

constexpr SimulationOptions kRing = {.collectives = CollectiveBy::kRing, .spans = false};

TEST(DescribedModelTest, WeightsAreThosePublished) {
  const auto weights = [](const std::string& name) {
    std::ifstream file(REWRIGHT_SOURCE_DIR "/tools/examples/transformers/" + name + ".json");
    return static_cast<double>(Model(std::string(std::istreambuf_iterator<char>(file), {})).Weights()) / 1e9;
  };
  EXPECT_NEAR(weights("llama-3-8b"), 8.03, 0.01);
  EXPECT_NEAR(weights("llama-3-70b"), 70.6, 0.1);
  EXPECT_NEAR(weights("llama-3-405b"), 405.8, 0.2);
  EXPECT_NEAR(weights("qwen3-30b-a3b"), 30.5, 0.1);
  EXPECT_NEAR(weights("deepseek-v3"), 671, 1);
}

TEST(DescribedModelTest, ErrorsNameField) {
  const auto error = [](const std::string& json) { return std::string(ParseDescribedModel(json).status().message()); };
  EXPECT_THAT(error("[]"), HasSubstr("model: expected a JSON object"));
  EXPECT_THAT(error(R"({"batch": 1})"), HasSubstr("model: transformer: found nothing, expected an object of sizes"));
  EXPECT_THAT(error(R"({"batch": 1, "transformer": {"layers": 0}})"),
              HasSubstr("model: transformer.layers: found 0, expected a whole number from 1 to"));
  const std::string sizes = R"("layers": 2, "hidden": 8, "heads": 4, "mlp": 8, "vocabulary": 8, "sequence": 8)";
  EXPECT_THAT(error(R"({"transformer": {)" + sizes + "}}"),
              HasSubstr("model: batch: found nothing, expected a number"));
  EXPECT_THAT(error(R"({"batch": 1, "transformer": {"depth": 1, )" + sizes + "}}"), HasSubstr("found depth, expected"));
  EXPECT_THAT(error(R"({"batch": 1, "transformer": {"key_value_heads": 3, )" + sizes + "}}"),
              HasSubstr("transformer.key_value_heads: found 3, expected a divisor of the heads"));
  EXPECT_THAT(error(R"({"batch": 1, "transformer": {"experts": 4, )" + sizes + "}}"),
              HasSubstr("transformer.experts: found 4, expected expert_mlp"));
}

TEST(DescribedLayoutTest, PrintsAndParses) {
  for (const char* text : {"dp=2", "dp=2,tp=2,pp=4,zero=3,micro=16,remat=full", "tp=4", "dp=4,ep=4,overlap=1,inner=dp",
                           "pp=2,micro=4,schedule=zero_bubble", "dp=2,pp=2,schedule=interleaved,chunks=4"}) {
    const std::string printed = PrintLayout(Layout(text));
    EXPECT_EQ(PrintLayout(Layout(printed)), printed) << text;
  }
  const auto error = [](const std::string& text) { return std::string(ParseDescribedLayout(text).status().message()); };
  EXPECT_THAT(error("dp=2,remat=some"), HasSubstr("found `remat=some`, expected remat=none|full"));
  EXPECT_THAT(error("dp=4,ep=2"), HasSubstr("found ep=2, expected 1 or dp, 4"));
  EXPECT_THAT(error("dp=0"), HasSubstr("found `dp=0`, expected dp=N"));
}

TEST(DescribedPlanTest, LayoutsThatDoNotFitAreRefused) {
  const auto error = [](const std::string& layout) {
    return std::string(PlanDescribed(Model(kSmall), Layout(layout), SmallCluster()).status().message());
  };
  EXPECT_THAT(error("dp=3,micro=3"), HasSubstr("found 3 micro-batches, expected a divisor of the batch, 16"));
  EXPECT_THAT(error("tp=8"), HasSubstr("found tp=8, expected a divisor of the heads, 4"));
  EXPECT_THAT(error("pp=8"), HasSubstr("found 8 stages, expected at most one for each of 4 layers"));
  EXPECT_THAT(error("dp=2,ep=2"), HasSubstr("found ep=2, expected a divisor of the experts, 0"));
  Cluster cluster = SmallCluster();
  cluster.levels[0].devices = 3;
  cluster.levels[1].devices = 4095;
  const auto uneven = PlanDescribed(Model(kSmall), Layout("dp=4,tp=2,micro=4"), cluster);
  EXPECT_THAT(std::string(uneven.status().message()), HasSubstr("expected groups that divide the devices"));
  cluster.device.reset();
  EXPECT_THAT(std::string(PlanDescribed(Model(kSmall), Layout("tp=1"), cluster).status().message()),
              HasSubstr("expected a described device"));
}

// The first line names model and layout: "# experts dp=2,ep=2".
TEST(DescribedPlanTest, TextsAreGolden) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(REWRIGHT_SOURCE_DIR "/tests/cases/plans/described")) {
    SCOPED_TRACE(entry.path().filename());
    std::ifstream file(entry.path());
    std::string sign, name, layout, rest;
    file >> sign >> name >> layout;
    std::getline(file, rest);
    DescribedModel model = Model(name == "experts" ? kExperts : kSmall);
    model.layers = 2;
    model.batch = 4;
    const std::string golden((std::istreambuf_iterator<char>(file)), {});
    auto step = PlanDescribed(model, Layout(layout), SmallCluster());
    ASSERT_TRUE(step.ok()) << step.status();
    for (PlanSubgraph& subgraph : step->plan.subgraphs) subgraph.seconds = 0;  // sums round as the processor does
    step->plan.update_seconds = 0;
    EXPECT_EQ(PrintPlan(step->plan), golden);
    ++count;
  }
  EXPECT_EQ(count, 5);
}

TEST(DescribedPlanTest, EveryLayoutOfEightDevicesIsSoundAndPrints) {
  int count = 0;
  for (const char* json : {kSmall, kExperts}) {
    const DescribedModel model = Model(json);
    for (const bool overlap : {false, true}) {
      for (const DescribedLayout& layout : ListLayouts(model, SmallCluster(), 8, overlap)) {
        if (layout.ranks.micro < model.batch) continue;
        SCOPED_TRACE(PrintLayout(layout));
        const auto step = PlanDescribed(model, layout, SmallCluster());
        ASSERT_TRUE(step.ok()) << step.status();
        EXPECT_EQ(CheckPlan(step->plan), absl::OkStatus());
        if (++count % 7 != 0) continue;
        const std::string text = PrintPlan(step->plan);
        const auto parsed = ParsePlan(text);
        ASSERT_TRUE(parsed.ok()) << parsed.status();
        EXPECT_EQ(parsed->lists, step->plan.lists);
        EXPECT_EQ(PrintPlan(*parsed), text);
      }
    }
  }
  EXPECT_GT(count, 200);
}

// True if some of the weights that an action gathers were gathered before: without it they would stay, and the step
// would need more memory.
bool GathersAgain(const Plan& plan, const std::vector<Action>& list, int number) {
  const Action& action = list[number];
  if (action.kind != Kind::kAllGather || plan.tensors[action.tensors[0]].kind != PlanTensor::Kind::kWeight)
    return false;
  return std::any_of(list.begin(), list.begin() + number, [&](const Action& other) {
    return other.kind == Kind::kAllGather &&
           std::find_first_of(other.tensors.begin(), other.tensors.end(), action.tensors.begin(),
                              action.tensors.end()) != other.tensors.end();
  });
}

// A plan with one action damaged: left out, twice, or with another field. Each is another plan, and none computes the
// step.
Plan Damaged(const Plan& plan, std::mt19937* random) {
  const auto draw = [&](size_t count) { return std::uniform_int_distribution<size_t>(0, count - 1)(*random); };
  const std::vector<int> ranks = plan.RanksWithLists();
  while (true) {
    const int rank = ranks[draw(ranks.size())];
    const int number = static_cast<int>(draw(plan.lists[rank].size()));
    Plan damaged = plan;
    Action& action = damaged.lists[rank][number];
    const int ended = action.kind == Kind::kWait ? action.target : number;
    if (GathersAgain(plan, plan.lists[rank], ended)) continue;
    switch (draw(6)) {
      case 0: return Without(plan, rank, number);
      case 1:
        if (action.kind == Kind::kWait) continue;
        return With(plan, rank, number, Action(action));
      case 2:  // another micro-batch
        if (action.micro_batch < 0 || plan.micro_batches == 1) continue;
        action.micro_batch = (action.micro_batch + 1) % plan.micro_batches;
        return damaged;
      case 3:  // another collective
        if (!IsCollective(action.kind)) continue;
        action.kind = action.kind == Kind::kAllGather ? Kind::kReduceScatter : Kind::kAllGather;
        return damaged;
      case 4:  // another subgraph
        if (action.kind != Kind::kRun || plan.subgraphs.size() == 1) continue;
        action.target = (action.target + 1) % static_cast<int>(plan.subgraphs.size());
        return damaged;
      default:  // a tensor less
        if (action.tensors.size() < 2) continue;
        action.tensors.pop_back();
        return damaged;
    }
  }
}

TEST(DescribedPlanTest, PlansWithADamagedActionAreRefused) {
  std::mt19937 random(11);
  int count = 0;
  for (const auto& [json, layout] : {std::pair(kSmall, "dp=2,tp=2,micro=8"),
                                     {kSmall, "dp=2,tp=2,zero=3,micro=8,remat=full"},
                                     {kSmall, "dp=2,pp=2,tp=2,zero=1,micro=8,overlap=1"},
                                     {kSmall, "dp=2,pp=2,zero=2,micro=8,schedule=interleaved,chunks=2"},
                                     {kSmall, "pp=2,tp=2,micro=4,schedule=zero_bubble"},
                                     {kExperts, "dp=2,tp=2,micro=8,ep=2"},
                                     {kExperts, "dp=2,pp=2,zero=2,micro=8,ep=2,inner=dp"}}) {
    const auto step = PlanDescribed(Model(json), Layout(layout), SmallCluster());
    ASSERT_TRUE(step.ok()) << step.status();
    for (int i = 0; i < 50; ++i, ++count) {
      const Plan damaged = Damaged(step->plan, &random);
      EXPECT_FALSE(CheckPlan(damaged).ok()) << layout << " " << i << "\n" << PrintPlan(damaged);
    }
  }
  EXPECT_GE(count, 300);
}

TEST(DescribedPlanTest, DamageOfCollectivesOfValuesIsTold) {
  const auto step = PlanDescribed(Model(kSmall), Layout("tp=2,micro=2"), SmallCluster());
  ASSERT_TRUE(step.ok()) << step.status();
  std::vector<Action> list = step->plan.lists[0];
  const auto scatter =
      std::find_if(list.begin(), list.end(), [](const Action& action) { return action.kind == Kind::kReduceScatter; });
  Plan damaged = step->plan;
  damaged.lists[0][scatter - list.begin()].kind = Kind::kAllGather;
  EXPECT_THAT(std::string(CheckPlan(damaged).message()), HasSubstr("does not complete t"));
  const auto gather =
      std::find_if(list.begin(), list.end(), [](const Action& action) { return action.kind == Kind::kAllGather; });
  damaged = Without(step->plan, 0, static_cast<int>(gather - list.begin()));
  EXPECT_THAT(std::string(CheckPlan(damaged).message()),
              HasSubstr("is not complete: expected a collective over tp and its WAIT before"));
}

// Ranks that are alike stand for all: the same lists written for every rank take the same time and memory.
TEST(AlikeTest, OneReplicaStandsForAll) {
  for (const char* text : {"dp=4,layers=3,micro=8", "dp=4,layers=3,zero=3,micro=8", "dp=2,pp=2,zero=1,micro=8",
                           "dp=4,pp=2,zero=2,micro=8,schedule=interleaved,chunks=2"}) {
    const PlanOptions options = ParsePlanOptions(text);
    Plan all = MakePlan(options), one = MakePlan(options, /*alike=*/{0});
    for (Plan* plan : {&all, &one}) {
      for (PlanSubgraph& subgraph : plan->subgraphs) subgraph.seconds = 1e-4;
      EXPECT_EQ(CheckPlan(*plan), absl::OkStatus()) << text;
    }
    for (const int port_devices : {1, 4}) {
      Cluster cluster = SmallCluster();
      cluster.levels[1].port_devices = port_devices;
      const auto of_all = Simulate(all, cluster, kRing), of_one = Simulate(one, cluster, kRing);
      ASSERT_TRUE(of_all.ok() && of_one.ok()) << of_all.status() << of_one.status();
      EXPECT_NEAR(of_one->seconds, of_all->seconds, 1e-9) << text << port_devices;
      EXPECT_EQ(of_one->bytes, of_all->bytes) << text;
      EXPECT_EQ(of_one->numbers.size() * options.dp, of_all->numbers.size());
      for (size_t k = 0; k < of_one->numbers.size(); ++k) EXPECT_EQ(of_one->peak_bytes[k], of_all->peak_bytes[k]);
    }
  }
}

// Every layout of four and eight devices is simulated; none is shorter than the one that is found, or than its bound.
TEST(LayoutSearchTest, NoLayoutIsShorterThanTheOneFound) {
  for (const char* json : {kSmall, kExperts}) {
    DescribedModel model = Model(json);
    model.batch = 8;
    for (const int devices : {4, 8}) {
      struct Timed {
        double seconds = 0;
        int64_t bytes = 0;
        bool plain = false;
      };
      std::vector<Timed> all;
      for (const DescribedLayout& layout : ListLayouts(model, SmallCluster(), devices, false)) {
        SCOPED_TRACE(PrintLayout(layout));
        const auto time = TimeDescribed(model, layout, SmallCluster(), kRing);
        const auto bounds = BoundsOf(model, layout, SmallCluster(), kRing);
        ASSERT_TRUE(time.ok() && bounds.ok()) << time.status() << bounds.status();
        EXPECT_LE(bounds->seconds, time->step.seconds * (1 + 1e-9));
        EXPECT_LE(bounds->bytes, time->memory_bytes);
        const bool plain = layout.ranks.dp == devices && layout.ranks.zero == 0 && !layout.expert_parallel;
        all.push_back({time->step.seconds, time->memory_bytes, plain});
      }
      for (const int64_t memory_bytes : {int64_t{1} << 40, int64_t{1500000}}) {
        double best = std::numeric_limits<double>::infinity(), plain = best;
        for (const Timed& time : all) {
          if (time.bytes > memory_bytes) continue;
          best = std::min(best, time.seconds);
          if (time.plain) plain = std::min(plain, time.seconds);
        }
        const Cluster cluster = SmallCluster(memory_bytes);
        const auto search = SearchLayouts(model, cluster, {.devices = devices, .most_simulated = 0});
        ASSERT_TRUE(search.ok()) << search.status();
        EXPECT_TRUE(search->complete);
        EXPECT_EQ(search->found[0].time.step.seconds, best) << json << devices << " " << memory_bytes;
        const auto short_search = SearchLayouts(model, cluster, {.devices = devices, .most_simulated = 3});
        if (short_search.ok()) {
          EXPECT_LE(short_search->found[0].time.step.seconds, plain);
        }
      }
    }
  }
}

// The memory of a device decides whether layers are computed again.
TEST(LayoutSearchTest, RecomputesWhereNothingElseFits) {
  const DescribedModel model = Model(kSmall);
  Cluster cluster = SmallCluster();
  cluster.device->host_bytes_per_second = 0;
  std::map<bool, int64_t> least;  // by whether layers are computed again
  for (const DescribedLayout& layout : ListLayouts(model, cluster, 4, false)) {
    const auto time = TimeDescribed(model, layout, cluster, kRing);
    ASSERT_TRUE(time.ok()) << time.status();
    const auto found = least.try_emplace(layout.recompute, time->memory_bytes).first;
    found->second = std::min(found->second, time->memory_bytes);
  }
  ASSERT_LT(least[true], least[false]);
  const auto chosen = [&](int64_t memory_bytes) {
    cluster.memory_bytes = memory_bytes;
    const auto search = SearchLayouts(model, cluster, {.devices = 4, .most_simulated = 0});
    EXPECT_TRUE(search.ok()) << search.status();
    return search->found[0].layout.recompute;
  };
  EXPECT_TRUE(chosen(least[false] - 1));
  EXPECT_FALSE(chosen(int64_t{1} << 40));
}

// Kept values wait in the memory of the host: the same lists beside that, in less memory, for the time of copies.
TEST(DescribedPlanTest, WhatIsOffloadedTakesTimeInPlaceOfMemory) {
  const DescribedModel model = Model(kSmall);
  for (const char* text : {"dp=2,micro=4", "dp=2,micro=4,remat=full", "pp=2,micro=4,schedule=zero_bubble"}) {
    const auto kept = TimeDescribed(model, Layout(text), SmallCluster(), kRing);
    const DescribedLayout layout = Layout(absl::StrCat(text, ",offload=1"));
    EXPECT_EQ(PrintLayout(Layout(PrintLayout(layout))), PrintLayout(layout));
    const auto step = PlanDescribed(model, layout, SmallCluster());
    const auto away = TimeDescribed(model, layout, SmallCluster(), kRing);
    ASSERT_TRUE(kept.ok() && step.ok() && away.ok()) << away.status();
    EXPECT_TRUE(CheckPlan(step->plan).ok()) << CheckPlan(step->plan);
    EXPECT_LE(away->memory_bytes, kept->memory_bytes) << text;
    double copied = 0;
    for (const Action& action : step->plan.lists[0]) {
      if (action.kind != Kind::kOffload && action.kind != Kind::kFetch) continue;
      for (int tensor : action.tensors) copied += static_cast<double>(step->plan.tensors[tensor].type.num_bytes());
    }
    EXPECT_GT(copied, 0);
    if (layout.ranks.pp == 1) {
      EXPECT_LT(away->memory_bytes, kept->memory_bytes) << text;
      EXPECT_NEAR(away->step.seconds, kept->step.seconds + copied / 1e9, 1e-5) << text;
    }
  }
  Cluster none = SmallCluster();
  none.device->host_bytes_per_second = 0;
  EXPECT_THAT(std::string(PlanDescribed(model, Layout("dp=2,offload=1"), none).status().message()),
              HasSubstr("found offload=1, expected a cluster whose device has host_bytes_per_second"));
}

// Memory that no layout fits into by recomputation alone.
TEST(LayoutSearchTest, OffloadsWhereNothingElseFits) {
  const DescribedModel model = Model(kSmall);
  Cluster cluster = SmallCluster();
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const DescribedLayout& layout : ListLayouts(model, cluster, 4, false)) {
    if (layout.offload) continue;
    const auto time = TimeDescribed(model, layout, cluster, kRing);
    ASSERT_TRUE(time.ok()) << time.status();
    least = std::min(least, time->memory_bytes);
  }
  cluster.memory_bytes = least - 1;
  const auto search = SearchLayouts(model, cluster, {.devices = 4, .most_simulated = 0});
  ASSERT_TRUE(search.ok()) << search.status();
  EXPECT_TRUE(search->found[0].layout.offload);
  // The shortest layouts by their bounds do not fit: then those are simulated that take the least memory.
  EXPECT_TRUE(SearchLayouts(model, cluster, {.devices = 4, .most_simulated = 20}).ok());
  cluster.device->host_bytes_per_second = 0;
  EXPECT_FALSE(SearchLayouts(model, cluster, {.devices = 4, .most_simulated = 0}).ok());
  const auto some = SearchLayouts(model, cluster, {.devices = 4, .most_simulated = 1});
  EXPECT_THAT(std::string(some.status().message()), HasSubstr("layouts that were simulated fits, of "));
}

TEST(LayoutSearchTest, SaysThatNoLayoutFits) {
  const auto search = SearchLayouts(Model(kSmall), SmallCluster(1000), {.devices = 4});
  EXPECT_THAT(std::string(search.status().message()), HasSubstr("layouts on 4 devices fits: the least needs"));
  EXPECT_THAT(std::string(SearchLayouts(Model(kSmall), SmallCluster(), {.devices = 7}).status().message()),
              HasSubstr("found no layout of 7 devices that divides batch and heads"));
}

// Steps with many micro-batches are told from some with fewer.
TEST(DescribedTimeTest, FurtherMicroBatchesTakeEqualTimes) {
  DescribedModel model = Model(kSmall);
  model.batch = 128;
  for (const char* text :
       {"dp=2,tp=2,micro=64", "dp=2,pp=4,micro=128", "dp=2,zero=3,micro=128",
        "dp=2,pp=2,tp=2,zero=1,micro=128,schedule=interleaved,chunks=2", "pp=2,tp=2,micro=64,schedule=zero_bubble"}) {
    const auto time = TimeDescribed(model, Layout(text), SmallCluster(), kRing);
    const auto step = PlanDescribed(model, Layout(text), SmallCluster());
    ASSERT_TRUE(time.ok() && step.ok()) << time.status() << step.status();
    EXPECT_LT(time->simulated_micro_batches, 64) << text;
    const auto whole = Simulate(step->plan, SmallCluster(), kRing);
    ASSERT_TRUE(whole.ok()) << whole.status();
    EXPECT_NEAR(time->step.seconds / whole->seconds, 1, 1e-3) << text;
    EXPECT_NEAR(time->step.bubble(), whole->bubble(), 2e-3) << text;
    EXPECT_NEAR(static_cast<double>(time->step.bytes[0]), static_cast<double>(whole->bytes[0]),
                1 + 1e-6 * static_cast<double>(whole->bytes[0]))
        << text;
  }
}

TEST(DescribedTimeTest, ThousandsOfDevicesAreSimulated) {
  DescribedModel model = Model(kSmall);
  model.batch = 4096;
  const auto time = TimeDescribed(model, Layout("dp=512,pp=2,tp=4,zero=1,micro=4096"), SmallCluster(), kRing);
  ASSERT_TRUE(time.ok()) << time.status();
  EXPECT_EQ(time->step.numbers.size(), 2u);
  EXPECT_GT(time->step.busy[1], 0);
}

}  // namespace
}  // namespace rewright::distributed
