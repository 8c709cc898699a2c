#include "runtime/distributed/plan_cost.h"

#include <algorithm>
#include <bit>
#include <map>
#include <set>
#include <utility>

#include "runtime/comm/collectives.h"
#include "runtime/distributed/joined_sums.h"

namespace rewright::distributed {
namespace {

using Kind = Action::Kind;

bool IsGather(const Plan& plan, const Action& action) {
  return action.kind == Kind::kAllGather && plan.tensors[action.tensors[0]].kind == PlanTensor::Kind::kWeight;
}

// Adds what a rank sends for an all-reduce of tensors of these types, by place in its group (all_reduce.h).
void AddAllReduce(const std::vector<TensorType>& types, int place, std::vector<int64_t>* to) {
  const auto size = static_cast<int64_t>(to->size());
  for (const TensorType& vector : JoinedTypes(types)) {
    const auto element = static_cast<int64_t>(DTypeSize(vector.dtype));
    const int64_t most = kAllReduceBytes / element;
    for (int64_t at = 0; at < vector.num_elements(); at += most) {
      const int64_t count = std::min(most, vector.num_elements() - at);
      const auto part = [&](int64_t of) { return count * (of + 1) / size - count * of / size; };
      for (int64_t other = 0; other < size; ++other) {
        if (other != place) (*to)[other] += (part(other) + part(place)) * element;
      }
    }
  }
}

std::vector<Lifetime> LifetimesOf(const std::vector<TensorLife>& lives) {
  std::vector<Lifetime> lifetimes;
  for (const TensorLife& life : lives) lifetimes.push_back({life.bytes, life.first, life.last});
  return lifetimes;
}

}  // namespace

std::vector<int64_t> BytesSent(const Plan& plan, int rank, const Action& action) {
  std::vector<int64_t> bytes(plan.lists.size(), 0);
  if (action.kind == Kind::kSend) bytes[action.target] += plan.tensors[action.tensors[0]].type.num_bytes();
  if (!IsCollective(action.kind)) return bytes;
  const std::vector<int> group = plan.mesh.GroupOf(rank, action.axis);
  const auto size = static_cast<int>(group.size());
  const int place = plan.mesh.PlaceOf(rank, action.axis);
  std::vector<int64_t> to(group.size(), 0);
  std::vector<TensorType> whole;
  for (int tensor : action.tensors) {
    const PlanTensor& of = plan.tensors[tensor];
    if (of.kind == PlanTensor::Kind::kValue && action.kind != Kind::kAllReduce) {
      const TensorType flat{DType::kUInt8, {of.type.num_bytes()}};
      for (int other = 0; other < size; ++other) {
        const int part = action.kind == Kind::kAllGather ? place : other;
        if (other != place) to[other] += ShardType(flat, -1, part, size).num_bytes();
      }
      continue;
    }
    const bool flat = of.kind == PlanTensor::Kind::kSum && action.kind == Kind::kAllGather;
    const auto shard = [&](int other) { return ShardType(of.type, flat ? -1 : of.cut, other, size).num_bytes(); };
    if (action.kind == Kind::kAllReduce) whole.push_back(of.type);
    for (int other = 0; other < size; ++other) {
      if (other == place) continue;
      if (action.kind == Kind::kAllGather) to[other] += shard(place);
      if (action.kind == Kind::kReduceScatter && (action.givers == 0 || place < action.givers))
        to[other] += shard(other);
    }
  }
  AddAllReduce(whole, place, &to);
  for (size_t k = 0; k < group.size(); ++k) bytes[group[k]] += to[k];
  return bytes;
}

std::vector<int64_t> BytesSent(const Plan& plan, int rank) {
  std::vector<int64_t> bytes(plan.lists.size(), 0);
  for (const Action& action : plan.lists[rank]) {
    const std::vector<int64_t> of = BytesSent(plan, rank, action);
    for (size_t k = 0; k < of.size(); ++k) bytes[k] += of[k];
  }
  return bytes;
}

std::vector<TensorLife> LivesOf(const Plan& plan, int rank) {
  const std::vector<Action>& list = plan.lists[rank];
  const std::vector<int> ends = EndsOf(list);
  std::vector<TensorLife> lives;
  std::map<std::pair<int, int64_t>, size_t> open;  // by tensor and micro-batch
  const auto begin = [&](int tensor, int64_t micro_batch, int at, int end) {
    open[{tensor, micro_batch}] = lives.size();
    lives.push_back({tensor, micro_batch, at, end, plan.tensors[tensor].type.num_bytes()});
  };
  const auto use = [&](int tensor, int64_t micro_batch, int end) {
    const bool of_step = plan.tensors[tensor].kind == PlanTensor::Kind::kWeight;
    const auto found = open.find({tensor, of_step ? -1 : micro_batch});
    if (found != open.end()) {
      lives[found->second].last = std::max(lives[found->second].last, end);
    } else if (plan.tensors[tensor].kind == PlanTensor::Kind::kInput) {
      begin(tensor, micro_batch, end, end);
    }
  };
  std::map<std::pair<int, int>, size_t> gathered;  // by tensor and ALL_GATHER, a life that is not open yet
  for (int i = 0; i < static_cast<int>(list.size()); ++i) {
    const Action& action = list[i];
    if (action.kind == Kind::kRun) {
      const PlanSubgraph& subgraph = plan.subgraphs[action.target];
      for (int tensor : subgraph.reads) use(tensor, action.micro_batch, i);
      for (int tensor : subgraph.makes) begin(tensor, action.micro_batch, i, i);
    }
    if (action.kind == Kind::kWait && IsGather(plan, list[action.target])) {
      for (int tensor : list[action.target].tensors) open[{tensor, -1}] = gathered.at({tensor, action.target});
    }
    for (int tensor : action.tensors) {
      const PlanTensor& of = plan.tensors[tensor];
      if (of.kind == PlanTensor::Kind::kSum) {
        const int place = action.axis < 0 ? 0 : plan.mesh.PlaceOf(rank, action.axis);
        if (action.kind == Kind::kAccumulate) use(of.leaf, action.micro_batch, i);
        if (action.givers > place) use(of.leaf, action.micro_batch + place, ends[i]);
        continue;
      }
      if (of.kind == PlanTensor::Kind::kValue && IsCollective(action.kind)) {
        use(tensor, action.micro_batch, ends[i]);
        continue;
      }
      switch (action.kind) {
        case Kind::kSend:
        case Kind::kOffload: use(tensor, action.micro_batch, ends[i]); break;
        case Kind::kReceive:
        case Kind::kFetch: begin(tensor, action.micro_batch, i, ends[i]); break;
        case Kind::kAllGather:
          gathered[{tensor, i}] = lives.size();
          lives.push_back({tensor, -1, i, ends[i], of.type.num_bytes()});
          break;
        default: break;
      }
    }
  }
  return lives;
}

std::vector<int64_t> RunBytesOverTime(const Plan& plan, int rank) {
  const std::vector<Action>& list = plan.lists[rank];
  std::vector<Lifetime> lifetimes = LifetimesOf(LivesOf(plan, rank));
  const auto end = static_cast<int>(list.size()) - 1;
  std::set<int> run;
  for (int i = 0; i <= end; ++i) {
    if (list[i].kind != Kind::kRun) continue;
    const PlanSubgraph& subgraph = plan.subgraphs[list[i].target];
    lifetimes.push_back({subgraph.scratch_bytes, i, i});
    if (run.insert(list[i].target).second) lifetimes.push_back({subgraph.own_bytes, 0, end});
  }
  std::vector<int64_t> bytes = LiveBytes(lifetimes);
  bytes.resize(list.size(), 0);
  return bytes;
}

std::vector<int64_t> SumBytesOverTime(const Plan& plan, int rank) {
  struct Partial {
    int64_t leaves = 0, bytes = 0;
  };
  std::map<int, Partial> sums;
  std::vector<int64_t> over_time;
  int64_t all = 0;
  for (const Action& action : plan.lists[rank]) {
    for (int tensor : action.tensors) {
      const PlanTensor& of = plan.tensors[tensor];
      if (of.kind != PlanTensor::Kind::kSum || action.kind == Kind::kUpdate) continue;
      Partial& sum = sums[tensor];
      all -= sum.bytes;
      sum.bytes = of.type.num_bytes();
      if (action.givers > 0) {
        sum.bytes = ShardType(of.type, of.cut, plan.mesh.PlaceOf(rank, 0), plan.mesh.replicas()).num_bytes();
      }
      if (action.kind == Kind::kAccumulate || action.givers > 0) {  // one tensor for each bit of their number (TreeSum)
        sum.leaves += std::max<int64_t>(1, action.givers);
        sum.bytes *= std::popcount(static_cast<uint64_t>(sum.leaves));
      }
      all += sum.bytes;
    }
    over_time.push_back(all);
  }
  return over_time;
}

int64_t PeakBytes(const Plan& plan, int rank) {
  const std::vector<int64_t> run = RunBytesOverTime(plan, rank), sums = SumBytesOverTime(plan, rank);
  int64_t most = 0;
  for (size_t i = 0; i < run.size(); ++i) most = std::max(most, run[i] + sums[i]);
  return most;
}

int64_t PeakLeafBytes(const Plan& plan, int rank) {
  std::set<int> leaves;
  for (int sum : plan.TensorsOf(PlanTensor::Kind::kSum)) leaves.insert(plan.tensors[sum].leaf);
  std::vector<TensorLife> lives = LivesOf(plan, rank);
  std::erase_if(lives, [&](const TensorLife& life) { return !leaves.contains(life.tensor); });
  return PeakLiveBytes(LifetimesOf(lives));
}

std::vector<Use> UsesOneByOne(const Plan& plan) {
  std::vector<Use> uses(plan.tensors.size());
  for (size_t p = 0; p < plan.subgraphs.size(); ++p) {
    for (int tensor : plan.subgraphs[p].reads) uses[tensor].Add(static_cast<int>(p));
    for (int tensor : plan.subgraphs[p].makes) uses[tensor].Add(static_cast<int>(p));
  }
  for (size_t k = 0; k < uses.size(); ++k) {
    if (plan.tensors[k].kind != PlanTensor::Kind::kValue) uses[k].last = -1;
    if (plan.tensors[k].leaf >= 0) uses[plan.tensors[k].leaf].last = -1;
  }
  return uses;
}

namespace {

// Returns true if lives of gathers overlap in memory where these have their places.
bool Collide(const std::vector<TensorLife>& lives, const std::vector<int64_t>& offsets) {
  std::vector<size_t> live;
  for (size_t k = 0; k < lives.size(); ++k) {  // in the order of their beginning
    std::erase_if(live, [&](size_t other) { return lives[other].last < lives[k].first; });
    for (size_t other : live) {
      const bool apart =
          offsets[other] + lives[other].bytes <= offsets[k] || offsets[k] + lives[k].bytes <= offsets[other];
      if (!apart) return true;
    }
    live.push_back(k);
  }
  return false;
}

}  // namespace

GatherPlacement PlaceGathers(const Plan& plan, int rank) {
  const std::vector<Action>& list = plan.lists[rank];
  std::vector<TensorLife> lives = LivesOf(plan, rank);
  std::erase_if(lives, [&](const TensorLife& life) { return !IsGather(plan, list[life.first]); });
  // The lives of an ALL_GATHER are named by it and by the subgraph that runs next behind its WAIT.
  int next = -1;
  const std::vector<int> ends = EndsOf(list);
  std::vector<int> behind(list.size() + 1, -1);
  for (int i = static_cast<int>(list.size()) - 1; i >= 0; --i) {
    if (list[i].kind == Kind::kRun) next = list[i].target;
    behind[i] = next;
  }
  std::map<std::pair<std::vector<int>, int>, int> firsts;  // the first ALL_GATHER of that name
  std::vector<int> first_of(list.size(), -1);
  for (size_t i = 0; i < list.size(); ++i) {
    if (!IsGather(plan, list[i])) continue;
    first_of[i] = firsts.try_emplace({list[i].tensors, behind[ends[i]]}, static_cast<int>(i)).first->second;
  }
  const auto placed = [&](const auto& is_placed) {
    std::vector<Lifetime> lifetimes;
    for (const TensorLife& life : lives) {
      if (is_placed(life)) lifetimes.push_back({life.bytes, life.first, life.last});
    }
    return PlaceLifetimes(lifetimes);
  };
  const auto is_first = [&](const TensorLife& life) { return first_of[life.first] == life.first; };
  Placement placement = placed(is_first);
  std::vector<int64_t> offsets;
  std::map<std::pair<int, int>, int64_t> of_first;  // by ALL_GATHER and tensor
  size_t taken = 0;
  for (const TensorLife& life : lives) {
    if (is_first(life)) of_first[{life.first, life.tensor}] = placement.offsets[taken++];
    offsets.push_back(of_first.at({first_of[life.first], life.tensor}));
  }
  if (Collide(lives, offsets)) {
    placement = placed([](const TensorLife&) { return true; });
    offsets = placement.offsets;
  }
  GatherPlacement made{std::vector<std::vector<int64_t>>(list.size()), placement.arena_bytes};
  std::map<std::pair<int, int>, int64_t> all;
  for (size_t k = 0; k < lives.size(); ++k) all[{lives[k].first, lives[k].tensor}] = offsets[k];
  for (size_t i = 0; i < list.size(); ++i) {
    if (!IsGather(plan, list[i])) continue;
    for (int tensor : list[i].tensors) made.offsets[i].push_back(all.at({static_cast<int>(i), tensor}));
  }
  return made;
}

int MostInFlight(const Plan& plan, int rank) {
  int now = 0, most = 0;
  for (const Action& action : plan.lists[rank]) {
    if (action.kind != Kind::kRun) continue;
    now += action.target < static_cast<int>(plan.subgraphs.size()) / 2 ? 1 : -1;
    most = std::max(most, now);
  }
  return most;
}

Plan MeanOf(const std::vector<Plan>& measured) {
  Plan mean = measured[0];
  const auto of_known = [&](const auto& seconds_of) {
    double sum = 0;
    int known = 0;
    for (const Plan& plan : measured) {
      const double seconds = seconds_of(plan);
      sum += seconds;
      known += seconds > 0 ? 1 : 0;
    }
    return known == 0 ? 0 : sum / known;
  };
  mean.update_seconds = of_known([](const Plan& plan) { return plan.update_seconds; });
  for (size_t p = 0; p < mean.subgraphs.size(); ++p) {
    PlanSubgraph& subgraph = mean.subgraphs[p];
    subgraph.seconds = of_known([&](const Plan& plan) { return plan.subgraphs[p].seconds; });
    for (const Plan& plan : measured) {
      subgraph.scratch_bytes = std::max(subgraph.scratch_bytes, plan.subgraphs[p].scratch_bytes);
      subgraph.own_bytes = std::max(subgraph.own_bytes, plan.subgraphs[p].own_bytes);
    }
  }
  return mean;
}

}  // namespace rewright::distributed
