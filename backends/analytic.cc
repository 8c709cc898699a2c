#include "backends/analytic.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "backends/group.h"
#include "backends/meaning.h"
#include "core/ops/ops.h"

namespace rewright {
namespace {

constexpr double kLaunchSeconds = 5e-6;
constexpr double kFlopsPerSecond = 9e12;
constexpr double kBytesPerSecond = 0.7e12;
constexpr double kElementBytes = 4;

class AnalyticDevice : public Device {
 public:
  explicit AnalyticDevice(bool strict) : strict_(strict) {}

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

  bool runs() const override { return false; }
  absl::StatusOr<Schedule> Compile(const Graph&) override {
    return absl::UnimplementedError(absl::StrCat(name(), ": an analytic device gives costs and runs nothing"));
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

}  // namespace

absl::StatusOr<std::unique_ptr<Device>> MakeAnalyticDevice(const std::string& name) {
  if (name != "v100" && name != "v100-strict") {
    return absl::InvalidArgumentError(absl::StrCat("analytic device ", name, ": expected v100 or v100-strict"));
  }
  return std::unique_ptr<Device>(std::make_unique<AnalyticDevice>(name == "v100-strict"));
}

}  // namespace rewright
