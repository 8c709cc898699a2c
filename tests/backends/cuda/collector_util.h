// A GPU that runs nothing and takes down the sources of kernels.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backends/cuda/memory/idle_gpu.h"
#include "gtest/gtest.h"

namespace rewright {

// Sources by the name of their kernel, which is that of one source.
class Collector : public cuda::IdleGpu {
 public:
  explicit Collector(std::map<std::string, std::string>* sources) : sources_(*sources) {}
  cuda::Fault Compile(const std::string& prelude, const std::vector<Source>& sources,
                      std::vector<std::shared_ptr<const cuda::Function>>* functions) override {
    for (const Source& source : sources) {
      EXPECT_EQ(sources_.emplace(source.name, source.text).first->second, source.text);
    }
    return IdleGpu::Compile(prelude, sources, functions);
  }

 private:
  std::map<std::string, std::string>& sources_;
};

}  // namespace rewright
