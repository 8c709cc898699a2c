// Compares LinearAttention with its recurrence, element by element, and CausalConvWithState with its sum.
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "core/ir/random_tensors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/core/onnx/model_util.h"

namespace rewright {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kBatch = 2, kPositions = 5, kHeads = 3, kGroup = 2, kKey = 4, kValue = 7;

struct Inputs {
  std::map<std::string, Tensor> tensors;
  TestModel model{27};

  void Add(const std::string& name, const Shape& shape, Rng& rng) {
    tensors[name] = RandomTensor({DType::kFloat64, shape}, rng, -1, 1);
    model.Input(name, shape, DType::kFloat64);
  }
};

Inputs Random(bool decay_of_each_key, bool one_rate) {
  Inputs inputs;
  Rng rng(5);
  inputs.Add("q", {kBatch, kPositions, kHeads * kGroup * kKey}, rng);
  inputs.Add("k", {kBatch, kPositions, kHeads * kKey}, rng);
  inputs.Add("v", {kBatch, kPositions, kHeads * kValue}, rng);
  inputs.Add("past", {kBatch, kHeads, kKey, kValue}, rng);
  inputs.Add("g", {kBatch, kPositions, decay_of_each_key ? kHeads * kKey : kHeads}, rng);
  inputs.Add("r", {kBatch, kPositions, one_rate ? 1 : kHeads}, rng);
  return inputs;
}

class ImportLinearAttention : public ::testing::TestWithParam<std::tuple<std::string, bool, bool>> {};

TEST_P(ImportLinearAttention, IsItsRecurrence) {
  const auto [rule, decay_of_each_key, one_rate] = GetParam();
  Inputs inputs = Random(decay_of_each_key, one_rate);
  inputs.model
      .Node("LinearAttention", {"q", "k", "v", "past", "g", "r"}, {"y", "state"},
            {{"q_num_heads", kHeads * kGroup}, {"kv_num_heads", kHeads}, {"update_rule", rule}})
      .Output("y")
      .Output("state");
  const auto imported = inputs.model.Import();
  ASSERT_TRUE(imported.ok()) << imported.status();
  const std::vector<Tensor> found = OutputsOf(imported->graph, inputs.tensors);

  const bool decays = rule.substr(0, 5) == "gated", corrects = rule.find("delta") != std::string::npos;
  const auto at = [&](const std::string& name, int64_t b, int64_t t, int64_t i) {
    const Tensor& x = inputs.tensors.at(name);
    return x.At((b * kPositions + t) * x.shape()[2] + i);
  };
  for (int64_t b = 0; b < kBatch; ++b) {
    for (int64_t h = 0; h < kHeads; ++h) {
      double state[kKey][kValue];
      for (int64_t i = 0; i < kKey * kValue; ++i) {
        state[i / kValue][i % kValue] = inputs.tensors.at("past").At((b * kHeads + h) * kKey * kValue + i);
      }
      for (int64_t t = 0; t < kPositions; ++t) {
        const double rate = corrects ? at("r", b, t, one_rate ? 0 : h) : 1;
        for (int64_t i = 0; decays && i < kKey; ++i) {
          const double g = at("g", b, t, decay_of_each_key ? h * kKey + i : h);
          for (double& element : state[i]) element *= std::exp(g);
        }
        for (int64_t j = 0; j < kValue; ++j) {
          double known = 0;
          for (int64_t i = 0; corrects && i < kKey; ++i) known += at("k", b, t, h * kKey + i) * state[i][j];
          const double added = rate * (at("v", b, t, h * kValue + j) - known);
          for (int64_t i = 0; i < kKey; ++i) state[i][j] += at("k", b, t, h * kKey + i) * added;
          for (int64_t n = h * kGroup; n < (h + 1) * kGroup; ++n) {
            double expected = 0;
            for (int64_t i = 0; i < kKey; ++i) expected += at("q", b, t, n * kKey + i) * state[i][j] / 2;  // sqrt(4)
            const int64_t place = ((b * kPositions + t) * kHeads * kGroup + n) * kValue + j;
            ASSERT_NEAR(found[0].At(place), expected, 1e-11) << b << " " << n << " " << t << " " << j;
          }
        }
      }
      for (int64_t i = 0; i < kKey * kValue; ++i) {
        ASSERT_NEAR(found[1].At((b * kHeads + h) * kKey * kValue + i), state[i / kValue][i % kValue], 1e-11);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Rules, ImportLinearAttention,
                         ::testing::Combine(::testing::Values("linear", "gated", "delta", "gated_delta"),
                                            ::testing::Bool(), ::testing::Bool()));

TEST(ImportLinearAttention, SaysWhatIsWrong) {
  const auto error = [](const std::vector<std::string>& names, const TestAttrs& attrs) {
    Inputs inputs = Random(false, false);
    return inputs.model.Node("LinearAttention", names, {"y"}, attrs).Output("y").Error();
  };
  const int64_t heads = kHeads * kGroup;
  EXPECT_THAT(error({"q", "k", "v"}, {{"q_num_heads", heads}, {"kv_num_heads", kHeads}}),
              HasSubstr("update_rule gated_delta without decay"));
  EXPECT_THAT(error({"q", "k", "v", "", "g"},
                    {{"q_num_heads", heads}, {"kv_num_heads", kHeads}, {"update_rule", std::string("delta")}}),
              HasSubstr("update_rule delta without beta"));
  EXPECT_THAT(error({"q", "k", "v"},
                    {{"q_num_heads", int64_t{4}}, {"kv_num_heads", kHeads}, {"update_rule", std::string("linear")}}),
              HasSubstr("q_num_heads is 4 and kv_num_heads 3, expected a multiple"));
  const TestAttrs linear = {{"q_num_heads", heads}, {"kv_num_heads", kHeads}, {"update_rule", std::string("linear")}};
  EXPECT_THAT(error({"q", "v", "k"}, linear), HasSubstr("input 1 is f64[2,5,21], expected [2,5,12]"));
  EXPECT_THAT(error({"q", "k", "v", "r"}, linear), HasSubstr("input 3 is f64[2,5,3], expected [2,3,4,7]"));
  EXPECT_THAT(
      error({"q", "k", "v"}, {{"q_num_heads", heads}, {"kv_num_heads", kHeads}, {"update_rule", std::string("x")}}),
      HasSubstr("update_rule is x, expected "));
}

TEST(ImportCausalConv, IsItsSum) {
  const int64_t batch = 2, channels = 3, length = 5, kernel = 4;
  Inputs inputs;
  Rng rng(6);
  inputs.Add("x", {batch, channels, length}, rng);
  inputs.Add("w", {channels, 1, kernel}, rng);
  inputs.Add("b", {channels}, rng);
  inputs.Add("past", {batch, channels, kernel - 1}, rng);
  inputs.model
      .Node("CausalConvWithState", {"x", "w", "b", "past"}, {"y", "state"}, {{"activation", std::string("silu")}})
      .Output("y")
      .Output("state");
  const auto imported = inputs.model.Import();
  ASSERT_TRUE(imported.ok()) << imported.status();
  const std::vector<Tensor> found = OutputsOf(imported->graph, inputs.tensors);
  for (int64_t row = 0; row < batch * channels; ++row) {
    const auto element = [&](int64_t i) {  // 0 is the first of this call
      return i < 0 ? inputs.tensors.at("past").At(row * (kernel - 1) + kernel - 1 + i)
                   : inputs.tensors.at("x").At(row * length + i);
    };
    for (int64_t i = 0; i < length; ++i) {
      double sum = inputs.tensors.at("b").At(row % channels);
      for (int64_t k = 0; k < kernel; ++k) {
        sum += inputs.tensors.at("w").At(row % channels * kernel + k) * element(i - kernel + 1 + k);
      }
      ASSERT_NEAR(found[0].At(row * length + i), sum / (1 + std::exp(-sum)), 1e-12);
    }
    for (int64_t i = 0; i < kernel - 1; ++i) {
      ASSERT_EQ(found[1].At(row * (kernel - 1) + i), element(length - kernel + 1 + i));
    }
  }
  const auto error = [](const Shape& w, const std::string& activation) {
    TestModel model(27);
    model.Input("x", {2, 3, 5}).Input("w", w);
    return model.Node("CausalConvWithState", {"x", "w"}, {"y"}, {{"activation", activation}}).Output("y").Error();
  };
  EXPECT_THAT(error({3, 2, 4}, "none"), HasSubstr("the kernel is [3,2,4], expected [3,1]"));
  EXPECT_THAT(error({3, 4}, "none"), HasSubstr("expected [batch, channels, length]"));
  EXPECT_THAT(error({3, 1, 4}, "relu"), HasSubstr("activation is relu, expected silu, swish or none"));
}

}  // namespace
}  // namespace rewright
