// Tests that a thread that asks for a rank's part of a state waits for the end of a run, which changes states.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/status_macros.h"
#include "core/ir/random_tensors.h"
#include "runtime/comm/in_process.h"
#include "runtime/parallel/owner_computes_executable.h"
#include "runtime/parallel/rank_executable.h"
#include "runtime/reference_runner.h"
#include "tests/support/parsed_graph.h"

namespace rewright {
namespace {

// Calls `hook` at the beginning of each run.
class HookedExecutable : public Executable {
 public:
  HookedExecutable(std::unique_ptr<Executable> inner, const std::function<void()>& hook)
      : inner_(std::move(inner)), hook_(hook) {}
  absl::Status Run(const std::vector<Tensor>& inputs, std::vector<Tensor>* outputs) override {
    hook_();
    return inner_->Run(inputs, outputs);
  }
  absl::StatusOr<Tensor> ReadState(const std::string& name) override { return inner_->ReadState(name); }
  absl::StatusOr<Tensor> ViewState(const std::string& name) override { return inner_->ViewState(name); }
  absl::Status WriteState(const std::string& name, const Tensor& value) override {
    return inner_->WriteState(name, value);
  }
  int64_t arena_bytes() const override { return inner_->arena_bytes(); }
  int64_t peak_live_bytes() const override { return inner_->peak_live_bytes(); }

 private:
  const std::unique_ptr<Executable> inner_;
  const std::function<void()>& hook_;
};

class HookedRunner : public GraphRunner {
 public:
  absl::StatusOr<std::unique_ptr<Executable>> Prepare(const Graph& graph) override {
    ASSIGN_OR_RETURN(std::unique_ptr<Executable> inner, inner_->Prepare(graph));
    return std::make_unique<HookedExecutable>(std::move(inner), hook);
  }
  std::function<void()> hook = [] {};

 private:
  const std::unique_ptr<GraphRunner> inner_ = MakeReferenceRunner(1);
};

constexpr char kStep[] = R"(training
    input x: f32[4]
    state w: f32[4]
    %1 = add(w, x)
    %2 = reduce_sum(%1, axes=[0], keepdims=0)
    output y = %2
    update w = %1)";

// An answer that waits for the run cannot come during the hook, however long that waits for it.
template <typename Ranked>
void ExpectWaits(Ranked& executable, HookedRunner& runner, const Graph& graph) {
  std::future<absl::StatusOr<Shard>> asked;
  runner.hook = [&] {
    if (asked.valid()) return;
    asked = std::async(std::launch::async, [&] { return executable.LocalState("w"); });
    EXPECT_EQ(asked.wait_for(std::chrono::milliseconds(200)), std::future_status::timeout);
  };
  std::vector<Tensor> outputs;
  EXPECT_EQ(executable.Run(*RandomInputs(graph, 1), &outputs), absl::OkStatus());
  ASSERT_TRUE(asked.valid());
  const absl::StatusOr<Shard> found = asked.get();
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->tensor.num_elements(), 4);
}

TEST(LocalState, OfARankWaitsForTheEndOfARun) {
  const Graph graph = GraphOf(kStep);
  const auto ranks = InProcessRanks(1);
  HookedRunner runner;
  const auto executable = RankExecutable::Create(graph, *ranks[0], runner);
  ASSERT_TRUE(executable.ok()) << executable.status();
  ExpectWaits(**executable, runner, graph);
}

TEST(LocalState, OfAnOwnerWaitsForTheEndOfARun) {
  const Graph graph = GraphOf(kStep);
  const auto ranks = InProcessRanks(1), replicas = InProcessRanks(1);
  HookedRunner runner;
  const auto executable = OwnerComputesExecutable::Create(graph, {}, *ranks[0], *replicas[0], runner);
  ASSERT_TRUE(executable.ok()) << executable.status();
  ExpectWaits(**executable, runner, graph);
}

}  // namespace
}  // namespace rewright
