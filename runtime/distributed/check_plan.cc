#include "runtime/distributed/check_plan.h"

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/status_macros.h"
#include "runtime/comm/all_reduce.h"
#include "runtime/distributed/plan_text.h"

namespace rewright::distributed {
namespace {

using Kind = Action::Kind;

class Simulation {
 public:
  // `beside`: collectives and arrivals do not hold up their rank.
  Simulation(const Plan& plan, bool beside) : plan_(plan), beside_(beside), ranks_(plan.lists.size()) {
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      ranks_[rank].ended.resize(plan.lists[rank].size(), false);
      ranks_[rank].waited.resize(plan.lists[rank].size(), false);
    }
    const int replicas = plan.mesh.replicas();
    if (plan.IsAlike(0)) {
      leaves_.assign(static_cast<size_t>(replicas), {0, plan.micro_batches / replicas});  // of the one with lists
    } else if (plan.micro_batches >= replicas) {
      leaves_ = LeavesOfRanks(plan.micro_batches, replicas);
    }
  }

  absl::Status Run() {
    bool moves = true;
    while (moves) {
      moves = false;
      for (int rank : all_) {
        bool here = true;
        while (here) {
          ASSIGN_OR_RETURN(const bool began, Begin(rank));
          ASSIGN_OR_RETURN(const bool communicated, Communicate(rank));
          here = began || communicated;
          moves = moves || here;
        }
      }
    }
    for (int rank : all_) {
      if (!ranks_[rank].AtEnd()) return Deadlock();
    }
    return AtEnd();
  }

 private:
  struct Sum {
    std::vector<int64_t> leaves;  // in the order in which they were added
    bool in_shards = false;       // this rank's block, or its flat shard, of the leaves of all replicas
    bool complete = false;        // of all replicas
    bool busy = false;            // a collective has begun and was not waited for
  };
  struct Rank {
    int next = 0;           // action
    std::deque<int> queue;  // communication that has begun and not ended, in its order
    std::vector<bool> ended, waited;
    using Numbered = absl::flat_hash_set<std::pair<int, int64_t>>;
    Numbered there;            // tensors with their micro-batch
    Numbered joining, joined;  // of these, values in a collective, and those that one has completed
    Numbered stored;           // in the second tier
    Numbered run;              // subgraphs with their micro-batch
    std::map<int, Sum> sums;
    bool updated = false;
    bool AtEnd() const { return static_cast<size_t>(next) == ended.size() && queue.empty(); }
  };

  const Action& At(int rank, int number) const { return plan_.lists[rank][number]; }
  std::string Name(int rank, int number) const {
    return absl::StrCat("rank ", rank, ", action ", number, ", ", PrintAction(plan_, At(rank, number)));
  }
  absl::Status Fault(int rank, int number, const std::string& what) const {
    return absl::InvalidArgumentError(absl::StrCat(Name(rank, number), ": ", what));
  }
  std::string NameOf(int tensor, int64_t micro_batch) const {
    return PrintAction(plan_, {Kind::kRun, 0, {tensor}, micro_batch}).substr(7);  // behind "RUN s0 "
  }

  // Makes the next action of a rank begin; false: it has to wait.
  absl::StatusOr<bool> Begin(int number) {
    Rank& rank = ranks_[number];
    if (static_cast<size_t>(rank.next) == rank.ended.size()) return false;
    const Action& action = At(number, rank.next);
    if (!beside_ && !rank.queue.empty()) return false;
    if (action.kind == Kind::kWait) {
      if (!rank.ended[action.target]) return false;
      RETURN_IF_ERROR(Waited(number, action.target));
    } else if (IsCommunication(action.kind)) {
      RETURN_IF_ERROR(BeginCommunication(number, action));
    } else {
      const int over = action.kind == Kind::kRun ? plan_.subgraphs[action.target].over : -1;
      if (over >= 0 || action.kind == Kind::kUpdate) return Together(number, over);
      RETURN_IF_ERROR(Compute(number, action));
    }
    ++rank.next;
    return true;
  }

  // An action of several ranks begins when all of them have come to it.
  absl::StatusOr<bool> Together(int number, int over) {
    const std::vector<int> group = over >= 0 ? plan_.GroupWithLists(number, over) : all_;
    const Action& action = At(number, ranks_[number].next);
    for (int other : group) {
      const Rank& rank = ranks_[other];
      if (static_cast<size_t>(rank.next) == rank.ended.size()) return false;
      const Action& there = At(other, rank.next);
      if (there.kind != action.kind || there.target != action.target || there.micro_batch != action.micro_batch) {
        return false;
      }
      if (!beside_ && !rank.queue.empty()) return false;
    }
    for (int other : group) {
      RETURN_IF_ERROR(Compute(other, At(other, ranks_[other].next)));
      ++ranks_[other].next;
    }
    return true;
  }

  bool IsOwn(int rank, int tensor) const {
    const int owner = plan_.tensors[tensor].owner;
    return owner < 0 || owner == plan_.mesh.NumberOf(rank);
  }

  // A tensor that an action reads is there.
  absl::Status Needs(int number, int tensor, int64_t micro_batch) {
    const PlanTensor& of = plan_.tensors[tensor];
    const Rank& rank = ranks_[number];
    if (of.kind == PlanTensor::Kind::kInput) return absl::OkStatus();
    if (of.kind == PlanTensor::Kind::kWeight) micro_batch = -1;
    const bool is_whole = of.cut < 0 || plan_.mesh.replicas() == 1;
    if (of.kind == PlanTensor::Kind::kWeight && is_whole && IsOwn(number, tensor)) return absl::OkStatus();
    if (rank.there.contains({tensor, micro_batch})) {
      if (of.over < 0 || rank.joined.contains({tensor, micro_batch})) return absl::OkStatus();
      return Fault(number, rank.next,
                   absl::StrCat(NameOf(tensor, micro_batch), " is not complete: expected a collective over ",
                                plan_.mesh.axes()[of.over].name, " and its WAIT before"));
    }
    for (int i = 0; i < rank.next; ++i) {
      const Action& begun = At(number, i);
      const bool brings = begun.kind == Kind::kReceive || begun.kind == Kind::kAllGather;
      if (brings && begun.micro_batch == micro_batch && !rank.waited[i] &&
          std::count(begun.tensors.begin(), begun.tensors.end(), tensor) > 0) {
        return Fault(number, rank.next,
                     absl::StrCat(NameOf(tensor, micro_batch), " may be on its way: expected WAIT ", i, " before"));
      }
    }
    return Fault(number, rank.next, absl::StrCat(NameOf(tensor, micro_batch), " is not there"));
  }

  absl::Status Compute(int number, const Action& action) {
    Rank& rank = ranks_[number];
    if (rank.updated) return Fault(number, rank.next, "found an action behind UPDATE, expected the end of the list");
    switch (action.kind) {
      case Kind::kRun: {
        const PlanSubgraph& subgraph = plan_.subgraphs[action.target];
        if (!rank.run.emplace(action.target, action.micro_batch).second) {
          return Fault(number, rank.next, "the subgraph was run for this micro-batch before");
        }
        for (int tensor : subgraph.reads) RETURN_IF_ERROR(Needs(number, tensor, action.micro_batch));
        for (int tensor : subgraph.makes) rank.there.emplace(tensor, action.micro_batch);
        return absl::OkStatus();
      }
      case Kind::kAccumulate:
        for (int tensor : action.tensors) {
          RETURN_IF_ERROR(Needs(number, plan_.tensors[tensor].leaf, action.micro_batch));
          ASSIGN_OR_RETURN(Sum* const sum, SumOf(number, tensor));
          if (sum->in_shards) return Fault(number, rank.next, "only a shard of the sum is here");
          sum->leaves.push_back(action.micro_batch);
        }
        return absl::OkStatus();
      case Kind::kUpdate: return Update(number, action);
      case Kind::kOffload:
        for (int tensor : action.tensors) {
          RETURN_IF_ERROR(Needs(number, tensor, action.micro_batch));
          rank.there.erase({tensor, action.micro_batch});
          rank.stored.emplace(tensor, action.micro_batch);
        }
        return absl::OkStatus();
      case Kind::kFetch:
        for (int tensor : action.tensors) {
          if (rank.stored.erase({tensor, action.micro_batch}) == 0) {
            return Fault(number, rank.next, absl::StrCat(NameOf(tensor, action.micro_batch), " was not offloaded"));
          }
          rank.there.emplace(tensor, action.micro_batch);
        }
        return absl::OkStatus();
      default: return absl::OkStatus();
    }
  }

  // A value that this rank has made goes into the collective that completes it.
  absl::Status Join(int number, const Action& action, int tensor) {
    using Join = PlanTensor::Join;
    Rank& rank = ranks_[number];
    const PlanTensor& of = plan_.tensors[tensor];
    const bool fits = of.join == Join::kSum ? action.kind == Kind::kAllReduce || action.kind == Kind::kReduceScatter
                      : of.join == Join::kBlocks ? action.kind == Kind::kAllGather
                                                 : action.kind == Kind::kAllToAll;
    const std::string name = NameOf(tensor, action.micro_batch);
    if (!fits || of.over != action.axis) return Fault(number, rank.next, absl::StrCat("does not complete ", name));
    if (!rank.there.contains({tensor, action.micro_batch})) {
      return Fault(number, rank.next, absl::StrCat(name, " is not there"));
    }
    if (!rank.joining.insert({tensor, action.micro_batch}).second) {
      return Fault(number, rank.next, absl::StrCat(name, " was in a collective before"));
    }
    return absl::OkStatus();
  }

  // The sum, for an action that changes it.
  absl::StatusOr<Sum*> SumOf(int number, int tensor) {
    Sum& sum = ranks_[number].sums[tensor];
    const int at = ranks_[number].next;
    if (sum.busy)
      return Fault(number, at, absl::StrCat(NameOf(tensor, -1), " is in a collective that was not waited for"));
    if (sum.complete) return Fault(number, at, absl::StrCat(NameOf(tensor, -1), " is complete already"));
    return &sum;
  }

  absl::Status BeginCommunication(int number, const Action& action) {
    Rank& rank = ranks_[number];
    if (rank.updated) return Fault(number, rank.next, "found an action behind UPDATE, expected the end of the list");
    for (int tensor : action.tensors) {
      const bool is_sum = plan_.tensors[tensor].kind == PlanTensor::Kind::kSum;
      if (action.kind == Kind::kSend) RETURN_IF_ERROR(Needs(number, tensor, action.micro_batch));
      if (action.kind == Kind::kReceive && rank.there.contains({tensor, action.micro_batch})) {
        return Fault(number, rank.next, "it is there already");
      }
      if (IsCollective(action.kind) && plan_.tensors[tensor].kind == PlanTensor::Kind::kValue) {
        RETURN_IF_ERROR(Join(number, action, tensor));
        continue;
      }
      if (plan_.tensors[tensor].apart) {
        return Fault(number, rank.next, absl::StrCat(NameOf(tensor, -1), " is another one in every replica"));
      }
      if (action.kind == Kind::kAllGather && !is_sum && (plan_.tensors[tensor].cut < 0 || !IsOwn(number, tensor))) {
        return Fault(number, rank.next, absl::StrCat(NameOf(tensor, -1), " is not in blocks here"));
      }
      if (!is_sum) continue;
      ASSIGN_OR_RETURN(Sum* const sum, SumOf(number, tensor));
      sum->busy = true;
      const bool gives = plan_.mesh.PlaceOf(number, action.axis) < action.givers;
      if (action.givers > 0 && gives) {
        RETURN_IF_ERROR(
            Needs(number, plan_.tensors[tensor].leaf, action.micro_batch + plan_.mesh.PlaceOf(number, action.axis)));
      }
    }
    if (action.givers > 0 && action.kind != Kind::kReduceScatter) {
      return Fault(number, rank.next, "found micro-batches that give leaves, expected REDUCE_SCATTER");
    }
    rank.queue.push_back(rank.next);
    if (action.kind == Kind::kSend) {  // needs nothing more of this rank
      rank.queue.pop_back();
      sent_[{number, action.target}].push_back(rank.next);
    }
    return absl::OkStatus();
  }

  // Ends the first communication that a rank has begun, if the others are there.
  absl::StatusOr<bool> Communicate(int number) {
    Rank& rank = ranks_[number];
    if (rank.queue.empty()) return false;
    const int at = rank.queue.front();
    const Action& action = At(number, at);
    if (action.kind == Kind::kReceive) {
      std::deque<int>& messages = sent_[{action.target, number}];
      if (messages.empty()) return false;
      const Action& sent = At(action.target, messages.front());
      if (sent.tensors != action.tensors || sent.micro_batch != action.micro_batch) {
        return Fault(number, at,
                     absl::StrCat("rank ", action.target, " sends ", NameOf(sent.tensors[0], sent.micro_batch),
                                  " before (its action ", messages.front(), ")"));
      }
      ranks_[action.target].ended[messages.front()] = true;
      messages.pop_front();
      rank.ended[at] = true;
      rank.queue.pop_front();
      return true;
    }
    const std::vector<int> group = plan_.GroupWithLists(number, action.axis);
    for (int other : group) {
      if (ranks_[other].queue.empty()) return false;
      const int there = ranks_[other].queue.front();
      const Action& of = At(other, there);
      if (!IsCollective(of.kind)) return false;
      if (!(of == action)) return Fault(number, at, absl::StrCat("differs from ", Name(other, there)));
    }
    RETURN_IF_ERROR(Collective(group, action));
    for (int other : group) {
      ranks_[other].ended[ranks_[other].queue.front()] = true;
      ranks_[other].queue.pop_front();
    }
    return true;
  }

  absl::Status Collective(const std::vector<int>& group, const Action& action) {
    for (int tensor : action.tensors) {
      const PlanTensor& of = plan_.tensors[tensor];
      if (of.kind != PlanTensor::Kind::kSum) continue;
      for (size_t place = 0; place < group.size(); ++place) {
        const int number = group[place], at = ranks_[number].queue.front();
        Sum& sum = ranks_[number].sums[tensor];
        if (action.givers > 0) {
          if (!sum.leaves.empty() && !sum.in_shards) return Fault(number, at, "the sum is whole, expected a shard");
          sum.in_shards = true;
          for (int64_t i = 0; i < action.givers; ++i) sum.leaves.push_back(action.micro_batch + i);
          continue;
        }
        if (action.kind == Kind::kAllGather) {
          if (!sum.in_shards || of.cut >= 0) return Fault(number, at, "expected flat shards");
          RETURN_IF_ERROR(HasAll(number, at, tensor, {0, plan_.micro_batches}));
          sum.in_shards = false;
        } else {
          if (sum.in_shards) return Fault(number, at, "the sum is in shards, expected leaves of this rank alone");
          if ((action.kind == Kind::kReduceScatter) != (of.cut >= 0)) {
            return Fault(number, at, absl::StrCat(NameOf(tensor, -1), of.cut >= 0 ? " is cut" : " is not cut"));
          }
          if (leaves_.empty()) return Fault(number, at, "there are fewer micro-batches than replicas");
          RETURN_IF_ERROR(HasAll(number, at, tensor, leaves_[place]));
          sum.leaves.clear();
          for (int64_t i = 0; i < plan_.micro_batches; ++i) sum.leaves.push_back(i);
          sum.in_shards = of.cut >= 0;
        }
        sum.complete = true;
      }
    }
    return absl::OkStatus();
  }

  // The leaves of the range, in its order: then additions are those of the tree.
  absl::Status HasAll(int rank, int at, int tensor, LeafRange range) {
    const std::vector<int64_t>& leaves = ranks_[rank].sums[tensor].leaves;
    bool good = static_cast<int64_t>(leaves.size()) == range.count;
    for (int64_t i = 0; good && i < range.count; ++i) good = leaves[i] == range.first + i;
    if (good) return absl::OkStatus();
    return Fault(rank, at,
                 absl::StrCat(NameOf(tensor, -1), " has the leaves [", absl::StrJoin(leaves, ","),
                              "], expected those from ", range.first, " to ", range.first + range.count - 1));
  }

  // The leaves of all micro-batches that this rank has run something for, in order.
  absl::Status HasOwn(int number, int tensor) {
    const Rank& rank = ranks_[number];
    std::set<int64_t> own;
    for (const auto& [subgraph, micro_batch] : rank.run) own.insert(micro_batch);
    const std::vector<int64_t>& leaves = rank.sums.at(tensor).leaves;
    if (std::equal(own.begin(), own.end(), leaves.begin(), leaves.end())) return absl::OkStatus();
    return Fault(number, rank.next,
                 absl::StrCat(NameOf(tensor, -1), " has the leaves [", absl::StrJoin(leaves, ","), "], expected [",
                              absl::StrJoin(own, ","), "]"));
  }

  absl::Status Waited(int number, int target) {
    Rank& rank = ranks_[number];
    const Action& action = At(number, target);
    rank.waited[target] = true;
    for (int tensor : action.tensors) {
      if (plan_.tensors[tensor].kind == PlanTensor::Kind::kSum) {
        rank.sums[tensor].busy = false;
      } else if (action.kind != Kind::kSend) {
        rank.there.emplace(tensor, action.micro_batch);
        if (plan_.tensors[tensor].over >= 0) rank.joined.emplace(tensor, action.micro_batch);
      }
    }
    return absl::OkStatus();
  }

  absl::Status Update(int number, const Action& action) {
    Rank& rank = ranks_[number];
    for (int tensor : action.tensors) {
      const PlanTensor& of = plan_.tensors[tensor];
      Sum& sum = rank.sums[tensor];
      if (!IsOwn(number, tensor))
        return Fault(number, rank.next, absl::StrCat(NameOf(tensor, -1), " has another owner"));
      if (sum.busy) return Fault(number, rank.next, absl::StrCat(NameOf(tensor, -1), " may be on its way"));
      if (of.apart) {
        RETURN_IF_ERROR(HasOwn(number, tensor));
        continue;
      }
      RETURN_IF_ERROR(HasAll(number, rank.next, tensor, {0, plan_.micro_batches}));
      const bool in_shards = of.cut >= 0 && plan_.mesh.replicas() > 1;
      if (sum.in_shards != in_shards) {
        return Fault(number, rank.next,
                     absl::StrCat(NameOf(tensor, -1), in_shards ? " is whole, expected a block" : " is in shards"));
      }
    }
    for (int tensor : plan_.TensorsOf(PlanTensor::Kind::kSum)) {
      if (IsOwn(number, tensor) && std::count(action.tensors.begin(), action.tensors.end(), tensor) != 1) {
        return Fault(number, rank.next, absl::StrCat(NameOf(tensor, -1), " is left out"));
      }
    }
    rank.updated = true;
    return absl::OkStatus();
  }

  absl::Status Deadlock() const {
    std::vector<std::string> waits;
    for (int rank : all_) {
      const Rank& of = ranks_[rank];
      if (of.AtEnd() || waits.size() == 8) continue;
      const bool ended = static_cast<size_t>(of.next) == of.ended.size();
      std::string text = ended ? absl::StrCat("rank ", rank, ", at the end of its list") : Name(rank, of.next);
      if (!of.queue.empty()) {
        absl::StrAppend(&text, " (", of.queue.front(), ", ", PrintAction(plan_, At(rank, of.queue.front())), ")");
      }
      waits.push_back(std::move(text));
    }
    return absl::InvalidArgumentError(absl::StrCat("deadlock: these wait for ever: ", absl::StrJoin(waits, "; ")));
  }

  absl::Status AtEnd() const {
    for (int rank : all_) {
      for (size_t i = 0; i < plan_.lists[rank].size(); ++i) {
        if (IsCommunication(plan_.lists[rank][i].kind) && !ranks_[rank].waited[i]) {
          return Fault(rank, static_cast<int>(i), "no WAIT names it");
        }
      }
      if (!ranks_[rank].updated) {
        return absl::InvalidArgumentError(absl::StrCat("rank ", rank, ": expected UPDATE at the end of its list"));
      }
    }
    for (const auto& [ranks, messages] : sent_) {
      if (messages.empty()) continue;
      return Fault(ranks.first, messages.front(), absl::StrCat("rank ", ranks.second, " does not receive it"));
    }
    return absl::OkStatus();
  }

  const Plan& plan_;
  const bool beside_;
  const std::vector<int> all_ = plan_.RanksWithLists();
  std::vector<Rank> ranks_;
  std::vector<LeafRange> leaves_;                        // by replica
  std::map<std::pair<int, int>, std::deque<int>> sent_;  // from, to: actions that were not received
};

}  // namespace

absl::Status CheckPlan(const Plan& plan) {
  RETURN_IF_ERROR(Simulation(plan, /*beside=*/true).Run());
  return Simulation(plan, /*beside=*/false).Run();
}

}  // namespace rewright::distributed
