#include "backends/cuda/measure.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "backends/cuda/gpu_status.h"
#include "backends/cuda/half.h"
#include "backends/group.h"
#include "core/base/status_macros.h"
#include "core/ir/memory.h"

namespace rewright::cuda {
namespace {

constexpr int kRuns = 32;  // in one recording, at least one for each set of operands
constexpr int kSamples = 9;
constexpr int64_t kMaxSets = 2048;
constexpr int64_t kMaxBytes = int64_t{2} << 30;  // of all sets together
constexpr size_t kAlignment = 256;

// Typical elements as they are stored between kernels.
std::vector<char> TypicalData(DType dtype, Precision precision, size_t bytes) {
  std::vector<char> data(bytes);
  if (dtype != DType::kFloat32 || !IsHalf(precision)) {
    FillTypical(data.data(), dtype, static_cast<int64_t>(bytes / DTypeSize(dtype)));
    return data;
  }
  std::vector<float> values(bytes / 2);
  FillTypical(values.data(), dtype, static_cast<int64_t>(values.size()));
  for (size_t i = 0; i < values.size(); ++i) {
    const uint16_t bits = precision == Precision::kFp16 ? Fp16Bits(values[i]) : Bf16Bits(values[i]);
    std::memcpy(data.data() + 2 * i, &bits, 2);
  }
  return data;
}

// Several sets of memory for all buffers of a schedule, one behind the other. Constants have a place in each, too: in a
// graph that is larger than the cache, weights come from memory.
class OperandSets {
 public:
  OperandSets(Gpu& gpu, const Schedule& schedule) : gpu_(gpu), schedule_(schedule) {
    for (const Buffer& buffer : schedule.buffers) {
      offsets_.push_back(set_bytes_);
      if (buffer.alias_of < 0) set_bytes_ += (buffer.bytes + kAlignment - 1) / kAlignment * kAlignment;
    }
  }
  int64_t set_bytes() const { return static_cast<int64_t>(set_bytes_); }

  // `contents` are the bytes of the schedule's inputs.
  absl::Status Allocate(int64_t sets, const std::vector<std::vector<char>>& contents) {
    absl::StatusOr<std::shared_ptr<void>> memory =
        rewright::cuda::Allocate(gpu_, static_cast<size_t>(sets) * set_bytes_);
    if (!memory.ok()) return memory.status();
    memory_ = *std::move(memory);
    std::vector<char> set(set_bytes_);
    for (size_t k = 0; k < schedule_.inputs.size(); ++k) {
      if (schedule_.inputs[k] < 0) continue;
      std::copy(contents[k].begin(), contents[k].end(), set.begin() + Offset(schedule_.inputs[k]));
    }
    for (size_t i = 0; i < schedule_.buffers.size(); ++i) {
      const Buffer& buffer = schedule_.buffers[i];
      if (buffer.kind != Buffer::Kind::kConstant || buffer.alias_of >= 0) continue;
      const Fault fault = gpu_.CopyOut(set.data() + offsets_[i], buffer.data.get(), buffer.bytes);
      RETURN_IF_ERROR(StatusOf(fault));
    }
    for (int64_t i = 0; i < sets; ++i) {
      const Fault fault = gpu_.CopyIn(Base(i), set.data(), set.size());
      RETURN_IF_ERROR(StatusOf(fault));
    }
    return absl::OkStatus();
  }
  void Run(int64_t set) const {
    std::vector<void*> buffers;
    for (const Step& step : schedule_.steps) {
      buffers.clear();
      for (int id : step.buffers) buffers.push_back(Base(set) + Offset(id));
      step.kernel->Run(buffers.data());
    }
  }

 private:
  char* Base(int64_t set) const { return static_cast<char*>(memory_.get()) + static_cast<size_t>(set) * set_bytes_; }
  ptrdiff_t Offset(int id) const {
    size_t offset = 0;
    for (; schedule_.buffers[id].alias_of >= 0; id = schedule_.buffers[id].alias_of) {
      offset += schedule_.buffers[id].offset;
    }
    return static_cast<ptrdiff_t>(offset + offsets_[id]);
  }

  Gpu& gpu_;
  const Schedule& schedule_;
  std::vector<size_t> offsets_;  // by buffer, within a set
  size_t set_bytes_ = 0;
  std::shared_ptr<void> memory_;
};

}  // namespace

absl::StatusOr<ProfileEntry> MeasureGroup(Gpu& gpu, const Graph& graph, const Group& group, ContextLayouts& layouts,
                                          LoweringOptions options) {
  absl::StatusOr<GroupGraph> extracted = ExtractGroup(graph, group);
  if (!extracted.ok()) return extracted.status();
  options.inside = true;
  const Precision precision = options.precision;
  for (const auto& [input, origin] : extracted->origin) options.input_layouts[input] = layouts.Of(graph, origin);
  absl::StatusOr<Schedule> schedule = Lowering(gpu, extracted->graph, std::move(options)).Run();
  if (!schedule.ok()) return schedule.status();
  if (schedule->steps.empty()) return ProfileEntry{0, 0, 0, 1};

  OperandSets operands(gpu, *schedule);
  const int64_t bytes = std::max<int64_t>(operands.set_bytes(), 1);
  const std::string what = absl::StrCat("measuring ", GroupText(graph, group));
  RETURN_IF_ERROR(CheckMemory(bytes, what));  // typical data are made here
  int64_t sets = std::clamp<int64_t>(2 * gpu.description().l2_bytes / bytes + 1, 1, kMaxSets);
  sets = std::clamp<int64_t>(kMaxBytes / bytes, 1, sets);
  std::vector<std::vector<char>> contents;
  for (size_t k = 0; k < schedule->inputs.size(); ++k) {
    const int buffer = schedule->inputs[k];
    const size_t size = buffer < 0 ? 0 : schedule->buffers[buffer].bytes;
    contents.push_back(TypicalData(extracted->graph.type(extracted->graph.inputs()[k]).dtype, precision, size));
  }
  RETURN_IF_ERROR(operands.Allocate(sets, contents));
  const int64_t runs = std::max<int64_t>(kRuns, sets);
  // Once as it is: what kernels do at their first run must not be recorded.
  operands.Run(0);
  RETURN_IF_ERROR(StatusOf(gpu.Synchronize()));
  std::unique_ptr<Recording> recording;
  const Fault recorded = gpu.Record(
      [&] {
        for (int64_t i = 0; i < runs; ++i) operands.Run(i % sets);
      },
      &recording);
  RETURN_IF_ERROR(StatusOf(recorded));
  std::vector<double> samples;
  for (int i = 0; i <= kSamples; ++i) {
    double seconds = 0;
    if (absl::Status status = StatusOf(gpu.Time([&] { recording->Run(); }, &seconds)); !status.ok()) return status;
    if (i > 0) samples.push_back(seconds / static_cast<double>(runs));  // the first warms up
  }
  std::sort(samples.begin(), samples.end());
  const size_t n = samples.size();
  return ProfileEntry{samples[0], samples[n / 2], samples[n * 3 / 4] - samples[n / 4], static_cast<int64_t>(n) * runs};
}

}  // namespace rewright::cuda
