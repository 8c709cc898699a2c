#include "backends/cuda/memory/gpu_memory.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"

namespace rewright::cuda {
namespace {

// The errors of work that goes across the border and back.
class Errors {
 public:
  Fault Note(absl::Status status) {
    if (status.ok()) return {};
    if (first_.ok()) first_ = std::move(status);
    return std::string(first_.message());
  }
  // The status of the first failure within the work, which says more than the fault that came back.
  absl::Status Of(const Fault& fault) const { return first_.ok() ? StatusOf(fault) : first_; }

 private:
  absl::Status first_;
};

}  // namespace

absl::Status StatusOf(const Fault& fault) {
  if (fault.empty()) return absl::OkStatus();
  const auto has = [&](const char* words) { return fault.find(words) != Fault::npos; };
  const absl::StatusCode code = has(kUnusable)      ? absl::StatusCode::kAborted
                                : has(kOutOfMemory) ? absl::StatusCode::kResourceExhausted
                                                    : absl::StatusCode::kInternal;
  return absl::Status(code, absl::StrCat("cuda: ", fault));
}

absl::Status FinalStatusOf(const Fault& fault) {
  absl::Status status = StatusOf(fault);
  return absl::IsResourceExhausted(status) || absl::IsAborted(status) ? status : absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<void>> GpuMemory::Allocate(size_t bytes) {
  void* memory = nullptr;
  RETURN_IF_ERROR(StatusOf(gpu_.Allocate(std::max<size_t>(bytes, 1), &memory)));
  return std::shared_ptr<void>(memory, [&gpu = gpu_](void* p) { gpu.Free(p); });
}
absl::Status GpuMemory::CopyIn(void* to, const void* from, size_t bytes) {
  return StatusOf(gpu_.CopyIn(to, from, bytes));
}
absl::Status GpuMemory::CopyOut(void* to, const void* from, size_t bytes) {
  return StatusOf(gpu_.CopyOut(to, from, bytes));
}
absl::Status GpuMemory::Synchronize() { return StatusOf(gpu_.Synchronize()); }

absl::Status GpuMemory::RunQueues(const std::vector<QueueStep>& steps,
                                  const std::function<absl::Status(int)>& enqueue) {
  Errors errors;
  return errors.Of(gpu_.RunQueues(steps, [&](int i) { return errors.Note(enqueue(i)); }));
}

absl::StatusOr<std::function<absl::Status()>> GpuMemory::Record(const std::function<absl::Status()>& work) {
  // A stand-in for a GPU may replay the work itself.
  const auto errors = std::make_shared<Errors>();
  std::unique_ptr<Recording> recording;
  const Enqueue noted = [errors, work] { return errors->Note(work()); };
  RETURN_IF_ERROR(errors->Of(gpu_.Record(noted, &recording)));
  return std::function<absl::Status()>([errors, shared = std::shared_ptr<Recording>(std::move(recording))] {
    *errors = Errors();
    return errors->Of(shared->Run());
  });
}

absl::StatusOr<double> GpuMemory::Time(const std::function<absl::Status()>& work) {
  Errors errors;
  double seconds = 0;
  RETURN_IF_ERROR(errors.Of(gpu_.Time([&] { return errors.Note(work()); }, &seconds)));
  return seconds;
}

absl::StatusOr<int> GpuMemory::Fastest(const std::string& key, const std::vector<std::function<absl::Status()>>& ways) {
  std::vector<Enqueue> enqueues;
  for (const std::function<absl::Status()>& way : ways) {
    enqueues.push_back([&way]() -> Fault { return Errors().Note(way()); });
  }
  int best = 0;
  RETURN_IF_ERROR(StatusOf(gpu_.Fastest(key, enqueues, &best)));
  return best;
}

}  // namespace rewright::cuda
