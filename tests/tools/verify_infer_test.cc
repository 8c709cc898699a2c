// `rewright verify`: conditions for refuted rules, files of other formats.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/tools/program/program_util.h"

namespace rewright {
namespace {

using ::testing::HasSubstr;

TEST(VerifyVerb, InferAnswersInTheRuleLanguageAndInJson) {
  const TemporaryFolder folder;
  const std::string rules = folder / "r.rules", proved = folder / "p.rules";
  WriteContents(rules, "rule commutes matmul(x[n, n], y[n, n]) => matmul(y, x)\n");
  const Outcome text = Rewright("verify --infer " + rules + " -o " + proved);
  EXPECT_EQ(text.status, 1);  // as it stands the rule is refuted
  EXPECT_THAT(text.out, HasSubstr("proved   when n == 1"));
  EXPECT_THAT(text.out, HasSubstr("weaker and refuted: n mod 2 == 1"));
  // The rule is written under its condition, with a proof.
  EXPECT_THAT(FileContents(proved), HasSubstr("when n == 1"));
  EXPECT_EQ(Rewright("verify " + proved).status, 0);

  const nlohmann::json rule = Rewright("verify --infer --json " + rules).Json()["rules"][0];
  EXPECT_EQ(rule["verdict"], "refuted");
  const nlohmann::json inferred = rule["inferred"];
  EXPECT_EQ(inferred["complete"], true);
  ASSERT_EQ(inferred["answers"].size(), 1u);
  EXPECT_EQ(inferred["answers"][0]["when"], "n == 1");
  EXPECT_EQ(inferred["answers"][0]["refuted_weaker"][0]["when"], "n mod 2 == 1");
  EXPECT_THAT(std::string(inferred["answers"][0]["refuted_weaker"][0]["witness"]), HasSubstr("n=3"));
}

// The models of a counterexample differ at its inputs, also those of integers that wrap around.
TEST(VerifyVerb, CounterexamplesAreModels) {
  const TemporaryFolder folder;
  const std::string rules = folder / "r.rules", out = folder / "out";
  WriteContents(rules, R"(rule commutes
  matmul(x[n, n], y[n, n]) => matmul(y, x)

rule positive
  abs(mul(x: i32[b..], x)) => mul(x, x)

rule any
  ?f(add(x[n], y[n])) => add(?f(x), ?f(y))

rule twice
  relu(relu(x[n])) => relu(x)
)");
  const Outcome verified = Rewright("verify --counterexamples " + out + " " + rules);
  EXPECT_EQ(verified.status, 1);
  EXPECT_THAT(verified.err, HasSubstr("rule any: no models of its counterexample"));
  for (const auto& [rule, inputs] : {std::pair("commutes", std::vector<std::string>{"x", "y"}), {"positive", {"x"}}}) {
    const std::string own = out + "/" + rule + "/";
    std::string command = "diff " + own + "left.onnx " + own + "right.onnx";
    for (const std::string& name : inputs) command += " --input " + name + "=" + own + name + ".npy";
    const Outcome apart = Rewright(command);
    EXPECT_THAT(apart.out, HasSubstr("outputs:   different")) << command << apart.err;
  }
  EXPECT_FALSE(std::filesystem::exists(out + "/twice"));
}

TEST(VerifyVerb, WithoutInferNothingIsInferred) {
  const TemporaryFolder folder;
  WriteContents(folder / "r.rules", "rule commutes matmul(x[n, n], y[n, n]) => matmul(y, x)\n");
  EXPECT_FALSE(Rewright("verify --json " + folder / "r.rules").Json()["rules"][0].contains("inferred"));
}

TEST(VerifyVerb, OtherFormats) {
  const TemporaryFolder folder;
  WriteContents(folder / "r.pb", "this is no protobuf");
  const Outcome damaged = Rewright("verify --format taso " + folder / "r.pb");
  EXPECT_EQ(damaged.status, 2);
  EXPECT_THAT(damaged.err, HasSubstr("r.pb: not a rule file of TASO: protobuf cannot read it"));
  const Outcome unknown = Rewright("verify --format tasso " + folder / "r.pb");
  EXPECT_EQ(unknown.status, 2);
  EXPECT_THAT(unknown.err, HasSubstr("one of rewright, taso"));

  // relu(relu(x)) => relu(x), written byte by byte: { source: relu(-1), relu(0); target: relu(-1); 1.0 is 0.0 }.
  const std::string minus_one = "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01";
  const auto field = [](int number, const std::string& bytes) {
    return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(bytes.size())} + bytes;
  };
  const std::string relu("\x08\x08", 2), nothing("\x10\x00", 2);
  const std::string first = relu + field(2, std::string("\x08", 1) + minus_one + nothing);
  const std::string second = relu + field(2, std::string("\x08\x00", 2) + nothing);
  const std::string output("\x08\x01\x10\x00\x18\x00\x20\x00", 8);
  WriteContents(folder / "relu.pb", field(1, field(1, first) + field(1, second) + field(2, first) + field(3, output)));
  const Outcome relus = Rewright("verify --json --format taso " + folder / "relu.pb" + " -o " + folder / "relu.rules");
  EXPECT_EQ(relus.status, 0) << relus.err;
  EXPECT_EQ(relus.Json()["rules"][0]["name"], "0");
  EXPECT_EQ(relus.Json()["rules"][0]["verdict"], "proved");
  EXPECT_THAT(FileContents(folder / "relu.rules"), HasSubstr("relu(relu(x1[b..])) => relu(x1)"));
}

}  // namespace
}  // namespace rewright
