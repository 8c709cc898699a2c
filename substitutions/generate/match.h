// Pairs of equal graphs, found by fingerprint.
//
// A graph's fingerprint is a hash of the set of its outputs' values. Equality up to the names of inputs is found by
// the least fingerprint over all namings of the inputs that the outputs depend on; the graph is kept under that
// naming, so that two graphs of one fingerprint share the names of their inputs.
//
// Of each class of equal graphs the first is the representative (graphs come by size), and every other one makes a
// pair with it, except where the pair follows from smaller ones:
//   reducible   a part of the graph equals something smaller, so the pair follows from that and a pair without it;
//   congruent   an output is the same operator of equal operands on both sides;
//   separate    no two outputs share work on either side: each is a pair by itself;
//   constant    no input occurs.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "substitutions/generate/walk.h"

namespace rewright::generate {

struct Pair {
  SmallGraph first, second;  // equal, under the same names; the first is not larger
};

struct MatchCounts {
  uint64_t graphs = 0;      // canonical and connected
  uint64_t repeated = 0;    // left out: a tensor occurs twice
  uint64_t undefined = 0;   // left out: some value does not exist
  uint64_t distinct = 0;    // fingerprints
  uint64_t matches = 0;     // graphs whose fingerprint was there already
  uint64_t reducible = 0, congruent = 0, separate = 0, constant = 0;  // of those, no pair
};

class FingerprintTable {
 public:
  // `max_size`: of the graphs to come. Only fingerprints that are `part` modulo `parts` are kept: the rest belongs to
  // other passes.
  FingerprintTable(Terms& terms, int max_size, uint32_t part = 0, uint32_t parts = 1);

  // A graph of Walk. Sizes must not decrease.
  void Add(const SmallGraph& graph, const ValueId* values);

  const MatchCounts& counts() const { return counts_; }
  const std::vector<Pair>& pairs() const { return pairs_; }
  size_t num_bytes() const;

 private:
  struct Evaluated {
    uint64_t fingerprint = 0;
    bool defined = false;
    std::vector<uint64_t> hashes;  // by output, in the order of OutputsOf
  };
  struct LastValue {
    uint64_t hashes[kMaxOutputs], supports[kMaxOutputs];
    int count = 0;
  };
  // `graph` with inputs renamed; values of all but the last application go to `values`.
  bool Rename(const SmallGraph& graph, const Ref* names, ValueId* values, SmallGraph* renamed);
  uint64_t Rank(uint64_t cone, const SmallGraph& graph) const;
  bool Reducible(const SmallGraph& graph, const ValueId* values, const LastValue& last,
                 const std::vector<Ref>& outputs) const;
  bool Follows(const SmallGraph& a, const SmallGraph& b);
  void AddSingles();

  Terms& terms_;
  const Space& space_;
  const int max_size_;
  const uint32_t part_, parts_;
  MatchCounts counts_;
  absl::flat_hash_map<uint64_t, SmallGraph> graphs_;
  absl::flat_hash_map<uint64_t, uint64_t> best_;  // by hash of a value: the least rank of a graph that computes it
  std::vector<Pair> pairs_;
};

// Whether two outputs of different applications are computed from one that is no constant.
bool SharesWork(const Space& space, const SmallGraph& graph);

// The values of all outputs, in order of OutputsOf; empty where the graph is illegal or a value does not exist.
std::vector<ValueId> EvaluateGraph(Terms& terms, const SmallGraph& graph);

// By output of `first`: the output of `second` with the same value, as numbers. Empty where some has none.
std::vector<int> OutputPairs(Terms& terms, const Pair& pair);

}  // namespace rewright::generate
