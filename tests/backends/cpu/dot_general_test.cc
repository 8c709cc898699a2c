// The kernel of dot_general against the interpreter: operands whose axes stand in every order; products by themselves.
#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"
#include "backends/cpu/kernels/kernels.h"
#include "backends/device_factory.h"
#include "core/ir/text.h"
#include "gmock/gmock.h"
#include "tests/backends/cpu/runner_util.h"

namespace rewright {
namespace {

using Axes = std::vector<int64_t>;

// One operand: sizes of batch, free and contracted axes, in a random order.
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

// Neither more scratch space than the kernel asks for is written, nor is anything read that it did not write there.
TEST(CpuProducts, StayWithinTheirScratchSpace) {
  Rng rng(20261127);
  for (int round = 0; round < 60; ++round) {
    const int64_t rows = 1 + static_cast<int64_t>(rng() % 230), columns = 1 + static_cast<int64_t>(rng() % 300);
    const int64_t depth = 1 + static_cast<int64_t>(rng() % (round % 10 == 0 ? 1100 : 60));
    const int threads = 1 + round % 2;
    const auto matrix = [](int64_t m, int64_t n, bool turned) {
      return turned ? Layout{{m, n}, {1, m}} : Layout::RowMajor({m, n});
    };
    cpu::MatmulProblem problem;
    problem.a = matrix(rows, depth, round % 3 != 0);
    problem.b = matrix(depth, columns, round % 5 == 0);
    problem.c = Layout::RowMajor({rows, columns});
    SCOPED_TRACE(absl::StrCat(rows, "x", depth, "x", columns, ", ", threads, " threads, round ", round));
    const auto floats = [&](int64_t n) {
      std::vector<float> all(static_cast<size_t>(n));
      for (float& x : all) x = static_cast<float>(static_cast<int>(rng() % 9) - 4);  // sums are exact
      return all;
    };
    std::vector<float> a = floats(rows * depth), b = floats(depth * columns), c = floats(rows * columns);
    const size_t asked = cpu::MatmulScratchBytes(problem, threads) / sizeof(float);
    constexpr float kGuard = 12345.0f;
    std::vector<float> scratch(asked + 4096, kGuard);
    std::fill_n(scratch.begin(), asked, std::numeric_limits<float>::quiet_NaN());
    std::vector<void*> buffers = {a.data(), b.data()};
    if (asked > 0) buffers.push_back(scratch.data());
    buffers.push_back(c.data());
    RunContext context;
    ASSERT_TRUE(cpu::MakeMatmulKernel(problem, threads)->Run(buffers.data(), context).ok());
    EXPECT_EQ(std::count(scratch.begin() + static_cast<int64_t>(asked), scratch.end(), kGuard), 4096);
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) {
        double sum = 0;
        for (int64_t k = 0; k < depth; ++k) {
          sum += static_cast<double>(a[static_cast<size_t>(i * problem.a.strides[0] + k * problem.a.strides[1])]) *
                 static_cast<double>(b[static_cast<size_t>(k * problem.b.strides[0] + j * problem.b.strides[1])]);
        }
        ASSERT_EQ(static_cast<double>(c[static_cast<size_t>(i * columns + j)]), sum) << i << ", " << j;
      }
    }
  }
}

// Batches that share right factors, as grouped heads do.
TEST(CpuGroupedRows, AreTheOracles) {
  const auto device = MakeDevice("cpu", {2});
  ASSERT_TRUE(device.ok()) << device.status();
  for (const char* a : {"[1,2,7,1,64]", "[1,2,7,3,64]", "[2,2,1,5,64]", "[3,2,4,1,64]"}) {
    for (const char* b : {"[1,2,1,64,80]", "[1,1,1,64,80]", "[1,2,1,64,1]"}) {
      for (const bool turned : {false, true}) {
        std::string text = absl::StrCat("input a: f32", a, "\ninput b: f32", b, "\ninput s: f32[]\n");
        // Behind a transpose rows of a batch do not lie evenly.
        absl::StrAppend(&text, turned ? "%0 = neg(a)\n%1 = transpose(%0, perm=[0,1,3,2,4])\n"
                                      : absl::StrCat("%1 = reshape(a, shape=", a, ")\n"));
        absl::StrAppend(&text, "%2 = matmul(%1, b)\n%3 = mul(%2, s)\n%4 = add(%3, %3)\noutput y = %4\noutput z = %2\n");
        const auto graph = ParseGraph(text);
        ASSERT_TRUE(graph.ok()) << graph.status();
        SCOPED_TRACE(text);
        ExpectAgrees(**device, *graph, -1, 1, 3);
      }
    }
  }
}

}  // namespace
}  // namespace rewright
