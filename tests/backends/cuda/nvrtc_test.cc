// Every kernel that the CUDA device generates compiles for a GPU; none is needed for that.
#include <cstdlib>
#include <map>

#include "absl/strings/str_cat.h"
#include "backends/cuda/cuda_device.h"
#include "backends/cuda/kernel_prelude.h"
#include "backends/cuda/plugin/context.h"
#include "gtest/gtest.h"
#include "tests/backends/random_graph_util.h"
#include "tests/counts.h"

namespace rewright {
namespace {

constexpr int kArchitectures[] = {80, 90};

class NoFunction : public cuda::Function {
 public:
  void Launch(int64_t, int, void* const*, int) const override {}
};
class NoCall : public cuda::LibraryCall {
 public:
  size_t workspace_bytes() const override { return 0; }
  void Run(void* const*) const override {}
};

// Takes down sources and runs nothing.
class Collector : public cuda::Gpu {
 public:
  explicit Collector(std::map<std::string, std::string>* sources) : sources_(*sources) {}
  const cuda::GpuDescription& description() const override { return description_; }
  cuda::Fault Allocate(size_t bytes, void** memory) override {
    *memory = std::malloc(bytes);
    return {};
  }
  void Free(void* memory) override { std::free(memory); }
  cuda::Fault CopyIn(void*, const void*, size_t) override { return {}; }
  cuda::Fault CopyOut(void*, const void*, size_t) override { return {}; }
  cuda::Fault Compile(const std::string&, const std::vector<Source>& sources,
                      std::vector<std::shared_ptr<const cuda::Function>>* functions) override {
    for (const Source& source : sources) {
      EXPECT_EQ(sources_.emplace(source.name, source.text).first->second, source.text);
      functions->push_back(std::make_shared<NoFunction>());
    }
    return {};
  }
  cuda::Fault Plan(const cuda::Problem& problem, std::unique_ptr<cuda::LibraryCall>* call) override {
    // Generated kernels where there is a choice.
    const bool chosen = std::holds_alternative<cuda::PoolProblem>(problem) ||
                        std::holds_alternative<cuda::LayerNormProblem>(problem);
    if (chosen) return "no such library";
    *call = std::make_unique<NoCall>();
    return {};
  }
  void RunLanes(const std::vector<cuda::LaneStep>&, const std::function<void(int)>&) override {}
  cuda::Fault Synchronize() override { return {}; }
  cuda::Fault Time(const std::function<void()>&, double*) override { return "nothing runs"; }
  cuda::Fault Fastest(const std::string&, const std::vector<std::function<void()>>&, int* best) override {
    *best = 0;
    return {};
  }
  cuda::Fault Record(const std::function<void()>&, std::unique_ptr<cuda::Recording>*) override { return "nothing runs"; }

 private:
  std::map<std::string, std::string>& sources_;
  cuda::GpuDescription description_;
};

class Nvrtc : public testing::Test {
 protected:
  Nvrtc() {
    cuda::CudaOptions options;
    options.min_vectorized = 8;
    device_ = cuda::MakeCudaDevice(std::make_unique<Collector>(&sources_), *ProfileDb::Open(""), options);
  }
  void Collect(const Graph& graph) {
    const auto schedule = device_->Compile(graph);
    ASSERT_TRUE(schedule.ok()) << schedule.status().ToString();
  }
  // Many kernels are one program: starting the compiler takes longer than one of them.
  void ExpectAllCompile() {
    constexpr size_t kTogether = 60;
    ASSERT_FALSE(sources_.empty());
    std::string program;
    size_t count = 0;
    for (auto it = sources_.begin(); it != sources_.end();) {
      program += it->second;
      ++it;
      if (++count % kTogether != 0 && it != sources_.end()) continue;
      for (int architecture : kArchitectures) {
        std::string code;
        const cuda::Fault fault = cuda::CompileSource(cuda::kKernelPrelude + program, architecture, &code);
        ASSERT_EQ(fault, "") << program;
        EXPECT_GT(code.size(), 0u);
      }
      program.clear();
    }
  }

  std::map<std::string, std::string> sources_;
  std::unique_ptr<Device> device_;
};

TEST_F(Nvrtc, KernelsOfEveryOperatorCompile) {
  Rng rng(11);
  for (const OpDef* op : AllOps()) {
    for (int i = 0; i < Cases(30); ++i) {
      OpSample sample;
      Collect(RandomApplication(*op, rng, &sample));
    }
  }
  ExpectAllCompile();
}

TEST_F(Nvrtc, KernelsOfRandomGraphsCompile) {
  for (int seed = 0; seed < Cases(200); ++seed) {
    Collect(RandomImageGraph(static_cast<uint64_t>(seed), 4 + seed % 17));
    Collect(RandomMatrixGraph(static_cast<uint64_t>(seed), 4 + seed % 17));
  }
  ExpectAllCompile();
}

TEST(NvrtcErrors, NameWhatIsWrong) {
  std::string code;
  const cuda::Fault fault = cuda::CompileSource("extern \"C\" __global__ void k(float* out) { out[0] = missing; }",
                                                kArchitectures[0], &code);
  EXPECT_NE(fault.find("missing"), std::string::npos) << fault;
}

}  // namespace
}  // namespace rewright
