// Proofs that two models compute the same (docs/equal.md). C++17; errors are thrown as rewright::Error.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "rewright/rewright.h"

namespace rewright {

// A model as a file, or as bytes where `path` is empty; bytes name no external data.
struct ModelContents {
  std::string path;
  std::string bytes;
};

struct EqualSettings {
  std::map<std::string, std::int64_t> dims;  // sizes of symbolic dimensions, of either model
  std::map<std::string, std::string> map;    // inputs and outputs of the first, and their names in the second
  bool fold_defaults = false;                // as that of ModelOptions
  std::vector<std::string> rules;            // files of proved rules, besides those that come with the library
  double time_limit_seconds = 60;            // of proofs, on the clock
  std::uint64_t seed = 1;
  int threads = 0;                          // 0: all of the machine
  const std::atomic<bool>* stop = nullptr;  // as that of OptimizeSettings
};

struct EqualJudgement {
  std::string answer;   // proved, different, open, equal up to constants
  std::string summary;  // a few lines for people
  // The sizes of symbolic dimensions of which the answer tells. Those that were not given are 3, or 1 where a model
  // does not admit that.
  std::map<std::string, std::int64_t> dims;
  // Set where the models are different: an output with an element of both, the difference that rounding explains, and
  // the first application of the second model that computes something else.
  std::string output;
  std::vector<std::int64_t> at;
  double a = 0, b = 0;
  double tolerance = 0;
  std::string first;
  std::vector<std::string> open;  // regions that are left, as rules
};

// Proves that the models compute the same over the real numbers, or shows where they do not. They have the same inputs
// and outputs, by name and type.
REWRIGHT_API EqualJudgement JudgeEqual(const ModelContents& a, const ModelContents& b,
                                       const EqualSettings& settings = EqualSettings());

}  // namespace rewright
