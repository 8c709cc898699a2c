// CPU time of the calling thread. For reports alone: no verdict depends on it (work.h).
#pragma once

#include <ctime>

namespace rewright::verifier {

inline double ThreadCpuSeconds() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

}  // namespace rewright::verifier
