#include "runtime/parallel/layers.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/index/cost_features.h"
#include "core/ops/ops.h"

namespace rewright {
namespace {

// Rough rates of one core; only the ratios between parts of a graph matter.
constexpr double kOperationsPerSecond = 5e10, kBytesPerSecond = 1e10;

double SecondsOf(const Graph& graph, const Node& node) {
  const CostFeatures features = FeaturesOf(*node.meaning, graph.types(node.operands), node.attrs, node.outputs);
  return features.flops / kOperationsPerSecond + features.bytes / kBytesPerSecond;
}

int64_t BytesOf(const Node& node) {
  int64_t bytes = 0;
  for (const TensorType& type : node.outputs) bytes += type.num_bytes();
  return bytes;
}

class PassFinder {
 public:
  PassFinder(const Graph& graph, const std::vector<Group>& groups, const std::vector<double>& seconds)
      : graph_(graph), groups_(groups), seconds_(seconds) {}

  Passes Run(const std::vector<std::string>& weights) {
    const size_t size = graph_.nodes().size();
    forward_.assign(size, false);
    positions_.assign(size, 0);
    FindForward();
    FindLastUses();
    LimitGradients(weights);
    FindOriginals();
    for (size_t i = 0; i < size; ++i) Place(static_cast<int>(i));
    for (size_t i = size; i-- > 0;) Delay(static_cast<int>(i));
    Measure();
    KeepGroups();
    for (size_t i = 0; i < size; ++i) passes_.nodes[graph_.nodes()[i]] = {forward_[i], positions_[i]};
    return std::move(passes_);
  }

 private:
  static constexpr Value kNone = {-1, 0};

  const Node& node(int i) const { return graph_.node(graph_.nodes()[i]); }
  bool IsRun(int i) const { return graph_.IsRun(node(i)); }

  // Orders the nodes that the loss needs, the longest way to each operand first: so short computations, such as the
  // comparison of labels, stand where they are used.
  void FindForward() {
    const auto size = static_cast<int>(graph_.nodes().size());
    std::vector<int> heights(static_cast<size_t>(size), 0);
    for (int i = 0; i < size; ++i) {
      for (int producer : graph_.producers(i)) heights[i] = std::max(heights[i], heights[producer] + 1);
    }
    struct Visit {
      int node;
      std::vector<int> left;  // producers, the next one last
    };
    std::vector<Visit> visits;
    const auto enter = [&](int i) {
      if (forward_[i]) return;
      forward_[i] = true;
      std::vector<int> left = graph_.producers(i);
      std::stable_sort(left.begin(), left.end(), [&](int a, int b) { return heights[a] < heights[b]; });
      visits.push_back({i, std::move(left)});
    };
    enter(graph_.index(graph_.outputs()[0].value.node));
    while (!visits.empty()) {
      if (!visits.back().left.empty()) {
        const int producer = visits.back().left.back();
        visits.back().left.pop_back();
        enter(producer);
        continue;
      }
      if (IsRun(visits.back().node)) positions_[visits.back().node] = passes_.length++;
      visits.pop_back();
    }
    passes_.length = std::max(passes_.length, 1);
  }

  // Up to where the forward pass needs a node; what it does not need at all, to its end.
  void FindLastUses() {
    const int size = static_cast<int>(graph_.nodes().size());
    last_uses_.assign(static_cast<size_t>(size), passes_.length - 1);
    for (int i = 0; i < size; ++i) {
      if (!forward_[i]) continue;
      int last = IsRun(i) ? positions_[i] : -1;
      for (int user : graph_.users(i)) {
        if (forward_[user] && IsRun(user)) last = std::max(last, positions_[user]);
      }
      if (last >= 0 && !graph_.IsKnown(node(i))) last_uses_[i] = last;
    }
  }

  // A gradient is made where its weight is used.
  void LimitGradients(const std::vector<std::string>& weights) {
    std::map<std::string, int> states;
    for (Value state : graph_.states()) states[graph_.node(state.node).name] = graph_.index(state.node);
    CHECK(weights.size() + 1 == graph_.outputs().size()) << weights.size();
    limits_.assign(graph_.nodes().size(), passes_.length - 1);
    for (size_t k = 0; k < weights.size(); ++k) {
      int& limit = limits_[graph_.index(graph_.outputs()[k + 1].value.node)];
      limit = std::min(limit, last_uses_[states.at(weights[k])]);
    }
  }

  // Finds the original in the forward pass of each node that is computed again behind a trigger.
  void FindOriginals() {
    for (int i = 0; i < static_cast<int>(forward_.size()); ++i) {
      const bool is_there = forward_[i] || !IsRun(i);
      originals_.push_back(is_there                     ? Value{graph_.nodes()[i], 0}
                           : node(i).op == ops::After() ? OriginalOf(node(i).operands[0])
                                                        : CopiedFrom(node(i)));
    }
  }
  // Itself in the forward pass; kNone where it has none.
  Value OriginalOf(Value value) const {
    const Value original = originals_[graph_.index(value.node)];
    return original == kNone ? kNone : Value{original.node, original.output + value.output};
  }
  // The node of the forward pass that is like this one but for triggers.
  Value CopiedFrom(const Node& copy) const {
    std::vector<Value> operands;
    for (Value operand : copy.operands) operands.push_back(OriginalOf(operand));
    if (operands.empty() || std::count(operands.begin(), operands.end(), kNone) > 0) return kNone;
    for (int user : graph_.users(graph_.index(operands[0].node))) {
      const Node& like = node(user);
      if (forward_[user] && like.op == copy.op && like.attrs == copy.attrs && like.operands == operands) {
        return {graph_.nodes()[user], 0};
      }
    }
    return kNone;
  }

  // As if nothing were computed again, but for triggers: what reads a copy is where it would read the original, and the
  // copy is there in time.
  void Place(int i) {
    if (forward_[i]) return;
    const bool is_copy = IsRun(i) && originals_[i] != kNone;
    int position = limits_[i];
    for (int producer : graph_.producers(i)) {
      const Value original = originals_[producer];
      if (!forward_[producer] && IsRun(producer)) position = std::min(position, positions_[producer]);
      if (!is_copy && original != kNone) position = std::min(position, last_uses_[graph_.index(original.node)]);
    }
    positions_[i] = position;
  }

  // Moves a node that reads the forward pass alone, as a mask does, or that is computed again to the place where it is
  // read. Otherwise groups would reach to the reader from the last use of an operand, which is late for one that a
  // residual adds, or from the trigger.
  void Delay(int i) {
    if (forward_[i] || !IsRun(i) || graph_.is_output(Value{graph_.nodes()[i], 0})) return;
    const std::vector<int>& users = graph_.users(i);
    if (users.empty()) return;
    int position = 0;
    for (Value operand : node(i).operands) {
      const int producer = graph_.index(operand.node);
      if (IsRun(producer) && originals_[producer] == kNone) return;
      if (forward_[producer] && IsRun(producer)) position = std::max(position, positions_[producer]);
      if (node(i).op == ops::After()) break;  // the trigger only says when
    }
    for (int user : users) position = std::max(position, positions_[user]);
    positions_[i] = std::min(positions_[i], position);
  }

  void Measure() {
    const auto length = static_cast<size_t>(passes_.length);
    passes_.seconds.assign(length, 0);
    passes_.bytes.assign(length, 0);
    for (int i = 0; i < static_cast<int>(graph_.nodes().size()); ++i) {
      if (!IsRun(i)) continue;
      const int position = positions_[i];
      passes_.seconds[position] += seconds_.empty() ? SecondsOf(graph_, node(i)) : seconds_[i];
      int first = position, last = position;
      for (int user : graph_.users(i)) {
        first = std::min(first, positions_[user]);
        last = std::max(last, positions_[user]);
      }
      for (int at = first; at < last; ++at) passes_.bytes[at] += static_cast<double>(BytesOf(node(i)));
    }
  }

  // Keeps the forward nodes of each group together, and its backward nodes.
  void KeepGroups() {
    passes_.may_cut.assign(static_cast<size_t>(passes_.length), true);
    for (const Group& group : groups_) {
      for (bool forward : {false, true}) {
        int first = passes_.length, last = -1;
        for (NodeId id : group.nodes) {
          const int i = graph_.index(id);
          if (forward_[i] != forward) continue;
          first = std::min(first, positions_[i]);
          last = std::max(last, positions_[i]);
        }
        for (int at = first + 1; at <= last; ++at) passes_.may_cut[at] = false;
      }
    }
  }

  const Graph& graph_;
  const std::vector<Group>& groups_;
  const std::vector<double>& seconds_;
  // By position in nodes().
  std::vector<bool> forward_;
  std::vector<int> positions_, last_uses_, limits_;
  std::vector<Value> originals_;
  Passes passes_;
};

}  // namespace

std::vector<double> GuessedSeconds(const Graph& graph) {
  std::vector<double> seconds;
  for (NodeId id : graph.nodes()) {
    const Node& node = graph.node(id);
    seconds.push_back(graph.IsRun(node) ? SecondsOf(graph, node) : 0);
  }
  return seconds;
}

Passes PassesOf(const Graph& graph, const std::vector<std::string>& weights, const std::vector<Group>& groups,
                const std::vector<double>& seconds) {
  return PassFinder(graph, groups, seconds).Run(weights);
}

std::vector<int> LayersByAmount(const Passes& passes, const std::vector<int64_t>& amounts, int64_t limit) {
  std::vector<int> layers(amounts.size(), 0);
  int layer = 0;
  int64_t sum = 0, left = std::accumulate(amounts.begin(), amounts.end(), int64_t{0});
  for (size_t i = amounts.size(); i-- > 0; left -= amounts[i]) {
    if (sum >= limit && left > 0 && passes.may_cut[i + 1]) {
      ++layer;
      sum = 0;
    }
    sum += amounts[i];
    layers[i] = layer;
  }
  for (int& number : layers) number = layer - number;
  return layers;
}

absl::StatusOr<std::vector<int>> LayersByTime(const Passes& passes, int count) {
  const int length = passes.length;
  const auto most = std::count(passes.may_cut.begin() + 1, passes.may_cut.end(), true) + 1;
  if (count > most) {
    return absl::InvalidArgumentError(
        absl::StrCat("found ", count, " stages, expected at most ", most, ", the forward pass has no more to cut"));
  }
  std::vector<double> before(static_cast<size_t>(length) + 1, 0);
  for (int i = 0; i < length; ++i) before[i + 1] = before[i] + passes.seconds[i];
  const auto handed_on = [&](int behind) {  // to or from what begins there
    return behind == 0 || behind == length ? 0.0 : passes.bytes[behind - 1] / kBytesPerSecond;
  };
  // best[k][i]: of the positions [0, i) in k layers; cuts: where the last of them begins.
  constexpr double kNever = std::numeric_limits<double>::infinity();
  std::vector<std::vector<double>> best(count + 1, std::vector<double>(length + 1, kNever));
  std::vector<std::vector<int>> cuts(count + 1, std::vector<int>(length + 1, 0));
  best[0][0] = 0;
  for (int k = 1; k <= count; ++k) {
    for (int end = k; end <= length; ++end) {
      if (end < length && !passes.may_cut[end]) continue;
      // The earliest of the best places to begin. From the latest on: what is computed takes ever longer, and ends the
      // search where it alone takes longer than the best.
      for (int begin = end - 1; begin >= k - 1; --begin) {
        const double computed = before[end] - before[begin] + handed_on(end);
        if (computed > best[k][end]) break;
        if (!passes.may_cut[begin]) continue;
        const double longest = std::max(best[k - 1][begin], computed + handed_on(begin));
        if (longest == kNever || longest > best[k][end]) continue;
        best[k][end] = longest;
        cuts[k][end] = begin;
      }
    }
  }
  std::vector<int> layers(static_cast<size_t>(length), 0);
  for (int k = count, end = length; k > 0; end = cuts[k][end], --k) {
    for (int i = cuts[k][end]; i < end; ++i) layers[i] = k - 1;
  }
  return layers;
}

namespace {

// Moves what no later subgraph needs of a backward pass to the pass's second subgraph; groups stay together.
void SplitBackward(const Graph& graph, const Layers& cut, const std::vector<Group>& groups, std::vector<int>* numbers) {
  std::vector<int> group_of(graph.nodes().size(), -1);
  for (size_t g = 0; g < groups.size(); ++g) {
    for (NodeId id : groups[g].nodes) {
      if (graph.contains(id)) group_of[graph.index(id)] = static_cast<int>(g);
    }
  }
  std::vector<bool> is_needed(graph.nodes().size(), false), group_is_needed(groups.size(), false);
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = graph.nodes().size(); i-- > 0;) {
      if ((*numbers)[i] < cut.count || is_needed[i]) continue;
      bool needed = group_of[i] >= 0 && group_is_needed[group_of[i]];
      for (int user : graph.users(static_cast<int>(i))) {
        needed = needed || (*numbers)[user] > (*numbers)[i] || is_needed[user];
      }
      if (!needed) continue;
      is_needed[i] = changed = true;
      if (group_of[i] >= 0) group_is_needed[group_of[i]] = true;
    }
  }
  for (size_t i = 0; i < numbers->size(); ++i) {
    if ((*numbers)[i] >= cut.count && !is_needed[i]) ++(*numbers)[i];
  }
}

}  // namespace

Layers CutIntoLayers(const Graph& graph, const Passes& passes, const std::vector<int>& layers, bool split_backward,
                     const std::vector<Group>& groups) {
  Layers cut;
  cut.count = layers.back() + 1;
  cut.split_backward = split_backward;
  std::vector<int> numbers;
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    const auto place = passes.nodes.find(graph.nodes()[i]);
    int subgraph = 0;
    if (place == passes.nodes.end()) {
      for (int producer : graph.producers(static_cast<int>(i))) subgraph = std::max(subgraph, numbers[producer]);
    } else {
      subgraph = cut.SubgraphOf(place->second.forward, layers[place->second.position]);
    }
    numbers.push_back(subgraph);
  }
  if (split_backward) SplitBackward(graph, cut, groups, &numbers);
  cut.subgraphs = SplitGraph(graph, numbers, cut.LastOf(0) + 1, graph.states());
  for (const Output& output : graph.outputs()) {
    const int subgraph = numbers[graph.index(output.value.node)];
    cut.homes.push_back(cut.LayerOf(subgraph));
  }
  return cut;
}

}  // namespace rewright
