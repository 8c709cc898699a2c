// Tests If, Loop and Scan, which their subgraphs replace, and composites that are written out step by step.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/tensor/compare.h"
#include "tests/core/onnx/model_util.h"

namespace rewright {
namespace {

using ::testing::HasSubstr;

// Makes a subgraph of the nodes and initializers of a model; its inputs have these names.
onnx::GraphProto Body(TestModel model, const std::vector<std::string>& inputs) {
  onnx::GraphProto graph = model.proto().graph();
  graph.clear_input();
  for (const std::string& name : inputs) graph.add_input()->set_name(name);
  return graph;
}

void SetSubgraph(TestModel& model, const std::string& attribute, const onnx::GraphProto& body) {
  onnx::NodeProto& node = *model.proto().mutable_graph()->mutable_node(model.proto().graph().node_size() - 1);
  onnx::AttributeProto* added = node.add_attribute();
  added->set_name(attribute);
  added->set_type(onnx::AttributeProto::GRAPH);
  *added->mutable_g() = body;
}

std::vector<Tensor> OutputsOn(const TestModel& model, const std::map<std::string, Tensor>& inputs) {
  const auto imported = model.Import();
  EXPECT_TRUE(imported.ok()) << imported.status();
  return imported.ok() ? OutputsOf(imported->graph, inputs) : std::vector<Tensor>();
}

Tensor Truth(bool value) { return Tensor::Scalar(DType::kBool, value ? 1 : 0); }

TestModel Chosen(bool condition) {
  TestModel model;
  model.Input("x", {2}).Initializer("c", Truth(condition)).Node("If", {"c"}, {"y"}).Output("y");
  SetSubgraph(model, "then_branch", Body(TestModel().Node("Neg", {"x"}, {"a"}).Output("a"), {}));
  SetSubgraph(model, "else_branch", Body(TestModel().Node("NonZero", {"x"}, {"b"}).Output("b"), {}));
  return model;
}

TEST(ControlFlowTest, TheBranchOfAKnownConditionIsTaken) {
  EXPECT_TRUE(OutputsOn(Chosen(true), {{"x", Iota({2})}})[0].BitEqual(
      Tensor::FromVector<float>(DType::kFloat32, {2}, {-0.0f, -1})));
  // Only the branch that is taken must be supported.
  EXPECT_THAT(Chosen(false).Error(), HasSubstr("NonZero"));
}

TEST(ControlFlowTest, AConditionThatIsComputedIsRefusedByName) {
  TestModel model;
  model.Input("x", {2}).Input("c", {}, DType::kBool).Node("If", {"c"}, {"y"}).Output("y");
  SetSubgraph(model, "then_branch", Body(TestModel().Node("Neg", {"x"}, {"a"}).Output("a"), {}));
  EXPECT_THAT(model.Error(), HasSubstr("If: input cond (tensor \"c\") depends on the inputs of the model"));
}

// s = x, then `turns` times s = s + number of the iteration; collects s.
TestModel Summing(int64_t turns) {
  TestModel model;
  model.Input("x", {2}).Ints("m", {turns}).Node("Loop", {"m", "", "x"}, {"last", "all"}).Output("last").Output("all");
  TestModel body;
  body.Node("Cast", {"i"}, {"number"}, {{"to", int64_t{1}}})
      .Node("Add", {"s", "number"}, {"next"})
      .Node("Identity", {"next"}, {"shown"})
      .Output("goes_on")
      .Output("next")
      .Output("shown");
  SetSubgraph(model, "body", Body(body, {"i", "goes_on", "s"}));
  return model;
}

TEST(ControlFlowTest, ALoopIsItsBodySoManyTimes) {
  const std::vector<Tensor> outputs = OutputsOn(Summing(3), {{"x", Iota({2})}});
  EXPECT_TRUE(outputs[0].BitEqual(Tensor::FromVector<float>(DType::kFloat32, {2}, {3, 4})));
  EXPECT_TRUE(outputs[1].BitEqual(Tensor::FromVector<float>(DType::kFloat32, {3, 2}, {0, 1, 1, 2, 3, 4})));
  EXPECT_THAT(Summing(1'000'000).Error(), HasSubstr("more than 4096 turns"));
  EXPECT_THAT(Summing(0).Error(), HasSubstr("gives nothing in no turn"));
}

TEST(ControlFlowTest, AScanWalksAlongItsAxes) {
  TestModel model;
  model.Input("x", {2, 3}).Initializer("zero", Tensor::FromVector<float>(DType::kFloat32, {2}, {0, 0}));
  model.Node("Scan", {"zero", "x"}, {"last", "sums"},
             {{"num_scan_inputs", int64_t{1}},
              {"scan_input_axes", std::vector<int64_t>{1}},
              {"scan_input_directions", std::vector<int64_t>{1}},
              {"scan_output_axes", std::vector<int64_t>{-1}}});
  model.Output("last").Output("sums");
  SetSubgraph(model, "body",
              Body(TestModel()
                       .Node("Add", {"s", "column"}, {"next"})
                       .Node("Neg", {"next"}, {"shown"})
                       .Output("next")
                       .Output("shown"),
                   {"s", "column"}));
  const std::vector<Tensor> outputs = OutputsOn(model, {{"x", Iota({2, 3})}});
  EXPECT_TRUE(outputs[0].BitEqual(Tensor::FromVector<float>(DType::kFloat32, {2}, {3, 12})));
  EXPECT_TRUE(outputs[1].BitEqual(Tensor::FromVector<float>(DType::kFloat32, {2, 3}, {-2, -3, -3, -5, -9, -12})));
}

TEST(ControlFlowTest, SubgraphsThatDoNotFitAreErrors) {
  TestModel few = Summing(2);
  few.proto().mutable_graph()->mutable_node(0)->mutable_attribute(0)->mutable_g()->mutable_input()->RemoveLast();
  EXPECT_THAT(few.Error(), HasSubstr("a subgraph of 2 inputs is given 3"));
  TestModel twice = Summing(2);
  twice.proto().mutable_graph()->mutable_node(0)->mutable_attribute(0)->mutable_g()->mutable_input(2)->set_name("x");
  EXPECT_THAT(twice.Error(), HasSubstr("\"x\": the name is taken"));
  TestModel missing = Summing(2);
  missing.proto().mutable_graph()->mutable_node(0)->clear_attribute();
  EXPECT_THAT(missing.Error(), HasSubstr("attribute body is missing"));
  // A subgraph nested in itself: as deep as is allowed, and deeper.
  TestModel deep = Chosen(true);
  for (int i = 0; i < 20; ++i) {
    TestModel outer;
    outer.Input("x", {2})
        .Initializer("c", Truth(true))
        .Node("If", {"c"}, {"y" + std::to_string(i)})
        .Output("y" + std::to_string(i));
    onnx::GraphProto inner = deep.proto().graph();
    inner.clear_input();
    inner.clear_initializer();
    SetSubgraph(outer, "then_branch", inner);
    deep = outer;
  }
  EXPECT_THAT(deep.Error(), HasSubstr("subgraphs more than 16 deep"));
}

TEST(ControlFlowTest, RecurrentLayersSayWhatTheyLack) {
  const auto error = [](const TestAttrs& attrs, const Shape& weights) {
    return TestModel()
        .Input("x", {5, 1, 2})
        .Initializer("w", Iota(weights))
        .Initializer("r", Iota({1, 12, 3}))
        .Node("LSTM", {"x", "w", "r"}, {"y"}, attrs)
        .Output("y")
        .Error();
  };
  EXPECT_EQ(error({{"hidden_size", int64_t{3}}}, {1, 12, 2}), "");
  EXPECT_THAT(error({}, {1, 12, 4}), HasSubstr("weights f32[1,12,4] and f32[1,12,3] for f32[5,1,2]"));
  EXPECT_THAT(error({{"clip", 1.0}}, {1, 12, 2}), HasSubstr("attribute clip"));
  EXPECT_THAT(error({{"direction", "sideways"}}, {1, 12, 2}), HasSubstr("attribute direction is \"sideways\""));
}

TEST(ControlFlowTest, ResizingSaysWhatItLacks) {
  const auto error = [](const std::vector<double>& scales, const TestAttrs& attrs) {
    return TestModel()
        .Input("x", {1, 1, 4, 4})
        .Initializer("scales", Tensor::FromVector(DType::kFloat32, {static_cast<int64_t>(scales.size())}, scales))
        .Node("Resize", {"x", "", "scales"}, {"y"}, attrs)
        .Output("y")
        .Error();
  };
  EXPECT_EQ(error({1, 1, 2.5, 0.5}, {{"mode", "linear"}}), "");
  EXPECT_THAT(error({1, 1, 2}, {}), HasSubstr("3 scales or sizes for 4 axes"));
  EXPECT_THAT(error({1, 1, 0, 1}, {}), HasSubstr("resizing 4 by 0"));
  EXPECT_THAT(error({1, 1, 1e30, 1}, {}), HasSubstr("resizing 4 by"));
  EXPECT_THAT(error({1, 1, 2, 2}, {{"mode", "area"}}), HasSubstr("attribute mode is \"area\""));
  EXPECT_THAT(error({1, 1, 2, 2}, {{"coordinate_transformation_mode", "x"}}),
              HasSubstr("coordinate_transformation_mode is \"x\""));
}

}  // namespace
}  // namespace rewright
