#include "search/min_cut.h"

#include <boost/graph/push_relabel_max_flow.hpp>

namespace rewright {

void MinCut::Connect(size_t from, size_t to, int64_t capacity) {
  const auto forward = boost::add_edge(from, to, network_).first, backward = boost::add_edge(to, from, network_).first;
  network_[forward].capacity = capacity;
  network_[forward].reverse = backward;
  network_[backward].reverse = forward;
}

// The vertices that more could flow to from the source, or from which more could flow to the sink.
std::vector<bool> MinCut::Side(bool of_sink) {
  boost::push_relabel_max_flow(network_, source(), sink(), boost::get(&Arc::capacity, network_),
                               boost::get(&Arc::residual, network_), boost::get(&Arc::reverse, network_),
                               boost::get(boost::vertex_index, network_));
  std::vector<bool> side(boost::num_vertices(network_), false);
  std::vector<size_t> stack = {of_sink ? sink() : source()};
  side[stack[0]] = true;
  while (!stack.empty()) {
    const size_t at = stack.back();
    stack.pop_back();
    for (auto [edge, end] = boost::out_edges(at, network_); edge != end; ++edge) {
      const size_t next = boost::target(*edge, network_);
      const Arc& arc = network_[of_sink ? network_[*edge].reverse : *edge];
      if (arc.residual == 0 || side[next]) continue;
      side[next] = true;
      stack.push_back(next);
    }
  }
  return side;
}

}  // namespace rewright
