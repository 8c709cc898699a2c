// Flags, errors and exit statuses that all verbs share.

#include "tools/program/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "CLI/CLI.hpp"
#include "absl/strings/str_split.h"
#include "tests/tools/program/program_util.h"
#include "tools/program/flags.h"

namespace rewright {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::StartsWith;

// A wrong command line: what it says on standard error, and nothing on standard output.
struct UsageCase {
  const char* arguments;
  const char* message;
};

class Usage : public ::testing::TestWithParam<UsageCase> {};

TEST_P(Usage, IsRefusedWithStatusTwo) {
  const Outcome outcome = Rewright(GetParam().arguments);
  EXPECT_EQ(outcome.status, 2) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr(GetParam().message));
  EXPECT_THAT(outcome.err, StartsWith("rewright"));
  EXPECT_THAT(outcome.out, IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(
    Program, Usage,
    ::testing::Values(
        UsageCase{"", "a verb is expected"}, UsageCase{"optimise", "unknown verb `optimise`; did you mean `optimize`?"},
        UsageCase{"frobnicate", "unknown verb `frobnicate`"},
        UsageCase{"optimize --ouptut x", "unknown flag `--ouptut`; did you mean `--output`?"},
        UsageCase{"run m.onnx --iteration=3", "unknown flag `--iteration`; did you mean `--iterations`?"},
        UsageCase{"--jsn", "unknown flag `--jsn`"}, UsageCase{"run", "model is required"},
        UsageCase{"run m.onnx extra", "extra"},
        UsageCase{"run m.onnx --iterations 0", "--iterations: found `0`, expected an integer from 1 to 1000000"},
        UsageCase{"run m.onnx --iterations 1.5", "found `1.5`, expected an integer"},
        UsageCase{"run m.onnx --iterations", "--iterations"},
        UsageCase{"run m.onnx --threads -1", "--threads: found `-1`, expected an integer from 1"},
        UsageCase{"run m.onnx --seed x", "--seed: found `x`, expected an integer of at least 0"},
        UsageCase{"run m.onnx --dim N", "--dim: found `N`, expected NAME=N"},
        UsageCase{"run m.onnx --dim N=0", "--dim: found `N=0`, expected NAME=N"},
        UsageCase{"run m.onnx --dim N=1 --dim N=2", "--dim: `N` is given twice"},
        UsageCase{"run m.onnx --input x", "--input: found `x`, expected NAME=FILE"},
        UsageCase{"run m.onnx --device cpi",
                  "--device: found `cpi`, expected cpu, cuda:N, onnxruntime, openvino or reference"},
        UsageCase{"run m.onnx --device cuda:x", "--device: found `cuda:x`"},
        UsageCase{"diff a.onnx b.onnx --rtol -1", "--rtol: found `-1`, expected a number from 0"},
        UsageCase{"diff a.onnx b.onnx --time-limit 3", "--time-limit requires --prove"},
        UsageCase{"generate --sample 3 -o r", "--sample requires --count-only"},
        UsageCase{"generate --preset taso --from m.onnx -o r", "--from excludes --preset"},
        UsageCase{"generate --combine a.rules --max-ops 3 -o r", "--combine excludes --max-ops"},
        UsageCase{"generate --min-count 3 -o r", "--min-count requires --from"},
        UsageCase{"reduce a.onnx b.onnx -o d --rtol 1", "--rtol and --atol: found --by equal, expected --by run"},
        UsageCase{"simulate p.plan --cluster c.json --explain",
                  "and --explain: found --layout of a plan, expected auto"},
        UsageCase{"compare m.onnx --optimized o.onnx --trust-unverified", "--trust-unverified excludes --optimized"},
        UsageCase{"run /nonexistent/model.onnx", "/nonexistent/model.onnx"}, UsageCase{"run /", "/: "},
        UsageCase{"inspect /dev/null", "/dev/null"},
        UsageCase{"ops mattmul", "no operator is called `mattmul`; did you mean `matmul`?"},
        UsageCase{"ops xyzzy", "no operator is called `xyzzy`; `rewright ops` lists them"},
        UsageCase{"zoo resnet5", "no model is called `resnet5`; did you mean `resnet50`?"},
        UsageCase{"zoo mlp -o /nonexistent/a.onnx", "/nonexistent/a.onnx: the folder /nonexistent does not exist"},
        UsageCase{"zoo mlp -o /tmp", "/tmp: is a folder, expected the name of a file"},
        UsageCase{"zoo mlp -o /dev/null/a.onnx", "/dev/null is not a folder"},
        UsageCase{"ops --log-file /nonexistent/log",
                  "--log-file: /nonexistent/log: the folder /nonexistent does not exist"}));

TEST(Program, HelpAndVersion) {
  const Outcome help = Rewright("--help");
  EXPECT_EQ(help.status, 0);
  for (const char* verb : {"optimize", "run", "diff", "verify", "derive", "zoo", "ops", "inspect", "grad", "train"}) {
    EXPECT_THAT(help.out, HasSubstr(verb));
    const Outcome page = Rewright(std::string(verb) + " --help");
    EXPECT_EQ(page.status, 0);
    EXPECT_THAT(page.out, AllOf(HasSubstr("--json"), HasSubstr("--quiet"), HasSubstr("--log-file"), HasSubstr("--seed"),
                                HasSubstr("--threads")))
        << verb;
  }
  const Outcome version = Rewright("--version");
  EXPECT_EQ(version.status, 0);
  EXPECT_THAT(version.out,
              MatchesRegex("rewright [0-9]+\\.[0-9]+\\.[0-9]+ \\(commit [-0-9a-z]+, [A-Za-z]+, GCC [^)]*\\)\n"));
}

TEST(Program, EveryExampleIsACommand) {
  for (const Verb& verb : AllVerbs()) {
    EXPECT_FALSE(verb.examples.empty()) << verb.name;
    for (const Example& example : verb.examples) {
      const std::vector<std::string> arguments = absl::StrSplit(example.command, ' ');
      EXPECT_EQ(arguments.front(), verb.name);
      EXPECT_EQ(WrongArguments(arguments), "") << example.command;
      EXPECT_THAT(Rewright(verb.name + " --help").out, HasSubstr("rewright " + example.command));
    }
  }
  EXPECT_THAT(WrongArguments({"run", "m.onnx", "--nothing"}), HasSubstr("unknown flag"));
  EXPECT_EQ(Rewright("help run").out, Rewright("run --help").out);
}

// Every flag that takes a number refuses what is none and what lies outside of its range, before any work.
TEST(Program, NumbersHaveRanges) {
  int flags = 0;
  for (const Verb& verb : AllVerbs()) {
    CLI::App app;
    CommandLine line(&app);
    verb.declare(line);
    for (const CLI::Option* option : app.get_options()) {
      const std::string type = option->get_type_name();
      if (type != "N" && type != "X" && type != "S" && type != "BYTES" && type != "SIZE") continue;
      ++flags;
      const std::string name = "--" + option->get_lnames().front();
      for (const char* wrong : {"nan", "-1", "-inf", "1e999x", ""}) {
        EXPECT_THAT(WrongArguments({verb.name, name + "=" + wrong}), HasSubstr(name)) << verb.name << " " << wrong;
      }
      if (type == "S") {
        EXPECT_THAT(WrongArguments({verb.name, name + "=1e10"}), HasSubstr(name)) << verb.name;
      }
    }
  }
  EXPECT_GT(flags, 50);
}

TEST(Program, PrecisionsHaveOneName) {
  for (const char* precision : {"f16", "fp16", "f32", "fp32"}) {
    EXPECT_EQ(WrongArguments({"run", "m.onnx", "--precision", precision}), "");
    EXPECT_EQ(WrongArguments({"error", "m.onnx", "--precision", precision}), "");
  }
  EXPECT_THAT(WrongArguments({"run", "m.onnx", "--precision", "f8"}), HasSubstr("one of f32, tf32, f16, bf16"));
}

TEST(Program, FormerNamesOfFlagsWork) {
  EXPECT_EQ(WrongArguments({"compare", "m.onnx", "--rounds", "3"}), "");
  const Outcome outcome = Rewright("compare /nonexistent.onnx --rounds=3 --iterations 4");
  EXPECT_THAT(outcome.err, HasSubstr("--iterations"));
  const Outcome old = Rewright("compare /nonexistent.onnx --rounds=3");
  EXPECT_EQ(old.status, 2);
  EXPECT_THAT(old.err, AllOf(HasSubstr("warning: `--rounds` is called `--iterations` now"), HasSubstr("/nonexistent")));
}

TEST(Program, JsonIsAloneOnStandardOutput) {
  const Outcome outcome = Rewright("ops --json");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_GT(outcome.Json()["ops"].size(), 20u);
  EXPECT_THAT(outcome.err, HasSubstr("matmul"));
  EXPECT_THAT(Rewright("ops --json --quiet").err, IsEmpty());
}

TEST(Program, TheLogFileKeepsEverything) {
  const TemporaryFolder folder;
  EXPECT_EQ(Rewright("ops matmul --log-file " + (folder / "log")).status, 0);
  EXPECT_EQ(Rewright("ops xyzzy --log-file " + (folder / "log")).status, 2);
  EXPECT_THAT(FileContents(folder / "log"), AllOf(HasSubstr("result "), HasSubstr("matmul"), HasSubstr("error "),
                                                  HasSubstr("no operator is called `xyzzy`")));
  WriteContents(folder / "model", "data");
  EXPECT_THAT(Rewright("ops --log-file " + (folder / "model")).err,
              HasSubstr("model: found another file, expected a log of this program"));
  EXPECT_EQ(FileContents(folder / "model"), "data");
}

}  // namespace
}  // namespace rewright
