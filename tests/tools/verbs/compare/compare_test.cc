// Contests between programs, and profiles of models, from outside.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>

#include "absl/strings/str_cat.h"
#include "tests/tools/program/program_util.h"

namespace rewright {
namespace {

using ::testing::HasSubstr;

constexpr char kQuick[] = " --threads 1 --quiet --json ";

class CompareTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(Rewright("zoo mlp --layers 1 -o " + Path("mlp.onnx")).status, 0);
    ASSERT_EQ(Rewright("zoo taso_nasrnn --layers 1 -o " + Path("net.onnx")).status, 0);
  }
  std::string Path(const std::string& name) const { return folder_ / name; }

  // A program that stands in for Python: it gets peers.py and its arguments, and does what `script` says.
  std::string Python(const std::string& script) const {
    WriteContents(Path("python"),
                  "#!/bin/bash\n# $1: peers.py, $2: kind, $3: model, $4: folder, $5: threads\n" + script);
    chmod(Path("python").c_str(), 0755);
    setenv("REWRIGHT_PYTHON", Path("python").c_str(), 1);
    return Path("python");
  }
  void TearDown() override { unsetenv("REWRIGHT_PYTHON"); }

  TemporaryFolder folder_;
};

TEST_F(CompareTest, TimesGraphsInOneTable) {
  const Outcome outcome = Rewright("compare --no-peers --iterations 7 --budget 20 --csv " + Path("t.csv") + kQuick +
                                   Path("mlp.onnx") + " " + Path("net.onnx"));
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  auto json = outcome.Json();
  ASSERT_EQ(json["models"].size(), 2u);
  for (const auto& model : json["models"]) {
    ASSERT_EQ(model["rows"].size(), 3u);
    EXPECT_EQ(model["rows"][0]["name"], "original");
    EXPECT_EQ(model["rows"][1]["name"], "baseline");
    EXPECT_EQ(model["rows"][2]["name"], "optimized");
    EXPECT_EQ(model["rows"][0]["over_original"]["speedup"], 1);
    for (const auto& row : model["rows"]) {
      EXPECT_GT(row["median_ms"], 0);
      EXPECT_GE(row["median_ms"], row["min_ms"]);
      EXPECT_EQ(row["equal"], true);
      EXPECT_LE(row["over_baseline"]["wins"].get<int>() + row["over_baseline"]["losses"].get<int>(), 7);
    }
  }
  const std::string csv = FileContents(Path("t.csv"));
  EXPECT_THAT(csv, HasSubstr("model,contestant,median_ms"));
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 7);
  EXPECT_THAT(csv, HasSubstr("\nnet,baseline,"));
}

// More is faster throughout, and the longest bar is the fastest one's.
TEST_F(CompareTest, DrawsBarsOfSpeeds) {
  Python(R"([ "$2" = torch ] || { echo absent; exit; }
echo ready 1.0
while read -r line; do
  [ $line = run ] && echo ms 500000 || { cp "$4/0.npy" "$4/torch-0.npy"; echo saved 1; }
done
)");
  const Outcome outcome = Rewright("compare --iterations 2 --budget 1 --threads 1 --quiet " + Path("mlp.onnx"));
  EXPECT_THAT(outcome.out, HasSubstr("times as fast as the original, as the baseline: more is faster"));
  EXPECT_THAT(outcome.out, ::testing::ContainsRegex("\n  original .* 1.00 x  ####"));
  EXPECT_THAT(outcome.out, ::testing::ContainsRegex("\n  [a-z]* .*x  ############ "));
  EXPECT_THAT(outcome.out, ::testing::ContainsRegex("\n  torch  .* 0.00 x  [^#]* DIFFER"));
}

TEST_F(CompareTest, NamesPeersThatAreAbsent) {
  Python("echo 'absent there is no such thing'\n");
  const auto rows =
      Rewright("compare --iterations 1 --budget 1" + std::string(kQuick) + Path("mlp.onnx")).Json()["models"][0];
  EXPECT_EQ(rows["rows"].size(), 3u);
  ASSERT_EQ(rows["absent"].size(), 10u);
  EXPECT_EQ(rows["absent"][0]["name"], "onnxruntime-disabled");
  EXPECT_EQ(rows["absent"][0]["reason"], "there is no such thing");
  EXPECT_EQ(rows["absent"][8]["name"], "onnxruntime-optimized");

  Python("exit 1\n");
  const auto dead =
      Rewright("compare --iterations 1 --budget 1" + std::string(kQuick) + Path("mlp.onnx")).Json()["models"][0];
  EXPECT_THAT(dead["absent"][0]["reason"].get<std::string>(), HasSubstr("ended without an answer"));

  setenv("REWRIGHT_PYTHON", "/nonexistent/python", 1);
  const Outcome none = Rewright("compare --iterations 1 --budget 1" + std::string(kQuick) + Path("mlp.onnx"));
  EXPECT_EQ(none.status, 0) << none.err;
  EXPECT_EQ(none.Json()["models"][0]["absent"].size(), 10u);
}

TEST_F(CompareTest, AnInterruptBeforeTheFirstRoundGivesNoTable) {
  Python("kill -INT $PPID; exit 1");
  const Outcome outcome = Rewright("compare --peer torch --budget 20" + std::string(kQuick) + Path("mlp.onnx"));
  EXPECT_NE(outcome.status, 0);
  EXPECT_THAT(outcome.err, HasSubstr("interrupted before each had a round"));
}

TEST_F(CompareTest, HoldsPeersToTheOutputsAndTimesThemInTurns) {
  // It gives its input for the output.
  Python(absl::StrCat(R"(
[ "$2" = torch ] || { echo absent; exit; }
echo ready 1.0
while read -r line; do
  case $line in
    run) echo >> )",
                      Path("runs"), R"(; echo ms 2.5 ;;
    outputs) cp "$4/0.npy" "$4/torch-0.npy"; echo saved 1 ;;
  esac
done
)"));
  const Outcome outcome = Rewright("compare --iterations 2 --budget 1" + std::string(kQuick) + Path("mlp.onnx"));
  EXPECT_EQ(outcome.status, 1) << outcome.err;
  const auto row = outcome.Json()["models"][0]["rows"][3];
  EXPECT_EQ(row["name"], "torch");
  EXPECT_EQ(row["text"], "1.0");
  EXPECT_EQ(row["median_ms"], 2.5);
  EXPECT_EQ(row["equal"], false);
  // A turn is 20 ms of runs, behind one that is not counted.
  std::ifstream runs(Path("runs"));
  EXPECT_GE(std::count(std::istreambuf_iterator<char>(runs), {}, '\n'), 2 * (1 + 8));
}

TEST_F(CompareTest, RunsOnnxRuntimeWhereItIsInstalled) {
  const std::string python = std::string(REWRIGHT_SOURCE_DIR) + "/.venv/bin/python";
  struct stat found;
  if (stat(python.c_str(), &found) != 0) GTEST_SKIP() << "tools/python_env.sh makes " << python;
  Python("[ \"$2\" = onnxruntime-basic ] || { echo absent; exit; }\nexec " + python + " \"$@\"\n");
  const Outcome outcome = Rewright("compare --iterations 3 --budget 1" + std::string(kQuick) + Path("net.onnx"));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  const auto rows = outcome.Json()["models"][0]["rows"];
  ASSERT_EQ(rows.size(), 4u) << outcome.out;
  EXPECT_THAT(rows[3]["text"].get<std::string>(), HasSubstr("onnxruntime "));
  EXPECT_GT(rows[3]["median_ms"], 0);
  EXPECT_EQ(rows[3]["equal"], true);
}

// Our own module has no Elu.
TEST_F(CompareTest, TorchTakesOtherOperatorsByOnnx2Torch) {
  const std::string python = std::string(REWRIGHT_SOURCE_DIR) + "/.venv/bin/python";
  Python("[ \"$2\" = torch ] || { echo absent; exit; }\nexec " + python + " \"$@\"\n");
  RewrightScript(python + R"( -c 'import onnx, onnx.parser
text = "<ir_version: 8, opset_import: [\"\" : 17]> g (float[2,3] x) => (float[2,3] y) { y = Elu(x) }"
onnx.save(onnx.parser.parse_model(text), ")" +
                 Path("elu.onnx") + "\")'");
  const Outcome outcome = Rewright("compare --iterations 1 --budget 1" + std::string(kQuick) + Path("elu.onnx"));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  const auto model = outcome.Json()["models"][0];
  if (model["rows"].size() == 3) GTEST_SKIP() << model["absent"];  // there is no torch, or no onnx2torch
  EXPECT_THAT(model["rows"][3]["text"].get<std::string>(), HasSubstr("by onnx2torch"));
  EXPECT_EQ(model["rows"][3]["equal"], true);
}

TEST_F(CompareTest, RunsOpenVinoWhereItIsInstalled) {
  const std::string python = std::string(REWRIGHT_SOURCE_DIR) + "/.venv/bin/python";
  Python("case $2 in openvino) ;; *) echo absent; exit ;; esac\nexec " + python + " \"$@\"\n");
  const Outcome outcome = Rewright("compare --iterations 3 --budget 1" + std::string(kQuick) + Path("net.onnx"));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  const auto model = outcome.Json()["models"][0];
  if (model["absent"][4]["name"] == "openvino") GTEST_SKIP() << model["absent"][4]["reason"];
  ASSERT_EQ(model["rows"].size(), 5u) << outcome.out;
  EXPECT_THAT(model["rows"][3]["text"].get<std::string>(), HasSubstr("openvino "));
  EXPECT_EQ(model["rows"][3]["equal"], true);
  EXPECT_EQ(model["rows"][4]["name"], "openvino-optimized");
  EXPECT_EQ(model["rows"][4]["equal"], true);
}

// Products of one operand become one: the file that onnxruntime gets has fewer.
TEST_F(CompareTest, RunsOnnxRuntimeOnTheOptimizedFile) {
  const std::string python = std::string(REWRIGHT_SOURCE_DIR) + "/.venv/bin/python";
  struct stat found;
  if (stat(python.c_str(), &found) != 0) GTEST_SKIP() << "tools/python_env.sh makes " << python;
  Python("[ \"$2\" = onnxruntime-all ] || { echo absent; exit; }\ncp \"$3\" " + Path("run-$(basename $3)") + "\nexec " +
         python + " \"$@\"\n");
  ASSERT_EQ(Rewright("optimize -o " + Path("net.opt.onnx") + kQuick + Path("net.onnx")).status, 0);
  const Outcome outcome =
      Rewright("compare --iterations 3 --optimized " + Path("net.opt.onnx") + kQuick + Path("net.onnx"));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  const auto rows = outcome.Json()["models"][0]["rows"];
  ASSERT_EQ(rows.size(), 5u) << outcome.out;
  EXPECT_EQ(rows[3]["name"], "onnxruntime-all");
  EXPECT_EQ(rows[4]["name"], "onnxruntime-optimized");
  EXPECT_EQ(rows[4]["equal"], true);
  EXPECT_EQ(FileContents(Path("run-net.opt.onnx")), FileContents(Path("net.opt.onnx")));
}

// Files of Mirage's workloads, as onnxruntime reads them.
TEST_F(CompareTest, WorkloadsAreWhatOnnxRuntimeMakesOfThem) {
  const std::string python = std::string(REWRIGHT_SOURCE_DIR) + "/.venv/bin/python";
  struct stat found;
  if (stat(python.c_str(), &found) != 0) GTEST_SKIP() << "tools/python_env.sh makes " << python;
  Python("[ \"$2\" = onnxruntime-basic ] || { echo absent; exit; }\nexec " + python + " \"$@\"\n");
  const char* workloads[] = {"gqa --sequence-length 33", "qk_norm --sequence-length 33", "rms_norm --width 50",
                             "lora --width 48",          "gated_mlp --width 50",         "ntrans --width 50"};
  for (const std::string workload : workloads) {
    SCOPED_TRACE(workload);
    ASSERT_EQ(Rewright("zoo mirage_" + workload + " --batch 3 --quiet -o " + Path("w.onnx")).status, 0);
    const Outcome outcome = Rewright("compare --iterations 1 --budget 20" + std::string(kQuick) + Path("w.onnx"));
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    const auto rows = outcome.Json()["models"][0]["rows"];
    ASSERT_EQ(rows.size(), 4u) << outcome.out;
    EXPECT_EQ(rows[3]["equal"], true);
  }
}

TEST_F(CompareTest, APeerThatFailsIsDroppedWithItsWords) {
  for (const char* fails : {"run", "outputs"}) {
    Python(absl::StrCat(
        "[ \"$2\" = torch ] || { echo absent; exit; }\necho ready 1.0\nwhile read -r line; do\n  [ $line = ", fails,
        " ] && echo fish || echo ms 2.5\ndone\n"));
    const Outcome outcome = Rewright("compare --iterations 2 --budget 1" + std::string(kQuick) + Path("mlp.onnx"));
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    const auto model = outcome.Json()["models"][0];
    EXPECT_EQ(model["rows"].size(), 3u);
    const auto torch = std::find_if(model["absent"].begin(), model["absent"].end(),
                                    [](const auto& one) { return one["name"] == "torch"; });
    ASSERT_NE(torch, model["absent"].end());
    EXPECT_THAT((*torch)["reason"].get<std::string>(), HasSubstr("torch: answered `fish`, expected "));
  }
}

TEST_F(CompareTest, TakesWhatWasOptimizedBefore) {
  const std::string best = Path("best.onnx"), model = Path("net.onnx");
  ASSERT_EQ(Rewright("optimize --cost analytic:v100 --no-check --quiet " + model + " -o " + best).status, 0);
  const std::string command = "compare --no-peers --iterations 2" + std::string(kQuick) + model + " --optimized ";
  const Outcome outcome = Rewright(command + best);
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const auto row = outcome.Json()["models"][0]["rows"][2];
  EXPECT_EQ(row["name"], "optimized");
  EXPECT_EQ(row["equal"], true);
  EXPECT_THAT(row["text"].get<std::string>(), HasSubstr("nodes, of " + best));

  // The model itself is the least that a file can be; another one is not this one's.
  EXPECT_EQ(Rewright(command + model).status, 0);
  const Outcome other = Rewright(command + Path("mlp.onnx"));
  EXPECT_EQ(other.status, 2);
  EXPECT_THAT(other.err,
              HasSubstr(Path("mlp.onnx") + ": not the optimized form of the model: of model and file, input "));
  const Outcome two = Rewright(command + best + " --optimized " + best);
  EXPECT_EQ(two.status, 2);
  EXPECT_THAT(two.err, HasSubstr("--optimized: 2 files for 1 model; expected one for each"));
  EXPECT_EQ(Rewright(command + Path("nothing.onnx")).status, 2);
}

// A file with the interface of the model and other numbers is found out.
TEST_F(CompareTest, HoldsWhatWasOptimizedToTheOutputs) {
  ASSERT_EQ(Rewright("zoo mlp --layers 1 --seed 2 -o " + Path("other.onnx")).status, 0);
  const Outcome outcome = Rewright("compare --no-peers --iterations 1" + std::string(kQuick) + Path("mlp.onnx") +
                                   " --optimized " + Path("other.onnx"));
  EXPECT_EQ(outcome.status, 1) << outcome.err;
  EXPECT_EQ(outcome.Json()["models"][0]["rows"][2]["equal"], false);
}

TEST_F(CompareTest, ProfileFillsADatabaseAndCarriesItAbout) {
  const std::string db = " --profile " + Path("costs.db");
  const Outcome measured = Rewright("profile" + db + " --export " + Path("costs.json") + kQuick + Path("mlp.onnx"));
  ASSERT_EQ(measured.status, 0) << measured.err;
  auto json = measured.Json();
  EXPECT_THAT(json["device"].get<std::string>(), HasSubstr("cpu"));
  EXPECT_GT(json["models"][0]["groups"], 0);
  EXPECT_GT(json["models"][0]["cost_ms"], 0);
  EXPECT_GE(json["exported"], json["models"][0]["rows"].size());

  const std::string text = FileContents(Path("costs.json"));
  const Outcome moved = Rewright("profile --profile " + Path("other.db") + " --import " + Path("costs.json") +
                                 " --export " + Path("again.json") + kQuick);
  ASSERT_EQ(moved.status, 0) << moved.err;
  EXPECT_EQ(moved.Json()["imported"], json["exported"]);
  EXPECT_EQ(FileContents(Path("again.json")), text);
  // The other database has all costs: the model's is the same to the digit.
  const Outcome again = Rewright("profile --profile " + Path("other.db") + kQuick + Path("mlp.onnx"));
  EXPECT_EQ(again.Json()["models"][0]["cost_ms"], json["models"][0]["cost_ms"]);
  EXPECT_EQ(Rewright("profile" + db).status, 2);
}

TEST_F(CompareTest, ProfileHoldsGroupsAgainstARoofline) {
  WriteContents(Path("machine.json"), R"({"name": "m", "source": "made up", "flops_per_second": 1e18,
    "bytes_per_second": 1e18, "launch_seconds": 1e-6, "processors": 1, "tile_elements": 1, "cache_bytes": 1e6,
    "cache_bytes_per_second": 1e18})");
  const Outcome outcome = Rewright("profile --profile " + Path("c.db") + " --roofline --machine " +
                                   Path("machine.json") + kQuick + Path("mlp.onnx"));
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  auto json = outcome.Json();
  EXPECT_EQ(json["roofline"]["flops_per_second"], 1e18);
  for (const auto& row : json["models"][0]["rows"]) {
    EXPECT_GT(row["gbytes_per_second"], 0);
    EXPECT_GT(row["of_roofline"], 0);
    EXPECT_LT(row["of_roofline"], 1e-3);  // no machine does 1e18 bytes a second
  }
}

TEST_F(CompareTest, ImportsAreNotTrusted) {
  const auto error = [&](const std::string& entries) {
    WriteContents(Path("bad.json"),
                  "{\"format\": \"rewright-profile\", \"version\": 1, \"entries\": [" + entries + "]}");
    const Outcome outcome = Rewright("profile --profile " + Path("bad.db") + " --import " + Path("bad.json"));
    EXPECT_EQ(outcome.status, 2) << entries;
    return outcome.err;
  };
  const std::string good = R"({"device": "d", "signature": "s", "fastest": 1, "median": 2, "spread": 0, "count": 3})";
  EXPECT_THAT(error("7"), HasSubstr("bad.json: entry 1: expected an object"));
  EXPECT_THAT(error(R"({"device": 7})"), HasSubstr("entry 1: device: expected a text"));
  EXPECT_THAT(error(good + "," + good), HasSubstr("entry 2: the same key stood before"));
  for (const auto& [from, to, what] : std::vector<std::array<std::string, 3>>{
           {"\"fastest\": 1", "\"fastest\": -1", "fastest: found -1"},
           {"\"fastest\": 1", "\"fastest\": 1e99", "fastest: found 1e+99"},
           {"\"fastest\": 1", "\"fastest\": 3", "expected at most the median"},
           {"\"fastest\": 1", "\"fastest\": \"1\"", "fastest: found"},
           {"\"count\": 3", "\"count\": 0", "count: expected an integer of at least 1"},
           {"\"count\": 3", "\"count\": 1.5", "count: expected an integer"},
           {"\"signature\": \"s\"", "\"signature\": \"\"", "signature: expected a text"},
           {", \"spread\": 0", "", "spread: found nothing"}}) {
    std::string entry = good;
    entry.replace(entry.find(from), from.size(), to);
    EXPECT_THAT(error(entry), HasSubstr(what));
  }
  WriteContents(Path("bad.json"), "{\"format\": \"rewright-profile\", \"version\": 2, \"entries\": []}");
  const std::string import = "profile --profile " + Path("bad.db") + " --import " + Path("bad.json");
  EXPECT_THAT(Rewright(import).err, HasSubstr("version: found 2, expected 1"));
  WriteContents(Path("bad.json"), "not json");
  EXPECT_THAT(Rewright(import).err, HasSubstr("no exported profile"));
  // A profile of which one entry is wrong changes nothing.
  error(good + ", 7");
  const Outcome left = Rewright("profile --profile " + Path("bad.db") + " --export " + Path("left.json") + kQuick);
  EXPECT_EQ(left.Json()["exported"], 0);
}

}  // namespace
}  // namespace rewright
