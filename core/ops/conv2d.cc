#include "core/ops/common.h"
#include "core/ops/ops.h"

namespace rewright {

// x[n, c, h, w], w[o, c/g, r, s], strides (sh, sw), pads (top, left, bottom, right), dilations (dh, dw), groups g:
//   out[n, o, y, z] = sum d, r, s: x[n, (o div (O/g)) * (C/g) + d, y*sh - top + r*dh, z*sw - left + s*dw]
//                                  * w[o, d, r, s]
// A read outside the height or width of x is 0.
static absl::Status Conv2dMeaning(OpBuilder& b) {
  RETURN_IF_ERROR(
      FirstError({CheckElements(b, Elements::kNumbers), CheckRank(b, 0, 4), CheckRank(b, 1, 4),
                  CheckLength(b, "strides", 2), CheckLength(b, "pads", 4), CheckLength(b, "dilations", 2)}));
  const Index batch = b.size(0, 0);
  const Index in_channels = b.size(0, 1);
  const Index out_channels = b.size(1, 0);
  const Index group_in = b.size(1, 1);
  const Index groups = b.Sym("groups");
  const Index group_out = FloorDiv(out_channels, groups);
  b.Require(in_channels == groups * group_in, "the channels of x must be groups times the channels of w");
  b.Require(out_channels == groups * group_out, "the output channels must be a multiple of groups");
  const auto [rows, columns] = Windows2d(b, b.size(1, 2), b.size(1, 3));

  return OnlyOutput(
      b, b.dtype(0), {batch, out_channels, rows.Count(), columns.Count()},
      [&](const std::vector<Index>& i) {
        const Index n = i[0], o = i[1], y = i[2], z = i[3];
        return b.Sum({{"d", group_in}, {"r", rows.kernel}, {"s", columns.kernel}}, [&](const std::vector<Index>& k) {
          const Index d = k[0], r = k[1], s = k[2];
          const Index c = FloorDiv(o, group_out) * group_in + d;
          const Index h = rows.At(y, r);
          const Index w = columns.At(z, s);
          const Scalar padded = Select(rows.Inside(h) && columns.Inside(w), b.Read(0, {n, c, h, w}), 0.0);
          return padded * b.Read(1, {o, d, r, s});
        });
      },
      {"n", "o", "y", "z"});
}

static OpSample Conv2dSample(Rng& rng) {
  const DType dtype = RandomDType(rng, Elements::kNumbers);
  const int64_t groups = RandomInt(rng, 1, 3);
  const int64_t group_in = RandomInt(rng, 1, 3);
  const int64_t out = groups * RandomInt(rng, 1, 3);
  return OpSample{
      .inputs = {{dtype, {RandomInt(rng, 1, 2), groups * group_in, RandomInt(rng, 5, 7), RandomInt(rng, 5, 7)}},
                 {dtype, {out, group_in, RandomInt(rng, 1, 3), RandomInt(rng, 1, 3)}}},
      .attrs = {{"strides", RandomInts(rng, 2, 1, 3)},
                {"pads", RandomInts(rng, 4, 0, 2)},
                {"dilations", RandomInts(rng, 2, 1, 2)},
                {"groups", groups}}};
}

OpDef Conv2dOp() {
  return OpDef{
      .name = "conv2d",
      .summary = "The two-dimensional convolution (cross-correlation) of images with kernels, in groups of channels.",
      .inputs = {"x", "w"},
      .attrs = {SymbolicInts("strides", List({1, 1}), 1, "steps of the window down and right"),
                SymbolicInts("pads", List({0, 0, 0, 0}), 0, "zeros added at the top, left, bottom and right"),
                SymbolicInts("dilations", List({1, 1}), 1, "distances of the kernel's taps down and right"),
                SymbolicInt("groups", Attr(1), 1, "groups of channels; each output channel sees one")},
      .meaning = Conv2dMeaning,
      .sample = Conv2dSample};
}

}  // namespace rewright
