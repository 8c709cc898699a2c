// The flags of rewright generate.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tools/program/verb.h"

namespace rewright {

struct GenerateFlags {
  std::string output;
  std::vector<std::string> base, combine;
  std::string preset = "taso";
  std::vector<std::string> models;  // --from: the spaces come from these
  std::map<std::string, int64_t> dims;
  bool fold_defaults = false;
  int64_t min_count = 2, max_spaces = 24;
  std::string space;  // empty: all of the preset's
  std::vector<std::string> ops;
  int64_t max_ops = 0;  // 0: that of the preset
  int64_t inputs = 0;   // of each kind; 0: those of the preset
  std::string resume;
  double time_limit = 0;
  double timeout = 3600;
  int64_t memory_limit = 0;
  double rule_limit = 1;
  int64_t sample = 1;
  bool explain = false;
  bool count_raw = false;
  bool count_only = false;
};

// Errors: a file of rules that cannot be written, or is one that is read.
absl::Status CheckRulesOutput(const GenerateFlags& flags, Session& session);

// The command that makes the same file.
std::string CommandOf(const GenerateFlags& flags, const Session& session);

}  // namespace rewright
