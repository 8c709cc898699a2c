#include "backends/device_factory.h"

#include "absl/strings/str_cat.h"
#include "backends/analytic.h"
#include "backends/cpu/cpu_device.h"

namespace rewright {

absl::StatusOr<std::unique_ptr<Device>> MakeDevice(const std::string& spec, const DeviceOptions& options) {
  if (spec == "cpu") return cpu::MakeCpuDevice(options);
  const std::string prefix = "analytic:";
  if (spec.compare(0, prefix.size(), prefix) == 0) return MakeAnalyticDevice(spec.substr(prefix.size()));
  return absl::InvalidArgumentError(
      absl::StrCat("device ", spec, ": expected cpu, analytic:v100 or analytic:v100-strict"));
}

}  // namespace rewright
