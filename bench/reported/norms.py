"""Normalizations, and the graphs that optimizers take for them."""
import numpy as np
from onnx import TensorProto

from .graph import Graph, f16, f32, f64, family, single


def centered(g, x, axes, keepdims=1):
    mean = g.add("ReduceMean", x, axes=axes, keepdims=keepdims)
    return g.add("Sub", x, mean)


def layer_norm_in_parts(g, x, axes, epsilon=1e-5, power=2.0):
    d = centered(g, x, axes)
    variance = g.add("ReduceMean", g.add("Pow", d, np.float32(power)), axes=axes, keepdims=1)
    return g.add("Div", d, g.add("Sqrt", g.add("Add", variance, np.float32(epsilon))))


def mean_square_norm(g, x, axes, epsilon=1e-6):
    square = g.add("ReduceMean", g.add("Mul", x, x), axes=axes, keepdims=1)
    return g.add("Mul", x, g.add("Reciprocal", g.add("Sqrt", g.add("Add", square, np.float32(epsilon)))))


@family("microsoft/onnxruntime#25855", "onnx/onnx#8203", "microsoft/onnxruntime#31980", "microsoft/onnxruntime#15021")
def layer_norms_in_parts():
    for scale in ((6,), (1,), (), (4, 6), (4, 1), (2, 4, 6), (1, 1, 6)):
        g = Graph(x=f32(2, 4, 6), special=False)
        g.add("Add", g.add("Mul", layer_norm_in_parts(g, "x", [-1]), g.weight(*scale)), g.weight(6))
        yield g
    for axes in ([1], [1, 2], [0], [-2, -1]):
        g = Graph(x=f32(3, 4, 5), special=False)
        g.add("Mul", g.weight(5), layer_norm_in_parts(g, "x", axes))
        yield g
    g = Graph(x=f32(1, 1), special=False)  # the scale makes the result wider
    g.add("Mul", np.float32([0.5, 2.0]), layer_norm_in_parts(g, "x", [-1]))
    yield g
    g = Graph(x=f32(3, 6), special=False)
    g.add("Mul", g.weight(6), layer_norm_in_parts(g, "x", [-1], power=3.0))
    g.specials, g.gradients = None, False  # roots of what is negative
    yield g
    g = Graph(x=f32(3, 6), special=False)
    g.add("Mul", layer_norm_in_parts(g, "x", [-1], epsilon=0.3), g.weight(6))
    yield g
    g = Graph(x=f32(3, 6), special=False)  # what is in between leaves, too
    y = g.add("Mul", layer_norm_in_parts(g, "x", [-1]), g.weight(6))
    yield g.returns(y, "sub_1", "sqrt_5")


@family("onnx/onnx#8203", "microsoft/onnxruntime#29043", "microsoft/onnxruntime#31626")
def mean_square_norms_in_parts():
    for scale in ((6,), (1, 6), (3, 1), ()):
        g = Graph(x=f32(3, 6), special=False)
        g.add("Mul", mean_square_norm(g, "x", [-1]), g.weight(*scale))
        yield g
    g = Graph(x=f32(2, 3, 4), special=False)
    g.add("Mul", g.weight(3, 1), mean_square_norm(g, "x", [1]))
    yield g
    g = Graph(x=f16(2, 8), special=False, tolerance=4e-3)
    wide = g.add("Cast", "x", to=1)
    g.add("Mul", g.add("Cast", mean_square_norm(g, wide, [-1]), to=10), g.weight(8, dtype=np.float16))
    g.inputs["x"].values = [np.linspace(-3, 3, 8), np.linspace(-300, 200, 8)]
    yield g


@family("microsoft/onnxruntime#17320", "microsoft/onnxruntime#5123", "microsoft/onnxruntime#27489")
def layer_norms_of_sums():
    for other in ((2, 3, 8), (3, 8), (8,), (1, 3, 8)):
        g = Graph(opset=17, x=f32(2, 3, 8), y=f32(*other), special=False)
        total = g.add("Add", "x", "y")
        norm = g.add("LayerNormalization", total, g.weight(8), g.weight(8), axis=-1)
        yield g.returns(norm, total) if other == (3, 8) else g
    g = Graph(opset=17, x=f32(2, 3, 8), special=False)
    g.add("LayerNormalization", g.add("Add", g.weight(3, 8), "x"), g.weight(8), axis=2)
    yield g


@family("tinygrad/tinygrad#607", "keras-team/keras#18231")
def layer_norms():
    for shape, axis, epsilon in (((5,), 0, 1e-5), ((5,), -1, 1e-2), ((3, 4), 0, 1e-5), ((2, 3, 4), 1, 1e-5),
                                 ((2, 3, 4), -2, 1e-3), ((2, 1, 4), -1, 1e-5), ((1,), 0, 1e-5),
                                 ((2, 3, 2, 2), 1, 1e-5)):
        g = Graph(x=f32(*shape), special=False)
        part = shape[axis:]
        g.add("LayerNormalization", "x", g.weight(*part), g.weight(*part), axis=axis, epsilon=epsilon)
        yield g
    g = Graph(x=f32(3, 6), special=False)
    y, mean, inverse = g.add("LayerNormalization", "x", g.weight(6), results=3)
    yield g.returns(y, mean, inverse)
    g = Graph(x=f16(3, 6), special=False, tolerance=4e-3)
    g.add("LayerNormalization", "x", g.weight(6, dtype=np.float16), g.weight(6, dtype=np.float16))
    yield g
    g = Graph(opset=23, x=f32(3, 6), special=False)
    g.add("RMSNormalization", "x", g.weight(6), axis=-1)
    yield g


@family("tensorflow/addons#2143", "microsoft/onnxruntime#16604")
def norms_of_groups_and_instances():
    for shape in ((2, 3, 5), (1, 4, 3, 3), (2, 2, 3, 2, 2)):
        g = Graph(x=f32(*shape), special=False, tolerance=2e-5)
        g.add("InstanceNormalization", "x", g.weight(shape[1]), g.weight(shape[1]), epsilon=1e-3)
        yield g
    for opset, groups, size in ((18, 2, 2), (21, 2, 4), (21, 4, 4), (18, 1, 1)):
        g = Graph(opset=opset, x=f32(2, 4, 3), special=False, tolerance=2e-5)
        y = g.add("GroupNormalization", "x", g.weight(size), g.weight(size), num_groups=groups)
        g.typed[y] = (TensorProto.FLOAT, [2, 4, 3])
        yield g
    g = Graph(opset=18, x=f32(2, 4, 3, 3), special=False, tolerance=2e-5)
    parts = g.add("Reshape", "x", np.array([0, 2, -1]))
    norm = g.add("InstanceNormalization", parts, g.const(np.ones(2, np.float32)), g.const(np.zeros(2, np.float32)))
    back = g.add("Reshape", norm, g.add("Shape", "x"))
    g.add("Add", g.add("Mul", back, g.weight(4, 1, 1)), g.weight(4, 1, 1))
    yield g
    yield single("MeanVarianceNormalization", f32(2, 3, 4, 4), attributes={"axes": [0, 2, 3]}, special=False)


@family("onnx/optimizer#255", "onnx/optimizer#133", "microsoft/onnxruntime#22762")
def batch_norms():
    def norm(g, x, channels, **attributes):
        return g.add("BatchNormalization", x, g.weight(channels), g.weight(channels), g.weight(channels),
                     g.weight(channels, positive=True), **attributes)
    for group, bias, epsilon in ((1, True, 1e-5), (1, False, 1e-2), (2, True, 1e-5), (4, False, 1e-5)):
        g = Graph(x=f32(2, 4, 5, 5), special=False)
        y = g.add("Conv", "x", g.weight(8, 4 // group, 3, 3), *([g.weight(8)] if bias else []), group=group)
        norm(g, y, 8, epsilon=epsilon)
        yield g
    g = Graph(x=f32(2, 4, 5, 5), special=False)  # the convolution is read twice
    y = g.add("Conv", "x", g.weight(4, 4, 1, 1))
    g.add("Add", norm(g, y, 4), y)
    yield g
    g = Graph(x=f32(1, 3, 4, 4), special=False)
    norm(g, g.add("ConvTranspose", "x", g.weight(3, 2, 2, 2), strides=[2, 2]), 2)
    yield g
    g = Graph(x=f32(2, 3, 4, 4), special=False)  # zeros that padding adds are not normalized
    g.add("Conv", norm(g, "x", 3), g.weight(2, 3, 3, 3), g.weight(2), pads=[1, 1, 1, 1])
    yield g
    for shape in ((3, 5), (2, 5, 4), (2, 5, 2, 2, 2)):
        g = Graph(x=f32(*shape))
        g.add("Relu", norm(g, "x", 5))
        yield g
    g = Graph(x=f32(4, 6), special=False)
    norm(g, g.add("MatMul", "x", g.weight(6, 5)), 5)
    yield g
    g = Graph(x=f32(2, 4, 6), special=False)  # channels are not the columns of the product
    norm(g, g.add("MatMul", "x", g.weight(6, 5)), 4)
    yield g
    g = Graph(x=f64(2, 3, 4), special=False)
    g.add("BatchNormalization", "x", *(g.weight(3, dtype=np.float64, positive=k == 3) for k in range(4)))
    yield g


@family("intel/BigDL#1077")
def local_responses():
    for size, alpha, beta, bias in ((3, 1e-4, 0.75, 1.0), (2, 0.5, 0.5, 2.0), (5, 0.1, 0.75, 1.0), (1, 0.3, 1.0, 1.0)):
        def responses(a, size=size, alpha=alpha, beta=beta, bias=bias):
            wide = np.square(a.astype(np.float64))
            around = [wide[:, max(0, c - (size - 1) // 2):c + size // 2 + 1].sum(1) for c in range(a.shape[1])]
            return [(a / (bias + alpha / size * np.stack(around, 1)) ** beta).astype(np.float32)]
        yield single("LRN", f32(2, 5, 3, 3), attributes={"size": size, "alpha": alpha, "beta": beta, "bias": bias},
                     special=False).truth(responses, "onnxruntime takes odd sizes and adds up what comes and goes, "
                                          "onnx.reference counts images for channels")
