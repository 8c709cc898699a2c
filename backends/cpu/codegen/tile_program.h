// A pointwise program over tiles: a few hundred positions at a time go through all instructions, so that values in
// between stay in the first level of cache; those of instructions that are compiled together, in registers.
//
// Tiles end where a line does: along a line every operand lies in one piece or repeats one element, such as a bias for
// each column and a norm for each row of a matrix. So neither is laid out anew, tile by tile.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "backends/common/layout.h"
#include "backends/cpu/codegen/jit.h"
#include "backends/cpu/codegen/pointwise.h"
#include "backends/cpu/kernels/strided.h"
#include "backends/cpu/simd/simd.h"

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
  // instructions times positions on, instructions are compiled. With `join` the program has one result, of f32, which
  // is joined to numbers (SimdTable::join_row) and written nowhere.
  static absl::StatusOr<TileProgram> Make(const PointwiseProgram& program, const std::vector<Layout>& operands,
                                          const Layout& out, const std::vector<int>& over,
                                          std::optional<TileJoin> join = std::nullopt,
                                          int64_t least_compiled = kLeastCompiled);

  // The program as one loop that is called for one line after another.
  struct Lines {
    TileLoop loop = nullptr;
    int64_t line = 0;  // positions
    size_t count = 0;  // of addresses, which advance by these bytes from line to line
    std::array<void*, kMaxProgramLeaves + kMaxProgramTiles + 2> addresses;
    std::array<int64_t, kMaxProgramLeaves + kMaxProgramTiles + 2> steps;

    void RunNext() {
      loop(addresses.data(), line);
      for (size_t k = 0; k < count; ++k) addresses[k] = static_cast<unsigned char*>(addresses[k]) + steps[k];
    }
  };

  const PointwiseProgram& program() const { return program_; }
  // Loops that were compiled.
  int num_loops() const;

  // Fills the tiles that keep their contents: once for every run and thread. Addresses are those of the operands' first
  // elements.
  void Begin(void* const* operands, TileSpace& tiles) const;
  // Where the tile that begins at `start` ends, at `end` at the latest.
  int64_t TileEnd(int64_t start, int64_t end) const;
  // Runs the positions begin..end-1 tile by tile; results_at(start) gives the addresses for the tile that begins there.
  template <typename F>
  void RunTiles(void* const* operands, TileSpace& tiles, int64_t begin, int64_t end, const F& results_at) const {
    for (int64_t start = begin, stop = 0; start < end; start = stop) {
      stop = TileEnd(start, end);
      Run(operands, tiles, start, stop - start, results_at(start));
    }
  }
  // The results at the positions start..start+count-1 of one tile are written to results[r].., or joined to the numbers
  // at results[0].
  void Run(void* const* operands, TileSpace& tiles, int64_t start, int64_t count, void* const* results) const;
  // Sets `lines` to the lines of `line` positions from number `first` on. `results`: the addresses for the first
  // position of all, or the numbers to which all lines are joined. False where not all values of a line are in
  // registers, or some operand does not go on evenly.
  bool StartLines(void* const* operands, void* const* results, int64_t line, int64_t first, Lines& lines) const;

 private:
  // Where a value lies while a tile is computed: in a tile, in the memory of an operand, or in that of a result. An
  // operand that repeats an element lies in its own memory for loops, and in a tile for tile functions.
  struct Place {
    enum class Kind : uint8_t { kTile, kMemory, kResult } kind = Kind::kTile;
    int number = -1;  // of the tile or the result
  };
  // The steps by which an operand is read along a line: with steps of 1, of 0, or otherwise, which a tile is filled
  // for.
  enum class Along : uint8_t { kSteps, kRepeats, kOther };

  // Instructions [first, last): one after the other, or, where they are long enough to be worth compiling, as one loop.
  struct Step {
    int first = 0, last = 0;
    TileLoop loop = nullptr;
    std::vector<int> values;  // whose addresses it is passed
  };

  // `strides` of each operand in a space of those sizes.
  void FindLines(const std::vector<int64_t>& sizes, const std::vector<std::vector<int64_t>>& strides);
  // At least `least_together` neighbouring instructions that can be compiled become a loop.
  absl::Status Prepare(const std::vector<int>& over, int64_t least_together);
  // `last_use`: by value, the last instruction that reads it.
  void CompileLoops(const std::vector<int>& last_use, int64_t least_together);
  // The address of element `start` of an operand.
  unsigned char* ElementAt(void* const* operands, int value, int64_t start) const;

  PointwiseProgram program_;
  std::vector<StridedReader> readers_;
  std::vector<Place> places_;
  std::vector<TileFn> functions_;
  std::vector<Step> steps_;
  std::vector<size_t> stored_constants_;  // those that tiles hold throughout
  std::vector<size_t> stored_operands_;   // of one element, likewise
  std::vector<size_t> copied_;            // results that are written behind all instructions
  std::vector<Along> along_;              // by operand
  std::vector<int> filled_;               // operands that every tile is filled for
  std::optional<TileJoin> join_;
  bool joins_in_loop_ = false;
  bool is_one_loop_ = false;  // all values are in its registers
  int64_t line_ = 0;          // positions of a line
  int64_t tile_ = kTile;      // positions of a tile at most
  int tiles_ = 0;
};

}  // namespace rewright::cpu
