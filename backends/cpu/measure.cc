#include "backends/cpu/measure.h"

#include <algorithm>
#include <chrono>
#include <random>

#include "absl/strings/str_cat.h"
#include "backends/cpu/lowering.h"

namespace rewright::cpu {
namespace {

constexpr double kSampleTime = 100e-6;  // seconds of one sample, at least
constexpr size_t kMinSamples = 5;
// Sampling goes on until the three fastest samples agree, within limits.
constexpr size_t kMaxSamples = 60;
constexpr double kAgreement = 1.03;
constexpr double kTimeCap = 0.1;          // seconds of samples
constexpr double kPatience = 0.25;        // seconds of waiting for a quiet machine

// A weight or constant whose very value shapes the code.
const Tensor* SmallConstant(const Graph& graph, Value value) {
  const Node& node = graph.node(value.node);
  if (node.op != nullptr || !node.weight_only || node.data.data() == nullptr) return nullptr;
  return node.data.num_elements() == 1 ? &node.data : nullptr;
}

void FillTypical(void* data, const TensorType& type, int64_t elements) {
  std::minstd_rand random(1);
  for (int64_t i = 0; i < elements; ++i) {
    switch (type.dtype) {
      case DType::kFloat32: static_cast<float*>(data)[i] = 0.5f + static_cast<float>(random() % 1024) / 1024; break;
      case DType::kFloat64: static_cast<double*>(data)[i] = 0.5 + static_cast<double>(random() % 1024) / 1024; break;
      case DType::kInt64: static_cast<int64_t*>(data)[i] = static_cast<int64_t>(random() % 64); break;
      case DType::kInt32: static_cast<int32_t*>(data)[i] = static_cast<int32_t>(random() % 64); break;
      case DType::kBool: static_cast<uint8_t*>(data)[i] = random() % 2; break;
    }
  }
}

// The group as a graph: its inputs are inputs, or weights where they depend on weights alone.
struct GroupGraph {
  Graph graph;
  LoweringOptions options;
};

absl::StatusOr<GroupGraph> Extract(const Graph& graph, const Group& group, ContextLayouts& layouts) {
  auto arena = std::make_shared<Arena>();
  ValueMap values;
  std::vector<Value> inputs;
  GroupGraph result;
  for (size_t i = 0; i < group.inputs.size(); ++i) {
    const Value from = group.inputs[i];
    const TensorType& type = graph.type(from);
    const std::string name = absl::StrCat("x", i);
    absl::StatusOr<Value> value;
    if (const Tensor* constant = SmallConstant(graph, from); constant != nullptr) {
      value = arena->AddConstant(*constant);
    } else if (graph.node(from.node).weight_only) {
      Tensor data(type);
      FillTypical(data.data(), type, type.num_elements());
      value = arena->AddWeight(name, data);
    } else {
      value = arena->AddInput(name, type);
      if (value.ok()) {
        inputs.push_back(*value);
        result.options.input_layouts[*value] = layouts.Of(graph, from);
      }
    }
    if (!value.ok()) return value.status();
    values[from] = *value;
  }
  for (NodeId id : group.nodes) {
    const Node& node = graph.node(id);
    std::vector<Value> operands;
    for (Value operand : node.operands) operands.push_back(values.at(operand));
    absl::StatusOr<NodeId> added = arena->Add(*node.op, std::move(operands), node.attrs);
    if (!added.ok()) return added.status();
    for (int k = 0; k < static_cast<int>(node.outputs.size()); ++k) values[Value{id, k}] = Value{*added, k};
  }
  std::vector<Output> outputs;
  for (Value output : group.outputs) outputs.push_back({values.at(output), absl::StrCat("y", outputs.size())});
  result.graph = Graph(arena, inputs, outputs);
  result.options.keep_output_layouts = true;
  return result;
}

double Seconds(const ScheduleMemory& memory, const Schedule& schedule, int repetitions) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < repetitions; ++i) memory.Run(schedule);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / repetitions;
}

}  // namespace

std::string GroupSignature(const Graph& graph, const Group& group, ContextLayouts& layouts) {
  std::string text;
  absl::flat_hash_map<Value, std::string> names;
  for (size_t i = 0; i < group.inputs.size(); ++i) {
    const Value input = group.inputs[i];
    names[input] = absl::StrCat("x", i);
    absl::StrAppend(&text, "x", i, ":", graph.type(input).ToString());
    if (const Tensor* constant = SmallConstant(graph, input); constant != nullptr) {
      absl::StrAppend(&text, "=", constant->At(0));
    } else if (graph.node(input.node).weight_only) {
      absl::StrAppend(&text, "w");
    } else {
      absl::StrAppend(&text, layouts.Of(graph, input).ToString());
    }
    text += ";";
  }
  for (size_t i = 0; i < group.nodes.size(); ++i) {
    const Node& node = graph.node(group.nodes[i]);
    absl::StrAppend(&text, node.op->name, "(");
    for (Value operand : node.operands) absl::StrAppend(&text, names.at(operand), ",");
    absl::StrAppend(&text, AttrsString(node.attrs), ");");
    for (int k = 0; k < static_cast<int>(node.outputs.size()); ++k) {
      names[Value{group.nodes[i], k}] = absl::StrCat("t", i, ".", k);
    }
  }
  return text;
}

absl::StatusOr<ProfileEntry> MeasureGroup(const std::shared_ptr<const DnnlContext>& context, const Graph& graph,
                                          const Group& group, ContextLayouts& layouts, DisturbanceProbe& probe) {
  absl::StatusOr<GroupGraph> extracted = Extract(graph, group, layouts);
  if (!extracted.ok()) return extracted.status();
  absl::StatusOr<Schedule> schedule = Lowering(context, extracted->graph, extracted->options).Run();
  if (!schedule.ok()) return schedule.status();
  if (schedule->steps.empty()) return ProfileEntry{0, 0, 0, 1};
  const ScheduleMemory memory(*schedule);
  for (size_t i = 0; i < schedule->inputs.size(); ++i) {
    const int buffer = schedule->inputs[i];
    if (buffer < 0) continue;
    const TensorType& type = extracted->graph.type(extracted->graph.inputs()[i]);
    const size_t bytes = schedule->buffers[static_cast<size_t>(buffer)].bytes;
    FillTypical(memory.address(buffer), type, static_cast<int64_t>(bytes / DTypeSize(type.dtype)));
  }
  memory.Run(*schedule);
  const double first = std::max(Seconds(memory, *schedule, 1), 1e-8);
  const int repetitions = std::clamp(static_cast<int>(kSampleTime / first), 1, 1000);
  // Samples count that were taken between two signs of a quiet machine, unless it never is.
  std::vector<double> samples;
  double total = 0;
  auto settled = [&] { return samples[2] <= samples[0] * kAgreement; };
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(kPatience);
  const auto patient = [&] { return std::chrono::steady_clock::now() < deadline; };
  while (samples.size() < kMinSamples || (!settled() && total < kTimeCap && samples.size() < kMaxSamples)) {
    while (!probe.Quiet() && patient()) {
    }
    const double seconds = Seconds(memory, *schedule, repetitions);
    if (!probe.Quiet() && patient()) continue;
    samples.insert(std::upper_bound(samples.begin(), samples.end(), seconds), seconds);
    total += seconds * repetitions;
  }
  const size_t n = samples.size();
  return ProfileEntry{samples[0], samples[n / 2], samples[n * 3 / 4] - samples[n / 4], static_cast<int64_t>(n) * repetitions};
}

}  // namespace rewright::cpu
