// Tests the models of the examples, with dropout, in all kinds of layouts: the dropped elements do not depend on the
// layout.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "core/ir/text.h"
#include "tests/runtime/training/layouts_util.h"

namespace rewright {
namespace {

class ExamplesTest : public LayoutsTest {
 protected:
  // A small model of that kind on the example's text; samples have `length` letters.
  void UseText(const std::string& model) {
    json_ = Json::parse(R"({"model": {}, "data": {
        "inputs": {"x": {"file": "train.txt", "tokens": {"stride": 8}}},
        "target": {"file": "train.txt", "tokens": {"stride": 8, "shift": 1}}, "batch": 8, "micro_batches": 4},
      "loss": "cross_entropy", "optimizer": {"kind": "adamw", "learning_rate": 0.003, "clip_norm": 1}, "steps": 3})");
    json_["model"] = Json::parse(model);
  }
  std::vector<Trained> TrainText(const Json& json, int size) {
    return Train(json, size, "", false, 0,
                 [](int, Json*, TrainerOptions* options) { options->data_folder = DigitsFolder() + "/../characters"; });
  }

  static constexpr char kGpt[] =
      R"({"gpt": {"vocabulary": 128, "length": 8, "width": 16, "heads": 2, "layers": 2, "dropout": 0.2}})";
  static constexpr char kLstm[] =
      R"({"lstm": {"vocabulary": 128, "length": 8, "width": 12, "hidden": 16, "layers": 2, "dropout": 0.2}})";
};

TEST_F(ExamplesTest, AMaskOfMicroBatchesIsThatOfTheBatch) {
  UseText(kGpt);
  const NamedTensors parts = Common(TrainText(json_, 1)).weights;
  const NamedTensors whole = Common(TrainText(With(R"({"data": {"micro_batches": 1}})"), 1)).weights;
  EXPECT_LT(Distance(parts, whole), 2e-3);
  const NamedTensors none = Common(TrainText(With(R"({"model": {"gpt": {"dropout": 0}}})"), 1)).weights;
  EXPECT_GT(Distance(parts, none), 1e-1);
}

TEST_F(ExamplesTest, LayoutsOfDataAndStagesGiveTheSameBits) {
  for (const char* model : {kGpt, kLstm}) {
    UseText(model);
    Use("");
    const Trained alone = Common(TrainText(json_, 1));
    for (const auto& [layout, size] : {std::pair("dp=2", 2),
                                       {"dp=2,zero=2", 2},
                                       {"dp=3,zero=3", 3},
                                       {"pp=2", 2},
                                       {"pp=2,schedule=interleaved", 2},
                                       {"dp=2,pp=2", 4}}) {
      Use(layout);
      EXPECT_EQ(Common(TrainText(json_, size)).sha256, alone.sha256) << layout << " of " << model;
    }
  }
}

TEST_F(ExamplesTest, LayoutsThatCutWeightsAreOneRankButForRounding) {
  UseText(kGpt);
  const NamedTensors alone = Common(TrainText(json_, 1)).weights;
  const StateAxes places = {{"*.expand.weight", 1}, {"*.expand.bias", 0}, {"*.contract.weight", 0}};
  for (const auto& [layout, size] : {std::pair("tp=2", 2), {"tp=2,zero=3", 2}, {"pp=2,tp=2", 4}}) {
    SCOPED_TRACE(layout);
    Use(layout, places);
    EXPECT_LT(Distance(alone, Common(TrainText(json_, size)).weights), 2e-3);
  }
}

// Every rank has a part of the letters of each sample, and all weights.
TEST_F(ExamplesTest, PartsOfSequencesAreOneRankButForRounding) {
  UseText(kGpt);
  const NamedTensors alone = Common(TrainText(json_, 1)).weights;
  const StateAxes sequence = {{"x", 1}, {"target", 1}};
  for (const auto& [layout, size] : {std::pair("cp=2", 2), {"cp=2,zero=3", 2}, {"dp=2,cp=2", 4}}) {
    SCOPED_TRACE(layout);
    cut_graphs_.clear();
    Use(layout, sequence);
    EXPECT_LT(Distance(alone, Common(TrainText(json_, size)).weights), 2e-3);
    ASSERT_FALSE(cut_graphs_.empty());
    const std::string cut = PrintGraph(cut_graphs_.back().cut);
    EXPECT_TRUE(absl::StrContains(cut, "partition(x, axis=1, degree=2)"));
    EXPECT_TRUE(absl::StrContains(cut, "each_layer_norm_grad_x"));
  }
}

}  // namespace
}  // namespace rewright
