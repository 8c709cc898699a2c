#include "runtime/memory_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <random>
#include <string>

namespace rewright {
namespace {

using ::testing::HasSubstr;

bool Overlap(const Lifetime& a, int64_t at, const Lifetime& b, int64_t bt) {
  const bool in_time = a.first <= b.last && b.first <= a.last;
  return in_time && a.bytes > 0 && b.bytes > 0 && at < bt + b.bytes && bt < at + a.bytes;
}

void ExpectSound(const std::vector<Lifetime>& lifetimes, const Placement& placement) {
  for (size_t i = 0; i < lifetimes.size(); ++i) {
    ASSERT_EQ(placement.offsets[i] % kArenaAlignment, 0);
    ASSERT_GE(placement.offsets[i], 0);
    ASSERT_LE(placement.offsets[i] + lifetimes[i].bytes, placement.arena_bytes);
    for (size_t j = 0; j < i; ++j) {
      ASSERT_FALSE(Overlap(lifetimes[i], placement.offsets[i], lifetimes[j], placement.offsets[j])) << i << " " << j;
    }
  }
}

TEST(PlaceLifetimes, NothingNeedsNothing) {
  EXPECT_EQ(PlaceLifetimes({}).arena_bytes, 0);
  EXPECT_EQ(PeakLiveBytes(std::vector<Lifetime>()), 0);
}

TEST(PlaceLifetimes, SharesMemoryOverTime) {
  const std::vector<Lifetime> chain = {{256, 0, 1}, {128, 1, 2}, {256, 2, 3}, {128, 3, 4}};
  const Placement placement = PlaceLifetimes(chain);
  ExpectSound(chain, placement);
  EXPECT_EQ(placement.arena_bytes, 384);
  EXPECT_EQ(PeakLiveBytes(chain), 384);
}

TEST(PlaceLifetimes, TakesTheTightestGap) {
  // Gaps of 256 and 128 bytes are free at step 2: the two later buffers both fit only if the smaller takes the smaller
  // gap.
  const std::vector<Lifetime> items = {{1024, 0, 2}, {256, 0, 1}, {1024, 0, 2}, {128, 0, 1},
                                       {1024, 0, 2}, {128, 2, 3}, {256, 2, 3}};
  const Placement placement = PlaceLifetimes(items);
  ExpectSound(items, placement);
  EXPECT_EQ(placement.arena_bytes, 3 * 1024 + 384);
}

RC_GTEST_PROP(PlaceLifetimes, LiveBuffersNeverOverlap, (uint32_t seed)) {
  std::mt19937 rng(seed);
  const int steps = 1 + static_cast<int>(rng() % 40);
  std::vector<Lifetime> items(rng() % 60);
  for (Lifetime& item : items) {
    item.bytes = static_cast<int64_t>(rng() % (rng() % 2 ? 300 : 100'000));
    item.first = static_cast<int>(rng() % static_cast<unsigned>(steps));
    item.last = std::min(steps - 1, item.first + static_cast<int>(rng() % 8));
  }
  const Placement placement = PlaceLifetimes(items);
  ExpectSound(items, placement);
  RC_ASSERT(!::testing::Test::HasFatalFailure());
  RC_ASSERT(placement.arena_bytes >= PeakLiveBytes(items));
  const Placement again = PlaceLifetimes(items);
  RC_ASSERT(placement.offsets == again.offsets);
}

// Networks with skip connections: a chain in which every eighth result is read again six steps later.
TEST(PlaceLifetimes, StaysNearTheFloor) {
  for (uint32_t seed = 0; seed < 50; ++seed) {
    std::mt19937 rng(seed);
    std::vector<Lifetime> items;
    for (int step = 0; step < 400; ++step) {
      const int64_t bytes = static_cast<int64_t>(1 + rng() % 64) * 50'000;
      items.push_back({bytes, step, step + (step % 8 == 0 ? 6 : 1)});
    }
    const Placement placement = PlaceLifetimes(items);
    ExpectSound(items, placement);
    EXPECT_LE(static_cast<double>(placement.arena_bytes), 1.25 * static_cast<double>(PeakLiveBytes(items)))
        << "seed " << seed;
  }
}

Step Touch(std::vector<int> buffers) {
  Step step;
  for (int id : buffers) step.buffers.push_back({id, Access::kWrite});
  return step;
}

TEST(PlanMemory, AViewKeepsItsBaseAlive) {
  Schedule schedule;
  schedule.buffers.resize(4);
  schedule.buffers[0].bytes = 640;
  schedule.buffers[1] = {Buffer::Kind::kActivation, 320, /*alias_of=*/0, /*offset=*/320, nullptr};
  schedule.buffers[2].bytes = 640;
  schedule.buffers[3] = {Buffer::Kind::kActivation, 64, /*alias_of=*/1, /*offset=*/128, nullptr};
  schedule.steps.push_back(Touch({0}));
  schedule.steps.push_back(Touch({2}));
  schedule.steps.push_back(Touch({3}));
  const auto plan = PlanMemory(schedule);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->arena_bytes, 1280);
  EXPECT_EQ(plan->peak_live_bytes, 1280);
  EXPECT_EQ(plan->resolved[3].root, 0);
  EXPECT_EQ(plan->resolved[3].offset, 448);
  EXPECT_EQ(plan->offsets[1], -1);
}

TEST(PlanMemory, PlansActivationsOnly) {
  Schedule schedule;
  schedule.buffers.resize(5);
  schedule.buffers[0].kind = Buffer::Kind::kInput;
  schedule.buffers[1].kind = Buffer::Kind::kConstant;
  schedule.buffers[2].kind = Buffer::Kind::kOutput;
  for (Buffer& buffer : schedule.buffers) buffer.bytes = 100;
  schedule.steps.push_back(Touch({2, 3}));  // 4 is never used
  schedule.steps[0].buffers.push_back({0, Access::kRead});
  schedule.steps[0].buffers.push_back({1, Access::kRead});
  schedule.inputs = {0};
  schedule.outputs = {2};
  const auto plan = PlanMemory(schedule);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->peak_live_bytes, 100);
  EXPECT_EQ(plan->arena_bytes, 128);
  EXPECT_EQ(plan->offsets, (std::vector<int64_t>{-1, -1, -1, 0, -1}));
}

TEST(PlanMemory, AnOutputInsideAnActivationLivesToTheEnd) {
  Schedule schedule;
  schedule.buffers.resize(2);
  schedule.buffers[0].bytes = 64;
  schedule.buffers[1].bytes = 64;
  schedule.steps.push_back(Touch({0}));
  schedule.steps.push_back(Touch({1}));
  schedule.outputs = {0};
  const auto plan = PlanMemory(schedule);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->arena_bytes, 128);
}

TEST(PlaceLifetimes, KeepsAlignments) {
  for (uint32_t seed = 0; seed < 100; ++seed) {
    std::mt19937 rng(seed);
    std::vector<Lifetime> items(30);
    for (Lifetime& item : items) {
      item.bytes = static_cast<int64_t>(1 + rng() % 1000);
      item.first = static_cast<int>(rng() % 10);
      item.last = item.first + static_cast<int>(rng() % 4);
      item.alignment = int64_t{64} << rng() % 3;
    }
    const Placement placement = PlaceLifetimes(items);
    ExpectSound(items, placement);
    for (size_t i = 0; i < items.size(); ++i) EXPECT_EQ(placement.offsets[i] % items[i].alignment, 0) << seed;
  }
}

// Buffers behind the arena share no memory, and are aligned like memory of their own.
TEST(PlanMemory, StatesAndWhatElseIsAskedForLieBehindTheArena) {
  Schedule schedule;
  schedule.buffers.resize(5);
  const Buffer::Kind kinds[] = {Buffer::Kind::kInput, Buffer::Kind::kConstant, Buffer::Kind::kState,
                                Buffer::Kind::kActivation, Buffer::Kind::kOutput};
  for (size_t i = 0; i < 5; ++i) {
    schedule.buffers[i].kind = kinds[i];
    schedule.buffers[i].bytes = 100;
  }
  schedule.steps.push_back(Touch({3}));
  schedule.steps[0].buffers.push_back({0, Access::kRead});
  schedule.steps.push_back(Touch({4}));
  schedule.steps[1].buffers.push_back({2, Access::kUpdate});
  schedule.inputs = {0};
  schedule.outputs = {4};
  auto plan = PlanMemory(schedule);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->offsets, (std::vector<int64_t>{-1, -1, 256, 0, -1}));
  EXPECT_EQ(plan->arena_bytes, 128);
  EXPECT_EQ(plan->bytes, 356);
  plan = PlanMemory(schedule, {.externals = true, .constants = true});
  EXPECT_EQ(plan->offsets, (std::vector<int64_t>{256, 512, 768, 0, 1024}));
  plan = PlanMemory(schedule, {.separate = true});
  EXPECT_EQ(plan->offsets, (std::vector<int64_t>{-1, -1, 0, 256, -1}));
  EXPECT_EQ(plan->arena_bytes, 0);
  const std::vector<int> only = {3, 0};
  plan = PlanMemory(schedule, {.separate = true, .externals = true, .only = &only});
  EXPECT_EQ(plan->offsets, (std::vector<int64_t>{0, -1, -1, 256, -1}));
}

// Steps on several queues may run in any order, so buffers that they use live as long as all of them.
TEST(PlanMemory, StepsSideBySideShareNoMemory) {
  Schedule schedule;
  schedule.buffers.resize(4);
  for (Buffer& buffer : schedule.buffers) buffer.bytes = 64;
  for (int i = 0; i < 4; ++i) schedule.steps.push_back(Touch({i}));
  EXPECT_EQ(PlanMemory(schedule)->arena_bytes, 64);
  schedule.steps[2].queue = 1;
  EXPECT_EQ(PlanMemory(schedule)->arena_bytes, 256);
  schedule.steps[1].joins = schedule.steps[3].joins = true;
  const auto plan = PlanMemory(schedule);
  EXPECT_EQ(plan->arena_bytes, 128) << "1 beside 2";
  EXPECT_EQ(plan->peak_live_bytes, 128);
  EXPECT_NE(plan->offsets[1], plan->offsets[2]);
  EXPECT_EQ(plan->expires, (std::vector<std::vector<int>>{{0}, {}, {1, 2}, {3}}));
}

std::string ErrorOf(const Schedule& schedule) { return std::string(PlanMemory(schedule).status().message()); }

TEST(PlanMemory, RefusesFaultySchedules) {
  Schedule schedule;
  schedule.buffers.resize(2);
  schedule.buffers[0].bytes = 64;
  schedule.buffers[1] = {Buffer::Kind::kActivation, 32, /*alias_of=*/0, /*offset=*/48, nullptr};
  EXPECT_THAT(ErrorOf(schedule), HasSubstr("buffer 1 views bytes 48..80 of buffer 0, which has 64"));
  schedule.buffers[1].alias_of = 7;
  EXPECT_THAT(ErrorOf(schedule), HasSubstr("buffer 1 is a view of buffer 7, of 2"));
  schedule.buffers[1] = {Buffer::Kind::kActivation, 64, /*alias_of=*/0, /*offset=*/0, nullptr};
  schedule.buffers[0].alias_of = 1;
  EXPECT_THAT(ErrorOf(schedule), HasSubstr("is a view of itself"));
  schedule.buffers[0].alias_of = -1;
  schedule.steps.push_back(Touch({5}));
  EXPECT_THAT(ErrorOf(schedule), HasSubstr("step 0 uses buffer 5, of 2"));
  schedule.steps[0] = Touch({});
  schedule.steps[0].label = "relu";
  schedule.steps[0].buffers = {{1, Access::kRead}};
  EXPECT_THAT(ErrorOf(schedule), HasSubstr("step 0 (relu) reads what no step wrote: buffer 1, activation of 64 bytes"));
  for (const auto& [kind, name] : {std::pair(Buffer::Kind::kInput, "input"), {Buffer::Kind::kConstant, "constant"}}) {
    schedule.buffers[0].kind = kind;
    schedule.steps[0].buffers = {{1, Access::kUpdate}};
    EXPECT_THAT(ErrorOf(schedule), HasSubstr(std::string("step 0 (relu) writes buffer 1, ") + name + " of 64 bytes"));
  }
  for (size_t alignment : {0, 48, 512}) {
    schedule.buffers[0].alignment = alignment;
    EXPECT_THAT(ErrorOf(schedule), HasSubstr("buffer 0 is aligned to " + std::to_string(alignment) +
                                             ", expected a power of two up to 256"));
  }
}

}  // namespace
}  // namespace rewright
