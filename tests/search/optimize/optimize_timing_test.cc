// Graphs of `optimize` are timed beside the original, within the time that there is.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "tests/search/optimize/optimize_util.h"

namespace rewright {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

TEST_F(OptimizeTest, TakesBackWhatAnotherMeasurementDoesNotConfirm) {
  FakeRunner runner(ByNodes);
  OptimizeReport report = Optimized(kRight, &runner);
  ASSERT_TRUE(report.rewritten);
  report.measured = Measurement{.original_seconds = 3, .candidate_seconds = 4};
  report.moved_comparisons = 1;
  RevertToOriginal(graph_, "its file is not measurably faster", &report);
  EXPECT_EQ(report.moved_comparisons, 0);
  EXPECT_FALSE(report.rewritten);
  EXPECT_EQ(PrintGraph(report.graph), PrintGraph(graph_));
  EXPECT_EQ(report.nodes_after, 4);
  EXPECT_EQ(report.cost_after, report.cost_before);
  EXPECT_EQ(*report.latency_before, 3);
  EXPECT_EQ(*report.latency_after, 3);
  EXPECT_THAT(report.rewrites, SizeIs(0));
  EXPECT_THAT(report.path, SizeIs(0));
  EXPECT_FALSE(report.check.done);
  ASSERT_THAT(report.dropped, SizeIs(1));
  EXPECT_EQ(report.dropped[0].why, DroppedCandidate::Why::kNotFaster);
  ASSERT_THAT(report.dropped[0].rewrites, SizeIs(1));
  EXPECT_EQ(report.verdict, "the original: its file is not measurably faster");
}

class MeasurementsInMemory : public MeasurementCache {
 public:
  absl::StatusOr<std::optional<Measurement>> Find(const Graph&, const Graph& candidate) override {
    const auto found = kept.find(candidate.CanonicalHash());
    return found == kept.end() ? std::nullopt : std::optional(found->second);
  }
  void Keep(const Graph&, const Graph& candidate, const Measurement& measured) override {
    kept[candidate.CanonicalHash()] = measured;
  }
  absl::StatusOr<double> LimitThatEnded(const Graph&, const std::string& setting) override { return limits[setting]; }
  void KeepLimit(const Graph&, const std::string& setting, double seconds) override {
    limits[setting] = std::max(limits[setting], seconds);
  }
  void MeasureNew(bool measure) override { measures.push_back(measure); }

  std::map<uint64_t, Measurement> kept;
  std::map<std::string, double> limits;
  std::vector<bool> measures;  // the arguments of MeasureNew
};

TEST_F(OptimizeTest, SaysThatTheMachineIsTooBusyToTell) {
  MeasurementsInMemory kept;
  options_.kept = &kept;
  int calls = 0;
  double clock = 0;
  options_.measuring.clock = [&] { return clock += ++calls / 2 % 2 == 0 ? 9 : 3; };  // every second run is slow
  FakeRunner runner(ByNodes);
  const OptimizeReport report = Optimized(kRight, &runner);
  EXPECT_FALSE(report.rewritten);
  ASSERT_THAT(report.dropped, SizeIs(1));
  EXPECT_EQ(report.dropped[0].why, DroppedCandidate::Why::kInconclusive);
  EXPECT_THAT(report.verdict, HasSubstr("too busy to tell"));
  // It is measured again, since there is time for it.
  options_.measuring.clock = FakeSeconds;
  EXPECT_TRUE(Optimized(kRight, &runner).rewritten);
}

TEST_F(OptimizeTest, WhatWasNotFasterIsNotTimedAgain) {
  MeasurementsInMemory kept;
  options_.kept = &kept;
  FakeRunner slower([](const Graph& graph) { return 200e-6 - ByNodes(graph); });
  EXPECT_FALSE(Optimized(kRight, &slower).rewritten);
  ASSERT_THAT(kept.kept, SizeIs(1));
  // A runner for which it would be faster is not asked.
  FakeRunner faster(ByNodes);
  const OptimizeReport report = Optimized(kRight, &faster);
  EXPECT_FALSE(report.rewritten);
  ASSERT_THAT(report.dropped, SizeIs(1));
  EXPECT_THAT(report.dropped[0].text, HasSubstr("in an earlier run"));
}

TEST_F(OptimizeTest, ARunThatItsLimitEndedIsRepeatedUnlessThereIsMoreTime) {
  MeasurementsInMemory kept;
  options_.kept = &kept;
  options_.setting = "rules";
  options_.time_limit = 10;
  options_.measuring.least_seconds = 0;
  double left = 1;
  options_.seconds_left = [&] { return left -= 0.1; };
  FakeRunner runner(ByNodes);
  const OptimizeReport ended = Optimized(kRight, &runner);
  EXPECT_FALSE(ended.rewritten);
  EXPECT_THAT(ended.verdict, HasSubstr("there was no time to tell"));
  EXPECT_EQ(kept.limits["rules"], 10);
  options_.seconds_left = [] { return 1000.0; };
  const OptimizeReport repeated = Optimized(kRight, &runner);
  EXPECT_TRUE(repeated.repeated);
  EXPECT_FALSE(repeated.rewritten);
  EXPECT_THAT(repeated.verdict, HasSubstr("in an earlier run"));
  EXPECT_THAT(kept.measures, ElementsAre(true, true, false, true));
  // Other rules, more time.
  options_.setting = "others";
  EXPECT_TRUE(Optimized(kRight, &runner).rewritten);
  options_.setting = "rules";
  options_.time_limit = 20;
  const OptimizeReport longer = Optimized(kRight, &runner);
  EXPECT_FALSE(longer.repeated);
  EXPECT_TRUE(longer.rewritten);
}

TEST_F(OptimizeTest, WhatWasFasterIsTimedAgain) {
  MeasurementsInMemory kept;
  options_.kept = &kept;
  FakeRunner faster(ByNodes);
  EXPECT_TRUE(Optimized(kRight, &faster).rewritten);
  EXPECT_TRUE(Optimized(kRight, &faster).rewritten);
  FakeRunner slower([](const Graph& graph) { return 200e-6 - ByNodes(graph); });
  const OptimizeReport report = Optimized(kRight, &slower);
  EXPECT_FALSE(report.rewritten);
  ASSERT_THAT(report.dropped, SizeIs(1));
  EXPECT_EQ(report.dropped[0].text.find("earlier"), std::string::npos);
  EXPECT_LT(kept.kept.begin()->second.ratio, 1);
}

// A caller may ask for fewer pairs than a confirmation takes at least.
TEST_F(OptimizeTest, WhatWasFasterIsConfirmedInAFewPairsHoweverFewAreAskedFor) {
  MeasurementsInMemory kept;
  options_.kept = &kept;
  FakeRunner runner(ByNodes);
  EXPECT_TRUE(Optimized(kRight, &runner).rewritten);
  options_.measuring.pairs = 1;
  const OptimizeReport report = Optimized(kRight, &runner);
  EXPECT_TRUE(report.rewritten);
  ASSERT_TRUE(report.measured.has_value());
  EXPECT_EQ(report.measured->wins, 2) << "the majority of three";
}

TEST_F(OptimizeTest, WhatWasFasterIsRunAsItsFileGivesIt) {
  MeasurementsInMemory kept;
  options_.kept = &kept;
  std::string text = kGraph;
  Graph file;
  int files = 0;
  options_.as_file = [&](const Graph& rewritten, const std::vector<TraceStep>& trace, const std::vector<int>& path) {
    EXPECT_TRUE(Has(rewritten, "relu", 1));
    EXPECT_THAT(path, SizeIs(1));
    EXPECT_EQ(trace[path[0]].rule, "relu-twice");
    ++files;
    file = GraphFrom(text);
    return std::optional(GraphInFile{file, {}});
  };
  std::set<const Arena*> compiled;
  FakeRunner runner([&](const Graph& graph) {
    compiled.insert(graph.arena().get());
    return file.arena() != nullptr && graph.arena() == file.arena() ? 1e-6 : ByNodes(graph);
  });
  EXPECT_FALSE(Optimized(kRight, &runner).as_file);
  EXPECT_EQ(files, 0);  // in a first run the graph itself is compared
  const OptimizeReport again = Optimized(kRight, &runner);
  EXPECT_TRUE(again.rewritten && again.as_file && again.check.done);
  EXPECT_EQ(files, 1);
  EXPECT_TRUE(compiled.contains(file.arena().get()));
  EXPECT_NEAR(*again.latency_after, 1e-6, 1e-9);  // the file's time
  // A file that is something else is a candidate dropped, with these words.
  text.replace(text.find("exp"), 3, "sin");
  const RuleIndex index = RulesFrom(kRight);
  RuleRewriter rewriter(index);
  const absl::StatusOr<OptimizeReport> other = Optimize(graph_, rewriter, device_, &runner, options_);
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_FALSE(other->rewritten);
  ASSERT_THAT(other->dropped, SizeIs(1));
  EXPECT_THAT(other->dropped[0].text, HasSubstr("the outputs of the model to be written differ: output y"));
}

// ---- limited time: the clock advances by runs and by the test

// Each cost takes a second, and there are three.
TEST_F(OptimizeTest, WithoutTimeForCostsTheOriginalComesBack) {
  FakeRunner runner([](const Graph&) -> double {
    ADD_FAILURE() << "nothing is run";
    return 1;
  });
  options_.seconds_left = [&] { return 1.5 - device_.cost_calls; };
  const OptimizeReport report = Optimized(kRight, &runner);
  EXPECT_FALSE(report.rewritten);
  EXPECT_EQ(report.verdict, "the original: the time limit came before the costs of its parts were known");
  EXPECT_EQ(device_.cost_calls, 1);  // the search may take 0.9 seconds
}

// Each cost takes a third of the time: only the baseline's graph can be timed, which needs none.
TEST_F(OptimizeTest, WithoutTimeForCostsTheBaselineIsTimedFirst) {
  const Baseline baseline = BaselineFrom(kRight);
  const RuleIndex rules(baseline.matchers());
  options_.baseline = &baseline;
  options_.rules = &rules;
  FakeRunner runner(ByNodes);
  options_.seconds_left = [&] { return 60.0 - 20 * device_.cost_calls; };
  const OptimizeReport report = Optimized(kRight, &runner);
  EXPECT_TRUE(report.rewritten) << report.verdict;
  EXPECT_TRUE(report.baseline);
  EXPECT_EQ(report.nodes_after, 3);
  EXPECT_THAT(report.path, SizeIs(1));
  EXPECT_THAT(report.verdict, HasSubstr("times faster"));
  EXPECT_TRUE(report.check.done);
  // One that is not faster is not taken.
  device_.cost_calls = 0;
  FakeRunner slower([](const Graph& graph) { return 200e-6 - ByNodes(graph); });
  const OptimizeReport original = Optimized(kRight, &slower);
  EXPECT_FALSE(original.rewritten);
  EXPECT_GE(original.dropped.size(), 1);
}

// With time for all of it the search has the last word.
TEST_F(OptimizeTest, WhatIsTimedFirstIsNotTimedTwice) {
  const Baseline baseline = BaselineFrom(kRight);
  const RuleIndex rules(baseline.matchers());
  options_.baseline = &baseline;
  options_.rules = &rules;
  options_.seconds_left = [] { return 60.0; };
  std::vector<std::string> phases;
  options_.phase = [&](const std::string& phase) { phases.push_back(phase); };
  FakeRunner runner(ByNodes);
  const OptimizeReport report = Optimized(kRight, &runner);
  EXPECT_TRUE(report.rewritten);
  EXPECT_THAT(phases, ElementsAre("searching", "timing the baseline's graph", "comparing outputs"));
}

TEST_F(OptimizeTest, TimingTakesAPartOfWhatIsLeft) {
  FakeRunner runner([](const Graph& graph) { return 0.5 * graph.num_runtime_nodes(); });
  const double start = FakeSeconds();
  options_.measuring.warmup = 0;
  options_.seconds_left = [&] { return 60 - (FakeSeconds() - start); };
  const OptimizeReport report = Optimized(kRight, &runner);
  ASSERT_TRUE(report.measured.has_value());
  // Pairs of 3.5 seconds, in half of a minute: too few would be no test, and 30 were too many.
  EXPECT_GE(report.measured->wins, 5);
  EXPECT_LE(report.measured->wins, 9);
  EXPECT_TRUE(report.rewritten) << report.verdict;
  EXPECT_LE(FakeSeconds() - start, 60);
}

// A candidate that was not checked is not returned.
TEST_F(OptimizeTest, WithoutTimeForTimingOrTheCheckTheOriginalComesBack) {
  FakeRunner runner(ByNodes);
  // The time is over as soon as the costs are known; the rewritten graph needs no others.
  options_.seconds_left = [&] { return device_.cost_calls < 3 ? 60.0 : -1.0; };
  for (const bool measure : {true, false}) {
    device_.cost_calls = 0;
    options_.measure = measure;
    const OptimizeReport report = Optimized(kRight, &runner);
    EXPECT_FALSE(report.rewritten);
    ASSERT_THAT(report.dropped, SizeIs(1));
    EXPECT_EQ(report.dropped[0].text,
              measure ? "no time was left to measure it" : "no time was left to compare its outputs");
  }
}

}  // namespace
}  // namespace rewright
