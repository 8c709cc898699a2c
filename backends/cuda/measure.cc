#include "backends/cuda/measure.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "backends/common/group.h"
#include "backends/common/noise_probe.h"
#include "backends/cuda/codegen/half.h"
#include "core/base/status_macros.h"
#include "core/tensor/memory.h"
#include "runtime/memory_plan.h"

namespace rewright::cuda {
namespace {

constexpr int kRuns = 32;  // in one recording, at least one for each set of operands
constexpr int kSamples = 9;
constexpr int64_t kMaxSets = 2048;
constexpr int64_t kMaxBytes = int64_t{2} << 30;
constexpr size_t kAlignment = 256;
constexpr int64_t kMaxTrialSets = 16;  // as often as a way is recorded (Gpu::Fastest)

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

// Whatever type its buffers have: two bytes that are a number between 1/4 and 2 in bfloat16 and in IEEE half precision,
// and so are, as its upper half, four in single precision. As indices they are taken mod n.
std::vector<char> OrdinaryNumbers(int64_t bytes) {
  std::vector<char> numbers(static_cast<size_t>(bytes));
  uint32_t state = 1;
  for (size_t i = 0; i + 2 <= numbers.size(); i += 2) {
    state = state * 1664525u + 1013904223u;
    const uint16_t bits = static_cast<uint16_t>((state >> 31) << 15 | (0x3e80 + (state >> 16) % 0x180));
    std::memcpy(&numbers[i], &bits, 2);
  }
  return numbers;
}

// The number of sets of `bytes` that exceed the cache twice; at most `most`, and at most 2 GiB of them, but one.
int64_t NumSets(const GpuDescription& gpu, int64_t bytes, int64_t most) {
  bytes = std::max<int64_t>(bytes, 1);
  const int64_t wanted = std::clamp<int64_t>(2 * gpu.l2_bytes / bytes + 1, 1, most);
  return std::clamp<int64_t>(kMaxBytes / bytes, 1, wanted);
}

// Makes `sets` instances of a schedule, in one piece of memory. `contents` are the contents of the plan's memory in
// each of them, except for copies of constants, which hold the constants.
absl::StatusOr<std::vector<std::unique_ptr<Instance>>> MakeSets(const Schedule& schedule, const MemoryPlan& plan,
                                                                GpuMemory& memory, int64_t sets,
                                                                std::vector<char> contents) {
  const size_t stride = static_cast<size_t>(plan.bytes) / kAlignment * kAlignment + kAlignment;
  ASSIGN_OR_RETURN(const std::shared_ptr<void> all, memory.Allocate(static_cast<size_t>(sets) * stride));
  for (size_t id = 0; id < schedule.buffers.size(); ++id) {
    const Buffer& buffer = schedule.buffers[id];
    if (buffer.kind != Buffer::Kind::kConstant || buffer.data == nullptr || plan.offsets[id] < 0) continue;
    RETURN_IF_ERROR(memory.CopyOut(contents.data() + plan.offsets[id], buffer.data.get(), buffer.bytes));
  }
  std::vector<std::unique_ptr<Instance>> instances;
  for (int64_t i = 0; i < sets; ++i) {
    std::shared_ptr<void> block(all, static_cast<char*>(all.get()) + static_cast<size_t>(i) * stride);
    RETURN_IF_ERROR(memory.CopyIn(block.get(), contents.data(), contents.size()));
    ASSIGN_OR_RETURN(std::unique_ptr<Instance> instance,
                     Instance::Create(schedule, plan, memory, std::move(block), /*reset=*/false));
    instances.push_back(std::move(instance));
  }
  return instances;
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

absl::StatusOr<int> FastestOnTrial(const Schedule& schedule, const std::vector<int>& buffers, GpuMemory& memory,
                                   const std::string& key, const std::function<absl::Status()>& prepare,
                                   const std::vector<TrialWay>& ways) {
  MemoryPlan plan;
  std::vector<std::unique_ptr<Instance>> sets;
  absl::Status made;
  const auto make = [&]() -> absl::Status {
    RETURN_IF_ERROR(prepare());
    ASSIGN_OR_RETURN(plan,
                     PlanMemory(schedule, {.separate = true, .externals = true, .constants = true, .only = &buffers}));
    const int64_t wanted = NumSets(memory.gpu(), plan.bytes, kMaxTrialSets);
    auto several = MakeSets(schedule, plan, memory, wanted, OrdinaryNumbers(plan.bytes));
    if (absl::IsResourceExhausted(several.status()) && wanted > 1) {
      several = MakeSets(schedule, plan, memory, 1, OrdinaryNumbers(plan.bytes));
    }
    ASSIGN_OR_RETURN(sets, std::move(several));
    return absl::OkStatus();
  };
  std::vector<std::function<absl::Status()>> runs;
  for (const TrialWay& way : ways) {
    runs.push_back([&, turn = size_t{0}]() mutable -> absl::Status {
      if (sets.empty() && made.ok()) made = make();
      RETURN_IF_ERROR(made);
      return way(*sets[turn++ % sets.size()]);
    });
  }
  const absl::StatusOr<int> fastest = memory.Fastest(key, runs);
  if (absl::IsResourceExhausted(made)) return 0;
  RETURN_IF_ERROR(made);
  return fastest;
}

}  // namespace rewright::cuda
