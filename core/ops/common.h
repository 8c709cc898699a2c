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
// Checks that every input is allowed and that all have one type.
absl::Status CheckElements(const OpBuilder& b, Elements allowed);
absl::Status CheckRank(const OpBuilder& b, int input, int rank);
absl::Status CheckRankAtLeast(const OpBuilder& b, int input, int rank);
absl::Status CheckLength(const OpBuilder& b, const std::string& attr, int length);
// True if the list names distinct axes of a tensor of that rank.
bool AreAxes(std::vector<int64_t> axes, int rank);
// Returns the first of the errors; OK if there is none.
absl::Status FirstError(std::initializer_list<absl::Status> checks);

// ---------------------------------------------------------------- shapes and positions

// Adds the output of an operator that has one, as the last step of a declaration. Returns OK.
absl::Status OnlyOutput(OpBuilder& b, DType dtype, const std::vector<Index>& shape, const OpBuilder::Body& element,
                        const std::vector<std::string>& names = {});

// Returns the symbols of a list attribute.
std::vector<Index> Symbols(const OpBuilder& b, const std::string& attr);

// Returns the product of the sizes; 1 for none.
Index Product(const std::vector<Index>& sizes);

// Up to so many parts of a tensor are summed and told apart one after the other, as people write it. More are halved
// until so many are left, so that expressions are no deeper than so much and log n.
constexpr size_t kPartsInARow = 16;

// Returns the sums of the first 0, 1, .., n sizes.
std::vector<Index> PrefixSums(const std::vector<Index>& sizes);

// Returns `position` with another index at `axis`.
std::vector<Index> With(std::vector<Index> position, int axis, const Index& index);

// Broadcasts inputs as NumPy does: shapes are aligned at their ends, and an axis of size one is expanded by reading
// index 0 throughout. Adds the requirement that all other sizes be equal.
class Broadcast {
 public:
  // The last `trailing` axes of every input do not broadcast.
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

// The range from which samples draw elements.
struct Domain {
  double low = -2;
  double high = 2;
};

// An axis whose indices are spread out: index k moves to k*step, with gaps between if the step exceeds one.
struct SpreadAxis {
  Index size, step;

  // Extent from the first index to the last. The axis must have an index if the step is not one.
  Index Extent() const { return step.Is(1) ? size : (size - 1) * step + 1; }
  // Returns the index that lies at a position, if there is one.
  Index At(const Index& position) const { return FloorDiv(position, step); }
  Cond Has(const Index& position) const { return InRange(At(position), 0, size) && Mod(position, step) == 0; }
};

// A window sliding along one axis: tap r of window y reads index y*stride - before + r*dilation.
struct Window {
  Index size;  // of the axis
  Index kernel, stride, before, after, dilation;

  // Extent from the first tap to the last.
  Index Extent() const { return dilation.Is(1) ? kernel : (kernel - 1) * dilation + 1; }
  Index At(const Index& y, const Index& tap) const { return y * stride - before + tap * dilation; }
  Cond Inside(const Index& at) const { return InRange(at, 0, size); }
  // Returns the number of windows in the padded axis. In ceil mode the last may reach beyond its end, if it begins
  // before the padding at the end does.
  Index Count(bool ceil_mode = false) const;
};

// Returns the windows over the height (axis 2) and width (axis 3) of input 0 from the attributes `strides` and `pads`
// (top, left, bottom, right), and `dilations` if the operator has them. Requires that the kernel fit.
std::pair<Window, Window> Windows2d(OpBuilder& b, const Index& kernel_height, const Index& kernel_width);

// ---------------------------------------------------------------- samples

// Uniform in [low, high].
int64_t RandomInt(Rng& rng, int64_t low, int64_t high);
bool RandomFlag(Rng& rng);
std::vector<int64_t> RandomInts(Rng& rng, int length, int64_t low, int64_t high);
// Draws an element type: mostly f32 if allowed; in one of eight cases any allowed type.
DType RandomDType(Rng& rng, Elements allowed);
// Draws sizes from 1 to 7, smaller for high ranks.
Shape RandomShape(Rng& rng, int min_rank, int max_rank);
// A tensor of a random shape and allowed type.
TensorType RandomTensor(Rng& rng, Elements allowed, int min_rank, int max_rank);
// Draws `count` shapes that broadcast together, to a shape of at most `max_rank` axes.
std::vector<Shape> RandomBroadcast(Rng& rng, int count, int max_rank);
// Draws some axes of a tensor, in order; at least one if there is one.
std::vector<int64_t> RandomAxes(Rng& rng, int rank);
// Draws a shape that is no larger than `whole`, except along the axis.
Shape RandomElements(Rng& rng, const Shape& whole, int64_t axis);
// Draws a sample whose integers are indices along an axis of the first input, some counted from its end.
OpSample IndexSample(std::vector<TensorType> inputs, int64_t axis);

}  // namespace rewright
