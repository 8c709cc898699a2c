// Exceptions end here: libraries and containers throw, this program returns errors.
#pragma once

#include <exception>
#include <new>

#include "absl/status/status.h"

namespace rewright {

// What `f` returns, a Status or StatusOr; what it throws as such: ResourceExhausted for want of memory, else Internal.
template <typename F>
auto Guarded(const F& f) -> decltype(f()) {
  try {
    return f();
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("out of memory");
  } catch (const std::exception& error) {
    return absl::InternalError(error.what());
  }
}

}  // namespace rewright
