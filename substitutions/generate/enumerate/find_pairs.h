// The first half of the generator: all graphs of a space, and the pairs of equal ones among them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/stop.h"
#include "substitutions/generate/enumerate/fingerprint.h"
#include "substitutions/generate/enumerate/ranks.h"

namespace rewright::generate {

struct FindProgress {
  int size = 0;         // of the graphs
  double fraction = 0;  // of the graphs of that size, so far
  MatchCounts counts;   // distinct, matches: without those of other passes
  size_t bytes = 0;     // of the tables
};

struct FindOptions {
  uint64_t seed = 1;
  int threads = 1;  // the result does not depend on it
  // Bytes, of the tables; 0: none. Kept by going through the largest graphs several times, or through the journal.
  int64_t memory_limit = 0;
  // The folder in which finished work is kept, and from which a run resumes; empty: none.
  std::string journal;
  // Does only every `sample`th of the parts that the largest graphs are divided into: for an estimate, no result.
  uint64_t sample = 1;
  // Processes that share the largest graphs. Each has options.threads, which should be 1.
  Ranks* ranks = nullptr;
  StopFlag stop = nullptr;
  std::function<void(const FindProgress&)> progress;  // now and then
};

// The pairs found. With several ranks only rank 0 has all fields; the others have only `complete`.
struct FoundPairs {
  MatchCounts counts;
  uint64_t collisions = 0;  // pairs that differ under other sizes and elements, and are no pairs
  int passes = 1;
  size_t bytes = 0;         // of the tables, at most
  bool complete = true;     // false: stopped
  std::vector<Pair> pairs;  // confirmed, from simple to complicated
};

// Errors: a space that cannot be searched (an operator that does not exist, too many operators); those of the journal.
absl::StatusOr<FoundPairs> FindPairs(const Space& space, const FindOptions& options);

// True if outputs share work on the right and none do on the left: the right side merges the left one.
bool IsMerge(const Space& space, const SmallGraph& left, const SmallGraph& right);

}  // namespace rewright::generate
