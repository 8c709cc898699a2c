// A GPU that takes down the sources of kernels and runs nothing.
#pragma once

#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backends/cuda/gpu.h"
#include "gtest/gtest.h"

namespace rewright {

class NoFunction : public cuda::Function {
 public:
  void Launch(int64_t, int, void* const*, int) const override {}
};
class NoCall : public cuda::LibraryCall {
 public:
  size_t workspace_bytes() const override { return 0; }
  void Run(void* const*) const override {}
};

// Sources by the name of their kernel.
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
  cuda::Fault Record(const std::function<void()>&, std::unique_ptr<cuda::Recording>*) override {
    return "nothing runs";
  }

 private:
  std::map<std::string, std::string>& sources_;
  cuda::GpuDescription description_;
};

}  // namespace rewright
