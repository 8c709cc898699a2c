// Block programs: a fold (fold.h) as steps on blocks of elements that fit a cache.
//
// The positions of the result and the loop's variable are the axes. One of the positions, the *rows*, is cut into
// blocks; the loop's axis is cut into blocks that run one after the other and carry numbers; one position at most, the
// *columns*, lies whole in every block; all other positions are *parallel*, an iteration each. Attention, as it prints:
//
//   parallel i0, i1
//   rows i2
//   columns i3
//   loop t
//     v0[i2, t] = sum r0: x0[i0, i1, i2, r0] * x1[i0, i1, t, r0]
//     c0'[i2] = max(c0, max t: v0)
//     v1[i2, t] = v0 - c0'
//     ..
//
// Sums over an inner axis of a product of two reads are products of matrices, and so is a carried sum of a product of
// which one factor is a read along loop and columns. All else is elementwise, on blocks, rows or columns. No operator
// is named for any of it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/fold/fold.h"
#include "core/ir/op.h"

namespace rewright {

struct BlockProgram {
  // The axes of a block along which a value varies.
  static constexpr unsigned kRow = 1, kLoop = 2, kColumn = 4;

  struct Value {
    enum class Kind : uint8_t {
      kNumber,   // `expr`, a number or a size
      kRead,     // `expr`, of an operand: each index is an axis or depends on no axis of a block
      kCall,     // `fn` of `args`
      kSelect,   // args[0] ? args[1] : args[2]
      kProduct,  // the sum over 0 <= `inner` < `extent` of the reads args[0], of rows, and args[1], of the loop
      kOld,      // the carried number `carried` before the block
      kNew,      // and behind it
    };
    Kind kind = Kind::kNumber;
    unsigned axes = 0;
    DType dtype = DType::kFloat32;
    ExprPtr expr;
    Fn fn = Fn::kAdd;
    std::vector<int> args;  // values, which stand before this one
    int inner = -1;
    std::string name;  // of the inner variable
    ExprPtr extent;
    int carried = -1;
  };

  // A carried number advances by a block: `body` is reduced along the loop, as it is or, where there is a `factor`, as
  // the product of matrices with it, and joined to what was carried before, or to `repair`.
  struct Step {
    ReduceKind kind = ReduceKind::kSum;
    unsigned axes = 0;  // of the number: rows, or rows and columns
    int body = -1;
    int factor = -1;  // a read; -1: none
    int repair = -1;  // a value; -1: none
    // Values that are computed for this step, in order: before the reduction, and before the repair; and all that the
    // body depends on, in the order of the block, for a pass that does nothing but this step.
    std::vector<int> values, repair_values, all_values;
  };

  std::vector<Value> values;
  std::vector<Step> steps;          // by carried number
  std::vector<int> element_values;  // computed behind the loop
  int element = -1;

  std::vector<int> parallel;  // position variables, in order
  int row = -1, column = -1;  // position variables; -1: none
  int loop = -1;              // the loop's variable
  ExprPtr extent;             // of the loop
  int num_operands = 0;
  std::map<int, std::string> names;  // of positions and the loop's variable

  std::string ToString(const std::vector<std::string>& operand_names) const;
};

// The program of the fold of output `output` of an application with these sizes: of the positions that may be rows the
// longest is. Error: the reason why there is none.
absl::StatusOr<BlockProgram> MakeBlockProgram(const Meaning& meaning, int output, const Bindings& bindings,
                                              const Fold& fold);

}  // namespace rewright
