#include "backends/runtimes/model_runtime.h"

namespace rewright {
namespace {

class SessionKernel : public Kernel {
 public:
  explicit SessionKernel(std::shared_ptr<const ModelSession> session) : session_(std::move(session)) {}
  absl::Status Run(void* const* buffers, RunContext&) const override {
    return session_->Run(buffers, buffers + session_->num_inputs());
  }

 private:
  const std::shared_ptr<const ModelSession> session_;
};

}  // namespace

std::unique_ptr<Kernel> MakeSessionKernel(std::shared_ptr<const ModelSession> session) {
  return std::make_unique<SessionKernel>(std::move(session));
}

}  // namespace rewright
