#include "core/ops/common.h"
#include "core/ops/ops.h"

namespace rewright {

// x[n, c, i..], w[o, c/g, k..] with any number of spatial axes; strides s, pads (p.. before, then after each axis; cut
// off where negative), dilations e of x and d of w, groups g. With h.. = (y..*s - p + r..*d) / e:
//   out[n, o, y..] = sum c, r..: x[n, (o div (O/g)) * (C/g) + c, h..] * w[o, c, r..]
// A term counts where every h is an index of x.
static absl::Status ConvolutionMeaning(OpBuilder& b) {
  const int axes = b.rank(0) - 2;
  RETURN_IF_ERROR(
      FirstError({CheckElements(b, Elements::kNumbers), CheckRankAtLeast(b, 0, 3), CheckRank(b, 1, b.rank(0))}));
  for (const char* list : {"strides", "lhs_dilations", "rhs_dilations"}) {
    if (b.Length(list) == 0) continue;
    RETURN_IF_ERROR(CheckLength(b, list, axes));
  }
  if (b.Length("pads") > 0) {
    RETURN_IF_ERROR(CheckLength(b, "pads", 2 * axes));
  }
  const auto entry = [&](const char* list, int k, int otherwise) {
    return b.Length(list) > 0 ? b.Sym(list, k) : Index(otherwise);
  };
  const Index groups = b.Sym("groups");
  const Index group_in = b.size(1, 1);
  const Index group_out = FloorDiv(b.size(1, 0), groups);
  b.Require(b.size(0, 1) == groups * group_in, "the channels of x must be groups times the channels of w");
  b.Require(b.size(1, 0) == groups * group_out, "the output channels must be a multiple of groups");

  std::vector<SpreadAxis> spreads;
  std::vector<Window> windows;  // over the spread axes
  std::vector<Index> shape = {b.size(0, 0), b.size(1, 0)};
  OpBuilder::Ranges ranges = {{"c", group_in}};
  for (int k = 0; k < axes; ++k) {
    const Index size = b.size(0, 2 + k);
    spreads.push_back({size, entry("lhs_dilations", k, 1)});
    if (b.Length("lhs_dilations") > 0) b.Require(size >= 1, "x must not be empty where lhs_dilations are given");
    windows.push_back({.size = spreads.back().Extent(),
                       .kernel = b.size(1, 2 + k),
                       .stride = entry("strides", k, 1),
                       .before = entry("pads", k, 0),
                       .after = entry("pads", axes + k, 0),
                       .dilation = entry("rhs_dilations", k, 1)});
    const Window& window = windows.back();
    b.Require(window.Extent() <= window.size + window.before + window.after, "the kernel must fit the padded axis");
    shape.push_back(window.Count());
    ranges.emplace_back("r" + std::to_string(k), window.kernel);
  }

  return OnlyOutput(b, b.dtype(0), shape, [&](const std::vector<Index>& i) {
    return b.Sum(ranges, [&](const std::vector<Index>& bound) {
      std::vector<Index> at = {i[0], FloorDiv(i[1], group_out) * group_in + bound[0]};
      std::vector<Index> tap = {i[1], bound[0]};
      Cond inside = true;
      for (int k = 0; k < axes; ++k) {
        const Index position = windows[k].At(i[2 + k], bound[1 + k]);
        at.push_back(spreads[k].At(position));
        inside = inside && spreads[k].Has(position);
        tap.push_back(bound[1 + k]);
      }
      return Select(inside, b.Read(0, at), 0.0) * b.Read(1, tap);
    });
  });
}

static OpSample ConvolutionSample(Rng& rng) {
  const DType dtype = RandomDType(rng, Elements::kNumbers);
  const int axes = static_cast<int>(RandomInt(rng, 1, 3));
  const int64_t groups = RandomInt(rng, 1, 2);
  const int64_t group_in = RandomInt(rng, 1, 2);
  TensorType x{dtype, {RandomInt(rng, 1, 2), groups * group_in}};
  TensorType w{dtype, {groups * RandomInt(rng, 1, 2), group_in}};
  for (int k = 0; k < axes; ++k) {
    x.shape.push_back(RandomInt(rng, 4, 5));
    w.shape.push_back(RandomInt(rng, 1, 2));
  }
  OpSample sample{.inputs = {x, w}, .attrs = {{"groups", groups}}};
  if (RandomFlag(rng)) sample.attrs["strides"] = RandomInts(rng, axes, 1, 3);
  if (RandomFlag(rng)) sample.attrs["pads"] = RandomInts(rng, 2 * axes, 0, 2);
  if (RandomFlag(rng)) sample.attrs["lhs_dilations"] = RandomInts(rng, axes, 1, 3);
  if (RandomFlag(rng)) sample.attrs["rhs_dilations"] = RandomInts(rng, axes, 1, 3);
  // Cuts only an axis that is long enough.
  if (const auto pads = sample.attrs.find("pads"); pads != sample.attrs.end() && RandomFlag(rng)) {
    if (!sample.attrs.contains("rhs_dilations")) std::get<std::vector<int64_t>>(pads->second)[0] = -1;
  }
  return sample;
}

OpDef ConvolutionOp() {
  return OpDef{
      .name = "convolution",
      .summary =
          "The convolution (cross-correlation) over any number of axes, in groups of channels; both operands "
          "may be dilated.",
      .inputs = {"x", "w"},
      .attrs = {SymbolicInts("strides", List({}), 1, "steps of the window along each axis; empty where all are one"),
                SymbolicInts("pads", List({}), INT64_MIN,
                             "zeros added before each axis, then after each, cut off where negative; empty: none"),
                SymbolicInts("lhs_dilations", List({}), 1,
                             "distances of the elements of x along each axis; empty where all are one"),
                SymbolicInts("rhs_dilations", List({}), 1,
                             "distances of the kernel's taps along each axis; empty where all are one"),
                SymbolicInt("groups", Attr(1), 1, "groups of channels; each output channel sees one")},
      .meaning = ConvolutionMeaning,
      .sample = ConvolutionSample};
}

}  // namespace rewright
