#include "tools/verbs/rules/rules.h"

#include <unistd.h>

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "substitutions/generate/enumerate/space.h"

namespace rewright {
namespace {

constexpr absl::string_view kEnding = ".rules";
// The set that is made of those of the presets (docs/generator.md).
constexpr absl::string_view kCombinedSet = "all";

bool IsFile(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

// Empty, or how a set of the generator that is not there is made.
std::string MissingSet(const std::string& path) {
  const std::string set(absl::StripSuffix(path, kEnding));
  const std::vector<std::string> presets = generate::PresetNames();
  const bool of_preset = std::find(presets.begin(), presets.end(), set) != presets.end();
  if (IsFile(path) || !(of_preset || set == kCombinedSet)) return "";
  const std::string all = "`cmake --build build/release --target rule_sets` makes the sets of the generator";
  return absl::StrCat(
      path, ": this set has not been made; ",
      of_preset ? absl::StrCat("`rewright generate --preset ", set, " -o ", set, kEnding, "` makes it, and ", all)
                : all);
}

}  // namespace

Flag RuleFile(Flag flag) { return flag.Map(PathOfRules).Check(MissingSet, ""); }

Flag RuleFiles(Flag flag) { return RuleFile(flag).OneAtATime(); }

void AddRules(CommandLine& line, RuleSettings* settings) {
  RuleFiles(line.Add("--rules", &settings->rules,
                     "Rules to use, a file or the name of one that comes with the program or was made beside it "
                     "(repeatable; default core.rules)"))
      .Type("FILE");
  line.Add("--disable-rule", &settings->disabled_rules, "A rule not to use (repeatable)").Type("NAME").OneAtATime();
  line.AddSwitch("--exact", &settings->exact,
                 "Only rules that keep every bit in the reference interpreter's float32 and float64");
  line.AddSwitch("--assume-finite", &settings->assume_finite, "Also rules that need every value to be finite");
  line.AddSwitch("--trust-unverified", &settings->trust_unverified, "Also rules without a proof that is up to date");
}

void AddCost(CommandLine& line, std::string* cost) {
  line.Add("--cost", cost,
           "What is minimized: measured (the default), or analytic:v100, analytic:v100-strict, "
           "analytic:v100-roofline, analytic:k80, analytic:h100, analytic:h200, analytic:zen3, "
           "analytic:FILE.json")
      .Check(
          [](const std::string& given) {
            const bool known = given == "measured" || absl::StartsWith(given, "analytic:");
            return known ? "" : absl::StrCat("found `", given, "`, expected measured or analytic:NAME");
          },
          "measured|analytic:NAME");
}

void AddKernelLaws(CommandLine& line, std::vector<std::string>* names) {
  line.Add("--disable-kernel-law", names,
           "A proved law that kernels may not use, such as conv-winograd-4x4-3x3 or fold, or tiles: those of bf16 for "
           "f32 (repeatable)")
      .Type("NAME")
      .OneAtATime()
      .Formerly("--no-rule");
}

}  // namespace rewright
