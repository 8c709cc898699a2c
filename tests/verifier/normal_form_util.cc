#include "tests/verifier/normal_form_util.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <iterator>
#include <random>
#include <regex>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/ir/functions.h"
#include "substitutions/instance/compiled_rule.h"
#include "substitutions/instance/instances.h"
#include "substitutions/language/rule_parser.h"
#include "verifier/integer/give_up.h"
#include "verifier/normal_form/cases.h"
#include "verifier/normal_form/function_laws.h"
#include "verifier/normal_form/normal_form.h"
#include "verifier/refute/concrete.h"
#include "verifier/refute/counterexample.h"

namespace rewright::verifier {
namespace {

constexpr int64_t kLow = -3, kHigh = 9;  // the box: sizes in this test stay below

class FormEvaluator {
 public:
  FormEvaluator(const Context& ctx, const RuleInstance& instance, const Elements& elements, ConcreteInstance& concrete)
      : ctx_(ctx), instance_(instance), elements_(elements), concrete_(concrete) {}

  bool undefined = false;
  int64_t steps = 0;

  double Form(const NormalForm& n, const Assignment& values) {
    double total = 0;
    for (const Term& t : n) {
      ForEachPoint(t.bound, t.guard, values, [&](const Assignment& point) {
        double product = t.coef.ToDouble();
        for (const Atom& a : t.atoms) product *= AtomValue(a, point);
        total += product;
      });
    }
    return total;
  }

 private:
  int64_t Index(const Poly& p, const Assignment& values) {
    Assignment copy = values;
    int64_t result = 0;
    if (!ctx_.Evaluate(p, &copy, &result)) undefined = true;
    return result;
  }

  void ForEachPoint(const std::vector<Var>& bound, const Guard& guard, const Assignment& values,
                    const std::function<void(const Assignment&)>& visit) {
    const std::vector<Guard> parts = Conjuncts(guard);
    Assignment point = values;
    std::function<void(size_t)> go = [&](size_t depth) {
      if (++steps > 400000) undefined = true;
      if (undefined) return;
      for (const Guard& g : parts) {
        bool known = true, holds = false;
        for (Var v : ctx_.BaseVars(g)) known = known && point.contains(v);
        if (!known) continue;
        Assignment copy = point;
        if (!ctx_.Evaluate(g, &copy, &holds)) undefined = true;
        if (!holds) return;
      }
      if (depth == bound.size()) {
        visit(point);
        return;
      }
      for (int64_t x = kLow; x <= kHigh; ++x) {
        point[bound[depth]] = x;
        go(depth + 1);
      }
      point.erase(bound[depth]);
    };
    go(0);
  }

  double AtomValue(const Atom& a, const Assignment& values) {
    switch (a->kind) {
      case AtomNode::Kind::kRead: return Read(a, values);
      case AtomNode::Kind::kInt: return static_cast<double>(Index(a->value, values));
      case AtomNode::Kind::kFn: return Function(a, values);
      case AtomNode::Kind::kBinder: break;
    }
    const bool product = a->name == "prod", least = a->name.starts_with("min"), place = a->name == "argmax";
    if (!product && !place && !IsExtremum(a->name)) undefined = true;
    double first = 0;  // the place of the greatest
    double result = product ? 1 : least ? INFINITY : -INFINITY;
    for (const Family& b : a->families) {
      ForEachPoint(b.bound, b.guard, values, [&](const Assignment& point) {
        const std::vector<NormalForm>* placed = place ? PartsOfPlaced(b.body) : nullptr;
        const double x = Form(placed != nullptr ? (*placed)[0] : b.body, point);
        if (place && x > result) {
          first = placed != nullptr ? Form((*placed)[1], point) : static_cast<double>(point.at(b.bound[0]));
        }
        result = product ? result * x : least ? std::min(result, x) : std::max(result, x);
      });
    }
    return place ? first : result;
  }

  double Read(const Atom& a, const Assignment& values) {
    std::vector<int64_t> at;
    for (const Poly& p : a->at) at.push_back(Index(p, values));
    for (size_t k = 0; k < instance_.nodes.size(); ++k) {
      if (instance_.nodes[k].meaning == nullptr && elements_.LeafName(static_cast<int>(k)) == a->name) {
        return concrete_.Element({static_cast<int>(k), 0}, at);
      }
    }
    for (size_t r = 0; r < instance_.reals.size(); ++r) {
      if (instance_.reals[r].name + "%" + std::to_string(r) == a->name) return concrete_.reals()[r];
    }
    return std::stod(a->name);  // a constant
  }

  double Function(const Atom& a, const Assignment& values) {
    const double x = Form(a->args[0], values);
    const std::string name = a->name.substr(0, a->name.find('.'));
    if (name == "less") return x < Form(a->args[1], values) ? 1 : 0;
    if (name == "float" || name == "widen") return x;
    if (a->name == "recip") {
      undefined = undefined || x == 0;
      return 1 / x;
    }
    if (name == "quotient") {
      const double y = Form(a->args[1], values);
      undefined = undefined || y == 0;
      return std::trunc(x / y);
    }
    if (a->name == "pos") return x > 0 ? 1 : 0;
    if (name == "zero") return x == 0 ? 1 : 0;
    const FnInfo* known = FindFn(a->name);
    if (known != nullptr) return EvaluateReal(known->fn, x, known->arity == 2 ? Form(a->args[1], values) : 0);
    undefined = true;
    return 0;
  }

  const Context& ctx_;
  const RuleInstance& instance_;
  const Elements& elements_;
  ConcreteInstance& concrete_;
};

Strategy StrategyOf(const std::string& law) {
  Strategy strategy;
  const size_t open = law.find('[');
  if (open == std::string::npos) return strategy;
  const std::vector<std::string> words = absl::StrSplit(law.substr(open + 1, law.find(']') - open - 1), ", ");
  for (const std::string& word : words) {
    bool* choice = word == "finite laws"      ? &strategy.finite_laws
                   : word == "split products" ? &strategy.split_products
                   : word == "unfold"         ? &strategy.unfold
                   : word == "quotients"      ? &strategy.quotients
                   : word == "digits"         ? &strategy.digits
                   : word == "unroll"         ? &strategy.unroll
                                              : nullptr;
    EXPECT_NE(choice, nullptr) << law << ": " << word << " is no choice of a proof";
    if (choice != nullptr) *choice = true;
  }
  return strategy;
}

}  // namespace

std::string Skipped(const Counts& counts) {
  if (counts.skipped == 0 && counts.compared > 0) return "";
  return absl::StrCat(counts.skipped, " of ", counts.skipped + counts.compared, " values skipped");
}

ElementScene::ElementScene(const RuleInstance& instance, const Strategy& strategy, uint64_t seed,
                           const std::vector<int64_t>& symbols)
    : session_{.work_limit_s = 5, .query_cache = &query_cache_},
      context_(&session_, strategy, seed),
      solver_(&context_),
      elements_(&context_, instance) {
  std::vector<Guard> facts = elements_.Conditions();
  for (const Guard& g : elements_.Requirements(0, instance.num_lhs_nodes)) facts.push_back(g);
  context_.samples.emplace_back();
  for (size_t s = 0; s < symbols.size(); ++s) {
    context_.factor_order.push_back(static_cast<Var>(s));
    context_.samples[0][static_cast<Var>(s)] = symbols[s];
  }
  elements_.SolveEquations(facts);
}

std::vector<Poly> ElementScene::Positions(SymbolicValue output) {
  constexpr const char* kNames[] = {"i", "j", "k", "l"};
  std::vector<Poly> at;
  for (const Poly& size : elements_.Shape(output)) {
    std::vector<Var> digits;
    Poly index;
    const std::string name = kNames[at.size() % std::size(kNames)];
    if (!SplitProduct(context_, name, size, &digits, &index)) {
      digits = {context_.NewRanged(name, Poly(), size)};
      index = Poly::Of(digits[0]);
    }
    context_.positions.insert(context_.positions.end(), digits.begin(), digits.end());
    for (size_t d = 0; d < digits.size(); ++d) names_[digits[d]] = name + std::string(d, '\'');
    at.push_back(index);
  }
  return at;
}

NormalForm ElementScene::Form(SymbolicValue output, const std::vector<Poly>& at) {
  return LiftConditions(context_, elements_.Element(output, at));
}

std::string ElementScene::Print(const NormalForm& form) const { return NormalFormKey(context_, form, names_); }

void CompareAll(const RuleInstance& instance, const Strategy& strategy, uint64_t seed, Counts* counts) {
  std::mt19937_64 rng(seed);
  CounterexampleSearch search(instance, seed);
  search.Run(4, 1);
  std::vector<std::vector<int64_t>> assignments = search.assignments();
  if (assignments.empty()) assignments = search.Draw(20);
  if (assignments.size() > 2) assignments.resize(2);
  for (const std::vector<int64_t>& symbols : assignments) {
    ConcreteInstance concrete(instance, symbols, RoundsToIntegers(instance), &rng);
    if (!concrete.usable()) continue;
    ElementScene scene(instance, strategy, seed, symbols);
    const Context& ctx = scene.context();
    std::vector<SymbolicValue> outputs = instance.lhs;
    outputs.insert(outputs.end(), instance.rhs.begin(), instance.rhs.end());
    for (const SymbolicValue& output : outputs) {
      const std::vector<Poly> at = scene.Positions(output);
      const NormalForm form = scene.Form(output, at);
      for (int point = 0; point < 3; ++point) {
        Assignment values = ctx.samples[0];
        std::vector<int64_t> position;
        bool usable = true;
        for (const Poly& p : at) {
          position.push_back(0);
          usable = usable && ctx.Evaluate(p, &values, &position.back());
        }
        if (!usable) continue;
        concrete.Clear();
        const double expected = concrete.Element(output, position);
        FormEvaluator evaluator(ctx, instance, scene.elements(), concrete);
        const double found = evaluator.Form(form, values);
        if (concrete.undefined() || evaluator.undefined || !std::isfinite(expected)) {
          ++counts->skipped;
          continue;
        }
        ++counts->compared;
        EXPECT_NEAR(found, expected, 1e-6 * std::max(1.0, std::abs(expected)))
            << instance.rule << " " << instance.description << "\n"
            << scene.Print(form);
      }
    }
  }
}

std::string TablePath() { return absl::StrCat(REWRIGHT_SOURCE_DIR, "/tests/verifier/lists/normal_form_table.txt"); }

std::vector<TableRow> ReadTable() {
  std::ifstream in(TablePath());
  EXPECT_TRUE(in.good()) << TablePath();
  std::vector<TableRow> rows;
  TableRow row;
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || absl::StartsWith(line, "#")) {
      absl::StrAppend(&row.before, line, "\n");
    } else if (!absl::StartsWith(line, "  ")) {
      row.law = line;
    } else if (!absl::StartsWith(line, "  =>")) {
      row.term = line.substr(2);
    } else {
      row.form = std::string(absl::StripAsciiWhitespace(line.substr(4)));
      rows.push_back(std::exchange(row, {}));
    }
  }
  return rows;
}

std::string PrintedForm(const TableRow& row) {
  // The right side of the rule is the same term, without the shapes of variables.
  static const std::regex kShapes(R"(([a-z]\w*)(: \w+)?\[[^\]]*\])");
  const std::string again = std::regex_replace(row.term, kShapes, "$1");
  const auto rules = ParseRules(absl::StrCat("rule row\n  ", row.term, " => ", again), "table");
  if (!rules.ok()) return std::string(rules.status().message());
  const auto compiled = CompileRule(rules->front(), RuleUse::kProof);
  if (!compiled.ok()) return std::string(compiled.status().message());
  const auto instances = Instances(**compiled, SmallLimits(**compiled));
  if (!instances.ok()) return std::string(instances.status().message());
  if (instances->empty()) return "no instance";
  const RuleInstance& instance = instances->front();
  const auto assignments = CounterexampleSearch(instance, 1).Draw(20);
  if (assignments.empty()) return "no sizes";
  try {
    ElementScene scene(instance, StrategyOf(row.law), 1, assignments[0]);
    return scene.Print(scene.Form(instance.lhs[0], scene.Positions(instance.lhs[0])));
  } catch (const GiveUp& end_of_attempt) {
    return "given up: " + end_of_attempt.reason;
  }
}

}  // namespace rewright::verifier
