#include "tests/tools/program_util.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace rewright {

nlohmann::json Outcome::Json() const {
  nlohmann::json json = nlohmann::json::parse(out, nullptr, /*allow_exceptions=*/false);
  EXPECT_TRUE(json.is_object()) << "standard output:\n" << out << "\nstandard error:\n" << err;
  return json.is_object() ? json : nlohmann::json::object();
}

namespace {

// Runs a script with the variables out, err, log (files) and program.
Outcome RunScript(const TemporaryFolder& folder, const std::string& script) {
  const std::string command = "out=" + (folder / "out") + "; err=" + (folder / "err") + "; log=" + (folder / "log") +
                              "; program=" + REWRIGHT_BINARY_DIR + "/rewright; " + script;
  const int raw = std::system(command.c_str());
  Outcome outcome;
  outcome.status = WIFEXITED(raw) ? WEXITSTATUS(raw) : 128 + WTERMSIG(raw);
  outcome.out = FileContents(folder / "out");
  outcome.err = FileContents(folder / "err");
  return outcome;
}

}  // namespace

Outcome Rewright(const std::string& arguments) {
  const TemporaryFolder folder;
  return RunScript(folder, "$program " + arguments + " >$out 2>$err </dev/null");
}

Outcome RewrightInterrupted(const std::string& arguments, const std::string& word) {
  const TemporaryFolder folder;
  return RunScript(folder, "$program " + arguments +
                               " --log-file $log >$out 2>$err </dev/null & pid=$!; "
                               "while ! grep -q '" +
                               word +
                               "' $log 2>/dev/null && kill -0 $pid; do sleep 0.02; done; "
                               "kill -INT $pid; wait $pid");
}

Outcome RewrightInterruptedAfter(const std::string& arguments, double seconds) {
  const TemporaryFolder folder;
  return RunScript(folder, "$program " + arguments + " >$out 2>$err </dev/null & pid=$!; sleep " +
                               std::to_string(seconds) + "; kill -INT $pid 2>/dev/null; wait $pid");
}

Outcome RewrightScript(const std::string& script) {
  const TemporaryFolder folder;
  return RunScript(folder, script);
}

TemporaryFolder::TemporaryFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "rewright-test-XXXXXX").string();
  path_ = mkdtemp(pattern.data());
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code error;
  std::filesystem::remove_all(path_, error);
}

std::vector<std::string> TemporaryFolder::Files() const {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(path_))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

std::string FileContents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream contents;
  contents << file.rdbuf();
  return contents.str();
}

void WriteContents(const std::string& path, const std::string& contents) {
  std::ofstream(path, std::ios::binary) << contents;
}

}  // namespace rewright
