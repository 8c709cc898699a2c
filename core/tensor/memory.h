// Memory for the tensors of models. A model is untrusted and may declare tensors larger than the machine's memory: all
// memory whose size depends on its shapes is allocated here, with an error if it does not fit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/tensor/tensor.h"

namespace rewright {

// Returns the least multiple of `unit` that is not below `value`, which is not negative.
constexpr int64_t AlignUp(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

// Returns the number of bytes that this process can still take: the least of the machine's available memory and swap,
// the rest of its control group's limit, and the rest of its limit of address space.
int64_t AvailableBytes();

// Returns ResourceExhaustedError if fewer than `bytes` bytes are available:
//   "input x f32[1000000,100000] needs 400000000000 bytes (372.5 GiB); 12.3 GiB of memory are available"
absl::Status CheckMemory(int64_t bytes, absl::string_view what);

// Allocates memory without initializing it, aligned to a power of two, with 64 bytes to spare: vectors may reach beyond
// the last element. ResourceExhaustedError if there is none.
absl::StatusOr<std::shared_ptr<void>> AllocateBytes(size_t bytes, size_t alignment = 64);

// Allocates a tensor of zeros; its type is added to `what` in the error.
absl::StatusOr<Tensor> AllocateTensor(TensorType type, absl::string_view what);
// Allocates a tensor whose elements the caller must write.
absl::StatusOr<Tensor> AllocateUninitialized(TensorType type, absl::string_view what);

// Sets `bytes` bytes and room on the stack aside; the first thread of a program calls it once. When memory runs out the
// bytes are given back, so that the failing allocation succeeds, and CheckMemory and AllocateBytes give errors until
// `bytes` bytes are free again. When even these are used up, the program prints `words.text` on standard error and ends
// with `words.status`. An exception would not do: Abseil's tables break if one is thrown while they grow, and then free
// memory that is not theirs.
struct LastWords {
  const char* text = "";
  int status = 1;
};
void ReserveMemory(size_t bytes, LastWords words);

}  // namespace rewright
