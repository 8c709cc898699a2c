// A trace is replayed, and the rewrite at fault is found in it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tools/program/program_util.h"

namespace rewright {
namespace {

using ::testing::HasSubstr;

constexpr char kQuick[] = " --threads 1 --quiet --json ";

constexpr char kGood[] = R"(
rule matmul-merge
  { matmul(x[m, k], y[k, n1]), matmul(x, z[k, n2]) }
  => split(matmul(x, concat(y, z, axis=1)), axis=1, sizes=[n1, n2])
  when n1 == n2
rule relu-twice
  relu(relu(x)) => relu(x)
)";
constexpr char kFalse[] = R"(
rule lose-sigmoid
  mul(sigmoid(x[b..]), y[b..]) => mul(x, y)
)";

class Blame : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(Rewright("zoo taso_nasrnn --layers 1 -o " + Path("net.onnx")).status, 0);
    WriteContents(Path("good.rules"), kGood);
    WriteContents(Path("false.rules"), std::string(kGood) + kFalse);
  }
  std::string Path(const std::string& name) const { return folder_ / name; }

  // The trace of an optimization with these rules.
  std::string Trace(const std::string& rules) const {
    const Outcome outcome =
        Rewright("optimize --cost analytic:v100 --budget 50 --trust-unverified --check=off --rules " + Path(rules) +
                 " --trace " + Path("trace.json") + kQuick + Path("net.onnx") + " -o " + Path("out.onnx"));
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return Path("trace.json");
  }
  void Change(const std::string& file, const std::string& from, const std::string& to) const {
    std::string text = FileContents(file);
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    WriteContents(file, text.replace(at, from.size(), to));
  }

  TemporaryFolder folder_;
};

TEST_F(Blame, FindsTheFalseRuleAmongGoodOnes) {
  const std::string trace = Trace("false.rules");
  const auto path = nlohmann::json::parse(FileContents(trace))["path"];
  ASSERT_GT(path.size(), 5u);
  const Outcome outcome = Rewright("blame" + std::string(kQuick) + trace);
  EXPECT_EQ(outcome.status, 1) << outcome.err;
  auto json = outcome.Json();
  EXPECT_EQ(json["found"], true);
  EXPECT_EQ(json["rule"], "lose-sigmoid");
  EXPECT_EQ(json["steps"], path.size());
  EXPECT_GE(json["step"], 1);
  EXPECT_EQ(json["node"], path[json["step"].get<size_t>() - 1]["node"]);
  EXPECT_THAT(json["place"].get<std::string>(), HasSubstr("mul"));
  EXPECT_THAT(json["evidence"].get<std::string>(), HasSubstr("greatest difference"));
  // The interpreter says the same.
  EXPECT_EQ(Rewright("blame --device reference" + std::string(kQuick) + trace).Json()["rule"], "lose-sigmoid");
}

TEST_F(Blame, FindsNothingWhereAllIsRight) {
  const Outcome outcome = Rewright("blame" + std::string(kQuick) + Trace("good.rules"));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.Json()["found"], false);
  const Outcome time = Rewright("blame --check time --iterations 7" + std::string(kQuick) + Path("trace.json"));
  EXPECT_NE(time.status, 2) << time.err;
  EXPECT_THAT(time.Json()["evidence"].get<std::string>(), HasSubstr("pairs slower"));
}

TEST_F(Blame, SaysWhatCannotBeReplayed) {
  const std::string trace = Trace("false.rules");
  const std::string blame = "blame" + std::string(kQuick) + trace;
  ASSERT_EQ(Rewright("zoo taso_nasrnn --layers 1 --seed 2 -o " + Path("other.onnx")).status, 0);
  const Outcome other = Rewright(blame + " --model " + Path("other.onnx"));
  EXPECT_EQ(other.status, 2);
  EXPECT_THAT(other.err, HasSubstr("other.onnx: not the model that was optimized"));

  const Outcome gone = Rewright(blame + " --rules " + Path("good.rules"));
  EXPECT_EQ(gone.status, 2);
  EXPECT_THAT(gone.err, HasSubstr("the rules have no rule lose-sigmoid"));

  // The rule has the same name and does something else.
  Change(Path("false.rules"), "=> mul(x, y)", "=> mul(y, y)");
  const Outcome changed = Rewright("blame " + trace);
  EXPECT_EQ(changed.status, 2);
  EXPECT_THAT(changed.err, HasSubstr("false.rules: not as it was when the model was optimized"));
  EXPECT_THAT(changed.err, HasSubstr("rule lose-sigmoid makes another graph than it did"));

  EXPECT_THAT(Rewright("blame /nonexistent.json").err, HasSubstr("/nonexistent.json"));
}

TEST_F(Blame, FindsTheFalseRuleInATraceOfEqualitySaturation) {
  const Outcome outcome = Rewright(
      "optimize --cost analytic:v100 --search eqsat --trust-unverified --check=off --rules " + Path("false.rules") +
      " --trace " + Path("trace.json") + kQuick + Path("net.onnx") + " -o " + Path("out.onnx"));
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const Outcome blamed = Rewright("blame" + std::string(kQuick) + Path("trace.json"));
  EXPECT_EQ(blamed.status, 1) << blamed.err;
  EXPECT_THAT(blamed.Json()["rule"].get<std::string>(), HasSubstr("lose-sigmoid"));
}

TEST_F(Blame, StepsThatAreTextAreReadStrictly) {
  const std::string trace = Trace("good.rules");
  auto json = nlohmann::json::parse(FileContents(trace));
  // The last step as text: what it replaces stays as it is, which is another graph.
  auto& last = json["path"].back();
  const auto error = [&](const std::string& text) {
    last["replacement"] = text;
    WriteContents(trace, json.dump());
    const Outcome outcome = Rewright("blame " + trace);
    EXPECT_EQ(outcome.status, 2) << text;
    return outcome.err;
  };
  EXPECT_THAT(error(""), HasSubstr("replacement: found nothing, expected a graph"));
  EXPECT_THAT(error("output n0.0 = x"), HasSubstr("replacement: "));
  EXPECT_THAT(error("input n99999.0: f32[1]\noutput n0.0 = n99999.0\n"),
              HasSubstr("found n99999.0, expected a value of the graph before"));
  EXPECT_THAT(error("input n0.0: f32[1,7]\noutput n0.0 = n0.0\n"), HasSubstr("n0.0 is f32[1,7], expected "));
  last["replacement"] = 7;
  WriteContents(trace, json.dump());
  EXPECT_THAT(Rewright("blame " + trace).err, HasSubstr("replacement: found 7, expected a text"));
}

TEST_F(Blame, RefusesDamagedTraces) {
  const std::string trace = Trace("good.rules");
  const std::string whole = FileContents(trace);
  const auto error = [&](const std::string& from, const std::string& to) {
    WriteContents(trace, whole);
    Change(trace, from, to);
    const Outcome outcome = Rewright("blame " + trace);
    EXPECT_EQ(outcome.status, 2) << to;
    return outcome.err;
  };
  EXPECT_THAT(error("\"model_hash\": ", "\"model_hash\": 7, \"hash\": "),
              HasSubstr("model_hash: found 7, expected a text"));
  EXPECT_THAT(error("\"step\": 0", "\"step\": 4000000000"),
              HasSubstr("path: step: found 4000000000, expected an integer"));
  EXPECT_THAT(error("\"step\": 0", "\"step\": -1"), HasSubstr("path: step: found -1"));
  EXPECT_THAT(error("\"path\": [", "\"path\": [3, "), HasSubstr("path: step: not there"));
  EXPECT_THAT(error("\"node\": ", "\"node\": 99999, \"n\": "), HasSubstr("does not match at node 99999"));
  EXPECT_THAT(error("\"match\": ", "\"match\": 99999, \"n\": "), HasSubstr("does not match at node"));
  EXPECT_THAT(error("\"path\": ", "\"way\": "), HasSubstr("cannot be replayed"));
  EXPECT_THAT(error("\"path\": ", "\"path\": {}, \"way\": "), HasSubstr("path: found {}, expected a list"));
  for (const std::string found : {"\"\"", "7", "{}", "null"}) {
    EXPECT_THAT(error("\"steps\": ", "\"steps\": " + found + ", \"s\": "),
                HasSubstr("steps: found " + found + ", expected a list"));
  }
  EXPECT_THAT(error("\"steps\": ", "\"steps\": [], \"s\": "),
              HasSubstr("steps: found none, expected those that the path"));
  for (const std::string found : {"0", "1.5", "18446744073709551615", "\"n\""}) {
    EXPECT_THAT(error("\"dims\": {", "\"dims\": {\"batch\": " + found),
                HasSubstr("options: dims: batch: found " + found + ", expected an integer from 1 to "));
  }
  EXPECT_THAT(error("\"seed\": ", "\"seed\": 18446744073709551615, \"s\": "),
              HasSubstr("options: seed: found 18446744073709551615"));
  WriteContents(trace, whole.substr(0, whole.size() / 2));
  EXPECT_THAT(Rewright("blame " + trace).err, HasSubstr("no trace, which is a JSON object"));
}

}  // namespace
}  // namespace rewright
