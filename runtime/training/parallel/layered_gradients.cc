#include "runtime/training/parallel/layered_gradients.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "core/tensor/memory.h"
#include "runtime/comm/collectives.h"
#include "runtime/memory_plan.h"
#include "runtime/signature.h"
#include "runtime/training/parallel/layout.h"
#include "runtime/training/step.h"

namespace rewright {
namespace {

// Tensors of fewer bytes are joined before they are summed over ranks: each exchange has a latency.
constexpr int64_t kJoinedBytes = int64_t{1} << 20;

struct LayersOfGraph {
  Layers layers;
  Passes passes;
  std::vector<int> by_position;  // the layer
  // The subgraph in which a node runs; the last one where it is none of the passes.
  int SubgraphOf(NodeId id) const {
    const auto place = passes.nodes.find(id);
    if (place == passes.nodes.end()) return 2 * layers.count - 1;
    return layers.SubgraphOf(place->second.forward, by_position[place->second.position]);
  }
};

LayersOfGraph LayersOf(const Graph& unpacked, const Graph& step, const std::vector<std::string>& updated,
                       const LayeredOptions& options) {
  const std::vector<std::string> weights = StatesOfInputs(step, updated);
  const std::vector<Group> groups = options.groups == nullptr ? std::vector<Group>() : options.groups(unpacked);
  LayersOfGraph made;
  made.passes = PassesOf(unpacked, weights, groups);
  const Passes& passes = made.passes;
  std::vector<int64_t> amounts(static_cast<size_t>(passes.length), 0);
  for (const Output& output : unpacked.outputs()) {
    amounts[passes.nodes.at(output.value.node).position] += unpacked.type(output.value).num_bytes();
  }
  made.by_position = LayersByAmount(passes, amounts, options.bucket_bytes);
  made.layers = CutIntoLayers(unpacked, passes, made.by_position);
  return made;
}

// When tensors that are handed on are used; the first `leaves`, and the sums, lie elsewhere.
std::vector<Use> UsesOf(const Subgraphs& cut, size_t leaves) {
  const std::vector<Subgraphs::Subgraph>& subgraphs = cut.subgraphs;
  std::vector<Use> uses(cut.tensors.size());
  for (int p = 0; p < static_cast<int>(subgraphs.size()); ++p) AddUses(subgraphs[p], p, &uses);
  for (size_t k = 0; k < leaves; ++k) uses[k].last = -1;
  for (int tensor : cut.outputs) uses[tensor].last = -1;
  return uses;
}

// By subgraph, those of these states that it reads, by number.
std::vector<std::vector<size_t>> ReadsOf(const Subgraphs& cut, size_t first_state, const std::vector<bool>& states) {
  std::vector<std::vector<size_t>> reads(cut.subgraphs.size());
  for (size_t p = 0; p < reads.size(); ++p) {
    for (int tensor : cut.subgraphs[p].inputs) {
      const size_t state = static_cast<size_t>(tensor) - first_state;
      if (static_cast<size_t>(tensor) >= first_state && state < states.size() && states[state]) {
        reads[p].push_back(state);
      }
    }
  }
  return reads;
}

// Bytes of memory for weights while they are gathered, less the bytes of their blocks that other ranks keep.
int64_t GatheredBytes(const Graph& unpacked, const Graph& step, const Subgraphs& cut, int ranks) {
  std::set<std::string> names;
  for (const auto& [name, axis] : ZeroAxes(step, ranks, 3)) names.insert(name);
  std::vector<bool> in_blocks;
  int64_t bytes = 0;
  for (Value state : unpacked.states()) {
    in_blocks.push_back(names.contains(unpacked.node(state.node).name));
    if (in_blocks.back()) bytes -= unpacked.type(state).num_bytes() / ranks * (ranks - 1);
  }
  const size_t first_state = unpacked.inputs().size();
  const std::vector<std::vector<size_t>> reads = ReadsOf(cut, first_state, in_blocks);
  for (size_t parity : {0, 1}) {
    std::vector<Lifetime> lifetimes;
    for (size_t p = parity; p < reads.size(); p += 2) {
      const int at = static_cast<int>(p);
      for (size_t state : reads[p]) lifetimes.push_back({cut.tensors[first_state + state].num_bytes(), at, at});
    }
    bytes += PlaceLifetimes(lifetimes).arena_bytes;
  }
  return bytes;
}

}  // namespace

absl::StatusOr<LayeredPlan> PlanLayers(const Graph& gradients, const Graph& step,
                                       const std::vector<std::string>& updated, const LayeredOptions& options,
                                       int ranks, const SubgraphBytesOf& bytes_of) {
  ASSIGN_OR_RETURN(const Graph unpacked, Unpacked(gradients, step));
  const LayersOfGraph found = LayersOf(unpacked, step, updated, options);
  const Subgraphs& subgraphs = found.layers.subgraphs;
  const std::vector<Use> uses = UsesOf(subgraphs, unpacked.inputs().size() + unpacked.states().size());
  std::vector<Lifetime> lifetimes;
  for (size_t k = 0; k < uses.size(); ++k) {
    if (uses[k].last >= 0) lifetimes.push_back({subgraphs.tensors[k].num_bytes(), uses[k].first, uses[k].last});
  }
  LayeredPlan plan;
  for (int p = 0; p < static_cast<int>(subgraphs.subgraphs.size()); ++p) {
    const Subgraphs::Subgraph& subgraph = subgraphs.subgraphs[p];
    if (subgraph.outputs.empty()) continue;
    ASSIGN_OR_RETURN(const SubgraphBytes bytes, bytes_of(subgraph.graph));
    plan.bytes += bytes.own;
    lifetimes.push_back({bytes.shared, p, p});
  }
  plan.bytes += PlaceLifetimes(lifetimes).arena_bytes;
  if (options.zero == 3) plan.bytes += GatheredBytes(unpacked, step, subgraphs, ranks);
  if (options.groups == nullptr) return plan;
  plan.groups = options.groups(gradients);
  const auto subgraph_of = [&](const Group& group) { return found.SubgraphOf(group.nodes.back()); };
  std::stable_sort(plan.groups.begin(), plan.groups.end(),
                   [&](const Group& a, const Group& b) { return subgraph_of(a) < subgraph_of(b); });
  std::vector<int64_t> live = LiveBytes(lifetimes);
  live.resize(subgraphs.subgraphs.size() + 1, 0);
  for (const Group& group : plan.groups) plan.live.push_back(live[subgraph_of(group)]);
  return plan;
}

LayeredGradients::LayeredGradients(const LayeredOptions& options, Communicator& ranks)
    : options_(options),
      ranks_(ranks),
      leaves_(LeavesOfRanks(options.micro_batches, ranks.size())),
      comm_thread_(ranks) {}

absl::StatusOr<std::unique_ptr<LayeredGradients>> LayeredGradients::Create(const Graph& gradients, const Graph& step,
                                                                           const std::vector<std::string>& updated,
                                                                           const LayeredOptions& options,
                                                                           Communicator& ranks, GraphRunner& runner,
                                                                           RankExecutable* update) {
  std::unique_ptr<LayeredGradients> made(new LayeredGradients(options, ranks));
  RETURN_IF_ERROR(made->Init(gradients, step, updated, runner, update));
  return made;
}

absl::Status LayeredGradients::Init(const Graph& gradients, const Graph& step, const std::vector<std::string>& updated,
                                    GraphRunner& runner, RankExecutable* update) {
  sums_ = step.types(step.inputs());
  axes_ = options_.block_axes;
  axes_.resize(sums_.size(), -1);
  update_ = update;
  ASSIGN_OR_RETURN(const Graph unpacked, Unpacked(gradients, step));
  layers_ = LayersOf(unpacked, step, updated, options_).layers;
  buckets_.resize(layers_.subgraphs.subgraphs.size());
  for (size_t k = 0; k < sums_.size(); ++k)
    buckets_[layers_.SubgraphOf(/*forward=*/false, layers_.homes[k])].push_back(k);
  for (const Subgraphs::Subgraph& subgraph : layers_.subgraphs.subgraphs) {
    executables_.emplace_back();
    if (subgraph.outputs.empty()) continue;
    ASSIGN_OR_RETURN(executables_.back(), runner.Prepare(subgraph.graph));
  }
  first_state_ = unpacked.inputs().size();
  for (Value state : unpacked.states()) {
    Weight weight{unpacked.node(state.node).name};
    weight.updated = std::find(updated.begin(), updated.end(), weight.name) != updated.end();
    weight.local = *unpacked.arena()->Elements(state.node);
    if (weight.updated && update != nullptr) {
      ASSIGN_OR_RETURN(const Shard local, update->LocalState(weight.name));
      weight.axis = local.axis;
      weight.local = local.tensor;
    }
    weights_.push_back(std::move(weight));
  }
  return PlanTensors();
}

absl::Status LayeredGradients::PlanTensors() {
  const std::vector<Subgraphs::Subgraph>& subgraphs = layers_.subgraphs.subgraphs;
  tensors_.resize(layers_.subgraphs.tensors.size());
  const std::vector<Use> uses = UsesOf(layers_.subgraphs, first_state_ + weights_.size());
  std::vector<SubgraphRun> runs;
  for (size_t p = 0; p < executables_.size(); ++p) runs.push_back({executables_[p].get(), static_cast<int>(p)});
  ASSIGN_OR_RETURN(memory_, SharedMemory::Place(layers_.subgraphs.tensors, uses, runs, &tensors_));
  for (size_t k = 0; k < weights_.size(); ++k) {
    const bool gathered = weights_[k].axis >= 0 && options_.zero < 3;
    tensors_[first_state_ + k] = gathered ? Tensor(layers_.subgraphs.tensors[first_state_ + k]) : weights_[k].local;
  }

  // Weights that are gathered for subgraphs of even and of odd number share one memory each.
  std::vector<bool> in_blocks;
  for (const Weight& weight : weights_) in_blocks.push_back(weight.axis >= 0 && options_.zero == 3);
  gathers_ = ReadsOf(layers_.subgraphs, first_state_, in_blocks);
  gathered_views_.resize(subgraphs.size());
  for (size_t parity : {0, 1}) {
    std::vector<TensorType> types;
    std::vector<Use> times;
    for (size_t p = parity; p < subgraphs.size(); p += 2) {
      for (size_t weight : gathers_[p]) {
        types.push_back(layers_.subgraphs.tensors[first_state_ + weight]);
        times.push_back({static_cast<int>(p), static_cast<int>(p)});
      }
    }
    std::vector<Tensor> views(types.size());
    ASSIGN_OR_RETURN(gathered_[parity], SharedMemory::Place(types, times, {}, &views));
    size_t next = 0;
    for (size_t p = parity; p < subgraphs.size(); p += 2) {
      for (size_t k = 0; k < gathers_[p].size(); ++k) gathered_views_[p].push_back(views[next++]);
    }
  }
  return absl::OkStatus();
}

int64_t LayeredGradients::gather_bytes_sent() const {
  int64_t bytes = 0;
  for (const auto& weights : gathers_) {
    for (size_t weight : weights) bytes += weights_[weight].local.num_bytes() * (ranks_.size() - 1);
  }
  return bytes;
}

int64_t LayeredGradients::BytesSent(const Executable&) const {
  const int rank = ranks_.rank(), size = ranks_.size();
  const int64_t rounds = (options_.micro_batches + size - 1) / size;
  int64_t bytes = options_.zero == 3 ? rounds * gather_bytes_sent() : 0;
  for (const Weight& weight : weights_) {
    if (options_.zero < 3 && weight.axis >= 0) bytes += weight.local.num_bytes() * (size - 1);
  }
  if (options_.zero < 2) return bytes + BytesOfSumOverRanks(sums_, axes_, rank, size);
  const auto own = static_cast<int64_t>(MicroBatchesOf(options_.zero, options_.micro_batches, ranks_).size());
  return bytes + BytesOfTurns(sums_, axes_, rank, size, own);
}

absl::Status LayeredGradients::ReadWeights(Executable& from) {
  std::vector<GatheredTensor> joined;
  for (size_t k = 0; k < weights_.size(); ++k) {
    Weight& weight = weights_[k];
    Tensor& whole = tensors_[first_state_ + k];
    if (!weight.updated) continue;
    if (update_ == nullptr) {
      ASSIGN_OR_RETURN(whole, from.ViewState(weight.name));
      continue;
    }
    ASSIGN_OR_RETURN(const Shard local, update_->LocalState(weight.name));
    weight.local = local.tensor;
    if (weight.axis >= 0 && options_.zero < 3) {
      joined.push_back({weight.local, weight.axis, whole});
    } else {
      whole = weight.local;  // with zero=3 gathered before it is read
    }
  }
  return AllGather(ranks_, "the weights of a step", joined);
}

absl::Status LayeredGradients::RunSubgraph(size_t number) {
  return rewright::RunSubgraph(executables_[number].get(), layers_.subgraphs.subgraphs[number],
                               [&](int tensor) -> Tensor& {
                                 Tensor& there = tensors_[tensor];
                                 if (there.data() == nullptr)
                                   there = ranks_.memory().Take(layers_.subgraphs.tensors[tensor]);
                                 return there;
                               });
}

absl::StatusOr<std::vector<Tensor>> LayeredGradients::Sums(const std::string& what, Prefetcher& batches) {
  return options_.zero >= 2 ? SumsInTurns(what, batches) : SumsOfOwn(what, batches);
}

// Small ones that all ranks need whole lie one after another then, in a vector for each element type.
void LayeredGradients::StartSum(const std::string& what, const std::vector<size_t>& bucket,
                                std::vector<Tensor>* inputs) {
  if (ranks_.size() == 1) return;
  std::vector<Tensor> vectors, cut;
  std::vector<int> axes;
  std::vector<size_t> whole;
  for (size_t k : bucket) {
    if (axes_[k] < 0) {
      if (sums_[k].num_bytes() >= kJoinedBytes) {
        vectors.push_back((*inputs)[k]);
      } else {
        whole.push_back(k);
      }
    } else {
      cut.push_back((*inputs)[k]);
      axes.push_back(axes_[k]);
    }
  }
  while (!whole.empty()) {
    const DType dtype = sums_[whole[0]].dtype;
    const auto others =
        std::stable_partition(whole.begin(), whole.end(), [&](size_t k) { return sums_[k].dtype == dtype; });
    std::vector<TensorType> types;
    int64_t count = 0;
    for (auto k = whole.begin(); k != others; ++k) {
      types.push_back(sums_[*k]);
      count += types.back().num_elements();
    }
    vectors.push_back(ranks_.memory().Take(TensorType{dtype, {count}}));
    const std::vector<Tensor> views = ViewsOf({vectors.back()}, types);
    for (size_t i = 0; i < views.size(); ++i) {
      Tensor view = views[i];
      Tensor& input = (*inputs)[whole[i]];
      CopyElements(input, &view);
      input = view;
    }
    whole.erase(whole.begin(), others);
  }
  comm_thread_.Start([this, what, vectors, cut, axes]() -> absl::Status {
    for (Tensor vector : vectors) RETURN_IF_ERROR(AllReduce(ranks_, what, leaves_, &vector));
    std::vector<Tensor> blocks = cut;
    std::vector<std::pair<Tensor*, int>> to;
    for (size_t i = 0; i < blocks.size(); ++i) to.emplace_back(&blocks[i], axes[i]);
    return ReduceScatterInPlace(ranks_, what, leaves_, to);
  });
}

absl::StatusOr<std::vector<Tensor>> LayeredGradients::SumsOfOwn(const std::string& what, Prefetcher& batches) {
  const int64_t count = leaves_[ranks_.rank()].count;
  std::vector<TreeSum> sums(sums_.size());
  std::vector<Tensor> inputs(sums_.size());
  for (int64_t i = 0; i < count; ++i) {
    ASSIGN_OR_RETURN(const std::vector<Tensor> batch, batches.Next());
    std::copy(batch.begin(), batch.end(), tensors_.begin());
    for (size_t p = 0; p < executables_.size(); ++p) {
      RETURN_IF_ERROR(RunSubgraph(p));
      for (size_t k : buckets_[p]) sums[k].Add(TakeOutput(layers_.subgraphs, k, &tensors_));
      if (i + 1 < count || buckets_[p].empty()) continue;
      for (size_t k : buckets_[p]) inputs[k] = sums[k].Take();
      StartSum(absl::StrCat(what, ", sum of gradients"), buckets_[p], &inputs);
    }
  }
  RETURN_IF_ERROR(comm_thread_.WaitForAll());
  return inputs;
}

int64_t LayeredGradients::StartGather(const std::string& what, size_t subgraph) {
  if (subgraph >= gathers_.size() || gathers_[subgraph].empty()) return 0;
  return comm_thread_.Start([this, what, subgraph] {
    std::vector<GatheredTensor> joined;
    for (size_t k = 0; k < gathers_[subgraph].size(); ++k) {
      const Weight& weight = weights_[gathers_[subgraph][k]];
      joined.push_back({weight.local, weight.axis, gathered_views_[subgraph][k]});
    }
    return AllGather(ranks_, absl::StrCat(what, ", weights of layer ", layers_.LayerOf(static_cast<int>(subgraph))),
                     joined);
  });
}

absl::StatusOr<std::vector<Tensor>> LayeredGradients::SumsInTurns(const std::string& what, Prefetcher& batches) {
  const auto sums = std::make_shared<std::vector<TreeSum>>(sums_.size());
  int64_t last_sum = 0, bytes_on_their_way = 0;
  for (int64_t first = 0; first < options_.micro_batches; first += ranks_.size()) {
    const int givers = static_cast<int>(std::min<int64_t>(ranks_.size(), options_.micro_batches - first));
    const bool gives = ranks_.rank() < givers;
    if (gives) {
      ASSIGN_OR_RETURN(const std::vector<Tensor> batch, batches.Next());
      std::copy(batch.begin(), batch.end(), tensors_.begin());
    }
    int64_t gathered = StartGather(what, 0);
    for (size_t p = 0; p < executables_.size(); ++p) {
      const int64_t next = StartGather(what, p + 1);
      RETURN_IF_ERROR(comm_thread_.Wait(gathered));
      gathered = next;
      for (size_t k = 0; k < gathers_[p].size(); ++k) tensors_[first_state_ + gathers_[p][k]] = gathered_views_[p][k];
      if (gives) RETURN_IF_ERROR(RunSubgraph(p));
      const std::vector<size_t>& bucket = buckets_[p];
      if (bucket.empty()) continue;
      std::vector<Tensor> leaf;
      int64_t bytes = 0;
      for (size_t k : bucket) {
        bytes += sums_[k].num_bytes();
        if (gives) leaf.push_back(TakeOutput(layers_.subgraphs, k, &tensors_));
      }
      most_gradient_bytes_ = std::max(most_gradient_bytes_, bytes + std::exchange(bytes_on_their_way, bytes));
      // Whole are those that were made just now, and those that were on their way meanwhile.
      RETURN_IF_ERROR(comm_thread_.Wait(last_sum));
      last_sum = comm_thread_.Start([this, what, givers, &bucket, leaf = std::move(leaf), sums] {
        std::vector<LeafSum> tensors;
        for (size_t k : bucket) tensors.push_back({sums_[k], axes_[k], &(*sums)[k]});
        return ReduceScatterLeaves(ranks_, absl::StrCat(what, ", sum of gradients"), givers, tensors, leaf);
      });
    }
  }
  RETURN_IF_ERROR(comm_thread_.WaitForAll());
  std::vector<Tensor> inputs;
  for (TreeSum& sum : *sums) inputs.push_back(sum.Take());
  return GatherShards(ranks_, absl::StrCat(what, ", sum of gradients"), sums_, axes_, std::move(inputs));
}

}  // namespace rewright
