// onnxruntime, loaded when it is asked for.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "backends/onnxruntime/api.h"
#include "backends/runtimes/model_runtime.h"

namespace rewright::ort {

// Thread-safe.
class Library : public ModelRuntime, public std::enable_shared_from_this<Library> {
 public:
  // The shared library that $REWRIGHT_ONNXRUNTIME names; without it the first of libonnxruntime.so.1 and
  // libonnxruntime.so where the loader looks, and of what the package onnxruntime of Python holds
  // (runtimes/shared_library.h). Errors: none is there, one is older than kApiVersion; they name what was looked for.
  static absl::StatusOr<std::shared_ptr<const Library>> Open();
  ~Library() override;

  std::string name() const override { return "onnxruntime"; }
  // With all of onnxruntime's optimizations, or with those that do not break the model.
  absl::StatusOr<std::shared_ptr<const ModelSession>> Load(const std::string& model, std::vector<Port> inputs,
                                                           std::vector<Port> outputs, int threads) const override;
  absl::StatusOr<std::shared_ptr<const ModelSession>> LoadFile(const std::string& path, std::vector<Port> inputs,
                                                               std::vector<Port> outputs, int threads) const override;

 private:
  friend class Session;
  Library() = default;
  absl::Status Init(void* handle, const std::string& path);
  // Takes over what a function gave.
  absl::Status ToStatus(OrtStatus* status) const;
  template <typename Create>
  absl::StatusOr<std::shared_ptr<const ModelSession>> Make(std::vector<Port> inputs, std::vector<Port> outputs,
                                                           int threads, const Create& create) const;

  const OrtApi* api_ = nullptr;
  OrtEnv* env_ = nullptr;
  OrtMemoryInfo* memory_ = nullptr;
};

}  // namespace rewright::ort
