#include "core/base/status_macros.h"
#include "core/ops/common.h"
#include "core/ops/ops.h"

namespace rewright {

// out[i..] = min(max(x[i..], low[i..]), high[i..]); the three operands broadcast together. Bounds that are equal to one
// another are one bound: at it the slope is x's alone.
static absl::Status ClampMeaning(OpBuilder& b) {
  RETURN_IF_ERROR(CheckElements(b, Elements::kNumbers));
  const Broadcast common(b, {0, 1, 2});
  b.Output(b.dtype(0), common.shape(), [&](const std::vector<Index>& i) {
    const Scalar low = b.Read(0, common.At(0, i)), x = b.Read(1, common.At(1, i)), high = b.Read(2, common.At(2, i));
    const Scalar within = Min(Max(x, low), high);
    if (!IsFloating(b.dtype(0))) return within;
    const auto holds = [](Fn fn, const Scalar& p, const Scalar& q) { return Holds(Call(fn, {p, q})); };
    return Select(holds(Fn::kEqual, low, high),
                  Select(holds(Fn::kLess, x, low), low, Select(holds(Fn::kLess, high, x), high, x)), within);
  });
  return absl::OkStatus();
}

static OpSample ClampSample(Rng& rng) {
  const DType dtype = RandomDType(rng, Elements::kNumbers);
  const std::vector<Shape> shapes = RandomBroadcast(rng, 3, 4);
  return OpSample{.inputs = {{dtype, shapes[0]}, {dtype, shapes[1]}, {dtype, shapes[2]}}, .attrs = {}};
}

OpDef ClampOp() {
  return OpDef{.name = "clamp",
               .summary = "The second operand held between the first and the third.",
               .inputs = {"low", "x", "high"},
               .broadcasts = true,
               .attrs = {},
               .meaning = ClampMeaning,
               .sample = ClampSample};
}

}  // namespace rewright
