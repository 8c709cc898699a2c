// Errors about a program cvc5 that does not do its work.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "tests/support/temporary_folder.h"
#include "verifier/check/cvc5_query_solver.h"

namespace rewright {
namespace {

using ::testing::HasSubstr;

const SmtQuery kQuery{"test", "QF_LIA", "(set-logic QF_LIA)\n(assert false)\n(check-sat)\n"};

// Puts a script in the place of cvc5.
class Cvc5 : public ::testing::Test {
 protected:
  ~Cvc5() override { setenv("PATH", path_.c_str(), 1); }
  std::string ErrorOf(const std::string& script) {
    WriteContents(folder_ / "cvc5", "#!/bin/sh\n" + script + "\n");
    std::filesystem::permissions(folder_ / "cvc5", std::filesystem::perms::owner_all);
    setenv("PATH", (folder_.path() + ":" + path_).c_str(), 1);
    return std::string(AskCvc5({kQuery}, 1).status().message());
  }

  const TemporaryFolder folder_;
  const std::string path_ = std::getenv("PATH");
};

TEST_F(Cvc5, HowItEndedIsTold) {
  EXPECT_THAT(ErrorOf("cat >/dev/null; exit 3"),
              HasSubstr("answered 0 of 1 queries; then: nothing; it ended with status 3"));
  EXPECT_THAT(ErrorOf("kill -9 $$"), HasSubstr("it ended by signal 9"));
  EXPECT_THAT(ErrorOf("cat >/dev/null; echo what"), HasSubstr("answered 0 of 1 queries; then: what"));
}

}  // namespace
}  // namespace rewright
