// Spaces of the generator from a collection of models.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "substitutions/generate/enumerate/space.h"
#include "tools/program/verb.h"
#include "tools/verbs/generate/generate_flags.h"

namespace rewright {

// The spaces of the frequent subgraphs of --from's models, as the baseline's rewrites leave these. Reports what was
// found. Errors: those of reading a model; nothing that occurs often enough.
absl::StatusOr<std::vector<generate::Space>> SpacesOfModels(const GenerateFlags& flags, Session& session);

}  // namespace rewright
