// Values that depend on weights and constants alone are computed when a graph is compiled, by the device's own
// kernels: their graph is lowered and run like any other.
#include <cstring>

#include "absl/strings/str_cat.h"
#include "backends/cpu/lowering.h"

namespace rewright::cpu {

bool Lowering::IsConstant(Value value) const {
  const Node& node = graph_.node(value.node);
  return node.weight_only && (options_.weights == WeightMode::kConstant || node.op == nullptr);
}

const Tensor& Lowering::ConstantTensor(Value value) const {
  const Node& node = graph_.node(value.node);
  return node.op == nullptr ? node.data : folded_.at(value);
}

absl::Status Lowering::FoldConstants() {
  if (options_.weights == WeightMode::kRuntime) return absl::OkStatus();
  // The computed values that something at run time, or the caller, reads.
  std::vector<Output> wanted;
  std::set<Value> seen;
  auto want = [&](Value value) {
    const Node& node = graph_.node(value.node);
    if (node.op != nullptr && node.weight_only && seen.insert(value).second) wanted.push_back({value, ""});
  };
  for (NodeId id : graph_.nodes()) {
    const Node& node = graph_.node(id);
    if (node.op == nullptr || node.weight_only) continue;
    for (Value operand : node.operands) want(operand);
  }
  for (const Output& output : graph_.outputs()) want(output.value);
  if (wanted.empty()) return absl::OkStatus();
  const Graph constants(graph_.arena(), {}, wanted);
  LoweringOptions options;
  options.weights = WeightMode::kRuntime;
  absl::StatusOr<Schedule> schedule = Lowering(context_, constants, options).Run();
  if (!schedule.ok()) return schedule.status();
  auto memory = std::make_shared<ScheduleMemory>(*schedule);
  memory->Run(*schedule);
  for (size_t i = 0; i < wanted.size(); ++i) {
    const TensorType& type = graph_.type(wanted[i].value);
    Tensor tensor(type);
    if (type.num_bytes() > 0) {
      std::memcpy(tensor.data(), memory->address(schedule->outputs[i]), static_cast<size_t>(type.num_bytes()));
    }
    folded_[wanted[i].value] = std::move(tensor);
  }
  return absl::OkStatus();
}

}  // namespace rewright::cpu
