// Operators as the presets use them, each with the attributes in its name.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "substitutions/generate/enumerate/space.h"

namespace rewright::generate {

Size Var(int variable);
Size Num(int64_t number);

// An operator element by element. The operands of a commutative one are different tensors of one shape.
OperatorChoice Binary(const std::string& op);
OperatorChoice Ordered(const std::string& op);
// The second operand is stretched to the shape of the first one: "add_stretched".
OperatorChoice Stretched(const std::string& op, std::vector<int> ranks = {});
OperatorChoice Unary(const std::string& op);
// x times a scalar.
OperatorChoice Scale();

OperatorChoice Matmul(std::vector<int> ranks = {2, 2});
// A convolution with zeros around the image, which keeps its size if the stride is one.
OperatorChoice Conv(int64_t r, int64_t s, bool relu = false, int64_t stride = 1);
OperatorChoice Pool(const std::string& op, int64_t stride = 1);
// Pads a kernel to this extent.
OperatorChoice Enlarge(int64_t r, int64_t s);
// "reduce_sum1": over one axis, which stays with size one; "reduce_sum1_away": which goes away.
OperatorChoice Reduce(const std::string& op, int64_t axis);
OperatorChoice ReduceAway(const std::string& op, int64_t axis);

OperatorChoice Concat(int rank, int64_t axis, int arity = 2);
OperatorChoice Split(int64_t axis, int parts = 2);
// The first of the parts that concat put together.
OperatorChoice FirstPart(int rank, int64_t axis);
OperatorChoice Transpose(const std::vector<int64_t>& perm);
// `name` tells the shapes apart.
OperatorChoice Reshape(const std::string& name, int rank, std::vector<Size> shape);
OperatorChoice Merge(const std::string& name, std::vector<std::vector<int>> axes, int rank);
OperatorChoice Expand(const std::string& name, int rank, std::vector<Size> shape);
OperatorChoice Pad(const std::string& name, const std::vector<int64_t>& before, const std::vector<int64_t>& after);

OperatorChoice Constant(const std::string& name, OperatorChoice::Constant kind, std::vector<Size> shape,
                        int64_t numerator = 1, int64_t denominator = 1);

// A tensor that is known to be two or three parts along `axis`, and for each part numbers along that axis by which it
// is multiplied, or which are added to it. `others`: the sizes of the other axes by assignment; `rank`: of the numbers.
Space ScaledParts(const std::string& name, int parts, size_t axis, const std::vector<std::string>& axes,
                  const std::vector<std::vector<int64_t>>& others, int rank);

// Graphs over matrices [m, k], weights [k, k] and batches of b matrices.
Space Matrices(const std::string& name, std::vector<InputGroup> inputs, int max_ops, int max_outputs,
               std::vector<OperatorChoice> operators);

// Two outputs, deep, but only for pairs that merge work.
Space Merges(Space space);

}  // namespace rewright::generate
