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
  cuda::Fault Launch(int64_t, int, void* const*, int) const override { return {}; }
};
class NoCall : public cuda::LibraryCall {
 public:
  size_t workspace_bytes() const override { return 0; }
  cuda::Fault Run(void* const*) const override { return {}; }
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
    const bool chosen =
        std::holds_alternative<cuda::PoolProblem>(problem) || std::holds_alternative<cuda::LayerNormProblem>(problem);
    if (chosen) return "no such library";
    *call = std::make_unique<NoCall>();
    return {};
  }
  cuda::Fault RunQueues(const std::vector<QueueStep>&, const std::function<cuda::Fault(int)>&) override { return {}; }
  cuda::Fault Synchronize() override { return {}; }
  cuda::Fault Time(const cuda::Enqueue&, double*) override { return "nothing runs"; }
  cuda::Fault Fastest(const std::string&, const std::vector<cuda::Enqueue>&, int* best) override {
    *best = 0;
    return {};
  }
  cuda::Fault Record(const cuda::Enqueue&, std::unique_ptr<cuda::Recording>*) override { return "nothing runs"; }

 private:
  std::map<std::string, std::string>& sources_;
  cuda::GpuDescription description_;
};

}  // namespace rewright
