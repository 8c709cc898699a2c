#include "tests/backends/host_gpu_util.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "backends/common/layout.h"
#include "core/base/check.h"
#include "core/ir/text.h"
#include "gtest/gtest.h"
#include "tests/backends/cpu/runner_util.h"
#include "tests/backends/host_calls_util.h"
#include "tests/backends/host_kernels_util.h"
#include "tests/backends/random_graph_util.h"

namespace rewright {
namespace {

class HostGpu;

class HostFunction : public cuda::Function {
 public:
  HostFunction(HostGpu& gpu, std::string name) : gpu_(gpu), name_(std::move(name)) {}
  cuda::Fault Launch(int64_t blocks, int threads, void* const* pointers, int count) const override;

 private:
  HostGpu& gpu_;
  const std::string name_;
};

class HostRecording : public cuda::Recording {
 public:
  explicit HostRecording(cuda::Enqueue work) : work_(std::move(work)) {}
  cuda::Fault Run() const override { return work_(); }

 private:
  const cuda::Enqueue work_;
};

class HostGpu : public cuda::Gpu {
 public:
  HostGpu(HostGpuCounts* counts, const HostGpuOptions& options)
      : counts_(counts != nullptr ? *counts : own_counts_), options_(options) {
    description_ = {"processor", "host", 0, 1 << 14};
  }

  const cuda::GpuDescription& description() const override { return description_; }
  cuda::Fault Allocate(size_t bytes, void** memory) override {
    const size_t rounded = (bytes + 255) / 256 * 256;
    if (static_cast<int64_t>(rounded) > options_.memory - used_) {
      return absl::StrCat(bytes, " bytes asked for, ", options_.memory - used_, " of ", options_.memory,
                          " free: out of memory");
    }
    *memory = std::aligned_alloc(256, rounded);
    CHECK(*memory != nullptr) << rounded;
    used_ += static_cast<int64_t>(sizes_[*memory] = rounded);
    counts_.peak_bytes = std::max(counts_.peak_bytes, used_);
    return {};
  }
  void Free(void* memory) override {
    used_ -= static_cast<int64_t>(sizes_[memory]);
    sizes_.erase(memory);
    std::free(memory);
  }
  cuda::Fault CopyIn(void* to, const void* from, size_t bytes) override {
    if (bytes > 0) std::memcpy(to, from, bytes);
    return {};
  }
  cuda::Fault CopyOut(void* to, const void* from, size_t bytes) override { return CopyIn(to, from, bytes); }

  cuda::Fault Compile(const std::string& prelude, const std::vector<Source>& sources,
                      std::vector<std::shared_ptr<const cuda::Function>>* functions) override {
    for (const Source& source : sources) {
      kernels_.Add(prelude, source.name, source.text);
      functions->push_back(std::make_shared<HostFunction>(*this, source.name));
    }
    return {};
  }
  cuda::Fault Plan(const cuda::Problem& problem, std::unique_ptr<cuda::LibraryCall>* call) override {
    const bool attention = std::holds_alternative<cuda::AttentionProblem>(problem);
    if (attention ? options_.no_attention : options_.no_products) return "there is no such library here";
    if (const auto* conv = std::get_if<cuda::ConvProblem>(&problem); conv != nullptr) {
      const Layout out{Shape(conv->out, conv->out + 4), std::vector<int64_t>(conv->out_strides, conv->out_strides + 4),
                       0};
      if (options_.no_epilogues && (conv->residual || (conv->relu && !conv->bias))) return "no such engine";
      if (options_.no_gaps && !out.IsDense()) return "no engine leaves gaps between rows";
    }
    *call = MakeHostCall(problem, counts_);
    return {};
  }
  // In any order that the queues allow.
  cuda::Fault RunQueues(const std::vector<QueueStep>& steps, const std::function<cuda::Fault(int)>& enqueue) override {
    ++counts_.sections;
    std::vector<bool> done(steps.size(), false);
    for (size_t left = steps.size(); left > 0; --left) {
      std::vector<int> ready;
      std::set<int> begun;  // queues on which something is left
      for (size_t i = 0; i < steps.size(); ++i) {
        if (done[i] || !begun.insert(steps[i].queue).second) continue;
        const bool waits =
            std::any_of(steps[i].after.begin(), steps[i].after.end(), [&](int before) { return !done[before]; });
        if (!waits) ready.push_back(static_cast<int>(i));
      }
      CHECK(!ready.empty()) << "steps wait for one another";
      const int next = ready[random_() % ready.size()];
      if (cuda::Fault fault = enqueue(next); !fault.empty()) return fault;
      done[next] = true;
    }
    return {};
  }
  cuda::Fault Synchronize() override { return {}; }
  cuda::Fault Time(const cuda::Enqueue& work, double* seconds) override {
    const auto start = std::chrono::steady_clock::now();
    cuda::Fault fault = work();
    *seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return fault;
  }
  // A generated kernel stands first, the call of a library last; in order, then side by side. The first is compiled and
  // run only where it is to be tried.
  cuda::Fault Fastest(const std::string&, const std::vector<cuda::Enqueue>& ways, int* best) override {
    if (options_.first_ways) {
      for (const cuda::Enqueue& way : ways) {
        if (cuda::Fault fault = way(); !fault.empty()) return fault;
      }
      *best = 0;
    } else {
      *best = static_cast<int>(ways.size()) - 1;
    }
    return {};
  }
  cuda::Fault Record(const cuda::Enqueue& work, std::unique_ptr<cuda::Recording>* recording) override {
    *recording = std::make_unique<HostRecording>(work);
    return {};
  }

  cuda::Fault Launch(const std::string& name, int64_t blocks, int threads, void* const* pointers) {
    if (counts_.launches++ == options_.fault_at) return "a launch was refused";
    kernels_.Launch(name, blocks, threads, pointers);
    counts_.kernels = kernels_.compiled();
    return {};
  }

 private:
  HostGpuCounts own_counts_;
  HostGpuCounts& counts_;
  const HostGpuOptions options_;
  int64_t used_ = 0;
  std::map<void*, size_t> sizes_;  // of live allocations
  cuda::GpuDescription description_;
  std::minstd_rand random_;
  HostKernels kernels_;
};

cuda::Fault HostFunction::Launch(int64_t blocks, int threads, void* const* pointers, int) const {
  return gpu_.Launch(name_, blocks, threads, pointers);
}

}  // namespace

std::unique_ptr<cuda::Gpu> MakeHostGpu(HostGpuCounts* counts, const HostGpuOptions& options) {
  return std::make_unique<HostGpu>(counts, options);
}

std::unique_ptr<Device> HostDevice(cuda::CudaOptions options, HostGpuCounts* counts, const HostGpuOptions& lacks) {
  options.min_vectorized = 8;
  auto profile = ProfileDb::Open("");
  CHECK(profile.ok()) << profile.status();
  return cuda::MakeCudaDevice(MakeHostGpu(counts, lacks), *std::move(profile), options);
}

std::vector<std::string> LabelsOf(const Schedule& schedule) {
  std::vector<std::string> labels;
  for (const Step& step : schedule.steps) labels.push_back(step.label);
  return labels;
}

void ExpectAllAgree(Device& device, std::vector<GraphCase> cases, double tolerance) {
  for (GraphCase& c : cases) {
    auto schedule = device.Compile(c.graph);
    ASSERT_TRUE(schedule.ok()) << c.name << ": " << schedule.status().ToString();
    c.schedule = *std::move(schedule);
  }
  for (size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(absl::StrCat(cases[i].name, "\n", PrintGraph(cases[i].graph)));
    ExpectAgrees(std::move(cases[i].schedule), cases[i].graph, cases[i].low, cases[i].high, i, tolerance);
    if (testing::Test::HasFailure()) return;
  }
}

std::vector<GraphCase> RandomGraphs(int count) {
  std::vector<GraphCase> cases;
  for (int seed = 0; seed < count; ++seed) {
    const uint64_t number = static_cast<uint64_t>(seed);
    cases.push_back({absl::StrCat("images ", seed), RandomImageGraph(number, 4 + seed % 17), {}, -1, 1});
    cases.push_back({absl::StrCat("matrices ", seed), RandomMatrixGraph(number, 4 + seed % 17), {}, -1, 1});
  }
  return cases;
}

}  // namespace rewright
