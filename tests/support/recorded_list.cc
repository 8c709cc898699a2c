#include "tests/support/recorded_list.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/base/files.h"

namespace rewright {
namespace {

struct Line {
  std::string found, reason;
};
using Lines = std::map<std::string, Line>;

struct ListFile {
  std::vector<std::string> comments;  // at the head
  std::map<std::string, Lines> sections;
};

ListFile Read(const std::string& path) {
  ListFile file;
  Lines* section = nullptr;
  std::ifstream in(path);
  for (std::string text; std::getline(in, text);) {
    if (section == nullptr && absl::StartsWith(text, "#")) {
      file.comments.push_back(text);
    } else if (absl::StartsWith(text, "[") && absl::EndsWith(text, "]")) {
      section = &file.sections[text.substr(1, text.size() - 2)];
    } else if (!text.empty()) {
      std::vector<std::string> parts = absl::StrSplit(text, " | ");
      parts.resize(3);
      EXPECT_TRUE(section != nullptr && !parts[1].empty() &&
                  section->emplace(parts[0], Line{parts[1], parts[2]}).second)
          << path << ": `" << text << "` is no line of a list, or the second of its name";
      if (section == nullptr) break;
    }
  }
  return file;
}

absl::Status Write(const std::string& path, const ListFile& file) {
  std::string text;
  for (const std::string& comment : file.comments) absl::StrAppend(&text, comment, "\n");
  for (const auto& [section, lines] : file.sections) {
    absl::StrAppend(&text, "\n[", section, "]\n");
    for (const auto& [name, line] : lines) {
      absl::StrAppend(&text, name, " | ", line.found, line.reason.empty() ? "" : " | ", line.reason, "\n");
    }
  }
  return WriteText(path, text);
}

// Keeps other writers of the folder's lists away. The lock is the system's (flock), which ends with the process.
class FolderLock {
 public:
  explicit FolderLock(const std::string& folder) : descriptor_(open(folder.c_str(), O_RDONLY | O_DIRECTORY)) {
    EXPECT_TRUE(descriptor_ >= 0 && flock(descriptor_, LOCK_EX) == 0) << folder << " cannot be locked";
  }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  ~FolderLock() { close(descriptor_); }

 private:
  const int descriptor_;
};

// The text on one line, without the mark that parts the columns.
std::string OneLine(const std::string& text) {
  std::string line = text;
  std::replace(line.begin(), line.end(), '|', '/');
  std::replace(line.begin(), line.end(), '\n', ' ');
  absl::RemoveExtraAsciiWhitespace(&line);
  return line;
}

Findings OnOneLineEach(const Findings& findings) {
  Findings lines;
  for (const auto& [name, found] : findings) lines[OneLine(name)] = OneLine(found);
  EXPECT_EQ(lines.size(), findings.size()) << "two cases have one name";
  return lines;
}

// How the test at hand is run for its list.
std::string Command() {
  const auto& info = *::testing::UnitTest::GetInstance()->current_test_info();
  return absl::StrCat("REWRIGHT_FULL=1 REWRIGHT_RECORD=1 <the test program> --gtest_filter=", info.test_suite_name(),
                      ".", info.name());
}

}  // namespace

void Record(const std::string& path, const std::string& section, const Findings& findings, bool whole) {
  const Findings tried = OnOneLineEach(findings);
  const FolderLock lock(std::filesystem::path(path).parent_path().string());
  ListFile list = Read(path);
  Lines& lines = list.sections[section];
  if (whole) std::erase_if(lines, [&](const auto& line) { return !tried.contains(line.first); });
  for (const auto& [name, found] : tried) {
    if (found.empty()) {
      lines.erase(name);
    } else {
      lines[name].found = found;
    }
  }
  const absl::Status written = Write(path, list);
  EXPECT_TRUE(written.ok()) << written;
}

void ExpectRecorded(const std::string& file, const std::string& section, const Findings& findings, bool whole) {
  EXPECT_FALSE(findings.empty()) << file << " [" << section << "]: no case was tried";
  const std::string path = absl::StrCat(REWRIGHT_SOURCE_DIR, "/tests/", file);
  if (std::getenv("REWRIGHT_RECORD") != nullptr) return Record(path, section, findings, whole);
  ListFile list = Read(path);
  const Lines& lines = list.sections[section];
  const Findings tried = OnOneLineEach(findings);
  std::vector<std::string> differences;
  for (const auto& [name, line] : lines) {
    const auto at = tried.find(name);
    if (at == tried.end()) {
      if (whole) differences.push_back(absl::StrCat("- ", name, " | ", line.found, "   (there is no such case)"));
    } else if (at->second != line.found) {
      differences.push_back(absl::StrCat("- ", name, " | ", line.found));
    }
  }
  for (const auto& [name, found] : tried) {
    const auto at = lines.find(name);
    const bool same = at == lines.end() ? found.empty() : found == at->second.found;
    if (!same && !found.empty()) differences.push_back(absl::StrCat("+ ", name, " | ", found));
  }
  EXPECT_TRUE(differences.empty()) << "found otherwise than tests/" << file << " [" << section << "] lists:\n"
                                   << absl::StrJoin(differences, "\n")
                                   << "\nIf that is right, the list is made anew by\n  " << Command()
                                   << "\nand the difference is read before it is committed.";
}

}  // namespace rewright
