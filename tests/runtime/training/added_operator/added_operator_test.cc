// Tests that an operator that is added in one file gets gradients, laws and kernels, and can be trained: on two ranks,
// cut along every axis that its table of laws allows.
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/ir/text.h"
#include "core/ops/ops.h"
#include "tests/runtime/training/layouts_util.h"
#include "verifier/claims/sharding_laws.h"

namespace rewright {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

// Classifies digits by products of pairs of hidden units.
TrainableModel Model(const TrainConfig& config) {
  Rng rng(5);
  const auto drawn = [&](Shape shape) {
    Tensor tensor(TensorType{DType::kFloat32, std::move(shape)});
    for (int64_t i = 0; i < tensor.num_elements(); ++i) {
      tensor.Set(i, std::uniform_real_distribution<double>(-0.2, 0.2)(rng));
    }
    return tensor;
  };
  auto graph = ParseGraph(absl::StrCat("input x: f32[", config.micro_batch(), R"(,64]
      state hidden: f32[64,8]
      state pairs: f32[10,8,8]
      %1 = matmul(x, hidden)
      %2 = tanh(%1)
      %3 = bilinear(%2, pairs, %2)
      output logits = %3
      )"),
                          {{"hidden", drawn({64, 8})}, {"pairs", drawn({10, 8, 8})}});
  CHECK(graph.ok()) << graph.status();
  return *graph;
}

TEST_F(LayoutsTest, AnAddedOperatorIsTrainedCutAlongEveryAxisOfItsTable) {
  ASSERT_EQ(FindOp("bilinear"), ops::Bilinear());
  model_ = Model;
  json_.merge_patch(Json::parse(R"({"data": {"micro_batches": 1}, "steps": 20})"));
  const Trained alone = Common(Train(json_, 1));
  EXPECT_LT(alone.losses.back(), 0.8 * alone.losses.front());

  const auto table = ShardingLaws(*ops::Bilinear(), /*structures=*/1, /*work_limit_s=*/10);
  ASSERT_TRUE(table.ok()) << table.status();
  std::vector<std::string> cut;
  for (const FactorLaws& axes : *table) {
    ASSERT_THAT(axes.laws, Not(IsEmpty()));
    StateAxes places = {{"x", 0}, {"target", 0}};  // the rows
    for (const std::string& axis : axes.factor.axes) {
      if (absl::StartsWith(axis, "w.")) places = {{"pairs", axis.back() - '0'}};
    }
    cut.push_back(places.size() == 2 ? "rows" : absl::StrCat("pairs.", places[0].second));
    SCOPED_TRACE(cut.back());
    Use("tp=2", places);
    cut_graphs_.clear();
    EXPECT_LT(Distance(alone.weights, Common(Train(Placed(json_), 2)).weights), 1e-4);
    ASSERT_EQ(cut_graphs_.size(), 1u);
    EXPECT_THAT(PrintGraph(cut_graphs_[0].cut), HasSubstr("= each_bilinear("));
    ExpectSameMeaning(cut_graphs_[0]);
  }
  EXPECT_THAT(cut, UnorderedElementsAre("rows", "pairs.0", "pairs.1", "pairs.2"));
}

}  // namespace
}  // namespace rewright
