// onnxruntime as a device: graphs are written as ONNX models and run by it, and costs are measured in it.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "backends/common/noise_probe.h"
#include "backends/device_factory.h"
#include "backends/onnxruntime/library.h"
#include "core/device/device.h"
#include "core/onnx/onnx.h"
#include "runtime/measure/profile_db.h"

namespace rewright::ort {

// The cost in seconds of a graph that onnxruntime refuses; no search takes it, and a profile can hold it.
inline constexpr double kRefusedSeconds = kMaxProfileSeconds;

// onnxruntime on the processor. Compile gives a schedule of one step, which runs the whole graph. Errors: a graph for
// training, one that has no form in ONNX or 2 GiB, and those of onnxruntime.
class OrtDevice : public Device {
 public:
  OrtDevice(std::shared_ptr<const Library> library, int threads, std::shared_ptr<ProfileDb> profile);

  // Graphs of the arena of this model, which keeps its source, are written from now on as its file is: with its nodes
  // where no rule touched them. While the source lives.
  void UseSource(const ImportedModel& model);
  // A model that computes the graph, or is said to, as it is in a file or serialized.
  absl::StatusOr<Schedule> CompileFile(const Graph& graph, const std::string& path) const;
  absl::StatusOr<Schedule> CompileBytes(const Graph& graph, const std::string& bytes) const;

  std::string name() const override { return name_; }
  std::vector<Group> Partition(const Graph& graph) const override;
  // kRefusedSeconds for what onnxruntime refuses; faults() has its words. 0 for nodes that are not known here.
  absl::StatusOr<double> Cost(const Graph& graph, const Group& group) override;
  std::vector<std::string> faults() const override;
  absl::StatusOr<Schedule> Compile(const Graph& graph) override;

 private:
  // Remembers among the faults what onnxruntime left out.
  Schedule ScheduleOf(const Graph& graph, std::shared_ptr<const Session> session) const;
  // Requires the mutex.
  absl::StatusOr<double> Measured(const Graph& graph, const Group& group);

  const std::shared_ptr<const Library> library_;
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

// Errors: those of Library::Open and of the profile database.
absl::StatusOr<std::unique_ptr<Device>> MakeOrtDevice(const DeviceOptions& options);

}  // namespace rewright::ort
