// LLVM's text of a few instructions of a pointwise program: one loop over positions in which values stay in registers.
//
// Only instructions whose result is determined have a text, by IEEE 754 on f32 (sums, products, quotients, roots,
// rounding, comparisons, choices), on truth values, and on integers of 8 and 16 bits in i32, which wrap, with their
// conversions, to integers from what is held between bounds. None is contracted with another: the loop computes the
// very bits that the tile functions compute one after the other (simd.h), so that it does not matter for any result
// which of the two runs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "backends/cpu/codegen/pointwise.h"
#include "backends/cpu/simd/simd.h"

namespace rewright::cpu {

struct TileText {
  std::string name;  // of the function, made from its text: void name(void* const* addresses, long count)
  std::string text;  // of a module
  // Values by the order of their addresses: those that are read, then those that are written; behind them, the numbers
  // to which the last value is joined. A position is read before anything is written there.
  std::vector<int> reads, writes;
};

bool HasTileText(const PointwiseProgram& program, const PointwiseInstruction& instruction);

// Writes the instructions [first, last), all of which have a text. `uniform` tells by value whether all its elements
// are equal; such values are computed once for all positions. `wanted` tells by value whether it is read after these
// instructions. With `join` the last instruction's value is joined to numbers, as by SimdTable::join_row. `lanes`
// elements are computed together.
TileText TileTextOf(const PointwiseProgram& program, int first, int last, const std::vector<bool>& uniform,
                    const std::vector<bool>& wanted, std::optional<TileJoin> join, int lanes);

}  // namespace rewright::cpu
