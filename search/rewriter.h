// The interface of the rules to the search: the rewrites that apply to a graph, ready to be carried out.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "core/ir/graph.h"
#include "substitutions/match/matcher.h"

namespace rewright {

// Between the names of the rules that made a step together.
inline constexpr char kRuleSeparator[] = " + ";

// A place where a rule applies. Its right side is in the arena already; nothing downstream is.
struct Rewrite {
  int rule = 0;  // number in the Rewriter; -1: several rules, named in `name`
  std::string name = {};
  // The replaced values and their replacements, in the order of the rule's outputs.
  std::vector<std::pair<Value, Value>> replacement;
  // Applications that the left side covers.
  std::vector<NodeId> matched;
  bool keeps_bits = false;  // of the replaced values
};

// The name of a value; its operator and number where it has none.
std::string ValueText(const Graph& graph, Value value);
// The names of the values that a rewrite replaces.
std::string PlaceText(const Graph& graph, const Rewrite& rewrite);

// The rewrite by rule number `rule` of a match and its replacement (BuildReplacement); none where both sides are the
// same values.
std::optional<Rewrite> RewriteOf(const Graph& graph, int rule, const Match& match, const ValueMap& replacement);

class Rewriter {
 public:
  virtual ~Rewriter() = default;
  virtual int num_rules() const = 0;
  virtual const std::string& rule_name(int rule) const = 0;
  // The rule itself; null where the rewrites are made otherwise.
  virtual std::shared_ptr<const Matcher> matcher(int rule) const {
    (void)rule;
    return nullptr;
  }
  // The rewrites by one rule, or by all (-1), whose first output one of the nodes computes; `positions` in
  // graph.nodes() ascend. Their order depends on the graph alone.
  virtual std::vector<Rewrite> Find(const Graph& graph, int rule, const std::vector<int>& positions) = 0;
  // Another one with the same rules, for graphs of another arena, perhaps in another thread. It lives no longer than
  // this one.
  virtual std::unique_ptr<Rewriter> Fork() const = 0;
};

// The rewrites of a set of rules to graphs of one arena. Work on weights alone is not rewritten: it is done once, at
// load.
//
// Matching is incremental: which rules may match at a node (DiscriminationNet), and the matches of a rule with one
// output, are the same whatever graph of the arena the node is in. Both are looked for once per node, so that a graph
// that differs from others by one rewrite is matched where it differs.
class RuleRewriter : public Rewriter {
 public:
  // The index outlives the rewriter. `numerics`: the known facts about inputs.
  explicit RuleRewriter(const RuleIndex& rules, NumericsOptions numerics = {})
      : rules_(rules), numerics_of_(std::move(numerics)), numerics_(numerics_of_) {}

  int num_rules() const override { return static_cast<int>(rules_.matchers().size()); }
  const std::string& rule_name(int rule) const override { return rules_.matchers()[rule]->rule().name(); }
  std::shared_ptr<const Matcher> matcher(int rule) const override { return rules_.matchers()[rule]; }
  std::vector<Rewrite> Find(const Graph& graph, int rule, const std::vector<int>& positions) override;

  std::unique_ptr<Rewriter> Fork() const override;

  // Matches whose right side could not be built (a fault of the rule), with an error; those of forks count.
  int64_t failures() const;
  std::string first_failure() const;

 private:
  // The results at a node that are the same in all graphs.
  struct AtNode {
    std::vector<Rewrite> rewrites;        // by rules with one output, ascending
    std::vector<int> of_several_outputs;  // rules that may match, ascending
  };

  RuleRewriter(const RuleRewriter& of);  // a fork
  void FindAt(const Graph& graph, NodeId node, int rule, std::vector<Rewrite>* found);
  const AtNode& KnownAt(const Graph& graph, NodeId node);

  const RuleIndex& rules_;
  std::weak_ptr<Arena> arena_;  // of the nodes in known_ and numerics_
  absl::flat_hash_map<NodeId, AtNode> known_;
  const NumericsOptions numerics_of_;
  Numerics numerics_;

  struct Failures {
    absl::Mutex mutex;
    int64_t count = 0;
    std::string first;
  };
  std::shared_ptr<Failures> failures_ = std::make_shared<Failures>();
};

// Another rewriter without some of its rules.
class FilteredRewriter : public Rewriter {
 public:
  // The rewriter outlives this one.
  explicit FilteredRewriter(Rewriter& rewriter) : rewriter_(rewriter) {}

  // A rule, or all the rules of a step that several made (TraceStep::rule).
  void Disable(const std::string& rule_name);
  int num_rules() const override { return rewriter_.num_rules(); }
  const std::string& rule_name(int rule) const override { return rewriter_.rule_name(rule); }
  std::shared_ptr<const Matcher> matcher(int rule) const override {
    return disabled_.contains(rule) ? nullptr : rewriter_.matcher(rule);
  }
  std::vector<Rewrite> Find(const Graph& graph, int rule, const std::vector<int>& positions) override;
  std::unique_ptr<Rewriter> Fork() const override;

 private:
  std::unique_ptr<Rewriter> forked_;  // of a fork: the rewriter that it filters
  Rewriter& rewriter_;
  absl::flat_hash_set<int> disabled_;
};

}  // namespace rewright
