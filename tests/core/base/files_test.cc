// Tests where outputs may be written, and that no data are lost on the way.
#include "core/base/files.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <thread>
#include <vector>

namespace rewright {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using ::testing::StartsWith;

class Files : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "/files-XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = fs::canonical(pattern).string();
  }
  void TearDown() override {
    fs::permissions(folder_, fs::perms::owner_all);
    fs::remove_all(folder_);
  }
  std::string In(const std::string& name) const { return folder_ + "/" + name; }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_)) names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }
  void Put(const std::string& name, const std::string& text) const { ASSERT_TRUE(WriteText(In(name), text).ok()); }
  std::string Get(const std::string& name) const { return ReadText(In(name)).value_or("nothing"); }
  void Link(const std::string& target, const std::string& name) const { fs::create_symlink(target, In(name)); }
  // Expects that both ways of writing refuse the name, and that both say why.
  void ExpectRefused(const std::string& name, const std::string& why) const {
    for (const absl::Status& status :
         {WriteText(In(name), "new"), CheckWritable(In(name)), AppendFile::Open(In(name)).status()}) {
      EXPECT_THAT(std::string(status.message()), AllOf(StartsWith(In(name) + ": "), HasSubstr(why)));
    }
  }

  std::string folder_;
};

TEST_F(Files, AreReplacedWhole) {
  Put("f", "old");
  Put("f", "new contents");
  EXPECT_EQ(Get("f"), "new contents");
  EXPECT_THAT(Names(), ElementsAre("f"));
}

TEST_F(Files, AreNotTouchedBeforeTheEnd) {
  Put("f", "old");
  {
    auto file = OutputFile::Create(In("f"));
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE(file->Write("new", 3).ok());
    EXPECT_EQ(Get("f"), "old");
  }
  EXPECT_EQ(Get("f"), "old");
  EXPECT_THAT(Names(), ElementsAre("f"));
}

TEST_F(Files, KeepTheirPermissionsAndNewOnesFollowTheMask) {
  Put("private", "old");
  ASSERT_EQ(chmod(In("private").c_str(), 0640), 0);
  const mode_t before = umask(027);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      for (int k = 0; k < 50; ++k) EXPECT_TRUE(WriteText(In("new" + std::to_string(i)), "x").ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
  Put("private", "new");
  EXPECT_EQ(umask(before), 027u);
  struct stat status;
  ASSERT_EQ(stat(In("private").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0640u);
  for (int i = 0; i < 4; ++i) {
    ASSERT_EQ(stat(In("new" + std::to_string(i)).c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0640u);
  }
}

TEST_F(Files, OtherNamesOfAReplacedFileKeepTheOldContents) {
  Put("f", "old");
  fs::create_hard_link(In("f"), In("other"));
  Put("f", "new");
  EXPECT_EQ(Get("f"), "new");
  EXPECT_EQ(Get("other"), "old");
}

TEST_F(Files, WhatIsNoRegularFileIsRefused) {
  fs::create_directory(In("folder"));
  ExpectRefused("folder", "is a folder, expected the name of a file");
  ExpectRefused("folder/", "is a folder");
  ASSERT_EQ(mkfifo(In("pipe").c_str(), 0600), 0);
  ExpectRefused("pipe", "is a named pipe, expected a regular file");
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  ASSERT_LT(In("socket").size(), sizeof address.sun_path);
  std::strcpy(address.sun_path, In("socket").c_str());
  const int socket_descriptor = socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(bind(socket_descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ExpectRefused("socket", "is a socket, expected a regular file");
  close(socket_descriptor);
  EXPECT_THAT(std::string(CheckWritable("/dev/null").message()), HasSubstr("/dev/null: is a character device"));
  EXPECT_THAT(std::string(CheckWritable("").message()), HasSubstr("empty"));
  EXPECT_THAT(Names(), ElementsAre("folder", "pipe", "socket"));
}

TEST_F(Files, NamesWithoutAFolderAreRefused) {
  Put("f", "x");
  ExpectRefused("no/g", "the folder " + In("no") + " does not exist");
  ExpectRefused("no/", "the folder " + In("no") + " does not exist");
  ExpectRefused("f/g", In("f") + " is not a folder");
  ExpectRefused("f/g/h", "is not one of folders");
}

TEST_F(Files, LinksStayAndWhatTheyLeadToIsWritten) {
  fs::create_directory(In("deep"));
  Put("deep/real", "old");
  Link("deep/real", "relative");
  Link(In("relative"), "absolute");
  Put("absolute", "new");
  EXPECT_EQ(Get("deep/real"), "new");
  EXPECT_TRUE(fs::is_symlink(In("relative")));
  EXPECT_TRUE(fs::is_symlink(In("absolute")));
  // A link whose target does not exist yet, in a folder that exists.
  Link("deep/later", "dangling");
  Put("dangling", "made");
  EXPECT_TRUE(fs::is_symlink(In("dangling")));
  EXPECT_EQ(Get("deep/later"), "made");
  auto log = AppendFile::Open(In("dangling"));
  ASSERT_TRUE(log.ok());
  EXPECT_TRUE(log->Write(" more").ok());
  EXPECT_EQ(Get("deep/later"), "made more");
  EXPECT_EQ(*OutputTarget(In("absolute")), In("deep/real"));
}

TEST_F(Files, LinksThatLeadToNoFileAreRefused) {
  Link("/dev/null", "null");
  ExpectRefused("null", "leads to /dev/null, which is a character device, expected a regular file");
  Link(".", "here");
  ExpectRefused("here", "which is a folder");
  Link("no/such", "lost");
  ExpectRefused("lost", "leads to " + In("no/such") + "; the folder " + In("no") + " does not exist");
  Link("b", "a");
  Link("a", "b");
  ExpectRefused("a", "its symbolic links go round in a circle");
  Link("itself", "itself");
  ExpectRefused("itself", "go round in a circle");
  EXPECT_THAT(Names(), ElementsAre("a", "b", "here", "itself", "lost", "null"));
}

TEST_F(Files, ThingsWithoutANameAreRefused) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const std::string path = "/proc/self/fd/" + std::to_string(ends[1]);
  EXPECT_THAT(std::string(CheckWritable(path).message()), HasSubstr("a named pipe without a name"));
  close(ends[0]);
  close(ends[1]);
}

TEST_F(Files, AreNotWrittenWithoutTheRight) {
  if (geteuid() == 0) GTEST_SKIP() << "the superuser may write everywhere";
  Put("f", "old");
  ASSERT_EQ(chmod(In("f").c_str(), 0444), 0);
  EXPECT_THAT(std::string(WriteText(In("f"), "new").message()), HasSubstr("cannot be written: Permission denied"));
  ASSERT_EQ(chmod(In("f").c_str(), 0644), 0);
  fs::permissions(folder_, fs::perms::owner_read | fs::perms::owner_exec);
  EXPECT_THAT(std::string(CheckWritable(In("f")).message()), HasSubstr("cannot be written: Permission denied"));
  EXPECT_EQ(Get("f"), "old");
}

// Limits the size of files to `bytes` bytes while it lives.
class SizeLimit {
 public:
  explicit SizeLimit(rlim_t bytes) : handler_(signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    rlimit limit = before_;
    limit.rlim_cur = bytes;
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~SizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    signal(SIGXFSZ, handler_);
  }

 private:
  sighandler_t handler_;
  rlimit before_;
};

TEST_F(Files, ThatDoNotFitLeaveTheOldOne) {
  Put("f", "old");
  {
    const SizeLimit limit(1000);
    EXPECT_THAT(std::string(WriteText(In("f"), std::string(2000, 'x')).message()),
                HasSubstr(In("f") + ": cannot write: File too large"));
  }
  EXPECT_EQ(Get("f"), "old");
  EXPECT_THAT(Names(), ElementsAre("f"));
}

TEST_F(Files, GoTogetherOrNotAtAll) {
  Put("model", "old");
  Put("data", "old");
  auto data = OutputFile::Create(In("data")), model = OutputFile::Create(In("model"));
  ASSERT_TRUE(data.ok() && model.ok());
  ASSERT_TRUE(data->Write("new", 3).ok() && model->Write("new", 3).ok());
  ASSERT_TRUE(OutputFile::CommitTogether({&*data, &*model}).ok());
  EXPECT_EQ(Get("data") + Get("model"), "newnew");
  EXPECT_THAT(Names(), ElementsAre("data", "model"));
}

TEST_F(Files, ThatGrowAreCutAndContinued) {
  {
    auto file = AppendFile::Open(In("log"));
    ASSERT_TRUE(file.ok());
    EXPECT_TRUE(file->Write("one two").ok());
  }
  auto file = AppendFile::Open(In("log"));
  ASSERT_TRUE(file.ok());
  EXPECT_TRUE(file->CutTo(3).ok());
  EXPECT_TRUE(file->Write(" three").ok());
  EXPECT_TRUE(file->Sync().ok());
  EXPECT_EQ(Get("log"), "one three");
}

TEST_F(Files, AreMappedInParts) {
  std::string contents(size_t{1} << 14, '\0');
  for (size_t i = 0; i < contents.size(); ++i) contents[i] = static_cast<char>(i * 7 % 251);
  Put("f", contents);
  const auto file = InputFile::Open(In("f"));
  ASSERT_TRUE(file.ok());
  const auto size = static_cast<int64_t>(contents.size());
  for (const auto& [offset, length] :
       std::vector<std::pair<int64_t, int64_t>>{{0, size}, {64, 100}, {4095, 2}, {4096, 4096}, {size - 1, 1}}) {
    const auto part = file->Map(offset, length);
    ASSERT_TRUE(part.ok()) << part.status();
    const char* const bytes = static_cast<const char*>(part->get());
    const std::string expected = contents.substr(static_cast<size_t>(offset), static_cast<size_t>(length));
    EXPECT_TRUE(IsMapped(bytes));
    EXPECT_EQ(std::string(bytes, static_cast<size_t>(length)), expected);
    ReleasePages(bytes, length);
    EXPECT_EQ(std::string(bytes, static_cast<size_t>(length)), expected);
    // Vector instructions may read beyond the end.
    const auto spare = static_cast<size_t>(InputFile::kSpareBytes);
    EXPECT_EQ(std::string(bytes + length, spare).size(), spare);
  }
  EXPECT_FALSE(file->Map(1, size).ok());
  EXPECT_FALSE(file->Map(-1, 1).ok());
  EXPECT_EQ(*file->Map(3, 0), nullptr);
}

TEST_F(Files, AloneAreGivenBack) {
  Put("f", "abc");
  const auto mapped = InputFile::Open(In("f"))->Map();
  ASSERT_TRUE(mapped.ok());
  // A new file of that name is another file.
  Put("f", "def");
  ReleasePages(mapped->get(), 3);
  EXPECT_EQ(std::string(static_cast<const char*>(mapped->get()), 3), "abc");
  std::vector<char> own(size_t{1} << 16, 'x');
  EXPECT_FALSE(IsMapped(own.data()));
  ReleasePages(own.data(), static_cast<int64_t>(own.size()));
  EXPECT_EQ(std::count(own.begin(), own.end(), 'x'), static_cast<int64_t>(own.size()));
}

TEST_F(Files, AreCopied) {
  const std::string contents = std::string(size_t{3} << 20, 'a') + "end";
  Put("from", contents);
  auto from = InputFile::Open(In("from"));
  auto to = OutputFile::Create(In("to"));
  ASSERT_TRUE(from.ok() && to.ok());
  ASSERT_TRUE(to->Write(*from).ok());
  ASSERT_TRUE(to->Commit().ok());
  EXPECT_EQ(Get("to"), contents);
}

TEST_F(Files, AFolderIsMadeOrRefused) {
  EXPECT_TRUE(MakeFolder(In("a/b")).ok());
  EXPECT_TRUE(MakeFolder(In("a/b")).ok());
  Put("f", "x");
  EXPECT_THAT(std::string(MakeFolder(In("f")).message()), StartsWith(In("f") + ": cannot be made a folder"));
}

TEST_F(Files, NamesInAFolderAreListedOrTheFaultIsTold) {
  EXPECT_THAT(*NamesIn(folder_), testing::IsEmpty());
  Put("b", "x");
  Put(".a", "y");
  fs::create_directory(In("c"));
  EXPECT_THAT(*NamesIn(folder_), testing::ElementsAre(".a", "b", "c"));
  EXPECT_EQ(NamesIn(In("none")).status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(NamesIn(In("b")).status().message()), StartsWith(In("b") + ": cannot read: "));
}

TEST_F(Files, FilesBesideMustBeFoundFromTheTarget) {
  fs::create_directory(In("deep"));
  Link("deep/m", "m");
  Link("n", "same");
  EXPECT_THAT(std::string(CheckFilesBeside(In("m")).message()), HasSubstr("in another folder"));
  EXPECT_TRUE(CheckFilesBeside(In("same")).ok());
  EXPECT_TRUE(CheckFilesBeside(In("new")).ok());
}

}  // namespace
}  // namespace rewright
