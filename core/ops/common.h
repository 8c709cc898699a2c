// Helpers that several declarations share: checks of element types and ranks, broadcasting, windows, and the random
// numbers of samples.
#pragma once

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "core/base/status_macros.h"
#include "core/ir/attr_specs.h"
#include "core/ir/op.h"

namespace rewright {

// ---------------------------------------------------------------- checks

// The element types that an operator takes.
enum class Elements : uint8_t { kAny, kNumbers, kFloats, kIntegers, kBools };

absl::Status CheckElements(const OpBuilder& b, int input, Elements allowed);
// Every input, and all of one type.
absl::Status CheckElements(const OpBuilder& b, Elements allowed);
absl::Status CheckRank(const OpBuilder& b, int input, int rank);
absl::Status CheckRankAtLeast(const OpBuilder& b, int input, int rank);
absl::Status CheckLength(const OpBuilder& b, const std::string& attr, int length);
// True if the list names distinct axes of a tensor of that rank.
bool AreAxes(std::vector<int64_t> axes, int rank);
// Returns the first of the errors; OK if there is none.
absl::Status FirstError(std::initializer_list<absl::Status> checks);

// ---------------------------------------------------------------- shapes and positions

// Adds the output of an operator that has one: what a declaration ends with. OK.
absl::Status OnlyOutput(OpBuilder& b, DType dtype, const std::vector<Index>& shape, const OpBuilder::Body& element,
                        const std::vector<std::string>& names = {});

// The list of symbols of an attribute.
std::vector<Index> Symbols(const OpBuilder& b, const std::string& attr);

// The product of the sizes; 1 of none.
Index Product(const std::vector<Index>& sizes);

// `position` with another index at `axis`.
std::vector<Index> With(std::vector<Index> position, int axis, const Index& index);

// How inputs broadcast together in the manner of NumPy: shapes are aligned at their ends, and an axis of size one is
// stretched by reading index 0 throughout. Adds the requirement that all other sizes be equal.
class Broadcast {
 public:
  // The last `trailing` axes of every input take no part.
  Broadcast(OpBuilder& b, std::vector<int> inputs, int trailing = 0);

  // The common shape.
  const std::vector<Index>& shape() const { return shape_; }
  // Returns the position at which `input` is read (without its trailing axes) for the output position, of which the
  // first shape().size() indices count.
  std::vector<Index> At(int input, const std::vector<Index>& position) const;

 private:
  const OpBuilder& b_;
  int trailing_;
  std::vector<Index> shape_;
};

// An axis whose indices are spread out: index k comes to lie at k*step, with gaps between where the step exceeds one.
struct SpreadAxis {
  Index size, step;

  // From the first index to the last. There is one at least, where the step is not one.
  Index Extent() const { return step.Is(1) ? size : (size - 1) * step + 1; }
  // The index that lies at a position, where there is one.
  Index At(const Index& position) const { return FloorDiv(position, step); }
  Cond Has(const Index& position) const { return InRange(At(position), 0, size) && Mod(position, step) == 0; }
};

// A window sliding along one axis: tap r of window y reads index y*stride - before + r*dilation.
struct Window {
  Index size;  // of the axis
  Index kernel, stride, before, after, dilation;

  // From the first tap to the last.
  Index Extent() const { return dilation.Is(1) ? kernel : (kernel - 1) * dilation + 1; }
  Index At(const Index& y, const Index& tap) const { return y * stride - before + tap * dilation; }
  Cond Inside(const Index& at) const { return InRange(at, 0, size); }
  // The number of windows that lie in the padded axis. In ceil mode the last may reach beyond its end, if it begins
  // before the padding at the end does.
  Index Count(bool ceil_mode = false) const;
};

// The windows over the height (axis 2) and width (axis 3) of input 0 from the attributes `strides` and `pads` (top,
// left, bottom, right), and `dilations` where the operator has them. Requires that the kernel fit.
std::pair<Window, Window> Windows2d(OpBuilder& b, const Index& kernel_height, const Index& kernel_width);

// ---------------------------------------------------------------- samples

// Uniform in [low, high].
int64_t RandomInt(Rng& rng, int64_t low, int64_t high);
bool RandomFlag(Rng& rng);
std::vector<int64_t> RandomInts(Rng& rng, int length, int64_t low, int64_t high);
// Mostly f32 where that is allowed; in one of eight cases any type.
DType RandomDType(Rng& rng, Elements allowed);
// Sizes 1..7, smaller where the rank is high.
Shape RandomShape(Rng& rng, int min_rank, int max_rank);
// A tensor of a random shape and allowed type.
TensorType RandomTensor(Rng& rng, Elements allowed, int min_rank, int max_rank);
// `count` shapes that broadcast together, to a shape of at most `max_rank` axes.
std::vector<Shape> RandomBroadcast(Rng& rng, int count, int max_rank);
// Some axes of a tensor, in order; at least one when there is one.
std::vector<int64_t> RandomAxes(Rng& rng, int rank);
// No larger than `whole`, but along the axis.
Shape RandomElements(Rng& rng, const Shape& whole, int64_t axis);
// Integers are indices along an axis of the first input, some counted from its end.
OpSample IndexSample(std::vector<TensorType> inputs, int64_t axis);

}  // namespace rewright
