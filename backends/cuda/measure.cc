#include "backends/cuda/measure.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "backends/cuda/gpu_memory.h"
#include "backends/cuda/half.h"
#include "backends/cuda/trial.h"
#include "backends/group.h"
#include "backends/sampling.h"
#include "core/base/status_macros.h"
#include "core/ir/memory.h"
#include "runtime/instance.h"

namespace rewright::cuda {
namespace {

constexpr int kRuns = 32;  // in one recording, at least one for each set of operands
constexpr int kSamples = 9;
constexpr int64_t kMaxSets = 2048;

// Typical elements as they are stored between kernels.
std::vector<char> TypicalData(DType dtype, Precision precision, size_t bytes) {
  std::vector<char> data(bytes);
  if (dtype != DType::kFloat32 || !IsHalf(precision)) {
    FillTypical(data.data(), dtype, static_cast<int64_t>(bytes / DTypeSize(dtype)));
    return data;
  }
  std::vector<float> values(bytes / 2);
  FillTypical(values.data(), dtype, static_cast<int64_t>(values.size()));
  return Halves(values, precision == Precision::kFp16);
}

}  // namespace

absl::StatusOr<ProfileEntry> MeasureGroup(Gpu& gpu, const Graph& graph, const Group& group, CudaLayouts& layouts,
                                          LoweringOptions options) {
  ASSIGN_OR_RETURN(const GroupGraph extracted, ExtractGroup(graph, group));
  options.inside = true;
  const Precision precision = options.precision;
  for (const auto& [input, origin] : extracted.origin) options.input_layouts[input] = layouts.Of(graph, origin);
  ASSIGN_OR_RETURN(const Schedule schedule, Lowering(gpu, extracted.graph, std::move(options)).Run());
  if (schedule.steps.empty()) return ProfileEntry{0, 0, 0, 1};

  ASSIGN_OR_RETURN(const MemoryPlan plan,
                   PlanMemory(schedule, {.separate = true, .externals = true, .constants = true}));
  const std::string what = absl::StrCat("measuring ", GroupText(graph, group));
  RETURN_IF_ERROR(CheckMemory(plan.bytes, what));  // typical data are made here
  const int64_t sets = NumSets(gpu.description(), plan.bytes, kMaxSets);
  std::vector<char> contents(static_cast<size_t>(plan.bytes));
  for (size_t k = 0; k < schedule.inputs.size(); ++k) {
    const int buffer = schedule.inputs[k];
    if (buffer < 0) continue;
    const DType dtype = extracted.graph.type(extracted.graph.inputs()[k]).dtype;
    const std::vector<char> data = TypicalData(dtype, precision, schedule.buffers[buffer].bytes);
    std::copy(data.begin(), data.end(), contents.begin() + plan.offsets[buffer]);
  }
  GpuMemory memory(gpu);
  ASSIGN_OR_RETURN(const auto instances, MakeSets(schedule, plan, memory, sets, std::move(contents)));
  const int64_t runs = std::max<int64_t>(kRuns, sets);
  // Once as it is: what kernels do at their first run must not be recorded.
  RETURN_IF_ERROR(instances[0]->Run());
  RETURN_IF_ERROR(memory.Synchronize());
  ASSIGN_OR_RETURN(const std::function<absl::Status()> recorded, memory.Record([&]() -> absl::Status {
    for (int64_t i = 0; i < runs; ++i) RETURN_IF_ERROR(instances[i % sets]->Run());
    return absl::OkStatus();
  }));
  std::vector<double> samples;
  for (int i = 0; i <= kSamples; ++i) {
    ASSIGN_OR_RETURN(const double seconds, memory.Time(recorded));
    if (i > 0) samples.push_back(seconds / static_cast<double>(runs));  // the first warms up
  }
  std::sort(samples.begin(), samples.end());
  return EntryOf(samples, runs);
}

}  // namespace rewright::cuda
