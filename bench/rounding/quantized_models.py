"""Quantized models: exports of onnxruntime's quantizer in its formats, and random ones made of its operators."""
import contextlib
import io
import logging
import os
import pathlib
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime.quantization as quantization
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from rounding.rounding_kinds import Builder, Sample  # noqa: E402

COUNT = 300


# ---------------------------------------------------------------- exports

def convolutions(g):
    """Two convolutions with normalization, a sum around them, pooling and a layer on top."""
    r = lambda *size: (g.rng.normal(size=size) * 0.3).astype(np.float32)
    x = g.input((1, 3, 12, 12))
    y = g.op("Conv", x, r(8, 3, 3, 3), r(8), pads=[1, 1, 1, 1])
    if g.opset >= 15:
        y = g.op("BatchNormalization", y, np.abs(r(8)) + 1, r(8), r(8), np.abs(r(8)) + 1)
    y = g.op("Relu", y)
    z = g.op("Conv", y, r(8, 8, 3, 3), r(8), pads=[1, 1, 1, 1])
    z = g.op("MaxPool", g.op("Relu", g.op("Add", y, z)), kernel_shape=[2, 2], strides=[2, 2])
    flat = g.op("Flatten", g.op("GlobalAveragePool", z))
    g.output(g.op("Gemm", flat, r(8, 5), r(5)))


def layers(g):
    """Three layers with a scale between them."""
    r = lambda *size: (g.rng.normal(size=size) * 0.3).astype(np.float32)
    y = g.input((4, 16))
    for size in (24, 24, 7):
        y = g.op("Add", g.op("MatMul", y, r(16 if y == "x0" else 24, size)), r(size))
        if size == 24:
            y = g.op("Mul", g.op("Relu", y), 0.7)
    g.output(y)


def attention(g):
    """One head: queries, keys and values of the same input, a softmax, a sum around it."""
    r = lambda *size: (g.rng.normal(size=size) * 0.3).astype(np.float32)
    x = g.input((2, 6, 16))
    q, k, v = (g.op("Add", g.op("MatMul", x, r(16, 16)), r(16)) for _ in range(3))
    scores = g.op("Mul", g.op("MatMul", q, g.op("Transpose", k, perm=[0, 2, 1])), 0.25)
    y = g.op("MatMul", g.op("MatMul", g.op("Softmax", scores, axis=-1), v), r(16, 16))
    g.output(g.op("Add", x, y))


class Draws(quantization.CalibrationDataReader):
    def __init__(self, feeds, rng):
        self.left = [{name: rng.normal(size=value.shape).astype(value.dtype) for name, value in feeds.items()}
                     for _ in range(4)]

    def get_next(self):
        return self.left.pop() if self.left else None


STATIC = [(build, form, opset, per_channel)
          for build, opset in ((convolutions, 13), (layers, 17), (attention, 21), (convolutions, 21))
          for form, per_channel in (("QDQ", True), ("QOperator", False))]
EXPORTS = STATIC + [(layers, "dynamic", 13, False), (attention, "dynamic", 17, True), (layers, "dynamic", 21, True),
                    (convolutions, "dynamic", 17, False)]


def export(number):
    build, form, opset, per_channel = EXPORTS[number]
    g = Builder(np.random.default_rng(1000 + number), opset=opset)
    build(g)
    made = g.sample(f"{build.__name__}_{form}_opset{opset}")
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        source, target = pathlib.Path(folder, "f.onnx"), pathlib.Path(folder, "q.onnx")
        onnx.save(made.model, source)
        if form == "dynamic":
            quantization.quantize_dynamic(source, target, per_channel=per_channel)
        else:
            quantization.quantize_static(source, target, Draws(made.feeds, g.rng), per_channel=per_channel,
                                         quant_format=getattr(quantization.QuantFormat, form))
        return Sample(made.name, onnx.load(target), made.feeds)


# ---------------------------------------------------------------- random models

class Random(Builder):
    """A chain of random layers over values of one shape (rows, columns), some quantized."""

    def __init__(self, rng, opset):
        super().__init__(rng, opset=opset)
        self.rows = int(rng.integers(1, 6))
        self.columns = int(rng.integers(2, 9)) if rng.random() < 0.7 else 80  # so large that weights are the file

    def weight(self, *size):
        return (self.rng.normal(size=size) * 0.4).astype(np.float32)

    def grid(self, columns=None):
        """Scale and zero point, by channel or of all."""
        rng = self.rng
        kinds = [np.uint8, np.int8] + ([np.uint16, np.int16] if self.opset >= 21 else [])
        kind = kinds[int(rng.integers(0, len(kinds)))]
        size = () if columns is None else (columns,)
        scale = (0.02 + 0.1 * rng.random(size)).astype(np.float32)
        zero = np.asarray(rng.integers(100, 140, size) if np.iinfo(kind).min == 0 else rng.integers(-8, 8, size), kind)
        return self.constant(np.asarray(scale, np.float32)), self.constant(zero), kind

    def scalar_grid(self, kind=np.uint8):
        zero = self.rng.integers(100, 140) if kind == np.uint8 else 0
        return self.constant(np.float32(0.02 + 0.1 * self.rng.random())), self.constant(np.asarray(zero, kind))

    def floating(self, x):
        """Something that rules are about."""
        rng, r = self.rng, self.weight
        kind = int(rng.integers(0, 11))
        if kind == 0:
            return self.op("Mul", x, float(2 * rng.random()))
        if kind == 1:
            return self.op("Add", x, r(self.columns))
        if kind == 2:
            return self.op("Add", self.op("MatMul", x, r(self.columns, self.columns)), r(self.columns))
        if kind == 3:
            return self.op("Relu", x)
        if kind == 4:
            return self.op("Mul", self.op("MatMul", x, r(self.columns, self.columns)), float(rng.normal()))
        if kind == 5:
            return self.op("Softmax", x, axis=-1)
        if kind == 6:
            return self.op("Add", self.op("MatMul", x, r(self.columns, self.columns)),
                           self.op("MatMul", x, r(self.columns, self.columns)))
        if kind == 7:
            return self.op("Div", self.op("Sub", x, r(self.columns)), float(1 + rng.random()))
        if kind == 8:
            return self.op("Transpose", self.op("Add", self.op("Transpose", x, perm=[1, 0]), float(rng.normal())),
                           perm=[1, 0])
        if kind == 9:
            return self.op("Gemm", x, r(self.columns, self.columns), r(self.columns), alpha=float(1 + rng.random()))
        return self.op("Add", self.op("Mul", x, r(self.columns)), x)

    def quantized(self, x):
        """x on a grid, or a product in integers."""
        rng, kind = self.rng, int(self.rng.integers(0, 7))
        if kind <= 2:
            per_axis = rng.random() < 0.3
            scale, zero, _ = self.grid(self.columns if per_axis else None)
            q = self.op("QuantizeLinear", x, scale, zero, axis=1)
            return self.op("DequantizeLinear", q, scale, zero, axis=1)
        weight = rng.integers(-127, 128, (self.columns, self.columns)).astype(np.int8)
        if kind == 3:
            q, scale, zero = self.op("DynamicQuantizeLinear", x, outputs=3)
            product = self.op("MatMulInteger", q, self.constant(weight), zero, self.constant(np.asarray(0, np.int8)))
            scaled = self.op("Mul", scale, 0.01)
            return self.op("Mul", self.op("Cast", product, to=TensorProto.FLOAT), scaled)
        scale, zero = self.scalar_grid()
        q = self.op("QuantizeLinear", x, scale, zero)
        if kind == 4:
            y, y_zero = self.scalar_grid()
            product = self.op("QLinearMatMul", q, scale, zero, self.constant(weight), self.constant(np.float32(0.01)),
                              self.constant(np.asarray(0, np.int8)), y, y_zero)
            return self.op("DequantizeLinear", product, y, y_zero)
        x = self.op("DequantizeLinear", q, scale, zero)
        weight = self.op("DequantizeLinear", self.constant(weight), self.constant(np.float32(0.01)),
                         self.constant(np.asarray(0, np.int8)))
        y = self.op("MatMul", x, weight)
        if kind == 6:  # a bias in integers
            bias = self.constant(rng.integers(-500, 500, (self.columns,)).astype(np.int32))
            y = self.op("Add", y, self.op("DequantizeLinear", bias, self.constant(np.float32(0.001)),
                                          self.constant(np.asarray(0, np.int32))))
        return y


def random_model(number):
    rng = np.random.default_rng(5000 + number)
    g = Random(rng, int(rng.choice([13, 17, 19, 21])))
    x = g.input((g.rows, g.columns))
    values = [x]
    for _ in range(int(rng.integers(2, 5))):
        x = values[int(rng.integers(max(0, len(values) - 2), len(values)))]
        for _ in range(int(rng.integers(1, 4))):
            x = g.floating(x)
        values.append(g.quantized(x))
    # Behind the last quantizer nothing rounds: what differs there is a quantizer's.
    scale, zero, kind = g.grid()
    last = g.op("QuantizeLinear", g.op("Add", values[-1], values[-2]) if rng.random() < 0.5 else values[-1], scale, zero)
    g.output(last, dtype=kind)
    if rng.random() < 0.5:  # numbers that nothing rounds to integers
        g.output(g.floating(g.floating(values[int(rng.integers(0, len(values)))])))
    return g.sample(f"random_opset{g.opset}_{number}")
