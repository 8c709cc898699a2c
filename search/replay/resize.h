// A path of rewrites carried over to the same model at other sizes of its symbolic dimensions.
//
// A rule holds for all sizes that its conditions admit, so nothing is searched again: every step is looked for where it
// stood, and the matcher checks its conditions and its domain at the new sizes. A step that does not match there is
// left out; later ones that build on it do not find their place and are left out with it. The result is rewritten by
// proved rules alone, whatever was left out. A step that is a replacement in text and no match (search/replay/replay.h)
// holds its sizes as numbers, and is left out at all other sizes.
#pragma once

#include <set>
#include <vector>

#include "absl/status/statusor.h"
#include "core/numerics/ranges.h"
#include "search/replay/replay.h"

namespace rewright {

struct Resized {
  Graph graph;
  std::vector<int> left_out;  // steps, from 0, ascending
  std::vector<int> taken;     // the others
  // The matches and replacements of the steps that were taken.
  std::vector<Match> matches;
  std::vector<ValueMap> replacements;
};

// `made` is `steps` replayed on the model at the sizes that it was optimized at, `original` the model at others, in an
// arena of its own. Steps in `without` are left out. `on_others`: where a step stood, but not on the values that it
// stood on, which a step that was left out would have made, another match of its rule is taken. `numerics`: facts of
// the arena of `original` that are known from other replays; null: none are. Errors: a rule that is none of `rules`.
absl::StatusOr<Resized> ReplayResized(const Replay& made, const std::vector<ReplayStep>& steps, const Graph& original,
                                      const RuleIndex& rules, const std::set<int>& without = {}, bool on_others = false,
                                      Numerics* numerics = nullptr);

}  // namespace rewright
