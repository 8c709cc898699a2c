// Pointwise groups: a chain or DAG of pointwise nodes as one straight-line program over tiles.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "backends/common/node_access.h"
#include "backends/cpu/simd/simd.h"
#include "core/device/device.h"
#include "core/ir/graph.h"

namespace rewright::cpu {

// A value that the program reads from memory.
struct PointwiseOperand {
  Value value;
  std::vector<int> axes;  // as in PointwiseRead
  DType dtype = DType::kFloat32;
};

struct PointwiseConstant {
  DType dtype = DType::kFloat32;
  double real = 0;
  int64_t integer = 0;  // of integer types
};

// result = op(a, b, c) on elements of type `type`; a cast (kTileCopy with to != type) converts. Elements of a narrow
// type are widened before all else and narrowed where a result is stored: 16-bit floats of a chain are rounded once.
struct PointwiseInstruction {
  TileOp op = kTileCopy;
  DType type = DType::kFloat32;
  DType to = DType::kFloat32;  // of the result
  int a = -1, b = -1, c = -1;  // values: operands, then constants, then results of instructions
};

struct PointwiseProgram {
  std::vector<PointwiseOperand> operands;
  std::vector<PointwiseConstant> constants;
  std::vector<PointwiseInstruction> instructions;
  std::vector<int> results;  // values

  int num_values() const { return static_cast<int>(operands.size() + constants.size() + instructions.size()); }
  DType TypeOf(int value) const;
};

// Most values read and constants that one program may have, and tiles that it may need: they lie on the kernel's stack.
constexpr int kMaxProgramLeaves = 40;
constexpr int kMaxProgramTiles = 64;

// A part of a program that depends on constant operands of one shape alone, as a program of its own over positions of
// that shape. It takes the place of operand `operand` in what remains.
struct HoistedProgram {
  PointwiseProgram program;
  int operand = -1;
};

// Splits off what depends on constant operands alone (`is_constant`, by operand), so that it can be computed once: the
// 1 / sqrt(variance + epsilon) of a batch norm, say. Operands of the programs split off keep their values; their axes
// are those of the operand itself.
std::vector<HoistedProgram> HoistConstants(const std::function<bool(Value)>& is_constant, PointwiseProgram* program);

// Reads and constants of the node, for the limit above.
int CountProgramLeaves(const Meaning& meaning);

// The program of the group, whose results are those of the program. `single_constant` gives the tensor of a weight-only
// value with one element, or null. Reads inside the group must be identity reads.
//
// With `row` a value that has one element for each row of the results is read at these axes of theirs, and nodes of the
// group that depend on it alone may have an element a row as well: pointwise ones, and reshapes between them.
absl::StatusOr<PointwiseProgram> BuildProgram(const Graph& graph, const Group& group,
                                              const std::function<const Tensor*(Value)>& single_constant,
                                              const PointwiseOperand* row = nullptr);

}  // namespace rewright::cpu
