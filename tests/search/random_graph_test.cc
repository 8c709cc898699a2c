// Random graphs over all operators, searched with all rules that people wrote and, with REWRIGHT_FULL, the generator's:
// the result is as near to the original's as the classes of the applied rules promise. A failure prints the seed, the
// graph and the rule at fault.
#include "tests/support/random_graph.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <set>

#include "absl/strings/str_cat.h"
#include "backends/device_factory.h"
#include "core/interpreter/interpreter.h"
#include "core/ir/text.h"
#include "core/ops/ops.h"
#include "gtest/gtest.h"
#include "search/search.h"
#include "substitutions/rule_set.h"
#include "tests/counts.h"
#include "tests/search/fake_device_util.h"
#include "tests/support/made_sets.h"

namespace rewright {
namespace {

constexpr uint64_t kSeed = 4000;
const int kGraphs = Cases(10000);

RuleSet AllRules() {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(REWRIGHT_SOURCE_DIR "/substitutions/rules")) {
    if (entry.path().extension() == ".rules") files.push_back(entry.path().string());
  }
  if (std::getenv("REWRIGHT_FULL") != nullptr) {
    for (const std::string& name : MadeSets()) files.push_back(MadeSet(name));
  }
  std::sort(files.begin(), files.end());
  auto rules = RuleSet::FromFiles(files);
  EXPECT_TRUE(rules.ok()) << rules.status();
  return rules.ok() ? *std::move(rules) : RuleSet();
}

// Inputs in the precision's element types.
absl::flat_hash_map<std::string, Tensor> InputsFor(const RandomGraph& random, Precision precision) {
  absl::flat_hash_map<std::string, Tensor> inputs;
  for (const auto& [name, tensor] : random.inputs) {
    TensorType type = tensor.type();
    if (precision == Precision::kNative || type.dtype != DType::kFloat32) {
      inputs[name] = tensor;
      continue;
    }
    type.dtype = DType::kFloat64;
    Tensor wide(type);
    for (int64_t i = 0; i < tensor.num_elements(); ++i) wide.Set(i, tensor.At(i));
    inputs[name] = wide;
  }
  return inputs;
}

absl::StatusOr<std::vector<Tensor>> Values(const Graph& graph, const RandomGraph& random, Precision precision) {
  InterpretOptions options;
  options.precision = precision;
  return InterpretGraph(graph, InputsFor(random, precision), options);
}

// Empty when the tensors agree: to the bit (but for which NaN it is), or up to rounding.
std::string Difference(const std::vector<Tensor>& a, const std::vector<Tensor>& b, bool exact) {
  for (size_t k = 0; k < a.size(); ++k) {
    if (a[k].type() != b[k].type()) return absl::StrCat("output ", k, ": types differ");
    if (a[k].BitEqual(b[k])) continue;
    double largest = 0;
    for (int64_t i = 0; i < a[k].num_elements(); ++i) {
      if (std::isfinite(a[k].At(i))) largest = std::max(largest, std::abs(a[k].At(i)));
    }
    for (int64_t i = 0; i < a[k].num_elements(); ++i) {
      const double x = a[k].At(i), y = b[k].At(i);
      if (std::isnan(x) && std::isnan(y)) continue;
      const bool same = exact ? x == y && std::signbit(x) == std::signbit(y)
                              : x == y || std::abs(x - y) <= 1e-6 * std::max(1.0, largest);
      if (!same) return absl::StrCat("output ", k, ", element ", i, ": ", x, " became ", y);
    }
  }
  return "";
}

// Costs that favour an operator here and another there, so that rules are applied in either direction.
FakeDevice WhimsicalDevice(uint64_t seed) {
  FakeDevice device;
  device.cost_of = [seed](const Graph& graph, const Node& node) {
    uint64_t state = seed;
    for (char letter : node.op->name) state = (state ^ static_cast<uint64_t>(letter)) * 0x9e3779b97f4a7c15ull;
    double elements = 0;
    for (Value operand : node.operands) elements += static_cast<double>(graph.type(operand).num_elements());
    return static_cast<double>(state >> 40 & 1023) / 100 + 0.01 * elements;
  };
  return device;
}

class RandomGraphTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { rules_ = new RuleSet(AllRules()); }
  static void TearDownTestSuite() {
    delete rules_;
    rules_ = nullptr;
  }

  static SearchOptions Options(uint64_t seed) {
    SearchOptions options;
    options.budget = 300;
    options.alpha = 1.1;
    options.threads = 2;
    options.window_nodes = 8;
    options.windows = seed % 3 == 0 ? WindowUse::kAlways : WindowUse::kAuto;
    return options;
  }

  // Rules on the way to a step, and whether all of them keep every bit.
  static std::set<std::string> RulesOf(const SearchResult& result, int step, bool* exact) {
    std::set<std::string> names;
    for (int at : PathTo(result.trace, step)) names.insert(result.trace[at].rule);
    *exact = std::all_of(names.begin(), names.end(), [](const std::string& name) {
      const Matcher* matcher = rules_->Find(name);
      return matcher != nullptr && matcher->rule().rule().proof->rule_class == RuleClass::kExact;
    });
    return names;
  }

  // Describes the fault of the graph of a step; empty when there is none.
  static std::string Fault(const RandomGraph& random, const SearchResult& result, int step) {
    bool exact = true;
    RulesOf(result, step, &exact);
    const Precision precision = exact ? Precision::kNative : Precision::kFloat64;
    const auto before = Values(random.graph, random, precision);
    if (!before.ok()) return "";  // a division of integers by zero: no value to keep
    const auto after = Values(GraphAt(result, random.graph, step), random, precision);
    if (!after.ok()) return std::string(after.status().message());
    return Difference(*before, *after, exact);
  }

  static std::string Blame(const RandomGraph& random, const SearchResult& result, int last) {
    for (int step : PathTo(result.trace, last)) {
      const std::string fault = Fault(random, result, step);
      if (fault.empty()) continue;
      const TraceStep& made = result.trace[step];
      return absl::StrCat("rule ", made.rule, " at ", made.place, ": ", fault, "\nbefore:\n",
                          PrintGraph(GraphAt(result, random.graph, made.parent)), "after:\n",
                          PrintGraph(GraphAt(result, random.graph, step)));
    }
    return "no single step";
  }

  static const RuleSet* rules_;
};

const RuleSet* RandomGraphTest::rules_ = nullptr;

TEST_F(RandomGraphTest, AreComputedAsTheClassesOfTheRulesPromise) {
  const RandomGraphs graphs(rules_->matchers());
  auto analytic = MakeDevice("analytic:v100");
  ASSERT_TRUE(analytic.ok());
  std::set<std::string> applied, operators;
  int improved = 0, exact_graphs = 0;
  for (int i = 0; i < kGraphs; ++i) {
    const uint64_t seed = kSeed + static_cast<uint64_t>(i);
    const RandomGraph random = graphs.Grow(seed, 3 + i % 6);
    for (NodeId id : random.graph.nodes()) {
      if (random.graph.node(id).op != nullptr) operators.insert(random.graph.node(id).op->name);
    }
    SCOPED_TRACE(absl::StrCat("seed ", seed, "\n", PrintGraph(random.graph)));
    FakeDevice whimsical = WhimsicalDevice(seed);
    const SearchResult result =
        RunSearch(random.graph, rules_->index(), i % 2 == 0 ? **analytic : whimsical, Options(seed));
    const int last = result.candidates[0].step;
    if (last < 0) continue;
    ++improved;
    bool exact = true;
    for (const std::string& name : RulesOf(result, last, &exact)) applied.insert(name);
    exact_graphs += exact;
    const std::string fault = Fault(random, result, last);
    EXPECT_EQ(fault, "") << Blame(random, result, last);
  }
  std::cout << kGraphs << " graphs, " << improved << " improved, " << exact_graphs << " by exact rules alone, "
            << applied.size() << " rules applied, " << operators.size() << " operators\n";
  EXPECT_GT(improved, kGraphs / 2);
  EXPECT_GT(exact_graphs, kGraphs / 20);
  for (const OpDef* op : AllOps()) EXPECT_TRUE(operators.contains(op->name)) << op->name << " starts no graph";
}

// Shows that the test above can fail.
TEST_F(RandomGraphTest, AFalseRuleIsFoundOut) {
  const RuleIndex rules = RulesFrom("rule abs-of-anything abs(x) => x");
  const RandomGraphs graphs(rules.matchers());
  FakeDevice device;
  int found = 0;
  for (uint64_t seed = kSeed; seed < kSeed + 20; ++seed) {
    const RandomGraph random = graphs.Grow(seed, 4);
    const SearchResult result = RunSearch(random.graph, rules, device, Options(seed));
    const int last = result.candidates[0].step;
    if (last < 0 || Fault(random, result, last).empty()) continue;
    ++found;
    EXPECT_NE(Blame(random, result, last).find("abs-of-anything"), std::string::npos);
  }
  EXPECT_GT(found, 5);
}

TEST_F(RandomGraphTest, TheResultDependsOnNeitherThreadsNorTheRun) {
  const RandomGraphs graphs(rules_->matchers());
  auto analytic = MakeDevice("analytic:v100");
  ASSERT_TRUE(analytic.ok());
  for (int i = 0; i < Cases(100); ++i) {
    const uint64_t seed = kSeed + static_cast<uint64_t>(i);
    const RandomGraph random = graphs.Grow(seed, 12);
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::set<std::string> found;
    for (int threads : {1, 2, 3, 1}) {
      SearchOptions options = Options(seed);
      options.windows = WindowUse::kAlways;
      options.threads = threads;
      const SearchResult result = RunSearch(random.graph, rules_->index(), **analytic, options);
      found.insert(absl::StrCat(PrintGraph(result.candidates[0].graph), result.steps, " ", result.explored));
    }
    EXPECT_EQ(found.size(), 1u);
  }
}

}  // namespace
}  // namespace rewright
