// Builds the nodes of one stage: shares equal nodes, keeps index arithmetic in linear form, and decides by intervals
// what can be decided.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "core/interpreter/program.h"

namespace rewright::interp {

// Not movable: the set of nodes refers to the builder.
class StageBuilder {
 public:
  explicit StageBuilder(std::vector<int64_t> extents);
  StageBuilder(const StageBuilder&) = delete;
  StageBuilder& operator=(const StageBuilder&) = delete;

  const Node& node(int id) const { return stage_.nodes[id]; }
  size_t axes() const { return stage_.extents.size(); }
  int64_t extent(int bit) const;
  int Intern(Node node);

  // ---- index variables and forms
  Linear Axis(int axis);  // the constant 0 where the extent is 1
  // The bit of the variable at nesting level `level` (0 innermost) with this extent; disjoint reductions share it.
  // -1 when there are too many variables.
  int BoundBit(int level, int64_t extent);
  int Var(int bit);
  Linear OfNode(int id) const;
  int NodeOf(const Linear& linear);  // an index node with this value
  std::pair<int64_t, int64_t> Interval(const Linear& linear) const;
  Linear Mul(const Linear& a, const Linear& b);
  Linear FloorDiv(const Linear& a, const Linear& b);
  Linear Mod(const Linear& a, const Linear& b);
  Linear Min(const Linear& a, const Linear& b);
  Linear Max(const Linear& a, const Linear& b);
  // The same value with a mod c written as a - c * (a div c): flat offsets of reshapes become linear.
  Linear ExpandMods(const Linear& linear);

  // ---- conditions. `mask` is the condition under which the result matters (-1: always).
  int Bool(bool value);
  bool IsBool(int id, bool value) const;
  int NonNegative(const Linear& linear, int mask);
  int IsZero(const Linear& linear);
  int AndThen(int a, int b);  // either may be -1, true
  int Or(int a, int b);
  int Not(int a);
  // The intervals, or a conjunct of the mask, show linear >= 0.
  bool Proves(int mask, const Linear& linear) const;

  int Const(Rep rep, double value);

  // What was built, reduced to what `root` needs.
  Stage Take(int root) const;

 private:
  struct Hash {
    const StageBuilder* builder;
    size_t operator()(int id) const;
  };
  struct Equal {
    const StageBuilder* builder;
    bool operator()(int a, int b) const;
  };

  void Derive(Node& node) const;
  int Binary(NodeKind kind, const Linear& a, const Linear& b);

  Stage stage_;
  std::vector<int> var_nodes_;  // by bit, -1: not yet made
  absl::flat_hash_map<std::pair<int, int64_t>, int> bound_bits_;
  absl::flat_hash_set<int, Hash, Equal> interned_;
};

// Same node as far as its value goes.
bool SameNode(const Node& a, const Node& b);

}  // namespace rewright::interp
