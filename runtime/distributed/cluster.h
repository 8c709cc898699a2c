// A picture of the devices that ranks run on, and of the links between them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace rewright::distributed {

// Devices that a kind of link joins: successive ones, `devices` at a time. Each device sends and receives at that rate
// at the same time, to all others together.
struct LinkLevel {
  std::string name;
  int devices = 1;
  double bytes_per_second = 0;
  double seconds = 0;  // until the first byte arrives
};

struct Cluster {
  std::string name;
  int64_t memory_bytes = 0;       // of a device
  std::vector<LinkLevel> levels;  // the innermost first; each joins a multiple of the devices of the one before
  std::vector<std::string> sources;

  int devices() const { return levels.back().devices; }
  // The level of the link between two devices: the first one that joins them.
  int LevelOf(int from, int to) const;
};

// {"name": "node", "memory_bytes": 8e10, "sources": [..],
//  "levels": [{"name": "nvlink", "devices": 8, "bytes_per_second": 4.5e11, "seconds": 1e-6}, ..]}
// Errors name the field, what was found and what was expected.
absl::StatusOr<Cluster> ParseCluster(const std::string& json);

}  // namespace rewright::distributed
