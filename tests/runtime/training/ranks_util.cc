#include "tests/runtime/training/ranks_util.h"

namespace rewright {

std::string DigitsFolder() { return REWRIGHT_SOURCE_DIR "/tools/examples/digits"; }

}  // namespace rewright
