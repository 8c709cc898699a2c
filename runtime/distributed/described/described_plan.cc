#include "runtime/distributed/described/described_plan.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "runtime/distributed/collective_rounds.h"
#include "runtime/distributed/expand_runs.h"
#include "runtime/distributed/generate.h"

namespace rewright::distributed {
namespace {

using Kind = Action::Kind;
using Join = PlanTensor::Join;

// Layers [first, first + count) of a stage.
struct StageLayers {
  int64_t first = 0, count = 0;
};

// As even as can be; the first and the last stage, which have embedding and head, have one less before others.
std::vector<StageLayers> LayersOfStages(int64_t layers, int64_t stages) {
  std::vector<StageLayers> made(static_cast<size_t>(stages), {0, layers / stages});
  int64_t left = layers % stages;
  for (int64_t s = 1; s + 1 < stages && left > 0; ++s, --left) ++made[s].count;
  for (int64_t s : {int64_t{0}, stages - 1}) {
    if (left > 0) ++made[s].count, --left;
  }
  for (int64_t s = 1; s < stages; ++s) made[s].first = made[s - 1].first + made[s - 1].count;
  return made;
}

// Sizes of a model in a layout that the writers below and the bounds share.
class Sizes {
 public:
  Sizes(const DescribedModel& model, const DescribedLayout& layout, PartSeconds seconds)
      : model(model),
        layout(layout),
        ranks(layout.ranks),
        shape{.ranks = ranks.pp,
              .tensor_parallel = ranks.tp,
              .chunks = ranks.chunks,
              .split_backward = ranks.pp > 1 && ranks.schedule == PipelineSchedule::kZeroBubble},
        stages(LayersOfStages(model.layers, ranks.pp > 1 ? shape.stages() : model.layers)),
        parts(std::move(seconds)) {}

  int64_t tokens() const { return model.batch / ranks.micro * model.sequence; }
  int zero() const { return ranks.dp > 1 ? ranks.zero : 0; }
  int64_t expert_ranks() const { return layout.expert_parallel ? ranks.dp : 1; }
  int place(size_t stage) const { return ranks.pp > 1 ? static_cast<int>(stage) % ranks.pp : 0; }
  bool has_head(size_t stage) const { return stage + 1 == stages.size(); }

  // Parameters of a rank.
  int64_t Attention() const { return model.AttentionWeights() / ranks.tp; }
  int64_t Mlp(int64_t layer) const { return model.MlpWeights(layer) / ranks.tp; }
  int64_t Experts(int64_t layer) const { return model.ExpertWeights(layer) / ranks.tp / expert_ranks(); }
  int64_t Head() const { return model.HeadWeights() / ranks.tp; }

  // Bytes of a micro-batch on a rank.
  int64_t Whole() const { return 2 * tokens() * model.hidden; }
  int64_t Block() const { return Whole() / ranks.tp; }
  int64_t Exchanged() const { return 2 * tokens() * model.experts_per_token * model.hidden / ranks.tp; }
  int64_t SavedOfAttention() const {
    const int64_t queries = model.heads * model.head_size, keys = model.key_value_heads * model.head_size;
    // Five bytes of each score are kept: after the softmax, after dropout, and the mask.
    const int64_t scores = model.fused_attention ? 0 : 5 * tokens() * model.sequence * model.heads / ranks.tp;
    return 2 * Block() + 2 * tokens() * (2 * queries + 2 * keys) / ranks.tp + scores;
  }
  int64_t SavedOfMlp(int64_t layer) const {
    const int64_t products = model.gated ? 3 : 2;
    const int64_t columns = model.HasExperts(layer) ? model.shared_experts * model.expert_mlp : model.mlp;
    int64_t saved = 2 * Block() + 2 * tokens() * columns * products / ranks.tp;
    if (model.HasExperts(layer)) {
      saved += 2 * Exchanged() + 2 * tokens() * model.experts_per_token * model.expert_mlp * products / ranks.tp;
    }
    return saved;
  }
  int64_t SavedOf(int64_t layer) const { return layout.recompute ? Block() : SavedOfAttention() + SavedOfMlp(layer); }
  int64_t Logits() const { return 6 * tokens() * model.vocabulary / ranks.tp; }

  const DescribedModel& model;
  const DescribedLayout& layout;
  const RankLayout& ranks;
  const PipelineShape shape;
  const std::vector<StageLayers> stages;
  const PartSeconds parts;
};

absl::StatusOr<Sizes> SizesOf(const DescribedModel& model, const DescribedLayout& layout, const Cluster& cluster) {
  const RankLayout& ranks = layout.ranks;
  const auto error = [&](const std::string& found, const std::string& expected) {
    return absl::InvalidArgumentError(
        absl::StrCat("the layout ", PrintLayout(layout), ": found ", found, ", expected ", expected));
  };
  if (!cluster.device) return absl::InvalidArgumentError("cluster: device: is missing, expected a described device");
  if (ranks.ranks() > cluster.devices()) {
    return error(absl::StrCat(ranks.ranks(), " ranks"),
                 absl::StrCat("at most ", cluster.devices(), ", the devices of ", cluster.name));
  }
  if (model.batch % ranks.micro != 0 || ranks.micro % ranks.dp != 0) {
    return error(absl::StrCat(ranks.micro, " micro-batches"),
                 absl::StrCat("a divisor of the batch, ", model.batch, ", that dp divides"));
  }
  if (model.heads % ranks.tp != 0 || model.hidden % ranks.tp != 0) {
    return error(absl::StrCat("tp=", ranks.tp), absl::StrCat("a divisor of the heads, ", model.heads));
  }
  if (int64_t{ranks.pp} * ranks.chunks > model.layers) {
    return error(absl::StrCat(int64_t{ranks.pp} * ranks.chunks, " stages"),
                 absl::StrCat("at most one for each of ", model.layers, " layers"));
  }
  if (layout.offload && cluster.device->host_bytes_per_second == 0) {
    return error("offload=1", absl::StrCat("a cluster whose device has host_bytes_per_second, not ", cluster.name));
  }
  if (layout.expert_parallel && (model.experts == 0 || model.experts % ranks.dp != 0)) {
    return error(absl::StrCat("ep=", ranks.dp), absl::StrCat("a divisor of the experts, ", model.experts));
  }
  ASSIGN_OR_RETURN(PartSeconds seconds,
                   PartSeconds::Of(model, *cluster.device, model.batch / ranks.micro * model.sequence, ranks.tp));
  return Sizes(model, layout, std::move(seconds));
}

// Writes tensors, and the bodies of passes.
class DescribedWriter {
 public:
  explicit DescribedWriter(const Sizes& of) : of_(of), body_(&plan_) {
    plan_.mesh = Mesh({{"dp", of.ranks.dp}, {"pp", of.ranks.pp}, {"tp", of.ranks.tp}});
    plan_.micro_batches = of.ranks.micro;
    plan_.alike = {0, 2};
    if (of.layout.replicas_inside) plan_.order = {1, 0, 2};
  }

  Plan Take() {
    AddTensors();
    std::vector<RunBody> bodies;
    const bool split = of_.shape.split_backward;
    for (size_t s = 0; s < of_.stages.size(); ++s) bodies.push_back(Forward(s));
    for (size_t s = of_.stages.size(); s-- > 0;) {
      bodies.push_back(Backward(s));
      if (split) bodies.push_back(OfWeights(s));
    }
    for (const RunBody& body : bodies) plan_.subgraphs.push_back(OutsideOf(plan_, body));
    PlaceSums(&plan_);
    if (of_.ranks.pp > 1) {
      WritePipeline(of_.shape, of_.ranks.schedule, of_.zero(), &plan_, /*beside=*/true);
    } else {
      WriteDataParallel(of_.zero(), &plan_);
    }
    ExpandRuns(bodies, &plan_);
    return std::move(plan_);
  }

 private:
  struct LayerTensors {
    int weights_a = -1, weights_m = -1, weights_e = -1;
    int saved = -1, saved_again = -1;  // of the forward pass, and of the one that recomputes
    int leaf_a = -1, leaf_m = -1, leaf_e = -1;
    int kept = -1;  // gradients for the second part of a backward pass
  };

  int Add(PlanTensor tensor) {
    plan_.tensors.push_back(std::move(tensor));
    return static_cast<int>(plan_.tensors.size()) - 1;
  }
  int Value(int64_t bytes) { return Add({PlanTensor::Kind::kValue, {DType::kUInt8, {std::max<int64_t>(bytes, 1)}}}); }
  // A value that ranks along an axis complete together; -1 where there is one rank.
  int Joined(int64_t bytes, Join join, int axis) {
    if (plan_.mesh.axes()[axis].size == 1 || bytes == 0) return -1;
    const int tensor = Value(bytes);
    plan_.tensors[tensor].over = axis;
    plan_.tensors[tensor].join = join;
    return tensor;
  }
  int OverTp(int64_t bytes, Join join) { return Joined(bytes, join, 2); }

  int Weight(int64_t parameters, int place, bool apart) {
    if (parameters == 0) return -1;
    PlanTensor tensor{PlanTensor::Kind::kWeight, Typed(parameters, of_.model.weight_bytes)};
    if (of_.zero() > 0 && !apart) tensor.cut = 0;
    tensor.apart = apart && of_.expert_ranks() > 1;
    if (of_.ranks.pp > 1) tensor.owner = of_.shape.RankOf(place, 0);
    return Add(std::move(tensor));
  }
  TensorType Typed(int64_t elements, int64_t bytes) const {
    const int64_t dp = of_.ranks.dp;
    return {bytes == 4 ? DType::kFloat32 : DType::kBFloat16, {(elements + dp - 1) / dp * dp}};
  }
  // The gradient of a weight, and its sum.
  int Leaf(int weight) {
    if (weight < 0) return -1;
    const TensorType type = Typed(plan_.tensors[weight].type.num_elements(), of_.model.gradient_bytes);
    const int leaf = Add({PlanTensor::Kind::kValue, type});
    sums_.push_back({leaf, weight});
    return leaf;
  }

  void AddTensors() {
    for (size_t s = 0; s < of_.stages.size(); ++s) {
      const StageLayers& stage = of_.stages[s];
      for (int64_t layer = stage.first; layer < stage.first + stage.count; ++layer) {
        LayerTensors tensors;
        tensors.weights_a = Weight(of_.Attention(), of_.place(s), false);
        tensors.weights_m = Weight(of_.Mlp(layer), of_.place(s), false);
        tensors.weights_e = Weight(of_.Experts(layer), of_.place(s), of_.expert_ranks() > 1);
        tensors.saved = Value(of_.SavedOf(layer));
        if (of_.layout.recompute) tensors.saved_again = Value(of_.SavedOfAttention() + of_.SavedOfMlp(layer));
        if (of_.shape.split_backward) tensors.kept = Value(of_.SavedOfMlp(layer));
        for (const auto& [leaf, weight] : {std::pair(&tensors.leaf_a, tensors.weights_a),
                                           {&tensors.leaf_m, tensors.weights_m},
                                           {&tensors.leaf_e, tensors.weights_e}}) {
          *leaf = Leaf(weight);
        }
        layers_.push_back(tensors);
      }
      forward_.push_back(of_.has_head(s) ? -1 : Value(of_.Block()));
      backward_.push_back(s == 0 && !of_.shape.split_backward ? -1 : Value(of_.Block()));
    }
    head_ = Weight(of_.Head(), of_.place(of_.stages.size() - 1), false);
    head_leaf_ = Leaf(head_);
    logits_ = Value(of_.Logits());
    embedding_ = Weight(of_.Head(), of_.place(0), false);
    embedding_leaf_ = Leaf(embedding_);
    for (const auto& [leaf, weight] : sums_) {
      const PlanTensor& of = plan_.tensors[weight];
      PlanTensor sum{PlanTensor::Kind::kSum, plan_.tensors[leaf].type, of.cut};
      sum.leaf = leaf;
      sum.owner = of.owner;
      sum.apart = of.apart;
      sum_of_[leaf] = Add(std::move(sum));
    }
  }

  // A collective and its WAIT, around what `between` writes.
  template <typename Between>
  void Around(Kind kind, int tensor, const Between& between) {
    const int begun = body_.Begin(kind, tensor);
    between();
    body_.Wait(begun);
  }
  void Collective(Kind kind, int tensor) {
    Around(kind, tensor, [] {});
  }

  // A product whose operand ranks gather, and whose result they sum: in parts beside one another with `overlap`.
  void GatherRunScatter(double seconds, std::vector<int> reads, std::vector<int> makes, int64_t result_bytes) {
    if (!of_.layout.overlap || of_.ranks.tp == 1) {
      const int gathered = OverTp(of_.Whole(), Join::kBlocks), summed = OverTp(result_bytes, Join::kSum);
      body_.Run(0, {}, {gathered});
      Collective(Kind::kAllGather, gathered);
      reads.push_back(gathered);
      makes.push_back(summed);
      body_.Run(seconds, reads, makes);
      return Collective(Kind::kReduceScatter, summed);
    }
    const int64_t part = of_.Whole() / of_.ranks.tp;
    const int first = OverTp(part, Join::kBlocks), rest = OverTp(of_.Whole() - part, Join::kBlocks);
    const int most = OverTp(result_bytes - result_bytes / of_.ranks.tp, Join::kSum);
    const int last = OverTp(result_bytes / of_.ranks.tp, Join::kSum);
    body_.Run(0, {}, {first, rest});
    Collective(Kind::kAllGather, first);
    reads.push_back(first);
    Around(Kind::kAllGather, rest, [&] { body_.Run(seconds / 2, reads, {most}); });
    makes.push_back(last);
    Around(Kind::kReduceScatter, most, [&] { body_.Run(seconds / 2, reads, makes); });
    Collective(Kind::kReduceScatter, last);
  }

  // The forward pass of a layer, which leaves `saved`.
  void ForwardOf(int64_t layer, const std::vector<int>& reads, int saved) {
    const LayerTensors& tensors = layers_[layer];
    const std::vector<int> of_attention = {tensors.weights_a};
    body_.Run(0, reads, {});
    GatherRunScatter(of_.parts.Attention().forward, of_attention, {}, of_.Whole());
    if (tensors.weights_e < 0) {
      return GatherRunScatter(of_.parts.Mlp(layer).forward, {tensors.weights_m}, {saved}, of_.Whole());
    }
    GatherRunScatter(of_.parts.Mlp(layer).forward, {tensors.weights_m}, {}, of_.Whole());
    RunExperts(of_.parts.Experts(of_.expert_ranks()).forward, {tensors.weights_e}, {saved});
  }
  void RunExperts(double seconds, std::vector<int> reads, std::vector<int> makes) {
    const bool apart = of_.expert_ranks() > 1;
    const int there = apart ? Joined(of_.Exchanged(), Join::kExchange, /*axis=*/0) : -1;
    const int back = apart ? Joined(of_.Exchanged(), Join::kExchange, /*axis=*/0) : -1;
    body_.Run(0, {}, {there});
    Collective(Kind::kAllToAll, there);
    reads.push_back(there);
    makes.push_back(back);
    body_.Run(seconds, reads, makes);
    Collective(Kind::kAllToAll, back);
  }

  // Sums over the ranks go on beside the gradients of weights, `of_weights`; these read gathered operands,
  // which are gathered again beside the first half.
  void BackwardOfPart(double backward, double of_weights, std::vector<int> reads, std::vector<int> kept, int leaf) {
    const int gradient = OverTp(of_.Whole(), Join::kBlocks), operand = OverTp(of_.Whole(), Join::kBlocks);
    const int summed = OverTp(of_.Whole(), Join::kSum);
    body_.Run(0, {}, {gradient, operand});
    Collective(Kind::kAllGather, gradient);
    reads.push_back(gradient);
    kept.push_back(summed);
    Around(Kind::kAllGather, operand, [&] { body_.Run(backward, reads, kept); });
    reads.push_back(operand);
    Around(Kind::kReduceScatter, summed, [&] {
      if (leaf >= 0) body_.Run(of_weights, reads, {leaf});
    });
  }

  void BackwardOf(int64_t layer) {
    const LayerTensors& tensors = layers_[layer];
    const bool split = of_.shape.split_backward;
    int saved = tensors.saved;
    if (of_.layout.offload) body_.Move(Kind::kFetch, saved);
    if (of_.layout.recompute) {
      saved = tensors.saved_again;
      ForwardOf(layer, {tensors.saved}, saved);
    }
    std::vector<int> sums;
    const auto leaf = [&](int of) {
      if (split || of < 0) return -1;
      sums.push_back(sum_of_.at(of));
      return of;
    };
    if (tensors.weights_e >= 0) {
      const PartSeconds::Passes experts = of_.parts.Experts(of_.expert_ranks());
      std::vector<int> makes;
      if (const int of = leaf(tensors.leaf_e); of >= 0) makes.push_back(of);
      RunExperts(experts.backward + (split ? 0 : experts.of_weights), {saved, tensors.weights_e}, makes);
    }
    const PartSeconds::Passes mlp = of_.parts.Mlp(layer), attention = of_.parts.Attention();
    BackwardOfPart(mlp.backward, mlp.of_weights, {saved, tensors.weights_m}, {}, leaf(tensors.leaf_m));
    BackwardOfPart(attention.backward, attention.of_weights, {saved, tensors.weights_a}, {tensors.kept},
                   leaf(tensors.leaf_a));
    Accumulate(sums);
  }

  // With zero 2 and 3 the lists have sums of leaves already.
  void Accumulate(const std::vector<int>& sums) {
    if (of_.zero() < 2) body_.Accumulate(sums);
  }

  RunBody Forward(size_t s) {
    body_.Start(/*accumulates=*/false);
    const StageLayers& stage = of_.stages[s];
    std::vector<int> reads;
    if (s == 0) {
      body_.Run(of_.parts.Boundary(), {embedding_}, {});
    } else {
      reads.push_back(forward_[s - 1]);
    }
    for (int64_t layer = stage.first; layer < stage.first + stage.count; ++layer) {
      ForwardOf(layer, reads, layers_[layer].saved);
      if (of_.layout.offload) body_.Move(Kind::kOffload, layers_[layer].saved);
      reads.clear();
    }
    const int made = of_.has_head(s) ? logits_ : forward_[s];
    body_.Run(of_.has_head(s) ? of_.parts.Head().forward : 0, {of_.has_head(s) ? head_ : -1}, {made});
    return body_.Take();
  }

  RunBody Backward(size_t s) {
    const bool split = of_.shape.split_backward;
    body_.Start(/*accumulates=*/of_.zero() < 2);
    const StageLayers& stage = of_.stages[s];
    if (of_.has_head(s)) {
      const PartSeconds::Passes head = of_.parts.Head();
      body_.Run(head.backward + (split ? 0 : head.of_weights), {head_, logits_}, {split ? -1 : head_leaf_});
      if (!split) Accumulate({sum_of_.at(head_leaf_)});
    } else {
      body_.Run(0, {backward_[s + 1]}, {});
    }
    for (int64_t layer = stage.first + stage.count; layer-- > stage.first;) BackwardOf(layer);
    if (s > 0 || split) {
      body_.Run(0, {}, {backward_[s]});
    } else {
      body_.Run(of_.parts.Boundary(), {}, {embedding_leaf_});
      Accumulate({sum_of_.at(embedding_leaf_)});
    }
    return body_.Take();
  }

  // The second part of a backward pass: gradients of weights.
  RunBody OfWeights(size_t s) {
    body_.Start(/*accumulates=*/of_.zero() < 2);
    const StageLayers& stage = of_.stages[s];
    if (of_.has_head(s)) {
      body_.Run(of_.parts.Head().of_weights, {logits_}, {head_leaf_});
      Accumulate({sum_of_.at(head_leaf_)});
    }
    for (int64_t layer = stage.first + stage.count; layer-- > stage.first;) {
      const LayerTensors& tensors = layers_[layer];
      double seconds = of_.parts.Attention().of_weights + of_.parts.Mlp(layer).of_weights;
      std::vector<int> leaves = {tensors.leaf_a, tensors.leaf_m}, sums;
      if (tensors.leaf_e >= 0) {
        leaves.push_back(tensors.leaf_e);
        seconds += of_.parts.Experts(of_.expert_ranks()).of_weights;
      }
      body_.Run(seconds, {of_.layout.recompute ? tensors.saved_again : tensors.saved, tensors.kept}, leaves);
      for (int leaf : leaves) sums.push_back(sum_of_.at(leaf));
      Accumulate(sums);
    }
    if (s == 0) {
      body_.Run(of_.parts.Boundary(), {backward_[0]}, {embedding_leaf_});
      Accumulate({sum_of_.at(embedding_leaf_)});
    }
    return body_.Take();
  }

  const Sizes& of_;
  Plan plan_;
  BodyWriter body_;
  std::vector<LayerTensors> layers_;
  std::vector<int> forward_, backward_;    // by stage: what it hands on
  std::vector<std::pair<int, int>> sums_;  // leaves and weights
  std::map<int, int> sum_of_;              // by leaf
  int head_ = -1, head_leaf_ = -1, logits_ = -1, embedding_ = -1, embedding_leaf_ = -1;
};

// Parameters of a rank at a place of the pipeline: those that replicas share, and those that are apart.
struct RankParameters {
  int64_t shared = 0, apart = 0;
};
std::vector<RankParameters> ParametersOf(const Sizes& of) {
  std::vector<RankParameters> by_place(static_cast<size_t>(of.ranks.pp));
  for (size_t s = 0; s < of.stages.size(); ++s) {
    RankParameters& here = by_place[of.place(s)];
    for (int64_t k = 0; k < of.stages[s].count; ++k) {
      const int64_t layer = of.stages[s].first + k;
      here.shared += of.Attention() + of.Mlp(layer);
      (of.expert_ranks() > 1 ? here.apart : here.shared) += of.Experts(layer);
    }
  }
  by_place[0].shared += of.Head();
  by_place.back().shared += of.Head();
  return by_place;
}

struct KeptOfRank {
  int64_t bytes = 0;
  double update_seconds = 0;
};
KeptOfRank KeptOf(const Sizes& of, const RankParameters& parameters) {
  const int64_t dp = of.zero() > 0 ? of.ranks.dp : 1;
  const DescribedModel& model = of.model;
  return {(parameters.shared / dp + parameters.apart) * (model.state_bytes + model.weight_bytes),
          of.parts.Update(static_cast<double>(parameters.shared / dp + parameters.apart))};
}

DescribedLayout WithMicroBatches(DescribedLayout layout, const DescribedModel& model) {
  if (layout.ranks.micro == 0) layout.ranks.micro = model.batch;
  return layout;
}

}  // namespace

absl::StatusOr<DescribedStep> PlanDescribed(const DescribedModel& model, const DescribedLayout& given,
                                            const Cluster& cluster) {
  const DescribedLayout layout = WithMicroBatches(given, model);
  ASSIGN_OR_RETURN(const Sizes sizes, SizesOf(model, layout, cluster));
  DescribedStep step{DescribedWriter(sizes).Take(), {}};
  if (!FitsEvenly(step.plan, cluster)) {
    return absl::InvalidArgumentError(absl::StrCat("the layout ", PrintLayout(layout),
                                                   ": expected groups that divide the devices of the levels of ",
                                                   cluster.name, ", or are multiples of them"));
  }
  for (const RankParameters& parameters : ParametersOf(sizes)) {
    const KeptOfRank kept = KeptOf(sizes, parameters);
    step.kept_bytes.push_back(kept.bytes);
    step.plan.update_seconds = std::max(step.plan.update_seconds, kept.update_seconds);
  }
  return step;
}

absl::StatusOr<DescribedTime> TimeDescribed(const DescribedModel& model, const DescribedLayout& given,
                                            const Cluster& cluster, const SimulationOptions& options) {
  const DescribedLayout layout = WithMicroBatches(given, model);
  const RankLayout& ranks = layout.ranks;
  const auto simulated = [&](int64_t of_replica) -> absl::StatusOr<DescribedTime> {
    DescribedModel part = model;
    DescribedLayout part_layout = layout;
    part_layout.ranks.micro = of_replica * ranks.dp;
    part.batch = model.batch / ranks.micro * part_layout.ranks.micro;
    ASSIGN_OR_RETURN(const DescribedStep step, PlanDescribed(part, part_layout, cluster));
    DescribedTime time;
    ASSIGN_OR_RETURN(time.step, Simulate(step.plan, cluster, options));
    for (size_t k = 0; k < step.kept_bytes.size(); ++k) {
      time.memory_bytes = std::max(time.memory_bytes, step.kept_bytes[k] + time.step.peak_bytes[k]);
    }
    time.simulated_micro_batches = of_replica;
    return time;
  };
  const int64_t all = ranks.micro / std::max(1, ranks.dp), turn = ranks.pp;
  // A pipeline has filled and goes on evenly by then.
  const int64_t fewer = ranks.pp == 1 ? 4 : 2 * turn, more = ranks.pp == 1 ? 8 : 4 * turn;
  const bool gpipe = ranks.pp > 1 && ranks.schedule == PipelineSchedule::kGPipe;  // its memory grows
  if (all <= more || all * ranks.dp != ranks.micro || gpipe) return simulated(std::max<int64_t>(all, 1));
  const int64_t rest = all % turn;  // the last turn of an interleaved schedule has it, too
  ASSIGN_OR_RETURN(const DescribedTime first, simulated(fewer + rest));
  ASSIGN_OR_RETURN(DescribedTime time, simulated(more + rest));
  const double times = static_cast<double>(all - more - rest) / static_cast<double>(more - fewer);
  const auto extend = [&](double* value, double before) { *value += times * (*value - before); };
  SimulatedStep& step = time.step;
  for (size_t k = 0; k < step.busy.size(); ++k) {  // shares of time, as times
    double busy = step.busy[k] * step.seconds;
    extend(&busy, first.step.busy[k] * first.step.seconds);
    step.busy[k] = busy;
    auto bytes = static_cast<double>(step.bytes[k]);
    extend(&bytes, static_cast<double>(first.step.bytes[k]));
    step.bytes[k] = static_cast<int64_t>(bytes);
  }
  for (size_t k = 0; k < step.ranks.size(); ++k) {
    extend(&step.ranks[k].computing, first.step.ranks[k].computing);
    extend(&step.ranks[k].bubble, first.step.ranks[k].bubble);
    extend(&step.ranks[k].exposed, first.step.ranks[k].exposed);
  }
  for (size_t k = 0; k < step.exposed_over.size(); ++k) extend(&step.exposed_over[k], first.step.exposed_over[k]);
  extend(&step.seconds, first.step.seconds);
  for (double& busy : step.busy) busy /= step.seconds;
  return time;
}

absl::StatusOr<DescribedBounds> BoundsOf(const DescribedModel& model, const DescribedLayout& given,
                                         const Cluster& cluster, const SimulationOptions& options) {
  const DescribedLayout layout = WithMicroBatches(given, model);
  ASSIGN_OR_RETURN(const Sizes of, SizesOf(model, layout, cluster));
  const RankLayout& ranks = of.ranks;
  const int64_t own = ranks.micro / ranks.dp;
  // Exchanges of a tensor-parallel group with nothing beside it, of one half of a layer forwards; one gather is
  // exposed backwards.
  double gather = 0, scatter = 0;
  if (ranks.tp > 1 && !layout.overlap) {
    std::vector<int> group;
    for (int k = 0; k < ranks.tp; ++k) group.push_back(k);
    const GroupLinks links = LinksOf(group, 0, cluster);
    const auto whole = static_cast<double>(of.Whole());
    gather = SecondsAlone(Kind::kAllGather, links, whole, options.collectives, cluster);
    scatter = SecondsAlone(Kind::kReduceScatter, links, whole, options.collectives, cluster);
  }
  struct Place {
    double forward = 0, backward = 0, of_weights = 0, first_forward = 0, first_backward = 0, saved = 0;
  };
  std::vector<Place> places(static_cast<size_t>(ranks.pp));
  for (size_t s = 0; s < of.stages.size(); ++s) {
    double forward = of.stages[s].count == 0 ? 0 : static_cast<double>(of.stages[s].count) * 2 * (gather + scatter);
    double backward = static_cast<double>(of.stages[s].count) * 2 * gather, of_weights = 0, moved = 0;
    Place& place = places[of.place(s)];
    for (int64_t k = 0; k < of.stages[s].count; ++k) {
      const int64_t layer = of.stages[s].first + k;
      std::vector<PartSeconds::Passes> parts = {of.parts.Attention(), of.parts.Mlp(layer)};
      if (model.HasExperts(layer)) parts.push_back(of.parts.Experts(of.expert_ranks()));
      for (const PartSeconds::Passes& part : parts) {
        forward += part.forward;
        backward += part.backward;
        of_weights += part.of_weights;
      }
      (layout.offload ? moved : place.saved) += static_cast<double>(of.SavedOf(layer));
    }
    if (layout.recompute) backward += forward;
    if (of.has_head(s)) {
      forward += of.parts.Head().forward;
      backward += of.parts.Head().backward;
      of_weights += of.parts.Head().of_weights;
    }
    place.forward += forward;
    place.backward += backward + (layout.offload ? 2 * moved / cluster.device->host_bytes_per_second : 0);
    place.of_weights += of_weights;
    if (s < places.size()) {
      place.first_forward = forward;
      place.first_backward = backward + (of.shape.split_backward ? 0 : of_weights);
    }
  }
  DescribedBounds bounds;
  double fill = 0, drain = 0, update = 0;
  const std::vector<RankParameters> parameters = ParametersOf(of);
  const auto dp = static_cast<double>(ranks.dp);
  for (size_t k = 0; k < places.size(); ++k) {
    const Place& place = places[k];
    const double work = static_cast<double>(own) * (place.forward + place.backward + place.of_weights);
    bounds.seconds = std::max(bounds.seconds, fill + work + (of.shape.split_backward ? 0 : drain));
    fill += place.first_forward;
    drain += place.first_backward;
    const KeptOfRank kept = KeptOf(of, parameters[k]);
    update = std::max(update, kept.update_seconds);
    const auto sums = static_cast<double>(parameters[k].shared) / (of.zero() >= 2 ? dp : 1) +
                      static_cast<double>(parameters[k].apart);
    const int64_t flying = std::min<int64_t>(own, ranks.pp - (of.shape.split_backward ? 0 : static_cast<int64_t>(k)));
    const int64_t saved = static_cast<int64_t>(place.saved) / std::max(1, ranks.chunks),
                  sum_bytes = static_cast<int64_t>(sums) * model.gradient_bytes;
    // Behind the first backward pass there are sums, and other micro-batches are on their way.
    const bool is_steady = own > flying && (ranks.chunks == 1 || own > 2 * ranks.pp);
    bounds.bytes = std::max({bounds.bytes, kept.bytes + saved * flying, kept.bytes + sum_bytes,
                             kept.bytes + (is_steady ? sum_bytes + saved * flying : 0)});
  }
  bounds.seconds += update;
  return bounds;
}

}  // namespace rewright::distributed
