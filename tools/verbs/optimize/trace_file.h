// The trace of an optimization as a JSON file: every step of the search, and for those that led to the result what it
// takes to make them again from the original model.
//
//   model, model_hash, graph_hash   the original: path, hash of the file, hash of the graph
//   rules                           [{file, hash}], the rule files
//   options                         what the search was told
//   steps                           [{parent, rule, place, cost_before_ms, cost_after_ms}], all that were carried out
//   path                            [{step, rule, node, match, graph}] or [{step, rule, replacement, graph}],
//                                   what leads to the result: see search/replay/replay.h. Several may stem from one of
//                                   `steps`
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "search/optimize/optimize.h"
#include "search/replay/replay.h"
#include "tools/program/console.h"
#include "tools/verbs/rules/rules.h"

namespace rewright {

// The settings of an optimization that are not in its report.
struct TraceSetting {
  std::string model;
  std::string output;
  ModelOptions reading;
  OptimizeSettings settings;
};

// Errors: files that cannot be read; a path that cannot be put down for replay is left out, with a warning.
absl::StatusOr<std::string> TraceText(const TraceSetting& setting, const Graph& original, const OptimizeReport& report,
                                      const OptimizerRules& rules, Console& console);

struct TraceFile {
  struct Step {
    std::string rule;
    std::string place;
    double cost_before_ms = 0;
    double cost_after_ms = 0;
  };
  struct RuleFile {
    std::string path;
    std::string hash;
  };
  TraceSetting setting;
  std::string model_hash;
  std::string graph_hash;
  std::vector<RuleFile> rule_files;
  std::vector<Step> path;  // one for each of `replay`
  std::vector<ReplayStep> replay;
};

// Errors are `file: member: found .., expected ..`.
absl::StatusOr<TraceFile> ReadTrace(const std::string& path);

// The path of the trace, made again from a model that was read from `model_path`. Warns where a rule file has changed.
// Errors: another model, a rule that is gone or does something else.
absl::StatusOr<Replay> ReplayTrace(const TraceFile& trace, const std::string& model_path, const Graph& original,
                                   const RuleIndex& rules, Console& console);

// 16 hexadecimal digits; of the bytes of a file.
absl::StatusOr<std::string> FileHash(const std::string& path);

}  // namespace rewright
