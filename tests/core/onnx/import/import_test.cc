// Tests the import of the model around the nodes, and errors of all its parts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/core/onnx/model_util.h"

namespace rewright {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

TestModel ReluModel() { return TestModel(17).Input("x", {2}).Node("Relu", {"x"}, {"y"}).Output("y"); }

// ---------------------------------------------------------------- parts that are read

TEST(ImportTest, MetadataIsKept) {
  TestModel model = ReluModel();
  model.proto().set_producer_name("maker");
  model.proto().set_producer_version("1.2");
  model.proto().set_model_version(7);
  model.proto().set_doc_string("a model");
  model.proto().mutable_graph()->set_doc_string("a graph");
  onnx::StringStringEntryProto* property = model.proto().add_metadata_props();
  property->set_key("author");
  property->set_value("someone");
  const ModelMetadata metadata = model.Import()->metadata;
  EXPECT_EQ(metadata.ir_version, 8);
  EXPECT_EQ(metadata.opsets.at(""), 17);
  EXPECT_EQ(metadata.producer_name, "maker");
  EXPECT_EQ(metadata.producer_version, "1.2");
  EXPECT_EQ(metadata.model_version, 7);
  EXPECT_EQ(metadata.doc, "a model");
  EXPECT_EQ(metadata.graph_name, "test");
  EXPECT_EQ(metadata.graph_doc, "a graph");
  EXPECT_THAT(metadata.properties, ElementsAre(std::pair<std::string, std::string>("author", "someone")));
}

TEST(ImportTest, ValuesKeepTheNamesOfTensors) {
  const Graph graph =
      TestModel().Input("x", {2}).Node("Relu", {"x"}, {"mid"}).Node("Exp", {"mid"}, {"y"}).Output("y").Import()->graph;
  const Value output = graph.outputs()[0].value;
  EXPECT_EQ(graph.arena()->name(output), "y");
  EXPECT_EQ(graph.arena()->name(graph.node(output.node).operands[0]), "mid");
}

TEST(ImportTest, LargeFloatsAreWeightsAndTheRestConstants) {
  const Graph graph = TestModel()
                          .Input("x", {2})
                          .Initializer("w", Iota({2}))
                          .Initializer("one", Tensor::Scalar(DType::kFloat32, 1))
                          .Initializer("index", Tensor::Int64s({1, 0}))
                          .Node("Add", {"x", "w"}, {"a"})
                          .Node("Mul", {"a", "one"}, {"b"})
                          .Node("Gather", {"b", "index"}, {"y"})
                          .Output("y")
                          .Import()
                          ->graph;
  int weights = 0, constants = 0;
  for (NodeId id : graph.nodes()) {
    weights += graph.node(id).leaf == LeafKind::kState;
    constants += graph.node(id).leaf == LeafKind::kConstant;
  }
  EXPECT_EQ(weights, 1);
  EXPECT_EQ(constants, 2);
}

TestModel SumWithDefault() {
  return TestModel()
      .Input("x", {2})
      .Input("w", {2})
      .Initializer("w", Iota({2}))
      .Node("Add", {"x", "w"}, {"y"})
      .Output("y");
}

std::vector<std::string> NamesOfInputs(const Graph& graph) {
  std::vector<std::string> names;
  for (Value input : graph.inputs()) names.push_back(graph.node(input.node).name);
  return names;
}

// Until version 4 of the format all weights are listed as inputs.
TEST(ImportTest, InitializersListedAsInputsOfOldFilesAreNoInputs) {
  TestModel model = SumWithDefault();
  model.proto().set_ir_version(3);
  const auto imported = model.Import();
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_THAT(NamesOfInputs(imported->graph), ElementsAre("x"));
  EXPECT_TRUE(imported->metadata.defaults.empty());
}

TEST(ImportTest, InputsWithADefaultStayInputsAndAreWritten) {
  const auto imported = SumWithDefault().Import({.keep_source = true});
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_THAT(NamesOfInputs(imported->graph), ElementsAre("x", "w"));
  EXPECT_TRUE(imported->metadata.defaults.at("w").BitEqual(Iota({2})));
  EXPECT_THAT(imported->notes,
              ElementsAre("inputs with a default stay inputs, and nothing of them is known beforehand: w "
                          "(--fold-defaults takes them for what their defaults say)"));
  const std::shared_ptr<const OnnxSource> sources[] = {nullptr, imported->source};
  for (const auto& source : sources) {
    const auto bytes = ExportOnnxBytes(imported->graph, imported->metadata, {.source = source});
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    const auto again = ImportOnnxBytes(*bytes, "again", "");
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_THAT(NamesOfInputs(again->graph), ElementsAre("x", "w"));
    EXPECT_TRUE(again->metadata.defaults.at("w").BitEqual(Iota({2})));
  }
}

TEST(ImportTest, InputsWithADefaultAreFoldedWhereThatIsAskedForOrTheModelIsTrained) {
  for (const ImportOptions& options : {ImportOptions{.fold_defaults = true}, {.training = OnnxTraining::kOff}}) {
    const auto imported = SumWithDefault().Import(options);
    ASSERT_TRUE(imported.ok()) << imported.status();
    EXPECT_THAT(NamesOfInputs(imported->graph), ElementsAre("x"));
    EXPECT_EQ(imported->graph.states().size(), 1U);
  }
}

// An input that must be known beforehand is not taken from its default.
TEST(ImportTest, ADefaultIsNotKnownBeforehand) {
  TestModel model = TestModel().Input("x", {2, 3}).Input("s", {1}, DType::kInt64).Ints("s", {6});
  model.Node("Reshape", {"x", "s"}, {"y"}).Output("y");
  EXPECT_THAT(model.Error(), HasSubstr("must be known beforehand"));
  EXPECT_EQ(model.Error({.fold_defaults = true}), "");
}

TEST(ImportTest, SymbolicSizesOfInputsWithADefaultAreThoseOfTheDefault) {
  TestModel model = TestModel().SymbolicInput("x", {"N"}).SymbolicInput("w", {"N"}).Initializer("w", Iota({3}));
  model.Node("Add", {"x", "w"}, {"y"}).Output("y");
  const auto imported = model.Import();
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_EQ(imported->dims, (std::map<std::string, int64_t>{{"N", 3}}));
  const auto larger = model.Import({.dims = {{"N", 5}}});
  ASSERT_TRUE(larger.ok()) << larger.status();
  EXPECT_TRUE(larger->metadata.defaults.empty());
  EXPECT_THAT(larger->notes, ::testing::Contains("input \"w\": its default is f32[3], expected f32[5]: left aside"));
}

TEST(ImportTest, UnusedInputsStay) {
  const auto imported =
      TestModel().Input("x", {2}).Input("unused", {3}).Node("Relu", {"x"}, {"y"}).Output("y").Import();
  EXPECT_EQ(imported->graph.inputs().size(), 2u);
}

TEST(ImportTest, SymbolicDimensionsTakeTheGivenSizes) {
  const TestModel model = TestModel().SymbolicInput("x", {"N", "L", "N"}).Node("Relu", {"x"}, {"y"}).Output("y");
  const auto imported = model.Import({.dims = {{"N", 4}}});
  ASSERT_TRUE(imported.ok());
  EXPECT_EQ(imported->graph.type(imported->graph.inputs()[0]).shape, (Shape{4, 1, 4}));
  EXPECT_THAT(imported->notes, ElementsAre("dimension L is symbolic and was not given: taken to be 1"));
}

TEST(ImportTest, UnnamedDimensionsAreCalledByTensorAndAxis) {
  const TestModel model = TestModel().Input("x", {2, -1}).Node("Relu", {"x"}, {"y"}).Output("y");
  const auto imported = model.Import({.dims = {{"x:1", 5}}});
  ASSERT_TRUE(imported.ok());
  EXPECT_EQ(imported->graph.type(imported->graph.inputs()[0]).shape, (Shape{2, 5}));
  EXPECT_THAT(imported->notes, IsEmpty());
}

TEST(ImportTest, ASizeBelowZeroIsSaid) {
  TestModel model = ReluModel();
  model.proto()
      .mutable_graph()
      ->mutable_input(0)
      ->mutable_type()
      ->mutable_tensor_type()
      ->mutable_shape()
      ->mutable_dim(0)
      ->set_dim_value(-1);
  const auto imported = model.Import({.dims = {{"x:0", 5}}});
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_EQ(imported->graph.type(imported->graph.inputs()[0]).shape, (Shape{5}));
  EXPECT_THAT(imported->notes, ElementsAre("input \"x\": its size along axis 0 is -1, expected a number of at least 0 "
                                           "or a name: taken for a size that is not given"));
}

TEST(ImportTest, WeightOnlyShapesAreComputed) {
  // A shape that is too large to be folded on the way, through a weight: 2000 ones, their sum.
  const Graph graph = TestModel()
                          .Input("x", {2, 3})
                          .Initializer("w", Tensor::FromVector<double>(DType::kFloat32, {2}, {3, 2}))
                          .Node("Cast", {"w"}, {"shape"}, {{"to", int64_t{onnx::TensorProto::INT64}}})
                          .Node("Reshape", {"x", "shape"}, {"y"})
                          .Output("y")
                          .Import()
                          ->graph;
  EXPECT_EQ(graph.type(graph.outputs()[0].value).shape, (Shape{3, 2}));
}

// ---------------------------------------------------------------- unsupported parts

TEST(ImportTest, UnsupportedOperatorsAreListedAtOnce) {
  TestModel model(17);
  model.Input("x", {2}).Output("y");
  for (int i = 0; i < 5; ++i) model.Node("Unique", {"x"}, {"l" + std::to_string(i)});
  model.Node("NonZero", {"x"}, {"k"}).Node("FusedThing", {"x"}, {"y"});
  model.proto().mutable_graph()->mutable_node(6)->set_domain("com.example");
  model.proto().mutable_graph()->mutable_node(6)->set_name("fused");
  EXPECT_EQ(model.Error(),
            "test.onnx: operators are not supported: "
            "NonZero [1 node: node giving \"k\" (NonZero)]; "
            "Unique [5 nodes: node giving \"l0\" (Unique), node giving \"l1\" (Unique), node giving \"l2\" (Unique), "
            "...]; "
            "com.example.FusedThing [1 node: node \"fused\" (com.example.FusedThing)]");
}

TEST(ImportTest, UnsupportedUsesAreListedAtOnce) {
  const TestModel model = TestModel(13)
                              .Input("x", {1, 1, 4, 4})
                              .Input("s", {2}, DType::kInt64)
                              .Node("Reshape", {"x", "s"}, {"a"})
                              .Node("Relu", {"a"}, {"b"})
                              .Node("Cast", {"x"}, {"c"}, {{"to", int64_t{14}}})
                              .Output("b")
                              .Output("c");
  EXPECT_EQ(
      model.Error(),
      "test.onnx: uses of operators are not supported: "
      "Cast: element type COMPLEX64 is not supported; expected one of FLOAT, DOUBLE, FLOAT16, BFLOAT16, INT8, INT16, "
      "INT32, INT64, UINT8, UINT16, UINT32, UINT64, BOOL "
      "[1 node: node giving \"c\" (Cast)]; "
      "Reshape: input shape (tensor \"s\") depends on the inputs of the model; its value must be known beforehand "
      "[1 node: node giving \"a\" (Reshape)]");
}

// A type of an input and one of a weight, an operator, a use.
TEST(ImportTest, ObstaclesOfAllKindsAreListedAtOnce) {
  TestModel model(17);
  model.Input("x", {2, 2}).Input("t", {2}).Input("s", {2}, DType::kInt64).Initializer("w", Iota({2, 2}));
  model.Node("MatMul", {"x", "w"}, {"a"}).Node("Frob", {"x"}, {"b"}).Node("Reshape", {"x", "s"}, {"c"});
  model.Output("a").Output("b").Output("c");
  model.proto().mutable_graph()->mutable_input(1)->mutable_type()->mutable_tensor_type()->set_elem_type(8);
  model.proto().mutable_graph()->mutable_initializer(0)->set_data_type(17);
  EXPECT_THAT(model.Error({.keep_unknown = true}),
              AllOf(StartsWith("test.onnx: not supported: Frob: the operator is not known ("),
                    HasSubstr("; Reshape: input shape (tensor \"s\") depends on the inputs of the model"),
                    HasSubstr("; initializer \"w\": element type FLOAT8E4M3FN is not supported"),
                    HasSubstr("; input \"t\": element type STRING is not supported")));
}

TEST(ImportTest, OperatorsAreSupportedFromTheirOpsetOn) {
  EXPECT_THAT(TestModel(19).Input("x", {2}).Node("Gelu", {"x"}, {"y"}).Output("y").Error(), HasSubstr("Gelu [1 node"));
  EXPECT_EQ(TestModel(20).Input("x", {2}).Node("Gelu", {"x"}, {"y"}).Output("y").Error(), "");
}

TEST(ImportTest, OpsetsHaveLimits) {
  EXPECT_EQ(TestModel(6).Input("x", {2}).Output("x").Error(), "test.onnx: opset 6; expected 7 to 28");
  EXPECT_EQ(TestModel(29).Input("x", {2}).Output("x").Error(), "test.onnx: opset 29; expected 7 to 28");
  TestModel none = ReluModel();
  none.proto().clear_opset_import();
  EXPECT_EQ(none.Error(), "test.onnx: does not say its opset (of domain \"\")");
}

TEST(ImportTest, SubgraphsAreUnsupported) {
  TestModel model = ReluModel();
  onnx::AttributeProto* attribute = model.proto().mutable_graph()->mutable_node(0)->add_attribute();
  attribute->set_name("body");
  attribute->set_type(onnx::AttributeProto::GRAPH);
  attribute->mutable_g();
  EXPECT_THAT(model.Error(), HasSubstr("operators are not supported: Relu"));
}

TEST(ImportTest, OtherElementTypesAreNamed) {
  TestModel input = ReluModel();
  input.proto().mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->set_elem_type(8);
  EXPECT_EQ(
      input.Error(),
      "test.onnx: input \"x\": element type STRING is not supported; expected one of FLOAT, DOUBLE, FLOAT16, BFLOAT16, "
      "INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, BOOL");
  TestModel weight = ReluModel().Initializer("w", Iota({2}));
  weight.proto().mutable_graph()->mutable_initializer(0)->set_data_type(17);
  EXPECT_THAT(weight.Error(), HasSubstr("initializer \"w\": element type FLOAT8E4M3FN is not supported"));
}

// A sparse weight: the file has its nonzero elements, at positions that are numbers or tuples.
TEST(ImportTest, SparseWeights) {
  const auto error_of = [](const std::vector<int64_t>& places, const Shape& shape) {
    TestModel model;
    model.Input("x", {1}).Node("Add", {"x", "w"}, {"y"}).Output("y");
    onnx::SparseTensorProto& sparse = *model.proto().mutable_graph()->add_sparse_initializer();
    Tensor values = Iota({3}), indices(TensorType{DType::kInt64, shape});
    for (size_t i = 0; i < places.size(); ++i) indices.SetInt(static_cast<int64_t>(i), places[i]);
    FillTensor("w", values, sparse.mutable_values());
    FillTensor("", indices, sparse.mutable_indices());
    sparse.add_dims(2);
    sparse.add_dims(4);
    const auto imported = model.Import();
    if (!imported.ok()) return std::string(imported.status().message());
    const Tensor y = OutputsOf(imported->graph, {{"x", Tensor(TensorType{DType::kFloat32, {1}})}}).at(0);
    std::string text;
    for (int64_t i = 0; i < y.num_elements(); ++i) text += std::to_string(static_cast<int>(y.At(i)));
    return text;
  };
  EXPECT_EQ(error_of({0, 3, 6}, {3}), "00010020");
  EXPECT_EQ(error_of({0, 0, 0, 3, 1, 2}, {3, 2}), "00010020");
  EXPECT_THAT(error_of({0, 3, 8}, {3}),
              HasSubstr("sparse initializer \"w\": sparse value 2: expected a place in f32[2,4]"));
  EXPECT_THAT(error_of({0, 3, -1}, {3}), HasSubstr("sparse value 2"));
  EXPECT_THAT(error_of({0, 3, 3}, {3}), HasSubstr("sparse value 2"));
  EXPECT_THAT(error_of({0, 3}, {2}), HasSubstr("expected a list of values, and of places in f32[2,4]"));
}

TEST(ImportTest, OptionalOutputsThatAreReadAreNamed) {
  const TestModel model = TestModel()
                              .Input("x", {1, 1, 4, 4})
                              .Node("MaxPool", {"x"}, {"y", "i"},
                                    {{"kernel_shape", std::vector<int64_t>{2, 2}}, {"storage_order", int64_t{1}}})
                              .Output("y");
  EXPECT_EQ(model.Error(),
            "test.onnx: uses of operators are not supported: MaxPool: output 1 with storage_order = 1 [1 node: node "
            "giving \"y\" (MaxPool)]");
}

// ---------------------------------------------------------------- errors

TEST(ImportTest, MissingTensorsAreNamed) {
  EXPECT_EQ(TestModel().Input("x", {2}).Node("Add", {"x", "z"}, {"y"}).Output("y").Error(),
            "test.onnx: node giving \"y\" (Add): reads tensor \"z\", which nothing gives");
  EXPECT_EQ(TestModel().Input("x", {2}).Output("z").Error(), "test.onnx: output \"z\": nothing gives it");
}

TEST(ImportTest, UnsortedNodesAndCyclesAreNamed) {
  EXPECT_EQ(TestModel().Input("x", {2}).Node("Add", {"x", "b"}, {"a"}).Node("Relu", {"a"}, {"b"}).Output("a").Error(),
            "test.onnx: node giving \"a\" (Add): reads tensor \"b\" before node giving \"b\" (Relu) gives it: "
            "the nodes are not sorted, or form a cycle");
}

TEST(ImportTest, NamesAreGivenOnce) {
  EXPECT_EQ(TestModel().Input("x", {2}).Node("Relu", {"x"}, {"y"}).Node("Exp", {"x"}, {"y"}).Output("y").Error(),
            "test.onnx: node giving \"y\" (Exp): gives tensor \"y\", which is given already");
  EXPECT_EQ(TestModel().Input("x", {2}).Node("Relu", {"x"}, {"x"}).Output("x").Error(),
            "test.onnx: node giving \"x\" (Relu): gives tensor \"x\", which is given already");
  EXPECT_EQ(TestModel().Input("x", {2}).Input("x", {2}).Output("x").Error(), "test.onnx: input \"x\" occurs twice");
  EXPECT_EQ(TestModel().Input("x", {2}).Output("x").Output("x").Error(), "test.onnx: output \"x\" occurs twice");
  EXPECT_EQ(ReluModel().Initializer("w", Iota({2})).Initializer("w", Iota({2})).Error(),
            "test.onnx: initializer \"w\": the name is empty or taken");
}

TEST(ImportTest, InputsOfNodesAreCounted) {
  EXPECT_EQ(TestModel().Input("x", {2}).Node("Add", {"x"}, {"y"}).Output("y").Error(),
            "test.onnx: node giving \"y\" (Add): 1 inputs; expected 2");
  EXPECT_EQ(TestModel().Input("x", {2}).Node("Add", {"", "x"}, {"y"}).Output("y").Error(),
            "test.onnx: node giving \"y\" (Add): input 0 is missing");
}

TEST(ImportTest, AttributesAreChecked) {
  const auto error = [](const TestAttrs& attrs) {
    return TestModel().Input("x", {2}).Node("LeakyRelu", {"x"}, {"y"}, attrs).Output("y").Error();
  };
  EXPECT_EQ(error({{"alhpa", 0.5}}),
            "test.onnx: node giving \"y\" (LeakyRelu): attribute alhpa is not known in opset 17");
  EXPECT_EQ(error({{"alpha", int64_t{1}}}),
            "test.onnx: node giving \"y\" (LeakyRelu): attribute alpha is of type INT; expected FLOAT");
  EXPECT_EQ(TestModel().Input("x", {2}).Node("Concat", {"x", "x"}, {"y"}).Output("y").Error(),
            "test.onnx: node giving \"y\" (Concat): attribute axis is missing");
}

TEST(ImportTest, ShapesAreChecked) {
  EXPECT_THAT(TestModel().Input("a", {2, 3}).Input("b", {4, 5}).Node("MatMul", {"a", "b"}, {"y"}).Output("y").Error(),
              StartsWith("test.onnx: node giving \"y\" (MatMul): matmul: shapes [2,3] and [4,5]: "));
  EXPECT_EQ(TestModel().Input("x", {2, 3}).Ints("s", {4, -1}).Node("Reshape", {"x", "s"}, {"y"}).Output("y").Error(),
            "test.onnx: node giving \"y\" (Reshape): shape [4,-1] for f32[2,3]: the sizes do not divide the number of "
            "elements");
  EXPECT_EQ(TestModel().Input("x", {3}).Ints("i", {3}).Node("Gather", {"x", "i"}, {"y"}).Output("y").Error(),
            "test.onnx: node giving \"y\" (Gather): index 3 along axis 0 of f32[3]");
}

TEST(ImportTest, UnknownDimensionsAreMistakes) {
  const TestModel model = TestModel().SymbolicInput("x", {"N", "L"}).Output("x");
  EXPECT_EQ(model.Error({.dims = {{"M", 2}}}), "test.onnx: there is no symbolic dimension M; the inputs have L, N");
  EXPECT_EQ(model.Error({.dims = {{"N", 0}}}), "test.onnx: input \"x\": dimension N is set to 0");
  EXPECT_EQ(ReluModel().Error({.dims = {{"M", 2}}}),
            "test.onnx: there is no symbolic dimension M; the inputs have none");
}

TEST(ImportTest, OversizedShapesAreErrors) {
  EXPECT_EQ(TestModel().Input("x", {int64_t{1} << 32, int64_t{1} << 32}).Output("x").Error(),
            "test.onnx: input \"x\": shape [4294967296,4294967296] is too large");
  EXPECT_THAT(TestModel().Input("x", Shape(40, 1)).Output("x").Error(), HasSubstr("a tensor with 40 axes; at most 31"));
  TestModel weight = ReluModel().Initializer("w", Iota({2}));
  weight.proto().mutable_graph()->mutable_initializer(0)->set_dims(0, int64_t{1} << 39);
  EXPECT_EQ(weight.Error(), "test.onnx: initializer \"w\": raw_data has 8 bytes; f32[549755813888] has 2199023255552");
  EXPECT_THAT(TestModel()
                  .Input("x", {1})
                  .Ints("s", {int64_t{1} << 39})
                  .Node("ConstantOfShape", {"s"}, {"y"})
                  .Output("y")
                  .Error(),
              HasSubstr("exceeds the limit; 4294967296 are left"));
  // The value depends on weights alone, is needed as a shape, and is too large to be computed.
  EXPECT_THAT(TestModel()
                  .Input("x", {1})
                  .Initializer("z", Tensor::Scalar(DType::kInt64, 1))
                  .Ints("s", {int64_t{1} << 38})
                  .Node("Expand", {"z", "s"}, {"e"})
                  .Node("ReduceSum", {"e"}, {"n"})
                  .Node("Reshape", {"x", "n"}, {"y"})
                  .Output("y")
                  .Error(),
              HasSubstr("computing it takes more than"));
}

TEST(ImportTest, AbsurdAttributesAreErrors) {
  const auto conv = [](const TestAttrs& attrs) {
    return TestModel()
        .Input("x", {1, 1, 8, 8})
        .Initializer("w", Iota({1, 1, 3, 3}))
        .Node("Conv", {"x", "w"}, {"y"}, attrs)
        .Output("y")
        .Error();
  };
  const int64_t huge = INT64_MAX / 2;
  EXPECT_THAT(conv({{"pads", std::vector<int64_t>{huge, 0, 0, 0}}}), HasSubstr("is too large"));
  EXPECT_THAT(conv({{"dilations", std::vector<int64_t>{huge, 1}}}), HasSubstr("is too large"));
  EXPECT_THAT(conv({{"strides", std::vector<int64_t>{0, 1}}}), HasSubstr("attribute strides: 0; expected at least 1"));
  EXPECT_THAT(conv({{"pads", std::vector<int64_t>{1}}}), HasSubstr("attribute pads has 1 entries; expected 4"));
  EXPECT_THAT(conv({{"group", int64_t{0}}}), HasSubstr("groups"));
  EXPECT_THAT(conv({{"group", INT64_MIN}}), HasSubstr("is too large"));
}

TEST(ImportTest, TextMustBeUtf8) {
  EXPECT_EQ(TestModel().Input("größe", {2}).Node("Relu", {"größe"}, {"y"}).Output("y").Error(), "");
  // A byte that never occurs in UTF-8, a truncated character, an overlong one, half of a surrogate pair, one beyond the
  // last.
  for (const char* bad : {"a\xff", "\xc3", "\xe2\x82", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80"}) {
    EXPECT_THAT(TestModel().Input(bad, {2}).Node("Relu", {bad}, {"y"}).Output("y").Error(),
                StartsWith("test.onnx: holds text that is not UTF-8, \""));
  }
  EXPECT_EQ(ReluModel().Node("Relu", {"x"}, {"a\xff"}).Error(),
            "test.onnx: holds text that is not UTF-8, \"a\\xff\"; damaged?");
}

TEST(ImportTest, AbsurdRepetitionsAreErrors) {
  const int64_t large = int64_t{1} << 31;
  EXPECT_THAT(TestModel()
                  .Input("x", {int64_t{1} << 35, 0})
                  .Ints("r", {large, large})
                  .Node("Tile", {"x", "r"}, {"y"})
                  .Output("y")
                  .Error(),
              HasSubstr("is too large"));
  EXPECT_THAT(TestModel()
                  .Input("x", {1, 0, int64_t{1} << 35, 1})
                  .Node("DepthToSpace", {"x"}, {"y"}, {{"blocksize", large}})
                  .Output("y")
                  .Error(),
              HasSubstr("blocksize is 2147483648; expected 1 to 1024"));
  EXPECT_THAT(
      TestModel().Input("x", {2}).Node("Cast", {"x"}, {"y"}, {{"to", (int64_t{1} << 32) + 1}}).Output("y").Error(),
      HasSubstr("element type number 4294967297 is not supported"));
}

TEST(ImportTest, DeclaredOutputShapesThatDoNotHoldAreSaid) {
  const auto notes = [](const std::vector<int64_t>& declared) {
    TestModel model = ReluModel();  // of two elements
    onnx::TensorShapeProto* shape =
        model.proto().mutable_graph()->mutable_output(0)->mutable_type()->mutable_tensor_type()->mutable_shape();
    shape->clear_dim();
    for (int64_t size : declared) shape->add_dim()->set_dim_value(size);
    const auto imported = model.Import();
    EXPECT_TRUE(imported.ok()) << imported.status();
    return imported->notes;
  };
  EXPECT_THAT(notes({2}), IsEmpty());
  for (const auto& other : std::vector<std::vector<int64_t>>{{3}, {-1}, {2, 1}, {}}) {
    EXPECT_THAT(notes(other), ElementsAre(absl::StrCat("output \"y\": declared with the shape [",
                                                       absl::StrJoin(other, ","), "], but it is f32[2]")));
  }
}

TEST(ImportTest, DeclaredOutputTypesMustHold) {
  TestModel model = ReluModel();
  model.proto().mutable_graph()->mutable_output(0)->mutable_type()->mutable_tensor_type()->set_elem_type(7);
  EXPECT_EQ(model.Error(), "test.onnx: output \"y\": declared with element type number 7, but it is f32[2]");
}

}  // namespace
}  // namespace rewright
