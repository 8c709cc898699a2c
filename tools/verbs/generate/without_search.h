// Rule sets that need no search of a space.
#pragma once

#include "absl/status/statusor.h"
#include "tools/program/verb.h"
#include "tools/verbs/generate/generate_flags.h"

namespace rewright {

// --combine: a selection from files.
absl::StatusOr<Answer> Combine(const GenerateFlags& flags, Session& session);
// --preset definitions: what the operators' meanings say.
absl::StatusOr<Answer> Definitions(const GenerateFlags& flags, Session& session);

}  // namespace rewright
