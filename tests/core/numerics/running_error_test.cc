// Bounds for values that are known before a run, against what the interpreter computes in their own types.
#include "core/numerics/running_error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>

#include "core/interpreter/interpreter.h"
#include "core/interpreter/known_values.h"
#include "core/ir/random_tensors.h"
#include "tests/support/parsed_graph.h"

namespace rewright {
namespace {

// States whose elements are drawn from `low` to 1.
std::map<std::string, Tensor> Drawn(const std::map<std::string, TensorType>& types, uint64_t seed, double low) {
  std::map<std::string, Tensor> states;
  std::mt19937_64 rng(seed);
  std::uniform_real_distribution<double> uniform(low, 1);
  for (const auto& [name, type] : types) {
    Tensor& tensor = states.emplace(name, Tensor(type)).first->second;
    for (int64_t i = 0; i < tensor.num_elements(); ++i) tensor.Set(i, uniform(rng));
  }
  return states;
}

struct BoundCase {
  const char* text;  // computes %0
  std::map<std::string, Shape> states;
  double low = -1;
};

TEST(RunningError, NoElementIsFurtherOffThanItsBound) {
  const std::vector<BoundCase> cases = {
      {"%1 = add(a, b)\n%0 = mul(%1, a)", {{"a", {5, 7}}, {"b", {7}}}},
      {"%1 = matmul(a, b)\n%0 = matmul(%1, c)", {{"a", {5, 9}}, {"b", {9, 6}}, {"c", {6, 4}}}},
      {"%1 = softmax(a, axis=1)\n%0 = matmul(%1, b)", {{"a", {5, 9}}, {"b", {9, 6}}}},
      {"%1 = exp(a)\n%2 = reduce_sum(%1, axes=[1], keepdims=1)\n%0 = div(%1, %2)", {{"a", {5, 9}}}},
      {"%0 = batch_norm(a, s, t, m, v)", {{"a", {1, 4, 3, 3}}, {"s", {4}}, {"t", {4}}, {"m", {4}}, {"v", {4}}}, 0.25},
      {"%1 = conv2d(a, w, pads=[1,1,1,1])\n%0 = tanh(%1)", {{"a", {1, 3, 5, 5}}, {"w", {2, 3, 3, 3}}}},
      {"%1 = sqrt(a)\n%2 = concat(%1, b, axis=0)\n%3 = transpose(%2, perm=[1,0])\n%0 = sub(%3, c)",
       {{"a", {3, 4}}, {"b", {2, 4}}, {"c", {4, 5}}},
       0.25},
      {"%1 = mul(a, b)\n%2 = max(%1, b)\n%3 = reduce_max(%2, axes=[0], keepdims=1)\n%0 = div(%2, %3)",
       {{"a", {5, 7}}, {"b", {5, 7}}},
       0.25}};
  for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
    for (const BoundCase& one : cases) {
      for (uint64_t seed = 1; seed <= 5; ++seed) {
        std::string text;
        std::map<std::string, TensorType> types;
        for (const auto& [name, shape] : one.states) {
          types[name] = {dtype, shape};
          text += "state " + name + ": " + types[name].ToString() + "\n";
        }
        text += std::string(one.text) + "\noutput y = %0\n";
        const Graph graph = GraphOf(text, Drawn(types, seed, one.low));
        const Value value = graph.outputs()[0].value;
        const auto bound = RunningErrorOf(graph.arena(), value, {});
        ASSERT_TRUE(bound.ok()) << text << bound.status();
        EXPECT_TRUE(bound->bounded);
        ASSERT_TRUE(bound->error.has_value()) << text;
        const auto own = ComputeKnown(graph.arena(), {value});
        ASSERT_TRUE(own.ok()) << own.status();
        for (int64_t i = 0; i < (*own)[0].num_elements(); ++i) {
          const double off = std::abs((*own)[0].At(i) - bound->value.At(i)), most = bound->error->At(i);
          // Second-order terms of 8 bits count.
          EXPECT_LE(off, most * (dtype == DType::kFloat32 ? 1.001 : 1.1))
              << text << " seed " << seed << ", element " << i;
          EXPECT_LE(most, 300 * RoundingOf(dtype) * (1 + std::abs(bound->value.At(i)))) << text;
        }
      }
    }
  }
}

TEST(RunningError, MovementsAndExactResultsHaveNone) {
  const auto error_of = [](const std::string& text, const std::map<std::string, Tensor>& states) {
    const Graph graph = GraphOf(text, states);
    const auto bound = RunningErrorOf(graph.arena(), graph.outputs()[0].value, {});
    EXPECT_TRUE(bound.ok()) << bound.status();
    return bound->error.has_value();
  };
  const auto states = Drawn({{"a", {DType::kFloat32, {3, 4}}}}, 1, -1);
  EXPECT_FALSE(error_of("state a: f32[3,4]\n%1 = transpose(a, perm=[1,0])\n%0 = neg(%1)\noutput y = %0\n", states));
  EXPECT_FALSE(error_of("state a: f32[3,4]\n%0 = cast(a, to=f64)\noutput y = %0\n", states));
  EXPECT_TRUE(error_of("state a: f32[3,4]\n%0 = cast(a, to=bf16)\noutput y = %0\n", states));
  EXPECT_FALSE(error_of("const %1: f32[] = [0.5]\nconst %2: f32[] = [0.25]\n%0 = add(%1, %2)\noutput y = %0\n", {}));
  EXPECT_TRUE(error_of("const %1: f32[] = [16777216]\nconst %2: f32[] = [3]\n%0 = add(%1, %2)\noutput y = %0\n", {}));
}

}  // namespace
}  // namespace rewright
