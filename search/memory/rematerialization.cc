#include "search/memory/rematerialization.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "core/base/status_macros.h"
#include "core/ir/pointwise.h"
#include "search/memory/activation_lifetimes.h"
#include "search/memory/free_recomputation.h"

namespace rewright {
namespace {

using InMemory = ActivationLifetimes::Tensor;

struct MemoryChoice {
  Residencies kept;
  ActivationLifetimes::Rewritten rewritten;
  RunPlan plan;
};

class Chooser {
 public:
  Chooser(const Graph& graph, RunPlan plan, const RematerializeOptions& options, std::vector<double> seconds)
      : options_(options),
        first_(std::move(plan)),
        waiting_(graph, first_.groups),
        seconds_(std::move(seconds)),
        end_(waiting_.end()) {
    for (int i : waiting_.waiting()) mean_bytes_ += tensor(i).bytes / static_cast<int64_t>(waiting_.waiting().size());
    for (Group& group : first_.groups) std::sort(group.nodes.begin(), group.nodes.end());
    most_plans_ = options.most_plans;
    if (most_plans_ == 0) {
      // There are more ways where there is a second tier.
      const int fewest = options.second_tier ? 48 : 16;
      most_plans_ = std::clamp(20'000 / static_cast<int>(first_.groups.size() + 1), fewest, 400);
    }
  }

  absl::StatusOr<Rematerialization> Run() {
    ASSIGN_OR_RETURN(best_, Judge(All()));
    const MemoryChoice unchanged = best_;
    const Residencies free = KeptWithoutFree(waiting_, All());
    ASSIGN_OR_RETURN(const MemoryChoice cheap, Judge(free));
    if (cheap.plan.bytes < best_.plan.bytes) best_ = cheap;
    if (options_.limit && best_.plan.bytes > *options_.limit) RETURN_IF_ERROR(Trade(cheap));
    return Rematerialization{best_.rewritten.graph,  best_.rewritten.replaced, best_.rewritten.fetched,
                             unchanged.plan.bytes,   best_.plan.bytes,         best_.plan.stored_bytes,
                             unchanged.plan.seconds, best_.plan.seconds,       plans_};
  }

 private:
  const InMemory& tensor(int i) const { return waiting_.tensors()[i]; }
  // Bytes that do not fit into the second tier count in the first.
  int64_t BytesOf(const MemoryChoice& candidate) const {
    const int64_t room = options_.second_tier ? options_.second_tier->bytes : 0;
    return candidate.plan.bytes + std::max<int64_t>(0, candidate.plan.stored_bytes - room);
  }
  bool Fits(const MemoryChoice& candidate) const { return BytesOf(candidate) <= *options_.limit; }
  // Under the limit less time is better; else fewer bytes are.
  bool IsBetter(const MemoryChoice& a, const MemoryChoice& b) const {
    const double a_takes = a.plan.seconds, b_takes = b.plan.seconds;
    if (Fits(a) && Fits(b)) return std::pair(a_takes, BytesOf(a)) < std::pair(b_takes, BytesOf(b));
    return std::pair(BytesOf(a), a_takes) < std::pair(BytesOf(b), b_takes);
  }
  void Take(const MemoryChoice& candidate) {
    if (IsBetter(candidate, best_)) best_ = candidate;
  }

  // All tensors in memory: those that escape from the group that computes them.
  Residencies All() const {
    Residencies kept(waiting_.tensors().size(), Residency::kRecomputed);
    for (const Group& group : first_.groups) {
      for (Value output : group.outputs) kept[waiting_.graph().index(output.node)] = Residency::kResident;
    }
    return kept;
  }

  bool IsSmall(int i) const { return tensor(i).bytes * kSmall < mean_bytes_; }
  // It waits for long enough to be in the second tier meanwhile.
  bool MayLeave(int i) const {
    return options_.second_tier && tensor(i).root == i && tensor(i).may_drop && !IsSmall(i) &&
           tensor(i).to - tensor(i).from >= kLongWait;
  }
  // A guess of the seconds that the copies of a byte add, where they overlap.
  double SecondsAwayPerByte() const {
    return 2 * options_.second_tier->seconds_per_byte * std::max(0.05, options_.second_tier->lost);
  }

  // ---- judging

  absl::StatusOr<MemoryChoice> Judge(Residencies kept) {
    ++plans_;
    MemoryChoice candidate;
    for (bool again = true; again;) {
      ASSIGN_OR_RETURN(candidate.rewritten, waiting_.Rewrite(kept));
      ASSIGN_OR_RETURN(candidate.plan, options_.plan(candidate.rewritten.graph));
      again = options_.pointwise_only && PinOthers(candidate.rewritten, &kept);
      for (const Group& group : candidate.plan.groups) again |= Pin(candidate.rewritten, group, &kept);
    }
    candidate.kept = std::move(kept);
    return candidate;
  }

  // Keeps the tensors that a group was joined with if the group runs by another kernel than before; true if there are
  // any. Pointwise kernels give the same bits however they are cut.
  bool Pin(const ActivationLifetimes::Rewritten& rewritten, const Group& group, Residencies* kept) const {
    std::vector<NodeId> origins;
    int library = -1;  // position of the last node that is not pointwise
    for (NodeId id : group.nodes) {
      const auto origin = rewritten.origins.find(id);
      if (origin == rewritten.origins.end()) return false;  // a trigger
      const int i = waiting_.graph().index(origin->second);
      if (!IsPointwise(*waiting_.node(i).meaning) && !tensor(i).is_moved) library = static_cast<int>(origins.size());
      origins.push_back(origin->second);
    }
    if (library < 0) return false;
    const Group& before = first_.groups[tensor(waiting_.graph().index(origins[library])).written];
    // A reduction may compute its operand in other ways, but not without having done so before.
    const bool reduces = library + 1 == static_cast<int>(origins.size()) && origins.size() > 1;
    std::sort(origins.begin(), origins.end());
    if (reduces ? before.nodes.size() > 1 : origins == before.nodes) return false;
    return KeepEscaping(origins, kept);
  }

  // Likewise keeps tensors that are computed together with an operator that is not pointwise, and would be computed
  // again.
  bool PinOthers(const ActivationLifetimes::Rewritten& rewritten, Residencies* kept) const {
    bool pinned = false;
    for (const auto& [id, origin] : rewritten.origins) {
      const int i = waiting_.graph().index(origin);
      if (tensor(i).written < 0 || tensor(i).is_moved || rewritten.early.at(origin) == id) continue;
      if (IsPointwise(*waiting_.node(i).meaning)) continue;
      pinned |= KeepEscaping(first_.groups[tensor(i).written].nodes, kept);
    }
    return pinned;
  }

  // True where one of them would not have been kept.
  bool KeepEscaping(const std::vector<NodeId>& nodes, Residencies* kept) const {
    bool changed = false;
    for (NodeId id : nodes) {
      const int i = waiting_.graph().index(id);
      if ((*kept)[i] != Residency::kRecomputed || !Escapes(i)) continue;
      (*kept)[i] = Residency::kResident;
      changed = true;
    }
    return changed;
  }

  bool Escapes(int i) const {
    const std::vector<Value>& outputs = first_.groups[tensor(i).written].outputs;
    const NodeId id = waiting_.graph().nodes()[i];
    return std::any_of(outputs.begin(), outputs.end(), [&](Value output) { return output.node == id; });
  }

  // ---- trading

  absl::Status Trade(const MemoryChoice& cheap) {
    std::vector<MemoryChoice> starts = {cheap};
    Residencies waits = All();  // what late readers read, and nothing that it is computed from
    for (int i = 0; i < static_cast<int>(waits.size()); ++i) {
      if (tensor(i).late < 0 && tensor(i).written <= end_ && tensor(i).may_drop) waits[i] = Residency::kRecomputed;
    }
    ASSIGN_OR_RETURN(starts.emplace_back(), Judge(waits));
    if (options_.second_tier) {
      Residencies away = cheap.kept;
      for (int i = 0; i < static_cast<int>(away.size()); ++i) {
        if (away[i] == Residency::kResident && MayLeave(i)) away[i] = Residency::kOffloaded;
      }
      ASSIGN_OR_RETURN(starts.emplace_back(), Judge(away));
    }
    const int most = static_cast<int>(waiting_.waiting().size());
    // The fewer there are, the less is computed again: the first that fit are the best.
    for (int segments = 2; segments <= most && plans_ < most_plans_; segments += std::max(1, segments / 3)) {
      const Residencies kept = InSegments(segments, cheap.kept);
      const bool known =
          std::any_of(starts.begin(), starts.end(), [&](const MemoryChoice& c) { return c.kept == kept; });
      if (known) continue;
      ASSIGN_OR_RETURN(starts.emplace_back(), Judge(kept));
      if (Fits(starts.back())) break;
    }
    std::stable_sort(starts.begin(), starts.end(),
                     [&](const MemoryChoice& a, const MemoryChoice& b) { return IsBetter(a, b); });
    // The free plan keeps most, and gets its turn with the best of the others.
    std::vector<MemoryChoice> chosen(starts.begin(), starts.begin() + std::min<size_t>(3, starts.size()));
    if (std::none_of(chosen.begin(), chosen.end(), [&](const MemoryChoice& c) { return c.kept == cheap.kept; })) {
      chosen.push_back(cheap);
    }
    for (const MemoryChoice& start : starts) Take(start);
    const int half = plans_ + (most_plans_ - plans_) / 2;
    for (size_t i = 0; i < chosen.size(); ++i) {
      const int until = plans_ + (half - plans_) / static_cast<int>(chosen.size() - i);
      RETURN_IF_ERROR(Lower(&chosen[i], plans_ + (until - plans_) / 2));
      Take(chosen[i]);
      if (Fits(chosen[i])) RETURN_IF_ERROR(Raise(chosen[i], until));
    }
    return Polish();
  }

  // ---- starts

  int LastEarlyUse(int i) const {
    int last = tensor(i).written;
    for (int use : tensor(i).uses) {
      if (tensor(i).late < 0 || use < tensor(i).late) last = std::max(last, use);
    }
    return last;
  }

  // By position before `end_`: bytes that are computed up to there and read behind it, before late readers.
  std::vector<int64_t> CrossingBytes() const {
    std::vector<int64_t> bytes(static_cast<size_t>(end_) + 2, 0);
    for (int i = 0; i < static_cast<int>(waiting_.tensors().size()); ++i) {
      if (tensor(i).root != i || tensor(i).written < 0 || tensor(i).written > end_) continue;
      const int64_t own = tensor(i).late < 0 ? 2 * tensor(i).bytes : tensor(i).bytes;  // else it would not wait
      bytes[tensor(i).written] += own;
      bytes[std::min(LastEarlyUse(i), end_ + 1)] -= own;
    }
    std::partial_sum(bytes.begin(), bytes.end(), bytes.begin());
    return bytes;
  }

  // The narrowest places near those that part the waiting bytes into equal shares.
  std::vector<int> NarrowPlaces(int segments) const {
    std::vector<int64_t> waits(static_cast<size_t>(end_) + 1, 0);
    for (int i : waiting_.waiting()) {
      if (tensor(i).written <= end_ && tensor(i).late > end_) waits[tensor(i).written] += tensor(i).bytes;
    }
    std::partial_sum(waits.begin(), waits.end(), waits.begin());
    const std::vector<int64_t> crossing = CrossingBytes();
    const double share = static_cast<double>(waits.back()) / segments;
    std::vector<int> places;
    for (int part = 1; part < segments; ++part) {
      int best = -1;
      const auto distance = [&](int at) { return std::abs(static_cast<double>(waits[at]) - share * part); };
      for (int at = places.empty() ? 0 : places.back() + 1; at < end_; ++at) {
        if (distance(at) > share / 2) continue;
        if (best < 0 || std::pair<double, double>(crossing[at], distance(at)) <
                            std::pair<double, double>(crossing[best], distance(best))) {
          best = at;
        }
      }
      if (best >= 0) places.push_back(best);
    }
    return places;
  }

  // Keeps tensors that cross the narrow places, and small ones; behind the last place it does as `behind` does.
  Residencies InSegments(int segments, const Residencies& behind) const {
    const std::vector<int> places = NarrowPlaces(segments);
    const Residencies all = All();
    Residencies kept(all.size(), Residency::kRecomputed);
    for (int i = 0; i < static_cast<int>(kept.size()); ++i) {
      if (all[i] == Residency::kRecomputed || tensor(i).root != i || tensor(i).written < 0) continue;
      const bool crosses = std::any_of(places.begin(), places.end(), [&](int place) {
        return tensor(i).written <= place && place < LastEarlyUse(i);
      });
      const bool last = places.empty() || tensor(i).written > places.back();
      const bool small = tensor(i).late >= 0 && IsSmall(i);
      if (crosses || small || (last && behind[i] != Residency::kRecomputed)) kept[i] = Residency::kResident;
    }
    return kept;
  }

  // ---- moves

  // Drops the tensor, and the tensors that it is computed from and that are kept for it alone. Gives the seconds of all
  // that.
  double Drop(int i, Residencies* kept) const {
    double seconds = 0;
    std::vector<int> dropped = {i};
    const auto drop = [&](int next) {
      (*kept)[next] = Residency::kRecomputed;
      seconds += seconds_[next];
    };
    drop(i);
    for (size_t k = 0; k < dropped.size(); ++k) {
      for (int operand : waiting_.OperandsOf(dropped[k])) {
        const bool waits = tensor(operand).late >= 0 || !tensor(operand).may_drop;
        const bool is_small = tensor(operand).bytes * 4 < tensor(dropped[k]).bytes;
        if ((*kept)[operand] == Residency::kRecomputed || waits || is_small) continue;
        drop(operand);
        dropped.push_back(operand);
      }
    }
    return seconds;
  }

  // The tensor is dropped, or goes where it is told.
  double Change(int i, Residency to, Residencies* kept) const {
    if (to == Residency::kRecomputed) return Drop(i, kept);
    (*kept)[i] = to;
    return to == Residency::kOffloaded ? SecondsAwayPerByte() * static_cast<double>(tensor(i).bytes) : 0;
  }

  // A tensor of the graph, in memory, and the groups of a candidate between which it waits.
  struct Wait {
    int tensor = 0;
    int after = 0, before = 0;
    bool is_longest = false;  // of its waits
  };
  // The waits in which a group of the candidate lies.
  static std::vector<Wait> WaitsAt(int group, const std::vector<std::pair<int, InMemory>>& tensors) {
    std::vector<Wait> found;
    for (const auto& [i, there] : tensors) {
      if (there.written >= group || there.uses.empty() || there.uses.back() <= group) continue;
      const auto next = std::lower_bound(there.uses.begin(), there.uses.end(), group);
      if (*next == group) continue;
      const int before = next == there.uses.begin() ? there.written : *(next - 1);
      found.push_back({i, before, *next, there.from == before});
    }
    return found;
  }

  // Tensors that the candidate keeps in memory, as they lie there.
  std::vector<std::pair<int, InMemory>> InMemoryOf(const MemoryChoice& candidate) const {
    const ActivationLifetimes now(candidate.rewritten.graph, candidate.plan.groups);
    std::vector<std::pair<int, InMemory>> tensors;
    for (const auto& [old_id, new_id] : candidate.rewritten.early) {
      if (!now.graph().contains(new_id)) continue;
      const InMemory& there = now.tensors()[now.graph().index(new_id)];
      const int i = waiting_.graph().index(old_id);
      if (there.root != now.graph().index(new_id) || candidate.kept[i] != Residency::kResident) continue;
      if (tensor(i).late >= 0 || MayLeave(i)) tensors.emplace_back(i, there);
    }
    std::sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    return tensors;
  }

  struct Move {
    double seconds = 0;  // for a byte
    Wait wait;
    Residency to = Residency::kRecomputed;
  };
  // The possible changes for these tensors, by seconds per byte.
  std::vector<Move> MovesOf(const std::vector<Wait>& waits, const Residencies& kept) const {
    std::vector<Move> moves;
    const auto add = [&](const Wait& wait, Residency to) {
      Residencies changed = kept;
      const auto bytes = static_cast<double>(std::max<int64_t>(1, tensor(wait.tensor).bytes));
      moves.push_back({Change(wait.tensor, to, &changed) / bytes, wait, to});
    };
    for (const Wait& wait : waits) {
      if (tensor(wait.tensor).late >= 0) add(wait, Residency::kRecomputed);
      if (MayLeave(wait.tensor) && wait.is_longest) add(wait, Residency::kOffloaded);
    }
    std::stable_sort(moves.begin(), moves.end(), [](const Move& a, const Move& b) { return a.seconds < b.seconds; });
    return moves;
  }

  // Lowers the memory: at every group at which too much is alive, the fullest first, the cheapest tensors leave until
  // the rest has room.
  Residencies Lowered(const MemoryChoice& candidate, std::set<std::pair<int, Residency>>* tried) const {
    Residencies kept = candidate.kept;
    std::vector<int64_t> live = candidate.plan.live;
    const int64_t room = *options_.limit - (BytesOf(candidate) - *std::max_element(live.begin(), live.end()));
    std::vector<int> groups(live.size());
    std::iota(groups.begin(), groups.end(), 0);
    std::stable_sort(groups.begin(), groups.end(), [&](int a, int b) { return live[a] > live[b]; });
    const std::vector<std::pair<int, InMemory>> tensors = InMemoryOf(candidate);
    for (int group : groups) {
      if (live[group] <= room) continue;
      for (const Move& move : MovesOf(WaitsAt(group, tensors), kept)) {
        const int i = move.wait.tensor;
        if (live[group] <= room) break;
        if (kept[i] != Residency::kResident || !tried->insert({i, move.to}).second) continue;
        Change(i, move.to, &kept);
        for (int at = move.wait.after + 1; at < move.wait.before; ++at) live[at] -= tensor(i).bytes;
      }
    }
    return kept;
  }

  absl::Status Lower(MemoryChoice* candidate, int until) {
    std::set<std::pair<int, Residency>> tried;
    while (!Fits(*candidate) && plans_ < until) {
      const Residencies kept = Lowered(*candidate, &tried);
      if (kept == candidate->kept) break;
      ASSIGN_OR_RETURN(MemoryChoice next, Judge(kept));
      if (BytesOf(next) < BytesOf(*candidate)) *candidate = std::move(next);
    }
    return absl::OkStatus();
  }

  // Keeps again the tensors that save most seconds for a byte, as many at once as fit.
  absl::Status Raise(MemoryChoice candidate, int until) {
    const Residencies all = All();
    std::vector<std::pair<double, int>> moves;
    for (int i = 0; i < static_cast<int>(all.size()); ++i) {
      const bool kept = all[i] == Residency::kRecomputed || candidate.kept[i] == Residency::kResident;
      if (kept || tensor(i).root != i || !tensor(i).may_drop) continue;
      const double seconds = candidate.kept[i] == Residency::kOffloaded
                                 ? SecondsAwayPerByte()
                                 : seconds_[i] / static_cast<double>(std::max<int64_t>(1, tensor(i).bytes));
      moves.emplace_back(-seconds, i);
    }
    std::sort(moves.begin(), moves.end());
    for (size_t at = 0, step = std::max<size_t>(1, moves.size() / 2); at < moves.size() && plans_ < until;) {
      const size_t end = std::min(moves.size(), at + step);
      Residencies kept = candidate.kept;
      for (size_t k = at; k < end; ++k) kept[moves[k].second] = Residency::kResident;
      ASSIGN_OR_RETURN(MemoryChoice next, Judge(kept));
      if (Fits(next) && IsBetter(next, candidate)) {
        candidate = std::move(next);
        at = end;
        step *= 2;
      } else if (step > 1) {
        step = std::max<size_t>(1, step / 2);
      } else {
        ++at;
      }
    }
    Take(candidate);
    return absl::OkStatus();
  }

  // Single changes of the best plan, large tensors first, as long as they make it better.
  absl::Status Polish() {
    std::vector<int> order = waiting_.waiting();
    for (int i = 0; i < static_cast<int>(waiting_.tensors().size()); ++i) {
      if (tensor(i).late < 0 && best_.kept[i] != Residency::kRecomputed && MayLeave(i)) order.push_back(i);
    }
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return tensor(a).bytes > tensor(b).bytes; });
    for (bool improved = true; improved;) {
      improved = false;
      for (int i : order) {
        for (Residency to : {Residency::kRecomputed, Residency::kResident, Residency::kOffloaded}) {
          const bool may =
              to == Residency::kRecomputed ? tensor(i).late >= 0 : to == Residency::kResident || MayLeave(i);
          if (!may || best_.kept[i] == to) continue;
          if (plans_ >= most_plans_) return absl::OkStatus();
          Residencies kept = best_.kept;
          Change(i, to, &kept);
          ASSIGN_OR_RETURN(const MemoryChoice next, Judge(kept));
          if (!IsBetter(next, best_)) continue;
          best_ = next;
          improved = true;
          break;
        }
      }
    }
    return absl::OkStatus();
  }

  static constexpr int64_t kSmall = 64;

  const RematerializeOptions& options_;
  RunPlan first_;
  const ActivationLifetimes waiting_;
  const std::vector<double> seconds_;  // by node
  const int end_;                      // the last group that is not late
  int64_t mean_bytes_ = 0;             // of a tensor that waits
  int most_plans_ = 0, plans_ = 0;
  MemoryChoice best_;
};

}  // namespace

absl::StatusOr<Rematerialization> Rematerialize(const Graph& graph, const RematerializeOptions& options) {
  ASSIGN_OR_RETURN(RunPlan plan, options.plan(graph));
  ASSIGN_OR_RETURN(std::vector<double> seconds, options.seconds(graph));
  return Chooser(graph, std::move(plan), options, std::move(seconds)).Run();
}

}  // namespace rewright
