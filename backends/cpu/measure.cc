#include "backends/cpu/measure.h"

#include <cpuid.h>
#include <omp.h>

#include <algorithm>
#include <atomic>
#include <chrono>

#include "absl/strings/str_cat.h"
#include "backends/common/group.h"
#include "backends/cpu/lower/lowering.h"
#include "backends/cpu/simd/simd.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "core/tensor/memory.h"
#include "runtime/host_memory.h"
#include "runtime/instance.h"

namespace rewright::cpu {
namespace {

constexpr double kSampleTime = 100e-6;  // seconds of one sample, at least
constexpr size_t kMaxColdSamples = 15;  // cooling takes longer than they do
constexpr size_t kBriefSamples = 5;

absl::StatusOr<double> Seconds(Instance& instance, int repetitions) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < repetitions; ++i) RETURN_IF_ERROR(instance.Run());
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / repetitions;
}

constexpr size_t kLine = 64;  // bytes of a line of cache

void FlushInOrder(const char* data, size_t bytes) {
  for (size_t at = 0; at < bytes; at += kLine) __builtin_ia32_clflush(data + at);
}

// Several times as fast: lines do not wait for one another.
__attribute__((target("clflushopt"))) void FlushInAnyOrder(const char* data, size_t bytes) {
  for (size_t at = 0; at < bytes; at += kLine) __builtin_ia32_clflushopt(const_cast<char*>(data) + at);
}

bool FlushesInAnyOrder() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & bit_CLFLUSHOPT) != 0;
}

// Takes the constants out of all caches.
void Cool(const Schedule& schedule) {
  static const auto flush = FlushesInAnyOrder() ? FlushInAnyOrder : FlushInOrder;
  for (const Buffer& buffer : schedule.buffers) {
    if (buffer.kind != Buffer::Kind::kConstant || buffer.data == nullptr) continue;
    flush(static_cast<const char*>(buffer.data.get()), buffer.bytes);
  }
  __builtin_ia32_mfence();
}

}  // namespace

absl::StatusOr<ProfileEntry> MeasureGroup(const std::shared_ptr<const DnnlContext>& context, const Graph& graph,
                                          const Group& group, CpuLayouts& layouts, NoiseProbe& probe,
                                          const MeasureOptions& how) {
  ASSIGN_OR_RETURN(const GroupGraph extracted, ExtractGroup(graph, group));
  LoweringOptions options;
  options.keep_output_layouts = true;
  if (context->allowed_rewrites != nullptr) options.law_of = [&how](const FusedGroup&) { return how.law; };
  for (const auto& [input, origin] : extracted.origin) options.input_layouts[input] = layouts.Of(graph, origin);
  ASSIGN_OR_RETURN(const Schedule schedule, Lowering(context, extracted.graph, std::move(options)).Run());
  if (schedule.steps.empty()) return ProfileEntry{0, 0, 0, 1};
  const std::string what = absl::StrCat("measuring ", GroupText(graph, group));
  ASSIGN_OR_RETURN(const MemoryPlan plan, PlanMemory(schedule, {.separate = true, .externals = true}));
  RETURN_IF_ERROR(CheckMemory(plan.bytes, what));
  ASSIGN_OR_RETURN(const std::unique_ptr<Instance> instance, Instance::Create(schedule, plan, HostMemory()));
  for (size_t i = 0; i < schedule.inputs.size(); ++i) {
    const int buffer = schedule.inputs[i];
    if (buffer < 0) continue;
    const TensorType& type = extracted.graph.type(extracted.graph.inputs()[i]);
    const size_t bytes = schedule.buffers[buffer].bytes;
    FillTypical(instance->address(buffer), type.dtype, static_cast<int64_t>(bytes / DTypeSize(type.dtype)),
                TypicalIntegers(extracted.graph, extracted.graph.inputs()[i]));
  }
  RETURN_IF_ERROR(instance->Run());
  ASSIGN_OR_RETURN(const double first, Seconds(*instance, 1));
  const int repetitions = how.cold ? 1 : std::clamp(static_cast<int>(kSampleTime / std::max(first, 1e-8)), 1, 1000);
  SampleLimits limits{.enough = how.enough};
  if (how.cold) limits.most = kMaxColdSamples;
  if (how.brief) limits = {.least = kBriefSamples, .most = kBriefSamples, .wait_for_quiet = false};
  return TakeSamples(
      [&] {
        if (how.cold) Cool(schedule);
        return Seconds(*instance, repetitions);
      },
      repetitions, limits, probe);
}

double MeasureMultiplyAdds(int threads) {
  constexpr long kCount = 1 << 20;
  constexpr int kTimes = 20;
  const double operations = 2.0 * kCount * Simd().multiply_add_vectors * Simd().lanes * threads;
  double best = 0;
  for (int i = 0; i < kTimes; ++i) {
    float sum = 0;
    const auto start = std::chrono::steady_clock::now();
#pragma omp parallel num_threads(threads) reduction(+ : sum)
    sum += Simd().multiply_adds(0.5f, kCount);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    CHECK(sum > 0);  // so that it is computed
    best = std::max(best, operations / seconds.count());
  }
  return best;
}

double MeasureLoads(int64_t bytes, int threads) {
  constexpr double kBytes = 64e6;  // in one measurement, at least
  constexpr int kTimes = 5;
  const int64_t floats = AlignUp(bytes / threads / static_cast<int64_t>(sizeof(float)), Simd().load_floats);
  const int64_t passes = static_cast<int64_t>(kBytes / static_cast<double>(bytes)) + 1;
  const double all = static_cast<double>(floats * passes * threads) * sizeof(float);
  const auto memory = AllocateBytes(static_cast<size_t>(floats * threads) * sizeof(float));
  if (!memory.ok()) return 0;
  double best = 0;
  std::atomic<bool> made = true;
#pragma omp parallel num_threads(threads)
  {
    float* const numbers = static_cast<float*>(memory->get()) + omp_get_thread_num() * floats;
    std::fill(numbers, numbers + floats, 1.0f);
    for (int i = 0; i < kTimes; ++i) {
      int bits = 0;
#pragma omp barrier
      const auto start = std::chrono::steady_clock::now();
      for (int64_t pass = 0; pass < passes; ++pass) bits |= Simd().loads(numbers, floats);
#pragma omp barrier
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
      if (bits == 0) made = false;
#pragma omp master
      best = std::max(best, all / seconds.count());
    }
  }
  CHECK(made) << "loads that are not made";  // behind the threads, none of which may throw
  return best;
}

}  // namespace rewright::cpu
