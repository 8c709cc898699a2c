// Tests ranks that run their parts of a graph cut over devices: they give the interpreter's results of the whole graph.
#include "runtime/parallel/rank_executable.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "absl/strings/str_cat.h"
#include "backends/device_factory.h"
#include "bench/zoo/zoo.h"
#include "core/interpreter/interpreter.h"
#include "core/ir/random_tensors.h"
#include "core/ir/text.h"
#include "core/tensor/compare.h"
#include "runtime/comm/in_process.h"
#include "runtime/executor.h"
#include "runtime/reference_runner.h"
#include "substitutions/rule_set.h"
#include "tests/counts.h"
#include "tests/support/parsed_graph.h"
#include "tests/support/random_graph.h"
#include "tests/support/random_placements.h"
#include "verifier/claims/sharding_laws.h"

namespace rewright {
namespace {

using sharding::Placement;
using sharding::Shard;
using sharding::Sharded;
using testing::Contains;
using testing::HasSubstr;

std::vector<Tensor> InOrder(const Graph& graph, const absl::flat_hash_map<std::string, Tensor>& inputs) {
  std::vector<Tensor> tensors;
  for (Value input : graph.inputs()) tensors.push_back(inputs.at(graph.node(input.node).name));
  return tensors;
}

using MakeRunner = std::function<std::unique_ptr<GraphRunner>()>;
MakeRunner ReferenceRunners() {
  return [] { return MakeReferenceRunner(1); };
}

struct OnRanksResult {
  std::vector<absl::Status> status;
  std::vector<std::vector<Tensor>> outputs;  // by rank
  std::vector<int64_t> sent;                 // by rank, in the last run
  std::set<std::string> collectives;
};

// Runs twice, so that data left over from the first run would show in the second.
OnRanksResult RunOnRanks(const Graph& cut, int size, const std::vector<Tensor>& inputs, const MakeRunner& runners) {
  OnRanksResult result;
  result.outputs.resize(static_cast<size_t>(size));
  result.sent.resize(static_cast<size_t>(size));
  result.status = OnRanks(size, [&](Communicator& ranks) -> absl::Status {
    const auto rank = static_cast<size_t>(ranks.rank());
    const std::unique_ptr<GraphRunner> runner = runners();
    auto executable = RankExecutable::Create(cut, ranks, *runner);
    if (!executable.ok()) return executable.status();
    for (int run = 0; run < 2; ++run) {
      const int64_t before = ranks.bytes_sent();
      if (absl::Status done = (*executable)->Run(inputs, &result.outputs[rank]); !done.ok()) return done;
      result.sent[rank] = ranks.bytes_sent() - before;
    }
    if (rank == 0) {
      for (const Collective& collective : (*executable)->collectives()) {
        result.collectives.insert(CollectiveName(collective.kind));
      }
    }
    return absl::OkStatus();
  });
  return result;
}

// Every rank uses the reference interpreter; sums over ranks in another order may round differently.
void ExpectSame(const Sharded& sharded, int size, const std::vector<Tensor>& inputs, OnRanksResult* result) {
  absl::flat_hash_map<std::string, Tensor> by_name;
  for (size_t k = 0; k < inputs.size(); ++k) {
    by_name[sharded.graph.node(sharded.graph.inputs()[k].node).name] = inputs[k];
  }
  const auto expected = InterpretGraph(sharded.graph, by_name);
  if (!expected.ok()) return;  // a quotient of integers by zero
  *result = RunOnRanks(sharded.graph, size, inputs, ReferenceRunners());
  for (size_t rank = 0; rank < result->status.size(); ++rank) {
    ASSERT_TRUE(result->status[rank].ok()) << result->status[rank];
    const std::vector<Tensor>& found = result->outputs[rank];
    ASSERT_EQ(found.size(), expected->size());
    for (size_t k = 0; k < found.size(); ++k) {
      if (sharded.exact || !IsFloating(found[k].dtype())) {
        EXPECT_TRUE(found[k].BitEqual((*expected)[k])) << "rank " << rank << ", output " << k;
      } else {
        EXPECT_TRUE(Compare(found[k], (*expected)[k], 1e-4, 1e-4).close) << Compare(found[k], (*expected)[k]).text;
      }
    }
  }
}

TEST(RankExecutable, RandomGraphsGiveWhatTheInterpreterGives) {
  const auto core = FindRuleFile("core.rules"), laws = FindRuleFile("laws.rules");
  ASSERT_TRUE(core.ok() && laws.ok());
  const auto rules = RuleSet::FromFiles({*core, *laws}, {.allow_finite_only = true});
  ASSERT_TRUE(rules.ok()) << rules.status();
  const RandomGraphs graphs(rules->matchers());
  const bool whole = Cases(1000) == 1000;
  const int wanted = whole ? 1000 : 30;  // most of the time goes into proofs
  int exchanged = 0;
  std::set<std::string> collectives;
  for (int i = 0; i < wanted; ++i) {
    const uint64_t seed = 5000 + static_cast<uint64_t>(i);
    const RandomGraph random = graphs.Grow(seed, 4);
    std::mt19937_64 rng(seed);
    const int degree = 2 + i % 3;
    const std::vector<Placement> placements = RandomPlacements(random.graph, degree, rng);
    SCOPED_TRACE(absl::StrCat("seed ", seed, ", ", degree, " ranks\n", PrintGraph(random.graph)));
    const Sharded sharded = Cut(random.graph, placements, degree);
    SCOPED_TRACE(PrintGraph(sharded.graph));
    OnRanksResult result;
    ExpectSame(sharded, degree, InOrder(random.graph, random.inputs), &result);
    if (HasFailure()) return;
    exchanged += !result.collectives.empty();
    collectives.insert(result.collectives.begin(), result.collectives.end());
  }
  std::cout << wanted << " graphs, ranks of " << exchanged << " exchange something\n";
  EXPECT_GT(exchanged, wanted / 4);
  EXPECT_THAT(collectives, Contains("all-gather"));
  if (!whole) return;  // rare ones
  EXPECT_THAT(collectives, Contains("all-reduce"));
  EXPECT_THAT(collectives, Contains("all-to-all"));
}

// The results depend on the begin of a block: random numbers, borders of windows, rows of a table.
TEST(RankExecutable, RanksKnowWhichBlockTheyHave) {
  struct Case {
    const char* text;
    std::vector<Placement> placements;
    const char* uses;
  };
  const Case cases[] = {
      {R"(input x: f32[4,12,8]
          input seed: i64[]
          input w: f32[8,8]
          %1 = random_uniform(seed, shape=[4,12,8], stream=3)
          const %2: f32[] = [0.25]
          %3 = less(%1, %2)
          const %4: f32[] = [0]
          %5 = where(%3, %4, x)
          %6 = matmul(%5, w)
          output y = %6)",
       {{"x", 1}},
       "block_random_uniform("},
      {R"(input x: f32[2,3,24,5]
          %1 = max_pool2d(x, kernel=[3,3], strides=[2,1], pads=[1,1,1,1])
          %2 = avg_pool2d(%1, kernel=[3,1], strides=[1,1], pads=[1,0,1,0])
          output y = %2)",
       {{"x", 2}},
       "block_avg_pool2d("},
      {R"(input t: f32[48,4]
          input i: i64[3,2]
          %1 = gather(t, i, axis=0)
          output y = %1)",
       {{"t", 0}},
       "block_gather("},
  };
  const auto device = MakeDevice("cpu", DeviceOptions{.threads = 1});
  ASSERT_TRUE(device.ok()) << device.status();
  for (const Case& one : cases) {
    const Graph graph = GraphOf(one.text);
    std::vector<Tensor> inputs = *RandomInputs(graph, 3);
    for (size_t k = 0; k < inputs.size(); ++k) {
      for (int64_t i = 0; !IsFloating(inputs[k].dtype()) && i < inputs[k].num_elements(); ++i) {
        inputs[k].Set(i, static_cast<double>(i * 19 % 48));
      }
    }
    for (const int size : {2, 3, 4}) {
      SCOPED_TRACE(size);
      const Sharded sharded = Cut(graph, one.placements, size);
      EXPECT_THAT(PrintGraph(sharded.graph), HasSubstr(one.uses));
      OnRanksResult result;
      ExpectSame(sharded, size, inputs, &result);
      // On a device that compiles, only the order of sums differs.
      const OnRanksResult compiled = RunOnRanks(sharded.graph, size, inputs, [&] { return MakeGraphRunner(**device); });
      for (size_t rank = 0; rank < compiled.status.size(); ++rank) {
        ASSERT_TRUE(compiled.status[rank].ok()) << compiled.status[rank];
        EXPECT_TRUE(Compare(compiled.outputs[rank][0], result.outputs[rank][0], 1e-5, 1e-5).close);
      }
    }
  }
}

TEST(RankExecutable, CollectivesAreThoseThatPlacementsAreMadeOf) {
  struct Case {
    const char* text;
    std::vector<std::string> collectives;
  };
  const Case cases[] = {
      {R"(input x: f32[4,6]
          %1 = partition(x, axis=0, degree=2)
          %2 = each_exp(%1)
          %3 = combine(%2, axis=0)
          %4 = partition(%3, axis=1, degree=2)
          %5 = each_neg(%4)
          %6 = combine(%5, axis=1)
          output y = %6)",
       {"all-to-all", "all-gather"}},
      // Each rank gets its block of a sum that is only cut again.
      {R"(input x: f32[4,6]
          input w: f32[6,8]
          %1 = partition(x, axis=1, degree=2)
          %2 = partition(w, axis=0, degree=2)
          %3 = each_matmul(%1, %2)
          %4 = reduce_sum(%3, axes=[0], keepdims=0)
          %5 = partition(%4, axis=1, degree=2)
          %6 = each_relu(%5)
          %7 = combine(%6, axis=1)
          output y = %7)",
       {"reduce-scatter", "all-gather"}},
      {R"(input x: f32[4,6]
          %1 = partition(x, axis=1, degree=2)
          %2 = each_reduce_mean(%1, axes=[1], keepdims=0)
          %3 = reduce_mean(%2, axes=[0], keepdims=0)
          output y = %3)",
       {"all-reduce"}},
      {R"(input x: f32[4,6]
          %1 = partition(x, axis=0, degree=2)
          %2 = halo(%1, axis=0, before=1, after=2)
          %3 = each_exp(%2)
          %4 = reduce_max(%3, axes=[0], keepdims=0)
          output y = %4)",
       {"halo", "all-reduce"}},
      // A table cut by rows; indices may count from the end.
      {R"(input t: f32[6,3]
          input i: i64[2,5]
          %1 = partition(t, axis=0, degree=2)
          %2 = replicate(i, degree=2)
          %3 = gather_rows(%1, %2)
          %4 = reduce_sum(%3, axes=[0], keepdims=0)
          output y = %4)",
       {"all-reduce"}},
      // A tensor with the device as its first axis is used like any other.
      {R"(input x: f32[4,6]
          %1 = partition(x, axis=1, degree=2)
          %2 = each_exp(%1)
          %3 = transpose(%2, perm=[2,0,1])
          %4 = each_neg(%2)
          output y = %3
          output z = %4)",
       {"all-gather", "all-gather"}},
      {R"(input x: f32[2,6]
          input y: f32[2,6]
          %1 = add(x, y)
          %2 = each_exp(%1)
          %3 = replicate(x, degree=2)
          %4 = combine(%3, axis=0)
          %5 = combine(%2, axis=0)
          output y0 = %4
          output y1 = %5)",
       {"all-gather", "all-gather"}},
      // Values that depend on weights alone are exchanged before the run.
      {R"(state w: f32[4,6]
          input x: f32[6]
          %1 = partition(w, axis=0, degree=2)
          %2 = each_exp(%1)
          %3 = reduce_mean(%2, axes=[0], keepdims=0)
          %4 = mul(%3, x)
          %5 = combine(%2, axis=0)
          %6 = partition(%5, axis=1, degree=2)
          %7 = partition(x, axis=0, degree=2)
          %8 = each_mul(%6, %7)
          %9 = combine(%8, axis=1)
          output y = %4
          output z = %9)",
       {"all-gather"}},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.text);
    const Graph graph = GraphOf(one.text);
    const auto inputs = RandomInputs(graph, 3);
    ASSERT_TRUE(inputs.ok());
    OnRanksResult result;
    ExpectSame(Sharded{.graph = graph, .exact = false}, 2, *inputs, &result);
    const auto rank = GraphOfRank(graph, 1, 2);
    ASSERT_TRUE(rank.ok()) << rank.status();
    std::vector<std::string> found;
    for (const Collective& collective : rank->collectives) found.push_back(CollectiveName(collective.kind));
    EXPECT_THAT(found, testing::UnorderedElementsAreArray(one.collectives));
    // Ranks send the bytes that the placements promise.
    double promised = 0;
    for (const sharding::Exchange& exchange : sharding::ExchangesOf(graph)) promised += exchange.bytes;
    if (one.collectives == std::vector<std::string>{"all-to-all", "all-gather"}) {
      EXPECT_EQ(result.sent[0], promised);
    }
  }
}

TEST(RankExecutable, OnAnotherNumberOfRanksAllComputeAll) {
  const Graph graph = GraphOf(R"(input x: f32[4,6]
      %1 = partition(x, axis=0, degree=2)
      %2 = each_exp(%1)
      %3 = halo(%2, axis=0, before=1)
      %4 = combine(%3, axis=0)
      output y = %4)");
  OnRanksResult result;
  ExpectSame(Sharded{.graph = graph}, 3, *RandomInputs(graph, 3), &result);
  EXPECT_EQ(result.sent[0], 0);
}

TEST(RankExecutable, ARankThatFailsIsNamedWithWhatTheOthersWaitedFor) {
  const Graph graph = GraphOf(R"(input x: f32[4,6]
      %1 = partition(x, axis=1, degree=2)
      %2 = each_reduce_sum(%1, axes=[1], keepdims=0)
      %3 = reduce_sum(%2, axes=[0], keepdims=0)
      output y = %3)");
  const auto inputs = RandomInputs(graph, 3);
  const std::vector<absl::Status> status = OnRanks(2, [&](Communicator& ranks) -> absl::Status {
    ranks.set_timeout(1);
    const std::unique_ptr<GraphRunner> runner = MakeReferenceRunner(1);
    auto executable = RankExecutable::Create(graph, ranks, *runner);
    if (!executable.ok()) return executable.status();
    std::vector<Tensor> outputs;
    absl::Status done = (*executable)->Run(*inputs, &outputs);
    if (!done.ok() || ranks.rank() == 1) {
      std::this_thread::sleep_for(std::chrono::seconds(3));  // it hangs
      return done;
    }
    return (*executable)->Run(*inputs, &outputs);
  });
  EXPECT_THAT(std::string(status[0].message()),
              HasSubstr("run 2, all-reduce of reduce_sum: rank 0 waited 1 s for rank 1, which may hang"));
}

// Cut states stay on their ranks; reading one gives all of it.
TEST(RankExecutable, StatesAreBlocks) {
  const Graph graph = GraphOf(R"(training
      input x: f32[4,6]
      state w: f32[4,6]
      state m: f32[4,6]
      state n: i64[]
      const %0: i64[] = [1]
      %1 = partition(x, axis=0, degree=2)
      %2 = partition(w, axis=0, degree=2)
      %3 = each_add(%1, %2)
      %4 = combine(%3, axis=0)
      %5 = add(n, %0)
      %6 = reduce_sum(x, axes=[0,1], keepdims=0)
      output y = %6
      update w = %4
      update m = w
      update n = %5)");
  const auto inputs = RandomInputs(graph, 3);
  const Tensor start = RandomInputs(GraphOf("input w: f32[4,6]\n%1 = exp(w)\noutput y = %1\n"), 1)->front();
  const auto reference = MakeReferenceRunner(1)->Prepare(graph);
  ASSERT_TRUE(reference.ok());
  ASSERT_TRUE((*reference)->WriteState("w", start).ok());
  std::vector<Tensor> expected;
  for (int run = 0; run < 3; ++run) ASSERT_TRUE((*reference)->Run(*inputs, &expected).ok());
  const std::vector<absl::Status> status = OnRanks(2, [&](Communicator& ranks) -> absl::Status {
    const std::unique_ptr<GraphRunner> runner = MakeReferenceRunner(1);
    auto executable = RankExecutable::Create(graph, ranks, *runner);
    if (!executable.ok()) return executable.status();
    EXPECT_TRUE((*executable)->WriteState("w", start).ok());
    EXPECT_FALSE((*executable)->WriteState("v", start).ok());
    std::vector<Tensor> outputs;
    for (int run = 0; run < 3; ++run) {
      if (absl::Status done = (*executable)->Run(*inputs, &outputs); !done.ok()) return done;
    }
    EXPECT_EQ(ranks.bytes_sent(), 3 * 48) << "m has all of w";
    for (const char* name : {"w", "m", "n"}) {
      const auto found = (*executable)->ReadState(name);
      if (!found.ok()) return found.status();
      EXPECT_TRUE(found->BitEqual(*(*reference)->ReadState(name))) << name;
    }
    return absl::OkStatus();
  });
  for (const absl::Status& one : status) EXPECT_TRUE(one.ok()) << one;
}

// Runs a model on the CPU device, by itself and on ranks.
void ExpectModelOnRanks(const std::string& name, const ZooOptions& options, const std::vector<Placement>& placements,
                        const std::map<std::string, int>& collectives) {
  const auto graph = BuildZooModel(name, options);
  ASSERT_TRUE(graph.ok()) << graph.status();
  const std::vector<Tensor> inputs = *RandomInputs(*graph, 1);
  DeviceOptions device_options;
  device_options.threads = 1;
  const auto device = MakeDevice("cpu", device_options);
  ASSERT_TRUE(device.ok()) << device.status();
  const auto executable = MakeGraphRunner(**device)->Prepare(*graph);
  ASSERT_TRUE(executable.ok()) << executable.status();
  std::vector<Tensor> expected;
  ASSERT_TRUE((*executable)->Run(inputs, &expected).ok());
  const int degree = 2;
  const Sharded sharded = Cut(*graph, placements, degree);
  EXPECT_THAT(sharded.whole, testing::IsEmpty());
  std::map<std::string, int> promised;
  double bytes = 0;
  for (const sharding::Exchange& exchange : sharding::ExchangesOf(sharded.graph)) {
    promised[exchange.collective] = exchange.count;
    bytes += exchange.bytes;
  }
  EXPECT_EQ(promised, collectives);
  const OnRanksResult result = RunOnRanks(sharded.graph, degree, inputs, [&] { return MakeGraphRunner(**device); });
  for (int rank = 0; rank < degree; ++rank) {
    const auto k = static_cast<size_t>(rank);
    ASSERT_TRUE(result.status[k].ok()) << result.status[k];
    EXPECT_NEAR(static_cast<double>(result.sent[k]), bytes, 0.02 * bytes);
    ASSERT_EQ(result.outputs[k].size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_TRUE(Compare(result.outputs[k][i], expected[i], 1e-4, 1e-4).close)
          << Compare(result.outputs[k][i], expected[i]).text;
    }
  }
}

TEST(RankExecutable, BertByHeadsAndColumns) {
  ZooOptions options;
  options.layers = 2;
  options.sequence_length = 8;
  ExpectModelOnRanks("bert_base", options, {{"*query.weight", 0}, {"*intermediate.dense.weight", 0}},
                     {{"all-reduce", 4}});
}

TEST(RankExecutable, ResnetByImages) {
  ZooOptions options;
  options.batch = 4;
  options.image_size = 32;
  ExpectModelOnRanks("resnet50", options, {{"input", 0}}, {{"all-gather", 1}});
}

}  // namespace
}  // namespace rewright
