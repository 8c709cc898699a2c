// Lists that several tests record at a time.
#include "tests/support/recorded_list.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/temporary_folder.h"

namespace rewright {
namespace {

// Two processes with two threads each record a section a thread, line by line.
TEST(RecordedList, SectionsThatAreRecordedSideBySideAreKept) {
  constexpr int kLines = 25;
  const TemporaryFolder folder;
  const std::string path = folder / "list.txt";
  WriteContents(path, "# A comment.\n\n[first]\nline 0 | old | a reason\n");
  const auto record = [&](const std::string& section) {
    for (int i = 0; i < kLines; ++i) {
      Record(path, section, {{absl::StrCat("line ", i), std::string(100, 'x')}}, /*whole=*/false);
    }
  };
  const auto record_two = [&](const std::string& one, const std::string& other) {
    std::thread beside([&] { record(other); });
    record(one);
    beside.join();
  };
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    record_two("first", "second");
    _exit(::testing::Test::HasFailure());
  }
  record_two("third", "fourth");
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  std::string expected = "# A comment.\n";
  for (const char* section : {"first", "fourth", "second", "third"}) {
    absl::StrAppend(&expected, "\n[", section, "]\n");
    std::vector<std::string> names;
    for (int i = 0; i < kLines; ++i) names.push_back(absl::StrCat("line ", i));
    std::sort(names.begin(), names.end());
    for (const std::string& name : names) {
      const bool first = section == std::string("first") && name == "line 0";
      absl::StrAppend(&expected, name, " | ", std::string(100, 'x'), first ? " | a reason" : "", "\n");
    }
  }
  EXPECT_EQ(FileContents(path), expected);
  EXPECT_EQ(folder.Files(), std::vector<std::string>{"list.txt"});
}

// A case may have a name that looks like a comment.
TEST(RecordedList, NamesMayBeginWithANumberSign) {
  const TemporaryFolder folder;
  const std::string path = folder / "list.txt";
  WriteContents(path, "# A comment.\n");
  Record(path, "one", {{"#1 a rule", "open"}}, /*whole=*/true);
  Record(path, "two", {{"#2 a rule", "open"}}, /*whole=*/true);
  EXPECT_EQ(FileContents(path), "# A comment.\n\n[one]\n#1 a rule | open\n\n[two]\n#2 a rule | open\n");
}

TEST(RecordedList, AWholeSectionLosesTheLinesOfOtherCases) {
  const TemporaryFolder folder;
  const std::string path = folder / "list.txt";
  Record(path, "one", {{"a", "found"}, {"b", "found"}}, /*whole=*/true);
  Record(path, "one", {{"b", "found"}, {"c", ""}}, /*whole=*/false);
  EXPECT_EQ(FileContents(path), "\n[one]\na | found\nb | found\n");
  Record(path, "one", {{"b", "found"}, {"c", ""}}, /*whole=*/true);
  EXPECT_EQ(FileContents(path), "\n[one]\nb | found\n");
}

}  // namespace
}  // namespace rewright
