#include "backends/roofline.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "backends/cpu/fusion.h"
#include "backends/meaning.h"

namespace rewright {
namespace {

using cpu::FusedGroup;

double Bytes(const TensorType& type) {
  return static_cast<double>(type.num_elements()) * static_cast<double>(DTypeSize(type.dtype));
}

class RooflineDevice : public Device {
 public:
  explicit RooflineDevice(const RooflineSpec& spec) : spec_(spec) {}

  std::string name() const override { return absl::StrCat("analytic:", spec_.name); }

  std::vector<Group> Partition(const Graph& graph) const override {
    std::vector<Group> groups;
    for (FusedGroup& group : cpu::FuseGraph(graph)) {
      groups.push_back(std::move(group.group));
    }
    return groups;
  }

  absl::StatusOr<double> Cost(const Graph& graph, const Group& group) override {
    if (group.nodes.size() == 1 && OnlyMoves(graph, graph.node(group.nodes[0]))) return 0.0;
    const double waves = Waves(graph, group);
    double flops = 0;
    for (NodeId id : group.nodes) {
      const Node& node = graph.node(id);
      flops += FeaturesOf(*node.meaning, graph.types(node.operands), node.attrs, node.outputs).flops;
    }
    const double arithmetic = flops * waves / spec_.flops_per_second;
    return spec_.launch_seconds + std::max(arithmetic, MemorySeconds(graph, group));
  }

  bool runs() const override { return false; }
  absl::StatusOr<Schedule> Compile(const Graph&) override {
    return absl::UnimplementedError(absl::StrCat(name(), ": an analytic device gives costs and runs nothing"));
  }

 private:
  // Time of the waves that the tiles take over the time at full use of all processors.
  double Waves(const Graph& graph, const Group& group) const {
    double elements = 0;
    for (Value output : group.outputs) elements += static_cast<double>(graph.type(output).num_elements());
    const double tiles = std::max(1.0, elements / static_cast<double>(spec_.tile_elements));
    const double processors = static_cast<double>(spec_.processors);
    return std::ceil(std::ceil(tiles) / processors) * processors / tiles;
  }

  double MemorySeconds(const Graph& graph, const Group& group) const {
    double activations = 0, weights = 0;
    for (Value input : group.inputs) {
      (graph.IsKnown(input) ? weights : activations) += Bytes(graph.type(input));
    }
    for (Value output : group.outputs) activations += Bytes(graph.type(output));
    const bool cached = activations + weights <= spec_.cache_bytes;
    return weights / spec_.bytes_per_second +
           activations / (cached ? spec_.cache_bytes_per_second : spec_.bytes_per_second);
  }

  const RooflineSpec spec_;
};

}  // namespace

absl::StatusOr<RooflineSpec> ReadRooflineSpec(const std::string& path) {
  std::ifstream file(path);
  if (!file) return absl::NotFoundError(absl::StrCat(path, ": cannot be read"));
  const nlohmann::json json = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": expected a JSON object that describes a device"));
  }
  RooflineSpec spec;
  absl::Status status;
  const auto fail = [&](const std::string& member, const char* expected) {
    const std::string found = json.contains(member) ? json.at(member).dump() : "nothing";
    status.Update(
        absl::InvalidArgumentError(absl::StrCat(path, ": \"", member, "\": found ", found, ", expected ", expected)));
  };
  const auto text = [&](const char* member) {
    if (json.contains(member) && json.at(member).is_string()) return json.at(member).get<std::string>();
    fail(member, "a text");
    return std::string();
  };
  const auto number = [&](const char* member) {
    const double value = json.contains(member) && json.at(member).is_number() ? json.at(member).get<double>() : 0;
    if (!(value > 0 && value <= 1e18)) fail(member, "a number above 0 and at most 1e18");
    return value;
  };
  spec.name = text("name");
  spec.source = text("source");
  spec.flops_per_second = number("flops_per_second");
  spec.bytes_per_second = number("bytes_per_second");
  spec.launch_seconds = number("launch_seconds");
  spec.processors = static_cast<int64_t>(std::max(1.0, number("processors")));
  spec.tile_elements = static_cast<int64_t>(std::max(1.0, number("tile_elements")));
  spec.cache_bytes = number("cache_bytes");
  spec.cache_bytes_per_second = number("cache_bytes_per_second");
  if (!status.ok()) return status;
  return spec;
}

std::unique_ptr<Device> MakeRooflineDevice(const RooflineSpec& spec) { return std::make_unique<RooflineDevice>(spec); }

}  // namespace rewright
