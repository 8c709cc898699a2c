#include "substitutions/generate/ranks.h"

#include <cstdlib>
#include <numeric>

#include "core/base/check.h"

#ifdef REWRIGHT_MPI
#include <mpi.h>
#endif

namespace rewright::generate {

Ranks& Ranks::World() {
  static Ranks ranks;
  return ranks;
}

#ifdef REWRIGHT_MPI

namespace {

// What Open MPI and those that follow the PMI tell the processes that they start.
bool StartedByMpirun() {
  return std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr || std::getenv("PMI_SIZE") != nullptr ||
         std::getenv("PMIX_RANK") != nullptr;
}

// MPI counts in int.
std::vector<int> Counts(const std::vector<uint64_t>& counts) {
  std::vector<int> result;
  uint64_t sum = 0;
  for (uint64_t count : counts) {
    sum += count;
    CHECK(sum < uint64_t{1} << 31) << "more words at once than MPI counts";
    result.push_back(static_cast<int>(count));
  }
  return result;
}

std::vector<int> Begins(const std::vector<int>& counts) {
  std::vector<int> begins(counts.size(), 0);
  std::partial_sum(counts.begin(), counts.end() - 1, begins.begin() + 1);
  return begins;
}

}  // namespace

Ranks::Ranks() {
  if (!StartedByMpirun()) return;
  MPI_Init(nullptr, nullptr);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &size_);
}

Ranks::~Ranks() {
  int begun = 0;
  MPI_Initialized(&begun);
  if (begun != 0) MPI_Finalize();
}

std::vector<uint64_t> Ranks::Exchange(const std::vector<std::vector<uint64_t>>& out) {
  if (size_ == 1) return out[0];
  std::vector<uint64_t> all, sent, received(out.size());
  for (const std::vector<uint64_t>& words : out) {
    all.insert(all.end(), words.begin(), words.end());
    sent.push_back(words.size());
  }
  MPI_Alltoall(sent.data(), 1, MPI_UINT64_T, received.data(), 1, MPI_UINT64_T, MPI_COMM_WORLD);
  const std::vector<int> out_counts = Counts(sent), in_counts = Counts(received);
  const std::vector<int> out_begins = Begins(out_counts), in_begins = Begins(in_counts);
  std::vector<uint64_t> in(static_cast<size_t>(in_begins.back() + in_counts.back()));
  MPI_Alltoallv(all.data(), out_counts.data(), out_begins.data(), MPI_UINT64_T, in.data(), in_counts.data(),
                in_begins.data(), MPI_UINT64_T, MPI_COMM_WORLD);
  return in;
}

std::vector<uint64_t> Ranks::Gather(const std::vector<uint64_t>& words) {
  std::vector<std::vector<uint64_t>> out(static_cast<size_t>(size_));
  out[0] = words;
  return Exchange(out);
}

uint64_t Ranks::Max(uint64_t word) {
  if (size_ > 1) MPI_Allreduce(MPI_IN_PLACE, &word, 1, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD);
  return word;
}

void Ranks::Abort(int status) {
  if (size_ > 1) MPI_Abort(MPI_COMM_WORLD, status);
}

#else

Ranks::Ranks() = default;
Ranks::~Ranks() = default;
std::vector<uint64_t> Ranks::Exchange(const std::vector<std::vector<uint64_t>>& out) { return out[0]; }
std::vector<uint64_t> Ranks::Gather(const std::vector<uint64_t>& words) { return words; }
uint64_t Ranks::Max(uint64_t word) { return word; }
void Ranks::Abort(int) {}

#endif

}  // namespace rewright::generate
