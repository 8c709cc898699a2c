// Early return of errors.
#pragma once

#include "absl/status/status.h"

#define REWRIGHT_RETURN_IF_ERROR(expr) \
  if (absl::Status status_ = (expr); !status_.ok()) return status_
