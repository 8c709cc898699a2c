// Outputs of the program: only regular files, looked at before any work; standard output; nothing lost on a full disk.
#include "tools/program/outputs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/tools/program/program_util.h"

namespace rewright {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr char kRules[] =
    "rule twice neg(neg(x)) => x\n"
    "rule relu-twice relu(relu(x)) => relu(x)\n";

// A file system with all that an output may not be.
class Outputs : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::create_directory(folder_ / "folder");
    ASSERT_EQ(mkfifo((folder_ / "pipe").c_str(), 0600), 0);
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    ASSERT_LT((folder_ / "socket").size(), sizeof address.sun_path);
    std::strcpy(address.sun_path, (folder_ / "socket").c_str());
    socket_ = socket(AF_UNIX, SOCK_STREAM, 0);
    ASSERT_EQ(bind(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    fs::create_symlink("round", folder_ / "about");
    fs::create_symlink("about", folder_ / "round");
    fs::create_symlink("no/such", folder_ / "lost");
    fs::create_symlink("pipe", folder_ / "first");
    fs::create_symlink("first", folder_ / "chain");
    WriteContents(folder_ / "laws.rules", kRules);
    ASSERT_EQ(Rewright("zoo mlp --layers 1 --quiet -o " + Model()).status, 0);
    before_ = folder_.Files();
  }
  void TearDown() override { close(socket_); }
  std::string Model() const { return folder_ / "m.onnx"; }
  // As quick as it gets.
  std::string Optimize(const std::string& flags) const {
    return absl::StrCat("optimize ", Model(), " --cost analytic:v100 --budget 1 --no-check ", flags);
  }

  TemporaryFolder folder_;
  int socket_ = -1;
  std::vector<std::string> before_;
};

struct Bad {
  const char* name;
  const char* why;
};
constexpr Bad kBad[] = {
    {"folder", "is a folder, expected the name of a file"},
    {"pipe", "is a named pipe, expected a regular file"},
    {"socket", "is a socket, expected a regular file"},
    {"chain", "which is a named pipe, expected a regular file"},
    {"round", "its symbolic links go round in a circle"},
    {"lost", "no does not exist"},
    {"absent/f", "absent does not exist"},
    {"m.onnx/f", "m.onnx is not a folder"},
};

// Every flag of every verb that names a file to write. The inputs do not exist: the output is looked at first.
TEST_F(Outputs, ThatAreNoRegularFilesAreRefusedBeforeAnyWork) {
  const std::vector<std::string> commands = {
      "zoo mlp -o @",
      "zoo mlp --log-file @",
      "optimize absent.onnx -o @",
      "optimize absent.onnx --trace @",
      "optimize absent.onnx --report @",
      "optimize absent.onnx --proof @",
      "optimize absent.onnx --profile @",
      "compare absent.onnx --csv @",
      "compare absent.onnx --profile @",
      "profile absent.onnx --profile @",
      "profile absent.onnx --profile $db --export @",
      "verify absent.rules -o @",
      "verify absent.rules --resume @",
      "generate --preset taso -o @",
      "generate --preset definitions -o @",
      "generate --combine absent.rules -o @",
  };
  for (const std::string& command : commands) {
    for (const Bad& bad : kBad) {
      const std::string path = folder_ / bad.name;
      const Outcome outcome = Rewright(absl::StrReplaceAll(command, {{"@", path}, {"$db", folder_ / "new.db"}}));
      EXPECT_EQ(outcome.status, 2) << command;
      EXPECT_THAT(outcome.err, AllOf(HasSubstr(path + ": "), HasSubstr(bad.why))) << command;
      EXPECT_THAT(outcome.out, IsEmpty()) << command;
    }
  }
  EXPECT_EQ(folder_.Files(), before_);
}

TEST_F(Outputs, ADeviceIsNeverReplaced) {
  const std::string device = folder_ / "device";
  if (mknod(device.c_str(), S_IFCHR | 0666, makedev(1, 3)) != 0) GTEST_SKIP() << "no right to make a device";
  for (const char* flag : {"-o ", "--trace ", "--report ", "--proof ", "--log-file ", "--profile "}) {
    const Outcome outcome = Rewright(Optimize(flag + device));
    EXPECT_EQ(outcome.status, 2) << flag;
    EXPECT_THAT(outcome.err, HasSubstr(device + ": is a character device, expected a regular file")) << flag;
  }
  fs::create_symlink("device", folder_ / "link");
  EXPECT_THAT(Rewright("zoo mlp -o " + (folder_ / "link")).err, HasSubstr("which is a character device"));
  struct stat status;
  ASSERT_EQ(lstat(device.c_str(), &status), 0);
  EXPECT_TRUE(S_ISCHR(status.st_mode));
}

TEST_F(Outputs, FilesOfAFolderAreLookedAtAsWell) {
  // The name of the model's output, and those of the certificates, their index and the journals.
  const Outcome first = Rewright("run --iterations 1 --quiet --output-dir " + (folder_ / "outs") + " " + Model());
  ASSERT_EQ(first.status, 0) << first.err;
  for (const auto& entry : fs::directory_iterator(folder_ / "outs")) {
    const std::string path = entry.path();
    fs::remove(path);
    ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
    const Outcome outcome = Rewright("run --iterations 1 --output-dir " + (folder_ / "outs") + " " + Model());
    EXPECT_EQ(outcome.status, 2);
    EXPECT_THAT(outcome.err, HasSubstr(path + ": is a named pipe"));
    EXPECT_THAT(outcome.out, IsEmpty()) << "it ran";
    break;
  }
  for (const char* name : {"index", "relu-twice.cert"}) {
    const std::string path = absl::StrCat(folder_ / "certs-", name, "/", name);
    fs::create_directory(fs::path(path).parent_path());
    ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
    const Outcome outcome =
        Rewright("verify " + (folder_ / "laws.rules") + " --certificates " + fs::path(path).parent_path().string());
    EXPECT_EQ(outcome.status, 2) << name;
    EXPECT_THAT(outcome.err, HasSubstr(path + ": is a named pipe"));
    EXPECT_THAT(outcome.out, IsEmpty()) << "it proved";
  }
  for (const char* name : {"enumeration.0.journal", "enumeration.1.journal", "selection.journal"}) {
    const std::string path = absl::StrCat(folder_ / "state-", name, "/", name);
    fs::create_directory(fs::path(path).parent_path());
    ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
    const Outcome outcome = Rewright("generate --preset taso --ops relu --max-ops 1 -o " + (folder_ / "g.rules") +
                                     " --resume " + fs::path(path).parent_path().string());
    EXPECT_NE(outcome.status, 0) << name;
    EXPECT_THAT(outcome.err, HasSubstr(path + ": is a named pipe"));
  }
}

TEST_F(Outputs, OneFileIsNotWrittenTwiceNorAnInputLost) {
  const std::string same = folder_ / "same";
  fs::create_symlink("same", folder_ / "alias");
  const auto error = [&](const std::string& arguments) {
    const Outcome outcome = Rewright(arguments);
    EXPECT_EQ(outcome.status, 2) << arguments;
    return outcome.err;
  };
  EXPECT_THAT(error(Optimize("-o " + same + " --report " + same)), HasSubstr("is the file of -o already"));
  EXPECT_THAT(error(Optimize("--trace " + same + " --report " + (folder_ / "alias"))),
              HasSubstr("is the file of --trace already"));
  EXPECT_THAT(error(Optimize("--trace " + same + " --log-file " + same)),
              HasSubstr("is the file of --log-file already"));
  const std::string before = FileContents(Model());
  EXPECT_THAT(error(Optimize("--report " + Model())), HasSubstr("is read here, and would be lost"));
  EXPECT_THAT(error("compare " + Model() + " --csv " + Model()), HasSubstr("would be lost"));
  fs::create_hard_link(Model(), folder_ / "hard.onnx");
  EXPECT_THAT(error(Optimize("--trace " + (folder_ / "hard.onnx"))), HasSubstr("would be lost"));
  EXPECT_EQ(FileContents(Model()), before);
}

TEST_F(Outputs, ALinkStaysAndPermissionsStay) {
  fs::create_symlink("folder/real.onnx", folder_ / "out.onnx");
  WriteContents(folder_ / "folder/real.onnx", "old");
  ASSERT_EQ(chmod((folder_ / "folder/real.onnx").c_str(), 0600), 0);
  ASSERT_EQ(Rewright("zoo mlp --layers 1 --quiet -o " + (folder_ / "out.onnx")).status, 0);
  EXPECT_TRUE(fs::is_symlink(folder_ / "out.onnx"));
  EXPECT_EQ(FileContents(folder_ / "folder/real.onnx"), FileContents(Model()));
  struct stat status;
  ASSERT_EQ(stat((folder_ / "folder/real.onnx").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

// ---------------------------------------------------------------- standard output

TEST_F(Outputs, AModelOnStandardOutputIsAlone) {
  const Outcome zoo = Rewright("zoo mlp --layers 1 -o -");
  EXPECT_EQ(zoo.status, 0);
  EXPECT_EQ(zoo.out, FileContents(Model()));
  EXPECT_THAT(zoo.err, HasSubstr("mlp, "));

  const Outcome optimized = Rewright(Optimize("-o -"));
  EXPECT_EQ(optimized.status, 0) << optimized.err;
  EXPECT_THAT(optimized.err, HasSubstr("result: "));
  WriteContents(folder_ / "piped.onnx", optimized.out);
  EXPECT_EQ(Rewright("diff " + Model() + " " + (folder_ / "piped.onnx")).status, 0);
  EXPECT_THAT(Rewright(Optimize("-o - --quiet")).err, IsEmpty());
}

TEST_F(Outputs, TextOnStandardOutputIsAlone) {
  const std::string file = folder_ / "proved.rules";
  EXPECT_EQ(Rewright("verify " + (folder_ / "laws.rules") + " -o " + file).status, 0);
  const Outcome verified = Rewright("verify " + (folder_ / "laws.rules") + " -o -");
  EXPECT_EQ(verified.status, 0);
  EXPECT_EQ(verified.out, FileContents(file));
  EXPECT_THAT(verified.err, HasSubstr("2 rules: 2 proved"));
  const Outcome reported = Rewright(Optimize("-o " + (folder_ / "x.onnx") + " --report -"));
  EXPECT_THAT(reported.out, HasSubstr("<html"));
  EXPECT_THAT(reported.out, Not(HasSubstr("result: ")));
}

TEST_F(Outputs, StandardOutputHoldsOneThing) {
  EXPECT_THAT(Rewright(Optimize("-o - --json")).err, HasSubstr("-o -: --json prints on standard output as well"));
  EXPECT_THAT(Rewright(Optimize("-o - --report -")).err,
              HasSubstr("--report -: standard output is taken by -o already"));
  EXPECT_THAT(Rewright(Optimize("--profile -")).err, HasSubstr("--profile: found `-`, expected the name of a file"));
}

TEST_F(Outputs, AFullStandardOutputIsAnError) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  for (const std::string& arguments : {std::string("ops"), std::string("ops --json"), std::string("--help"),
                                       std::string("zoo mlp --layers 1 -o -"), Optimize("-o -"), Optimize("")}) {
    const Outcome outcome = RewrightScript("$program " + arguments + " >/dev/full 2>$err </dev/null");
    EXPECT_EQ(outcome.status, 2) << arguments;
    EXPECT_THAT(outcome.err, HasSubstr("standard output")) << arguments;
    EXPECT_THAT(outcome.err, HasSubstr("No space left on device")) << arguments;
  }
}

TEST_F(Outputs, WithoutAPathNothingIsWritten) {
  const Outcome optimized = Rewright(Optimize(""));
  EXPECT_EQ(optimized.status, 0) << optimized.err;
  EXPECT_THAT(optimized.out, HasSubstr("result: "));
  const Outcome zoo = Rewright("zoo mlp --layers 1");
  EXPECT_EQ(zoo.status, 0) << zoo.err;
  EXPECT_THAT(zoo.out, HasSubstr("mlp, "));
  EXPECT_EQ(folder_.Files(), before_);
}

// ---------------------------------------------------------------- limits

TEST_F(Outputs, AFileThatMayNotGrowLeavesTheOldOne) {
  const std::string out = folder_ / "old.onnx";
  WriteContents(out, "old");
  const auto files = folder_.Files();
  const Outcome outcome = RewrightScript("ulimit -f 8; $program zoo mlp -o " + out + " >$out 2>$err </dev/null");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr(out + ": cannot write: File too large"));
  EXPECT_EQ(FileContents(out), "old");
  EXPECT_EQ(folder_.Files(), files);
}

TEST_F(Outputs, ALogThatIsFullIsSaidAndTheWorkGoesOn) {
  WriteContents(folder_ / "log", "2024-01-01T00:00:00.000 note " + std::string(4096, 'x') + "\n");
  const Outcome outcome =
      RewrightScript("ulimit -f 8; $program ops matmul --log-file " + (folder_ / "log") + " >$out 2>$err </dev/null");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.out, HasSubstr("matmul"));
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("warning: --log-file: "), HasSubstr("File too large")));
}

TEST_F(Outputs, AFolderThatMayNotBeWrittenIsSaidFirst) {
  if (geteuid() == 0) GTEST_SKIP() << "the superuser may write everywhere";
  fs::permissions(folder_ / "folder", fs::perms::owner_read | fs::perms::owner_exec);
  EXPECT_THAT(Rewright("optimize absent.onnx -o " + (folder_ / "folder/x.onnx")).err,
              HasSubstr("cannot be written: Permission denied"));
  fs::permissions(folder_ / "folder", fs::perms::owner_all);
}

}  // namespace
}  // namespace rewright
