// Equality saturation, see search.h.
#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "search/enode_costs.h"
#include "search/explorer.h"
#include "search/extraction.h"
#include "substitutions/egraph/saturate.h"

namespace rewright {
namespace {

// Rounds of one saturation. What they do not reach, the next saturation does, which starts from the graph that was
// extracted: merges of siblings by pairs, above all, that make siblings again.
constexpr int kRounds = 4;
constexpr int kMergeRounds = 1;
constexpr int64_t kMatchesOfRule = 200;
// The last extractions, each cheaper than the one before by the costs of e-nodes, that the device's cost chooses from.
constexpr size_t kJudged = 6;
// Exchanges of one e-node that are tried before a graph counts as a local optimum.
constexpr size_t kExchanges = 24;

// An e-graph of one graph and the graphs that are extracted from it.
class SaturatedGraph {
 public:
  SaturatedGraph(Explorer& explorer, const std::vector<DirectedRule>& rules, const SearchState& state)
      : explorer_(explorer),
        rules_(rules),
        graph_(explorer.View(state)),
        egraph_(graph_.arena()),
        enode_costs_(egraph_, explorer.costs()) {}

  // Applies the rules. False when they say nothing.
  bool Saturate() {
    for (const Output& output : graph_.outputs()) roots_.push_back(egraph_.Add(output.value));
    SaturationLimits limits;
    limits.max_rounds = kRounds;
    limits.max_merge_rounds = kMergeRounds;
    limits.max_matches_of_rule = kMatchesOfRule;
    limits.max_nodes = explorer_.options().egraph_nodes + egraph_.num_nodes();
    limits.rewrite_weights = false;
    limits.stop = [this] { return ++asked_ % 64 == 0 && explorer_.Done(); };
    saturation_ = rewright::Saturate(egraph_, rules_, limits);
    explorer_.CountExplored(saturation_.matches);
    if (saturation_.joined.empty()) return false;
    for (NodeId id : graph_.nodes()) original_.try_emplace(egraph_.NodeOf(id), id);
    problem_ = ProblemOf(egraph_, roots_, enode_costs_);
    start_.assign(problem_.classes.size(), -1);
    for (const auto& [enode, id] : original_) {
      const auto number = problem_.node_numbers.find(enode);
      if (number == problem_.node_numbers.end()) continue;
      for (int made : problem_.problem.nodes[static_cast<size_t>(number->second)].makes) {
        // Where the graph computes a class twice, what comes first serves for both.
        int& choice = start_[static_cast<size_t>(made)];
        if (choice < 0 || original_.at(NodeAt(choice)) > id) choice = number->second;
      }
    }
    trees_ = CheapestTrees(problem_.problem);
    return true;
  }

  // Graphs that cost less by the sum of their e-nodes, the cheapest first.
  std::vector<Extraction> Extract() const {
    std::vector<Extraction> found;
    ExtractCheapest(problem_.problem, {start_}, explorer_.options().extraction_steps,
                    [&](const Extraction& better) { found.push_back(better); });
    std::reverse(found.begin(), found.end());
    if (found.size() > kJudged) found.resize(kJudged);
    return found;
  }

  // Extractions that choose another e-node for one class (and for the others that it computes), those first that cost
  // least by the sum of their e-nodes.
  std::vector<Extraction> Exchanges(const Extraction& extraction) const {
    std::vector<Extraction> found;
    std::vector<int> filled = extraction.choice;
    for (size_t c = 0; c < filled.size(); ++c) {
      if (filled[c] < 0) filled[c] = start_[c] >= 0 ? start_[c] : trees_[c];
    }
    const double limit = extraction.cost * explorer_.options().alpha;
    for (size_t c = 0; c < filled.size(); ++c) {
      if (extraction.choice[c] < 0) continue;
      for (int maker : problem_.problem.makers[c]) {
        if (maker == extraction.choice[c]) continue;
        std::vector<int> choice = filled;
        choice[c] = maker;
        for (int made : problem_.problem.nodes[static_cast<size_t>(maker)].makes) {
          if (extraction.choice[static_cast<size_t>(made)] >= 0) choice[static_cast<size_t>(made)] = maker;
        }
        Extraction exchanged = Needed(problem_.problem, choice);
        if (exchanged.cost <= limit) found.push_back(std::move(exchanged));
      }
    }
    std::stable_sort(found.begin(), found.end(),
                     [](const Extraction& a, const Extraction& b) { return a.cost < b.cost; });
    if (found.size() > kExchanges) found.resize(kExchanges);
    return found;
  }

  Extraction Start() const { return Needed(problem_.problem, start_); }

  // The extracted graph in place of the one that `state` stands for.
  Proposal InPlaceOf(const SearchState& state, const Extraction& extraction) {
    built_.clear();
    Proposal proposal;
    proposal.rewrite.rule = -1;
    proposal.rewrite.name = Names(extraction);
    for (size_t k = 0; k < roots_.size(); ++k) {
      const Value from = state.outputs[k].value, to = Build(extraction, problem_.problem.roots[k]);
      if (from != to) proposal.rewrite.replacement.emplace_back(from, to);
    }
    std::sort(proposal.rewrite.replacement.begin(), proposal.rewrite.replacement.end());
    proposal.rewrite.replacement.erase(
        std::unique(proposal.rewrite.replacement.begin(), proposal.rewrite.replacement.end()),
        proposal.rewrite.replacement.end());
    return proposal;
  }

 private:
  NodeId NodeAt(int number) const { return problem_.nodes[static_cast<size_t>(number)]; }

  // The value of a class, built with all that it needs.
  Value Build(const Extraction& extraction, int root) {
    std::vector<int> stack = {root};
    while (!stack.empty()) {
      const int c = stack.back();
      if (built_.contains(c)) {
        stack.pop_back();
        continue;
      }
      const int number = extraction.choice[static_cast<size_t>(c)];
      // Operands in the order of the original, if it was there.
      const auto before = original_.find(NodeAt(number));
      const Node& node = egraph_.arena()->node(before != original_.end() ? before->second : NodeAt(number));
      std::vector<Value> operands;
      bool ready = true;
      for (Value operand : node.operands) {
        const int need = problem_.class_numbers.at(egraph_.Find(operand));
        const auto it = built_.find(need);
        if (it == built_.end()) {
          stack.push_back(need);
          ready = false;
        } else {
          operands.push_back(it->second);
        }
      }
      if (!ready) continue;
      stack.pop_back();
      const NodeId id = node.op == nullptr ? NodeAt(number) : egraph_.arena()->AddLike(node, std::move(operands));
      int32_t output = 0;
      while (problem_.class_numbers.at(egraph_.Find(Value{NodeAt(number), output})) != c) ++output;
      built_[c] = Value{id, output};
    }
    return built_.at(root);
  }

  // The rules by which the classes grew for which the extraction chose other e-nodes.
  std::string Names(const Extraction& extraction) const {
    std::set<std::string> names;
    for (const auto& [value, rule] : saturation_.joined) {
      const auto number = problem_.class_numbers.find(egraph_.Find(value));
      if (number == problem_.class_numbers.end()) continue;
      const size_t c = static_cast<size_t>(number->second);
      if (extraction.choice[c] < 0 || extraction.choice[c] == start_[c]) continue;
      names.insert(rules_[static_cast<size_t>(rule)].matcher->rule().name());
    }
    return absl::StrJoin(names, kRuleSeparator);
  }

  Explorer& explorer_;
  const std::vector<DirectedRule>& rules_;
  const Graph graph_;
  EGraph egraph_;
  ENodeCosts enode_costs_;
  std::vector<Value> roots_;
  SaturationResult saturation_;
  EGraphProblem problem_;
  absl::flat_hash_map<NodeId, NodeId> original_;  // by e-node: the node of the graph
  std::vector<int> start_;                        // the graph as an extraction
  std::vector<int> trees_;
  absl::flat_hash_map<int, Value> built_;  // of one extraction, by class
  int64_t asked_ = 0;
};

class EqualitySaturation {
 public:
  explicit EqualitySaturation(Explorer& explorer) : explorer_(explorer), rules_(explorer.DirectedRules()) {}

  void Run() {
    SearchState state = explorer_.original();
    Descend(explorer_, &state);
    while (!explorer_.Done() && Improve(&state)) Descend(explorer_, &state);
  }

 private:
  // False when saturation leads to nothing cheaper.
  bool Improve(SearchState* state) {
    SaturatedGraph saturated(explorer_, rules_, *state);
    if (!saturated.Saturate()) return false;
    const double before = state->cost.total();
    Extraction at = saturated.Start();
    std::optional<SearchState> best;
    for (const Extraction& extraction : saturated.Extract()) {
      if (explorer_.Done()) break;
      if (Try(saturated, *state, extraction, best ? best->cost.total() : before, &best)) at = extraction;
    }
    if (best) *state = *std::move(best);
    while (!explorer_.Done() && Exchange(saturated, &at, state)) {
    }
    return Explorer::Cheaper(state->cost.total(), before);
  }

  bool Exchange(SaturatedGraph& saturated, Extraction* at, SearchState* state) {
    for (Extraction& extraction : saturated.Exchanges(*at)) {
      if (explorer_.Done()) return false;
      std::optional<SearchState> next;
      if (!Try(saturated, *state, extraction, state->cost.total(), &next)) continue;
      *state = *std::move(next);
      *at = std::move(extraction);
      return true;
    }
    return false;
  }

  // Whether the extraction costs less than `cost`; it is then offered as the best graph.
  bool Try(SaturatedGraph& saturated, const SearchState& state, const Extraction& extraction, double cost,
           std::optional<SearchState>* found) {
    const Proposal proposal = saturated.InPlaceOf(state, extraction);
    if (proposal.rewrite.replacement.empty()) return false;
    std::optional<Explorer::Built> built =
        explorer_.Build(state, explorer_.View(state), proposal, Explorer::JustBelow(cost));
    if (!built) return false;
    explorer_.Offer(&built->state);
    *found = std::move(built->state);
    return true;
  }

  Explorer& explorer_;
  const std::vector<DirectedRule> rules_;
};

}  // namespace

void SaturateAndExtract(Explorer& explorer) { EqualitySaturation(explorer).Run(); }

}  // namespace rewright
