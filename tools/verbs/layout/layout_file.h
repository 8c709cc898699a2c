// A file of a layout, F.layout: how ranks share a step and along which axes they cut tensors. A person can read and
// edit it, and pass it back.
//
//   layout dp=2,tp=2,micro=8   # of `train`; left out for `shard`
//   memory 80000000            # bytes of a rank, for which values are computed again; left out where all are kept
//   layer0.weight:1            # placements (docs/sharding.md)
//   layer1.weight:0
//
// Empty lines, and what follows a # sign, have no meaning.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/training/parallel/layout.h"
#include "substitutions/sharding/shard.h"

namespace rewright {

struct LayoutFile {
  std::string layout;        // ParseLayout
  int64_t memory_bytes = 0;  // of a rank; 0: nothing is computed again for it
  std::vector<sharding::Placement> placements;
};

// The placements of axes, and the reverse.
std::vector<sharding::Placement> PlacementsOf(const StateAxes& axes);
StateAxes AxesOf(const std::vector<sharding::Placement>& placements);

// "F.layout"; else the text of a layout, or auto.
bool IsLayoutFile(const std::string& layout);

// Errors name `file` and the line.
absl::StatusOr<LayoutFile> ParseLayoutFile(const std::string& text, const std::string& file);
// `remarks` are lines at the head.
std::string PrintLayoutFile(const LayoutFile& layout, const std::vector<std::string>& remarks);

}  // namespace rewright
