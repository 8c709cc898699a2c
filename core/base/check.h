// CHECK(condition) << "what we believed" detects bugs of this program only. Errors of input, files, flags and devices
// are absl::Status. The condition must have no side effects.
//
// A failed check throws InternalFault. Whoever answers for a whole task (a verb of the program, a call of the library,
// a thread) turns it into an error by Guarded (core/base/status_macros.h). Nothing in between catches it. Objects that
// the task was changing may be in an inconsistent state: they can be destroyed but not used further.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace rewright {

class InternalFault : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

namespace internal {

struct CheckFailure {
  const char* file;
  int line;
  const char* condition;

  // Throws the failure. The operator binds weaker than << and gives both branches of CHECK's conditional the type void.
  [[noreturn]] void operator&(const std::ostringstream& message) const;
};

}  // namespace internal
}  // namespace rewright

#define CHECK(condition) \
  (condition) ? (void)0 : ::rewright::internal::CheckFailure{__FILE__, __LINE__, #condition} & std::ostringstream()
