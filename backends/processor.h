// The processor that this process runs on.
#pragma once

#include <string>

namespace rewright {

// Those that this process may use.
int AvailableProcessors();

// As the system calls it; "unknown" where it does not tell.
std::string ProcessorName();

}  // namespace rewright
