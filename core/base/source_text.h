// The tokens of a C++ source: comments are dropped, and white space is kept only where it separates two tokens.
#pragma once

#include <string>

namespace rewright {

// Returns the tokens of the text. A space separates tokens that would run together; text in quotes, raw strings
// included, stays as it is. Two texts that differ only in comments and layout have equal results, and a change of any
// token changes the result.
std::string SourceTokens(const std::string& source);

}  // namespace rewright
