#include "runtime/offload/offload.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "core/base/status_macros.h"
#include "runtime/memory_plan.h"
#include "runtime/schedule.h"

namespace rewright {
namespace {

// Begins to copy a tensor to the second tier or back. Buffers: there, here.
class CopyStart : public Kernel {
 public:
  CopyStart(TwoTierMemory& memory, size_t bytes, bool back) : memory_(memory), bytes_(bytes), back_(back) {}
  absl::Status Run(void* const* buffers, RunContext&) const override {
    memory_.Start(buffers[0], buffers[back_ ? 1 : 0], buffers[back_ ? 0 : 1], bytes_);
    return absl::OkStatus();
  }

 private:
  TwoTierMemory& memory_;
  const size_t bytes_;
  const bool back_;
};

// Waits for the last copy from or to its first buffer.
class CopyWait : public Kernel {
 public:
  explicit CopyWait(TwoTierMemory& memory) : memory_(memory) {}
  absl::Status Run(void* const* buffers, RunContext&) const override { return memory_.WaitFor(buffers[0]); }

 private:
  TwoTierMemory& memory_;
};

// Of a tensor to the second tier and back; steps are those of the schedule as it was compiled.
struct Trip {
  int fetch = 0;
  int from = 0, to = 0;         // buffers
  int made = 0;                 // the last step that writes it
  int last = 0;                 // that uses it
  int leaves = 0, returns = 0;  // its copy is waited for behind the one, and begins to come back before the other
};

class Offloader {
 public:
  Offloader(Schedule schedule, TwoTierMemory& memory) : schedule_(std::move(schedule)), memory_(memory) {}

  absl::StatusOr<Schedule> Run(const std::vector<int>& fetches, int64_t room) {
    ASSIGN_OR_RETURN(resolved_, ResolveBuffers(schedule_.buffers));
    FindUses();
    for (int fetch : fetches) AddTrip(fetch);
    if (trips_.empty()) return std::move(schedule_);
    // The arena may need more than what is alive in it: then copies overlap with fewer steps. The widest that fits,
    // else what takes least.
    std::vector<Trip> best;
    int64_t tight = 0, fewest = 0;
    for (const int steps : {0, kMostSteps, kMostSteps / 4, kMostSteps / 16}) {
      for (Trip& trip : trips_) {
        trip.leaves = trip.last;
        trip.returns = trip.fetch;
      }
      Widen(std::max(room, tight), steps);
      const int64_t bytes = PlaceLifetimes(Lifetimes(TimesOf())).arena_bytes;
      if (steps == 0) tight = bytes;
      if (best.empty() || bytes < fewest || (steps > 0 && bytes <= room)) {
        best = trips_;
        fewest = bytes;
      }
      if (steps > 0 && bytes <= room) break;
    }
    trips_ = std::move(best);
    return Rebuild();
  }

 private:
  static constexpr int kMostSteps = 32;  // with which a copy overlaps at most, on either side
  static constexpr int kHardly = 4;      // steps

  void FindUses() {
    uses_.assign(schedule_.buffers.size(), {});
    for (int s = 0; s < num_steps(); ++s) {
      for (const BufferUse& use : schedule_.steps[s].buffers) {
        Uses& uses = uses_[resolved_[use.buffer].root];
        if (uses.first < 0) uses.first = s;
        uses.last = s;
      }
    }
    for (int id : schedule_.outputs) uses_[resolved_[id].root].last = num_steps();
  }

  int num_steps() const { return static_cast<int>(schedule_.steps.size()); }

  void AddTrip(int fetch) {
    const std::vector<BufferUse>& copied = schedule_.steps[fetch].buffers;
    const int root = resolved_[copied[0].buffer].root;
    const bool waits = schedule_.buffers[root].kind == Buffer::Kind::kActivation && uses_[root].last == fetch;
    if (!waits) return;
    Trip trip{fetch, copied[0].buffer, copied[1].buffer, -1, -1, 0, fetch};
    for (int s = uses_[root].first; s < fetch; ++s) {
      for (const BufferUse& use : schedule_.steps[s].buffers) {
        if (resolved_[use.buffer].root != root) continue;
        trip.last = s;
        if (Writes(use.access)) trip.made = s;
      }
    }
    if (trip.made < 0 || fetch - trip.last < kHardly) return;
    trips_.push_back(trip);
  }

  // Numbers of the steps of the schedule that is being made.
  struct Times {
    std::vector<int> steps;            // by step of the schedule as it was compiled
    std::vector<int> leaves, returns;  // by trip: the wait for its copy there, and the start of that back
  };
  Times TimesOf() const {
    std::vector<int> back(schedule_.steps.size(), 0), there = back, waits = back;
    for (const Trip& trip : trips_) {
      ++back[trip.returns];
      ++there[trip.made];
      ++waits[trip.leaves];
    }
    Times times;
    int next = 0;
    for (int s = 0; s < num_steps(); ++s) {
      times.steps.push_back(next + back[s]);
      next += back[s] + 1 + there[s] + waits[s];
      back[s] = times.steps[s] - back[s];  // from here on the first of them
      waits[s] = next - waits[s];
    }
    for (const Trip& trip : trips_) {
      times.leaves.push_back(waits[trip.leaves]++);
      times.returns.push_back(back[trip.returns]++);
    }
    return times;
  }
  // As if nothing took a step to start or to wait for.
  Times OldTimes() const {
    Times times;
    for (int s = 0; s < num_steps(); ++s) times.steps.push_back(s);
    for (const Trip& trip : trips_) {
      times.leaves.push_back(trip.leaves);
      times.returns.push_back(trip.returns);
    }
    return times;
  }

  // Of activations, as the memory plan will have them.
  std::vector<Lifetime> Lifetimes(const Times& times) const {
    std::vector<Lifetime> all(uses_.size());
    for (size_t id = 0; id < uses_.size(); ++id) {
      const Buffer& buffer = schedule_.buffers[id];
      if (buffer.kind != Buffer::Kind::kActivation || buffer.alias_of >= 0 || uses_[id].first < 0) continue;
      all[id] = {static_cast<int64_t>(buffer.bytes), times.steps[uses_[id].first],
                 times.steps[std::min(uses_[id].last, num_steps() - 1)],
                 std::max(kArenaAlignment, static_cast<int64_t>(buffer.alignment))};
    }
    for (size_t k = 0; k < trips_.size(); ++k) {
      all[resolved_[trips_[k].from].root].last = times.leaves[k];
      int& first = all[resolved_[trips_[k].to].root].first;  // of a concatenation that it is a part of, perhaps
      first = std::min(first, times.returns[k]);
    }
    std::erase_if(all, [](const Lifetime& life) { return life.bytes == 0; });
    return all;
  }

  // All trips alike, step by step, those that are needed first before others.
  void Widen(int64_t room, int most) {
    const auto aligned = [](int64_t bytes) {
      return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
    };
    std::vector<Lifetime> lifetimes = Lifetimes(OldTimes());
    for (Lifetime& life : lifetimes) life.bytes = aligned(life.bytes);
    std::vector<int64_t> live = LiveBytes(lifetimes);
    live.resize(schedule_.steps.size() + 1, 0);
    const auto take = [&](int step, int buffer) {
      const int64_t bytes = aligned(static_cast<int64_t>(schedule_.buffers[resolved_[buffer].root].bytes));
      if (live[step] + bytes > room) return false;
      live[step] += bytes;
      return true;
    };
    for (int round = 0; round < most; ++round) {
      for (Trip& trip : trips_) {
        const bool may_stay = trip.leaves - trip.last == round && trip.leaves + 1 < trip.returns;
        if (may_stay && take(trip.leaves + 1, trip.from)) ++trip.leaves;
        const bool may_come = trip.fetch - trip.returns == round && trip.leaves < trip.returns - 1;
        if (may_come && take(trip.returns - 1, trip.to)) --trip.returns;
      }
    }
  }

  Step StepOf(std::unique_ptr<Kernel> kernel, BufferUse there, BufferUse here, std::string label) const {
    Step step;
    step.kernel = std::move(kernel);
    step.buffers = {there, here};
    step.label = std::move(label);
    return step;
  }

  Schedule Rebuild() {
    std::map<int, std::vector<Step>> starts_there, waits_there, starts_back;  // behind, behind and before these steps
    for (const Trip& trip : trips_) {
      const int stored = static_cast<int>(schedule_.buffers.size());
      Buffer buffer;
      buffer.kind = Buffer::Kind::kStored;
      buffer.bytes = schedule_.buffers[trip.from].bytes;
      const size_t bytes = buffer.bytes;
      schedule_.buffers.push_back(std::move(buffer));
      const auto use = [](int id, Access access) { return BufferUse{id, access}; };
      starts_there[trip.made].push_back(StepOf(std::make_unique<CopyStart>(memory_, bytes, /*back=*/false),
                                               use(stored, Access::kWrite), use(trip.from, Access::kRead),
                                               "start to offload"));
      waits_there[trip.leaves].push_back(StepOf(std::make_unique<CopyWait>(memory_), use(stored, Access::kUpdate),
                                                use(trip.from, Access::kRead), "offload"));
      starts_back[trip.returns].push_back(StepOf(std::make_unique<CopyStart>(memory_, bytes, /*back=*/true),
                                                 use(stored, Access::kRead), use(trip.to, Access::kWrite),
                                                 "start to fetch"));
      Step& fetch = schedule_.steps[trip.fetch];
      fetch.kernel = std::make_unique<CopyWait>(memory_);
      fetch.buffers = {use(stored, Access::kRead), use(trip.to, Access::kUpdate)};
    }
    std::vector<Step> steps;
    const auto append = [&](std::map<int, std::vector<Step>>& some, int at) {
      for (Step& step : some[at]) steps.push_back(std::move(step));
    };
    for (int s = 0; s < num_steps(); ++s) {
      append(starts_back, s);
      steps.push_back(std::move(schedule_.steps[s]));
      append(starts_there, s);
      append(waits_there, s);
    }
    schedule_.steps = std::move(steps);
    return std::move(schedule_);
  }

  struct Uses {
    int first = -1, last = -1;
  };
  Schedule schedule_;
  TwoTierMemory& memory_;
  std::vector<ResolvedBuffer> resolved_;
  std::vector<Uses> uses_;  // by root
  std::vector<Trip> trips_;
};

}  // namespace

absl::StatusOr<Schedule> WithOffloads(Schedule schedule, const std::vector<int>& fetches, int64_t room,
                                      TwoTierMemory& memory) {
  return Offloader(std::move(schedule), memory).Run(fetches, room);
}

CopySeconds CopySecondsOf(const Schedule& schedule, const std::vector<double>& seconds, double seconds_per_byte) {
  CopySeconds sum;
  double now = 0, queue_ends = 0;
  std::map<int, double> ends;  // of the last copy, by buffer in the second tier
  for (size_t s = 0; s < schedule.steps.size(); ++s) {
    const Step& step = schedule.steps[s];
    if (dynamic_cast<const CopyStart*>(step.kernel.get()) != nullptr) {
      const int stored = step.buffers[0].buffer;
      const double copy = static_cast<double>(schedule.buffers[stored].bytes) * seconds_per_byte;
      sum.copied += copy;
      ends[stored] = queue_ends = std::max(now, queue_ends) + copy;
    } else if (dynamic_cast<const CopyWait*>(step.kernel.get()) != nullptr) {
      const double end = ends[step.buffers[0].buffer];
      sum.waited += std::max(0.0, end - now);
      now = std::max(now, end);
    } else {
      now += seconds[s];
    }
  }
  return sum;
}

}  // namespace rewright
