// A permutation that is computed, not stored: where sample i of a shuffled order lies follows from i and a key alone.
#pragma once

#include <cstdint>

namespace rewright {

// A Feistel network on the smallest even number of bits that holds the numbers below `size`, walked until it falls
// below `size` again (Black and Rogaway, "Ciphers with Arbitrary Finite Domains", 2002). Fewer than four rounds of the
// network are expected for an index. For shuffling; it keeps no secrets.
class KeyedPermutation {
 public:
  // `size` of at least 1.
  KeyedPermutation(int64_t size, uint64_t key);
  int64_t size() const { return size_; }
  // Maps an index 0..size-1 to one of them, a different one for each.
  int64_t operator()(int64_t index) const;

 private:
  uint64_t Encrypt(uint64_t x) const;

  int64_t size_;
  uint64_t key_;
  int half_bits_;
};

}  // namespace rewright
