// Errors whose texts are put together from parts.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace rewright {

template <typename... Parts>
absl::Status InvalidArgument(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

template <typename... Parts>
absl::Status Unimplemented(const Parts&... parts) {
  return absl::UnimplementedError(absl::StrCat(parts...));
}

}  // namespace rewright
