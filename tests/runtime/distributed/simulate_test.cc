// Tests simulated steps against closed forms.
#include "runtime/distributed/simulate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "runtime/distributed/plan_cost.h"
#include "tests/runtime/distributed/plans_util.h"

namespace rewright::distributed {
namespace {

using ::testing::HasSubstr;

// Nodes of so many devices.
Cluster Nodes(int devices, double bytes_per_second, double seconds, int of_all = 0) {
  Cluster cluster{"test", 1 << 30, {{"inner", devices, bytes_per_second, seconds}}};
  if (of_all > 0) cluster.levels.push_back({"outer", of_all, bytes_per_second / 10, seconds * 10});
  return cluster;
}

// Forward passes take `seconds`, backward passes twice as long.
Plan Timed(const std::string& options, double seconds) {
  Plan plan = MakePlan(ParsePlanOptions(options));
  for (size_t p = 0; p < plan.subgraphs.size(); ++p) {
    plan.subgraphs[p].seconds = 2 * p < plan.subgraphs.size() ? seconds : 2 * seconds;
  }
  return plan;
}

SimulatedStep Simulated(const Plan& plan, const Cluster& cluster, const SimulationOptions& options = {}) {
  auto step = Simulate(plan, cluster, options);
  EXPECT_TRUE(step.ok()) << step.status();
  return *std::move(step);
}

// Huang et al. 2019; Narayanan et al. 2021, section 2.2.
TEST(SimulateTest, BubblesAreThoseOfThePapers) {
  const Cluster fast = Nodes(8, 1e15, 0);
  for (const int ranks : {2, 3, 4}) {
    for (const int micro_batches : {4, 8, 12}) {
      for (const char* schedule : {"gpipe", "1f1b"}) {
        const Plan plan = Timed(absl::StrCat("pp=", ranks, ",micro=", micro_batches, ",schedule=", schedule), 1);
        const SimulatedStep step = Simulated(plan, fast);
        EXPECT_NEAR(step.seconds, 3 * (micro_batches + ranks - 1), 1e-6) << ranks << schedule;
        EXPECT_NEAR(step.bubble(), (ranks - 1.0) / (micro_batches + ranks - 1), 1e-6);
      }
      if (micro_batches % ranks != 0) continue;
      const std::string text = absl::StrCat("pp=", ranks, ",micro=", micro_batches, ",schedule=interleaved,chunks=2");
      EXPECT_NEAR(Simulated(Timed(text, 0.5), fast).seconds, 3 * (micro_batches + (ranks - 1) / 2.0), 1e-6) << text;
    }
  }
}

// Qi et al. 2023, ZB-H1: with three parts of one length, and as many micro-batches as ranks or more.
TEST(SimulateTest, ZeroBubbleHasTheBubbleOfOnePart) {
  for (const int ranks : {2, 3, 4, 6}) {
    for (const int micro_batches : {ranks, 2 * ranks, 3 * ranks + 1}) {
      const std::string text = absl::StrCat("pp=", ranks, ",micro=", micro_batches, ",schedule=zero_bubble");
      Plan plan = MakePlan(ParsePlanOptions(text));
      for (PlanSubgraph& subgraph : plan.subgraphs) subgraph.seconds = 1;
      // The first stage has nothing to hand on: the first part of its backward pass is empty.
      const SimulatedStep step = Simulated(plan, Nodes(8, 1e15, 0));
      EXPECT_NEAR(step.seconds, 3 * micro_batches + ranks - 1, 1e-6) << text;
    }
  }
}

TEST(SimulateTest, AnAllReduceTakesWhatItsWaySays) {
  const double bytes_per_second = 1e6, latency = 1e-3;
  const Cluster cluster = Nodes(8, bytes_per_second, latency);
  for (const int ranks : {2, 4, 8}) {
    const Plan plan = MakePlan(ParsePlanOptions(absl::StrCat("dp=", ranks, ",layers=1,micro=", ranks)));
    int64_t bytes = 0;
    for (int sum : plan.TensorsOf(PlanTensor::Kind::kSum)) {
      bytes += plan.tensors[static_cast<size_t>(sum)].type.num_bytes();
    }
    const double whole = static_cast<double>(bytes) / bytes_per_second, others = ranks - 1.0;
    const double steps = std::log2(ranks);
    const auto seconds = [&](CollectiveBy by) { return Simulated(plan, cluster, {.collectives = by}).seconds; };
    const double slack = 8 * 4 * ranks / bytes_per_second;  // elements that do not divide
    EXPECT_NEAR(seconds(CollectiveBy::kDirect), 2 * (latency + others / ranks * whole), slack) << ranks;
    EXPECT_NEAR(seconds(CollectiveBy::kRing), 2 * others * (latency + whole / ranks), slack) << ranks;
    EXPECT_NEAR(seconds(CollectiveBy::kTree), 2 * steps * (latency + whole), slack) << ranks;
    EXPECT_NEAR(seconds(CollectiveBy::kParameterServer), 2 * (latency + others * whole), slack) << ranks;
  }
}

// The sums of the last layers go while the first ones are computed.
TEST(SimulateTest, CommunicationBesideComputationIsNotExposed) {
  const Plan plan = Timed("dp=2,layers=3,micro=4", 1);
  const SimulatedStep fast = Simulated(plan, Nodes(2, 1e15, 0));
  EXPECT_NEAR(fast.seconds, 2 * 3 * 3, 1e-6);
  int64_t layer = 0;
  for (int sum : plan.TensorsOf(PlanTensor::Kind::kSum)) {
    if (plan.tensors[static_cast<size_t>(sum)].behind == 5)
      layer += plan.tensors[static_cast<size_t>(sum)].type.num_bytes();
  }
  // An all-reduce of a layer takes a second: two of three are hidden behind backward passes.
  const SimulatedStep slow = Simulated(plan, Nodes(2, static_cast<double>(layer), 0));
  EXPECT_NEAR(slow.seconds, fast.seconds + 1, 0.01);
  EXPECT_NEAR(slow.ranks[0].exposed, 1, 0.01);
  EXPECT_NEAR(slow.ranks[0].computing, fast.seconds, 1e-6);
}

// A core does one thing at a time: of the same step nothing is hidden, and a pair of gradients is added in a second.
TEST(SimulateTest, ADeviceWithOneEngineHidesNothing) {
  const Plan plan = Timed("dp=2,layers=3,micro=4", 1);
  const double computed = 2 * 3 * 3;
  int64_t all = 0;
  for (int sum : plan.TensorsOf(PlanTensor::Kind::kSum)) {
    all += plan.tensors[static_cast<size_t>(sum)].type.num_bytes();
  }
  Cluster cluster = Nodes(2, static_cast<double>(all) / 3, 0);
  cluster.device = ClusterDevice{.name = "core", .bytes_per_second = 1e18, .efficiency = {{"memory", 1}}};
  EXPECT_NEAR(Simulated(plan, cluster).seconds, computed + 1, 0.1);
  cluster.device->one_engine = true;
  const SimulatedStep step = Simulated(plan, cluster);
  EXPECT_NEAR(step.seconds, computed + 3, 0.01);
  EXPECT_NEAR(step.ranks[0].exposed, 3, 0.01);
  EXPECT_NEAR(step.spans.back().end, step.seconds, 1e-6);
  // A rank adds one of two leaves of each sum to the other.
  cluster = Nodes(2, 1e15, 0);
  cluster.device = ClusterDevice{.name = "core",
                                 .flops_per_second = {{"f32", 1e11}},
                                 .bytes_per_second = 3.0 * static_cast<double>(all),
                                 .efficiency = {{"memory", 0.5}},
                                 .one_engine = true};
  EXPECT_NEAR(Simulated(plan, cluster).seconds, computed + 2, 0.01);
  const auto again = ParseCluster(PrintCluster(cluster));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(Simulated(plan, *again).seconds, Simulated(plan, cluster).seconds);
}

TEST(SimulateTest, LinksOfALevelCarryWhatGoesOverThem) {
  const Plan plan = Timed("dp=2,pp=2,micro=4", 1);
  const SimulatedStep step = Simulated(plan, Nodes(2, 1e6, 0, 4));
  int64_t inner = 0, outer = 0;
  for (int rank = 0; rank < 4; ++rank) {
    const std::vector<int64_t> to = BytesSent(plan, rank);
    for (int other = 0; other < 4; ++other) (other / 2 == rank / 2 ? inner : outer) += to[static_cast<size_t>(other)];
  }
  EXPECT_THAT(step.bytes, ::testing::ElementsAre(inner, outer));
  EXPECT_GT(inner, 0);
  EXPECT_GT(outer, 0);
  // The same ranks within one node are faster.
  EXPECT_LT(Simulated(plan, Nodes(4, 1e6, 0)).seconds, step.seconds);
}

// Devices that share a port take turns in what leaves their node.
TEST(SimulateTest, DevicesShareThePortOfTheirNode) {
  const Plan plan = MakePlan(ParsePlanOptions("dp=4,layers=1,micro=4"));
  Cluster cluster = Nodes(2, 1e15, 0, 4);
  cluster.levels[1].bytes_per_second = 1e6;
  const double alone = Simulated(plan, cluster).seconds;
  cluster.levels[1].port_devices = 2;
  EXPECT_NEAR(Simulated(plan, cluster).seconds, 2 * alone, 1e-3 * alone);
  // A rate that was measured is kept to, too.
  cluster.levels[1].rates["all_reduce"] = {{1, 2.5e5}};
  EXPECT_NEAR(Simulated(plan, cluster).seconds, 4 * alone, 1e-3 * alone);
}

TEST(SimulateTest, TimeOfARankAddsUp) {
  for (const char* text : {"dp=2,pp=2,zero=3,micro=5,schedule=interleaved,chunks=2", "dp=3,zero=3,layers=4,micro=7",
                           "pp=2,tp=2,micro=3", "dp=2,tp=2,zero=2,micro=4"}) {
    Plan plan = Timed(text, 0.01);
    plan.update_seconds = 0.1;
    const SimulatedStep step = Simulated(plan, Nodes(8, 1e6, 1e-4));
    for (const RankSeconds& rank : step.ranks) {
      EXPECT_NEAR(rank.computing + rank.bubble + rank.exposed, step.seconds, 1e-9) << text;
    }
  }
}

TEST(SimulateTest, TracesHaveEveryRunAndMessage) {
  const Plan plan = Timed("pp=2,micro=2", 1);
  const SimulatedStep step = Simulated(plan, Nodes(2, 1e6, 0));
  const auto trace = nlohmann::json::parse(ChromeTrace(plan, step), nullptr, false);
  ASSERT_TRUE(trace.is_object());
  // Each of two micro-batches has four passes and two messages; each of two ranks has an update.
  EXPECT_EQ(trace["traceEvents"].size(), 2 * 6 + 2);
  EXPECT_EQ(trace["traceEvents"][0]["name"], "RUN s0 of 0");
}

TEST(SimulateTest, MoreRanksThanDevicesAreRefused) {
  const auto step = Simulate(MakePlan(ParsePlanOptions("dp=4")), Nodes(2, 1, 0));
  EXPECT_THAT(std::string(step.status().message()),
              HasSubstr("found 4 ranks, expected at most 2, the devices of test"));
}

TEST(ClusterTest, IsReadAndChecked) {
  const std::string good = R"({"name": "n", "memory_bytes": 8e10, "sources": ["a page"], "levels": [
      {"name": "nvlink", "devices": 8, "bytes_per_second": 4.5e11, "seconds": 1e-6},
      {"name": "infiniband", "devices": 64, "bytes_per_second": 5e10, "seconds": 5e-6}]})";
  const auto cluster = ParseCluster(good);
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  EXPECT_EQ(cluster->devices(), 64);
  EXPECT_EQ(cluster->LevelOf(1, 7), 0);
  EXPECT_EQ(cluster->LevelOf(1, 8), 1);
  const auto shipped = ReadCluster("h100-infiniband");
  ASSERT_TRUE(shipped.ok()) << shipped.status();
  const std::string printed = PrintCluster(*shipped);
  EXPECT_THAT(printed, HasSubstr("370000000000.0"));
  EXPECT_EQ(PrintCluster(*ParseCluster(printed)), printed);
  const auto error = [](const std::string& text) { return std::string(ParseCluster(text).status().message()); };
  const auto patched = [&](const std::string& patch) {
    nlohmann::ordered_json json = nlohmann::ordered_json::parse(good);
    json.merge_patch(nlohmann::ordered_json::parse(patch));
    return error(json.dump());
  };
  EXPECT_THAT(error("[]"), HasSubstr("cluster: expected a JSON object"));
  EXPECT_THAT(patched(R"({"speed": 1})"), HasSubstr("cluster: speed: is no field"));
  EXPECT_THAT(patched(R"({"name": 1})"), HasSubstr("cluster: name: found 1, expected a text"));
  EXPECT_THAT(patched(R"({"memory_bytes": null})"), HasSubstr("cluster: memory_bytes: is missing"));
  EXPECT_THAT(patched(R"({"levels": []})"), HasSubstr("cluster: levels: expected a list of at least one level"));
  EXPECT_THAT(patched(R"({"levels": [{"name": "a", "devices": 8, "bytes_per_second": 0, "seconds": 0}]})"),
              HasSubstr("cluster: levels[0].bytes_per_second: found 0, expected a number from 1 to 1e+15"));
  EXPECT_THAT(patched(R"({"levels": [{"name": "a", "devices": 8, "bytes_per_second": 1, "seconds": 0},
                                     {"name": "b", "devices": 12, "bytes_per_second": 1, "seconds": 0}]})"),
              HasSubstr("cluster: levels[1].devices: found 12, expected a multiple of 8"));
}

}  // namespace
}  // namespace rewright::distributed
