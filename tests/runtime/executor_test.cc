#include "runtime/executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <random>
#include <set>
#include <thread>

#include "core/tensor/memory.h"
#include "runtime/measure/timing.h"
#include "tests/runtime/allocation_util.h"
#include "tests/runtime/body_kernel_util.h"

namespace rewright {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kElements = 8;
constexpr size_t kBytes = kElements * sizeof(float);

TensorType VectorType() { return {DType::kFloat32, {kElements}}; }

Tensor Filled(float value) {
  return Tensor::FromVector(DType::kFloat32, {kElements}, std::vector<float>(kElements, value));
}

std::vector<float> Values(const Tensor& tensor) {
  return std::vector<float>(tensor.as<float>(), tensor.as<float>() + tensor.num_elements());
}

// Sets the last buffer to the sum of the others plus `bias`.
Step SumStep(std::vector<int> buffers, float bias = 0) {
  Step step;
  for (int id : buffers) step.buffers.push_back({id, Access::kRead});
  step.buffers.back().access = Access::kWrite;
  step.label = "sum";
  const size_t count = buffers.size();
  step.kernel = std::make_unique<BodyKernel>([count, bias](void* const* at) {
    for (int64_t i = 0; i < kElements; ++i) {
      float sum = bias;
      for (size_t b = 0; b + 1 < count; ++b) sum += static_cast<const float*>(at[b])[i];
      static_cast<float*>(at[count - 1])[i] = sum;
    }
    return absl::OkStatus();
  });
  return step;
}

// A graph with the types of the schedules below; the executor does not use its nodes.
Graph Frame(int inputs, const std::vector<int>& outputs) {
  auto arena = std::make_shared<Arena>();
  std::vector<Value> values;
  for (int i = 0; i < inputs; ++i) values.push_back(*arena->AddInput("in" + std::to_string(i), VectorType()));
  std::vector<Output> roots;
  for (int input : outputs) roots.push_back({values[input], "out" + std::to_string(input)});
  return Graph(arena, values, roots);
}

Buffer Of(Buffer::Kind kind) { return {kind, kBytes, -1, 0, nullptr}; }
constexpr auto kIn = Buffer::Kind::kInput;
constexpr auto kOut = Buffer::Kind::kOutput;
constexpr auto kAct = Buffer::Kind::kActivation;

// out = (in0 + in1 + 1) + (in0 + 2)
Schedule TwoBranches() {
  Schedule schedule;
  schedule.buffers = {Of(kIn), Of(kIn), Of(kAct), Of(kAct), Of(kOut)};
  schedule.steps.push_back(SumStep({0, 1, 2}, 1));
  schedule.steps.push_back(SumStep({0, 3}, 2));
  schedule.steps.push_back(SumStep({2, 3, 4}));
  schedule.inputs = {0, 1};
  schedule.outputs = {4};
  return schedule;
}

std::unique_ptr<Executor> Make(const Graph& graph, Schedule schedule) {
  auto executor = Executor::Create(graph, std::move(schedule));
  EXPECT_TRUE(executor.ok()) << executor.status();
  return *std::move(executor);
}

TEST(Executor, RunsStepsInOrder) {
  auto executor = Make(Frame(2, {0}), TwoBranches());
  std::vector<Tensor> outputs;
  ASSERT_TRUE(executor->Run({Filled(10), Filled(5)}, &outputs).ok());
  EXPECT_EQ(Values(outputs[0]), std::vector<float>(kElements, 28));
  EXPECT_EQ(executor->peak_live_bytes(), static_cast<int64_t>(2 * kBytes));
}

TEST(Executor, AllocatesNothingInTheSteadyState) {
  auto executor = Make(Frame(2, {0}), TwoBranches());
  const std::vector<Tensor> inputs = {Filled(10), Filled(5)};
  std::vector<Tensor> outputs;
  ASSERT_TRUE(executor->Run(inputs, &outputs).ok());
  const void* memory = outputs[0].data();
  const int64_t before = NumAllocations();
  for (int i = 0; i < 10; ++i) {
    const absl::Status status = executor->Run(inputs, &outputs);
    if (!status.ok()) break;
  }
  const int64_t after = NumAllocations();
  EXPECT_EQ(after - before, 0);
  EXPECT_EQ(outputs[0].data(), memory);
}

TEST(Executor, FreshOutputsEachTimeWhereTheCallerBringsNone) {
  auto executor = Make(Frame(2, {0}), TwoBranches());
  std::vector<Tensor> first;
  std::vector<Tensor> second;
  ASSERT_TRUE(executor->Run({Filled(1), Filled(1)}, &first).ok());
  ASSERT_TRUE(executor->Run({Filled(2), Filled(2)}, &second).ok());
  EXPECT_EQ(Values(first[0])[0], 6);
  EXPECT_EQ(Values(second[0])[0], 9);
}

TEST(Executor, AnOutputMayBeFedBack) {
  auto executor = Make(Frame(2, {0}), TwoBranches());
  std::vector<Tensor> state = {Filled(1)};
  for (int i = 0; i < 3; ++i) {
    const std::vector<Tensor> inputs = {state[0], Filled(0)};
    ASSERT_TRUE(executor->Run(inputs, &state).ok());
  }
  EXPECT_EQ(Values(state[0]), std::vector<float>(kElements, 29));  // 1 -> 5 -> 13 -> 29
}

TEST(Executor, OutputsThatAreInputsConstantsActivationsOrTwinsAreCopied) {
  Schedule schedule;
  schedule.buffers = {Of(kIn), Of(kAct), Of(kOut), Of(Buffer::Kind::kConstant)};
  Tensor constant = Filled(7);
  schedule.buffers[3].data = std::shared_ptr<void>(std::make_shared<Tensor>(constant), constant.data());
  schedule.steps.push_back(SumStep({0, 1}, 1));
  schedule.steps.push_back(SumStep({1, 2}, 1));
  schedule.inputs = {0};
  schedule.outputs = {0, 1, 2, 2, 3};
  auto executor = Make(Frame(1, {0, 0, 0, 0, 0}), std::move(schedule));
  std::vector<Tensor> outputs;
  ASSERT_TRUE(executor->Run({Filled(1)}, &outputs).ok());
  const float expected[] = {1, 2, 3, 3, 7};
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(Values(outputs[i]), std::vector<float>(kElements, expected[i])) << i;
}

// The caller's results are written to its memory, even if one is a view of a step's result, and have none in the arena.
TEST(Executor, ActivationsThatAreWholeResultsAreWrittenWhereTheCallerWantsThem) {
  for (const bool twice : {false, true}) {
    Schedule schedule;
    schedule.buffers = {Of(kIn), Of(kAct), {kAct, kBytes, 1, 0, nullptr}, Of(kOut)};
    schedule.steps.push_back(SumStep({0, 1}, 1));
    schedule.steps.push_back(SumStep({2, 3}, 1));
    schedule.inputs = {0};
    schedule.outputs = {2, 3};
    if (twice) schedule.outputs.push_back(1);
    auto executor = Make(Frame(1, std::vector<int>(twice ? 3 : 2, 0)), std::move(schedule));
    EXPECT_EQ(executor->arena_bytes() > 0, twice);
    std::vector<Tensor> outputs;
    ASSERT_TRUE(executor->Run({Filled(1)}, &outputs).ok());
    const float expected[] = {2, 3, 2};
    for (size_t i = 0; i < outputs.size(); ++i) {
      EXPECT_EQ(Values(outputs[i]), std::vector<float>(kElements, expected[i])) << i;
    }
  }
}

// Two graphs that run one at a time share an arena; each runs between two runs of the other.
TEST(Executor, ArenasMayBeShared) {
  const auto make = [](float added) {
    Schedule schedule;
    schedule.buffers = {Of(kIn), Of(kAct), Of(kAct), Of(kOut)};
    schedule.steps.push_back(SumStep({0, 1}, added));
    schedule.steps.push_back(SumStep({1, 2}, 1));
    schedule.steps.push_back(SumStep({1, 2, 3}));
    schedule.inputs = {0};
    schedule.outputs = {3};
    return Make(Frame(1, {0}), std::move(schedule));
  };
  const std::unique_ptr<Executor> executors[] = {make(1), make(2)};
  ASSERT_EQ(executors[0]->shared_bytes(), executors[0]->arena_bytes());
  const auto bytes = static_cast<size_t>(executors[0]->shared_bytes());
  const std::shared_ptr<void> arena = *AllocateBytes(bytes, DeviceMemory::kAlignment);
  for (const auto& executor : executors) executor->UseArena(arena);
  std::vector<Tensor> outputs;
  for (int run = 0; run < 4; ++run) {
    std::memset(arena.get(), 0xff, bytes);
    ASSERT_TRUE(executors[run % 2]->Run({Filled(run)}, &outputs).ok());
    const auto sum = static_cast<float>(2 * (run + 1 + run % 2) + 1);
    EXPECT_EQ(Values(outputs[0]), std::vector<float>(kElements, sum));
    EXPECT_FALSE(std::isnan(*static_cast<const float*>(arena.get()))) << "it works there";
  }
}

TEST(Executor, ViewsReachIntoTheirBase) {
  Schedule schedule;
  Buffer whole = {kAct, 2 * kBytes, -1, 0, nullptr};
  Buffer upper = {kAct, kBytes, 2, kBytes, nullptr};
  Buffer lower = {kAct, kBytes, 2, 0, nullptr};
  schedule.buffers = {Of(kIn), Of(kOut), whole, lower, upper};
  schedule.steps.push_back(SumStep({0, 3}, 1));
  schedule.steps.push_back(SumStep({0, 4}, 2));
  schedule.steps.push_back(SumStep({3, 4, 1}));
  schedule.inputs = {0};
  schedule.outputs = {1};
  auto executor = Make(Frame(1, {0}), std::move(schedule));
  std::vector<Tensor> outputs;
  ASSERT_TRUE(executor->Run({Filled(10)}, &outputs).ok());
  EXPECT_EQ(Values(outputs[0]), std::vector<float>(kElements, 23));
}

TEST(Executor, AnUnusedInputHasNoBuffer) {
  Schedule schedule;
  schedule.buffers = {Of(kIn), Of(kOut)};
  schedule.steps.push_back(SumStep({0, 1}, 1));
  schedule.inputs = {-1, 0};
  schedule.outputs = {1};
  auto executor = Make(Frame(2, {0}), std::move(schedule));
  std::vector<Tensor> outputs;
  ASSERT_TRUE(executor->Run({Filled(10), Filled(3)}, &outputs).ok());
  EXPECT_EQ(Values(outputs[0])[0], 4);
}

TEST(Executor, ChecksInputs) {
  auto executor = Make(Frame(2, {0}), TwoBranches());
  std::vector<Tensor> outputs;
  EXPECT_THAT(std::string(executor->Run({Filled(1)}, &outputs).message()), HasSubstr("1 inputs given, 2 expected"));
  const Tensor wrong(TensorType{DType::kFloat32, {2, 4}});
  EXPECT_THAT(std::string(executor->Run({Filled(1), wrong}, &outputs).message()),
              HasSubstr("input in1 is f32[2,4], expected f32[8]"));
  EXPECT_THAT(std::string(executor->Run({Filled(1), Tensor()}, &outputs).message()),
              HasSubstr("input in1 is empty, expected f32[8]"));
}

// total += in0; out = total + in0
Schedule Accumulator(std::shared_ptr<void> first) {
  Schedule schedule;
  schedule.buffers = {Of(kIn), Of(Buffer::Kind::kState), Of(kOut)};
  schedule.buffers[1].data = std::move(first);
  Step add;
  add.label = "accumulate";
  add.buffers = {{0, Access::kRead}, {1, Access::kUpdate}};
  add.kernel = std::make_unique<BodyKernel>([](void* const* at) {
    for (int64_t i = 0; i < kElements; ++i) static_cast<float*>(at[1])[i] += static_cast<const float*>(at[0])[i];
    return absl::OkStatus();
  });
  schedule.steps.push_back(std::move(add));
  schedule.steps.push_back(SumStep({0, 1, 2}));
  schedule.inputs = {0};
  schedule.outputs = {2, 1};
  return schedule;
}

TEST(Executor, StatesLastFromRunToRun) {
  Tensor hundred = Filled(100);
  const std::shared_ptr<void> firsts[] = {nullptr,
                                          std::shared_ptr<void>(std::make_shared<Tensor>(hundred), hundred.data())};
  for (const std::shared_ptr<void>& first : firsts) {
    auto executor = Make(Frame(1, {0, 0}), Accumulator(first));
    EXPECT_EQ(executor->arena_bytes(), 0) << "a state is no activation";
    float total = first == nullptr ? 0 : 100;
    std::vector<Tensor> outputs;
    for (float x : {1.0f, 2.0f, 4.0f}) {
      ASSERT_TRUE(executor->Run({Filled(x)}, &outputs).ok());
      total += x;
      EXPECT_EQ(Values(outputs[0]), std::vector<float>(kElements, total + x));
      EXPECT_EQ(Values(outputs[1]), std::vector<float>(kElements, total)) << "the state itself";
    }
  }
  EXPECT_EQ(Values(hundred), std::vector<float>(kElements, 100)) << "what a state begins with is not its memory";
}

// Another executor of the same schedule starts with the first states; threads that share one lose no update.
TEST(Executor, RunsThatShareAStateTakeTurns) {
  auto executor = Make(Frame(1, {0, 0}), Accumulator(nullptr));
  constexpr int kRuns = 200;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      std::vector<Tensor> outputs;
      for (int i = 0; i < kRuns; ++i) EXPECT_TRUE(executor->Run({Filled(1)}, &outputs).ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<Tensor> outputs;
  ASSERT_TRUE(executor->Run({Filled(0)}, &outputs).ok());
  EXPECT_EQ(Values(outputs[1])[0], 4 * kRuns);
}

TEST(Executor, OutputsThatOverlapWhatIsReadAreReplaced) {
  auto executor = Make(Frame(2, {0}), TwoBranches());
  const Tensor wide(TensorType{DType::kFloat32, {2 * kElements}});
  float* const memory = const_cast<float*>(wide.as<float>());
  std::fill(memory, memory + 2 * kElements, 3.0f);
  const auto part = [&](int64_t begin) { return Tensor(VectorType(), std::make_shared<Tensor>(wide), memory + begin); };
  std::vector<Tensor> outputs = {part(kElements / 2)};  // half of it is the input
  ASSERT_TRUE(executor->Run({part(0), Filled(1)}, &outputs).ok());
  EXPECT_EQ(Values(outputs[0]), std::vector<float>(kElements, 10));
  EXPECT_EQ(Values(wide), std::vector<float>(2 * kElements, 3));
  outputs = {part(kElements)};  // beside it
  ASSERT_TRUE(executor->Run({part(0), Filled(1)}, &outputs).ok());
  EXPECT_EQ(outputs[0].data(), memory + kElements);
}

TEST(Executor, OutputsThatOverlapConstantsAreReplaced) {
  Schedule schedule;
  schedule.buffers = {Of(kIn), Of(Buffer::Kind::kConstant), Of(kOut)};
  Tensor constant = Filled(7);
  schedule.buffers[1].data = std::shared_ptr<void>(std::make_shared<Tensor>(constant), constant.data());
  schedule.steps.push_back(SumStep({0, 1, 2}));
  schedule.inputs = {0};
  schedule.outputs = {2};
  auto executor = Make(Frame(1, {0}), std::move(schedule));
  for (int run = 0; run < 2; ++run) {
    std::vector<Tensor> outputs = {constant};
    ASSERT_TRUE(executor->Run({Filled(1)}, &outputs).ok());
    EXPECT_EQ(Values(outputs[0])[0], 8);
  }
}

// Memory for one more concurrent run is allocated when it is needed, and kept.
TEST(Executor, RunsOfSeveralThreadsHaveMemoryOfTheirOwn) {
  Schedule schedule;
  schedule.buffers = {Of(kIn), Of(kAct), Of(kOut)};
  schedule.steps.push_back(SumStep({0, 1}, 1));
  // All threads are inside at once.
  constexpr int kThreads = 4;
  std::barrier<> all(kThreads);
  std::mutex mutex;
  std::set<void*> places;
  Step meet;
  meet.buffers = {{1, Access::kRead}};
  meet.kernel = std::make_unique<BodyKernel>([&](void* const* at) {
    {
      const std::lock_guard<std::mutex> lock(mutex);
      places.insert(at[0]);
    }
    all.arrive_and_wait();
    return absl::OkStatus();
  });
  schedule.steps.push_back(std::move(meet));
  schedule.steps.push_back(SumStep({1, 2}, 1));
  schedule.inputs = {0};
  schedule.outputs = {2};
  auto executor = Make(Frame(1, {0}), std::move(schedule));
  for (int round = 0; round < 3; ++round) {
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        std::vector<Tensor> outputs;
        EXPECT_TRUE(executor->Run({Filled(static_cast<float>(t))}, &outputs).ok());
        EXPECT_EQ(Values(outputs[0]), std::vector<float>(kElements, static_cast<float>(t + 2)));
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(places.size(), static_cast<size_t>(kThreads)) << "memory is used again";
  }
}

std::string ErrorOf(Schedule schedule) {
  return std::string(Executor::Create(Frame(2, {0}), std::move(schedule)).status().message());
}

TEST(Executor, RefusesFaultySchedules) {
  Schedule schedule = TwoBranches();
  schedule.inputs = {0};
  EXPECT_THAT(ErrorOf(std::move(schedule)), HasSubstr("1 inputs and 1 outputs for a graph with 2 and 1"));
  schedule = TwoBranches();
  schedule.inputs = {0, 2};
  EXPECT_THAT(ErrorOf(std::move(schedule)), HasSubstr("input 1 has no buffer of its own"));
  schedule = TwoBranches();
  schedule.buffers[4].bytes = 4;
  EXPECT_THAT(ErrorOf(std::move(schedule)), HasSubstr("output 0 has 32 bytes, its buffer 4"));
  schedule = TwoBranches();
  schedule.steps[1].kernel = nullptr;
  EXPECT_THAT(ErrorOf(std::move(schedule)), HasSubstr("step 1 (sum) has no kernel"));
}

// Runs random schedules, in which every step writes a new buffer from earlier ones, and compares with runs that share
// no memory.
TEST(Executor, SharedMemoryComputesWhatSeparateMemoryDoes) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937 rng(seed);
    Schedule schedule;
    schedule.buffers = {Of(kIn)};
    std::vector<float> expected = {1};
    const int steps = 1 + static_cast<int>(rng() % 30);
    for (int s = 0; s < steps; ++s) {
      const int count = static_cast<int>(schedule.buffers.size());
      const auto recent = [&] { return std::max(0, count - 1 - static_cast<int>(rng() % 6)); };
      const int a = recent();
      const int b = recent();
      schedule.buffers.push_back(Of(s + 1 == steps ? kOut : kAct));
      expected.push_back(std::fmod(expected[a] + expected[b], 1000.0f) + static_cast<float>(s));
      Step step;
      step.buffers = {{a, Access::kRead}, {b, Access::kRead}, {count, Access::kWrite}};
      step.kernel = std::make_unique<BodyKernel>([s](void* const* at) {
        for (int64_t i = 0; i < kElements; ++i) {
          const float sum = static_cast<const float*>(at[0])[i] + static_cast<const float*>(at[1])[i];
          static_cast<float*>(at[2])[i] = std::fmod(sum, 1000.0f) + static_cast<float>(s);
        }
        return absl::OkStatus();
      });
      schedule.steps.push_back(std::move(step));
    }
    schedule.inputs = {0};
    schedule.outputs = {static_cast<int>(schedule.buffers.size()) - 1};
    auto executor = Make(Frame(1, {0}), std::move(schedule));
    std::vector<Tensor> outputs;
    ASSERT_TRUE(executor->Run({Filled(1)}, &outputs).ok());
    ASSERT_EQ(Values(outputs[0]), std::vector<float>(kElements, expected.back())) << "seed " << seed;
  }
}

TEST(Timing, CountsRunsAndTimesSteps) {
  auto executor = Make(Frame(2, {0}), TwoBranches());
  const std::vector<Tensor> inputs = {Filled(10), Filled(5)};
  TimingOptions options;
  options.iterations = 7;
  const auto timing = TimeRuns(*executor, inputs, options);
  ASSERT_TRUE(timing.ok()) << timing.status();
  EXPECT_EQ(timing->count, 7);
  EXPECT_GT(timing->min, 0);
  EXPECT_LE(timing->min, timing->median);
  EXPECT_LE(timing->median, timing->p90);
  std::vector<Tensor> outputs;
  std::vector<double> seconds;
  ASSERT_TRUE(executor->RunTimed(inputs, &outputs, &seconds).ok());
  EXPECT_EQ(seconds.size(), 3u);
}

TEST(Timing, StopsWhenAskedOrOutOfTime) {
  auto executor = Make(Frame(2, {0}), TwoBranches());
  const std::vector<Tensor> inputs = {Filled(10), Filled(5)};
  TimingOptions options;
  options.iterations = 1000;
  options.max_seconds = 0;
  EXPECT_EQ(TimeRuns(*executor, inputs, options)->count, options.min_iterations);
  options.stop = [] { return true; };
  EXPECT_EQ(TimeRuns(*executor, inputs, options)->count, 1);
}

}  // namespace
}  // namespace rewright
