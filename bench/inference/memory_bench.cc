// Activation memory of the models of the zoo on the CPU device:
//   memory_bench [--threads 2] [MODEL...]
// For every model: bytes of the planned arena, the largest sum of live buffers over the schedule (the floor of any
// plan), and their ratio, as CSV.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "backends/device_factory.h"
#include "bench/zoo/zoo.h"
#include "core/device/device.h"
#include "runtime/executor.h"

namespace rewright {
namespace {

int Report(const std::string& name, Device& device, double* worst) {
  auto graph = BuildZooModel(name);
  if (!graph.ok()) {
    std::fprintf(stderr, "%s\n", graph.status().ToString().c_str());
    return 2;
  }
  auto executable = MakeGraphRunner(device)->Prepare(*graph);
  if (!executable.ok()) {
    std::fprintf(stderr, "%s: %s\n", name.c_str(), executable.status().ToString().c_str());
    return 2;
  }
  const double ratio =
      static_cast<double>((*executable)->arena_bytes()) / static_cast<double>((*executable)->peak_live_bytes());
  *worst = ratio > *worst ? ratio : *worst;
  std::printf("%s,%lld,%lld,%.4f\n", name.c_str(), static_cast<long long>((*executable)->arena_bytes()),
              static_cast<long long>((*executable)->peak_live_bytes()), ratio);
  std::fflush(stdout);
  return 0;
}

int Main(int argc, char** argv) {
  DeviceOptions options;
  std::vector<std::string> names;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    if (arg == "--threads" && i + 1 < argc) {
      options.threads = std::atoi(argv[++i]);
    } else {
      names.push_back(arg);
    }
  }
  if (names.empty()) {
    for (const ZooModel& model : ZooModels()) names.push_back(model.name);
  }
  auto device = MakeDevice("cpu", options);
  if (!device.ok()) {
    std::fprintf(stderr, "%s\n", device.status().ToString().c_str());
    return 2;
  }
  std::printf("model,arena_bytes,peak_live_bytes,ratio\n");
  double worst = 0;
  for (const std::string& name : names) {
    if (const int status = Report(name, **device, &worst); status != 0) return status;
  }
  std::printf("# largest ratio %.4f\n", worst);
  return worst <= 1.25 ? 0 : 1;
}

}  // namespace
}  // namespace rewright

int main(int argc, char** argv) { return rewright::Main(argc, argv); }
