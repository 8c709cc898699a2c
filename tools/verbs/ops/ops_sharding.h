// rewright ops --sharding: how every axis of every operator may be cut over devices, derived and proved.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/program/verb.h"

namespace rewright {

struct ShardingFlags {
  std::vector<std::string> operators;  // none: all, and their gradients
  std::string output;                  // where the laws are written, as rules with records
  std::string certificates;            // a folder for certificates of the laws; empty: none
  int64_t structures = 2;              // of each operator
  double time_limit = 10;              // seconds of work for one conjecture
};

// kNo: the laws of some axis are neither proved nor refuted. Error: there is no such operator.
absl::StatusOr<Answer> ShardingTable(const ShardingFlags& flags, Session& session);

}  // namespace rewright
