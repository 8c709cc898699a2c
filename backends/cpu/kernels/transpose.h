// Small matrices, transposed.
#pragma once

#include <cstdint>
#include <cstring>

namespace rewright::cpu {

constexpr int64_t kTransposed = 4;  // lines, and elements of a line

// Four lines of four elements, transposed; strides of the lines.
inline void Transpose4(const uint32_t* from, int64_t from_stride, uint32_t* to, int64_t to_stride) {
  typedef uint32_t Vector __attribute__((vector_size(16)));
  Vector a[kTransposed];
  for (int64_t i = 0; i < kTransposed; ++i) std::memcpy(&a[i], from + i * from_stride, sizeof(Vector));
  const Vector low = {0, 4, 1, 5}, high = {2, 6, 3, 7}, first = {0, 1, 4, 5}, second = {2, 3, 6, 7};
  const Vector ab_low = __builtin_shuffle(a[0], a[1], low), ab_high = __builtin_shuffle(a[0], a[1], high);
  const Vector cd_low = __builtin_shuffle(a[2], a[3], low), cd_high = __builtin_shuffle(a[2], a[3], high);
  const Vector b[kTransposed] = {__builtin_shuffle(ab_low, cd_low, first), __builtin_shuffle(ab_low, cd_low, second),
                                 __builtin_shuffle(ab_high, cd_high, first),
                                 __builtin_shuffle(ab_high, cd_high, second)};
  for (int64_t i = 0; i < kTransposed; ++i) std::memcpy(to + i * to_stride, &b[i], sizeof(Vector));
}

}  // namespace rewright::cpu
