// Tests that sums with strides are computed residue by residue, to the bits.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "core/interpreter/interpreter.h"
#include "core/interpreter/oracle.h"
#include "core/interpreter/program.h"
#include "core/ir/op.h"
#include "core/ir/random_tensors.h"
#include "core/tensor/compare.h"

namespace rewright {
namespace {

// The derivative of windows of stride 2 and 3: u at the window that begins r and t before, where there is one.
absl::Status StridedSum(OpBuilder& b) {
  const OpBuilder::Ranges ranges = {{"r", b.size(1, 0)}, {"t", b.size(1, 1)}};
  b.Output(b.dtype(0), {b.size(0, 0) * 2 + b.size(1, 0), b.size(0, 1) * 3 + b.size(1, 1)},
           [&](const std::vector<Index>& i) {
             const auto is_window = [&](int axis, const Index& start, int64_t stride) {
               return Mod(start, stride) == 0 && InRange(start, 0, b.size(0, axis) * stride);
             };
             return b.Reduce(
                 ReduceKind::kSum, ranges,
                 [&](const std::vector<Index>& k) {
                   return b.Read(0, {FloorDiv(i[0] - k[0], 2), FloorDiv(i[1] - k[1], 3)}) * b.Read(1, k);
                 },
                 [&](const std::vector<Index>& k) {
                   return is_window(0, i[0] - k[0], 2) && is_window(1, i[1] - k[1], 3);
                 });
           });
  return absl::OkStatus();
}

TEST(Residues, AreStagesThatFillOneTensor) {
  const OpDef op{.name = "strided", .inputs = {"u", "w"}, .meaning = StridedSum};
  Rng rng(1);
  for (const Shape& shape : {Shape{5, 4}, Shape{1, 1}, Shape{2, 7}}) {
    const std::vector<TensorType> types = {{DType::kFloat32, shape}, {DType::kFloat32, {3, 5}}};
    MeaningCache cache;
    const auto app = Apply(op, types, {}, cache);
    ASSERT_TRUE(app.ok()) << app.status();
    const std::vector<Tensor> inputs = {RandomTensor(types[0], rng, -2, 2), RandomTensor(types[1], rng, -2, 2)};
    const Bindings bindings = BindingsOf(*app->meaning, types, {});
    const auto oracle = RunOracle(*app->meaning, bindings, app->outputs, inputs);
    ASSERT_TRUE(oracle.ok()) << oracle.status();
    for (const double least : {0.0, 1e18}) {
      const InterpretTuning tuning{.max_lanes = 7, .min_parallel = 0, .min_residues = least};
      const auto program = interp::Lower(*app->meaning, bindings, types, app->outputs, Precision::kNative, tuning);
      ASSERT_TRUE(program.ok()) << program.status();
      EXPECT_EQ((*program)->stages.size(), least == 0 ? 6u : 1u);
      const auto compiled =
          CompiledMeaning::Compile(*app->meaning, bindings, types, app->outputs, Precision::kNative, tuning);
      ASSERT_TRUE(compiled.ok()) << compiled.status();
      const auto result = compiled->Run(inputs, 2);
      ASSERT_TRUE(result.ok()) << result.status();
      EXPECT_TRUE((*result)[0].BitEqual((*oracle)[0])) << Compare((*result)[0], (*oracle)[0]).text;
    }
  }
}

}  // namespace
}  // namespace rewright
