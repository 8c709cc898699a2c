#include <cstdint>
#include <cstring>

#include "backends/cuda/codegen/half.h"
#include "backends/cuda/plugin/context.h"

namespace rewright::cuda {
namespace {

constexpr size_t kAlignment = 256;
constexpr size_t kMaxSets = 64;
constexpr size_t kMaxBytes = size_t{1} << 30;  // of all sets
constexpr size_t kPattern = size_t{1} << 14;   // elements that repeat

size_t Aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// Between -1 and 1, the same ones at every run.
std::vector<float> Numbers() {
  std::vector<float> numbers(kPattern);
  uint32_t state = 1;
  for (float& number : numbers) {
    state = state * 1664525u + 1013904223u;
    number = static_cast<float>(static_cast<int32_t>(state) / 2147483648.0);
  }
  return numbers;
}

}  // namespace

Fault TrialOperands::Allocate(Context& context, Precision precision, const std::vector<Operand>& operands,
                              size_t workspace) {
  REWRIGHT_RETURN_FAULT(workspace_.Allocate(workspace));
  size_t bytes = 0;  // of one set
  for (const Operand& operand : operands) bytes += Aligned(operand.bytes);
  bytes = std::max(bytes, kAlignment);
  const size_t cache = static_cast<size_t>(std::max<int64_t>(context.description.l2_bytes, 0));
  size_t sets = std::min({2 * cache / bytes + 1, kMaxSets, std::max<size_t>(kMaxBytes / bytes, 1)});
  Fault fault = memory_.Allocate(sets * bytes);
  if (!fault.empty() && sets > 1) fault = memory_.Allocate((sets = 1) * bytes);
  REWRIGHT_RETURN_FAULT(fault);
  sets_.assign(sets, {});
  char* next = static_cast<char*>(memory_.get());
  for (std::vector<void*>& set : sets_) {
    for (const Operand& operand : operands) {
      set.push_back(next);
      next += Aligned(operand.bytes);
    }
    set.push_back(workspace_.get());
  }
  return Fill(context, precision, operands);
}

Fault TrialOperands::Fill(Context& context, Precision precision, const std::vector<Operand>& operands) {
  const std::vector<float> numbers = Numbers();
  const std::vector<char> halves = Halves(numbers, precision == Precision::kFp16);
  const auto copy = [&](void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
    return FaultOf(cudaMemcpyAsync(to, from, bytes, kind, context.stream), "filling trial memory");
  };
  for (size_t i = 0; i < operands.size(); ++i) {
    const bool half = IsHalf(precision) && !operands[i].wide;
    const void* pattern = half ? static_cast<const void*>(halves.data()) : numbers.data();
    char* first = static_cast<char*>(sets_[0][i]);
    size_t done = std::min(operands[i].bytes, kPattern * (half ? 2 : 4));
    if (done > 0) REWRIGHT_RETURN_FAULT(copy(first, pattern, done, cudaMemcpyHostToDevice));
    while (done < operands[i].bytes) {
      const size_t piece = std::min(done, operands[i].bytes - done);
      REWRIGHT_RETURN_FAULT(copy(first + done, first, piece, cudaMemcpyDeviceToDevice));
      done += piece;
    }
    for (size_t set = 1; set < sets_.size() && done > 0; ++set) {
      REWRIGHT_RETURN_FAULT(copy(sets_[set][i], first, done, cudaMemcpyDeviceToDevice));
    }
  }
  // The pattern may go when it has been read.
  return FaultOf(cudaStreamSynchronize(context.stream), "filling trial memory");
}

}  // namespace rewright::cuda
