#include "substitutions/prover_hash.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "core/base/files.h"
#include "core/base/text_hash.h"
#include "substitutions/rule_set.h"
#include "tests/support/temporary_folder.h"

namespace rewright {
namespace {

const std::string kRoot = REWRIGHT_SOURCE_DIR;
const std::string kList = std::string(REWRIGHT_BINARY_DIR) + "/substitutions/verdict_sources.txt";

std::vector<std::string> Sources() {
  std::istringstream lines(*ReadText(kList));
  std::vector<std::string> sources;
  for (std::string line; std::getline(lines, line);) sources.push_back(line);
  return sources;
}

// Returns the output of the build's own hash program for the sources below `root`; empty if it fails.
std::string HashOf(const std::string& root, const std::string& list) {
  const TemporaryFolder folder;
  const std::string command = std::string(REWRIGHT_BINARY_DIR) + "/substitutions/hash_sources " + root + " " + list +
                              " " + (folder / "out.cc") + " 2>/dev/null";
  if (std::system(command.c_str()) != 0) return "";
  const std::string text = *ReadText(folder / "out.cc");
  const size_t at = text.find("0x");
  return at == std::string::npos ? "" : text.substr(at + 2, 16);
}

// Copies the sources, so that a test may change one.
class ProverHashTest : public ::testing::Test {
 protected:
  ProverHashTest() {
    for (const std::string& source : Sources()) {
      const std::filesystem::path to = folder_ / source;
      std::filesystem::create_directories(to.parent_path());
      std::filesystem::copy_file(kRoot + "/" + source, to);
    }
  }

  void Replace(const std::string& source, const std::string& from, const std::string& to) {
    std::string text = *ReadText(folder_ / source);
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << source << " has no " << from;
    ASSERT_TRUE(WriteText(folder_ / source, text.replace(at, from.size(), to)).ok());
  }

  TemporaryFolder folder_;
};

TEST_F(ProverHashTest, IsThatOfTheSourcesAsTheyAre) {
  EXPECT_EQ(HashOf(folder_.path(), kList), TextHash::Hex(ProverHash()));
}

TEST_F(ProverHashTest, AChangedSourceChangesItAndACommentDoesNot) {
  const std::string now = HashOf(folder_.path(), kList);
  for (const char* source : {"verifier/normal_form/normal_form.cc", "verifier/prove/prover.h", "core/index/laws.h",
                             "core/ir/expr.cc", "core/ir/functions.def", "substitutions/instance/instances.cc"}) {
    const std::string whole = *ReadText(folder_ / source);
    ASSERT_TRUE(WriteText(folder_ / source, "// Another word.\n\n" + whole + "\n/* And\n one more. */\n").ok());
    EXPECT_EQ(HashOf(folder_.path(), kList), now) << source;
    ASSERT_TRUE(WriteText(folder_ / source, whole + "\nint one;\n").ok());
    EXPECT_NE(HashOf(folder_.path(), kList), now) << source;
    ASSERT_TRUE(WriteText(folder_ / source, whole).ok());
  }
  Replace("verifier/normal_form/one_term.cc", "return", "return true,");
  EXPECT_NE(HashOf(folder_.path(), kList), now);
}

TEST_F(ProverHashTest, ASourceThatIsGoneIsToldOf) {
  std::filesystem::remove(folder_ / "verifier/normal_form/normal_form.cc");
  EXPECT_EQ(HashOf(folder_.path(), kList), "");
}

// No source in the list includes a source of the verifier that is left out.
TEST(VerdictSourcesTest, IncludeNoSourceOfTheVerifierThatIsLeftOut) {
  const std::vector<std::string> list = Sources();
  const std::set<std::string> in(list.begin(), list.end());
  ASSERT_GT(in.size(), 60u);
  const std::regex include("#include \"((verifier|core/index)/[^\"]+)\"");
  int seen = 0;
  for (const std::string& source : list) {
    const std::string text = *ReadText(kRoot + "/" + source);
    for (std::sregex_iterator it(text.begin(), text.end(), include), end; it != end; ++it, ++seen) {
      EXPECT_TRUE(in.count((*it)[1])) << source << " includes " << (*it)[1];
    }
  }
  EXPECT_GT(seen, 100);
}

// tools/renew_rules.sh renews proofs that a change made stale.
TEST(ShippedRecordsTest, AreOfTheProverOfToday) {
  size_t records = 0;
  for (const char* folder : {"rules", "baseline"}) {
    for (const auto& entry : std::filesystem::directory_iterator(kRoot + "/substitutions/" + folder)) {
      if (entry.path().extension() != ".rules") continue;
      const auto rules = ReadRules(entry.path());
      ASSERT_TRUE(rules.ok()) << rules.status();
      size_t stale = 0;
      for (const Rule& rule : *rules) stale += !rule.proof || rule.proof->prover != ProverHash();
      EXPECT_EQ(stale, 0u) << entry.path() << ": of " << rules->size()
                           << " rules so many were proved by another prover; tools/renew_rules.sh renews them";
      records += rules->size();
    }
  }
  EXPECT_GT(records, 300u);
}

}  // namespace
}  // namespace rewright
