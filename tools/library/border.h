// The border of the library: inside, errors are values; outside, they are exceptions of type Error and nothing else.
#pragma once

#include <new>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "core/base/stop.h"
#include "tools/library/rewright/rewright.h"

namespace rewright {

inline ErrorCode CodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kResourceExhausted: return ErrorCode::kOutOfMemory;
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kUnknown:
    case absl::StatusCode::kAborted: return ErrorCode::kInternal;
    case absl::StatusCode::kCancelled: return ErrorCode::kStopped;
    default: return ErrorCode::kInvalidInput;
  }
}

[[noreturn]] inline void Throw(const absl::Status& status) {
  throw Error(CodeOf(status), std::string(status.message()));
}

inline void Take(const absl::Status& status) {
  if (!status.ok()) Throw(status);
}

template <typename T>
T Take(absl::StatusOr<T> value) {
  if (!value.ok()) Throw(value.status());
  return *std::move(value);
}

inline void ThrowIfStopped(StopFlag stop) {
  if (IsStopped(stop) || StopScope::Stopped()) Throw(absl::CancelledError("stopped by the caller"));
}

// A call of the library: nothing but Error leaves it.
template <typename F>
auto Call(const F& f) -> decltype(f()) {
  try {
    return f();
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw Error(ErrorCode::kOutOfMemory, "out of memory");
  } catch (const std::exception& error) {
    throw Error(ErrorCode::kInternal, error.what());
  }
}

}  // namespace rewright
