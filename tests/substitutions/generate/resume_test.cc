// Tests that an enumeration that was ended at any byte of its journal, or that several processes share, finds the same.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>

#include "gtest/gtest.h"
#include "substitutions/generate/enumerate/find_pairs.h"
#include "tests/support/mpirun.h"

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
  for (const Pair& pair : found.pairs)
    text += ToString(space, pair.first) + " = " + ToString(space, pair.second) + "\n";
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
    // The first run writes the whole journal; later runs find it cut off somewhere.
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

const std::string kProgram = REWRIGHT_BINARY_DIR "/rewright generate --quiet ";

// The comparison skips the command, which names the file.
std::string RulesOf(const std::string& path) {
  const std::string text = Output("cat " + path);
  return text.substr(text.find('\n', text.find("-o ")));
}

TEST(Ranks, ShareTheWorkAndFindTheSame) {
  if (!HasMpirun()) GTEST_SKIP() << "there is no mpirun";
  const Folder folder;
  const std::string space = "--ops matmul,relu,transpose --inputs 2 --max-ops 3 --threads 1 ";
  Output(kProgram + space + "-o " + (folder / "one.rules"));
  Output(Mpirun(2) + kProgram + space + "--resume " + (folder / "run") + " -o " + (folder / "two.rules"));
  EXPECT_GT(RulesOf(folder / "one.rules").size(), 200u);
  EXPECT_EQ(RulesOf(folder / "one.rules"), RulesOf(folder / "two.rules"));
  EXPECT_TRUE(std::filesystem::exists(folder / "run/enumeration.1.journal"));
  // Runs once more, with everything known and another number of processes.
  Output(kProgram + space + "--resume " + (folder / "run") + " -o " + (folder / "three.rules"));
  EXPECT_EQ(RulesOf(folder / "one.rules"), RulesOf(folder / "three.rules"));
}

// A search that starts again after refuted candidates also resumes from any byte, on any number of threads and
// processes.
TEST(Restarts, GoOnFromAnyByteOfTheJournals) {
  const Folder folder;
  const std::string run = kProgram + "--preset elementwise --space scaled --max-ops 2 ";
  const std::string with_journals = run + "--resume " + (folder / "run") + " -o " + (folder / "again.rules");
  Output(run + "-o " + (folder / "one.rules"));
  const std::string whole = RulesOf(folder / "one.rules");
  EXPECT_GT(whole.size(), 200u);
  std::mt19937_64 rng(11);
  for (int trial = 0; trial < 4; ++trial) {
    Output(with_journals + " --threads " + std::to_string(1 + trial % 2));
    EXPECT_EQ(RulesOf(folder / "again.rules"), whole) << trial;
    for (const char* name : {"selection.journal", "again1/enumeration.0.journal", "again1/selection.journal"}) {
      const std::string file = folder / "run" + ("/" + std::string(name));
      const auto size = std::filesystem::file_size(file);
      ASSERT_GT(size, 500u) << name;
      if (rng() % 2 == 0) std::filesystem::resize_file(file, rng() % size);
    }
    if (trial == 2) std::filesystem::remove_all(folder / "run/again1");  // ended before it was begun
  }
  if (!HasMpirun()) return;
  Output(Mpirun(2) + run + "--threads 1 --resume " + (folder / "ranks") + " -o " + (folder / "two.rules"));
  EXPECT_EQ(RulesOf(folder / "two.rules"), whole);
}

}  // namespace
}  // namespace rewright::generate
