// Tests written models, and that they mean the same when they are read again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/ir/random_tensors.h"
#include "core/ir/text.h"
#include "core/ops/ops.h"
#include "core/tensor/compare.h"
#include "tests/core/onnx/model_util.h"
#include "tests/support/parsed_graph.h"

namespace rewright {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

onnx::ModelProto Export(const Graph& graph, const ExportOptions& options = {}, const ModelMetadata& metadata = {}) {
  auto bytes = ExportOnnxBytes(graph, metadata, options);
  EXPECT_TRUE(bytes.ok()) << bytes.status();
  onnx::ModelProto model;
  EXPECT_TRUE(bytes.ok() && model.ParseFromString(*bytes));
  return model;
}

Graph ImportAgain(const onnx::ModelProto& model) {
  auto imported = ImportOnnxBytes(model.SerializeAsString(), "exported", "");
  EXPECT_TRUE(imported.ok()) << imported.status() << "\n" << model.DebugString();
  return imported.ok() ? imported->graph : Graph();
}

// "Conv(x,w,b) -> y"
std::vector<std::string> NodesOf(const onnx::ModelProto& model) {
  std::vector<std::string> nodes;
  const auto join = [](const auto& names) {
    std::string text;
    for (const std::string& name : names) text += (text.empty() ? "" : ",") + name;
    return text;
  };
  for (const onnx::NodeProto& node : model.graph().node()) {
    nodes.push_back(node.op_type() + "(" + join(node.input()) + ") -> " + join(node.output()));
  }
  return nodes;
}

std::vector<std::string> InitializersOf(const onnx::ModelProto& model) {
  std::vector<std::string> names;
  for (const onnx::TensorProto& tensor : model.graph().initializer()) names.push_back(tensor.name());
  return names;
}

void ExpectSameOutputs(const Graph& a, const Graph& b, const std::map<std::string, Tensor>& inputs) {
  const std::vector<Tensor> expected = OutputsOf(a, inputs);
  const std::vector<Tensor> found = OutputsOf(b, inputs);
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    // An operator that ONNX has only in parts rounds at each part.
    const DType dtype = expected[i].dtype();
    const double tolerance = IsFloating(dtype) ? std::max(1e-6, 8 * RoundingOf(dtype)) : 0;
    const Comparison comparison = Compare(found[i], expected[i], tolerance, tolerance);
    EXPECT_TRUE(comparison.same_type && comparison.close) << comparison.text;
  }
}

// ---------------------------------------------------------------- every operator

class ExportOpTest : public ::testing::TestWithParam<const OpDef*> {};

// A graph of one application, with all its outputs.
struct Applied {
  Graph graph;
  std::map<std::string, Tensor> inputs;
};
Applied Apply(const OpDef& op, Rng& rng) {
  const OpSample sample = op.sample(rng);
  auto arena = std::make_shared<Arena>();
  Applied applied;
  std::vector<Value> operands;
  for (size_t i = 0; i < sample.inputs.size(); ++i) {
    const std::string name = "x" + std::to_string(i);
    operands.push_back(*arena->AddInput(name, sample.inputs[i]));
    applied.inputs[name] = RandomTensor(sample.inputs[i], rng, sample.low, sample.high);
  }
  const NodeId node = *arena->Add(op, operands, sample.attrs);
  std::vector<Output> outputs;
  for (size_t i = 0; i < arena->node(node).outputs.size(); ++i) {
    outputs.push_back(Output{Value{node, static_cast<int32_t>(i)}, "y" + std::to_string(i)});
  }
  applied.graph = Graph(arena, operands, outputs);
  return applied;
}

TEST_P(ExportOpTest, MeansTheSameWhenItIsReadAgain) {
  Rng rng(1);
  for (int64_t opset : {13, 17, 18, 20, 22, 28}) {
    for (int round = 0; round < 6; ++round) {
      const Applied applied = Apply(*GetParam(), rng);
      const onnx::ModelProto model = Export(applied.graph, {}, {.opsets = {{"", opset}}});
      SCOPED_TRACE(PrintGraph(applied.graph) + "\n" + model.DebugString());
      ExpectSameOutputs(applied.graph, ImportAgain(model), applied.inputs);
      if (HasFailure()) return;
    }
  }
}

// All operators but placements on devices, which ONNX lacks.
std::vector<const OpDef*> OpsOfOnnx() {
  std::vector<const OpDef*> ops;
  for (const OpDef* op : AllOps()) {
    const bool placement = op == ops::Partition() || op == ops::Combine() || op == ops::Replicate() ||
                           op == ops::Halo() || op == ops::GatherRows();
    if (!placement) ops.push_back(op);
  }
  return ops;
}

INSTANTIATE_TEST_SUITE_P(AllOps, ExportOpTest, ::testing::ValuesIn(OpsOfOnnx()),
                         [](const auto& info) { return info.param->name; });

// The exporter's forms of gradients are also read again: overlapping windows, equal elements, padding.
TEST(ExportTest, GradientsOfMaxPoolsMeanTheSameWhenTheyAreReadAgain) {
  for (const char* attrs :
       {"kernel=[3,3]", "kernel=[2,3], strides=[2,1], pads=[1,1,0,1]", "kernel=[2,2], dilations=[2,1]"}) {
    const auto parsed =
        ParseGraph(absl::StrCat("input x: f32[2,2,4,6]\n%0 = floor(x)\n%1 = max_pool2d(%0, ", attrs,
                                ")\n%2 = mul(%1, %1)\n%3 = max_pool2d_grad_x(%0, %2, ", attrs, ")\noutput y = %3\n"));
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    const onnx::ModelProto model = Export(*parsed, {}, {.opsets = {{"", 17}}});
    Rng rng(1);
    const Tensor x = RandomTensor({DType::kFloat32, {2, 2, 4, 6}}, rng, -3, 3);
    ExpectSameOutputs(*parsed, ImportAgain(model), {{"x", x}});
  }
}

// ---------------------------------------------------------------- names, opsets, metadata

TEST(ExportTest, NamesAreKept) {
  const Graph graph = TestModel()
                          .Input("in", {2})
                          .Initializer("weight", Iota({2}))
                          .Node("Add", {"in", "weight"}, {"sum"})
                          .Node("Relu", {"sum"}, {"out"})
                          .Output("out")
                          .Import()
                          ->graph;
  const onnx::ModelProto model = Export(graph);
  EXPECT_THAT(NodesOf(model), ElementsAre("Add(in,weight) -> sum", "Relu(sum) -> out"));
  EXPECT_THAT(InitializersOf(model), ElementsAre("weight"));
  EXPECT_EQ(model.graph().input(0).name(), "in");
  EXPECT_EQ(model.graph().output(0).name(), "out");
  EXPECT_EQ(model.graph().output(0).type().tensor_type().shape().dim(0).dim_value(), 2);
}

TEST(ExportTest, NamesThatAreTakenGetANumber) {
  const Graph graph = GraphOf("input x: f32[2]\n%0 = exp(x)\n%1 = exp(%0)\n%2 = exp(%1)\noutput y = %2\n");
  const Value last = graph.outputs()[0].value;
  const Value middle = graph.node(last.node).operands[0];
  graph.arena()->SetName(middle, "y");
  graph.arena()->SetName(graph.node(middle.node).operands[0], "x");
  EXPECT_THAT(NodesOf(Export(graph)), ElementsAre("Exp(x) -> x_1", "Exp(x_1) -> y_1", "Exp(y_1) -> y"));
}

TEST(ExportTest, OutputsMayBeLeavesAndTheSameValue) {
  const Graph graph = GraphOf(
      "input x: f32[2]\nstate w: f32[2]\n%0 = relu(x)\nconst %1: i64[2] = [3,4]\n"
      "output x = x\noutput also = x\noutput w = w\noutput a = %0\noutput b = %0\noutput c = %1\n");
  const onnx::ModelProto model = Export(graph);
  EXPECT_THAT(NodesOf(model),
              ElementsAre("Relu(x) -> a", "Identity(x) -> also", "Identity(a) -> b", "Identity(constant_1) -> c"));
  ExpectSameOutputs(graph, ImportAgain(model), {{"x", Iota({2})}});
}

TEST(ExportTest, OpsetIsTheImportedOneRaisedToWhatIsNeeded) {
  const Graph relu = GraphOf("input x: f32[2]\n%0 = relu(x)\noutput y = %0\n");
  const Graph norm =
      GraphOf("input x: f32[2]\nstate s: f32[2]\nstate b: f32[2]\n%0 = layer_norm(x, s, b)\noutput y = %0\n");
  const auto opset = [](const Graph& graph, const std::map<std::string, int64_t>& imported) {
    return Export(graph, {}, {.opsets = imported}).opset_import(0).version();
  };
  EXPECT_EQ(opset(relu, {}), 17);
  EXPECT_EQ(opset(relu, {{"", 9}}), 13);
  EXPECT_EQ(opset(relu, {{"", 15}}), 15);
  EXPECT_EQ(opset(norm, {{"", 15}}), 17);
  EXPECT_EQ(opset(relu, {{"", 28}}), 22);
}

// Returns the nodes that the operator applied to x is written as.
std::vector<std::string> NodesAtOpset(const std::string& op, int64_t opset) {
  const Graph graph = GraphOf("input x: f32[2]\n%0 = " + op + "(x)\noutput y = %0\n");
  return NodesOf(Export(graph, {}, {.opsets = {{"", opset}}}));
}

TEST(ExportTest, ActivationsAreWrittenOutBeforeTheirOpset) {
  EXPECT_THAT(NodesAtOpset("gelu", 20), ElementsAre("Gelu(x) -> y"));
  EXPECT_EQ(NodesAtOpset("gelu", 19).size(), 5u);
  EXPECT_THAT(NodesAtOpset("gelu_tanh", 20), ElementsAre("Gelu(x) -> y"));
  EXPECT_EQ(NodesAtOpset("gelu_tanh", 19).size(), 9u);
  EXPECT_THAT(NodesAtOpset("hard_swish", 14), ElementsAre("HardSwish(x) -> y"));
  EXPECT_EQ(NodesAtOpset("hard_swish", 13).size(), 4u);
  EXPECT_THAT(NodesAtOpset("mish", 18), ElementsAre("Mish(x) -> y"));
  EXPECT_EQ(NodesAtOpset("mish", 17).size(), 3u);
  EXPECT_EQ(NodesAtOpset("swish", 22).size(), 2u);
}

TEST(ExportTest, MetadataIsWritten) {
  const Graph graph = GraphOf("input x: f32[2]\n%0 = relu(x)\noutput y = %0\n");
  ModelMetadata metadata;
  metadata.producer_name = "maker";
  metadata.doc = "a model";
  metadata.graph_name = "net";
  metadata.properties = {{"author", "someone"}};
  const onnx::ModelProto model = Export(graph, {}, metadata);
  EXPECT_EQ(model.ir_version(), 8);
  EXPECT_EQ(model.producer_name(), "maker");
  EXPECT_EQ(model.doc_string(), "a model");
  EXPECT_EQ(model.graph().name(), "net");
  EXPECT_EQ(model.metadata_props(0).value(), "someone");
}

// ---------------------------------------------------------------- weights

constexpr char kConvWithBias[] = R"(
input x: f32[1,2,4,4]
state w: f32[3,2,1,1]
state b: f32[3]
%0 = conv2d(x, w)
%1 = reshape(b, shape=[1,3,1,1])
%2 = add(%0, %1)
output y = %2
)";

TEST(ExportTest, ConvTakesItsBias) {
  const Graph graph = GraphOf(kConvWithBias, {{"w", Iota({3, 2, 1, 1})}, {"b", Iota({3})}});
  for (bool fold : {true, false}) {
    const onnx::ModelProto model = Export(graph, {.fold_weights = fold});
    EXPECT_THAT(NodesOf(model), ElementsAre("Conv(x,w,b) -> y"));
    ExpectSameOutputs(graph, ImportAgain(model), {{"x", Iota({1, 2, 4, 4})}});
  }
}

TEST(ExportTest, ConvTakesABiasThatIsComputed) {
  const Graph graph = GraphOf(R"(
input x: f32[1,2,4,4]
state w: f32[3,2,1,1]
state b: f32[3,1,1]
%0 = exp(b)
%1 = conv2d(x, w)
%2 = add(%0, %1)
%3 = relu(x)
%4 = conv2d(%3, w)
%5 = add(%4, %0)
output y = %2
output z = %5
)",
                              {{"w", Iota({3, 2, 1, 1})}, {"b", Iota({3, 1, 1})}});
  const onnx::ModelProto model = Export(graph);
  // Written once.
  EXPECT_THAT(NodesOf(model), ElementsAre("Conv(x,w,exp_out_1_bias) -> y", "Relu(x) -> relu_out_2",
                                          "Conv(relu_out_2,w,exp_out_1_bias) -> z"));
  ExpectSameOutputs(graph, ImportAgain(model), {{"x", Iota({1, 2, 4, 4})}});
}

TEST(ExportTest, ConvThatIsReadElsewhereKeepsTheSum) {
  std::string text = kConvWithBias;
  text.replace(text.find("output"), 0, "%3 = relu(%0)\noutput z = %3\n");
  EXPECT_THAT(NodesOf(Export(GraphOf(text))), ElementsAre("Conv(x,w) -> conv2d_out_1", "Relu(conv2d_out_1) -> z",
                                                          "Add(conv2d_out_1,reshape_out_2) -> y"));
}

TEST(ExportTest, ConvTakesANumberAsABiasOfAllChannels) {
  const Graph graph = GraphOf(R"(
input x: f32[1,2,4,4]
state w: f32[3,2,1,1]
const %0: f32[] = [0.5]
%1 = conv2d(x, w)
%2 = add(%1, %0)
output y = %2
)",
                              {{"w", Iota({3, 2, 1, 1})}});
  const onnx::ModelProto model = Export(graph);
  ASSERT_EQ(model.graph().node_size(), 1);
  EXPECT_EQ(model.graph().initializer(1).dims(0), 3);
  ExpectSameOutputs(graph, ImportAgain(model), {{"x", Iota({1, 2, 4, 4})}});
}

TEST(ExportTest, SumsThatAreNoBiasStay) {
  std::string text = kConvWithBias;
  text.replace(text.find("state b: f32[3]"), 15, "state b: f32[4]");
  text.replace(text.find("[1,3,1,1]"), 9, "[1,1,1,4]");
  EXPECT_EQ(NodesOf(Export(GraphOf(text))).size(), 2u);
}

TEST(ExportTest, WeightOnlyValuesAreComputedOrWritten) {
  const Graph graph = GraphOf(R"(
input x: f32[2,3]
state w: f32[4,3]
%0 = transpose(w, perm=[1,0])
%1 = neg(%0)
%2 = matmul(x, %1)
output y = %2
)",
                              {{"w", Iota({4, 3})}});
  const onnx::ModelProto folded = Export(graph);
  EXPECT_THAT(NodesOf(folded), ElementsAre("MatMul(x,neg_out_1) -> y"));
  EXPECT_THAT(InitializersOf(folded), ElementsAre("neg_out_1"));
  const onnx::ModelProto written = Export(graph, {.fold_weights = false});
  EXPECT_EQ(NodesOf(written).size(), 3u);
  EXPECT_THAT(InitializersOf(written), ElementsAre("w"));
  ExpectSameOutputs(graph, ImportAgain(folded), {{"x", Iota({2, 3})}});
  ExpectSameOutputs(graph, ImportAgain(written), {{"x", Iota({2, 3})}});
}

TEST(ExportTest, WeightsThatAreWidenedAreWrittenNarrow) {
  const Graph graph = GraphWithWeights(R"(
input x: f32[2,64]
state w: f32[64,32]
%0 = cast(w, to=bf16)
%1 = cast(%0, to=f32)
%2 = matmul(x, %1)
output y = %2
)",
                                       -1, 1, 1);
  const onnx::ModelProto model = Export(graph);
  ASSERT_EQ(model.graph().initializer_size(), 1);
  EXPECT_EQ(model.graph().initializer(0).data_type(), onnx::TensorProto::BFLOAT16);
  EXPECT_EQ(model.graph().node_size(), 2);
  ExpectSameOutputs(graph, ImportAgain(model), {{"x", Iota({2, 64})}});
}

TEST(ExportTest, WeightOnlyOutputsAreInitializersOrNodes) {
  const Graph graph =
      GraphOf("input x: f32[2]\nstate w: f32[2]\n%0 = exp(w)\noutput y = %0\noutput z = %0\n", {{"w", Iota({2})}});
  const onnx::ModelProto folded = Export(graph);
  EXPECT_THAT(NodesOf(folded), ElementsAre("Identity(y) -> z"));
  ExpectSameOutputs(graph, ImportAgain(folded), {{"x", Iota({2})}});
  EXPECT_THAT(NodesOf(Export(graph, {.fold_weights = false})), ElementsAre("Exp(w) -> y", "Identity(y) -> z"));
}

TEST(ExportTest, LargeUniformWeightsAreCompact) {
  const std::string text = "input x: f32[2000]\nstate w: f32[2000]\n%0 = add(x, w)\noutput y = %0\n";
  const Graph uniform = GraphOf(text);
  EXPECT_THAT(NodesOf(Export(uniform)), ElementsAre("ConstantOfShape(ints_0) -> w", "Add(x,w) -> y"));
  EXPECT_THAT(NodesOf(Export(uniform, {.compact_uniform = false})), ElementsAre("Add(x,w) -> y"));
  const Graph varied = GraphOf(text, {{"w", Iota({2000})}});
  EXPECT_THAT(NodesOf(Export(varied)), ElementsAre("Add(x,w) -> y"));
  ExpectSameOutputs(uniform, ImportAgain(Export(uniform)), {{"x", Iota({2000})}});
}

// ---------------------------------------------------------------- files

TEST(ExportTest, LargeWeightsGoToTheirOwnFile) {
  TemporaryFolder folder;
  const Graph graph = GraphOf(R"(
input x: f32[300]
state v: f32[300]
state w: f32[300]
const %0: f32[] = [2]
%1 = mul(x, v)
%2 = add(%1, w)
%3 = mul(%2, %0)
output y = %3
)",
                              {{"v", Iota({300})}, {"w", Iota({300})}});
  EXPECT_THAT(std::string(ExportOnnxBytes(graph, {}, {.max_inline_bytes = 1000}).status().message()),
              HasSubstr("they need a file of their own"));
  const absl::Status status = ExportOnnx(graph, {}, folder / "m.onnx", {.max_inline_bytes = 1000});
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(folder.Files(), ElementsAre("m.onnx", "m.onnx.data"));
  EXPECT_EQ(FileContents(folder / "m.onnx.data").size(), 1216u + 1200u);  // the second begins at a multiple of 64
  EXPECT_LT(FileContents(folder / "m.onnx").size(), 1200u);
  const auto imported = ImportOnnx(folder / "m.onnx");
  ASSERT_TRUE(imported.ok()) << imported.status();
  ExpectSameOutputs(graph, imported->graph, {{"x", Iota({300})}});
}

TEST(ExportTest, WhatCannotBeWrittenLeavesNothing) {
  TemporaryFolder folder;
  const Graph graph = GraphOf("input x: f32[2]\n%0 = relu(x)\noutput y = %0\n");
  EXPECT_FALSE(ExportOnnx(graph, {}, folder / "no/such/folder/m.onnx").ok());
  WriteContents(folder / "m.onnx", "the old one");
  ASSERT_TRUE(ExportOnnx(graph, {}, folder / "m.onnx").ok());
  EXPECT_THAT(folder.Files(), ElementsAre("m.onnx"));
  EXPECT_TRUE(ImportOnnx(folder / "m.onnx").ok());
}

}  // namespace
}  // namespace rewright
