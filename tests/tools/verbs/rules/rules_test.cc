// `rewright rules --export` from outside. bench/proofs/exported_rules.py runs the formats in onnxscript and egglog.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "tests/core/onnx/model_util.h"
#include "tests/support/temporary_folder.h"
#include "tests/tools/program/program_util.h"

namespace rewright {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const char kTwoRules[] = R"(
rule reordered
  add(x[n], y[n]) => add(y, x)

rule halves
  { matmul(x[m1, k], y[k, n]), matmul(z[m2, k], y) }
  => split(matmul(concat(x, z, axis=0), y), axis=0, sizes=[m1, m2])
  when m1 >= 2
)";

class RulesProgram : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) const { return folder_ / name; }
  Outcome Export(const std::string& format, const std::string& more = "") const {
    return Rewright("rules --export " + format + " -o " + Path("out") + " --quiet --json " + more);
  }
  std::string Proved(const std::string& text) const {
    WriteContents(Path("mine.rules"), text);
    EXPECT_EQ(Rewright("verify " + Path("mine.rules") + " -o " + Path("mine.rules") + " --quiet").status, 0);
    return "--rules " + Path("mine.rules");
  }

  const TemporaryFolder folder_;
};

TEST_F(RulesProgram, NearlyAllOfCoreRulesStandInTwoFormatsBesidesJson) {
  const nlohmann::json all = Export("json").Json();
  EXPECT_EQ(all["written"], all["rules"]);
  std::set<std::string> left_out;
  for (const std::string format : {"onnxscript", "egglog"}) {
    const nlohmann::json report = Export(format).Json();
    EXPECT_EQ(report["written"].get<size_t>() + report["left_out"].size(), report["rules"].get<size_t>());
    for (const auto& [name, reason] : report["left_out"].items()) {
      left_out.insert(name);
      EXPECT_THAT(FileContents(Path("out")), HasSubstr("Left out: " + name + ": " + reason.get<std::string>()));
    }
  }
  EXPECT_LE(left_out.size(), all["rules"].get<size_t>() / 20);
}

TEST_F(RulesProgram, JsonHasConditionsClassesAndTheDigestOfTheRecord) {
  ASSERT_EQ(Export("json", Proved(kTwoRules)).status, 0);
  const nlohmann::json rule = nlohmann::json::parse(FileContents(Path("out")))["rules"][1];
  EXPECT_EQ(rule["conditions"], nlohmann::json({"m1 >= 2"}));
  EXPECT_EQ(rule["proof"]["class"]["f32"], "exact");
  const std::string digest = rule["proof"]["digest"].get<std::string>();
  EXPECT_THAT(FileContents(Path("mine.rules")), HasSubstr("spec=\"" + digest + "\""));
}

TEST_F(RulesProgram, ConditionsStayInBothLanguages) {
  const std::string mine = Proved(kTwoRules);
  ASSERT_EQ(Export("onnxscript", mine).status, 0);
  EXPECT_THAT(FileContents(Path("out")), HasSubstr("need((n.m1 >= 2), \"m1 >= 2\")"));
  ASSERT_EQ(Export("egglog", mine).status, 0);
  EXPECT_THAT(FileContents(Path("out")), HasSubstr("(>= m1 2)"));
}

// TASO's rules have no conditions. Its own reader takes the file, and what that reads is proved.
TEST_F(RulesProgram, WhatTasoReadsIsProved) {
  const nlohmann::json report = Export("taso").Json();
  EXPECT_GE(report["written"].get<int>(), 8);
  EXPECT_EQ(report["left_out"]["conv-merge-shared-input"], "without its conditions it is not proved");
  const Outcome verdicts = Rewright("verify --format taso --quiet --json " + Path("out"));
  EXPECT_EQ(verdicts.status, 0) << verdicts.out.substr(0, 1000);
}

TEST_F(RulesProgram, ARuleWithoutAGoodRecordIsRefused) {
  WriteContents(Path("mine.rules"), kTwoRules);
  const Outcome unproved = Export("json", "--rules " + Path("mine.rules"));
  EXPECT_EQ(unproved.status, 2);
  EXPECT_THAT(unproved.err, HasSubstr("reordered is not proved"));
  Proved(kTwoRules);
  std::string altered = FileContents(Path("mine.rules"));
  altered.replace(altered.find("m1 >= 2"), 7, "m1 >= 1");
  WriteContents(Path("mine.rules"), altered);
  const Outcome stale = Export("json", "--rules " + Path("mine.rules"));
  EXPECT_EQ(stale.status, 2);
  EXPECT_THAT(stale.err, HasSubstr("rule halves"));
}

}  // namespace
}  // namespace rewright
