// onnxruntime and OpenVINO as devices, against the reference interpreter; and what is said where there is none.
#include "backends/runtimes/file_device.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <set>
#include <thread>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "backends/common/group.h"
#include "backends/device_factory.h"
#include "core/ir/text.h"
#include "core/onnx/proto.h"
#include "core/onnx/source.h"
#include "core/ops/ops.h"
#include "gmock/gmock.h"
#include "runtime/executor.h"
#include "runtime/measure/profile_db.h"
#include "tests/backends/cpu/runner_util.h"
#include "tests/backends/random_graph_util.h"
#include "tests/counts.h"
#include "tests/support/temporary_folder.h"

namespace rewright {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kLibrary[] = "REWRIGHT_ONNXRUNTIME";
constexpr char kOpenVino[] = "REWRIGHT_OPENVINO";
constexpr char kPython[] = "REWRIGHT_PYTHON";

// Variables of the environment are as before behind each test.
class RuntimeErrors : public testing::Test {
 protected:
  RuntimeErrors() {
    for (const char* name : {kLibrary, kOpenVino, kPython}) {
      const char* value = std::getenv(name);
      before_.emplace_back(name, value == nullptr ? std::nullopt : std::optional<std::string>(value));
    }
  }
  ~RuntimeErrors() override {
    for (const auto& [name, value] : before_) {
      value ? setenv(name.c_str(), value->c_str(), 1) : unsetenv(name.c_str());
    }
  }
  static std::string ErrorWith(const char* variable, const std::string& value, const std::string& device) {
    setenv(variable, value.c_str(), 1);
    return MakeDevice(device).status().ToString();
  }

 private:
  std::vector<std::pair<std::string, std::optional<std::string>>> before_;
};

// A runtime, found by the Python of the repository where that has it and no library is named.
class RuntimeTest : public RuntimeErrors, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    const std::string python = std::string(REWRIGHT_SOURCE_DIR) + "/.venv/bin/python";
    setenv(kPython, python.c_str(), 1);
    const absl::Status found = MakeDevice(GetParam()).status();
    if (!found.ok() && std::getenv(variable()) == nullptr) GTEST_SKIP() << found;
  }
  static const char* variable() { return std::string(GetParam()) == "openvino" ? kOpenVino : kLibrary; }

  static std::unique_ptr<Device> Make(int threads = 1, const std::string& profile = "") {
    auto device = MakeDevice(GetParam(), {threads, *ProfileDb::Open(profile)});
    EXPECT_TRUE(device.ok()) << device.status();
    return device.ok() ? *std::move(device) : nullptr;
  }
};
INSTANTIATE_TEST_SUITE_P(Runtimes, RuntimeTest, testing::Values("onnxruntime", "openvino"),
                         [](const auto& info) { return std::string(info.param); });

TEST_F(RuntimeErrors, SayWhatWasLookedForAndWhatWasFound) {
  EXPECT_THAT(ErrorWith(kLibrary, "/nonexistent/libonnxruntime.so", "onnxruntime"),
              testing::AllOf(HasSubstr("device onnxruntime: no library"), HasSubstr("/nonexistent/libonnxruntime.so"),
                             HasSubstr("set REWRIGHT_ONNXRUNTIME to the path of one")));
  EXPECT_THAT(ErrorWith(kLibrary, "libm.so.6", "onnxruntime"), HasSubstr("libm.so.6 has no function OrtGetApiBase"));
  EXPECT_THAT(ErrorWith(kLibrary, REWRIGHT_OLD_ONNXRUNTIME, "onnxruntime"),
              HasSubstr("found version 1.3.1, expected one that knows the C API of version 12"));
  EXPECT_THAT(ErrorWith(kOpenVino, "/nonexistent/libopenvino_c.so", "openvino"),
              testing::AllOf(HasSubstr("device openvino: no library"), HasSubstr("/nonexistent/libopenvino_c.so"),
                             HasSubstr("set REWRIGHT_OPENVINO to the path of one")));
  EXPECT_THAT(ErrorWith(kOpenVino, "libm.so.6", "openvino:cpu"),
              HasSubstr("libm.so.6 has no function ov_get_openvino_version"));
}

// The words of OpenVINO have several lines.
TEST_F(RuntimeErrors, AreThoseOfTheRuntime) {
  setenv(kOpenVino, REWRIGHT_REFUSING_OPENVINO, 1);
  const auto device = MakeDevice("openvino");
  ASSERT_TRUE(device.ok()) << device.status();
  const Graph graph = *ParseGraph("input x: f32[2]\n%0 = exp(x)\noutput y = %0\n");
  const std::string words = "openvino: Exception from a.cc:1: the model is refused";
  EXPECT_EQ((*device)->Compile(graph).status().message(), words);
  EXPECT_EQ(*(*device)->Cost(graph, (*device)->Partition(graph)[0]), kRefusedSeconds);
  EXPECT_THAT((*device)->faults(), ElementsAre(HasSubstr(words)));
}

TEST_F(RuntimeErrors, NameThePackageOfPython) {
  for (const char* variable : {kLibrary, kOpenVino}) unsetenv(variable);
  const std::string program = "/nonexistent/bin/python", packages = "/nonexistent/lib/python3/site-packages/";
  setenv(kPython, program.c_str(), 1);
  for (const auto& [device, name, place] :
       {std::tuple("onnxruntime", "libonnxruntime.so.1", "onnxruntime/capi/libonnxruntime.so"),
        {"openvino", "libopenvino_c.so", "openvino/libs/libopenvino_c.so"}}) {
    const auto made = MakeDevice(device);
    if (made.ok()) GTEST_SKIP() << "the loader finds a library of " << device << " by itself";
    EXPECT_THAT(made.status().ToString(), testing::AllOf(HasSubstr(name), HasSubstr(packages + place)));
  }
}

TEST_F(RuntimeErrors, OtherNames) {
  for (const char* name : {"onnxruntime:tpu", "openvino:gpu"}) {
    EXPECT_THAT(MakeDevice(name).status().ToString(), HasSubstr("expected cpu, cuda:N, onnxruntime, openvino")) << name;
    EXPECT_FALSE(IsFileRuntime(name));
  }
  EXPECT_TRUE(IsFileRuntime("onnxruntime:cpu") && IsFileRuntime("openvino"));
}

// A model is named as a source while another thread compiles. The thread sanitizer reports a list of sources without a
// lock here.
TEST_P(RuntimeTest, SourcesAreNamedBesideACompilation) {
  const std::unique_ptr<Device> device = Make();
  ASSERT_NE(device, nullptr);
  auto& files = dynamic_cast<FileDevice&>(*device);
  const absl::StatusOr<Graph> graph = ParseGraph("input x: f32[2]\n%1 = exp(x)\noutput y = %1\n");
  ASSERT_TRUE(graph.ok());
  std::atomic<bool> ends = false;
  std::thread namer([&] {
    const auto empty = std::make_shared<onnx::ModelProto>();
    ImportedModel model;
    model.graph = *graph;
    model.metadata.doc = std::string(1000, 'x');
    std::vector<std::shared_ptr<const OnnxSource>> alive(2000);
    for (size_t i = 0; !ends; ++i) {
      model.source = std::make_shared<OnnxSource>(empty, 17, graph->arena(), absl::flat_hash_map<std::string, Value>());
      alive[i % alive.size()] = model.source;
      files.UseSource(model);
    }
  });
  absl::Status compiled;
  for (int i = 0; i < 10; ++i) compiled.Update(files.Compile(*graph).status());
  ends = true;
  namer.join();
  EXPECT_EQ(compiled, absl::OkStatus());
}

TEST_P(RuntimeTest, RandomGraphsAgreeWithTheInterpreter) {
  for (const int threads : {1, 2}) {
    const auto device = Make(threads);
    ASSERT_NE(device, nullptr);
    for (uint64_t seed = 0; seed < static_cast<uint64_t>(Cases(20)); ++seed) {
      SCOPED_TRACE(absl::StrCat("seed ", seed, ", threads ", threads));
      ExpectAgrees(*device, RandomImageGraph(seed, 12), -1, 1, seed);
      ExpectAgrees(*device, RandomMatrixGraph(seed, 12), -1, 1, seed);
      if (HasFailure()) return;
    }
  }
}

TEST_P(RuntimeTest, TypesAndOddOutputs) {
  const auto device = Make();
  ASSERT_NE(device, nullptr);
  // An input and a weight that are outputs, one value twice, no elements, an input that nothing reads.
  ExpectAgrees(*device,
               GraphWithWeights(R"(
input x: f32[3,5]
input unused: f64[2]
input n: i64[4]
input m: i32[4]
input none: f32[0,3]
state w: f32[5,2]
%0 = matmul(x, w)
%1 = mul(n, n)
%2 = less(m, m)
%3 = relu(none)
output a = %0
output b = %0
output c = %1
output d = %2
output e = x
output f = w
output g = %3
)",
                                -1, 1, 1),
               -1, 1, 1);
}

// onnxruntime 1.31 makes an invalid model of it by its own fusion: it runs with fewer optimizations then.
TEST_P(RuntimeTest, LayerNormOfAVectorInParts) {
  const auto device = Make();
  ASSERT_NE(device, nullptr);
  const Graph graph = GraphWithWeights(R"(
input x: f32[4]
state g: f32[4]
state b: f32[4]
const %0: f32[] = [2]
const %1: f32[] = [1e-05]
%2 = reduce_mean(x, axes=[0], keepdims=1)
%3 = sub(x, %2)
%4 = pow(%3, %0)
%5 = reduce_mean(%4, axes=[0], keepdims=1)
%6 = add(%5, %1)
%7 = sqrt(%6)
%8 = div(%3, %7)
%9 = mul(g, %8)
%10 = add(b, %9)
output y = %10
)",
                                       -1, 1, 1);
  ExpectAgrees(*device, graph, -1, 1, 1);
}

TEST_P(RuntimeTest, EveryNodeIsInOneGroup) {
  const auto device = Make();
  ASSERT_NE(device, nullptr);
  const auto labels = [&](const Graph& graph) {
    std::vector<std::string> labels;
    std::set<NodeId> seen;
    for (const Group& group : device->Partition(graph)) {
      for (NodeId id : group.nodes) EXPECT_TRUE(seen.insert(id).second) << "a node in two groups";
      for (Value input : group.inputs) {
        EXPECT_TRUE(!graph.IsRun(graph.node(input.node)) || seen.count(input.node) > 0) << "read before it is there";
      }
      labels.push_back(GroupLabel(graph, group));
    }
    for (NodeId id : graph.nodes()) EXPECT_EQ(seen.count(id) > 0, graph.IsRun(graph.node(id))) << id;
    return labels;
  };
  EXPECT_THAT(labels(GraphWithWeights(R"(
input x: f32[2,3,8]
input y: f32[2,5,8]
state s: f32[5]
%0 = transpose(y, perm=[0,2,1])
%1 = matmul(x, %0)
%2 = add(%1, s)
%3 = softmax(%2, axis=2)
%4 = exp(%3)
%5 = reduce_sum(%4, axes=[2], keepdims=1)
%6 = div(%4, %5)
%7 = transpose(%6, perm=[1,0,2])
output z = %7
)",
                                      -1, 1, 1)),
              ElementsAre("transpose+matmul+add", "softmax+exp+reduce_sum+div", "transpose"));
  for (uint64_t seed = 0; seed < 30; ++seed) {
    labels(RandomImageGraph(seed, 20));
    labels(RandomMatrixGraph(seed, 20));
  }
}

constexpr char kMlp[] = R"(
input x: f32[32,64]
state w: f32[64,128]
state v: f32[128,64]
%0 = matmul(x, w)
%1 = relu(%0)
%2 = matmul(%1, v)
output y = %2
)";

TEST_P(RuntimeTest, CostsAreMeasuredOnceAndKept) {
  const std::string path = TemporaryFile("rewright_onnxruntime.db");
  std::remove(path.c_str());
  const Graph graph = GraphWithWeights(kMlp, -1, 1, 1);
  std::string name;
  {
    const auto device = Make(1, path);
    ASSERT_NE(device, nullptr);
    name = device->name();
    EXPECT_THAT(name, testing::AllOf(HasSubstr(absl::StrCat(GetParam(), " (cpu, ")), HasSubstr(", threads 1)")));
    for (const Group& group : device->Partition(graph)) {
      const auto seconds = device->Cost(graph, group);
      ASSERT_TRUE(seconds.ok()) << seconds.status();
      EXPECT_GT(*seconds, 0);
      EXPECT_LT(*seconds, 1);
    }
    EXPECT_THAT(device->faults(), ElementsAre());
  }
  auto profile = ProfileDb::Open(path);
  ASSERT_TRUE(profile.ok()) << profile.status();
  auto records = (*profile)->List();
  ASSERT_TRUE(records.ok()) << records.status();
  ASSERT_EQ(records->size(), 2u);
  for (const ProfileRecord& record : *records) {
    EXPECT_EQ(record.device, name);
    ASSERT_TRUE((*profile)->Put(name, record.signature, {123, 124, 1, 1}).ok());
  }
  const auto again = Make(1, path);
  for (const Group& group : again->Partition(graph)) EXPECT_EQ(*again->Cost(graph, group), 123);
}

// A matrix product with 64 times the work, on operands that no cache forgives.
TEST_P(RuntimeTest, MoreWorkCostsMore) {
  const auto device = Make();
  ASSERT_NE(device, nullptr);
  const auto cost = [&](const std::string& text) {
    const Graph graph = GraphWithWeights(text, -1, 1, 1);
    const auto groups = device->Partition(graph);
    EXPECT_EQ(groups.size(), 1u);
    const auto seconds = device->Cost(graph, groups[0]);
    EXPECT_TRUE(seconds.ok()) << seconds.status();
    return *seconds;
  };
  const auto product = [](int size) {
    return absl::StrCat("input x: f32[", size, ",", size, "]\nstate w: f32[", size, ",", size,
                        "]\n%0 = matmul(x, w)\noutput y = %0\n");
  };
  EXPECT_GT(cost(product(512)), 8 * cost(product(128)));
  // Nothing is moved by a reshape, however large.
  const double small = cost("input x: f32[4]\n%0 = reshape(x, shape=[2,2])\noutput y = %0\n");
  EXPECT_EQ(cost("input x: f32[4096,1024]\n%0 = reshape(x, shape=[1024,4096])\noutput y = %0\n"), small);
  EXPECT_GT(cost("input x: f32[4096,1024]\n%0 = transpose(x, perm=[1,0])\noutput y = %0\n"), 8 * small);
}

// Indices of a weight lie within the axis, in copies as well.
TEST_P(RuntimeTest, GatherByKnownIndicesIsMeasured) {
  const auto device = Make();
  ASSERT_NE(device, nullptr);
  const Graph graph = GraphWithWeights(R"(
input x: f32[3,16]
state k: i64[2]
%0 = gather(x, k, axis=0)
output y = %0
)",
                                       0, 2, 1);
  const auto seconds = device->Cost(graph, device->Partition(graph)[0]);
  ASSERT_TRUE(seconds.ok()) << seconds.status();
  EXPECT_LT(*seconds, 1);
  EXPECT_THAT(device->faults(), ElementsAre());
}

// An operator that only Rewright knows is refused.
TEST_P(RuntimeTest, SaysWhatItRefuses) {
  const auto device = Make();
  ASSERT_NE(device, nullptr);
  const absl::StatusOr<Graph> graph = ParseGraph(R"(
input seed: i64[]
%0 = random_uniform(seed, shape=[4])
output y = %0
)");
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT(device->Compile(*graph).status().ToString(),
              testing::AllOf(HasSubstr(absl::StrCat(GetParam(), ": ")), HasSubstr("RandomUniform")));
  const auto seconds = device->Cost(*graph, device->Partition(*graph)[0]);
  ASSERT_TRUE(seconds.ok()) << seconds.status();
  EXPECT_EQ(*seconds, kRefusedSeconds);
  EXPECT_THAT(device->faults(),
              ElementsAre(testing::AllOf(HasSubstr("random_uniform"), HasSubstr(absl::StrCat(GetParam(), ": ")))));
}

TEST_P(RuntimeTest, RunsNoStepsOfTraining) {
  const auto device = Make();
  ASSERT_NE(device, nullptr);
  auto arena = std::make_shared<Arena>(Mode::kTraining);
  const Value x = *arena->AddInput("x", TensorType{DType::kFloat32, {2}});
  const NodeId y = *arena->Add(*ops::Relu(), {x}, {});
  EXPECT_THAT(device->Compile(Graph(arena, {x}, {{Value{y, 0}, "y"}})).status().ToString(),
              HasSubstr("found a graph for training, expected one for inference"));
}

}  // namespace
}  // namespace rewright
