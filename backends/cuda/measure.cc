#include "backends/cuda/measure.h"

#include <algorithm>
#include <cstring>

#include "backends/cuda/gpu_status.h"
#include "backends/cuda/half.h"
#include "backends/group.h"

namespace rewright::cuda {
namespace {

constexpr int kRuns = 32;           // in one recording, at least one for each set of operands
constexpr int kSamples = 9;
constexpr int64_t kMaxSets = 64;
constexpr int64_t kMaxBytes = int64_t{2} << 30;  // of all sets together

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

// One set of memory for all buffers of a schedule that are no constants.
class OperandSet {
 public:
  OperandSet(Gpu& gpu, const Schedule& schedule) : gpu_(gpu), schedule_(schedule) {}
  OperandSet(const OperandSet&) = delete;
  ~OperandSet() {
    for (void* memory : owned_) gpu_.Free(memory);
  }

  Fault Allocate() {
    addresses_.assign(schedule_.buffers.size(), nullptr);
    for (size_t i = 0; i < schedule_.buffers.size(); ++i) {
      const Buffer& buffer = schedule_.buffers[i];
      if (buffer.alias_of >= 0) {
        addresses_[i] = static_cast<char*>(addresses_[static_cast<size_t>(buffer.alias_of)]) + buffer.offset;
      } else if (buffer.kind == Buffer::Kind::kConstant) {
        addresses_[i] = buffer.data.get();
      } else {
        Fault fault = gpu_.Allocate(std::max<size_t>(buffer.bytes, 1), &addresses_[i]);
        if (!fault.empty()) return fault;
        owned_.push_back(addresses_[i]);
      }
    }
    return {};
  }
  void* address(int buffer) const { return addresses_[static_cast<size_t>(buffer)]; }
  void Run() const {
    std::vector<void*> buffers;
    for (const Step& step : schedule_.steps) {
      buffers.clear();
      for (int id : step.buffers) buffers.push_back(address(id));
      step.kernel->Run(buffers.data());
    }
  }

 private:
  Gpu& gpu_;
  const Schedule& schedule_;
  std::vector<void*> addresses_;
  std::vector<void*> owned_;
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

  int64_t bytes = 1;
  for (const Buffer& buffer : schedule->buffers) {
    if (buffer.alias_of < 0 && buffer.kind != Buffer::Kind::kConstant) bytes += static_cast<int64_t>(buffer.bytes);
  }
  int64_t sets = std::clamp<int64_t>(2 * gpu.description().l2_bytes / bytes + 1, 1, kMaxSets);
  sets = std::clamp<int64_t>(kMaxBytes / bytes, 1, sets);
  std::vector<std::unique_ptr<OperandSet>> operands;
  for (int64_t i = 0; i < sets; ++i) {
    operands.push_back(std::make_unique<OperandSet>(gpu, *schedule));
    if (absl::Status status = StatusOf(operands.back()->Allocate()); !status.ok()) return status;
    for (size_t k = 0; k < schedule->inputs.size(); ++k) {
      const int buffer = schedule->inputs[k];
      if (buffer < 0) continue;
      const DType dtype = extracted->graph.type(extracted->graph.inputs()[k]).dtype;
      const std::vector<char> data =
          TypicalData(dtype, precision, schedule->buffers[static_cast<size_t>(buffer)].bytes);
      const Fault fault = gpu.CopyIn(operands.back()->address(buffer), data.data(), data.size());
      if (absl::Status status = StatusOf(fault); !status.ok()) return status;
    }
  }
  const int64_t runs = std::max<int64_t>(kRuns, sets);
  // Once as it is: what kernels do at their first run must not be recorded.
  operands[0]->Run();
  if (absl::Status status = StatusOf(gpu.Synchronize()); !status.ok()) return status;
  std::unique_ptr<Recording> recording;
  const Fault recorded = gpu.Record(
      [&] {
        for (int64_t i = 0; i < runs; ++i) operands[static_cast<size_t>(i % sets)]->Run();
      },
      &recording);
  if (absl::Status status = StatusOf(recorded); !status.ok()) return status;
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
