// Models with a node that is not read: refused where it would have to be computed here, rewritten around it for
// onnxruntime, which knows it.
#include <gmock/gmock.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "core/onnx/proto.h"
#include "tests/core/onnx/model_util.h"
#include "tests/tools/program/program_util.h"

namespace rewright {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// x twice through relu, inverted, negated twice. Inverse is of onnxruntime's own operators.
TestModel Inverted(const std::string& rows) {
  TestModel model;
  model.SymbolicInput("x", {"N", rows})
      .Node("Relu", {"x"}, {"a"})
      .Node("Relu", {"a"}, {"b"})
      .Node("Inverse", {"b"}, {"t"})
      .Node("Neg", {"t"}, {"n"})
      .Node("Neg", {"n"}, {"y"})
      .Output("y");
  onnx::GraphProto& graph = *model.proto().mutable_graph();
  graph.mutable_node(2)->set_domain("com.microsoft");
  graph.mutable_node(2)->set_name("inv");
  onnx::OperatorSetIdProto* import = model.proto().add_opset_import();
  import->set_domain("com.microsoft");
  import->set_version(1);
  *graph.add_value_info() = graph.input(0);
  graph.mutable_value_info(0)->set_name("t");
  return model;
}

class OpaqueModels : public ::testing::Test {
 protected:
  void SetUp() override {
    WriteContents(Path("m.onnx"), Inverted("N").Bytes());
    WriteContents(Path("laws.rules"), "rule relu-twice relu(relu(x)) => relu(x)\nrule neg-twice neg(neg(x)) => x\n");
  }
  std::string Path(const std::string& name) const { return folder_ / name; }

 private:
  const TemporaryFolder folder_;
};

TEST_F(OpaqueModels, AreToldByInspect) {
  const Outcome outcome = Rewright("inspect --json --dim N=3 " + Path("m.onnx"));
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  auto json = outcome.Json();
  ASSERT_EQ(json["opaque"].size(), 1U);
  EXPECT_EQ(json["opaque"][0]["node"], "node \"inv\" (com.microsoft.Inverse)");
  EXPECT_EQ(json["opaque"][0]["why"], "the operator is not known");
}

TEST_F(OpaqueModels, AreRefusedByThoseWhoCompute) {
  for (const std::string& verb :
       {std::string("run --device reference "), absl::StrCat("diff --device reference ", Path("m.onnx"), " ")}) {
    const Outcome outcome = Rewright(verb + Path("m.onnx"));
    EXPECT_EQ(outcome.status, 2) << verb;
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("com.microsoft.Inverse [1 node: node \"inv\""),
                                   HasSubstr("the devices cpu and onnxruntime take the model")))
        << verb;
  }
}

TEST_F(OpaqueModels, AreNamedWhereOnnxruntimeIsMissing) {
  setenv("REWRIGHT_ONNXRUNTIME", "/nowhere/libonnxruntime.so", 1);
  const Outcome outcome = Rewright("run --device cpu " + Path("m.onnx"));
  unsetenv("REWRIGHT_ONNXRUNTIME");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err,
              AllOf(HasSubstr("node \"inv\" (com.microsoft.Inverse): not known here, and onnxruntime, which "
                              "would run that, is not found"),
                    HasSubstr("/nowhere/libonnxruntime.so")));
}

class OpaqueModelsOn : public OpaqueModels, public ::testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(Devices, OpaqueModelsOn, ::testing::Values("onnxruntime", "cpu"));

TEST_P(OpaqueModelsOn, AreRewrittenAroundThatNode) {
  const std::string python = std::string(REWRIGHT_SOURCE_DIR) + "/.venv/bin/python";
  if (!std::filesystem::exists(python)) GTEST_SKIP() << "tools/python_env.sh makes " << python;
  const std::string on = absl::StrCat(" --device ", GetParam(), " --threads 1 --quiet --dim N=");
  ASSERT_EQ(Rewright(absl::StrCat("run ", Path("m.onnx"), on, 5)).status, 0);
  // Costs are calculated: nothing is timed.
  const Outcome outcome = Rewright(absl::StrCat("optimize ", Path("m.onnx"), on,
                                                "5 --json --cost analytic:zen3 --trust-unverified --rules ",
                                                Path("laws.rules"), " -o ", Path("o.onnx")));
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  auto json = outcome.Json();
  EXPECT_EQ(json["opaque"].size(), 1U);
  EXPECT_EQ(json["written"], "rewritten") << json["verdict"];
  EXPECT_EQ(json["nodes_before"], 5);
  EXPECT_EQ(json["nodes_after"], 2);
  EXPECT_EQ(json["checked"], true);
  EXPECT_EQ(json["proof"]["answer"], "proved") << json["proof"];
  onnx::ModelProto written;
  ASSERT_TRUE(written.ParseFromString(FileContents(Path("o.onnx"))));
  ASSERT_EQ(written.graph().node_size(), 2);
  EXPECT_EQ(written.graph().node(1).op_type(), "Inverse");
  EXPECT_EQ(written.graph().node(1).name(), "inv");
  EXPECT_EQ(written.graph().input(0).type().tensor_type().shape().dim(0).dim_param(), "N");
  EXPECT_EQ(Rewright(absl::StrCat("diff ", Path("m.onnx"), " ", Path("o.onnx"), on, 7)).status, 0);
}

// In 16 bits, as in any other type, a node unknown to Rewright is left to onnxruntime, which reports whether it knows
// it.
TEST_P(OpaqueModelsOn, OfSixteenBits) {
  const std::string python = std::string(REWRIGHT_SOURCE_DIR) + "/.venv/bin/python";
  if (!std::filesystem::exists(python)) GTEST_SKIP() << "tools/python_env.sh makes " << python;
  for (DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
    TestModel model;
    model.Input("x", {4, 8}, dtype).Node("Abs", {"x"}, {"a"}).Node("Mystery", {"a"}, {"b"}).Node("Neg", {"b"}, {"y"});
    model.Output("y");
    onnx::GraphProto& graph = *model.proto().mutable_graph();
    graph.mutable_node(1)->set_domain("my.domain");
    *graph.add_value_info() = graph.input(0);
    graph.mutable_value_info(0)->set_name("b");
    onnx::OperatorSetIdProto* import = model.proto().add_opset_import();
    import->set_domain("my.domain");
    import->set_version(1);
    WriteContents(Path("half.onnx"), model.Bytes());
    const Outcome outcome = Rewright(absl::StrCat("run ", Path("half.onnx"), " --threads 1 --device ", GetParam()));
    EXPECT_EQ(outcome.status, 2) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("my.domain:Mystery(-1) is not a registered function/op"));
  }
}

// An opaque node reads a tensor without elements, which no kernel of ours looks at.
TEST_F(OpaqueModels, OfEmptyTensors) {
  const std::string python = std::string(REWRIGHT_SOURCE_DIR) + "/.venv/bin/python";
  if (!std::filesystem::exists(python)) GTEST_SKIP() << "tools/python_env.sh makes " << python;
  TestModel model;
  model.Input("x", {1, 1, 2, 2}).Initializer("roi", Tensor(TensorType{DType::kFloat32, {0}}));
  model.Node("Abs", {"x"}, {"a"})
      .Node("Unique", {"roi"}, {"b"})
      .Node("Concat", {"b", "b"}, {"c"}, {{"axis", int64_t{0}}});
  model.Node("Relu", {"a"}, {"y"}).Output("y").Output("b");
  onnx::ValueInfoProto& info = *model.proto().mutable_graph()->mutable_output(1);
  info.mutable_type()->mutable_tensor_type()->set_elem_type(onnx::TensorProto::FLOAT);
  info.mutable_type()->mutable_tensor_type()->mutable_shape()->add_dim()->set_dim_value(0);
  WriteContents(Path("empty.onnx"), model.Bytes());
  const Outcome outcome = Rewright("run --device cpu --threads 1 " + Path("empty.onnx"));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
}

// The result of Inverse is drawn, and its operand has to be proved equal.
TEST_F(OpaqueModels, AreProvedEqualAroundThatNode) {
  const auto equal = [&](const TestModel& other) {
    WriteContents(Path("other.onnx"), other.Bytes());
    return Rewright("equal --json --quiet --threads 1 --dim N=3 " + Path("m.onnx") + " " + Path("other.onnx"));
  };
  const auto nodes = [](TestModel& model) { return model.proto().mutable_graph()->mutable_node(); };
  TestModel less = Inverted("N");
  nodes(less)->Mutable(2)->set_input(0, "a");
  nodes(less)->DeleteSubrange(1, 1);  // the second relu
  nodes(less)->Mutable(2)->set_op_type("Identity");
  nodes(less)->Mutable(3)->set_op_type("Identity");
  Outcome outcome = equal(less);
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  EXPECT_EQ(outcome.Json()["answer"], "proved");
  EXPECT_EQ(outcome.Json()["opaque"].size(), 1U);

  // It reads something else, or something else is made of what it gives: that need not show.
  TestModel before = Inverted("N"), behind = Inverted("N");
  nodes(before)->Mutable(1)->set_op_type("Abs");
  nodes(before)->Mutable(0)->set_op_type("Identity");
  nodes(behind)->Mutable(4)->set_op_type("Abs");
  for (const TestModel& model : {before, behind}) {
    outcome = equal(model);
    EXPECT_EQ(outcome.status, 1) << outcome.out << outcome.err;
    EXPECT_EQ(outcome.Json()["answer"], "open");
  }
  // Another such node.
  TestModel another = Inverted("N");
  nodes(another)->Mutable(2)->set_op_type("Reverse");
  outcome = equal(another);
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("only one of the models has the operand 0 of foreign.com.microsoft."));

  // Outputs that do not depend on the node differ or do not.
  TestModel with = Inverted("N"), without = Inverted("N");
  with.Node("Exp", {"x"}, {"z"}).Output("z");
  without.Node("Tanh", {"x"}, {"z"}).Output("z");
  WriteContents(Path("with.onnx"), with.Bytes());
  WriteContents(Path("without.onnx"), without.Bytes());
  outcome = Rewright("equal --json --quiet --threads 1 " + Path("with.onnx") + " " + Path("without.onnx"));
  EXPECT_EQ(outcome.status, 1) << outcome.err;
  EXPECT_EQ(outcome.Json()["answer"], "different");
  EXPECT_EQ(outcome.Json()["difference"]["output"], "z");
}

}  // namespace
}  // namespace rewright
