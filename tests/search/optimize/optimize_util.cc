#include "tests/search/optimize/optimize_util.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/base/files.h"
#include "tests/support/temporary_folder.h"

namespace rewright {

Baseline BaselineFrom(const std::string& rules) {
  const TemporaryFolder folder;
  std::string passes = "pass all\n";
  for (absl::string_view line : absl::StrSplit(rules, '\n')) {
    if (absl::ConsumePrefix(&line, "rule ")) absl::StrAppend(&passes, line, " a compiler\n");
  }
  WriteContents(folder / "passes.txt", passes);
  WriteContents(folder / "own.rules", rules);
  absl::StatusOr<Baseline> baseline =
      Baseline::Load(folder / "passes.txt", {folder / "own.rules"}, {.trust_unverified = true});
  EXPECT_TRUE(baseline.ok()) << baseline.status();
  return baseline.ok() ? *std::move(baseline) : Baseline();
}

}  // namespace rewright
