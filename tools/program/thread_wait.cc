#include "tools/program/thread_wait.h"

#include <stdlib.h>
#include <unistd.h>

namespace rewright {

void ShortenThreadWaiting(char** argv) {
  if (getenv("GOMP_SPINCOUNT") != nullptr || getenv("OMP_WAIT_POLICY") != nullptr) return;
  if (setenv("GOMP_SPINCOUNT", "4000", 1) != 0) return;
  execv("/proc/self/exe", argv);
}

}  // namespace rewright
