// Tests plans by their lists alone: all layouts of up to 8 ranks are sound, damaged ones are refused, texts are golden.
#include "runtime/distributed/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "runtime/comm/collectives.h"
#include "runtime/distributed/check_plan.h"
#include "runtime/distributed/plan_cost.h"
#include "runtime/distributed/plan_text.h"
#include "tests/runtime/distributed/plans_util.h"

namespace rewright::distributed {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Kind = Action::Kind;

std::string Error(const absl::Status& status) { return std::string(status.message()); }

TEST(MeshTest, RanksOfTheInnermostAxisAreNeighbours) {
  const Mesh mesh({{"dp", 2}, {"pp", 3}, {"tp", 2}});
  EXPECT_EQ(mesh.ranks(), 12);
  EXPECT_THAT(mesh.GroupOf(9, 0), ElementsAre(3, 9));
  EXPECT_THAT(mesh.GroupOf(9, 1), ElementsAre(7, 9, 11));
  EXPECT_THAT(mesh.GroupOf(9, 2), ElementsAre(8, 9));
  EXPECT_EQ(mesh.NumberOf(9), 3);
  EXPECT_EQ(mesh.PlaceOf(9, 1), 1);
  EXPECT_EQ(mesh.Find("pp"), 1);
  EXPECT_EQ(mesh.Find("cp"), -1);
}

// Also where the replicas do not divide the micro-batches.
TEST(PlanTest, EveryLayoutOfUpToEightRanksIsSoundAndPrints) {
  int count = 0;
  for (int ranks = 1; ranks <= 8; ++ranks) {
    for (PlanOptions options : LayoutsOf(ranks)) {
      for (const int64_t micro_batches : {options.dp, options.dp + 1, 2 * options.dp + 3}) {
        options.micro_batches = micro_batches;
        SCOPED_TRACE(options.ToString());
        const Plan plan = MakePlan(options);
        EXPECT_EQ(CheckPlan(plan), absl::OkStatus());
        const std::string text = PrintPlan(plan);
        const auto parsed = ParsePlan(text);
        ASSERT_TRUE(parsed.ok()) << parsed.status();
        EXPECT_EQ(PrintPlan(*parsed), text);
        EXPECT_EQ(parsed->lists, plan.lists);
        ++count;
      }
    }
  }
  EXPECT_GT(count, 400);
}

TEST(PlanTest, SecondsAndBytesOfSubgraphsPrint) {
  Plan plan = MakePlan(ParsePlanOptions("pp=2,tp=2,micro=2"));
  plan.subgraphs[1].seconds = 0.1;
  plan.subgraphs[1].own_bytes = 12;
  plan.update_seconds = 1e-3;
  const auto parsed = ParsePlan(PrintPlan(plan));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->subgraphs[1].seconds, 0.1);
  EXPECT_EQ(parsed->subgraphs[1].own_bytes, 12);
  EXPECT_EQ(parsed->subgraphs[1].over, 2);
  EXPECT_EQ(parsed->update_seconds, 1e-3);
}

// The first line names the layout: "# dp=2,pp=2,zero=1".
TEST(PlanTest, TextsAreGolden) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(REWRIGHT_SOURCE_DIR "/tests/cases/plans")) {
    if (entry.is_directory()) continue;
    SCOPED_TRACE(entry.path().filename());
    std::ifstream file(entry.path());
    std::string head, golden;
    std::getline(file, head);
    ASSERT_TRUE(head.starts_with("# ")) << head;
    golden.assign(std::istreambuf_iterator<char>(file), {});
    const PlanOptions options = ParsePlanOptions(head.substr(2));
    EXPECT_EQ(absl::StrCat("# ", options.ToString()), head);
    EXPECT_EQ(PrintPlan(MakePlan(options)), golden);
    ++count;
  }
  EXPECT_EQ(count, 11);
}

// Nothing in a list is there for nothing: whatever action is left out, the plan is refused.
TEST(PlanTest, APlanWithoutOneOfItsActionsIsRefused) {
  for (const char* text :
       {"dp=3,layers=3,micro=4", "dp=2,layers=3,zero=1,micro=5", "dp=2,layers=3,zero=3,micro=3", "dp=2,tp=2,zero=2",
        "pp=3,micro=3", "pp=3,micro=4,schedule=zero_bubble", "dp=2,pp=2,chunks=2,schedule=interleaved,zero=3,micro=3",
        "pp=2,tp=2,schedule=gpipe,micro=2"}) {
    const Plan plan = MakePlan(ParsePlanOptions(text));
    ASSERT_TRUE(CheckPlan(plan).ok()) << text;
    for (size_t rank = 0; rank < plan.lists.size(); ++rank) {
      for (size_t i = 0; i < plan.lists[rank].size(); ++i) {
        EXPECT_FALSE(CheckPlan(Without(plan, static_cast<int>(rank), static_cast<int>(i))).ok())
            << text << ": rank " << rank << " without " << i << ", " << PrintAction(plan, plan.lists[rank][i]);
      }
    }
  }
}

// The number of the first action of a rank that prints like this.
int Find(const Plan& plan, int rank, const std::string& text) {
  const std::vector<Action>& list = plan.lists[static_cast<size_t>(rank)];
  const auto found =
      std::find_if(list.begin(), list.end(), [&](const Action& action) { return PrintAction(plan, action) == text; });
  EXPECT_NE(found, list.end()) << text << "\n" << PrintPlan(plan);
  return static_cast<int>(found - list.begin());
}

TEST(PlanTest, DamageIsTold) {
  const Plan pipeline = MakePlan(ParsePlanOptions("pp=2,micro=2,schedule=gpipe"));
  const auto at = [](Plan* plan, int rank, int number) -> Action& {
    return plan->lists[static_cast<size_t>(rank)][static_cast<size_t>(number)];
  };
  Plan plan = Without(pipeline, 1, Find(pipeline, 1, "RECEIVE t6 of 0 from 0"));
  EXPECT_THAT(Error(CheckPlan(plan)), HasSubstr("rank 1, action 0, RUN s1 of 0: t6 of 0 is not there"));
  plan = Without(pipeline, 0, Find(pipeline, 0, "SEND t6 of 1 to 1"));
  EXPECT_THAT(Error(CheckPlan(plan)), HasSubstr("deadlock: these wait for ever: rank 0, action "));
  plan = pipeline;
  const int first = Find(plan, 1, "RECEIVE t6 of 0 from 0"), second = Find(plan, 1, "RECEIVE t6 of 1 from 0");
  std::swap(at(&plan, 1, first), at(&plan, 1, second));
  EXPECT_THAT(Error(CheckPlan(plan)),
              HasSubstr("rank 1, action 0, RECEIVE t6 of 1 from 0: rank 0 sends t6 of 0 before (its action 1)"));
  plan = Without(pipeline, 1, Find(pipeline, 1, "RUN s1 of 0"));
  EXPECT_THAT(Error(CheckPlan(plan)), HasSubstr("rank 1, action 5, RUN s2 of 0: t10 of 0 is not there"));
  plan = pipeline;
  const int receive = Find(plan, 1, "RECEIVE t6 of 0 from 0");
  std::swap(at(&plan, 1, receive + 1), at(&plan, 1, receive + 2));  // its WAIT and the pass that reads it
  EXPECT_THAT(Error(CheckPlan(plan)), HasSubstr("t6 of 0 may be on its way: expected WAIT 0 before"));

  const Plan parallel = MakePlan(ParsePlanOptions("dp=2,micro=4,layers=1"));
  plan = parallel;
  const int accumulate = Find(plan, 1, "ACCUMULATE g8..g10 of 2"), later = Find(plan, 1, "ACCUMULATE g8..g10 of 3");
  std::swap(at(&plan, 1, accumulate).micro_batch, at(&plan, 1, later).micro_batch);
  EXPECT_THAT(Error(CheckPlan(plan)), HasSubstr("t7 of 3 is not there"));
  plan = parallel;
  at(&plan, 1, later).micro_batch = 2;  // counts one twice
  EXPECT_THAT(Error(CheckPlan(plan)), HasSubstr("g8 has the leaves [2,2], expected those from 2 to 3"));
  plan = parallel;
  at(&plan, 1, Find(plan, 1, "ALL_REDUCE g8..g10 over dp")).tensors.pop_back();
  EXPECT_THAT(Error(CheckPlan(plan)),
              HasSubstr("rank 1, action 6, ALL_REDUCE g8 g9 over dp: differs from rank 0, action 6"));

  const Plan cut = MakePlan(ParsePlanOptions("dp=2,micro=2,layers=1,zero=3"));
  plan = cut;
  at(&plan, 0, Find(plan, 0, "REDUCE_SCATTER g8..g10 of 0..1 over dp")).givers = 1;
  EXPECT_THAT(Error(CheckPlan(plan)), HasSubstr("differs from rank 1"));
}

TEST(PlanTest, AxesGiveDevicesInTheirOrder) {
  Plan plan{Mesh({{"dp", 4}, {"pp", 3}, {"tp", 2}})};
  EXPECT_EQ(plan.DeviceOf(13), 13);
  plan.order = {1, 0, 2};
  EXPECT_EQ(plan.DeviceOf(6), 2);  // the next replica of the first stage
  EXPECT_EQ(plan.DeviceOf(2), 8);  // the second stage
  for (int rank = 0; rank < 24; ++rank) EXPECT_EQ(plan.RankAt(plan.DeviceOf(rank)), rank);
}

TEST(PlanTextTest, ErrorsNameLineFoundAndExpected) {
  const std::string head = "mesh dp=2 pp=2\nmicro_batches 2\nx0 f32[2]\nw1 f32[2] cut 0 at 1\nt2 f32[4]\n";
  const std::string body = head + "g3 f32[4] of t2 behind s0 at 0\ns0 reads x0 w1 makes t2\nrank 0\n";
  const std::pair<std::string, const char*> cases[] = {
      {"", "found the end of the text, expected `mesh`"},
      {"mash", "line 1: found `mash`, expected `mesh`"},
      {"mesh dp=0", "line 1: found `dp=0`, expected NAME=SIZE, each name once"},
      {"mesh dp=2 dp=2", "line 1: found `dp=2`, expected NAME=SIZE, each name once"},
      {"mesh dp=60000 tp=60000", "line 1: found `tp=60000`, expected at most 65536 ranks"},
      {"mesh dp=2\nrank 0", "line 2: found `rank`, expected `micro_batches`"},
      {"mesh dp=2\nmicro_batches 0", "line 2: found `0`, expected a number of micro-batches from 1 to 1048576"},
      {head + "w2 f32[4]", "line 6: found `w2`, expected x, w, t or g and the next number of a tensor, 3"},
      {head + "t3 f32[4,]", "line 6: found `f32[4,]`, expected a type as f32[2,3]"},
      {head + "t3 f32[99999999,99999999]", "line 6: found `f32[99999999,99999999]`, expected a type"},
      {head + "w3 f32[3] cut 1", "line 6: found `1`, expected an axis of the tensor from 0 to 0"},
      {head + "w3 f32[3] cut 0", "line 6: found `0`, expected an axis whose size 2 divides"},
      {head + "w3 f32[4] at 2", "line 6: found `2`, expected a rank of a replica from 0 to 1"},
      {head + "g3 f32[2] of t2 behind s0", "line 6: found f32[2], expected the type of its leaf, f32[4]"},
      {head + "g3 f32[4] of x2 behind s0", "line 6: found `x2`, expected t2, as it is called above"},
      {head + "g3 f32[4] of t2 behind s0\nrank 0", "found the sum g3 behind s0, expected one of 0 subgraphs"},
      {head + "s0 reads t2 makes x0", "line 6: found x0, expected values behind `makes`, each of one subgraph"},
      {head + "s0 reads t2 makes t2 over cp", "line 6: found `cp`, expected an axis of the mesh: dp, pp"},
      {head + "s0 reads x0 makes t2 seconds -1", "line 6: found `-1`, expected seconds from 0 to 1e9"},
      {head + "s0 reads x0 makes t2 seconds nan", "line 6: found `nan`, expected seconds from 0 to 1e9"},
      {head + "rank 1", "line 6: found `1`, expected the next rank from 0 to 0"},
      {body, "found the end of the text, expected `rank 1`: the mesh has 4"},
      {body + "1 RUN s0 of 0", "line 9: found `1`, expected the number of the next action from 0 to 0"},
      {body + "0 JUMP", "line 9: found `JUMP`, expected an action: RUN, SEND, RECEIVE"},
      {body + "0 RUN s1 of 0", "line 9: found `s1`, expected a subgraph from 0 to 0"},
      {body + "0 RUN s0 of 2", "line 9: found `2`, expected a micro-batch from 0 to 1"},
      {body + "0 RUN s0", "line 9: found the end of the line, expected `of`"},
      {body + "0 RUN s0 of 0 of", "line 9: found `of`, expected the end of the line"},
      {body + "0 SEND t2 of 0 to 0", "line 9: found `0`, expected another rank of the replica of rank 0"},
      {body + "0 SEND t2 of 0 to 2", "line 9: found `2`, expected another rank of the replica of rank 0"},
      {body + "0 SEND x0 of 0 to 1", "line 9: found x0, expected tensors of one kind of wt, each once"},
      {body + "0 SEND t99999999999999999999 of 0 to 1",
       "line 9: found `t99999999999999999999`, expected a tensor from"},
      {head + "t3 f32[4] parts over pp", "line 6: found `parts`, expected sum, blocks, exchange"},
      {head + "t3 f32[4] sum over cp", "line 6: found `cp`, expected an axis of the mesh: dp, pp"},
      {"mesh dp=2\nmicro_batches 3\nalike dp",
       "line 3: found `dp`, expected replicas that divide the micro-batches, 3"},
      {"mesh dp=2 pp=2\nmicro_batches 2\norder pp", "line 3: found the end of the line, expected an axis of the mesh"},
      {"mesh dp=2 pp=2\nmicro_batches 2\norder pp pp", "line 3: found `pp`, expected each axis once"},
      {"mesh dp=2\nmicro_batches 2\nalike dp dp", "line 3: found `dp`, expected each axis once"},
      {"mesh dp=2\nmicro_batches 2\nalike dp\nrank 0\nrank 1", "line 5: found `1`, expected the next rank"},
      {body + "0 ALL_GATHER t2 of 0 over pp", "line 9: found t2, expected values that ranks complete together"},
      {body + "0 ALL_REDUCE g3 over pp", "line 9: found `pp`, expected `dp`"},
      {body + "0 ALL_REDUCE g3 over", "line 9: found the end of the line, expected an axis of the mesh"},
      {body + "0 REDUCE_SCATTER g3 of 1..0 over dp", "line 9: found `1..0`, expected FIRST..LAST, micro-batches from"},
      {body + "0 ACCUMULATE of 0", "expected tensors"},
      {body + "0 ACCUMULATE g3 g3 of 0", "line 9: found g3, expected tensors of one kind of g, each once"},
      {body + "0 UPDATE x0..g3", "line 9: found `x0..g3`, expected a range of tensors of one kind that goes up"},
      {body + "0 WAIT 0", "line 9: found `0`, expected an action above, and there is none"},
      {body + "0 RUN s0 of 0\n1 WAIT 0", "line 10: found `0`, expected an action of communication above"},
      {body + "0 SEND t2 of 0 to 1\n1 WAIT 0\n2 WAIT 0", "line 11: found `0`, expected an action of communication"},
      {body + "rank 1\nrank 2\nrank 3\nrank 4",
       "line 12: found `4`, expected the end of the text: the mesh has 4 ranks"},
  };
  for (const auto& [text, error] : cases) {
    EXPECT_THAT(Error(ParsePlan(text).status()), HasSubstr(error)) << text;
  }
}

// Whatever is done to a text, the result is a plan within its bounds or an error.
TEST(PlanTextTest, DamagedTextsAreReadOrRefused) {
  std::mt19937 random(7);
  const auto draw = [&](size_t count) { return std::uniform_int_distribution<size_t>(0, count - 1)(random); };
  int read = 0, sound = 0;
  for (const char* options : {"dp=2,zero=3,layers=2,micro=3", "pp=2,tp=2,micro=2", "dp=2,pp=2,zero=1,micro=3"}) {
    const Plan plan = MakePlan(ParsePlanOptions(options));
    const std::string text = PrintPlan(plan);
    for (int i = 0; i < 1500; ++i) {
      std::string damaged = text;
      for (size_t times = 1 + draw(2); times > 0; --times) {
        const size_t at = draw(damaged.size());
        switch (draw(4)) {
          case 0: damaged.erase(at, 1 + draw(12)); break;
          case 1: damaged[at] = "0123456789xwtgs .\n#=-"[draw(21)]; break;
          case 2: damaged.insert(at, std::string(1, "0123456789xwtgs .\n#=-"[draw(21)])); break;
          default: damaged.resize(at + 1); break;
        }
      }
      const auto parsed = ParsePlan(damaged);
      if (!parsed.ok()) continue;
      ++read;
      sound += CheckPlan(*parsed).ok() ? 1 : 0;
      for (int rank = 0; rank < parsed->mesh.ranks(); ++rank) {
        BytesSent(*parsed, rank);
        LivesOf(*parsed, rank);
      }
    }
  }
  EXPECT_GT(read, 20);
  EXPECT_LT(sound, read);
}

int64_t SentBy(const Plan& plan, int rank) {
  int64_t sum = 0;
  for (int64_t bytes : BytesSent(plan, rank)) sum += bytes;
  return sum;
}

TEST(PlanCostTest, BytesAreThoseOfTheFormulas) {
  for (const int dp : {2, 3, 4}) {
    PlanOptions options{.dp = dp, .micro_batches = dp, .layers = 4};
    Plan plan = MakePlan(options);
    int64_t weights = 0, cut = 0;
    for (int sum : plan.TensorsOf(PlanTensor::Kind::kSum)) {
      weights += plan.tensors[static_cast<size_t>(sum)].type.num_bytes();
    }
    int64_t all = 0;
    for (int rank = 0; rank < dp; ++rank) all += SentBy(plan, rank);
    EXPECT_EQ(all, 2 * (dp - 1) * weights) << dp;  // an all-reduce
    options.zero = 3;
    plan = MakePlan(options);
    for (int weight : plan.TensorsOf(PlanTensor::Kind::kWeight)) {
      const PlanTensor& of = plan.tensors[static_cast<size_t>(weight)];
      if (of.cut >= 0) cut += of.type.num_bytes();
    }
    int64_t gathered = 0, first = plan.tensors[2].type.num_bytes();
    for (const Action& action : plan.lists[0]) {
      if (action.kind != Kind::kAllGather || plan.tensors[static_cast<size_t>(action.tensors[0])].leaf >= 0) continue;
      for (int64_t bytes : BytesSent(plan, 0, action)) gathered += bytes;
    }
    // Forward and backward passes read all of them, but for the first layer's, which the last one's forward pass reads.
    EXPECT_EQ(gathered, 2 * (dp - 1) * cut / dp) << dp << first;
  }
}

int64_t PeakOf(const std::vector<int64_t>& over_time) { return *std::max_element(over_time.begin(), over_time.end()); }

TEST(PlanCostTest, MemoryFollowsTheSchedule) {
  const Plan gpipe = MakePlan(ParsePlanOptions("pp=3,micro=8,schedule=gpipe")),
             one = MakePlan(ParsePlanOptions("pp=3,micro=8"));
  EXPECT_EQ(MostInFlight(gpipe, 0), 8);
  EXPECT_EQ(MostInFlight(one, 0), 3);
  EXPECT_EQ(MostInFlight(one, 2), 1);
  const int64_t activation = one.tensors[0].type.num_bytes();
  EXPECT_GE(PeakOf(RunBytesOverTime(gpipe, 1)) - PeakOf(RunBytesOverTime(one, 1)), 4 * activation);
  // A rank that adds eight leaves has at most three partial sums and one leaf.
  const Plan alone = MakePlan(ParsePlanOptions("dp=1,micro=8,layers=2"));
  int64_t sums = 0;
  for (int sum : alone.TensorsOf(PlanTensor::Kind::kSum))
    sums += alone.tensors[static_cast<size_t>(sum)].type.num_bytes();
  EXPECT_EQ(PeakOf(SumBytesOverTime(alone, 0)), 3 * sums);
  // With zero 2 a rank has its blocks of them; what is not cut it has whole at the end.
  const Plan cut = MakePlan(ParsePlanOptions("dp=4,micro=4,layers=2,zero=2"));
  EXPECT_LT(PeakOf(SumBytesOverTime(cut, 0)), sums / 2);
}

TEST(PlanCostTest, WeightsThatAreGatheredShareMemory) {
  for (const char* text : {"dp=2,zero=3,layers=6,micro=7", "dp=2,pp=2,zero=3,chunks=2,schedule=interleaved,micro=5"}) {
    const Plan plan = MakePlan(ParsePlanOptions(text));
    for (int rank = 0; rank < plan.mesh.ranks(); ++rank) {
      const GatherPlacement placement = PlaceGathers(plan, rank);
      int64_t all = 0;
      for (int weight : plan.TensorsOf(PlanTensor::Kind::kWeight)) {
        const PlanTensor& of = plan.tensors[static_cast<size_t>(weight)];
        if (of.cut >= 0) all += of.type.num_bytes();
      }
      EXPECT_GT(placement.bytes, 0);
      EXPECT_LT(placement.bytes, all) << text;
      std::vector<std::pair<TensorLife, int64_t>> placed;
      for (const TensorLife& life : LivesOf(plan, rank)) {
        const Action& action = plan.lists[static_cast<size_t>(rank)][static_cast<size_t>(life.first)];
        if (action.kind != Kind::kAllGather || life.micro_batch >= 0) continue;
        const auto at = std::find(action.tensors.begin(), action.tensors.end(), life.tensor) - action.tensors.begin();
        placed.emplace_back(life, placement.offsets[static_cast<size_t>(life.first)][static_cast<size_t>(at)]);
      }
      for (size_t i = 0; i < placed.size(); ++i) {
        for (size_t k = 0; k < i; ++k) {
          const auto& [a, at_a] = placed[i];
          const auto& [b, at_b] = placed[k];
          const bool meet = a.first <= b.last && b.first <= a.last;
          EXPECT_TRUE(!meet || at_a + a.bytes <= at_b || at_b + b.bytes <= at_a) << text << " " << i << " " << k;
        }
      }
    }
  }
}

}  // namespace
}  // namespace rewright::distributed
