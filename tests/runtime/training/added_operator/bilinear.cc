// An operator that no file names except the list of a test's registry (tests/CMakeLists.txt).
#include "core/base/status_macros.h"
#include "core/ops/common.h"

namespace rewright {

// out[b, o] = sum i, j: x[b, i] * w[o, i, j] * y[b, j]
static absl::Status BilinearMeaning(OpBuilder& b) {
  RETURN_IF_ERROR(
      FirstError({CheckElements(b, Elements::kFloats), CheckRank(b, 0, 2), CheckRank(b, 1, 3), CheckRank(b, 2, 2)}));
  const Index rows = b.size(0, 0), outputs = b.size(1, 0), left = b.size(1, 1), right = b.size(1, 2);
  b.Require(b.size(2, 0) == rows, "x and y must have as many rows");
  b.Require(b.size(0, 1) == left && b.size(2, 1) == right, "w must have the columns of x and of y");
  b.Output(b.dtype(0), {rows, outputs}, [&](const std::vector<Index>& at) {
    return b.Sum({{"i", left}, {"j", right}}, [&](const std::vector<Index>& k) {
      return b.Read(0, {at[0], k[0]}) * b.Read(1, {at[1], k[0], k[1]}) * b.Read(2, {at[0], k[1]});
    });
  });
  return absl::OkStatus();
}

static OpSample BilinearSample(Rng& rng) {
  const DType dtype = RandomDType(rng, Elements::kFloats);
  const Shape s = RandomInts(rng, 4, 1, 5);
  return OpSample{.inputs = {{dtype, {s[0], s[2]}}, {dtype, {s[1], s[2], s[3]}}, {dtype, {s[0], s[3]}}}, .attrs = {}};
}

OpDef BilinearOp() {
  return OpDef{.name = "bilinear",
               .summary = "A bilinear form of the rows of two matrices for each output.",
               .inputs = {"x", "w", "y"},
               .attrs = {},
               .meaning = BilinearMeaning,
               .sample = BilinearSample};
}

}  // namespace rewright
