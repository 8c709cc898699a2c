// Exchange of channels for resolution by blocks of b x b points.
#include "core/ops/common.h"
#include "core/ops/ops.h"

namespace rewright {
namespace {

AttrSpec BlockSize() { return SymbolicInt("block", std::nullopt, 1, "height and width of a block"); }

absl::Status CheckImages(const OpBuilder& b) {
  return FirstError({CheckElements(b, Elements::kAny), CheckRank(b, 0, 4)});
}

}  // namespace

// With D = C / block^2:
//   out[n, d, y, z] = x[n, ((y mod block)*block + z mod block)*D + d, y div block, z div block]
// or, with channel_first:
//   out[n, d, y, z] = x[n, (d*block + y mod block)*block + z mod block, y div block, z div block]
static absl::Status DepthToSpaceMeaning(OpBuilder& b) {
  RETURN_IF_ERROR(CheckImages(b));
  const bool channel_first = b.Flag("channel_first");
  const Index block = b.Sym("block");
  const Index depth = FloorDiv(b.size(0, 1), block * block);
  b.Require(b.size(0, 1) == depth * (block * block), "the channels must be a multiple of the square of block");
  return OnlyOutput(b, b.dtype(0), {b.size(0, 0), depth, b.size(0, 2) * block, b.size(0, 3) * block},
                    [&](const std::vector<Index>& i) {
                      const Index n = i[0], d = i[1], y = i[2], z = i[3];
                      const Index r = Mod(y, block), s = Mod(z, block);
                      const Index channel = channel_first ? (d * block + r) * block + s : (r * block + s) * depth + d;
                      return b.Read(0, {n, channel, FloorDiv(y, block), FloorDiv(z, block)});
                    },
                    {"n", "d", "y", "z"});
}

static OpSample DepthToSpaceSample(Rng& rng) {
  const int64_t block = RandomInt(rng, 1, 3);
  const TensorType x{
      RandomDType(rng, Elements::kAny),
      {RandomInt(rng, 1, 2), block * block * RandomInt(rng, 1, 3), RandomInt(rng, 1, 4), RandomInt(rng, 1, 4)}};
  return OpSample{.inputs = {x}, .attrs = {{"block", block}, {"channel_first", RandomInt(rng, 0, 1)}}};
}

OpDef DepthToSpaceOp() {
  return OpDef{
      .name = "depth_to_space",
      .summary = "Spreads channels over blocks of points.",
      .inputs = {"x"},
      .attrs = {BlockSize(), FlagAttr("channel_first", false,
                                      "whether the output's channel is the slowest part of the input's channel")},
      .meaning = DepthToSpaceMeaning,
      .sample = DepthToSpaceSample};
}

// out[n, (r*block + s)*C + c, y, z] = x[n, c, y*block + r, z*block + s]
static absl::Status SpaceToDepthMeaning(OpBuilder& b) {
  RETURN_IF_ERROR(CheckImages(b));
  const Index block = b.Sym("block");
  const Index channels = b.size(0, 1);
  const Index height = FloorDiv(b.size(0, 2), block);
  const Index width = FloorDiv(b.size(0, 3), block);
  b.Require(b.size(0, 2) == height * block, "the height must be a multiple of block");
  b.Require(b.size(0, 3) == width * block, "the width must be a multiple of block");
  return OnlyOutput(b, b.dtype(0), {b.size(0, 0), channels * (block * block), height, width},
                    [&](const std::vector<Index>& i) {
                      const Index n = i[0], d = i[1], y = i[2], z = i[3];
                      const Index tap = FloorDiv(d, channels);  // r*block + s
                      const Index r = FloorDiv(tap, block), s = Mod(tap, block);
                      return b.Read(0, {n, Mod(d, channels), y * block + r, z * block + s});
                    },
                    {"n", "d", "y", "z"});
}

static OpSample SpaceToDepthSample(Rng& rng) {
  const int64_t block = RandomInt(rng, 1, 3);
  const TensorType x{
      RandomDType(rng, Elements::kAny),
      {RandomInt(rng, 1, 2), RandomInt(rng, 1, 3), block * RandomInt(rng, 1, 3), block * RandomInt(rng, 1, 3)}};
  return OpSample{.inputs = {x}, .attrs = {{"block", block}}};
}

OpDef SpaceToDepthOp() {
  return OpDef{.name = "space_to_depth",
               .summary = "Gathers blocks of points into channels.",
               .inputs = {"x"},
               .attrs = {BlockSize()},
               .meaning = SpaceToDepthMeaning,
               .sample = SpaceToDepthSample};
}

}  // namespace rewright
