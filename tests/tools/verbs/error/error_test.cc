// `rewright error` from outside.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/onnx/onnx.h"
#include "tests/core/onnx/model_util.h"
#include "tests/tools/program/program_util.h"

namespace rewright {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class ErrorProgram : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) const { return folder_ / name; }
  std::string Write(const std::string& file, const TestModel& model) {
    WriteContents(Path(file), model.Bytes());
    return Path(file);
  }
  // (x + 1000) - 1000 by tanh, or tanh x.
  std::string Shifted(const std::string& file, bool shifted) {
    TestModel model;
    model.Input("x", {4, 8}).Initializer("c", Tensor::Scalar(DType::kFloat32, 1000));
    if (shifted) {
      model.Node("Add", {"x", "c"}, {"far"}).Node("Sub", {"far", "c"}, {"back"}).Node("Tanh", {"back"}, {"y"});
    } else {
      model.Node("Tanh", {"x"}, {"y"});
    }
    return Write(file, model.Output("y"));
  }

 private:
  TemporaryFolder folder_;
};

TEST_F(ErrorProgram, SaysOfWhichOutputsThereIsNoEstimate) {
  TestModel model;
  model.Input("x", {0, 8}).Node("Tanh", {"x"}, {"y"}).Node("Shape", {"y"}, {"n"}).Output("y").Output("n");
  const Outcome outcome = Rewright("error " + Write("m.onnx", model));
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("outputs without elements: y"), HasSubstr("truth values: n")));
}

TEST_F(ErrorProgram, NamesTheNodeThatRoundsMost) {
  const std::string model = Shifted("m.onnx", true);
  const Outcome text = Rewright("error --measure " + model);
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.out, AllOf(HasSubstr("output:    y["), HasSubstr("worst"), HasSubstr("typical"),
                              HasSubstr("measured"), HasSubstr("far"), Not(HasSubstr("not covered"))));
  const auto json = Rewright("error --json --measure --elements 4 --range x=-1:1 " + model).Json();
  ASSERT_EQ(json["outputs"].size(), 4u);
  for (const auto& look : json["outputs"]) {
    EXPECT_EQ(look["nodes"][0]["name"], "far");
    EXPECT_GT(look["nodes"][0]["share"], 0.9);
    EXPECT_LE(look["measured"], look["worst"]);
    EXPECT_LT(look["typical"], look["worst"]);
  }
  EXPECT_EQ(json["decisions"], 0);
}

TEST_F(ErrorProgram, APrecisionCountsWeightsAndInputs) {
  TestModel model;
  model.Input("x", {4, 3}).Initializer("w", Iota({3, 2})).Node("MatMul", {"x", "w"}, {"y"}).Output("y");
  const std::string path = Write("m.onnx", model);
  const double plain = Rewright("error --json " + path).Json()["outputs"][0]["typical"];
  for (const char* precision : {"f16", "bf16", "tf32"}) {
    const double typical =
        Rewright(std::string("error --json --precision ") + precision + " " + path).Json()["outputs"][0]["typical"];
    EXPECT_GT(typical, 100 * plain) << precision;
  }
  const double finer = Rewright("error --json --precision f64 " + path).Json()["outputs"][0]["typical"];
  EXPECT_LT(finer, 1e-6 * plain);
}

TEST_F(ErrorProgram, SaysWhatItDoesNotCover) {
  TestModel model;
  model.Input("x", {4, 8}).Node("Exp", {"x"}, {"e"}).Node("Round", {"e"}, {"r"}).Node("ArgMax", {"e"}, {"i"});
  const std::string path = Write("m.onnx", model.Output("r").Output("i"));
  const Outcome text = Rewright("error " + path);
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.out, AllOf(HasSubstr("2 decisions behind rounded values: not covered"),
                              HasSubstr("no estimate: outputs of integers and truth values: i")));
}

TEST_F(ErrorProgram, TwoModelsDifferByRoundingOrByMore) {
  const std::string shifted = Shifted("a.onnx", true), plain = Shifted("b.onnx", false);
  const Outcome explained = Rewright("error " + shifted + " " + plain);
  EXPECT_EQ(explained.status, 0) << explained.out << explained.err;
  EXPECT_THAT(explained.out, HasSubstr("explained by what both round"));
  TestModel other;
  other.Input("x", {4, 8}).Node("Sin", {"x"}, {"y"}).Output("y");
  const Outcome more = Rewright("error --json " + plain + " " + Write("c.onnx", other));
  EXPECT_EQ(more.status, 1) << more.err;
  EXPECT_EQ(more.Json()["explained"], false);
}

TEST_F(ErrorProgram, RefusesWhatItCannotUse) {
  const std::string model = Shifted("m.onnx", false);
  EXPECT_THAT(Rewright("error --range x=1:-1 " + model).err, HasSubstr("NAME=LO:HI with numbers LO <= HI"));
  const Outcome unknown = Rewright("error --range z=0:1 " + model);
  EXPECT_EQ(unknown.status, 2);
  EXPECT_THAT(unknown.err, HasSubstr("--range: the model has no input `z`"));
  EXPECT_EQ(Rewright("error --precision f8 " + model).status, 2);
}

TEST_F(ErrorProgram, OtherVerbsTellTheEstimate) {
  const std::string a = Shifted("a.onnx", false), b = Shifted("b.onnx", false);
  const Outcome diff = Rewright("diff --device reference " + a + " " + b);
  EXPECT_EQ(diff.status, 0) << diff.err;
  EXPECT_THAT(diff.out, HasSubstr("rounding:  of the outputs, estimated: worst "));
  const Outcome equal = Rewright("equal " + a + " " + b);
  EXPECT_EQ(equal.status, 0) << equal.err;
  EXPECT_THAT(equal.out, HasSubstr("; both round, estimated: worst "));
  const auto json = Rewright("optimize --json --cost analytic:zen3 " + a).Json();
  EXPECT_GT(json["rounding"]["worst"], 0);
}

}  // namespace
}  // namespace rewright
