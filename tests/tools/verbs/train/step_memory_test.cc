// Rematerialization that makes a step of training take less memory: the same bits, within the limit, and nearly as
// little time as the best plan of all where that can be found.
#include "tools/verbs/train/step_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "backends/device_factory.h"
#include "core/ir/random_tensors.h"
#include "core/ir/text.h"
#include "runtime/executor.h"
#include "runtime/offload/two_tier_device.h"
#include "runtime/parallel/layers.h"
#include "runtime/training/model.h"
#include "runtime/training/parallel/layered_plan.h"
#include "search/memory/activation_lifetimes.h"
#include "substitutions/lowering.h"

namespace rewright {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::unique_ptr<Device> Cpu() {
  auto device = MakeDevice("cpu", {.threads = 1});
  EXPECT_TRUE(device.ok()) << device.status();
  return *std::move(device);
}

Graph StepOf(const BuiltInModel& model, int64_t batch, OptimizerOptions::Kind kind = OptimizerOptions::Kind::kAdamW) {
  StepOptions options;
  options.optimizer.kind = kind;
  options.optimizer.learning_rate = 0.01;
  const auto graphs = BuildStep(MakeModel(model, batch, 1), options);
  EXPECT_TRUE(graphs.ok()) << graphs.status();
  const auto lowered = LowerGradients(graphs->step);
  EXPECT_TRUE(lowered.ok()) << lowered.status();
  return lowered->graph;
}

const GptOptions kGpt = {.vocabulary = 40, .length = 24, .width = 32, .heads = 4, .layers = 8, .dropout = 0.1};
const ConvNetOptions kConvNet = {.image = {3, 24, 24}, .channels = {16, 24, 32}, .classes = 10, .dropout = 0.1};

std::vector<Tensor> BatchOf(const Graph& step, uint64_t seed) {
  Rng rng(seed);
  std::vector<Tensor> batch;
  for (Value input : step.inputs()) {
    const TensorType& type = step.type(input);
    Tensor tensor(type);
    for (int64_t i = 0; i < type.num_elements(); ++i) {
      if (IsFloating(type.dtype)) {
        tensor.Set(i, static_cast<double>(rng() % 1000) / 500 - 1);
      } else {
        tensor.SetInt(i, static_cast<int64_t>(rng() % 10));
      }
    }
    batch.push_back(std::move(tensor));
  }
  return batch;
}

// Trains by both for `steps` steps: all results, and all states at the end, are the same bits.
void ExpectSameBits(const Graph& a, const Graph& b, Device& device, int steps) {
  const auto runner = MakeGraphRunner(device);
  std::vector<std::unique_ptr<Executable>> runs;
  for (const Graph* graph : {&a, &b}) {
    auto run = runner->Prepare(*graph);
    ASSERT_TRUE(run.ok()) << run.status();
    runs.push_back(*std::move(run));
  }
  double first = 0, last = 0;
  for (int step = 0; step < steps; ++step) {
    std::vector<Tensor> results[2];
    for (int k = 0; k < 2; ++k) ASSERT_TRUE(runs[k]->Run(BatchOf(a, step % 2), &results[k]).ok());
    ASSERT_EQ(results[0].size(), results[1].size());
    for (size_t i = 0; i < results[0].size(); ++i) {
      ASSERT_TRUE(results[0][i].BitEqual(results[1][i])) << "step " << step << ", result " << a.results()[i].name;
    }
    last = results[0][0].At(0);
    if (step == 0) first = last;
  }
  EXPECT_LT(last, first) << "nothing was learnt";
  for (Value state : a.states()) {
    const std::string& name = a.node(state.node).name;
    const auto x = runs[0]->ReadState(name), y = runs[1]->ReadState(name);
    ASSERT_TRUE(x.ok() && y.ok()) << name;
    EXPECT_TRUE(x->BitEqual(*y)) << name;
  }
}

int CountOf(const Graph& graph, const std::string& op) {
  return static_cast<int>(std::count_if(graph.nodes().begin(), graph.nodes().end(), [&](NodeId id) {
    return graph.node(id).op != nullptr && graph.node(id).op->name == op;
  }));
}

StepMemory Memory(const Graph& graph, Device& device) {
  const auto memory = MemoryOf(graph, device);
  EXPECT_TRUE(memory.ok()) << memory.status();
  return *memory;
}

TEST(StepMemory, WhatIsFreeIsComputedAgainByDefault) {
  const auto device = Cpu();
  for (const BuiltInModel& model : {BuiltInModel(kGpt), BuiltInModel(kConvNet)}) {
    const Graph step = StepOf(model, 8);
    const auto less = FitMemory(step, *device, 0, /*measured=*/false);
    ASSERT_TRUE(less.ok()) << less.status();
    EXPECT_LT(less->bytes, less->bytes_before);
    EXPECT_GT(less->replaced, 0);
    for (const char* op : {"matmul", "conv2d", "random_uniform", "reduce_sum", "softmax"}) {
      EXPECT_EQ(CountOf(less->graph, op), CountOf(step, op)) << op << " is not free";
    }
    ExpectSameBits(step, less->graph, *device, 20);
  }
}

// Layers of micro-batches are compiled one by one: what one plan of the whole graph says of them is wrong.
TEST(StepMemory, MicroBatchesAreJudgedByTheMemoryOfTheirLayers) {
  StepOptions options;
  options.micro_batches = 2;
  GptOptions gpt = kGpt;
  gpt.layers = 3;
  const auto graphs = BuildStep(MakeModel(BuiltInModel(gpt), 4, 1), options);
  ASSERT_TRUE(graphs.ok()) << graphs.status();
  const auto lowered = LowerGradients(graphs->gradients);
  ASSERT_TRUE(lowered.ok()) << lowered.status();
  const auto device = Cpu();
  LayeredOptions layers;
  layers.groups = [&](const Graph& graph) { return device->Partition(graph); };
  const auto plan = [&](const Graph& graph) {
    return PlanLayers(graph, graphs->step, graphs->updated, layers,
                      [&](const Graph& subgraph) { return BytesOfSubgraph(subgraph, *device); });
  };
  const auto bytes = [&](const Graph& graph) -> absl::StatusOr<int64_t> {
    const auto made = plan(graph);
    if (!made.ok()) return made.status();
    return made->bytes;
  };
  const auto kept = bytes(lowered->graph);
  const auto whole = FitMemory(lowered->graph, *device, 0, false);
  const auto judged = FitPlan(lowered->graph, *device, 0, false, plan);
  ASSERT_TRUE(kept.ok() && whole.ok() && judged.ok()) << kept.status() << whole.status() << judged.status();
  const auto of_whole = bytes(whole->graph), of_judged = bytes(judged->graph);
  ASSERT_TRUE(of_whole.ok() && of_judged.ok()) << of_whole.status() << of_judged.status();
  EXPECT_GT(whole->replaced, 0);
  EXPECT_LE(*of_judged, *kept);
  EXPECT_LE(*of_judged, *of_whole);
  EXPECT_EQ(judged->bytes_before, *kept);
  EXPECT_EQ(judged->bytes, *of_judged);
}

TEST(StepMemory, HalfOfTheActivationsAreEnough) {
  const auto device = Cpu();
  // Three blocks are few: the first one's tensors alone are more than half of all.
  const std::vector<std::pair<BuiltInModel, double>> models = {{kGpt, 0.5}, {kConvNet, 0.7}};
  for (const auto& [model, share] : models) {
    const Graph step = StepOf(model, 8);
    const StepMemory before = Memory(step, *device);
    const auto arena = static_cast<double>(before.run.bytes - before.state_bytes);
    const int64_t limit = before.state_bytes + static_cast<int64_t>(share * arena);
    const auto less = FitMemory(step, *device, limit, /*measured=*/false);
    ASSERT_TRUE(less.ok()) << less.status();
    EXPECT_LE(Memory(less->graph, *device).run.bytes, limit);
    EXPECT_LT(less->seconds, 1.5 * less->seconds_before);
    ExpectSameBits(step, less->graph, *device, 20);
    // The printed graph, as a checkpoint keeps it, is the same program.
    std::map<std::string, Tensor> states;
    for (Value state : step.states()) states[step.node(state.node).name] = *step.arena()->Elements(state.node);
    const auto parsed = ParseGraph(PrintGraph(less->graph), states);
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(Memory(*parsed, *device).run.bytes, less->bytes);
  }
}

// Layers of one size: what is kept is a root of what there is.
TEST(StepMemory, DeepModelsTakeARootOfTheirDepth) {
  const auto device = Cpu();
  constexpr int64_t kWidth = 8, kBatch = 512, kLayer = kWidth * kBatch * 4;
  std::vector<int> depths = {50, 200};
  if (std::getenv("REWRIGHT_FULL") != nullptr) depths.push_back(800);
  for (int layers : depths) {
    const MlpOptions model = {std::vector<int64_t>(layers + 1, kWidth), "tanh"};
    const Graph step = StepOf(model, kBatch, OptimizerOptions::Kind::kSgd);
    const StepMemory before = Memory(step, *device);
    EXPECT_GT(before.run.bytes - before.state_bytes, layers * kLayer);
    const int64_t limit = before.state_bytes + static_cast<int64_t>((4 * std::sqrt(layers) + 8) * kLayer);
    const auto less = FitMemory(step, *device, limit, /*measured=*/false);
    ASSERT_TRUE(less.ok()) << layers << " layers: " << less.status();
    EXPECT_LE(Memory(less->graph, *device).run.bytes, limit) << layers;
  }
}

// All choices of what is kept, one by one.
struct Exact {
  std::vector<std::pair<int64_t, double>> plans;  // bytes, seconds
  explicit Exact(const Graph& step, Device& device) {
    const StepMemory before = Memory(step, device);
    const ActivationLifetimes waiting(step, before.run.groups);
    Residencies all(waiting.tensors().size(), Residency::kRecomputed);
    std::vector<int> free;
    for (const Group& group : before.run.groups) {
      for (Value output : group.outputs) all[step.index(output.node)] = Residency::kResident;
    }
    for (int i = 0; i < static_cast<int>(all.size()); ++i) {
      const ActivationLifetimes::Tensor& tensor = waiting.tensors()[i];
      if (all[i] == Residency::kRecomputed || tensor.root != i || !tensor.may_drop) continue;
      if (tensor.late > 0 && tensor.bytes > 8192) free.push_back(i);
      // A tensor that no late node reads is no checkpoint: it would take as much as the values computed from it.
      if (tensor.late < 0 && tensor.written <= waiting.end()) all[i] = Residency::kRecomputed;
    }
    if (free.size() > 12) {
      ADD_FAILURE() << free.size() << " tensors are too many";
      return;
    }
    for (unsigned choice = 0; choice < 1u << free.size(); ++choice) {
      Residencies kept = all;
      for (size_t k = 0; k < free.size(); ++k)
        kept[free[k]] = (choice >> k & 1) == 0 ? Residency::kResident : Residency::kRecomputed;
      const auto rewritten = waiting.Rewrite(kept);
      EXPECT_TRUE(rewritten.ok()) << rewritten.status();
      const std::vector<double> seconds = GuessedSeconds(rewritten->graph);
      plans.emplace_back(Memory(rewritten->graph, device).run.bytes,
                         std::accumulate(seconds.begin(), seconds.end(), 0.0));
    }
  }
  int64_t fewest() const { return std::min_element(plans.begin(), plans.end())->first; }
  double SecondsWithin(int64_t limit) const {
    double best = HUGE_VAL;
    for (const auto& [bytes, seconds] : plans) {
      if (bytes <= limit) best = std::min(best, seconds);
    }
    return best;
  }
};

TEST(StepMemory, IsWithinATenthOfTheBestPlan) {
  const auto device = Cpu();
  for (const MlpOptions& model : {MlpOptions{{16, 32, 32, 32, 32, 32, 32, 32, 32, 32, 8}, "tanh"},
                                  MlpOptions{{16, 64, 32, 16, 64, 32, 16, 64, 32, 16, 8}, "tanh"},
                                  MlpOptions{{8, 16, 32, 64, 32, 16, 32, 64, 32, 16, 8}, "sigmoid"}}) {
    const Graph step = StepOf(model, 256, OptimizerOptions::Kind::kSgd);
    const StepMemory before = Memory(step, *device);
    const Exact exact(step, *device);
    ASSERT_FALSE(exact.plans.empty());
    const int64_t fewest = exact.fewest();
    ASSERT_LT(fewest, before.run.bytes);
    for (int tenths : {1, 3, 5, 7, 9}) {
      const int64_t limit = fewest + (before.run.bytes - fewest) * tenths / 10;
      const auto less = FitMemory(step, *device, limit, /*measured=*/false);
      ASSERT_TRUE(less.ok()) << tenths << " tenths: " << less.status();
      EXPECT_LE(less->bytes, limit);
      EXPECT_LE(less->seconds, 1.10 * exact.SecondsWithin(limit)) << model.activation << ", " << tenths << " tenths";
    }
  }
}

GptOptions ShortGpt() {
  GptOptions gpt = kGpt;
  gpt.layers = 3;
  return gpt;
}
const GptOptions kShortGpt = ShortGpt();

std::unique_ptr<Device> TwoTiers(int64_t first, int64_t second) {
  auto device = MakeTwoTierDevice(Cpu(), {.first_bytes = first, .second_bytes = second, .threads = 1});
  EXPECT_TRUE(device.ok()) << device.status();
  return *std::move(device);
}

// Padded layouts (24 channels), dropout, gradients until the update and views of what is fetched among it.
TEST(StepMemory, AllThatWaitsMayBeAway) {
  for (const BuiltInModel& model : {BuiltInModel(kShortGpt), BuiltInModel(kConvNet)}) {
    const Graph step = StepOf(model, 8);
    const auto tiers = TwoTiers(0, int64_t{1} << 28);
    const StepMemory before = Memory(step, *tiers);
    const ActivationLifetimes waiting(step, before.run.groups);
    Residencies kept(waiting.tensors().size(), Residency::kResident);
    for (size_t i = 0; i < kept.size(); ++i) {
      const ActivationLifetimes::Tensor& tensor = waiting.tensors()[i];
      if (tensor.may_drop && tensor.root == static_cast<int>(i) && tensor.to - tensor.from >= kLongWait)
        kept[i] = Residency::kOffloaded;
    }
    const auto away = waiting.Rewrite(kept);
    ASSERT_TRUE(away.ok()) << away.status();
    EXPECT_GT(away->fetched.size(), 20);
    const StepMemory after = Memory(away->graph, *tiers);
    EXPECT_LT(after.run.bytes, before.run.bytes);
    EXPECT_GT(after.run.stored_bytes, before.live_bytes / 4);
    ExpectSameBits(step, away->graph, *tiers, 20);
    ExpectSameBits(step, away->graph, *Cpu(), 3);  // copies, where there is no second tier
  }
}

// Gradients are all alive before the first weight changes: no computing again goes below that.
TEST(StepMemory, OffloadsWhatCannotBeComputedAgain) {
  const Graph step = StepOf(kShortGpt, 8);
  const auto cpu = Cpu();
  const StepMemory before = Memory(step, *cpu);
  const auto arena = static_cast<double>(before.run.bytes - before.state_bytes);
  const int64_t limit = before.state_bytes + static_cast<int64_t>(0.35 * arena);
  EXPECT_TRUE(absl::IsResourceExhausted(FitMemory(step, *cpu, limit, /*measured=*/false).status()));

  const auto tiers = TwoTiers(limit, int64_t{1} << 28);
  const auto less = FitMemory(step, *tiers, limit, /*measured=*/false);
  ASSERT_TRUE(less.ok()) << less.status();
  EXPECT_GT(less->offloaded.size(), 0);
  EXPECT_FALSE(OffloadedTexts(*less, step).empty());
  const auto run = MakeGraphRunner(*tiers)->Prepare(less->graph);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_LE(before.state_bytes + (*run)->arena_bytes(), limit);
  EXPECT_EQ((*run)->stored_bytes(), less->stored_bytes);
  EXPECT_GT((*run)->stored_bytes(), 0);
  ExpectSameBits(step, less->graph, *tiers, 20);
}

TEST(StepMemory, ASecondTierThatIsTooSmallIsAnError) {
  const Graph step = StepOf(kShortGpt, 8);
  const StepMemory before = Memory(step, *Cpu());
  const auto arena = static_cast<double>(before.run.bytes - before.state_bytes);
  const int64_t limit = before.state_bytes + static_cast<int64_t>(0.35 * arena);
  const auto less = FitMemory(step, *TwoTiers(limit, 4096), limit, /*measured=*/false);
  ASSERT_TRUE(absl::IsResourceExhausted(less.status())) << less.status();
  EXPECT_THAT(std::string(less.status().message()), HasSubstr("in the second tier, which has 0.0 MB"));
}

// Where copies take next to no time values leave that cost nothing to compute again, and none where they take for ever.
TEST(StepMemory, ChoosesByTime) {
  const Graph step = StepOf(kShortGpt, 8);
  const auto device = TwoTiers(0, int64_t{1} << 28);
  const StepMemory before = Memory(step, *device);
  RematerializeOptions options;
  options.limit = before.state_bytes + (before.run.bytes - before.state_bytes) * 6 / 10;
  options.seconds = [](const Graph& graph) -> absl::StatusOr<std::vector<double>> { return GuessedSeconds(graph); };
  std::vector<size_t> offloaded;
  for (const double seconds_per_byte : {1e-13, 1e-6}) {
    options.second_tier = SecondTier{int64_t{1} << 28, seconds_per_byte, 0.5};
    options.plan = [&](const Graph& graph) -> absl::StatusOr<RunPlan> {
      const StepCosts costs{GuessedSeconds(graph), options.second_tier};
      const auto memory = MemoryOf(graph, *device, &costs);
      if (!memory.ok()) return memory.status();
      return memory->run;
    };
    const auto found = Rematerialize(step, options);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_LE(found->bytes, *options.limit);
    offloaded.push_back(found->offloaded.size());
  }
  EXPECT_GT(offloaded[0], 0);
  EXPECT_EQ(offloaded[1], 0);
}

TEST(StepMemory, SaysWhatWasReached) {
  const auto device = Cpu();
  const Graph step = StepOf(kConvNet, 8);
  const auto less = FitMemory(step, *device, 1000, /*measured=*/false);
  ASSERT_TRUE(absl::IsResourceExhausted(less.status())) << less.status();
  EXPECT_THAT(std::string(less.status().message()),
              AllOf(HasSubstr("--memory-limit: found 0.0 MB; the least that was reached is"), HasSubstr("states of"),
                    HasSubstr("above all"), HasSubstr("f32[8,16,24,24] of ")));
}

}  // namespace
}  // namespace rewright
