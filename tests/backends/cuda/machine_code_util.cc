#include "tests/backends/cuda/machine_code_util.h"

#include <elf.h>

#include <cstdint>
#include <cstring>

#include "core/base/check.h"

namespace rewright {
namespace {

template <typename T>
T At(const std::string& bytes, size_t offset) {
  CHECK(offset + sizeof(T) <= bytes.size()) << offset;
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

// The contents of a section.
std::string SectionOf(const std::string& elf, const std::string& name) {
  const auto header = At<Elf64_Ehdr>(elf, 0);
  const auto section = [&](size_t i) { return At<Elf64_Shdr>(elf, header.e_shoff + i * header.e_shentsize); };
  const size_t names = section(header.e_shstrndx).sh_offset;
  for (size_t i = 0; i < header.e_shnum; ++i) {
    const Elf64_Shdr found = section(i);
    if (name == elf.c_str() + names + found.sh_name) return elf.substr(found.sh_offset, found.sh_size);
  }
  CHECK(false) << "no section " << name;
  return {};
}

}  // namespace

GlobalAccesses AccessesOf(const std::string& code, const std::string& kernel) {
  constexpr uint64_t kLoad = 0x981, kStore = 0x986;
  constexpr int kBytes[] = {1, 1, 2, 2, 4, 8, 16, 0};  // by width; the odd ones of the first four keep a sign
  const std::string text = SectionOf(code, ".text." + kernel);
  GlobalAccesses accesses;
  for (size_t at = 0; at + 16 <= text.size(); at += 16) {
    const uint64_t operation = At<uint64_t>(text, at) & 0xfff, width = At<uint64_t>(text, at + 8) >> 9 & 7;
    if (operation == kLoad) ++accesses.loads[kBytes[width]];
    if (operation == kStore) ++accesses.stores[kBytes[width]];
  }
  return accesses;
}

}  // namespace rewright
