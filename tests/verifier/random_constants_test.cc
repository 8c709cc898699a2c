// Random rules over integers, literals and constants at the ends of their types: none may be proved that the reference
// interpreter tells apart.
#include <gtest/gtest.h>

#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "substitutions/instance/compiled_rule.h"
#include "substitutions/instance/instances.h"
#include "substitutions/language/rule_parser.h"
#include "tests/counts.h"
#include "tests/support/recorded_list.h"
#include "verifier/prove/prove_instance.h"
#include "verifier/refute/integer_search.h"

namespace rewright {
namespace {

using Rng = std::mt19937_64;

// An application, or a leaf: `text`, or the number where there is no text.
struct Tree {
  std::string op, text;
  int64_t number = 0;
  std::vector<Tree> args;

  bool IsNumber() const { return op.empty() && text.empty(); }
};

Tree Apply(const std::string& op, std::vector<Tree> args) { return {op, "", 0, std::move(args)}; }
Tree Literal(int64_t number) { return {"", "", number, {}}; }

// Rules over one integer type.
class RuleMaker {
 public:
  RuleMaker(DType type, Rng* rng) : type_(type), rng_(*rng) {}

  std::string Rule() {
    Tree left = Make(3);
    if (Chance(3)) left = Apply(Chance(2) ? "less" : "equal", {std::move(left), Make(2)});
    Tree right = left;
    for (size_t changes = 1 + rng_() % 3; changes > 0; --changes) Change(&right);
    std::string text = absl::StrCat("rule r identity(", Print(left), ") => ", Print(right));
    // The type of a variable stands where it occurs first.
    for (const char* name : {"xx", "yy"}) {
      const size_t first = text.find(name);
      if (first != std::string::npos) text.insert(first + 2, absl::StrCat(": ", DTypeName(type_), "[n]"));
    }
    return text;
  }

 private:
  bool Chance(uint64_t n) { return rng_() % n == 0; }

  int64_t Number() {
    const bool wide = type_ == DType::kInt64;
    const int64_t greatest = wide ? INT64_MAX : INT32_MAX;
    const int64_t choices[] = {0,
                               1,
                               -1,
                               2,
                               3,
                               greatest,
                               -greatest - 1,
                               greatest - 1,
                               (wide ? int64_t{1} << 53 : 1 << 24),
                               (wide ? int64_t{1} << 53 : 1 << 24) + 1,
                               wide ? int64_t{1} << 32 : 1 << 16};
    return choices[rng_() % std::size(choices)];
  }

  Tree Make(int depth) {
    if (depth == 0 || Chance(5)) {
      switch (rng_() % 7) {
        case 0: return {"", "yy", 0, {}};
        case 1: return {"", absl::StrCat("?a: ", DTypeName(type_), "[n]"), 0, {}};
        case 2: return Literal(Number());
        case 3: return {"", absl::StrCat("iota(shape=[n], axis=0, dtype=", DTypeName(type_), ")"), 0, {}};
        default: return {"", "xx", 0, {}};
      }
    }
    static constexpr const char* kBinary[] = {"add", "sub", "mul", "add", "sub", "mul", "max", "min"};
    if (Chance(6)) return Apply(Chance(2) ? "neg" : "abs", {Make(depth - 1)});
    return Apply(kBinary[rng_() % std::size(kBinary)], {Make(depth - 1), Make(depth - 1)});
  }

  // Somewhere in the tree one law of the integers, of which those about order are false where sums wrap around.
  void Change(Tree* tree) {
    if (!tree->args.empty() && !Chance(3)) return Change(&tree->args[rng_() % tree->args.size()]);
    std::vector<Tree>& args = tree->args;
    const std::string op = tree->op;
    if (tree->IsNumber()) {
      if (Chance(4)) tree->number = Number();
    } else if (args.empty()) {
      *tree = Apply("sub", {Apply("add", {*tree, Literal(1)}), Literal(1)});
    } else if (Folds(*tree)) {
      *tree = Literal(Folded(*tree));
    } else if (op == "sub") {
      *tree = Apply("add", {args[0], Apply("neg", {args[1]})});
    } else if (op == "neg") {
      *tree = Apply("sub", {Literal(0), args[0]});
    } else if (op == "abs") {
      *tree = Chance(2) ? Apply("abs", {Apply("neg", {args[0]})}) : Apply("max", {args[0], Apply("neg", {args[0]})});
    } else if (op == "mul" && (args[1].op == "add" || args[1].op == "sub")) {
      const Tree sum = args[1];
      *tree = Apply(sum.op, {Apply("mul", {args[0], sum.args[0]}), Apply("mul", {args[0], sum.args[1]})});
    } else if ((op == "max" || op == "min") && Chance(2)) {
      const char* other = op == "max" ? "min" : "max";
      *tree = Apply("neg", {Apply(other, {Apply("neg", {args[0]}), Apply("neg", {args[1]})})});
    } else if (op == "less" || (op == "equal" && Chance(2)) || ((op == "max" || op == "min") && Chance(2))) {
      const Tree shift = Chance(2) ? Literal(Number()) : Tree{"", "xx", 0, {}};
      Tree shifted = Apply(op, {Apply("add", {args[0], shift}), Apply("add", {args[1], shift})});
      *tree = op == "less" || op == "equal" ? shifted : Apply("sub", {std::move(shifted), shift});
    } else {
      std::swap(args[0], args[1]);
    }
  }

  bool Folds(const Tree& tree) const {
    const bool sum = tree.op == "add" || tree.op == "sub" || tree.op == "mul";
    return sum && tree.args[0].IsNumber() && tree.args[1].IsNumber();
  }

  // Wraps around.
  int64_t Folded(const Tree& tree) const {
    const auto a = static_cast<uint64_t>(tree.args[0].number), b = static_cast<uint64_t>(tree.args[1].number);
    const auto value = static_cast<int64_t>(tree.op == "add" ? a + b : tree.op == "sub" ? a - b : a * b);
    return type_ == DType::kInt64 ? value : static_cast<int32_t>(value);
  }

  std::string Print(const Tree& tree) const {
    if (tree.IsNumber()) return absl::StrCat(tree.number, ": ", DTypeName(type_), "[n]");
    if (tree.op.empty()) return tree.text;
    std::string text = absl::StrCat(tree.op, "(");
    for (size_t i = 0; i < tree.args.size(); ++i) absl::StrAppend(&text, i > 0 ? ", " : "", Print(tree.args[i]));
    return text + ")";
  }

  const DType type_;
  Rng& rng_;
};

TEST(RandomConstantsTest, NoRuleThatDiffersIsProved) {
  constexpr uint64_t kSeed = 20240713;
  constexpr int kDraws = 40;
  int proved = 0, refuted = 0;
  Findings findings;
  ForTodaysCases(3000, [&](size_t k) {
    Rng rng(kSeed + k);
    std::string text;
    absl::StatusOr<std::shared_ptr<const CompiledRule>> compiled = absl::UnknownError("none");
    while (!compiled.ok()) {  // the right side mentions a name that the left one does not
      text = RuleMaker(rng() % 2 == 0 ? DType::kInt64 : DType::kInt32, &rng).Rule();
      const auto parsed = ParseRules(text, "random");
      ASSERT_TRUE(parsed.ok()) << text << ": " << parsed.status();
      compiled = CompileRule(parsed->at(0), RuleUse::kProof);
    }
    const auto instances = Instances(**compiled, SmallLimits(**compiled));
    ASSERT_TRUE(instances.ok()) << text << ": " << instances.status();
    std::string& found = findings[absl::StrCat("#", k, " ", text)];
    for (const RuleInstance& instance : *instances) {
      ProofOptions options;
      options.search_counterexample = false;
      options.work_limit_s = 0.3;
      const bool accepted = Prove(instance, options).verdict == Verdict::kProved;
      // Eighth powers of positions from 237 on are beyond i64.
      std::vector<std::vector<int64_t>> sizes;
      for (int64_t n : {1, 3, 256}) sizes.emplace_back(instance.symbols.size(), n);
      const auto apart = verifier::SearchIntegers(instance, sizes, kDraws, &rng);
      proved += accepted;
      refuted += apart.has_value();
      if (!accepted && !apart) found = "open";
      EXPECT_FALSE(accepted && apart) << "seed " << kSeed + k << ": proved and false: " << text << "\n"
                                      << apart->ToString();
    }
  });
  std::cout << findings.size() << " rules, " << proved << " proved, " << refuted << " refuted\n";
  EXPECT_GT(proved, static_cast<int>(findings.size()) / 5);
  EXPECT_GT(refuted, static_cast<int>(findings.size()) / 10);
  ExpectRecorded("verifier/lists/random_rules.txt", "constants", findings, AllCases());
}

}  // namespace
}  // namespace rewright
