#include "tests/tools/program/program_util.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>

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

}  // namespace rewright
