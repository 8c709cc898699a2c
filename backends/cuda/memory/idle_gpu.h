// A GPU that runs nothing and takes down what it is asked for: for counting the steps of a schedule, and for compiling
// kernels and planning calls without a GPU.
#pragma once

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "backends/cuda/gpu.h"

namespace rewright::cuda {

// Libraries take every product, convolution and attention; where there is a choice the first way is taken: one call
// instead of two steps, the generated kernel instead of a library's pooling or normalization. Memory is never written.
class IdleGpu : public Gpu {
 public:
  const GpuDescription& description() const override { return description_; }
  const std::vector<Source>& sources() const { return sources_; }
  const std::vector<Problem>& problems() const { return problems_; }

  Fault Allocate(size_t bytes, void** memory) override {
    *memory = std::malloc(bytes);
    return *memory == nullptr ? kOutOfMemory : Fault();
  }
  void Free(void* memory) override { std::free(memory); }
  Fault CopyIn(void*, const void*, size_t) override { return {}; }
  Fault CopyOut(void*, const void*, size_t) override { return {}; }
  Fault Compile(const std::string&, const std::vector<Source>& sources,
                std::vector<std::shared_ptr<const Function>>* functions) override {
    for (const Source& source : sources) {
      sources_.push_back(source);
      functions->push_back(std::make_shared<NoFunction>());
    }
    return {};
  }
  Fault Plan(const Problem& problem, std::unique_ptr<LibraryCall>* call) override {
    if (std::holds_alternative<PoolProblem>(problem) || std::holds_alternative<LayerNormProblem>(problem)) {
      return "no such library";
    }
    problems_.push_back(problem);
    *call = std::make_unique<NoCall>();
    return {};
  }
  Fault RunQueues(const std::vector<QueueStep>&, const std::function<Fault(int)>&) override { return {}; }
  Fault Synchronize() override { return {}; }
  Fault Time(const Enqueue&, double*) override { return "nothing runs"; }
  Fault Fastest(const std::string&, const std::vector<Enqueue>&, int* best) override {
    *best = 0;
    return {};
  }
  Fault Record(const Enqueue&, std::unique_ptr<Recording>*) override { return "nothing runs"; }

 private:
  class NoFunction : public Function {
   public:
    Fault Launch(int64_t, int, void* const*, int) const override { return {}; }
  };
  class NoCall : public LibraryCall {
   public:
    size_t workspace_bytes() const override { return 0; }
    Fault Run(void* const*) const override { return {}; }
  };

  GpuDescription description_;
  std::vector<Source> sources_;
  std::vector<Problem> problems_;
};

}  // namespace rewright::cuda
