#include "core/base/status_macros.h"
#include "core/ops/common.h"
#include "core/ops/ops.h"

namespace rewright {

// out[i..] = condition[i..] ? a[i..] : b[i..]; the three operands broadcast together
static absl::Status WhereMeaning(OpBuilder& b) {
  RETURN_IF_ERROR(CheckElements(b, 0, Elements::kBools));
  if (b.dtype(1) != b.dtype(2)) {
    return b.Error(std::string("a and b must have one element type, not ") + DTypeName(b.dtype(1)) + " and " +
                   DTypeName(b.dtype(2)));
  }
  const Broadcast common(b, {0, 1, 2});
  b.Output(b.dtype(1), common.shape(), [&](const std::vector<Index>& i) {
    return Select(Holds(b.Read(0, common.At(0, i))), b.Read(1, common.At(1, i)), b.Read(2, common.At(2, i)));
  });
  return absl::OkStatus();
}

static OpSample WhereSample(Rng& rng) {
  const DType dtype = RandomDType(rng, Elements::kAny);
  const std::vector<Shape> shapes = RandomBroadcast(rng, 3, 4);
  return OpSample{.inputs = {{DType::kBool, shapes[0]}, {dtype, shapes[1]}, {dtype, shapes[2]}}, .attrs = {}};
}

OpDef WhereOp() {
  return OpDef{.name = "where",
               .summary = "Chooses between two operands, element by element.",
               .inputs = {"condition", "a", "b"},
               .broadcasts = true,
               .attrs = {},
               .meaning = WhereMeaning,
               .sample = WhereSample};
}

}  // namespace rewright
