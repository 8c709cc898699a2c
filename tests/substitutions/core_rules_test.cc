// Applies every rule of the shipped files to random graphs made of its left side, and compares values.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <random>

#include "core/interpreter/interpreter.h"
#include "core/ir/text.h"
#include "substitutions/instance/random_application.h"
#include "substitutions/language/operator_variables.h"
#include "substitutions/match/applier.h"
#include "substitutions/match/matcher.h"
#include "substitutions/rule_set.h"
#include "tests/counts.h"
#include "tests/support/made_sets.h"

namespace rewright {
namespace {

constexpr uint64_t kSeed = 20240607;
// The number of applications of each rule; REWRIGHT_TRIALS sets another number, in shards for long runs (bench/full).
const int kApplications =
    std::getenv("REWRIGHT_TRIALS") != nullptr ? std::atoi(std::getenv("REWRIGHT_TRIALS")) : Cases(240);
constexpr int kTries = 4000;  // random sizes for one application

// Those of a file, with one rule for each of three operators that an operator variable stands for.
std::vector<Rule> RulesOf(const std::string& file) {
  std::vector<Rule> rules;
  const auto read = ReadRules(file);
  EXPECT_TRUE(read.ok()) << read.status();
  for (const Rule& rule : read.ok() ? *read : std::vector<Rule>()) {
    for (Rule& one : OperatorRules(rule, 3)) rules.push_back(std::move(one));
  }
  return rules;
}

// All shipped rules but those for training.
const std::vector<Rule>& CoreRules() {
  static const std::vector<Rule>* all = [] {
    auto* rules = new std::vector<Rule>();
    for (const char* file : {"core.rules", "laws.rules", "placements.rules"}) {
      for (Rule& rule : RulesOf(std::string(REWRIGHT_SOURCE_DIR) + "/substitutions/rules/" + file)) {
        rules->push_back(std::move(rule));
      }
    }
    return rules;
  }();
  return *all;
}

// Returns a random sample of a rule's instances.
std::vector<std::pair<StructuralAssignment, RuleInstance>> Sample(const CompiledRule& rule, size_t size,
                                                                  std::mt19937_64& rng) {
  std::vector<std::pair<StructuralAssignment, RuleInstance>> sample;
  uint64_t seen = 0;
  const absl::Status status = ForEachStructuralAssignment(
      rule, SmallLimits(rule), [&](const StructuralAssignment& structure, RuleInstance instance) {
        ++seen;
        if (sample.size() < size) {
          sample.emplace_back(structure, std::move(instance));
        } else if (const uint64_t place = rng() % seen; place < size) {
          sample[place] = {structure, std::move(instance)};
        }
        return absl::OkStatus();
      });
  EXPECT_TRUE(status.ok()) << status;
  return sample;
}

std::vector<Tensor> Values(const Graph& graph, const absl::flat_hash_map<std::string, Tensor>& inputs) {
  absl::flat_hash_map<std::string, Tensor> wide;
  for (const auto& [name, tensor] : inputs) {
    TensorType type = tensor.type();
    if (type.dtype == DType::kFloat32) type.dtype = DType::kFloat64;
    Tensor copy(type);
    for (int64_t i = 0; i < tensor.num_elements(); ++i) {
      if (IsFloating(type.dtype)) {
        copy.Set(i, tensor.At(i));
      } else {
        copy.SetInt(i, tensor.AtInt(i));
      }
    }
    wide[name] = copy;
  }
  InterpretOptions options;
  options.precision = Precision::kFloat64;
  auto values = InterpretGraph(graph, wide, options);
  EXPECT_TRUE(values.ok()) << values.status() << "\n" << PrintGraph(graph);
  return values.ok() ? *values : std::vector<Tensor>();
}

void ExpectClose(const std::vector<Tensor>& a, const std::vector<Tensor>& b, double tolerance) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t k = 0; k < a.size(); ++k) {
    ASSERT_EQ(a[k].type(), b[k].type());
    for (int64_t i = 0; i < a[k].num_elements(); ++i) {
      const double x = a[k].At(i), y = b[k].At(i);
      if (x == y || (std::isnan(x) && std::isnan(y))) continue;
      ASSERT_NEAR(x, y, tolerance * (1 + std::abs(x))) << "output " << k << ", element " << i;
    }
  }
}

// A number in a rule is rounded to the type of the constants that it matches.
bool HasRoundedNumbers(const CompiledRule& rule) {
  return std::any_of(rule.nodes().begin(), rule.nodes().end(), [](const RuleNode& node) {
    if (!node.value) return false;
    if (node.value->kind == ArgExpr::Kind::kOp && node.value->op == ArgOp::kQuotient) return true;
    return node.value->kind == ArgExpr::Kind::kReal &&
           static_cast<double>(static_cast<float>(node.value->real)) != node.value->real;
  });
}

void CheckApplication(const Matcher& matcher, const RandomApplication& application) {
  SCOPED_TRACE(application.description + "\n" + PrintGraph(application.graph));
  const std::vector<Match> matches = matcher.FindMatches(application.graph);
  ASSERT_FALSE(matches.empty());
  const std::vector<Tensor> before = Values(application.graph, application.inputs);
  for (size_t m = 0; m < std::min<size_t>(matches.size(), 3); ++m) {
    auto after = ApplyMatch(application.graph, matches[m]);
    ASSERT_TRUE(after.ok()) << after.status();
    SCOPED_TRACE(matches[m].Describe() + "\n" + PrintGraph(*after));
    ExpectClose(before, Values(*after, application.inputs), HasRoundedNumbers(matcher.rule()) ? 1e-6 : 1e-9);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

std::vector<std::string> Names() {
  std::vector<std::string> names;
  for (const Rule& rule : CoreRules()) names.push_back(rule.name);
  return names;
}

Rule RuleNamed(const std::string& name) {
  for (const Rule& rule : CoreRules()) {
    if (rule.name == name) return rule;
  }
  return Rule();
}

void ExpectTheValuesOfRandomGraphs(const Rule& source) {
  SCOPED_TRACE(source.name);
  auto rule = CompileRule(source);
  ASSERT_TRUE(rule.ok()) << rule.status();
  std::mt19937_64 rng(kSeed);
  const auto sample = Sample(**rule, kApplications, rng);
  ASSERT_FALSE(sample.empty());
  DomainLimits limits;
  if (source.proof) limits = source.proof->domain;
  const Matcher matcher(*rule, limits);
  int checked = 0;
  for (int i = 0; i < kApplications; ++i) {
    const auto& [structure, instance] = sample[static_cast<size_t>(i) % sample.size()];
    const auto application = DrawApplication(**rule, structure, instance, {.tries = kTries}, rng);
    if (!application) continue;
    ++checked;
    CheckApplication(matcher, *application);
    if (::testing::Test::HasFatalFailure()) return;
  }
  EXPECT_GE(checked, kApplications / 4) << "seed " << kSeed;
}

class CoreRuleTest : public ::testing::TestWithParam<std::string> {};

TEST_P(CoreRuleTest, KeepsTheValuesOfRandomGraphs) { ExpectTheValuesOfRandomGraphs(RuleNamed(GetParam())); }

TEST(RulesOfMadeSets, KeepTheValuesOfRandomGraphs) {
  for (const std::string& name : MadeSets()) {
    for (const Rule& rule : RulesOf(MadeSet(name))) ExpectTheValuesOfRandomGraphs(rule);
  }
}

INSTANTIATE_TEST_SUITE_P(Core, CoreRuleTest, ::testing::ValuesIn(Names()), [](const auto& info) {
  std::string name = info.param;
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
});

}  // namespace
}  // namespace rewright
