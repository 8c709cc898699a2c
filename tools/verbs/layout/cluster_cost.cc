#include "tools/verbs/layout/cluster_cost.h"

#include <unistd.h>

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_replace.h"
#include "backends/analytic.h"
#include "core/base/status_macros.h"
#include "substitutions/sharding/shard.h"
#include "tools/verbs/train/ranks.h"

namespace rewright {

using distributed::Cluster;
using distributed::ClusterDevice;
using distributed::LinkLevel;

absl::StatusOr<std::unique_ptr<Device>> DeviceOfCluster(const Cluster& cluster) {
  if (!cluster.device) return absl::InvalidArgumentError("cluster: device: is missing, expected a described device");
  const ClusterDevice& device = *cluster.device;
  const auto rate = device.flops_per_second.find("f32");
  const auto reached = device.efficiency.find("f32"), memory = device.efficiency.find("memory");
  if (rate == device.flops_per_second.end() || reached == device.efficiency.end() ||
      memory == device.efficiency.end()) {
    return absl::InvalidArgumentError(
        "cluster: device: expected f32 in flops_per_second, and f32 and memory in efficiency");
  }
  RooflineSpec spec{.name = device.name, .flops_per_second = rate->second * reached->second};
  spec.bytes_per_second = spec.cache_bytes_per_second = device.bytes_per_second * memory->second;
  spec.launch_seconds = device.launch_seconds;
  spec.processors = spec.tile_elements = 1;
  return MakeRooflineDevice(spec);
}

absl::StatusOr<double> SecondsOf(const Graph& graph, Device& device) {
  ASSIGN_OR_RETURN(const std::vector<double> seconds, MeasuredSeconds(graph, device));
  return std::accumulate(seconds.begin(), seconds.end(), 0.0);
}

double ExchangeSeconds(const Graph& cut, const Cluster& cluster, int degree) {
  if (degree < 2) return 0;
  const LinkLevel& link = cluster.levels[cluster.LevelOf(0, std::min(degree, cluster.devices()) - 1)];
  double seconds = 0;
  for (const sharding::Exchange& exchange : sharding::ExchangesOf(cut)) {
    const double rounds = exchange.collective == "all-reduce" ? 2 : 1;
    const std::string kind = absl::StrReplaceAll(exchange.collective, {{"-", "_"}});
    const double rate = std::min(link.bytes_per_second, link.RateOf(kind, exchange.bytes / exchange.count));
    seconds += exchange.bytes / rate + rounds * exchange.count * link.seconds;
  }
  return seconds;
}

absl::StatusOr<Cluster> DefaultCluster(int devices, int threads) {
  constexpr double kCores = 24;  // of a device of the cluster `many-core`
  ASSIGN_OR_RETURN(const Cluster described, distributed::ReadCluster("many-core"));
  Cluster cluster;
  cluster.name = "machine";
  cluster.memory_bytes = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGE_SIZE) / devices;
  LinkLevel link{.name = "machine", .devices = devices, .bytes_per_second = 5e9, .seconds = 1e-5};
  cluster.levels.push_back(std::move(link));
  ClusterDevice device = described.device.value();
  device.name = "cores";
  for (auto& [type, rate] : device.flops_per_second) rate *= threads / kCores;
  device.bytes_per_second *= threads / kCores;
  device.one_engine = true;  // a rank's messages are moved by a thread beside those that compute, on its cores
  cluster.device = std::move(device);
  return cluster;
}

}  // namespace rewright
