"""Quantized graphs: scales per axis, missing zero points, saturation, sums of 8-bit products, 8-bit floats."""
import numpy as np
from onnx import TensorProto

from .graph import Graph, f16, f32, family, i8, i32, single, u8


@family("sonos/tract#2849", "microsoft/onnxruntime#12151", "microsoft/onnxruntime#17718", "microsoft/onnxruntime#3820")
def quantization_along_axes():
    for axis, size in ((0, 2), (1, 3), (-1, 4)):
        scale = np.linspace(0.1, 0.4, size).astype(np.float32)
        zero = np.arange(size).astype(np.int8) - 1
        yield single("QuantizeLinear", f32(2, 3, 4), scale, zero, attributes={"axis": axis}, special=False,
                     gradients=False)
        yield single("DequantizeLinear", i8(2, 3, 4), scale, zero, attributes={"axis": axis})
    yield single("QuantizeLinear", f32(6), np.float32(0.25), special=False, gradients=False)
    yield single("QuantizeLinear", f32(6), np.float32(0.25), np.int8(-3), special=False, gradients=False)
    yield single("DequantizeLinear", u8(2, 3), np.float32(0.5))
    yield single("DequantizeLinear", i32(2, 3, low=-1000, high=1000), np.float32(0.01))
    g = Graph(x=f32(3, 4), gradients=False)
    q = g.add("QuantizeLinear", "x", np.float32(0.1), np.uint8(128))
    g.add("DequantizeLinear", q, np.float32(0.1), np.uint8(128))
    g.specials = None
    yield g
    g = Graph(opset=21, x=i8(2, 6))
    scales = g.const(np.linspace(0.1, 1, 6).reshape(2, 3).astype(np.float32))
    g.add("DequantizeLinear", "x", scales, axis=1, block_size=2)
    yield g
    yield single("DynamicQuantizeLinear", f32(3, 5), results=3, special=False, gradients=False).returns(
        *(f"dynamicquantizelinear_0_{k}" for k in range(3)))


def pair(g, x, scale, zero):
    return g.add("DequantizeLinear", g.add("QuantizeLinear", x, scale, zero), scale, zero)


@family("microsoft/onnxruntime#28448", "microsoft/onnxruntime#28491", "microsoft/onnxruntime#24711",
        "microsoft/onnxruntime#25001", "microsoft/onnxruntime#12800", "microsoft/onnxruntime#24518")
def quantized_pairs():
    scale, zero = np.float32(0.05), np.int8(3)
    g = Graph(x=f32(1, 1, 1, 6), special=False, gradients=False)
    x = pair(g, "x", np.float32(1), np.int8(0))
    resized = g.add("Resize", x, None, None, np.array([1, 1, 1, 6]), mode="linear")
    pair(g, resized, np.float32(1), np.int8(0))
    yield g
    g = Graph(x=f32(2, 2))
    weights = g.add("DequantizeLinear", np.array([12, -45, 7, -3], np.int8), np.float32(0.02))
    g.add("Add", g.add("Reshape", weights, np.array([2, 2])), "x")
    yield g
    for per_channel in (False, True):
        g = Graph(x=f32(1, 2, 5, 5), special=False, gradients=False, tolerance=1.2e-2)
        scales = np.float32([0.02, 0.03, 0.01]) if per_channel else np.float32(0.02)
        w = g.add("DequantizeLinear", g.const(g.rng.integers(-127, 128, (3, 2, 3, 3)).astype(np.int8)), scales,
                  g.const(np.zeros_like(scales, np.int8)), axis=0)
        b = g.add("DequantizeLinear", g.const(g.rng.integers(-300, 300, 3).astype(np.int32)),
                  (scales * scale).astype(np.float32), g.const(np.zeros_like(scales, np.int32)), axis=0)
        y = g.add("Conv", pair(g, "x", scale, zero), w, b, pads=[1, 1, 1, 1])
        pair(g, g.add("Relu", y) if per_channel else y, np.float32(0.1), np.int8(-5))
        yield g
    g = Graph(x=f32(3, 4), special=False, gradients=False, tolerance=1.2e-2)
    w = g.const(g.rng.integers(-127, 128, (4, 5)).astype(np.int8))
    w = g.add("DequantizeLinear", w, np.float32(0.02), np.int8(0))
    pair(g, g.add("MatMul", pair(g, "x", scale, zero), w), np.float32(0.07), np.int8(0))
    yield g
    g = Graph(x=f32(2, 6), special=False, gradients=False)
    pair(g, g.add("Transpose", pair(g, "x", scale, zero)), scale, zero)
    yield g
    g = Graph(x=f32(2, 6), special=False, gradients=False)  # the second pair has another scale
    pair(g, pair(g, "x", scale, zero), np.float32(0.2), np.int8(0))
    yield g
    g = Graph(x=f32(2, 6), y=f32(2, 6), special=False, gradients=False, tolerance=1.2e-2)
    total = g.add("Add", pair(g, "x", scale, zero), pair(g, "y", np.float32(0.08), np.int8(-7)))
    pair(g, total, np.float32(0.1), np.int8(1))
    yield g
    g = Graph(x=f32(1, 2, 4, 4), special=False, gradients=False)
    pair(g, g.add("MaxPool", pair(g, "x", scale, zero), kernel_shape=[2, 2]), scale, zero)
    yield g
    g = Graph(x=f32(3, 4), special=False, gradients=False)
    pair(g, g.add("Clip", pair(g, "x", scale, zero), np.float32(0), np.float32(6)), scale, np.int8(-128))
    yield g


@family("microsoft/onnxruntime#7524", "iree-org/iree#24583", "microsoft/onnxruntime#19109", "robertknight/rten#1208")
def sums_of_8_bit_products():
    for a, b in ((u8, np.int8), (u8, np.uint8), (i8, np.int8)):
        for points in (0, 1, 2):
            g = Graph(x=a(3, 5))
            w = g.const(g.rng.integers(np.iinfo(b).min, np.iinfo(b).max + 1, (5, 4)).astype(b))
            zeros = [x.astype(t) for x, t in ((np.array(7), a(1).dtype), (np.array([1, 2, 0, 5]) if points == 2 else
                                                                         np.array(3), b))][:2 if points else 0]
            g.add("MatMulInteger", "x", w, *zeros)
            yield g
    g = Graph(x=u8(3, 3, values=[[[238, 115, 94], [245, 111, 102], [158, 225, 48]]]))
    w = g.const(np.array([[25, 36, 125], [42, -123, 76], [-81, -86, 35]], np.int8))
    g.add("MatMulInteger", "x", w, np.uint8(42), np.int8(-26))
    yield g
    g = Graph(x=u8(2, 4, 3), w=i8(3, 2))
    g.add("Mul", g.add("Cast", g.add("MatMulInteger", "x", "w"), to=TensorProto.FLOAT), np.float32(0.01))
    yield g


@family("microsoft/onnxruntime#16105", "robertknight/rten#1193", "microsoft/onnxruntime#16674")
def integer_convolutions():
    for group, points in ((1, False), (1, True), (2, True)):
        g = Graph(x=u8(1, 2, 5, 5))
        w = g.const(g.rng.integers(-128, 128, (4, 2 // group, 3, 3)).astype(np.int8))
        g.add("ConvInteger", "x", w, *([np.uint8(5)] if points else []), group=group, pads=[1, 0, 0, 1])
        yield g
    for per_channel in (False, True):
        for dtype in (u8, i8):
            g = Graph(x=dtype(1, 2, 5, 5), unit=1)
            w = g.const(g.rng.integers(-128, 128, (3, 2, 3, 3)).astype(np.int8))
            scales = np.float32([0.02, 0.01, 0.03]) if per_channel else np.float32(0.02)
            point = np.array(3, dtype(1).dtype)
            g.add("QLinearConv", "x", np.float32(0.1), point, w, scales,
                  g.const(np.zeros_like(scales, np.int8)), np.float32(0.9), point,
                  g.const(np.array([100, -50, 7], np.int32)), strides=[2, 1])
            yield g
    for dtype in (u8, i8):
        g = Graph(x=dtype(3, 5), unit=1)
        point = np.array(9, dtype(1).dtype)
        w = g.const(g.rng.integers(0, 100, (5, 2)).astype(dtype(1).dtype))
        g.add("QLinearMatMul", "x", np.float32(0.1), point, w, np.float32(0.05), point, np.float32(1.3), point)
        yield g


@family("onnx/onnx#6220", "jax-ml/ml_dtypes#260", "onnx/onnx#7085")
def numbers_of_8_bits():
    g = Graph(opset=19, x=f32(8))
    g.add("Cast", g.add("Cast", "x", to=TensorProto.FLOAT8E4M3FN), to=TensorProto.FLOAT)
    yield g
    g = Graph(opset=19, x=f32(8))
    half = g.add("Mul", "x", np.float32(0.5))
    g.add("Cast", g.add("Cast", half, to=TensorProto.FLOAT8E5M2, saturate=0), to=TensorProto.FLOAT)
    yield g


@family("openvinotoolkit/openvino#32839", "microsoft/onnxruntime#16408", "xlite-dev/LeetCUDA#335")
def sums_in_16_bits():
    for op, inputs in (("Add", 2), ("Sqrt", 1), ("Exp", 1), ("Div", 2)):
        g = Graph(tolerance=4e-3, **{name: f16(2, 5) for name in ("x", "y")[:inputs]})
        g.add(op, *g.inputs)
        yield g
    g = Graph(x=f16(3, 6), special=False, tolerance=4e-3)
    g.add("Cast", g.add("Softmax", g.add("Cast", "x", to=TensorProto.FLOAT), axis=-1), to=TensorProto.FLOAT16)
    yield g
    g = Graph(x=f16(2, 4), special=False, tolerance=4e-3)  # the product leaves the range, the quotient does not
    g.add("Mul", g.add("Mul", "x", np.float16(300)), np.float16(1 / 300))
    g.overflows = True
    yield g.truth(lambda x: [x * np.float16(300) * np.float16(1 / 300)], "onnxruntime computes both in float32")
    g = Graph(x=f16(2, 3, 4, 4), special=False, tolerance=6e-3)
    g.add("GlobalAveragePool", "x")
    yield g
