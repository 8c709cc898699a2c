#include "tests/runtime/distributed/plans_util.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/check.h"
#include "runtime/comm/collectives.h"

namespace rewright::distributed {
namespace {

const char* NameOf(PipelineSchedule schedule) {
  switch (schedule) {
    case PipelineSchedule::k1F1B: return "1f1b";
    case PipelineSchedule::kGPipe: return "gpipe";
    case PipelineSchedule::kInterleaved: return "interleaved";
    case PipelineSchedule::kZeroBubble: return "zero_bubble";
  }
  return "?";
}

constexpr PipelineSchedule kSchedules[] = {PipelineSchedule::k1F1B, PipelineSchedule::kGPipe,
                                           PipelineSchedule::kInterleaved, PipelineSchedule::kZeroBubble};

}  // namespace

std::string PlanOptions::ToString() const {
  std::string text = absl::StrCat("dp=", dp, ",pp=", pp, ",tp=", tp, ",zero=", zero, ",micro=", micro_batches);
  if (pp > 1) {
    absl::StrAppend(&text, ",schedule=", NameOf(schedule), ",chunks=", chunks);
  } else {
    absl::StrAppend(&text, ",layers=", layers);
  }
  return text;
}

PlanOptions ParsePlanOptions(const std::string& text) {
  PlanOptions options;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    const std::vector<std::string> sides = absl::StrSplit(part, '=');
    CHECK(sides.size() == 2) << text;
    if (sides[0] == "schedule") {
      for (const auto schedule : kSchedules) {
        if (sides[1] == NameOf(schedule)) options.schedule = schedule;
      }
      continue;
    }
    int number = 0;
    CHECK(absl::SimpleAtoi(sides[1], &number)) << text;
    if (sides[0] == "micro") options.micro_batches = number;
    for (const auto& [key, field] : {std::pair("dp", &options.dp),
                                     {"pp", &options.pp},
                                     {"tp", &options.tp},
                                     {"zero", &options.zero},
                                     {"chunks", &options.chunks},
                                     {"layers", &options.layers}}) {
      if (sides[0] == key) *field = number;
    }
  }
  return options;
}

Plan MakePlan(const PlanOptions& options, const std::vector<int>& alike) {
  using Kind = PlanTensor::Kind;
  const bool split = options.pp > 1 && options.schedule == PipelineSchedule::kZeroBubble;
  const PipelineShape shape{options.pp, options.tp, options.chunks, split};
  const int layers = options.pp > 1 ? shape.stages() : options.layers;
  const bool skips = layers >= 3;
  Plan plan{Mesh({{"dp", options.dp}, {"pp", options.pp}, {"tp", options.tp}}), options.micro_batches};
  plan.alike = alike;
  const auto add = [&](PlanTensor tensor) {
    plan.tensors.push_back(std::move(tensor));
    return static_cast<int>(plan.tensors.size()) - 1;
  };
  const TensorType activation{DType::kFloat32, {4, 24}}, weight{DType::kFloat32, {840, 2}}, bias{DType::kFloat32, {25}};
  const TensorType scalar{DType::kFloat32, {}};
  const int input = add({Kind::kInput, activation}), target = add({Kind::kInput, {DType::kInt64, {4}}});
  const bool one_pass = options.pp == 1 && options.tp > 1;  // whose executable has the weights
  std::vector<int> weights, biases, forward, saved, backward, of_weight, of_bias;
  for (int i = 0; i < layers && !one_pass; ++i) {
    weights.push_back(add({Kind::kWeight, weight}));
    biases.push_back(add({Kind::kWeight, bias}));
  }
  for (int i = 0; i < layers; ++i) {
    forward.push_back(i + 1 < layers ? add({Kind::kValue, activation}) : -1);
    saved.push_back(add({Kind::kValue, activation}));
    backward.push_back(i > 0 ? add({Kind::kValue, activation}) : -1);
    of_weight.push_back(add({Kind::kValue, weight}));
    of_bias.push_back(add({Kind::kValue, bias}));
  }
  const int loss = add({Kind::kValue, scalar});
  const int parts = split ? 2 : 1;
  std::vector<PlanSubgraph> subgraphs(static_cast<size_t>((1 + parts) * layers));
  const auto back_of = [&](int layer) { return layers + parts * (layers - 1 - layer); };
  for (int i = 0; i < layers; ++i) {
    const int last = layers - 1;
    PlanSubgraph& there = subgraphs[static_cast<size_t>(i)];
    PlanSubgraph& back = subgraphs[static_cast<size_t>(back_of(i))];
    PlanSubgraph& of_weights = subgraphs[static_cast<size_t>(back_of(i) + parts - 1)];
    there.reads = {i == 0 ? input : forward[i - 1]};
    back.reads = {saved[i]};
    if (!one_pass) {
      there.reads.insert(there.reads.end(), {weights[i], biases[i]});
      if (i > 0) back.reads.push_back(weights[i]);
    }
    if (i == last) there.reads.push_back(target);
    if (i == last && skips) {
      there.reads.push_back(forward[0]);
      if (!one_pass) there.reads.push_back(weights[0]);
    }
    if (i < last) back.reads.push_back(backward[i + 1]);
    there.makes = {saved[i]};
    there.makes.push_back(i < last ? forward[i] : loss);
    if (split) of_weights.reads = back.reads;
    of_weights.makes = {of_weight[i], of_bias[i]};
    if (i > 0) back.makes.push_back(backward[i]);
    there.scratch_bytes = 4096;
    back.scratch_bytes = of_weights.scratch_bytes = 8192;
  }
  if (one_pass) {
    PlanSubgraph pass;
    pass.reads = {input, target};
    pass.over = 2;
    for (int i = 0; i < layers; ++i) pass.makes.insert(pass.makes.end(), {of_weight[i], of_bias[i]});
    pass.makes.push_back(loss);
    plan.subgraphs = {pass};
  } else {
    plan.subgraphs = std::move(subgraphs);
    for (PlanSubgraph& subgraph : plan.subgraphs) subgraph.over = options.tp > 1 ? 2 : -1;
  }
  const auto sum = [&](int leaf, int layer, int cut, int number) {
    PlanTensor made{Kind::kSum, plan.tensors[leaf].type, cut};
    if (one_pass && cut >= 0) made.type = BlockType(made.type, cut, options.tp);
    made.leaf = leaf;
    made.behind = one_pass ? 0 : back_of(layer) + parts - 1;
    if (options.pp > 1) made.owner = shape.RankOf(layer, number);
    add(std::move(made));
  };
  const int zero = options.dp > 1 || one_pass ? options.zero : 0;
  sum(loss, layers - 1, -1, 0);
  for (int i = 0; i < layers; ++i) {
    const int number = i % options.tp;
    sum(of_weight[i], i, zero > 0 ? 0 : -1, number);
    sum(of_bias[i], i, -1, options.tp - 1);
    if (one_pass) continue;
    if (options.pp > 1) {
      plan.tensors[weights[i]].owner = shape.RankOf(i, number);
      plan.tensors[biases[i]].owner = shape.RankOf(i, options.tp - 1);
    }
    // Weights that others read stay whole.
    const bool tied = skips && i == 0 && options.pp > 1;
    if (zero == 3 && !tied && (options.tp == 1 || options.pp == 1)) plan.tensors[weights[i]].cut = 0;
  }
  if (options.pp > 1) {
    WritePipeline(shape, options.schedule, zero, &plan);
  } else {
    WriteDataParallel(zero, &plan);
  }
  return plan;
}

std::vector<PlanOptions> LayoutsOf(int ranks) {
  std::vector<PlanOptions> layouts;
  for (int dp = 1; dp <= ranks; ++dp) {
    for (int pp = 1; dp * pp <= ranks; ++pp) {
      if (ranks % (dp * pp) != 0) continue;
      PlanOptions options{dp, pp, ranks / dp / pp};
      for (options.zero = 0; options.zero <= 3; ++options.zero) {
        if (pp == 1) {
          options.layers = 3;
          layouts.push_back(options);
          continue;
        }
        for (const auto schedule :
             {PipelineSchedule::k1F1B, PipelineSchedule::kGPipe, PipelineSchedule::kInterleaved}) {
          options.schedule = schedule;
          options.chunks = schedule == PipelineSchedule::kInterleaved ? 2 : 1;
          layouts.push_back(options);
        }
      }
    }
  }
  return layouts;
}

Plan Without(Plan plan, int rank, int action) {
  std::vector<Action>& list = plan.lists[static_cast<size_t>(rank)];
  const int end = EndsOf(list)[static_cast<size_t>(action)];
  for (int removed : {end, action}) {  // the later one first
    list.erase(list.begin() + removed);
    for (Action& other : list) {
      if (other.kind == Action::Kind::kWait && other.target > removed) --other.target;
    }
    if (end == action) break;
  }
  return plan;
}

Plan With(Plan plan, int rank, int before, Action action) {
  std::vector<Action>& list = plan.lists[static_cast<size_t>(rank)];
  for (Action& other : list) {
    if (other.kind == Action::Kind::kWait && other.target >= before) ++other.target;
  }
  list.insert(list.begin() + before, std::move(action));
  return plan;
}

}  // namespace rewright::distributed
