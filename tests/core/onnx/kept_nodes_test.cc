// Tests rewritten models, which are written with the nodes of the file that they were read from.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/onnx/source.h"
#include "core/tensor/compare.h"
#include "tests/core/onnx/model_util.h"

namespace rewright {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsSupersetOf;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

ImportedModel Read(const TestModel& model) {
  auto imported = model.Import({.keep_source = true});
  EXPECT_TRUE(imported.ok()) << imported.status();
  return *std::move(imported);
}

// Returns the value that tensor `name` became.
Value Named(const ImportedModel& model, const std::string& name) { return model.source->value(name); }

Graph Replaced(const ImportedModel& model, const ValueMap& replacement) {
  auto graph = ReplaceValues(model.graph, replacement);
  EXPECT_TRUE(graph.ok()) << graph.status();
  return *std::move(graph);
}

Value Apply(const ImportedModel& model, const std::string& op, std::vector<Value> operands, Attrs attrs = {}) {
  auto value = model.graph.arena()->Apply(op, std::move(operands), std::move(attrs));
  EXPECT_TRUE(value.ok()) << value.status();
  return *value;
}

// Negates input x twice, so that every value that reads it changes.
Graph OnNegatedX(const ImportedModel& model) {
  const Value x = Named(model, "x");
  return Replaced(model, {{x, Apply(model, "neg", {Apply(model, "neg", {x})})}});
}

onnx::ModelProto Written(const ImportedModel& model, const Graph& graph) {
  const auto bytes = ExportOnnxBytes(graph, model.metadata, {.source = model.source});
  EXPECT_TRUE(bytes.ok()) << bytes.status();
  onnx::ModelProto written;
  EXPECT_TRUE(bytes.ok() && written.ParseFromString(*bytes));
  std::set<std::string> names;
  for (const onnx::NodeProto& node : written.graph().node()) {
    EXPECT_TRUE(node.name().empty() || names.insert(node.name()).second) << written.DebugString();
  }
  const auto again = ImportOnnxBytes(written.SerializeAsString(), "written", "");
  EXPECT_TRUE(again.ok()) << again.status() << written.DebugString();
  if (!again.ok()) return written;
  const std::map<std::string, Tensor> x = {{"x", Iota(graph.type(graph.inputs()[0]).shape)}};
  EXPECT_TRUE(Compare(OutputsOf(again->graph, x)[0], OutputsOf(graph, x)[0], 0, 0).close) << written.DebugString();
  return written;
}

// "Conv(x,w) -> y"
std::vector<std::string> NodesOf(const onnx::ModelProto& model) {
  std::vector<std::string> nodes;
  for (const onnx::NodeProto& node : model.graph().node()) {
    nodes.push_back(absl::StrCat(node.op_type(), "(", absl::StrJoin(node.input(), ","), ") -> ",
                                 absl::StrJoin(node.output(), ",")));
  }
  return nodes;
}

std::vector<std::string> InitializersOf(const onnx::ModelProto& model) {
  std::vector<std::string> names;
  for (const onnx::TensorProto& tensor : model.graph().initializer()) names.push_back(tensor.name());
  return names;
}

// Replaces a sum by the difference of x and a weight that the file computes; no node of the file is equal to it.
Graph OnDifference(const ImportedModel& model, const std::string& weight, const std::string& sum) {
  return Replaced(model, {{Named(model, sum), Apply(model, "sub", {Named(model, "x"), Named(model, weight)})}});
}

TEST(KeptNodesTest, AWeightThatSomethingElseReadsIsWrittenOnce) {
  TestModel file;
  file.Input("x", {32, 64})
      .Initializer("w", Iota({64, 32}))
      .Node("Transpose", {"w"}, {"wt"}, {{"perm", std::vector<int64_t>{1, 0}}})
      .Node("Add", {"x", "wt"}, {"l"})
      .Node("Tanh", {"l"}, {"p"})
      .Node("MatMul", {"p", "w"}, {"y"})
      .Output("y");
  const ImportedModel model = Read(file);
  const onnx::ModelProto written = Written(model, OnDifference(model, "wt", "l"));
  EXPECT_THAT(InitializersOf(written), ElementsAre("w"));
  EXPECT_LE(written.ByteSizeLong(), file.Bytes().size() + 1024);
}

TEST(KeptNodesTest, AWeightThatNothingElseReadsIsComputed) {
  TestModel file;
  file.Input("x", {32, 64})
      .Initializer("w", Iota({64, 32}))
      .Node("Transpose", {"w"}, {"wt"}, {{"perm", std::vector<int64_t>{1, 0}}})
      .Node("Add", {"x", "wt"}, {"l"})
      .Node("Tanh", {"l"}, {"y"})
      .Output("y");
  const ImportedModel model = Read(file);
  const onnx::ModelProto written = Written(model, OnDifference(model, "wt", "l"));
  EXPECT_THAT(InitializersOf(written), ElementsAre("wt"));
}

TEST(KeptNodesTest, ANarrowWeightStaysNarrow) {
  Tensor narrow(TensorType{DType::kFloat16, {32, 64}});
  std::memset(narrow.data(), 0, static_cast<size_t>(narrow.num_bytes()));
  TestModel file;
  file.Input("x", {32, 64})
      .Initializer("w", narrow)
      .Node("Cast", {"w"}, {"wide"}, {{"to", int64_t{onnx::TensorProto::FLOAT}}})
      .Node("Add", {"x", "wide"}, {"l"})
      .Node("Tanh", {"l"}, {"y"})
      .Output("y");
  const ImportedModel model = Read(file);
  const onnx::ModelProto written = Written(model, OnDifference(model, "wide", "l"));
  EXPECT_THAT(InitializersOf(written), ElementsAre("w"));
}

TEST(KeptNodesTest, AConstantMadeOfLittleIsMadeInTheFile) {
  TestModel file;
  file.Input("x", {64, 64})
      .Ints("sizes", {64, 64})
      .Node("ConstantOfShape", {"sizes"}, {"ones"}, {{"value", Tensor::FromVector<float>(DType::kFloat32, {1}, {-2})}})
      .Node("Trilu", {"ones"}, {"mask"})
      .Node("Add", {"x", "mask"}, {"y"})
      .Output("y");
  const ImportedModel model = Read(file);
  const Value y = Apply(model, "sub",
                        {Apply(model, "add", {Named(model, "x"), Named(model, "mask")}),
                         Apply(model, "sub", {Named(model, "x"), Named(model, "x")})});
  const onnx::ModelProto written = Written(model, Replaced(model, {{Named(model, "y"), y}}));
  EXPECT_LE(written.ByteSizeLong(), file.Bytes().size() + 1024) << written.DebugString();
}

// The export keeps information of the file that a graph does not hold.
TEST(KeptNodesTest, RemarksAndAnnotationsStay) {
  TestModel file;
  file.Input("x", {4})
      .Initializer("scale", Tensor::Scalar(DType::kFloat32, 0.5))
      .Node("Relu", {"x"}, {"h"})
      .Node("Exp", {"h"}, {"y"})
      .Output("y");
  onnx::GraphProto& graph = *file.proto().mutable_graph();
  graph.mutable_input(0)->set_doc_string("what comes in");
  graph.mutable_output(0)->set_doc_string("what goes out");
  graph.mutable_input(0)->mutable_type()->set_denotation("IMAGE");
  graph.mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim(0)->set_denotation("N");
  for (const char* tensor : {"h", "nowhere"}) {
    onnx::TensorAnnotation& annotation = *graph.add_quantization_annotation();
    annotation.set_tensor_name(tensor);
    onnx::StringStringEntryProto& parameter = *annotation.add_quant_parameter_tensor_names();
    parameter.set_key("SCALE_TENSOR");
    parameter.set_value("scale");
  }
  // GraphProto::metadata_props of later versions: field 16.
  graph.GetReflection()->MutableUnknownFields(&graph)->AddLengthDelimited(16, "\n\1k\22\1v");
  const ImportedModel model = Read(file);
  const onnx::ModelProto written = Written(model, OnNegatedX(model));
  EXPECT_EQ(written.graph().input(0).doc_string(), "what comes in");
  EXPECT_EQ(written.graph().output(0).doc_string(), "what goes out");
  EXPECT_EQ(written.graph().input(0).type().denotation(), "IMAGE");
  EXPECT_EQ(written.graph().input(0).type().tensor_type().shape().dim(0).denotation(), "N");
  ASSERT_EQ(written.graph().quantization_annotation_size(), 1);
  EXPECT_EQ(written.graph().quantization_annotation(0).tensor_name(), "h");
  EXPECT_THAT(InitializersOf(written), ElementsAre("scale"));
  const auto& unknown = written.graph().GetReflection()->GetUnknownFields(written.graph());
  ASSERT_EQ(unknown.field_count(), 1);
  EXPECT_EQ(unknown.field(0).number(), 16);
}

TEST(KeptNodesTest, CompositesBehindARewriteStayNodes) {
  TestModel file;
  file.Input("x", {1, 2, 5, 5})
      .Initializer("w", Iota({2, 4, 3, 3}))
      .Initializer("bias", Iota({4}))
      .Initializer("scale", Iota({4}))
      .Initializer("shift", Iota({4}))
      .Node("ConvTranspose", {"x", "w", "bias"}, {"up"}, {{"strides", std::vector<int64_t>{2, 2}}})
      .Node("InstanceNormalization", {"up", "scale", "shift"}, {"norm"}, {{"epsilon", 0.25}})
      .Node("HardSigmoid", {"norm"}, {"hard"}, {{"alpha", 0.5}})
      .Node("Softsign", {"hard"}, {"soft"})
      .Node("Selu", {"soft"}, {"y"})
      .Output("y");
  file.proto().mutable_graph()->mutable_node(1)->set_doc_string("a note");
  const ImportedModel model = Read(file);
  const onnx::ModelProto written = Written(model, OnNegatedX(model));
  EXPECT_THAT(NodesOf(written),
              ElementsAre("Neg(x) -> neg_out_1", "Neg(neg_out_1) -> x_1", "ConvTranspose(x_1,w,bias) -> up",
                          "InstanceNormalization(up,scale,shift) -> norm", "HardSigmoid(norm) -> hard",
                          "Softsign(hard) -> soft", "Selu(soft) -> y"));
  EXPECT_EQ(written.graph().node(3).doc_string(), "a note");
  EXPECT_EQ(written.graph().node(3).attribute(0).f(), 0.25f);
  EXPECT_THAT(InitializersOf(written), UnorderedElementsAre("w", "bias", "scale", "shift"));
}

std::vector<std::string> NodeNamesOf(const onnx::ModelProto& model) {
  std::vector<std::string> names;
  for (const onnx::NodeProto& node : model.graph().node()) names.push_back(node.name());
  return names;
}

// The file names tensors behind new nodes, and uses one name twice.
TEST(KeptNodesTest, EveryNodeHasANameOfItsOwn) {
  TestModel file;
  file.Input("x", {2}).Node("Softsign", {"x"}, {"a"}).Node("Relu", {"a"}, {"b"}).Node("Selu", {"b"}, {"y"}).Output("y");
  file.proto().mutable_graph()->mutable_node(0)->set_name("Neg_0");
  file.proto().mutable_graph()->mutable_node(1)->set_name("Neg_2");
  file.proto().mutable_graph()->mutable_node(2)->set_name("Neg_2");
  const ImportedModel model = Read(file);
  EXPECT_THAT(NodeNamesOf(Written(model, OnNegatedX(model))),
              ElementsAre("Neg_1", "Neg_3", "Neg_0", "Neg_2", "Neg_2_0"));
}

TEST(KeptNodesTest, TypesOfTensorsAreSaidWhereTheFileSaysThem) {
  TestModel file;
  file.Input("x", {2}).Node("Softsign", {"x"}, {"a"}).Node("Relu", {"a"}, {"y"}).Output("y");
  ImportedModel model = Read(file);
  EXPECT_EQ(Written(model, OnNegatedX(model)).graph().value_info_size(), 0);
  onnx::GraphProto& graph = *file.proto().mutable_graph();
  *graph.add_value_info() = graph.input(0);
  graph.mutable_value_info(0)->set_name("a");
  model = Read(file);
  EXPECT_EQ(Written(model, OnNegatedX(model)).graph().value_info_size(), 3);
}

// The model's graph with the single application of `op` in it negated twice.
Graph Touched(const ImportedModel& model, const std::string& op) {
  for (NodeId id : model.graph.nodes()) {
    if (!model.graph.IsRun(model.graph.node(id)) || model.graph.node(id).op->name != op) continue;
    const Value inside{id, 0};
    const Value twice = Apply(model, "neg", {Apply(model, "neg", {inside})});
    auto graph = ReplaceValues(model.graph, {{inside, twice}});
    EXPECT_TRUE(graph.ok());
    return *graph;
  }
  ADD_FAILURE() << "no " << op;
  return model.graph;
}

TEST(KeptNodesTest, ANodeThatWasTouchedInsideIsRestored) {
  const ImportedModel model = Read(TestModel()
                                       .Input("x", {1, 2, 5, 5})
                                       .Initializer("scale", Iota({2}))
                                       .Initializer("shift", Iota({2}))
                                       .Node("InstanceNormalization", {"x", "scale", "shift"}, {"norm"})
                                       .Node("Relu", {"norm"}, {"y"})
                                       .Output("y"));
  EXPECT_THAT(NodesOf(Written(model, Touched(model, "sub"))),
              ElementsAre("InstanceNormalization(x,scale,shift) -> norm", "Relu(norm) -> y"));
}

TEST(KeptNodesTest, ALayerIsRestoredWithTheReshapeBeforeIt) {
  const ImportedModel model = Read(TestModel()
                                       .Input("x", {6, 1, 4})
                                       .Ints("shape", {3, 2, 4})
                                       .Initializer("w", Iota({1, 12, 4}))
                                       .Initializer("r", Iota({1, 12, 3}))
                                       .Node("Relu", {"x"}, {"a"})
                                       .Node("Reshape", {"a", "shape"}, {"b"})
                                       .Node("LSTM", {"b", "w", "r"}, {"y"}, {{"hidden_size", int64_t{3}}})
                                       .Output("y"));
  // Joins the reshape and the one within the layer.
  for (NodeId id : model.graph.nodes()) {
    const Node& node = model.graph.node(id);
    if (node.op == nullptr || node.op->name != "reshape" || node.operands[0] != Named(model, "b")) continue;
    const Value once = Apply(model, "reshape", {Named(model, "a")}, {{"shape", node.outputs[0].shape}});
    EXPECT_THAT(NodesOf(Written(model, Replaced(model, {{Value{id, 0}, once}}))),
                ElementsAre("Relu(x) -> a", "Reshape(a,shape) -> b", "LSTM(b,w,r) -> y"));
    return;
  }
  FAIL() << "no reshape";
}

TEST(KeptNodesTest, WhatComputesAConstantReadsTheWeightsOfTheFile) {
  const ImportedModel model = Read(TestModel()
                                       .Input("x", {40, 40})
                                       .Initializer("w", Iota({40, 40}))
                                       .Node("Transpose", {"w"}, {"turned"})
                                       .Node("Gemm", {"x", "w", "turned"}, {"y"})
                                       .Output("y"));
  const Value w = Named(model, "w");
  const Value product = Apply(model, "matmul", {Named(model, "x"), Apply(model, "neg", {w})});
  const Value sum = Apply(model, "add", {product, Named(model, "turned")});
  model.graph.arena()->SetName(sum, "y");
  const onnx::ModelProto written = Written(model, Replaced(model, {{Named(model, "y"), sum}}));
  EXPECT_THAT(NodesOf(written), ElementsAre("Transpose(w) -> turned", "Gemm(x,neg_out_1,turned) -> y"));
}

TEST(KeptNodesTest, WhatReadsMoreThanTheNodeIsNotRestored) {
  const ImportedModel model = Read(TestModel()
                                       .Input("x", {2})
                                       .Input("z", {2})
                                       .Node("Exp", {"x"}, {"e"})
                                       .Node("HardSigmoid", {"e"}, {"y"}, {{"alpha", 0.5}})
                                       .Output("y"));
  // The value is computed by other operators than the node's, which read past its input.
  const Value x = Named(model, "x");
  const Value y = Named(model, "y");
  const Value e = Apply(model, "exp", {Apply(model, "abs", {x})});
  const Value half = Apply(model, "div", {e, model.graph.arena()->AddConstant(Tensor::Scalar(DType::kFloat32, 2))});
  const Value sum = Apply(model, "add", {half, model.graph.arena()->AddConstant(Tensor::Scalar(DType::kFloat32, 0.5))});
  const Value clip = Apply(model, "clip", {sum}, {{"min", 0.0}, {"max", 1.0}});
  model.graph.arena()->SetName(clip, "y");
  EXPECT_THAT(absl::StrJoin(NodesOf(Written(model, Replaced(model, {{y, clip}}))), " "),
              Not(testing::HasSubstr("HardSigmoid")));
}

TEST(KeptNodesTest, AWeightMayBeAnother) {
  const ImportedModel model =
      Read(TestModel()
               .Input("x", {1, 2, 5, 5})
               .Initializer("w", Iota({3, 2, 3, 3}))
               .Initializer("bias", Iota({3}))
               .Node("Conv", {"x", "w", "bias"}, {"y"}, {{"pads", std::vector<int64_t>{1, 1, 1, 1}}})
               .Output("y"));
  const Value w = Named(model, "w");
  const onnx::ModelProto written = Written(model, Replaced(model, {{w, Apply(model, "neg", {w})}}));
  ASSERT_EQ(written.graph().node_size(), 1);
  EXPECT_EQ(written.graph().node(0).name(), model.source->node(0).name());
  EXPECT_EQ(written.graph().node(0).input(2), "bias");
  EXPECT_THAT(InitializersOf(written), Not(Contains("w")));
}

TEST(KeptNodesTest, ComputedWeightsOfOneNumberTakeNoBytes) {
  const ImportedModel model = Read(TestModel()
                                       .Input("x", {2000})
                                       .Initializer("w", Tensor(TensorType{DType::kFloat32, {2000}}))
                                       .Node("Add", {"x", "w"}, {"y"})
                                       .Output("y"));
  EXPECT_THAT(NodesOf(Written(model, model.graph)), ElementsAre("Add(x,w) -> y"));  // as it was read
  const Value w = Named(model, "w");
  const onnx::ModelProto written = Written(model, Replaced(model, {{w, Apply(model, "exp", {w})}}));
  ASSERT_EQ(written.graph().node_size(), 2);
  EXPECT_EQ(written.graph().node(0).op_type(), "ConstantOfShape");
  EXPECT_LT(written.ByteSizeLong(), 1000U);
}

TEST(KeptNodesTest, NodesThatReadOtherwiseInANewerOpsetAreRestated) {
  const ImportedModel model = Read(TestModel(11)
                                       .Input("x", {2, 3, 4})
                                       .Node("Softmax", {"x"}, {"soft"}, {{"axis", int64_t{1}}})
                                       .Node("HardSigmoid", {"soft"}, {"y"})
                                       .Output("y"));
  const onnx::ModelProto written = Written(model, OnNegatedX(model));
  EXPECT_EQ(written.opset_import(0).version(), 13);
  EXPECT_THAT(NodesOf(written), Contains("HardSigmoid(soft) -> y"));
  EXPECT_EQ(std::count_if(written.graph().node().begin(), written.graph().node().end(),
                          [](const onnx::NodeProto& node) { return node.op_type() == "Softmax"; }),
            1);
  EXPECT_GT(written.graph().node_size(), 4);  // the softmax over two axes reshapes
}

TEST(KeptNodesTest, OutputsThatNobodyReadKeepNamesOfTheirOwn) {
  const ImportedModel model = Read(TestModel()
                                       .Input("x", {6, 2})
                                       .Node("Split", {"x"}, {"a", "b", "c"}, {{"axis", int64_t{0}}})
                                       .Node("Relu", {"a"}, {"y"})
                                       .Node("Relu", {"c"}, {"z"})
                                       .Output("y")
                                       .Output("z"));
  EXPECT_THAT(NodesOf(Written(model, OnNegatedX(model))),
              IsSupersetOf({"Split(x_1) -> a,b,c", "Relu(a) -> y", "Relu(c) -> z"}));
}

TEST(KeptNodesTest, ConstantsAreComputedAsInTheFileAndSizesAreNumbers) {
  const ImportedModel model = Read(TestModel()
                                       .Input("x", {2, 3})
                                       .Initializer("w", Iota({40, 3}))
                                       .Node("Transpose", {"w"}, {"turned"})
                                       .Node("MatMul", {"x", "turned"}, {"product"})
                                       .Node("Shape", {"product"}, {"shape"})
                                       .Node("Reshape", {"product", "shape"}, {"same"})
                                       .Ints("list", {5, -1})
                                       .Node("Reshape", {"same", "list"}, {"y"})
                                       .Output("y"));
  const onnx::ModelProto written = Written(model, OnNegatedX(model));
  EXPECT_THAT(NodesOf(written), ElementsAre("Neg(x) -> neg_out_1", "Neg(neg_out_1) -> x_1", "Transpose(w) -> turned",
                                            "MatMul(x_1,turned) -> product", "Reshape(product,list) -> y"));
}

TEST(KeptNodesTest, AnInputThatIsAlsoAPartOfTheCompositeIsNoInput) {
  const ImportedModel model = Read(TestModel()
                                       .Input("x", {3, 3})
                                       .Node("MatMul", {"x", "x"}, {"square"})
                                       .Node("Gemm", {"x", "x", "square"}, {"y"})
                                       .Output("y"));
  // Twice the square: the product within the Gemm is the same value.
  const Value square = Named(model, "square");
  const Value other = Apply(model, "abs", {square});
  model.graph.arena()->SetName(other, "square");
  const onnx::ModelProto written = Written(model, Replaced(model, {{square, other}}));
  EXPECT_THAT(absl::StrJoin(NodesOf(written), " "), Not(testing::HasSubstr("Gemm")));
}

TEST(KeptNodesTest, AnotherOperatorUnderItsNameIsNotTheNode) {
  const ImportedModel model =
      Read(TestModel().Input("x", {3}).Initializer("w", Iota({3})).Node("Add", {"x", "w"}, {"y"}).Output("y"));
  const Value other = Apply(model, "sub", {Named(model, "x"), Named(model, "w")});
  model.graph.arena()->SetName(other, "y");
  EXPECT_THAT(NodesOf(Written(model, Replaced(model, {{Named(model, "y"), other}}))), ElementsAre("Sub(x,w) -> y"));
}

TEST(KeptNodesTest, AGraphOfAnotherArenaIsWrittenInOwnForms) {
  const ImportedModel model = Read(TestModel().Input("x", {2}).Node("Softsign", {"x"}, {"y"}).Output("y"));
  EXPECT_THAT(NodesOf(Written(model, model.graph)), ElementsAre("Softsign(x) -> y"));
  EXPECT_THAT(absl::StrJoin(NodesOf(Written(model, CopyGraph(model.graph))), " "), Not(testing::HasSubstr("Softsign")));
}

TEST(KeptNodesTest, WhatChangedBetweenOpsets) {
  const auto same = [](const std::string& op_type, int64_t from, int64_t to, const std::string& attribute = "") {
    onnx::NodeProto node;
    node.set_op_type(op_type);
    if (!attribute.empty()) node.add_attribute()->set_name(attribute);
    return MeansTheSame(node, from, to);
  };
  EXPECT_TRUE(same("Conv", 7, 22));
  EXPECT_TRUE(same("Softmax", 13, 22));
  EXPECT_FALSE(same("Softmax", 12, 13));
  EXPECT_TRUE(same("ReduceSum", 11, 13));
  EXPECT_FALSE(same("ReduceSum", 11, 13, "axes"));
  EXPECT_TRUE(same("ReduceMean", 13, 17, "axes"));
  EXPECT_FALSE(same("ReduceMean", 13, 18, "axes"));
}

}  // namespace
}  // namespace rewright
