// `rewright reduce` from outside: pairs of chains that differ in one place, before and after long equal parts.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "core/tensor/npy.h"
#include "core/tensor/tensor.h"
#include "tests/core/onnx/model_util.h"
#include "tests/support/temporary_folder.h"
#include "tests/tools/program/program_util.h"

namespace rewright {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ReduceProgram : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) const { return folder_ / name; }
  void Save(const TestModel& a, const TestModel& b) const {
    WriteContents(Path("a.onnx"), a.Bytes());
    WriteContents(Path("b.onnx"), b.Bytes());
  }
  Outcome Reduce(const std::string& more = "") const {
    return Rewright("reduce " + Path("a.onnx") + " " + Path("b.onnx") + " -o " + Path("reduced") + " --threads 1 " +
                    more + " --quiet --json");
  }
  Outcome EqualOfReduced() const {
    return Rewright("equal " + Path("reduced/a.onnx") + " " + Path("reduced/b.onnx") + " --threads 1 --quiet --json");
  }

  const TemporaryFolder folder_;
};

std::vector<std::string> Strings(const nlohmann::json& list) { return list.get<std::vector<std::string>>(); }

// A chain of `before` products with relu, then `middle`, then as many again.
TestModel Chain(int before, const std::string& middle, const TestAttrs& attrs, const std::string& suffix) {
  TestModel model;
  model.Input("x", {2, 4});
  model.Initializer("w",
                    Tensor::FromVector<double>(DType::kFloat32, {4, 4},
                                               {.5, -.3, .2, .7, -.4, .6, .1, -.2, .3, .2, .8, -.5, .1, .4, -.6, .9}));
  std::string last = "x";
  const auto step = [&](int number) {
    const std::string at = std::to_string(number) + suffix;
    model.Node("MatMul", {last, "w"}, {"product" + at}).Node("Tanh", {"product" + at}, {"tanh" + at});
    last = "tanh" + at;
  };
  for (int i = 0; i < before; ++i) step(i);
  model.Node(middle, {last}, {"middle"}, attrs);
  last = "middle";
  for (int i = before; i < 2 * before; ++i) step(i);
  model.Node("Neg", {last}, {"y"}).Output("y");
  return model;
}

// A maximum over rows is the row where there is one.
TEST_F(ReduceProgram, ModelsThatAreTheSameAtOneRowAloneAreReduced) {
  const auto model = [](const char* read) {
    TestModel made;
    made.SymbolicInput("x", {"rows"}).Node("ReduceMax", {"x"}, {"most"}, {{"keepdims", int64_t{1}}});
    return made.Node("Max", {"x", read}, {"y"}).Output("y");
  };
  Save(model("x"), model("most"));
  EXPECT_EQ(Reduce().status, 0);
  EXPECT_EQ(Reduce("--dim rows=1").status, 1);
}

TEST_F(ReduceProgram, TheNodeThatDiffersIsLeft) {
  Save(Chain(6, "Softmax", {{"axis", int64_t{1}}}, ""), Chain(6, "Softmax", {{"axis", int64_t{0}}}, ""));
  const Outcome outcome = Reduce();
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(Strings(outcome.Json()["nodes_a"]), ElementsAre("Softmax"));
  EXPECT_THAT(Strings(outcome.Json()["nodes_b"]), ElementsAre("Softmax"));
  EXPECT_EQ(outcome.Json()["output"], "middle");
  EXPECT_EQ(EqualOfReduced().Json()["answer"], "different");
  EXPECT_TRUE(std::filesystem::exists(Path("reduced/inputs/tanh5.npy")));
}

TEST_F(ReduceProgram, ANodeThatBLeavesOutBehindAnInputIsFound) {
  TestModel a, b;
  a.Input("x", {2, 3}).Node("Exp", {"x"}, {"e"}).Node("Tanh", {"e"}, {"t"}).Node("Neg", {"t"}, {"y"}).Output("y");
  b.Input("x", {2, 3}).Node("Tanh", {"x"}, {"t"}).Node("Neg", {"t"}, {"y"}).Output("y");
  Save(a, b);
  const Outcome outcome = Reduce();
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(Strings(outcome.Json()["nodes_a"]), ElementsAre("Exp", "Tanh"));
  EXPECT_THAT(Strings(outcome.Json()["nodes_b"]), ElementsAre("Tanh"));
}

// Names that the models do not share: the common part is found by its elements, the differing pair by its users.
TEST_F(ReduceProgram, RenamedTensorsAreMatched) {
  Save(Chain(6, "Sigmoid", {}, ""), Chain(6, "Softplus", {}, "_renamed"));
  const Outcome outcome = Reduce();
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(Strings(outcome.Json()["nodes_a"]), ElementsAre("Sigmoid"));
  EXPECT_THAT(Strings(outcome.Json()["nodes_b"]), ElementsAre("Softplus"));
  EXPECT_EQ(EqualOfReduced().Json()["answer"], "different");
}

// B gives the name of A's product to a scaled one, and undoes it; the fault is behind.
TEST_F(ReduceProgram, ANameOfAnotherTensorIsNoDifference) {
  TestModel a, b;
  a.Input("x", {3}).Node("Exp", {"x"}, {"e"}).Node("Sin", {"e"}, {"s"}).Node("Relu", {"s"}, {"y"}).Output("y");
  b.Input("x", {3}).Initializer("two", Tensor::Scalar(DType::kFloat32, 2));
  b.Node("Exp", {"x"}, {"original"}).Node("Mul", {"original", "two"}, {"e"}).Node("Div", {"e", "two"}, {"back"});
  b.Node("Cos", {"back"}, {"s"}).Node("Relu", {"s"}, {"y"}).Output("y");
  Save(a, b);
  const Outcome outcome = Reduce();
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.Json()["output"], "s");
  EXPECT_THAT(Strings(outcome.Json()["nodes_a"]), ElementsAre("Sin"));
  EXPECT_THAT(Strings(outcome.Json()["nodes_b"]), ElementsAre("Cos"));
}

TEST_F(ReduceProgram, EqualModelsHaveNothingToReduce) {
  Save(Chain(1, "Sigmoid", {}, ""), Chain(1, "Sigmoid", {}, "_renamed"));
  const Outcome outcome = Reduce();
  EXPECT_EQ(outcome.status, 1) << outcome.err;
  EXPECT_EQ(outcome.Json()["answer"], "proved");
  EXPECT_FALSE(std::filesystem::exists(Path("reduced/a.onnx")));
}

// Equal over the real numbers; in f16 the product overflows.
TEST_F(ReduceProgram, ModelsThatRunApartAreReducedOnTheirInputs) {
  TestModel a, b;
  for (TestModel* model : {&a, &b}) {
    model->Input("x", {2}, DType::kFloat16)
        .Initializer("big", Tensor::Scalar(DType::kFloat16, 30000))
        .Initializer("small", Tensor::FromVector<double>(DType::kFloat16, {1}, {1.0 / 32768}));
    model->Node("Tanh", {"x"}, {"t"}).Node("Exp", {"t"}, {"e"}).Node("Exp", {"e"}, {"f"});
  }
  a.Node("Mul", {"f", "big"}, {"p"}).Node("Mul", {"p", "small"}, {"q"}).Node("Neg", {"q"}, {"y"}).Output("y");
  b.Node("Mul", {"f", "small"}, {"r"}).Node("Mul", {"r", "big"}, {"q"}).Node("Neg", {"q"}, {"y"}).Output("y");
  Save(a, b);
  const Tensor x = Tensor::FromVector<double>(DType::kFloat16, {2}, {3, 2});
  ASSERT_TRUE(SaveNpy(Path("x.npy"), x).ok());
  EXPECT_EQ(Reduce().status, 1);
  const Outcome outcome = Reduce("--by run --input x=" + Path("x.npy"));
  ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  EXPECT_THAT(Strings(outcome.Json()["nodes_a"]), ElementsAre("Mul", "Mul"));
  EXPECT_THAT(Strings(outcome.Json()["nodes_b"]), ElementsAre("Mul", "Mul"));
  EXPECT_EQ(outcome.Json()["a"], "inf");
}

}  // namespace
}  // namespace rewright
