#include "core/ops/common.h"
#include "core/ops/ops.h"

namespace rewright {

// out[.., i, ..] = i along `axis`
static absl::Status IotaMeaning(OpBuilder& b) {
  const int rank = b.Length("shape");
  const int64_t axis = b.Int("axis");
  const DType dtype = b.Type("dtype");
  if (axis >= rank) return b.Error("axis must be one of the axes of shape");
  if (dtype == DType::kBool) return b.Error("the elements must be numbers");
  const std::vector<Index> shape = Symbols(b, "shape");
  return OnlyOutput(b, dtype, shape, [&](const std::vector<Index>& i) { return FromIndex(i[axis], dtype); });
}

static OpSample IotaSample(Rng& rng) {
  const Shape shape = RandomShape(rng, 1, 4);
  return OpSample{.inputs = {},
                  .attrs = {{"shape", shape},
                            {"axis", RandomInt(rng, 0, static_cast<int64_t>(shape.size()) - 1)},
                            {"dtype", RandomDType(rng, Elements::kNumbers)}}};
}

OpDef IotaOp() {
  return OpDef{.name = "iota",
               .summary = "Every element is its own index along an axis.",
               .inputs = {},
               .attrs = {SymbolicInts("shape", std::nullopt, 1, "the shape of the result"),
                         StructuralInt("axis", 0, "the axis along which the elements count"),
                         DTypeAttr("dtype", "the type of the elements")},
               .meaning = IotaMeaning,
               .sample = IotaSample};
}

}  // namespace rewright
