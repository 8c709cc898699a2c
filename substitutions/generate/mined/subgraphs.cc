#include "substitutions/generate/mined/subgraphs.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "substitutions/generate/mined/choices_of_nodes.h"

namespace rewright::generate {
namespace {

// A node whose value more nodes read than this connects no two of its readers: there would be too many sets.
constexpr size_t kMaxReaders = 8;

class Miner {
 public:
  Miner(const Graph& graph, const MineOptions& options) : graph_(graph), options_(options) {
    for (NodeId id : graph.nodes()) {
      if (!graph.IsRun(graph.node(id))) continue;
      ++nodes_;
      std::optional<NodeChoice> choice = ChoiceOf(graph, graph.node(id));
      if (choice) choices_.emplace(id, *std::move(choice));
    }
    Connect();
  }

  int64_t nodes() const { return nodes_; }
  int64_t left_out() const { return nodes_ - static_cast<int64_t>(choices_.size()); }

  // Calls `visit` for every connected set, nodes in the order of the graph.
  void Run(const std::function<void(const std::string& form, const std::vector<NodeId>& nodes)>& visit) {
    for (const auto& [id, choice] : choices_) {
      std::vector<NodeId> nodes = {id};
      std::set<NodeId> seen = {id};
      Extend(id, &nodes, Later(id, id, &seen), seen, visit);
    }
  }

 private:
  void Connect() {
    std::map<Value, std::vector<NodeId>> readers;
    for (const auto& [id, choice] : choices_) {
      for (Value operand : graph_.node(id).operands) {
        if (choices_.contains(operand.node)) Join(id, operand.node);
        if (!graph_.IsKnown(operand)) readers[operand].push_back(id);
      }
    }
    for (const auto& [value, nodes] : readers) {
      if (nodes.size() > kMaxReaders) continue;
      for (NodeId a : nodes) {
        for (NodeId b : nodes) Join(a, b);
      }
    }
  }
  void Join(NodeId a, NodeId b) {
    if (a == b) return;
    neighbours_[a].insert(b);
    neighbours_[b].insert(a);
  }

  // The neighbours of `node` after `first` that are not `seen` yet; they are from now on.
  std::vector<NodeId> Later(NodeId first, NodeId node, std::set<NodeId>* seen) const {
    std::vector<NodeId> later;
    const auto found = neighbours_.find(node);
    if (found == neighbours_.end()) return later;
    for (NodeId next : found->second) {
      if (next > first && seen->insert(next).second) later.push_back(next);
    }
    return later;
  }

  // Each connected set comes up once, from its first node on (Wernicke's enumeration of subgraphs, 2006).
  void Extend(NodeId first, std::vector<NodeId>* nodes, std::vector<NodeId> candidates, const std::set<NodeId>& seen,
              const std::function<void(const std::string&, const std::vector<NodeId>&)>& visit) {
    if (options_.stop != nullptr && *options_.stop) return;
    std::vector<NodeId> sorted = *nodes;
    std::sort(sorted.begin(), sorted.end());
    visit(FormOf(sorted), sorted);
    if (nodes->size() == static_cast<size_t>(options_.max_nodes)) return;
    while (!candidates.empty()) {
      const NodeId next = candidates.back();
      candidates.pop_back();
      std::set<NodeId> now_seen = seen;
      std::vector<NodeId> more = candidates;
      for (NodeId later : Later(first, next, &now_seen)) more.push_back(later);
      nodes->push_back(next);
      Extend(first, nodes, std::move(more), now_seen, visit);
      nodes->pop_back();
    }
  }

  // The least text of all orders of the nodes, and of the operands of commutative ones; remembered for sets that are
  // the same node by node.
  const std::string& FormOf(const std::vector<NodeId>& nodes) {
    std::vector<size_t> order(nodes.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::string& form = forms_[TextOf(nodes, order, 0)];
    if (!form.empty()) return form;
    do {
      for (uint32_t exchanged = 0; exchanged < uint32_t{1} << nodes.size(); ++exchanged) {
        if (!MayExchange(nodes, exchanged)) continue;
        const std::string text = TextOf(nodes, order, exchanged);
        if (form.empty() || text < form) form = text;
      }
    } while (std::next_permutation(order.begin(), order.end()));
    return form;
  }

  bool MayExchange(const std::vector<NodeId>& nodes, uint32_t exchanged) const {
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (((exchanged >> i) & 1) != 0 && !choices_.at(nodes[i]).choice.commutative) return false;
    }
    return true;
  }

  // The nodes in this order, each with its operands: nodes of the set as numbers, others as names in order of use.
  std::string TextOf(const std::vector<NodeId>& nodes, const std::vector<size_t>& order, uint32_t exchanged) const {
    std::map<Value, std::string> names;
    std::map<NodeId, size_t> numbers;
    for (size_t i = 0; i < order.size(); ++i) numbers[nodes[order[i]]] = i;
    std::vector<std::string> lines;
    for (size_t i : order) {
      const NodeChoice& choice = choices_.at(nodes[i]);
      std::vector<Value> operands = graph_.node(nodes[i]).operands;
      if (choice.swapped != (((exchanged >> i) & 1) != 0)) std::swap(operands[0], operands[1]);
      std::vector<std::string> texts;
      for (Value operand : operands) texts.push_back(OperandText(operand, numbers, &names));
      lines.push_back(absl::StrCat(choice.choice.name, "(", absl::StrJoin(texts, ","), ")"));
    }
    return absl::StrJoin(lines, "; ");
  }

  std::string OperandText(Value operand, const std::map<NodeId, size_t>& numbers,
                          std::map<Value, std::string>* names) const {
    const auto inner = numbers.find(operand.node);
    if (inner != numbers.end()) return absl::StrCat("#", inner->second, ".", operand.output);
    if (const auto number = WholeNumber(graph_, operand)) return absl::StrCat(*number);
    const auto [at, fresh] = names->try_emplace(operand);
    if (fresh) at->second = absl::StrCat(graph_.IsKnown(operand) ? "k" : "x", names->size());
    return at->second;
  }

  const Graph& graph_;
  const MineOptions& options_;
  int64_t nodes_ = 0;
  std::map<NodeId, NodeChoice> choices_;
  std::map<NodeId, std::set<NodeId>> neighbours_;
  std::map<std::string, std::string> forms_;  // by the text in the graph's order
};

}  // namespace

MinedSubgraphs MineSubgraphs(const std::vector<Graph>& graphs, const MineOptions& options) {
  MinedSubgraphs mined;
  std::map<std::string, FrequentSubgraph> by_form;
  for (size_t number = 0; number < graphs.size(); ++number) {
    Miner miner(graphs[number], options);
    mined.nodes += miner.nodes();
    mined.left_out += miner.left_out();
    std::set<std::string> met;
    miner.Run([&](const std::string& form, const std::vector<NodeId>& nodes) {
      FrequentSubgraph& subgraph = by_form[form];
      if (subgraph.count++ == 0) subgraph.form = form, subgraph.graph = number, subgraph.nodes = nodes;
      if (met.insert(form).second) ++subgraph.graphs;
    });
  }
  for (auto& [form, subgraph] : by_form) {
    if (subgraph.count >= options.min_count) mined.subgraphs.push_back(std::move(subgraph));
  }
  const auto order = [](const FrequentSubgraph& a) {
    const auto size = static_cast<int64_t>(a.nodes.size());
    return std::tuple<int64_t, int64_t, const std::string&>(-a.graphs, -a.count * size * size, a.form);
  };
  std::sort(mined.subgraphs.begin(), mined.subgraphs.end(),
            [&](const FrequentSubgraph& a, const FrequentSubgraph& b) { return order(a) < order(b); });
  return mined;
}

}  // namespace rewright::generate
