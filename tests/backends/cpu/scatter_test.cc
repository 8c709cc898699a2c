// The kernels of scatter_add and dynamic_update_slice against the interpreter: every axis, repeated and negative
// indices, from zeros, from a tensor and over a tensor that is not read any more.
#include <cstring>

#include "absl/strings/str_cat.h"
#include "backends/device_factory.h"
#include "core/interpreter/interpreter.h"
#include "core/ir/random_tensors.h"
#include "core/ir/text.h"
#include "core/tensor/compare.h"
#include "gmock/gmock.h"
#include "tests/backends/cpu/runner_util.h"

namespace rewright {
namespace {

using ::testing::HasSubstr;

struct ScatterCase {
  std::string x, indices, updates;
  int axis;
  int64_t size;
};

std::vector<ScatterCase> ScatterCases() {
  return {{"[9]", "[31]", "[31]", 0, 9},
          {"[5,7]", "[]", "[7]", 0, 5},
          {"[300,67]", "[4,33]", "[4,33,67]", 0, 300},
          {"[3,40,129]", "[57]", "[3,57,129]", 1, 40},
          {"[130,11]", "[2,3]", "[130,2,3]", 1, 11}};
}

// Zeros that no memory holds, an input, or a value that the kernel may write over.
std::string TextOf(const ScatterCase& c, const std::string& type, const std::string& index, int start) {
  std::string text = absl::StrCat("input i: ", index, c.indices, "\ninput u: ", type, c.updates, "\n");
  if (start == 0) {
    absl::StrAppend(&text, "const %0: ", type, "[] = [0]\n%1 = expand(%0, shape=", c.x, ")\n");
  } else {
    absl::StrAppend(&text, "input a: ", type, c.x, "\n%1 = ", start == 1 ? "reshape(a, shape=" + c.x : "neg(a", ")\n");
  }
  return absl::StrCat(text, "%2 = scatter_add(%1, i, u, axis=", c.axis, ")\noutput y = %2\n");
}

TEST(CpuScatter, IsTheOraclesAlongEveryAxis) {
  const auto device = MakeDevice("cpu", {2});
  ASSERT_TRUE(device.ok()) << device.status();
  Rng rng(1);
  for (const ScatterCase& c : ScatterCases()) {
    for (const char* type : {"f32", "f64", "i32", "i64"}) {
      for (int start = 0; start < 3; ++start) {
        const auto graph = ParseGraph(TextOf(c, type, start == 1 ? "i32" : "i64", start));
        ASSERT_TRUE(graph.ok()) << graph.status();
        SCOPED_TRACE(PrintGraph(*graph));
        auto schedule = (*device)->Compile(*graph);
        ASSERT_TRUE(schedule.ok()) << schedule.status();
        EXPECT_EQ(schedule->steps.back().label, "scatter_add");
        EXPECT_EQ(schedule->steps.size(), start == 2 ? 2u : 1u);
        const auto executor = MakeHostile(*graph, *std::move(schedule));
        ASSERT_TRUE(executor.ok()) << executor.status();
        std::vector<Tensor> inputs;
        absl::flat_hash_map<std::string, Tensor> named;
        for (Value input : graph->inputs()) {
          const std::string& name = graph->node(input.node).name;
          const auto size = static_cast<double>(c.size);
          inputs.push_back(name == "i" ? RandomTensor(graph->type(input), rng, -size, size - 1)
                                       : RandomTensor(graph->type(input), rng, -3, 3));
          named[name] = inputs.back();
        }
        const auto expected = InterpretGraph(*graph, named);
        ASSERT_TRUE(expected.ok()) << expected.status();
        const auto found = RunTwice(**executor, inputs);
        ASSERT_TRUE(found.ok()) << found.status();
        const Comparison comparison = Compare((*found)[0], (*expected)[0], 1e-5, 1e-4);
        EXPECT_TRUE(comparison.close) << comparison.text;
      }
    }
  }
}

TEST(CpuScatter, AnIndexOutsideIsAnError) {
  const auto device = MakeDevice("cpu", {2});
  ASSERT_TRUE(device.ok()) << device.status();
  const auto graph = ParseGraph(TextOf(ScatterCases()[1], "f32", "i64", 1));
  ASSERT_TRUE(graph.ok()) << graph.status();
  const auto executor = MakeHostile(*graph, *(*device)->Compile(*graph));
  ASSERT_TRUE(executor.ok()) << executor.status();
  std::vector<Tensor> outputs;
  const std::vector<Tensor> inputs = {Tensor::FromVector(DType::kInt64, {}, std::vector<int>{5}),
                                      Tensor({DType::kFloat32, {7}}), Tensor({DType::kFloat32, {5, 7}})};
  EXPECT_THAT(std::string((*executor)->Run(inputs, &outputs).message()), HasSubstr("index 5 at element 0 of i"));
}

// ---- dynamic_update_slice, and inputs that take their next values in place

TEST(CpuUpdateSlice, IsTheOraclesAtEveryStart) {
  const auto device = MakeDevice("cpu", {2});
  ASSERT_TRUE(device.ok()) << device.status();
  for (const char* x : {"x", "neg(x)"}) {
    for (const char* update : {"u", "transpose(v, perm=[0, 2, 1])"}) {
      const std::string text = absl::StrCat(
          "input x: f32[3,7,5]\ninput u: f32[3,2,5]\ninput v: f32[3,5,2]\ninput s: i64[]\ninput t: i32[]\n",
          "%1 = ", *x == 'x' ? "reshape(x, shape=[3,7,5])" : x,
          "\n%2 = ", *update == 'u' ? "reshape(u, shape=[3,2,5])" : update,
          "\n%3 = dynamic_update_slice(%1, %2, t, s, t)\noutput y = %3\n");
      const auto graph = ParseGraph(text);
      ASSERT_TRUE(graph.ok()) << graph.status();
      const auto schedule = (*device)->Compile(*graph);
      ASSERT_TRUE(schedule.ok()) << schedule.status();
      EXPECT_EQ(schedule->steps.back().label, "dynamic_update_slice");
      for (uint64_t seed = 1; seed <= 8; ++seed) ExpectAgrees(**device, *graph, -4, 9, seed);
    }
  }
}

// keys takes the update of itself; the sum of it is an output, and so is what `also` says.
Graph AppendingGraph(const std::string& also) {
  const auto parsed = ParseGraph(
      absl::StrCat("input keys: f32[2,6,4]\ninput new: f32[2,1,4]\ninput length: i64[]\nconst %0: i64[] = [0]\n",
                   "%1 = dynamic_update_slice(keys, new, %0, length, %0)\n%2 = reduce_sum(%1, axes=[1], keepdims=0)\n",
                   "%3 = neg(", also, ")\noutput next = %1\noutput sum = %2\noutput also = %3\n"));
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  std::vector<Output> outputs = parsed->outputs();
  outputs[0].updates = parsed->inputs()[0];
  return Graph(parsed->arena(), parsed->inputs(), outputs);
}

TEST(CpuUpdateSlice, AnInputTakesItsNextValueInItsMemory) {
  const auto device = MakeDevice("cpu", {2});
  ASSERT_TRUE(device.ok()) << device.status();
  Rng rng(1);
  // The old value is read beside the new one, or not: then nothing is copied.
  for (const bool reads_old : {false, true}) {
    const Graph graph = AppendingGraph(reads_old ? "keys" : "new");
    auto schedule = (*device)->Compile(graph);
    ASSERT_TRUE(schedule.ok()) << schedule.status();
    int copies = 0;
    for (const Step& step : schedule->steps) copies += step.label == "copy" || step.label == "update";
    EXPECT_EQ(copies > 0, reads_old);
    const auto executor = MakeHostile(graph, *std::move(schedule));
    ASSERT_TRUE(executor.ok()) << executor.status();
    Tensor keys = RandomTensor(graph.type(graph.inputs()[0]), -1, 1, rng);
    for (int64_t length = 2; length < 5; ++length) {
      const Tensor row = RandomTensor(graph.type(graph.inputs()[1]), -1, 1, rng);
      Tensor old(keys.type());
      std::memcpy(old.data(), keys.data(), static_cast<size_t>(keys.num_bytes()));
      const auto expected = InterpretGraph(
          graph, {{"keys", old}, {"new", row}, {"length", Tensor::Scalar(DType::kInt64, static_cast<double>(length))}});
      ASSERT_TRUE(expected.ok()) << expected.status();
      std::vector<Tensor> results;
      const absl::Status ran =
          (*executor)->Run({keys, row, Tensor::Scalar(DType::kInt64, static_cast<double>(length))}, &results);
      ASSERT_TRUE(ran.ok()) << ran;
      ASSERT_EQ(results.size(), 2u);
      EXPECT_TRUE(keys.BitEqual((*expected)[0])) << length;
      EXPECT_TRUE(results[1].BitEqual((*expected)[2])) << length;
    }
  }
}

}  // namespace
}  // namespace rewright
