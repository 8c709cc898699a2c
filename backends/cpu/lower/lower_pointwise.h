// Pointwise programs over places in memory: groups of their own, and what reductions compute as they read.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "backends/cpu/codegen/pointwise.h"
#include "backends/cpu/lower/lowering.h"

namespace rewright::cpu {

// An operand that a program reads.
struct ProgramOperand {
  Place place;
  bool computed = false;  // beforehand, from constants
  bool full = false;      // of the result's sizes, read at the result's positions
  Value value;            // where it is not computed
};

struct PlannedProgram {
  PointwiseProgram program;
  std::vector<ProgramOperand> operands;
  std::vector<Layout> layouts;     // of the operands
  std::vector<BufferUse> buffers;  // that are read, in their order
  Layout layout;                   // of the results
};

// The program of pointwise nodes, with operands laid out so that tiles of results in `layout` can be computed. `row`:
// as in BuildProgram.
absl::StatusOr<PlannedProgram> PlanProgram(Lowering& lowering, const Group& group, const Layout& layout,
                                           const PointwiseOperand* row = nullptr);

// Makes room for the results of the program, over operands that are not needed any more where that is possible, and
// adds it to `planned.buffers`. Gives for each the operand in whose memory it lies, or -1.
std::vector<int> PlaceResults(Lowering& lowering, const std::vector<Value>& results, PlannedProgram& planned);

// The layout of most operands of a pointwise group that have the sizes `dims` of its results.
Layout LayoutOfMost(const Graph& graph, const Group& group, const Shape& dims,
                    const std::function<std::optional<Layout>(Value)>& of);

}  // namespace rewright::cpu
