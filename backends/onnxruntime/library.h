// onnxruntime, loaded when it is asked for: models as sessions that run.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "backends/onnxruntime/api.h"
#include "core/device/device.h"
#include "core/tensor/tensor.h"

namespace rewright::ort {

// An input or output of a model.
struct Port {
  std::string name;
  TensorType type;
};

class Library;
class Session;

// Buffers: the session's inputs, its outputs.
std::unique_ptr<Kernel> MakeSessionKernel(std::shared_ptr<const Session> session);

// A model that onnxruntime has loaded, on the processor, with all of its optimizations, or with those that do not break
// it. Several threads may run it at a time.
class Session {
 public:
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // On elements in row-major order, in the order of the ports; outputs are written in place. Errors: onnxruntime's.
  absl::Status Run(void* const* inputs, void* const* outputs) const;
  size_t num_inputs() const { return inputs_.size(); }
  // Where some optimizations of onnxruntime break the model: which were left out, and its words. Empty: none.
  const std::string& left_out() const { return left_out_; }

 private:
  friend class Library;
  Session(std::shared_ptr<const Library> library, std::vector<Port> inputs, std::vector<Port> outputs);

  const std::shared_ptr<const Library> library_;
  const std::vector<Port> inputs_, outputs_;
  std::vector<const char*> input_names_, output_names_;
  OrtSession* session_ = nullptr;
  std::string left_out_;
};

// Thread-safe.
class Library : public std::enable_shared_from_this<Library> {
 public:
  // The shared library that $REWRIGHT_ONNXRUNTIME names; without it the first of libonnxruntime.so.1 and
  // libonnxruntime.so where the loader looks, and of what the package onnxruntime of PythonProgram() holds
  // (core/base/data_file.h). Errors: none is there, one is older than kApiVersion; they name what was looked for.
  static absl::StatusOr<std::shared_ptr<const Library>> Open();
  ~Library();
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  const std::string& version() const { return version_; }  // "1.20.1"

  // A model, serialized or in a file, whose inputs and outputs are these. Errors: onnxruntime's, when it refuses it.
  absl::StatusOr<std::shared_ptr<const Session>> Load(const std::string& model, std::vector<Port> inputs,
                                                      std::vector<Port> outputs, int threads) const;
  absl::StatusOr<std::shared_ptr<const Session>> LoadFile(const std::string& path, std::vector<Port> inputs,
                                                          std::vector<Port> outputs, int threads) const;

 private:
  friend class Session;
  Library() = default;
  absl::Status Init(void* handle, const std::string& path);
  // Takes over what a function gave.
  absl::Status ToStatus(OrtStatus* status) const;
  template <typename Create>
  absl::StatusOr<std::shared_ptr<const Session>> Make(std::vector<Port> inputs, std::vector<Port> outputs, int threads,
                                                      const Create& create) const;

  const OrtApi* api_ = nullptr;
  OrtEnv* env_ = nullptr;
  OrtMemoryInfo* memory_ = nullptr;
  std::string version_;
};

}  // namespace rewright::ort
