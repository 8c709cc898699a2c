// The check's own way from the text of a law to its instances, against the prover's.
#include "verifier/check/rule_instances.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "substitutions/instance/instances.h"
#include "substitutions/language/rule_parser.h"
#include "substitutions/language/rule_printer.h"
#include "substitutions/rule_set.h"
#include "tests/counts.h"
#include "tests/support/made_sets.h"
#include "tests/verifier/rules_util.h"

namespace rewright {
namespace {

using ::testing::HasSubstr;

// All that a proof reads of an instance, as text.
std::string Everything(const RuleInstance& instance) {
  std::string text = PrintInstance(instance);
  const auto print = [&](const ExprPtr& expr) { text += expr == nullptr ? "-" : PrintExpr(expr, {}) + ";"; };
  for (const Symbol& s : instance.symbols) text += s.name + std::to_string(s.min) + (s.is_size ? "s " : " ");
  for (const RealSymbol& r : instance.reals) {
    text += r.name + DTypeName(r.dtype) + (r.positive ? "p" : "") + (r.finite ? "f " : " ");
  }
  for (const SymbolicNode& node : instance.nodes) {
    text += "\n" + node.name + (node.positive ? " positive" : "") + (node.finite ? " finite " : " ");
    if (node.splat) text += NumberString(*node.splat) + (node.splat->index() == 0 ? " real" : " integer");
    for (const ExprPtr& index : node.indices) print(index);
    for (const ExprPtr& param : node.params) print(param);
    if (node.meaning == nullptr) continue;
    for (const Requirement& requirement : node.meaning->requirements) print(requirement.condition);
    for (const OutputMeaning& output : node.meaning->outputs) print(output.element);
  }
  return text;
}

std::vector<std::string> OfText(const std::string& law, const DomainLimits& limits, absl::Status* status) {
  std::vector<std::string> texts;
  *status = check::ForEachInstance(law, limits, [&](const RuleInstance& instance) {
    texts.push_back(Everything(instance));
    return absl::OkStatus();
  });
  return texts;
}

std::vector<std::string> OfText(const std::string& law, const DomainLimits& limits) {
  absl::Status status;
  std::vector<std::string> texts = OfText(law, limits, &status);
  EXPECT_TRUE(status.ok()) << law << status;
  return texts;
}

void ExpectSame(const Rule& rule, DomainLimits limits) {
  const auto compiled = CompileRule(rule, RuleUse::kProof);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  // Larger where the rule's own shapes need more.
  const DomainLimits enough = SmallLimits(**compiled);
  limits.max_rank = std::max(limits.max_rank, enough.max_rank);
  limits.max_broadcast_rank = std::max(limits.max_broadcast_rank, enough.max_broadcast_rank);
  std::vector<std::string> expected;
  const absl::Status status = ForEachInstance(**compiled, limits, [&](const RuleInstance& instance) {
    expected.push_back(Everything(instance));
    return absl::OkStatus();
  });
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(OfText(PrintLaw(rule), limits), expected) << PrintLaw(rule);
}

constexpr DomainLimits kSmall{.max_rank = 3, .max_perm_rank = 3, .max_broadcast_rank = 2};

void ExpectSameInstances(const std::string& file) {
  const auto rules = ReadRules(file);
  ASSERT_TRUE(rules.ok()) << rules.status();
  const size_t step = std::max<size_t>(1, rules->size() / static_cast<size_t>(Cases(2000, 100)));
  for (size_t i = FirstOfToday(step); i < rules->size(); i += step) {
    ExpectSame((*rules)[i], Cases(10) == 10 ? DomainLimits() : kSmall);
  }
}

class LawsOfFile : public ::testing::TestWithParam<std::string> {};

TEST_P(LawsOfFile, HaveTheSameInstances) { ExpectSameInstances(GetParam()); }

TEST(LawInstances, OfMadeSetsAreTheSame) {
  for (const std::string& name : MadeSets()) ExpectSameInstances(MadeSet(name));
}

INSTANTIATE_TEST_SUITE_P(Shipped, LawsOfFile, ::testing::ValuesIn(ShippedRuleFiles()),
                         [](const auto& info) { return TestNameOf(info.param); });

// Expressions that no shipped rule uses.
constexpr const char* kReadLaws[] = {
    "rule functions reshape(x[n, m, k], shape=[sum([n, m]) - n, prod(take(shape(x), 1)), max(k, 1)])\n"
    "  => reshape(x, shape=replace([1, n, k], [0], dim(x, -2)))\n",
    "rule permutations transpose(transpose(x, perm=?p), perm=?q) => transpose(x, perm=compose(?p, ?q))\n"
    "  when inverse(?p) == ?q and not (contains(?p, 7) or count_less(?q, 1) > 1)\n",
    "rule lists slice(x[n, b..], starts=?a, stops=?z) => slice(x, starts=?a * 1, stops=?z + 0)\n"
    "  when ?a >= 0 and min(?a, ?z) == ?a and drop(?z, len(?z)) == [] and iota(2)[-1] == 1 and repeat(n, 2) != [n]\n",
    "rule numbers add(mul(x[n], -2), 0.5) => add(x, scalar(-(1 / 2) * n))\n",
    "rule integers add(x: ?t[n], ?a: ?t) => add(x, scalar(?a + 0): ?t)\n  when ?t == i32 or ?t == i64\n",
    "rule matrix matmul([[1, -1], [0, 0.25]], x[2, n]) => matmul([[1, -1], [0, 1 / 6]], x)\n",
    "rule flags reduce_mean(x[b..], axes=?a, keepdims=?k) => reduce_mean(x, axes=?a, keepdims=?k)\n"
    "  when len(b) mod 2 == 0 and prod(b) div 2 >= 1\n",
};

TEST(LawInstances, TheWholeLanguage) {
  for (const char* text : kReadLaws) {
    const auto rules = ParseRules(text, "law");
    ASSERT_TRUE(rules.ok()) << rules.status();
    ExpectSame(rules->front(), kSmall);
  }
}

// The error of each law that the check refuses.
TEST(LawInstances, RefusesLawsThatMakeNoSense) {
  const std::pair<const char*, const char*> cases[] = {
      {"rule r\n  relu(x[n] => x\n", "found `=>`, expected )"},
      {"rule r\n  relu(x[n]) => y\n", "found y, expected a variable that the left side declares once"},
      {"rule r\n  relu(x[n], x) => x\n", "found 2 operands of relu"},
      {"rule r\n  rel(x[n]) => x\n", "found rel, expected an operator"},
      {"rule r\n  relu(x[n], axis=1) => x\n", "found attribute axis"},
      {"rule r\n  concat(x[n], 1, axis=0) => x\n", "found a constant without a shape, expected one"},
      {"rule r\n  cast(x[n], to=f32) => x\n", "an operator names types, expected the type of every variable"},
      {"rule r\n  ?f(?g(x[n])) => ?g(?f(x))\n", "found operator variables otherwise"},
      {"rule r\n  ?f(x[n]) => x\n  when odd(?g)\n", "found operator variables otherwise"},
      {"rule r\n  ?f(x[n]) => x\n  when odd(?f) and increasing(?f)\n", "found two properties, expected one"},
      {"rule r\n  relu(x[n]) => x\n  when len(n) == 1\n", "found no instance: expected a list"},
      {"rule r\n  relu(x[n]) => reshape(x, shape=[m])\n", "the right side: nothing binds m"},
      {"rule r\n  { relu(x[n]).. } => relu(x)\n", "found siblings otherwise, expected { sibling.. } => split(..)"},
      {"rule r\n  { relu(x[n]).. } => split(relu(concat(x.., axis=0)), axis=0, sizes=[n..])\n  when n == 4\n",
       "expected no condition on lists"},
      {"rule r\n  { relu(x[n, n]).. } => split(relu(concat(x.., axis=0)), axis=0, sizes=[n..])\n",
       "expected the size n in every list"},
      {"rule r\n  { relu(x[n]).. } => split(concat(x.., x, axis=0), axis=0, sizes=[n..])\n", "concat(y.., axis=..)"},
  };
  for (const auto& [law, expected] : cases) {
    absl::Status status;
    OfText(law, kSmall, &status);
    EXPECT_THAT(std::string(status.message()), HasSubstr(expected)) << law;
  }
}

// Certificates come from anywhere: a text is refused before it is too deep for the stack.
TEST(LawInstances, LawsAreNotNestedWithoutEnd) {
  const auto error = [](const std::string& law) {
    absl::Status status;
    OfText(law, {}, &status);
    return std::string(status.message());
  };
  const auto repeated = [](const std::string& text, int count) {
    std::string all;
    for (int i = 0; i < count; ++i) all += text;
    return all;
  };
  constexpr int kMany = 100000;
  EXPECT_THAT(error("rule r\n  " + repeated("relu(", kMany) + "x" + repeated(")", kMany) + " => x"),
              HasSubstr("expected a law that is nested less deeply"));
  EXPECT_THAT(error("rule r\n  relu(x[" + repeated("(", kMany) + "n" + repeated(")", kMany) + "]) => x"),
              HasSubstr("expected a law that is nested less deeply"));
  EXPECT_THAT(error("rule r\n  relu(x[" + repeated("- ", kMany) + "n]) => x"),
              HasSubstr("expected a law that is nested less deeply"));
  EXPECT_THAT(error("rule r\n  relu(x[n" + repeated(" + 1", kMany) + "]) => x"),
              HasSubstr("expected a shorter row of operators"));
}

}  // namespace
}  // namespace rewright
