// `rewright diff` from outside: where models begin to differ, and which weights do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_split.h"
#include "core/ir/text.h"
#include "core/onnx/onnx.h"
#include "tests/core/onnx/model_util.h"
#include "tests/tools/program/program_util.h"

namespace rewright {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class DiffProgram : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) const { return folder_ / name; }
  // x w + b, with another name or another element of w.
  std::string Write(const std::string& file, const std::string& weight, double element) {
    Tensor w = Iota({3, 2});
    w.Set(4, element);
    TestModel model;
    model.Input("x", {2, 3}).Initializer(weight, w).Initializer("b", Iota({2}));
    model.Node("MatMul", {"x", weight}, {"t"}).Node("Add", {"t", "b"}, {"y"}).Output("y");
    WriteContents(Path(file), model.Bytes());
    return Path(file);
  }

 private:
  TemporaryFolder folder_;
};

TEST_F(DiffProgram, NamesWeightsThatDiffer) {
  const std::string a = Write("a.onnx", "w", 4), b = Write("b.onnx", "w", 4.5);
  const Outcome text = Rewright("diff --device reference " + a + " " + b);
  EXPECT_EQ(text.status, 1) << text.err;
  EXPECT_THAT(text.out, AllOf(HasSubstr("weights that differ: 1, w f32[3,2] (largest difference 0.5)"),
                              HasSubstr("structure: the same"), Not(HasSubstr("beginning with"))));
  const Outcome json = Rewright("diff --json --device reference " + a + " " + b);
  EXPECT_THAT(json.Json()["weights_that_differ"], ElementsAre("w f32[3,2] (largest difference 0.5)"));
}

// A maximum over rows is the row where there is one.
TEST_F(DiffProgram, ModelsThatAreTheSameAtOneRowAloneDiffer) {
  const auto write = [&](const std::string& file, const char* read) {
    TestModel model;
    model.SymbolicInput("x", {"rows"}).Node("ReduceMax", {"x"}, {"most"}, {{"keepdims", int64_t{1}}});
    model.Node("Max", {"x", read}, {"y"}).Output("y");
    WriteContents(Path(file), model.Bytes());
    return Path(file) + " ";
  };
  const std::string pair = write("a.onnx", "x") + write("b.onnx", "most");
  const Outcome text = Rewright("diff --prove --device reference " + pair);
  EXPECT_EQ(text.status, 1) << text.out << text.err;
  EXPECT_THAT(text.out, AllOf(HasSubstr("sizes:     rows=3"), HasSubstr("outputs:   different")));
  EXPECT_EQ(Rewright("diff --json --device reference " + pair).Json()["dims"]["rows"], 3);
  EXPECT_EQ(Rewright("diff --device reference --dim rows=1 " + pair).status, 0);
}

TEST_F(DiffProgram, SaysWhereModelsOfOtherWeightsBeginToDiffer) {
  const Outcome text = Rewright("diff --device reference " + Write("a.onnx", "w", 4) + " " + Write("b.onnx", "v", 4));
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.out,
              AllOf(HasSubstr("only in A: 2 nodes, beginning with\n  t = matmul(f32[2,3], f32[3,2])"),
                    HasSubstr("only in B: 2 nodes, beginning with\n  t = matmul(f32[2,3], f32[3,2])"),
                    HasSubstr("weights only in A: 1, w f32[3,2]"), HasSubstr("weights only in B: 1, v f32[3,2]")));
}

// The two lines differ, though the constant has no name and differs behind its first elements.
TEST_F(DiffProgram, TellsConstantsApart) {
  const auto write = [&](const std::string& file, size_t last) {
    std::vector<int64_t> indices(20, 1);
    indices.back() = static_cast<int64_t>(last);
    TestModel model;
    model.Input("x", {5}).Initializer("i", Tensor::FromVector(DType::kInt64, {20}, indices));
    WriteContents(Path(file), model.Node("Gather", {"x", "i"}, {"y"}).Output("y").Bytes());
    return Path(file);
  };
  const Outcome text = Rewright("diff --device reference " + write("a.onnx", 2) + " " + write("b.onnx", 3));
  EXPECT_EQ(text.status, 1) << text.err;
  std::vector<std::string> lines;
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(text.out, '\n'))) {
    if (line.find("gather(") != std::string::npos) lines.push_back(line);
  }
  ASSERT_EQ(lines.size(), 2u) << text.out;
  EXPECT_NE(lines[0], lines[1]);
  EXPECT_THAT(lines[0], HasSubstr("i64[20] {1, 1, 1, 1, 1, 1, 1, 1, ..; #"));
}

// 0 and 1, which masks are, are their own squares.
TEST_F(DiffProgram, DrawsIntegersThatAreNoTruthValues) {
  const auto write = [&](const std::string& file, const std::string& op, const std::vector<std::string>& operands) {
    TestModel model;
    model.Input("x", {8}, DType::kInt32).Node(op, operands, {"y"}).Output("y");
    WriteContents(Path(file), model.Bytes());
    return Path(file);
  };
  const std::string square = write("square.onnx", "Mul", {"x", "x"}), same = write("same.onnx", "Identity", {"x"});
  EXPECT_EQ(Rewright("diff --device reference " + square + " " + same).status, 1);
  EXPECT_EQ(Rewright("diff --device reference " + square + " " + square).status, 0);
}

// Pairs that agree on ordinary numbers: they part beyond these, at ties, or where f16 ends.
TEST_F(DiffProgram, DrawsRealsOfOtherMagnitudesAndTies) {
  const auto write = [&](const std::string& file, const std::string& type, const std::string& nodes) {
    EXPECT_TRUE(ExportOnnx(*ParseGraph("input x: " + type + "[64]\n" + nodes), {}, Path(file)).ok());
    return Path(file);
  };
  const auto compared = [&](const std::string& a, const std::string& b) {
    return Rewright("diff --device reference --quiet " + a + " " + b);
  };
  const std::string clip = "%0 = clip(x, min=-100, max=100)\noutput y = %0\n";
  const std::string same = "%0 = identity(x)\noutput y = %0\n";
  const std::string clipped = write("clip.onnx", "f32", clip), identity = write("same.onnx", "f32", same);
  Outcome outcome = compared(clipped, identity);
  EXPECT_EQ(outcome.status, 1) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("outputs:   different, on large reals"));
  const std::string up = "const %0: f32[] = [0.5]\n%1 = add(x, %0)\n%2 = floor(%1)\noutput y = %2\n";
  outcome = compared(write("up.onnx", "f32", up), write("even.onnx", "f32", "%0 = round(x)\noutput y = %0\n"));
  EXPECT_EQ(outcome.status, 1) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("outputs:   different, on halves"));
  const std::string root = write("root.onnx", "f16", "%0 = mul(x, x)\n%1 = sqrt(%0)\noutput y = %1\n");
  const std::string size = write("size.onnx", "f16", "%0 = abs(x)\noutput y = %0\n");
  EXPECT_THAT(compared(size, root).out, HasSubstr("outputs:   different, on reals at the end of f16"));
  EXPECT_EQ(compared(root, size).status, 0);  // what the original loses is no difference
}

// Pairs that part only at or beyond a number that one of them holds.
TEST_F(DiffProgram, DrawsAroundTheNumbersOfBothModels) {
  const auto write = [&](const std::string& file, const std::string& type, const std::string& nodes) {
    EXPECT_TRUE(ExportOnnx(*ParseGraph("input x: " + type + "[64]\n" + nodes), {}, Path(file)).ok());
    return Path(file);
  };
  const auto where = [](const std::string& type, const std::string& number, const std::string& compare) {
    return "const %0: " + type + "[] = [" + number + "]\nconst %1: " + type + "[] = [0]\n%2 = " + compare +
           "(x, %0)\n%3 = where(%2, %1, x)\noutput y = %3\n";
  };
  const std::string same = "%0 = identity(x)\noutput y = %0\n";
  const struct {
    std::string type, a, b, number;
  } pairs[] = {
      {"f32", "%0 = clip(x, min=-1e7, max=100000)\noutput y = %0\n", same, "100000"},
      {"f32", "const %0: f32[] = [-3e6]\n%1 = max(x, %0)\noutput y = %1\n", same, "-3e+06"},
      {"f32", where("f32", "250000", "less"), where("f32", "250000", "less_equal"), "250000"},
      {"i64", where("i64", "3000000000", "less"), where("i64", "3000000000", "less_equal"), "3e+09"},
  };
  for (const auto& pair : pairs) {
    const std::string a = write("a.onnx", pair.type, pair.a), b = write("b.onnx", pair.type, pair.b);
    for (const std::string& models : {a + " " + b, b + " " + a}) {
      const Outcome outcome = Rewright("diff --device reference --quiet " + models);
      EXPECT_EQ(outcome.status, 1) << outcome.out;
      EXPECT_THAT(outcome.out, HasSubstr("outputs:   different, on numbers around " + pair.number));
    }
    EXPECT_EQ(Rewright("diff --device reference --quiet " + a + " " + a).status, 0);
  }
}

// The outputs differ by what f16 rounds at that size, and in f64 they do not.
TEST_F(DiffProgram, RoundingOfLargeRealsIsNoDifference) {
  const auto write = [&](const std::string& file, const std::string& nodes) {
    EXPECT_TRUE(ExportOnnx(*ParseGraph("input x: f32[64]\nconst %0: f32[] = [1]\n" + nodes), {}, Path(file)).ok());
    return Path(file);
  };
  const std::string sum = "%1 = mul(x, x)\n%2 = mul(%1, x)\n%3 = add(%2, %0)\n%4 = sub(%3, %2)\noutput y = %4\n";
  const std::string one = "%1 = sub(x, x)\n%2 = add(%1, %0)\noutput y = %2\n";
  const std::string a = write("a.onnx", sum), b = write("b.onnx", one);
  const Outcome outcome = Rewright("diff --device reference --quiet " + a + " " + b);
  EXPECT_EQ(outcome.status, 0) << outcome.out;
}

// A few roundings of f16, which the check of optimize takes as equal.
TEST_F(DiffProgram, ExcusesRoundingsOfNarrowTypes) {
  const auto write = [&](const std::string& file, double factor) {
    Tensor w(TensorType{DType::kFloat16, {}});
    w.Set(0, factor);
    WriteContents(Path(file), TestModel()
                                  .Input("x", {64}, DType::kFloat16)
                                  .Initializer("w", w)
                                  .Node("Mul", {"x", "w"}, {"y"})
                                  .Output("y")
                                  .Bytes());
    return Path(file);
  };
  const std::string one = write("one.onnx", 1);
  EXPECT_EQ(Rewright("diff --device reference " + one + " " + write("two.onnx", 1 - 0x1p-9)).status, 0);
  EXPECT_EQ(Rewright("diff --device reference " + one + " " + write("far.onnx", 1 - 0x1p-6)).status, 1);
}

// A size that the other model has fixed.
TEST_F(DiffProgram, TakesSizesOfDimensionsThatOneModelHas) {
  for (const std::string verb : {"diff --device reference ", "equal "}) {
    WriteContents(Path("named.onnx"),
                  TestModel().SymbolicInput("x", {"N"}).Node("Relu", {"x"}, {"y"}).Output("y").Bytes());
    WriteContents(Path("fixed.onnx"), TestModel().Input("x", {5}).Node("Relu", {"x"}, {"y"}).Output("y").Bytes());
    const std::string pair = Path("named.onnx") + " " + Path("fixed.onnx");
    EXPECT_EQ(Rewright(verb + pair + " --dim N=5").status, 0) << verb;
    const Outcome neither = Rewright(verb + pair + " --dim N=5 --dim M=3");
    EXPECT_EQ(neither.status, 2) << verb;
    EXPECT_THAT(neither.err, AllOf(HasSubstr("--dim: there is no symbolic dimension M"), HasSubstr("named.onnx have N"),
                                   HasSubstr("fixed.onnx none")));
  }
}

// Models with the same inputs that are something else where they are not given.
TEST_F(DiffProgram, ComparesInputsAndTheirDefaults) {
  const auto write = [&](const std::string& file, bool input, double element) {
    TestModel model;
    model.Input("x", {2});
    if (input) model.Input("w", {2});
    Tensor w = Iota({2});
    w.Set(1, element);
    model.Initializer("w", w).Node("Add", {"x", "w"}, {"y"}).Output("y");
    WriteContents(Path(file), model.Bytes());
    return Path(file);
  };
  const std::string a = write("a.onnx", true, 1), b = write("b.onnx", true, 2), folded = write("c.onnx", false, 1);
  for (const std::string verb : {"diff --device reference ", "equal "}) {
    EXPECT_EQ(Rewright(verb + a + " " + a).status, 0) << verb;
    Outcome outcome = Rewright(verb + a + " " + b);
    EXPECT_NE(outcome.status, 0) << verb;
    EXPECT_THAT(outcome.out + outcome.err, HasSubstr("input w: different defaults")) << verb;
    outcome = Rewright(verb + a + " " + folded);
    EXPECT_NE(outcome.status, 0) << verb;
    EXPECT_THAT(outcome.out + outcome.err, AllOf(HasSubstr("input w: f32[2]"), HasSubstr("missing"))) << verb;
    EXPECT_EQ(Rewright(verb + a + " " + folded + " --fold-defaults").status, 0) << verb;
  }
}

// Inputs that have a default are in the file that is written, unless they are to be folded.
TEST_F(DiffProgram, OptimizeKeepsInputsWithADefault) {
  TestModel model;
  model.Input("x", {2}).Input("w", {2}).Initializer("w", Iota({2}));
  model.Node("Relu", {"x"}, {"a"}).Node("Relu", {"a"}, {"b"}).Node("Add", {"b", "w"}, {"y"}).Output("y");
  WriteContents(Path("a.onnx"), model.Bytes());
  WriteContents(Path("laws.rules"), "rule relu-twice relu(relu(x)) => relu(x)\n");
  for (bool fold : {false, true}) {
    const Outcome outcome = Rewright("optimize " + Path("a.onnx") + " -o " + Path("o.onnx") +
                                     " --cost analytic:zen3 --trust-unverified --rules " + Path("laws.rules") +
                                     (fold ? " --fold-defaults" : ""));
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    const auto read = ImportOnnx(Path("o.onnx"));
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->graph.inputs().size(), fold ? 1U : 2U);
    EXPECT_EQ(read->metadata.defaults.size(), fold ? 0U : 1U);
    EXPECT_EQ(read->graph.num_runtime_nodes(), 2);
  }
}

// Outputs that are equal within tolerance are no proof.
TEST_F(DiffProgram, ProvesWhatItFindsEqual) {
  const auto write = [&](const std::string& file, const std::string& text) {
    EXPECT_TRUE(ExportOnnx(*ParseGraph(text), {}, Path(file)).ok());
    return Path(file);
  };
  const std::string a = write("a.onnx", "input x: f32[2,3]\n%0 = relu(x)\n%1 = relu(%0)\noutput y = %1\n");
  const std::string b = write("b.onnx", "input in: f32[2,3]\n%0 = relu(in)\noutput y = %0\n");
  const std::string c = write("c.onnx",
                              "input x: f32[2,3]\nconst %0: f32[] = [1e-08]\n%1 = relu(x)\n"
                              "%2 = add(%1, %0)\noutput y = %2\n");
  const Outcome proved = Rewright("diff --device reference --prove --map x=in " + a + " " + b);
  EXPECT_EQ(proved.status, 0) << proved.out << proved.err;
  EXPECT_THAT(proved.out, HasSubstr("proof:     proved, over the real numbers, 1 regions proved"));
  EXPECT_EQ(Rewright("diff --device reference --quiet " + a + " " + c).status, 0);
  const Outcome other = Rewright("diff --device reference --prove --json " + a + " " + c);
  EXPECT_EQ(other.status, 1) << other.out << other.err;
  EXPECT_EQ(other.Json()["equal"], true);
  EXPECT_NE(other.Json()["proof"]["answer"], "proved");
  EXPECT_EQ(Rewright("diff --prove --structure-only " + a + " " + a).status, 2);
}

}  // namespace
}  // namespace rewright
