// The plugin where calls fail, recordings are refused and queues overlap.
#include "absl/strings/str_cat.h"
#include "core/ops/common.h"
#include "tests/backends/standin/numbers_util.h"
#include "tests/backends/standin/plugin_util.h"
#include "tests/counts.h"

namespace rewright {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// ---------------------------------------------------------------- what fails

absl::Status RunWhole(const Graph& graph, cuda::Precision precision, std::vector<Tensor>* outputs) {
  cuda::Fault fault;
  std::unique_ptr<cuda::Gpu> gpu(rewright_open_gpu(0, &fault));
  if (gpu == nullptr) return absl::UnavailableError(fault);
  cuda::CudaOptions options;
  options.precision = precision;
  options.channels_last = precision != cuda::Precision::kFp32;
  ASSIGN_OR_RETURN(std::unique_ptr<ProfileDb> profile, ProfileDb::Open(""));
  const auto device = cuda::MakeCudaDevice(std::move(gpu), std::move(profile), options);
  ASSIGN_OR_RETURN(const std::unique_ptr<Executable> executable, MakeGraphRunner(*device)->Prepare(graph));
  std::vector<Tensor> inputs;
  Rng rng(1);
  for (Value input : graph.inputs()) inputs.push_back(RandomTensor(graph.type(input), -1, 1, rng));
  RETURN_IF_ERROR(executable->Run(inputs, outputs));
  return executable->RunAgain(inputs, outputs);
}

// Whichever call fails, either the result is right all the same or there is an error, and nothing is left behind.
TEST_F(Plugin, EveryCallMayFail) {
  const Graph images = GraphWithWeights(kImages, -1, 1, 1), rows = GraphWithWeights(kRows, -1, 1, 1);
  std::set<std::string> functions;
  for (const Graph* graph : {&images, &rows}) {
    std::vector<Tensor> expected;
    Begin({.plans = 2, .fastest = 1});
    ASSERT_TRUE(RunWhole(*graph, cuda::Precision::kBf16, &expected).ok());
    // The calls that fail are the first, the last and a middle one of every function of every library, or with
    // REWRIGHT_FULL all.
    const standin::Observed normal = standin::observed();
    EXPECT_GT(normal.calls, 300);
    std::set<int> failing;
    for (const auto& [function, numbers] : normal.calls_of) {
      functions.insert(function);
      if (std::getenv("REWRIGHT_FULL") != nullptr) failing.insert(numbers.begin(), numbers.end());
      failing.insert({numbers.front(), numbers[numbers.size() / 2], numbers.back()});
    }
    int errors = 0;
    for (int n : failing) {
      SCOPED_TRACE(absl::StrCat("call ", n, " of ", normal.calls));
      Begin({.fail_at = n, .plans = 2, .fastest = 1});
      std::vector<Tensor> outputs;
      const absl::Status status = RunWhole(*graph, cuda::Precision::kBf16, &outputs);
      if (status.ok()) {
        for (size_t i = 0; i < outputs.size(); ++i) {
          for (int64_t e = 0; e < outputs[i].num_elements(); ++e) {
            ASSERT_NEAR(outputs[i].At(e), expected[i].At(e), 0.3 + 0.1 * std::abs(expected[i].At(e)));
          }
        }
      } else {
        ++errors;
        EXPECT_GT(status.message().size(), 5u);
      }
      ExpectClean();
      if (HasFailure()) return;
    }
    EXPECT_GT(errors, 0);
  }
  EXPECT_THAT(functions, testing::IsSupersetOf({"cudaMalloc", "cublasLtMatmul", "cudnnBackendExecute",
                                                "nvrtcCompileProgram", "cudaStreamEndCapture"}));
}

// A library that refuses a part of a description refuses always: the product is refused.
TEST_F(Plugin, RefusedAttributesAreFaults) {
  const cuda::MatmulProblem problem = {
      .batch = 3, .m = 2, .n = 2, .k = 2, .left = {2, 1, 4}, .right = {2, 1, 4}, .out = {2, 1, 4}, .bias = true};
  const auto plan = [&](int fail_at) {
    Begin({.fail_at = fail_at, .plans = 1});
    cuda::Fault fault;
    std::unique_ptr<cuda::Gpu> gpu(rewright_open_gpu(0, &fault));
    std::unique_ptr<cuda::LibraryCall> call;
    return gpu->Plan(problem, &call);
  };
  EXPECT_EQ(plan(-1), "");
  const standin::Observed normal = standin::observed();
  for (const char* function :
       {"cublasLtMatrixLayoutSetAttribute", "cublasLtMatmulDescSetAttribute", "cublasLtMatmulPreferenceSetAttribute"}) {
    const std::vector<int>& numbers = normal.calls_of.at(function);
    EXPECT_THAT(plan(numbers.front()), Not(IsEmpty())) << function;
    EXPECT_THAT(plan(numbers.back()), Not(IsEmpty())) << function;
    ExpectClean();
  }
}

TEST_F(Plugin, SaysHowMuchMemoryIsMissing) {
  Begin({.memory = 2000});
  {
    std::vector<Tensor> outputs;
    const absl::Status status = RunWhole(GraphWithWeights(kImages, -1, 1, 1), cuda::Precision::kFp32, &outputs);
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("of 2000 free"));
  }
  ExpectClean();
}

// A kernel takes as many arguments as it has operands.
TEST_F(Plugin, KernelsTakeManyOperands) {
  constexpr int kOperands = 70;
  std::string text, names;
  for (int i = 0; i < kOperands; ++i) {
    absl::StrAppend(&text, "input x", i, ": f32[2,3]\n");
    absl::StrAppend(&names, i == 0 ? "" : ", ", "x", i);
  }
  const Graph graph =
      GraphWithWeights(absl::StrCat(text, "%1 = concat(", names, ", axis=1)\noutput y = %1\n"), -1, 1, 1);
  ASSERT_FALSE(graph.outputs().empty());
  ExpectRuns(graph, cuda::Precision::kFp32, 1);
}

// ---------------------------------------------------------------- recording

// A product of two numbers.
const cuda::MatmulProblem kOneByOne = {.left = {1, 1}, .right = {1, 1}, .out = {1, 1}};

TEST_F(Plugin, RecordingsAreRefusedWhatTheyCannotHold) {
  Begin();
  {
    cuda::Fault fault;
    std::unique_ptr<cuda::Gpu> gpu(rewright_open_gpu(0, &fault));
    std::unique_ptr<cuda::Recording> recording;
    void* memory = nullptr;
    EXPECT_THAT(gpu->Record([&] { return gpu->Allocate(64, &memory); }, &recording), Not(IsEmpty()));
    EXPECT_THAT(gpu->Record([&] { return gpu->Synchronize(); }, &recording), Not(IsEmpty()));
    // A failed recording leaves nothing open: the next one is recorded.
    EXPECT_EQ(gpu->Record([] { return cuda::Fault(); }, &recording), "");
    EXPECT_EQ(recording->Run(), "");
    // A fork within a recording is joined by RunQueues, also where a step fails behind what it has enqueued.
    std::unique_ptr<cuda::LibraryCall> call;
    ASSERT_EQ(gpu->Plan(kOneByOne, &call), "");
    ASSERT_EQ(gpu->Allocate(4096, &memory), "");
    char* const at = static_cast<char*>(memory);
    void* const buffers[] = {at, at + 256, at + 512, at + 768};
    const std::vector<QueueStep> steps = {{0, {}}, {1, {}}, {1, {0}}};
    const auto work = [&](int) { return call->Run(buffers); };
    const auto fails = [&](int i) { return call->Run(buffers) + (i == 1 ? "no" : ""); };
    EXPECT_EQ(gpu->RunQueues(steps, work), "");  // streams are made outside
    EXPECT_EQ(gpu->Record([&] { return gpu->RunQueues(steps, work); }, &recording), "");
    EXPECT_EQ(recording->Run(), "");
    EXPECT_EQ(gpu->Record([&] { return gpu->RunQueues(steps, fails); }, &recording), "no");
    EXPECT_EQ(gpu->Record([] { return cuda::Fault(); }, &recording), "");
    EXPECT_EQ(gpu->RunQueues(steps, work), "") << "streams that were not joined record still";
    EXPECT_EQ(gpu->Synchronize(), "");
    gpu->Free(memory);
  }
  ExpectClean();
}

// Queues wait for one another as they are told, for what was enqueued before them, and what is enqueued later waits for
// all of them; enqueued and recorded.
TEST_F(Plugin, QueuesKeepTheirOrder) {
  // Step i multiplies two values into value i + 2: the first before the queues, the last behind them.
  constexpr int kSteps = 8;
  const int operands[kSteps][2] = {{0, 0}, {1, 1}, {1, 2}, {1, 1}, {4, 2}, {3, 5}, {6, 4}, {7, 1}};
  constexpr float kExpected = 1024;  // values: the root of 2, then 2, 4, 8, 4, 16, 128, 512, 1024
  const std::vector<QueueStep> queues = {{0, {}}, {0, {}}, {1, {}}, {2, {0, 2}}, {0, {3}}, {1, {4}}};
  for (uint64_t seed = 0; seed < 16; ++seed) {
    Begin({.seed = seed, .plans = 1});
    {
      cuda::Fault fault;
      std::unique_ptr<cuda::Gpu> gpu(rewright_open_gpu(0, &fault));
      std::unique_ptr<cuda::LibraryCall> call;
      ASSERT_EQ(gpu->Plan(kOneByOne, &call), "");
      void* memory = nullptr;
      ASSERT_EQ(gpu->Allocate((2 * kSteps + 2) * 256, &memory), "");
      const auto value = [&](int i) { return static_cast<char*>(memory) + i * 256; };
      const auto step = [&](int i) {
        // A workspace each: steps may run at the same time.
        void* const buffers[] = {value(operands[i][0]), value(operands[i][1]), value(i + 1), value(kSteps + 2 + i)};
        return call->Run(buffers);
      };
      const auto work = [&]() -> cuda::Fault {
        cuda::Fault first = step(0);
        if (first.empty()) first = gpu->RunQueues(queues, [&](int i) { return step(i + 1); });
        return first.empty() ? step(kSteps - 1) : first;
      };
      std::unique_ptr<cuda::Recording> recording;
      for (const bool recorded : {false, true}) {
        std::vector<char> contents((2 * kSteps + 2) * 256, 0);
        const float root = std::sqrt(2.0f);
        std::memcpy(contents.data(), &root, sizeof root);
        ASSERT_EQ(gpu->CopyIn(memory, contents.data(), contents.size()), "");
        fault = recorded ? gpu->Record(work, &recording) : work();
        ASSERT_EQ(fault, "");
        if (recorded) fault = recording->Run();
        ASSERT_EQ(fault, "");
        float last = 0;
        ASSERT_EQ(gpu->CopyOut(&last, value(kSteps), sizeof last), "");
        ASSERT_NEAR(last, kExpected, 1) << "seed " << seed << ", recorded " << recorded;
      }
      gpu->Free(memory);
    }
    ExpectClean();
  }
}

// The stand-in sees what it is there to see.
TEST_F(Plugin, StandInSeesFaults) {
  Begin();
  cudaStream_t one, two;
  cudaEvent_t event;
  cudaGraph_t graph;
  ASSERT_EQ(cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(cudaStreamCreateWithFlags(&two, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
  // A fork that is not joined.
  cudaStreamBeginCapture(one, cudaStreamCaptureModeThreadLocal);
  cudaEventRecord(event, one);
  cudaStreamWaitEvent(two, event, 0);
  standin::Queue(two, 0, [] {});
  EXPECT_EQ(cudaStreamEndCapture(one, &graph), cudaErrorStreamCaptureUnjoined);
  // A dependency on work outside.
  cudaEventRecord(event, two);
  cudaStreamBeginCapture(one, cudaStreamCaptureModeThreadLocal);
  EXPECT_EQ(cudaStreamWaitEvent(one, event, 0), cudaErrorStreamCaptureIsolation);
  EXPECT_NE(cudaStreamEndCapture(one, &graph), cudaSuccess);
  EXPECT_THAT(standin::observed().misuse, IsEmpty());
  // A red zone, and memory that is freed twice.
  void* memory = nullptr;
  cudaMalloc(&memory, 16);
  standin::Queue(one, 0, [memory] { static_cast<char*>(memory)[200] = 1; });
  cudaFree(memory);
  EXPECT_THAT(standin::observed().misuse, testing::ElementsAre(HasSubstr("behind an allocation of 16 bytes")));
  cudaFree(memory);
  EXPECT_EQ(standin::observed().misuse.size(), 2u);
  // Work of two streams runs in either order, that of one in order.
  int swapped = 0;
  for (int i = 0; i < 32; ++i) {
    std::string order;
    standin::Queue(one, 0, [&] { order += "a"; });
    standin::Queue(one, 0, [&] { order += "b"; });
    standin::Queue(two, 0, [&] { order += "c"; });
    cudaStreamSynchronize(one);
    cudaStreamSynchronize(two);
    EXPECT_LT(order.find('a'), order.find('b'));
    swapped += order.front() == 'c' ? 1 : 0;
  }
  EXPECT_GT(swapped, 0);
  EXPECT_LT(swapped, 32);
  EXPECT_GT(standin::Live(), 0);
  cudaEventDestroy(event);
  cudaStreamDestroy(one);
  cudaStreamDestroy(two);
  EXPECT_EQ(standin::Live(), 0);
  // The processor cannot touch what is the GPU's.
  cudaMalloc(&memory, 16);
  EXPECT_DEATH(*static_cast<volatile char*>(memory) = 1, "");
}

}  // namespace
}  // namespace rewright
