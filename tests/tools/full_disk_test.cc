// Writing to a full disk gives a clear error, leaves the old file as it was, and leaves nothing behind.
#include <sys/mount.h>
#include <sys/stat.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/tools/program/program_util.h"

namespace rewright {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

// A folder on a disk of its own, of 64 KiB. Needs the right to mount one.
class FullDisk : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(mkdir(Disk().c_str(), 0755), 0);
    mounted_ = mount("none", Disk().c_str(), "tmpfs", 0, "size=64k") == 0;
    if (!mounted_) GTEST_SKIP() << "no right to mount a file system";
    ASSERT_EQ(Rewright("zoo mlp --quiet -o " + Model()).status, 0);
  }
  void TearDown() override {
    if (mounted_) {
      EXPECT_EQ(umount(Disk().c_str()), 0);
    }
    rmdir(Disk().c_str());
  }
  std::string Disk() const { return folder_ / "disk"; }
  std::string Model() const { return folder_ / "model.onnx"; }
  std::string Optimize(const std::string& out, const std::string& flags) const {
    return "optimize " + Model() + " -o " + out + " --cost analytic:v100 --no-check --quiet " + flags;
  }
  std::vector<std::string> OnDisk() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(Disk())) names.push_back(entry.path().filename());
    return names;
  }
  void Fill() const { WriteContents(Disk() + "/filler", std::string(size_t{128} << 10, 'x')); }

  TemporaryFolder folder_;
  bool mounted_ = false;
};

TEST_F(FullDisk, AModelThatDoesNotFitLeavesTheOldOne) {
  const std::string out = Disk() + "/out.onnx";
  WriteContents(out, "old");
  const Outcome outcome = Rewright(Optimize(out, ""));
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr(out + ": cannot write: No space left on device"));
  EXPECT_EQ(FileContents(out), "old");
  EXPECT_THAT(OnDisk(), ElementsAre("out.onnx"));
}

TEST_F(FullDisk, ATraceReportOrProofThatDoesNotFitLeavesTheOldOne) {
  for (const std::string flag : {"--trace", "--report", "--proof"}) {
    const std::string file = Disk() + "/old" + flag;
    WriteContents(file, "old");
    Fill();
    const Outcome outcome = Rewright(Optimize(folder_ / "out.onnx", flag + " " + file));
    EXPECT_EQ(outcome.status, 2) << flag;
    EXPECT_THAT(outcome.err, HasSubstr(file + ": cannot write: No space left on device"));
    EXPECT_EQ(FileContents(file), "old");
    EXPECT_THAT(OnDisk(), UnorderedElementsAre("filler", "old" + flag));
    EXPECT_EQ(remove(file.c_str()), 0);
  }
}

// A profile that is there and cannot grow, and one for which there is no room at all.
TEST_F(FullDisk, AProfileThatDoesNotFitLosesItsEntriesAndNotTheResult) {
  const std::string optimize = "optimize " + Model() + " --no-check --threads 1 --profile " + Disk() + "/costs.db -o ";
  for (const bool there : {false, true}) {
    if (there) {
      WriteContents(Disk() + "/costs.db", FileContents(folder_ / "costs.db"));
    }
    Fill();
    const std::string out = folder_ / (there ? "with.onnx" : "without.onnx");
    const Outcome outcome = Rewright(optimize + out);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("warning: what was measured is not kept: profile database " + Disk()));
    EXPECT_TRUE(std::filesystem::exists(out));
    for (const std::string& name : OnDisk()) remove((Disk() + "/" + name).c_str());
    ASSERT_EQ(Rewright("profile " + Model() + " --threads 2 --profile " + (folder_ / "costs.db")).status, 0);
  }
}

TEST_F(FullDisk, ARunOfTrainingStopsWithItsLastCheckpointWhole) {
  const std::string digits = std::string(REWRIGHT_SOURCE_DIR) + "/tools/examples/digits/";
  auto config = nlohmann::ordered_json::parse(FileContents(digits + "digits.json"));
  config["model"]["mlp"]["sizes"] = {64, 10};
  config["data"]["inputs"]["x"]["file"] = digits + "train_x.npy";
  config["data"]["target"] = digits + "train_y.npy";
  config.erase("validation");
  config["epochs"] = 1;
  config["checkpoint"] = {{"every_steps", 1}, {"keep", 1000}};
  WriteContents(folder_ / "config.json", config.dump());
  const std::string train = "train --threads 1 --json " + (folder_ / "config.json");
  const Outcome full = Rewright(train + " --checkpoint-dir " + Disk() + "/ck");
  EXPECT_EQ(full.status, 2);
  EXPECT_THAT(full.err, AllOf(HasSubstr(Disk() + "/ck/"), HasSubstr("No space left on device")));
  std::filesystem::copy(Disk() + "/ck", folder_ / "ck", std::filesystem::copy_options::recursive);
  const Outcome resumed = Rewright(train + " --resume --checkpoint-dir " + (folder_ / "ck"));
  ASSERT_EQ(resumed.status, 0) << resumed.err;
  const Outcome whole = Rewright(train);
  const auto sha256 = [](const Outcome& outcome) { return outcome.out.substr(outcome.out.find("weights_sha256"), 80); };
  EXPECT_EQ(sha256(resumed), sha256(whole));
}

}  // namespace
}  // namespace rewright
