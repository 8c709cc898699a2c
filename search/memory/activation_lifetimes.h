// Finds the tensors of a graph that wait in memory, and builds the graph in which they are computed again instead.
//
// A run computes a value, uses it, and, in a step of training, needs it again much later. A *tensor* is the result of a
// node, with all values that are only moved from it (reshapes, transposes, slices: views on most devices). Between two
// uses, in the order in which the device runs the graph, it waits. At some point the most bytes wait: in a step of
// training, the end of the forward pass. Uses behind that point are *late*. A tensor that is not kept over it is
// computed again for its late readers, from tensors that are kept. The new computation is a copy of its expression in
// which every kept operand x stands as after(x, t): equal to x by the law after-is-its-operand, but not shared with the
// early copy, and behind t, which is computed just before.
//
// If there is a second tier of memory, a tensor can be there for the longest time that it waits, and whenever it waits
// long after that. Its readers then read fetch(x, t), which is x by the law fetch-is-its-operand.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "core/device/device.h"
#include "core/ir/graph.h"

namespace rewright {

// Groups, for which it pays that a tensor is away.
inline constexpr int kLongWait = 8;

// The place of a tensor while it waits.
enum class Residency : uint8_t {
  kRecomputed,  // it is computed again
  kResident,    // it stays in memory
  kOffloaded,   // it is in the second tier meanwhile
};
using Residencies = std::vector<Residency>;  // by position in graph.nodes()

class ActivationLifetimes {
 public:
  // By position in graph.nodes().
  struct Tensor {
    int64_t bytes = 0;
    int written = -1;        // position in the run of the group that gives it; -1: it is there before
    std::vector<int> uses;   // positions in the run of its readers, ascending
    int from = -1, to = -1;  // its writer or a use, and the next use: the two that are furthest apart
    int late = -1;           // the first late use; -1: it has none, or is computed late itself
    bool is_moved = false;   // it lies in the tensor of its first operand
    bool may_drop = false;   // it can be computed again: it is no leaf, not known, and no output of the graph
    int root = -1;           // the tensor that it lies in; itself where it is none of another
  };
  // Nodes of the rewritten graph.
  struct Rewritten {
    Graph graph;
    int replaced = 0;                             // operands that stand behind a trigger: uses of the laws
    std::vector<Value> fetched;                   // the tensors that are in the second tier meanwhile
    absl::flat_hash_map<NodeId, NodeId> early;    // by node of the original
    absl::flat_hash_map<NodeId, NodeId> origins;  // by new node, the one that it is a copy of
  };

  // `groups` in the order in which they run; they outlive this.
  ActivationLifetimes(const Graph& graph, const std::vector<Group>& groups);

  const Graph& graph() const { return graph_; }
  const std::vector<Group>& groups() const { return groups_; }
  const std::vector<Tensor>& tensors() const { return tensors_; }
  const Node& node(int tensor) const { return graph_.node(graph_.nodes()[tensor]); }
  // The last group that runs before late uses.
  int end() const { return end_; }
  // Tensors that wait for late uses, in the order in which they are written.
  const std::vector<int>& waiting() const { return waiting_; }
  // The tensors that a run computes among the operands of a tensor, and among the operands of values that are moved to
  // become one.
  std::vector<int> OperandsOf(int tensor) const;

  // All that late readers need and that is not kept is computed again.
  absl::StatusOr<Rewritten> Rewrite(const Residencies& kept) const;

 private:
  class Rewriting;

  void FindRoots();
  void FindUses();
  void FindEnd();

  const Graph graph_;
  const std::vector<Group>& groups_;
  std::vector<int> positions_;  // in the run, by node
  std::vector<Tensor> tensors_;
  std::vector<int> waiting_;
  int end_ = 0;
};

}  // namespace rewright
