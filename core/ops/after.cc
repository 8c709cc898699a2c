#include "core/ops/common.h"
#include "core/ops/ops.h"

namespace rewright {
namespace {

// out[i..] = x[i..]; `trigger` is not read. A node computed from the result differs from the same node computed from x,
// and runs after the trigger was computed. A value can thus be computed again, late, instead of being kept.
absl::Status AfterMeaning(OpBuilder& b) {
  RETURN_IF_ERROR(CheckElements(b, 1, Elements::kFloats));
  return OnlyOutput(b, b.dtype(0), b.sizes(0), [&](const std::vector<Index>& i) { return b.Read(0, i); });
}

OpSample AfterSample(Rng& rng) {
  return OpSample{.inputs = {RandomTensor(rng, Elements::kAny, 0, 4), RandomTensor(rng, Elements::kFloats, 0, 3)}};
}

OpDef Identity(const char* name, const char* summary) {
  return OpDef{.name = name,
               .summary = summary,
               .inputs = {"x", "trigger"},
               .attrs = {},
               .meaning = AfterMeaning,
               .sample = AfterSample};
}

}  // namespace

OpDef AfterOp() {
  return Identity("after", "The first operand, once the second exists; kept apart from the first operand itself.");
}

// The same identity, which marks a place: between the nodes that compute x and the readers of the result, x need not be
// in the memory that kernels read.
OpDef FetchOp() {
  return Identity("fetch",
                  "The first operand, once the second exists; meanwhile it may be in a second tier of memory.");
}

}  // namespace rewright
