// Tests `rewright simulate`, and the plans that `rewright train --plan` writes for it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/files.h"
#include "nlohmann/json.hpp"
#include "runtime/distributed/check_plan.h"
#include "runtime/distributed/plan_text.h"
#include "tests/tools/program/program_util.h"

namespace rewright {
namespace {

using ::testing::HasSubstr;

class SimulateVerbTest : public ::testing::Test {
 protected:
  SimulateVerbTest() {
    WriteContents(folder_ / "node.json", R"({"name": "node", "memory_bytes": 1e9, "levels": [
        {"name": "bus", "devices": 2, "bytes_per_second": 1e6, "seconds": 0.001}]})");
    // Two ranks sum a vector of 4000 bytes.
    WriteContents(folder_ / "step.plan",
                  "mesh dp=2\nmicro_batches 2\nupdate_seconds 0.25\nx0 f32[4]\nt1 f32[1000]\n"
                  "g2 f32[1000] of t1 behind s0\ns0 reads x0 makes t1 seconds 0.5\n"
                  "rank 0\n 0 RUN s0 of 0\n 1 ACCUMULATE g2 of 0\n 2 ALL_REDUCE g2 over dp\n 3 WAIT 2\n 4 UPDATE g2\n"
                  "rank 1\n 0 RUN s0 of 1\n 1 ACCUMULATE g2 of 1\n 2 ALL_REDUCE g2 over dp\n 3 WAIT 2\n 4 UPDATE g2\n");
  }
  std::string At(const std::string& name) const { return folder_ / name; }
  Outcome Simulated(const std::string& plan, const std::string& flags = "") const {
    return Rewright("simulate " + At(plan) + " --cluster " + At("node.json") + " " + flags);
  }
  TemporaryFolder folder_;
};

TEST_F(SimulateVerbTest, TellsTheTimeOfAStep) {
  const Outcome outcome = Simulated("step.plan", "--json");
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const auto json = nlohmann::json::parse(outcome.out);
  // Two rounds of half of the bytes.
  EXPECT_NEAR(json["seconds"].get<double>(), 0.5 + 2 * (0.001 + 2000 / 1e6) + 0.25, 1e-9);
  EXPECT_EQ(json["bytes"]["bus"], 2 * 4000);
  const Outcome server = Simulated("step.plan", "--collectives server --trace -");
  ASSERT_EQ(server.status, 0) << server.err;
  EXPECT_EQ(nlohmann::json::parse(server.out)["traceEvents"].size(), 6u);
  EXPECT_THAT(server.err, HasSubstr("step:     0.76 s on 2 ranks"));
}

TEST_F(SimulateVerbTest, SimulatesAModelByItsSizes) {
  WriteContents(At("model.json"), R"({"name": "small", "batch": 64, "transformer": {"layers": 8, "hidden": 1024,
      "heads": 16, "mlp": 4096, "vocabulary": 32000, "sequence": 512}})");
  const auto run = [&](const std::string& flags) {
    const Outcome outcome = Rewright("simulate " + At("model.json") + " --cluster h100-infiniband --json " + flags);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return nlohmann::json::parse(outcome.out, nullptr, false);
  };
  const auto made = run("--layout dp=4,pp=2,tp=2,zero=1,micro=16 --plan " + At("made.plan"));
  ASSERT_TRUE(made.is_object());
  EXPECT_TRUE(made["fits"].get<bool>());
  EXPECT_GT(made["exposed_over"]["tp"].get<double>(), 0);
  // The plan is one file like those of training runs.
  const Outcome again =
      Rewright("simulate " + At("made.plan") + " --cluster h100-infiniband --collectives ring --json");
  ASSERT_EQ(again.status, 0) << again.err;
  EXPECT_NEAR(nlohmann::json::parse(again.out)["seconds"].get<double>(), made["seconds"].get<double>(), 1e-9);
  // The layout that auto finds is no longer than that, is no longer than data parallel, and can be passed back.
  const auto found = run("--layout auto --devices 16 --explain");
  EXPECT_LE(found["seconds"].get<double>(), made["seconds"].get<double>());
  EXPECT_LE(found["seconds"].get<double>(), run("--layout dp=16,micro=64")["seconds"].get<double>());
  EXPECT_GE(found["next"][0]["seconds"].get<double>(), found["seconds"].get<double>());
  EXPECT_EQ(run("--layout " + found["layout"].get<std::string>())["seconds"], found["seconds"]);
}

TEST_F(SimulateVerbTest, SaysWhatIsWrong) {
  const auto error = [&](const std::string& plan) {
    WriteContents(At("wrong.plan"), plan);
    const Outcome outcome = Simulated("wrong.plan");
    EXPECT_EQ(outcome.status, 2) << outcome.out;
    return outcome.err;
  };
  EXPECT_THAT(error("mesh dp=x"), HasSubstr("wrong.plan: line 1: found `dp=x`, expected NAME=SIZE"));
  const std::string head =
      "mesh dp=2\nmicro_batches 2\nx0 f32[4]\nt1 f32[1000]\ng2 f32[1000] of t1 behind s0\n"
      "s0 reads x0 makes t1\nrank 0\n 0 RUN s0 of 0\n 1 UPDATE g2\nrank 1\n";
  EXPECT_THAT(error(head + " 0 RUN s0 of 1\n 1 UPDATE g2\n"),
              HasSubstr("wrong.plan: rank 0, action 1, UPDATE g2: g2 has the leaves [], expected those from 0 to 1"));
  EXPECT_THAT(Simulated("step.plan", "--layout dp=2").err, HasSubstr("found a plan, which has its lists"));
  WriteContents(At("node.json"), R"({"name": "node"})");
  const Outcome outcome = Simulated("step.plan");
  EXPECT_THAT(outcome.err, HasSubstr("node.json: cluster: memory_bytes: is missing"));
}

TEST_F(SimulateVerbTest, APlanOfATrainingRunIsMeasuredAndSound) {
  const std::string digits = std::string(REWRIGHT_SOURCE_DIR) + "/tools/examples/digits/";
  WriteContents(At("config.json"),
                R"({"model": {"mlp": {"sizes": [64, 24, 10]}}, "data": {"inputs": {"x": {"file": ")" + digits +
                    R"(train_x.npy", "scale": 0.0625}}, "target": ")" + digits +
                    R"(train_y.npy", "batch": 32, "micro_batches": 4},
      "loss": "cross_entropy", "optimizer": {"kind": "sgd", "learning_rate": 0.1}, "steps": 3})");
  const Outcome trained = Rewright("train " + At("config.json") + " --threads 1 --plan " + At("run.plan"));
  ASSERT_EQ(trained.status, 0) << trained.err;
  const auto plan = distributed::ParsePlan(FileContents(At("run.plan")));
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_TRUE(distributed::CheckPlan(*plan).ok());
  EXPECT_GT(plan->update_seconds, 0);
  for (const distributed::PlanSubgraph& subgraph : plan->subgraphs) {
    EXPECT_TRUE(subgraph.makes.empty() || subgraph.seconds > 0);
  }
  EXPECT_EQ(Simulated("run.plan").status, 0);
  // Without a run: the same lists, in any layout of a described device.
  for (const char* layout : {"dp=2,zero=1", "dp=2,zero=3", "pp=2,schedule=zero_bubble", "dp=2,pp=2,zero=2"}) {
    const Outcome outcome = Rewright("simulate " + At("config.json") + " --cluster many-core --layout " + layout +
                                     " --json --plan " + At("made.plan"));
    ASSERT_EQ(outcome.status, 0) << layout << outcome.err;
    EXPECT_GT(nlohmann::json::parse(outcome.out)["memory_bytes"].get<int64_t>(), 0);
    const auto made = distributed::ParsePlan(FileContents(At("made.plan")));
    ASSERT_TRUE(made.ok()) << made.status();
    EXPECT_TRUE(distributed::CheckPlan(*made).ok());
  }
  EXPECT_THAT(Rewright("simulate " + At("config.json") + " --cluster many-core --layout tp=2").err,
              HasSubstr("model.places: is missing"));
  // The layout that auto finds is no longer than others on as many devices.
  const auto seconds = [&](const std::string& flags) {
    const Outcome outcome = Rewright("simulate " + At("config.json") + " --cluster many-core --json " + flags);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return nlohmann::json::parse(outcome.out, nullptr, false).value("seconds", 0.0);
  };
  const double best = seconds("--layout auto --devices 4");
  for (const char* layout : {"dp=4", "dp=4,zero=2", "dp=2,pp=2", "pp=2,dp=2,schedule=zero_bubble"}) {
    EXPECT_LE(best, seconds(std::string("--layout ") + layout)) << layout;
  }
}

}  // namespace
}  // namespace rewright
