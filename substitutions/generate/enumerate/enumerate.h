// Goes through all graphs of one size, on several threads, and gathers their fingerprints.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "substitutions/generate/enumerate/fingerprint.h"

namespace rewright::generate {

struct Worker;

struct Level {
  int size = 1;
  // Only fingerprints that are `part` modulo `parts` are kept.
  uint32_t part = 0, parts = 1;
};

// The part of a level that one thread did in one go: the graphs that begin with the same applications.
struct FinishedSubtree {
  uint64_t number = 0;
  MatchCounts counts;
  std::vector<Record> records;
};

// Terms and fingerprints for as many threads as work, kept from level to level.
class Workers {
 public:
  Workers(const Space& space, const GraphCode& code, const Classes& classes, uint64_t seed, int threads);
  ~Workers();

  // The terms of the first thread.
  Terms& terms();
  void AddSingles(std::vector<Record>* records);

  // How many parts there are of the graphs of this size.
  uint64_t CountSubtrees(int size);
  // Walks the subtrees that `next` hands out, in increasing order, until it gives more than there are. `finish` gets
  // each one, in no fixed order; false ends the work. Both are called by one thread at a time.
  bool Run(const Level& level, const std::function<uint64_t()>& next,
           const std::function<bool(const FinishedSubtree&)>& finish);
  // Calls `work` with the numbers from 0 to `count`, each with some thread's Terms, which are emptied now and then.
  void ForEach(size_t count, const std::function<void(Terms& terms, size_t number)>& work);

  size_t num_bytes() const { return bytes_; }

 private:
  const Space& space_;
  TapeCache tapes_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::atomic<size_t> bytes_{0};
};

}  // namespace rewright::generate
