// Engines, on which models run.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "backends/onnxruntime/opaque_nodes.h"
#include "backends/runtimes/file_device.h"
#include "core/device/device.h"
#include "core/onnx/onnx.h"
#include "runtime/measure/measurement_cache.h"

namespace rewright {

// The options to read a model that the device runs: for another runtime with the nodes of its file. There and on the
// processor not all nodes need to be known, since the runtime, here onnxruntime, runs the others.
ImportOptions OptionsToRead(const std::map<std::string, int64_t>& dims, const std::string& device,
                            bool fold_defaults = false);

// The engine that the name of a device stands for: "cpu", "cuda", "cuda:N", "onnxruntime", "openvino", or
// "reference", the interpreter.
class Engine {
 public:
  // `threads` 0: all of the machine. `profile`: the file of measured costs; empty: none is kept. `switched_off`: laws
  // by which no kernel may compute an operator (docs/winograd.md).
  static absl::StatusOr<Engine> Open(const std::string& name, int threads, const std::string& profile,
                                     const std::string& precision = "f32",
                                     const std::vector<std::string>& switched_off = {});

  // Runs on what `wrap` makes of the device. REQUIRES: it is not the reference interpreter, and it runs.
  absl::Status Wrap(const std::function<absl::StatusOr<std::unique_ptr<Device>>(std::unique_ptr<Device>)>& wrap);

  // As they were given to Open.
  int threads() const { return threads_; }
  const std::vector<std::string>& switched_off() const { return switched_off_; }
  // Null for the reference interpreter.
  Device* device() const { return device_.get(); }
  // Before graphs of the model, or rewritten from it, run here. Another runtime gets them as their file is as long as
  // the model's source lives.
  void Use(const ImportedModel& model) const;
  // The device where it is another runtime, which runs files; null where it is not.
  FileDevice* file_device() const { return dynamic_cast<FileDevice*>(device_.get()); }
  // The measurements of whole graphs on the device, in the profile; null where there is none, or nothing is timed.
  MeasurementCache* measurements() const { return measurements_.get(); }
  // Why something that was measured was not kept in the profile: the first time. OK: all was, or there is none.
  absl::Status profile_loss() const { return profile_ == nullptr ? absl::OkStatus() : profile_->lost(); }
  // Runs on the device, or on the processor where the device is known by its costs alone.
  GraphRunner& runner() const { return *runner_; }

 private:
  int threads_ = 0;
  std::vector<std::string> switched_off_;
  std::shared_ptr<ort::OpaqueNodes> opaque_ = std::make_shared<ort::OpaqueNodes>();
  std::unique_ptr<Device> device_;
  std::unique_ptr<Device> substitute_;
  std::unique_ptr<GraphRunner> runner_;
  std::shared_ptr<ProfileDb> profile_;
  std::unique_ptr<ProfiledMeasurements> measurements_;
};

}  // namespace rewright
