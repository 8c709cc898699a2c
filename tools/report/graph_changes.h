// The changes of a graph: the nodes that are in both graphs, and which of the others belong together.
#pragma once

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/ir/graph.h"

namespace rewright {

// One of the two graphs: its inputs and what a run computes, operands before users.
struct ChangedSide {
  std::vector<NodeId> nodes;
  std::vector<int> partner;  // position of the same node on the other side: the same operator and attributes on
                             // operands that are the same or took the place of each other; -1: it is here alone
  std::vector<int> region;   // which change it belongs to; -1: it is on both sides
  absl::flat_hash_map<NodeId, int> position;
};

struct GraphChanges {
  ChangedSide before, after;
  int regions = 0;  // numbered in the order of their first node, of `after` where they have one there
  // By change: the first one that is alike, with the same operators, attributes and types joined in the same way.
  std::vector<int> kind;

  // The change to which the value belongs, of either graph or of one between them: by its node, by its name, or by what
  // it is computed from. -1: none.
  int RegionOf(const Arena& arena, Value value) const;
  // The same by its node or its name alone.
  int DirectRegionOf(const Arena& arena, Value value) const;

  absl::flat_hash_map<std::string, int> named;  // names of values to the change that they belong to
};

// Both graphs are of one arena, as search makes them.
GraphChanges ChangesBetween(const Graph& before, const Graph& after);

}  // namespace rewright
