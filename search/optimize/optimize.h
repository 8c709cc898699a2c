// Optimize: search, measure, check. The result computes what the original does and is not slower.
//
// The search starts from the original and from the graph that the rule-based baseline makes of it
// (substitutions/baseline). The baseline's graph is a candidate whatever cost the device gives it: a search that has
// little time, or wrong costs, gives no worse than the rules that production compilers apply.
//
// The cheapest candidates of the search are timed whole, interleaved with the original; one is chosen only when a sign
// test says that it is faster. Timings of earlier runs are remembered if there is a place for them. The outputs of the
// chosen candidate are then compared with the original's on seeded inputs. If they differ, the candidate is dropped,
// bisection finds the rewrite at fault, and the search runs again without its rule. When no candidate is left, the
// original comes back.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/device/device.h"
#include "core/numerics/ranges.h"
#include "runtime/measure/interleaved.h"
#include "search/optimize/output_check.h"
#include "search/replay/replay.h"
#include "search/rewriter.h"
#include "search/search.h"
#include "substitutions/baseline/baseline.h"

namespace rewright {

struct GraphInFile {
  Graph graph;
  ComputedWeights computed;  // of the graph that was written
};

struct OptimizeOptions {
  SearchOptions search;        // its second start is the baseline's graph; its `stop` also shortens measurements
  bool stop_discards = false;  // the result is not wanted once `search.stop` is set: no time is left then
  // Null: without it. Outlives the optimization.
  const Baseline* baseline = nullptr;
  // The rules of the search and of the baseline, by which paths are made again without steps that gain nothing
  // (search/strategies/reduced_path.h). Null: candidates are taken as they are found. Outlives the optimization.
  const RuleIndex* rules = nullptr;
  // With `rules`: steps of a path that are not wanted whatever they gain, asked for again until there are none.
  std::function<absl::StatusOr<std::vector<int>>(const Replay& made, const std::vector<ReplayStep>& steps)> unwanted;
  // Time the candidates. Off for devices that only calculate costs: the cheapest candidate is then taken.
  bool measure = true;
  MeasureOptions measuring;
  // Timings of earlier runs. A candidate that was not faster is dropped at once. Among those that were faster, the one
  // that is returned is timed again, briefly (docs/decisions/079). Null: nothing is known. Outlives the optimization.
  MeasurementCache* kept = nullptr;
  // Used with `kept`. `setting` is a key: rules and options as text. `time_limit` is the whole limit in seconds, of
  // which `seconds_left` counts the rest; infinite: there is none. If an equal limit ended a run with that setting
  // before, this run repeats it: it takes the kept costs and comparisons, and times only the graph that it returns
  // (docs/decisions/086).
  std::string setting;
  double time_limit = std::numeric_limits<double>::infinity();
  // Probability that some candidate which is no faster passes for faster, over all candidates together.
  double significance = 0.05;
  // Rewrites that are not exact do not stand in front of roundings to integers (round, floor, a conversion): these give
  // the original's integers, bit for bit.
  bool keep_roundings = true;
  bool check = true;
  OutputCheckOptions checking;
  // The graph that the file of a rewritten graph gives when it is read; `path`: its steps in the trace of the search.
  // It is compiled, compared and timed in place of a candidate that was faster in an earlier run. Empty, or without a
  // result: the graph itself is.
  std::function<absl::StatusOr<std::optional<GraphInFile>>(const Graph& rewritten, const std::vector<TraceStep>& trace,
                                                           const std::vector<int>& path)>
      as_file;
  // The time left for all work here; empty: there is no limit. The search gets a part of the time that is left when it
  // begins, timing a part of the rest. A candidate is dropped if no time is left for its check. A measurement of the
  // device, a compilation or a check that has begun always runs to its end.
  std::function<double()> seconds_left;
  // Receives the current phase: "searching", "timing candidate 1 of 3", ...
  std::function<void(const std::string&)> phase;
};

struct RewriteCount {
  std::string rule;
  int count = 0;
};

// A candidate that was not taken. kInconclusive: it may be faster, but the machine is too busy to tell, or time ran
// out. kNoTime: nothing was measured of it. kFailed: it cannot be compiled or run.
struct DroppedCandidate {
  enum class Why : uint8_t { kNotFaster, kInconclusive, kOutputsDiffer, kNoTime, kFailed };
  Why why = Why::kNotFaster;
  std::string text;
  double cost = 0;
  std::vector<RewriteCount> rewrites;
  bool baseline = false;  // it was the baseline's graph
};

struct OptimizeReport {
  Graph graph;
  bool rewritten = false;  // false: `graph` is the original
  bool baseline = false;   // it is the baseline's graph
  bool repeated = false;   // a run that its time limit had ended (OptimizeOptions::setting)
  std::string verdict;     // one sentence
  int nodes_before = 0;    // that run at inference
  int nodes_after = 0;
  double cost_before = 0;  // seconds
  double cost_after = 0;
  // Timing of the chosen graph, or of the best candidate if none was chosen; nothing when nothing was timed.
  std::optional<Measurement> measured;
  // Median latency of the original and of the returned graph; nothing when nothing was timed.
  std::optional<double> latency_before;
  std::optional<double> latency_after;
  bool as_file = false;  // the graph that OptimizeOptions::as_file gave last was compared and timed
  OutputCheck check;
  double search_cpu_seconds = 0;
  int64_t graphs_explored = 0;  // rewrites judged
  int64_t peak_rss_bytes = 0;
  std::vector<RewriteCount> rewrites;  // of the returned graph, most frequent first
  std::vector<int> path;               // their steps in search.trace, in order
  std::set<std::string> unwanted;      // rules of which OptimizeOptions::unwanted named a step
  std::vector<DroppedCandidate> dropped;
  int kept_roundings = 0;                  // applications that keep their bits for deliberate roundings
  int moved_comparisons = 0;               // comparisons of the returned graph with rewritten values before them
  std::vector<std::string> blamed;         // rules that made outputs differ; the result does without them
  SearchResult search;                     // the last one
  std::shared_ptr<OutputChecker> checker;  // knows the original's outputs; the runner has to live
};

// Makes the original the result; the verdict says why. A rewritten graph becomes a dropped candidate (kNotFaster).
void RevertToOriginal(const Graph& original, const std::string& why, OptimizeReport* report);

// Returns `options.measuring`, shortened once the search was told to stop.
MeasureOptions MeasuringOf(const OptimizeOptions& options);

// `runner` times and checks; it may be null when `measure` is off. Errors: those of the device and the runner with
// the original graph.
absl::StatusOr<OptimizeReport> Optimize(const Graph& graph, Rewriter& rewriter, Device& device, GraphRunner* runner,
                                        const OptimizeOptions& options);

}  // namespace rewright
