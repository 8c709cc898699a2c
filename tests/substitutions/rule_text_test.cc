// Tests the rule language: parsing, printing, and the errors of a rule.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "substitutions/instance/compiled_rule.h"
#include "substitutions/language/rule_parser.h"
#include "substitutions/language/rule_printer.h"
#include "substitutions/rule_set.h"

namespace rewright {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string ParseError(const std::string& text) {
  auto rules = ParseRules(text, "f.rules");
  if (!rules.ok()) return std::string(rules.status().message());
  for (const Rule& rule : *rules) {
    auto compiled = CompileRule(rule);
    if (!compiled.ok()) return std::string(compiled.status().message());
  }
  return "no error";
}

void ExpectRoundTrip(const Rule& rule) {
  const std::string text = PrintRule(rule);
  auto again = ParseRules(text, rule.file);
  ASSERT_TRUE(again.ok()) << again.status() << "\n" << text;
  ASSERT_EQ(again->size(), 1u);
  EXPECT_EQ(PrintRule(again->at(0)), text);
}

TEST(RuleTextTest, RulesPrintAndParseBack) {
  for (const char* file :
       {"/substitutions/rules/core.rules", "/substitutions/rules/laws.rules", "/tests/cases/rules/false.rules"}) {
    auto rules = ReadRules(std::string(REWRIGHT_SOURCE_DIR) + file);
    ASSERT_TRUE(rules.ok()) << rules.status();
    EXPECT_GE(rules->size(), 12u);
    for (const Rule& rule : *rules) {
      SCOPED_TRACE(rule.name);
      EXPECT_FALSE(rule.line == 0);
      ExpectRoundTrip(rule);
    }
  }
}

TEST(RuleTextTest, EveryFalseRuleSaysSo) {
  auto rules = ReadRules(std::string(REWRIGHT_SOURCE_DIR) + "/tests/cases/rules/false.rules");
  ASSERT_TRUE(rules.ok()) << rules.status();
  for (const Rule& rule : *rules) {
    EXPECT_EQ(rule.expect, "refuted") << rule.name;
    auto compiled = CompileRule(rule);
    ASSERT_TRUE(compiled.ok()) << compiled.status();
    EXPECT_TRUE(Instances(**compiled).ok()) << Instances(**compiled).status();
  }
}

TEST(RuleTextTest, EverythingOfTheLanguage) {
  const std::string text =
      "# Of the file.\n"
      "\n"
      "# Of the rule,\n"
      "# in two lines.\n"
      "rule all.of-it_2\n"
      "  let s = split(x: i64[b.., n + 2 * m], axis=len(b), sizes=[n, m, m]) in\n"
      "  { add(s.0, y: ?t[~ 1, n]), s.2, concat(s.., axis=-1), mul(z, 2.5), clip(z, min=?lo, max=1e-05),\n"
      "    pad(w: f32[n, m], attrs=?p) }\n"
      "  => let t = neg(x) in\n"
      "     { t, t, t, add(scalar(n * m / 2), 1: f64[n, m]), 0[n], -?lo }\n"
      "  when (n < m or not n + 1 == m) and (n - m) * 2 div 3 mod 4 >= -1 and ?p.before == [n.., 0]\n"
      "   and not (weight(x) and constant(y)) and n - (m - 1) > 0 and -(n + m) != max(n, m) and positive(?lo)\n"
      "   and iota(rank(x))[0] == compose(inverse(?p.after), take(?p.after, 1))[0]\n"
      "  expect unknown\n"
      "  proved numerically-risky max_rank=5 max_perm_rank=3 max_broadcast_rank=2 instances=7 "
      "prover=\"0000000000000001\" "
      "spec=\"00000000deadbeef\"\n"
      "    certificate=\"a b.cert\"\n";
  auto rules = ParseRules(text, "f.rules");
  ASSERT_TRUE(rules.ok()) << rules.status();
  const Rule& rule = rules->at(0);
  EXPECT_EQ(rule.name, "all.of-it_2");
  EXPECT_THAT(rule.comment, ElementsAre("Of the rule,", "in two lines."));
  EXPECT_THAT(rule.headings, ElementsAre(ElementsAre("Of the file.")));
  EXPECT_EQ(rule.expect, "unknown");
  ASSERT_TRUE(rule.proof.has_value());
  EXPECT_EQ(rule.proof->spec_hash, 0xdeadbeefu);
  EXPECT_EQ(rule.proof->certificate, "a b.cert");
  EXPECT_EQ(rule.proof->domain.max_rank, 5);
  EXPECT_EQ(rule.conditions.size(), 8u);
  ExpectRoundTrip(rule);
}

TEST(RuleTextTest, ADomainIsNoLargerThanWhatIsProved) {
  const auto error = [](const std::string& field) {
    const auto rules = ParseRules("rule r relu(relu(x)) => relu(x)\nproved exact " + field, "f");
    return rules.ok() ? "read" : std::string(rules.status().message());
  };
  EXPECT_EQ(error("max_rank=6"), "read");
  EXPECT_EQ(error("max_rank=7"), "f:2:23: found `7`, expected an integer from 0 to 6");
  EXPECT_THAT(error("max_perm_rank=5"), ::testing::HasSubstr("expected an integer from 0 to 4"));
  EXPECT_THAT(error("max_broadcast_rank=60"), ::testing::HasSubstr("expected an integer from 0 to 4"));
  EXPECT_THAT(error("instances=20001"), ::testing::HasSubstr("expected an integer from 0 to 20000"));
}

TEST(RuleTextTest, ParenthesesStayWhereTheyMatter) {
  const auto printed = [](const std::string& condition) {
    auto rules = ParseRules("rule r relu(x[n, m]) => relu(x) when " + condition, "f");
    return rules.ok() ? PrintArg(rules->at(0).conditions[0]) : rules.status().ToString();
  };
  EXPECT_EQ(printed("n - (m - 1) == (n * m) + 2"), "n - (m - 1) == n * m + 2");
  EXPECT_EQ(printed("(n + m) * 2 == -(n)"), "(n + m) * 2 == -n");
  EXPECT_EQ(printed("not (n == m or n < m)"), "not (n == m or n < m)");
  EXPECT_EQ(printed("(n == m and n < m) or m == 1"), "n == m and n < m or m == 1");
  EXPECT_EQ(printed("n div (m div 2) == n mod m"), "n div (m div 2) == n mod m");
}

// ---------------------------------------------------------------- errors of a text

TEST(RuleTextTest, SyntaxErrors) {
  EXPECT_EQ(ParseError("rule r relu(x) => relu(x"), "f.rules:1:25: found the end of the text, expected `)`");
  EXPECT_EQ(ParseError("rule r\n  relu(x)\n  relu(x)"), "f.rules:3:3: found `relu`, expected `=>`");
  EXPECT_EQ(ParseError("relu(x) => x"), "f.rules:1:1: found `relu`, expected `rule`");
  EXPECT_EQ(ParseError("rule r relu(x) => frobnicate(x)"), "f.rules:1:19: found `frobnicate`, expected an operator");
  EXPECT_EQ(ParseError("rule r relu(x, axis=1) => x"),
            "f.rules:1:16: found attribute axis of relu, expected no attribute");
  EXPECT_EQ(ParseError("rule r softmax(x, axis=1, axis=2) => x"),
            "f.rules:1:27: found attribute axis again, expected it once");
  EXPECT_EQ(ParseError("rule r softmax(axis=1, x) => x"),
            "f.rules:1:24: found `x`, expected an attribute: operands come before attributes");
  EXPECT_EQ(ParseError("rule r relu(x) => x when size(x) == 1"), "f.rules:1:26: found `size`, expected a function");
  EXPECT_EQ(ParseError("rule r relu(x) => x expect maybe"),
            "f.rules:1:28: found `maybe`, expected proved, refuted or unknown");
  EXPECT_EQ(ParseError("rule r relu(x) => x proved nicely"),
            "f.rules:1:34: found class nicely, expected exact, reassociating, numerically-risky or finite-only");
  EXPECT_EQ(ParseError("rule r relu(x) => x proved exact spec=\"12\""),
            "f.rules:1:39: found `12`, expected 16 hexadecimal digits in quotes");
  EXPECT_EQ(ParseError("rule r relu(x) => x rule r neg(x) => x"),
            "f.rules:1:26: found the rule name r again, expected another name than that of line 1");
  EXPECT_EQ(ParseError("rule r relu(x) => x ;"),
            "f.rules:1:21: found character `;`, expected a name, a number, a string or a sign");
  EXPECT_EQ(ParseError("rule r mul(x, 12x) => x"), "f.rules:1:15: found `12x`, expected a number");
  EXPECT_EQ(ParseError("rule r mul(x, 99999999999999999999) => x"),
            "f.rules:1:15: found `99999999999999999999`, expected a number");
}

TEST(RuleTextTest, NamesThatMeanNothing) {
  EXPECT_EQ(ParseError("rule r relu(x) => y"),
            "f.rules:1:19: rule r: found y, expected a variable of the left side: x");
  EXPECT_EQ(ParseError("rule r relu(x[n]) => reshape(x, shape=[m])"),
            "f.rules:1:40: rule r: found m, expected a size of the left side");
  EXPECT_EQ(ParseError("rule r relu(x) => softmax(x, axis=?a)"),
            "f.rules:1:35: rule r: found ?a, expected a name that the left side binds");
  EXPECT_EQ(ParseError("rule r relu(x[n * m]) => x"),
            "f.rules:1:15: rule r: found n, expected a name that the left side determines\n"
            "f.rules:1:19: rule r: found m, expected a name that the left side determines");
  EXPECT_EQ(ParseError("rule r relu(x[a.., b..]) => x"),
            "f.rules:1:15: rule r: found a.., expected a name that the left side determines\n"
            "f.rules:1:20: rule r: found b.., expected a name that the left side determines");
  EXPECT_EQ(ParseError("rule r relu(x) => x when rank(y) == 1"), "f.rules:1:31: rule r: found y, expected a tensor");
  EXPECT_EQ(ParseError("rule r relu(x) => x when rank(x, x) == 1"),
            "f.rules:1:26: rule r: found 2 arguments of rank, expected 1");
  EXPECT_EQ(ParseError("rule r transpose(reshape(x, shape=?p), perm=?p) => x"),
            "f.rules:1:35: rule r: ?p is bound by an application that comes later");
  EXPECT_EQ(ParseError("rule r softmax(batch_norm(x, g, b, m, v, epsilon=?a), axis=?a) => x"),
            "f.rules:1:60: rule r: ?a stands for values of two kinds");
}

TEST(RuleTextTest, SidesThatMakeNoSense) {
  EXPECT_EQ(ParseError("rule r x => x"), "f.rules:1:8: rule r: an output of the left side must be an application");
  EXPECT_EQ(ParseError("rule r { relu(x), relu(x) } => { x, x }"),
            "f.rules:1:19: rule r: the left side has this output twice");
  EXPECT_EQ(ParseError("rule r { relu(x), relu(y) } => { x, y }"),
            "f.rules:1:1: rule r: the outputs of the left side share nothing, or one of its let terms is not used");
  EXPECT_EQ(ParseError("rule r add(x[n], x[n]) => x"), "f.rules:1:18: rule r: x has a shape already");
  EXPECT_EQ(ParseError("rule r relu(x.1) => x"), "f.rules:1:13: rule r: only an application has outputs to select");
  EXPECT_EQ(ParseError("rule r add(x) => x"), "f.rules:1:8: rule r: found 1 operands of add, expected 2");
  EXPECT_EQ(ParseError("rule r split(x, axis=0) => x"),
            "f.rules:1:8: rule r: found no attribute sizes of split, expected it");
  EXPECT_EQ(ParseError("rule r concat(x, 0, axis=0) => x"),
            "f.rules:1:8: rule r: found the constant 0 without a shape, expected one: concat does not broadcast");
  EXPECT_EQ(ParseError("rule r cast(x, to=f32) => x"),
            "f.rules:1:1: rule r: the element type of x must be given, since an operator names types");
  EXPECT_EQ(ParseError("rule r relu(scalar(1 + 1)) => 2"),
            "f.rules:1:13: rule r: on the left side a constant is a number or ?name");
}

// One run reports all errors of a file: of the text, of names, of numbers of operands; after an error it continues with
// the next rule.
TEST(RuleTextTest, AllErrorsOfAFileAtOnce) {
  EXPECT_EQ(ParseError("rule one\n  relu(x; => x\n"
                       "rule two\n  frobnicate(x, grumble(y), axis=1) => x\n"
                       "rule three\n  add(x[n], y[n]) => sub(add(y), z)\n    when m == 2 and rank(y, 1) == ?a\n"
                       "rule four\n  relu(relu(x)) => relu(x)\n"
                       "rule four\n  relu(x) => y\n"),
            "f.rules:2:9: found character `;`, expected a name, a number, a string or a sign\n"
            "f.rules:2:11: found `=>`, expected `)`\n"
            "f.rules:4:3: found `frobnicate`, expected an operator\n"
            "f.rules:4:17: found `grumble`, expected an operator\n"
            "f.rules:10:6: found the rule name four again, expected another name than that of line 8\n"
            "f.rules:6:26: rule three: found 1 operands of add, expected 2\n"
            "f.rules:6:34: rule three: found z, expected a variable of the left side: x, y\n"
            "f.rules:7:10: rule three: found m, expected a size of the left side\n"
            "f.rules:7:21: rule three: found 2 arguments of rank, expected 1\n"
            "f.rules:7:35: rule three: found ?a, expected a name that the left side binds\n"
            "f.rules:11:14: rule four: found y, expected a variable of the left side: x");
}

TEST(RuleTextTest, ManyErrorsAreCounted) {
  std::string text;
  for (int i = 0; i < 150; ++i) text += "rule r" + std::to_string(i) + " relu(x) => relu(y)\n";
  const auto rules = ParseRules(text, "f.rules");
  ASSERT_TRUE(rules.ok()) << rules.status();
  const std::string message(CheckRules(*rules).message());
  EXPECT_THAT(message, HasSubstr("f.rules:100:26: rule r99: found y"));
  EXPECT_THAT(message, HasSubstr("\nand 50 more"));
}

TEST(RuleTextTest, UntrustedTextIsBounded) {
  std::string deep = "x";
  for (int i = 0; i < 1000; ++i) deep = "relu(" + deep + ")";
  EXPECT_THAT(ParseError("rule r " + deep + " => x"), HasSubstr("nested too deeply"));
  std::string parentheses = std::string(100000, '(') + "1";
  EXPECT_THAT(ParseError("rule r relu(x) => x when " + parentheses), HasSubstr("nested too deeply"));
  EXPECT_THAT(ParseError("rule r relu(x) => x when " + std::string(100000, '-') + "1"), HasSubstr("nested too deeply"));
  std::string nots;
  for (int i = 0; i < 100000; ++i) nots += "not ";
  EXPECT_THAT(ParseError("rule r relu(x) => x when " + nots + "1"), HasSubstr("nested too deeply"));
  std::string wide = "x";
  for (int i = 0; i < 1000; ++i) wide += ", x";
  EXPECT_THAT(ParseError("rule r concat(" + wide + ", axis=0) => x"), HasSubstr("too many operands"));
  std::string sum = "1";
  for (int i = 0; i < 1000; ++i) sum += " + 1";
  EXPECT_THAT(ParseError("rule r relu(x) => x when " + sum), HasSubstr("too long"));
}

}  // namespace
}  // namespace rewright
