#include "search/rewriter.h"

#include <algorithm>

namespace rewright {

RuleRewriter::RuleRewriter(const RuleIndex& rules) : rules_(rules) {
  for (const auto& matcher : rules.matchers()) numbers_.emplace(matcher.get(), static_cast<int>(numbers_.size()));
}

std::vector<Rewrite> RuleRewriter::FindAt(const Graph& graph, NodeId node, const Matcher& matcher, int rule) {
  std::vector<Match> matches;
  matcher.MatchAt(graph, node, &matches);
  std::vector<Rewrite> rewrites;
  for (const Match& match : matches) {
    const absl::StatusOr<ValueMap> replacement = Instantiate(graph, match);
    if (!replacement.ok()) {
      if (failures_++ == 0) first_failure_ = std::string(replacement.status().message());
      continue;
    }
    Rewrite rewrite;
    rewrite.rule = rule;
    for (Value root : match.roots) {
      if (auto it = replacement->find(root); it != replacement->end()) rewrite.replacement.emplace_back(*it);
    }
    if (rewrite.replacement.empty()) continue;
    for (int i = 0; i < match.rule->num_lhs_nodes(); ++i) {
      const size_t at = static_cast<size_t>(i);
      if (match.rule->nodes()[at].op != nullptr) rewrite.matched.push_back(match.nodes[at].node);
    }
    rewrites.push_back(std::move(rewrite));
  }
  return rewrites;
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
    for (const Matcher* matcher : rules_.RootedAt(node.op)) {
      const int number = numbers_.at(matcher);
      if (rule >= 0 && number != rule) continue;
      if (matcher->rule().lhs().size() > 1) {
        for (Rewrite& rewrite : FindAt(graph, id, *matcher, number)) found.push_back(std::move(rewrite));
        continue;
      }
      auto it = known_.find({id, number});
      if (it == known_.end()) {
        it = known_.emplace(std::pair(id, number), FindAt(graph, id, *matcher, number)).first;
      }
      found.insert(found.end(), it->second.begin(), it->second.end());
    }
  }
  return found;
}

void FilteredRewriter::Disable(const std::string& rule_name) {
  for (int rule = 0; rule < num_rules(); ++rule) {
    if (this->rule_name(rule) == rule_name) disabled_.insert(rule);
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
