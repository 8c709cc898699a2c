// TASO's rule files out of checked data: what Decode reads.
#pragma once

#include <string>
#include <vector>

#include "substitutions/taso/decode.h"

namespace rewright::taso {

// The bytes of a file of these rules.
std::string Encode(const std::vector<RuleGraph>& rules);

}  // namespace rewright::taso
