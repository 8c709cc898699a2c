#include "runtime/distributed/cluster.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/data_file.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"
#include "nlohmann/json.hpp"

namespace rewright::distributed {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kShipped[] =
    "a100-infiniband, ethernet, gb200-nvl72, h100-500w, h100-infiniband, h100-roce, h200-infiniband, many-core";

absl::Status Expected(const std::string& field, const Json& found, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat("cluster: ", field, ": found ", found.dump(), ", expected ", what));
}

absl::StatusOr<std::string> Text(const Json& from, const std::string& where, const char* key) {
  if (!from.contains(key)) return absl::InvalidArgumentError(absl::StrCat("cluster: ", where, key, ": is missing"));
  if (!from[key].is_string()) return Expected(absl::StrCat(where, key), from[key], "a text");
  return from[key].get<std::string>();
}

absl::StatusOr<double> Number(const Json& from, const std::string& where, const char* key, double least, double most) {
  if (!from.contains(key)) return absl::InvalidArgumentError(absl::StrCat("cluster: ", where, key, ": is missing"));
  const Json& found = from[key];
  if (!found.is_number() || !(found.get<double>() >= least && found.get<double>() <= most)) {
    return Expected(absl::StrCat(where, key), found, absl::StrCat("a number from ", least, " to ", most));
  }
  return found.get<double>();
}

absl::Status KnownKeys(const Json& from, const std::string& where, const std::vector<std::string>& known) {
  for (const auto& [key, value] : from.items()) {
    bool found = false;
    for (const std::string& name : known) found = found || name == key;
    if (!found) return absl::InvalidArgumentError(absl::StrCat("cluster: ", where, key, ": is no field"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::map<std::string, std::vector<MeasuredRate>>> ParseRates(const Json& from,
                                                                            const std::string& where) {
  if (!from.is_object()) return Expected(where, from, "an object");
  RETURN_IF_ERROR(KnownKeys(from, where, {"", "send", "all_gather", "reduce_scatter", "all_reduce", "all_to_all"}));
  std::map<std::string, std::vector<MeasuredRate>> rates;
  for (const auto& [key, list] : from.items()) {
    const auto is_point = [](const Json& it) {
      return it.is_array() && it.size() == 2 && it[0].is_number() && it[1].is_number() && it[0].get<double>() > 0 &&
             it[1].get<double>() > 0;
    };
    const bool good = list.is_array() && !list.empty() && std::all_of(list.begin(), list.end(), is_point);
    for (size_t k = 0; good && k < list.size(); ++k) {
      rates[key].push_back({list[k][0].get<double>(), list[k][1].get<double>()});
    }
    if (!good || !std::is_sorted(rates[key].begin(), rates[key].end(),
                                 [](const MeasuredRate& a, const MeasuredRate& b) { return a.bytes <= b.bytes; })) {
      return Expected(absl::StrCat(where, key), list, "[bytes, bytes per second] with growing bytes");
    }
  }
  return rates;
}

absl::StatusOr<LinkLevel> ParseLevel(const Json& from, const std::string& where, int inner) {
  if (!from.is_object()) return Expected(where, from, "an object");
  RETURN_IF_ERROR(KnownKeys(from, where, {"name", "devices", "bytes_per_second", "seconds", "port_devices", "rates"}));
  LinkLevel level;
  ASSIGN_OR_RETURN(level.name, Text(from, where, "name"));
  ASSIGN_OR_RETURN(const double devices, Number(from, where, "devices", 1, 1 << 16));
  level.devices = static_cast<int>(devices);
  if (level.devices != devices || level.devices % inner != 0) {
    return Expected(absl::StrCat(where, "devices"), from["devices"],
                    absl::StrCat("a multiple of ", inner, ", the devices of the level before"));
  }
  ASSIGN_OR_RETURN(level.bytes_per_second, Number(from, where, "bytes_per_second", 1, 1e15));
  ASSIGN_OR_RETURN(level.seconds, Number(from, where, "seconds", 0, 1));
  if (from.contains("port_devices")) {
    ASSIGN_OR_RETURN(const double port_devices, Number(from, where, "port_devices", 1, level.devices));
    level.port_devices = static_cast<int>(port_devices);
    if (level.port_devices != port_devices || level.devices % level.port_devices != 0) {
      return Expected(absl::StrCat(where, "port_devices"), from["port_devices"],
                      absl::StrCat("a divisor of the devices, ", level.devices));
    }
  }
  if (from.contains("rates")) {
    ASSIGN_OR_RETURN(level.rates, ParseRates(from["rates"], absl::StrCat(where, "rates.")));
  }
  return level;
}

// Numbers by name.
absl::StatusOr<std::map<std::string, double>> Numbers(const Json& from, const std::string& where, double most) {
  if (!from.is_object() || from.empty()) return Expected(where, from, "an object of numbers");
  std::map<std::string, double> numbers;
  for (const auto& [key, value] : from.items()) {
    ASSIGN_OR_RETURN(numbers[key], Number(from, where, key.c_str(), most * 1e-9, most));
  }
  return numbers;
}

absl::StatusOr<ClusterDevice> ParseDevice(const Json& from) {
  const std::string where = "device.";
  if (!from.is_object()) return Expected("device", from, "an object");
  RETURN_IF_ERROR(KnownKeys(from, where,
                            {"name", "flops_per_second", "bytes_per_second", "launch_seconds", "efficiency",
                             "one_engine", "host_bytes_per_second"}));
  ClusterDevice device;
  ASSIGN_OR_RETURN(device.name, Text(from, where, "name"));
  ASSIGN_OR_RETURN(device.bytes_per_second, Number(from, where, "bytes_per_second", 1, 1e16));
  ASSIGN_OR_RETURN(device.launch_seconds, Number(from, where, "launch_seconds", 0, 1));
  ASSIGN_OR_RETURN(device.flops_per_second,
                   Numbers(from.value("flops_per_second", Json()), "device.flops_per_second.", 1e17));
  ASSIGN_OR_RETURN(device.efficiency, Numbers(from.value("efficiency", Json()), "device.efficiency.", 1));
  if (from.contains("host_bytes_per_second")) {
    ASSIGN_OR_RETURN(device.host_bytes_per_second, Number(from, where, "host_bytes_per_second", 0, 1e15));
  }
  if (from.contains("one_engine")) {
    if (!from["one_engine"].is_boolean()) return Expected(where + "one_engine", from["one_engine"], "true or false");
    device.one_engine = from["one_engine"];
    if (device.one_engine && !device.efficiency.contains("memory")) {
      return Expected(where + "efficiency", from["efficiency"], "memory, of a device with one engine");
    }
  }
  return device;
}

}  // namespace

double LinkLevel::RateOf(const std::string& kind, double bytes) const {
  auto found = rates.find(kind);
  if (found == rates.end()) found = rates.find("");
  if (found == rates.end()) return std::numeric_limits<double>::infinity();
  const std::vector<MeasuredRate>& points = found->second;
  const auto above =
      std::find_if(points.begin(), points.end(), [&](const MeasuredRate& it) { return it.bytes > bytes; });
  if (above == points.begin()) return above->bytes_per_second * std::max(bytes, 1.0) / above->bytes;  // one time
  if (above == points.end()) return points.back().bytes_per_second;
  const MeasuredRate& below = *(above - 1);
  const double part = std::log(bytes / below.bytes) / std::log(above->bytes / below.bytes);
  return below.bytes_per_second * std::pow(above->bytes_per_second / below.bytes_per_second, part);
}

int Cluster::LevelOf(int from, int to) const {
  for (size_t k = 0; k < levels.size(); ++k) {
    if (from / levels[k].devices == to / levels[k].devices) return static_cast<int>(k);
  }
  return static_cast<int>(levels.size()) - 1;
}

absl::StatusOr<Cluster> ParseCluster(const std::string& json) {
  const Json from = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!from.is_object()) return absl::InvalidArgumentError("cluster: expected a JSON object");
  RETURN_IF_ERROR(KnownKeys(from, "", {"name", "memory_bytes", "levels", "sources", "device"}));
  Cluster cluster;
  ASSIGN_OR_RETURN(cluster.name, Text(from, "", "name"));
  ASSIGN_OR_RETURN(const double memory, Number(from, "", "memory_bytes", 1, 1e15));
  cluster.memory_bytes = static_cast<int64_t>(memory);
  if (!from.contains("levels") || !from["levels"].is_array() || from["levels"].empty()) {
    return absl::InvalidArgumentError("cluster: levels: expected a list of at least one level");
  }
  int inner = 1;
  for (size_t k = 0; k < from["levels"].size(); ++k) {
    ASSIGN_OR_RETURN(LinkLevel level, ParseLevel(from["levels"][k], absl::StrCat("levels[", k, "]."), inner));
    inner = level.devices;
    cluster.levels.push_back(std::move(level));
  }
  if (from.contains("device")) {
    ASSIGN_OR_RETURN(cluster.device, ParseDevice(from["device"]));
  }
  if (from.contains("sources")) {
    for (const Json& source : from["sources"]) {
      if (!source.is_string()) return Expected("sources", source, "texts");
      cluster.sources.push_back(source.get<std::string>());
    }
  }
  return cluster;
}

std::string PrintCluster(const Cluster& cluster) {
  Json json = {{"name", cluster.name}, {"memory_bytes", cluster.memory_bytes}, {"sources", cluster.sources}};
  if (cluster.device) {
    const ClusterDevice& device = *cluster.device;
    json["device"] = {{"name", device.name},
                      {"flops_per_second", device.flops_per_second},
                      {"bytes_per_second", device.bytes_per_second},
                      {"launch_seconds", device.launch_seconds},
                      {"efficiency", device.efficiency},
                      {"one_engine", device.one_engine},
                      {"host_bytes_per_second", device.host_bytes_per_second}};
  }
  for (const LinkLevel& level : cluster.levels) {
    Json link = {{"name", level.name},
                 {"devices", level.devices},
                 {"bytes_per_second", level.bytes_per_second},
                 {"seconds", level.seconds},
                 {"port_devices", level.port_devices}};
    for (const auto& [kind, points] : level.rates) {
      for (const MeasuredRate& point : points) link["rates"][kind].push_back({point.bytes, point.bytes_per_second});
    }
    json["levels"].push_back(std::move(link));
  }
  return json.dump(1) + "\n";
}

absl::StatusOr<Cluster> ReadCluster(const std::string& name) {
  std::string path = name;
  if (!absl::EndsWith(name, ".json")) {
    const absl::StatusOr<std::string> shipped =
        FindDataFile(absl::StrCat("clusters/", name, ".json"), REWRIGHT_DISTRIBUTED_DIR);
    if (!shipped.ok() || absl::StrContains(name, '/')) {
      return absl::InvalidArgumentError(
          absl::StrCat("--cluster: found ", name,
                       ", expected a FILE.json or the name of a cluster that comes with the "
                       "program: ",
                       kShipped));
    }
    path = *shipped;
  }
  ASSIGN_OR_RETURN(const std::string text, ReadText(path));
  auto cluster = ParseCluster(text);
  if (!cluster.ok()) return ErrorAt(path, cluster.status());
  return cluster;
}

}  // namespace rewright::distributed
