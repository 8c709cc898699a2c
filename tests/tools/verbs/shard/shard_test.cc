// Models cut over devices, by the program: printed, checked by the interpreter, and run by several processes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/support/mpirun.h"
#include "tests/tools/program/program_util.h"

namespace rewright {
namespace {

using ::testing::HasSubstr;

class ShardTest : public ::testing::Test {
 protected:
  ShardTest() {
    const Outcome made = Rewright("zoo mlp --batch 4 --layers 2 -o " + model_);
    EXPECT_EQ(made.status, 0) << made.err;
  }

  TemporaryFolder folder_;
  const std::string model_ = folder_ / "mlp.onnx";
};

TEST_F(ShardTest, TheInterpreterGivesWhatItGivesOfTheOriginal) {
  const Outcome uneven = Rewright(absl::StrCat("shard ", model_, " --degree 3 --place input:0"));
  EXPECT_EQ(uneven.status, 2);
  EXPECT_THAT(uneven.err, HasSubstr("expected a size along axis 0 that 3 divides"));
  const Outcome cut = Rewright(absl::StrCat("shard ", model_, " --degree 4 --place input:0 --check --json --quiet"));
  ASSERT_EQ(cut.status, 0) << cut.err;
  EXPECT_EQ(cut.Json()["same_bits"], true);
  EXPECT_EQ(cut.Json()["exact"], true);
}

TEST_F(ShardTest, PlacementsComeFromAFile) {
  WriteContents(folder_ / "places", "# the batch\n\n  input:0  # axis 0\n");
  const Outcome cut = Rewright(absl::StrCat("shard ", model_, " --places ", folder_ / "places", " -o - --quiet"));
  EXPECT_EQ(cut.status, 0) << cut.err;
  EXPECT_THAT(cut.out, HasSubstr("partition(input, axis=0, degree=2)"));
  WriteContents(folder_ / "bad", "input:0\ninput\n");
  EXPECT_THAT(Rewright(absl::StrCat("shard ", model_, " --places ", folder_ / "bad")).err,
              HasSubstr("bad, line 2: found `input`, expected NAME:AXIS"));
  EXPECT_THAT(Rewright("shard " + model_).err, HasSubstr("found no placement, expected --place, --places or --layout"));
  EXPECT_THAT(Rewright(absl::StrCat("shard ", model_, " --place input:0 --iterations 2")).err,
              HasSubstr("--iterations requires --run"));
}

TEST_F(ShardTest, PlacementsAreChosenPassedBackAndProved) {
  const std::string file = folder_ / "chosen.layout", proof = folder_ / "cut.proof";
  const std::string shard = absl::StrCat("shard ", model_, " --degree 4 --check --json --quiet ");
  const Outcome chosen = Rewright(
      absl::StrCat(shard, "--layout auto --cluster many-core --explain --save-layout ", file, " --prove ", proof));
  ASSERT_EQ(chosen.status, 0) << chosen.err;
  EXPECT_GT(chosen.Json()["estimated_seconds"].get<double>(), 0);
  EXPECT_EQ(chosen.Json()["why"].size(), 6u);
  EXPECT_FALSE(chosen.Json()["placements"].empty());
  const Outcome back = Rewright(absl::StrCat(shard, "--layout ", file));
  ASSERT_EQ(back.status, 0) << back.err;
  EXPECT_EQ(back.Json()["exchanges"], chosen.Json()["exchanges"]);
  EXPECT_EQ(Rewright("check --no-second " + proof).status, 0);
  // A text that was changed is refused, and so is a cut that laws do not make.
  const std::string text = FileContents(proof);
  WriteContents(proof, text.substr(0, text.size() / 2));
  EXPECT_EQ(Rewright("check " + proof).status, 2);
  WriteContents(file, "layout dp=2\n");
  EXPECT_THAT(Rewright(absl::StrCat(shard, "--layout ", file)).err, HasSubstr("expected placements alone"));
}

TEST_F(ShardTest, ProcessesRunTheirParts) {
  if (!HasMpirun()) GTEST_SKIP() << "there is no mpirun";
  for (int processes : {2, 4}) {
    const Outcome run = RewrightScript(
        absl::StrCat(Mpirun(processes), "$program shard ", model_,
                     " --place input:0 --run --check --threads 1 --iterations 2 --json --quiet >$out 2>$err"));
    ASSERT_EQ(run.status, 0) << run.err << run.out;
    auto json = run.Json();
    ASSERT_EQ(json["ranks"].size(), static_cast<size_t>(processes));
    double promised = 0;
    for (const auto& exchange : json["exchanges"]) promised += exchange["bytes"].get<double>();
    EXPECT_GT(promised, 0);
    for (const auto& rank : json["ranks"]) EXPECT_EQ(rank["bytes_sent"].get<double>(), promised);
    EXPECT_LT(json["max_difference"].get<double>(), 1e-4);
  }
}

TEST_F(ShardTest, AnErrorOfARankEndsAll) {
  if (!HasMpirun()) GTEST_SKIP() << "there is no mpirun";
  const Outcome run = RewrightScript(
      absl::StrCat(Mpirun(2), "$program shard ", model_, " --place absent:0 --run --threads 1 >$out 2>$err"));
  EXPECT_NE(run.status, 0);
  EXPECT_THAT(run.err,
              HasSubstr("rewright shard: rank 0: placement absent: no input or weight has that name; there are "));
}

}  // namespace
}  // namespace rewright
