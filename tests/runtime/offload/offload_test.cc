// Tests copies to a second tier and back in schedules built by hand: the same results, in as little memory as planned.
#include "runtime/offload/offload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <utility>

#include "runtime/executor.h"
#include "runtime/memory_plan.h"
#include "tests/runtime/body_kernel_util.h"

namespace rewright {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kSecond = int64_t{1} << 24;

Step MakeStep(std::vector<BufferUse> uses, Body body, std::string label) {
  Step step;
  step.kernel = std::make_unique<BodyKernel>(std::move(body));
  step.buffers = std::move(uses);
  step.label = std::move(label);
  return step;
}

// A forward pass of `layers` values, each computed from the one before, and a backward pass that reads them in reverse
// order, each by its own copy. Value k has sizes[k] floats; every result has one.
struct Chain {
  Schedule schedule;
  std::vector<int> fetches;
  Graph frame;  // of its input and output
};

// `failing`: if true, the last forward step ends with an error.
Chain MakeChain(const std::vector<int64_t>& sizes, const bool* failing = nullptr) {
  Chain chain;
  Schedule& schedule = chain.schedule;
  const auto add = [&](Buffer::Kind kind, int64_t floats) {
    Buffer buffer;
    buffer.kind = kind;
    buffer.bytes = static_cast<size_t>(floats) * sizeof(float);
    schedule.buffers.push_back(std::move(buffer));
    return static_cast<int>(schedule.buffers.size()) - 1;
  };
  const int layers = static_cast<int>(sizes.size());
  std::vector<int> values;
  int before = add(Buffer::Kind::kInput, 1);
  schedule.inputs = {before};
  for (int k = 0; k < layers; ++k) {
    values.push_back(add(Buffer::Kind::kActivation, sizes[k]));
    const bool last = k + 1 == layers;
    schedule.steps.push_back(MakeStep(
        {{before, Access::kRead}, {values[k], Access::kWrite}},
        [k, size = sizes[k], last, failing](void* const* at) {
          if (last && failing != nullptr && *failing) return absl::OutOfRangeError("told to");
          for (int64_t i = 0; i < size; ++i) {
            static_cast<float*>(at[1])[i] = static_cast<float*>(at[0])[0] * 0.5f + static_cast<float>(i + k) / 16;
          }
          return absl::OkStatus();
        },
        "forward"));
    before = values[k];
  }
  int sum = add(Buffer::Kind::kActivation, 1);
  schedule.steps.push_back(MakeStep(
      {{before, Access::kRead}, {sum, Access::kWrite}},
      [](void* const* at) {
        std::memcpy(at[1], at[0], sizeof(float));
        return absl::OkStatus();
      },
      "turn"));
  for (int k = layers - 1; k >= 0; --k) {
    const int back = add(Buffer::Kind::kActivation, sizes[k]);
    const int next = add(k == 0 ? Buffer::Kind::kOutput : Buffer::Kind::kActivation, 1);
    chain.fetches.push_back(static_cast<int>(schedule.steps.size()));
    const size_t bytes = static_cast<size_t>(sizes[k]) * sizeof(float);
    schedule.steps.push_back(MakeStep(
        {{values[k], Access::kRead}, {back, Access::kWrite}},
        [bytes](void* const* at) {
          std::memcpy(at[1], at[0], bytes);
          return absl::OkStatus();
        },
        "fetch"));
    schedule.steps.push_back(MakeStep(
        {{back, Access::kRead}, {sum, Access::kRead}, {next, Access::kWrite}},
        [size = sizes[k]](void* const* at) {
          float total = static_cast<float*>(at[1])[0];
          for (int64_t i = 0; i < size; ++i) {
            total = total * 0.75f + static_cast<float*>(at[0])[i];
          }
          static_cast<float*>(at[2])[0] = total;
          return absl::OkStatus();
        },
        "backward"));
    sum = next;
  }
  schedule.outputs = {sum};
  auto arena = std::make_shared<Arena>();
  const Value x = *arena->AddInput("x", {DType::kFloat32, {1}});
  chain.frame = Graph(arena, {x}, {{x, "y"}});
  return chain;
}

absl::StatusOr<std::unique_ptr<Executor>> Prepare(Chain chain, int64_t room, TwoTierMemory& memory) {
  auto schedule = WithOffloads(std::move(chain.schedule), chain.fetches, room, memory);
  if (!schedule.ok()) return schedule.status();
  return Executor::Create(chain.frame, *std::move(schedule), memory, {.poison = true});
}

float ResultOf(Executor& executor, float x) {
  std::vector<Tensor> outputs;
  const absl::Status status = executor.Run({Tensor::FromVector(DType::kFloat32, {1}, std::vector<float>{x})}, &outputs);
  EXPECT_TRUE(status.ok()) << status;
  return status.ok() ? outputs[0].as<float>()[0] : 0;
}

// Memory that must not be read any more is filled with NaN, in both tiers.
TEST(Offload, GivesTheSameInLessMemory) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    std::mt19937 rng(seed);
    std::vector<int64_t> sizes(4 + rng() % 30);
    for (int64_t& size : sizes) size = static_cast<int64_t>(1 + rng() % 3000);
    const auto plain = Executor::Create(MakeChain(sizes).frame, MakeChain(sizes).schedule);
    ASSERT_TRUE(plain.ok()) << plain.status();
    int64_t fewest = 0;
    for (const int64_t share : {0, 1, 2, 4}) {
      TwoTierMemory memory(kSecond);
      const int64_t room = (*plain)->arena_bytes() * share / 4;
      const auto offloaded = Prepare(MakeChain(sizes), room, memory);
      ASSERT_TRUE(offloaded.ok()) << offloaded.status();
      if (share == 0) fewest = (*offloaded)->arena_bytes();
      EXPECT_LE((*offloaded)->arena_bytes(), std::max(room, fewest)) << "seed " << seed << ", share " << share;
      EXPECT_LE(fewest, (*plain)->arena_bytes());
      for (const float x : {1.5f, -3.0f}) {
        EXPECT_EQ(ResultOf(**offloaded, x), ResultOf(**plain, x)) << "seed " << seed << ", share " << share;
      }
    }
  }
}

// Without overlap a value is made while the one before is copied out, and comes back alone.
TEST(Offload, TakesWhatIsReadAtATime) {
  TwoTierMemory memory(kSecond);
  constexpr int64_t kFloats = 1024, kBytes = kFloats * 4;
  const std::vector<int64_t> sizes(40, kFloats);
  const auto tight = Prepare(MakeChain(sizes), 0, memory);
  ASSERT_TRUE(tight.ok()) << tight.status();
  EXPECT_LE((*tight)->arena_bytes(), 6 * kBytes);
  EXPECT_GT((*tight)->stored_bytes(), 30 * kBytes);
  EXPECT_GT((*Executor::Create(MakeChain(sizes).frame, MakeChain(sizes).schedule))->arena_bytes(), 40 * kBytes);
}

TEST(Offload, OverlapsAsFarAsThereIsRoom) {
  TwoTierMemory memory(kSecond);
  const std::vector<int64_t> sizes(40, 1024);
  std::vector<double> waited;
  for (const int64_t room : {0, 30 * 4096}) {
    Chain chain = MakeChain(sizes);
    const auto schedule = WithOffloads(std::move(chain.schedule), chain.fetches, room, memory);
    ASSERT_TRUE(schedule.ok()) << schedule.status();
    const std::vector<double> seconds(schedule->steps.size(), 1);
    // A copy takes longer than a step; there are two steps for each copy back.
    const CopySeconds copies = CopySecondsOf(*schedule, seconds, 1.7 / 4096);
    waited.push_back(copies.waited);
    EXPECT_GT(copies.copied, 30);
  }
  EXPECT_GT(waited[0], 10);
  EXPECT_LT(waited[1], 0.7 * waited[0]) << waited[0];
}

TEST(Offload, LeavesAloneWhatHardlyWaitsOrIsReadAgain) {
  TwoTierMemory memory(kSecond);
  Chain chain = MakeChain({8});
  const size_t steps = chain.schedule.steps.size();
  const auto near = WithOffloads(std::move(chain.schedule), chain.fetches, 0, memory);
  ASSERT_TRUE(near.ok()) << near.status();
  EXPECT_EQ(near->steps.size(), steps);
  // All values of the forward pass are read once more at the end.
  Chain again = MakeChain(std::vector<int64_t>(10, 8));
  for (int fetch : again.fetches) {
    again.schedule.steps.back().buffers.push_back({again.schedule.steps[fetch].buffers[0].buffer, Access::kRead});
  }
  const size_t all = again.schedule.steps.size();
  const auto read = WithOffloads(std::move(again.schedule), again.fetches, 0, memory);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->steps.size(), all);
}

TEST(Offload, ASecondTierThatIsFullIsAnError) {
  const std::vector<int64_t> sizes(20, 1024);
  TwoTierMemory small(10 * 4096);
  EXPECT_TRUE(absl::IsResourceExhausted(Prepare(MakeChain(sizes), 0, small).status()));
  TwoTierMemory memory(30 * 4096);
  const auto first = Prepare(MakeChain(sizes), 0, memory);
  ASSERT_TRUE(first.ok()) << first.status();
  const absl::Status second = Prepare(MakeChain(sizes), 0, memory).status();
  EXPECT_TRUE(absl::IsResourceExhausted(second)) << second;
  EXPECT_THAT(std::string(second.message()), HasSubstr("second tier: found"));
}

// Copies in flight when a step fails affect no later run and no freed memory.
TEST(Offload, AnErrorEndsItsRunAlone) {
  const std::vector<int64_t> sizes(30, 50'000);
  bool failing = true;
  TwoTierMemory memory(kSecond);
  auto executor = Prepare(MakeChain(sizes, &failing), int64_t{1} << 24, memory);
  ASSERT_TRUE(executor.ok()) << executor.status();
  std::vector<Tensor> outputs;
  for (int run = 0; run < 5; ++run) {
    const absl::Status status =
        (*executor)->Run({Tensor::FromVector(DType::kFloat32, {1}, std::vector<float>{2})}, &outputs);
    EXPECT_THAT(std::string(status.message()), HasSubstr("(forward): told to"));
  }
  failing = false;
  const auto plain = Executor::Create(MakeChain(sizes).frame, MakeChain(sizes).schedule);
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_EQ(ResultOf(**executor, 2), ResultOf(**plain, 2));
  failing = true;
  EXPECT_FALSE((*executor)->Run({Tensor::FromVector(DType::kFloat32, {1}, std::vector<float>{2})}, &outputs).ok());
  executor = absl::CancelledError("gone");
}

}  // namespace
}  // namespace rewright
