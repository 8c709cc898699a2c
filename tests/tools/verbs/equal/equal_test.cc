// `rewright equal` from outside: models of the zoo against what `rewright optimize` makes of them, damaged files, exit
// statuses and what is written.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "core/ir/text.h"
#include "core/onnx/onnx.h"
#include "core/tensor/tensor.h"
#include "tests/core/onnx/model_util.h"
#include "tests/tools/program/program_util.h"

namespace rewright {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kQuickEqual[] = " --threads 1 --quiet --json ";

class EqualProgram : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) const { return folder_ / name; }
  TemporaryFolder folder_;
};

struct ZooCase {
  const char* name;
  const char* options;
  bool full;  // with REWRIGHT_FULL alone
};

class EqualZoo : public ::testing::TestWithParam<ZooCase> {};

TEST_P(EqualZoo, OptimizedGraphIsProved) {
  const ZooCase& model = GetParam();
  if (model.full && std::getenv("REWRIGHT_FULL") == nullptr) GTEST_SKIP() << "with REWRIGHT_FULL alone";
  const TemporaryFolder folder;
  const std::string source = folder / "a.onnx", optimized = folder / "b.onnx";
  ASSERT_EQ(Rewright(std::string("zoo ") + model.name + " " + model.options + " -o " + source).status, 0);
  ASSERT_EQ(
      Rewright("optimize " + source + " -o " + optimized + " --cost analytic:v100 --budget 100 --no-check").status, 0);
  for (const std::string& pair : {source + " " + optimized, optimized + " " + source}) {
    const Outcome outcome = Rewright("equal " + pair + kQuickEqual);
    EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
    EXPECT_EQ(outcome.Json()["answer"], "proved");
  }
}

INSTANTIATE_TEST_SUITE_P(
    Zoo, EqualZoo,
    ::testing::Values(ZooCase{"mlp", "", false}, ZooCase{"squeezenet", "--image-size 64", false},
                      ZooCase{"nasrnn", "--layers 2 --width 64", false},
                      ZooCase{"gpt2_small", "--layers 1 --sequence-length 16 --width 128", false},
                      ZooCase{"nasnet_a", "--image-size 64 --layers 1 --width 264", false},
                      ZooCase{"residual_block", "", true}, ZooCase{"taso_nasrnn", "--layers 2", true},
                      ZooCase{"taso_bert", "--layers 1", true}, ZooCase{"mobilenet_v2", "--image-size 64", true},
                      ZooCase{"bert_base", "--layers 1 --sequence-length 16", true},
                      ZooCase{"resnet50", "--image-size 64", true}, ZooCase{"resnext50", "--image-size 64", true},
                      ZooCase{"inception_v3", "--image-size 107", true}),
    [](const auto& info) { return info.param.name; });

// Writes the graph as a model.
void WriteGraph(const std::string& text, const std::string& path) {
  const auto graph = ParseGraph(text);
  ASSERT_TRUE(graph.ok()) << graph.status();
  ASSERT_TRUE(ExportOnnx(*graph, ModelMetadata(), path).ok());
}

TEST_F(EqualProgram, CertificatesOfRegionsHold) {
  const std::string head = "input x: f32[2,3]\ninput w: f32[3,4]\ninput b: f32[4]\n";
  WriteGraph(head + "%0 = matmul(x, w)\n%1 = add(%0, b)\noutput y = %1\n", Path("a.onnx"));
  WriteGraph(head +
                 "%0 = reshape(x, shape=[1,2,3])\n%1 = matmul(%0, w)\n%2 = add(%1, b)\n%3 = reshape(%2, shape=[2,4])\n"
                 "output y = %3\n",
             Path("b.onnx"));
  WriteContents(Path("none.rules"), "");
  const Outcome outcome = Rewright("equal " + Path("a.onnx") + " " + Path("b.onnx") + " -o " + Path("proof") +
                                   kQuickEqual + " --rules " + Path("none.rules"));
  ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  EXPECT_GE(outcome.Json()["regions_by_prover"], 1);
  const Outcome check =
      Rewright("check " + Path("proof") + " --rules " + Path("proof/regions.rules") + kQuickEqual + "--solver z3");
  EXPECT_EQ(check.status, 0) << check.out << check.err;
  EXPECT_GE(check.Json()["certificates"], 1);
}

// A transpose moves over a product with a table, whose axes of size one it then needs, as onnxruntime moves it over
// rotary embeddings.
TEST_F(EqualProgram, AWeightThatGotAxesOfSizeOneIsTheSameWeight) {
  const auto table = [](const Shape& shape) {
    return Tensor::FromVector<double>(DType::kFloat32, shape, {.5, -.3, .2, .7, -.4, .6, .1, -.2, .3, .2, .8, -.5});
  };
  TestModel a, b;
  a.Input("x", {1, 3, 2, 4}).Initializer("w", table({3, 4}));
  a.Node("Transpose", {"x"}, {"heads"}, {{"perm", Shape{0, 2, 1, 3}}}).Node("Mul", {"heads", "w"}, {"turned"});
  a.Node("Transpose", {"turned"}, {"y"}, {{"perm", Shape{0, 1, 3, 2}}}).Output("y");
  b.Input("x", {1, 3, 2, 4}).Initializer("v", table({1, 3, 1, 4}));
  b.Node("Mul", {"x", "v"}, {"turned"}).Node("Transpose", {"turned"}, {"y"}, {{"perm", Shape{0, 2, 3, 1}}});
  b.Output("y");
  WriteContents(Path("a.onnx"), a.Bytes());
  WriteContents(Path("b.onnx"), b.Bytes());
  for (const std::string& pair : {Path("a.onnx") + " " + Path("b.onnx"), Path("b.onnx") + " " + Path("a.onnx")}) {
    const Outcome outcome = Rewright("equal " + pair + kQuickEqual);
    EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  }
}

TEST_F(EqualProgram, AFileOfAPlanOutsideOfItsFolderIsRefused) {
  WriteGraph("input x: f32[2]\n%0 = relu(x)\noutput y = %0\n", Path("a.onnx"));
  WriteContents(Path("plan.json"), R"({"mesh": [{"axis": "tp", "size": 1}], "inputs": {}, "outputs": {},
                                       "ranks": ["../a.onnx"]})");
  const Outcome outcome = Rewright("equal " + Path("a.onnx") + " --ranks " + Path("plan.json"));
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("plan.json: ranks: path \"../a.onnx\": leads out of the model's folder"));
}

TEST_F(EqualProgram, DifferentModelsComeWithInputs) {
  const std::string head = "input x: f32[2,3]\n";
  WriteGraph(head + "%0 = softmax(x, axis=1)\noutput y = %0\n", Path("a.onnx"));
  WriteGraph(head + "%0 = softmax(x, axis=0)\noutput y = %0\n", Path("b.onnx"));
  const Outcome outcome =
      Rewright("equal " + Path("a.onnx") + " " + Path("b.onnx") + " -o " + Path("inputs") + kQuickEqual);
  EXPECT_EQ(outcome.status, 1) << outcome.err;
  EXPECT_EQ(outcome.Json()["answer"], "different");
  EXPECT_THAT(outcome.Json()["difference"]["first"].get<std::string>(), HasSubstr("softmax"));
  EXPECT_TRUE(std::filesystem::exists(Path("inputs/x.npy")));
}

TEST_F(EqualProgram, SignaturesThatDifferAreAnError) {
  WriteGraph("input x: f32[2,3]\n%0 = relu(x)\noutput y = %0\n", Path("a.onnx"));
  WriteGraph("input z: f32[2,3]\n%0 = relu(z)\noutput y = %0\n", Path("b.onnx"));
  const Outcome outcome = Rewright("equal " + Path("a.onnx") + " " + Path("b.onnx") + kQuickEqual);
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("input z: missing in A"));
}

// A suite of one case for servers of continuous integration: passed, failed, or an error.
TEST_F(EqualProgram, WritesAJUnitReport) {
  const std::string head = "input x: f32[2,3]\n";
  WriteGraph(head + "%0 = softmax(x, axis=1)\noutput y = %0\n", Path("a.onnx"));
  WriteGraph(head + "%0 = softmax(x, axis=0)\noutput y = %0\n", Path("b.onnx"));
  WriteGraph(head + "%0 = relu(x)\noutput z = %0\n", Path("c.onnx"));
  const auto report = [&](const std::string& b, int status) {
    const Outcome outcome =
        Rewright("equal " + Path("a.onnx") + " " + Path(b) + " --threads 1 --quiet --junit " + Path("report.xml"));
    EXPECT_EQ(outcome.status, status) << outcome.err;
    return FileContents(Path("report.xml"));
  };
  EXPECT_THAT(report("a.onnx", 0), HasSubstr("tests=\"1\" failures=\"0\" errors=\"0\""));
  const std::string different = report("b.onnx", 1);
  EXPECT_THAT(different, HasSubstr("failures=\"1\" errors=\"0\""));
  EXPECT_THAT(different, HasSubstr("<failure message=\"different: y at ["));
  EXPECT_THAT(different, HasSubstr("softmax"));
  EXPECT_THAT(report("c.onnx", 2), HasSubstr("<error message="));
}

// One change of a file at a time, none of which may be proved.
TEST_F(EqualProgram, DamagedModelsAreToldApart) {
  const std::string good =
      "input x: f32[2,6]\ninput z: f32[2,6]\ninput w: f32[6,6]\n%0 = sub(x, z)\n%1 = concat(%0, x, axis=0)\n"
      "%2 = softmax(%1, axis=1)\n%3 = matmul(%2, w)\n%4 = mul(%3, %3)\noutput y = %4\n";
  WriteGraph(good, Path("a.onnx"));
  const std::vector<std::pair<std::string, std::string>> changes = {{"sub(x, z)", "sub(z, x)"},
                                                                    {"concat(%0, x,", "concat(x, %0,"},
                                                                    {"axis=1", "axis=0"},
                                                                    {"mul(%3, %3)", "add(%3, %3)"},
                                                                    {"sub(x, z)", "add(x, z)"}};
  for (const auto& [from, to] : changes) {
    std::string bad = good;
    bad.replace(bad.find(from), from.size(), to);
    WriteGraph(bad, Path("b.onnx"));
    const Outcome outcome = Rewright("equal " + Path("a.onnx") + " " + Path("b.onnx") + kQuickEqual);
    EXPECT_EQ(outcome.status, 1) << to;
    EXPECT_EQ(outcome.Json()["answer"], "different") << to;
  }
}

// Forms that exporters write of one thing: equal up to the rounding of a constant.
TEST_F(EqualProgram, FormsWithRoundedConstantsAreProved) {
  const std::vector<std::pair<std::string, std::string>> pairs = {
      {"input x: f32[2,6,6]\nconst %0: f32[] = [3.1622777]\n%1 = div(x, %0)\n%2 = softmax(%1, axis=2)\noutput y = %2\n",
       "input x: f32[2,6,6]\nconst %0: f32[] = [0.31622776]\n%1 = mul(x, %0)\n%2 = softmax(%1, axis=2)\noutput y = "
       "%2\n"},
      {"input x: f32[4,64]\nconst %0: f32[] = [3]\nconst %1: f32[] = [0.044715]\nconst %2: f32[] = [0.7978846]\n"
       "const %3: f32[] = [1]\nconst %4: f32[] = [0.5]\n%5 = pow(x, %0)\n%6 = mul(%5, %1)\n%7 = add(x, %6)\n"
       "%8 = mul(%7, %2)\n%9 = tanh(%8)\n%10 = add(%9, %3)\n%11 = mul(x, %4)\n%12 = mul(%11, %10)\noutput y = %12\n",
       "input x: f32[4,64]\n%0 = gelu_tanh(x)\noutput y = %0\n"}};
  for (const auto& [first, second] : pairs) {
    WriteGraph(first, Path("a.onnx"));
    WriteGraph(second, Path("b.onnx"));
    for (const std::string& order : {Path("a.onnx") + " " + Path("b.onnx"), Path("b.onnx") + " " + Path("a.onnx")}) {
      const Outcome outcome = Rewright("equal " + order + kQuickEqual);
      EXPECT_EQ(outcome.status, 0) << outcome.err;
      EXPECT_EQ(outcome.Json()["answer"], "proved") << second;
      EXPECT_LE(outcome.Json()["rounding"]["difference"], outcome.Json()["rounding"]["worst"]);
    }
  }
}

// A scale that optimize folds into a weight of f16, which it rounds.
TEST_F(EqualProgram, WhatOptimizeFoldsInF16IsProved) {
  std::string weight;
  for (int i = 0; i < 64; ++i) weight += (i == 0 ? "" : ", ") + std::to_string(0.1 * std::sin(1.7 * i));
  WriteGraph("input x: f16[8,8]\nconst %0: f16[8,8] = [" + weight +
                 "]\nconst %1: f16[] = [0.3]\n%2 = matmul(x, %0)\n%3 = mul(%2, %1)\n%4 = softmax(%3, axis=1)\n"
                 "output y = %4\n",
             Path("a.onnx"));
  const Outcome optimized = Rewright("optimize " + Path("a.onnx") + " -o " + Path("b.onnx") + " --cost analytic:v100");
  ASSERT_EQ(optimized.status, 0) << optimized.err;
  const Outcome outcome = Rewright("equal " + Path("a.onnx") + " " + Path("b.onnx") + kQuickEqual);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.Json()["answer"], "proved");
  EXPECT_LT(outcome.Json()["shared"], outcome.Json()["values"]) << "nothing was folded";
}

// Over the real numbers; with an infinity where the type has no number for it, and the inputs that show it.
TEST_F(EqualProgram, SaysWhatAProofIsAbout) {
  WriteGraph(
      "input x: f16[5]\nconst %0: f16[] = [256]\nconst %1: f16[] = [0.00390625]\n%2 = mul(x, %0)\n%3 = mul(%2, %1)\n"
      "output y = %3\n",
      Path("a.onnx"));
  WriteGraph("input x: f16[5]\n%0 = identity(x)\noutput y = %0\n", Path("b.onnx"));
  const Outcome outcome =
      Rewright("equal " + Path("a.onnx") + " " + Path("b.onnx") + " --threads 1 -o " + Path("proof"));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("over the real numbers"));
  EXPECT_THAT(outcome.out, HasSubstr("rounding:  in f16 "));
  EXPECT_THAT(outcome.out, HasSubstr("infinite:  in f16 y["));
  EXPECT_THAT(outcome.out, HasSubstr("inf in A"));
  EXPECT_TRUE(std::filesystem::exists(Path("proof/infinite_y/x.npy")));
}

// Apart over the real numbers, and not by more than both round.
TEST_F(EqualProgram, SaysWhatRoundingExplains) {
  for (const char* number : {"200", "201"}) {
    WriteGraph(std::string("input x: bf16[5]\nconst %0: bf16[] = [") + number + "]\n%1 = mul(x, %0)\noutput y = %1\n",
               Path(std::string(number) + ".onnx"));
  }
  const Outcome outcome = Rewright("equal " + Path("200.onnx") + " " + Path("201.onnx") + " --threads 1");
  EXPECT_EQ(outcome.status, 1) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("equal up to constants  "));
  EXPECT_THAT(outcome.out, HasSubstr("constants: 1 differ, by 0.005 of the largest element at most"));
  EXPECT_THAT(outcome.out, HasSubstr("apart:     y["));
  const Outcome json = Rewright("equal " + Path("200.onnx") + " " + Path("201.onnx") + kQuickEqual);
  EXPECT_EQ(json.status, 1);
  EXPECT_EQ(json.Json()["answer"], "equal up to constants");
  EXPECT_EQ(json.Json()["constants"].size(), 1u);
  EXPECT_EQ(json.Json()["foldings"].size(), 0u);
}

// B names its operands otherwise, and in the other order.
TEST_F(EqualProgram, NamesAreMatchedByTheUser) {
  WriteGraph("input x: f32[3]\ninput z: f32[3]\n%0 = sub(x, z)\noutput y = %0\n", Path("a.onnx"));
  WriteGraph("input z: f32[3]\ninput first: f32[3]\n%0 = sub(first, z)\noutput out = %0\n", Path("b.onnx"));
  WriteGraph("input x: f32[3]\ninput z: f32[3]\n%0 = sub(z, x)\noutput y = %0\n", Path("swapped.onnx"));
  const std::string pair = Path("a.onnx") + " " + Path("b.onnx");
  const Outcome unmatched = Rewright("equal " + pair + " --threads 1");
  EXPECT_EQ(unmatched.status, 2);
  EXPECT_THAT(unmatched.err, AllOf(HasSubstr("names of inputs differ; --map x=first matches two"),
                                   HasSubstr("names of outputs differ; --map y=out matches two")));
  const Outcome matched = Rewright("equal " + pair + " --threads 1 --map x=first --map y=out");
  EXPECT_EQ(matched.status, 0);
  EXPECT_THAT(matched.err, Not(HasSubstr("--map")));
  EXPECT_EQ(Rewright("equal " + pair + kQuickEqual + "--map x=z --map z=first --map y=out").status, 1);
  const std::string swapped = Path("a.onnx") + " " + Path("swapped.onnx");
  EXPECT_EQ(Rewright("equal " + swapped + kQuickEqual).status, 1);
  EXPECT_EQ(Rewright("equal " + swapped + kQuickEqual + "--map x=z --map z=x").status, 0);
  for (const auto& [map, error] :
       {std::pair("--map x=nothing", "found no input or output nothing, expected one of first, out, z"),
        {"--map z=first", "z and first would both be called z"},
        {"--map x=first --map z=first", "`first` is given twice"},
        {"--map x", "A=B"}}) {
    const Outcome outcome = Rewright("equal " + pair + " " + map);
    EXPECT_EQ(outcome.status, 2) << map;
    EXPECT_THAT(outcome.err, HasSubstr(error));
  }
}

}  // namespace
}  // namespace rewright
