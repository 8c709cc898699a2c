// Random graphs of the operators that fuse, share memory and change layouts, on the CPU device against the reference
// interpreter. The seed of a failure is printed with its graph.
#include "absl/strings/str_cat.h"
#include "backends/device_factory.h"
#include "core/ir/text.h"
#include "gtest/gtest.h"
#include "tests/backends/cpu/runner_util.h"
#include "tests/backends/random_graph_util.h"

namespace rewright {
namespace {

constexpr uint64_t kGraphs = 150;

void ExpectAllAgree(Graph (*grow)(uint64_t, int)) {
  auto device = MakeDevice("cpu", {2});
  ASSERT_TRUE(device.ok());
  for (uint64_t seed = 0; seed < kGraphs; ++seed) {
    const Graph graph = grow(seed, static_cast<int>(4 + seed % 17));
    SCOPED_TRACE(absl::StrCat("seed ", seed, "\n", PrintGraph(graph)));
    ExpectAgrees(**device, graph, -1, 1, seed);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(RandomGraphs, ImagesAgreeWithTheInterpreter) { ExpectAllAgree(RandomImageGraph); }
TEST(RandomGraphs, MatricesAgreeWithTheInterpreter) { ExpectAllAgree(RandomMatrixGraph); }

}  // namespace
}  // namespace rewright
