// Reductions over some axes, which stay as axes of size one (keepdims) or are removed.
#include <algorithm>
#include <functional>

#include "core/ops/common.h"
#include "core/ops/ops.h"

namespace rewright {
namespace {

using ElementFn = std::function<Scalar(const Scalar&)>;
Scalar Itself(const Scalar& x) { return x; }
Scalar Not(const Scalar& x) { return Call(Fn::kNot, {x}); }

// Gives the result of a reduction of `count` elements from their reduced value.
using ResultFn = std::function<Scalar(const Scalar& reduced, const Index& count)>;
Scalar ThatItself(const Scalar& reduced, const Index&) { return reduced; }

// A reduction of the axes `axes` of input 0.
class Reduction {
 public:
  Reduction(OpBuilder& b, const std::vector<int64_t>& axes) : b_(b), keepdims_(b.Flag("keepdims")) {
    for (int axis = 0; axis < b.rank(0); ++axis) {
      reduced_.push_back(std::find(axes.begin(), axes.end(), axis) != axes.end());
      const Index size = b.size(0, axis);
      if (!reduced_.back()) {
        shape_.push_back(size);
        continue;
      }
      if (keepdims_) shape_.push_back(1);
      ranges_.emplace_back("r" + std::to_string(axis), size);
      sizes_.push_back(size);
    }
  }

  const std::vector<Index>& shape() const { return shape_; }
  // Returns the number of elements that are reduced to one.
  Index count() const { return Product(sizes_); }
  // Reduces all f(x[..]) that belong to the output's position.
  Scalar Over(ReduceKind kind, const std::vector<Index>& position, const ElementFn& f = Itself) const {
    return b_.Reduce(kind, ranges_, [&](const std::vector<Index>& bound) {
      std::vector<Index> at;
      size_t next_bound = 0, next_position = 0;
      for (bool reduced : reduced_) {
        at.push_back(reduced ? bound[next_bound++] : position[next_position]);
        if (!reduced || keepdims_) ++next_position;
      }
      return f(b_.Read(0, at));
    });
  }

 private:
  OpBuilder& b_;
  bool keepdims_;
  std::vector<bool> reduced_;  // by axis of x
  OpBuilder::Ranges ranges_;
  std::vector<Index> shape_, sizes_;
};

AttrSpec Keepdims() { return FlagAttr("keepdims", true, "whether the reduced axes stay, with size one"); }

// out = after(the reduction of before(x))
OpDef Reduce(const std::string& name, const std::string& summary, ReduceKind kind,
             Elements elements = Elements::kNumbers, const ElementFn& before = Itself,
             const ResultFn& after = ThatItself) {
  return OpDef{.name = name,
               .summary = summary,
               .inputs = {"x"},
               .attrs = {AxesAttr("axes", "axes that are reduced"), Keepdims()},
               .meaning = [=](OpBuilder& b) -> absl::Status {
                 RETURN_IF_ERROR(CheckElements(b, elements));
                 const Reduction reduction(b, b.Ints("axes"));
                 return OnlyOutput(b, b.dtype(0), reduction.shape(), [&](const std::vector<Index>& i) {
                   return after(reduction.Over(kind, i, before), reduction.count());
                 });
               },
               .sample =
                   [elements](Rng& rng) {
                     const TensorType x = RandomTensor(rng, elements, 0, 4);
                     return OpSample{
                         .inputs = {x},
                         .attrs = {{"axes", RandomAxes(rng, x.rank())}, {"keepdims", RandomInt(rng, 0, 1)}}};
                   }};
}

}  // namespace

// out[i..] = sum r..: x[i.., r..]
OpDef ReduceSumOp() { return Reduce("reduce_sum", "The sum over some axes.", ReduceKind::kSum); }

// out[i..] = prod r..: x[i.., r..]
OpDef ReduceProdOp() { return Reduce("reduce_prod", "The product over some axes.", ReduceKind::kProd); }

// out[i..] = max r..: x[i.., r..]
OpDef ReduceMaxOp() { return Reduce("reduce_max", "The maximum over some axes.", ReduceKind::kMax); }

// out[i..] = min r..: x[i.., r..]
OpDef ReduceMinOp() { return Reduce("reduce_min", "The minimum over some axes.", ReduceKind::kMin); }

// out[i..] = and r..: x[i.., r..], the product of truth values
OpDef ReduceAndOp() {
  return Reduce("reduce_and", "Whether all elements over some axes are true.", ReduceKind::kProd, Elements::kBools);
}

// out[i..] = or r..: x[i.., r..] = not (and r..: not x[i.., r..])
OpDef ReduceOrOp() {
  return Reduce("reduce_or", "Whether an element over some axes is true.", ReduceKind::kProd, Elements::kBools, Not,
                [](const Scalar& none, const Index&) { return Not(none); });
}

// out[i..] = (sum r..: x[i.., r..]) / the number of r..
OpDef ReduceMeanOp() {
  return Reduce("reduce_mean", "The mean over some axes.", ReduceKind::kSum, Elements::kFloats, Itself,
                [](const Scalar& sum, const Index& count) { return sum / FromIndex(count, sum.dtype()); });
}

// out[i..] = argmax r: x[i.., r, ..], the first of several
static absl::Status ArgmaxMeaning(OpBuilder& b) {
  RETURN_IF_ERROR(CheckElements(b, Elements::kNumbers));
  const Reduction reduction(b, {b.Int("axis")});
  b.Require(reduction.count() >= 1, "the axis must not be empty");
  return OnlyOutput(b, DType::kInt64, reduction.shape(),
                    [&](const std::vector<Index>& i) { return reduction.Over(ReduceKind::kArgMax, i); });
}

static OpSample ArgmaxSample(Rng& rng) {
  const TensorType x = RandomTensor(rng, Elements::kNumbers, 1, 4);
  return OpSample{.inputs = {x},
                  .attrs = {{"axis", RandomInt(rng, 0, x.rank() - 1)}, {"keepdims", RandomInt(rng, 0, 1)}}};
}

OpDef ArgmaxOp() {
  return OpDef{.name = "argmax",
               .summary = "The index of the maximum along an axis; the first where there are several.",
               .inputs = {"x"},
               .attrs = {AxisAttr("axis", Attr(0), "axis along which the maximum is looked for"), Keepdims()},
               .meaning = ArgmaxMeaning,
               .sample = ArgmaxSample};
}

}  // namespace rewright
