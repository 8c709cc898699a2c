// SHA-256 (FIPS 180-4): tells whether bytes are those that were written.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace rewright {

class Sha256 {
 public:
  void Add(const void* data, size_t bytes);
  void Add(const std::string& text) { Add(text.data(), text.size()); }
  // Returns the digest of all added bytes: 64 hexadecimal digits. Nothing may be added afterwards.
  std::string Hex();

  static std::string HexOf(const std::string& text) {
    Sha256 hash;
    hash.Add(text);
    return hash.Hex();
  }

 private:
  void Block(const uint8_t* block);

  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<uint8_t, 64> rest_ = {};  // the incomplete block: the first length_ % 64 bytes
  uint64_t length_ = 0;
};

}  // namespace rewright
