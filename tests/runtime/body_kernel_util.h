// Kernels for schedules that tests build by hand.
#pragma once

#include <functional>
#include <utility>

#include "core/device/device.h"

namespace rewright {

using Body = std::function<absl::Status(void* const*)>;

class BodyKernel : public Kernel {
 public:
  explicit BodyKernel(Body body) : body_(std::move(body)) {}
  absl::Status Run(void* const* buffers, RunContext&) const override { return body_(buffers); }

 private:
  const Body body_;
};

}  // namespace rewright
