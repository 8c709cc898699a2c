// Tests nodes whose operator is unknown: they are kept if the file declares their results, and refused otherwise.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "core/index/cost_features.h"
#include "core/interpreter/interpreter.h"
#include "core/ir/text.h"
#include "core/ops/foreign.h"
#include "tests/core/onnx/model_util.h"

namespace rewright {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

const ImportOptions kKeeping = {.keep_source = true, .keep_unknown = true};

// A declared type of a tensor in between; names of sizes, or numbers.
void Declare(TestModel& model, const std::string& name, const std::vector<std::string>& dims,
             int32_t type = onnx::TensorProto::FLOAT) {
  onnx::ValueInfoProto* info = model.proto().mutable_graph()->add_value_info();
  info->set_name(name);
  info->mutable_type()->mutable_tensor_type()->set_elem_type(type);
  for (const std::string& dim : dims) {
    auto* added = info->mutable_type()->mutable_tensor_type()->mutable_shape()->add_dim();
    if (std::isdigit(static_cast<unsigned char>(dim[0]))) {
      added->set_dim_value(std::stoll(dim));
    } else {
      added->set_dim_param(dim);
    }
  }
}

onnx::NodeProto& LastNode(TestModel& model) { return *model.proto().mutable_graph()->mutable_node()->rbegin(); }

void SetDomain(TestModel& model, const std::string& domain) {
  LastNode(model).set_domain(domain);
  onnx::OperatorSetIdProto* import = model.proto().add_opset_import();
  import->set_domain(domain);
  import->set_version(3);
}

// relu(relu(x)), then the unknown node, then neg(neg(.)).
TestModel Frob() {
  TestModel model;
  model.SymbolicInput("x", {"N", "M"})
      .Initializer("w", Iota({2}))
      .Node("Relu", {"x"}, {"a"})
      .Node("Relu", {"a"}, {"b"})
      .Node("Frob", {"b", "", "w"}, {"t", "", "u"}, {{"alpha", 0.5}, {"mode", std::string("left")}});
  SetDomain(model, "com.acme");
  LastNode(model).set_name("frob");
  model.Node("Neg", {"t"}, {"n"}).Node("Neg", {"n"}, {"y"}).Output("y").Output("u");
  Declare(model, "t", {"N", "3"});
  Declare(model, "u", {"2"}, onnx::TensorProto::INT64);
  return model;
}

TEST(OpaqueNodesTest, HaveTheDeclaredTypes) {
  ImportOptions options = kKeeping;
  options.dims = {{"N", 4}, {"M", 5}};
  const auto model = Frob().Import(options);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT(PrintGraph(model->graph),
              AllOf(HasSubstr("foreign.com.acme.Frob"), HasSubstr("f32[4,3]"), HasSubstr("i64[2]")));
  ASSERT_EQ(model->opaque.size(), 1U);
  EXPECT_EQ(model->opaque[0].node, "node \"frob\" (com.acme.Frob)");
  EXPECT_EQ(model->opaque[0].why, "the operator is not known");
  EXPECT_EQ(CountForeign(model->graph), 1);
  EXPECT_EQ(FeaturesOf(model->graph).flops, 4 * 5 * 2 + 4 * 3 * 2);  // of all others
  const auto again = ParseGraph(PrintGraph(model->graph));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->CanonicalHash(), model->graph.CanonicalHash());
}

TEST(OpaqueNodesTest, HaveAnOperator) {
  for (const char* domain : {"", "com.acme"}) {
    TestModel model = Frob();
    model.proto().mutable_graph()->mutable_node(2)->clear_op_type();
    model.proto().mutable_graph()->mutable_node(2)->set_domain(domain);
    EXPECT_THAT(model.Error(kKeeping), HasSubstr("it names no operator")) << domain;
  }
}

TEST(OpaqueNodesTest, AreWrittenAsTheyWereReadWhateverHappensAround) {
  const auto model = Frob().Import(kKeeping);
  ASSERT_TRUE(model.ok()) << model.status();
  const auto value = [&](const std::string& name) {
    for (NodeId id : model->graph.nodes()) {
      for (int32_t k = 0; k < static_cast<int32_t>(model->graph.node(id).outputs.size()); ++k) {
        if (model->graph.arena()->name({id, k}) == name) return Value{id, k};
      }
    }
    return Value{};
  };
  const auto rewritten = ReplaceEverywhere(model->graph, {{value("b"), value("a")}, {value("y"), value("t")}});
  ASSERT_TRUE(rewritten.ok()) << rewritten.status();
  const auto bytes = ExportOnnxBytes(*rewritten, model->metadata, {.source = model->source});
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  onnx::ModelProto written;
  ASSERT_TRUE(written.ParseFromString(*bytes));
  ASSERT_EQ(written.graph().node_size(), 2) << written.DebugString();
  const onnx::NodeProto& node = written.graph().node(1);
  EXPECT_EQ(node.domain(), "com.acme");
  EXPECT_EQ(node.name(), "frob");
  EXPECT_THAT(node.input(), ElementsAre("a", "", "w"));
  EXPECT_THAT(node.output(), ElementsAre("y", "", "u"));
  EXPECT_EQ(node.attribute_size(), 2);
  EXPECT_EQ(written.opset_import(1).domain(), "com.acme");
  EXPECT_EQ(written.opset_import(1).version(), 3);
  EXPECT_TRUE(ImportOnnxBytes(*bytes, "written", "", kKeeping).ok());
}

TEST(OpaqueNodesTest, AreTheSameNodesInAFileThatWasWritten) {
  const auto model = Frob().Import(kKeeping);
  ASSERT_TRUE(model.ok()) << model.status();
  const auto bytes = ExportOnnxBytes(model->graph, model->metadata, {.source = model->source});
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  const auto again = ImportOnnxBytes(*bytes, "written", "", kKeeping);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->graph.CanonicalHash(), model->graph.CanonicalHash());
  TestModel other = Frob();
  other.proto().mutable_graph()->mutable_node(2)->mutable_attribute(0)->set_f(0.25F);
  const auto changed = other.Import(kKeeping);
  ASSERT_TRUE(changed.ok()) << changed.status();
  EXPECT_NE(changed->graph.CanonicalHash(), model->graph.CanonicalHash());
}

// An unknown operator may give different results on equal inputs: it may draw numbers.
TEST(OpaqueNodesTest, EqualNodesStayTwo) {
  TestModel model;
  model.Input("x", {2})
      .Node("Draw", {}, {"a"})
      .Node("Draw", {}, {"b"})
      .Node("Sub", {"a", "b"}, {"c"})
      .Node("Add", {"c", "x"}, {"y"})
      .Output("y");
  Declare(model, "a", {"2"});
  Declare(model, "b", {"2"});
  const auto imported = model.Import(kKeeping);
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_EQ(CountForeign(imported->graph), 2);
  // Opaque nodes without inputs are not computed beforehand either.
  EXPECT_EQ(imported->graph.num_runtime_nodes(), 4);
  EXPECT_TRUE(ExportOnnxBytes(imported->graph, imported->metadata, {.source = imported->source}).ok());
}

TEST(OpaqueNodesTest, UsesThatAreNotReadAreKeptToo) {
  TestModel model;
  model.Input("x", {2, 3}).Input("n", {1}, DType::kInt64).Node("Tile", {"x", "n2"}, {"y"}).Output("y");
  model.proto().mutable_graph()->clear_node();
  model.Node("Concat", {"n", "n"}, {"n2"}, {{"axis", int64_t{0}}}).Node("Tile", {"x", "n2"}, {"y"});
  const std::string refused = model.Error();
  EXPECT_THAT(refused, AllOf(HasSubstr("Tile: input repeats"), HasSubstr("must be known beforehand"),
                             Not(HasSubstr("onnxruntime"))));
  Declare(model, "y", {"4", "6"});
  EXPECT_THAT(model.Error(), HasSubstr("the devices cpu and onnxruntime take the model"));
  const auto imported = model.Import(kKeeping);
  ASSERT_TRUE(imported.ok()) << imported.status();
  ASSERT_EQ(imported->opaque.size(), 1U);
  EXPECT_THAT(imported->opaque[0].why, HasSubstr("must be known beforehand"));
}

TEST(OpaqueNodesTest, WithoutADeclaredTypeTheyAreRefused) {
  TestModel model = Frob();
  model.proto().mutable_graph()->clear_value_info();
  EXPECT_THAT(model.Error(kKeeping),
              AllOf(HasSubstr("com.acme.Frob: the operator is not known (its output \"t\" has no "
                              "declared type) [1 node: node \"frob\""),
                    Not(HasSubstr("the devices"))));
  Declare(model, "t", {"Q", "3"});
  EXPECT_THAT(model.Error(kKeeping), HasSubstr("its output \"t\" has a size that is not known (Q)"));
  model.proto().mutable_graph()->clear_value_info();
  Declare(model, "t", {"N"}, onnx::TensorProto::STRING);
  EXPECT_THAT(model.Error(kKeeping), HasSubstr("com.acme.Frob: the operator is not known ("));
}

TEST(OpaqueNodesTest, ThoseWhoComputeAreTold) {
  EXPECT_THAT(Frob().Error(), HasSubstr("operators are not supported: com.acme.Frob [1 node: node \"frob\" "
                                        "(com.acme.Frob)]; where onnxruntime is at hand, which knows them, the "
                                        "devices cpu and onnxruntime take the model"));
  const auto model = Frob().Import(kKeeping);
  ASSERT_TRUE(model.ok()) << model.status();
  const auto outputs = InterpretGraph(model->graph, {{"x", Iota({1, 1})}});
  EXPECT_THAT(std::string(outputs.status().message()),
              AllOf(HasSubstr("foreign.com.acme.Frob"), HasSubstr("what com.acme.Frob computes is not known here")));
  // Without the source the node cannot be written.
  EXPECT_THAT(std::string(ExportOnnxBytes(model->graph, model->metadata).status().message()),
              HasSubstr("the node that gives \"t\" (foreign.com.acme.Frob) is not known here, and cannot be written"));
}

TEST(OpaqueNodesTest, FunctionsOfTheFileAreWrittenWithTheNodesThatCallThem) {
  TestModel model = Frob();
  onnx::FunctionProto* function = model.proto().add_functions();
  function->set_name("Frob");
  function->set_domain("com.acme");
  const auto imported = model.Import(kKeeping);
  ASSERT_TRUE(imported.ok()) << imported.status();
  const auto bytes = ExportOnnxBytes(imported->graph, imported->metadata, {.source = imported->source});
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  onnx::ModelProto written;
  ASSERT_TRUE(written.ParseFromString(*bytes));
  ASSERT_EQ(written.functions_size(), 1);
  EXPECT_EQ(written.functions(0).name(), "Frob");
}

// Another function of the same name makes the node a different operator.
TEST(OpaqueNodesTest, AreToldApartByTheFunctionsTheyCall) {
  std::vector<int64_t> numbers;
  for (const char* doc : {"one", "another"}) {
    TestModel model = Frob();
    onnx::FunctionProto* function = model.proto().add_functions();
    function->set_name("Frob");
    function->set_domain("com.acme");
    function->set_doc_string(doc);
    const auto imported = model.Import(kKeeping);
    ASSERT_TRUE(imported.ok()) << imported.status();
    numbers.push_back(imported->opaque.at(0).number);
  }
  EXPECT_NE(numbers[0], numbers[1]);
}

// The model of the node alone: known operands are initializers, and omitted ones stay omitted.
TEST(OpaqueNodesTest, StandAlone) {
  const auto imported = Frob().Import(kKeeping);
  ASSERT_TRUE(imported.ok()) << imported.status();
  const Tensor w = Iota({2});
  const auto bytes = OpaqueNodeModel(imported->opaque.at(0), {{DType::kFloat32, {4, 3}}, {DType::kFloat32, {2}}},
                                     {nullptr, &w}, {{DType::kFloat32, {4, 3}}, {DType::kInt64, {2}}});
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  onnx::ModelProto model;
  ASSERT_TRUE(model.ParseFromString(*bytes));
  ASSERT_EQ(model.graph().node_size(), 1);
  EXPECT_THAT(model.graph().node(0).input(), ElementsAre("x0", "", "x1"));
  EXPECT_THAT(model.graph().node(0).output(), ElementsAre("y0", "", "y1"));
  EXPECT_EQ(model.graph().node(0).attribute_size(), 2);
  ASSERT_EQ(model.graph().input_size(), 1);
  EXPECT_EQ(model.graph().input(0).name(), "x0");
  EXPECT_EQ(model.graph().initializer(0).name(), "x1");
  ASSERT_EQ(model.graph().output_size(), 2);
  EXPECT_EQ(model.graph().output(1).type().tensor_type().elem_type(), onnx::TensorProto::INT64);
  EXPECT_EQ(model.opset_import(1).domain(), "com.acme");
}

TEST(OpaqueNodesTest, PrintedAttributesAreChecked) {
  const auto error = [](const std::string& attrs) {
    return std::string(ParseGraph(absl::StrCat("input x: f32[2]\n%0 = foreign.F(x, ", attrs, ")\noutput y = %0\n"))
                           .status()
                           .message());
  };
  EXPECT_EQ(error("node=1, dtypes=[0], ranks=[1], sizes=[2]"), "");
  EXPECT_THAT(error("node=1, dtypes=[], ranks=[], sizes=[]"), HasSubstr("must list the same outputs"));
  EXPECT_THAT(error("node=1, dtypes=[99], ranks=[1], sizes=[2]"), HasSubstr("there is no element type number 99"));
  EXPECT_THAT(error("node=1, dtypes=[0], ranks=[2], sizes=[2]"), HasSubstr("sizes must list the sizes of all outputs"));
  EXPECT_THAT(error("node=1, dtypes=[0], ranks=[0], sizes=[2]"), HasSubstr("and no others"));
}

}  // namespace
}  // namespace rewright
