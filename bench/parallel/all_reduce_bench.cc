// An all-reduce between processes: mpirun -n 2 all_reduce_bench [--megabytes 100] [--repeats 10]
// Rank 0 prints, of the repeats, the median of the seconds that one takes (until the slowest rank has it) and the
// seconds of processor time of a rank. Every sum is checked. Beside Gloo's: bench/parallel/vs_gloo.py.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "core/base/status_macros.h"
#include "core/tensor/memory.h"
#include "runtime/comm/all_reduce.h"
#include "runtime/comm/mpi.h"
#include "search/resources.h"

namespace rewright {
namespace {

double Now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

absl::Status Measure(Communicator& ranks, int64_t count, int repeats) {
  const std::vector<LeafRange> leaves = LeavesOfRanks(ranks.size(), ranks.size());
  ASSIGN_OR_RETURN(Tensor vector, AllocateTensor({DType::kFloat32, {count}}, "the vector"));
  float* const elements = vector.as<float>();
  std::vector<double> seconds, processor;
  for (int i = -2; i < repeats; ++i) {  // the first two make what is kept
    for (int64_t k = 0; k < count; ++k) elements[k] = static_cast<float>(k % 1000 + ranks.rank());
    RETURN_IF_ERROR(ranks.Barrier("the beginning"));
    const double begin = Now(), cpu = ProcessCpuSeconds();
    RETURN_IF_ERROR(AllReduce(ranks, "all-reduce", leaves, &vector));
    const double used = ProcessCpuSeconds() - cpu;
    RETURN_IF_ERROR(ranks.Barrier("the end"));
    if (i >= 0) {
      seconds.push_back(Now() - begin);
      processor.push_back(used);
    }
    const int64_t size = ranks.size(), others = size * (size - 1) / 2;
    for (int64_t k = 0; k < count; ++k) {
      const auto expected = static_cast<float>(size * (k % 1000) + others);
      if (elements[k] == expected) continue;
      return absl::InternalError("element " + std::to_string(k) + ": found " + std::to_string(elements[k]) +
                                 ", expected " + std::to_string(expected));
    }
  }
  std::sort(seconds.begin(), seconds.end());
  std::sort(processor.begin(), processor.end());
  const size_t middle = seconds.size() / 2;
  if (ranks.rank() == 0) std::printf("%.6f %.6f\n", seconds[middle], processor[middle]);
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  std::map<std::string, int> flags = {{"--megabytes", 100}, {"--repeats", 10}};
  for (int i = 1; i + 1 < argc; i += 2) flags[argv[i]] = std::atoi(argv[i + 1]);
  Communicator& ranks = ProcessRanks();
  const absl::Status status = Measure(ranks, int64_t{flags["--megabytes"]} * 1000000 / 4, flags["--repeats"]);
  if (status.ok()) return 0;
  std::fprintf(stderr, "rank %d: %s\n", ranks.rank(), status.ToString().c_str());
  ranks.Abort(status);
  return 1;
}

}  // namespace
}  // namespace rewright

int main(int argc, char** argv) { return rewright::Main(argc, argv); }
