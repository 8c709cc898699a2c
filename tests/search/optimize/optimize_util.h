// Runs of `optimize` on a small graph and a device that is played.
#pragma once

#include <string>

#include "gtest/gtest.h"
#include "search/optimize/optimize.h"
#include "substitutions/baseline/baseline.h"
#include "tests/search/fake_device_util.h"

namespace rewright {

inline constexpr char kGraph[] = R"(
  input x: f32[4,8]
  state w: f32[8,8]
  %0 = matmul(x, w)
  %1 = relu(%0)
  %2 = relu(%1)
  %3 = exp(%2)
  output y = %3
)";

inline constexpr char kRight[] = "rule relu-twice\n relu(relu(x)) => relu(x)\n";
inline constexpr char kWrong[] = "rule no-exp\n exp(x) => x\n";

class OptimizeTest : public ::testing::Test {
 protected:
  OptimizeTest() { options_.measuring.clock = FakeSeconds; }

  OptimizeReport Optimized(const std::string& rules, GraphRunner* runner) {
    const RuleIndex index = RulesFrom(rules);
    RuleRewriter rewriter(index);
    absl::StatusOr<OptimizeReport> report = Optimize(graph_, rewriter, device_, runner, options_);
    EXPECT_TRUE(report.ok()) << report.status();
    return report.ok() ? *std::move(report) : OptimizeReport();
  }

  const Graph graph_ = GraphFrom(kGraph);
  FakeDevice device_;
  OptimizeOptions options_;
};

// A run of n nodes takes n times 20 microseconds.
inline double ByNodes(const Graph& graph) { return 20e-6 * graph.num_runtime_nodes(); }

// A baseline of one pass with the given rules.
Baseline BaselineFrom(const std::string& rules);

}  // namespace rewright
