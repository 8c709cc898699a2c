// Groups and layouts of the CPU device against the reference interpreter.
#include <algorithm>
#include <cstring>

#include "backends/device_factory.h"
#include "core/ir/text.h"
#include "gmock/gmock.h"
#include "tests/backends/cpu/runner_util.h"

namespace rewright {
namespace {

struct FusedCase {
  std::string name;
  std::string text;
  double low = -1, high = 1;
};

void PrintTo(const FusedCase& c, std::ostream* os) { *os << c.name; }

class Fused : public testing::TestWithParam<FusedCase> {};

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

const FusedCase kFusedCases[] = {
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
    {"attention", R"(
input x: f32[2,10,24]
input mask: f32[2,1,1,10]
state wq: f32[24,24]
state wk: f32[24,24]
state wv: f32[24,24]
state wo: f32[24,24]
state bq: f32[24]
state s: f32[24]
state b: f32[24]
const %91: f32[] = [2.8284270763397217]
%1 = matmul(x, wq)
%2 = add(%1, bq)
%3 = matmul(x, wk)
%4 = matmul(x, wv)
%5 = reshape(%2, shape=[2,10,3,8])
%6 = reshape(%3, shape=[2,10,3,8])
%7 = reshape(%4, shape=[2,10,3,8])
%8 = transpose(%5, perm=[0,2,1,3])
%9 = transpose(%6, perm=[0,2,3,1])
%10 = transpose(%7, perm=[0,2,1,3])
%11 = matmul(%8, %9)
%12 = div(%11, %91)
%13 = add(%12, mask)
%14 = softmax(%13)
%15 = matmul(%14, %10)
%16 = transpose(%15, perm=[0,2,1,3])
%17 = reshape(%16, shape=[2,10,24])
%18 = matmul(%17, wo)
%19 = add(%18, x)
%20 = layer_norm(%19, s, b)
output y = %20
)"},
    {"batch_broadcast_matmul", R"(
input a: f32[3,1,5,7]
input b: f32[4,7,6]
%1 = matmul(a, b)
output y = %1
)"},
    {"matmul_transposed_left", R"(
input a: f32[17,9]
input b: f32[17,11]
%1 = transpose(a, perm=[1,0])
%2 = matmul(%1, b)
output y = %2
)"},
    {"pointwise_dag", R"(
input x: f32[3,7,5]
input y: f32[7,1]
input c: bool[3,1,5]
%1 = mul(x, y)
%2 = exp(%1)
%3 = add(%2, x)
%4 = sqrt(%2)
%5 = where(c, %3, %4)
%6 = sub(%5, y)
%7 = max(%6, %1)
output out = %7
output other = %3
)"},
    {"pointwise_in_place", R"(
input x: f32[40,50]
state w: f32[50,50]
%1 = matmul(x, w)
%2 = exp(%1)
%3 = transpose(%2, perm=[1,0])
%4 = add(%2, x)
%5 = reduce_sum(%3, axes=[1], keepdims=0)
%6 = mul(%4, %5)
output out = %6
)"},
    {"integers_and_casts", R"(
input x: i64[3,4]
input y: i64[4]
%1 = add(x, y)
%2 = cast(%1, to=f32)
%3 = exp(%2)
%4 = less(x, y)
%5 = cast(%4, to=f32)
%6 = mul(%3, %5)
output out = %6
)"},
    {"blocked_pointwise", R"(
input x: f32[1,8,6,6]
state w2: f32[8,16,1,1]
state w: f32[16,8,3,3]
state s: f32[16]
state b: f32[16]
state m: f32[16]
state v: f32[16]
%1 = conv2d(x, w, pads=[1,1,1,1])
%2 = max_pool2d(%1, kernel=[2,2], strides=[2,2])
%3 = batch_norm(%2, s, b, m, v)
%4 = relu(%3)
%5 = mul(%4, %2)
%6 = conv2d(%5, w2)
output y = %6
)",
     0.1, 1},
    {"squeeze_excite", R"(
input x: f32[1,8,6,6]
state w: f32[16,8,3,3]
state a: f32[4,16,1,1]
state b: f32[16,4,1,1]
%1 = conv2d(x, w, pads=[1,1,1,1])
%2 = reduce_mean(%1, axes=[2,3])
%3 = conv2d(%2, a)
%4 = relu(%3)
%5 = conv2d(%4, b)
%6 = sigmoid(%5)
%7 = mul(%1, %6)
output y = %7
)"},
    {"swish_chain", R"(
input x: f32[1,8,6,6]
state w: f32[16,8,3,3]
%1 = conv2d(x, w, pads=[1,1,1,1])
%2 = sigmoid(%1)
%3 = mul(%1, %2)
output y = %3
)"},
    {"views_of_views", R"(
input x: f32[4,6,8]
%1 = transpose(x, perm=[2,0,1])
%2 = slice(%1, starts=[1,0,2], stops=[7,4,6], steps=[2,1,1])
%3 = reshape(%2, shape=[3,16])
%4.0, %4.1 = split(%1, axis=0, sizes=[3,5])
%5 = exp(%4.1)
%6 = expand(%3, shape=[2,3,16])
%7 = reverse(%6, axes=[0,2])
output a = %3
output b = %5
output c = %7
output d = %1
)"},
    {"blocked_split_and_pad", R"(
input x: f32[1,8,6,6]
state w: f32[32,8,3,3]
state u: f32[8,16,3,3]
%1 = conv2d(x, w, pads=[1,1,1,1])
%2.0, %2.1 = split(%1, axis=1, sizes=[16,16])
%3 = pad(%2.1, before=[0,0,1,1], after=[0,0,1,1])
%4 = conv2d(%3, u)
%5 = relu(%2.0)
%6 = slice(%1, starts=[0,8,1,1], stops=[1,24,5,6])
%7 = pad(%6, before=[0,1,0,0], after=[0,0,0,0], value=2.0)
output a = %4
output b = %5
output c = %7
)"},
    {"weight_only_chain", R"(
input x: f32[5,12]
state a: f32[6,4]
state b: f32[6,8]
%1 = concat(a, b, axis=1)
%2 = transpose(%1, perm=[1,0])
%3 = exp(%2)
%4 = matmul(x, %3)
output y = %4
output z = %3
)"},
    {"outputs_that_are_inputs", R"(
input x: f32[5,12]
state a: f32[6,4]
%1 = reshape(x, shape=[12,5])
output y = x
output z = x
output u = a
output v = %1
)"},
    {"softmax_over_channels", R"(
input x: f32[2,8,6,5]
state w: f32[16,8,3,3]
%1 = conv2d(x, w, pads=[1,1,1,1])
%2 = softmax(%1, axis=1)
%3 = log_softmax(%1, axis=2)
%4 = add(%2, %3)
output y = %4
)"},
    {"reductions", R"(
input x: f32[2,8,6,5]
state w: f32[16,8,3,3]
%1 = conv2d(x, w, pads=[1,1,1,1])
%2 = reduce_max(%1, axes=[1])
%3 = reduce_sum(%1, axes=[0,2], keepdims=0)
%4 = reduce_min(x, axes=[1,3])
%5 = reduce_mean(x, axes=[0,1,2,3])
%6 = transpose(x, perm=[3,1,0,2])
%7 = reduce_sum(%6, axes=[1,2])
output a = %2
output b = %3
output c = %4
output d = %5
output e = %7
)"},
    {"embedding", R"(
input ids: i64[2,5]
state table: f32[30,16]
state positions: f32[1,5,16]
%1 = gather(table, ids)
%2 = add(%1, positions)
output y = %2
)",
     0, 20},
    {"lrn_pool", R"(
input x: f32[1,8,12,12]
state w: f32[16,8,3,3]
%1 = conv2d(x, w)
%2 = relu(%1)
%3 = lrn(%2, size=5, alpha=0.5)
%4 = max_pool2d(%3, kernel=[3,3], strides=[2,2], ceil_mode=1)
output y = %4
)"},
};

INSTANTIATE_TEST_SUITE_P(Cases, Fused, testing::ValuesIn(kFusedCases),
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
