// The shapes of generated kernels: accesses of 16 bytes, tails, tiles.
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "backends/common/group.h"
#include "backends/cuda/codegen/kernel_source.h"
#include "backends/cuda/cuda_device.h"
#include "backends/cuda/lower/lowering.h"
#include "core/ir/text.h"
#include "gmock/gmock.h"
#include "tests/backends/cpu/runner_util.h"
#include "tests/backends/host_gpu_util.h"
#include "tests/support/parsed_graph.h"

namespace rewright {
namespace {

using testing::HasSubstr;
using testing::Not;

// The kernel for all nodes of a graph as one group.
cuda::GeneratedKernel KernelOf(const Graph& graph, cuda::Storage storage = cuda::Storage::kNative, bool aligned = true,
                               const std::function<Layout(const Shape&)>& layout = Layout::RowMajor) {
  cuda::KernelRequest request;
  for (NodeId id : graph.nodes()) {
    if (graph.node(id).op != nullptr) request.nodes.push_back(id);
  }
  request.result = graph.outputs()[0].value;
  request.out = Layout::RowMajor(graph.type(request.result).shape);
  request.out_storage = storage;
  request.layout_of = [&](Value value) { return layout(graph.type(value).shape); };
  request.storage_of = [storage](Value) { return storage; };
  request.out_aligned = aligned;
  request.aligned = [aligned](Value) { return aligned; };
  request.single_constant = [&](Value value) { return SingleConstant(graph, value); };
  auto kernel = cuda::GenerateKernel(graph, request);
  EXPECT_TRUE(kernel.ok()) << kernel.status().ToString();
  return *std::move(kernel);
}

TEST(CudaKernel, ElementwiseMovesSixteenBytes) {
  const Graph graph = GraphOf("input x: f32[512,1024]\n%1 = relu(x)\noutput y = %1\n");
  const auto f32 = KernelOf(graph);
  EXPECT_TRUE(f32.vectorized && !f32.by_rows && !f32.tiled);
  EXPECT_THAT(f32.source, HasSubstr("*(const Vec<float, 4>*)"));
  EXPECT_THAT(f32.source, HasSubstr("*(Vec<float, 4>*)(out"));
  EXPECT_EQ(f32.blocks, 512 * 1024 / 4 / 256);
  const auto bf16 = KernelOf(graph, cuda::Storage::kBf16);
  EXPECT_THAT(bf16.source, HasSubstr("*(const Vec<bf16, 8>*)"));
  EXPECT_THAT(bf16.source, HasSubstr("*(Vec<bf16, 8>*)(out"));
  EXPECT_THAT(KernelOf(graph, cuda::Storage::kNative, /*aligned=*/false).source, Not(HasSubstr("Vec<")));
}

TEST(CudaKernel, RowsMoveSixteenBytes) {
  for (const char* op : {"softmax(x, axis=1)", "log_softmax(x, axis=1)", "reduce_sum(x, axes=[1])"}) {
    const auto kernel = KernelOf(GraphOf(absl::StrCat("input x: f32[64,768]\n%1 = ", op, "\noutput y = %1\n")));
    EXPECT_TRUE(kernel.by_rows && kernel.vectorized) << op;
    EXPECT_THAT(kernel.source, HasSubstr("*(const Vec<float, 4>*)")) << op;
  }
  const auto half =
      KernelOf(GraphOf("input x: f32[64,768]\n%1 = softmax(x, axis=1)\noutput y = %1\n"), cuda::Storage::kFp16);
  EXPECT_THAT(half.source, HasSubstr("*(Vec<fp16, 8>*)(out"));
  // Rows that begin anywhere: elements one by one.
  const auto odd = KernelOf(GraphOf("input x: f32[64,767]\n%1 = softmax(x, axis=1)\noutput y = %1\n"));
  EXPECT_TRUE(odd.by_rows);
  EXPECT_THAT(odd.source, Not(HasSubstr("Vec<float")));
}

TEST(CudaKernel, TransposesPassThroughSharedMemory) {
  const auto plain = KernelOf(GraphOf("input x: f32[500,300]\n%1 = transpose(x, perm=[1,0])\noutput y = %1\n"));
  EXPECT_TRUE(plain.tiled);
  EXPECT_THAT(plain.source, HasSubstr("__shared__ float tile0[32][33]"));
  EXPECT_EQ(plain.blocks, 10 * 16);
  // Inside of a computation, beside an operand that runs the other way.
  const auto mixed = KernelOf(GraphOf(R"(
input x: f32[8,64,96]
input z: f32[8,96,64]
%1 = transpose(x, perm=[0,2,1])
%2 = add(%1, z)
%3 = relu(%2)
output y = %3
)"),
                              cuda::Storage::kBf16);
  EXPECT_TRUE(mixed.tiled);
  EXPECT_THAT(mixed.source, HasSubstr("__shared__ bf16 tile0[32][33]"));
  EXPECT_THAT(mixed.source, Not(HasSubstr("tile1")));
  EXPECT_EQ(mixed.blocks, 8 * 2 * 3);
  // Axes that stay innermost need none.
  const auto rows = KernelOf(GraphOf("input x: f32[50,30,128]\n%1 = transpose(x, perm=[1,0,2])\noutput y = %1\n"));
  EXPECT_FALSE(rows.tiled);
}

// As many tiles as 48 KB hold: 5 of 8-byte elements, 11 of 4-byte ones.
TEST(CudaKernel, TilesFitSharedMemory) {
  const auto tiles = [](const char* type, int count) {
    std::string text, sum = "%0";
    for (int i = 0; i < count; ++i) absl::StrAppend(&text, "input x", i, ": ", type, "[128,160]\n");
    for (int i = 0; i < count; ++i) {
      absl::StrAppend(&text, "%", 2 * i, " = transpose(x", i, ", perm=[1,0])\n");
      if (i == 0) continue;
      absl::StrAppend(&text, "%", 2 * i + 1, " = add(", sum, ", %", 2 * i, ")\n");
      sum = absl::StrCat("%", 2 * i + 1);
    }
    const std::string source = KernelOf(GraphOf(text + "output y = " + sum + "\n")).source;
    int found = 0;
    for (size_t at = source.find("__shared__"); at != std::string::npos; at = source.find("__shared__", at + 1))
      ++found;
    return found;
  };
  EXPECT_EQ(tiles("f64", 7), 5);
  EXPECT_EQ(tiles("f32", 7), 7);
  EXPECT_EQ(tiles("f32", 13), 11);
}

// Where neighbours of the result read neighbours and the terms lie far apart, a block takes neighbouring sums: means
// over images with channels innermost.
TEST(CudaKernel, SumsOverOuterAxesAreReadByNeighbours) {
  const auto innermost = [](int64_t channels, int64_t points) {
    return GraphOf(absl::StrCat("input x: f32[2,", channels, ",", points, ",7]\n",
                                "%1 = reduce_mean(x, axes=[2,3])\noutput y = %1\n"));
  };
  const auto kernel = [](const Graph& graph, bool channels_last) {
    return KernelOf(graph, cuda::Storage::kBf16, true, [&](const Shape& dims) {
      return channels_last && dims.size() == 4 ? Layout::ChannelsLast(dims) : Layout::RowMajor(dims);
    });
  };
  EXPECT_FALSE(kernel(innermost(2048, 7), false).by_columns);
  const auto wide = kernel(innermost(2048, 7), true), narrow = kernel(innermost(100, 70), true);
  EXPECT_TRUE(wide.by_columns && !wide.by_rows);
  EXPECT_EQ(wide.blocks, 2 * 2048 / 32);
  EXPECT_EQ(wide.threads, 9 * 32);  // 6 rounds for 49 terms
  EXPECT_EQ(narrow.blocks, 2 * 7);  // 16 channels each: few blocks would leave most of a GPU idle
  EXPECT_EQ(narrow.threads, 512);
  EXPECT_FALSE(kernel(innermost(8, 70), true).by_columns) << "neighbours are too few";
  // A product without a library: the rows of the second factor are neighbours.
  EXPECT_TRUE(
      KernelOf(GraphOf("input x: f32[3,80]\ninput z: f32[80,50]\n%1 = matmul(x, z)\noutput y = %1\n")).by_columns);
}

// As few rounds as there are, as few threads as have them: none of 96 is idle over 768 elements by eights.
TEST(CudaKernel, RowsHaveThreadsForAllOfThem) {
  const auto threads = [](int columns, cuda::Storage storage) {
    return KernelOf(GraphOf(absl::StrCat("input x: f32[64,", columns, "]\n%1 = softmax(x, axis=1)\noutput y = %1\n")),
                    storage)
        .threads;
  };
  EXPECT_EQ(threads(768, cuda::Storage::kBf16), 96);
  EXPECT_EQ(threads(768, cuda::Storage::kNative), 192);
  EXPECT_EQ(threads(1024, cuda::Storage::kBf16), 128);
  EXPECT_EQ(threads(33, cuda::Storage::kNative), 32);
  EXPECT_EQ(threads(4096, cuda::Storage::kBf16), 512);
  EXPECT_EQ(threads(4608, cuda::Storage::kBf16), 288);  // two rounds of 288 threads, not of 512 and 64
}

TEST(CudaKernel, SmallPowersAreProducts) {
  const auto power = [](const char* exponent) {
    return GraphOf(
        absl::StrCat("input x: f32[70,33]\nconst %0: f32[] = [", exponent, "]\n%1 = pow(x, %0)\noutput y = %1\n"));
  };
  const auto device = cuda::MakeCudaDevice(MakeHostGpu(nullptr, {}), *ProfileDb::Open(""), {});
  for (const char* exponent : {"2", "3", "4"}) {
    EXPECT_THAT(KernelOf(power(exponent)).source, Not(HasSubstr("op_pow("))) << exponent;
    auto schedule = device->Compile(power(exponent));
    ASSERT_TRUE(schedule.ok()) << schedule.status();
    ExpectAgrees(*std::move(schedule), power(exponent), -3, 3, 1);
  }
  for (const char* exponent : {"0", "1", "2.5", "5", "-2"})
    EXPECT_THAT(KernelOf(power(exponent)).source, HasSubstr("op_pow("));
}

TEST(CudaKernel, SixteenBitsAreStoredInPairs) {
  const Graph graph = GraphOf("input x: f32[512,1024]\n%1 = relu(x)\noutput y = %1\n");
  for (cuda::Storage storage : {cuda::Storage::kBf16, cuda::Storage::kFp16}) {
    EXPECT_THAT(KernelOf(graph, storage).source, HasSubstr("store_pair("));
  }
  EXPECT_THAT(KernelOf(graph).source, Not(HasSubstr("store_pair(")));
}

// Sizes that are no multiples of anything: every tail is run.
TEST(CudaKernel, TailsAgreeWithTheInterpreter) {
  const char* bodies[] = {
      "%1 = softmax(x, axis=2)",
      "%1 = log_softmax(x, axis=1)",
      "%0 = transpose(x, perm=[0,2,1])\n%1 = exp(%0)",
      "%0 = transpose(x, perm=[2,1,0])\n%2 = mul(%0, %0)\n%1 = sigmoid(%2)",
      "%0 = reduce_mean(x, axes=[1,2])\n%2 = sub(x, %0)\n%1 = relu(%2)",
      "%1 = reduce_max(x, axes=[0,2])",
      "%0 = slice(x, starts=[0,1,0], stops=[1,5,4])\n%1 = tanh(%0)",
  };
  for (cuda::Precision precision : {cuda::Precision::kFp32, cuda::Precision::kBf16}) {
    cuda::CudaOptions options;
    options.precision = precision;
    options.min_vectorized = 16;
    auto profile = ProfileDb::Open("");
    ASSERT_TRUE(profile.ok());
    const auto device = cuda::MakeCudaDevice(MakeHostGpu(), *std::move(profile), options);
    std::vector<std::pair<Graph, Schedule>> compiled;  // before the first run, so that kernels are built together
    for (const char* shape : {"1,5,4", "2,35,37", "3,33,72", "2,64,32", "1,130,260"}) {
      for (const char* body : bodies) {
        const Graph graph = GraphOf(absl::StrCat("input x: f32[", shape, "]\n", body, "\noutput y = %1\n"));
        auto schedule = device->Compile(graph);
        ASSERT_TRUE(schedule.ok()) << schedule.status().ToString();
        compiled.emplace_back(graph, *std::move(schedule));
      }
    }
    for (auto& [graph, schedule] : compiled) {
      SCOPED_TRACE(PrintGraph(graph));
      ExpectAgrees(std::move(schedule), graph, -2, 2, 5, precision == cuda::Precision::kFp32 ? 1e-5 : 3e-2);
    }
  }
}

}  // namespace
}  // namespace rewright
