"""An ONNX model as a function of JAX, operator by operator, for `rewright compare`.

Covers the operators of the model zoo; another one is an error that names it. Shapes, axes and bounds that a model gives
as constants are taken when the function is made; weights are arguments, so that the compiler treats them as data.
"""
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from onnx_steps import OnnxSteps

IMAGES = ("NCHW", "OIHW", "NCHW")


def pairs(pads):
    """ONNX pads [top, left, bottom, right] as JAX wants them."""
    half = len(pads) // 2
    return [(pads[i], pads[half + i]) for i in range(half)]


def conv(attrs, _):
    strides, dilations = attrs.get("strides", [1, 1]), attrs.get("dilations", [1, 1])
    pads, groups = pairs(attrs.get("pads", [0, 0, 0, 0])), attrs.get("group", 1)

    def run(x, w, b=None):
        y = lax.conv_general_dilated(x, w, strides, pads, rhs_dilation=dilations, dimension_numbers=IMAGES,
                                     feature_group_count=groups)
        return y if b is None else y + b.reshape(1, -1, 1, 1)
    return run


def window(x, start, function, kernel, strides, pads, dilations):
    return lax.reduce_window(x, np.array(start, x.dtype), function, (1, 1, *kernel), (1, 1, *strides),
                             [(0, 0), (0, 0), *pads], window_dilation=(1, 1, *dilations))


def pool_shape(x, attrs):
    """Kernel, strides, dilations, and pads with what ceil_mode adds behind."""
    kernel, strides = attrs["kernel_shape"], attrs.get("strides", [1, 1])
    dilations, pads = attrs.get("dilations", [1, 1]), pairs(attrs.get("pads", [0, 0, 0, 0]))
    if attrs.get("ceil_mode", 0):
        for i in range(2):
            extent, size = (kernel[i] - 1) * dilations[i] + 1, x.shape[2 + i]
            rest = (size + sum(pads[i]) - extent) % strides[i]
            more = strides[i] - rest if rest else 0
            # A window that begins behind the image and its first pad does not count.
            count = (size + sum(pads[i]) + more - extent) // strides[i]
            pads[i] = (pads[i][0], pads[i][1] + (more if count * strides[i] < size + pads[i][0] else 0))
    return kernel, strides, pads, dilations


def max_pool(attrs, _):
    return lambda x: window(x, -np.inf, lax.max, *pool_shape(x, attrs))


def average_pool(attrs, _):
    counted = bool(attrs.get("count_include_pad", 0))
    given = pairs(attrs.get("pads", [0, 0, 0, 0]))

    def run(x):
        shape = pool_shape(x, attrs)
        ones = np.ones((1, 1, *x.shape[2:]), x.dtype)
        if counted:
            ones = np.pad(ones, [(0, 0), (0, 0), *given], constant_values=1)
            extra = [(after - g[1]) for (_, after), g in zip(shape[2], given)]
            counts = window(jnp.asarray(ones), 0, lax.add, shape[0], shape[1], [(0, e) for e in extra], shape[3])
        else:
            counts = window(jnp.asarray(ones), 0, lax.add, *shape)
        return window(x, 0, lax.add, *shape) / counts
    return run


def slice_(_, constants):
    starts, ends = constants[1].tolist(), constants[2].tolist()
    axes = constants[3].tolist() if constants.get(3) is not None else list(range(len(starts)))
    steps = constants[4].tolist() if constants.get(4) is not None else [1] * len(starts)

    def run(x):
        index = [slice(None)] * x.ndim
        for axis, start, end, step in zip(axes, starts, ends, steps):
            index[axis] = slice(start, min(end, x.shape[axis]), step)
        return x[tuple(index)]
    return run


def pad(attrs, constants):
    if attrs.get("mode", b"constant") != b"constant":
        raise NotImplementedError("Pad that repeats")
    value = float(constants[2]) if constants.get(2) is not None else 0.0
    amounts = pairs(constants[1].tolist())
    return lambda x: lax.pad(x, np.array(value, x.dtype), [(before, after, 0) for before, after in amounts])


def reduction(function):
    def make(attrs, constants):
        axes = attrs.get("axes") or (constants[1].tolist() if constants.get(1) is not None else None)
        keep = bool(attrs.get("keepdims", 1))
        return lambda x: function(x, axis=tuple(axes) if axes else None, keepdims=keep)
    return make


def reshape(_, constants):
    shape = constants[1].tolist()
    return lambda x: x.reshape([x.shape[i] if size == 0 else size for i, size in enumerate(shape)])


def split(attrs, constants):
    cuts = np.cumsum(constants[1])[:-1].tolist()
    return lambda x: jnp.split(x, cuts, attrs.get("axis", 0))


def clip(_, constants):
    bounds = [float(constants[i]) if constants.get(i) is not None else None for i in (1, 2)]
    return lambda x: jnp.clip(x, *bounds)


def batch_norm(attrs, _):
    epsilon = attrs.get("epsilon", 1e-5)

    def run(x, scale, shift, mean, variance):
        shape = (1, -1) + (1,) * (x.ndim - 2)
        factor = scale / jnp.sqrt(variance + epsilon)
        return x * factor.reshape(shape) + (shift - mean * factor).reshape(shape)
    return run


def layer_norm(attrs, _):
    def run(x, scale, shift=0):
        axes = tuple(range(attrs.get("axis", -1) % x.ndim, x.ndim))
        mean = jnp.mean(x, axes, keepdims=True)
        variance = jnp.mean(jnp.square(x - mean), axes, keepdims=True)
        return (x - mean) * lax.rsqrt(variance + attrs.get("epsilon", 1e-5)) * scale + shift
    return run


def gemm(attrs, _):
    def run(a, b, c=0):
        a, b = (a.T if attrs.get("transA") else a), (b.T if attrs.get("transB") else b)
        return attrs.get("alpha", 1.0) * (a @ b) + attrs.get("beta", 1.0) * c
    return run


def gelu(attrs, _):
    return lambda x: jax.nn.gelu(x, approximate=attrs.get("approximate", b"none") == b"tanh")


def plain(function):
    return lambda attrs, constants: function


OPERATORS = {
    "Add": plain(jnp.add), "Sub": plain(jnp.subtract), "Mul": plain(jnp.multiply), "Div": plain(jnp.divide),
    "Pow": plain(jnp.power), "MatMul": plain(jnp.matmul), "Relu": plain(jax.nn.relu), "Tanh": plain(jnp.tanh),
    "Sigmoid": plain(jax.nn.sigmoid), "Erf": plain(lax.erf), "Exp": plain(jnp.exp), "Sqrt": plain(jnp.sqrt),
    "Neg": plain(jnp.negative), "Identity": plain(lambda x: x), "Where": plain(jnp.where), "Conv": conv,
    "MaxPool": max_pool, "AveragePool": average_pool, "Slice": slice_, "Pad": pad, "Reshape": reshape, "Clip": clip,
    "Split": split, "ReduceMean": reduction(jnp.mean), "ReduceSum": reduction(jnp.sum),
    "ReduceMax": reduction(jnp.max), "GlobalAveragePool": plain(lambda x: jnp.mean(x, (2, 3), keepdims=True)),
    "BatchNormalization": batch_norm, "LayerNormalization": layer_norm, "Gemm": gemm, "Gelu": gelu,
    "Softmax": lambda attrs, _: lambda x: jax.nn.softmax(x, attrs.get("axis", -1)),
    "Concat": lambda attrs, _: lambda *xs: jnp.concatenate(xs, attrs["axis"]),
    "Transpose": lambda attrs, _: lambda x: jnp.transpose(x, attrs["perm"]),
    "Gather": lambda attrs, _: lambda x, i: jnp.take(x, i, axis=attrs.get("axis", 0)),
}


class JaxModel(OnnxSteps):
    """`call(weights, inputs)`, both dictionaries, gives the outputs in the model's order."""

    def __init__(self, path):
        super().__init__(path, OPERATORS)

    def call(self, weights, inputs):
        return self.run({**weights, **inputs})
