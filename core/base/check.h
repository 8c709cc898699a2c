// CHECK(condition) << "what we believed": for our own bugs only. Errors of input, files, flags and devices are
// absl::Status. The condition must have no side effects.
#pragma once

#include <cstdlib>
#include <iostream>
#include <sstream>

namespace rewright::internal {

// Prints the collected message and aborts when it goes out of scope.
class CheckFailure {
 public:
  CheckFailure(const char* file, int line, const char* condition) {
    message_ << file << ":" << line << ": internal error: CHECK(" << condition << ") failed: ";
  }
  [[noreturn]] ~CheckFailure() {
    std::cerr << message_.str() << std::endl;
    std::abort();
  }
  std::ostream& stream() { return message_; }

 private:
  std::ostringstream message_;
};

// Gives both branches of CHECK's conditional the type void; binds weaker than <<.
struct Voidify {
  void operator&(std::ostream&) {}
};

}  // namespace rewright::internal

#define CHECK(condition) \
  (condition)            \
      ? (void)0          \
      : ::rewright::internal::Voidify() & ::rewright::internal::CheckFailure(__FILE__, __LINE__, #condition).stream()
