#include "runtime/train/model.h"

#include <cmath>
#include <memory>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/integer.h"
#include "core/base/text_hash.h"
#include "core/ir/random_tensor.h"
#include "core/ops/ops.h"
#include "runtime/train/term.h"

namespace rewright {
namespace {

Term Weight(Arena& arena, const std::string& name, const Shape& shape, double bound, uint64_t seed) {
  TextHash hash;
  hash.Add(name);
  Rng rng(MixBits(seed) ^ hash.value());
  const auto state = arena.AddState(name, RandomTensor({DType::kFloat32, shape}, rng, -bound, bound));
  CHECK(state.ok()) << state.status();
  return Term(arena, *state);
}

}  // namespace

const std::vector<std::string>& MlpActivations() {
  static const auto* const names = new std::vector<std::string>{"relu", "tanh", "sigmoid", "gelu"};
  return *names;
}

Graph MakeMlp(const MlpOptions& options, int64_t batch, uint64_t seed) {
  const std::vector<int64_t>& sizes = options.sizes;
  CHECK(sizes.size() >= 2) << sizes.size();
  auto arena = std::make_shared<Arena>();
  const auto input = arena->AddInput("x", {DType::kFloat32, {batch, sizes[0]}});
  CHECK(input.ok()) << input.status();
  Term x(*arena, *input);
  for (size_t i = 0; i + 1 < sizes.size(); ++i) {
    const double bound = 1 / std::sqrt(static_cast<double>(sizes[i]));
    const std::string layer = absl::StrCat("layer", i);
    const Term weight = Weight(*arena, layer + ".weight", {sizes[i], sizes[i + 1]}, bound, seed);
    const Term bias = Weight(*arena, layer + ".bias", {sizes[i + 1]}, bound, seed);
    x = Apply(ops::Matmul(), {x, weight}) + bias;
    if (i + 2 < sizes.size()) x = Apply(FindOp(options.activation), {x});
  }
  return Graph(arena, {*input}, {{x.value(), "logits"}});
}

}  // namespace rewright
