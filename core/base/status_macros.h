// Early return on errors.
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

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
