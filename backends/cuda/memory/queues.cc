#include "backends/cuda/memory/queues.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "backends/cuda/measure.h"
#include "core/base/status_macros.h"

namespace rewright::cuda {
namespace {

constexpr int kMaxQueues = 8;
constexpr int kMaxSteps = 64;  // of a section: a bit each

// By step of [begin, end): a step goes on a queue whose last step it has to wait for anyway, else on a new one.
std::vector<int> AssignQueues(const std::vector<std::vector<int>>& dependencies, int begin, int end) {
  std::vector<int> queues;
  std::vector<uint64_t> ancestors;
  std::vector<int> tails;  // the last step of each queue
  for (int s = 0; s < end - begin; ++s) {
    uint64_t before = 0;
    for (int d : dependencies[begin + s]) {
      if (d >= begin) before |= ancestors[d - begin] | uint64_t{1} << (d - begin);
    }
    int queue = -1;
    for (int q = 0; q < static_cast<int>(tails.size()); ++q) {
      const int tail = tails[q];
      if ((before >> tail & 1) != 0 && (queue < 0 || tail > tails[queue])) queue = q;
    }
    if (queue < 0 && tails.size() < kMaxQueues) {
      queue = static_cast<int>(tails.size());
      tails.push_back(-1);
    }
    if (queue < 0) queue = static_cast<int>(std::min_element(tails.begin(), tails.end()) - tails.begin());
    // In order with its queue, it is behind all that its queue is behind.
    if (const int tail = tails[queue]; tail >= 0) before |= ancestors[tail] | uint64_t{1} << tail;
    tails[queue] = s;
    ancestors.push_back(before);
    queues.push_back(queue);
  }
  return queues;
}

}  // namespace

std::vector<Section> ParallelSections(const std::vector<std::vector<int>>& dependencies) {
  const int count = static_cast<int>(dependencies.size());
  std::vector<Section> sections;
  int begin = 0;
  std::vector<uint64_t> ancestors;  // of the steps from `begin` on, among them
  const auto end_before = [&](int end) {
    const std::vector<int> queues = AssignQueues(dependencies, begin, end);
    const bool parallel = std::any_of(queues.begin(), queues.end(), [](int queue) { return queue > 0; });
    if (parallel) sections.push_back(MakeSection(dependencies, begin, queues));
    begin = end;
    ancestors.clear();
  };
  for (int s = 0; s < count; ++s) {
    uint64_t before = 0;
    for (int d : dependencies[s]) {
      if (d >= begin) before |= ancestors[d - begin] | uint64_t{1} << (d - begin);
    }
    // A step that waits for all before it loses nothing when the others end first.
    if (s - begin == kMaxSteps || (s > begin && before == (uint64_t{1} << (s - begin)) - 1)) {
      end_before(s);
      before = 0;
    }
    ancestors.push_back(before);
  }
  end_before(count);
  return sections;
}

absl::Status RunSideBySide(GpuMemory& memory, const std::function<std::string(const Step&)>& key_of,
                           Schedule* schedule) {
  for (const Section& section : ParallelSections(DependenciesOf(*schedule))) {
    std::string key = "in order or side by side:";
    std::vector<int> buffers;
    const int count = section.end - section.begin;
    for (int i = 0; i < count; ++i) {
      const Step& step = schedule->steps[section.begin + i];
      absl::StrAppend(&key, "\nlane ", section.steps[i].queue, " after");
      for (int before : section.steps[i].after) absl::StrAppend(&key, " ", before);
      absl::StrAppend(&key, ": ", key_of(step));
      for (const BufferUse& use : step.buffers) buffers.push_back(use.buffer);
    }
    const TrialWay in_order = [&](Instance& trial) -> absl::Status {
      for (int s = section.begin; s < section.end; ++s) RETURN_IF_ERROR(trial.RunStep(s));
      return absl::OkStatus();
    };
    const TrialWay side_by_side = [&](Instance& trial) {
      return memory.RunQueues(section.steps, [&](int i) { return trial.RunStep(section.begin + i); });
    };
    // In order comes first: it needs the least memory.
    const auto prepared = [] { return absl::OkStatus(); };
    ASSIGN_OR_RETURN(const int best,
                     FastestOnTrial(*schedule, buffers, memory, key, prepared, {in_order, side_by_side}));
    if (best == 0) continue;
    for (int i = 0; i < count; ++i) schedule->steps[section.begin + i].queue = section.steps[i].queue;
    schedule->steps[section.begin].joins = true;
    if (section.end < static_cast<int>(schedule->steps.size())) schedule->steps[section.end].joins = true;
  }
  return absl::OkStatus();
}

}  // namespace rewright::cuda
