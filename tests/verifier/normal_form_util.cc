#include "tests/verifier/normal_form_util.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

#include "verifier/normal_form/normal_form.h"
#include "verifier/prove/elements.h"
#include "verifier/refute/concrete.h"
#include "verifier/refute/counterexample.h"
#include "verifier/smt/solver.h"

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
      case AtomNode::Kind::kMax: break;
    }
    const bool product = a->name == "prod", least = a->name.starts_with("min");
    if (!product && !IsExtremum(a->name)) undefined = true;
    double result = product ? 1 : least ? INFINITY : -INFINITY;
    for (const Branch& b : a->branches) {
      ForEachPoint(b.bound, b.guard, values, [&](const Assignment& point) {
        const double x = Form(b.body, point);
        result = product ? result * x : least ? std::min(result, x) : std::max(result, x);
      });
    }
    return result;
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
    if (a->name == "exp") return std::exp(x);
    if (a->name == "log") return std::log(x);
    if (a->name == "sqrt") return std::sqrt(x);
    if (a->name == "erf") return std::erf(x);
    if (a->name == "tanh") return std::tanh(x);
    if (a->name == "sigmoid") return 1 / (1 + std::exp(-x));
    if (a->name == "pos") return x > 0 ? 1 : 0;
    if (name == "zero") return x == 0 ? 1 : 0;
    undefined = true;
    return 0;
  }

  const Context& ctx_;
  const RuleInstance& instance_;
  const Elements& elements_;
  ConcreteInstance& concrete_;
};

}  // namespace

void CompareAll(const RuleInstance& instance, const Strategy& strategy, uint64_t seed, Counts* counts) {
  std::mt19937_64 rng(seed);
  CounterexampleSearch search(instance, seed);
  search.Run(4, 1);
  std::vector<std::vector<int64_t>> assignments = search.assignments();
  if (assignments.size() > 2) assignments.resize(2);
  for (const std::vector<int64_t>& symbols : assignments) {
    ConcreteInstance concrete(instance, symbols, RoundsToIntegers(instance), &rng);
    if (!concrete.usable()) continue;
    ProofSession session;
    QueryCache memory;
    session.memory = &memory;
    session.work_limit_s = 5;
    Context ctx(&session, strategy, seed);
    const Solver solver(&ctx);
    Elements elements(&ctx, instance);
    std::vector<Guard> facts = elements.Conditions();
    for (const Guard& g : elements.Requirements(0, instance.num_lhs_nodes)) facts.push_back(g);
    for (size_t s = 0; s < instance.symbols.size(); ++s) ctx.factor_order.push_back(static_cast<Var>(s));
    ctx.samples.emplace_back();
    for (size_t s = 0; s < symbols.size(); ++s) ctx.samples[0][static_cast<Var>(s)] = symbols[s];
    elements.SolveEquations(facts);
    std::vector<SymbolicValue> outputs = instance.lhs;
    outputs.insert(outputs.end(), instance.rhs.begin(), instance.rhs.end());
    for (const SymbolicValue& output : outputs) {
      std::vector<Poly> at;
      std::vector<std::vector<Var>> digits;
      for (const Poly& size : elements.Shape(output)) {
        std::vector<Var> vars;
        Poly index;
        if (!SplitProduct(ctx, "i", size, &vars, &index)) index = Poly::Of(ctx.NewRanged("i", Poly(), size));
        at.push_back(index);
      }
      NormalForm form = LiftConditions(ctx, elements.Element(output, at));
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
        FormEvaluator evaluator(ctx, instance, elements, concrete);
        const double found = evaluator.Form(form, values);
        if (concrete.undefined() || evaluator.undefined || !std::isfinite(expected)) {
          ++counts->skipped;
          continue;
        }
        ++counts->compared;
        EXPECT_NEAR(found, expected, 1e-6 * std::max(1.0, std::abs(expected)))
            << instance.rule << " " << instance.description << "\n"
            << NormalFormKey(ctx, form);
      }
    }
  }
}

}  // namespace rewright::verifier
