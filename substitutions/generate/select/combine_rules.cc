#include "substitutions/generate/select/combine_rules.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/status_macros.h"
#include "core/base/threads.h"
#include "substitutions/egraph/derive.h"
#include "substitutions/egraph/reverse_rule.h"
#include "substitutions/generate/select/gain.h"
#include "substitutions/instance/compiled_rule.h"
#include "substitutions/language/operator_variables.h"
#include "substitutions/language/siblings.h"
#include "substitutions/match/applier.h"
#include "substitutions/match/matcher.h"

namespace rewright::generate {
namespace {

constexpr int kSteps = 3;  // of the rules so far that may take the place of one

// A rule of a file.
struct Item {
  const Rule* rule = nullptr;
  std::shared_ptr<const Matcher> matcher;
  std::vector<std::shared_ptr<const Matcher>> others;  // of an operator variable: the operators beside the first
  bool looks_at_values = false;                        // conditions such as weight(x)
  size_t size = 0;                                     // nodes of both sides

  RuleClass rule_class() const { return rule->proof->rule_class; }
};

bool LooksAtValues(const ArgExpr& expr) {
  if (expr.kind == ArgExpr::Kind::kCall && (expr.fn == ArgFn::kWeight || expr.fn == ArgFn::kConstant ||
                                            expr.fn == ArgFn::kPositive || expr.fn == ArgFn::kFinite)) {
    return true;
  }
  return std::any_of(expr.args.begin(), expr.args.end(), LooksAtValues);
}

absl::StatusOr<Item> ItemOf(const Rule& rule) {
  if (!rule.proof) return absl::InvalidArgumentError(absl::StrCat("rule ", rule.name, " is not proved"));
  Item item{.rule = &rule};
  for (const Rule& one : OperatorRules(rule)) {
    ASSIGN_OR_RETURN(auto compiled, CompileRule(one));
    item.size = compiled->nodes().size();
    auto matcher = std::make_shared<const Matcher>(std::move(compiled), rule.proof->domain);
    (item.matcher == nullptr ? item.matcher : item.others.emplace_back()) = std::move(matcher);
  }
  if (item.matcher == nullptr)
    return absl::InvalidArgumentError(absl::StrCat("rule ", rule.name, " names no operator"));
  item.looks_at_values = std::any_of(rule.conditions.begin(), rule.conditions.end(), LooksAtValues);
  return item;
}

class Combiner {
 public:
  explicit Combiner(const CombineOptions& options) : options_(options) {
    draws_.instances = 3;
    draws_.seed = options.seed;
  }

  absl::StatusOr<Combination> Run(const std::vector<std::vector<Rule>>& files) {
    RETURN_IF_ERROR(Read(files));
    Replace();
    for (const Item& item : kept_) Learn(item);
    std::vector<const Item*> others;
    for (const Item& item : candidates_) {
      if (Stopped()) break;
      Consider(item, &others);
      ++done_;
      Report();
    }
    for (const Item* item : others) {
      if (!Stopped()) Enable(*item);
    }
    result_.complete = !Stopped();
    for (const Item& item : kept_) result_.rules.push_back(*item.rule);
    for (size_t i = 0; i < heads_.size(); ++i) {
      // The headings and the comment of a rule of the base stay when another rule replaces it.
      result_.rules[i].headings = heads_[i]->headings;
      result_.rules[i].comment = heads_[i]->comment;
    }
    return std::move(result_);
  }

 private:
  bool Stopped() const { return IsStopped(options_.stop); }
  void Report() const {
    if (options_.progress) options_.progress(done_, num_candidates_);
  }
  void Explain(const Rule& rule, const std::string& why) {
    result_.explanations.push_back(absl::StrCat(rule.name, ": ", why));
  }

  absl::Status Read(const std::vector<std::vector<Rule>>& files) {
    std::set<std::string> names;
    for (size_t f = 0; f < files.size(); ++f) {
      for (const Rule& rule : files[f]) {
        if (!names.insert(rule.name).second) {
          return absl::InvalidArgumentError(absl::StrCat("rule ", rule.name, " occurs twice"));
        }
        absl::StatusOr<Item> item = ItemOf(rule);
        if (!item.ok()) return item.status();
        if (f == 0) heads_.push_back(&rule);
        (f == 0 ? kept_ : candidates_).push_back(*std::move(item));
      }
    }
    std::stable_sort(candidates_.begin(), candidates_.end(), [](const Item& a, const Item& b) {
      return std::tuple(a.rule_class(), a.size) < std::tuple(b.rule_class(), b.size);
    });
    num_candidates_ = candidates_.size();
    return absl::OkStatus();
  }

  // True if the rules lead from both sides to one graph in a few steps.
  static bool Meet(const Place& place, const std::vector<DirectedRule>& rules) {
    EGraph egraph(place.arena);
    const SaturationLimits limits = {
        .max_rounds = kSteps, .max_nodes = 600, .max_matches_of_rule = 100, .max_merge_rounds = 2};
    return MakeEqual(egraph, place.sides, rules, limits).end == SaturationEnd::kDone;
  }

  // True if one step of `by` does what `goal` does, wherever `goal` applies.
  bool Covers(const Item& by, const Item& goal) const {
    const DomainLimits &wide = by.rule->proof->domain, &narrow = goal.rule->proof->domain;
    if (by.rule_class() > goal.rule_class() || wide.max_rank < narrow.max_rank ||
        wide.max_perm_rank < narrow.max_perm_rank || wide.max_broadcast_rank < narrow.max_broadcast_rank) {
      return false;
    }
    return AtAllInstances(goal.matcher->rule(), draws_, [&](const Place& place) {
      return Gives(*by.matcher, place.arena, place.Left(), place.Right());
    });
  }

  // Puts candidates in the place of rules of the base.
  void Replace() {
    std::vector<std::optional<size_t>> by(kept_.size());
    ForEachIndex(kept_.size(), options_.threads, [&](size_t i) {
      if (Stopped()) return;
      if (kept_[i].looks_at_values || IsSiblingRule(*kept_[i].rule) || HasOperatorVariable(*kept_[i].rule)) return;
      for (size_t k = 0; k < candidates_.size() && !by[i]; ++k) {
        const Item &own = kept_[i], &other = candidates_[k];
        if (other.matcher->root_op() != own.matcher->root_op() || !Covers(other, own)) continue;
        if (!Exchanges(*other.matcher, draws_) || Covers(own, other)) by[i] = k;
      }
    });
    std::set<size_t> taken;
    std::vector<Item> kept;
    std::vector<const Rule*> heads;
    for (size_t i = 0; i < kept_.size(); ++i) {
      if (by[i]) {
        Explain(*kept_[i].rule, absl::StrCat("covered by ", candidates_[*by[i]].rule->name));
        ++result_.replaced;
        if (!taken.insert(*by[i]).second) continue;
      }
      kept.push_back(by[i] ? candidates_[*by[i]] : kept_[i]);
      heads.push_back(heads_[i]);
    }
    kept_ = std::move(kept);
    heads_ = std::move(heads);
    std::vector<Item> left;
    for (size_t k = 0; k < candidates_.size(); ++k) {
      if (taken.count(k) == 0) left.push_back(candidates_[k]);
    }
    candidates_ = std::move(left);
    done_ = taken.size();
  }

  // The instances of a kept rule at which it gains.
  void Learn(const Item& item) {
    const auto look = [&](const RandomApplication& application) {
      for (uint32_t weights : WeightSubsets(application.graph.inputs().size())) {
        auto place = PlaceOf(application, weights);
        if (place && GainOf(*place) != Gain::kNone) gaining_.emplace_back(item.rule, *std::move(place));
      }
      return true;
    };
    const absl::Status drawn = ForEachDrawnInstance(item.matcher->rule(), draws_, look);
    (void)drawn;  // a rule of which no instance is found gains nothing
  }

  // The rules so far, read from left to right, of no weaker class: a user who asks for one class must not lose the
  // rule.
  std::vector<DirectedRule> RulesUpTo(RuleClass rule_class) const {
    std::vector<DirectedRule> rules;
    for (const Item& item : kept_) {
      if (item.rule_class() > rule_class) continue;
      rules.push_back({item.matcher, nullptr});
      for (const auto& other : item.others) rules.push_back({other, nullptr});
    }
    return rules;
  }

  // True if the outputs share only a scalar, as in { x s, y s } with a scalar s. A scalar is read all over a graph, and
  // each pair of its readers would be a match.
  bool MeetInANumber(const Item& item) const {
    const std::vector<std::vector<int>>& paths = item.matcher->rule().entry_paths();
    if (paths.size() < 2) return false;
    return AtAllInstances(item.matcher->rule(), draws_, [&](const Place& place) {
      return std::any_of(paths.begin() + 1, paths.end(), [&](const std::vector<int>& path) {
        if (path.empty()) return false;
        const Value shared = place.match.nodes[path[0]];
        return place.arena->node(shared.node).op == nullptr && place.arena->type(shared).shape.empty();
      });
    });
  }

  void Consider(const Item& item, std::vector<const Item*>* others) {
    if (MeetInANumber(item)) {
      ++result_.unrelated;
      return Explain(*item.rule, "its outputs meet in a number alone");
    }
    const std::vector<DirectedRule> rules = RulesUpTo(item.rule_class());
    bool gains = false, follows = true;
    std::optional<bool> without_weights;  // at the instance at hand
    const auto look = [&](const RandomApplication& application) {
      without_weights.reset();
      for (uint32_t weights : WeightSubsets(application.graph.inputs().size())) {
        const auto place = PlaceOf(application, weights);
        if (!place || GainOf(*place) == Gain::kNone) continue;
        gains = true;
        // A law that follows for any inputs follows for weights.
        if (!without_weights) {
          const auto plain = PlaceOf(application, 0);
          without_weights = plain && Meet(*plain, rules);
        }
        if (*without_weights) return true;
        follows = Meet(*place, rules);
        if (!follows) return false;
      }
      return true;
    };
    const absl::Status drawn = ForEachDrawnInstance(item.matcher->rule(), draws_, look);
    (void)drawn;
    if (gains && !follows && Exchanges(*item.matcher, draws_)) {
      ++result_.exchanging;
      Explain(*item.rule, "exchanges inputs");
    } else if (gains && !follows) {
      ++result_.gaining;
      kept_.push_back(item);
      Learn(item);
    } else if (gains) {
      ++result_.derivable;
      Explain(*item.rule, "where it gains it follows from others or undoes them");
    } else {
      others->push_back(&item);
    }
  }

  // A rule without gain: whether it leads to the left side of one that gains, from where nothing else leads on.
  void Enable(const Item& item) {
    const std::shared_ptr<const Matcher> reverse = ReverseMatcher(*item.matcher);
    const std::vector<DirectedRule> rules = RulesUpTo(item.rule_class());
    for (size_t i = 0; reverse != nullptr && i < gaining_.size() && !Stopped(); ++i) {
      const auto& [gaining, place] = gaining_[i];
      const Graph goal = GraphOf(place.arena, place.Left());
      std::vector<Match> matches = reverse->FindMatches(goal);
      for (size_t m = 0; m < std::min<size_t>(matches.size(), 2); ++m) {
        const auto start = ApplyMatch(goal, matches[m]);
        if (!start.ok() || start->outputs().size() != place.sides.size()) continue;
        Place whole{place.arena, place.match, {}};
        for (size_t k = 0; k < place.sides.size(); ++k) {
          whole.sides.emplace_back(start->outputs()[k].value, place.sides[k].second);
        }
        // The proof of the rule covers only its matches.
        if (!Gives(*item.matcher, place.arena, whole.Left(), place.Left())) continue;
        if (GainOf(whole) == Gain::kNone || Meet(whole, rules)) continue;
        ++result_.enabling;
        Explain(*item.rule, absl::StrCat("enables ", gaining->name));
        kept_.push_back(item);
        Learn(item);
        return;
      }
    }
    ++result_.without_gain;
    Explain(*item.rule, "gains nothing, and enables nothing that does not follow");
  }

  const CombineOptions& options_;
  DeriveOptions draws_;
  Combination result_;
  std::vector<Item> kept_, candidates_;
  std::vector<const Rule*> heads_;  // by rule of the base: the text above it
  std::vector<std::pair<const Rule*, Place>> gaining_;
  size_t done_ = 0, num_candidates_ = 0;
};

}  // namespace

absl::StatusOr<Combination> CombineRules(const std::vector<std::vector<Rule>>& files, const CombineOptions& options) {
  return Combiner(options).Run(files);
}

}  // namespace rewright::generate
