// Tests plots: ticks, places, escaped titles; a roofline, a search and a memory plan drawn with them.
#include "tools/report/plot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/report/cost_pictures.h"

namespace rewright {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

int Count(const std::string& text, const std::string& word) {
  int count = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++count;
  return count;
}

TEST(PlotTest, TicksAreRoundNumbers) {
  EXPECT_THAT(TicksOf({"", 0, 10}), ElementsAre(0, 2, 4, 6, 8, 10));
  EXPECT_THAT(TicksOf({"", 8.11, 8.27}),
              ::testing::Pointwise(::testing::DoubleNear(1e-9), {8.12, 8.14, 8.16, 8.18, 8.2, 8.22, 8.24, 8.26}));
  EXPECT_THAT(TicksOf({"", 0.5, 200, true}), ElementsAre(1, 10, 100));
}

TEST(PlotTest, PlacesLieInTheFrameAndTitlesAreText) {
  Plot plot("a<b", {"x", 0, 1}, {"y", 1, 1});
  plot.Dot(0, 1, 0, "</title><script>");
  plot.Dot(5, 1, 0, "beyond");
  const std::string svg = plot.Take();
  EXPECT_THAT(svg, HasSubstr("aria-label=\"a&lt;b\""));
  EXPECT_THAT(svg, Not(HasSubstr("<script>")));
  EXPECT_THAT(svg, HasSubstr("cx=\"78.0\""));
  EXPECT_THAT(svg, HasSubstr("cx=\"702.0\""));  // at the end of the axis
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
}

TEST(PlotTest, AConstantLiesInTheMiddleOfItsOwnScale) {
  EXPECT_THAT(Plot("c", {"x", 0, 1}, {"y", 0.003, 0.003}).Take(), HasSubstr(">0.003<"));
}

TEST(PlotTest, RooflineHasADotForEachLineThatComputes) {
  const GroupLine product{"matmul", "f32[2]", "", 3, 1e-3, 2e6, 1e3}, move{"concat", "f32[2]", "", 1, 1e-3, 0, 1e3};
  const std::string svg = RooflinePlot({product, move}, Rates{1e10, {{0, 2e10}, {1e6, 1e10}}});
  EXPECT_EQ(Count(svg, "<circle"), 1);
  EXPECT_EQ(Count(svg, "class=\"line"), 2);  // of the cache and of the memory behind it
  EXPECT_THAT(svg, HasSubstr("3 x matmul"));
  EXPECT_EQ(RooflinePlot({move}, Rates{1e10, {{0, 1e10}}}), "");
}

TEST(PlotTest, SearchIsALineOfSteps) {
  const std::string svg = SearchPlot({{0, 9, 0, 1, 4e-3, 4e-3}, {0, 9, 0, 2, 4e-3, 1e-3}});
  EXPECT_THAT(svg, HasSubstr("4 ms to 1 ms"));
  EXPECT_EQ(SearchPlot({}), "");
}

TEST(PlotTest, MemoryPlanHasABoxForEachBufferOfTheArena) {
  Schedule schedule;
  schedule.buffers.resize(3);
  for (Buffer& buffer : schedule.buffers) buffer.bytes = 4096;
  schedule.buffers[2].kind = Buffer::Kind::kOutput;
  schedule.outputs = {2};
  for (int s = 0; s < 3; ++s) {
    Step& step = schedule.steps.emplace_back();
    step.label = "kernel " + std::string(1, static_cast<char>('0' + s));
    if (s > 0) step.buffers.push_back({s - 1, Access::kRead});
    step.buffers.push_back({s, Access::kWrite});
  }
  const auto svg = MemoryPlot(schedule);
  ASSERT_TRUE(svg.ok()) << svg.status();
  EXPECT_EQ(Count(*svg, "<rect"), 2);
  EXPECT_THAT(*svg, HasSubstr("from step 1 (kernel 1) to 2"));
  schedule.steps[0].buffers[0].access = Access::kRead;  // of what nothing has written
  EXPECT_FALSE(MemoryPlot(schedule).ok());
}

}  // namespace
}  // namespace rewright
