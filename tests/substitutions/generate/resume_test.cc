// An enumeration that was ended at any byte of its journal, or that several processes share, finds the same.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>

#include "gtest/gtest.h"
#include "substitutions/generate/find_pairs.h"

namespace rewright::generate {
namespace {

class Folder {
 public:
  Folder() {
    std::string path = (std::filesystem::temp_directory_path() / "generate_XXXXXX").string();
    EXPECT_NE(mkdtemp(path.data()), nullptr);
    path_ = path;
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

Space Small() {
  Space space = TasoSpace();
  EXPECT_TRUE(Restrict({"matmul", "relu", "concat0_2d", "split0"}, 2, &space).ok());
  space.max_ops = 4;
  return space;
}

std::string Text(const Space& space, const FoundPairs& found) {
  std::string text = std::to_string(found.counts.graphs) + " " + std::to_string(found.counts.distinct) + " " +
                     std::to_string(found.counts.matches) + " " + std::to_string(found.counts.instances) + "\n";
  for (const Pair& pair : found.pairs) text += ToString(space, pair.first) + " = " + ToString(space, pair.second) + "\n";
  return text;
}

TEST(Resume, GoesOnFromAnyByteOfTheJournal) {
  const Space space = Small();
  const auto undisturbed = FindPairs(space, {});
  ASSERT_TRUE(undisturbed.ok());
  ASSERT_GT(undisturbed->pairs.size(), 10u);
  const Folder folder;
  std::mt19937_64 rng(7);
  for (int trial = 0; trial < 6; ++trial) {
    // The first run writes all of it; the others find it cut off somewhere.
    const auto resumed = FindPairs(space, {.threads = 1 + trial % 2, .journal = folder.path()});
    ASSERT_TRUE(resumed.ok()) << resumed.status().message();
    EXPECT_TRUE(Text(space, *resumed) == Text(space, *undisturbed)) << trial;
    const std::string file = folder / "enumeration.0.journal";
    const auto size = std::filesystem::file_size(file);
    ASSERT_GT(size, 10000u);
    std::filesystem::resize_file(file, rng() % size);
  }
}

TEST(Resume, ReadsBackFromTheJournalWhatMemoryDoesNotHold) {
  const Space space = Small();
  const auto undisturbed = FindPairs(space, {});
  const Folder folder;
  const auto limited = FindPairs(space, {.memory_limit = 1500000, .journal = folder.path()});
  ASSERT_TRUE(undisturbed.ok() && limited.ok());
  EXPECT_GT(limited->passes, 1);
  EXPECT_TRUE(Text(space, *limited) == Text(space, *undisturbed));
}

TEST(Resume, RefusesTheJournalOfAnotherSpace) {
  Space space = Small();
  space.max_ops = 2;
  const Folder folder;
  ASSERT_TRUE(FindPairs(space, {.journal = folder.path()}).ok());
  space.max_ops = 3;
  const auto other = FindPairs(space, {.journal = folder.path()});
  ASSERT_FALSE(other.ok());
  EXPECT_NE(other.status().message().find("is of another run"), std::string::npos) << other.status().message();
}

std::string Output(const std::string& command) {
  FILE* pipe = popen(command.c_str(), "r");
  std::string output;
  char buffer[4096];
  while (pipe != nullptr && std::fgets(buffer, sizeof buffer, pipe) != nullptr) output += buffer;
  EXPECT_EQ(pclose(pipe), 0) << command;
  return output;
}

TEST(Ranks, ShareTheWorkAndFindTheSame) {
  if (std::system("command -v mpirun >/dev/null 2>&1") != 0) GTEST_SKIP() << "there is no mpirun";
  const Folder folder;
  const std::string program = REWRIGHT_BINARY_DIR "/rewright generate --quiet ";
  const std::string space = "--ops matmul,relu,concat0_2d,split0 --inputs 2 --max-ops 3 --threads 1 ";
  // As root it wants to be told twice; temporary files under a short path of its own.
  const std::string mpirun = "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun --oversubscribe -n 2 ";
  Output(program + space + "-o " + (folder / "one.rules"));
  Output(mpirun + program + space + "--resume " + (folder / "run") + " -o " + (folder / "two.rules"));
  const auto contents = [&](const std::string& name) {
    std::string text = Output("cat " + (folder / name));
    return text.substr(text.find('\n', text.find("-o ")));  // after the command, which names the file
  };
  EXPECT_GT(contents("one.rules").size(), 200u);
  EXPECT_EQ(contents("one.rules"), contents("two.rules"));
  EXPECT_TRUE(std::filesystem::exists(folder / "run/enumeration.1.journal"));
  // Once more, with everything known and another number of processes.
  Output(program + space + "--resume " + (folder / "run") + " -o " + (folder / "three.rules"));
  EXPECT_EQ(contents("one.rules"), contents("three.rules"));
}

}  // namespace
}  // namespace rewright::generate
