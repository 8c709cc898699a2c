#include "runtime/memory_plan.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "core/tensor/memory.h"

namespace rewright {
namespace {

int64_t Aligned(int64_t bytes) { return AlignUp(bytes, kArenaAlignment); }

bool Meet(const Lifetime& a, const Lifetime& b) { return a.first <= b.last && b.first <= a.last; }

// Places one after the other, each into the tightest gap between those already placed whose lifetimes meet its own.
Placement PlaceInOrder(const std::vector<Lifetime>& lifetimes, const std::vector<int>& order) {
  Placement placement;
  placement.offsets.assign(lifetimes.size(), 0);
  std::vector<int> placed;  // by offset, ascending
  placed.reserve(lifetimes.size());
  for (int id : order) {
    const Lifetime& item = lifetimes[id];
    const int64_t need = Aligned(item.bytes);
    if (need == 0) continue;
    int64_t end = 0;  // of the memory taken so far, going up
    int64_t best = -1;
    int64_t best_gap = std::numeric_limits<int64_t>::max();
    for (int other : placed) {
      if (!Meet(item, lifetimes[other])) continue;
      const int64_t offset = placement.offsets[other];
      const int64_t gap = offset - end, start = AlignUp(end, item.alignment);
      if (start + need <= offset && gap < best_gap) {
        best = start;
        best_gap = gap;
      }
      end = std::max(end, offset + Aligned(lifetimes[other].bytes));
    }
    const int64_t offset = best >= 0 ? best : AlignUp(end, item.alignment);
    placement.offsets[id] = offset;
    placement.arena_bytes = std::max(placement.arena_bytes, offset + need);
    const auto at = std::upper_bound(placed.begin(), placed.end(), offset,
                                     [&](int64_t value, int other) { return value < placement.offsets[other]; });
    placed.insert(at, id);
  }
  return placement;
}

std::vector<Lifetime> AlignedSizes(std::vector<Lifetime> lifetimes) {
  for (Lifetime& item : lifetimes) item.bytes = Aligned(item.bytes);
  return lifetimes;
}

template <typename Key>
std::vector<int> OrderBy(const std::vector<Lifetime>& lifetimes, const Key& key) {
  std::vector<int> order(lifetimes.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return key(lifetimes[a]) < key(lifetimes[b]); });
  return order;
}

// The orders worth trying, by what comes first.
std::vector<std::vector<int>> CandidateOrders(const std::vector<Lifetime>& lifetimes) {
  const std::vector<int64_t> live = LiveBytes(AlignedSizes(lifetimes));
  const auto breadth = [&](const Lifetime& item) {
    return *std::max_element(live.begin() + item.first, live.begin() + item.last + 1);
  };
  return {
      // Large first.
      OrderBy(lifetimes, [](const Lifetime& a) { return std::pair(-a.bytes, a.first - a.last); }),
      // Large and long first.
      OrderBy(
          lifetimes,
          [](const Lifetime& a) { return std::pair(-static_cast<double>(a.bytes) * (a.last - a.first + 1), a.first); }),
      // Long first.
      OrderBy(lifetimes, [](const Lifetime& a) { return std::pair(a.first - a.last, -a.bytes); }),
      // Lifetimes at the fullest step first.
      OrderBy(lifetimes, [&](const Lifetime& a) { return std::pair(-breadth(a), -a.bytes); }),
      // As the schedule goes.
      OrderBy(lifetimes, [](const Lifetime& a) { return std::pair(a.first, -a.bytes); }),
  };
}

// Repairs an order: what ended up at the top of the arena is placed earlier, together with nothing else moved, as long
// as there is room for improvement. A bounded hill climb, deterministic.
Placement Improve(const std::vector<Lifetime>& lifetimes, std::vector<int> order, Placement best, int64_t floor,
                  int rounds) {
  Placement current = best;
  for (int round = 0; round < rounds && best.arena_bytes > floor; ++round) {
    // The first in order among those that reach the top.
    const auto top = std::find_if(order.begin(), order.end(), [&](int id) {
      const size_t i = id;
      return current.offsets[i] + Aligned(lifetimes[i].bytes) == current.arena_bytes;
    });
    CHECK(top != order.end()) << "the arena is larger than what it holds";
    if (top == order.begin()) break;
    // Halfway to the front, so that repeated offenders get there quickly.
    std::rotate(order.begin() + (top - order.begin()) / 2, top, top + 1);
    current = PlaceInOrder(lifetimes, order);
    if (current.arena_bytes < best.arena_bytes) best = current;
  }
  return best;
}

const char* KindName(Buffer::Kind kind) {
  switch (kind) {
    case Buffer::Kind::kActivation: return "activation";
    case Buffer::Kind::kInput: return "input";
    case Buffer::Kind::kOutput: return "output";
    case Buffer::Kind::kConstant: return "constant";
    case Buffer::Kind::kState: return "state";
    case Buffer::Kind::kStored: return "stored value";
  }
  return "?";
}

absl::Status CheckUses(const Schedule& schedule, const std::vector<ResolvedBuffer>& resolved) {
  std::vector<bool> written(schedule.buffers.size(), false);  // roots
  for (size_t s = 0; s < schedule.steps.size(); ++s) {
    const Step& step = schedule.steps[s];
    const auto fault = [&](const char* does, int id) {
      const Buffer& root = schedule.buffers[resolved[id].root];
      return ScheduleFault(absl::StrCat("step ", s, " (", step.label, ") ", does, " buffer ", id, ", ",
                                        KindName(root.kind), " of ", root.bytes, " bytes"));
    };
    for (const BufferUse& use : step.buffers) {
      const int root = resolved[use.buffer].root;
      const Buffer::Kind kind = schedule.buffers[root].kind;
      const bool computed =
          kind == Buffer::Kind::kActivation || kind == Buffer::Kind::kOutput || kind == Buffer::Kind::kStored;
      if (Reads(use.access) && computed && !written[root] && schedule.buffers[use.buffer].bytes > 0) {
        return fault("reads what no step wrote:", use.buffer);
      }
      const bool replaced = kind == Buffer::Kind::kState || schedule.buffers[root].replaced;
      if (Writes(use.access) && !computed && !replaced) return fault("writes", use.buffer);
    }
    for (const BufferUse& use : step.buffers) {
      if (Writes(use.access)) written[resolved[use.buffer].root] = true;
    }
  }
  return absl::OkStatus();
}

absl::Status CheckBuffers(const Schedule& schedule) {
  const int count = static_cast<int>(schedule.buffers.size());
  const auto in_range = [&](int id) { return id >= 0 && id < count; };
  for (size_t s = 0; s < schedule.steps.size(); ++s) {
    for (const BufferUse& use : schedule.steps[s].buffers) {
      if (!in_range(use.buffer)) {
        return ScheduleFault(absl::StrCat("step ", s, " uses buffer ", use.buffer, ", of ", count));
      }
    }
  }
  for (int id : schedule.outputs) {
    if (!in_range(id)) return ScheduleFault(absl::StrCat("output in buffer ", id, ", of ", count));
  }
  for (int id = 0; id < count; ++id) {
    const size_t alignment = schedule.buffers[id].alignment;
    if (alignment == 0 || (alignment & (alignment - 1)) != 0 || alignment > DeviceMemory::kAlignment) {
      return ScheduleFault(absl::StrCat("buffer ", id, " is aligned to ", alignment, ", expected a power of two up to ",
                                        DeviceMemory::kAlignment));
    }
  }
  return absl::OkStatus();
}

// By root: the first and the last step that uses it; -1: none does. Steps of a section are all used at once.
std::vector<Lifetime> LifetimesOf(const Schedule& schedule, const MemoryPlan& plan) {
  std::vector<Lifetime> lifetimes(schedule.buffers.size(), {0, -1, -1});
  const auto use = [&](int id, int first, int last) {
    Lifetime& life = lifetimes[plan.resolved[id].root];
    if (life.first < 0) life.first = first;
    life.last = std::max(life.last, last);
  };
  const int count = static_cast<int>(schedule.steps.size());
  auto section = plan.sections.begin();
  for (int s = 0; s < count; ++s) {
    while (section != plan.sections.end() && section->end <= s) ++section;
    const bool inside = section != plan.sections.end() && section->begin <= s;
    for (const BufferUse& each : schedule.steps[s].buffers) {
      use(each.buffer, inside ? section->begin : s, inside ? section->end - 1 : s);
    }
  }
  const int last = std::max(0, count - 1);
  for (int id : schedule.outputs) use(id, last, last);
  return lifetimes;
}

// True for roots that have memory in an instance.
std::vector<bool> RootsOf(const Schedule& schedule, const MemoryPlan& plan, const std::vector<Lifetime>& lifetimes) {
  const PlanOptions& options = plan.options;
  std::vector<bool> wanted(schedule.buffers.size(), options.only == nullptr);
  if (options.only != nullptr) {
    for (int id : *options.only) wanted[plan.resolved[id].root] = true;
  }
  for (size_t id = 0; id < wanted.size(); ++id) {
    const Buffer& buffer = schedule.buffers[id];
    switch (buffer.kind) {
      case Buffer::Kind::kStored:
      case Buffer::Kind::kActivation:
        wanted[id] = wanted[id] && (options.only != nullptr || lifetimes[id].first >= 0);
        break;
      case Buffer::Kind::kInput:
      case Buffer::Kind::kOutput: wanted[id] = wanted[id] && options.externals; break;
      case Buffer::Kind::kConstant: wanted[id] = wanted[id] && options.constants; break;
      case Buffer::Kind::kState: break;
    }
    if (buffer.alias_of >= 0) wanted[id] = false;
  }
  return wanted;
}

}  // namespace

std::vector<int64_t> LiveBytes(const std::vector<Lifetime>& lifetimes) {
  int steps = 0;
  for (const Lifetime& item : lifetimes) steps = std::max(steps, item.last + 1);
  std::vector<int64_t> live(static_cast<size_t>(steps) + 1, 0);
  for (const Lifetime& item : lifetimes) {
    live[item.first] += item.bytes;
    live[item.last + 1] -= item.bytes;
  }
  std::partial_sum(live.begin(), live.end(), live.begin());
  return live;
}

int64_t PeakLiveBytes(const std::vector<Lifetime>& lifetimes) {
  const std::vector<int64_t> live = LiveBytes(lifetimes);
  return *std::max_element(live.begin(), live.end());
}

int FullestStep(const std::vector<Lifetime>& lifetimes) {
  const std::vector<int64_t> live = LiveBytes(lifetimes);
  return static_cast<int>(std::max_element(live.begin(), live.end()) - live.begin());
}

Placement PlaceLifetimes(const std::vector<Lifetime>& lifetimes) {
  const std::vector<int64_t> live = LiveBytes(AlignedSizes(lifetimes));
  const int64_t floor = *std::max_element(live.begin(), live.end());
  Placement best;
  std::vector<int> best_order;
  for (std::vector<int>& order : CandidateOrders(lifetimes)) {
    Placement placement = PlaceInOrder(lifetimes, order);
    if (best_order.empty() || placement.arena_bytes < best.arena_bytes) {
      best = std::move(placement);
      best_order = std::move(order);
    }
    if (best.arena_bytes == floor) return best;
  }
  if (best_order.empty()) return best;
  // A placement is quadratic: about a second of work is spent at most.
  const int64_t work = static_cast<int64_t>(lifetimes.size()) * static_cast<int64_t>(lifetimes.size());
  const int rounds = static_cast<int>(std::min<int64_t>(200, 1'000'000'000 / (work + 1)));
  return Improve(lifetimes, std::move(best_order), std::move(best), floor, rounds);
}

int64_t MemoryPlan::behind_arena() const { return AlignUp(arena_bytes, DeviceMemory::kAlignment); }

absl::StatusOr<MemoryPlan> PlanMemory(const Schedule& schedule, const PlanOptions& options) {
  RETURN_IF_ERROR(CheckBuffers(schedule));
  MemoryPlan plan;
  plan.options = options;
  ASSIGN_OR_RETURN(plan.resolved, ResolveBuffers(schedule.buffers));
  if (options.only == nullptr) RETURN_IF_ERROR(CheckUses(schedule, plan.resolved));
  plan.sections = SectionsOf(schedule);
  const std::vector<Lifetime> all = LifetimesOf(schedule, plan);
  const std::vector<bool> wanted = RootsOf(schedule, plan, all);

  // A region in which what is not alive at the same time shares bytes.
  struct Region {
    std::vector<Lifetime> lifetimes;
    std::vector<int> owners;
    int64_t Place(std::vector<int64_t>* offsets) const {
      const Placement placement = PlaceLifetimes(lifetimes);
      for (size_t i = 0; i < owners.size(); ++i) (*offsets)[owners[i]] = placement.offsets[i];
      return placement.arena_bytes;
    }
  };
  Region arena, stored;
  std::vector<int> apart;  // behind the arena
  const int last_step = std::max(0, static_cast<int>(schedule.steps.size()) - 1);
  plan.expires.resize(schedule.steps.size());
  plan.lifetimes.resize(schedule.buffers.size());
  for (int id = 0; id < static_cast<int>(wanted.size()); ++id) {
    if (!wanted[id]) continue;
    const Buffer& buffer = schedule.buffers[id];
    const bool is_stored = buffer.kind == Buffer::Kind::kStored;
    if (!is_stored && (buffer.kind != Buffer::Kind::kActivation || options.separate)) {
      apart.push_back(id);
    } else {
      Lifetime life = all[id];
      life.bytes = static_cast<int64_t>(buffer.bytes);
      life.alignment = std::max(kArenaAlignment, static_cast<int64_t>(buffer.alignment));
      if (options.separate) life = {life.bytes, 0, last_step, life.alignment};
      Region& region = is_stored ? stored : arena;
      region.lifetimes.push_back(life);
      region.owners.push_back(id);
      if (!is_stored) plan.lifetimes[id] = life;
    }
    const bool kept = std::any_of(schedule.outputs.begin(), schedule.outputs.end(),
                                  [&](int output) { return plan.resolved[output].root == id; });
    if (buffer.kind == Buffer::Kind::kActivation && all[id].last >= 0 && !kept)
      plan.expires[all[id].last].push_back(id);
  }
  plan.offsets.assign(schedule.buffers.size(), -1);
  plan.arena_bytes = plan.bytes = arena.Place(&plan.offsets);
  plan.stored_bytes = stored.Place(&plan.offsets);
  plan.peak_live_bytes = PeakLiveBytes(arena.lifetimes);
  for (int id : apart) {
    plan.offsets[id] = AlignUp(plan.bytes, DeviceMemory::kAlignment);
    plan.bytes = plan.offsets[id] + static_cast<int64_t>(schedule.buffers[id].bytes);
  }
  return plan;
}

}  // namespace rewright
