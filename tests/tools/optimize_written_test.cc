// The file of `optimize -o`: the input byte for byte where nothing was rewritten, and the report says which it is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/core/onnx/model_util.h"
#include "tests/tools/program/program_util.h"

namespace rewright {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;

using ::testing::HasSubstr;
using ::testing::Not;

// Messages of protobuf by hand: a number, and bytes behind their length (under 128).
std::string Number(int field, int value) { return {static_cast<char>(field << 3), static_cast<char>(value)}; }
std::string Part(int field, const std::string& bytes) {
  return absl::StrCat(std::string{static_cast<char>(field << 3 | 2), static_cast<char>(bytes.size())}, bytes);
}
std::string NodeOf(const std::string& op, const std::vector<std::string>& inputs, const std::string& output) {
  std::string node;
  for (const std::string& input : inputs) node += Part(1, input);
  return Part(1, node + Part(2, output) + Part(4, op));
}
// A tensor of the graph: float[N, 2].
std::string Declared(int field, const std::string& name) {
  const std::string shape = Part(2, Part(1, Part(2, "N")) + Part(1, Number(1, 2)));
  return Part(field, Part(1, name) + Part(2, Part(1, Number(1, 1) + shape)));
}
// float[2] in a file.
std::string External(const std::string& name, const std::string& location) {
  return Part(5, Number(1, 2) + Number(2, 1) + Part(8, name) + Part(13, Part(1, "location") + Part(2, location)) +
                     Number(14, 1));
}
std::string ModelOf(const std::string& nodes_and_weights) {
  const std::string graph = nodes_and_weights + Part(2, "g") + Declared(11, "x") + Declared(12, "y");
  // The last field is none of ONNX's: no export would write it.
  std::string length = {static_cast<char>((graph.size() & 127) | 128), static_cast<char>(graph.size() >> 7)};
  return absl::StrCat(Number(1, 8), std::string{7 << 3 | 2}, length, graph, Part(8, Number(2, 17)), Part(15, "mine"));
}

class Written : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::create_directory(folder_ / "in");
    fs::create_directory(folder_ / "out");
    plain_ = ModelOf(NodeOf("Relu", {"x"}, "y"));
    twice_ = ModelOf(NodeOf("Relu", {"x"}, "h") + NodeOf("Relu", {"h"}, "y"));
    beside_ = ModelOf(NodeOf("Add", {"x", "w"}, "y") + External("w", "w.bin"));
    WriteContents(In("plain.onnx"), plain_);
    WriteContents(In("twice.onnx"), twice_);
    WriteContents(In("beside.onnx"), beside_);
    WriteContents(In("w.bin"), "abcdefgh");
    WriteContents(folder_ / "laws.rules", "rule relu-twice relu(relu(x)) => relu(x)\n");
    ASSERT_EQ(Rewright("verify --quiet " + (folder_ / "laws.rules") + " -o " + Rules()).status, 0);
  }
  std::string In(const std::string& name) const { return folder_ / ("in/" + name); }
  std::string Out(const std::string& name) const { return folder_ / ("out/" + name); }
  std::string Rules() const { return folder_ / "proved.rules"; }
  Outcome Optimize(const std::string& model, const std::string& flags) const {
    return Rewright(absl::StrCat("optimize ", In(model), " --cost analytic:v100 --rules ", Rules(), " ", flags));
  }

  TemporaryFolder folder_;
  std::string plain_, twice_, beside_;
};

TEST_F(Written, WhereNothingIsRewrittenTheInputComesBack) {
  const std::string out = Out("m.onnx");
  for (const std::string dim : {"", " --dim N=8"}) {
    const Outcome outcome = Optimize("plain.onnx", "-o " + out + dim);
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_THAT(outcome.out,
                AllOf(HasSubstr("result:   the original: "), HasSubstr("outputs:  those of the original\n"),
                      HasSubstr("written:  " + out + ", the input byte for byte, its symbolic sizes as they were\n")));
    EXPECT_EQ(FileContents(out), plain_);
    fs::remove(out);
  }
  const auto json = Optimize("plain.onnx", "--json -o " + out).Json();
  EXPECT_EQ(json["written"], "input");
  EXPECT_EQ(json["rewritten"], false);
  EXPECT_EQ(json["equal"], true);
  // Its size is still free.
  EXPECT_THAT(Rewright("inspect --dim N=5 " + out).out, HasSubstr("f32[5,2]"));
}

TEST_F(Written, ARewrittenGraphSaysItsSizes) {
  const std::string out = Out("m.onnx");
  const Outcome outcome = Optimize("twice.onnx", "--dim N=8 -o " + out);
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("written:  " + out + ", the rewritten graph for all sizes of N\n"));
  EXPECT_THAT(FileContents(out), Not(HasSubstr("mine")));
  const nlohmann::json json = Optimize("twice.onnx", "--json -o " + out).Json();
  EXPECT_EQ(json["written"], "rewritten");
  EXPECT_EQ(json["names"], nlohmann::json::array({"N"}));
  EXPECT_TRUE(json["fixed_sizes"].empty());
}

// Weights are read where the file has them until the result takes its place.
TEST_F(Written, TheResultTakesThePlaceOfFilesThatAreMapped) {
  TestModel model;
  const Tensor weight = Iota({1024, 512});
  model.Input("x", {1024, 512}).Initializer("w", Iota({1}));
  onnx::TensorProto& proto = *model.proto().mutable_graph()->mutable_initializer(0);
  proto.clear_raw_data();
  proto.clear_dims();
  proto.add_dims(1024);
  proto.add_dims(512);
  proto.set_data_location(onnx::TensorProto::EXTERNAL);
  onnx::StringStringEntryProto* entry = proto.add_external_data();
  entry->set_key("location");
  entry->set_value("w.data");
  model.Node("Relu", {"x"}, {"h"}).Node("Relu", {"h"}, {"i"}).Node("Add", {"i", "w"}, {"y"}).Output("y");
  WriteContents(In("m.onnx"), model.Bytes());
  WriteContents(In("w.data"), std::string(static_cast<const char*>(weight.data()), 4 * 1024 * 512));
  fs::copy(folder_ / "in", folder_ / "before");
  const Outcome outcome = Optimize("m.onnx", "-o " + In("m.onnx"));
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("the rewritten graph"));
  fs::remove(In("w.data"));  // the weights are inside now
  const Outcome compared = Rewright("diff " + (folder_ / "before/m.onnx") + " " + In("m.onnx"));
  EXPECT_EQ(compared.status, 0) << compared.out << compared.err;
}

// A convolution of 1 x 1 that becomes a product gains nothing.
TEST_F(Written, ARewriteForNothingIsNotMade) {
  const std::string in = In("squeezenet.onnx"), out = Out("squeezenet.onnx");
  ASSERT_EQ(Rewright("zoo squeezenet -o " + in).status, 0);
  const Outcome outcome = Rewright(absl::StrCat("optimize ", in, " --cost analytic:zen3 -o ", out));
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("result:   the original: no rewrite makes it cheaper by 0.3 %\n"),
                    HasSubstr("written:  " + out + ", the input byte for byte\n"), Not(HasSubstr("rewrites:"))));
  EXPECT_EQ(FileContents(out), FileContents(in));
}

// Rewrites of a tied weight, whatever they are said to gain.
TEST_F(Written, NoFileGrowsUnlessThatIsAskedFor) {
  TestModel tied;
  tied.Input("x", {8, 32})
      .Initializer("w", Iota({64, 32}))
      .Initializer("c", Tensor::Scalar(DType::kFloat32, 2))
      .Node("Transpose", {"w"}, {"wt"}, {{"perm", std::vector<int64_t>{1, 0}}})
      .Node("MatMul", {"x", "wt"}, {"l"})
      .Node("Mul", {"l", "c"}, {"p"})
      .Node("MatMul", {"p", "w"}, {"y"})
      .Output("y");
  WriteContents(In("tied.onnx"), tied.Bytes());
  WriteContents(folder_ / "absorb.rules",
                "rule absorb-scale mul(matmul(x[m, k], y[k, n]), 2) => matmul(x, mul(y, 2)) when weight(y)\n");
  ASSERT_EQ(Rewright("verify --quiet " + (folder_ / "absorb.rules") + " -o " + Rules()).status, 0);
  const std::string out = Out("tied.onnx");
  ASSERT_EQ(Optimize("tied.onnx", "-o " + out).status, 0);
  EXPECT_EQ(FileContents(out), FileContents(In("tied.onnx")));
  // It saves a kernel of three, and would make the file twice as large.
  EXPECT_EQ(Optimize("tied.onnx", "--json --growth 3 -o " + out).Json()["rewritten"], false);
}

TEST_F(Written, TheInputItselfStays) {
  fs::create_hard_link(In("plain.onnx"), In("hard.onnx"));
  fs::create_symlink("plain.onnx", In("soft.onnx"));
  const auto before = fs::last_write_time(In("plain.onnx"));
  for (const char* name : {"plain.onnx", "hard.onnx", "soft.onnx"}) {
    const Outcome outcome = Optimize("plain.onnx", "-o " + In(name));
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr("written:  nothing: " + In(name) + " stays as it is\n"));
  }
  EXPECT_TRUE(fs::equivalent(In("plain.onnx"), In("hard.onnx")));
  EXPECT_TRUE(fs::is_symlink(In("soft.onnx")));
  EXPECT_EQ(fs::last_write_time(In("plain.onnx")), before);
  EXPECT_EQ(FileContents(In("plain.onnx")), plain_);
}

TEST_F(Written, AResultMayTakeThePlaceOfTheInputAndTheTraceStillNamesIt) {
  fs::create_hard_link(In("twice.onnx"), In("kept.onnx"));
  const Outcome outcome = Optimize("twice.onnx", "-o " + In("twice.onnx") + " --trace " + (folder_ / "t.json"));
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(FileContents(In("kept.onnx")), twice_);
  EXPECT_NE(FileContents(In("twice.onnx")), twice_);
  const Outcome blame = Rewright("blame " + (folder_ / "t.json") + " --model " + In("kept.onnx"));
  EXPECT_EQ(blame.status, 0) << blame.err;
}

TEST_F(Written, DataBesideTheModelGoesAlong) {
  const Outcome outcome = Optimize("beside.onnx", "-o " + Out("m.onnx"));
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(FileContents(Out("m.onnx")), beside_);
  EXPECT_EQ(FileContents(Out("w.bin")), "abcdefgh");
  EXPECT_EQ(Rewright("run --iterations 1 " + Out("m.onnx")).status, 0);
}

TEST_F(Written, DataThatIsInTheWayIsSaidBeforeTheSearch) {
  WriteContents(Out("w.bin"), "ABCDEFGH");
  const Outcome outcome = Optimize("beside.onnx", "-o " + Out("m.onnx") + " --rules absent.rules");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr(Out("w.bin") + " is there and holds something else"));
  EXPECT_EQ(FileContents(Out("w.bin")), "ABCDEFGH");
  EXPECT_FALSE(fs::exists(Out("m.onnx")));
  EXPECT_THAT(Optimize("beside.onnx", "-o -").err, HasSubstr("its data lies in w.bin beside it"));
}

TEST_F(Written, DataOfTheModelIsNotLost) {
  for (const char* flag : {"-o ", "--report ", "--trace ", "--log-file "}) {
    const Outcome outcome = Optimize("beside.onnx", flag + In("w.bin"));
    EXPECT_EQ(outcome.status, 2) << flag;
    EXPECT_THAT(outcome.err, HasSubstr(In("w.bin"))) << flag;
  }
  EXPECT_EQ(FileContents(In("w.bin")), "abcdefgh");
}

TEST_F(Written, StandardOutputGetsTheSameBytes) {
  EXPECT_EQ(Optimize("plain.onnx", "-o -").out, plain_);
  const Outcome dry = Optimize("twice.onnx", "");
  EXPECT_THAT(dry.out, HasSubstr("written:  nothing, without -o\n"));
  EXPECT_EQ(Optimize("twice.onnx", "--json").Json()["written"], "nothing");
}

// Costs, candidates and the file at the end are timed in onnxruntime; what it is given is half of the work.
TEST_F(Written, ForOnnxRuntimeTheFileIsTimed) {
  const std::string python = std::string(REWRIGHT_SOURCE_DIR) + "/.venv/bin/python";
  if (!fs::exists(python)) GTEST_SKIP() << "tools/python_env.sh makes " << python;
  const auto optimize = [&](const std::string& model, const std::string& out) {
    return Rewright(absl::StrCat("optimize ", In(model), " --device onnxruntime --threads 1 --dim N=200000 --quiet ",
                                 "--json --rules ", Rules(), " -o ", Out(out), " --profile ", folder_ / "p.db"));
  };
  const Outcome gained = optimize("twice.onnx", "g.onnx");
  ASSERT_EQ(gained.status, 0) << gained.err;
  auto json = gained.Json();
  EXPECT_EQ(json["written"], "rewritten") << json["verdict"];
  EXPECT_LT(json["cost_after_ms"], json["cost_before_ms"]);
  EXPECT_LT(json["latency_after_ms"], json["latency_before_ms"]);
  EXPECT_EQ(json["checked"], true);
  EXPECT_EQ(Rewright("diff --dim N=5 --device onnxruntime " + In("twice.onnx") + " " + Out("g.onnx")).status, 0);
  EXPECT_EQ(Rewright("run --dim N=7 --device onnxruntime " + Out("g.onnx")).status, 0);

  const Outcome kept = optimize("plain.onnx", "k.onnx");
  ASSERT_EQ(kept.status, 0) << kept.err;
  EXPECT_EQ(kept.Json()["written"], "input");
  EXPECT_EQ(FileContents(Out("k.onnx")), plain_);
}

TEST_F(Written, WithoutOnnxRuntimeItIsSaidAtOnce) {
  setenv("REWRIGHT_ONNXRUNTIME", "/nonexistent/libonnxruntime.so", 1);
  const Outcome outcome = Rewright("optimize " + In("twice.onnx") + " --device onnxruntime -o " + Out("n.onnx"));
  unsetenv("REWRIGHT_ONNXRUNTIME");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("/nonexistent/libonnxruntime.so"));
  EXPECT_FALSE(fs::exists(Out("n.onnx")));
}

}  // namespace
}  // namespace rewright
