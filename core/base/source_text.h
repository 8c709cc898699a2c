// The tokens of a C++ source: what is left when comments go and white space counts only where it parts two tokens.
#pragma once

#include <string>

namespace rewright {

// Tokens that would run together are parted by one space; text in quotes, raw strings among them, stays as it is. So
// two texts that differ in comments and layout alone have one result, and a change of any token changes it.
std::string SourceTokens(const std::string& source);

}  // namespace rewright
