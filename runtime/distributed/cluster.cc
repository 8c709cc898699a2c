#include "runtime/distributed/cluster.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "nlohmann/json.hpp"

namespace rewright::distributed {
namespace {

using Json = nlohmann::ordered_json;

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

absl::StatusOr<LinkLevel> ParseLevel(const Json& from, const std::string& where, int inner) {
  if (!from.is_object()) return Expected(where, from, "an object");
  RETURN_IF_ERROR(KnownKeys(from, where, {"name", "devices", "bytes_per_second", "seconds"}));
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
  return level;
}

}  // namespace

int Cluster::LevelOf(int from, int to) const {
  for (size_t k = 0; k < levels.size(); ++k) {
    if (from / levels[k].devices == to / levels[k].devices) return static_cast<int>(k);
  }
  return static_cast<int>(levels.size()) - 1;
}

absl::StatusOr<Cluster> ParseCluster(const std::string& json) {
  const Json from = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!from.is_object()) return absl::InvalidArgumentError("cluster: expected a JSON object");
  RETURN_IF_ERROR(KnownKeys(from, "", {"name", "memory_bytes", "levels", "sources"}));
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
  if (from.contains("sources")) {
    for (const Json& source : from["sources"]) {
      if (!source.is_string()) return Expected("sources", source, "texts");
      cluster.sources.push_back(source.get<std::string>());
    }
  }
  return cluster;
}

}  // namespace rewright::distributed
