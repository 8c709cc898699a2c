#include "tools/verbs/run/run_trace.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/counted.h"
#include "core/base/status_macros.h"
#include "runtime/chrome_trace.h"
#include "runtime/executor.h"
#include "tools/verbs/compare/groups.h"

namespace rewright {
namespace {

TraceSpan SpanOf(const Graph& graph, const Schedule& schedule, const Step& step, double begin, double seconds) {
  TraceSpan span;
  span.name = step.label;
  span.lane = step.queue;
  span.begin = begin;
  span.seconds = seconds;
  double read = 0, written = 0, flops = 0;
  for (const BufferUse& use : step.buffers) {
    const double bytes = static_cast<double>(schedule.buffers[use.buffer].bytes);
    if (Reads(use.access)) read += bytes;
    if (use.access == Access::kWrite || use.access == Access::kUpdate) written += bytes;
  }
  std::string names;
  if (step.group >= 0) {
    for (NodeId id : schedule.groups[step.group].nodes) {
      flops += WorkOf(graph, id).flops;
      const std::string& name = graph.arena()->name({id, 0});
      if (!name.empty()) absl::StrAppend(&names, names.empty() ? "" : ", ", name);
    }
  }
  span.numbers = {{"flops", flops}, {"bytes_read", read}, {"bytes_written", written}};
  if (!names.empty()) span.texts = {{"values", std::move(names)}};
  return span;
}

}  // namespace

absl::StatusOr<std::string> TraceOfRun(const Graph& graph, Device* device, Executable& executable,
                                       const std::vector<Tensor>& inputs, int64_t threads) {
  const bool on_host = device != nullptr && (device->memory() == nullptr || device->memory()->is_host());
  auto* const executor = dynamic_cast<Executor*>(&executable);
  if (executor == nullptr || !on_host) {
    return absl::InvalidArgumentError("--trace: found a device that does not run step by step here, expected cpu");
  }
  std::vector<Tensor> outputs;
  std::vector<double> seconds;
  RETURN_IF_ERROR(executor->RunTimed(inputs, &outputs, &seconds));
  const Schedule& schedule = executor->schedule();
  std::vector<TraceSpan> spans;
  std::map<int, TraceLane> lanes;
  double begin = 0;
  for (size_t s = 0; s < schedule.steps.size(); ++s) {
    spans.push_back(SpanOf(graph, schedule, schedule.steps[s], begin, seconds[s]));
    begin += seconds[s];
    const int queue = schedule.steps[s].queue;
    lanes[queue] = {
        0, queue,
        absl::StrCat("queue ", queue, ", kernels on ", threads > 0 ? Counted(threads, "thread") : "all threads")};
  }
  std::vector<TraceLane> named;
  for (auto& [queue, lane] : lanes) named.push_back(std::move(lane));
  return ChromeTraceText(spans, named);
}

}  // namespace rewright
