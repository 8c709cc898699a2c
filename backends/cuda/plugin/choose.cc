// Timing and recording of enqueued work, and the choice among ways to do the same.
#include <utility>

#include "backends/cuda/plugin/context.h"

namespace rewright::cuda {

Fault TimeWork(Context& context, const Enqueue& work, double* seconds) {
  cudaEvent_t start = nullptr, end = nullptr;
  REWRIGHT_RETURN_FAULT(FaultOf(cudaEventCreate(&start), "cudaEventCreate"));
  Fault fault = FaultOf(cudaEventCreate(&end), "cudaEventCreate");
  if (fault.empty()) {
    cudaEventRecord(start, context.stream);
    fault = work();
    cudaEventRecord(end, context.stream);
    const Fault timed = FaultOf(cudaEventSynchronize(end), "timed work");
    if (fault.empty()) fault = timed;
    float milliseconds = 0;
    if (fault.empty()) fault = FaultOf(cudaEventElapsedTime(&milliseconds, start, end), "cudaEventElapsedTime");
    *seconds = static_cast<double>(milliseconds) * 1e-3;
    cudaEventDestroy(end);
  }
  cudaEventDestroy(start);
  return fault;
}

Fault RecordWork(Context& context, const Enqueue& work, RecordedWork* recorded) {
  REWRIGHT_RETURN_FAULT(FaultOf(cudaStreamBeginCapture(context.stream, cudaStreamCaptureModeThreadLocal), "capture"));
  // A capture that went wrong is ended too. What was refused says more than that the capture is invalid.
  Fault fault = work();
  cudaGraph_t graph = nullptr;
  const cudaError_t ended = cudaStreamEndCapture(context.stream, &graph);
  if (fault.empty()) fault = FaultOf(ended, "capture");
  cudaGraphExec_t executable = nullptr;
  if (fault.empty()) fault = FaultOf(cudaGraphInstantiate(&executable, graph, 0), "cudaGraphInstantiate");
  if (graph != nullptr) cudaGraphDestroy(graph);
  if (!fault.empty()) cudaGetLastError();
  recorded->reset(executable);
  return fault;
}

// Ways are replayed from recordings, as they will be: enqueued one by one, short kernels would be timed by what it
// takes the processor to enqueue them.
Fault FastestOf(Context& context, int count, const std::function<Fault(int)>& run, int* best) {
  constexpr int kRounds = 3, kRuns = 16;
  std::vector<RecordedWork> ways(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) {
    // Once as it is: what kernels do at their first run must not be recorded.
    if (!run(i).empty() || cudaStreamSynchronize(context.stream) != cudaSuccess) {
      cudaGetLastError();
      continue;
    }
    RecordedWork way;
    const Fault fault = RecordWork(
        context,
        [&]() -> Fault {
          for (int k = 0; k < kRuns; ++k) REWRIGHT_RETURN_FAULT(run(i));
          return {};
        },
        &way);
    if (fault.empty()) ways[i] = std::move(way);
  }
  std::vector<double> fastest(static_cast<size_t>(count), 1e30);
  for (int round = 0; round <= kRounds; ++round) {
    for (size_t i = 0; i < ways.size(); ++i) {
      if (ways[i] == nullptr) continue;
      double seconds = 0;
      REWRIGHT_RETURN_FAULT(TimeWork(
          context, [&] { return FaultOf(cudaGraphLaunch(ways[i].get(), context.stream), "cudaGraphLaunch"); },
          &seconds));
      if (round > 0) fastest[i] = std::min(fastest[i], seconds);  // the first warms up
    }
  }
  *best = -1;
  for (int i = 0; i < count; ++i) {
    if (ways[i] == nullptr) continue;
    if (*best < 0 || fastest[i] < fastest[*best]) *best = i;
  }
  return {};
}

}  // namespace rewright::cuda
