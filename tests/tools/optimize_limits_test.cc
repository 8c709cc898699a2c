// A search that is cut short, at whatever moment and by whatever limit, leaves a valid result or nothing.
#include <csignal>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/counts.h"
#include "tests/tools/program/program_util.h"

namespace rewright {
namespace {

using ::testing::AnyOf;
using ::testing::Eq;

constexpr uint64_t kSeed = 15;

class OptimizeLimits : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TemporaryFolder;
    ASSERT_EQ(Rewright("zoo random_layered --layers 60 -o " + Model()).status, 0);
  }
  static void TearDownTestSuite() {
    delete folder_;
    folder_ = nullptr;
  }
  static std::string Model() { return *folder_ / "model.onnx"; }

  // A search by windows on two threads, with more to do than time.
  static std::string Command(const std::string& out, const std::string& limits = "") {
    return absl::StrCat("optimize ", Model(), " -o ", out,
                        " --cost analytic:v100 --alpha 2 --threads 2 --json --quiet ", limits);
  }
  static void ExpectEqualOutputs(const std::string& out) {
    const Outcome diff = Rewright("diff --rtol 1e-3 " + Model() + " " + out);
    EXPECT_EQ(diff.status, 0) << diff.out << diff.err;
  }

  static TemporaryFolder* folder_;
};

TemporaryFolder* OptimizeLimits::folder_ = nullptr;

class OptimizeInterrupted : public OptimizeLimits, public ::testing::WithParamInterface<const char*> {};

INSTANTIATE_TEST_SUITE_P(Strategies, OptimizeInterrupted, ::testing::Values("backtrack", "eqsat"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(OptimizeInterrupted, AtAnyMomentLeavesAValidResultOrNone) {
  std::mt19937_64 rng(kSeed);
  int results = 0;
  for (int i = 0; i < Cases(60); ++i) {
    const double seconds = 0.02 + static_cast<double>(rng() % 1500) / 1000;
    SCOPED_TRACE(absl::StrCat("seed ", kSeed, ", interrupted after ", seconds, " s"));
    const TemporaryFolder folder;
    const Outcome outcome =
        RewrightInterruptedAfter(Command(folder / "out.onnx", absl::StrCat("--search ", GetParam())), seconds);
    EXPECT_THAT(outcome.status, AnyOf(Eq(0), Eq(128 + SIGINT))) << outcome.err;
    // Before there is a search to end, an interrupt ends the program.
    if (outcome.status == 0 || !outcome.out.empty()) {
      EXPECT_THAT(folder.Files(), ::testing::ElementsAre("out.onnx"));
      EXPECT_EQ(outcome.Json()["equal"], true);
      ExpectEqualOutputs(folder / "out.onnx");
      ++results;
    } else {
      EXPECT_THAT(folder.Files(), ::testing::IsEmpty());
    }
  }
  EXPECT_GT(results, 0);
}

TEST_F(OptimizeLimits, ATimeLimitOfAnyLengthLeavesAValidResult) {
  for (const char* limit : {"0", "0.05", "0.4"}) {
    const TemporaryFolder folder;
    const Outcome outcome = Rewright(Command(folder / "out.onnx", absl::StrCat("--time-limit ", limit)));
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    // The longest one may be longer than the search.
    if (std::string(limit) != "0.4") {
      EXPECT_EQ(outcome.Json()["search_end"], "time limit") << limit;
    }
    EXPECT_EQ(outcome.Json()["equal"], true);
    ExpectEqualOutputs(folder / "out.onnx");
  }
}

TEST_F(OptimizeLimits, AMemoryLimitLeavesAValidResult) {
  for (const char* limit : {"1M", "40M"}) {
    const TemporaryFolder folder;
    const Outcome outcome = Rewright(Command(folder / "out.onnx", absl::StrCat("--memory-limit ", limit)));
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(outcome.Json()["search_end"], "memory limit") << limit;
    EXPECT_EQ(outcome.Json()["equal"], true);
    ExpectEqualOutputs(folder / "out.onnx");
  }
}

TEST_F(OptimizeLimits, ABudgetInStepsGivesTheSameGraphOnAnyNumberOfThreads) {
  std::string first;
  for (int run = 0; run < Cases(20); ++run) {
    const TemporaryFolder folder;
    const std::string out = folder / "out.onnx";
    const Outcome outcome =
        Rewright(absl::StrCat("optimize ", Model(), " -o ", out, " --cost analytic:v100 --budget 200",
                              " --no-check --quiet --threads ", 1 + run % 2));
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    if (run == 0) first = FileContents(out);
    EXPECT_EQ(FileContents(out) == first, true) << "run " << run;
  }
}

}  // namespace
}  // namespace rewright
