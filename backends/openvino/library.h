// OpenVINO, loaded when it is asked for.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "backends/openvino/api.h"
#include "backends/runtimes/model_runtime.h"

namespace rewright::openvino {

// OpenVINO's plugin for processors, with one stream, in f32 where the model says f32. Thread-safe.
class Library : public ModelRuntime, public std::enable_shared_from_this<Library> {
 public:
  // The shared library that $REWRIGHT_OPENVINO names; without it the first of libopenvino_c.so where the loader looks,
  // and of what the package openvino of Python holds (runtimes/shared_library.h). Errors: none is there, one lacks a
  // function; they name what was looked for.
  static absl::StatusOr<std::shared_ptr<const Library>> Open();
  ~Library() override;

  std::string name() const override { return "openvino"; }
  absl::StatusOr<std::shared_ptr<const ModelSession>> Load(const std::string& model, std::vector<Port> inputs,
                                                           std::vector<Port> outputs, int threads) const override;
  absl::StatusOr<std::shared_ptr<const ModelSession>> LoadFile(const std::string& path, std::vector<Port> inputs,
                                                               std::vector<Port> outputs, int threads) const override;

 private:
  friend class Session;
  Library() = default;
  absl::Status Init(void* handle, const std::string& path);
  absl::Status ToStatus(OvStatus status) const;
  // Compiles a model, which it frees.
  absl::StatusOr<std::shared_ptr<const ModelSession>> Make(OvModel* model, std::vector<Port> inputs,
                                                           std::vector<Port> outputs, int threads) const;

  Api api_;
  OvCore* core_ = nullptr;
};

}  // namespace rewright::openvino
