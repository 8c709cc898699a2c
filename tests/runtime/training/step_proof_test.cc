// Claims of training runs, proved; and damaged in one place, of which none is.
#include "runtime/distributed/proof/step_proof.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <random>

#include "core/ops/ops.h"
#include "runtime/distributed/proof/step_proof_text.h"
#include "tests/runtime/distributed/plans_util.h"
#include "tests/runtime/training/layouts_util.h"

namespace rewright {
namespace {

using distributed::Action;
using distributed::PlanTensor;
using distributed::StepClaim;
using distributed::StepVerdict;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ActionKind = Action::Kind;

const StateAxes kPlaces = {{"layer0.weight", 1}, {"layer0.bias", 0}, {"layer1.weight", 0}};

StepVerdict Proved(const StepClaim& claim) {
  const auto verdict =
      distributed::ProveStep(claim, [](const Graph& graph, const distributed::CutByLaws& cut) -> absl::StatusOr<Graph> {
        return CutByLaws(graph, cut.axes, cut.degree, cut.exact_only, nullptr);
      });
  EXPECT_TRUE(verdict.ok()) << verdict.status();
  return verdict.value_or(StepVerdict());
}

class StepProofTest : public LayoutsTest {
 protected:
  // The claim of a run of one step.
  StepClaim ClaimOf(const std::string& layout, int size, const StateAxes& places = {}) {
    Json json = json_;
    json["steps"] = 1;
    Use(layout, places);
    if (!places.empty()) json = Placed(json);
    with_ = [with = with_](TrainerOptions* options) {
      with(options);
      options->sharing.claims = options->ranks->rank() == 0;
      options->sharing.cut_alone = [](const Graph& graph, const StateAxes& axes, int degree) {
        return CutByLaws(graph, axes, degree, /*exact_only=*/false, nullptr);
      };
    };
    StepClaim claim;
    look_ = [&](int rank, Trainer& trainer) {
      if (rank == 0) claim = *trainer.running().claim;
    };
    Common(Train(json, size));
    look_ = nullptr;
    return claim;
  }
};

// The printed claim is the same claim.
void ExpectProved(const StepClaim& claim) {
  const StepVerdict verdict = Proved(claim);
  EXPECT_EQ(verdict.kind, StepVerdict::Kind::kProved) << verdict.reason;
  EXPECT_GT(verdict.statements, 0);
  distributed::ProofText text;
  text.step = claim;
  const auto parsed = distributed::ParseProof(PrintProof(text));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(PrintProof(*parsed), PrintProof(text));
  const StepVerdict again = Proved(*parsed->step);
  EXPECT_EQ(again.kind, StepVerdict::Kind::kProved) << again.reason;
}

TEST_F(StepProofTest, TheListsOfEveryLayoutAreProved) {
  for (const auto& [layout, size] : std::vector<std::pair<std::string, int>>{{"", 1},
                                                                             {"dp=2", 2},
                                                                             {"dp=3", 3},
                                                                             {"dp=2,zero=1", 2},
                                                                             {"dp=2,zero=2", 2},
                                                                             {"dp=4,zero=3", 4},
                                                                             {"pp=2", 2},
                                                                             {"pp=2,schedule=gpipe", 2},
                                                                             {"pp=2,schedule=zero_bubble", 2},
                                                                             {"dp=2,pp=2", 4},
                                                                             {"dp=2,pp=2,zero=1", 4},
                                                                             {"dp=2,pp=2,zero=3", 4}}) {
    SCOPED_TRACE(layout);
    ExpectProved(ClaimOf(layout, size));
  }
  for (const auto& [layout, size] : std::vector<std::pair<std::string, int>>{
           {"tp=2", 2}, {"dp=2,tp=2", 4}, {"tp=2,zero=1", 2}, {"dp=2,tp=2,zero=2", 4}, {"pp=2,tp=2", 4}}) {
    SCOPED_TRACE(layout);
    const StepClaim claim = ClaimOf(layout, size, kPlaces);
    EXPECT_FALSE(claim.passes.empty());
    ExpectProved(claim);
  }
}

TEST_F(StepProofTest, PartsOfSequencesAreProved) {
  json_ = Json::parse(R"({"model": {"gpt": {"vocabulary": 128, "length": 8, "width": 8, "heads": 2, "layers": 1}},
      "data": {"inputs": {"x": {"file": "../characters/train.txt", "tokens": {"stride": 8}}},
               "target": {"file": "../characters/train.txt", "tokens": {"stride": 8, "shift": 1}}, "batch": 4,
               "micro_batches": 2},
      "loss": "cross_entropy", "optimizer": {"kind": "sgd", "learning_rate": 0.1}, "steps": 1})");
  const StepClaim claim = ClaimOf("cp=2", 2, {{"x", 1}, {"target", 1}});
  ASSERT_EQ(claim.passes.size(), 1u);
  EXPECT_EQ(claim.plan.mesh.axes().back().name, "cp");
  ExpectProved(claim);
}

TEST_F(StepProofTest, MasksAndRunningAveragesAreProved) {
  json_["model"] =
      Json::parse(R"({"conv_net": {"image": [1, 8, 8], "channels": [4, 8], "classes": 10, "dropout": 0.1}})");
  for (const auto& [layout, size] : std::vector<std::pair<std::string, int>>{{"dp=2,zero=2", 2}, {"dp=2,pp=2", 4}}) {
    SCOPED_TRACE(layout);
    ExpectProved(ClaimOf(layout, size));
  }
}

// All actions of a kind, by rank and number.
std::vector<std::pair<int, int>> ActionsOf(const distributed::Plan& plan, ActionKind kind) {
  std::vector<std::pair<int, int>> found;
  for (int rank = 0; rank < static_cast<int>(plan.lists.size()); ++rank) {
    for (int k = 0; k < static_cast<int>(plan.lists[rank].size()); ++k) {
      if (plan.lists[rank][k].kind == kind) found.emplace_back(rank, k);
    }
  }
  return found;
}

// The graph with its first output twice as large.
Graph Doubled(const Graph& graph) {
  Graph copy = CopyGraph(graph);
  std::vector<Output> outputs = copy.outputs();
  const auto twice = copy.arena()->Apply("add", {outputs[0].value, outputs[0].value});
  EXPECT_TRUE(twice.ok()) << twice.status();
  outputs[0].value = *twice;
  return Graph(copy.arena(), copy.inputs(), std::move(outputs));
}

// Damages that give a weight another gradient.
std::vector<std::pair<std::string, StepClaim>> WithOtherValues(const StepClaim& claim) {
  std::vector<std::pair<std::string, StepClaim>> made;
  const auto add = [&](const std::string& what) -> StepClaim& { return made.emplace_back(what, claim).second; };
  const distributed::Plan& plan = claim.plan;
  for (const auto& [rank, number] : ActionsOf(plan, ActionKind::kAccumulate)) {
    Action once_more = plan.lists[rank][number];
    once_more.tensors = {once_more.tensors[0]};
    StepClaim& twice = add("a gradient counted twice");
    twice.plan = distributed::With(twice.plan, rank, number, once_more);
    StepClaim& missing = add("a gradient that is not counted");
    missing.plan = distributed::Without(missing.plan, rank, number);
  }
  for (size_t k = 0; k < claim.subgraphs.size(); ++k) {
    if (claim.passes.contains(static_cast<int>(k)) || claim.subgraphs[k].arena() == nullptr) continue;
    const auto& outputs = claim.subgraphs[k].outputs();
    if (outputs.empty() || !IsFloating(claim.subgraphs[k].type(outputs[0].value).dtype)) continue;
    StepClaim& scaled = add("a scale");
    scaled.subgraphs[k] = Doubled(scaled.subgraphs[k]);
  }
  const std::vector<int> sums = plan.TensorsOf(PlanTensor::Kind::kSum);
  for (int sum : sums) {
    for (int other : sums) {
      const bool alike =
          plan.tensors[sum].leaf != plan.tensors[other].leaf && plan.LeafType(sum) == plan.LeafType(other);
      const bool near = plan.tensors[sum].behind == plan.tensors[other].behind;
      if (sum >= other || !alike || !near || plan.tensors[sum].owner != plan.tensors[other].owner) continue;
      StepClaim& swapped = add("two gradients exchanged");
      std::swap(swapped.plan.tensors[sum].leaf, swapped.plan.tensors[other].leaf);
    }
  }
  // A reduction that no rank of the group makes.
  const auto reductions = ActionsOf(plan, ActionKind::kAllReduce);
  if (!reductions.empty()) {
    StepClaim& missing = add("a missing reduction");
    for (auto left = ActionsOf(missing.plan, ActionKind::kAllReduce); !left.empty();
         left = ActionsOf(missing.plan, ActionKind::kAllReduce)) {
      missing.plan = distributed::Without(missing.plan, left[0].first, left[0].second);
    }
  }
  return made;
}

// Damages of the lists, some of which end in a deadlock or in data that are not there.
std::vector<std::pair<std::string, StepClaim>> Damaged(const StepClaim& claim) {
  std::vector<std::pair<std::string, StepClaim>> made;
  const auto add = [&](const std::string& what) -> StepClaim& { return made.emplace_back(what, claim).second; };
  const distributed::Plan& plan = claim.plan;
  for (int rank = 0; rank < static_cast<int>(plan.lists.size()); ++rank) {
    for (int k = 0; k < static_cast<int>(plan.lists[rank].size()); ++k) {
      const Action& action = plan.lists[rank][k];
      StepClaim& without = add(absl::StrCat("rank ", rank, " without action ", k));
      if (action.kind == ActionKind::kWait) {
        without.plan.lists[rank][k].target = std::max(0, action.target - 1);
        const ActionKind before = plan.lists[rank][without.plan.lists[rank][k].target].kind;
        if (action.target == 0 || !distributed::IsCommunication(before)) made.pop_back();
      } else {
        without.plan = distributed::Without(without.plan, rank, k);
      }
      if (action.micro_batch >= 0 && action.kind != ActionKind::kReduceScatter) {
        StepClaim& other = add(absl::StrCat("rank ", rank, ", action ", k, " of another micro-batch"));
        Action& moved = other.plan.lists[rank][k];
        moved.micro_batch = (moved.micro_batch + 1) % plan.micro_batches;
      }
      if (distributed::IsCollective(action.kind) && plan.mesh.ranks() > plan.mesh.replicas()) {
        add(absl::StrCat("rank ", rank, ", action ", k, " in a wrong group")).plan.lists[rank][k].axis = 1;
      }
      if (action.kind == ActionKind::kSend && k > 0 && plan.lists[rank][k - 1].kind == ActionKind::kRun) {
        StepClaim& early = add(absl::StrCat("rank ", rank, ", action ", k, ": a send too early"));
        std::vector<Action>& list = early.plan.lists[rank];
        std::swap(list[k - 1], list[k]);
        for (Action& wait : list) {
          if (wait.kind == ActionKind::kWait && wait.target == k) wait.target = k - 1;
        }
      }
    }
  }
  for (size_t k = 0; k < plan.tensors.size(); ++k) {
    const PlanTensor& tensor = plan.tensors[k];
    if (tensor.kind != PlanTensor::Kind::kSum && tensor.kind != PlanTensor::Kind::kWeight) continue;
    if (tensor.owner >= 0) {
      PlanTensor& other = add(absl::StrCat("another owner of tensor ", k)).plan.tensors[k];
      other.owner = (other.owner + 1) % (plan.mesh.ranks() / plan.mesh.replicas());
    }
    if (tensor.cut >= 0 && tensor.type.rank() > 1) {
      PlanTensor& other = add(absl::StrCat("tensor ", k, " cut along another axis")).plan.tensors[k];
      other.cut = 1 - other.cut;
    }
  }
  if (claim.update) {
    add("an update over other devices").update->degree *= 2;
    add("an update that is cut along other axes").update->axes.pop_back();
  }
  for (const auto& [number, cut] : claim.passes) {
    if (number == 0) add("a pass with a weight in other blocks").passes.at(0).axes.back().second ^= 1;
    StepClaim& doubled = add("a pass of other graphs");
    doubled.passes.at(number).graph = Doubled(cut.graph);
  }
  return made;
}

TEST_F(StepProofTest, DamagedClaimsAreNotProved) {
  std::mt19937 random(5);
  int refuted = 0, count = 0;
  struct Of {
    std::string layout;
    int size = 1;
    StateAxes places;
  };
  json_["data"]["micro_batches"] = 4;
  json_["model"]["mlp"]["sizes"] = {64, 8, 8, 8, 10};
  for (const Of& of : std::vector<Of>{{"dp=2", 2, {}},
                                      {"dp=2,zero=2", 2, {}},
                                      {"dp=2,zero=3", 2, {}},
                                      {"pp=2", 2, {}},
                                      {"dp=2,pp=2,zero=1", 4, {}},
                                      {"tp=2", 2, kPlaces},
                                      {"pp=2,tp=2", 4, kPlaces}}) {
    SCOPED_TRACE(of.layout);
    const StepClaim claim = ClaimOf(of.layout, of.size, of.places);
    ASSERT_EQ(Proved(claim).kind, StepVerdict::Kind::kProved) << Proved(claim).reason;
    for (const auto& [what, damaged] : WithOtherValues(claim)) {
      const StepVerdict verdict = Proved(damaged);
      EXPECT_EQ(verdict.kind, StepVerdict::Kind::kRefuted) << what << ": " << verdict.reason;
      EXPECT_THAT(verdict.reason, AllOf(HasSubstr("rank "), HasSubstr("on one device it is"))) << what;
      ++refuted;
      ++count;
    }
    std::vector<std::pair<std::string, StepClaim>> others = Damaged(claim);
    std::shuffle(others.begin(), others.end(), random);
    for (size_t k = 0; k < std::min<size_t>(others.size(), 60); ++k) {
      const StepVerdict verdict = Proved(others[k].second);
      EXPECT_NE(verdict.kind, StepVerdict::Kind::kProved) << others[k].first;
      EXPECT_FALSE(verdict.reason.empty());
      ++count;
    }
  }
  EXPECT_GE(count, 300);
  EXPECT_GE(refuted, 60);
}

// A rank sends and keeps as many bytes as the plan's type of a tensor has.
TEST_F(StepProofTest, TensorsOfOtherTypesAreNotProved) {
  for (const auto& [layout, size] : std::vector<std::pair<std::string, int>>{{"dp=2", 2}, {"pp=2", 2}}) {
    const StepClaim claim = ClaimOf(layout, size);
    for (size_t k = 0; k < claim.plan.tensors.size(); ++k) {
      if (claim.plan.tensors[k].type.rank() == 0) continue;
      StepClaim damaged = claim;
      damaged.plan.tensors[k].type.shape[0] += 1;
      EXPECT_EQ(Proved(damaged).kind, StepVerdict::Kind::kUnproved) << layout << ", tensor " << k;
    }
  }
}

TEST_F(StepProofTest, TextsThatAreDamagedAreRefused) {
  distributed::ProofText text;
  text.step = ClaimOf("pp=2", 2);
  const std::string printed = PrintProof(text);
  const auto error = [](const std::string& damaged) {
    return std::string(distributed::ParseProof(damaged).status().message());
  };
  EXPECT_THAT(error("rewright"), HasSubstr("found `rewright`, expected rewright step proof 1"));
  std::string other = printed;
  other.replace(other.find("== step"), 7, "== stop");
  EXPECT_THAT(error(other), HasSubstr("expected seal "));
  EXPECT_THAT(error(printed.substr(0, printed.size() / 2)), HasSubstr("expected a seal"));
}

}  // namespace
}  // namespace rewright
