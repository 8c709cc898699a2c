// Pooling of images x[n, c, h, w] by windows that slide over height and width.
#include <algorithm>

#include "core/ops/common.h"
#include "core/ops/ops.h"

namespace rewright {
namespace {

std::vector<AttrSpec> PoolAttrs() {
  return {SymbolicInts("kernel", std::nullopt, 1, "height and width of the window"),
          SymbolicInts("strides", List({1, 1}), 1, "steps of the window down and right"),
          SymbolicInts("pads", List({0, 0, 0, 0}), 0, "padding at the top, left, bottom and right"),
          FlagAttr("ceil_mode", false, "whether a last window may reach beyond the padding")};
}

absl::Status CheckPool(const OpBuilder& b) {
  return FirstError({CheckElements(b, Elements::kFloats), CheckRank(b, 0, 4), CheckLength(b, "kernel", 2),
                     CheckLength(b, "strides", 2), CheckLength(b, "pads", 4)});
}

// Returns the windows; each holds at least one element of x.
std::pair<Window, Window> PoolWindows(OpBuilder& b) {
  const auto windows = Windows2d(b, b.Sym("kernel", 0), b.Sym("kernel", 1));
  for (const Window& window : {windows.first, windows.second}) {
    b.Require(window.before < window.Extent(), "the padding must be smaller than the kernel");
    b.Require(window.after < window.Extent(), "the padding must be smaller than the kernel");
  }
  return windows;
}

OpSample RandomPool(Rng& rng, int64_t max_dilation) {
  const std::vector<int64_t> kernel = RandomInts(rng, 2, 1, 3);
  const std::vector<int64_t> dilations = RandomInts(rng, 2, 1, max_dilation);
  std::vector<int64_t> pads;
  for (size_t side = 0; side < 4; ++side) {
    const int64_t extent = (kernel[side % 2] - 1) * dilations[side % 2] + 1;
    pads.push_back(RandomInt(rng, 0, std::min<int64_t>(2, extent - 1)));
  }
  const DType dtype = RandomDType(rng, Elements::kFloats);
  OpSample sample{
      .inputs = {{dtype, {RandomInt(rng, 1, 2), RandomInt(rng, 1, 3), RandomInt(rng, 5, 7), RandomInt(rng, 5, 7)}}},
      .attrs = {{"kernel", kernel},
                {"strides", RandomInts(rng, 2, 1, 3)},
                {"pads", pads},
                {"ceil_mode", RandomInt(rng, 0, 1)}}};
  if (max_dilation > 1) sample.attrs["dilations"] = dilations;
  return sample;
}

}  // namespace

// out[n, c, y, z] = max r, s: x[n, c, y*sh - top + r*dh, z*sw - left + s*dw], leaving out points beyond x
static absl::Status MaxPool2dMeaning(OpBuilder& b) {
  RETURN_IF_ERROR(FirstError({CheckPool(b), CheckLength(b, "dilations", 2)}));
  const auto [rows, columns] = PoolWindows(b);
  b.Require(rows.dilation <= rows.size, "the dilation must not exceed the height");
  b.Require(columns.dilation <= columns.size, "the dilation must not exceed the width");
  const bool ceil_mode = b.Flag("ceil_mode");
  return OnlyOutput(b, b.dtype(0), {b.size(0, 0), b.size(0, 1), rows.Count(ceil_mode), columns.Count(ceil_mode)},
                    [&](const std::vector<Index>& i) {
                      const Index n = i[0], c = i[1], y = i[2], z = i[3];
                      auto h = [&](const std::vector<Index>& tap) { return rows.At(y, tap[0]); };
                      auto w = [&](const std::vector<Index>& tap) { return columns.At(z, tap[1]); };
                      return b.MaxOver(
                          {{"r", rows.kernel}, {"s", columns.kernel}},
                          [&](const std::vector<Index>& tap) {
                            return b.Read(0, {n, c, h(tap), w(tap)});
                          },
                          [&](const std::vector<Index>& tap) { return rows.Inside(h(tap)) && columns.Inside(w(tap)); });
                    },
                    {"n", "c", "y", "z"});
}

static OpSample MaxPool2dSample(Rng& rng) { return RandomPool(rng, /*max_dilation=*/2); }

OpDef MaxPool2dOp() {
  std::vector<AttrSpec> attrs = PoolAttrs();
  attrs.push_back(SymbolicInts("dilations", List({1, 1}), 1, "distances of the window's taps down and right"));
  return OpDef{.name = "max_pool2d",
               .summary = "The maximum of each window of an image; padding takes no part.",
               .inputs = {"x"},
               .ties = Ties::kFirst,
               .attrs = attrs,
               .meaning = MaxPool2dMeaning,
               .sample = MaxPool2dSample};
}

// out[n, c, y, z] = (sum r, s: x[n, c, y*sh - top + r, z*sw - left + s]) / count, where a read beyond x is 0
// count is the number of the window's points within x, or with count_include_pad within x and its padding.
static absl::Status AvgPool2dMeaning(OpBuilder& b) {
  RETURN_IF_ERROR(CheckPool(b));
  const auto [rows, columns] = PoolWindows(b);
  const bool ceil_mode = b.Flag("ceil_mode");
  const bool padding_counts = b.Flag("count_include_pad");
  // Returns the points of window y that count.
  auto counted = [&](const Window& window, const Index& y) {
    const Index begin = window.At(y, 0);
    const Index end = begin + window.kernel;
    if (!padding_counts) return Min(end, window.size) - Max(begin, 0);
    return ceil_mode ? Min(end, window.size + window.after) - begin : window.kernel;
  };
  return OnlyOutput(b, b.dtype(0), {b.size(0, 0), b.size(0, 1), rows.Count(ceil_mode), columns.Count(ceil_mode)},
                    [&](const std::vector<Index>& i) {
                      const Index n = i[0], c = i[1], y = i[2], z = i[3];
                      const Scalar sum =
                          b.Sum({{"r", rows.kernel}, {"s", columns.kernel}}, [&](const std::vector<Index>& tap) {
                            const Index h = rows.At(y, tap[0]);
                            const Index w = columns.At(z, tap[1]);
                            return Select(rows.Inside(h) && columns.Inside(w), b.Read(0, {n, c, h, w}), 0.0);
                          });
                      return sum / FromIndex(counted(rows, y) * counted(columns, z), b.dtype(0));
                    },
                    {"n", "c", "y", "z"});
}

static OpSample AvgPool2dSample(Rng& rng) {
  OpSample sample = RandomPool(rng, /*max_dilation=*/1);
  sample.attrs["count_include_pad"] = RandomInt(rng, 0, 1);
  return sample;
}

OpDef AvgPool2dOp() {
  std::vector<AttrSpec> attrs = PoolAttrs();
  attrs.push_back(FlagAttr("count_include_pad", false, "whether padding counts in the mean, as zeros"));
  return OpDef{.name = "avg_pool2d",
               .summary = "The mean of each window of an image.",
               .inputs = {"x"},
               .attrs = attrs,
               .meaning = AvgPool2dMeaning,
               .sample = AvgPool2dSample};
}

}  // namespace rewright
