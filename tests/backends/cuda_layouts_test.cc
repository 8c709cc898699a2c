// Where operands and results of libraries lie: as they are, where that is no worse for the library.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "backends/cuda/cuda_device.h"
#include "backends/cuda/lower/lowering.h"
#include "backends/cuda/memory/idle_gpu.h"
#include "core/ir/text.h"
#include "gmock/gmock.h"
#include "tests/backends/cpu/runner_util.h"
#include "tests/backends/host_gpu_util.h"

namespace rewright {
namespace {

using testing::ElementsAre;

// The labels of the steps, which agree with the interpreter.
std::vector<std::string> Steps(const std::string& text, cuda::CudaOptions options, const HostGpuOptions& gpu = {}) {
  SCOPED_TRACE(text);
  const Graph graph = GraphWithWeights(text, -1, 1, 1);
  const auto device = HostDevice(options, nullptr, gpu);
  auto schedule = device->Compile(graph);
  EXPECT_TRUE(schedule.ok()) << schedule.status();
  if (!schedule.ok()) return {};
  std::vector<std::string> labels = LabelsOf(*schedule);
  ExpectAgrees(*std::move(schedule), graph, -1, 1, 1, IsHalf(options.precision) ? 4e-2 : 1e-5);
  return labels;
}

// A head: columns of 16 numbers, rows of 37, which begin at no multiple of 16 bytes. The result is of 32 bits.
TEST(CudaLayouts, ALanguageHeadIsOneCall) {
  const char* head = R"(
input x: f32[3,16]
state w: f32[37,16]
%1 = transpose(w, perm=[1,0])
%2 = matmul(x, %1)
output y = %2
)";
  const char* with_bias = R"(
input x: f32[3,16]
state w: f32[16,37]
state b: f32[37]
%1 = matmul(x, w)
%2 = add(%1, b)
output y = %2
)";
  for (cuda::Precision precision : {cuda::Precision::kBf16, cuda::Precision::kFp16}) {
    EXPECT_THAT(Steps(head, {.precision = precision}), ElementsAre("reorder", "matmul"));  // the input alone
    EXPECT_THAT(Steps(with_bias, {.precision = precision}), ElementsAre("reorder", "matmul+add"));
  }
  EXPECT_THAT(Steps(head, {.precision = cuda::Precision::kTf32}), ElementsAre("matmul"));
}

// However the weight is given, the library reads its columns, each of which begins at a multiple of 16 bytes.
TEST(CudaLayouts, WeightsWithOddRowsLieByColumns) {
  const auto right_of = [](const std::string& text) {
    const Graph graph = GraphWithWeights(text, -1, 1, 1);
    cuda::IdleGpu gpu;
    cuda::LoweringOptions options;
    options.precision = cuda::Precision::kBf16;
    EXPECT_TRUE(cuda::Lowering(gpu, graph, options).Run().ok());
    return std::get<cuda::MatmulProblem>(gpu.problems().at(0)).right;
  };
  const auto product = [](const std::string& shape) {
    return "input x: f32[3,16]\nstate w: f32" + shape + "\n%1 = matmul(x, w)\noutput y = %1\n";
  };
  const cuda::MatrixLayout odd = right_of(product("[16,37]"));
  EXPECT_EQ(odd.row, 1);
  EXPECT_EQ(odd.column, 16);
  const cuda::MatrixLayout even = right_of(product("[16,40]"));
  EXPECT_EQ(even.row, 40);
  EXPECT_EQ(even.column, 1);
}

// Halves of a merged convolution are read where they lie, if their pixels begin at multiples of 16 bytes.
std::string Halves(int64_t channels) {
  return absl::StrCat(R"(
input x: f32[2,8,5,6]
state a: f32[)",
                      2 * channels, R"(,8,1,1]
state b: f32[8,)",
                      channels, R"(,3,3]
state c: f32[8,)",
                      channels, R"(,1,1]
%1 = conv2d(x, a)
%2.0, %2.1 = split(%1, axis=1, sizes=[)",
                      channels, ",", channels, R"(])
%3 = conv2d(%2.0, b, pads=[1,1,1,1])
%4 = conv2d(%2.1, c)
%5 = add(%3, %4)
%6 = sigmoid(%5)
output y = %6
)");
}

TEST(CudaLayouts, ChannelSlicesAreReadByConvolutions) {
  const cuda::CudaOptions options = {.precision = cuda::Precision::kTf32, .channels_last = true};
  // The image is brought into the layout of convolutions, and the result back.
  const std::vector<std::string> whole = Steps(Halves(8), options), odd = Steps(Halves(7), options);
  EXPECT_EQ(std::count(whole.begin(), whole.end(), "reorder") + 2, std::count(odd.begin(), odd.end(), "reorder"));
}

// Attention in parts: queries, keys and values of `sequences` as a projection writes them, heads side by side.
std::string HeadsOf(int sequences) {
  return absl::StrReplaceAll(R"(
input x: f32[2,5,24]
state a: f32[24,24]
state b: f32[24,24]
state c: f32[24,24]
state d: f32[24,24]
%1 = matmul(x, a)
%2 = matmul(x, b)
%3 = matmul(x, c)
%4 = reshape(%1, shape=[2,5,3,8])
%5 = reshape(%2, shape=[2,5,3,8])
%6 = reshape(%3, shape=[2,5,3,8])
%7 = transpose(%4, perm=[0,2,1,3])
%8 = transpose(%5, perm=[0,2,3,1])
%9 = transpose(%6, perm=[0,2,1,3])
%10 = matmul(%7, %8)
%11 = softmax(%10, axis=3)
%12 = matmul(%11, %9)
%13 = transpose(%12, perm=[0,2,1,3])
%14 = reshape(%13, shape=[2,5,24])
%15 = matmul(%14, d)
output y = %15
)",
                             {{"[2,", absl::StrCat("[", sequences, ",")}});
}

// Two sequences of heads that lie side by side: products read and write them there, or copies are made.
TEST(CudaLayouts, HeadsOfSeveralSequencesAreMultipliedWhereTheyLie) {
  const std::string text = HeadsOf(2);
  for (cuda::Precision precision : {cuda::Precision::kFp32, cuda::Precision::kTf32}) {
    EXPECT_THAT(Steps(text, {.precision = precision}, {.first_ways = true}),
                ElementsAre("matmul", "matmul", "matmul", "matmul", "softmax", "matmul", "matmul"));
    const std::vector<std::string> copied = Steps(text, {.precision = precision});
    EXPECT_EQ(std::count(copied.begin(), copied.end(), "reorder"), 4) << testing::PrintToString(copied);
  }
}

// For one sequence, the product with the values writes heads side by side again, as the projection behind it reads
// them.
TEST(CudaLayouts, HeadsOfOneSequenceAreWrittenWhereTheyAreRead) {
  for (cuda::Precision precision : {cuda::Precision::kFp32, cuda::Precision::kTf32}) {
    EXPECT_THAT(Steps(HeadsOf(1), {.precision = precision}),
                ElementsAre("matmul", "matmul", "matmul", "matmul", "softmax", "matmul", "matmul"));
  }
  // The cost of the transpose behind it is that of a view.
  const Graph graph = GraphWithWeights(HeadsOf(1), -1, 1, 1);
  const auto device = HostDevice();
  int views = 0;
  for (const Group& group : device->Partition(graph)) {
    const auto cost = device->Cost(graph, group);
    ASSERT_TRUE(cost.ok()) << cost.status();
    views += *cost == 0 ? 1 : 0;
  }
  EXPECT_EQ(views, 8) << "of reshapes and transposes";
}

// Sums over an image with channels innermost: one, and two in turn (a variance), of odd numbers of channels, so that
// the last block has few, with what follows them.
TEST(CudaLayouts, SumsOverImagesAgree) {
  for (const auto& [channels, points] : {std::pair(37, "8,9"), {2051, "7,7"}, {16, "1,50"}}) {
    const std::string text = absl::StrCat("input x: f32[2,8,", points, "]\nstate w: f32[", channels, R"(,8,1,1]
%1 = conv2d(x, w)
%2 = reduce_mean(%1, axes=[2,3], keepdims=1)
%3 = sub(%1, %2)
%4 = mul(%3, %3)
%5 = reduce_sum(%4, axes=[2,3])
%6 = sqrt(%5)
%7 = reduce_max(%1, axes=[2,3])
%8 = add(%7, %6)
%9 = argmax(%1, axis=3)
output y = %8
output z = %9
)");
    for (cuda::Precision precision : {cuda::Precision::kFp32, cuda::Precision::kTf32}) {
      EXPECT_FALSE(Steps(text, {.precision = precision, .channels_last = true}).empty());
    }
  }
}

// In 16 bits images of 3 channels are padded where they are converted anyway, filters once; so are 5 channels in the
// middle of a graph.
TEST(CudaLayouts, ImagesOfOddChannelsArePadded) {
  const std::string text = R"(
input x: f32[2,3,9,11]
state a: f32[5,3,3,3]
state b: f32[6,5,3,2]
%1 = conv2d(x, a, strides=[2,2], pads=[1,1,1,1])
%2 = relu(%1)
%3 = conv2d(%2, b, pads=[0,1,1,0])
output y = %3
output z = %2
)";
  cuda::CudaOptions options = {.channels_last = true, .min_vectorized = 8};
  const auto channels = [&] {
    const Graph graph = GraphWithWeights(text, -1, 1, 1);
    cuda::IdleGpu gpu;
    EXPECT_TRUE(cuda::Lowering(gpu, graph, {{.precision = options.precision, .channels_last = true}}).Run().ok());
    std::vector<int64_t> found;
    for (const cuda::Problem& problem : gpu.problems()) {
      const auto& conv = std::get<cuda::ConvProblem>(problem);
      EXPECT_EQ(conv.x[1], conv.w[1]);
      found.push_back(conv.x[1]);
    }
    return found;
  };
  options.precision = cuda::Precision::kTf32;
  EXPECT_THAT(channels(), ElementsAre(3, 5));
  EXPECT_THAT(Steps(text, options), ElementsAre("reorder", "conv2d+relu", "conv2d", "reorder", "reorder"));
  for (cuda::Precision precision : {cuda::Precision::kFp16, cuda::Precision::kBf16}) {
    options.precision = precision;
    // Both ways are tried, and one of them is taken; here it is the first, in Steps the second.
    EXPECT_THAT(channels(), ElementsAre(3, 8, 3, 5, 8, 5));
    EXPECT_THAT(Steps(text, options), ElementsAre("reorder", "conv2d+relu", "reorder", "conv2d", "reorder", "reorder"));
  }
}

}  // namespace
}  // namespace rewright
