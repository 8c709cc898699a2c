// Builds the nodes of one stage: shares equal nodes, turns index forms into nodes, and decides conditions by ranges.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "core/index/form.h"
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
  index::Form Axis(int axis) { return Var(axis); }
  // Returns the bit of the variable at nesting level `level` (0 innermost) with this extent; disjoint reductions share
  // it. -1 if there are too many variables.
  int BoundBit(int level, int64_t extent);
  index::Form Var(int bit);  // the constant 0 where the extent is 1
  // Returns the bit of a form that is a variable.
  static int BitOf(const index::Form& variable) { return variable.AsAtom()->tag; }
  index::Form OfElement(int id);  // the value of an integer element
  static bool IsFromData(const index::Form& form);
  Linear LinearOf(const index::Form& form);
  int NodeOf(const index::Form& form);  // an index node with this value
  // True if some form did not fit 64 bits: the stage must not be used then.
  bool overflow() const { return overflow_; }

  // ---- conditions. `mask` is the condition under which the result matters (-1: always).
  int Bool(bool value);
  bool IsBool(int id, bool value) const;
  int NonNegative(const index::Form& form, int mask);
  int IsZero(const index::Form& form);
  int AndThen(int a, int b);  // either may be -1, true
  int Or(int a, int b);
  int Not(int a);
  // True if ranges, or a conjunct of the mask, show form >= 0.
  bool Proves(int mask, const index::Form& form) const;

  int Const(Rep rep, double value);

  // Returns the stage that was built, reduced to the nodes that `root` needs.
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
  int AtomNode(const index::Atom& atom);

  Stage stage_;
  index::Space space_;  // tags: bits of variables; kMaxVariables + the node of an element
  absl::flat_hash_map<const index::Atom*, int> atom_nodes_;
  absl::flat_hash_map<int, index::Form> non_negative_;  // forms of the kNonNegative nodes
  bool overflow_ = false;
  absl::flat_hash_map<std::pair<int, int64_t>, int> bound_bits_;
  absl::flat_hash_set<int, Hash, Equal> interned_;
};

// True if the nodes have equal values.
bool SameNode(const Node& a, const Node& b);

}  // namespace rewright::interp
