// Each verb from outside: on small models, with exit statuses and JSON fields.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/onnx/onnx.h"
#include "core/tensor/npy.h"
#include "tests/core/onnx/model_util.h"
#include "tests/tools/program/program_util.h"

namespace rewright {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// One thread: the machine that runs the tests may be busy.
constexpr char kQuick[] = " --threads 1 --quiet --json ";

// Files that several tests read, made once.
class Verbs : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TemporaryFolder();
    ASSERT_EQ(Rewright("zoo mlp --layers 1 -o " + Path("mlp.onnx")).status, 0);
    ASSERT_EQ(Rewright("zoo mlp --layers 1 --seed 2 -o " + Path("other.onnx")).status, 0);
    ASSERT_EQ(Rewright("zoo mlp --layers 2 -o " + Path("deeper.onnx")).status, 0);
    ASSERT_EQ(Rewright("zoo mlp --layers 1 --batch 2 -o " + Path("batch.onnx")).status, 0);
    ASSERT_EQ(Rewright("zoo squeezenet --image-size 64 -o " + Path("deep.onnx")).status, 0);
    ASSERT_EQ(Rewright("zoo taso_nasrnn --layers 1 -o " + Path("net.onnx")).status, 0);
    WriteContents(Path("laws.rules"), kLaws);
    WriteContents(Path("false.rules"), kFalse);
    WriteContents(Path("growth.rules"), kGrowth);
    ASSERT_EQ(Rewright("verify " + Path("laws.rules") + " -o " + Path("proved.rules")).status, 0);
  }
  static void TearDownTestSuite() {
    delete folder_;
    folder_ = nullptr;
  }
  static std::string Path(const std::string& name) { return *folder_ / name; }

  // Laws that pay for a recurrent cell under the analytic cost.
  static constexpr char kLaws[] = R"(
# relu(relu(x)) = relu(x)
rule relu-twice
  relu(relu(x)) => relu(x)

# x y = (first columns of x [y z]), x z = (last columns of x [y z])
rule matmul-merge
  { matmul(x[m, k], y[k, n1]), matmul(x, z[k, n2]) }
  => split(matmul(x, concat(y, z, axis=1)), axis=1, sizes=[n1, n2])
  when n1 == n2
)";
  // With these a search has a long way to go.
  static constexpr char kGrowth[] = R"(
rule relu-again
  relu(x) => relu(relu(x))
rule relu-negative
  relu(x) => relu(neg(neg(x)))
rule relu-absolute
  relu(x) => abs(relu(x))
rule relu-identity
  relu(x) => identity(relu(x))
rule negative-again
  neg(x) => neg(neg(neg(x)))
rule negative-identity
  neg(x) => identity(neg(x))
rule absolute-again
  abs(x) => abs(abs(x))
rule absolute-negative
  abs(x) => abs(neg(x))
rule identity-again
  identity(x) => identity(identity(x))
rule identity-negative
  identity(x) => neg(neg(x))
)";
  static constexpr char kFalse[] = R"(
rule sub-exchange
  sub(x[n], y[n]) => sub(y, x)

rule sub-exchange-known
  sub(x[n], y[n]) => sub(y, x)
  expect refuted

rule add-exchange
  add(x[n], y[n]) => add(y, x)
)";

 private:
  static TemporaryFolder* folder_;
};
TemporaryFolder* Verbs::folder_ = nullptr;

// A preset has several spaces; --ops takes the first that has the operators.
TEST_F(Verbs, GenerateFindsTheSpaceOfOperators) {
  const std::string command = "generate --preset elementwise --count-only --max-ops 2 --ops ";
  EXPECT_EQ(Rewright(command + "mul,one").status, 0);
  EXPECT_THAT(Rewright(command + "nothing").err,
              AllOf(HasSubstr("expected operators of sums: add, sub"), HasSubstr("; found `nothing`, expected")));
}

TEST_F(Verbs, GenerateSaysThatRulesAreOfF32) {
  const TemporaryFolder folder;
  TestModel model;
  model.Input("x", {4}, DType::kFloat64).Node("Abs", {"x"}, {"a"}).Node("Exp", {"a"}, {"y"}).Output("y");
  WriteContents(folder / "m.onnx", model.Bytes());
  const Outcome outcome = Rewright("generate --from " + (folder / "m.onnx") + " --min-count 1 --count-only");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("--from: found values of f64, expected some of f32"));
}

TEST_F(Verbs, VerifyKnowsTheFilesOfTheProgram) {
  EXPECT_EQ(Rewright("verify core.rules --rule gelu-from-erf").status, 0);
  EXPECT_THAT(Rewright("verify none.rules").err, HasSubstr("none.rules: No such file"));
}

// ---------------------------------------------------------------- ops, zoo, inspect

TEST_F(Verbs, OpsListsAndDescribes) {
  const Outcome list = Rewright("ops");
  EXPECT_EQ(list.status, 0);
  EXPECT_THAT(list.out, AllOf(HasSubstr("matmul"), HasSubstr("conv2d"), HasSubstr("softmax")));
  const Outcome page = Rewright("ops matmul");
  EXPECT_EQ(page.status, 0);
  EXPECT_THAT(page.out, HasSubstr("sum k"));
  EXPECT_EQ(Rewright("ops matmul --json").Json()["name"], "matmul");
  EXPECT_THAT(Rewright("ops --onnx").out, AllOf(HasSubstr("Conv "), HasSubstr("Gemm ")));
}

TEST_F(Verbs, ZooListsAndWrites) {
  const Outcome list = Rewright("zoo");
  EXPECT_EQ(list.status, 0);
  EXPECT_THAT(list.out, AllOf(HasSubstr("resnet50"), HasSubstr("bert_base")));
  const TemporaryFolder folder;
  const std::string path = folder / "m.onnx";
  const Outcome outcome = Rewright("zoo mlp --layers 1 --json -o " + path);
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.Json()["output"], path);
  EXPECT_THAT(folder.Files(), ElementsAre("m.onnx"));
  // The same seed gives the same bytes.
  EXPECT_EQ(FileContents(path), FileContents(Path("mlp.onnx")));
  EXPECT_NE(FileContents(path), FileContents(Path("other.onnx")));
}

TEST_F(Verbs, InspectTellsWhatAModelHolds) {
  const Outcome outcome = Rewright("inspect --json " + Path("mlp.onnx"));
  EXPECT_EQ(outcome.status, 0);
  auto json = outcome.Json();
  EXPECT_EQ(json["inputs"][0]["shape"], (std::vector<int64_t>{1, 784}));
  EXPECT_EQ(json["outputs"][0]["shape"], (std::vector<int64_t>{1, 10}));
  EXPECT_EQ(json["operators"]["matmul"], 2);
  EXPECT_EQ(json["parameters"], 784 * 512 + 512 + 512 * 10 + 10);
  EXPECT_GT(json["flops"], 2 * (784 * 512 + 512 * 10) - 1);
  EXPECT_THAT(json["unsupported"], IsEmpty());
  EXPECT_THAT(Rewright("inspect " + Path("mlp.onnx")).out, AllOf(HasSubstr("parameters"), HasSubstr("matmul")));
}

// ---------------------------------------------------------------- run

TEST_F(Verbs, RunMeasures) {
  const Outcome outcome = Rewright("run --iterations 4 --warmup 1" + std::string(kQuick) + Path("mlp.onnx"));
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.err, IsEmpty());
  auto json = outcome.Json();
  EXPECT_EQ(json["iterations"], 4);
  EXPECT_GT(json["latency_ms"]["min"], 0);
  EXPECT_GE(json["latency_ms"]["median"], json["latency_ms"]["min"]);
  EXPECT_GE(json["latency_ms"]["p90"], json["latency_ms"]["median"]);
  EXPECT_GT(json["peak_activation_bytes"], 0);
  EXPECT_GT(json["flops"], 0);
}

TEST_F(Verbs, KernelsAreSwitchedOffByName) {
  for (const char* verb : {"run --iterations 1 --warmup 0", "optimize --time-limit 5"}) {
    const auto without = [&](const char* name) {
      return Rewright(absl::StrCat(verb, kQuick, Path("mlp.onnx"), " --disable-kernel-law ", name));
    };
    for (const char* name : {"fold", "tiles", "conv-winograd-4x4-3x3"}) EXPECT_EQ(without(name).status, 0) << name;
    const Outcome unknown = without("tile");
    EXPECT_EQ(unknown.status, 2);
    EXPECT_THAT(unknown.err, HasSubstr("found tile, expected fold, tiles or a rule of winograd.rules"));
  }
}

// Kernels are chosen by the costs that a profile has: those of laws are made dear, and then cheap.
TEST_F(Verbs, RunChoosesKernelsByTheProfile) {
  const std::string db = Path("run.db"), text = Path("run.json");
  ASSERT_EQ(Rewright("zoo squeezenet -o " + Path("full.onnx")).status, 0);
  const std::string run = absl::StrCat("run ", Path("full.onnx"), kQuick, "--iterations 1 --warmup 0 --profile ", db);
  ASSERT_EQ(Rewright(run).status, 0);
  const std::string carry = absl::StrCat("profile --profile ", db, kQuick);
  ASSERT_EQ(Rewright(absl::StrCat(carry, "--export ", text)).status, 0);
  const nlohmann::json measured = nlohmann::json::parse(FileContents(text));
  for (const bool cheap : {false, true}) {
    nlohmann::json costs = measured;
    costs["entries"] = nlohmann::json::array();
    for (nlohmann::json entry : measured["entries"]) {
      const std::string kept = entry["signature"];
      absl::string_view signature = kept;
      if (!absl::ConsumeSuffix(&signature, " briefly")) continue;
      const bool by_law = absl::StrContains(signature, " by conv-winograd");
      entry["signature"] = std::string(signature);
      entry["fastest"] = entry["median"] = by_law == cheap ? 1e-6 : 1.0;
      costs["entries"].push_back(entry);
    }
    if (costs["entries"].empty()) GTEST_SKIP() << "no law is allowed on this processor";
    WriteContents(text, costs.dump());
    ASSERT_EQ(Rewright(absl::StrCat(carry, "--import ", text)).status, 0);
    EXPECT_EQ(Rewright(run).Json()["laws"].empty(), !cheap);
  }
}

TEST_F(Verbs, RunTakesInputsAndWritesOutputs) {
  const TemporaryFolder folder;
  const Tensor input = Tensor::FromVector(DType::kFloat32, {1, 784}, std::vector<float>(784, 0.25f));
  ASSERT_TRUE(SaveNpy(folder / "x.npy", input).ok());
  for (const char* device : {"cpu", "reference"}) {
    const Outcome outcome =
        Rewright("run --iterations 1 --device " + std::string(device) + kQuick + "--input input=" + (folder / "x.npy") +
                 " --output-dir " + (folder / device) + " " + Path("mlp.onnx"));
    ASSERT_EQ(outcome.status, 0) << outcome.err;
  }
  const auto cpu = LoadTensorFile(folder / "cpu/output.npy");
  const auto reference = LoadTensorFile(folder / "reference/output.npy");
  ASSERT_TRUE(cpu.ok() && reference.ok()) << cpu.status() << reference.status();
  ASSERT_EQ(cpu->num_elements(), 10);
  for (int64_t i = 0; i < 10; ++i) EXPECT_NEAR(cpu->At(i), reference->At(i), 1e-4);
}

TEST_F(Verbs, RunRefusesInputsThatDoNotFit) {
  const TemporaryFolder folder;
  ASSERT_TRUE(SaveNpy(folder / "x.npy", Tensor::Int64s({1, 2})).ok());
  const std::string run = "run " + Path("mlp.onnx") + " --input ";
  const Outcome type = Rewright(run + "input=" + (folder / "x.npy"));
  EXPECT_EQ(type.status, 2);
  EXPECT_THAT(type.err, HasSubstr("holds i64[2], expected f32[1,784] for input input"));
  const Outcome name = Rewright(run + "inptu=" + (folder / "x.npy"));
  EXPECT_EQ(name.status, 2);
  EXPECT_THAT(name.err, HasSubstr("has no input `inptu`, its inputs are input; did you mean `input`?"));
  WriteContents(folder / "bad.npy", "not numpy");
  const Outcome bad = Rewright(run + "input=" + (folder / "bad.npy"));
  EXPECT_EQ(bad.status, 2);
  EXPECT_THAT(bad.err, HasSubstr("bad.npy"));
  const Outcome missing = Rewright(run + "input=" + (folder / "missing.npy"));
  EXPECT_EQ(missing.status, 2);
  EXPECT_THAT(missing.err, HasSubstr("missing.npy"));
}

TEST_F(Verbs, AFileThatIsNoModelIsBadInput) {
  const TemporaryFolder folder;
  WriteContents(folder / "m.onnx", "this is no model");
  for (const char* verb : {"run ", "inspect ", "optimize -o /tmp/never.onnx "}) {
    const Outcome outcome = Rewright(verb + (folder / "m.onnx"));
    EXPECT_EQ(outcome.status, 2) << verb << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("m.onnx"));
  }
}

// ---------------------------------------------------------------- diff

TEST_F(Verbs, DiffOfAModelWithItself) {
  const Outcome outcome = Rewright("diff" + std::string(kQuick) + Path("mlp.onnx") + " " + Path("mlp.onnx"));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  auto json = outcome.Json();
  EXPECT_EQ(json["same_structure"], true);
  EXPECT_EQ(json["equal"], true);
  EXPECT_EQ(json["max_abs_diff"], 0);
}

TEST_F(Verbs, DiffNamesTheWorstElement) {
  const Outcome outcome = Rewright("diff --threads 1 " + Path("mlp.onnx") + " " + Path("other.onnx"));
  EXPECT_EQ(outcome.status, 1) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("structure: the same"), HasSubstr("outputs:   different"),
                                 HasSubstr("worst:     output output [0,")));
}

TEST_F(Verbs, DiffCountsOperators) {
  const Outcome outcome = Rewright("diff" + std::string(kQuick) + Path("mlp.onnx") + " " + Path("deeper.onnx"));
  EXPECT_EQ(outcome.status, 1) << outcome.err;
  EXPECT_EQ(outcome.Json()["operators_changed"]["matmul"], (std::vector<int>{2, 3}));
  const Outcome shapes = Rewright("diff " + Path("mlp.onnx") + " " + Path("batch.onnx"));
  EXPECT_EQ(shapes.status, 1);
  EXPECT_THAT(shapes.out, HasSubstr("input input: f32[1,784] and f32[2,784]"));
}

// ---------------------------------------------------------------- verify

TEST_F(Verbs, VerifyProves) {
  const Outcome outcome = Rewright("verify --json " + Path("laws.rules"));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  auto json = outcome.Json();
  EXPECT_EQ(json["proved"], 2);
  EXPECT_EQ(json["refuted"], 0);
  EXPECT_EQ(json["unknown"], 0);
  EXPECT_GT(json["cpu_seconds"], 0);
  EXPECT_EQ(json["rules"][0]["name"], "relu-twice");
  EXPECT_EQ(json["rules"][0]["verdict"], "proved");
  EXPECT_EQ(json["rules"][0]["class"], "exact");
  EXPECT_EQ(json["rules"][1]["conditions"], "n1 == n2");
  EXPECT_THAT(json["rules"][1]["domain"].get<std::string>(), HasSubstr("ranks to 6"));
}

TEST_F(Verbs, VerifyRefutesWithAWitness) {
  const Outcome outcome = Rewright("verify --json " + Path("false.rules"));
  EXPECT_EQ(outcome.status, 1) << outcome.err;
  auto json = outcome.Json();
  EXPECT_EQ(json["refuted"], 2);
  EXPECT_EQ(json["proved"], 1);
  EXPECT_EQ(json["unexpected"], 1);
  EXPECT_EQ(json["rules"][0]["verdict"], "refuted");
  EXPECT_THAT(json["rules"][0]["witness"].get<std::string>(), Not(IsEmpty()));
}

TEST_F(Verbs, AnExpectedRefutationIsSuccess) {
  EXPECT_EQ(Rewright("verify --rule sub-exchange-known " + Path("false.rules")).status, 0);
  EXPECT_EQ(Rewright("verify --rule sub-exchange " + Path("false.rules")).status, 1);
}

TEST_F(Verbs, VerifyNamesThePlaceOfAnError) {
  const TemporaryFolder folder;
  WriteContents(folder / "bad.rules", "rule x\n  relu(x => x\n");
  const Outcome outcome = Rewright("verify " + (folder / "bad.rules"));
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("bad.rules:2:"));
  const Outcome name = Rewright("verify --rule relu-twise " + Path("laws.rules"));
  EXPECT_EQ(name.status, 2);
  EXPECT_THAT(name.err, HasSubstr("has no rule `relu-twise`; did you mean `relu-twice`?"));
}

// ---------------------------------------------------------------- derive

TEST_F(Verbs, DeriveTellsWhatFollows) {
  const TemporaryFolder folder;
  WriteContents(folder / "goals.rules",
                "rule thrice relu(relu(relu(x))) => relu(x)\nrule negation neg(neg(x[n])) => x\n");
  const std::string command = "derive --rules " + Path("proved.rules") + " --goals " + (folder / "goals.rules");
  const Outcome outcome = Rewright(command + " --json");
  EXPECT_EQ(outcome.status, 1) << outcome.err;
  auto json = outcome.Json();
  EXPECT_EQ(json["goals"], 2);
  EXPECT_EQ(json["derived"], 1);
  EXPECT_EQ(json["missing"], nlohmann::json::array({"negation"}));
  EXPECT_EQ(json["derivations"][0]["instances"], 3);
  EXPECT_THAT(Rewright(command).out, HasSubstr("1 of 2 goals derived from 2 rules"));
  EXPECT_EQ(Rewright("derive --rules " + Path("proved.rules") + " --goals " + Path("laws.rules")).status, 0);
  EXPECT_THAT(Rewright("derive --rules " + Path("laws.rules") + " --goals " + Path("laws.rules")).err,
              HasSubstr("is not proved"));
}

// ---------------------------------------------------------------- optimize

TEST_F(Verbs, OptimizeWritesACheckedModel) {
  const TemporaryFolder folder;
  const std::string out = folder / "out.onnx";
  const Outcome outcome = Rewright("optimize --cost analytic:v100 --budget 50 --rules " + Path("proved.rules") +
                                   " --trace " + (folder / "trace.json") + kQuick + Path("net.onnx") + " -o " + out);
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.err, IsEmpty());
  auto json = outcome.Json();
  EXPECT_LE(json["nodes_after"], json["nodes_before"]);  // two products become one and a split
  EXPECT_LT(json["cost_after_ms"], json["cost_before_ms"]);
  EXPECT_FALSE(json.contains("latency_before_ms"));
  EXPECT_EQ(json["equal"], true);
  EXPECT_EQ(json["checked"], true);
  for (const char* field :
       {"max_abs_diff", "max_rel_diff", "search_cpu_seconds", "graphs_explored", "peak_rss_bytes"}) {
    EXPECT_TRUE(json[field].is_number()) << field;
  }
  ASSERT_EQ(json["rewrites"].size(), 1u);
  EXPECT_EQ(json["rewrites"][0]["rule"], "matmul-merge");
  EXPECT_GT(json["rewrites"][0]["count"], 0);
  EXPECT_THAT(folder.Files(), ElementsAre("out.onnx", "trace.json"));
  const auto trace = nlohmann::json::parse(FileContents(folder / "trace.json"));
  EXPECT_EQ(trace["path"].size(), json["rewrites"][0]["count"]);
  EXPECT_EQ(Rewright("diff" + std::string(kQuick) + Path("net.onnx") + " " + out).status, 0);
}

// Not that of the process that started the program.
TEST_F(Verbs, OptimizeTellsItsOwnPeakOfMemory) {
  const std::string large(size_t{400} << 20, 'x');
  const Outcome outcome = RewrightScript("exec $program optimize --json --cost analytic:v100 --no-check --no-prove " +
                                         Path("mlp.onnx") + " >$out 2>$err </dev/null");
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(large.back(), 'x');
  const int64_t peak = outcome.Json()["peak_rss_bytes"];
  EXPECT_GT(peak, 5 << 20);
  EXPECT_LT(peak, static_cast<int64_t>(large.size() / 2));
}

TEST_F(Verbs, OptimizeMeasures) {
  const TemporaryFolder folder;
  const Outcome outcome =
      Rewright("optimize --budget 3 --search greedy --rules " + Path("proved.rules") + kQuick + "--profile " +
               (folder / "costs.db") + " " + Path("net.onnx") + " -o " + (folder / "out.onnx"));
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  auto json = outcome.Json();
  EXPECT_GT(json["cost_before_ms"], 0);
  EXPECT_EQ(json["equal"], true);
  EXPECT_THAT(folder.Files(), Not(IsEmpty()));
}

TEST_F(Verbs, OptimizeRefusesUnprovedRules) {
  const TemporaryFolder folder;
  const std::string optimize = "optimize --cost analytic:v100 --budget 2 --rules " + Path("laws.rules") + " " +
                               Path("mlp.onnx") + " -o " + (folder / "out.onnx");
  const Outcome outcome = Rewright(optimize);
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("is not proved"));
  EXPECT_THAT(folder.Files(), IsEmpty());
  EXPECT_EQ(Rewright(optimize + " --trust-unverified").status, 0);
}

TEST_F(Verbs, OptimizeLeavesRulesOut) {
  const TemporaryFolder folder;
  const std::string optimize = "optimize --cost analytic:v100 --budget 20 --rules " + Path("proved.rules") + kQuick +
                               Path("net.onnx") + " -o " + (folder / "out.onnx");
  const Outcome outcome = Rewright(optimize + " --disable-rule matmul-merge");
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.Json()["rewrites"], IsEmpty());
  const Outcome unknown = Rewright(optimize + " --disable-rule matmul-merg");
  EXPECT_EQ(unknown.status, 2);
  EXPECT_THAT(unknown.err, HasSubstr("matmul-merg"));
}

// net.onnx has two products that share a factor, which one law of the default set merges and none of laws.rules.
TEST_F(Verbs, RulesThatComeWithTheProgramAreFoundByName) {
  const TemporaryFolder folder;
  const std::string optimize = "optimize --cost analytic:v100-roofline --budget 20 --no-check" + std::string(kQuick) +
                               Path("net.onnx") + " -o " + (folder / "out.onnx") + " --rules ";
  const Outcome core = Rewright(optimize + "core.rules"), laws = Rewright(optimize + "laws.rules");
  ASSERT_EQ(core.status, 0) << core.err;
  ASSERT_EQ(laws.status, 0) << laws.err;
  EXPECT_NE(core.Json()["rewrites"], laws.Json()["rewrites"]);
  const Outcome none = Rewright(optimize + "no.rules");
  EXPECT_EQ(none.status, 2);
  EXPECT_THAT(none.err, HasSubstr("no.rules: No such file"));
  // The ending may be left out.
  EXPECT_EQ(Rewright(optimize + "laws").Json()["rewrites"], laws.Json()["rewrites"]);
}

// No build makes TASO's set.
TEST_F(Verbs, TheErrorOfASetThatIsNotThereSaysHowItIsMade) {
  for (const char* name : {"taso", "taso.rules"}) {
    const Outcome outcome =
        Rewright("optimize --rules " + std::string(name) + " " + Path("net.onnx") + " -o /tmp/x.onnx");
    EXPECT_EQ(outcome.status, 2);
    EXPECT_THAT(outcome.err, HasSubstr(std::string(name) + ": this set has not been made; "
                                                           "`rewright generate --preset taso -o taso.rules` makes it"));
  }
}

TEST_F(Verbs, OptimizeRefusesBadOutputsBeforeItStarts) {
  const std::string optimize = "optimize " + Path("mlp.onnx") + " -o ";
  for (const char* out : {"/", "/nonexistent/x.onnx", "/dev/null/x.onnx", "''"}) {
    EXPECT_EQ(Rewright(optimize + out).status, 2) << out;
  }
  EXPECT_THAT(Rewright(optimize + "/tmp/never.onnx --rules /nonexistent.rules").err, HasSubstr("/nonexistent.rules"));
}

TEST_F(Verbs, OptimizeRefusesAProfileThatIsNone) {
  const TemporaryFolder folder;
  WriteContents(folder / "costs.db", std::string(5000, 'x'));
  const Outcome outcome = Rewright("optimize " + Path("mlp.onnx") + " --profile " + (folder / "costs.db"));
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr(folder / "costs.db"), HasSubstr("not a database")));
}

TEST_F(Verbs, AnInterruptedSearchEndsWithTheBestSoFar) {
  const TemporaryFolder folder;
  const std::string out = folder / "out.onnx";
  const Outcome outcome = RewrightInterrupted(
      "optimize --cost analytic:v100 --alpha 1000 --budget 1000000000 --json --trust-unverified "
      "--rules " +
          Path("growth.rules") + " " + Path("deep.onnx") + " -o " + out,
      "searching");
  ASSERT_EQ(outcome.status, 130) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("interrupted"));
  auto json = outcome.Json();
  EXPECT_EQ(json["search_end"], "stopped");
  EXPECT_EQ(json["equal"], true);
  // The rules only add to the graph: the input comes back.
  EXPECT_EQ(json["written"], "input");
  EXPECT_EQ(FileContents(out), FileContents(Path("deep.onnx")));
  EXPECT_THAT(folder.Files(), ElementsAre("out.onnx"));
}

TEST_F(Verbs, AnInterruptEndsWithItsStatus) {
  const TemporaryFolder folder;
  for (const std::string& endless : {
           "run --iterations 1000000 " + Path("mlp.onnx"),
           "compare --no-peers --warmup 1000000 " + Path("mlp.onnx"),
           "generate --preset taso -o " + (folder / "found.rules"),
       }) {
    const Outcome outcome = RewrightInterruptedAfter(endless + " --threads 1", 1);
    EXPECT_EQ(outcome.status, 130) << endless << ": " << outcome.err;
    EXPECT_THAT(outcome.err, Not(HasSubstr("error"))) << endless;
  }
}

}  // namespace
}  // namespace rewright
