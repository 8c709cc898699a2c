// The kernel of scatter_add against the interpreter: every axis, repeated and negative indices, from zeros, from a
// tensor and over a tensor that is not read any more.
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

}  // namespace
}  // namespace rewright
