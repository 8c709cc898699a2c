#include "tools/verbs/equal/plan_file.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"
#include "core/onnx/collective.h"
#include "tools/program/models.h"

namespace rewright {
namespace {

constexpr int64_t kMostRanks = 256;

class PlanReader {
 public:
  PlanReader(std::string path, Console& console) : path_(std::move(path)), console_(console) {}

  absl::StatusOr<RankPlan> Read() {
    ASSIGN_OR_RETURN(const std::string text, ReadText(path_));
    const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object()) {
      return Error("", "text that is no JSON object", "an object with mesh, ranks, inputs, outputs");
    }
    RETURN_IF_ERROR(ReadMesh(json.value("mesh", Json())));
    for (const char* key : {"inputs", "outputs"}) {
      const Json placements = json.value(key, Json());
      if (!placements.is_object()) return Error(key, placements.dump(), "placements by name");
      for (const auto& [name, value] : placements.items()) {
        ASSIGN_OR_RETURN(MeshPlacement placement, ReadPlacement(absl::StrCat(key, ".", name), value));
        if (std::string(key) == "inputs") {
          plan_.inputs[name] = std::move(placement);
        } else {
          plan_.outputs.emplace_back(name, std::move(placement));
        }
      }
    }
    RETURN_IF_ERROR(ReadRanks(json.value("ranks", Json())));
    return std::move(plan_);
  }

 private:
  absl::Status Error(const std::string& key, const std::string& found, const std::string& expected) const {
    return absl::InvalidArgumentError(
        absl::StrCat(path_, key.empty() ? "" : ": " + key, ": found ", found, ", expected ", expected));
  }

  absl::Status ReadMesh(const Json& mesh) {
    if (!mesh.is_array() || mesh.empty()) return Error("mesh", mesh.dump(), "a list of axes");
    int64_t ranks = 1;
    for (const Json& axis : mesh) {
      const bool good = axis.is_object() && axis.contains("axis") && axis["axis"].is_string() &&
                        axis.contains("size") && axis["size"].is_number_integer();
      if (!good) return Error("mesh", axis.dump(), "{\"axis\": name, \"size\": number}");
      const int64_t size = axis["size"].get<int64_t>();
      if (size < 1 || size > kMostRanks || ranks * size > kMostRanks) {
        return Error("mesh", axis.dump(), absl::StrCat("1 to ", kMostRanks, " ranks in all"));
      }
      ranks *= size;
      plan_.mesh.push_back({axis["axis"].get<std::string>(), size});
    }
    return absl::OkStatus();
  }

  absl::StatusOr<MeshPlacement> ReadPlacement(const std::string& key, const Json& json) const {
    MeshPlacement placement(plan_.mesh.size(), kWhole);
    if (!json.is_object()) return Error(key, json.dump(), "an object: axes of the mesh with their places");
    for (const auto& [name, value] : json.items()) {
      size_t axis = 0;
      while (axis < plan_.mesh.size() && plan_.mesh[axis].name != name) ++axis;
      if (axis == plan_.mesh.size()) return Error(key, name, "an axis of the mesh");
      if (value == "sum" || value == "mean") {
        placement[axis] = value == "sum" ? kSummand : kMean;
      } else if (value.is_number_integer() && value.get<int64_t>() >= 0 && value.get<int64_t>() < 64) {
        placement[axis] = static_cast<int>(value.get<int64_t>());
      } else {
        return Error(key, value.dump(), "the number of an axis, from 0 on, \"sum\" or \"mean\"");
      }
    }
    return placement;
  }

  absl::Status ReadRanks(const Json& ranks) {
    if (!ranks.is_array()) return Error("ranks", ranks.dump(), "a list of files");
    for (const Json& file : ranks) {
      if (!file.is_string()) return Error("ranks", file.dump(), "a path");
      const absl::StatusOr<std::string> inside = PathInside(FolderOf(path_), file.get<std::string>());
      if (!inside.ok()) return ErrorAt(absl::StrCat(path_, ": ranks"), inside.status());
      const std::string& path = *inside;
      ASSIGN_OR_RETURN(const ImportedModel model, LoadModel(path, {.keep_unknown = true}, console_));
      RankModel rank{.graph = model.graph};
      for (const OpaqueNode& node : model.opaque) {
        ASSIGN_OR_RETURN(rank.collectives[node.number], ReadRankCollective(path, node));
      }
      plan_.ranks.push_back(std::move(rank));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<RankCollective> ReadRankCollective(const std::string& path, const OpaqueNode& node) const {
    static const std::map<std::string, CollectiveKind> kKinds = {{"AllReduce", CollectiveKind::kAllReduce},
                                                                 {"AllGather", CollectiveKind::kAllGather},
                                                                 {"ReduceScatter", CollectiveKind::kReduceScatter},
                                                                 {"AllToAll", CollectiveKind::kAllToAll}};
    ASSIGN_OR_RETURN(const CollectiveNode read, ReadCollective(node));
    const auto kind = kKinds.find(read.kind);
    if (kind == kKinds.end()) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": ", node.node, ": found ", read.kind,
                                                     ", expected AllReduce, AllGather, ReduceScatter or AllToAll"));
    }
    return RankCollective{
        .kind = kind->second, .reduction = read.reduction, .axis = static_cast<int>(read.axis), .group = read.group};
  }

  const std::string path_;
  Console& console_;
  RankPlan plan_;
};

}  // namespace

absl::StatusOr<RankPlan> LoadRankPlan(const std::string& path, Console& console) {
  return PlanReader(path, console).Read();
}

}  // namespace rewright
