// Applies a rule at a match: builds the right side in the arena.
#pragma once

#include "absl/status/statusor.h"
#include "core/ir/graph.h"
#include "core/numerics/ranges.h"
#include "substitutions/match/matcher.h"

namespace rewright {

// Builds the right side in the graph's arena: the replacement of each output (outputs that stay are left out).
// ReplaceValues() makes the new graph. kOutOfRange: a number that the rule computes is too large or too small for its
// type, so that it does not apply here. Any other error means that the rule is wrong.
//
// With `numerics`, which knows the arena's values, the graph is to be run and not just to be reasoned about. Then a
// rule does not apply, either (kOutOfRange), if a new value may overflow or cancels (new_values.h), or if bits are to
// be kept (Node::keeps_bits) and the rule does not keep them. The replacement of values that keep their bits keeps its
// own.
absl::StatusOr<ValueMap> BuildReplacement(const Graph& graph, const Match& match, Numerics* numerics = nullptr);
absl::StatusOr<ValueMap> BuildReplacement(Arena& arena, const Match& match, Numerics* numerics = nullptr);

// True if the rule leaves every bit of the match's outputs as it is: it is exact on the types there.
bool KeepsBits(const CompiledRule& rule, const Arena& arena, const Match& match);

// Builds the replacement and puts it in the place of the outputs.
absl::StatusOr<Graph> ApplyMatch(const Graph& graph, const Match& match, Numerics* numerics = nullptr);

}  // namespace rewright
