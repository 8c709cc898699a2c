// Tests the choice of a layout of training within the memory of described devices, and its file.
#include "tools/verbs/layout/layout_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "backends/device_factory.h"
#include "runtime/training/model.h"
#include "tools/verbs/layout/layout_file.h"

namespace rewright {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class LayoutChoiceTest : public ::testing::Test {
 protected:
  LayoutChoiceTest() : cpu_(*MakeDevice("cpu", {.threads = 1})) {
    config_.batch = 1024;
    config_.step.micro_batches = 2;
    cluster_ = *distributed::ParseCluster(R"({"name": "two cores", "memory_bytes": 1000000000,
        "device": {"name": "core", "flops_per_second": {"f32": 1e11}, "bytes_per_second": 1e10, "launch_seconds": 1e-6,
                   "efficiency": {"f32": 0.5, "memory": 0.5}},
        "levels": [{"name": "bus", "devices": 2, "bytes_per_second": 1e9, "seconds": 1e-6}]})");
  }
  static absl::StatusOr<TrainableModel> Load(const TrainConfig& config) {
    return MakeModel(MlpOptions{.sizes = {64, 32, 32, 32, 32, 10}}, config.micro_batch(), /*seed=*/1);
  }
  absl::StatusOr<LayoutChoice> Chosen(int64_t memory_bytes, bool keep_all = false) {
    LayoutChoiceOptions options{.ranks = 2, .layout = "auto,tp=1", .memory_bytes = memory_bytes, .keep_all = keep_all};
    options.load = Load;
    return ChooseLayout(config_, cluster_, *cpu_, options);
  }

  const std::unique_ptr<Device> cpu_;
  TrainConfig config_;
  distributed::Cluster cluster_;
};

// Every layout, with as much computed again as it takes, against the choice, which tries only those that may be best.
TEST_F(LayoutChoiceTest, IsTheBestOfAllThatFitWithValuesComputedAgain) {
  const auto all = Chosen(/*memory_bytes=*/0);
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_FALSE(all->found[0].again.has_value());
  EXPECT_GE(all->found.size(), 9u);
  int64_t least = all->found[0].bytes;
  for (const LayoutCandidate& one : all->found) least = std::min(least, one.bytes);
  const auto planner = StepPlanner::Create(config_, *Load(config_), cluster_, *cpu_, {});
  ASSERT_TRUE(planner.ok()) << planner.status();
  for (const double share : {0.9, 1.05}) {
    const auto limit = static_cast<int64_t>(share * static_cast<double>(least));
    const auto choice = Chosen(limit);
    ASSERT_TRUE(choice.ok()) << choice.status();
    double best = 1e9;
    for (const LayoutCandidate& one : all->found) {
      double seconds = one.seconds;
      if (one.bytes > limit) {
        const auto less = (*planner)->Fit(one.layout, {}, limit, /*measured=*/false);
        ASSERT_TRUE(less.ok()) << less.status();
        const auto made = (*planner)->PlanOf(one.layout, {}, less->graph);
        ASSERT_TRUE(made.ok()) << made.status();
        if (made->bytes() > limit) continue;
        seconds =
            distributed::Simulate(made->plan, cluster_, {.collectives = distributed::CollectiveBy::kDirect})->seconds;
      }
      best = std::min(best, seconds);
    }
    EXPECT_DOUBLE_EQ(choice->found[0].seconds, best) << share;
    for (const LayoutCandidate& one : choice->found) EXPECT_LE(one.bytes, limit);
  }
}

TEST_F(LayoutChoiceTest, ALayoutThatFitsByLessIsAFileThatSaysSo) {
  const auto all = Chosen(/*memory_bytes=*/0);
  ASSERT_TRUE(all.ok()) << all.status();
  int64_t least = all->found[0].bytes;
  for (const LayoutCandidate& one : all->found) least = std::min(least, one.bytes);
  const int64_t limit = least * 9 / 10;
  const auto choice = Chosen(limit);
  ASSERT_TRUE(choice.ok()) << choice.status();
  const LayoutCandidate& best = choice->found[0];
  ASSERT_TRUE(best.again.has_value());
  EXPECT_GT(best.again->replaced, 0);
  EXPECT_GT(best.again->bytes, limit);
  EXPECT_GE(best.seconds, best.again->seconds);
  const std::string text = PrintLayoutFile(choice->File(), choice->reasons);
  EXPECT_THAT(text, AllOf(HasSubstr("\nlayout dp=2"), HasSubstr("# remat=some: ")));
  const auto back = ParseLayoutFile(text, "choice.layout");
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->memory_bytes, limit);
  EXPECT_EQ(PrintLayoutFile(*back, choice->reasons), text);
  // Without what is computed again, or with much too little memory, there is no layout.
  const auto kept = Chosen(limit, /*keep_all=*/true), small = Chosen(100000);
  EXPECT_THAT(std::string(kept.status().message()), HasSubstr("MB of memory, expected at least"));
  EXPECT_THAT(std::string(small.status().message()),
              AllOf(HasSubstr("has 0.1 MB of memory, expected at least"), HasSubstr("that are computed again")));
}

TEST(LayoutFileTest, MemoryIsANumberOfBytes) {
  const auto error = [](const std::string& text) {
    return std::string(ParseLayoutFile(text, "a.layout").status().message());
  };
  EXPECT_THAT(error("layout dp=2\nmemory 8GB\n"),
              HasSubstr("a.layout: memory: found `8GB`, expected a number of bytes"));
  EXPECT_THAT(error("memory 1\nmemory 2\n"), HasSubstr("a.layout, line 2: found a second memory"));
  EXPECT_THAT(error("memory 0\n"), HasSubstr("found `0`"));
}

}  // namespace
}  // namespace rewright
