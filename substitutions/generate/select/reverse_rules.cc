#include "substitutions/generate/select/reverse_rules.h"

#include <algorithm>
#include <bit>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/base/threads.h"
#include "core/ops/ops.h"
#include "substitutions/egraph/reverse_rule.h"
#include "substitutions/generate/select/gain.h"
#include "substitutions/generate/select/rule_builder.h"
#include "substitutions/instance/compiled_rule.h"
#include "substitutions/language/rule_terms.h"
#include "substitutions/match/matcher.h"
#include "substitutions/rule_set.h"
#include "verifier/prove_rule.h"

namespace rewright::generate {
namespace {

constexpr int kSizes = 32;  // of a rule, at which it is looked for gain

// True if the side is one result of one operator.
bool IsOneValue(const CompiledRule& rule, const std::vector<RuleValue>& outputs) {
  if (outputs.size() != 1) return false;
  const OpDef* op = rule.nodes()[outputs[0].node].op;
  return op != nullptr && !(outputs[0].whole && op == ops::Split());
}

// The inputs from which kernels of convolutions are made: bit i is the i-th one.
uint32_t KernelsOf(const Graph& graph) {
  std::set<NodeId> made;  // into kernels
  for (auto it = graph.nodes().rbegin(); it != graph.nodes().rend(); ++it) {
    const rewright::Node& node = graph.node(*it);
    if (node.op == nullptr) continue;
    for (size_t k = 0; k < node.operands.size(); ++k) {
      if (made.count(*it) > 0 || (node.op == ops::Conv2d() && k == 1)) made.insert(node.operands[k].node);
    }
  }
  uint32_t kernels = 0;
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    if (made.count(graph.inputs()[i].node) > 0) kernels |= uint32_t{1} << i;
  }
  return kernels;
}

// True if all elements are computed from elements at the same place. Then sizes differ by stretching alone, and the
// gain of another order of the operations is not worth a rule.
bool IsElementwise(const Graph& graph) {
  return std::all_of(graph.nodes().begin(), graph.nodes().end(), [&](NodeId id) {
    const rewright::Node& node = graph.node(id);
    if (node.op == nullptr) return true;
    const bool same_place = node.op->broadcasts || (node.op->inputs.size() == 1 && node.op->attrs.empty());
    return same_place && !node.meaning->outputs[0].element->Reduces();
  });
}

class Reverser {
 public:
  explicit Reverser(const ReverseOptions& options) : options_(options) {
    draws_.instances = 3;
    draws_.seed = options.seed;
  }

  absl::StatusOr<std::vector<Rule>> Run(const std::vector<Rule>& rules) {
    for (const Rule& rule : rules) {
      if (!rule.proof) return absl::InvalidArgumentError(absl::StrCat("rule ", rule.name, " is not proved"));
      auto compiled = CompileRule(rule);
      if (!compiled.ok()) return compiled.status();
      forward_.push_back(std::make_shared<const Matcher>(*compiled, rule.proof->domain));
      names_.insert(rule.name);
    }
    std::vector<std::optional<Proved>> reversed(rules.size());
    ForEachIndex(rules.size(), options_.threads, [&](size_t i) {
      if (options_.progress) options_.progress();
      if (!Stopped()) reversed[i] = ReverseOf(i);
    });
    std::vector<Proved> kept;
    std::vector<std::shared_ptr<const Matcher>> matchers;
    for (std::optional<Proved>& one : reversed) {
      if (!one) continue;
      // If two rules do the same, the first is kept.
      auto matcher = std::make_shared<const Matcher>(*CompileRule(one->rule), one->verdict.limits);
      if (IsOneStepOf(matchers, *matcher)) continue;
      matchers.push_back(std::move(matcher));
      one->rule.name = NewName(one->rule);
      kept.push_back(*std::move(one));
    }
    // Classes are measured of those alone that are kept.
    std::vector<absl::Status> statuses(kept.size());
    ForEachIndex(kept.size(), options_.threads, [&](size_t i) { statuses[i] = Record(&kept[i]); });
    std::vector<Rule> result;
    for (size_t i = 0; i < kept.size(); ++i) {
      if (!statuses[i].ok()) return statuses[i];
      result.push_back(std::move(kept[i].rule));
    }
    return result;
  }

 private:
  struct Proved {
    Rule rule;
    RuleVerdict verdict;  // without a class
  };

  bool Stopped() const { return IsStopped(options_.stop); }

  std::string NewName(const Rule& rule) {
    const std::string name = absl::StrCat(options_.prefix, LawName(rule));
    std::string numbered = name;
    for (int number = 2; !names_.insert(numbered).second; ++number) numbered = absl::StrCat(name, "-", number);
    return numbered;
  }

  std::optional<Proved> ReverseOf(size_t i) const {
    const CompiledRule& rule = forward_[i]->rule();
    if (!IsOneValue(rule, rule.lhs()) || !IsOneValue(rule, rule.rhs())) return std::nullopt;
    if (Exchanges(*forward_[i], draws_)) return std::nullopt;
    Rule reversed = ReverseRule(rule.rule());
    reversed.name = "reversed";
    const auto compiled = CompileRule(reversed);
    if (!compiled.ok()) return std::nullopt;
    const std::optional<std::vector<std::string>> weights = WeightsToGain(**compiled);
    if (!weights || IsOneStepOf(forward_, Matcher(*compiled, rule.rule().proof->domain))) return std::nullopt;
    for (const std::string& name : *weights) {
      reversed.conditions.push_back(CallArg(ArgFn::kWeight, {NameArg(name)}));
    }
    return ProofOf(std::move(reversed));
  }

  // The fewest inputs, beside the kernels of convolutions, that have to be weights for a gain at all sizes. Nothing if
  // the rule does not gain.
  std::optional<std::vector<std::string>> WeightsToGain(const CompiledRule& rule) const {
    std::map<std::pair<int, uint32_t>, std::vector<std::string>> found;  // by number
    int instances = 0;
    const auto look = [&](const RandomApplication& application) {
      const std::vector<Value>& inputs = application.graph.inputs();
      const uint32_t kernels = KernelsOf(application.graph);
      const Gain least = IsElementwise(application.graph) ? Gain::kAtAllSizes : Gain::kAtTheSizes;
      for (uint32_t subset : WeightSubsets(inputs.size())) {
        if ((subset & kernels) != 0 || (subset != 0 && instances >= draws_.instances)) continue;
        const auto place = PlaceOf(application, subset | kernels);
        if (!place || GainOf(*place) < (subset == 0 ? least : Gain::kAtAllSizes)) continue;
        std::vector<std::string> names;
        for (size_t k = 0; k < inputs.size(); ++k) {
          if ((subset >> k) & 1) names.push_back(application.graph.node(inputs[k].node).name);
        }
        found.try_emplace({std::popcount(subset), subset}, std::move(names));
      }
      ++instances;
      return found.empty() || found.begin()->first.first > 0;
    };
    DeriveOptions draws = draws_;
    draws.instances = kSizes;
    if (!ForEachDrawnInstance(rule, draws, look).ok() || found.empty()) return std::nullopt;
    return found.begin()->second;
  }

  // True if one of the rules does what `goal` does, at all its instances.
  bool IsOneStepOf(const std::vector<std::shared_ptr<const Matcher>>& rules, const Matcher& goal) const {
    return std::any_of(rules.begin(), rules.end(), [&](const std::shared_ptr<const Matcher>& rule) {
      return rule->root_op() == goal.root_op() && AtAllInstances(goal.rule(), draws_, [&](const Place& place) {
               return Gives(*rule, place.arena, place.Left(), place.Right());
             });
    });
  }

  std::optional<Proved> ProofOf(Rule rule) const {
    RuleProofOptions options;
    options.classify = false;
    options.work_limit_s = options.instance_limit_s = options_.rule_limit_s;
    options.seed = options_.seed;
    options.stop = options_.stop;
    RuleVerdict verdict = ProveRule(rule, options);
    if (verdict.verdict != Verdict::kProved) return std::nullopt;
    return Proved{std::move(rule), std::move(verdict)};
  }

  // The class, and the record under the rule's name.
  static absl::Status Record(Proved* proved) {
    RuleVerdict& verdict = proved->verdict;
    ASSIGN_OR_RETURN(const auto compiled, CompileRule(proved->rule));
    const auto found = ClassifyRule(*compiled, verdict.limits, verdict.instances, verdict.used_finite_only_step,
                                    &verdict.rounding, &verdict.operators);
    verdict.rule_class = found.ok() ? *found : RuleClass::kFiniteOnly;
    ASSIGN_OR_RETURN(proved->rule.proof, RecordOf(proved->rule, verdict));
    return absl::OkStatus();
  }

  const ReverseOptions& options_;
  DeriveOptions draws_;
  std::vector<std::shared_ptr<const Matcher>> forward_;
  std::set<std::string> names_;
};

}  // namespace

absl::StatusOr<std::vector<Rule>> ReverseRules(const std::vector<Rule>& rules, const ReverseOptions& options) {
  return Reverser(options).Run(rules);
}

}  // namespace rewright::generate
