#include "tools/program/version.h"

#include "absl/strings/str_cat.h"
#include "commit.h"

namespace rewright {

std::string Version() {
  return absl::StrCat("rewright " REWRIGHT_VERSION " (commit ", kCommit, ", " REWRIGHT_BUILD ", GCC " __VERSION__ ")");
}

}  // namespace rewright
