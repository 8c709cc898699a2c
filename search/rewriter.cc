#include "search/rewriter.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "substitutions/match/applier.h"

namespace rewright {

std::string ValueText(const Graph& graph, Value value) {
  const std::string& name = graph.arena()->name(value);
  if (!name.empty()) return name;
  const Node& node = graph.node(value.node);
  const std::string kind = node.op == nullptr ? "leaf" : node.op->name;
  return graph.contains(value.node) ? absl::StrCat(kind, "#", graph.index(value.node)) : kind;
}

std::string PlaceText(const Graph& graph, const Rewrite& rewrite) {
  return absl::StrJoin(rewrite.replacement, ", ", [&](std::string* out, const std::pair<Value, Value>& replaced) {
    out->append(ValueText(graph, replaced.first));
  });
}

std::optional<Rewrite> RewriteOf(const Graph& graph, int rule, const Match& match, const ValueMap& replacement) {
  Rewrite rewrite;
  rewrite.rule = rule;
  rewrite.keeps_bits = KeepsBits(*match.rule, *graph.arena(), match);
  for (Value root : match.roots) {
    if (const auto it = replacement.find(root); it != replacement.end()) rewrite.replacement.emplace_back(*it);
  }
  if (rewrite.replacement.empty()) return std::nullopt;
  for (int i = 0; i < match.rule->num_lhs_nodes(); ++i) {
    const size_t at = i;
    if (match.rule->nodes()[at].op != nullptr) rewrite.matched.push_back(match.nodes[at].node);
  }
  return rewrite;
}

RuleRewriter::RuleRewriter(const RuleRewriter& of)
    : rules_(of.rules_), numerics_of_(of.numerics_of_), numerics_(numerics_of_), failures_(of.failures_) {}

void RuleRewriter::FindAt(const Graph& graph, NodeId node, int rule, std::vector<Rewrite>* found) {
  std::vector<Match> matches;
  rules_.matchers()[rule]->MatchAt(graph, node, &matches);
  for (const Match& match : matches) {
    const absl::StatusOr<ValueMap> replacement = BuildReplacement(graph, match, &numerics_);
    if (absl::IsOutOfRange(replacement.status())) continue;
    if (!replacement.ok()) {
      const absl::MutexLock lock(&failures_->mutex);
      if (failures_->count++ == 0) failures_->first = std::string(replacement.status().message());
      continue;
    }
    std::optional<Rewrite> rewrite = RewriteOf(graph, rule, match, *replacement);
    if (rewrite) found->push_back(*std::move(rewrite));
  }
}

const RuleRewriter::AtNode& RuleRewriter::KnownAt(const Graph& graph, NodeId node) {
  const auto [it, fresh] = known_.try_emplace(node);
  if (!fresh) return it->second;
  std::vector<int> rules;
  rules_.Candidates(graph, node, &rules);
  for (int rule : rules) {
    if (rules_.matchers()[rule]->rule().lhs().size() == 1) {
      FindAt(graph, node, rule, &it->second.rewrites);
    } else {
      it->second.of_several_outputs.push_back(rule);
    }
  }
  return it->second;
}

std::vector<Rewrite> RuleRewriter::Find(const Graph& graph, int rule, const std::vector<int>& positions) {
  if (graph.arena() != arena_.lock()) {
    known_.clear();
    numerics_ = Numerics(numerics_of_);
    arena_ = graph.arena();
  }
  std::vector<Rewrite> found;
  // A value may have to keep its bits only since an exact rewrite put it in another's place.
  const auto take = [&](const Rewrite& rewrite) {
    for (const auto& [from, to] : rewrite.replacement) {
      if (!graph.node(from.node).keeps_bits) continue;
      if (!rewrite.keeps_bits) return;
      graph.arena()->KeepBits(to.node);
    }
    found.push_back(rewrite);
  };
  for (int position : positions) {
    const NodeId id = graph.nodes()[position];
    const Node& node = graph.node(id);
    if (!graph.IsRun(node)) continue;
    const AtNode& known = KnownAt(graph, id);
    auto next = known.rewrites.begin();
    const auto take_before = [&](int end) {
      for (; next != known.rewrites.end() && next->rule < end; ++next) {
        if (rule < 0 || rule == next->rule) take(*next);
      }
    };
    for (int several : known.of_several_outputs) {
      take_before(several);
      if (rule < 0 || rule == several) FindAt(graph, id, several, &found);
    }
    take_before(num_rules());
  }
  return found;
}

std::unique_ptr<Rewriter> RuleRewriter::Fork() const { return std::unique_ptr<Rewriter>(new RuleRewriter(*this)); }

int64_t RuleRewriter::failures() const {
  const absl::MutexLock lock(&failures_->mutex);
  return failures_->count;
}

std::string RuleRewriter::first_failure() const {
  const absl::MutexLock lock(&failures_->mutex);
  return failures_->first;
}

std::unique_ptr<Rewriter> FilteredRewriter::Fork() const {
  std::unique_ptr<Rewriter> inner = rewriter_.Fork();
  auto fork = std::make_unique<FilteredRewriter>(*inner);
  fork->forked_ = std::move(inner);
  fork->disabled_ = disabled_;
  return fork;
}

void FilteredRewriter::Disable(const std::string& rule_name) {
  const std::vector<std::string> names = absl::StrSplit(rule_name, kRuleSeparator);
  for (int rule = 0; rule < num_rules(); ++rule) {
    if (std::find(names.begin(), names.end(), this->rule_name(rule)) != names.end()) disabled_.insert(rule);
  }
}

std::vector<Rewrite> FilteredRewriter::Find(const Graph& graph, int rule, const std::vector<int>& positions) {
  std::vector<Rewrite> found = rewriter_.Find(graph, rule, positions);
  found.erase(std::remove_if(found.begin(), found.end(),
                             [&](const Rewrite& rewrite) { return disabled_.contains(rewrite.rule); }),
              found.end());
  return found;
}

}  // namespace rewright
