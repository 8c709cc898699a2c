#include "runtime/instance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <new>
#include <utility>

#include "runtime/host_memory.h"
#include "tests/runtime/body_kernel_util.h"

namespace rewright {
namespace {

using ::testing::HasSubstr;

constexpr int kIn = 0, kConstant = 1, kState = 2, kResult = 3;

// result = in + constant; state += 1
Schedule SmallSchedule() {
  Schedule schedule;
  for (Buffer::Kind kind :
       {Buffer::Kind::kInput, Buffer::Kind::kConstant, Buffer::Kind::kState, Buffer::Kind::kActivation}) {
    schedule.buffers.push_back({kind, sizeof(int)});
  }
  schedule.buffers[kConstant].data = std::make_shared<int>(40);
  Step step;
  step.label = "add";
  step.buffers = {
      {kIn, Access::kRead}, {kConstant, Access::kRead}, {kState, Access::kUpdate}, {kResult, Access::kWrite}};
  step.kernel = std::make_unique<BodyKernel>([](void* const* at) {
    *static_cast<int*>(at[3]) = *static_cast<int*>(at[0]) + *static_cast<int*>(at[1]);
    ++*static_cast<int*>(at[2]);
    return absl::OkStatus();
  });
  schedule.steps.push_back(std::move(step));
  schedule.inputs = {kIn};
  return schedule;
}

TEST(Instance, SeveralOfOneScheduleShareWhatIsCompiled) {
  Schedule schedule = SmallSchedule();
  schedule.buffers[kState].data = std::make_shared<int>(7);
  for (const bool copies : {false, true}) {
    const auto plan = PlanMemory(schedule, {.separate = true, .externals = true, .constants = copies});
    ASSERT_TRUE(plan.ok()) << plan.status();
    auto one = Instance::Create(schedule, *plan, HostMemory());
    auto two = Instance::Create(schedule, *plan, HostMemory());
    ASSERT_TRUE(one.ok() && two.ok());
    const auto at = [](Instance& instance, int id) { return static_cast<int*>(instance.address(id)); };
    *at(**one, kIn) = 1;
    *at(**two, kIn) = 2;
    ASSERT_TRUE((*one)->Run().ok());
    ASSERT_TRUE((*one)->Run().ok());
    ASSERT_TRUE((*two)->Run().ok());
    EXPECT_EQ(*at(**one, kResult), 41);
    EXPECT_EQ(*at(**two, kResult), 42);
    EXPECT_EQ(*at(**one, kState), 9);
    EXPECT_EQ(*at(**two, kState), 8);
    EXPECT_EQ(at(**one, kConstant) == at(**two, kConstant), !copies);
    ASSERT_TRUE((*one)->Reset().ok());
    EXPECT_EQ(*at(**one, kState), 7);
    EXPECT_EQ(*at(**one, kResult), 0) << "separate memory begins with zeros";
  }
}

TEST(Instance, PoisonFillsWhatIsNotAlive) {
  const Schedule schedule = SmallSchedule();
  const auto plan = PlanMemory(schedule, {.separate = true, .externals = true, .poison = true});
  ASSERT_TRUE(plan.ok()) << plan.status();
  const auto instance = Instance::Create(schedule, *plan, HostMemory());
  ASSERT_TRUE(instance.ok()) << instance.status();
  EXPECT_EQ(*static_cast<int*>((*instance)->address(kIn)), -1);
  EXPECT_EQ(*static_cast<int*>((*instance)->address(kState)), 0);
  ASSERT_TRUE((*instance)->Run().ok());
  EXPECT_EQ(*static_cast<int*>((*instance)->address(kResult)), -1) << "no step uses it any more";
  EXPECT_EQ(*static_cast<int*>((*instance)->address(kState)), 1);
}

// The arena may be anywhere, and be overwritten between two runs; states persist.
TEST(Instance, AMovedArenaLeavesStatesWhereTheyAre) {
  const Schedule schedule = SmallSchedule();
  const auto plan = PlanMemory(schedule);
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_GT(plan->arena_bytes, 0);
  ASSERT_GT(plan->behind_bytes(), 0);
  const auto instance = Instance::Create(schedule, *plan, HostMemory());
  ASSERT_TRUE(instance.ok()) << instance.status();
  void* const state = (*instance)->address(kState);
  void* const result = (*instance)->address(kResult);
  const std::shared_ptr<void> arena = *HostMemory().Allocate(static_cast<size_t>(plan->arena_bytes));
  (*instance)->MoveTo(arena);
  EXPECT_EQ((*instance)->address(kState), state);
  EXPECT_NE((*instance)->address(kResult), result);
  EXPECT_EQ((*instance)->address(kResult), static_cast<char*>(arena.get()) + plan->offsets[kResult]);
  EXPECT_EQ((*instance)->argument(0, kState), state);
}

// A device's memory that fails after `allocations` allocations.
class FailingMemory : public DeviceMemory {
 public:
  explicit FailingMemory(int allocations) : allocations_(allocations) {}
  absl::StatusOr<std::shared_ptr<void>> Allocate(size_t bytes) override {
    if (allocations_-- <= 0) return absl::ResourceExhaustedError("no memory is left");
    return HostMemory().Allocate(bytes);
  }
  absl::Status CopyIn(void* to, const void* from, size_t bytes) override {
    return HostMemory().CopyIn(to, from, bytes);
  }
  absl::Status CopyOut(void* to, const void* from, size_t bytes) override {
    return HostMemory().CopyOut(to, from, bytes);
  }
  absl::Status Synchronize() override { return absl::OkStatus(); }
  absl::Status RunQueues(const std::vector<QueueStep>& steps,
                         const std::function<absl::Status(int)>& enqueue) override {
    return HostMemory().RunQueues(steps, enqueue);
  }
  absl::StatusOr<std::function<absl::Status()>> Record(const std::function<absl::Status()>& work) override {
    return work;
  }

 private:
  int allocations_;
};

TEST(Instance, TooLittleMemoryIsAnError) {
  const Schedule schedule = SmallSchedule();
  const auto plan = PlanMemory(schedule, {.externals = true});
  ASSERT_TRUE(plan.ok()) << plan.status();
  FailingMemory memory(3);  // two for the arena and the memory behind it
  EXPECT_TRUE(Instance::Create(schedule, *plan, memory).ok());
  for (const char* of : {"behind the arena", "the arena"}) {
    const absl::Status status = Instance::Create(schedule, *plan, memory).status();
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << of << ": " << status;
  }
  EXPECT_FALSE(HostMemory().Allocate(size_t{1} << 60).ok());
}

TEST(Instance, ErrorsNameTheStep) {
  Schedule schedule = SmallSchedule();
  absl::Status fault = absl::OutOfRangeError("index 7");
  bool throws = false;
  schedule.steps[0].kernel = std::make_unique<BodyKernel>([&](void* const*) {
    if (throws) throw std::bad_alloc();
    return fault;
  });
  const auto plan = PlanMemory(schedule, {.externals = true});
  const auto instance = Instance::Create(schedule, *plan, HostMemory());
  ASSERT_TRUE(instance.ok()) << instance.status();
  EXPECT_EQ((*instance)->Run(), absl::OutOfRangeError("step 0 (add): index 7"));
  throws = true;
  EXPECT_EQ((*instance)->Run(), absl::ResourceExhaustedError("step 0 (add): out of memory"));
  throws = false;
  fault = absl::OkStatus();
  EXPECT_TRUE((*instance)->Run().ok());
}

// Each instance has its own handles of a kernel, in which the kernel keeps data for its runs.
TEST(Instance, EveryInstanceHasHandlesOfItsOwn) {
  struct Count : KernelHandles {
    int runs = 0;
  };
  struct Counting : Kernel {
    absl::StatusOr<std::unique_ptr<KernelHandles>> MakeHandles() const override {
      if (refused) return absl::InternalError("the library has none");
      return std::make_unique<Count>();
    }
    absl::Status Run(void* const* buffers, RunContext& context) const override {
      *static_cast<int*>(buffers[0]) = ++static_cast<Count*>(context.handles)->runs;
      return absl::OkStatus();
    }
    bool refused = false;
  };
  Schedule schedule;
  schedule.buffers.push_back({Buffer::Kind::kActivation, sizeof(int)});
  Step step;
  step.label = "count";
  step.buffers = {{0, Access::kWrite}};
  auto kernel = std::make_unique<Counting>();
  Counting& counting = *kernel;
  step.kernel = std::move(kernel);
  schedule.steps.push_back(std::move(step));
  const auto plan = PlanMemory(schedule);
  ASSERT_TRUE(plan.ok()) << plan.status();
  auto one = Instance::Create(schedule, *plan, HostMemory());
  auto two = Instance::Create(schedule, *plan, HostMemory());
  ASSERT_TRUE(one.ok() && two.ok());
  for (int run = 0; run < 3; ++run) ASSERT_TRUE((*one)->Run().ok());
  ASSERT_TRUE((*two)->Run().ok());
  EXPECT_EQ(*static_cast<int*>((*one)->address(0)), 3);
  EXPECT_EQ(*static_cast<int*>((*two)->address(0)), 1);
  counting.refused = true;
  EXPECT_EQ(Instance::Create(schedule, *plan, HostMemory()).status(),
            absl::InternalError("step 0 (count): the library has none"));
}

}  // namespace
}  // namespace rewright
