// A pointwise program over tiles: a few hundred positions at a time go through all instructions, so that values in
// between stay in the first level of cache; those of instructions that are compiled together, in registers.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "backends/cpu/jit.h"
#include "backends/cpu/kernels/strided.h"
#include "backends/cpu/pointwise.h"
#include "backends/layout.h"

namespace rewright::cpu {

constexpr int64_t kTile = 512;  // positions

// Where a run keeps values in between, constants and operands that do not lie in one piece. On the stack of a thread.
struct alignas(64) Tile {
  unsigned char bytes[kTile * 8];
};
using TileSpace = Tile[kMaxProgramTiles];

// Compiling a loop takes as long as running this much of it by tiles a hundred times.
constexpr int64_t kLeastCompiled = int64_t{1} << 18;

class TileProgram {
 public:
  // Positions are those of `out`, which is dense, in the order of memory. `operands[i]` is the layout of
  // program.operands[i]; blocked ones must have the block of every other blocked layout and no padding. `over[r]`: the
  // operand in whose memory result r lies, which is read at the very position; -1: none. From `least_compiled`
  // instructions times positions on, instructions are compiled.
  static absl::StatusOr<TileProgram> Make(const PointwiseProgram& program, const std::vector<Layout>& operands,
                                          const Layout& out, const std::vector<int>& over,
                                          int64_t least_compiled = kLeastCompiled);

  const PointwiseProgram& program() const { return program_; }
  // Loops that were compiled.
  int num_loops() const;

  // What tiles hold throughout: once for every run and thread. Addresses are those of the operands' first elements.
  void Begin(void* const* operands, TileSpace& tiles) const;
  // The results at the positions start..start+count-1, count <= kTile, are written to results[r]..
  void Run(void* const* operands, TileSpace& tiles, int64_t start, int64_t count, void* const* results) const;

 private:
  // Where a value lies while a tile is computed: in a tile, in the memory of an operand, or in that of a result.
  struct Place {
    enum class Kind : uint8_t { kTile, kMemory, kResult } kind = Kind::kTile;
    int number = -1;  // of the tile or the result
  };

  // Instructions [first, last): one after the other, or, where they are long enough to be worth compiling, as one loop.
  struct Step {
    int first = 0, last = 0;
    TileLoop loop = nullptr;
    std::vector<int> values;  // whose addresses it is passed
  };

  // So many neighbouring instructions that can be compiled, or more, become a loop.
  absl::Status Prepare(const std::vector<int>& over, int64_t least_together);
  // `last_use`: by value, the last instruction that reads it.
  void CompileLoops(const std::vector<int>& last_use, int64_t least_together);

  PointwiseProgram program_;
  std::vector<StridedReader> readers_;
  std::vector<Place> places_;
  std::vector<TileFn> functions_;
  std::vector<Step> steps_;
  std::vector<size_t> stored_constants_;  // those that tiles hold
  std::vector<size_t> copied_;            // results that are written behind all instructions
  int tiles_ = 0;
};

}  // namespace rewright::cpu
