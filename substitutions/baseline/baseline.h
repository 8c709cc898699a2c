// The rule-based baseline: the rewrites that production compilers make before they schedule a graph.
//
// These are hand-written simplifications and foldings, applied wherever they apply and without regard to costs. The
// rules are proved as all rules are; passes.txt names them, says which compiler does each, and gives the order. A
// superoptimizer is worth the gain that it adds to this, on the same device with the same fusion.
//
// The passes run one after the other, and all again until nothing changes. A pass repeats rounds. In a round each rule
// of the pass, in order, is tried at every node, operands before users, and all places that do not overlap are
// rewritten at once. A rule that would leave more applications that run than before does not apply: this is the
// compilers' own test that a folded value has no other user. Each of these steps depends on the graph alone.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "substitutions/match/node_signatures.h"
#include "substitutions/rule_set.h"

namespace rewright {

struct BaselinePass {
  struct Entry {
    std::string rule;
    std::string source;  // compiler and pass
  };
  std::string name;
  std::vector<Entry> entries;
};

// Parses the text of a passes.txt. Errors: file:line: the text found and the text expected.
absl::StatusOr<std::vector<BaselinePass>> ParseBaselinePasses(const std::string& text, const std::string& file);

struct BaselineCount {
  std::string rule;
  int count = 0;
};

// A rewrite that was carried out.
struct BaselineStep {
  std::string rule;
  std::vector<std::pair<Value, Value>> replacement;  // in the order of the rule's outputs
  std::vector<NodeId> matched;                       // applications that run, users before operands
};

// Rewrites that do not overlap, carried out all at once.
struct BaselineRound {
  std::vector<BaselineStep> steps;
  Graph after;
};

struct BaselineResult {
  Graph graph;
  std::vector<BaselineRound> rounds;    // how it came about
  std::vector<BaselineCount> rewrites;  // in the order of passes.txt, those that occurred
  int64_t steps = 0;
  bool fixed_point = false;  // false: it was stopped by the bound on steps
};

class Baseline {
 public:
  // The passes and rules that come with the program. Errors: those of RuleSet, and a pass that names an unknown rule. A
  // rule that the options leave out (one that needs finite values) is left out of its pass. Disabled names that no rule
  // has are ignored. `reader`: for callers that load several sets.
  static absl::StatusOr<Baseline> Load(const LoadOptions& options = {}, RuleReader* reader = nullptr);
  static absl::StatusOr<Baseline> Load(const std::string& passes_file, const std::vector<std::string>& rule_files,
                                       const LoadOptions& options = {}, RuleReader* reader = nullptr);

  const std::vector<BaselinePass>& passes() const { return passes_; }
  // The files that the rules come from.
  const std::vector<std::string>& rule_files() const { return rule_files_; }

  // All rules that the passes use, each once: with them the rewrites that Apply() carried out are found again.
  std::vector<std::shared_ptr<const Matcher>> matchers() const;

  // Rewrites at most `max_steps` times; 0: a bound far above the steps that the rules can need, in the size of the
  // graph. Leaves out the rules named in `without`. `signatures`: of the graph's arena, when others need them too.
  // `admits`: is asked about the graph of each round; places that lead to a graph which it does not admit are left out.
  // Errors: a right side that cannot be built (a fault of the rule).
  absl::StatusOr<BaselineResult> Apply(const Graph& graph, int64_t max_steps = 0,
                                       const std::set<std::string>& without = {}, NodeSignatures* signatures = nullptr,
                                       const std::function<bool(const Graph&)>& admits = nullptr) const;

 private:
  std::vector<BaselinePass> passes_;
  std::vector<std::string> rule_files_;
  std::vector<RuleIndex> indices_;  // one per pass
};

}  // namespace rewright
