// Reductions along rows with what is computed of each row from them, against the interpreter and, bit for bit, against
// the same nodes in groups of their own.
#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "backends/cpu/codegen/jit.h"
#include "backends/cpu/fuse/fusion.h"
#include "backends/device_factory.h"
#include "gmock/gmock.h"
#include "tests/backends/cpu/runner_util.h"

namespace rewright {
namespace {

using cpu::FusedGroup;

std::vector<FusedGroup> RowsOf(const Graph& graph) {
  std::vector<FusedGroup> rows = cpu::FuseGraph(graph);
  std::erase_if(rows, [](const FusedGroup& group) { return group.kind != FusedGroup::Kind::kRows; });
  return rows;
}

// The nodes of the text, whose last one is the result. `reduction`: the name of one, which is a result as well.
Graph GraphOf(const std::string& text, const std::string& result, const std::string& reduction = "") {
  return GraphWithWeights(
      absl::StrCat(text, "output y = ", result, "\n", reduction.empty() ? "" : "output r = " + reduction + "\n"), 0.5,
      1.5, 3);
}

std::vector<Tensor> Inputs(const Graph& graph) {
  Rng rng(11);
  std::vector<Tensor> inputs;
  for (Value input : graph.inputs()) inputs.push_back(RandomTensor(graph.type(input), 0.25, 2, rng));
  return inputs;
}

struct RowsCase {
  const char* name;
  const char* text;  // R rows of C elements
  const char* reduction;
  const char* result;
  size_t nodes;  // that are in the group
};

constexpr RowsCase kRowsCases[] = {
    {"norm_by_root_mean_square", R"(input x: f32[R,C]
state scale: f32[C]
const %9: f32[] = [1e-5]
%0 = mul(x, x)
%1 = reduce_mean(%0, axes=[1])
%2 = reshape(%1, shape=[R,1])
%3 = add(%2, %9)
%4 = sqrt(%3)
%5 = div(x, %4)
%6 = mul(%5, scale)
)",
     "%1", "%6", 7},
    {"root_before_the_reshape", R"(input x: f32[R,C]
input other: f32[R,C]
%0 = mul(x, other)
%1 = reduce_sum(%0, axes=[1])
%2 = sqrt(%1)
%3 = reshape(%2, shape=[R,1])
%4 = mul(other, %3)
%5 = add(%4, x)
)",
     "%1", "%5", 6},
    {"less_the_largest", R"(input x: f32[R,C]
%0 = reduce_max(x, axes=[1])
%1 = reshape(%0, shape=[R,1])
%2 = sub(x, %1)
%3 = abs(%2)
%4 = mul(%3, %2)
)",
     "%0", "%4", 5},
    {"several_axes", R"(input x: f32[2,R,3,C]
input of_heads: f32[2,1,3,C]
%0 = mul(x, x)
%1 = reduce_min(%0, axes=[2,3])
%2 = reshape(%1, shape=[2,R,1,1])
%3 = mul(x, %2)
%4 = add(%3, of_heads)
%5 = neg(%4)
)",
     "%1", "%5", 6},
};

TEST(CpuRows, AreTheOraclesAndThoseOfSingleGroups) {
  if (!cpu::HasLoopCompiler()) GTEST_SKIP() << "there is no plugin librewright_jit.so";
  for (const RowsCase& c : kRowsCases) {
    for (const auto& [rows, columns] : {std::pair(700, 131), std::pair(97, 768), std::pair(43, 2500)}) {
      for (const int threads : {1, 3}) {
        const std::string text = absl::StrReplaceAll(c.text, {{"R", absl::StrCat(rows)}, {"C", absl::StrCat(columns)}});
        SCOPED_TRACE(absl::StrCat(c.name, ", ", threads, " threads, ", rows, " x ", columns));
        const auto device = MakeDevice("cpu", {threads});
        ASSERT_TRUE(device.ok()) << device.status();
        const Graph graph = GraphOf(text, c.result), apart = GraphOf(text, c.result, c.reduction);
        const std::vector<FusedGroup> joined = RowsOf(graph);
        ASSERT_EQ(joined.size(), 1u);
        EXPECT_EQ(joined[0].group.nodes.size(), c.nodes);
        EXPECT_THAT(RowsOf(apart), testing::IsEmpty());
        ExpectAgrees(**device, graph, 0.25, 2, 7);
        std::vector<std::vector<Tensor>> results;
        for (const Graph* one : {&graph, &apart}) {
          auto schedule = (*device)->Compile(*one);
          ASSERT_TRUE(schedule.ok()) << schedule.status();
          auto executor = MakeHostile(*one, *std::move(schedule));
          ASSERT_TRUE(executor.ok()) << executor.status();
          auto outputs = RunTwice(**executor, Inputs(*one));
          ASSERT_TRUE(outputs.ok()) << outputs.status();
          results.push_back(*std::move(outputs));
        }
        const Tensor &a = results[0][0], &b = results[1][0];
        EXPECT_EQ(std::memcmp(a.data(), b.data(), a.num_bytes()), 0);
      }
    }
  }
}

TEST(CpuRows, OthersStayApart) {
  if (!cpu::HasLoopCompiler()) GTEST_SKIP() << "there is no plugin librewright_jit.so";
  const auto rows_of = [](const std::string& text, const std::string& result, const std::string& more = "") {
    return RowsOf(GraphWithWeights(absl::StrCat(text, "output y = ", result, "\n", more), 0, 1, 3)).size();
  };
  const auto norm = [](const std::string& shape, const std::string& axes, const std::string& numbers) {
    return absl::StrCat("input x: f32", shape, "\n%0 = mul(x, x)\n%1 = reduce_sum(%0, axes=", axes,
                        ")\n%2 = reshape(%1, shape=", numbers, ")\n%3 = sqrt(%2)\n%4 = div(x, %3)\n");
  };
  EXPECT_EQ(rows_of(norm("[700,256]", "[1]", "[700,1]"), "%4"), 1u);
  EXPECT_EQ(rows_of(norm("[700,256]", "[0]", "[1,256]"), "%4"), 0u) << "columns";
  EXPECT_EQ(rows_of(norm("[7000,20]", "[1]", "[7000,1]"), "%4"), 0u) << "short rows";
  EXPECT_EQ(rows_of(norm("[4,90000]", "[1]", "[4,1]"), "%4"), 0u) << "few and long ones";
  EXPECT_EQ(rows_of(norm("[10,256]", "[1]", "[10,1]"), "%4"), 0u) << "too little to be compiled";
  EXPECT_EQ(rows_of(norm("[256,256]", "[1]", "[1,256]"), "%4"), 0u) << "the number of a row for each column";
  EXPECT_EQ(rows_of(norm("[700,256]", "[1]", "[700,1]") + "%5 = exp(%4)\n", "%5"), 0u) << "not compiled";
  EXPECT_EQ(rows_of(norm("[700,256]", "[1]", "[700,1]") + "%5 = add(%2, %3)\n", "%4", "output z = %5\n"), 0u)
      << "the numbers are read elsewhere";
}

}  // namespace
}  // namespace rewright
