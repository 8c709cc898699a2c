#include "search/windows/window_cuts.h"

#include <algorithm>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/dominator_tree.hpp>
#include <cstdlib>
#include <utility>

#include "search/min_cut.h"
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
      : nodes_(nodes), begin_(begin), end_(end), width_(static_cast<size_t>(end - begin)), cut_(width_) {
    // A tensor that crosses weighs more than the whole band on the wrong side of the target: that breaks ties.
    const int64_t tensor = static_cast<int64_t>(width_) + 1;
    for (int i = begin; i < end; ++i) {
      if (i < target) {
        cut_.Connect(cut_.source(), VertexOf(i), 1);
      } else {
        cut_.Connect(VertexOf(i), cut_.sink(), 1);
      }
      const int32_t outputs = static_cast<int32_t>(nodes.node(i).outputs.size());
      for (int32_t k = 0; k < outputs; ++k) AddValue({nodes.id(i), k}, tensor);
      for (Value operand : nodes.node(i).operands) {
        const int producer = nodes.NumberOf(operand.node);
        if (producer >= 0 && producer < begin) AddEntering(operand, i, tensor);
      }
    }
  }

  // The numbers of the band's nodes that lie before the cut.
  std::vector<int> Before() {
    const std::vector<bool> reached = cut_.SourceSide();
    std::vector<int> before;
    for (int i = begin_; i < end_; ++i) {
      if (reached[VertexOf(i)]) before.push_back(i);
    }
    return before;
  }

 private:
  size_t VertexOf(int number) const { return static_cast<size_t>(number - begin_); }

  // A value of the band counts once when somebody reads it behind the cut; a reader before it has the producer there.
  void AddValue(Value value, int64_t tensor) {
    const std::vector<int> readers = nodes_.Readers(value);
    if (readers.empty()) return;
    const size_t producer = VertexOf(nodes_.NumberOf(value.node)), crosses = cut_.AddVertex();
    cut_.Connect(producer, crosses, tensor);
    bool behind = false;
    for (int reader : readers) {
      behind |= reader >= end_;
      if (reader >= end_) continue;
      cut_.Connect(crosses, VertexOf(reader), MinCut::kNever);
      cut_.Connect(VertexOf(reader), producer, MinCut::kNever);
    }
    if (behind) cut_.Connect(crosses, cut_.sink(), MinCut::kNever);
  }

  // A value from before the band, at its first reader in it. One that is read behind the band crosses every cut.
  void AddEntering(Value value, int reader, int64_t tensor) {
    const std::vector<int> readers = nodes_.Readers(value);
    const auto first = std::lower_bound(readers.begin(), readers.end(), begin_);
    if (readers.back() >= end_ || *first != reader) return;
    const size_t crosses = cut_.AddVertex();
    cut_.Connect(cut_.source(), crosses, tensor);
    for (auto it = first; it != readers.end(); ++it) cut_.Connect(crosses, VertexOf(*it), MinCut::kNever);
  }

  const RunningNodes& nodes_;
  const int begin_, end_;
  const size_t width_;
  MinCut cut_;
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
