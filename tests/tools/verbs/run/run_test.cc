// Tests `rewright run`: percentiles, and the trace of a run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tools/program/program_util.h"

namespace rewright {
namespace {

using ::testing::HasSubstr;

class RunVerbTest : public ::testing::Test {
 protected:
  RunVerbTest() { EXPECT_EQ(Rewright("zoo taso_nasrnn --layers 1 -o " + model_).status, 0); }
  TemporaryFolder folder_;
  const std::string model_ = folder_ / "m.onnx";
};

TEST_F(RunVerbTest, TellsPercentilesAndRate) {
  const Outcome outcome = Rewright("run --iterations 20 --json --threads 1 " + model_);
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const auto json = outcome.Json();
  const auto& latency = json["latency_ms"];
  EXPECT_GT(latency["min"].get<double>(), 0);
  EXPECT_LE(latency["min"], latency["p50"]);
  EXPECT_LE(latency["p50"], latency["p90"]);
  EXPECT_LE(latency["p90"], latency["p99"]);
  const double rate = json["runs_per_second"].get<double>();
  EXPECT_GT(rate, 0);
  EXPECT_LE(rate, 1e3 / latency["min"].get<double>() * (1 + 1e-9));
}

TEST_F(RunVerbTest, TracesEachKernelOfARun) {
  const Outcome outcome =
      Rewright("run --iterations 1 --json --threads 1 --trace " + (folder_ / "t.json") + " " + model_);
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const auto trace = nlohmann::json::parse(FileContents(folder_ / "t.json"));
  double end = 0, flops = 0;
  int kernels = 0, lanes = 0;
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] == "M") {
      ++lanes;
      EXPECT_THAT(event["args"]["name"].get<std::string>(), HasSubstr("queue 0"));
      continue;
    }
    ++kernels;
    EXPECT_EQ(event["ph"], "X");
    EXPECT_FALSE(event["name"].get<std::string>().empty());
    EXPECT_GE(event["ts"].get<double>(), end - 1e-6);  // one after the other
    end = event["ts"].get<double>() + event["dur"].get<double>();
    flops += event["args"]["flops"].get<double>();
    EXPECT_GT(event["args"]["bytes_read"].get<double>() + event["args"]["bytes_written"].get<double>(), 0);
  }
  EXPECT_EQ(lanes, 1);
  EXPECT_GT(kernels, 3);
  EXPECT_NEAR(flops, outcome.Json()["flops"].get<double>(), 1);
}

TEST_F(RunVerbTest, RefusesATraceOfWhatHasNoKernels) {
  const Outcome outcome = Rewright("run --device reference --trace " + (folder_ / "t.json") + " " + model_);
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("--trace"));
  EXPECT_EQ(Rewright("run --trace /nonexistent/t.json " + model_).status, 2);
}

}  // namespace
}  // namespace rewright
