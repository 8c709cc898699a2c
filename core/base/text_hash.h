// FNV-1a over texts (Fowler, Noll, Vo), the same on every machine and in every build. It tells texts apart that differ
// by accident; it does not protect against deliberate collisions.
//
// Sealed lines: lines of a journal that show any change. A line is its content, a tab, and the content's hash.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace rewright {

// Hashes a text, or the concatenation of a text whose hash is `hash` and this one.
inline uint64_t Fnv1a(std::string_view text, uint64_t hash = 0xcbf29ce484222325u) {
  for (unsigned char byte : text) hash = (hash ^ byte) * 0x100000001b3u;
  return hash;
}

class TextHash {
 public:
  // Adds a text; a separator keeps texts that are added one after another apart.
  void Add(std::string_view text) { hash_ = Fnv1a("\xff", Fnv1a(text, hash_)); }
  uint64_t value() const { return hash_; }
  // 16 hexadecimal digits.
  std::string Hex() const { return Hex(hash_); }
  static std::string Hex(uint64_t hash) {
    char digits[17];
    std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(hash));
    return digits;
  }
  static std::string HexOf(const std::string& text) {
    TextHash hash;
    hash.Add(text);
    return hash.Hex();
  }

 private:
  uint64_t hash_ = Fnv1a("");  // of nothing
};

// Returns the line without its end; `content` has none either.
inline std::string SealedLine(const std::string& content) { return content + "\t" + TextHash::HexOf(content); }

// Cuts the line to its content. False if the line is incomplete or was changed.
inline bool OpenSealedLine(std::string* line) {
  const size_t at = line->rfind('\t');
  if (at == std::string::npos || line->substr(at + 1) != TextHash::HexOf(line->substr(0, at))) return false;
  line->resize(at);
  return true;
}

}  // namespace rewright
