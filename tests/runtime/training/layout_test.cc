// Tests that layouts are read, and what they cut.
#include "runtime/training/parallel/layout.h"

#include "absl/strings/str_cat.h"
#include "tests/runtime/training/layouts_util.h"

namespace rewright {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

TEST(LayoutTest, IsReadAndChecked) {
  const auto layout = ParseLayout("dp=3,tp=2", 6);
  ASSERT_TRUE(layout.ok()) << layout.status();
  EXPECT_THAT(layout->ModelParallelGroup(3), ElementsAre(2, 3));
  EXPECT_THAT(layout->DataParallelGroup(3), ElementsAre(1, 3, 5));
  EXPECT_EQ(ParseLayout("", 4)->dp, 4);
  EXPECT_EQ(ParseLayout("dp=2,zero=1", 2)->zero, 1);
  const auto pipeline = ParseLayout("dp=2,pp=3,micro=8,schedule=gpipe", 6);
  ASSERT_TRUE(pipeline.ok()) << pipeline.status();
  EXPECT_EQ(pipeline->micro, 8);
  EXPECT_EQ(pipeline->schedule, distributed::PipelineSchedule::kGPipe);
  EXPECT_THAT(pipeline->ModelParallelGroup(4), ElementsAre(3, 4, 5));
  EXPECT_THAT(pipeline->DataParallelGroup(4), ElementsAre(1, 4));
  const auto all = ParseLayout("dp=2,tp=2,pp=3,schedule=interleaved", 12);
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_EQ(all->chunks, 2);
  EXPECT_THAT(all->ModelParallelGroup(9), ElementsAre(6, 7, 8, 9, 10, 11));
  EXPECT_THAT(all->PassGroup(9), ElementsAre(8, 9));
  EXPECT_THAT(all->PipelineGroup(9), ElementsAre(7, 9, 11));
  EXPECT_THAT(all->DataParallelGroup(9), ElementsAre(3, 9));
  EXPECT_THAT(ParseLayout("dp=2,tp=2,zero=1", 4)->ShardOrder(), ElementsAre(0, 2, 1, 3));
  const auto error = [](const char* text, int ranks) {
    return std::string(ParseLayout(text, ranks).status().message());
  };
  for (const char* text :
       {"tp", "xp=2", "tp=0", "tp=x", "tp=2,tp=2", "dp=2,zero=4", "dp=2,", "tp=99999999999", "pp=2,micro=0",
        "pp=2,schedule=fast", "pp=2,schedule", "pp=2,schedule=interleaved,chunks=1"}) {
    EXPECT_THAT(error(text, 2),
                HasSubstr(absl::StrCat("--layout: found `", text, "`, expected dp=N, tp=N, pp=N, cp=N")));
  }
  EXPECT_THAT(error("dp=2,tp=2", 3), HasSubstr("expected mpirun -n 4 rewright train .., found 3 ranks"));
  EXPECT_THAT(error("pp=2,chunks=2", 2), HasSubstr("expected chunks with schedule=interleaved"));
  EXPECT_THAT(error("dp=2,schedule=gpipe", 2), HasSubstr("expected schedule with pp=N"));
  EXPECT_THAT(error("cp=2,tp=2", 4), HasSubstr("expected cp=N without tp and pp"));
  EXPECT_EQ(PrintLayout(*ParseLayout("cp=2,dp=3", 6)), "dp=3,cp=2");
  EXPECT_THAT(ParseLayout("dp=3,cp=2", 6)->DataParallelGroup(3), ElementsAre(1, 3, 5));
}

TEST(LayoutTest, MicroBatchesMayBeSaidByIt) {
  const auto config = [](const char* data) {
    const std::string text = absl::StrCat(R"({"model": {"mlp": {"sizes": [4, 2]}}, "steps": 1, "loss": "cross_entropy",
        "optimizer": {"kind": "sgd", "learning_rate": 0.1},
        "data": {"inputs": {"x": "x.npy"}, "target": "y.npy", "batch": 12)",
                                          data, "}}");
    return *ParseTrainConfig(text);
  };
  TrainConfig open = config(""), said = config(R"(, "micro_batches": 4)");
  ASSERT_TRUE(ApplyLayout({.micro = 4}, &open).ok());
  EXPECT_EQ(open.micro_batch(), 3);
  EXPECT_EQ(FirstDifference(open.identity, said.identity), "");
  EXPECT_THAT(std::string(ApplyLayout({.micro = 6}, &said).message()),
              HasSubstr("--layout micro: found 6, expected data.micro_batches, 4"));
  open = config("");
  EXPECT_THAT(std::string(ApplyLayout({.micro = 5}, &open).message()),
              HasSubstr("--layout micro: found 5, expected a divisor of data.batch, 12"));
}

TEST(LayoutTest, ContextParallelCutsInputsAlongTheSequence) {
  const std::string text = R"({"model": {"gpt": {"vocabulary": 8, "length": 4, "width": 4, "heads": 1, "layers": 1}},
      "steps": 1, "loss": "cross_entropy", "optimizer": {"kind": "sgd", "learning_rate": 0.1},
      "data": {"inputs": {"x": "x.npy"}, "target": "y.npy", "batch": 4}})";
  auto config = ParseTrainConfig(text);
  ASSERT_TRUE(config.ok()) << config.status();
  ASSERT_TRUE(ApplyLayout({.cp = 2}, &*config).ok());
  EXPECT_THAT(config->places, ElementsAre(std::pair("x", 1), std::pair("target", 1)));
  EXPECT_THAT(std::string(ApplyLayout({.cp = 2}, &*config).message()),
              HasSubstr("model.places: found placements with the layout cp=2, expected none"));
}

TEST(LayoutTest, OptimizerStatesAreCutAsTheirWeights) {
  StepOptions options;
  options.micro_batches = 2;
  const auto graphs = BuildStep(MakeModel(MlpOptions{{4, 6, 3}, "relu"}, 2, 1).inference, options);
  ASSERT_TRUE(graphs.ok()) << graphs.status();
  const auto placed = PlacedStates(graphs->step, {{"layer0.*", 1}, {"*.weight", 0}});
  ASSERT_TRUE(placed.ok()) << placed.status();
  EXPECT_THAT(*placed, ::testing::UnorderedElementsAre(
                           Pair("layer0.weight", 1), Pair("layer0.weight.adam_m", 1), Pair("layer0.weight.adam_v", 1),
                           Pair("layer0.bias", 1), Pair("layer0.bias.adam_m", 1), Pair("layer0.bias.adam_v", 1),
                           Pair("layer1.weight", 0), Pair("layer1.weight.adam_m", 0), Pair("layer1.weight.adam_v", 0)));
  EXPECT_THAT(std::string(PlacedStates(graphs->step, {{"layer2.*", 0}}).status().message()),
              HasSubstr("model.places: `layer2.*` fits no weight"));
  EXPECT_EQ(SharedAxis({64, 240}), 1) << "3, 5 and 6 divide 240, too";
  EXPECT_EQ(SharedAxis({1024, 4096}), 0);
  // By 4: [4,6] along axis 0; [6], [6,3] and [3] have no such axis. By 6: along axis 1.
  EXPECT_THAT(ZeroAxes(graphs->step, 4, 1),
              ::testing::UnorderedElementsAre(Pair("layer0.weight.adam_m", 0), Pair("layer0.weight.adam_v", 0),
                                              Pair("gradients.layer0.weight", 0)));
  EXPECT_THAT(ZeroAxes(graphs->step, 4, 3),
              ::testing::UnorderedElementsAre(Pair("layer0.weight", 0), Pair("layer0.weight.adam_m", 0),
                                              Pair("layer0.weight.adam_v", 0), Pair("gradients.layer0.weight", 0)));
  EXPECT_THAT(ZeroAxes(graphs->step, 6, 1), Contains(Pair("gradients.layer0.weight", 1)));
  EXPECT_THAT(ZeroAxes(graphs->step, 5, 3), IsEmpty());
}

}  // namespace
}  // namespace rewright
