#include "backends/cpu/measure.h"

#include <algorithm>
#include <chrono>

#include "absl/strings/str_cat.h"
#include "backends/cpu/lowering.h"
#include "backends/group.h"
#include "core/base/status_macros.h"
#include "core/ir/memory.h"
#include "core/ir/random_inputs.h"
#include "runtime/host_memory.h"
#include "runtime/instance.h"

namespace rewright::cpu {
namespace {

constexpr double kSampleTime = 100e-6;  // seconds of one sample, at least
constexpr size_t kMinSamples = 5;
// Sampling goes on until the three fastest samples agree, within limits.
constexpr size_t kMaxSamples = 60;
constexpr double kAgreement = 1.03;
constexpr double kTimeCap = 0.1;        // seconds of samples
constexpr size_t kMaxColdSamples = 15;  // cooling takes longer than they do
constexpr size_t kBriefSamples = 3;
constexpr double kPatience = 0.25;  // seconds of waiting for a quiet machine

absl::StatusOr<double> Seconds(Instance& instance, int repetitions) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < repetitions; ++i) RETURN_IF_ERROR(instance.Run());
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / repetitions;
}

// Takes the constants out of all caches.
void Cool(const Schedule& schedule) {
  constexpr size_t kLine = 64;
  for (const Buffer& buffer : schedule.buffers) {
    if (buffer.kind != Buffer::Kind::kConstant || buffer.data == nullptr) continue;
    const char* const data = static_cast<const char*>(buffer.data.get());
    for (size_t at = 0; at < buffer.bytes; at += kLine) __builtin_ia32_clflush(data + at);
  }
  __builtin_ia32_mfence();
}

}  // namespace

absl::StatusOr<ProfileEntry> MeasureGroup(const std::shared_ptr<const DnnlContext>& context, const Graph& graph,
                                          const Group& group, CpuLayouts& layouts, DisturbanceProbe& probe,
                                          const MeasureOptions& how) {
  absl::StatusOr<GroupGraph> extracted = ExtractGroup(graph, group);
  if (!extracted.ok()) return extracted.status();
  LoweringOptions options;
  options.keep_output_layouts = true;
  if (!how.law.empty()) options.law_of = [&how](const FusedGroup&) { return how.law; };
  for (const auto& [input, origin] : extracted->origin) options.input_layouts[input] = layouts.Of(graph, origin);
  absl::StatusOr<Schedule> schedule = Lowering(context, extracted->graph, std::move(options)).Run();
  if (!schedule.ok()) return schedule.status();
  if (schedule->steps.empty()) return ProfileEntry{0, 0, 0, 1};
  const std::string what = absl::StrCat("measuring ", GroupText(graph, group));
  ASSIGN_OR_RETURN(const MemoryPlan plan, PlanMemory(*schedule, {.separate = true, .externals = true}));
  RETURN_IF_ERROR(CheckMemory(plan.bytes, what));
  ASSIGN_OR_RETURN(const std::unique_ptr<Instance> instance, Instance::Create(*schedule, plan, HostMemory()));
  for (size_t i = 0; i < schedule->inputs.size(); ++i) {
    const int buffer = schedule->inputs[i];
    if (buffer < 0) continue;
    const TensorType& type = extracted->graph.type(extracted->graph.inputs()[i]);
    const size_t bytes = schedule->buffers[buffer].bytes;
    // Indices lie within their axes: a run ends with an error at others.
    const int64_t indexed = IndexedSize(extracted->graph, extracted->graph.inputs()[i]);
    FillTypical(instance->address(buffer), type.dtype, static_cast<int64_t>(bytes / DTypeSize(type.dtype)),
                indexed > 0 ? std::min<int64_t>(indexed, 64) : 64);
  }
  RETURN_IF_ERROR(instance->Run());
  ASSIGN_OR_RETURN(const double first, Seconds(*instance, 1));
  const int repetitions = how.cold ? 1 : std::clamp(static_cast<int>(kSampleTime / std::max(first, 1e-8)), 1, 1000);
  // Samples count that were taken between two signs of a quiet machine, unless it never is.
  std::vector<double> samples;
  double total = 0;
  auto settled = [&] { return samples[2] <= samples[0] * kAgreement; };
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(kPatience);
  const auto patient = [&] { return std::chrono::steady_clock::now() < deadline; };
  const size_t least = how.brief ? kBriefSamples : kMinSamples;
  const size_t most = how.brief ? kBriefSamples : how.cold ? kMaxColdSamples : kMaxSamples;
  while (samples.size() < least || (!settled() && total < kTimeCap && samples.size() < most)) {
    while (!how.brief && !probe.Quiet() && patient()) {
    }
    if (how.cold) Cool(*schedule);
    ASSIGN_OR_RETURN(const double seconds, Seconds(*instance, repetitions));
    if (!how.brief && !probe.Quiet() && patient()) continue;
    samples.insert(std::upper_bound(samples.begin(), samples.end(), seconds), seconds);
    total += seconds * repetitions;
  }
  const size_t n = samples.size();
  return ProfileEntry{samples[0], samples[n / 2], samples[n * 3 / 4] - samples[n / 4],
                      static_cast<int64_t>(n) * repetitions};
}

}  // namespace rewright::cpu
