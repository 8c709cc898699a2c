// Finds rule files by the names that people give.
#pragma once

#include <string>

namespace rewright {

// A file as a path; a name without a folder that is no file here, such as shape or shape.rules, is that of a set that
// comes with the program or was made beside it. Any other name stays as it is.
std::string PathOfRules(std::string name);

}  // namespace rewright
