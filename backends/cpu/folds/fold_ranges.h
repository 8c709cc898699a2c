// Ranges of the values of a fold's block, found from those of what it reads before it is computed. A block that
// changes no carried number is left out: for example one of which a mask excludes all keys.
#pragma once

#include <cstdint>
#include <limits>

#include "absl/functional/function_ref.h"
#include "core/fold/block_program.h"

namespace rewright::cpu {

// low <= x <= high for all elements x. The range of what is not known, or not a number, holds an element that is none:
// every comparison with it is false.
struct Range {
  static constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  float low = kNan, high = kNan;
  bool IsOnly(float x) const { return low == x && high == x; }
};

// The ranges of a block's leaves: of a number, a read or a product, and of a carried number as it is before the block.
struct LeafRanges {
  absl::FunctionRef<Range(int value)> of_value;
  absl::FunctionRef<Range(int carried)> of_carried;
};

// Returns whether the block leaves every carried number as it is. A false answer says nothing.
bool LeavesAllUnchanged(const BlockProgram& program, const LeafRanges& leaves);

// Returns whether some block may be left out: what a program reads at each position of rows and loop can exclude it.
bool MayLeaveUnchanged(const BlockProgram& program);

}  // namespace rewright::cpu
