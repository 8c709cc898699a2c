#include "search/resources.h"

#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <string>

namespace rewright {
namespace {

double Seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

}  // namespace

double ProcessCpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return Seconds(usage.ru_utime) + Seconds(usage.ru_stime);
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
