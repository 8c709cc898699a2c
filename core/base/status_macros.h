// Macros and functions for errors as values: early return, a prefix that names the place, messages joined from parts,
// and Guarded, which turns exceptions into errors.
#pragma once

#include <exception>
#include <new>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#define RETURN_IF_ERROR(expression)                             \
  do {                                                          \
    if (absl::Status status__ = (expression); !status__.ok()) { \
      return status__;                                          \
    }                                                           \
  } while (false)

#define ASSIGN_OR_RETURN(variable, expression) \
  ASSIGN_OR_RETURN_IMPL(ASSIGN_OR_RETURN_NAME(result__, __LINE__), variable, expression)
#define ASSIGN_OR_RETURN_NAME(a, b) ASSIGN_OR_RETURN_NAME_IMPL(a, b)
#define ASSIGN_OR_RETURN_NAME_IMPL(a, b) a##b
#define ASSIGN_OR_RETURN_IMPL(result, variable, expression) \
  auto result = (expression);                               \
  if (!result.ok()) return result.status();                 \
  variable = *std::move(result)

namespace rewright {

// Puts a prefix such as "model.onnx: " before the error's message; OK stays OK.
inline absl::Status ErrorAt(absl::string_view place, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(place, ": ", status.message()));
}

template <typename... Parts>
absl::Status InvalidArgument(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

template <typename... Parts>
absl::Status Unimplemented(const Parts&... parts) {
  return absl::UnimplementedError(absl::StrCat(parts...));
}

// Calls `f` and returns its Status or StatusOr. An exception becomes an error: std::bad_alloc ResourceExhausted, any
// other Internal. Libraries and containers throw; this program returns errors.
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
