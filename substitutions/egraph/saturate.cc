#include "substitutions/egraph/saturate.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/hash/hash.h"
#include "substitutions/egraph/reverse_rule.h"
#include "substitutions/match/applier.h"

namespace rewright {
namespace {

class Saturation {
 public:
  Saturation(EGraph& egraph, const std::vector<DirectedRule>& rules, const SaturationLimits& limits)
      : egraph_(egraph), rules_(rules), limits_(limits) {
    result_.uses.resize(rules.size(), 0);
    std::vector<const CompiledRule*> compiled;
    for (const DirectedRule& rule : rules) compiled.push_back(&rule.matcher->rule());
    net_ = DiscriminationNet(compiled);
  }

  SaturationResult Run() {
    egraph_.Rebuild();
    while (!Ended()) {
      if (result_.rounds == limits_.max_rounds) {
        End(SaturationEnd::kRounds);
        break;
      }
      ++result_.rounds;
      if (!Round() && !Ended()) End(SaturationEnd::kSaturated);
      if (!Ended() && limits_.done && limits_.done()) End(SaturationEnd::kDone);
    }
    return std::move(result_);
  }

 private:
  struct Found {
    size_t rule;
    Match match;
  };

  bool Ended() const { return ended_; }
  void End(SaturationEnd end) {
    ended_ = true;
    result_.end = end;
  }

  // False when nothing changed and nothing was left out.
  bool Round() {
    const int64_t unions = egraph_.num_unions();
    const int nodes = egraph_.num_nodes();
    bool waiting = false;
    std::vector<Found> found;
    const std::vector<std::vector<NodeId>> places = FindPlaces();
    for (size_t rule = 0; rule < rules_.size() && !Ended(); ++rule) waiting |= !FindMatches(rule, places[rule], &found);
    for (const Found& entry : found) {
      if (Ended()) break;
      CarryOut(entry);
      CheckLimits();
    }
    egraph_.Rebuild();
    return waiting || egraph_.num_unions() != unions || egraph_.num_nodes() != nodes;
  }

  // By rule: the e-nodes at which it may match, ascending.
  std::vector<std::vector<NodeId>> FindPlaces() {
    std::vector<std::vector<NodeId>> places(rules_.size());
    std::vector<int> rules;
    for (NodeId node : egraph_.Applications()) {
      if (!limits_.rewrite_weights && egraph_.arena()->IsKnown(Value{node, 0})) continue;
      rules.clear();
      egraph_.Candidates(net_, node, &rules);
      for (int rule : rules) places[rule].push_back(node);
    }
    return places;
  }

  // New matches, which were not carried out before. False when more wait for the next round.
  bool FindMatches(size_t rule, const std::vector<NodeId>& places, std::vector<Found>* found) {
    const Matcher& matcher = *rules_[rule].matcher;
    if (matcher.rule().lhs().size() > 1 && result_.rounds > limits_.max_merge_rounds) return true;
    std::vector<Match> matches;
    int64_t share = limits_.max_matches_of_rule;
    for (NodeId node : places) {
      if (limits_.stop && limits_.stop()) End(SaturationEnd::kStopped);
      if (Ended()) return true;
      matches.clear();
      egraph_.MatchAt(matcher, node, &matches);
      for (Match& match : matches) {
        if (done_.contains(absl::HashOf(rule, match.nodes))) continue;
        if (share-- == 0) return false;
        found->push_back({rule, std::move(match)});
      }
    }
    return true;
  }

  void CarryOut(const Found& entry) {
    const DirectedRule& rule = rules_[entry.rule];
    done_.insert(absl::HashOf(entry.rule, entry.match.nodes));
    ++result_.matches;
    Numerics* const numerics = limits_.for_runs ? &numerics_ : nullptr;
    const absl::StatusOr<ValueMap> replacement = BuildReplacement(*egraph_.arena(), entry.match, numerics);
    if (!replacement.ok()) {
      // A reversed rule may leave a shape undetermined, so its failures do not count.
      if (rule.forward == nullptr && result_.failures++ == 0) {
        result_.first_failure = std::string(replacement.status().message());
      }
      return;
    }
    if (rule.forward != nullptr && !LeadsBack(egraph_, *rule.forward, entry.match, *replacement)) return;
    CarriedOut made{static_cast<int>(entry.rule), {}, egraph_.num_values(), 0};
    for (Value root : entry.match.roots) {
      const auto it = replacement->find(root);
      if (it == replacement->end() || !egraph_.Union(root, egraph_.Add(it->second))) continue;
      made.joined.emplace_back(root, it->second);
    }
    if (made.joined.empty()) return;
    made.end = egraph_.num_values();
    ++result_.uses[entry.rule];
    result_.history.push_back(std::move(made));
  }

  void CheckLimits() {
    if (egraph_.num_nodes() >= limits_.max_nodes) End(SaturationEnd::kNodes);
    if (result_.matches >= limits_.max_matches) End(SaturationEnd::kMatches);
    if (limits_.stop && limits_.stop()) End(SaturationEnd::kStopped);
  }

  EGraph& egraph_;
  const std::vector<DirectedRule>& rules_;
  const SaturationLimits& limits_;
  DiscriminationNet net_;
  Numerics numerics_;
  absl::flat_hash_set<size_t> done_;  // hashes of rule and nodes
  SaturationResult result_;
  bool ended_ = false;
};

}  // namespace

std::vector<DirectedRule> DirectedRules(const std::vector<std::shared_ptr<const Matcher>>& rules, bool both_ways) {
  std::vector<DirectedRule> directed;
  for (const auto& rule : rules) directed.push_back({rule, nullptr});
  for (size_t i = 0; both_ways && i < rules.size(); ++i) {
    if (auto reversed = ReverseMatcher(*rules[i])) directed.push_back({std::move(reversed), rules[i]});
  }
  return directed;
}

SaturationResult Saturate(EGraph& egraph, const std::vector<DirectedRule>& rules, const SaturationLimits& limits) {
  return Saturation(egraph, rules, limits).Run();
}

}  // namespace rewright
