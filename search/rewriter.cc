#include "search/rewriter.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_split.h"

namespace rewright {

RuleRewriter::RuleRewriter(const RuleIndex& rules) : rules_(rules) {
  auto rooted_at = std::make_shared<absl::flat_hash_map<const OpDef*, std::vector<NumberedRule>>>();
  int number = 0;
  for (const auto& matcher : rules.matchers()) {
    (*rooted_at)[matcher->root_op()].push_back({number++, matcher.get(), matcher->rule().lhs().size() == 1});
  }
  rooted_at_ = std::move(rooted_at);
}

RuleRewriter::RuleRewriter(const RuleRewriter& of)
    : rules_(of.rules_), rooted_at_(of.rooted_at_), failures_(of.failures_) {}

void RuleRewriter::FindAt(const Graph& graph, NodeId node, const NumberedRule& rule, std::vector<Rewrite>* found) {
  std::vector<Match> matches;
  rule.matcher->MatchAt(graph, node, &matches);
  for (const Match& match : matches) {
    const absl::StatusOr<ValueMap> replacement = Instantiate(graph, match);
    if (!replacement.ok()) {
      const absl::MutexLock lock(&failures_->mutex);
      if (failures_->count++ == 0) failures_->first = std::string(replacement.status().message());
      continue;
    }
    Rewrite rewrite;
    rewrite.rule = rule.number;
    for (Value root : match.roots) {
      if (auto it = replacement->find(root); it != replacement->end()) rewrite.replacement.emplace_back(*it);
    }
    if (rewrite.replacement.empty()) continue;
    for (int i = 0; i < match.rule->num_lhs_nodes(); ++i) {
      const size_t at = static_cast<size_t>(i);
      if (match.rule->nodes()[at].op != nullptr) rewrite.matched.push_back(match.nodes[at].node);
    }
    found->push_back(std::move(rewrite));
  }
}

const std::vector<Rewrite>& RuleRewriter::OfOneOutput(const Graph& graph, NodeId node,
                                                      absl::Span<const NumberedRule> rules) {
  const auto [it, fresh] = known_.try_emplace(node);
  if (!fresh) return it->second;
  for (const NumberedRule& rule : rules) {
    if (rule.one_output) FindAt(graph, node, rule, &it->second);
  }
  return it->second;
}

std::vector<Rewrite> RuleRewriter::Find(const Graph& graph, int rule, const std::vector<int>& positions) {
  if (graph.arena() != arena_.lock()) {
    known_.clear();
    arena_ = graph.arena();
  }
  std::vector<Rewrite> found;
  for (int position : positions) {
    const NodeId id = graph.nodes()[static_cast<size_t>(position)];
    const Node& node = graph.node(id);
    if (node.op == nullptr || node.weight_only) continue;
    const auto rules = rooted_at_->find(node.op);
    if (rules == rooted_at_->end()) continue;
    const std::vector<Rewrite>& known = OfOneOutput(graph, id, rules->second);
    auto next = known.begin();
    for (const NumberedRule& at : rules->second) {
      if (!at.one_output) {
        if (rule < 0 || rule == at.number) FindAt(graph, id, at, &found);
        continue;
      }
      for (; next != known.end() && next->rule == at.number; ++next) {
        if (rule < 0 || rule == at.number) found.push_back(*next);
      }
    }
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
