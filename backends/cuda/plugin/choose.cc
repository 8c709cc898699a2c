// Timing and recording of enqueued work, and the choice among ways to do the same.
#include <cmath>
#include <limits>
#include <utility>

#include "backends/cuda/plugin/context.h"

namespace rewright::cuda {

// Once in front of the first event: while the GPU is at that, the processor enqueues what is timed, so that no time
// passes between the events before it begins.
Fault TimeWork(Context& context, const Enqueue& work, double* seconds) {
  REWRIGHT_RETURN_FAULT(work());
  cudaEvent_t start = nullptr, end = nullptr;
  REWRIGHT_RETURN_FAULT(FaultOf(cudaEventCreate(&start), "cudaEventCreate"));
  Fault fault = FaultOf(cudaEventCreate(&end), "cudaEventCreate");
  if (fault.empty()) {
    fault = FaultOf(cudaEventRecord(start, context.stream), "cudaEventRecord");
    if (fault.empty()) fault = work();
    if (fault.empty()) fault = FaultOf(cudaEventRecord(end, context.stream), "cudaEventRecord");
    if (fault.empty()) fault = FaultOf(cudaEventSynchronize(end), "timed work");
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
  // A capture that went wrong is ended too. The fault of the refused work says more than that the capture is invalid.
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

namespace {

// The error that work left behind, if it stays: after it this process can use the GPU no more, and whatever is called
// next would be blamed.
Fault LastingFault(Context& context, const std::string& name, const Fault& fault) {
  cudaGetLastError();
  const cudaError_t error = cudaStreamSynchronize(context.stream);
  if (error == cudaSuccess) return {};
  return name + " " + kUnusable + ": " + (fault.empty() ? cudaGetErrorString(error) : fault);
}

}  // namespace

// Ways are replayed from recordings, as they will be: enqueued one by one, short kernels would be timed by what it
// takes the processor to enqueue them.
Fault FastestOf(Context& context, const Ways& ways, Choice* choice) {
  constexpr int kRounds = 3, kRuns = 16;
  const int runs = std::max(kRuns, ways.sets);
  std::vector<RecordedWork> recorded(static_cast<size_t>(ways.count));
  for (int i = 0; i < ways.count; ++i) {
    // Once as it is: what kernels do at their first run must not be recorded.
    Fault fault = ways.enqueue(i, 0);
    if (fault.empty()) fault = FaultOf(cudaStreamSynchronize(context.stream), "its first run");
    if (fault.empty()) {
      fault = RecordWork(
          context,
          [&]() -> Fault {
            for (int k = 0; k < runs; ++k) REWRIGHT_RETURN_FAULT(ways.enqueue(i, k));
            return {};
          },
          &recorded[i]);
    }
    if (fault.empty()) continue;
    REWRIGHT_RETURN_FAULT(LastingFault(context, ways.name(i), fault));
    recorded[i] = nullptr;
  }
  std::vector<double> fastest(static_cast<size_t>(ways.count), std::numeric_limits<double>::infinity());
  for (int round = 0; round <= kRounds; ++round) {
    for (int i = 0; i < ways.count; ++i) {
      if (recorded[i] == nullptr) continue;
      double seconds = 0;
      const Fault fault = TimeWork(
          context, [&] { return FaultOf(cudaGraphLaunch(recorded[i].get(), context.stream), "cudaGraphLaunch"); },
          &seconds);
      if (!fault.empty()) {
        REWRIGHT_RETURN_FAULT(LastingFault(context, ways.name(i), fault));
        recorded[i] = nullptr;
      } else if (round > 0) {  // the first warms up
        fastest[i] = std::min(fastest[i], seconds);
      }
    }
  }
  *choice = {};
  for (int i = 0; i < ways.count; ++i) {
    const double seconds = recorded[i] == nullptr ? std::numeric_limits<double>::infinity() : fastest[i] / runs;
    choice->seconds.push_back(seconds);
    if (std::isfinite(seconds) && (choice->best < 0 || seconds < choice->seconds[choice->best])) choice->best = i;
  }
  return {};
}

}  // namespace rewright::cuda
