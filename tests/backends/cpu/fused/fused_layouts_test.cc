// Attention, pointwise groups, views, layouts and reductions: more cases of fused_test.cc.
#include "tests/backends/cpu/fused/fused_util.h"

namespace rewright {
namespace {

const FusedCase kFusedLayouts[] = {
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

INSTANTIATE_TEST_SUITE_P(Layouts, Fused, testing::ValuesIn(kFusedLayouts),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace rewright
