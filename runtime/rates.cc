#include "runtime/rates.h"

#include <memory>
#include <string>
#include <vector>

#include "core/base/status_macros.h"
#include "core/ir/random_inputs.h"
#include "core/ir/text.h"
#include "runtime/timing.h"

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

// Work per second of the fastest of some runs of a graph.
absl::StatusOr<double> Rate(GraphRunner& runner, const std::string& text, double work) {
  absl::StatusOr<Graph> graph = ParseGraph(text);
  if (!graph.ok()) return graph.status();
  absl::StatusOr<std::unique_ptr<Executable>> executable = runner.Prepare(*graph);
  if (!executable.ok()) return executable.status();
  const absl::StatusOr<std::vector<Tensor>> inputs = RandomInputs(*graph, 1);
  if (!inputs.ok()) return inputs.status();
  TimingOptions options;
  options.iterations = 10;
  absl::StatusOr<Summary> seconds = TimeRuns(**executable, *inputs, options);
  if (!seconds.ok()) return seconds.status();
  return work / seconds->min;
}

}  // namespace

absl::StatusOr<MeasuredRates> MeasureRates(GraphRunner& runner) {
  MeasuredRates rates;
  ASSIGN_OR_RETURN(rates.flops_per_second, Rate(runner, kProduct, 2.0 * 1536 * 1536 * 1536));
  ASSIGN_OR_RETURN(rates.bytes_per_second, Rate(runner, kSum, 3.0 * 4 * 16777216));
  return rates;
}

}  // namespace rewright
