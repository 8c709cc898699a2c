// The program, the library and Python optimize by one pipeline: the same file, verdict and proof for the same model and
// settings. Costs are calculated, so that nothing depends on the machine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "rewright/rewright.h"
#include "tests/core/onnx/model_util.h"
#include "tests/tools/program/program_util.h"

namespace rewright {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// Flags of the verb, and the same as settings by the names of the library for Python.
struct Asked {
  std::map<std::string, int64_t> dims;
  std::string cost = "analytic:v100";
  std::string rules;  // a file; empty: the shipped ones
  int64_t budget = 200;
};

struct Told {
  bool rewritten = false;
  std::string verdict, proof, file;
};

class OnePipeline : public ::testing::Test {
 protected:
  std::string Zoo(const std::string& architecture) const {
    const std::string path = folder_ / "zoo.onnx";
    EXPECT_EQ(Rewright(absl::StrCat("zoo ", architecture, " -o ", path)).status, 0);
    return path;
  }
  std::string Saved(const TestModel& model) const {
    WriteContents(folder_ / "model.onnx", model.Bytes());
    return folder_ / "model.onnx";
  }
  std::string Proved(const std::string& rules) const {
    WriteContents(folder_ / "laws.rules", rules);
    EXPECT_EQ(
        Rewright(absl::StrCat("verify --quiet ", folder_ / "laws.rules", " -o ", folder_ / "proved.rules")).status, 0);
    return folder_ / "proved.rules";
  }

  Told ByProgram(const std::string& model, const Asked& asked) const {
    const std::string out = folder_ / "program.onnx";
    std::string command = absl::StrCat("optimize ", model, " --json --proof-limit 1000 --cost ", asked.cost,
                                       " --budget ", asked.budget, " -o ", out);
    for (const auto& [name, size] : asked.dims) absl::StrAppend(&command, " --dim '", name, "=", size, "'");
    if (!asked.rules.empty()) absl::StrAppend(&command, " --rules ", asked.rules);
    const Outcome outcome = Rewright(command);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    nlohmann::json json = outcome.Json();
    const std::string proof = json.contains("proof") ? json["proof"]["text"].get<std::string>() : "";
    return {json["rewritten"], json["verdict"], proof, FileContents(out)};
  }

  Told ByLibrary(Model model, const Asked& asked) const {
    OptimizeSettings settings;
    settings.cost = asked.cost;
    settings.budget = asked.budget;
    settings.proof_limit_seconds = 1000;
    if (!asked.rules.empty()) settings.rules = {asked.rules};
    const OptimizeSummary summary = model.Optimize(settings);
    model.Save(folder_ / "library.onnx");
    EXPECT_EQ(summary.proved, summary.proof.substr(0, 6) == "proved") << summary.proof;
    return {summary.rewritten, summary.verdict, summary.proof, FileContents(folder_ / "library.onnx")};
  }

  Told ByPython(const std::string& python, const std::string& model, const Asked& asked) const {
    nlohmann::json settings = {{"cost", asked.cost}, {"budget", asked.budget}, {"proof_limit_seconds", 1000.0}};
    if (!asked.rules.empty()) settings["rules"] = {asked.rules};
    WriteContents(folder_ / "asked.json", nlohmann::json{{"dims", asked.dims}, {"settings", settings}}.dump());
    const std::string out = folder_ / "python.onnx";
    const Outcome outcome = RewrightScript(absl::StrCat("PYTHONPATH=", REWRIGHT_BINARY_DIR, "/python ", python, " ",
                                                        REWRIGHT_SOURCE_DIR, "/tests/tools/optimize_in_python.py ",
                                                        model, " ", folder_ / "asked.json", " ", out, " >$out 2>$err"));
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    nlohmann::json json = outcome.Json();
    return {json["rewritten"], json["verdict"], json["proof"], FileContents(out)};
  }

  static void ExpectSame(const std::string& who, const Told& told, const Told& expected) {
    EXPECT_EQ(told.rewritten, expected.rewritten) << who;
    EXPECT_EQ(told.verdict, expected.verdict) << who;
    EXPECT_EQ(told.proof, expected.proof) << who;
    EXPECT_TRUE(told.file == expected.file) << who << ": another file";
  }

  // Optimizes by all three, which agree; gives what they say.
  Told Optimized(const std::string& model, const Asked& asked = {}) const {
    Told told = ByProgram(model, asked);
    ModelOptions options;
    options.dims = asked.dims;
    ExpectSame("a file in the library", ByLibrary(Model::Load(model, options), asked), told);
    const std::string bytes = FileContents(model);
    ExpectSame("bytes in the library", ByLibrary(Model::FromBytes(bytes.data(), bytes.size(), options), asked), told);
    const std::string python = absl::StrCat(REWRIGHT_SOURCE_DIR, "/.venv/bin/python");
    const bool there = std::filesystem::exists(python) &&
                       std::filesystem::exists(absl::StrCat(REWRIGHT_BINARY_DIR, "/python/rewright/__init__.py"));
    if (there) ExpectSame("Python", ByPython(python, model, asked), told);
    return told;
  }

  const TemporaryFolder folder_;
};

TEST_F(OnePipeline, OfAConvolutionalNetwork) {
  TestModel model;
  model.Input("x", {1, 3, 12, 12}).Initializer("w", Iota({4, 3, 3, 3})).Initializer("s", Iota({1, 4, 1, 1}));
  model.Node("Conv", {"x", "w"}, {"c"}, {{"pads", std::vector<int64_t>{1, 1, 1, 1}}});
  model.Node("Mul", {"c", "s"}, {"m"}).Node("Relu", {"m"}, {"r"}).Node("Relu", {"r"}, {"y"}).Output("y");
  const Told told = Optimized(Saved(model));
  EXPECT_TRUE(told.rewritten) << told.verdict;
  EXPECT_THAT(told.proof, StartsWith("proved equal as a whole ("));
}

TEST_F(OnePipeline, OfATransformer) {
  const Told told = Optimized(Zoo("gpt2_small --layers 1 --sequence-length 16 --width 128"));
  EXPECT_TRUE(told.rewritten) << told.verdict;
  EXPECT_THAT(told.proof, StartsWith("proved equal as a whole ("));
}

// Past is 1 unless it is given, and so total is 2.
TEST_F(OnePipeline, OfNamedSizes) {
  TestModel model;
  model.SymbolicInput("x", {"batch", "past"}).SymbolicInput("m", {"batch", "past + 1"}).SymbolicInput("k", {"batch"});
  model.Ints("axes", {1}).Node("Unsqueeze", {"k", "axes"}, {"u"}).Node("Concat", {"x", "u"}, {"t"}, {{"axis", 1L}});
  model.Node("Add", {"t", "m"}, {"s"}).Node("Relu", {"s"}, {"r"}).Node("Relu", {"r"}, {"y"}).Output("y");
  const std::string path = Saved(model);
  for (const std::map<std::string, int64_t>& dims :
       {std::map<std::string, int64_t>{}, {{"batch", 3}}, {{"batch", 3}, {"past", 4}, {"past + 1", 5}}}) {
    const Told told = Optimized(path, {.dims = dims});
    EXPECT_TRUE(told.rewritten) << told.verdict;
    EXPECT_THAT(told.file, HasSubstr("batch"));
  }
}

// The search lets weights grow by a kilobyte. The scaled copy of the weight takes as much, and its name some more.
TEST_F(OnePipeline, WhereTheFileWouldBeLarger) {
  TestModel model;
  model.Input("x", {8, 16}).Initializer("w", Iota({16, 16})).Initializer("c", Tensor::Scalar(DType::kFloat32, 2));
  model.Node("MatMul", {"x", "w"}, {"l"}).Node("Mul", {"l", "c"}, {"p"}).Node("MatMul", {"p", "w"}, {"y"});
  model.Node("Mul", {"x", "c"}, {"z"}).Output("y").Output("z");
  const std::string path = Saved(model);
  const std::string rules =
      Proved("rule absorb-scale mul(matmul(x[m, k], y[k, n]), 2) => matmul(x, mul(y, 2)) when weight(y)\n");
  const Told told = Optimized(path, {.rules = rules});
  EXPECT_FALSE(told.rewritten);
  EXPECT_THAT(told.verdict, HasSubstr("% larger, and is "));
  EXPECT_EQ(told.file, FileContents(path));
  EXPECT_EQ(told.proof, "");
}

TEST_F(OnePipeline, WhereNextToNothingIsGained) {
  const std::string path = Zoo("squeezenet --image-size 64");
  const Told told = Optimized(path, {.cost = "analytic:zen3", .budget = 1000});
  EXPECT_THAT(told.verdict, HasSubstr("the original: no rewrite makes it cheaper"));
  EXPECT_EQ(told.file, FileContents(path));
}

// A file does not tell all graphs apart.
TEST_F(OnePipeline, WhereTheFileWouldBeTheInput) {
  const std::string once = folder_ / "once.onnx";
  TestModel model;
  model.Input("x", {4, 4}).Node("Relu", {"x"}, {"h"}).Node("Relu", {"h"}, {"y"}).Output("y");
  ASSERT_TRUE(Optimized(Saved(model)).rewritten);
  std::filesystem::copy_file(folder_ / "program.onnx", once);
  EXPECT_EQ(Optimized(once).file, FileContents(once));
}

TEST_F(OnePipeline, ProvesItsResultUnlessToldNotTo) {
  const std::string model = Zoo("gpt2_small --layers 1 --sequence-length 16 --width 128"), page = folder_ / "a.html";
  const std::string command = "optimize " + model + " --cost analytic:v100 --budget 50 --no-check --quiet --threads 1";
  const Outcome outcome = Rewright(command + " --json --report " + page);
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.Json()["proof"]["answer"], "proved") << outcome.out;
  EXPECT_THAT(Rewright(command).out, HasSubstr("proved equal as a whole ("));
  EXPECT_THAT(FileContents(page), HasSubstr("proved equal as a whole ("));
  EXPECT_FALSE(Rewright(command + " --json --no-prove").Json().contains("proof"));
  Model loaded = Model::Load(model);
  OptimizeSettings settings;
  settings.cost = "analytic:v100";
  settings.budget = 50;
  settings.check = settings.prove = false;
  const OptimizeSummary summary = loaded.Optimize(settings);
  EXPECT_TRUE(summary.rewritten);
  EXPECT_FALSE(summary.proved);
  EXPECT_EQ(summary.proof, "");
}

}  // namespace
}  // namespace rewright
