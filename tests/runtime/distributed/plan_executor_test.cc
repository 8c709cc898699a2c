// Tests that lists are run: ranks of every layout get the sums of one rank, to the last bit.
#include "runtime/distributed/plan_executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "runtime/comm/collectives.h"
#include "runtime/comm/in_process.h"
#include "runtime/distributed/check_plan.h"
#include "runtime/distributed/plan_cost.h"
#include "runtime/distributed/plan_text.h"
#include "tests/runtime/distributed/plans_util.h"

namespace rewright::distributed {
namespace {

using Kind = Action::Kind;

// A subgraph of a plan, whose results depend on all elements that it reads.
class Mixing : public Executable {
 public:
  Mixing(const Plan& plan, size_t subgraph) : plan_(plan), number_(subgraph) {}

  absl::Status Run(const std::vector<Tensor>& inputs, std::vector<Tensor>* outputs) override {
    const PlanSubgraph& subgraph = plan_.subgraphs[number_];
    for (size_t k = 0; k < outputs->size(); ++k) {
      const TensorType& type = plan_.tensors[static_cast<size_t>(subgraph.makes[k])].type;
      Tensor result(type);
      for (int64_t i = 0; i < type.num_elements(); ++i) {
        double value = 0.1 * static_cast<double>(k) + 0.01 * static_cast<double>(number_);
        for (size_t r = 0; r < inputs.size(); ++r) {
          value += 0.37 / static_cast<double>(r + 1) * inputs[r].At(i % inputs[r].num_elements());
        }
        result.Set(i, value);
      }
      CopyElements(result, &(*outputs)[k]);
    }
    return absl::OkStatus();
  }
  int64_t arena_bytes() const override { return 0; }
  int64_t peak_live_bytes() const override { return 0; }

 private:
  const Plan& plan_;
  const size_t number_;
};

Tensor Filled(const TensorType& type, int64_t seed) {
  Tensor tensor(type);
  for (int64_t i = 0; i < type.num_elements(); ++i) {
    tensor.Set(i, static_cast<double>((seed * 31 + i * 7) % 23) / (IsFloating(type.dtype) ? 11.0 : 1.0));
  }
  return tensor;
}

struct Outcome {
  std::vector<std::vector<Tensor>> sums;  // by rank, of the second of two steps
  std::vector<int64_t> sent, planned;     // by rank, in a step
};

Outcome RunPlan(const Plan& plan, int zero) {
  Outcome outcome;
  const auto ranks = static_cast<size_t>(plan.mesh.ranks());
  outcome.sums.resize(ranks);
  outcome.sent.resize(ranks);
  outcome.planned.resize(ranks);
  const auto work = [&](Communicator& all) -> absl::Status {
    const int rank = all.rank(), number = plan.mesh.NumberOf(rank);
    std::vector<int> replica;
    for (int k = 0; k < plan.mesh.ranks() / plan.mesh.replicas(); ++k) replica.push_back(rank - number + k);
    const auto of_replica = GroupOf(all, replica), replicas = GroupOf(all, plan.mesh.GroupOf(rank, 0));
    PlanParts parts{plan, rank};
    for (size_t p = 0; p < plan.subgraphs.size(); ++p) parts.executables.push_back(std::make_unique<Mixing>(plan, p));
    parts.weights = [&]() -> absl::StatusOr<std::vector<Tensor>> {
      std::vector<Tensor> weights;
      for (int weight : plan.TensorsOf(PlanTensor::Kind::kWeight)) {
        const PlanTensor& of = plan.tensors[static_cast<size_t>(weight)];
        Tensor value = Filled(of.type, weight);
        if (of.owner >= 0 && of.owner != number) value = Tensor();
        if (of.cut >= 0 && plan.mesh.replicas() > 1 && value.data() != nullptr) {
          Tensor block(BlockType(of.type, of.cut, plan.mesh.replicas()));
          CopyBlock(value, of.cut, replicas->rank(), &block);
          value = block;
        }
        weights.push_back(value);
      }
      return weights;
    };
    ASSIGN_OR_RETURN(const auto executor, PlanExecutor::Create(std::move(parts), {*of_replica, *replicas}));
    const std::vector<int64_t> own = MicroBatchesOf(zero, plan.micro_batches, replicas->rank(), plan.mesh.replicas());
    for (int step = 0; step < 2; ++step) {
      size_t next = 0;
      const auto next_batch = [&]() -> absl::StatusOr<std::vector<Tensor>> {
        std::vector<Tensor> batch;
        for (int input : plan.TensorsOf(PlanTensor::Kind::kInput)) {
          batch.push_back(Filled(plan.tensors[static_cast<size_t>(input)].type, own[next] * 100 + input));
        }
        ++next;
        return batch;
      };
      const int64_t before = all.bytes_sent();
      const auto update = [&](const std::vector<Tensor>& sums) -> absl::Status {
        outcome.sums[static_cast<size_t>(rank)] = sums;
        return absl::OkStatus();
      };
      RETURN_IF_ERROR(executor->Run(absl::StrCat("step ", step + 1), next_batch, update));
      outcome.sent[static_cast<size_t>(rank)] = all.bytes_sent() - before;
    }
    outcome.planned[static_cast<size_t>(rank)] = executor->bytes_sent();
    return absl::OkStatus();
  };
  for (const absl::Status& status : OnRanks(plan.mesh.ranks(), work)) EXPECT_TRUE(status.ok()) << status;
  return outcome;
}

// Expects the sums of one rank: those that a rank owns, its blocks where they are cut.
void ExpectSums(const Plan& plan, const Outcome& found, const Outcome& alone) {
  const std::vector<int> sums = plan.TensorsOf(PlanTensor::Kind::kSum);
  for (int rank = 0; rank < plan.mesh.ranks(); ++rank) {
    for (size_t k = 0; k < sums.size(); ++k) {
      const PlanTensor& of = plan.tensors[static_cast<size_t>(sums[k])];
      const Tensor& sum = found.sums[static_cast<size_t>(rank)][k];
      if (of.owner >= 0 && of.owner != plan.mesh.NumberOf(rank)) {
        EXPECT_EQ(sum.data(), nullptr);
        continue;
      }
      Tensor expected = alone.sums[0][k];
      if (of.cut >= 0) {
        const int each = plan.mesh.ranks() / plan.mesh.replicas();
        const bool in_replica = of.type != expected.type();
        const int blocks = plan.mesh.replicas() * (in_replica ? each : 1);
        Tensor block(BlockType(expected.type(), of.cut, blocks));
        const int first = in_replica ? plan.mesh.NumberOf(rank) * plan.mesh.replicas() : 0;
        CopyBlock(expected, of.cut, first + plan.mesh.PlaceOf(rank, 0), &block);
        expected = block;
      }
      EXPECT_TRUE(sum.BitEqual(expected)) << "rank " << rank << ", sum " << k;
    }
  }
}

// The same subgraphs on one rank, one behind the other.
Plan OnOneRank(Plan plan) {
  plan.mesh = Mesh({{"dp", 1}});
  for (PlanTensor& tensor : plan.tensors) tensor.cut = tensor.owner = -1;
  for (PlanSubgraph& subgraph : plan.subgraphs) subgraph.over = -1;
  plan.lists.clear();
  WriteDataParallel(0, &plan);
  return plan;
}

TEST(PlanExecutorTest, EveryLayoutGivesTheSumsOfOneRank) {
  for (const char* text : {"dp=2,layers=3,micro=5",
                           "dp=3,layers=3,zero=1,micro=7",
                           "dp=4,layers=2,zero=2,micro=6",
                           "dp=2,layers=4,zero=3,micro=5",
                           "pp=2,micro=3",
                           "pp=3,micro=5",
                           "pp=2,micro=4,schedule=gpipe",
                           "pp=2,micro=4,schedule=interleaved,chunks=2",
                           "dp=2,pp=2,zero=1,micro=5",
                           "dp=2,pp=2,zero=2,micro=3",
                           "dp=2,pp=2,zero=3,micro=5,schedule=interleaved,chunks=2",
                           "pp=2,tp=2,micro=3",
                           "dp=2,pp=2,tp=2,zero=2,micro=4",
                           "dp=2,pp=3,zero=3,micro=4",
                           "pp=3,micro=5,schedule=zero_bubble",
                           "dp=2,pp=2,zero=2,micro=5,schedule=zero_bubble",
                           "dp=2,tp=2,micro=3,layers=2",
                           "dp=2,tp=2,zero=1,micro=3,layers=2",
                           "dp=2,tp=2,zero=3,micro=3,layers=2",
                           "tp=2,zero=2,micro=3,layers=2"}) {
    SCOPED_TRACE(text);
    const PlanOptions options = ParsePlanOptions(text);
    const Plan plan = MakePlan(options);
    ASSERT_EQ(CheckPlan(plan), absl::OkStatus());
    Plan alone = OnOneRank(plan);
    if (options.pp == 1 && options.tp > 1) {  // the same pass without blocks of sums
      PlanOptions pass = options;
      pass.dp = 1;
      pass.zero = 0;
      alone = MakePlan(pass);
    }
    const Outcome found = RunPlan(plan, options.dp > 1 ? options.zero : 0);
    ExpectSums(plan, found, RunPlan(alone, 0));
    EXPECT_EQ(found.sent, found.planned);
  }
}

TEST(PlanExecutorTest, ValuesMayWaitInTheSecondTier) {
  const Plan plan = MakePlan(ParsePlanOptions("pp=2,micro=6,schedule=gpipe"));
  Plan offloaded = plan;
  const auto find = [&](const std::string& text) {
    const std::vector<Action>& list = offloaded.lists[0];
    const auto found = std::find_if(list.begin(), list.end(),
                                    [&](const Action& action) { return PrintAction(offloaded, action) == text; });
    return static_cast<int>(found - list.begin());
  };
  for (int64_t i = 0; i < 6; ++i) {
    const int run = find(absl::StrCat("RUN s0 of ", i));
    ASSERT_EQ(PrintAction(plan, {Kind::kOffload, -1, {7}, i}), absl::StrCat("OFFLOAD t7 of ", i));
    offloaded = With(offloaded, 0, run + 1, {Kind::kOffload, -1, {7}, i});
    offloaded = With(offloaded, 0, find(absl::StrCat("RUN s3 of ", i)), {Kind::kFetch, -1, {7}, i});
  }
  ASSERT_EQ(CheckPlan(offloaded), absl::OkStatus());
  const auto peak = [](const Plan& of) {
    const std::vector<int64_t> bytes = RunBytesOverTime(of, 0);
    return *std::max_element(bytes.begin(), bytes.end());
  };
  EXPECT_EQ(peak(plan) - peak(offloaded), 5 * plan.tensors[7].type.num_bytes());
  ExpectSums(plan, RunPlan(offloaded, 0), RunPlan(MakePlan(ParsePlanOptions("micro=6,layers=2")), 0));
  EXPECT_FALSE(CheckPlan(Without(offloaded, 0, find("FETCH t7 of 2"))).ok());
}

}  // namespace
}  // namespace rewright::distributed
