#include "search/windows/window_cuts.h"

#include <algorithm>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/dominator_tree.hpp>
#include <boost/graph/push_relabel_max_flow.hpp>
#include <cstdlib>
#include <limits>
#include <utility>

#include "search/strategies/match_site.h"

namespace rewright {
namespace {

// The nodes that run, numbered in the order of the graph.
class RunningNodes {
 public:
  explicit RunningNodes(const Graph& graph) : graph_(graph), numbers_(graph.nodes().size(), -1) {
    for (size_t i = 0; i < graph.nodes().size(); ++i) {
      if (!graph.IsRun(graph.node(graph.nodes()[i]))) continue;
      numbers_[i] = static_cast<int>(positions_.size());
      positions_.push_back(static_cast<int>(i));
    }
  }

  int count() const { return static_cast<int>(positions_.size()); }
  int position(int number) const { return positions_[number]; }
  const Node& node(int number) const { return graph_.node(id(number)); }
  // -1: it does not run.
  int NumberOf(NodeId id) const { return numbers_[graph_.index(id)]; }

  // Ascending.
  std::vector<int> Users(int number) const {
    std::vector<int> users;
    for (int user : graph_.users(position(number))) users.push_back(numbers_[user]);
    return users;
  }
  std::vector<int> Readers(Value value) const {
    std::vector<int> readers;
    for (int user : Users(NumberOf(value.node))) {
      const std::vector<Value>& operands = node(user).operands;
      if (std::find(operands.begin(), operands.end(), value) != operands.end()) readers.push_back(user);
    }
    return readers;
  }
  NodeId id(int number) const { return graph_.nodes()[position(number)]; }

 private:
  const Graph& graph_;
  std::vector<int> positions_;
  std::vector<int> numbers_;  // by position
};

// By number: true if every path from the inputs to the outputs passes the node.
std::vector<bool> PassedByAll(const RunningNodes& nodes) {
  using Flow = boost::adjacency_list<boost::vecS, boost::vecS, boost::bidirectionalS>;
  const size_t count = static_cast<size_t>(nodes.count()), source = count, sink = count + 1;
  Flow flow(count + 2);
  std::vector<bool> reads(count, false);
  for (size_t i = 0; i < count; ++i) {
    const std::vector<int> users = nodes.Users(static_cast<int>(i));
    for (int user : users) {
      boost::add_edge(i, static_cast<size_t>(user), flow);
      reads[user] = true;
    }
    if (users.empty()) boost::add_edge(i, sink, flow);
  }
  for (size_t i = 0; i < count; ++i) {
    if (!reads[i]) boost::add_edge(source, i, flow);
  }
  std::vector<size_t> dominator(count + 2, Flow::null_vertex());
  boost::lengauer_tarjan_dominator_tree(
      flow, source, boost::make_iterator_property_map(dominator.begin(), boost::get(boost::vertex_index, flow)));
  std::vector<bool> passed(count, false);
  for (size_t at = dominator[sink]; at < count; at = dominator[at]) passed[at] = true;
  return passed;
}

// A minimum cut between the nodes before `begin` and those from `end` on.
class BandCut {
 public:
  BandCut(const RunningNodes& nodes, int begin, int end, int target)
      : nodes_(nodes), begin_(begin), end_(end), width_(static_cast<size_t>(end - begin)), flow_(width_ + 2) {
    // A tensor that crosses weighs more than the whole band on the wrong side of the target: that breaks ties.
    const long tensor = static_cast<long>(width_) + 1;
    for (int i = begin; i < end; ++i) {
      if (i < target) {
        Connect(Source(), VertexOf(i), 1, 0);
      } else {
        Connect(VertexOf(i), Sink(), 1, 0);
      }
      const int32_t outputs = static_cast<int32_t>(nodes.node(i).outputs.size());
      for (int32_t k = 0; k < outputs; ++k) AddValue({nodes.id(i), k}, tensor);
      for (Value operand : nodes.node(i).operands) {
        const int producer = nodes.NumberOf(operand.node);
        if (producer >= 0 && producer < begin) AddEntering(operand, i, tensor);
      }
    }
  }

  // The numbers of the band's nodes that lie before the cut: those that more could still flow to.
  std::vector<int> Before() {
    const auto residual = boost::get(&Arc::residual, flow_);
    boost::push_relabel_max_flow(flow_, Source(), Sink(), boost::get(&Arc::capacity, flow_), residual,
                                 boost::get(&Arc::reverse, flow_), boost::get(boost::vertex_index, flow_));
    std::vector<bool> reached(boost::num_vertices(flow_), false);
    std::vector<size_t> stack = {Source()};
    reached[Source()] = true;
    while (!stack.empty()) {
      const size_t at = stack.back();
      stack.pop_back();
      for (auto [edge, end] = boost::out_edges(at, flow_); edge != end; ++edge) {
        const size_t to = boost::target(*edge, flow_);
        if (residual[*edge] == 0 || reached[to]) continue;
        reached[to] = true;
        stack.push_back(to);
      }
    }
    std::vector<int> before;
    for (int i = begin_; i < end_; ++i) {
      if (reached[VertexOf(i)]) before.push_back(i);
    }
    return before;
  }

 private:
  using Traits = boost::adjacency_list_traits<boost::vecS, boost::vecS, boost::directedS>;
  using Edge = Traits::edge_descriptor;
  struct Arc {
    long capacity = 0;
    long residual = 0;
    Edge reverse = {};
  };
  using Flow = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, boost::no_property, Arc>;
  static constexpr long kNever = std::numeric_limits<int32_t>::max();  // such an arc is not cut

  size_t Source() const { return width_; }
  size_t Sink() const { return width_ + 1; }
  size_t VertexOf(int number) const { return static_cast<size_t>(number - begin_); }

  void Connect(size_t from, size_t to, long there, long back) {
    const Edge forward = boost::add_edge(from, to, flow_).first, backward = boost::add_edge(to, from, flow_).first;
    flow_[forward].capacity = there;
    flow_[backward].capacity = back;
    flow_[forward].reverse = backward;
    flow_[backward].reverse = forward;
  }

  // A value of the band counts once when somebody reads it behind the cut; a reader before it has the producer there.
  void AddValue(Value value, long tensor) {
    const std::vector<int> readers = nodes_.Readers(value);
    if (readers.empty()) return;
    const size_t producer = VertexOf(nodes_.NumberOf(value.node)), crosses = boost::add_vertex(flow_);
    Connect(producer, crosses, tensor, 0);
    bool behind = false;
    for (int reader : readers) {
      behind |= reader >= end_;
      if (reader >= end_) continue;
      Connect(crosses, VertexOf(reader), kNever, 0);
      Connect(VertexOf(reader), producer, kNever, 0);
    }
    if (behind) Connect(crosses, Sink(), kNever, 0);
  }

  // A value from before the band, at its first reader in it. One that is read behind the band crosses every cut.
  void AddEntering(Value value, int reader, long tensor) {
    const std::vector<int> readers = nodes_.Readers(value);
    const auto first = std::lower_bound(readers.begin(), readers.end(), begin_);
    if (readers.back() >= end_ || *first != reader) return;
    const size_t crosses = boost::add_vertex(flow_);
    Connect(Source(), crosses, tensor, 0);
    for (auto it = first; it != readers.end(); ++it) Connect(crosses, VertexOf(*it), kNever, 0);
  }

  const RunningNodes& nodes_;
  const int begin_, end_;
  const size_t width_;
  Flow flow_;
};

}  // namespace

std::vector<std::vector<int>> CutIntoWindows(const Graph& graph, int size, double shift) {
  const RunningNodes nodes(graph);
  const std::vector<bool> passed = PassedByAll(nodes);
  const int reach = size / 4;
  std::vector<int> window;  // by number: the window of each node before the last band and in it
  int borders = 0;
  for (int target = std::max(reach + 1, static_cast<int>(size * (shift == 0 ? 1 : shift)));
       target + reach < nodes.count();) {
    const int begin = target - reach, end = target + reach;
    int behind = -1;  // the node in the band nearest to the target that all paths pass
    for (int i = begin; i < end; ++i) {
      const bool nearer = behind < 0 || std::abs(i + 1 - target) < std::abs(behind + 1 - target);
      if (passed[i] && nearer) behind = i;
    }
    std::vector<int> before;
    if (behind >= 0) {
      for (int i = begin; i <= behind; ++i) before.push_back(i);
    } else {
      before = BandCut(nodes, begin, end, target).Before();
    }
    window.resize(begin, borders);
    window.resize(end, borders + 1);
    for (int i : before) window[i] = borders;
    ++borders;
    target = begin + static_cast<int>(before.size()) + size;  // the next band begins behind this one
  }
  window.resize(nodes.count(), borders);
  std::vector<std::vector<int>> windows(static_cast<size_t>(borders) + 1);
  for (int i = 0; i < nodes.count(); ++i) {
    windows[window[i]].push_back(nodes.position(i));
  }
  std::erase_if(windows, [](const std::vector<int>& positions) { return positions.empty(); });
  return windows;
}

}  // namespace rewright
