// Work side by side: streams that part and meet again, which become branches where they are recorded.
#include "backends/cuda/plugin/context.h"

namespace rewright::cuda {

Lanes::~Lanes() {
  for (cudaEvent_t event : events_) cudaEventDestroy(event);
  for (cudaStream_t stream : streams_) cudaStreamDestroy(stream);
}

Fault Lanes::Provide(size_t streams, size_t events) {
  while (streams_.size() < streams) {
    cudaStream_t stream = nullptr;
    REWRIGHT_RETURN_FAULT(FaultOf(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate"));
    streams_.push_back(stream);
  }
  while (events_.size() < events) {
    cudaEvent_t event = nullptr;
    REWRIGHT_RETURN_FAULT(FaultOf(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreate"));
    events_.push_back(event);
  }
  return {};
}

void Lanes::Switch(cudaStream_t stream) {
  context_.stream = stream;
  context_.Defer(FaultOf(cudnnSetStream(context_.cudnn, stream), "cudnnSetStream"));
}
void Lanes::Mark(cudaEvent_t event, cudaStream_t stream) {
  context_.Defer(FaultOf(cudaEventRecord(event, stream), "cudaEventRecord"));
}
void Lanes::Wait(cudaEvent_t event, cudaStream_t stream) {
  context_.Defer(FaultOf(cudaStreamWaitEvent(stream, event, 0), "cudaStreamWaitEvent"));
}

void Lanes::Run(const std::vector<LaneStep>& steps, const std::function<void(int)>& enqueue) {
  const int count = static_cast<int>(steps.size());
  int lanes = 1;
  for (const LaneStep& step : steps) lanes = std::max(lanes, step.lane + 1);
  // Event i is behind step i, the last one in front of all.
  if (Fault fault = Provide(static_cast<size_t>(lanes - 1), steps.size() + 1); !fault.empty()) {
    context_.Defer(fault);
    return;
  }
  const cudaStream_t home = context_.stream;
  const auto event = [&](int i) { return events_[i]; };
  std::vector<int> last(static_cast<size_t>(lanes), -1);  // step of each lane
  Mark(event(count), home);
  for (int i = 0; i < count; ++i) {
    const LaneStep& step = steps[i];
    int& before = last[step.lane];
    const cudaStream_t stream = step.lane == 0 ? home : streams_[step.lane - 1];
    if (before < 0 && step.lane > 0) Wait(event(count), stream);
    for (int other : step.after) Wait(event(other), stream);
    Switch(stream);
    enqueue(i);
    Mark(event(i), stream);
    before = i;
  }
  Switch(home);
  for (size_t lane = 1; lane < last.size(); ++lane) {
    if (last[lane] >= 0) Wait(event(last[lane]), home);
  }
}

}  // namespace rewright::cuda
