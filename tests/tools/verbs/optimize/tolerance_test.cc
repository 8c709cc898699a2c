// `rewright optimize --tolerance`: products in 16 bits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "tests/support/temporary_folder.h"
#include "tests/tools/program/program_util.h"

namespace rewright {
namespace {

using ::testing::HasSubstr;

class Tolerance : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(Rewright("zoo mlp -o " + model_).status, 0); }

  TemporaryFolder folder_;
  const std::string model_ = folder_ / "mlp.onnx", result_ = folder_ / "narrow.onnx";
};

// The written model keeps to the tolerance, and the report says so. It depends on the machine if 16 bits gain.
TEST_F(Tolerance, WhatIsWrittenKeepsToIt) {
  const Outcome done = Rewright(absl::StrCat("optimize ", model_, " -o ", result_, " --tolerance 0.05 --json"));
  ASSERT_EQ(done.status, 0) << done.err;
  const nlohmann::json narrowing = done.Json()["narrowing"];
  EXPECT_GE(narrowing["eligible"], 4);
  EXPECT_LE(narrowing["measured"], 0.05);
  EXPECT_THAT(narrowing["verdict"].get<std::string>(),
              HasSubstr(narrowing["narrow"] > 0 ? "in bf16" : "not measurably"));
  EXPECT_EQ(Rewright(absl::StrCat("diff ", model_, " ", result_, " --rtol 0 --atol 1")).status, 0);
}

TEST_F(Tolerance, WithoutOneNothingBecomesNarrow) {
  const Outcome done = Rewright(absl::StrCat("optimize ", model_, " -o ", result_, " --json"));
  ASSERT_EQ(done.status, 0) << done.err;
  EXPECT_FALSE(done.Json().contains("narrowing"));
}

TEST_F(Tolerance, WhatItCannotMeanIsRefused) {
  const auto refused = [&](const std::string& flags) {
    const Outcome done = Rewright(absl::StrCat("optimize ", model_, " -o ", result_, " ", flags));
    EXPECT_EQ(done.status, 2) << flags;
    return done.err;
  };
  EXPECT_THAT(refused("--tolerance 0.01 --cost analytic:zen3"), HasSubstr("what 16 bits gain is timed"));
  EXPECT_THAT(refused("--tolerance 2"), HasSubstr("tolerance"));
}

}  // namespace
}  // namespace rewright
