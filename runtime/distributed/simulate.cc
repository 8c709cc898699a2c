#include "runtime/distributed/simulate.h"

#include <algorithm>
#include <bit>
#include <deque>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "runtime/chrome_trace.h"
#include "runtime/distributed/check_plan.h"
#include "runtime/distributed/collective_rounds.h"
#include "runtime/distributed/plan_cost.h"
#include "runtime/distributed/plan_text.h"

namespace rewright::distributed {
namespace {

using Kind = Action::Kind;

constexpr double kNever = std::numeric_limits<double>::infinity();

int64_t BytesOf(const Plan& plan, const Action& action) {
  int64_t bytes = 0;
  for (int tensor : action.tensors) bytes += plan.tensors[tensor].type.num_bytes();
  return bytes;
}

// The ports of the devices of ranks with lists, by position of the rank and level.
class Ports {
 public:
  Ports(const Plan& plan, const std::vector<int>& ranks, const Cluster& cluster) : levels_(cluster.levels.size()) {
    std::map<std::pair<size_t, int>, int> numbers;
    for (int rank : ranks) {
      for (size_t k = 0; k < levels_; ++k) {
        const int each = cluster.levels[k].port_devices, unit = plan.DeviceOf(rank) / each;
        const auto [found, is_new] = numbers.try_emplace({k, unit}, static_cast<int>(rates_.size()));
        if (is_new) rates_.push_back(cluster.levels[k].bytes_per_second);
        ports_.push_back(found->second);
        int alike = 0;
        for (int other = unit * each; other < std::min((unit + 1) * each, plan.mesh.ranks()); ++other) {
          alike += StandsFor(plan, rank, plan.RankAt(other)) ? 1 : 0;
        }
        alike_.push_back(alike);
      }
    }
  }
  int count() const { return static_cast<int>(rates_.size()); }
  double rate(int port) const { return rates_[port]; }
  int PortOf(int position, int level) const { return ports_[position * levels_ + level]; }
  // The ranks at a port for which this one stands.
  int AlikeAt(int position, int level) const { return alike_[position * levels_ + level]; }

 private:
  static bool StandsFor(const Plan& plan, int rank, int other) {
    for (int axis = 0; axis < static_cast<int>(plan.mesh.axes().size()); ++axis) {
      if (!plan.IsAlike(axis) && plan.mesh.PlaceOf(rank, axis) != plan.mesh.PlaceOf(other, axis)) return false;
    }
    return true;
  }

  const size_t levels_;
  std::vector<double> rates_;
  std::vector<int> ports_, alike_;
};

// Ranks are counted by their position among those with lists.
class Simulator {
 public:
  Simulator(const Plan& plan, const Cluster& cluster, const SimulationOptions& options)
      : plan_(plan),
        cluster_(cluster),
        options_(options),
        numbers_(plan.RanksWithLists()),
        ports_(plan, numbers_, cluster),
        ranks_(numbers_.size()),
        axes_(static_cast<int>(plan.mesh.axes().size())),
        left_(static_cast<size_t>(2 * ports_.count())),
        weight_(left_.size()),
        sent_over_(left_.size(), 0) {
    step_.numbers = numbers_;
    step_.ranks.resize(ranks_.size());
    step_.exposed_over.resize(static_cast<size_t>(axes_), 0);
    sent_by_level_.resize(cluster.levels.size(), 0);
    for (size_t k = 0; k < ranks_.size(); ++k) {
      positions_[numbers_[k]] = static_cast<int>(k);
      ranks_[k].ended.resize(List(static_cast<int>(k)).size(), false);
      ranks_[k].queues.resize(static_cast<size_t>(axes_) + 1);
      ranks_[k].in_collective.resize(static_cast<size_t>(axes_), false);
    }
  }

  SimulatedStep Run() {
    while (true) {
      while (Progress()) {
      }
      const double next = NextEvent();
      if (next == kNever) break;
      Advance(next);
    }
    step_.seconds = now_;
    for (int k = 0; k < count(); ++k) {
      CHECK(static_cast<size_t>(ranks_[k].next) == List(k).size()) << numbers_[k];
      step_.peak_bytes.push_back(PeakBytes(plan_, numbers_[k]));
    }
    const double each = static_cast<double>(plan_.mesh.ranks()) / count();
    for (double bytes : sent_by_level_) step_.bytes.push_back(static_cast<int64_t>(bytes * each + 0.5));
    for (double& seconds : step_.exposed_over) seconds /= count();
    FillBusy();
    return std::move(step_);
  }

 private:
  struct Rank {
    int next = 0;
    double busy_until = 0;
    size_t span = 0;  // of what it is busy with
    double waits_since = -1;
    std::map<int, uint64_t> leaves;       // of its sums, by tensor
    std::vector<std::deque<int>> queues;  // communication that has begun and not ended: by axis, then RECEIVEs
    std::vector<bool> in_collective;      // by axis
    std::vector<bool> ended;
    bool moves = false;  // bytes of messages, while what it computes stands still
  };
  // Flows that begin together, then the next ones.
  struct Operation {
    std::vector<Round> rounds;
    size_t round = 0;
    int under_way = 0;  // flows
    double begin = 0;
    double bytes = 0;
    Kind kind = Kind::kSend;
    std::vector<std::pair<int, int>> actions;  // that end with it: rank and action
    int to = 0;                                // a SEND
    bool arrived = false;                      // likewise: its RECEIVE may end
  };
  struct Flow {
    size_t operation = 0;
    int from = 0, to = 0, level = 0;
    double left = 0, rate = 0, most = 0;
    double begins = 0;  // behind its latency
  };

  int count() const { return static_cast<int>(ranks_.size()); }
  const std::vector<Action>& List(int rank) const { return plan_.lists[numbers_[rank]]; }
  const Action& At(int rank, int number) const { return List(rank)[number]; }

  bool Progress() {
    bool moves = false;
    for (int rank = 0; rank < count(); ++rank) {
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
      EndsWaiting(number, At(number, action.target).axis);
    } else if (action.kind == Kind::kSend) {
      Send(number, action);
    } else if (IsCommunication(action.kind)) {
      rank.queues[action.kind == Kind::kReceive ? axes_ : action.axis].push_back(rank.next);
    } else if (action.kind == Kind::kAccumulate && OneEngine()) {
      return Together(number, {number}, SecondsOfSums(&rank, action));
    } else if ((action.kind == Kind::kOffload || action.kind == Kind::kFetch) && cluster_.device) {
      const double rate = cluster_.device->host_bytes_per_second;
      return Together(number, {number}, rate > 0 ? static_cast<double>(BytesOf(plan_, action)) / rate : 0);
    } else if (action.kind == Kind::kUpdate) {
      return Together(number, All(), plan_.update_seconds);
    } else if (action.kind == Kind::kRun) {
      const PlanSubgraph& subgraph = plan_.subgraphs[action.target];
      if (subgraph.over < 0) return Together(number, {number}, subgraph.seconds);
      return Together(number, GroupOf(number, subgraph.over), subgraph.seconds);
    }
    ++rank.next;
    return true;
  }

  // Leaf number n ends as many pairs of the tree as its number has zeros at the end (TreeSum). Adding reads two tensors
  // and writes one.
  double SecondsOfSums(Rank* rank, const Action& action) const {
    double bytes = 0;
    for (int tensor : action.tensors) {
      const int additions = std::countr_zero(++rank->leaves[tensor]);
      bytes += 3.0 * additions * static_cast<double>(plan_.tensors[tensor].type.num_bytes());
    }
    return bytes / (cluster_.device->bytes_per_second * cluster_.device->efficiency.at("memory"));
  }

  bool OneEngine() const { return cluster_.device && cluster_.device->one_engine; }

  bool Waits(Rank* rank) const {
    if (rank->waits_since < 0) rank->waits_since = now_;
    return false;
  }
  // `axis`: of the collective that was waited for; -1: something else was.
  void EndsWaiting(int number, int axis) {
    const double since = std::exchange(ranks_[number].waits_since, -1);
    if (since < 0) return;
    (axis >= 0 ? step_.ranks[number].exposed : step_.ranks[number].bubble) += now_ - since;
    if (axis >= 0) step_.exposed_over[axis] += now_ - since;
  }

  std::vector<int> All() const {
    std::vector<int> all;
    for (int rank = 0; rank < count(); ++rank) all.push_back(rank);
    return all;
  }
  std::vector<int> GroupOf(int rank, int axis) const {
    std::vector<int> group = plan_.GroupWithLists(numbers_[rank], axis);
    for (int& other : group) other = positions_.at(other);
    return group;
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
      EndsWaiting(other, -1);
      Rank& rank = ranks_[other];
      rank.busy_until = now_ + seconds;
      step_.ranks[other].computing += seconds;
      rank.span = step_.spans.size();
      Note(other, rank.next++, now_, now_ + seconds);
    }
    return true;
  }

  void Note(int rank, int action, double begin, double end) {
    if (options_.spans) step_.spans.push_back({numbers_[rank], action, begin, end});
  }

  // The number of an operation, of one that is over where there is any.
  size_t NewOperation(Operation operation) {
    operation.begin = now_;
    if (over_.empty()) {
      operations_.push_back(std::move(operation));
      return operations_.size() - 1;
    }
    const size_t number = over_.back();
    over_.pop_back();
    operations_[number] = std::move(operation);
    return number;
  }

  void Send(int number, const Action& action) {
    const int to = positions_.at(action.target);
    const int level = cluster_.LevelOf(plan_.DeviceOf(numbers_[number]), plan_.DeviceOf(action.target));
    const auto bytes = static_cast<double>(BytesOf(plan_, action));
    Operation operation{.bytes = bytes, .to = to};
    operation.rounds = {{cluster_.levels[level].seconds, std::vector<double>(cluster_.levels.size(), 0)}};
    operation.rounds[0].bytes[level] = bytes;
    operation.actions = {{number, ranks_[number].next}};
    sent_by_level_[level] += bytes;
    const size_t operation_number = NewOperation(std::move(operation));
    sent_[{number, to}].push_back(operation_number);
    StartRound(operation_number);
  }

  // Communication of a rank goes on, if it can.
  bool Communicate(int number) {
    if (Receive(number)) return true;
    for (int axis = 0; axis < axes_; ++axis) {
      if (Collect(number, axis)) return true;
    }
    return false;
  }

  bool Receive(int number) {
    std::deque<int>& queue = ranks_[number].queues[axes_];
    if (queue.empty()) return false;
    const int at = queue.front();
    std::deque<size_t>& messages = sent_[{positions_.at(At(number, at).target), number}];
    if (messages.empty() || !operations_[messages.front()].arrived) return false;
    over_.push_back(messages.front());
    messages.pop_front();
    ranks_[number].ended[at] = true;
    queue.pop_front();
    return true;
  }

  bool Collect(int number, int axis) {
    const Rank& rank = ranks_[number];
    if (rank.queues[axis].empty() || rank.in_collective[axis]) return false;
    const std::vector<int> group = GroupOf(number, axis);
    Operation operation;
    for (int other : group) {
      const std::deque<int>& queue = ranks_[other].queues[axis];
      if (queue.empty()) return false;
      operation.actions.emplace_back(other, queue.front());
    }
    for (int other : group) ranks_[other].in_collective[axis] = true;
    const Action& action = At(number, rank.queues[axis].front());
    operation.kind = action.kind;
    operation.bytes = static_cast<double>(BytesOf(plan_, action));
    const GroupLinks& links = LinksOfGroup(number, axis);
    operation.rounds = RoundsOf(action.kind, links, operation.bytes, options_.collectives, cluster_);
    const std::vector<double> sent = BytesByLevel(action.kind, links, operation.bytes, options_.collectives);
    for (int other : group) {
      if (action.givers > 0 && plan_.mesh.PlaceOf(numbers_[other], axis) >= action.givers) continue;
      for (size_t k = 0; k < sent.size(); ++k) sent_by_level_[k] += sent[k];
    }
    StartRound(NewOperation(std::move(operation)));
    return true;
  }

  const GroupLinks& LinksOfGroup(int number, int axis) {
    const auto [found, is_new] = links_.try_emplace({number, axis});
    if (is_new) {
      std::vector<int> devices = plan_.mesh.GroupOf(numbers_[number], axis);
      for (int& device : devices) device = plan_.DeviceOf(device);
      found->second = LinksOf(devices, plan_.DeviceOf(numbers_[number]), cluster_);
    }
    return found->second;
  }

  void StartRound(size_t number) {
    Operation& operation = operations_[number];
    if (operation.round == operation.rounds.size()) return End(number);
    const Round& round = operation.rounds[operation.round++];
    const bool sends = operation.kind == Kind::kSend;
    for (size_t k = 0; k < round.bytes.size(); ++k) {
      if (round.bytes[k] == 0) continue;
      const double most = cluster_.levels[k].RateOf(RateName(operation.kind), operation.bytes);
      for (const auto& [rank, action] : operation.actions) {
        flows_.push_back({number, rank, sends ? operation.to : rank, static_cast<int>(k), round.bytes[k], 0, most,
                          now_ + round.seconds});
        ++operation.under_way;
      }
    }
    if (operation.under_way == 0) StartRound(number);
  }

  void End(size_t number) {
    Operation& operation = operations_[number];
    operation.arrived = true;
    for (const auto& [rank, action] : operation.actions) {
      ranks_[rank].ended[action] = true;
      Note(rank, action, operation.begin, now_);
      if (operation.kind == Kind::kSend) continue;
      const int axis = At(rank, action).axis;
      ranks_[rank].queues[axis].pop_front();
      ranks_[rank].in_collective[axis] = false;
    }
    if (operation.kind != Kind::kSend) over_.push_back(number);
  }

  // Positions in left_ and weight_ of the ports that a flow leaves and reaches, and the flows that it stands for there.
  struct Use {
    int port = 0, times = 0;
  };
  std::pair<Use, Use> UsesOf(const Flow& flow) const {
    return {{2 * ports_.PortOf(flow.from, flow.level), ports_.AlikeAt(flow.from, flow.level)},
            {2 * ports_.PortOf(flow.to, flow.level) + 1, ports_.AlikeAt(flow.to, flow.level)}};
  }

  // Shares the ports: the port that gives its flows the least is full first.
  void SetRates() {
    open_.clear();
    for (Flow& flow : flows_) {
      flow.rate = 0;
      if (flow.begins > now_) continue;
      open_.push_back(&flow);
      const auto uses = UsesOf(flow);
      for (const Use& use : {uses.first, uses.second}) {
        left_[use.port] = ports_.rate(use.port / 2);
        weight_[use.port] = 0;
      }
    }
    for (const Flow* flow : open_) {
      const auto uses = UsesOf(*flow);
      for (const Use& use : {uses.first, uses.second}) weight_[use.port] += use.times;
    }
    while (!open_.empty()) {
      const auto share = [&](const Flow& flow) {
        const auto [from, to] = UsesOf(flow);
        return std::min({left_[from.port] / weight_[from.port], left_[to.port] / weight_[to.port], flow.most});
      };
      double least = kNever;
      for (const Flow* flow : open_) least = std::min(least, share(*flow));
      full_.clear();
      std::erase_if(open_, [&](Flow* flow) {
        if (share(*flow) > least * (1 + 1e-12)) return false;
        full_.push_back(flow);
        return true;
      });
      for (Flow* flow : full_) {
        flow->rate = least;
        const auto uses = UsesOf(*flow);
        for (const Use& use : {uses.first, uses.second}) {
          left_[use.port] = std::max(0.0, left_[use.port] - least * use.times);
          weight_[use.port] -= use.times;
        }
      }
    }
  }

  double NextEvent() {
    SetRates();
    SetMoving();
    double next = kNever;
    for (const Rank& rank : ranks_) {
      if (rank.busy_until > now_ && !rank.moves) next = std::min(next, rank.busy_until);
    }
    for (const Flow& flow : flows_) {
      next = std::min(next, flow.begins > now_ ? flow.begins : now_ + std::max(flow.left, 0.0) / flow.rate);
    }
    return next;
  }

  void SetMoving() {
    if (!OneEngine()) return;
    for (Rank& rank : ranks_) rank.moves = false;
    for (const Flow& flow : flows_) {
      if (flow.begins > now_) continue;
      ranks_[flow.from].moves = ranks_[flow.to].moves = true;
    }
  }

  // Computations of a rank end later by the time in which it moves bytes.
  void Postpone(double seconds) {
    for (int number = 0; number < count(); ++number) {
      Rank& rank = ranks_[number];
      if (!rank.moves || rank.busy_until <= now_) continue;
      rank.busy_until += seconds;
      step_.ranks[number].exposed += seconds;
      if (options_.spans) step_.spans[rank.span].end += seconds;
    }
  }

  void Advance(double next) {
    Postpone(next - now_);
    std::vector<size_t> over;
    std::erase_if(flows_, [&](Flow& flow) {
      if (flow.begins > now_) return false;
      const bool done = now_ + std::max(flow.left, 0.0) / flow.rate <= next;  // as NextEvent says
      flow.left -= flow.rate * (next - now_);
      const auto uses = UsesOf(flow);
      for (const Use& use : {uses.first, uses.second}) sent_over_[use.port] += flow.rate * use.times * (next - now_);
      if (done) over.push_back(flow.operation);
      return done;
    });
    now_ = next;
    for (size_t number : over) {
      if (--operations_[number].under_way == 0) StartRound(number);
    }
  }

  void FillBusy() {
    step_.busy.assign(cluster_.levels.size(), 0);
    for (int rank = 0; rank < count() && now_ > 0; ++rank) {
      for (int k = 0; k < static_cast<int>(cluster_.levels.size()); ++k) {
        const int port = ports_.PortOf(rank, k);
        const double sent = std::max(sent_over_[2 * port], sent_over_[2 * port + 1]);
        step_.busy[k] = std::max(step_.busy[k], sent / ports_.rate(port) / now_);
      }
    }
  }

  const Plan& plan_;
  const Cluster& cluster_;
  const SimulationOptions& options_;
  const std::vector<int> numbers_;
  const Ports ports_;
  double now_ = 0;
  std::vector<Rank> ranks_;
  const int axes_;
  absl::flat_hash_map<int, int> positions_;                 // by number of a rank
  std::map<std::pair<int, int>, GroupLinks> links_;         // by rank and axis
  std::map<std::pair<int, int>, std::deque<size_t>> sent_;  // from, to: operations that were not received
  std::deque<Operation> operations_;
  std::vector<size_t> over_;
  std::vector<Flow> flows_;
  std::vector<Flow*> open_, full_;
  std::vector<double> left_, weight_, sent_over_;  // by port, as it sends and as it receives
  std::vector<double> sent_by_level_;
  SimulatedStep step_;
};

double Share(const SimulatedStep& step, double RankSeconds::*of) {
  double all = 0;
  for (const RankSeconds& rank : step.ranks) all += rank.*of;
  return step.seconds == 0 ? 0 : all / step.seconds / static_cast<double>(step.ranks.size());
}

}  // namespace

double SimulatedStep::bubble() const { return Share(*this, &RankSeconds::bubble); }
double SimulatedStep::computing() const { return Share(*this, &RankSeconds::computing); }
double SimulatedStep::exposed() const { return Share(*this, &RankSeconds::exposed); }

bool FitsEvenly(const Plan& plan, const Cluster& cluster) {
  const auto axes = static_cast<int>(plan.mesh.axes().size());
  int step = 1;
  for (int k = axes; k-- > 0;) {
    const int axis = plan.order.empty() ? k : plan.order[k];
    const int extent = step * plan.mesh.axes()[axis].size;
    const int block = k == 0 ? step : extent;  // groups of the outermost axis need not fill what they use
    for (const LinkLevel& level : cluster.levels) {
      if (!plan.IsAlike(axis) || level.devices >= plan.mesh.ranks()) continue;
      if (level.devices % block != 0 && block % level.devices != 0) return false;
    }
    step = extent;
  }
  return true;
}

absl::StatusOr<SimulatedStep> Simulate(const Plan& plan, const Cluster& cluster, const SimulationOptions& options) {
  RETURN_IF_ERROR(CheckPlan(plan));
  if (plan.mesh.ranks() > cluster.devices()) {
    return absl::InvalidArgumentError(absl::StrCat("the plan: found ", plan.mesh.ranks(), " ranks, expected at most ",
                                                   cluster.devices(), ", the devices of ", cluster.name));
  }
  if (!FitsEvenly(plan, cluster)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the plan: found ranks that are alike, expected groups that divide the devices of the levels of ",
                     cluster.name, " or are multiples of them"));
  }
  SimulatedStep step = Simulator(plan, cluster, options).Run();
  std::stable_sort(step.spans.begin(), step.spans.end(), [](const Span& a, const Span& b) { return a.end < b.end; });
  return step;
}

std::string ChromeTrace(const Plan& plan, const SimulatedStep& step) {
  std::vector<TraceSpan> spans;
  for (const Span& span : step.spans) {
    const Action& action = plan.lists[span.rank][span.action];
    spans.push_back({PrintAction(plan, action),
                     span.rank,
                     IsCommunication(action.kind) ? 1 : 0,
                     span.begin,
                     span.end - span.begin,
                     {},
                     {}});
  }
  return ChromeTraceText(spans);
}

}  // namespace rewright::distributed
