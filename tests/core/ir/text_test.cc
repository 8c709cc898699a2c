#include "core/ir/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "core/ir/op.h"
#include "core/ops/ops.h"

namespace rewright {
namespace {

using ::testing::HasSubstr;

std::string ErrorOf(const std::string& text) {
  const auto graph = ParseGraph(text);
  return graph.ok() ? "no error" : std::string(graph.status().message());
}

TEST(TextTest, PrintsAndParsesBack) {
  const std::string text =
      "input x: f32[1,3,8,8]\n"
      "state w: f32[4,3,3,3]\n"
      "%0 = conv2d(x, w, pads=[1,1,1,1])  # f32[1,4,8,8]\n"
      "%1.0, %1.1 = split(%0, axis=1, sizes=[1,3])  # f32[1,1,8,8], f32[1,3,8,8]\n"
      "const %2: f32[] = [0.1]\n"
      "%3 = mul(%1.1, %2)  # f32[1,3,8,8]\n"
      "output \"the result\" = %3\n";
  auto graph = ParseGraph(text);
  ASSERT_TRUE(graph.ok()) << graph.status().ToString();
  EXPECT_EQ(PrintGraph(*graph), text);
}

// Every operator's printed form parses back to the same graph.
TEST(TextTest, EveryOperatorPrintsAndParsesBack) {
  for (const OpDef* op : AllOps()) {
    for (uint64_t seed = 0; seed < 20; ++seed) {
      SCOPED_TRACE(op->name + " seed " + std::to_string(seed));
      Rng rng(seed);
      const OpSample sample = op->sample(rng);
      auto arena = std::make_shared<Arena>();
      std::vector<Value> inputs;
      for (size_t i = 0; i < sample.inputs.size(); ++i) {
        inputs.push_back(*arena->AddInput("x" + std::to_string(i), sample.inputs[i]));
      }
      const auto id = arena->Add(*op, inputs, sample.attrs);
      ASSERT_TRUE(id.ok()) << id.status().ToString();
      std::vector<Output> outputs;
      for (size_t i = 0; i < arena->node(*id).outputs.size(); ++i) {
        outputs.push_back({Value{*id, static_cast<int32_t>(i)}, "y" + std::to_string(i)});
      }
      const Graph graph(arena, inputs, outputs);
      auto parsed = ParseGraph(PrintGraph(graph));
      ASSERT_TRUE(parsed.ok()) << parsed.status().ToString() << "\n" << PrintGraph(graph);
      EXPECT_EQ(PrintGraph(*parsed), PrintGraph(graph));
      EXPECT_EQ(parsed->CanonicalHash(), graph.CanonicalHash());
      EXPECT_EQ(parsed->node(parsed->outputs()[0].value.node).attrs, arena->node(*id).attrs);
    }
  }
}

TEST(TextTest, ErrorsNamePlaceFoundAndExpected) {
  EXPECT_EQ(ErrorOf("input x f32[2]\n"), "line 1, column 9: found `f`, expected `:`");
  EXPECT_EQ(ErrorOf("input x: f33[2]\n"), "line 1: no element type f33");
  EXPECT_EQ(ErrorOf("input x: f32[2]\n%0 = relu(z)\n"), "line 2: no value z before this line");
  EXPECT_EQ(ErrorOf("input x: f32[2]\n%0 = frobnicate(x)\n"), "line 2: no operator frobnicate");
  EXPECT_EQ(ErrorOf("input x: f32[2]\n%0 = relu(x)\n"),
            "line 3, column 1: found the end, expected a line `output name = value`");
  EXPECT_EQ(ErrorOf("input x: f32[2]\n%0 = relu(x)\n%0 = exp(x)\n"), "line 3: the value %0 is defined twice");
  EXPECT_EQ(ErrorOf("const %0: f32[3] = [1,2]\n"), "line 1: found 2 elements, expected 3");
  EXPECT_EQ(ErrorOf("input x: f32[99999999,99999999]\n"), "line 1: shape [99999999,99999999] is too large");
  EXPECT_EQ(ErrorOf("input x: f32[2]\n%0, %1 = relu(x)\n"), "line 2: relu has 1 outputs, found 2");
  EXPECT_EQ(ErrorOf("input x: f32[2]\n%0 = relu(x, gain=2)\n"), "line 2: relu: no attribute gain");
  EXPECT_THAT(ErrorOf("input x: f32[3,4]\ninput y: f32[5,6]\n%0 = matmul(x, y)\n"),
              HasSubstr("line 3: matmul: shapes [3,4] and [5,6]: "));
}

TEST(TextTest, RefusesShapesThatNoTensorHas) {
  // A size of zero does not make large sizes harmless.
  EXPECT_EQ(ErrorOf("input x: f32[0,1099511627776,1099511627776]\n"),
            "line 1: shape [0,1099511627776,1099511627776] is too large");
  EXPECT_EQ(ErrorOf("input x: f32[2,-1]\n"), "line 1: shape [2,-1] has a negative size");
  const auto ones = [](int rank) {
    std::string text = "input x: f32[1";
    for (int axis = 1; axis < rank; ++axis) text += ",1";
    return text + "]\n%0 = add(x, x)\noutput y = %0\n";
  };
  EXPECT_EQ(ErrorOf(ones(32)), "line 1: a tensor with 32 axes; at most 31");
  EXPECT_TRUE(ParseGraph(ones(31), {}).ok());
}

TEST(TextTest, RefusesAttributesThatCannotBeMeant) {
  EXPECT_EQ(ErrorOf("input x: f32[2]\n%0 = leaky_relu(x, alpha=nan)\n"),
            "line 2: leaky_relu: attribute alpha: found nan, expected a number");
  // Sizes derived from attributes are computed in 64 bits or rejected.
  EXPECT_THAT(
      ErrorOf("input x: f32[2]\n%0 = pad(x, before=[9223372036854775807], after=[1], interior=[0], value=0.0)\n"),
      HasSubstr("line 2: pad: shape [2]: the output would have size "));
  EXPECT_THAT(
      ErrorOf("input x: f32[2]\n%0 = pad(x, before=[9223372036854775807], after=[1], interior=[0], value=0.0)\n"),
      Not(HasSubstr("-922337203685477")));
}

// A number is read exactly, or is an error.
TEST(TextTest, RefusesNumbersThatDoNotFit) {
  const auto error = [](const std::string& starts) {
    return ErrorOf("input x: f32[4]\n%0 = slice(x, starts=[" + starts + "], stops=[4])\n");
  };
  EXPECT_THAT(error("99999999999999999999"), HasSubstr("expected an integer of 64 bits"));
  EXPECT_THAT(error("-99999999999999999999"), HasSubstr("expected an integer of 64 bits"));
  EXPECT_THAT(ErrorOf("input x: f32[4]\n%0 = leaky_relu(x, alpha=1e999)\n"),
              HasSubstr("expected a number that a double holds"));
}

TEST(TextTest, WeightsTakeTheirData) {
  const Tensor data = Tensor::FromVector<double>(DType::kFloat32, {2}, {3, 4});
  auto graph = ParseGraph("state w: f32[2]\n%0 = exp(w)\noutput y = %0\n", {{"w", data}});
  ASSERT_TRUE(graph.ok());
  EXPECT_EQ(graph->arena()->Elements(graph->nodes()[0])->At(1), 4);
  EXPECT_FALSE(ParseGraph("state w: f32[3]\n%0 = exp(w)\noutput y = %0\n", {{"w", data}}).ok());
}

TEST(TextTest, GraphsForTrainingPrintAndParseBack) {
  const std::string text =
      "training\n"
      "input g: f32[4]\n"
      "state w: f32[4]\n"
      "%0 = sub(w, g)  # f32[4]\n"
      "update w = %0\n";
  auto graph = ParseGraph(text);
  ASSERT_TRUE(graph.ok()) << graph.status().ToString();
  EXPECT_EQ(graph->mode(), Mode::kTraining);
  EXPECT_EQ(PrintGraph(*graph), text);
}

TEST(TextTest, WrongUpdatesAreErrors) {
  const std::string head = "training\ninput g: f32[4]\ninput h: f32[2]\nstate w: f32[4]\n";
  EXPECT_THAT(ErrorOf(head + "update g = w\n"), HasSubstr("only a state of a graph for training has a next value"));
  EXPECT_THAT(ErrorOf("input g: f32[4]\nstate w: f32[4]\nupdate w = g\n"),
              HasSubstr("only a state of a graph for training has a next value"));
  EXPECT_THAT(ErrorOf(head + "update w = g\nupdate w = w\n"), HasSubstr("a second next value of the state w"));
  EXPECT_THAT(ErrorOf(head + "update w = h\n"), HasSubstr("the next value of the state w is f32[2], expected f32[4]"));
}

}  // namespace
}  // namespace rewright
