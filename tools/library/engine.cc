#include "tools/library/engine.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "backends/device_factory.h"
#include "core/base/status_macros.h"
#include "core/base/threads.h"
#include "runtime/executor.h"
#include "runtime/reference_runner.h"
#include "substitutions/proved_kernel_rewrites.h"
#include "verifier/claims/proved_folds.h"

namespace rewright {

ImportOptions OptionsToRead(const std::map<std::string, int64_t>& dims, const std::string& device, bool fold_defaults) {
  const bool source = IsFileRuntime(device);
  return {
      .dims = dims, .fold_defaults = fold_defaults, .keep_source = source, .keep_unknown = source || device == "cpu"};
}

void Engine::Use(const ImportedModel& model) const {
  opaque_->Add(model);
  if (file_device() != nullptr) file_device()->UseSource(model);
}

namespace {

// In memory where its disk is full.
absl::StatusOr<std::shared_ptr<ProfileDb>> OpenProfile(const std::string& path) {
  absl::StatusOr<std::shared_ptr<ProfileDb>> profile = ProfileDb::Open(path);
  if (!absl::IsResourceExhausted(profile.status())) return profile;
  ASSIGN_OR_RETURN(std::shared_ptr<ProfileDb> in_memory, ProfileDb::Open(""));
  in_memory->Tolerate(profile.status());
  return in_memory;
}

}  // namespace

absl::StatusOr<Engine> Engine::Open(const std::string& name, int threads, const std::string& profile,
                                    const std::string& precision, const std::vector<std::string>& switched_off) {
  Engine engine;
  engine.threads_ = threads;
  engine.switched_off_ = switched_off;
  if (PrecisionNamed(precision) != "f32" && !absl::StartsWith(name, "cuda")) {
    return absl::InvalidArgumentError(absl::StrCat("precision ", precision, ": found device ", name,
                                                   ", expected a GPU; all others compute in the types of the model"));
  }
  if (name == "reference") {
    engine.runner_ = MakeReferenceRunner(NumThreads(threads));
    return engine;
  }
  DeviceOptions options;
  options.threads = threads;
  if (!profile.empty()) {
    ASSIGN_OR_RETURN(options.profile, OpenProfile(profile));
    engine.profile_ = options.profile;
  }
  options.precision = precision;
  options.opaque = engine.opaque_;
  if (name == "cpu") {
    std::vector<std::string> rules = switched_off;
    const bool folds = std::erase(rules, kFoldLaw) == 0;
    options.tiles = std::erase(rules, kTilesWay) == 0;
    ASSIGN_OR_RETURN(std::unique_ptr<AllowedKernelRewrites> allowed,
                     LoadAllowedKernelRewrites(rules, {kFoldLaw, kTilesWay}));
    options.allowed_rewrites = folds ? WithProvedFolds(std::move(allowed)) : std::move(allowed);
  }
  ASSIGN_OR_RETURN(engine.device_, MakeDevice(name, options));
  if (engine.device_->runs() && options.profile != nullptr) {
    engine.measurements_ = std::make_unique<ProfiledMeasurements>(options.profile, engine.device_->name());
  }
  if (!engine.device_->runs()) {
    ASSIGN_OR_RETURN(engine.substitute_, MakeDevice("cpu", {threads}));
  }
  engine.runner_ = MakeGraphRunner(engine.substitute_ != nullptr ? *engine.substitute_ : *engine.device_);
  return engine;
}

absl::Status Engine::Wrap(const std::function<absl::StatusOr<std::unique_ptr<Device>>(std::unique_ptr<Device>)>& wrap) {
  ASSIGN_OR_RETURN(device_, wrap(std::move(device_)));
  runner_ = MakeGraphRunner(*device_);
  return absl::OkStatus();
}

}  // namespace rewright
