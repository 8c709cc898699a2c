#include "backends/cuda/lanes.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "backends/cuda/gpu_status.h"
#include "backends/cuda/trial_memory.h"
#include "backends/schedule_builder.h"

namespace rewright::cuda {
namespace {

constexpr int kMaxLanes = 8;
constexpr int kMaxSteps = 64;  // of a section: a bit each

// Several steps as one.
class SectionKernel : public Kernel {
 public:
  SectionKernel(Gpu& gpu, std::vector<LaneStep> lanes) : gpu_(gpu), lanes_(std::move(lanes)) {}
  void Add(std::unique_ptr<Kernel> kernel, size_t first_buffer) {
    kernels_.push_back(std::move(kernel));
    first_buffers_.push_back(first_buffer);
  }
  void Run(void* const* buffers) const override {
    gpu_.RunLanes(lanes_, [&](int i) {
      const size_t k = i;
      kernels_[k]->Run(buffers + first_buffers_[k]);
    });
  }

 private:
  Gpu& gpu_;
  const std::vector<LaneStep> lanes_;
  std::vector<std::unique_ptr<Kernel>> kernels_;
  std::vector<size_t> first_buffers_;
};

// A step goes on a lane whose last step it has to wait for anyway, else on a new one.
std::vector<LaneStep> AssignLanes(const std::vector<std::vector<int>>& dependencies, int begin, int end) {
  std::vector<LaneStep> steps;
  std::vector<uint64_t> ancestors;
  std::vector<int> tails;  // the last step of each lane
  for (int s = 0; s < end - begin; ++s) {
    uint64_t before = 0;
    for (int d : dependencies[begin + s]) {
      if (d >= begin) before |= ancestors[d - begin] | uint64_t{1} << (d - begin);
    }
    int lane = -1;
    for (int l = 0; l < static_cast<int>(tails.size()); ++l) {
      const int tail = tails[l];
      if ((before >> tail & 1) != 0 && (lane < 0 || tail > tails[lane])) lane = l;
    }
    if (lane < 0 && tails.size() < kMaxLanes) {
      lane = static_cast<int>(tails.size());
      tails.push_back(-1);
    }
    if (lane < 0) lane = static_cast<int>(std::min_element(tails.begin(), tails.end()) - tails.begin());
    LaneStep step;
    step.lane = lane;
    // On each other lane behind the last one that it needs; those before it are in order.
    std::map<int, int> latest;
    for (int d : dependencies[begin + s]) {
      const int other = d < begin ? lane : steps[d - begin].lane;
      if (other != lane) latest[other] = std::max(latest[other], d - begin);
    }
    for (const auto& [other, last] : latest) step.after.push_back(last);
    // In order with its lane, it is behind all that its lane is behind.
    if (const int tail = tails[lane]; tail >= 0) {
      before |= ancestors[tail] | uint64_t{1} << tail;
    }
    tails[lane] = s;
    ancestors.push_back(before);
    steps.push_back(std::move(step));
  }
  return steps;
}

}  // namespace

std::vector<std::vector<int>> DependenciesOf(const Schedule& schedule) {
  std::vector<std::vector<int>> dependencies;
  std::map<int, std::vector<int>> writers;  // by buffer with memory of its own
  for (int s = 0; s < static_cast<int>(schedule.steps.size()); ++s) {
    const Step& step = schedule.steps[s];
    std::vector<int> needed;
    for (int id : step.buffers) {
      if (std::count(step.writes.begin(), step.writes.end(), id) > 0) continue;
      const std::vector<int>& from = writers[RootOf(schedule, id)];
      needed.insert(needed.end(), from.begin(), from.end());
    }
    std::sort(needed.begin(), needed.end());
    needed.erase(std::unique(needed.begin(), needed.end()), needed.end());
    dependencies.push_back(std::move(needed));
    for (int id : step.writes) writers[RootOf(schedule, id)].push_back(s);
  }
  return dependencies;
}

std::vector<Section> SectionsOf(const std::vector<std::vector<int>>& dependencies) {
  const int count = static_cast<int>(dependencies.size());
  std::vector<Section> sections;
  int begin = 0;
  std::vector<uint64_t> ancestors;  // of the steps from `begin` on, among them
  const auto end_before = [&](int end) {
    std::vector<LaneStep> steps = AssignLanes(dependencies, begin, end);
    const bool parallel = std::any_of(steps.begin(), steps.end(), [](const LaneStep& step) { return step.lane > 0; });
    if (parallel) sections.push_back({begin, end, std::move(steps)});
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

absl::Status RunSideBySide(Gpu& gpu, const std::function<std::string(const Step&)>& key_of, Schedule* schedule) {
  std::vector<Step> steps;
  int next = 0;
  const auto keep_until = [&](int end) {
    for (; next < end; ++next) steps.push_back(std::move(schedule->steps[next]));
  };
  for (Section& section : SectionsOf(DependenciesOf(*schedule))) {
    keep_until(section.begin);
    std::string key = "in order or side by side:";
    TrialMemory memory(gpu, *schedule);
    absl::Status status;
    std::vector<std::vector<void*>> addresses;
    for (int s = section.begin; s < section.end; ++s) {
      const Step& step = schedule->steps[s];
      const LaneStep& lane = section.steps[s - section.begin];
      absl::StrAppend(&key, "\nlane ", lane.lane, " after");
      for (int before : lane.after) absl::StrAppend(&key, " ", before);
      absl::StrAppend(&key, ": ", key_of(step));
      addresses.emplace_back();
      status.Update(memory.AddressesOf(step.buffers, &addresses.back()));
    }
    // What cannot be tried for want of memory stays in order, which needs the least.
    if (absl::IsResourceExhausted(status)) continue;
    if (!status.ok()) return status;
    const auto run = [&](int i) { schedule->steps[section.begin + i].kernel->Run(addresses[i].data()); };
    const int count = section.end - section.begin;
    const std::vector<std::function<void()>> ways = {[&] {
                                                       for (int i = 0; i < count; ++i) run(i);
                                                     },
                                                     [&] { gpu.RunLanes(section.steps, run); }};
    int best = 0;
    if (Fault fault = gpu.Fastest(key, ways, &best); !fault.empty()) return StatusOf(fault);
    if (best == 0) continue;
    Step joined;
    auto kernel = std::make_unique<SectionKernel>(gpu, std::move(section.steps));
    for (; next < section.end; ++next) {
      Step& step = schedule->steps[next];
      kernel->Add(std::move(step.kernel), joined.buffers.size());
      joined.buffers.insert(joined.buffers.end(), step.buffers.begin(), step.buffers.end());
      joined.writes.insert(joined.writes.end(), step.writes.begin(), step.writes.end());
      if (joined.group < 0) joined.group = step.group;
      absl::StrAppend(&joined.label, joined.label.empty() ? "" : " | ", step.label);
    }
    joined.kernel = std::move(kernel);
    steps.push_back(std::move(joined));
  }
  keep_until(static_cast<int>(schedule->steps.size()));
  schedule->steps = std::move(steps);
  return absl::OkStatus();
}

}  // namespace rewright::cuda
