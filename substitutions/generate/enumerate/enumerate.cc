#include "substitutions/generate/enumerate/enumerate.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>

#include "core/base/threads.h"

namespace rewright::generate {
namespace {

// Elements and nodes that a thread keeps from one subtree to the next.
constexpr size_t kKeptWorkerBytes = size_t{48} << 20;
constexpr int kParallelFrom = 4;  // applications; smaller graphs are few

std::vector<std::vector<int64_t>> AssignmentsOf(const Space& space) {
  std::vector<std::vector<int64_t>> assignments = space.assignments;
  assignments.push_back(space.nominal);
  return assignments;
}

int SubtreeDepth(int size) { return std::max(size - 2, 0); }

}  // namespace

struct Worker {
  Worker(const Space& space, const GraphCode& code, const Classes& classes, uint64_t seed, TapeCache* tapes)
      : terms(space, AssignmentsOf(space), true, seed, tapes), fingerprinter(terms, code, classes) {}

  // Forgets the terms after the mark if they have become too many.
  void Trim(const Terms::Mark& mark) {
    if (terms.num_bytes() < kKeptWorkerBytes) return;
    fingerprinter.Release(mark);
    terms.Release(mark);
  }

  Terms terms;
  Fingerprinter fingerprinter;
  size_t bytes = 0;
};

Workers::Workers(const Space& space, const GraphCode& code, const Classes& classes, uint64_t seed, int threads)
    : space_(space) {
  for (int t = 0; t < std::max(threads, 1); ++t) {
    workers_.push_back(std::make_unique<Worker>(space, code, classes, seed, &tapes_));
  }
}

Workers::~Workers() = default;

Terms& Workers::terms() { return workers_[0]->terms; }

void Workers::AddSingles(std::vector<Record>* records) {
  workers_[0]->fingerprinter.AddSingles(records);
  workers_[0]->fingerprinter.TakeCounts();  // else they would count as part of some subtree
}

uint64_t Workers::CountSubtrees(int size) {
  uint64_t count = 0;
  Walk walk(terms(), size, [](const SmallGraph&, const ValueId*) { return true; });
  walk.set_subtrees({.depth = SubtreeDepth(size), .enter = [&](uint64_t) {
                       ++count;
                       return false;
                     }});
  walk.Run();
  return count;
}

bool Workers::Run(const Level& level, const std::function<uint64_t()>& next,
                  const std::function<bool(const FinishedSubtree&)>& finish) {
  std::mutex mutex;
  std::atomic<bool> go_on{true};
  const auto work = [&](Worker& worker) {
    const auto take = [&] {
      const std::lock_guard<std::mutex> lock(mutex);
      return next();
    };
    // Parts of graphs are looked up anew at every level, as there are more classes.
    worker.fingerprinter.Release({});
    uint64_t mine = take();
    FinishedSubtree subtree;
    Terms::Mark mark;
    Walk walk(worker.terms, level.size, [&](const SmallGraph& graph, const ValueId* values) {
      const size_t before = subtree.records.size();
      worker.fingerprinter.Add(graph, values, &subtree.records);
      subtree.records.erase(
          std::remove_if(subtree.records.begin() + static_cast<std::ptrdiff_t>(before), subtree.records.end(),
                         [&](const Record& r) { return r.fingerprint % level.parts != level.part; }),
          subtree.records.end());
      return true;
    });
    walk.set_subtrees({.depth = SubtreeDepth(level.size),
                       .enter =
                           [&](uint64_t number) {
                             if (number != mine) return false;
                             subtree = {.number = number};
                             mark = worker.terms.mark();
                             return true;
                           },
                       .leave =
                           [&](uint64_t) {
                             subtree.counts = worker.fingerprinter.TakeCounts();
                             const std::lock_guard<std::mutex> lock(mutex);
                             const size_t bytes = worker.terms.num_bytes();
                             bytes_ += bytes - std::exchange(worker.bytes, bytes);
                             worker.Trim(mark);
                             if (!go_on || !finish(subtree)) go_on = false;
                             mine = next();
                             return go_on.load();
                           }});
    walk.Run();
  };
  std::atomic<size_t> worker = 0;
  OnThreads(level.size >= kParallelFrom ? std::ssize(workers_) : 1, [&] { work(*workers_[worker++]); });
  return go_on;
}

void Workers::ForEach(size_t count, const std::function<void(Terms& terms, size_t number)>& work) {
  constexpr size_t kBatch = 256;
  std::atomic<size_t> next{0};
  const auto run = [&](Worker& worker) {
    for (size_t begin = next.fetch_add(kBatch); begin < count; begin = next.fetch_add(kBatch)) {
      const Terms::Mark mark = worker.terms.mark();
      for (size_t i = begin; i < std::min(begin + kBatch, count); ++i) work(worker.terms, i);
      worker.Trim(mark);
    }
  };
  std::atomic<size_t> worker = 0;
  OnThreads(count > 16 * kBatch ? std::ssize(workers_) : 1, [&] { run(*workers_[worker++]); });
}

}  // namespace rewright::generate
