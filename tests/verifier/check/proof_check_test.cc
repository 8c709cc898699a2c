// The steps that a certificate tells prove its law without the prover, and no damaged ones prove what is not shown.
#include "verifier/check/proof_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "substitutions/language/rule_parser.h"
#include "tests/counts.h"
#include "verifier/certificate/certificate.h"
#include "verifier/check/certificate_steps.h"
#include "verifier/check/step_reader.h"
#include "verifier/prove_rule.h"

namespace rewright {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Rng = std::mt19937_64;

// One-point rules, quotients, alignment, a sum by cases, maxima, functions, elements that select positions, remainders
// of positions, random bits, places of a merged axis.
constexpr const char* kProvedLaws[] = {
    "rule again reshape(reshape(x[m, n], shape=[m * n]), shape=[m, n]) => x\n",
    "rule factor matmul(mul(x[m, k], ?a), y[k, n]) => mul(matmul(x, y), ?a)\n",
    "rule halves reduce_max(concat(x[m, k], y[m, l], axis=1), axes=[1])\n"
    "  => max(reduce_max(x, axes=[1]), reduce_max(y, axes=[1]))\n",
    "rule sums add(matmul(x[m, k], y[k, n]), matmul(z[m, l], w[l, n]))\n"
    "  => matmul(concat(x, z, axis=1), concat(y, w, axis=0))\n",
    "rule pieces concat(relu(x[m, k]), relu(y[m, l]), axis=1) => relu(concat(x, y, axis=1))\n",
    "rule twice relu(relu(x[m, n])) => relu(x)\n",
    "rule exponent exp(add(x[n], y[n])) => mul(exp(x), exp(y))\n",
    "rule random partition(random_uniform(s: i64[], shape=[?a]), axis=0, degree=?d)\n"
    "  => block_random_uniform(replicate(s, degree=?d), shape=[?a], cut=[-1], result=[0], degree=?d)\n",
    "rule indices gather(t[n], concat(i: i64[k], j: i64[l], axis=0)) => concat(gather(t, i), gather(t, j), axis=0)\n",
    "rule places argmax(reshape(reshape(x[b, m, n], shape=[b * m, n]), shape=[b, m * n]), axis=1)\n"
    "  => argmax(reshape(x, shape=[b, m * n]), axis=1)\n",
};

std::string TextOf(const std::string& law) {
  const auto rules = ParseRules(law, "law");
  EXPECT_TRUE(rules.ok()) << rules.status();
  RuleProofOptions options;
  options.limits.max_rank = 3;
  options.certify = true;
  options.classify = false;
  const RuleVerdict verdict = ProveRule(rules->front(), options);
  EXPECT_EQ(verdict.verdict, Verdict::kProved) << law << verdict.reason;
  return verdict.certificate;
}

const std::vector<std::vector<std::string>>& Proofs() {
  static const auto* const kAll = [] {
    auto* all = new std::vector<std::vector<std::string>>;
    for (const char* law : kProvedLaws) {
      std::vector<std::string> lines = absl::StrSplit(TextOf(law), '\n');
      lines.pop_back();
      lines.pop_back();  // the seal
      all->push_back(std::move(lines));
    }
    return all;
  }();
  return *kAll;
}

// With a seal, and with the numbers of lines that sections have.
std::string Sealed(std::vector<std::string> lines) {
  for (size_t i = 0; i < lines.size(); ++i) {
    if (!absl::StartsWith(lines[i], "steps ")) continue;
    size_t end = i + 1;
    while (end < lines.size() && !absl::StartsWith(lines[end], "steps ")) ++end;
    const std::vector<std::string> words = absl::StrSplit(lines[i], ' ');
    lines[i] = absl::StrCat("steps ", words[1], " lines ", end - i - 1);
  }
  const std::string body = absl::StrJoin(lines, "\n") + "\n";
  return absl::StrCat(body, "seal ", SealOf(body), "\n");
}

// "" where the steps prove the law, else the first thing that is wrong.
std::string Refused(const std::vector<std::string>& lines) {
  StepChecker steps;
  const auto told = CheckToldSteps(Sealed(lines), "a.cert", &steps);
  if (!told.ok()) return std::string(told.status().message());
  if (!told->missing.empty()) return told->missing[0];
  return steps.report().refused.empty() ? "" : steps.report().refused[0];
}

size_t FirstStep(const std::vector<std::string>& lines) {
  const auto found = std::find_if(lines.begin(), lines.end(),
                                  [](const std::string& line) { return absl::StartsWith(line, "steps 1 "); });
  return static_cast<size_t>(found - lines.begin()) + 1;
}

// The lines that begin with `start`.
std::vector<size_t> Places(const std::vector<std::string>& lines, const std::string& start) {
  std::vector<size_t> out;
  for (size_t i = FirstStep(lines); i < lines.size(); ++i) {
    if (absl::StartsWith(lines[i], start)) out.push_back(i);
  }
  return out;
}

TEST(ProofCheck, TakesWhatTheProverTells) {
  for (const std::vector<std::string>& lines : Proofs()) {
    StepChecker steps;
    const auto told = CheckToldSteps(Sealed(lines), "a.cert", &steps);
    ASSERT_TRUE(told.ok()) << told.status();
    EXPECT_THAT(told->missing, ::testing::IsEmpty());
    EXPECT_THAT(steps.report().refused, ::testing::IsEmpty());
    EXPECT_TRUE(steps.report().open.empty());
  }
}

// A step without which a law is not shown.
TEST(ProofCheck, MissesEveryStepThatIsLeftOut) {
  for (const std::vector<std::string>& lines : Proofs()) {
    for (const char* start : {"context", "stated ", "composed ", "equal difference ", "zero "}) {
      const std::vector<size_t> places = Places(lines, start);
      EXPECT_FALSE(places.empty()) << start;
      for (size_t place : places) {
        // The attempt that only shows that the sides are legal says nothing of elements.
        const bool last = place == places.back() || std::string(start) != "stated ";
        std::vector<std::string> damaged = lines;
        damaged.erase(damaged.begin() + static_cast<int64_t>(place));
        EXPECT_TRUE(!last || !Refused(damaged).empty()) << lines[place];
      }
    }
  }
}

// The lines of the last context come after `facts`.
TEST(ProofCheck, TakesNoFactThatDoesNotFollow) {
  for (const std::vector<std::string>& lines : Proofs()) {
    const size_t stated = Places(lines, "stated ").back(), zero = Places(lines, "zero ").back();
    for (const auto& [added, place] :
         {std::pair("facts 1", stated), {"facts 1", stated + 1}, {"facts 1", zero}, {"assume 1", zero}}) {
      std::vector<std::string> damaged = lines;
      damaged.insert(damaged.begin() + static_cast<int64_t>(place), added);
      EXPECT_NE(Refused(damaged), "") << added << " before " << lines[place];
    }
    // Symbols are at least one, and no more is known.
    for (size_t place : Places(lines, "x param ")) {
      std::vector<std::string> damaged = lines;
      damaged[place] = absl::StrReplaceAll(lines[place], {{" 1", " 2"}});
      EXPECT_NE(Refused(damaged), "") << damaged[place];
    }
  }
}

TEST(ProofCheck, PositionsCoverTheOutput) {
  for (const std::vector<std::string>& lines : Proofs()) {
    const std::vector<std::string> words = absl::StrSplit(lines[Places(lines, "composed ").back()], ' ');
    const std::string at = words[3].substr(0, words[3].find(','));
    ASSERT_EQ(at[0], 'x') << at;
    // The range of its first variable, one less.
    const size_t context = Places(lines, "context").back();
    size_t variable = 0;
    ASSERT_TRUE(absl::SimpleAtoi(at.substr(1), &variable)) << at;
    size_t place = context;
    for (size_t seen = 0; place + 1 < lines.size() && seen <= variable;) seen += absl::StartsWith(lines[++place], "x ");
    ASSERT_THAT(lines[place], HasSubstr("x range "));
    std::vector<std::string> damaged = lines;
    damaged[place] += "-1";
    EXPECT_NE(Refused(damaged), "") << damaged[place];
    // Positions that start at one.
    damaged = lines;
    damaged[place] = absl::StrReplaceAll(lines[place], {{" 0,", " 1,"}});
    EXPECT_NE(Refused(damaged), "") << damaged[place];
  }
}

// The steps of a true law say nothing of a false one of the same shape.
TEST(ProofCheck, StepsOfAnotherLaw) {
  const std::pair<std::string, std::string> changes[] = {{"shape=[m, n]", "shape=[n, m]"},
                                                         {"mul(matmul(x, y), ?a)", "mul(matmul(x, x), ?a)"},
                                                         {"reduce_max(y, axes=[1]))", "reduce_max(x, axes=[1]))"},
                                                         {"concat(y, w, axis=0)", "concat(w, y, axis=0)"},
                                                         {"relu(concat(x, y, axis=1))", "relu(concat(y, x, axis=1))"},
                                                         {"=> relu(x)", "=> x"},
                                                         {"mul(exp(x), exp(y))", "mul(exp(x), exp(x))"},
                                                         {"[?a], cut=[-1]", "[?a], stream=1, cut=[-1]"},
                                                         {"concat(gather(t, i)", "concat(gather(t, j)"},
                                                         {"argmax(reshape(x,", "argmax(reshape(relu(x),"}};
  for (size_t i = 0; i < Proofs().size(); ++i) {
    std::vector<std::string> damaged = Proofs()[i];
    bool changed = false;
    for (std::string& line : damaged) {
      if (absl::StartsWith(line, "steps ")) break;
      const std::string altered = absl::StrReplaceAll(line, {changes[i]});
      changed = changed || (altered != line && absl::StartsWith(line, "  "));
      line = altered;
    }
    ASSERT_TRUE(changed) << absl::StrJoin(damaged, "\n");
    EXPECT_NE(Refused(damaged), "") << kProvedLaws[i];
  }
}

// The number of a place that argmax gives is computed from its digits.
TEST(ProofCheck, PlacesOfAMergedAxis) {
  const std::vector<std::string>& lines = Proofs().back();
  const std::vector<size_t> places = Places(lines, "a int ");
  EXPECT_FALSE(places.empty());
  for (size_t place : places) {
    std::vector<std::string> damaged = lines;
    damaged[place] += "+1";
    EXPECT_NE(Refused(damaged), "") << lines[place];
  }
}

// A real attribute that fills a tensor of integers is truncated.
TEST(ProofCheck, FillsOfIntegers) {
  std::vector<std::string> lines =
      absl::StrSplit(TextOf("rule fill pad(relu(x: i64[n]), before=[2], after=[0], value=?v)\n"
                            "  => concat(pad(x, before=[2], after=[0 - n], value=?v), relu(x), axis=0)\n"),
                     '\n');
  lines.resize(lines.size() - 2);
  EXPECT_EQ(Refused(lines), "");
  for (std::string& line : lines) line = absl::StrReplaceAll(line, {{"truncate_i64", "exp"}});
  EXPECT_NE(Refused(lines), "");
}

// A number of the line, one more or less; or another sign or kind of a guard.
std::string Altered(const std::string& line, Rng& rng) {
  std::vector<size_t> places;
  for (size_t i = 1; i < line.size(); ++i) {
    if (std::isdigit(static_cast<unsigned char>(line[i])) != 0 ||
        std::string(">=&+-").find(line[i]) != std::string::npos) {
      places.push_back(i);
    }
  }
  if (places.empty()) return line;
  std::string out = line;
  char& c = out[places[rng() % places.size()]];
  switch (c) {
    case '>': c = '='; break;
    case '=': c = '>'; break;
    case '+': c = '-'; break;
    case '-': c = '+'; break;
    case '&': c = '!'; break;
    default: c = static_cast<char>('0' + (c - '0' + (rng() % 2 == 0 ? 1 : 9)) % 10);
  }
  return out;
}

// Steps are left out, altered, exchanged: each such proof is refused, or proves the law nevertheless, since what was
// damaged is no part of what shows it.
TEST(ProofCheck, DamagedSteps) {
  Rng rng(1);
  int refused = 0, harmless = 0;
  const int count = static_cast<int>(Cases(2400));
  for (int round = 0; round < count; ++round) {
    const std::vector<std::string>& lines = Proofs()[static_cast<size_t>(round) % Proofs().size()];
    const size_t first = FirstStep(lines);
    const size_t place = first + rng() % (lines.size() - first), other = first + rng() % (lines.size() - first);
    if (absl::StartsWith(lines[place], "steps ") || absl::StartsWith(lines[other], "steps ")) continue;
    std::vector<std::string> damaged = lines;
    switch (round % 4) {
      case 0: damaged.erase(damaged.begin() + static_cast<int64_t>(place)); break;
      case 1:
      case 2: damaged[place] = Altered(lines[place], rng); break;
      default: std::swap(damaged[place], damaged[other]); break;
    }
    if (damaged == lines) continue;
    if (Refused(damaged).empty()) {
      ++harmless;
      // No step that bears the proof was touched.
      if (round % 4 == 3) continue;
      for (const char* start : {"context", "stated ", "composed ", "zero ", "x param ", "facts "}) {
        const bool legal = place < Places(lines, "context").back();  // of an attempt that says nothing of elements
        EXPECT_TRUE(legal || !absl::StartsWith(lines[place], start)) << lines[place] << " -> " << damaged[place];
      }
    } else {
      ++refused;
    }
  }
  EXPECT_GT(refused, count / 4);
  EXPECT_GT(refused + harmless, count * 3 / 4);
}

TEST(ProofCheck, InstancesThatAreExchangedOrMissing) {
  std::vector<std::string> lines = absl::StrSplit(TextOf("rule all relu(relu(x[b..])) => relu(x)\n"), '\n');
  lines.resize(lines.size() - 2);
  ASSERT_EQ(Refused(lines), "");
  const size_t second = Places(lines, "steps 2 ")[0], third = Places(lines, "steps 3 ")[0];
  std::vector<std::string> exchanged(lines.begin(), lines.begin() + static_cast<int64_t>(FirstStep(lines)));
  exchanged.insert(exchanged.end(), lines.begin() + static_cast<int64_t>(second) + 1,
                   lines.begin() + static_cast<int64_t>(third));
  exchanged.insert(exchanged.end(), lines.begin() + static_cast<int64_t>(second), lines.end());
  EXPECT_NE(Refused(exchanged), "");
  const std::vector<std::string> fewer(lines.begin(), lines.begin() + static_cast<int64_t>(second));
  EXPECT_THAT(Refused(fewer), AllOf(HasSubstr("found "), HasSubstr("expected ")));
}

// ---------------------------------------------------------------- the text

std::string ReadError(const std::string& text) {
  std::vector<absl::string_view> lines = absl::StrSplit(text, '\n');
  StepChecker steps;
  return std::string(StepReader("a.cert", 7).Tell(lines, &steps).message());
}

TEST(StepReader, ErrorsNameLineFoundAndExpected) {
  EXPECT_EQ(ReadError("context\nx param n 1\ng >x0-1"), "");
  EXPECT_EQ(ReadError("x param n 1"), "a.cert:7: found `x param n 1`, expected `context`");
  EXPECT_EQ(ReadError("context\nx param n 1\ng >x1"), "a.cert:9: found `g >x1`, expected the number of a variable");
  EXPECT_EQ(ReadError("context\ndecide no\\20law - 0 -"),
            "a.cert:8: found `decide no\\20law - 0 -`, expected the name of a law");
  for (const char* line : {"",
                           "x",
                           "x param",
                           "x param n",
                           "x param n 1 2",
                           "x param n 99999999999999999999",
                           "x range i 0",
                           "x div x0,x0,x0",
                           "x value 0",
                           "x other",
                           "g",
                           "g x0",
                           "g >",
                           "g >x",
                           "g >x0+",
                           "g >x0x",
                           "g >2x0y",
                           "g !9",
                           "g &0,9",
                           "a",
                           "a read x",
                           "a read x q x0",
                           "a fn f -",
                           "a fn f 0",
                           "a bind max 0",
                           "a bind max -:0:0",
                           "t 1/0 - 0 -",
                           "t 1/2/3 - 0 -",
                           "t 1 7 0 -",
                           "t 1 - 9 -",
                           "t 1 - 0 0",
                           "n 0",
                           "m 0 0 - -",
                           "facts 9",
                           "assume x",
                           "stated x9",
                           "sum law 0 0 - -",
                           "sum one\\20point 0 0 - -",
                           "count 0 0 0 1",
                           "none 0",
                           "collect 0 0 0",
                           "decide index - 0 -",
                           "decide decision\\20(index) - 9 -",
                           "divide x0,x0",
                           "least x0",
                           "equal law 0 0 0",
                           "equal cases 0 0 0",
                           "zero - 0 -",
                           "composed 0 0 - 0",
                           "composed -1 0 - 0",
                           "g >9223372036854775808"}) {
    EXPECT_THAT(ReadError(absl::StrCat("context\nx param n 1\n", line)),
                AllOf(HasSubstr("a.cert:9: found `"), HasSubstr("`, expected ")))
        << line;
  }
}

// Objects that mention each other many times would be too large, written out.
TEST(StepReader, LimitsWhatIsWrittenOut) {
  std::string text = "context\nx param n 1\na int x0\nt 1 - 0 0\nn 0\n";
  for (int i = 0; i < 60; ++i) absl::StrAppend(&text, "a fn f ", i, ",", i, "\nt 1 - 0 ", i + 1, "\nn ", i + 1, "\n");
  EXPECT_THAT(ReadError(text), HasSubstr("expected a smaller object"));
  text = "context\nx param n 2\nx div x0,2\n";
  for (int i = 1; i < 400; ++i) absl::StrAppend(&text, "x div x", i, ",2\n");
  EXPECT_THAT(ReadError(text), HasSubstr("expected a smaller object"));
}

TEST(ProofCheck, AnOlderCertificateIsRefused) {
  std::vector<std::string> lines = Proofs()[0];
  lines[0] = "rewright certificate 2";
  EXPECT_EQ(Refused(lines), "a.cert:1: found `rewright certificate 2`, expected `rewright certificate 3`");
}

}  // namespace
}  // namespace rewright
