#include "runtime/offload/offload.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "core/base/status_macros.h"
#include "core/tensor/memory.h"
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

// A tensor in the second tier; steps are those of the schedule as it was compiled.
struct Away {
  int buffer = 0;
  int made = 0;    // the last step that writes it
  int last = 0;    // that uses it
  int leaves = 0;  // behind which its copy is waited for
};
// And one that comes back.
struct Return {
  size_t away = 0;
  int fetch = 0;
  int buffer = 0;
  int begins = 0;  // before which its copy is started
};

class Offloader {
 public:
  Offloader(Schedule schedule, TwoTierMemory& memory) : schedule_(std::move(schedule)), memory_(memory) {}

  absl::StatusOr<Schedule> Run(const std::vector<int>& fetches, int64_t room) {
    ASSIGN_OR_RETURN(resolved_, ResolveBuffers(schedule_.buffers));
    FindUses(fetches);
    for (int fetch : fetches) AddReturn(fetch);
    if (returns_.empty()) return std::move(schedule_);
    // The arena may need more than what is alive in it: then copies overlap with fewer steps. The widest that fits,
    // else what takes least.
    std::vector<Away> best_aways;
    std::vector<Return> best_returns;
    int64_t tight = 0, fewest = 0;
    for (const int steps : {0, kMostSteps, kMostSteps / 4, kMostSteps / 16}) {
      for (Away& away : aways_) away.leaves = away.last;
      for (Return& back : returns_) back.begins = back.fetch;
      Widen(std::max(room, tight), steps);
      const int64_t bytes = PlaceLifetimes(Lifetimes(TimesOf())).arena_bytes;
      if (steps == 0) tight = bytes;
      if (steps == 0 || bytes < fewest || bytes <= room) {
        best_aways = aways_;
        best_returns = returns_;
        fewest = bytes;
      }
      if (steps > 0 && bytes <= room) break;
    }
    aways_ = std::move(best_aways);
    returns_ = std::move(best_returns);
    return Rebuild();
  }

 private:
  static constexpr int kMostSteps = 32;  // with which a copy overlaps at most, on either side
  static constexpr int kHardly = 4;      // steps

  int num_steps() const { return static_cast<int>(schedule_.steps.size()); }
  int root(int buffer) const { return resolved_[buffer].root; }

  // Without those of tensors that are to be fetched by the copies.
  void FindUses(const std::vector<int>& fetches) {
    uses_.assign(schedule_.buffers.size(), {});
    std::vector<bool> fetched(schedule_.steps.size(), false);
    for (int fetch : fetches) fetched[fetch] = true;
    for (int s = 0; s < num_steps(); ++s) {
      for (const BufferUse& use : schedule_.steps[s].buffers) {
        if (fetched[s] && Reads(use.access)) continue;
        Uses& uses = uses_[root(use.buffer)];
        if (uses.first < 0) uses.first = s;
        uses.last = s;
        if (Writes(use.access)) uses.made = s;
      }
    }
    for (int id : schedule_.outputs) uses_[root(id)].last = num_steps();
  }

  void AddReturn(int fetch) {
    const int from = schedule_.steps[fetch].buffers[0].buffer, to = schedule_.steps[fetch].buffers[1].buffer;
    Uses& uses = uses_[root(from)];
    const bool is_made = schedule_.buffers[root(from)].kind == Buffer::Kind::kActivation && uses.made >= 0;
    if (!is_made || fetch - uses.last < kHardly) {  // it stays a copy
      uses.last = std::max(uses.last, fetch);
      return;
    }
    const auto [away, is_new] = numbers_.try_emplace(from, aways_.size());
    if (is_new) aways_.push_back({from, uses.made, uses.last, uses.last});
    aways_[away->second].last = uses.last;  // a copy may have come in between
    returns_.push_back({away->second, fetch, to, fetch});
  }

  // Numbers of the steps of the schedule that is being made.
  struct Times {
    std::vector<int> steps;   // by step of the schedule as it was compiled
    std::vector<int> leaves;  // by tensor that is away, the wait for its copy there
    std::vector<int> begins;  // by one that comes back, the start of its copy
  };
  Times TimesOf() const {
    std::vector<int> back(schedule_.steps.size(), 0), there = back, waits = back;
    for (const Return& one : returns_) ++back[one.begins];
    for (const Away& away : aways_) {
      ++there[away.made];
      ++waits[away.leaves];
    }
    Times times;
    int next = 0;
    for (int s = 0; s < num_steps(); ++s) {
      times.steps.push_back(next + back[s]);
      next += back[s] + 1 + there[s] + waits[s];
      back[s] = times.steps[s] - back[s];  // from here on the first of them
      waits[s] = next - waits[s];
    }
    for (const Away& away : aways_) times.leaves.push_back(waits[away.leaves]++);
    for (const Return& one : returns_) times.begins.push_back(back[one.begins]++);
    return times;
  }
  // The times as if no copy took a step to start or to wait for.
  Times OldTimes() const {
    Times times;
    for (int s = 0; s < num_steps(); ++s) times.steps.push_back(s);
    for (const Away& away : aways_) times.leaves.push_back(away.leaves);
    for (const Return& one : returns_) times.begins.push_back(one.begins);
    return times;
  }

  // The lifetimes of activations, as the memory plan will have them.
  std::vector<Lifetime> Lifetimes(const Times& times) const {
    std::vector<Lifetime> all(uses_.size());
    for (size_t id = 0; id < uses_.size(); ++id) {
      const Buffer& buffer = schedule_.buffers[id];
      if (buffer.kind != Buffer::Kind::kActivation || buffer.alias_of >= 0 || uses_[id].first < 0) continue;
      all[id] = {static_cast<int64_t>(buffer.bytes), times.steps[uses_[id].first],
                 times.steps[std::min(uses_[id].last, num_steps() - 1)],
                 std::max(kArenaAlignment, static_cast<int64_t>(buffer.alignment))};
    }
    for (size_t k = 0; k < aways_.size(); ++k) {
      int& last = all[root(aways_[k].buffer)].last;
      last = std::max(last, times.leaves[k]);
    }
    for (size_t k = 0; k < returns_.size(); ++k) {
      int& first = all[root(returns_[k].buffer)].first;  // of a concatenation that it is a part of, perhaps
      first = std::min(first, times.begins[k]);
    }
    std::erase_if(all, [](const Lifetime& life) { return life.bytes == 0; });
    return all;
  }

  // All copies alike, step by step.
  void Widen(int64_t room, int most) {
    std::vector<Lifetime> lifetimes = Lifetimes(OldTimes());
    for (Lifetime& life : lifetimes) life.bytes = AlignUp(life.bytes, kArenaAlignment);
    std::vector<int64_t> live = LiveBytes(lifetimes);
    live.resize(schedule_.steps.size() + 1, 0);
    const auto take = [&](int step, int buffer) {
      const int64_t bytes = AlignUp(static_cast<int64_t>(schedule_.buffers[root(buffer)].bytes), kArenaAlignment);
      if (live[step] + bytes > room) return false;
      live[step] += bytes;
      return true;
    };
    std::vector<int> first_back(aways_.size(), num_steps());
    for (int round = 0; round < most; ++round) {
      for (const Return& one : returns_) first_back[one.away] = std::min(first_back[one.away], one.begins);
      for (size_t k = 0; k < aways_.size(); ++k) {
        Away& away = aways_[k];
        const bool may_stay = away.leaves - away.last == round && away.leaves + 1 < first_back[k];
        if (may_stay && take(away.leaves + 1, away.buffer)) ++away.leaves;
      }
      for (Return& one : returns_) {
        const bool may_come = one.fetch - one.begins == round && aways_[one.away].leaves < one.begins - 1;
        if (may_come && take(one.begins - 1, one.buffer)) --one.begins;
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
    std::vector<int> stored;                                                  // by tensor that is away
    const auto use = [](int id, Access access) { return BufferUse{id, access}; };
    for (const Away& away : aways_) {
      const size_t bytes = schedule_.buffers[away.buffer].bytes;
      stored.push_back(static_cast<int>(schedule_.buffers.size()));
      Buffer buffer;
      buffer.kind = Buffer::Kind::kStored;
      buffer.bytes = bytes;
      schedule_.buffers.push_back(std::move(buffer));
      starts_there[away.made].push_back(StepOf(std::make_unique<CopyStart>(memory_, bytes, /*back=*/false),
                                               use(stored.back(), Access::kWrite), use(away.buffer, Access::kRead),
                                               "start to offload"));
      waits_there[away.leaves].push_back(StepOf(std::make_unique<CopyWait>(memory_),
                                                use(stored.back(), Access::kUpdate), use(away.buffer, Access::kRead),
                                                "offload"));
    }
    for (const Return& one : returns_) {
      const int there = stored[one.away];
      const size_t bytes = schedule_.buffers[there].bytes;
      starts_back[one.begins].push_back(StepOf(std::make_unique<CopyStart>(memory_, bytes, /*back=*/true),
                                               use(there, Access::kRead), use(one.buffer, Access::kWrite),
                                               "start to fetch"));
      Step& fetch = schedule_.steps[one.fetch];
      fetch.kernel = std::make_unique<CopyWait>(memory_);
      fetch.buffers = {use(there, Access::kRead), use(one.buffer, Access::kUpdate)};
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
    int first = -1, last = -1, made = -1;  // of all, and the last that writes
  };
  Schedule schedule_;
  TwoTierMemory& memory_;
  std::vector<ResolvedBuffer> resolved_;
  std::vector<Uses> uses_;  // by root
  std::vector<Away> aways_;
  std::map<int, size_t> numbers_;  // by buffer
  std::vector<Return> returns_;
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
