#include "runtime/memory_plan.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/check.h"

namespace rewright {
namespace {

int64_t Aligned(int64_t bytes) { return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment; }

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
      const int64_t gap = offset - end;
      if (gap >= need && gap < best_gap) {
        best = end;
        best_gap = gap;
      }
      end = std::max(end, offset + Aligned(lifetimes[other].bytes));
    }
    const int64_t offset = best >= 0 ? best : end;
    placement.offsets[id] = offset;
    placement.arena_bytes = std::max(placement.arena_bytes, offset + need);
    const auto at = std::upper_bound(placed.begin(), placed.end(), offset,
                                     [&](int64_t value, int other) { return value < placement.offsets[other]; });
    placed.insert(at, id);
  }
  return placement;
}

// Aligned bytes live at each step.
std::vector<int64_t> LiveBytes(const std::vector<Lifetime>& lifetimes, bool aligned) {
  int steps = 0;
  for (const Lifetime& item : lifetimes) steps = std::max(steps, item.last + 1);
  std::vector<int64_t> live(static_cast<size_t>(steps) + 1, 0);
  for (const Lifetime& item : lifetimes) {
    const int64_t bytes = aligned ? Aligned(item.bytes) : item.bytes;
    live[item.first] += bytes;
    live[static_cast<size_t>(item.last) + 1] -= bytes;
  }
  std::partial_sum(live.begin(), live.end(), live.begin());
  return live;
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
  const std::vector<int64_t> live = LiveBytes(lifetimes, /*aligned=*/true);
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
      // Those alive at the fullest step first.
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

absl::Status DeviceFault(const std::string& message) { return absl::InternalError("schedule: " + message); }

absl::StatusOr<std::vector<ResolvedBuffer>> ResolveViews(const std::vector<Buffer>& buffers) {
  const int count = static_cast<int>(buffers.size());
  std::vector<ResolvedBuffer> resolved(buffers.size());
  for (int id = 0; id < count; ++id) {
    ResolvedBuffer at{id, 0};
    for (int depth = 0; buffers[at.root].alias_of >= 0; ++depth) {
      const Buffer& view = buffers[at.root];
      if (view.alias_of >= count) {
        return DeviceFault(absl::StrCat("buffer ", at.root, " is a view of buffer ", view.alias_of, ", of ", count));
      }
      const Buffer& base = buffers[view.alias_of];
      if (view.offset + view.bytes > base.bytes) {
        return DeviceFault(absl::StrCat("buffer ", at.root, " views bytes ", view.offset, "..",
                                        view.offset + view.bytes, " of buffer ", view.alias_of, ", which has ",
                                        base.bytes));
      }
      if (depth > count) return DeviceFault(absl::StrCat("buffer ", id, " is a view of itself"));
      at.offset += static_cast<int64_t>(view.offset);
      at.root = view.alias_of;
    }
    resolved[id] = at;
  }
  return resolved;
}

}  // namespace

int64_t PeakLiveBytes(const std::vector<Lifetime>& lifetimes) {
  const std::vector<int64_t> live = LiveBytes(lifetimes, /*aligned=*/false);
  return *std::max_element(live.begin(), live.end());
}

Placement PlaceLifetimes(const std::vector<Lifetime>& lifetimes) {
  const std::vector<int64_t> live = LiveBytes(lifetimes, /*aligned=*/true);
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

absl::StatusOr<MemoryPlan> PlanMemory(const Schedule& schedule) {
  const int count = static_cast<int>(schedule.buffers.size());
  const auto in_range = [&](int id) { return id >= 0 && id < count; };
  MemoryPlan plan;
  absl::StatusOr<std::vector<ResolvedBuffer>> resolved = ResolveViews(schedule.buffers);
  if (!resolved.ok()) return resolved.status();
  plan.resolved = *std::move(resolved);

  std::vector<Lifetime> all(schedule.buffers.size(), {0, -1, -1});
  const auto touch = [&](int id, int step) {
    Lifetime& life = all[plan.resolved[id].root];
    if (life.first < 0) life.first = step;
    life.last = step;
  };
  const int num_steps = static_cast<int>(schedule.steps.size());
  for (int s = 0; s < num_steps; ++s) {
    for (int id : schedule.steps[s].buffers) {
      if (!in_range(id)) return DeviceFault(absl::StrCat("step ", s, " uses buffer ", id, ", of ", count));
      touch(id, s);
    }
  }
  for (int id : schedule.outputs) {
    if (!in_range(id)) return DeviceFault(absl::StrCat("output in buffer ", id, ", of ", count));
    touch(id, std::max(0, num_steps - 1));
  }

  std::vector<Lifetime> lifetimes;
  std::vector<int> owners;
  for (int id = 0; id < count; ++id) {
    const Buffer& buffer = schedule.buffers[id];
    Lifetime& life = all[id];
    if (buffer.kind != Buffer::Kind::kActivation || buffer.alias_of >= 0 || life.first < 0) continue;
    life.bytes = static_cast<int64_t>(buffer.bytes);
    lifetimes.push_back(life);
    owners.push_back(id);
  }
  const Placement placement = PlaceLifetimes(lifetimes);
  plan.offsets.assign(schedule.buffers.size(), -1);
  for (size_t i = 0; i < owners.size(); ++i) plan.offsets[owners[i]] = placement.offsets[i];
  plan.arena_bytes = placement.arena_bytes;
  plan.peak_live_bytes = PeakLiveBytes(lifetimes);
  return plan;
}

}  // namespace rewright
