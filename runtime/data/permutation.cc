#include "runtime/data/permutation.h"

#include <bit>

#include "core/base/check.h"
#include "core/base/integer.h"

namespace rewright {
namespace {

constexpr int kRounds = 6;

}  // namespace

KeyedPermutation::KeyedPermutation(int64_t size, uint64_t key) : size_(size), key_(key) {
  CHECK(size >= 1) << size;
  half_bits_ = (std::bit_width(static_cast<uint64_t>(size - 1)) + 1) / 2;
}

uint64_t KeyedPermutation::Encrypt(uint64_t x) const {
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  uint64_t left = x >> half_bits_, right = x & mask;
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t next = left ^ (MixBits(key_ ^ MixBits(right << 8 | static_cast<uint64_t>(round))) & mask);
    left = right;
    right = next;
  }
  return left << half_bits_ | right;
}

int64_t KeyedPermutation::operator()(int64_t index) const {
  CHECK(index >= 0 && index < size_) << index << " of " << size_;
  auto x = static_cast<uint64_t>(index);
  do x = Encrypt(x);
  while (x >= static_cast<uint64_t>(size_));
  return static_cast<int64_t>(x);
}

}  // namespace rewright
