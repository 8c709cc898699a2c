// The time of a result in other runtimes, in the report about it.
#include "tools/verbs/optimize/runtimes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "backends/device_factory.h"
#include "core/base/files.h"
#include "core/ir/text.h"
#include "core/onnx/onnx.h"
#include "runtime/measure/measurement_cache.h"
#include "tests/support/temporary_folder.h"
#include "tests/tools/program/program_util.h"

namespace rewright {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class InRuntime : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    setenv("REWRIGHT_PYTHON", absl::StrCat(REWRIGHT_SOURCE_DIR, "/.venv/bin/python").c_str(), 1);
    const absl::Status found = MakeDevice(GetParam()).status();
    if (!found.ok()) GTEST_SKIP() << found;
    if (const char* value = std::getenv(variable().c_str())) library_ = value;
  }
  void TearDown() override {
    unsetenv("REWRIGHT_PYTHON");
    library_.empty() ? unsetenv(variable().c_str()) : setenv(variable().c_str(), library_.c_str(), 1);
  }
  static std::string variable() {
    return GetParam() == std::string("openvino") ? "REWRIGHT_OPENVINO" : "REWRIGHT_ONNXRUNTIME";
  }
  static void Hide() { setenv(variable().c_str(), "/nowhere/library.so", 1); }
  std::string Written(const std::string& name, const std::string& text) const {
    const auto graph = ParseGraph(text);
    EXPECT_TRUE(graph.ok() && ExportOnnx(*graph, {}, folder_ / name).ok()) << graph.status();
    return folder_ / name;
  }

  // The file of a rule that makes one product of the two.
  std::string ProvedSum() const {
    const std::string laws = folder_ / "laws.rules", proved = folder_ / "proved.rules";
    EXPECT_TRUE(WriteText(laws, "rule sum add(matmul(x, a), matmul(x, b)) => matmul(x, add(a, b))\n").ok());
    EXPECT_EQ(Rewright(absl::StrCat("verify --quiet ", laws, " -o ", proved)).status, 0);
    return proved;
  }

  TemporaryFolder folder_;
  std::string library_;  // that the environment names
};
INSTANTIATE_TEST_SUITE_P(Runtimes, InRuntime, ::testing::Values("onnxruntime", "openvino"),
                         [](const auto& info) { return std::string(info.param); });

constexpr char kTwoProducts[] =
    "input x: f32[256,300]\nstate a: f32[300,400]\nstate b: f32[300,400]\n"
    "%0 = matmul(x, a)\n%1 = matmul(x, b)\n%2 = add(%0, %1)\noutput y = %2\n";

TEST_P(InRuntime, IsMeasuredOnceForAProfile) {
  const Graph one = *ParseGraph("input x: f32[300000]\n%0 = exp(x)\noutput y = %0\n");
  const Graph two = *ParseGraph("input x: f32[300000]\n%0 = exp(x)\n%1 = exp(%0)\n%2 = exp(%1)\noutput y = %2\n");
  const std::string path = folder_ / "one.onnx";
  ASSERT_TRUE(ExportOnnx(one, {}, path).ok());
  const absl::Cord bytes = SerializeOnnx(two, {})->bytes;
  const auto measure = [&](double seconds) {
    return MeasureInRuntime(GetParam(), one, *ModelFile::Open(path), two, bytes, {1, folder_ / "p.db", 1, seconds});
  };
  EXPECT_EQ(*measure(0.5), std::nullopt);  // too few seconds
  const auto measured = measure(60);
  ASSERT_TRUE(measured.ok() && measured->has_value()) << measured.status();
  EXPECT_GT(JsonInRuntime(**measured)["ratio"], 1.5);
  const auto kept = measure(0.5);
  ASSERT_TRUE(kept.ok() && kept->has_value()) << kept.status();
  EXPECT_EQ((*kept)->original_seconds, (*measured)->original_seconds);
  Hide();
  EXPECT_EQ(*measure(60), std::nullopt);
}

TEST(TextInRuntime, SaysWhatIsWrittenAgainstWhatWasRead) {
  EXPECT_EQ(TextInRuntime({.ratio = 0.8, .wins = 2, .losses = 28}), "1.25 times slower (2 of 30 pairs faster)");
  EXPECT_EQ(TextInRuntime({.ratio = 1.25, .wins = 28, .losses = 2}), "1.25 times faster (28 of 30 pairs faster)");
  EXPECT_TRUE(IsToldSlower({.ratio = 0.8, .wins = 2, .losses = 28}));
  EXPECT_FALSE(IsToldSlower({.ratio = 1.25, .wins = 28, .losses = 2}));
  EXPECT_EQ(JsonInRuntime({.ratio = 0.8, .wins = 2, .losses = 28})["ratio"], 1.25);
}

// A difference that the sign test does not tell gives no ratio.
TEST(TextInRuntime, GivesNoRatioThatMayBeNoise) {
  for (const auto& [wins, losses] : {std::pair(19, 11), {11, 19}, {5, 0}, {0, 0}}) {
    const Measurement measured{.ratio = 1.3, .wins = wins, .losses = losses};
    EXPECT_EQ(TextInRuntime(measured), absl::StrCat("no difference that can be told from noise (", wins, " of ",
                                                    wins + losses, " pairs faster)"));
    EXPECT_FALSE(IsToldSlower(measured));
    EXPECT_TRUE(JsonInRuntime(measured)["ratio"].is_null());
  }
  EXPECT_TRUE(IsTold({.ratio = 1.3, .wins = 24, .losses = 6}));
}

// A profile holds what was measured in onnxruntime, so the test decides it: a file that is slower there is not written
// without --for rewright.
TEST_P(InRuntime, AFileThatIsSlowerThereIsNotWritten) {
  const std::string model = Written("m.onnx", kTwoProducts);
  const std::string optimize = absl::StrCat("optimize ", model, " --threads 1 --rules ", ProvedSum(), " --profile ",
                                            folder_ / "p.db", " -o ", folder_ / "o.onnx");
  const Outcome first = Rewright(optimize + " --for rewright --json");
  ASSERT_EQ(first.status, 0) << first.err;
  Json json = first.Json();
  if (!json.contains(GetParam())) GTEST_SKIP() << "too busy a machine to tell the gain";
  EXPECT_EQ(json["written"], "rewritten");
  const Graph original = *ParseGraph(kTwoProducts);
  const Graph rewritten = *ParseGraph(
      "input x: f32[256,300]\nstate a: f32[300,400]\nstate b: f32[300,400]\n"
      "%0 = add(a, b)\n%1 = matmul(x, %0)\noutput y = %1\n");
  const auto device = MakeDevice(GetParam(), {1});
  ASSERT_TRUE(device.ok()) << device.status();
  const auto keep = [&](const Measurement& measured) {
    ProfiledMeasurements(*ProfileDb::Open(folder_ / "p.db"), (*device)->name()).Keep(original, rewritten, measured);
  };
  keep({.original_seconds = 1, .candidate_seconds = 2, .ratio = 0.5, .wins = 0, .losses = 30});
  json = Rewright(optimize + " --json").Json();
  EXPECT_EQ(json["written"], "input");
  EXPECT_EQ(json["for"], "any");
  EXPECT_THAT(json["verdict"],
              HasSubstr(absl::StrCat("would be 2.00 times slower (0 of 30 pairs faster) in ", GetParam())));
  EXPECT_EQ(Rewright(optimize + " --for rewright --json").Json()["written"], "rewritten");
  keep({.original_seconds = 2, .candidate_seconds = 1, .ratio = 2, .wins = 30, .losses = 0});
  EXPECT_EQ(Rewright(optimize + " --json").Json()["written"], "rewritten");
}

// Costs, candidates and the file at the end are timed in the runtime; what it is given is half of the work.
TEST_P(InRuntime, TheFileIsTimedThere) {
  const std::string model = Written("m.onnx", kTwoProducts), out = folder_ / "o.onnx";
  const auto optimize = [&](const std::string& rules) {
    return Rewright(absl::StrCat("optimize ", model, " --for ", GetParam(), " --threads 1 --rules ", rules, " -o ", out,
                                 " --json"));
  };
  const Outcome gained = optimize(ProvedSum());
  ASSERT_EQ(gained.status, 0) << gained.err;
  const Json json = gained.Json();
  EXPECT_EQ(json["for"], GetParam());
  const std::string device = absl::StrCat(" --device ", GetParam(), " ");
  EXPECT_EQ(Rewright("diff" + device + model + " " + out).status, 0);
  EXPECT_EQ(Rewright("run --iterations 2" + device + out).status, 0);
  if (json["written"] != "rewritten") GTEST_SKIP() << json["verdict"];
  EXPECT_LT(json["cost_after_ms"], json["cost_before_ms"]);
  EXPECT_LT(json["latency_after_ms"], json["latency_before_ms"]);
  EXPECT_EQ(json["checked"], true);
}

TEST(OptimizeFor, IsNotGivenWithADevice) {
  const Outcome outcome = Rewright("optimize m.onnx --for any --device cpu");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("--for"));
}

// Two products become one: the sum of the weights is computed beforehand.
TEST_P(InRuntime, TheReportTellsIt) {
  const std::string model = Written("m.onnx", kTwoProducts);
  const std::string optimize =
      absl::StrCat("optimize ", model, " --for rewright --threads 1 --rules ", ProvedSum(), " -o ", folder_ / "o.onnx");
  const Outcome outcome = Rewright(optimize);
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  if (!absl::StrContains(outcome.out, "times faster")) GTEST_SKIP() << "too busy a machine to tell the gain";
  EXPECT_THAT(outcome.out, HasSubstr(absl::StrCat("in ", GetParam(), ": ")));
  auto json = Rewright(optimize + " --json").Json();
  if (json.contains(GetParam())) {
    auto& told = json[GetParam()];
    EXPECT_GT(told["written_ms"], 0);
    EXPECT_TRUE(told["ratio"].is_null() || told["ratio"] > 0) << told;
  }
  Hide();
  const Outcome without = Rewright(optimize);
  EXPECT_EQ(without.status, 0) << without.err;
  EXPECT_THAT(without.out, Not(HasSubstr(GetParam())));
}

}  // namespace
}  // namespace rewright
