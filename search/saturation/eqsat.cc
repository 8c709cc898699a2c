#include "search/saturation/eqsat.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "core/base/check.h"
#include "search/saturation/extraction.h"
#include "search/saturation/tiles.h"
#include "search/strategies/descent.h"
#include "search/strategies/explorer.h"
#include "substitutions/egraph/saturate.h"

namespace rewright {
namespace {

// Rounds of one saturation. The next saturation starts from the extracted graph and reaches the rest: above all merges
// of pairs of siblings, which make siblings again.
constexpr int kRounds = 4;
constexpr int kMergeRounds = 2;
constexpr int64_t kMatchesOfRule = 200;
// The last extractions, each cheaper than the one before by the costs of tiles, that the device's cost chooses from.
constexpr size_t kJudged = 6;
// Exchanges of one tile that are tried before a graph counts as a local optimum.
constexpr size_t kExchanges = 24;

// An e-graph of one graph and the graphs that are extracted from it.
class SaturatedGraph {
 public:
  SaturatedGraph(Explorer& explorer, const std::vector<DirectedRule>& rules, const SearchState& state)
      : explorer_(explorer),
        rules_(rules),
        graph_(explorer.View(state)),
        copy_(CopyGraph(graph_)),
        egraph_(copy_.arena()) {}

  // Applies the rules. False when they say nothing.
  bool Saturate() {
    for (const Output& output : copy_.outputs()) roots_.push_back(egraph_.Add(output.value));
    SaturationLimits limits;
    limits.for_runs = true;
    limits.max_rounds = kRounds;
    limits.max_merge_rounds = kMergeRounds;
    limits.max_matches_of_rule = kMatchesOfRule;
    limits.max_nodes = explorer_.options().egraph_nodes + egraph_.num_nodes();
    limits.rewrite_weights = false;
    limits.stop = [this] { return ++asked_ % 64 == 0 && explorer_.Done(); };
    saturation_ = rewright::Saturate(egraph_, rules_, limits);
    explorer_.CountExplored(saturation_.matches);
    if (saturation_.history.empty()) return false;
    for (size_t i = 0; i < copy_.nodes().size(); ++i) original_.try_emplace(egraph_.NodeOf(copy_.nodes()[i]), i);
    tiles_.emplace(egraph_, roots_, explorer_.costs());
    start_ = ExtractOriginal();
    trees_ = CheapestTrees(problem());
    return true;
  }

  // The graph itself.
  const Extraction& start() const { return start_; }

  // Graphs that cost less by the sum of their tiles, the cheapest first.
  std::vector<Extraction> Extract() const {
    std::vector<Extraction> found;
    ExtractCheapest(problem(), {start_.choice}, explorer_.options().extraction_steps,
                    [&](const Extraction& better) { found.push_back(better); });
    std::reverse(found.begin(), found.end());
    if (found.size() > kJudged) found.resize(kJudged);
    return found;
  }

  // Extractions that choose another tile for one class (and for the others that it computes), those first that cost
  // least by the sum of their tiles.
  std::vector<Extraction> Exchanges(const Extraction& extraction) const {
    std::vector<Extraction> found;
    std::vector<int> filled = extraction.choice;
    for (size_t c = 0; c < filled.size(); ++c) {
      if (filled[c] < 0) filled[c] = start_.choice[c] >= 0 ? start_.choice[c] : trees_[c];
    }
    const double limit = extraction.cost * explorer_.options().alpha;
    for (size_t c = 0; c < filled.size(); ++c) {
      if (extraction.choice[c] < 0) continue;
      for (int maker : problem().makers[c]) {
        if (maker == extraction.choice[c]) continue;
        std::vector<int> choice = filled;
        choice[c] = maker;
        for (int made : problem().nodes[maker].makes) {
          if (extraction.choice[made] >= 0) choice[made] = maker;
        }
        Extraction exchanged = Needed(problem(), choice);
        if (exchanged.cost <= limit) found.push_back(std::move(exchanged));
      }
    }
    std::stable_sort(found.begin(), found.end(),
                     [](const Extraction& a, const Extraction& b) { return a.cost < b.cost; });
    if (found.size() > kExchanges) found.resize(kExchanges);
    return found;
  }

  // The extracted graph in place of the one that `state` stands for.
  Proposal InPlaceOf(const SearchState& state, const Extraction& extraction) {
    built_.clear();
    Proposal proposal;
    proposal.rewrite.rule = -1;
    proposal.rewrite.name = Names(extraction);
    std::vector<std::pair<Value, Value>>& replacement = proposal.rewrite.replacement;
    for (size_t k = 0; k < roots_.size(); ++k) {
      const Value from = state.outputs[k].value, to = Build(extraction, problem().roots[k]);
      if (from != to) replacement.emplace_back(from, to);
    }
    std::sort(replacement.begin(), replacement.end());
    replacement.erase(std::unique(replacement.begin(), replacement.end()), replacement.end());
    return proposal;
  }

 private:
  const ExtractionProblem& problem() const { return tiles_->problem(); }

  // The graph that was there, covered by its cheapest tiles.
  Extraction ExtractOriginal() {
    ExtractionProblem before = problem();
    for (size_t n = 0; n < before.nodes.size(); ++n) {
      const Tile& tile = tiles_->tile(static_cast<int>(n));
      const bool all =
          std::all_of(tile.begin(), tile.end(), [&](const auto& part) { return original_.contains(part.second); });
      if (!all) before.nodes[n].cost = std::numeric_limits<double>::infinity();
    }
    return ExtractCheapest(before, {}, explorer_.options().extraction_steps / 8).best;
  }

  // The value of a class, built with all that it needs.
  Value Build(const Extraction& extraction, int root) {
    std::vector<int> stack = {root};
    while (!stack.empty()) {
      const int c = stack.back();
      const int chosen = extraction.choice[c];
      const size_t before = stack.size();
      if (!built_.contains(c)) {
        for (int need : problem().nodes[chosen].needs) {
          if (!built_.contains(need)) stack.push_back(need);
        }
        if (stack.size() > before) continue;
        built_[c] = BuildTile(tiles_->tile(chosen), c);
      }
      stack.pop_back();
    }
    return built_.at(root);
  }

  // Builds a tile. The tiles below are built.
  Value BuildTile(const Tile& tile, int c) {
    absl::flat_hash_map<int, Value> inside;
    NodeId id = -1;
    for (auto part = tile.rbegin(); part != tile.rend(); ++part) {
      // Operands in the order of the graph that was there, if the node was.
      const auto before = original_.find(part->second);
      const bool is_original = before != original_.end();
      const Node& node = copy_.node(is_original ? copy_.nodes()[before->second] : part->second);
      std::vector<Value> operands;
      for (Value operand : node.operands) {
        const int need = tiles_->ClassOf(operand);
        const auto inner = inside.find(need);
        operands.push_back(inner != inside.end() ? inner->second : built_.at(need));
      }
      if (is_original) {
        const NodeId outer = graph_.nodes()[before->second];
        id = node.op == nullptr ? outer : graph_.arena()->AddLike(graph_.node(outer), std::move(operands));
      } else if (node.op == nullptr) {
        id = graph_.arena()->AddConstant(node.data).node;
      } else {
        const absl::StatusOr<NodeId> added = graph_.arena()->Add(*node.op, std::move(operands), node.attrs);
        CHECK(added.ok()) << added.status().ToString();
        id = *added;
      }
      inside[part->first] = Value{id, 0};
    }
    int32_t output = 0;
    while (tiles_->ClassOf(Value{tile[0].second, output}) != c) ++output;
    return Value{id, output};
  }

  // The e-node that the extraction has for each class, those inside tiles among them.
  absl::flat_hash_map<int, NodeId> Chosen(const Extraction& extraction) const {
    absl::flat_hash_map<int, NodeId> chosen;
    for (size_t c = 0; c < extraction.choice.size(); ++c) {
      if (extraction.choice[c] < 0) continue;
      const Tile& tile = tiles_->tile(extraction.choice[c]);
      chosen[static_cast<int>(c)] = tile[0].second;
      for (const auto& [inner, id] : tile) chosen.try_emplace(inner, id);
    }
    return chosen;
  }

  // The rules that made the e-nodes of the extraction which the graph that was there does not have; and, where it only
  // has other e-nodes of that graph, the rules by which classes grew that choose others now.
  std::string Names(const Extraction& extraction) {
    if (makers_.empty()) {
      for (const CarriedOut& made : saturation_.history) {
        for (size_t i = made.first; i < made.end; ++i) {
          makers_.try_emplace(egraph_.NodeOf(egraph_.value(i).node), made.rule);
        }
      }
    }
    const absl::flat_hash_map<int, NodeId> before = Chosen(start_), after = Chosen(extraction);
    std::set<std::string> names;
    for (const auto& [c, id] : after) {
      const auto maker = makers_.find(id);
      if (maker != makers_.end() && !original_.contains(id)) names.insert(RuleName(maker->second));
    }
    for (size_t i = 0; names.empty() && i < saturation_.history.size(); ++i) {
      for (const auto& [left, right] : saturation_.history[i].joined) {
        const int c = tiles_->ClassOf(left);
        const auto now = after.find(c), then = before.find(c);
        if (now == after.end() || (then != before.end() && then->second == now->second)) continue;
        names.insert(RuleName(saturation_.history[i].rule));
      }
    }
    return absl::StrJoin(names, kRuleSeparator);
  }

  const std::string& RuleName(int rule) const { return rules_[rule].matcher->rule().name(); }

  Explorer& explorer_;
  const std::vector<DirectedRule>& rules_;
  const Graph graph_;
  const Graph copy_;  // in an arena of its own: most nodes that the rules make are thrown away
  EGraph egraph_;
  std::vector<Value> roots_;
  SaturationResult saturation_;
  std::optional<TileProblem> tiles_;
  absl::flat_hash_map<NodeId, size_t> original_;  // by e-node: the position of that node in the graph
  absl::flat_hash_map<NodeId, int> makers_;       // by e-node: the first rule that made it
  Extraction start_;
  std::vector<int> trees_;
  absl::flat_hash_map<int, Value> built_;  // of one extraction, by class
  int64_t asked_ = 0;
};

class EqualitySaturation {
 public:
  explicit EqualitySaturation(Explorer& explorer) : explorer_(explorer), rules_(explorer.Rules()) {}

  void Run() {
    Graph graph;
    SearchState state = DescendFromStarts(explorer_, &graph);
    while (!explorer_.Done() && Improve(&state)) {
      graph = explorer_.View(state);
      Descend(explorer_, &state, &graph);
    }
  }

 private:
  // False when saturation leads to nothing cheaper.
  bool Improve(SearchState* state) {
    SaturatedGraph saturated(explorer_, rules_, *state);
    if (!saturated.Saturate()) return false;
    const double before = state->cost.total();
    Extraction at = saturated.start();
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

  // Offers the extraction as the best graph if it costs less than `cost`; returns true then.
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
