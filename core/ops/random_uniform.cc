#include "absl/strings/str_cat.h"
#include "core/ops/common.h"
#include "core/ops/ops.h"

namespace rewright {

// out[i..] = f32(random_bits(seed + 2^32 * stream, n) div 2^8) * 2^-24, where n is the number of the position in
// row-major order: random numbers in [0, 1), multiples of 2^-24, the same ones on every device. A seed below 2^32 is
// one word of the key of Philox4x32-10 and the stream the other, so that streams do not overlap. A second operand gives
// the number n of the first element.
static absl::Status RandomMeaning(OpBuilder& b) {
  for (int k = 0; k < b.num_inputs(); ++k) {
    RETURN_IF_ERROR(CheckRank(b, k, 0));
    if (b.dtype(k) != DType::kInt64) return b.Error(absl::StrCat("the ", b.op().inputs[k], " must be an i64"));
  }
  constexpr double kStreams = 4294967296.0, kDropped = 256, kStep = 1.0 / 16777216;
  const std::vector<Index> shape = Symbols(b, "shape");
  return OnlyOutput(b, DType::kFloat32, shape, [&](const std::vector<Index>& i) {
    Index place = 0;
    for (size_t k = 0; k < shape.size(); ++k) place = place * shape[k] + i[k];
    const Scalar key = b.Read(0, {}) + FromIndex(b.Sym("stream"), DType::kInt64) * kStreams;
    Scalar number = FromIndex(place, DType::kInt64);
    if (b.num_inputs() > 1) number = b.Read(1, {}) + number;
    const Scalar bits = Call(Fn::kRandomBits, {key, number});
    return Cast(bits / kDropped, DType::kFloat32) * kStep;
  });
}

static std::vector<AttrSpec> RandomAttrs() {
  return {SymbolicInts("shape", std::nullopt, 1, "the shape of the result"),
          SymbolicInt("stream", Attr(int64_t{0}), 0, "which of the sequences of a seed")};
}

static OpSample RandomSample(Rng& rng, size_t operands) {
  return OpSample{.inputs = std::vector<TensorType>(operands, {DType::kInt64, {}}),
                  .attrs = {{"shape", RandomShape(rng, 0, 4)}, {"stream", RandomInt(rng, 0, 3)}},
                  .low = 0,
                  .high = 100};
}

OpDef RandomUniformOp() {
  return OpDef{.name = "random_uniform",
               .summary = "Random numbers in [0, 1), a function of seed, stream and position.",
               .inputs = {"seed"},
               .attrs = RandomAttrs(),
               .meaning = RandomMeaning,
               .sample = [](Rng& rng) { return RandomSample(rng, 1); }};
}

OpDef RandomUniformFromOp() {
  return OpDef{.name = "random_uniform_from",
               .summary = "Random numbers in [0, 1), those of random_uniform from a number on.",
               .inputs = {"seed", "first"},
               .attrs = RandomAttrs(),
               .meaning = RandomMeaning,
               .sample = [](Rng& rng) { return RandomSample(rng, 2); }};
}

}  // namespace rewright
