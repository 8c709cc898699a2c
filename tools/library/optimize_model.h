// The pipeline of `optimize`: a model that was read goes in, the graph that takes its place comes out, with its file
// and its proof. The program, the library and Python call it here, so that the same model, options and profile give all
// three the same result.
//
//   candidates of the search, by their gain, timed and checked       search/optimize/optimize.h
//   the names of sizes that the file can keep                        named_model.h
//   the file, read back and compared with the original               written_model.h
//   reasons to return the original after all: its time, its size, its outputs, its time in another runtime
//   the proof that the result as a whole is equal to the original    prove_result.h
//   nodes that are computed in 16 bits, where a tolerance allows it  search/precision/narrowing.h
//
// Nothing is written or printed here.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "search/optimize/optimize.h"
#include "search/precision/narrowing.h"
#include "tools/library/engine.h"
#include "tools/library/named_model.h"
#include "tools/library/optimizer_rules.h"
#include "tools/library/prove_result.h"
#include "tools/library/rewright/rewright.h"
#include "tools/library/written_model.h"

namespace rewright {

// Hears of an optimization while it runs.
struct OptimizeObserver {
  std::function<void(const std::string&)> phase;        // as OptimizeOptions has it
  std::function<void(const SearchProgress&)> progress;  // as SearchOptions has it
  // OptimizeSettings::stop ends the search, and the result is what was found; else it ends all, with an error
  // (kCancelled).
  bool wants_stopped = false;
};

// Seconds for all of an optimization, from now on.
class TimeLimit {
 public:
  explicit TimeLimit(double seconds) : seconds_(seconds) {}
  double seconds() const { return seconds_; }
  double Left(double share = 1) const { return share * seconds_ - absl::ToDoubleSeconds(absl::Now() - start_); }

 private:
  double seconds_;
  absl::Time start_ = absl::Now();
};

struct OptimizedModel {
  OptimizeReport report;               // without the checker
  NamedModel named;                    // of a rewritten model, as the next two
  WrittenModel written;                // without bytes where the weights need a file of their own
  std::optional<ResultProof> proof;    // where one was asked for, of the graph before it became narrow
  std::optional<Narrowing> narrowing;  // where a tolerance was given; its graph is that of the report
  int64_t failed_matches = 0;          // that could not be applied
  std::string first_failure;
};

// `rules` are those of the settings. Errors: settings that name nothing known, those of the device and of the runner
// with the original graph.
absl::StatusOr<OptimizedModel> OptimizeModel(SourceModel& model, const OptimizerRules& rules, const Engine& engine,
                                             const OptimizeSettings& settings, const TimeLimit& limit,
                                             const OptimizeObserver& observer = {});
// Returns whether candidates are timed, where the device runs; else their costs are calculated.
inline bool IsMeasured(const OptimizeSettings& settings) { return settings.cost == "measured"; }

// Writes the result to a file: a rewritten model, with its weights beside it where they need that, or the original byte
// for byte, with its external data. Error: the model's file has changed since, and its bytes are needed.
absl::Status WriteOptimized(const SourceModel& model, const OptimizedModel& result, const std::string& path);

}  // namespace rewright
