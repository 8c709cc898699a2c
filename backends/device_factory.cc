#include "backends/device_factory.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "backends/analytic.h"
#include "backends/cpu/cpu_device.h"
#include "backends/roofline.h"
#include "core/data_file.h"

namespace rewright {
namespace {

absl::StatusOr<std::unique_ptr<Device>> MakeByFormula(const std::string& name) {
  if (name == "v100" || name == "v100-strict") return MakeAnalyticDevice(name);
  std::string path = name;
  if (!absl::EndsWith(name, ".json")) {
    absl::StatusOr<std::string> shipped =
        FindDataFile(absl::StrCat("devices/", name, ".json"), ProgramFolder(), REWRIGHT_BACKENDS_DIR);
    if (!shipped.ok() || absl::StrContains(name, '/')) {
      return absl::InvalidArgumentError(absl::StrCat(
          "analytic device ", name, ": expected v100, v100-strict, v100-roofline, k80, h200, zen3 or a FILE.json"));
    }
    path = *std::move(shipped);
  }
  absl::StatusOr<RooflineSpec> spec = ReadRooflineSpec(path);
  if (!spec.ok()) return spec.status();
  return MakeRooflineDevice(*spec);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Device>> MakeDevice(const std::string& spec, const DeviceOptions& options) {
  if (spec == "cpu") return cpu::MakeCpuDevice(options);
  const std::string prefix = "analytic:";
  if (spec.compare(0, prefix.size(), prefix) == 0) return MakeByFormula(spec.substr(prefix.size()));
  return absl::InvalidArgumentError(absl::StrCat("device ", spec, ": expected cpu or analytic:NAME"));
}

}  // namespace rewright
