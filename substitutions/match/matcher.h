// Finding and applying rules in graphs.
//
// A match binds every name of the left side so that the left side, read at the bound values, is the matched part of
// the graph, its conditions hold, and the structural values lie in the domain in which the rule is proved. A broadcast
// in the graph counts only where the rule's own text allows it: a rule about equal sizes does not match an axis of
// size one that is stretched.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "core/ir/graph.h"
#include "core/numerics/ranges.h"
#include "substitutions/instance/compiled_rule.h"
#include "substitutions/instance/instances.h"
#include "substitutions/match/discrimination_net.h"
#include "substitutions/match/match_obstacle.h"

namespace rewright {

// Names of a rule at a place in a graph.
struct RuleBindings {
  std::vector<int64_t> sizes;               // as CompiledRule::sizes()
  std::vector<std::vector<int64_t>> packs;  // as packs()
  std::vector<Attr> attrs;                  // as attrs()
  DType floating = DType::kFloat32;         // the element type of variables that declare none
};

struct Match {
  // The rule that matched; it lives as long as the matcher. For a rule about siblings it is the expansion for the
  // number that is matched.
  const CompiledRule* rule = nullptr;
  // The outputs of the left side, which are replaced; an application with several outputs stands for all of them.
  std::vector<Value> roots;
  // By node of the left side: the value of a leaf, output 0 of an application.
  std::vector<Value> nodes;
  RuleBindings bindings;

  // "b..=2, n=64, ?a=1": for traces.
  std::string Describe() const;
};

// A rule, the domain in which it may be applied, and the structural instances met so far. Thread-safe.
class Matcher {
 public:
  // `halves`: the rule may be used on 16-bit floats (ProofRecord::halves). A rule that only moves elements may be used
  // on every type, any other one on f32, f64, i64, i32 and bool alone.
  explicit Matcher(std::shared_ptr<const CompiledRule> rule, const DomainLimits& limits = {}, bool halves = false);

  const CompiledRule& rule() const { return *rule_; }
  const DomainLimits& limits() const { return limits_; }
  // The operator of the first output: only its applications can match.
  const OpDef* root_op() const { return root_op_; }

  // Appends the matches whose first output is computed by `node`, an application of the graph. A rule about siblings
  // gives all pairs, then all siblings from `node` on.
  // `obstacle`, where given, is set to what stops the attempt that gets furthest.
  void MatchAt(const Graph& graph, NodeId node, std::vector<Match>* matches, MatchObstacle* obstacle = nullptr) const;
  // Likewise, of an arena: the outputs are computed by `node` or by what it reads. Takes the time of the left side,
  // however large the graph is.
  void MatchBelow(const Arena& arena, NodeId node, std::vector<Match>* matches) const;
  // All matches, in the order of the graph's nodes.
  std::vector<Match> FindMatches(const Graph& graph) const;

 private:
  template <typename View>
  friend class MatchSearch;
  template <typename View>
  friend class SiblingGroups;

  // The matcher of the expansion of a rule about siblings for `count` siblings. Null if that makes no rule.
  const Matcher* ForSiblings(int count) const;

  // The checks of a match in one structure.
  struct Domain {
    bool proved = false;
    std::vector<ExprPtr> requirements;                         // Cond over the instance's symbols
    std::vector<std::pair<int, std::vector<ExprPtr>>> shapes;  // of nodes of the left side
  };
  // The match that a complete assignment of nodes amounts to: binds the names and checks conditions and domain.
  // `why`, where given, is set to the reason if there is none.
  std::optional<Match> Complete(const Arena& arena, std::vector<Value> roots, const std::vector<Value>& nodes,
                                std::string* why = nullptr) const;
  bool TakesTypes(const Arena& arena, const std::vector<Value>& nodes) const;
  // The types that the law holds on beyond those it is proved for.
  struct OtherTypes {
    bool halves = false;  // 16-bit floats: no literal of the rule changes its value or its type there
    bool all = false;     // it only moves elements
  };
  const OtherTypes& other_types() const;
  std::shared_ptr<const Domain> FindDomain(const StructuralAssignment& structure) const;
  Domain MakeDomain(const StructuralAssignment& structure) const;

  std::shared_ptr<const CompiledRule> rule_;
  DomainLimits limits_;
  const bool halves_;
  // By node of the left side: attributes that are literals.
  std::vector<std::vector<std::pair<std::string, Attr>>> literals_;
  const OpDef* root_op_;

  mutable std::once_flag looked_at_types_;
  mutable OtherTypes other_types_;
  mutable std::mutex mutex_;
  mutable MeaningCache meanings_;
  mutable absl::flat_hash_map<std::vector<int64_t>, std::shared_ptr<const Domain>> domains_;
  mutable absl::flat_hash_map<int, std::unique_ptr<const Matcher>> for_siblings_;
};

// Many rules, looked up by their left sides.
class RuleIndex {
 public:
  RuleIndex() = default;
  explicit RuleIndex(std::vector<std::shared_ptr<const Matcher>> matchers);

  const std::vector<std::shared_ptr<const Matcher>>& matchers() const { return matchers_; }
  // Appends the numbers in matchers() of the rules that may match at `node`, an application, ascending: see
  // DiscriminationNet. For rules with one output the result depends only on the node, whatever graph of the arena it is
  // in.
  void Candidates(const Graph& graph, NodeId node, std::vector<int>* rules) const;
  void MatchAt(const Graph& graph, NodeId node, std::vector<Match>* matches) const;
  std::vector<Match> FindMatches(const Graph& graph) const;

 private:
  std::vector<std::shared_ptr<const Matcher>> matchers_;
  DiscriminationNet net_;
};

}  // namespace rewright
