#include "core/base/check.h"

namespace rewright::internal {

void CheckFailure::operator&(const std::ostringstream& message) const {
  std::ostringstream text;
  text << file << ":" << line << ": CHECK(" << condition << ") failed: " << message.str();
  throw InternalFault(text.str());
}

}  // namespace rewright::internal
