#include "core/base/data_file.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace rewright {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class DataFile : public ::testing::Test {
 protected:
  DataFile() {
    char name[] = "/tmp/rewright_data_XXXXXX";
    folder_ = mkdtemp(name);
    fs::create_directories(folder_ / "a/rules");
    fs::create_directories(folder_ / "b/rules");
    std::ofstream(folder_ / "b/rules/x.rules") << "x";
  }
  ~DataFile() override {
    UseDataFolder("");
    fs::remove_all(folder_);
  }
  std::string Path(const std::string& name) const { return (folder_ / name).string(); }

  fs::path folder_;
};

TEST_F(DataFile, TheFirstFolderThatHasIt) {
  EXPECT_EQ(FindInFolders("rules/x.rules", {Path("a"), Path("b")}).value(), Path("b/rules/x.rules"));
  const absl::Status status = FindInFolders("rules/y.rules", {Path("a"), Path("b")}).status();
  EXPECT_TRUE(absl::IsNotFound(status));
  EXPECT_THAT(status.message(), AllOf(HasSubstr(Path("a/rules/y.rules")), HasSubstr(Path("b/rules/y.rules"))));
}

TEST_F(DataFile, TheSourceFolderIsTheLastResort) {
  EXPECT_EQ(FindDataFile("rules/x.rules", Path("b")).value(), Path("b/rules/x.rules"));
}

TEST_F(DataFile, AFolderThatIsGivenIsTheOnlyOne) {
  UseDataFolder(Path("a"));
  const absl::Status status = FindDataFile("rules/x.rules", Path("b")).status();
  EXPECT_THAT(status.message(), AllOf(HasSubstr(Path("a")), Not(HasSubstr(Path("b")))));
  UseDataFolder(Path("b"));
  EXPECT_EQ(FindDataFile("rules/x.rules", "").value(), Path("b/rules/x.rules"));
}

TEST_F(DataFile, LinkedIntoAProgramTheCodeLiesWhereTheProgramDoes) {
  EXPECT_EQ(CodeFolder(), fs::read_symlink("/proc/self/exe").parent_path().string());
}

}  // namespace
}  // namespace rewright
