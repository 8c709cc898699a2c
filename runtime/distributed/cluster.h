// A picture of the devices that ranks run on, and of the links between them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace rewright::distributed {

// A rate that was measured of transfers of so many bytes.
struct MeasuredRate {
  double bytes = 0, bytes_per_second = 0;
};

// Devices that a kind of link joins: successive ones, `devices` at a time. Successive devices, `port_devices` at a
// time, have a port, which sends and receives at that rate at the same time, to all others together.
struct LinkLevel {
  std::string name;
  int devices = 1;
  double bytes_per_second = 0;
  double seconds = 0;  // until the first byte arrives
  int port_devices = 1;
  // The most that one device reaches, by kind of transfer ("send", "all_gather", "reduce_scatter", "all_reduce",
  // "all_to_all"; "" for those that are not named), in the order of bytes: of the whole tensor, and of what each device
  // sends in the ring.
  std::map<std::string, std::vector<MeasuredRate>> rates;

  // Between two sizes by interpolation in logarithms; infinite where nothing was measured.
  double RateOf(const std::string& kind, double bytes) const;
};

// A device's arithmetic and memory, by a roofline: an operation takes the longer of its arithmetic and its bytes of
// memory.
struct ClusterDevice {
  std::string name;
  std::map<std::string, double> flops_per_second;  // peak, by precision: "f32", "bf16", "fp8"
  double bytes_per_second = 0;                     // of memory, peak
  double launch_seconds = 0;                       // of an operation
  // The share of the peak that is reached: of products by precision, of "attention", "experts" and "memory".
  std::map<std::string, double> efficiency;
  // It computes, adds gradients of micro-batches and moves the bytes of messages one at a time, as a core does. Else
  // sums take no time, and messages go on beside what is computed.
  bool one_engine = false;
  double host_bytes_per_second = 0;  // to the memory of the host and back, where values may wait; 0: there is none
};

struct Cluster {
  std::string name;
  int64_t memory_bytes = 0;       // of a device
  std::vector<LinkLevel> levels;  // the innermost first; each joins a multiple of the devices of the one before
  std::vector<std::string> sources;
  std::optional<ClusterDevice> device;

  int devices() const { return levels.back().devices; }
  // The level of the link between two devices: the first one that joins them.
  int LevelOf(int from, int to) const;
};

// {"name": "node", "memory_bytes": 8e10, "sources": [..],
//  "device": {"name": "h100", "flops_per_second": {"bf16": 9.89e14}, "bytes_per_second": 3.35e12,
//             "launch_seconds": 3e-6, "efficiency": {"bf16": 0.7, "memory": 0.8, ..}, "one_engine": false},
//  "levels": [{"name": "nvlink", "devices": 8, "bytes_per_second": 4.5e11, "seconds": 1e-6, "port_devices": 1,
//              "rates": {"all_gather": [[1e6, 3e10], [1e9, 3.6e11]]}}, ..]}
// `device`, `one_engine`, `host_bytes_per_second`, `port_devices`, `rates` and `sources` may be left out. Errors name
// the field, what was found and what was expected.
absl::StatusOr<Cluster> ParseCluster(const std::string& json);

// A text that ParseCluster reads.
std::string PrintCluster(const Cluster& cluster);

// The cluster of a FILE.json, or one that comes with the program: "h100-infiniband". Errors: there is none.
absl::StatusOr<Cluster> ReadCluster(const std::string& name);

}  // namespace rewright::distributed
