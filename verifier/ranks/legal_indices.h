// The values of a model that it reads as indices. Ranks that look up their part of a table by masks compute what the
// model computes at positions of the table, and something else at indices that count from the end.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "core/ir/graph.h"

namespace rewright {

// Elements of a value that tell positions along an axis of another one, the shortest of those that it tells.
struct LegalIndex {
  int64_t size = 0;  // of the axis
  Value indexed;
  int axis = 0;

  // "0 <= ids < 8, the places along axis 0 of table".
  std::string Text(const Graph& model, Value indices) const;
};

std::map<Value, LegalIndex> LegalIndices(const Graph& model);

// indices mod `size`: any element of it is a position, and any position is an element of it. The first result is the
// iota whose shape is that size.
struct LegalTerm {
  NodeId positions;
  Value value;
};
absl::StatusOr<LegalTerm> TermOfLegal(Arena& arena, Value indices, int64_t size);

}  // namespace rewright
