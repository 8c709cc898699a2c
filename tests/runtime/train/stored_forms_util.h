// Steps that keep weights joined as a test says, by definition and without a search.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/status_macros.h"
#include "runtime/train/stored_forms.h"

namespace rewright {

// As TrainerOptions::rewrite_whole.
inline auto InForms(std::vector<StoredForm> forms) {
  return [forms = std::move(forms)](const Graph& step,
                                    const std::vector<std::string>& trained) -> absl::StatusOr<StoredStep> {
    ASSIGN_OR_RETURN(Graph graph, InStoredForms(step, forms, trained));
    return StoredStep{std::move(graph), forms};
  };
}

}  // namespace rewright
