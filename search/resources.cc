#include "search/resources.h"

#include <time.h>
#include <unistd.h>

#include <fstream>
#include <string>

namespace rewright {

double ProcessCpuSeconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

int64_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t total = 0;
  int64_t resident = 0;
  statm >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

int64_t PeakResidentBytes() {
  // Not ru_maxrss, which a program takes over from the process that started it.
  std::ifstream status("/proc/self/status");
  for (std::string name; status >> name;) {
    int64_t kibibytes = 0;
    if (name == "VmHWM:" && status >> kibibytes) return kibibytes * 1024;
  }
  return ResidentBytes();
}

}  // namespace rewright
