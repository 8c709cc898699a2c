// Weights in the form in which kernels read them, shared by the executables of a device: the original and a candidate
// that is timed beside it read most weights alike.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include "absl/status/statusor.h"

namespace rewright::cpu {

// Keeps no form alive: what no executable has any more is made again when it is asked for. Thread-safe.
class PackedWeights {
 public:
  // A factor of products: element (k, n) lies at `elements` + k * k_stride + n * n_stride.
  struct Form {
    const void* elements;
    int64_t k, n, k_stride, n_stride;
    friend auto operator<=>(const Form&, const Form&) = default;
  };

  // Gives what `make` gives, or gave for an executable that lives. `weights` keeps the elements, which are not written:
  // while the form is alive no other weights can lie there.
  absl::StatusOr<std::shared_ptr<void>> Get(const Form& form, std::shared_ptr<void> weights,
                                            const std::function<absl::StatusOr<std::shared_ptr<void>>()>& make);

 private:
  struct Packed {
    std::shared_ptr<void> weights, memory;
  };

  std::mutex mutex_;
  std::map<Form, std::weak_ptr<const Packed>> forms_;
  size_t look_at_ = 64;  // forms, when those that are gone are to be looked for
};

}  // namespace rewright::cpu
