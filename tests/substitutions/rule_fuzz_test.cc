// Tests rule files that were damaged at random: they are read and resolved without a crash, and every error has its
// place.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "absl/strings/str_split.h"
#include "substitutions/instance/compiled_rule.h"
#include "substitutions/language/rule_parser.h"
#include "substitutions/language/rule_printer.h"
#include "substitutions/rule_set.h"
#include "tests/counts.h"

namespace rewright {
namespace {

using Rng = std::mt19937_64;

// Returns every rule of the files as text.
const std::vector<std::string>& RuleTexts() {
  static const auto* const kTexts = [] {
    auto* texts = new std::vector<std::string>;
    for (const char* file :
         {"/substitutions/rules/core.rules", "/substitutions/rules/laws.rules", "/tests/cases/rules/false.rules",
          "/tests/verifier/matmul.rules", "/tests/verifier/conv.rules", "/tests/verifier/elementwise.rules",
          "/tests/verifier/extra.rules"}) {
      const auto rules = ReadRules(std::string(REWRIGHT_SOURCE_DIR) + file);
      EXPECT_TRUE(rules.ok()) << rules.status();
      for (const Rule& rule : *rules) texts->push_back(PrintRule(rule));
    }
    return texts;
  }();
  return *kTexts;
}

// Finds a word, number or sign somewhere in the text: [begin, end).
std::pair<size_t, size_t> SomeToken(const std::string& text, Rng& rng) {
  size_t begin = rng() % text.size();
  while (begin > 0 && std::isalnum(static_cast<unsigned char>(text[begin - 1])) &&
         std::isalnum(static_cast<unsigned char>(text[begin]))) {
    --begin;
  }
  size_t end = begin + 1;
  while (end < text.size() && std::isalnum(static_cast<unsigned char>(text[begin])) &&
         std::isalnum(static_cast<unsigned char>(text[end]))) {
    ++end;
  }
  return {begin, end};
}

void Damage(std::string* text, Rng& rng) {
  const auto [begin, end] = SomeToken(*text, rng);
  switch (rng() % 8) {
    case 0: (*text)[rng() % text->size()] = static_cast<char>(rng() % 256); break;
    case 1: text->erase(begin, end - begin); break;
    case 2: text->insert(begin, text->substr(begin, end - begin) + " "); break;
    case 3: {
      const auto [other, other_end] = SomeToken(*text, rng);
      text->replace(begin, end - begin, text->substr(other, other_end - other));
      break;
    }
    case 4: {
      static constexpr const char* kWords[] = {"rule",    "let",     "in",    "when",     "proved",      "split",
                                               "..",      "[~",      "?",     "attrs=?c", "99999999999", "-",
                                               "scalar(", "conv2d",  "{",     "}",        ")",           "=>",
                                               "\"",      "concat(", "iota(", "1e999",    "x[",          "div 0"};
      text->replace(begin, end - begin, kWords[rng() % std::size(kWords)]);
      break;
    }
    case 5: text->resize(begin); break;
    case 6: text->insert(rng() % text->size(), text->substr(rng() % text->size(), rng() % 200)); break;
    default: {
      const size_t from = rng() % text->size();
      text->erase(from, rng() % 40);
    }
  }
}

TEST(RuleFuzz, DamagedFilesAreReadOrRefused) {
  constexpr uint64_t kSeed = 424242;
  Rng rng(kSeed);
  int refused = 0, compiled = 0;
  const int cases = Cases(20000);
  for (int k = 0; k < cases; ++k) {
    std::string text;
    for (uint64_t rules = 1 + rng() % 3; rules > 0; --rules) text += RuleTexts()[rng() % RuleTexts().size()] + "\n";
    for (uint64_t damages = 1 + rng() % 4; damages > 0 && !text.empty(); --damages) Damage(&text, rng);
    SCOPED_TRACE("seed " + std::to_string(kSeed) + ", case " + std::to_string(k) + ":\n" + text);
    const auto rules = ParseRules(text, "f.rules");
    absl::Status status = rules.status();
    if (rules.ok()) {
      status = CheckRules(*rules);
      // A text that is accepted prints as one with the same meaning.
      for (const Rule& rule : *rules) {
        const auto again = ParseRules(PrintRule(rule), "f.rules");
        ASSERT_TRUE(again.ok()) << again.status();
        ASSERT_EQ(PrintRule(again->front()), PrintRule(rule));
      }
    }
    ++(status.ok() ? compiled : refused);
    const std::string message(status.message());
    for (absl::string_view line : absl::StrSplit(message, '\n', absl::SkipEmpty())) {
      // Line and column; or the end of a long list.
      if (absl::StartsWith(line, "and ")) continue;
      ASSERT_TRUE(absl::StartsWith(line, "f.rules:")) << line;
      const std::vector<std::string> parts = absl::StrSplit(std::string(line), ':');
      ASSERT_GE(parts.size(), 4u) << line;
      ASSERT_GE(std::atoi(parts[1].c_str()), 1) << line;
      ASSERT_GE(std::atoi(parts[2].c_str()), 1) << line;
    }
  }
  std::cout << refused << " refused, " << compiled << " understood\n";
  EXPECT_GT(refused, cases / 2);
  EXPECT_GT(compiled, cases / 100);
}

}  // namespace
}  // namespace rewright
