// Other runtimes as devices: graphs are written as ONNX models and run by onnxruntime or OpenVINO, and costs are
// measured there.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "backends/common/noise_probe.h"
#include "backends/device_factory.h"
#include "backends/runtimes/model_runtime.h"
#include "core/device/device.h"
#include "core/onnx/onnx.h"
#include "runtime/measure/profile_db.h"

namespace rewright {

// The cost in seconds of a graph that a runtime refuses; no search takes it, and a profile can hold it.
inline constexpr double kRefusedSeconds = kMaxProfileSeconds;

// A runtime on the processor. Compile gives a schedule of one step, which runs the whole graph. Errors: a graph for
// training, one that has no form in ONNX or 2 GiB, and those of the runtime.
class FileDevice : public Device {
 public:
  FileDevice(std::shared_ptr<const ModelRuntime> runtime, int threads, std::shared_ptr<ProfileDb> profile);

  // Graphs of the arena of this model, which keeps its source, are written from now on as its file is: with its nodes
  // where no rule touched them. While the source lives.
  void UseSource(const ImportedModel& model);
  // A model that computes the graph, or is said to, as it is in a file or serialized.
  absl::StatusOr<Schedule> CompileFile(const Graph& graph, const std::string& path) const;
  absl::StatusOr<Schedule> CompileBytes(const Graph& graph, const std::string& bytes) const;

  const ModelRuntime& runtime() const { return *runtime_; }
  std::string name() const override { return name_; }
  std::vector<Group> Partition(const Graph& graph) const override;
  // kRefusedSeconds for what the runtime refuses; faults() has its words. 0 for nodes that are not known here.
  absl::StatusOr<double> Cost(const Graph& graph, const Group& group) override;
  std::vector<std::string> faults() const override;
  absl::StatusOr<Schedule> Compile(const Graph& graph) override;

 private:
  // Remembers among the faults what the runtime left out.
  Schedule ScheduleOf(const Graph& graph, std::shared_ptr<const ModelSession> session) const;
  // Requires the mutex.
  absl::StatusOr<double> Measured(const Graph& graph, const Group& group);

  const std::shared_ptr<const ModelRuntime> runtime_;
  const int threads_;
  const std::string name_;
  struct File {
    std::weak_ptr<Arena> arena;
    ModelMetadata metadata;
    std::weak_ptr<const OnnxSource> source;
  };
  mutable std::mutex mutex_;  // of what follows
  std::vector<File> files_;
  MeasuredCosts costs_;
  std::optional<NoiseProbe> probe_;
  mutable std::vector<std::string> faults_;
};

// The names of the runtimes that devices can be: "onnxruntime", "openvino".
const std::vector<std::string>& FileRuntimes();
// Returns whether the name is that of such a device: NAME or NAME:cpu.
bool IsFileRuntime(const std::string& device);
// REQUIRES: IsFileRuntime(device). Errors: the runtime is not found (Library::Open), those of the profile database.
absl::StatusOr<std::unique_ptr<Device>> MakeFileDevice(const std::string& device, const DeviceOptions& options);

}  // namespace rewright
