// Whole graphs.
#include "core/ir/graph.h"

#include <atomic>
#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "core/base/stop.h"
#include "core/interpreter/interpreter.h"
#include "core/interpreter/known_values.h"
#include "core/ir/text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/parsed_graph.h"

namespace rewright {
namespace {

using ::testing::HasSubstr;
using Feeds = absl::flat_hash_map<std::string, Tensor>;

const char kText[] = R"(
  input x: f32[2,4]
  state w: f32[4,2]
  const %0: f32[2] = [1,-100]
  %1 = matmul(x, w)
  %2 = add(%1, %0)
  %3 = relu(%2)
  %4.0, %4.1 = split(%3, axis=1, sizes=[1,1])
  output y = %4.0
  output z = %4.1
  output sum = %2
)";

Tensor F32(Shape shape, const std::vector<double>& values) {
  return Tensor::FromVector(DType::kFloat32, std::move(shape), values);
}

TEST(InterpreterGraphTest, GivesOutputsInOrder) {
  const Graph graph = GraphOf(kText, {{"w", F32({4, 2}, {1, 0, 0, 1, 1, 1, 2, 2})}});
  const Tensor x = F32({2, 4}, {1, 2, 3, 4, -1, -2, -3, -4});
  const auto results = InterpretGraph(graph, {{"x", x}});
  ASSERT_TRUE(results.ok()) << results.status();
  ASSERT_EQ(results->size(), 3u);
  EXPECT_TRUE((*results)[0].BitEqual(F32({2, 1}, {13, 0})));
  EXPECT_TRUE((*results)[1].BitEqual(F32({2, 1}, {0, 0})));
  EXPECT_TRUE((*results)[2].BitEqual(F32({2, 2}, {13, -87, -11, -113})));
}

TEST(InterpreterGraphTest, ARunThatIsStopped) {
  const Graph graph = GraphOf(kText, {{"w", F32({4, 2}, {1, 0, 0, 1, 1, 1, 2, 2})}});
  const std::atomic<bool> flag{true};
  const StopScope scope(&flag);
  const auto results = InterpretGraph(graph, {{"x", F32({2, 4}, {1, 2, 3, 4, -1, -2, -3, -4})}});
  EXPECT_TRUE(absl::IsCancelled(results.status())) << results.status();
}

// A tensor is cut into its rows, which are put together again in the opposite order.
TEST(InterpreterGraphTest, TwentyThousandParts) {
  constexpr int64_t kRows = 20000;
  const size_t before = NumInternedExprs();
  const auto arena = std::make_shared<Arena>();
  const Value x = *arena->AddInput("x", TensorType{DType::kFloat32, {kRows}});
  const auto rows = arena->Add("split", {x}, {{"axis", int64_t{0}}, {"sizes", std::vector<int64_t>(kRows, 1)}});
  ASSERT_TRUE(rows.ok()) << rows.status();
  std::vector<Value> parts;
  for (int64_t row = kRows; row-- > 0;) parts.push_back({*rows, static_cast<int32_t>(row)});
  const auto joined = arena->Apply("concat", std::move(parts), {{"axis", int64_t{0}}});
  ASSERT_TRUE(joined.ok()) << joined.status();
  EXPECT_LT(NumInternedExprs() - before, 16 * kRows);
  Tensor numbers(TensorType{DType::kFloat32, {kRows}});
  for (int64_t row = 0; row < kRows; ++row) numbers.Set(row, static_cast<double>(row));
  const auto results = InterpretGraph(Graph(arena, {x}, {{*joined, "y"}}), {{"x", numbers}});
  ASSERT_TRUE(results.ok()) << results.status();
  for (int64_t row = 0; row < kRows; ++row) {
    ASSERT_EQ((*results)[0].At(row), static_cast<double>(kRows - 1 - row));
  }
}

TEST(InterpreterGraphTest, PartsOfWeightsShareNoApplication) {
  const Graph graph = GraphOf(R"(
input x: f32[2]
state a: f32[2]
state b: f32[2]
%0 = exp(a)
%1 = neg(%0)
%2 = mul(a, b)
%3 = add(%0, b)
%4 = neg(%2)
%5 = neg(b)
%6.0, %6.1 = split(a, axis=0, sizes=[1,1])
output x = x
output p = %1
output q = %4
output r = %3
output s = %5
output t = %6.0
output u = %6.1
output a = a
)");
  std::vector<Value> known;
  for (const Output& output : graph.outputs()) {
    if (output.name != "x") known.push_back(output.value);
  }
  const auto parts = IndependentParts(*graph.arena(), known);
  using Part = std::vector<Value>;
  EXPECT_EQ(parts, (std::vector<Part>{Part{known[0], known[2]}, Part{known[1]}, Part{known[3]},
                                      Part{known[4], known[5]}, Part{known[6]}}));
  EXPECT_TRUE(IndependentParts(*graph.arena(), {}).empty());
}

TEST(InterpreterGraphTest, RunsInDouble) {
  const Graph graph = GraphOf(kText, {{"w", F32({4, 2}, {1, 0, 0, 1, 1, 1, 2, 2})}});
  const Tensor x = F32({2, 4}, {1, 2, 3, 4, -1, -2, -3, -4});
  const auto results = InterpretGraph(graph, {{"x", x}}, {.precision = Precision::kFloat64, .threads = 2});
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_TRUE((*results)[2].BitEqual(*ToPrecision(F32({2, 2}, {13, -87, -11, -113}), Precision::kFloat64)));
  // Inputs may come in double.
  const Tensor wide = *ToPrecision(x, Precision::kFloat64);
  const auto again = InterpretGraph(graph, {{"x", wide}}, {.precision = Precision::kFloat64});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE((*again)[0].BitEqual((*results)[0]));
}

TEST(InterpreterGraphTest, MissingAndWrongInputsAreReported) {
  const Graph graph = GraphOf(kText);
  EXPECT_THAT(std::string(InterpretGraph(graph, {}).status().message()), HasSubstr("input x is not given"));
  EXPECT_THAT(std::string(InterpretGraph(graph, {{"x", F32({1}, {1})}}).status().message()),
              HasSubstr("input x is f32[1], expected f32[2,4]"));
}

TEST(InterpreterGraphTest, ErrorsNameTheNode) {
  const Graph graph = GraphOf(R"(
    input x: i64[2]
    %1 = div(x, x)
    output y = %1
  )");
  const absl::Status status = InterpretGraph(graph, {{"x", Tensor::Int64s({1, 0})}}).status();
  EXPECT_TRUE(absl::IsOutOfRange(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("div (node "));
}

TEST(InterpreterGraphTest, AnIndexOutsideItsAxisIsAnError) {
  const Graph graph = GraphOf(R"(
    input ids: i64[2]
    state table: f32[5,3]
    %1 = add(ids, ids)
    %2 = gather(table, %1)
    output y = %2
  )");
  EXPECT_TRUE(InterpretGraph(graph, {{"ids", Tensor::Int64s({2, -2})}}).ok());
  const absl::Status status = InterpretGraph(graph, {{"ids", Tensor::Int64s({2, -3})}}).status();
  EXPECT_TRUE(absl::IsOutOfRange(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              testing::MatchesRegex(R"(gather \(node [0-9]+\): index -6 at element 1 of the indices i64\[2\], )"
                                    R"(expected -5 <= index < 5 along axis 0 of f32\[5,3\])"));
}

}  // namespace
}  // namespace rewright
