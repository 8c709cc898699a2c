#include "runtime/measure/machine_rates.h"

#include <algorithm>
#include <string>
#include <vector>

#include "core/base/status_macros.h"
#include "core/ir/text.h"

namespace rewright {
namespace {

constexpr char kProduct[] = R"(
  input x: f32[1536,1536]
  input y: f32[1536,1536]
  %0 = matmul(x, y)
  output z = %0
)";
// 64 MB each: more than caches hold.
constexpr char kSum[] = R"(
  input x: f32[16777216]
  input y: f32[16777216]
  %0 = add(x, y)
  output z = %0
)";

// Work per second, by what the groups of a graph cost.
absl::StatusOr<double> Rate(Device& device, const std::string& text, double work) {
  ASSIGN_OR_RETURN(const Graph graph, ParseGraph(text));
  double seconds = 0;
  for (const Group& group : device.Partition(graph)) {
    ASSIGN_OR_RETURN(const double cost, device.Cost(graph, group));
    seconds += cost;
  }
  return work / seconds;
}

}  // namespace

double Rates::BytesPerSecond(double bytes) const {
  const auto more =
      std::find_if(memory.begin(), memory.end(), [&](const MemoryRate& rate) { return rate.bytes > bytes; });
  return (more == memory.begin() ? more : more - 1)->bytes_per_second;
}

void Rates::RaiseTo(const Rates& other) {
  flops_per_second = std::max(flops_per_second, other.flops_per_second);
  for (size_t k = 0; k < memory.size(); ++k) {
    memory[k].bytes_per_second = std::max(memory[k].bytes_per_second, other.memory[k].bytes_per_second);
  }
}

absl::StatusOr<Rates> MeasureRates(Device& device) {
  constexpr int64_t kLeast = 16 << 10, kMost = 256 << 20;  // bytes
  Rates rates;
  rates.flops_per_second = device.PeakFlops();
  if (rates.flops_per_second == 0) {
    ASSIGN_OR_RETURN(rates.flops_per_second, Rate(device, kProduct, 2.0 * 1536 * 1536 * 1536));
    ASSIGN_OR_RETURN(const double rate, Rate(device, kSum, 3.0 * 4 * 16777216));
    rates.memory = {{0, rate}};
    return rates;
  }
  for (int64_t bytes = kLeast; bytes <= kMost; bytes *= 2) {
    const double rate = device.PeakBytesPerSecond(bytes);
    if (rate > 0) rates.memory.push_back({static_cast<double>(bytes), rate});
  }
  if (rates.memory.empty()) return absl::ResourceExhaustedError("no memory to measure the rate of loads in");
  // A smaller amount of data is loaded at least as fast; a slower measurement was disturbed.
  for (size_t k = rates.memory.size() - 1; k-- > 0;) {
    double& rate = rates.memory[k].bytes_per_second;
    rate = std::max(rate, rates.memory[k + 1].bytes_per_second);
  }
  return rates;
}

}  // namespace rewright
