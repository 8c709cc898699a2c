// cuDNN has engines for the graphs that the plugin builds: it plans them for a GPU that is known by its properties
// alone, up to the machine code. The results of the engines are not checked here.
#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "backends/cuda/lower/lowering.h"
#include "backends/cuda/memory/idle_gpu.h"
#include "backends/cuda/plugin/graph_call.h"
#include "bench/zoo/zoo.h"
#include "core/ops/ops.h"
#include "gtest/gtest.h"

namespace rewright::cuda {
namespace {

// An H200, in the words of cuDNN.
constexpr char kHopper[] = R"({"deviceName": "NVIDIA H200", "deviceVer": 900, "driverVer": 13000, "cudaDeviceId": 0,
"pciDeviceId": 0, "isTccDriver": 0, "supportCoopLaunch": 1, "multiProcessorCount": 132, "warpSize": 32,
"maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64], "maxThreadsPerBlock": 1024,
"maxThreadsPerSM": 2048, "maxCtasPerSM": 32, "regsPerBlock": 65536, "maxRegistersPerSM": 65536,
"maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": 232448, "reservedSharedMemoryPerBlock": 1024,
"totalGlobalMem": 150754820096, "l2CacheSize": 62914560, "smClockRateKHz": 1980000, "memClockRateKHz": 3201000})";

constexpr Precision kPrecisions[] = {Precision::kFp32, Precision::kTf32, Precision::kFp16, Precision::kBf16};

class CudnnGraphs : public testing::Test {
 protected:
  void SetUp() override {
    context_.max_plans = 1;
    // Before cuDNN looks for a driver.
    ASSERT_NE(dlopen(REWRIGHT_DRIVER_STUB, RTLD_NOW | RTLD_GLOBAL), nullptr) << dlerror();
    if (cudnnGetVersion() < 91100) GTEST_SKIP() << "cuDNN plans for absent GPUs from 9.11 on";
    ASSERT_EQ(cudnnBackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &context_.absent_gpu),
              CUDNN_STATUS_SUCCESS);
    ASSERT_EQ(cudnnBackendSetAttribute(context_.absent_gpu, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                                       sizeof kHopper - 1, kHopper),
              CUDNN_STATUS_SUCCESS);
    ASSERT_EQ(cudnnBackendFinalize(context_.absent_gpu), CUDNN_STATUS_SUCCESS);
  }
  void TearDown() override {
    if (context_.absent_gpu != nullptr) cudnnBackendDestroyDescriptor(context_.absent_gpu);
  }

  Context context_;
};

void Strides(const int64_t* sizes, bool channels_last, int64_t channels, int64_t* strides) {
  strides[0] = channels * sizes[2] * sizes[3];
  strides[1] = channels_last ? 1 : sizes[2] * sizes[3];
  strides[2] = channels_last ? channels * sizes[3] : sizes[3];
  strides[3] = channels_last ? channels : 1;
}

TEST_F(CudnnGraphs, HasEnginesForConvolutions) {
  struct Case {
    const char* name;
    int64_t channels, filters, kernel, stride, dilation, groups, whole;  // filters of the concatenation's result
    int64_t pads[4];
  };
  const Case cases[] = {
      {"3x3", 64, 64, 3, 1, 1, 1, 64, {1, 1, 1, 1}},
      {"into a concatenation", 64, 64, 3, 1, 1, 1, 160, {1, 1, 1, 1}},
      {"1x1", 64, 256, 1, 2, 1, 1, 256, {0, 0, 0, 0}},
      {"in groups", 128, 128, 3, 1, 1, 32, 128, {1, 1, 1, 1}},
      {"dilated", 32, 32, 3, 1, 2, 1, 32, {2, 2, 2, 2}},
      {"pads that differ", 32, 64, 3, 2, 1, 1, 64, {0, 0, 1, 1}},
      {"images of 3 channels", 3, 64, 7, 2, 1, 1, 64, {3, 3, 3, 3}},
  };
  for (Precision precision : kPrecisions) {
    for (const Case& c : cases) {
      for (int epilogue = 0; epilogue < 8; ++epilogue) {
        ConvProblem problem;
        problem.precision = precision;
        const int64_t reach = (c.kernel - 1) * c.dilation;
        const int64_t x[] = {2, c.channels, 28, 28}, w[] = {c.filters, c.channels / c.groups, c.kernel, c.kernel};
        const int64_t out[] = {2, c.filters, (28 + c.pads[0] + c.pads[2] - reach - 1) / c.stride + 1,
                               (28 + c.pads[1] + c.pads[3] - reach - 1) / c.stride + 1};
        std::copy(x, x + 4, problem.x);
        std::copy(w, w + 4, problem.w);
        std::copy(out, out + 4, problem.out);
        std::copy(c.pads, c.pads + 4, problem.pads);
        const bool channels_last = precision != Precision::kFp32;
        Strides(x, channels_last, c.channels, problem.x_strides);
        Strides(w, channels_last, w[1], problem.w_strides);
        Strides(out, channels_last, c.whole, problem.out_strides);
        for (int k = 0; k < 2; ++k) problem.strides[k] = c.stride, problem.dilations[k] = c.dilation;
        problem.groups = c.groups;
        problem.bias = (epilogue & 1) != 0;
        problem.residual = (epilogue & 2) != 0;
        problem.relu = (epilogue & 4) != 0;
        // Each epilogue once, and the most frequent ones with every kind of convolution.
        if (&c != cases && epilogue != 0 && epilogue != 5) continue;
        // In 32 bits without rounding there is none without a bias: the lowering asks for none.
        if (precision == Precision::kFp32 && !problem.bias && (problem.residual || problem.relu)) continue;
        std::unique_ptr<LibraryCall> call;
        EXPECT_EQ(PlanCall(context_, problem, &call), "")
            << c.name << " at precision " << static_cast<int>(precision) << ", bias " << problem.bias << ", residual "
            << problem.residual << ", relu " << problem.relu;
      }
    }
  }
}

// Ready-made engines for tensor cores read 8 channels at a time. Images of fewer they copy, with the filters, into
// padded memory of their own in every call; what the lowering has padded they read where it is.
TEST_F(CudnnGraphs, PaddedStemsAreNotCopied) {
  context_.max_plans = SIZE_MAX;
  const auto workspace = [&](Precision precision, int64_t channels) {
    ConvProblem problem{.x = {1, channels, 224, 224}, .w = {64, channels, 7, 7}, .out = {1, 64, 112, 112}};
    Strides(problem.x, true, channels, problem.x_strides);
    Strides(problem.w, true, channels, problem.w_strides);
    Strides(problem.out, true, 64, problem.out_strides);
    problem.precision = precision;
    problem.bias = problem.relu = true;
    for (int64_t& stride : problem.strides) stride = 2;
    for (int64_t& pad : problem.pads) pad = 3;
    std::unique_ptr<LibraryCall> call;
    EXPECT_EQ(PlanCall(context_, problem, &call), "") << channels << " channels";
    return call == nullptr ? -1 : dynamic_cast<const GraphCall&>(*call).largest_workspace();
  };
  for (Precision precision : {Precision::kFp16, Precision::kBf16}) {
    EXPECT_GE(workspace(precision, 3), 224 * 224 * 8 * 2);
    EXPECT_EQ(workspace(precision, 8), 0);
  }
  // In tf32 images of any number of channels are rounded and copied: nothing would be gained, and nothing is padded.
  EXPECT_GE(workspace(Precision::kTf32, 4), 224 * 224 * 4 * 2);
}

// Every convolution of the zoo that has an epilogue can be chosen among several engines, but those that are timed
// against another way: depthwise ones against the convolution alone, relu with a limit against a kernel of its own,
// padded channels against what they are padded from.
TEST_F(CudnnGraphs, FusedConvolutionsOfTheZooHaveFourPlans) {
  // Fewer where factors may not be rounded.
  const auto least = [](Precision precision) { return precision == Precision::kFp32 ? size_t{3} : size_t{4}; };
  context_.max_plans = 4;
  std::map<std::string, ConvProblem> problems;  // each once
  std::set<std::string> models;                 // with such convolutions
  for (const ZooModel& model : ZooModels()) {
    const auto graph = BuildZooModel(model.name);
    ASSERT_TRUE(graph.ok()) << graph.status();
    const auto is_convolution = [&](NodeId id) { return graph->node(id).op == ops::Conv2d(); };
    if (std::none_of(graph->nodes().begin(), graph->nodes().end(), is_convolution)) continue;
    for (Precision precision : {Precision::kFp32, Precision::kTf32, Precision::kBf16}) {
      IdleGpu gpu;
      LoweringOptions options;
      options.precision = precision;
      options.channels_last = precision != Precision::kFp32;
      ASSERT_TRUE(Lowering(gpu, *graph, options).Run().ok());
      for (const Problem& problem : gpu.problems()) {
        const auto* conv = std::get_if<ConvProblem>(&problem);
        if (conv == nullptr || !(conv->bias || conv->residual || conv->relu)) continue;
        if ((conv->groups > 1 && conv->w[1] == 1) || std::isfinite(conv->most)) continue;
        const std::string key =
            KeyOf("", conv->x, conv->x_strides, conv->w, conv->out_strides, conv->strides, conv->pads, conv->bias,
                  conv->residual, conv->relu, static_cast<int64_t>(precision));
        problems.emplace(key, *conv);
        models.insert(model.name);
      }
    }
  }
  EXPECT_EQ(models.size(), 8u);
  EXPECT_GT(problems.size(), 250u);
  const auto padded = [&](const ConvProblem& problem) {
    return std::any_of(problems.begin(), problems.end(), [&](const auto& entry) {
      const ConvProblem& other = entry.second;
      return other.x[1] < problem.x[1] && problem.x[1] - other.x[1] < 8 && problem.x[1] % 8 == 0 &&
             other.precision == problem.precision && std::equal(other.out, other.out + 4, problem.out) &&
             std::equal(other.w + 2, other.w + 4, problem.w + 2);
    });
  };
  for (const auto& [key, problem] : problems) {
    if (padded(problem)) continue;
    std::unique_ptr<LibraryCall> call;
    ASSERT_EQ(PlanCall(context_, problem, &call), "") << key;
    EXPECT_GE(dynamic_cast<const GraphCall&>(*call).num_plans(), least(problem.precision)) << key;
  }
}

// A relu that ends at 6, behind a bias.
TEST_F(CudnnGraphs, HasEnginesForRelusWithALimit) {
  for (Precision precision : kPrecisions) {
    for (const int64_t kernel : {1, 3}) {
      ConvProblem problem{.x = {2, 24, 28, 28}, .w = {144, 24, kernel, kernel}, .out = {2, 144, 28, 28}};
      const bool channels_last = precision != Precision::kFp32;
      Strides(problem.x, channels_last, 24, problem.x_strides);
      Strides(problem.w, channels_last, 24, problem.w_strides);
      Strides(problem.out, channels_last, 144, problem.out_strides);
      for (int64_t& pad : problem.pads) pad = kernel / 2;
      problem.precision = precision;
      problem.bias = problem.relu = true;
      problem.most = 6;
      std::unique_ptr<LibraryCall> call;
      EXPECT_EQ(PlanCall(context_, problem, &call), "") << kernel << " at precision " << static_cast<int>(precision);
    }
  }
}

TEST_F(CudnnGraphs, HasEnginesForAttention) {
  for (Precision precision : {Precision::kFp16, Precision::kBf16}) {
    for (int64_t length : {128, 37}) {
      const int64_t masks[][4] = {{2, 1, 1, length}, {1, 1, length, length}, {2, 12, length, length}};
      for (int mask = -1; mask < 3; ++mask) {
        for (double scale : {0.125}) {
          AttentionProblem problem;
          problem.precision = precision;
          problem.batch = 2;
          problem.heads = 12;
          problem.queries = problem.keys = length;
          problem.depth = problem.value_depth = 64;
          problem.scale = scale;
          // Heads side by side, as one product gives them.
          const int64_t rows[] = {length * 768, 64, 768, 1}, columns[] = {length * 768, 64, 1, 768};
          std::copy(rows, rows + 4, problem.query_strides);
          std::copy(columns, columns + 4, problem.key_strides);
          std::copy(rows, rows + 4, problem.value_strides);
          std::copy(rows, rows + 4, problem.out_strides);
          if (mask >= 0) {
            problem.mask = true;
            int64_t stride = 1;
            for (int k = 3; k >= 0; --k) {
              problem.mask_sizes[k] = masks[mask][k];
              problem.mask_strides[k] = stride;
              stride *= masks[mask][k];
            }
          }
          std::unique_ptr<LibraryCall> call;
          EXPECT_EQ(PlanCall(context_, problem, &call), "") << length << " rows, mask " << mask << ", scale " << scale;
        }
      }
    }
  }
}

TEST_F(CudnnGraphs, HasEnginesForProductsThatEndInGelu) {
  for (Precision precision : {Precision::kTf32, Precision::kFp16, Precision::kBf16}) {
    for (const auto& [rows, residual] : {std::pair<int64_t, bool>{128, false}, {37, true}}) {
      MatmulProblem problem;
      problem.precision = precision;
      problem.m = rows, problem.k = 768, problem.n = 3072;
      problem.left = {768, 1, 0}, problem.right = {3072, 1, 0}, problem.out = {3072, 1, rows * 3072};
      problem.bias = true;
      problem.residual = residual;
      problem.activation = Activation::kGeluErf;
      std::unique_ptr<LibraryCall> call;
      EXPECT_EQ(PlanGraphMatmul(context_, problem, &call), "")
          << rows << " rows at precision " << static_cast<int>(precision) << ", residual " << residual;
    }
  }
}

// Images of odd sizes and few channels, too, channels first and innermost.
TEST_F(CudnnGraphs, HasEnginesForPooling) {
  struct Case {
    int64_t kernel, stride, size, channels;
    int64_t pads[4];
  };
  const Case cases[] = {
      {2, 2, 28, 64, {0, 0, 0, 0}}, {3, 2, 56, 64, {1, 1, 1, 1}},  {3, 1, 35, 192, {1, 1, 1, 1}},
      {3, 2, 27, 63, {0, 0, 1, 1}}, {7, 1, 7, 2048, {0, 0, 0, 0}}, {5, 3, 29, 3, {2, 2, 2, 2}},
      {1, 2, 28, 1, {0, 0, 0, 0}},
  };
  for (Precision precision : kPrecisions) {
    for (const Case& c : cases) {
      for (PoolMode mode : {PoolMode::kMax, PoolMode::kMean, PoolMode::kMeanWithPadding}) {
        for (bool channels_last : {false, true}) {
          // Each mode once in each layout; all other windows in one mode, with the layout that the precision has.
          const bool own_layout = channels_last == (precision != Precision::kFp32);
          if (&c != &cases[1] && (!own_layout || (&c - cases) % 3 != static_cast<int>(mode))) continue;
          PoolProblem problem;
          problem.mode = mode;
          problem.precision = precision;
          const int64_t points = (c.size + c.pads[0] + c.pads[2] - c.kernel) / c.stride + 1;
          const int64_t x[] = {2, c.channels, c.size, c.size}, out[] = {2, c.channels, points, points};
          std::copy(x, x + 4, problem.x);
          std::copy(out, out + 4, problem.out);
          Strides(x, channels_last, c.channels, problem.x_strides);
          Strides(out, channels_last, c.channels, problem.out_strides);
          std::copy(c.pads, c.pads + 4, problem.pads);
          for (int k = 0; k < 2; ++k) problem.kernel[k] = c.kernel, problem.strides[k] = c.stride;
          std::unique_ptr<LibraryCall> call;
          EXPECT_EQ(PlanCall(context_, problem, &call), "")
              << c.kernel << " by " << c.stride << ", mode " << static_cast<int>(mode) << " at precision "
              << static_cast<int>(precision) << ", channels innermost: " << channels_last;
        }
      }
    }
  }
}

TEST_F(CudnnGraphs, HasEnginesForLayerNormalization) {
  for (Precision precision : kPrecisions) {
    for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{128, 768}, {7, 769}, {1, 17}, {2048, 4096}}) {
      std::unique_ptr<LibraryCall> call;
      EXPECT_EQ(PlanCall(context_, LayerNormProblem{rows, columns, 1e-5, precision}, &call), "")
          << rows << " x " << columns << " at precision " << static_cast<int>(precision);
    }
  }
}

}  // namespace
}  // namespace rewright::cuda
