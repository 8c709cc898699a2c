// Other runtimes, which run model files on the processor: onnxruntime and OpenVINO. Their libraries are loaded when
// they are asked for.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/device/device.h"
#include "core/tensor/tensor.h"

namespace rewright {

// An input or output of a model.
struct Port {
  std::string name;
  TensorType type;
};

// A model that a runtime has loaded. Several threads may run it at a time.
class ModelSession {
 public:
  virtual ~ModelSession() = default;
  ModelSession(const ModelSession&) = delete;
  ModelSession& operator=(const ModelSession&) = delete;

  // On elements in row-major order, in the order of the ports; outputs are written in place. Errors: the runtime's.
  virtual absl::Status Run(void* const* inputs, void* const* outputs) const = 0;

  size_t num_inputs() const { return inputs_.size(); }
  // Where some optimizations of the runtime break the model: which were left out, and its words. Empty: none.
  const std::string& left_out() const { return left_out_; }

 protected:
  ModelSession(std::vector<Port> inputs, std::vector<Port> outputs)
      : inputs_(std::move(inputs)), outputs_(std::move(outputs)) {}

  const std::vector<Port> inputs_, outputs_;
  std::string left_out_;
};

// Buffers: the session's inputs, its outputs.
std::unique_ptr<Kernel> MakeSessionKernel(std::shared_ptr<const ModelSession> session);

// Thread-safe.
class ModelRuntime {
 public:
  virtual ~ModelRuntime() = default;
  ModelRuntime(const ModelRuntime&) = delete;
  ModelRuntime& operator=(const ModelRuntime&) = delete;

  virtual std::string name() const = 0;                    // of the device: "onnxruntime"
  const std::string& version() const { return version_; }  // "1.20.1"

  // A model, serialized or in a file, whose inputs and outputs are these. Errors: the runtime's, when it refuses it.
  virtual absl::StatusOr<std::shared_ptr<const ModelSession>> Load(const std::string& model, std::vector<Port> inputs,
                                                                   std::vector<Port> outputs, int threads) const = 0;
  virtual absl::StatusOr<std::shared_ptr<const ModelSession>> LoadFile(const std::string& path,
                                                                       std::vector<Port> inputs,
                                                                       std::vector<Port> outputs,
                                                                       int threads) const = 0;

 protected:
  ModelRuntime() = default;
  std::string version_;
};

}  // namespace rewright
