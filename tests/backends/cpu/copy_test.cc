// Copies between layouts, element by element: every form that the kernels tell apart.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/onednn/dnnl_util.h"
#include "backends/cpu/onednn/reorder.h"
#include "runtime/instance.h"

namespace rewright::cpu {
namespace {

std::vector<float> Numbered(int64_t count) {
  std::vector<float> numbers(static_cast<size_t>(count));
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i + 1);
  return numbers;
}

// Axes of short runs (the taps of kernels) and of long ones, in any order, some of them walked backwards.
TEST(CpuCopy, BetweenAnyTwoOrdersOfAxes) {
  std::mt19937 rng(7);
  const std::vector<Shape> shapes = {{40, 33, 3, 3}, {17, 64, 9}, {64, 5, 5, 2},
                                     {3, 19, 1, 32}, {50, 70},    {2, 16, 7, 7}};
  for (int trial = 0; trial < 200; ++trial) {
    const Shape& shape = shapes[static_cast<size_t>(trial) % shapes.size()];
    const auto any_order = [&] {
      std::vector<size_t> order(shape.size());
      for (size_t k = 0; k < order.size(); ++k) order[k] = k;
      std::shuffle(order.begin(), order.end(), rng);
      Layout layout{shape, std::vector<int64_t>(shape.size()), 0};
      int64_t stride = 1;
      for (size_t k : order) {
        layout.strides[k] = stride;
        stride *= shape[k];
      }
      return layout;
    };
    Layout from = any_order();
    const Layout to = any_order();
    int64_t first = 0;
    for (size_t k = 0; k < shape.size(); ++k) {
      if (rng() % 3 != 0) continue;
      first += (shape[k] - 1) * from.strides[k];
      from.strides[k] = -from.strides[k];
    }
    const std::vector<float> source = Numbered(from.num_elements());
    std::vector<float> target(source.size(), 0);
    void* buffers[] = {const_cast<float*>(source.data()), target.data()};
    const KernelPtr kernel = MakeCopyKernel(from, first, to, 0, sizeof(float), 1 + trial % 2);
    ASSERT_TRUE(RunKernel(*kernel, buffers).ok());
    for (int64_t i = 0; i < from.num_elements(); ++i) {
      int64_t rest = i, a = first, b = 0;
      for (size_t k = shape.size(); k-- > 0;) {
        a += rest % shape[k] * from.strides[k];
        b += rest % shape[k] * to.strides[k];
        rest /= shape[k];
      }
      ASSERT_EQ(target[static_cast<size_t>(b)], source[static_cast<size_t>(a)])
          << ShapeString(shape) << " from " << from.ToString() << " to " << to.ToString();
    }
  }
}

// There by oneDNN and back: the elements of before.
TEST(CpuCopy, WeightsInBlocksBecomeRows) {
  using dnnl::memory;
  for (const int threads : {1, 2}) {
    auto context = std::make_shared<DnnlContext>();
    context->engine = dnnl::engine(dnnl::engine::kind::cpu, 0);
    context->threads = threads;
    const ThreadScope scope(threads);
    for (const memory::dims& dims : {memory::dims{32, 48, 1, 1}, {16, 16, 1, 1}, {64, 32, 3, 3}, {24, 40, 1, 1}}) {
      for (const auto tag : {memory::format_tag::ABcd16b16a, memory::format_tag::ABcd8b8a}) {
        for (const auto rows : {memory::format_tag::abcd, memory::format_tag::bacd, memory::format_tag::acdb}) {
          const memory::desc plain(dims, memory::data_type::f32, rows), blocked(dims, memory::data_type::f32, tag);
          const std::vector<float> source = Numbered(dims[0] * dims[1] * dims[2] * dims[3]);
          std::vector<float> between(blocked.get_size() / sizeof(float)), target(source.size());
          void* there[] = {const_cast<float*>(source.data()), between.data()};
          void* back[] = {between.data(), target.data()};
          const auto to_blocks = MakeReorder(context, plain, blocked), to_rows = MakeReorder(context, blocked, plain);
          ASSERT_TRUE(to_blocks.ok() && to_rows.ok()) << to_blocks.status() << to_rows.status();
          ASSERT_TRUE(RunKernel(**to_blocks, there).ok());
          ASSERT_TRUE(RunKernel(**to_rows, back).ok());
          EXPECT_EQ(target, source) << dims[0] << " " << dims[1] << " " << dims[2];
        }
      }
    }
  }
}

}  // namespace
}  // namespace rewright::cpu
