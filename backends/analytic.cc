#include "backends/analytic.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "backends/common/group.h"
#include "backends/common/node_access.h"
#include "backends/cpu/fuse/fusion.h"
#include "core/base/data_file.h"
#include "core/base/status_macros.h"
#include "core/index/cost_features.h"
#include "core/ops/ops.h"

namespace rewright {
namespace {

constexpr double kLaunchSeconds = 5e-6;
constexpr double kFlopsPerSecond = 9e12;
constexpr double kBytesPerSecond = 0.7e12;
constexpr double kElementBytes = 4;

class CostModel : public Device {
 public:
  bool runs() const override { return false; }
  absl::StatusOr<Schedule> Compile(const Graph&) override {
    return absl::UnimplementedError(absl::StrCat(name(), ": an analytic device gives costs and runs nothing"));
  }
};

class V100Device : public CostModel {
 public:
  explicit V100Device(bool strict) : strict_(strict) {}

  std::string name() const override { return strict_ ? "analytic:v100-strict" : "analytic:v100"; }

  std::vector<Group> Partition(const Graph& graph) const override {
    std::vector<bool> taken(graph.nodes().size(), false);
    // By position of the last node of each group, so that operands come before users.
    std::vector<Group> groups(graph.nodes().size());
    for (int i = 0; i < static_cast<int>(graph.nodes().size()); ++i) {
      const NodeId id = graph.nodes()[i];
      const Node& node = graph.node(id);
      if (!graph.IsRun(node) || taken[i]) continue;
      std::vector<int> members = {i};
      if (node.op == ops::Conv2d() && !graph.is_output({id, 0}) && graph.users(i).size() == 1) {
        const int user = graph.users(i)[0];
        const OpDef* const op = graph.node(graph.nodes()[user]).op;
        if (op == ops::Relu() || op == ops::Sigmoid() || op == ops::Tanh()) {
          taken[user] = true;
          members.push_back(user);
        }
      }
      groups[members.back()] = MakeGroup(graph, members);
    }
    std::erase_if(groups, [](const Group& group) { return group.nodes.empty(); });
    return groups;
  }

  absl::StatusOr<double> Cost(const Graph& graph, const Group& group) override {
    if (IsFree(graph, group.nodes[0])) return 0.0;
    const double flops = Flops(graph, graph.node(group.nodes[0]));
    double bytes = 0;
    for (Value input : group.inputs) bytes += Elements(graph.type(input)) * kElementBytes;
    for (Value output : group.outputs) bytes += Elements(graph.type(output)) * kElementBytes;
    const Node& node = graph.node(group.nodes[0]);
    if (node.op == ops::Concat()) bytes = 2 * Elements(node.outputs[0]) * kElementBytes;
    return kLaunchSeconds + std::max(flops / kFlopsPerSecond, bytes / kBytesPerSecond);
  }

 private:
  static double Elements(const TensorType& type) { return static_cast<double>(type.num_elements()); }

  bool IsFree(const Graph& graph, NodeId id) const {
    const Node& node = graph.node(id);
    if (graph.IsKnown(node) || node.op == ops::Reshape()) return true;
    if (node.op == ops::Transpose()) return !strict_;
    if (node.op != ops::Split()) return false;
    if (!strict_) return true;
    const TensorType& type = graph.type(node.operands[0]);
    return std::all_of(type.shape.begin(), type.shape.begin() + Int(node, "axis"),
                       [](int64_t size) { return size == 1; });
  }

  static double Flops(const Graph& graph, const Node& node) {
    const double out = Elements(node.outputs[0]);
    if (node.op == ops::Conv2d()) {
      const Shape& weights = graph.type(node.operands[1]).shape;
      return 2 * out * static_cast<double>(weights[1] * weights[2] * weights[3]);
    }
    if (node.op == ops::Matmul()) return 2 * out * static_cast<double>(graph.type(node.operands[0]).shape.back());
    if (node.op == ops::MaxPool2d() || node.op == ops::AvgPool2d()) {
      const std::vector<int64_t>& kernel = Ints(node, "kernel");
      return out * static_cast<double>(kernel[0] * kernel[1]);
    }
    double all = 0;
    for (const TensorType& type : node.outputs) all += Elements(type);
    return all;
  }

  const bool strict_;
};

double Bytes(const TensorType& type) { return static_cast<double>(type.num_bytes()); }

class RooflineDevice : public CostModel {
 public:
  explicit RooflineDevice(const RooflineSpec& spec) : spec_(spec), rates_(RatesOf(spec)) {}

  std::string name() const override { return absl::StrCat("analytic:", spec_.name); }

  double PeakFlops() const override { return spec_.flops_per_second; }
  double PeakBytesPerSecond(int64_t bytes) const override { return rates_.BytesPerSecond(static_cast<double>(bytes)); }

  std::vector<Group> Partition(const Graph& graph) const override {
    std::vector<Group> groups;
    for (cpu::FusedGroup& group : cpu::FuseGraph(graph)) groups.push_back(std::move(group.group));
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
    const std::vector<double> read = BytesRead(graph, group);
    for (size_t i = 0; i < read.size(); ++i) (graph.IsKnown(group.inputs[i]) ? weights : activations) += read[i];
    for (Value output : group.outputs) activations += Bytes(graph.type(output));
    return weights / rates_.bytes_per_second() + activations / rates_.BytesPerSecond(activations + weights);
  }

  const RooflineSpec spec_;
  const Rates rates_;
};

}  // namespace

Rates RatesOf(const RooflineSpec& spec) {
  const double above = std::nextafter(spec.cache_bytes, std::numeric_limits<double>::infinity());
  return {spec.flops_per_second, {{0, spec.cache_bytes_per_second}, {above, spec.bytes_per_second}}};
}

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

absl::StatusOr<std::unique_ptr<Device>> MakeAnalyticDevice(const std::string& name) {
  const bool strict = name == "v100-strict";
  if (strict || name == "v100") return std::make_unique<V100Device>(strict);
  std::string path = name;
  if (!absl::EndsWith(name, ".json")) {
    absl::StatusOr<std::string> shipped = FindDataFile(absl::StrCat("devices/", name, ".json"), REWRIGHT_BACKENDS_DIR);
    if (!shipped.ok() || absl::StrContains(name, '/')) {
      return absl::InvalidArgumentError(
          absl::StrCat("analytic device ", name,
                       ": expected v100, v100-strict, v100-roofline, k80, h100, h200, zen3 or a FILE.json"));
    }
    path = *std::move(shipped);
  }
  ASSIGN_OR_RETURN(const RooflineSpec spec, ReadRooflineSpec(path));
  return MakeRooflineDevice(spec);
}

}  // namespace rewright
