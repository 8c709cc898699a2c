// Steps that keep weights joined as a test requires, without a search.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "core/base/status_macros.h"
#include "runtime/training/trainer.h"

namespace rewright {

// As TrainerOptions::rewrite_whole.
inline auto InForms(std::vector<StoredForm> forms) {
  return [forms = std::move(forms)](const WholeStep& step) -> absl::StatusOr<StoredStep> {
    ASSIGN_OR_RETURN(Graph graph, InStoredForms(step.step, forms, step.trained));
    return StoredStep{std::move(graph), forms};
  };
}

}  // namespace rewright
