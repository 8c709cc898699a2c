// Groups of convolutions and products, with what is fused into them, against the reference interpreter.
#include <algorithm>
#include <cstring>

#include "backends/device_factory.h"
#include "core/ir/text.h"
#include "gmock/gmock.h"
#include "tests/backends/cpu/fused/fused_util.h"
#include "tests/backends/cpu/runner_util.h"

namespace rewright {
namespace {

TEST_P(Fused, AgreesWithTheInterpreter) {
  for (int threads : {1, 2}) {
    const auto device = MakeDevice("cpu", {threads});
    ASSERT_TRUE(device.ok()) << device.status().ToString();
    for (uint64_t seed = 0; seed < 2; ++seed) {
      const Graph graph = GraphWithWeights(GetParam().text, GetParam().low, GetParam().high, seed);
      ASSERT_NO_FATAL_FAILURE(ExpectAgrees(**device, graph, GetParam().low, GetParam().high, seed + 100));
    }
  }
}

const FusedCase kFusedProducts[] = {
    {"conv_bn_relu", R"(
input x: f32[1,16,9,11]
state w: f32[24,16,3,3]
state s: f32[24]
state b: f32[24]
state m: f32[24]
state v: f32[24]
%1 = conv2d(x, w, pads=[1,1,1,1])
%2 = batch_norm(%1, s, b, m, v)
%3 = relu(%2)
output y = %3
)",
     0.1, 1},
    {"conv_bias_scale_shift_residual", R"(
input x: f32[1,9,7,5]
input r: f32[1,13,7,5]
state w: f32[13,9,1,1]
state k: f32[13,13,3,3]
state a: f32[13,1,1]
state b: f32[1,13,1,1]
state c: f32[13,1,1]
%1 = conv2d(r, k, pads=[1,1,1,1])
%2 = conv2d(x, w)
%3 = add(%2, a)
%4 = div(%3, b)
%5 = sub(c, %4)
%6 = add(%5, %1)
%7 = relu(%6)
output y = %7
)",
     0.1, 1},
    {"matmul_bias_scale_shift_residual", R"(
input x: f32[3,5,7]
input r: f32[3,5,11]
input z: f32[3,7,11]
state w: f32[7,11]
state a: f32[11]
state b: f32[1,11]
state c: f32[1]
%1 = relu(r)
%2 = matmul(x, w)
%3 = add(%2, a)
%4 = mul(%3, b)
%5 = sub(%4, c)
%6 = add(%5, %1)
%7 = relu(%6)
%8 = matmul(x, z)
%9 = div(%8, b)
%10 = add(%9, a)
%11 = mul(%10, %7)
output y = %11
)",
     0.1, 1},
    {"row_scale_shift", R"(
input x: f32[1,37]
state w: f32[37,19]
state b: f32[19]
state c: f32[19]
%1 = matmul(x, w)
%2 = mul(%1, b)
%3 = add(%2, c)
%4 = relu(%3)
output y = %4
)",
     -1, 1},
    {"conv_bias_clip", R"(
input x: f32[2,3,13,11]
state w: f32[8,3,3,3]
state b: f32[1,8,1,1]
const %91: f32[] = [0.5]
%1 = conv2d(x, w, strides=[2,2], pads=[0,1,1,0])
%2 = add(%1, b)
%3 = clip(%2, min=0.0, max=6.0)
%4 = mul(%3, %91)
output y = %4
)"},
    {"conv_scale_both_sides", R"(
input x: f32[1,5,7,7]
state w: f32[7,5,3,3]
state s: f32[7,1,1]
state t: f32[1,7,1,1]
state u: f32[]
%1 = conv2d(x, w, dilations=[2,2], pads=[2,2,2,2])
%2 = mul(s, %1)
%3 = sub(t, %2)
%4 = div(%3, u)
%5 = sigmoid(%4)
output y = %5
)",
     0.5, 1},
    // Gradients of weights that were read transposed: products that their reader wants column by column.
    {"products_that_are_turned", R"(
input x: f32[70,33]
input y: f32[70,129]
input b: f32[5,70,33]
input c: f32[5,33,9]
input row: f32[1,33]
state w: f32[33,129]
%0 = transpose(x, perm=[1,0])
%1 = matmul(%0, y)
%2 = transpose(%1, perm=[1,0])
%3 = tanh(%2)
%4 = matmul(b, c)
%5 = transpose(%4, perm=[0,2,1])
%6 = neg(%5)
%7 = matmul(row, w)
%8 = transpose(%7, perm=[1,0])
%9 = neg(%8)
%10 = matmul(x, w)
%11 = transpose(%10, perm=[1,0])
%12 = neg(%11)
output p = %3
output q = %6
output r = %9
output s = %12
)"},
    // The residual is read by nothing else: it may be overwritten.
    {"residual_chain", R"(
input x: f32[1,16,8,8]
state w1: f32[16,16,3,3]
state w2: f32[16,16,3,3]
state w3: f32[16,16,1,1]
%1 = conv2d(x, w1, pads=[1,1,1,1])
%2 = relu(%1)
%3 = conv2d(%2, w2, pads=[1,1,1,1])
%4 = add(%3, %2)
%5 = relu(%4)
%6 = conv2d(%5, w3)
%7 = add(%5, %6)
output y = %7
)"},
    // The residual is read later, so it must survive.
    {"residual_used_later", R"(
input x: f32[1,16,8,8]
state w1: f32[16,16,3,3]
state w2: f32[16,16,3,3]
%1 = conv2d(x, w1, pads=[1,1,1,1])
%2 = conv2d(%1, w2, pads=[1,1,1,1])
%3 = add(%2, %1)
%4 = mul(%3, %1)
output y = %4
output z = %1
)"},
    // The residual is the convolution's own operand.
    {"residual_is_operand", R"(
input x: f32[1,16,8,8]
state w0: f32[16,16,1,1]
state w1: f32[16,16,3,3]
%0 = conv2d(x, w0)
%1 = conv2d(%0, w1, pads=[1,1,1,1])
%2 = add(%0, %1)
output y = %2
)"},
    {"residual_is_input", R"(
input x: f32[1,16,8,8]
state w1: f32[16,16,3,3]
%1 = conv2d(x, w1, pads=[1,1,1,1])
%2 = add(x, %1)
output y = %2
)"},
    {"residual_lies_in_concat", R"(
input x: f32[1,16,8,8]
state w0: f32[16,16,1,1]
state w1: f32[16,16,3,3]
%0 = conv2d(x, w0)
%1 = conv2d(x, w1, pads=[1,1,1,1])
%2 = concat(%0, %1, axis=1)
%3 = conv2d(%1, w1, pads=[1,1,1,1])
%4 = add(%3, %0)
%5 = relu(%2)
output y = %4
output z = %5
)"},
    // A view of the residual's memory lives on.
    {"residual_has_view", R"(
input x: f32[1,16,4,4]
state w0: f32[16,16,1,1]
%0 = conv2d(x, w0)
%1.0, %1.1 = split(%0, axis=1, sizes=[8,8])
%2 = conv2d(x, w0, pads=[0,0,0,0])
%3 = relu(%0)
%4 = conv2d(%3, w0)
%5 = add(%4, %0)
%6 = concat(%5, %1.1, axis=1)
output y = %6
)"},
    // The activation comes before the residual.
    {"activation_then_residual", R"(
input x: f32[1,16,4,4]
state w: f32[16,16,1,1]
state v: f32[4,4]
%1 = conv2d(x, w)
%2 = gelu(%1)
%3 = add(%2, x)
%4 = matmul(%3, v)
%5 = tanh(%4)
%6 = add(%5, %3)
output y = %6
)"},
    {"two_activations_of_one_kind", R"(
input x: f32[1,16,4,4]
state w: f32[16,16,1,1]
%1 = conv2d(x, w)
%2 = leaky_relu(%1, alpha=0.3)
%3 = relu(%2)
%4 = conv2d(%3, w)
%5 = clip(%4, min=-1.0, max=0.2)
%6 = clip(%5, min=-0.1, max=0.9)
output y = %6
)"},
    {"inception_block", R"(
input x: f32[1,16,9,9]
state w1: f32[8,16,1,1]
state w2: f32[24,16,3,3]
state w3: f32[16,16,1,1]
state w4: f32[16,48,1,1]
%1 = conv2d(x, w1)
%2 = relu(%1)
%3 = conv2d(x, w2, pads=[1,1,1,1])
%4 = avg_pool2d(x, kernel=[3,3], pads=[1,1,1,1])
%5 = conv2d(%4, w3)
%6 = concat(%2, %3, %5, axis=1)
%7 = conv2d(%6, w4)
%8 = max_pool2d(%6, kernel=[3,3], strides=[2,2])
output y = %7
output z = %8
output u = %2
)"},
    {"concat_of_concat", R"(
input x: f32[1,8,5,5]
state w1: f32[8,8,3,3]
state w2: f32[8,16,3,3]
state w3: f32[8,24,3,3]
%1 = conv2d(x, w1, pads=[1,1,1,1])
%2 = conv2d(x, w1, pads=[1,1,1,1], groups=1)
%3 = relu(%1)
%4 = concat(%1, %3, axis=1)
%5 = conv2d(%4, w2, pads=[1,1,1,1])
%6 = concat(%4, %5, axis=1)
%7 = conv2d(%6, w3, pads=[1,1,1,1])
%8 = concat(%6, %7, %7, axis=1)
output y = %8
)"},
    {"concat_batch_two", R"(
input x: f32[2,8,5,5]
state w1: f32[8,8,3,3]
state w2: f32[16,8,1,1]
%1 = conv2d(x, w1, pads=[1,1,1,1])
%2 = conv2d(x, w2)
%3 = concat(%1, %2, axis=1)
%4 = relu(%3)
output y = %4
)"},
    {"odd_channels", R"(
input x: f32[1,5,9,9]
state w1: f32[7,5,3,3]
state w2: f32[3,12,3,3]
%1 = conv2d(x, w1, pads=[1,1,1,1])
%2 = concat(%1, x, axis=1)
%3 = tanh(%2)
%4 = conv2d(%3, w2)
%5 = reduce_mean(%4, axes=[2,3])
output y = %5
)"},
    {"depthwise_relu6", R"(
input x: f32[1,24,12,12]
state w1: f32[24,1,3,3]
state w2: f32[16,24,1,1]
%1 = conv2d(x, w1, pads=[1,1,1,1], strides=[2,2], groups=24)
%2 = clip(%1, min=0.0, max=6.0)
%3 = conv2d(%2, w2)
output y = %3
)"},
    {"grouped", R"(
input x: f32[1,32,6,6]
state w1: f32[64,8,3,3]
%1 = conv2d(x, w1, pads=[1,1,1,1], groups=4)
%2 = leaky_relu(%1, alpha=0.1)
output y = %2
)"},
    {"global_mean_head", R"(
input x: f32[1,16,7,7]
state w: f32[32,16,3,3]
state f: f32[32,10]
state g: f32[10]
%1 = conv2d(x, w, pads=[1,1,1,1])
%2 = relu(%1)
%3 = reduce_mean(%2, axes=[2,3], keepdims=0)
%4 = matmul(%3, f)
%5 = add(%4, g)
%6 = softmax(%5)
output y = %6
)"},
    {"pooled_head", R"(
input x: f32[1,16,7,7]
state w: f32[32,16,3,3]
state f: f32[32,10]
%1 = conv2d(x, w, pads=[1,1,1,1])
%2 = avg_pool2d(%1, kernel=[7,7])
%3 = reshape(%2, shape=[1,32])
%4 = matmul(%3, f)
output y = %4
)"},
    {"weights_of_activations", R"(
input x: f32[1,16,7,7]
input w: f32[16,16,3,3]
%1 = conv2d(x, w, pads=[1,1,1,1])
%2 = relu(%1)
output y = %2
)"},
    {"matmul_bias_gelu", R"(
input x: f32[2,9,20]
state w: f32[20,37]
state b: f32[37]
%1 = matmul(x, w)
%2 = add(%1, b)
%3 = gelu(%2)
output y = %3
)"},
    {"matmul_activations", R"(
input x: f32[33,20]
state w: f32[20,37]
state u: f32[37,35]
state v: f32[35,19]
state b: f32[37]
%1 = matmul(x, w)
%2 = add(%1, b)
%3 = gelu_tanh(%2)
%4 = matmul(%3, u)
%5 = swish(%4)
%6 = matmul(%5, v)
%7 = hard_swish(%6)
output y = %7
)"},
    {"conv_activations", R"(
input x: f32[1,5,9,7]
state u: f32[16,5,3,3]
state v: f32[12,16,1,1]
state w: f32[8,12,3,3]
state s: f32[16]
state m: f32[16]
%1 = conv2d(x, u, pads=[1,1,1,1])
%2 = batch_norm(%1, s, m, m, s)
%3 = hard_swish(%2)
%4 = conv2d(%3, v)
%5 = swish(%4)
%6 = conv2d(%5, w, strides=[2,2])
%7 = gelu_tanh(%6)
output y = %7
)",
     0.1, 1},
    {"activations_alone", R"(
input x: f32[7,301]
const %90: f32[] = [8.0]
const %91: f32[] = [3.0]
%1 = gelu_tanh(x)
%2 = swish(x)
%3 = hard_swish(x)
%4 = div(x, %90)
%5 = div(x, %91)
%6 = pow(x, %91)
output a = %1
output b = %2
output c = %3
output d = %4
output e = %5
output f = %6
)",
     -5, 5},
    {"matmul_decomposed_gelu", R"(
input x: f32[33,20]
state w: f32[20,37]
state b: f32[37]
const %91: f32[] = [1.4142135381698608]
const %92: f32[] = [1.0]
const %93: f32[] = [0.5]
%1 = matmul(x, w)
%2 = add(b, %1)
%3 = div(%2, %91)
%4 = erf(%3)
%5 = add(%4, %92)
%6 = mul(%2, %5)
%7 = mul(%6, %93)
output y = %7
)"},
    {"matmul_scaled_residual", R"(
input x: f32[33,20]
input r: f32[33,37]
state w: f32[20,37]
state s: f32[37]
state b: f32[1,37]
%1 = matmul(x, w)
%2 = mul(%1, s)
%3 = add(%2, b)
%4 = relu(r)
%5 = add(%3, %4)
%6 = relu(%5)
output y = %6
)"},
    {"matmul_deep", R"(
input x: f32[7,1000]
state w: f32[1000,19]
state w2: f32[19,500]
%1 = matmul(x, w)
%2 = relu(%1)
%3 = matmul(%2, w2)
output y = %3
)"},
    {"gemv", R"(
input x: f32[1,300]
state w: f32[300,203]
state b: f32[203]
%1 = matmul(x, w)
%2 = add(%1, b)
%3 = relu(%2)
output y = %3
)"},
};

INSTANTIATE_TEST_SUITE_P(Products, Fused, testing::ValuesIn(kFusedProducts),
                         [](const auto& info) { return info.param.name; });

// In training a model is cut into pieces, at other places for other numbers of ranks: whether a residual is needed
// elsewhere, so that its memory has to stay, changes no bit.
TEST(CpuResidual, BitsDoNotDependOnWhetherItIsOverwritten) {
  const auto device = MakeDevice("cpu", {1});
  ASSERT_TRUE(device.ok()) << device.status();
  const std::string bodies[] = {
      "input x: f32[3,70,1300]\ninput w: f32[1300,50]\ninput r: f32[3,70,20]\ninput v: f32[20,50]\n"
      "%1 = matmul(r, v)\n%2 = matmul(x, w)\n",
      "input x: f32[2,40,9,7]\ninput w: f32[13,40,3,3]\ninput r: f32[2,10,9,7]\ninput v: f32[13,10,1,1]\n"
      "%1 = conv2d(r, v)\n%2 = conv2d(x, w, pads=[1,1,1,1])\n",
      "input x: f32[2,48,9,7]\ninput w: f32[16,48,1,1]\ninput r: f32[2,10,9,7]\ninput v: f32[16,10,1,1]\n"
      "%1 = conv2d(r, v)\n%2 = conv2d(x, w)\n"};
  for (const std::string& body : bodies) {
    const auto sum_of = [&](const std::string& more) -> Tensor {
      const auto graph =
          ParseGraph("training\n" + body + "%3 = add(%2, %1)\n%4 = cumsum(%3, axis=1)\noutput y = %4\n" + more);
      if (!graph.ok()) ADD_FAILURE() << graph.status();
      auto schedule = (*device)->Compile(*graph);
      if (!schedule.ok()) ADD_FAILURE() << schedule.status();
      EXPECT_TRUE(std::any_of(schedule->steps.begin(), schedule->steps.end(), [](const Step& step) {
        return step.label.find("+add") != std::string::npos;
      })) << body;
      auto executor = MakeHostile(*graph, *std::move(schedule));
      if (!executor.ok()) ADD_FAILURE() << executor.status();
      Rng rng(7);
      std::vector<Tensor> inputs;
      for (Value input : graph->inputs()) inputs.push_back(RandomTensor(graph->type(input), -1, 1, rng));
      const auto results = RunTwice(**executor, inputs);
      if (!results.ok()) ADD_FAILURE() << results.status();
      return (*results)[0];
    };
    const Tensor overwritten = sum_of(""), kept = sum_of("output z = %1\n");
    EXPECT_EQ(std::memcmp(overwritten.data(), kept.data(), static_cast<size_t>(kept.num_bytes())), 0) << body;
  }
}

}  // namespace
}  // namespace rewright
