// The first half of the generator: all graphs of a space, and the pairs of equal ones among them.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "substitutions/generate/match.h"

namespace rewright::generate {

struct FindOptions {
  uint64_t seed = 1;
  int64_t memory_limit = 0;  // bytes, of the tables; 0: none. Kept by going through the graphs several times
  const std::atomic<bool>* stop = nullptr;
  // Now and then: graphs and distinct fingerprints so far, the size of the graphs, bytes of the tables.
  std::function<void(const MatchCounts&, int size, size_t bytes)> progress;
};

struct FoundPairs {
  MatchCounts counts;
  uint64_t collisions = 0;  // pairs that differ under other sizes and elements, and are no pairs
  int passes = 1;
  size_t bytes = 0;         // of the tables, at most
  bool complete = true;     // false: stopped
  std::vector<Pair> pairs;  // confirmed, in order of size
};

// Errors: the space is none that can be searched (an operator that does not exist, too many operators).
absl::StatusOr<FoundPairs> FindPairs(const Space& space, const FindOptions& options);

// Whether no two outputs share work on the left and some do on the right: the right side merges the left one.
bool IsMerge(const Space& space, const SmallGraph& left, const SmallGraph& right);

}  // namespace rewright::generate
