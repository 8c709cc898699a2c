#include "runtime/distributed/simulate.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "runtime/distributed/check_plan.h"
#include "runtime/distributed/plan_cost.h"
#include "runtime/distributed/plan_text.h"

namespace rewright::distributed {
namespace {

using Kind = Action::Kind;

constexpr double kNever = std::numeric_limits<double>::infinity();

struct Message {
  int from = 0, to = 0;
  int64_t bytes = 0;
};
using Rounds = std::vector<std::vector<Message>>;

// Rounds of the group's all-reduce of so many bytes.
Rounds AllReduceRounds(const std::vector<int>& group, int64_t bytes, AllReduceBy by) {
  const auto size = static_cast<int>(group.size());
  Rounds rounds;
  if (by == AllReduceBy::kRing) {
    for (int round = 0; round < 2 * (size - 1); ++round) {
      rounds.emplace_back();
      for (int k = 0; k < size; ++k) {
        const int part = ((k - round) % size + size) % size;  // of the vector, as even as can be
        rounds.back().push_back({group[k], group[(k + 1) % size], bytes * (part + 1) / size - bytes * part / size});
      }
    }
  } else if (by == AllReduceBy::kTree) {
    for (int step = 1; step < size; step *= 2) {
      rounds.emplace_back();
      for (int k = 0; k + step < size; k += 2 * step) rounds.back().push_back({group[k + step], group[k], bytes});
    }
    for (size_t up = rounds.size(); up-- > 0;) {
      std::vector<Message> down = rounds[up];
      for (Message& message : down) std::swap(message.from, message.to);
      rounds.push_back(std::move(down));
    }
  } else {
    rounds.resize(2);
    for (int k = 1; k < size; ++k) {
      rounds[0].push_back({group[k], group[0], bytes});
      rounds[1].push_back({group[0], group[k], bytes});
    }
  }
  return rounds;
}

class Simulator {
 public:
  Simulator(const Plan& plan, const Cluster& cluster, const SimulationOptions& options)
      : plan_(plan), cluster_(cluster), options_(options), ranks_(plan.lists.size()) {
    step_.ranks.resize(ranks_.size());
    step_.bytes.resize(cluster.levels.size(), 0);
    for (size_t rank = 0; rank < ranks_.size(); ++rank) ranks_[rank].ended.resize(plan.lists[rank].size(), false);
  }

  SimulatedStep Run() {
    while (true) {
      while (Progress()) {
      }
      const double next = NextEvent();
      if (next == kNever) break;
      Advance(next);
    }
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      CHECK(static_cast<size_t>(ranks_[rank].next) == plan_.lists[rank].size()) << rank;
      const std::vector<int64_t> run = RunBytesOverTime(plan_, static_cast<int>(rank));
      const std::vector<int64_t> sums = SumBytesOverTime(plan_, static_cast<int>(rank));
      int64_t most = 0;
      for (size_t i = 0; i < run.size(); ++i) most = std::max(most, run[i] + sums[i]);
      step_.peak_bytes.push_back(most);
    }
    step_.seconds = now_;
    return std::move(step_);
  }

 private:
  struct Rank {
    int next = 0;
    double busy_until = 0;
    double waits_since = -1;
    std::deque<int> queue;  // communication that has begun and not ended
    std::vector<bool> ended;
  };
  // Flows that begin together, then the next ones.
  struct Operation {
    Rounds rounds;
    size_t round = 0;
    int under_way = 0;  // flows
    double begin = 0;
    std::vector<std::pair<int, int>> actions;  // that end with it: rank and action
    bool sends = false;                        // a SEND: it has arrived, and its RECEIVE may end
    bool arrived = false;
  };
  struct Flow {
    size_t operation = 0;
    int from = 0, to = 0, level = 0;
    double left = 0, rate = 0;
    double begins = 0;  // behind its latency
  };

  const Action& At(int rank, int number) const { return plan_.lists[rank][number]; }

  bool Progress() {
    bool moves = false;
    for (int rank = 0; rank < static_cast<int>(ranks_.size()); ++rank) {
      while (Begin(rank) || Communicate(rank)) moves = true;
    }
    return moves;
  }

  // The next action of a rank begins, if it can.
  bool Begin(int number) {
    Rank& rank = ranks_[number];
    if (rank.busy_until > now_ || static_cast<size_t>(rank.next) == rank.ended.size()) return false;
    const Action& action = At(number, rank.next);
    if (action.kind == Kind::kWait) {
      if (!rank.ended[action.target]) return Waits(&rank);
      EndsWaiting(number, IsCollective(At(number, action.target).kind));
    } else if (IsCommunication(action.kind)) {
      if (action.kind == Kind::kSend) {
        Send(number, action);
      } else {
        rank.queue.push_back(rank.next);
      }
    } else if (action.kind == Kind::kUpdate) {
      return Together(number, AllRanks(), plan_.update_seconds);
    } else if (action.kind == Kind::kRun) {
      const PlanSubgraph& subgraph = plan_.subgraphs[action.target];
      const std::vector<int> alone = {number};
      return Together(number, subgraph.over < 0 ? alone : plan_.mesh.GroupOf(number, subgraph.over), subgraph.seconds);
    }
    ++rank.next;
    return true;
  }

  bool Waits(Rank* rank) const {
    if (rank->waits_since < 0) rank->waits_since = now_;
    return false;
  }
  void EndsWaiting(int number, bool for_collective) {
    const double since = std::exchange(ranks_[number].waits_since, -1);
    if (since < 0) return;
    (for_collective ? step_.ranks[number].exposed : step_.ranks[number].bubble) += now_ - since;
  }

  std::vector<int> AllRanks() const {
    std::vector<int> all;
    for (size_t rank = 0; rank < ranks_.size(); ++rank) all.push_back(static_cast<int>(rank));
    return all;
  }

  // Ranks that do something together begin when all of them have come to it.
  bool Together(int number, const std::vector<int>& group, double seconds) {
    const Action& action = At(number, ranks_[number].next);
    for (int other : group) {
      const Rank& rank = ranks_[other];
      if (rank.busy_until > now_ || static_cast<size_t>(rank.next) == rank.ended.size()) return Waits(&ranks_[number]);
      const Action& there = At(other, rank.next);
      if (there.kind != action.kind || there.target != action.target || there.micro_batch != action.micro_batch) {
        return Waits(&ranks_[number]);
      }
    }
    for (int other : group) {
      EndsWaiting(other, false);
      Rank& rank = ranks_[other];
      rank.busy_until = now_ + seconds;
      step_.ranks[other].computing += seconds;
      step_.spans.push_back({other, rank.next++, now_, now_ + seconds});
    }
    return true;
  }

  void Send(int number, const Action& action) {
    sent_[{number, action.target}].push_back(operations_.size());
    Operation operation{{{{number, action.target, plan_.tensors[action.tensors[0]].type.num_bytes()}}}};
    operation.actions = {{number, ranks_[number].next}};
    operation.sends = true;
    Start(std::move(operation));
  }

  // The first communication of a rank's queue goes on, if it can.
  bool Communicate(int number) {
    Rank& rank = ranks_[number];
    if (rank.queue.empty()) return false;
    const int at = rank.queue.front();
    const Action& action = At(number, at);
    if (action.kind == Kind::kReceive) {
      std::deque<size_t>& messages = sent_[{action.target, number}];
      if (messages.empty() || !operations_[messages.front()].arrived) return false;
      messages.pop_front();
      rank.ended[at] = true;
      rank.queue.pop_front();
      return true;
    }
    const std::vector<int> group = plan_.mesh.GroupOf(number, action.axis);
    Operation operation;
    for (int other : group) {
      const Rank& member = ranks_[other];
      if (member.queue.empty() || !IsCollective(At(other, member.queue.front()).kind)) return false;
      operation.actions.emplace_back(other, member.queue.front());
    }
    for (int other : group) {
      if (std::exchange(in_collective_[other], true)) return false;  // it is under way
    }
    operation.rounds = RoundsOf(group, action);
    Start(std::move(operation));
    return true;
  }

  Rounds RoundsOf(const std::vector<int>& group, const Action& action) const {
    if (action.kind == Kind::kAllReduce && options_.all_reduce != AllReduceBy::kDirect) {
      int64_t bytes = 0;
      for (int tensor : action.tensors) bytes += plan_.tensors[tensor].type.num_bytes();
      return AllReduceRounds(group, bytes, options_.all_reduce);
    }
    // An all-reduce sends half of its bytes in each of two rounds.
    const int count = action.kind == Kind::kAllReduce ? 2 : 1;
    Rounds rounds(static_cast<size_t>(count));
    for (int rank : group) {
      const std::vector<int64_t> to = BytesSent(plan_, rank, action);
      for (int other : group) {
        for (int round = 0; round < count; ++round) {
          const int64_t bytes = to[other] * (round + 1) / count - to[other] * round / count;
          if (bytes > 0) rounds[round].push_back({rank, other, bytes});
        }
      }
    }
    return rounds;
  }

  void Start(Operation operation) {
    operation.begin = now_;
    operations_.push_back(std::move(operation));
    StartRound(operations_.size() - 1);
  }

  void StartRound(size_t number) {
    Operation& operation = operations_[number];
    while (operation.round < operation.rounds.size() && operation.rounds[operation.round].empty()) ++operation.round;
    if (operation.round == operation.rounds.size()) return End(&operation);
    for (const Message& message : operation.rounds[operation.round]) {
      const int level = cluster_.LevelOf(message.from, message.to);
      step_.bytes[level] += message.bytes;
      flows_.push_back({number, message.from, message.to, level, static_cast<double>(message.bytes), 0,
                        now_ + cluster_.levels[level].seconds});
      ++operation.under_way;
    }
    ++operation.round;
  }

  void End(Operation* operation) {
    operation->arrived = true;
    for (const auto& [rank, action] : operation->actions) {
      ranks_[rank].ended[action] = true;
      step_.spans.push_back({rank, action, operation->begin, now_});
      if (operation->sends) continue;
      ranks_[rank].queue.pop_front();
      in_collective_[rank] = false;
    }
  }

  // Shares the ports: the port that gives its flows the least is full first.
  void SetRates() {
    struct Port {
      double left = 0;
      int flows = 0;
    };
    std::map<std::tuple<int, int, bool>, Port> ports;  // level, device, whether it receives
    std::vector<Flow*> open;
    for (Flow& flow : flows_) {
      flow.rate = 0;
      if (flow.begins > now_) continue;
      open.push_back(&flow);
      for (const auto& [device, receives] : {std::pair(flow.from, false), {flow.to, true}}) {
        Port& port = ports.try_emplace({flow.level, device, receives}).first->second;
        port.left = cluster_.levels[flow.level].bytes_per_second;
        ++port.flows;
      }
    }
    while (!open.empty()) {
      double least = kNever;
      for (const auto& [key, port] : ports) {
        if (port.flows > 0) least = std::min(least, port.left / port.flows);
      }
      std::vector<Flow*> others, full;
      for (Flow* flow : open) {
        const Port& from = ports.at({flow->level, flow->from, false});
        const Port& to = ports.at({flow->level, flow->to, true});
        const double share = std::min(from.left / from.flows, to.left / to.flows);
        (share <= least * (1 + 1e-12) ? full : others).push_back(flow);
      }
      for (Flow* flow : full) {
        flow->rate = least;
        for (const auto& key : {std::tuple(flow->level, flow->from, false), {flow->level, flow->to, true}}) {
          ports[key].left = std::max(0.0, ports[key].left - least);
          --ports[key].flows;
        }
      }
      open = std::move(others);
    }
  }

  double NextEvent() {
    SetRates();
    double next = kNever;
    for (const Rank& rank : ranks_) {
      if (rank.busy_until > now_) next = std::min(next, rank.busy_until);
    }
    for (const Flow& flow : flows_) {
      next = std::min(next, flow.begins > now_ ? flow.begins : now_ + std::max(flow.left, 0.0) / flow.rate);
    }
    return next;
  }

  void Advance(double next) {
    std::vector<size_t> over;
    std::vector<Flow> left;
    for (Flow& flow : flows_) {
      const bool open = flow.begins <= now_;
      const bool done = open && now_ + std::max(flow.left, 0.0) / flow.rate <= next;  // as NextEvent says
      if (open) flow.left -= flow.rate * (next - now_);
      if (done) {
        over.push_back(flow.operation);
      } else {
        left.push_back(flow);
      }
    }
    flows_ = std::move(left);
    now_ = next;
    for (size_t number : over) {
      if (--operations_[number].under_way == 0) StartRound(number);
    }
  }

  const Plan& plan_;
  const Cluster& cluster_;
  const SimulationOptions& options_;
  double now_ = 0;
  std::vector<Rank> ranks_;
  std::map<int, bool> in_collective_;                       // by rank
  std::map<std::pair<int, int>, std::deque<size_t>> sent_;  // from, to: operations that were not received
  std::deque<Operation> operations_;
  std::vector<Flow> flows_;
  SimulatedStep step_;
};

}  // namespace

double SimulatedStep::bubble() const {
  double all = 0;
  for (const RankSeconds& rank : ranks) all += rank.bubble;
  return seconds == 0 ? 0 : all / seconds / static_cast<double>(ranks.size());
}

absl::StatusOr<SimulatedStep> Simulate(const Plan& plan, const Cluster& cluster, const SimulationOptions& options) {
  RETURN_IF_ERROR(CheckPlan(plan));
  if (plan.mesh.ranks() > cluster.devices()) {
    return absl::InvalidArgumentError(absl::StrCat("the plan: found ", plan.mesh.ranks(), " ranks, expected at most ",
                                                   cluster.devices(), ", the devices of ", cluster.name));
  }
  SimulatedStep step = Simulator(plan, cluster, options).Run();
  std::stable_sort(step.spans.begin(), step.spans.end(), [](const Span& a, const Span& b) { return a.end < b.end; });
  return step;
}

std::string ChromeTrace(const Plan& plan, const SimulatedStep& step) {
  nlohmann::ordered_json events = nlohmann::ordered_json::array();
  for (const Span& span : step.spans) {
    const Action& action = plan.lists[span.rank][span.action];
    events.push_back({{"name", PrintAction(plan, action)},
                      {"ph", "X"},
                      {"pid", span.rank},
                      {"tid", IsCommunication(action.kind) ? 1 : 0},
                      {"ts", span.begin * 1e6},
                      {"dur", (span.end - span.begin) * 1e6}});
  }
  return nlohmann::ordered_json({{"traceEvents", events}}).dump(1);
}

}  // namespace rewright::distributed
