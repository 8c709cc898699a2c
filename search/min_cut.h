// Minimum cuts of networks with whole capacities.
#pragma once

#include <boost/graph/adjacency_list.hpp>
#include <cstdint>
#include <vector>

namespace rewright {

class MinCut {
 public:
  static constexpr int64_t kNever = int64_t{1} << 50;  // an arc of this capacity is not cut

  // The source is vertex `vertices`, the sink the next one.
  explicit MinCut(size_t vertices) : source_(vertices), network_(vertices + 2) {}

  size_t source() const { return source_; }
  size_t sink() const { return source_ + 1; }
  size_t AddVertex() { return boost::add_vertex(network_); }
  void Connect(size_t from, size_t to, int64_t capacity);

  // By vertex, true on this side of the cut that is nearest to the source, or behind the one nearest to the sink.
  std::vector<bool> SourceSide() { return Side(/*of_sink=*/false); }
  std::vector<bool> SinkSide() { return Side(/*of_sink=*/true); }

 private:
  using Traits = boost::adjacency_list_traits<boost::vecS, boost::vecS, boost::directedS>;
  struct Arc {
    int64_t capacity = 0;
    int64_t residual = 0;
    Traits::edge_descriptor reverse = {};
  };

  std::vector<bool> Side(bool of_sink);

  const size_t source_;
  boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, boost::no_property, Arc> network_;
};

}  // namespace rewright
