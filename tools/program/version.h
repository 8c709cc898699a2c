// The version of the program and the build that it comes from.
#pragma once

#include <string>

namespace rewright {

// "rewright 0.1.0 (commit 1a2b3c4d, Release, GCC 12.2.0)"; the commit ends with -dirty where sources were changed.
std::string Version();

}  // namespace rewright
