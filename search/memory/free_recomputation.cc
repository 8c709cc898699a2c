#include "search/memory/free_recomputation.h"

#include <algorithm>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/push_relabel_max_flow.hpp>

#include "core/ir/pointwise.h"

namespace rewright {
namespace {

using InMemory = ActivationLifetimes::Tensor;

// A minimum cut at the end: a tensor that is kept is cut between the vertex where it is known and the one where late
// readers have it.
class KeptCut {
 public:
  KeptCut(const ActivationLifetimes& waiting, const Residencies& kept)
      : waiting_(waiting), kept_(kept), flow_(2 * waiting.tensors().size() + 2) {
    for (int i = 0; i < static_cast<int>(waiting.tensors().size()); ++i) {
      if (IsHere(i)) Add(i);
    }
  }

  // The tensors that late readers are given otherwise.
  std::vector<int> Dropped() {
    const auto residual = boost::get(&Arc::residual, flow_);
    boost::push_relabel_max_flow(flow_, Source(), Sink(), boost::get(&Arc::capacity, flow_), residual,
                                 boost::get(&Arc::reverse, flow_), boost::get(boost::vertex_index, flow_));
    // The cut next to the sink: as little as can be is computed again.
    std::vector<bool> behind(boost::num_vertices(flow_), false);
    std::vector<size_t> stack = {Sink()};
    behind[Sink()] = true;
    while (!stack.empty()) {
      const size_t at = stack.back();
      stack.pop_back();
      for (auto [edge, end] = boost::out_edges(at, flow_); edge != end; ++edge) {
        const Edge back = flow_[*edge].reverse;
        const size_t from = boost::target(*edge, flow_);
        if (residual[back] == 0 || behind[from]) continue;
        behind[from] = true;
        stack.push_back(from);
      }
    }
    std::vector<int> dropped;
    for (int i = 0; i < static_cast<int>(waiting_.tensors().size()); ++i) {
      if (IsHere(i) && IsFree(i) && behind[Known(i)]) dropped.push_back(i);
    }
    return dropped;
  }

 private:
  using Traits = boost::adjacency_list_traits<boost::vecS, boost::vecS, boost::directedS>;
  using Edge = Traits::edge_descriptor;
  struct Arc {
    int64_t capacity = 0;
    int64_t residual = 0;
    Edge reverse = {};
  };
  using Flow = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, boost::no_property, Arc>;
  static constexpr int64_t kNever = int64_t{1} << 50;  // such an arc is not cut

  const InMemory& tensor(int i) const { return waiting_.tensors()[i]; }
  // Computed before late uses, and not there in any case.
  bool IsHere(int i) const {
    return tensor(i).root == i && tensor(i).may_drop && tensor(i).written >= 0 && tensor(i).written <= waiting_.end();
  }
  bool IsFree(int i) const { return IsPointwise(*waiting_.node(i).meaning); }

  size_t Known(int i) const { return 2 * static_cast<size_t>(i); }
  size_t Late(int i) const { return 2 * static_cast<size_t>(i) + 1; }
  size_t Source() const { return 2 * waiting_.tensors().size(); }
  size_t Sink() const { return Source() + 1; }

  void Connect(size_t from, size_t to, int64_t capacity) {
    const Edge forward = boost::add_edge(from, to, flow_).first, backward = boost::add_edge(to, from, flow_).first;
    flow_[forward].capacity = capacity;
    flow_[forward].reverse = backward;
    flow_[backward].reverse = forward;
  }

  void Add(int i) {
    // The cut may keep only tensors that are kept now: others have no memory of their own.
    Connect(Known(i), Late(i), kept_[i] != Residency::kRecomputed ? std::max<int64_t>(1, tensor(i).bytes) : kNever);
    if (tensor(i).late >= 0) Connect(Late(i), Sink(), kNever);
    if (!IsFree(i)) {
      Connect(Source(), Known(i), kNever);
      return;
    }
    for (int operand : waiting_.OperandsOf(i)) {
      if (IsHere(operand)) Connect(Late(operand), Known(i), kNever);
    }
  }

  const ActivationLifetimes& waiting_;
  const Residencies& kept_;
  Flow flow_;
};

}  // namespace

Residencies KeptWithoutFree(const ActivationLifetimes& waiting, const Residencies& kept) {
  Residencies left = kept;
  for (int i : KeptCut(waiting, kept).Dropped()) left[i] = Residency::kRecomputed;
  return left;
}

}  // namespace rewright
