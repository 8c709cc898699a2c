// rewright verify --gradients: the claims about derived gradients (verifier/claims/gradient_claims.h), proved and
// listed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/program/verb.h"

namespace rewright {

struct GradientFlags {
  std::vector<std::string> operators;  // none: all
  double time_limit = 60;              // seconds of work for one claim
  int64_t structures = 2;              // of each operator
  std::string certificates;            // a folder for certificates; empty: none
};

// kYes: every claim is proved. Error: there is no such operator, or one cannot be derived.
absl::StatusOr<Answer> VerifyGradients(const GradientFlags& flags, Session& session);

}  // namespace rewright
