// Work side by side: streams that part and meet again, which become branches where they are recorded.
#include "backends/cuda/plugin/context.h"

namespace rewright::cuda {
namespace {

Fault Mark(cudaEvent_t event, cudaStream_t stream) {
  return FaultOf(cudaEventRecord(event, stream), "cudaEventRecord");
}
Fault Wait(cudaEvent_t event, cudaStream_t stream) {
  return FaultOf(cudaStreamWaitEvent(stream, event, 0), "cudaStreamWaitEvent");
}

}  // namespace

Queues::~Queues() {
  for (cudaEvent_t event : events_) cudaEventDestroy(event);
  for (cudaStream_t stream : streams_) cudaStreamDestroy(stream);
}

Fault Queues::Provide(size_t streams, size_t events) {
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

Fault Queues::Switch(cudaStream_t stream) {
  context_.stream = stream;
  return FaultOf(cudnnSetStream(context_.cudnn, stream), "cudnnSetStream");
}

Fault Queues::Run(const std::vector<QueueStep>& steps, const std::function<Fault(int)>& enqueue) {
  const cudaStream_t home = context_.stream;
  Fault fault = Enter(steps, enqueue, home);
  const Fault back = Switch(home);
  return fault.empty() ? back : fault;
}

Fault Queues::Enter(const std::vector<QueueStep>& steps, const std::function<Fault(int)>& enqueue, cudaStream_t home) {
  const int count = static_cast<int>(steps.size());
  int queues = 1;
  for (const QueueStep& step : steps) queues = std::max(queues, step.queue + 1);
  // Event i is behind step i, the last one in front of all.
  REWRIGHT_RETURN_FAULT(Provide(static_cast<size_t>(queues - 1), steps.size() + 1));
  const auto event = [&](int i) { return events_[i]; };
  std::vector<int> last(static_cast<size_t>(queues), -1);  // step of each queue
  REWRIGHT_RETURN_FAULT(Mark(event(count), home));
  Fault fault;
  for (int i = 0; i < count && fault.empty(); ++i) {
    const QueueStep& step = steps[i];
    int& before = last[step.queue];
    const cudaStream_t stream = step.queue == 0 ? home : streams_[step.queue - 1];
    if (before < 0 && step.queue > 0) fault = Wait(event(count), stream);
    for (int other : step.after) {
      if (fault.empty()) fault = Wait(event(other), stream);
    }
    if (fault.empty()) fault = Switch(stream);
    if (fault.empty()) fault = enqueue(i);
    // Also behind what failed: a queue that was entered is left, or a recording of it cannot end.
    const Fault marked = Mark(event(i), stream);
    if (fault.empty()) fault = marked;
    before = i;
  }
  for (size_t queue = 1; queue < last.size(); ++queue) {
    if (last[queue] < 0) continue;
    const Fault joined = Wait(event(last[queue]), home);
    if (fault.empty()) fault = joined;
  }
  return fault;
}

}  // namespace rewright::cuda
