// Steps side by side: what they wait for, on which queues they go, what becomes one group.
#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "backends/cuda/cuda_device.h"
#include "backends/cuda/memory/queues.h"
#include "core/ir/text.h"
#include "gmock/gmock.h"
#include "tests/backends/cpu/runner_util.h"
#include "tests/backends/host_gpu_util.h"
#include "tests/counts.h"

namespace rewright {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// "begin-end: queue<after,.. queue .."
std::vector<std::string> Texts(const std::vector<Section>& sections) {
  std::vector<std::string> texts;
  for (const Section& section : sections) {
    std::string text = absl::StrCat(section.begin, "-", section.end, ":");
    for (const QueueStep& step : section.steps) {
      absl::StrAppend(&text, " ", step.queue);
      for (size_t i = 0; i < step.after.size(); ++i) absl::StrAppend(&text, i == 0 ? "<" : ",", step.after[i]);
    }
    texts.push_back(text);
  }
  return texts;
}

TEST(CudaQueues, ChainsHaveNoSections) {
  EXPECT_THAT(cuda::ParallelSections({}), IsEmpty());
  EXPECT_THAT(cuda::ParallelSections({{}, {0}, {1}, {2}}), IsEmpty());
  EXPECT_THAT(cuda::ParallelSections({{}, {0}, {1}, {0, 2}, {3}}), IsEmpty()) << "a sum with what came before";
}

TEST(CudaQueues, BranchesPartAndMeet) {
  // 0, then 1 -> 3 beside 2, then 4 = 2 + 3.
  EXPECT_THAT(Texts(cuda::ParallelSections({{}, {0}, {0}, {1}, {2, 3}})), ElementsAre("1-4: 0 1 0"));
  // A branch of a branch waits across queues.
  EXPECT_THAT(Texts(cuda::ParallelSections({{}, {0}, {0}, {1}, {1, 2}, {3, 4}})), ElementsAre("1-5: 0 1 0 1<0"));
  // A value that is read much later, a mask, holds up nothing.
  EXPECT_THAT(Texts(cuda::ParallelSections({{}, {}, {0, 1}, {2}, {0, 3}, {4}})), ElementsAre("0-2: 0 1"));
  // Two modules one after the other.
  EXPECT_THAT(Texts(cuda::ParallelSections({{}, {0}, {0}, {1, 2}, {3}, {3}, {3}, {4, 5, 6}})),
              ElementsAre("1-3: 0 1", "4-7: 0 1 2"));
}

TEST(CudaQueues, ManyStepsShareQueuesAndSectionsEnd) {
  const std::vector<Section> sections = cuda::ParallelSections(std::vector<std::vector<int>>(100));
  ASSERT_EQ(sections.size(), 2u);
  EXPECT_EQ(sections[0].end, 64);
  EXPECT_EQ(sections[1].end, 100);
  for (const QueueStep& step : sections[0].steps) {
    EXPECT_LT(step.queue, 8);
    EXPECT_THAT(step.after, IsEmpty());
  }
}

// Every dependency is kept by the order of a queue or by waiting, whatever the graph of steps.
TEST(CudaQueues, KeepEveryDependency) {
  Rng rng(3);
  for (int trial = 0; trial < Cases(300); ++trial) {
    std::vector<std::vector<int>> dependencies;
    const int count = 1 + static_cast<int>(rng() % 150), reach = 1 + static_cast<int>(rng() % 20);
    for (int s = 0; s < count; ++s) {
      std::set<int> needed;
      for (int k = 0; k < static_cast<int>(rng() % 4) && s > 0; ++k) {
        needed.insert(std::max(0, s - 1 - static_cast<int>(rng() % static_cast<size_t>(reach))));
      }
      dependencies.emplace_back(needed.begin(), needed.end());
    }
    int end = 0;
    for (const Section& section : cuda::ParallelSections(dependencies)) {
      ASSERT_GE(section.begin, end);
      end = section.end;
      ASSERT_EQ(section.steps.size(), static_cast<size_t>(section.end - section.begin));
      std::vector<std::set<int>> before;  // steps of the section that are sure to be done
      for (int s = 0; s < section.end - section.begin; ++s) {
        const QueueStep& step = section.steps[s];
        std::set<int> sure;
        const auto follows = [&](int other) {
          ASSERT_LT(other, s);
          sure.insert(other);
          sure.insert(before[other].begin(), before[other].end());
        };
        for (int other : step.after) follows(other);
        for (int other = s - 1; other >= 0; --other) {
          if (section.steps[other].queue != step.queue) continue;
          follows(other);
          break;
        }
        for (int d : dependencies[section.begin + s]) {
          EXPECT_TRUE(d < section.begin || sure.count(d - section.begin) > 0) << d << " before " << section.begin + s;
        }
        before.push_back(std::move(sure));
      }
    }
  }
}

// Queries, keys and values of odd sizes, with and without epilogues, beside a pooling of them that is no product.
constexpr char kProducts[] = R"(
input x: f32[3,5,7]
state q: f32[7,9]
state k: f32[7,4]
state v: f32[7,1]
state b: f32[4]
%1 = matmul(x, q)
%2 = matmul(x, k)
%3 = add(%2, b)
%4 = relu(%3)
%5 = matmul(x, v)
%6 = reduce_mean(x, axes=[2])
%7 = reduce_sum(%1, axes=[2])
%8 = reduce_max(%4, axes=[2])
%9 = mul(%7, %8)
%10 = mul(%9, %6)
output y = %10
output z = %5
)";

TEST(CudaQueues, ProductsOfOneValueAreOneGroup) {
  const Graph graph = GraphWithWeights(kProducts, -1, 1, 1);
  HostGpuCounts counts;
  const auto device = HostDevice({}, &counts);
  const std::vector<Group> groups = device->Partition(graph);
  ASSERT_EQ(groups[0].nodes.size(), 5u);
  EXPECT_EQ(groups[0].outputs.size(), 3u);
  size_t nodes = 0;
  for (const Group& group : groups) {
    nodes += group.nodes.size();
    const auto cost = device->Cost(graph, group);
    EXPECT_TRUE(cost.ok() && *cost > 0) << cost.status().ToString();
  }
  EXPECT_EQ(nodes, 10u);
  const int measured = counts.sections;
  EXPECT_GT(measured, 0) << "the products were measured side by side";
  for (uint64_t seed = 0; seed < 10; ++seed) ExpectAgrees(*device, graph, -1, 1, seed);
  EXPECT_GT(counts.sections, measured);

  // In order where that is faster; both ways are tried.
  HostGpuCounts slow;
  const auto in_order = HostDevice({}, &slow, {.first_ways = true});
  auto schedule = in_order->Compile(graph);
  ASSERT_TRUE(schedule.ok()) << schedule.status().ToString();
  EXPECT_GE(schedule->steps.size(), 6u);
  const int tried = slow.sections;
  EXPECT_GT(tried, 0);
  const auto executor = MakeHostile(graph, *std::move(schedule), *in_order->memory());
  ASSERT_TRUE(executor.ok()) << executor.status().ToString();
  ExpectAgrees(**executor, graph, -1, 1, 1);
  EXPECT_EQ(slow.sections, tried);
}

// A remembered choice is not tried again, and needs no memory for a trial: steps side by side, a pooling by a kernel or
// by a library, a depthwise convolution with and without its epilogue.
TEST(CudaQueues, WhatIsRememberedTakesNoMemory) {
  const char* const pooling = "input x: f32[1,64,20,20]\n%1 = max_pool2d(x, kernel=[2,2])\noutput y = %1\n";
  const char* const depthwise = R"(
input x: f32[1,16,20,20]
state w: f32[16,1,3,3]
%1 = conv2d(x, w, groups=16)
%2 = relu(%1)
output y = %2
)";
  for (const char* text : {kProducts, pooling, depthwise}) {
    SCOPED_TRACE(text);
    const Graph graph = GraphWithWeights(text, -1, 1, 1);
    HostGpuCounts remembered, tried;
    const auto by_memory = HostDevice({}, &remembered), by_trial = HostDevice({}, &tried, {.first_ways = true});
    ASSERT_TRUE(by_memory->Compile(graph).ok());
    ASSERT_TRUE(by_trial->Compile(graph).ok());
    EXPECT_LT(remembered.peak_bytes, tried.peak_bytes);
    EXPECT_EQ(remembered.launches, 0);
  }
}

// A product that needs something else than the value is none of the group, even if it comes first.
TEST(CudaQueues, SiblingsReadOneValueAlone) {
  const Graph graph = GraphWithWeights(R"(
input x: f32[4,6]
state u: f32[6,6]
state v: f32[6,6]
state w: f32[6,4]
%1 = matmul(x, u)
%2 = matmul(x, v)
%3 = add(%2, %1)
%4 = matmul(x, w)
%5 = matmul(%4, %3)
output y = %5
)",
                                       -1, 1, 1);
  const auto device = HostDevice();
  std::vector<size_t> sizes;
  for (const Group& group : device->Partition(graph)) sizes.push_back(group.nodes.size());
  EXPECT_THAT(sizes, ElementsAre(2, 2, 1)) << "x u with x w, then x v + x u, then the last";
  for (uint64_t seed = 0; seed < 5; ++seed) ExpectAgrees(*device, graph, -1, 1, seed);
}

// Branches of a module write their parts of its result, in any order; a shortcut runs beside a block.
TEST(CudaQueues, ModulesAgreeInAnyOrder) {
  const Graph graph = GraphWithWeights(R"(
input x: f32[1,8,9,7]
state a: f32[16,8,1,1]
state b: f32[8,8,1,1]
state c: f32[8,8,3,3]
state d: f32[5,8,1,1]
state e: f32[29,29,3,3]
state s: f32[29,29,1,1]
%1 = conv2d(x, a)
%2 = relu(%1)
%3 = conv2d(x, b)
%4 = conv2d(%3, c, pads=[1,1,1,1])
%5 = avg_pool2d(x, kernel=[3,3], pads=[1,1,1,1])
%6 = conv2d(%5, d)
%7 = concat(%2, %4, %6, axis=1)
%8 = conv2d(%7, e, pads=[1,1,1,1])
%9 = conv2d(%8, e, pads=[1,1,1,1])
%10 = conv2d(%7, s)
%11 = add(%9, %10)
%12 = relu(%11)
output y = %12
)",
                                       -0.2, 0.2, 1);
  for (bool channels_last : {false, true}) {
    HostGpuCounts counts;
    cuda::CudaOptions options;
    options.channels_last = channels_last;
    const auto device = cuda::MakeCudaDevice(MakeHostGpu(&counts), *ProfileDb::Open(""), options);
    auto schedule = device->Compile(graph);
    ASSERT_TRUE(schedule.ok()) << schedule.status().ToString();
    const auto executor = MakeHostile(graph, *std::move(schedule), *device->memory());
    ASSERT_TRUE(executor.ok()) << executor.status().ToString();
    for (uint64_t seed = 0; seed < 20; ++seed) ExpectAgrees(**executor, graph, -1, 1, seed);
    EXPECT_GE(counts.sections, 2 * 20) << "the module, and the shortcut beside the block";
  }
}

}  // namespace
}  // namespace rewright
