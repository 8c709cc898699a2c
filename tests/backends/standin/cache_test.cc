// Tests of the plugin's files on disk: a file that is not whole, or of another kind, counts as none.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "backends/cuda/plugin/context.h"
#include "tests/support/temporary_folder.h"

namespace rewright::cuda {
namespace {

namespace fs = std::filesystem;

class Cache : public ::testing::Test {
 protected:
  Cache() { context_.cache_folder = folder_.path(); }

  std::string Read(const std::string& key) const {
    std::string content;
    return ReadCached(context_, "kernel", key, &content) ? content : "none";
  }
  fs::path File() const { return folder_ / folder_.Files().front(); }

  const TemporaryFolder folder_;
  Context context_;
};

TEST_F(Cache, GivesWhatItWasGiven) {
  const std::string binary("a\0b\xff", 4);
  WriteCached(context_, "kernel", "key", binary);
  EXPECT_EQ(Read("key"), binary);
  EXPECT_EQ(Read("another"), "none");
  WriteCached(context_, "kernel", "key", "");
  EXPECT_EQ(Read("key"), "");
  EXPECT_EQ(folder_.Files().size(), 1u) << "nothing is left beside it";
}

TEST_F(Cache, AFileThatIsNotWholeIsNone) {
  const std::string content(1000, 'x');
  WriteCached(context_, "kernel", "key", content);
  const auto size = fs::file_size(File());
  for (const auto left : {size - 1, size / 2, decltype(size){5}, decltype(size){0}}) {
    WriteCached(context_, "kernel", "key", content);
    EXPECT_EQ(Read("key"), content);
    fs::resize_file(File(), left);
    EXPECT_EQ(Read("key"), "none") << left;
  }
  WriteCached(context_, "kernel", "key", content);
  std::fstream(File(), std::ios::in | std::ios::out | std::ios::binary).seekp(-3, std::ios::end).put('y');
  EXPECT_EQ(Read("key"), "none") << "another byte";
}

// A link that lies where a process writes first: it would write through it, into any file of its user.
TEST_F(Cache, NothingIsWrittenThroughALink) {
  WriteCached(context_, "kernel", "key", "content");
  const fs::path file = File(), victim = TemporaryFile("victim");
  std::ofstream(victim) << "mine";
  fs::remove(file);
  fs::create_symlink(victim, file.string() + "." + std::to_string(getpid()));
  WriteCached(context_, "kernel", "key", "content");
  std::ifstream read(victim);
  EXPECT_EQ(std::string((std::istreambuf_iterator<char>(read)), {}), "mine");
  EXPECT_EQ(Read("key"), "content");
}

}  // namespace
}  // namespace rewright::cuda
