#include "search/replay/resize.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "substitutions/match/applier.h"

namespace rewright {
namespace {

// Maps the nodes of one graph to the nodes that correspond in another: the same model at other sizes.
//
// It goes from the outputs down: nodes that correspond and apply one operator have operands that correspond. This ends
// where a step was left out and the graphs differ. It then goes from the leaves up: two applications of one operator to
// corresponding operands correspond, if there is only one in each graph.
class Counterparts {
 public:
  Counterparts(const Graph& from, const Graph& to) : from_(from), to_(to) {
    for (size_t k = 0; k < from.outputs().size() && k < to.outputs().size(); ++k) {
      Pair(from.outputs()[k].value, to.outputs()[k].value);
    }
    PairLeaves();
    if (from.arena() == to.arena()) PairNames();
    for (NodeId id : from.nodes()) {
      if (!nodes_.contains(id)) PairByOperands(id);
    }
  }

  std::optional<NodeId> Of(NodeId id) const {
    const auto found = nodes_.find(id);
    return found == nodes_.end() ? std::nullopt : std::optional<NodeId>(found->second);
  }
  std::optional<Value> Of(Value value) const {
    const std::optional<NodeId> node = Of(value.node);
    return node ? std::optional<Value>(Value{*node, value.output}) : std::nullopt;
  }

 private:
  static bool AreAlike(const Node& a, const Node& b) {
    return a.leaf == b.leaf && a.op == b.op && a.operands.size() == b.operands.size() &&
           a.outputs.size() == b.outputs.size() && (a.leaf == LeafKind::kNone || a.name == b.name);
  }

  void Pair(Value a, Value b) {
    std::vector<std::pair<Value, Value>> open = {{a, b}};
    while (!open.empty()) {
      const auto [x, y] = open.back();
      open.pop_back();
      const Node &from = from_.node(x.node), &to = to_.node(y.node);
      if (x.output != y.output || !AreAlike(from, to) || !nodes_.emplace(x.node, y.node).second) continue;
      for (size_t i = 0; i < from.operands.size(); ++i) open.emplace_back(from.operands[i], to.operands[i]);
    }
  }

  // Inputs and states: by name.
  void PairLeaves() {
    absl::flat_hash_map<std::string, NodeId> named;
    for (NodeId id : to_.nodes()) {
      if (!to_.node(id).name.empty()) named.emplace(to_.node(id).name, id);
    }
    for (NodeId id : from_.nodes()) {
      const auto found = named.find(from_.node(id).name);
      if (found != named.end()) Pair(Value{id, 0}, Value{found->second, 0});
    }
  }

  // Pairs the values of one arena that stand for one tensor of the file, if each graph has one.
  void PairNames() {
    const auto by_name = [](const Graph& graph) {
      absl::flat_hash_map<std::string, Value> values;
      for (NodeId id : graph.nodes()) {
        for (int32_t k = 0; k < static_cast<int32_t>(graph.node(id).outputs.size()); ++k) {
          const std::string& name = graph.arena()->name({id, k});
          if (name.empty()) continue;
          const auto [value, is_new] = values.emplace(name, Value{id, k});
          if (!is_new) value->second.node = -1;
        }
      }
      return values;
    };
    const auto there = by_name(to_);
    for (const auto& [name, value] : by_name(from_)) {
      const auto found = there.find(name);
      if (value.node >= 0 && found != there.end() && found->second.node >= 0) Pair(value, found->second);
    }
  }

  void PairByOperands(NodeId id) {
    const Node& node = from_.node(id);
    std::vector<Value> operands;
    for (Value operand : node.operands) {
      const std::optional<Value> value = Of(operand);
      if (!value) return;
      operands.push_back(*value);
    }
    if (operands.empty()) return;
    std::optional<NodeId> only;
    for (int user : to_.users(to_.index(operands[0].node))) {
      const NodeId other = to_.nodes()[user];
      if (!AreAlike(node, to_.node(other)) || to_.node(other).operands != operands) continue;
      if (only) return;
      only = other;
    }
    if (only) nodes_.emplace(id, *only);
  }

  const Graph& from_;
  const Graph& to_;
  absl::flat_hash_map<NodeId, NodeId> nodes_;
};

// The values that a match binds.
bool BindsAlike(const Match& a, const Match& b) { return a.roots == b.roots && a.nodes == b.nodes; }

// The match of a step at the new sizes: among those that bind corresponding values, the one with the same number. If
// there is none and `on_others` is set, the one with the same number among all matches.
std::optional<Match> MatchOf(const ReplayStep& step, const Graph& before, const Graph& now, const Matcher& matcher,
                             bool on_others) {
  const NodeId place = before.nodes()[step.node];
  const Counterparts counterparts(before, now);
  const std::optional<NodeId> there = counterparts.Of(place);
  if (!there) return std::nullopt;
  std::vector<Match> then, found;
  matcher.MatchAt(before, place, &then);
  matcher.MatchAt(now, *there, &found);
  std::optional<Match> other;
  if (on_others && step.match < std::ssize(found)) other = found[step.match];
  Match wanted = then[step.match];
  const auto number = std::count_if(then.begin(), then.begin() + step.match,
                                    [&](const Match& match) { return BindsAlike(match, wanted); });
  for (std::vector<Value>* values : {&wanted.roots, &wanted.nodes}) {
    for (Value& value : *values) {
      const std::optional<Value> counterpart = counterparts.Of(value);
      if (!counterpart) return other;
      value = *counterpart;
    }
  }
  std::erase_if(found, [&](const Match& match) { return !BindsAlike(match, wanted); });
  if (number >= std::ssize(found)) return other;
  return found[number];
}

}  // namespace

absl::StatusOr<Resized> ReplayResized(const Replay& made, const std::vector<ReplayStep>& steps, const Graph& original,
                                      const RuleIndex& rules, const std::set<int>& without, bool on_others,
                                      Numerics* numerics) {
  Resized resized{original, {}, {}, {}, {}};
  Numerics own;
  if (numerics == nullptr) numerics = &own;
  for (size_t i = 0; i < steps.size(); ++i) {
    const ReplayStep& step = steps[i];
    if (step.replacement.empty() && !without.contains(static_cast<int>(i))) {
      const Matcher* matcher = FindMatcher(rules, step.rule);
      if (matcher == nullptr) return absl::FailedPreconditionError(absl::StrCat("the rules have no rule ", step.rule));
      const std::optional<Match> match =
          MatchOf(step, made.At(static_cast<int>(i)), resized.graph, *matcher, on_others);
      // Numbers that a match computes may be out of range at these sizes.
      absl::StatusOr<ValueMap> replacement = absl::NotFoundError("");
      if (match) replacement = BuildReplacement(resized.graph, *match, numerics);
      absl::StatusOr<Graph> next = absl::NotFoundError("");
      if (replacement.ok()) next = ReplaceValues(resized.graph, *replacement);
      if (next.ok()) {
        resized.graph = *std::move(next);
        resized.taken.push_back(static_cast<int>(i));
        resized.matches.push_back(*match);
        resized.replacements.push_back(*std::move(replacement));
        continue;
      }
    }
    resized.left_out.push_back(static_cast<int>(i));
  }
  return resized;
}

}  // namespace rewright
