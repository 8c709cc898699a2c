#include "core/base/status_macros.h"
#include "core/ops/common.h"
#include "core/ops/ops.h"

namespace rewright {

// out[i..] = f32(random_bits(seed + 2^32 * stream, n) div 2^8) * 2^-24, where n is the number of the position in
// row-major order: random numbers in [0, 1), multiples of 2^-24, the same ones wherever and however they are computed.
// A seed below 2^32 is one word of the key of Philox4x32-10 and the stream the other, so that streams do not overlap.
static absl::Status RandomUniformMeaning(OpBuilder& b) {
  RETURN_IF_ERROR(CheckRank(b, 0, 0));
  if (b.dtype(0) != DType::kInt64) return b.Error("the seed must be an i64");
  constexpr double kStreams = 4294967296.0, kDropped = 256, kStep = 1.0 / 16777216;
  std::vector<Index> shape;
  for (int k = 0; k < b.Length("shape"); ++k) shape.push_back(b.Sym("shape", k));
  b.Output(DType::kFloat32, shape, [&](const std::vector<Index>& i) {
    Index place = 0;
    for (size_t k = 0; k < shape.size(); ++k) place = place * shape[k] + i[k];
    const Scalar key = b.Read(0, {}) + FromIndex(b.Sym("stream"), DType::kInt64) * kStreams;
    const Scalar bits = Call(Fn::kRandomBits, {key, FromIndex(place, DType::kInt64)});
    return Cast(bits / kDropped, DType::kFloat32) * kStep;
  });
  return absl::OkStatus();
}

static OpSample RandomUniformSample(Rng& rng) {
  return OpSample{.inputs = {TensorType{DType::kInt64, {}}},
                  .attrs = {{"shape", RandomShape(rng, 0, 4)}, {"stream", RandomInt(rng, 0, 3)}},
                  .low = 0,
                  .high = 100};
}

OpDef RandomUniformOp() {
  return OpDef{.name = "random_uniform",
               .summary = "Random numbers in [0, 1), a function of seed, stream and position.",
               .inputs = {"seed"},
               .attrs = {SymbolicInts("shape", std::nullopt, 1, "the shape of the result"),
                         SymbolicInt("stream", Attr(int64_t{0}), 0, "which of the sequences of a seed")},
               .meaning = RandomUniformMeaning,
               .sample = RandomUniformSample};
}

}  // namespace rewright
