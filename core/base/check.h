// CHECK(condition) << "what we believed": for our own bugs only. Errors of input, files, flags and devices are
// absl::Status. The condition must have no side effects.
//
// A failure is thrown, as InternalFault: whoever answers for a whole task (a verb of the program, a call of the
// library, a thread) ends it as an error, by Guarded (core/base/status_macros.h). Between the two nothing catches it.
// What the task was changing may be half done, and can be destroyed but not used further.
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

  // Throws. An operator that binds weaker than << and gives both branches of CHECK's conditional the type void.
  [[noreturn]] void operator&(const std::ostringstream& message) const;
};

}  // namespace internal
}  // namespace rewright

#define CHECK(condition) \
  (condition) ? (void)0 : ::rewright::internal::CheckFailure{__FILE__, __LINE__, #condition} & std::ostringstream()
