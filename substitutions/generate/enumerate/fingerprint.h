// Fingerprints of graphs, and classes of graphs with equal fingerprints.
//
// A graph's fingerprint is a hash of the set of its outputs' values. Equality up to the names of inputs is found by
// the least fingerprint over all namings of the inputs that the outputs depend on; the graph is kept under that
// naming, so that two graphs of one fingerprint share the names of their inputs.
//
// A part of a graph is a tensor in it that is no output, or one output of several, with all that it is computed from. A
// graph is reducible if something simpler equals one of its parts and would replace no more than the part leaves
// behind. Reducible graphs are left out: the graph with the simpler part is equal, and the part gives a pair of its
// own. `Simplicity` does not depend on names, so that every graph leads to one that is not reducible.
//
// The simplest graph of each class of equal graphs is the representative. The others make pairs with it, except those
// that follow from smaller pairs (redundancy.h). The same graph under other names makes a pair, too, if it is another
// computation of the same values: (x + y) + z and (x + z) + y.
#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "substitutions/generate/enumerate/graph_code.h"
#include "substitutions/generate/enumerate/walk.h"

namespace rewright::generate {

struct Pair {
  SmallGraph first, second;  // equal, under the same names; the first is not larger
};

struct MatchCounts {
  uint64_t graphs = 0;                                                // canonical and connected
  uint64_t reducible = 0;                                             // of those; so are the next two
  uint64_t repeated = 0;                                              // several outputs, and a tensor occurs twice
  uint64_t undefined = 0;                                             // some value does not exist
  uint64_t distinct = 0;                                              // fingerprints of the others
  uint64_t matches = 0;                                               // graphs whose fingerprint another has, too
  uint64_t congruent = 0, separate = 0, instances = 0, constant = 0;  // of those, no pair (redundancy.h)

  MatchCounts& operator+=(const MatchCounts& other);
};

struct Record {
  uint64_t fingerprint = 0;
  PackedGraph graph;
};

// Not thread-safe, but Find and simplicity are while nothing is added.
class Classes {
 public:
  Classes(const Space& space, const GraphCode& code);

  // Graphs of one size, in any order.
  void Add(const Record* records, size_t count);
  // Ends that size. Before the next one begins.
  void Finish();

  // The representative among the finished sizes, or null.
  const PackedGraph* Find(uint64_t fingerprint) const;
  Simplicity SimplicityOf(PackedGraph graph) const;
  // The representative, finished or not. There has to be one.
  PackedGraph Representative(uint64_t fingerprint) const;
  // The others that came since the last Finish.
  const std::vector<Record>& matches() const { return matches_; }
  std::vector<Record> TakeMatches() { return std::exchange(matches_, {}); }
  // Fingerprints of the size that is not finished which no smaller graph has.
  size_t num_new() const { return current_.size(); }
  // Forgets the graphs of the size that is not finished.
  void Drop();
  size_t num_bytes() const;

 private:
  const Space& space_;
  const GraphCode& code_;
  std::vector<int> group_of_;
  absl::flat_hash_map<uint64_t, PackedGraph> finished_, current_;
  std::vector<Record> matches_;
};

// Fingerprints the graphs of a Walk.
class Fingerprinter {
 public:
  Fingerprinter(Terms& terms, const GraphCode& code, const Classes& classes);

  // The graphs without applications: one input, or two.
  void AddSingles(std::vector<Record>* records);
  // Appends the graph unless it is left out.
  void Add(const SmallGraph& graph, const ValueId* values, std::vector<Record>* records);
  // Before Terms::Release.
  void Release(const Terms::Mark& mark);

  MatchCounts TakeCounts();

 private:
  struct LastValue {
    uint64_t hashes[kMaxOutputs], supports[kMaxOutputs];
    int count = 0;
  };
  struct Part {
    Simplicity least;   // of the representative, rank UINT64_MAX where there is none
    uint64_t form = 0;  // of the part itself
  };
  struct Layout;

  void Describe(const SmallGraph& graph, Layout* layout) const;
  void AddNamings(const SmallGraph& graph, uint64_t live, uint64_t known, std::vector<Record>* records);
  bool Rename(const SmallGraph& graph, const Ref* names, ValueId* values, SmallGraph* renamed);
  ValueId RenameValue(ValueId value, const Ref* names);
  bool EvaluateLast(const SmallGraph& graph, bool keep, const ValueId* values, LastValue* last, ValueId* first);
  const Part& PartOf(ValueId value);
  uint64_t FormOf(ValueId value);
  bool IsReducible(const SmallGraph& graph, const Layout& layout, const ValueId* values, int end);

  Terms& terms_;
  const Space& space_;
  const GraphCode& code_;
  const Classes& classes_;
  MatchCounts counts_;
  absl::flat_hash_map<ValueId, Part> parts_;
};

// By application: the applications that it is computed from, itself among them, as bits.
std::array<uint64_t, kMaxOps> ConesOf(const Space& space, const SmallGraph& graph);

// The values of all outputs, in order of OutputsOf; empty where the graph is illegal or a value does not exist.
std::vector<ValueId> EvaluateGraph(Terms& terms, const SmallGraph& graph);

// Hashes of these values, in increasing order: equal for graphs that are equal up to the order of their outputs.
std::vector<uint64_t> HashesOf(Terms& terms, const SmallGraph& graph);

// By output of `first`: the number of the output of `second` with the same value. Empty if some output has none.
std::vector<int> OutputPairs(Terms& terms, const Pair& pair);

}  // namespace rewright::generate
