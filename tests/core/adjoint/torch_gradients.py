#!/usr/bin/env python3
"""Writes torch_gradients.txt: PyTorch's gradients, which torch_gradients_test.cc holds ours against.

    python tests/core/adjoint/torch_gradients.py > tests/core/adjoint/torch_gradients.txt

Wants torch. A case is a call in the text of graphs, its inputs, a cotangent for every output, and the gradient by every
input of floating-point numbers. Cases of kinks and ties are in float64 and have to be equal, all others are random, in
float32, and have to be within 1e-5.
"""
import itertools
import sys

import numpy as np
import torch
import torch.nn.functional as F

RNG = np.random.default_rng(20261123)
KINDS = {torch.float32: "f32", torch.float64: "f64", torch.int64: "i64", torch.bool: "bool"}


def text(tensor):
    values = tensor.detach().reshape(-1).tolist()
    return " ".join(str(int(v)) if tensor.dtype in (torch.int64, torch.bool) else
                    np.format_float_positional(np.float32(v), trim="-") if tensor.dtype == torch.float32 and
                    1e-4 < abs(v) < 1e7 else repr(v) for v in values)


def case(call, function, *inputs, exact=False, cotangents=None):
    """The call's operands are x0, x1.. in order; `function` is PyTorch's, of the same operands."""
    inputs = [x.clone().requires_grad_(x.is_floating_point()) for x in inputs]
    outputs = function(*inputs)
    outputs = outputs if isinstance(outputs, (tuple, list)) else [outputs]
    given = []
    for output in outputs:
        number = output.numel()
        u = (torch.arange(1, number + 1, dtype=output.dtype) if exact else
             torch.from_numpy(RNG.uniform(-1, 1, number).astype("float32"))).reshape(output.shape)
        given.append(u)
    moving = [x for x in inputs if x.requires_grad]
    gradients = iter(torch.autograd.grad(outputs, moving, given, allow_unused=True, materialize_grads=True)
                     if any(o.requires_grad for o in outputs) else [torch.zeros_like(x) for x in moving])
    print(f"case {'exact' if exact else 'close'} {call}")
    for i, x in enumerate(inputs):
        print(f"input x{i}: {KINDS[x.dtype]}[{','.join(map(str, x.shape))}] = {text(x)}")
    for u in given:
        print(f"cotangent = {text(u)}")
    for i, x in enumerate(inputs):
        if x.requires_grad:
            print(f"gradient x{i} = {text(next(gradients))}")
    print()


def uniform(*shape, low=-2.0, high=2.0):
    return torch.from_numpy(RNG.uniform(low, high, shape).astype("float32"))


def doubles(*values, shape=None):
    tensor = torch.tensor(values, dtype=torch.float64)
    return tensor if shape is None else tensor.reshape(shape)


def integers(*values, shape=None):
    tensor = torch.tensor(values, dtype=torch.int64)
    return tensor if shape is None else tensor.reshape(shape)


def kink(call, function, *inputs):
    case(call, function, *inputs, exact=True)


def kinks():
    around = doubles(-1, -0.0, 0, 2)
    kink("relu(x0)", torch.relu, around)
    kink("abs(x0)", torch.abs, around)
    kink("sign(x0)", torch.sign, around)
    kink("leaky_relu(x0, alpha=0.25)", lambda x: F.leaky_relu(x, 0.25), around)
    kink("clip(x0, min=-1, max=1)", lambda x: torch.clamp(x, -1, 1), doubles(-2, -1, 0, 1, 2))
    kink("clip(x0, min=0, max=6)", F.relu6, doubles(-1, 0, 3, 6, 7))
    kink("clip(x0, min=-1, max=1)", F.hardtanh, doubles(-2, -1, 0, 1, 2))
    kink("clip(x0, min=1, max=1)", lambda x: torch.clamp(x, 1, 1), doubles(0, 1, 2))
    kink("hard_swish(x0)", F.hardswish, doubles(-4, -3, 0, 3, 4))
    for name, function in (("floor", torch.floor), ("ceil", torch.ceil), ("round", torch.round)):
        kink(f"{name}(x0)", function, doubles(-1, -0.5, 0, 0.5, 1))
    for name, function in (("sqrt", torch.sqrt), ("log", torch.log), ("reciprocal", torch.reciprocal),
                           ("rsqrt", torch.rsqrt)):
        kink(f"{name}(x0)", function, doubles(0, 4))
    kink("asin(x0)", torch.asin, doubles(-1, 0, 1))
    kink("acos(x0)", torch.acos, doubles(-1, 0, 1))
    kink("acosh(x0)", torch.acosh, doubles(1, 1.25))
    kink("atanh(x0)", torch.atanh, doubles(-1, 0, 1))
    bases, exponents = [], []
    for base in (0.0, 1.0, 2.0, -2.0):
        for exponent in (-1.0, 0.0, 0.5, 1.0, 2.0, 3.0):
            if base < 0 and exponent == 0.5:
                continue
            bases.append(base)
            exponents.append(exponent)
    kink("pow(x0, x1)", torch.pow, doubles(*bases), doubles(*exponents))
    kink("max(x0, x1)", torch.maximum, doubles(1, 2, 3, 0), doubles(2, 2, 2, -0.0))
    kink("min(x0, x1)", torch.minimum, doubles(1, 2, 3, 0), doubles(2, 2, 2, -0.0))
    # low, x, high: every order of the three, with every way of being equal.
    orders = list(itertools.product((-1, 0, 1), repeat=3))
    kink("clamp(x0, x1, x2)", lambda a, b, c: torch.clamp(b, a, c), *(doubles(*column) for column in zip(*orders)))
    kink("where(x0, x1, x2)", torch.where, torch.tensor([True, False]), doubles(1, 2), doubles(1, 2))
    kink("div(x0, x1)", torch.div, doubles(1, -1, 2), doubles(0, 0, 4))
    row = doubles(3, 1, 3, 3, 2, 2, 2, 2, -1, 0, -0.0, 0, shape=(3, 4))
    for name, function in (("reduce_max", torch.amax), ("reduce_min", torch.amin)):
        kink(f"{name}(x0, axes=[1])", lambda x, f=function: f(x, 1, keepdim=True), row)
        kink(f"{name}(x0, axes=[0,1], keepdims=0)", lambda x, f=function: f(x, (0, 1)), row)
    # The interpreter and PyTorch take factors in the same order, so that even products are equal.
    kink("reduce_prod(x0, axes=[1], keepdims=0)", lambda x: torch.prod(x, 1),
         doubles(0, 2, 3, 0, 2, 0, 1, 2, 4, shape=(3, 3)))
    kink("max_pool2d(x0, kernel=[1,2])", lambda x: F.max_pool2d(x, (1, 2), 1), doubles(5, 5, 5, shape=(1, 1, 1, 3)))
    image = doubles(1, 4, 4, 2, 4, 4, 0, 0, 0, 3, 3, 3, shape=(1, 1, 3, 4))
    kink("max_pool2d(x0, kernel=[2,2])", lambda x: F.max_pool2d(x, 2, 1), image)
    kink("max_pool2d(x0, kernel=[3,3], strides=[2,2], pads=[1,1,1,1])", lambda x: F.max_pool2d(x, 3, 2, 1), image)
    kink("max_pool2d(x0, kernel=[2,2], dilations=[2,1])", lambda x: F.max_pool2d(x, 2, 1, 0, (2, 1)), image)
    kink("max_pool2d(x0, kernel=[2,2], strides=[2,2], ceil_mode=1)", lambda x: F.max_pool2d(x, 2, 2, ceil_mode=True),
         image)
    kink("gather(x0, x1, axis=0)", lambda x, i: x[i], doubles(1, 2, 3), integers(2, 0, 2, 2))
    kink("gather_elements(x0, x1, axis=1)", lambda x, i: torch.gather(x, 1, i), doubles(1, 2, 3, shape=(1, 3)),
         integers(1, 1, 1, 0, shape=(1, 4)))


def elementwise():
    real = {"exp": torch.exp, "erf": torch.erf, "tanh": torch.tanh, "sigmoid": torch.sigmoid, "sin": torch.sin,
            "cos": torch.cos, "atan": torch.atan, "sinh": torch.sinh, "cosh": torch.cosh, "asinh": torch.asinh,
            "floor": torch.floor, "ceil": torch.ceil, "round": torch.round, "neg": torch.neg, "abs": torch.abs,
            "sign": torch.sign, "relu": torch.relu, "gelu": F.gelu, "swish": F.silu, "hard_swish": F.hardswish,
            "identity": lambda x: x * 1, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh")}
    for name, function in real.items():
        case(f"{name}(x0)", function, uniform(3, 4))
    narrow = {"tan": torch.tan, "asin": torch.asin, "acos": torch.acos, "atanh": torch.atanh}
    for name, function in narrow.items():
        case(f"{name}(x0)", function, uniform(3, 4, low=-0.9, high=0.9))
    positive = {"log": torch.log, "sqrt": torch.sqrt, "reciprocal": torch.reciprocal, "rsqrt": torch.rsqrt}
    for name, function in positive.items():
        case(f"{name}(x0)", function, uniform(3, 4, low=0.25, high=3))
    case("acosh(x0)", torch.acosh, uniform(3, 4, low=1.25, high=4))
    case("leaky_relu(x0, alpha=0.125)", lambda x: F.leaky_relu(x, 0.125), uniform(3, 4))
    case("clip(x0, min=-0.75, max=1.25)", lambda x: torch.clamp(x, -0.75, 1.25), uniform(3, 4))
    case("cast(x0, to=f64)", lambda x: x.double(), uniform(3))
    for name, function in {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "max": torch.maximum,
                           "min": torch.minimum}.items():
        case(f"{name}(x0, x1)", function, uniform(2, 3, 4), uniform(3, 1))
    case("div(x0, x1)", torch.div, uniform(2, 1, 4), uniform(3, 1, low=0.5))
    case("pow(x0, x1)", torch.pow, uniform(2, 3, low=0.25), uniform(3))
    case("where(x0, x1, x2)", torch.where, uniform(2, 3) > 0, uniform(2, 3), uniform(1, 3))
    case("clamp(x0, x1, x2)", lambda a, b, c: torch.clamp(b, a, c), uniform(4, low=-1.5, high=0), uniform(3, 4),
         uniform(4, low=0, high=1.5))
    case("after(x0, x1)", lambda x, t: x * 1 + 0 * t.sum(), uniform(3), uniform(2, 2))


def products():
    case("matmul(x0, x1)", torch.matmul, uniform(2, 3, 4), uniform(4, 5))
    case("matmul(x0, x1)", torch.matmul, uniform(2, 3, 4), uniform(2, 4, 2))
    case("dot_general(x0, x1, lhs_batch=[0], rhs_batch=[1], lhs_contracting=[2], rhs_contracting=[2])",
         lambda a, b: torch.einsum("bmk,nbk->bmn", a, b), uniform(2, 3, 4), uniform(5, 2, 4))
    case("conv2d(x0, x1)", F.conv2d, uniform(2, 3, 5, 4), uniform(4, 3, 3, 2))
    case("conv2d(x0, x1, strides=[2,1], pads=[1,2,1,2], dilations=[1,2], groups=2)",
         lambda x, w: F.conv2d(x, w, None, (2, 1), (1, 2), (1, 2), 2), uniform(1, 4, 6, 5), uniform(6, 2, 3, 2))
    case("conv2d(x0, x1, groups=3)", lambda x, w: F.conv2d(x, w, groups=3), uniform(2, 3, 4, 4), uniform(3, 1, 2, 2))
    case("convolution(x0, x1, strides=[2], pads=[1,1], rhs_dilations=[2])",
         lambda x, w: F.conv1d(x, w, None, 2, 1, 2), uniform(2, 2, 9), uniform(3, 2, 3))
    # A transposed convolution is one whose operand is dilated, by the kernel turned around.
    case("convolution(x0, x1, strides=[1], lhs_dilations=[2], pads=[2,2])",
         lambda x, w: F.conv_transpose1d(x, w.transpose(0, 1).flip(2), stride=2), uniform(1, 2, 4), uniform(3, 2, 3))
    case("convolution(x0, x1)", F.conv3d, uniform(1, 2, 3, 4, 3), uniform(2, 2, 2, 2, 2))


def pools_and_norms():
    case("max_pool2d(x0, kernel=[2,2], strides=[2,2])", lambda x: F.max_pool2d(x, 2), uniform(2, 2, 4, 6))
    case("max_pool2d(x0, kernel=[3,3], strides=[2,2], pads=[1,1,1,1])", lambda x: F.max_pool2d(x, 3, 2, 1),
         uniform(1, 2, 7, 5))
    case("avg_pool2d(x0, kernel=[2,2], strides=[2,2])", lambda x: F.avg_pool2d(x, 2), uniform(2, 2, 4, 6))
    case("avg_pool2d(x0, kernel=[3,2], strides=[2,1], pads=[1,1,1,1])",
         lambda x: F.avg_pool2d(x, (3, 2), (2, 1), 1, count_include_pad=False), uniform(1, 2, 5, 4))
    case("avg_pool2d(x0, kernel=[3,2], strides=[2,1], pads=[1,1,1,1], count_include_pad=1)",
         lambda x: F.avg_pool2d(x, (3, 2), (2, 1), 1), uniform(1, 2, 5, 4))
    case("avg_pool2d(x0, kernel=[2,2], strides=[2,2], ceil_mode=1)", lambda x: F.avg_pool2d(x, 2, ceil_mode=True),
         uniform(1, 1, 5, 5))
    case("batch_norm(x0, x1, x2, x3, x4, epsilon=0.001)",
         lambda x, s, b, m, v: (x - m[:, None]) * (s / torch.sqrt(v + 1e-3))[:, None] + b[:, None], uniform(3, 2, 4),
         uniform(2), uniform(2), uniform(2), uniform(2, low=0.5))

    def batch_norm_train(x, scale, bias):
        y = F.batch_norm(x, None, None, scale, bias, True, eps=1e-3)
        axes = [0, *range(2, x.dim())]
        return y, x.mean(axes), x.var(axes, unbiased=False)

    case("batch_norm_train(x0, x1, x2, epsilon=0.001)", batch_norm_train, uniform(4, 3), uniform(3), uniform(3))
    case("batch_norm_train(x0, x1, x2, epsilon=0.001)", batch_norm_train, uniform(2, 3, 2, 4), uniform(3), uniform(3))
    case("layer_norm(x0, x1, x2, axis=-1, epsilon=0.001)", lambda x, s, b: F.layer_norm(x, (4,), s, b, 1e-3),
         uniform(2, 3, 4), uniform(4), uniform(4))
    case("layer_norm(x0, x1, x2, axis=1, epsilon=0.001)", lambda x, s, b: F.layer_norm(x, (3, 4), s, b, 1e-3),
         uniform(2, 3, 4), uniform(3, 4), uniform(3, 4))
    case("lrn(x0, size=3, alpha=0.5, beta=0.75, bias=1)", lambda x: F.local_response_norm(x, 3, 0.5, 0.75, 1.0),
         uniform(2, 5, 2, 2))
    for axis in (0, 1):
        case(f"softmax(x0, axis={axis})", lambda x: F.softmax(x, axis), uniform(3, 4))
        case(f"log_softmax(x0, axis={axis})", lambda x: F.log_softmax(x, axis), uniform(3, 4))
    case("cross_entropy(x0, x1, axis=1)", lambda x, t: F.cross_entropy(x, t, reduction="none"), uniform(4, 5),
         integers(1, 0, 4, 4))
    case("cross_entropy(x0, x1, axis=1)", lambda x, t: F.cross_entropy(x, t, reduction="none"),
         uniform(2, 3, 2, low=-30, high=30), integers(1, 0, 2, 2, shape=(2, 2)))


def reductions_and_moves():
    for name, function in {"reduce_sum": torch.sum, "reduce_mean": torch.mean, "reduce_max": torch.amax,
                           "reduce_min": torch.amin}.items():
        case(f"{name}(x0, axes=[0,2])", lambda x, f=function: f(x, (0, 2), keepdim=True), uniform(2, 3, 4))
        case(f"{name}(x0, axes=[1], keepdims=0)", lambda x, f=function: f(x, 1), uniform(2, 3, 4))
    case("reduce_prod(x0, axes=[1], keepdims=0)", lambda x: torch.prod(x, 1), uniform(2, 3, 2))
    case("cumsum(x0, axis=1)", lambda x: torch.cumsum(x, 1), uniform(2, 5))
    case("concat(x0, x1, x2, axis=1)", lambda *xs: torch.cat(xs, 1), uniform(2, 1), uniform(2, 3), uniform(2, 2))
    case("split(x0, axis=1, sizes=[1,3])", lambda x: torch.split(x, [1, 3], 1), uniform(2, 4))
    case("slice(x0, starts=[1,0], stops=[3,5], steps=[1,2])", lambda x: x[1:3, 0:5:2], uniform(4, 6))
    case("dynamic_slice(x0, x1, x2, sizes=[2,3])", lambda x, i, j: x[1:3, 2:5], uniform(4, 6), integers(1, shape=()),
         integers(2, shape=()))
    case("dynamic_update_slice(x0, x1, x2)", lambda x, y, i: torch.slice_scatter(x, y, 0, 1, 3), uniform(5), uniform(2),
         integers(1, shape=()))
    case("reverse(x0, axes=[0,2])", lambda x: torch.flip(x, (0, 2)), uniform(2, 3, 2))
    case("pad(x0, before=[1,0], after=[2,1], value=0.5)", lambda x: F.pad(x, (0, 1, 1, 2), value=0.5), uniform(2, 3))
    case("pad(x0, before=[-1,0], after=[1,-1])", lambda x: F.pad(x, (0, -1, -1, 1)), uniform(3, 3))
    case("transpose(x0, perm=[2,0,1])", lambda x: x.permute(2, 0, 1), uniform(2, 3, 4))
    case("reshape(x0, shape=[4,6])", lambda x: x.reshape(4, 6), uniform(2, 3, 4))
    case("expand(x0, shape=[2,3,4])", lambda x: x.expand(2, 3, 4), uniform(3, 1))
    case("broadcast_in_dim(x0, shape=[2,3,4], dims=[1])", lambda x: x[:, None].expand(2, 3, 4), uniform(3))
    case("gather(x0, x1, axis=1)", lambda x, i: torch.index_select(x, 1, i), uniform(2, 4), integers(3, 0, 3))
    case("gather_elements(x0, x1, axis=1)", lambda x, i: torch.gather(x, 1, i), uniform(2, 3),
         integers(0, 2, 2, 1, 1, 1, 0, 2, shape=(2, 4)))
    case("depth_to_space(x0, block=2, channel_first=1)", lambda x: F.pixel_shuffle(x, 2), uniform(1, 8, 2, 3))
    case("depth_to_space(x0, block=2)",
         lambda x: x.reshape(1, 2, 2, 2, 2, 3).permute(0, 3, 4, 1, 5, 2).reshape(1, 2, 4, 6), uniform(1, 8, 2, 3))
    case("space_to_depth(x0, block=2)",
         lambda x: x.reshape(1, 2, 2, 2, 3, 2).permute(0, 3, 5, 1, 2, 4).reshape(1, 8, 2, 3), uniform(1, 2, 4, 6))
    case("scatter_add(x0, x1, x2, axis=0)", lambda x, i, y: torch.index_add(x, 0, i, y), uniform(4, 2),
         integers(3, 0, 3), uniform(3, 2))
    case("scatter_elements_add(x0, x1, x2, axis=0)", lambda x, i, y: torch.scatter_add(x, 0, i, y), uniform(4, 2),
         integers(3, 0, 3, 1, shape=(2, 2)), uniform(2, 2))


# New cases come last, so that the random numbers of those before stay.
def later():
    case("softplus(x0)", F.softplus, uniform(3, 4))
    case("elu(x0, alpha=0.75)", lambda x: F.elu(x, 0.75), uniform(3, 4))
    kink("elu(x0, alpha=0.5)", lambda x: F.elu(x, 0.5), doubles(-0.0, 0, 2))
    case("mish(x0)", F.mish, uniform(3, 4))


def main():
    print(f"# python tests/core/adjoint/torch_gradients.py > tests/core/adjoint/torch_gradients.txt\n"
          f"# PyTorch {torch.__version__.split('+')[0]}\n")
    kinks()
    elementwise()
    products()
    pools_and_norms()
    reductions_and_moves()
    later()


if __name__ == "__main__":
    sys.exit(main())
