// Stand-ins for the CUDA runtime, NVRTC, cuBLASLt and cuDNN, against which the plugin's own sources are linked: a GPU
// that runs nothing at once, refuses what a real one refuses, and watches over its memory.
//
// Work is queued and runs when somebody waits for it, in a random order that streams and events allow; work that is
// recorded runs in a random order that its graph allows. Device memory cannot be touched but by work, lies between red
// zones, is full of NaN before it is written, and what is not freed is counted. Kernels are compiled for the processor;
// the libraries compute by definition from descriptors, each of which is checked. Time is counted, not measured.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace rewright::standin {

struct Settings {
  uint64_t seed = 1;  // of the orders in which work runs
  size_t memory = size_t{1} << 30;
  int fail_at = -1;        // the call that fails, counted from 0 among those that can
  int plans = 4;           // proposals of the libraries, of which `fastest` takes the least time
  int fallback_plans = 1;  // of cuDNN's second mode
  int fastest = 2;
  std::vector<int> refused;     // proposals that fail where they are enqueued
  std::vector<int> unrecorded;  // that cannot be recorded
  int lasting = -1;             // after it every call fails
};
struct Observed {
  std::vector<std::string> misuse;                   // what a real library forbids, or leaves undefined
  int calls = 0;                                     // that can fail
  std::map<std::string, std::vector<int>> calls_of;  // their numbers, by function
  int launches = 0, products = 0, graphs = 0;
  std::set<int> split_parts;        // into which sums of products were split
  int last_parts = 1;               // of the last product
  int64_t last_row = 0;             // and the distance of the rows of its result
  std::vector<int> proposals;       // that ran
  std::set<const void*> factors;    // addresses of second factors of products
  int empty_factors = 0;            // of products, that hold zeros alone or were never written
  int idle_starts = 0;              // times from events with no work in front of them: launches are a part of these
  std::map<std::string, int> live;  // objects and allocations that were not destroyed
};

// Makes a new GPU. Queued work is dropped.
void Reset(const Settings& settings);
const Settings& settings();
Observed& observed();
int Live();  // objects of all kinds

void Misuse(const std::string& what);
// The next call that can fail, of the function that asks: true where it does. From any thread.
bool Fails(const char* function = __builtin_FUNCTION());
void Lose();

// While one lives, device memory can be read and written.
class OpenMemory {
 public:
  OpenMemory();
  ~OpenMemory();
};
// Misuse unless the range lies within one allocation and is aligned.
void CheckRange(const void* address, size_t bytes, size_t alignment, const std::string& what);

// Queues work behind what is on the stream. `seconds` it takes.
cudaError_t Queue(cudaStream_t stream, double seconds, std::function<void()> work);
// Tries a library's proposal before its work is queued; false: it is refused.
bool Propose(cudaStream_t stream, int proposal, cudaError_t* error);
inline double SecondsOf(int proposal) { return proposal == settings().fastest ? 1e-6 : 1e-5 * (1 + proposal); }

}  // namespace rewright::standin
