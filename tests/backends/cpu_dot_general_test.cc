// The kernel of dot_general against the interpreter: operands whose axes stand in every order.
#include <algorithm>
#include <numeric>

#include "backends/device_factory.h"
#include "core/ir/text.h"
#include "gmock/gmock.h"
#include "tests/backends/cpu_runner_util.h"

namespace rewright {
namespace {

using Axes = std::vector<int64_t>;

// Of one operand: sizes of batch, free and contracted axes, in a random order.
struct Side {
  Shape shape;
  Axes batch, contracting;

  Side(const Shape& batches, const Shape& free, const Shape& contracted, Rng& rng) {
    Shape sizes = batches;
    sizes.insert(sizes.end(), contracted.begin(), contracted.end());
    sizes.insert(sizes.end(), free.begin(), free.end());
    Axes places(sizes.size());
    std::iota(places.begin(), places.end(), 0);
    std::shuffle(places.begin(), places.end(), rng);
    shape.resize(sizes.size());
    for (size_t k = 0; k < sizes.size(); ++k) shape[static_cast<size_t>(places[k])] = sizes[k];
    batch.assign(places.begin(), places.begin() + std::ssize(batches));
    contracting.assign(places.begin() + std::ssize(batches),
                       places.begin() + std::ssize(batches) + std::ssize(contracted));
  }
};

Shape Sizes(Rng& rng, size_t most, int64_t largest) {
  Shape sizes(rng() % (most + 1));
  for (int64_t& size : sizes) size = 1 + static_cast<int64_t>(rng() % static_cast<uint64_t>(largest));
  return sizes;
}

TEST(CpuDotGeneral, IsTheInterpretersInEveryOrderOfAxes) {
  const auto device = MakeDevice("cpu", {2});
  ASSERT_TRUE(device.ok()) << device.status();
  Rng rng(20261123);
  for (int round = 0; round < 150; ++round) {
    const bool large = round % 10 == 0;
    const Shape batches = Sizes(rng, 2, 3), contracted = Sizes(rng, 2, large ? 40 : 6);
    const Side lhs(batches, Sizes(rng, 2, large ? 30 : 5), contracted, rng);
    const Side rhs(batches, Sizes(rng, 2, large ? 30 : 5), contracted, rng);
    auto arena = std::make_shared<Arena>();
    std::vector<Value> inputs = {*arena->AddInput("x", {DType::kFloat32, lhs.shape})};
    const TensorType type{DType::kFloat32, rhs.shape};
    if (round % 3 != 0) inputs.push_back(*arena->AddInput("w", type));
    const Value w = inputs.size() == 1 ? *arena->AddState("w", RandomTensor(type, -1, 1, rng)) : inputs[1];
    const auto y = arena->Apply("dot_general", {inputs[0], w},
                                {{"lhs_batch", lhs.batch},
                                 {"rhs_batch", rhs.batch},
                                 {"lhs_contracting", lhs.contracting},
                                 {"rhs_contracting", rhs.contracting}});
    ASSERT_TRUE(y.ok()) << y.status();
    const Graph graph(arena, inputs, {{*y, "y"}});
    SCOPED_TRACE(PrintGraph(graph));
    auto schedule = (*device)->Compile(graph);
    ASSERT_TRUE(schedule.ok()) << schedule.status();
    ASSERT_THAT(schedule->steps.back().label, ::testing::HasSubstr("dot_general ("));
    ExpectAgrees(*std::move(schedule), graph, -1, 1, 3);
  }
}

// More than one chunk of the depth, block of rows and block of panels, none of them whole; each factor lies row by row
// or column by column; right factors of their own, one for all batches, or a state.
TEST(CpuDotGeneral, LargeOnesAreTheInterpreters) {
  const auto device = MakeDevice("cpu", {2});
  ASSERT_TRUE(device.ok()) << device.status();
  Rng rng(20261126);
  const Shape sizes[] = {{13, 1030, 270}, {203, 515, 131}, {9, 77, 300}};  // rows, depth, columns
  for (const Shape& size : sizes) {
    for (int variant = 0; variant < 12; ++variant) {
      const bool lhs_turned = variant % 2 == 1, rhs_turned = variant / 2 % 2 == 1;
      const int batches = variant / 4;  // 0: a state, 1: one for all, 2: their own
      Shape lhs = {size[0], size[1]}, rhs = {size[1], size[2]};
      if (lhs_turned) std::swap(lhs[0], lhs[1]);
      if (rhs_turned) std::swap(rhs[0], rhs[1]);
      if (batches > 0) lhs.insert(lhs.begin(), 3);
      if (batches > 1) rhs.insert(rhs.begin(), 3);
      auto arena = std::make_shared<Arena>();
      std::vector<Value> inputs = {*arena->AddInput("x", {DType::kFloat32, lhs})};
      const TensorType type{DType::kFloat32, rhs};
      if (batches > 0) inputs.push_back(*arena->AddInput("w", type));
      const Value w = batches > 0 ? inputs[1] : *arena->AddState("w", RandomTensor(type, -1, 1, rng));
      const int64_t axis = batches > 0 ? 1 : 0;
      const Axes batch = batches > 1 ? Axes{0} : Axes{};
      const auto y = arena->Apply("dot_general", {inputs[0], w},
                                  {{"lhs_batch", batch},
                                   {"rhs_batch", batch},
                                   {"lhs_contracting", Axes{axis + (lhs_turned ? 0 : 1)}},
                                   {"rhs_contracting", Axes{(batches > 1 ? 1 : 0) + (rhs_turned ? 1 : 0)}}});
      ASSERT_TRUE(y.ok()) << y.status();
      const Graph graph(arena, inputs, {{*y, "y"}});
      SCOPED_TRACE(PrintGraph(graph));
      auto schedule = (*device)->Compile(graph);
      ASSERT_TRUE(schedule.ok()) << schedule.status();
      ExpectAgrees(*std::move(schedule), graph, -1, 1, 2);
    }
  }
}

}  // namespace
}  // namespace rewright
