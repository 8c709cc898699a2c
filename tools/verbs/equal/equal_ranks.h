// rewright equal MODEL.onnx --ranks PLAN.json: whether the graphs of ranks compute together what the model computes.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "tools/program/verb.h"

namespace rewright {

struct RanksFlags {
  std::string model;
  std::string plan;
  std::string output;  // a folder for the claims; empty: none
  double time_limit = 60;
  double claim_limit = 3;
};

absl::StatusOr<Answer> EqualRanks(const RanksFlags& flags, Session& session);

}  // namespace rewright
