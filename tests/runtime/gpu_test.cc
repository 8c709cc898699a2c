// The CUDA device on a GPU, against the reference interpreter. Skipped where there is none.
#include <ostream>

#include "absl/strings/str_cat.h"
#include "backends/device_factory.h"
#include "core/text.h"
#include "gtest/gtest.h"
#include "runtime/executor.h"
#include "tests/backends/cpu_runner_util.h"
#include "tests/backends/random_graph_util.h"
#include "tests/counts.h"

namespace rewright {
namespace {

struct PrecisionCase {
  std::string name;
  double tolerance;  // for the largest element: products of rounded factors, or values rounded at every kernel
};
void PrintTo(const PrecisionCase& precision, std::ostream* out) { *out << precision.name; }

class Gpu : public testing::TestWithParam<PrecisionCase> {
 protected:
  void SetUp() override {
    DeviceOptions options;
    options.precision = GetParam().name;
    auto device = MakeDevice("cuda:0", options);
    if (absl::IsNotFound(device.status())) GTEST_SKIP() << device.status().message();
    ASSERT_TRUE(device.ok()) << device.status().ToString();
    device_ = *std::move(device);
    runner_ = MakeGraphRunner(*device_);
  }

  void ExpectRuns(const Graph& graph, double low, double high, uint64_t seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed, "\n", PrintGraph(graph)));
    auto executable = runner_->Prepare(graph);
    ASSERT_TRUE(executable.ok()) << executable.status().ToString();
    const auto run = [&](const std::vector<Tensor>& inputs) -> absl::StatusOr<std::vector<Tensor>> {
      std::vector<Tensor> outputs;
      absl::Status status = (*executable)->Run(inputs, &outputs);
      if (status.ok()) status = (*executable)->RunAgain(inputs, &outputs);  // the recorded graph, once more
      if (status.ok()) status = (*executable)->Run(inputs, &outputs);
      if (!status.ok()) return status;
      return outputs;
    };
    ExpectAgrees(run, graph, low, high, seed, GetParam().tolerance);
  }

  std::unique_ptr<Device> device_;
  std::unique_ptr<GraphRunner> runner_;
};

TEST_P(Gpu, EveryOperatorAgreesWithTheInterpreter) {
  Rng rng(7);
  for (const OpDef* op : AllOps()) {
    for (int i = 0; i < Cases(40); ++i) {
      OpSample sample;
      const Graph graph = RandomApplication(*op, rng, &sample);
      ExpectRuns(graph, sample.low, sample.high, static_cast<uint64_t>(i));
      if (HasFailure()) return;
    }
  }
}

TEST_P(Gpu, RandomGraphsAgreeWithTheInterpreter) {
  for (int seed = 0; seed < Cases(200); ++seed) {
    ExpectRuns(RandomImageGraph(static_cast<uint64_t>(seed), 4 + seed % 17), -1, 1, static_cast<uint64_t>(seed));
    ExpectRuns(RandomMatrixGraph(static_cast<uint64_t>(seed), 4 + seed % 17), -1, 1, static_cast<uint64_t>(seed));
    if (HasFailure()) return;
  }
}

// Sizes of which every thread takes several elements, rows of whole and broken vectors, tiles.
TEST_P(Gpu, LargeKernelsAgree) {
  const char* bodies[] = {
      "%1 = softmax(x, axis=2)",
      "%0 = transpose(x, perm=[0,2,1])\n%1 = exp(%0)",
      "%0 = reduce_mean(x, axes=[2])\n%2 = sub(x, %0)\n%1 = relu(%2)",
      "%0 = transpose(x, perm=[0,2,1])\n%1 = matmul(x, %0)",
  };
  for (const char* shape : {"4,256,512", "3,257,515"}) {
    for (const char* body : bodies) {
      const auto graph = ParseGraph(absl::StrCat("input x: f32[", shape, "]\n", body, "\noutput y = %1\n"));
      ASSERT_TRUE(graph.ok()) << graph.status().ToString();
      ExpectRuns(*graph, -2, 2, 3);
    }
  }
}

// Sums as products of 64 to 512 factors have them; attention as one call in 16 bits.
TEST_P(Gpu, AttentionAgrees) {
  const auto graph = ParseGraph(R"(
input q: f32[2,12,128,64]
input k: f32[2,12,64,128]
input v: f32[2,12,128,64]
input m: f32[2,1,1,128]
const %0: f32[] = [8]
%1 = matmul(q, k)
%2 = div(%1, %0)
%3 = add(%2, m)
%4 = softmax(%3, axis=3)
%5 = matmul(%4, v)
%6 = transpose(%5, perm=[0,2,1,3])
%7 = reshape(%6, shape=[2,128,768])
output y = %7
)");
  ASSERT_TRUE(graph.ok()) << graph.status().ToString();
  ExpectRuns(*graph, -1, 1, 1);
}

INSTANTIATE_TEST_SUITE_P(Precisions, Gpu,
                         testing::Values(PrecisionCase{"fp32", 1e-5}, PrecisionCase{"tf32", 4e-3},
                                         PrecisionCase{"fp16", 6e-3}, PrecisionCase{"bf16", 4e-2}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace rewright
