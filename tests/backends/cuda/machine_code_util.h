// Counts the accesses of a kernel to global memory, in the machine code that NVRTC gives for a GPU that is not there.
#pragma once

#include <map>
#include <string>

namespace rewright {

struct GlobalAccesses {
  std::map<int, int> loads, stores;  // instructions by the bytes that they move for one thread
};

// `code` is an ELF file for sm_70 or later, where an instruction has 16 bytes, its operation in bits 0 to 11 (LDG
// 0x981, STG 0x986) and the width of an access in bits 73 to 75.
GlobalAccesses AccessesOf(const std::string& code, const std::string& kernel);

}  // namespace rewright
