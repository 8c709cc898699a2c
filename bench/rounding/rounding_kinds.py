"""Graphs that round on purpose: by a constant, into two halves, with compensation, to the grid of a quantizer.

Each is a model of the operators below alone, with what comes before the rounding (a bias, a scale, a product, a
convolution, sums), so that rules which round otherwise have something to be applied to. All outputs hang on roundings:
none of them may change by a bit.
"""
import dataclasses

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

TYPES = {np.dtype(np.float64): TensorProto.DOUBLE, np.dtype(np.float32): TensorProto.FLOAT,
         np.dtype(np.float16): TensorProto.FLOAT16, np.dtype(ml_dtypes.bfloat16): TensorProto.BFLOAT16}
DIGITS = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8}


@dataclasses.dataclass
class Sample:
    """A model and one set of inputs for it."""

    name: str
    model: onnx.ModelProto
    feeds: dict


class Builder:
    """Nodes of a model, by name of what they compute."""

    def __init__(self, rng, dtype="float32", opset=17):
        self.rng, self.opset = rng, opset
        self.dtype = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
        self.digits = DIGITS[dtype]
        self.nodes, self.weights, self.inputs, self.outputs, self.feeds = [], [], [], [], {}

    def fresh(self, stem="v"):
        return f"{stem}{len(self.nodes) + len(self.weights) + len(self.inputs)}"

    def op(self, kind, *operands, outputs=1, **attributes):
        names = [self.fresh(kind.lower() + "_") + (f"_{k}" if k else "") for k in range(outputs)]
        operands = [value if isinstance(value, str) else self.constant(value) for value in operands]
        self.nodes.append(helper.make_node(kind, operands, names, **attributes))
        return names[0] if outputs == 1 else names

    def constant(self, value, dtype=None):
        array = np.asarray(value, dtype or (value.dtype if isinstance(value, np.ndarray) else self.dtype))
        name = self.fresh("w")
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def input(self, shape, values=None, dtype=None):
        name = f"x{len(self.inputs)}"
        dtype = np.dtype(dtype or self.dtype)
        values = self.telling(shape) if values is None else values
        self.feeds[name] = np.asarray(values).astype(dtype)
        self.inputs.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(dtype), shape))
        return name

    def telling(self, shape):
        """Values of several sizes, some of them halves: where roundings to integers tie."""
        rng = self.rng
        values = rng.normal(size=shape) * 2.0 ** rng.integers(-3, 4, size=shape)
        return np.where(rng.random(shape) < 0.25, np.round(values * 2) / 2, values)

    def output(self, *names, dtype=None):
        for name in names:
            kind = TYPES[self.dtype] if dtype is None else helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
            self.outputs.append(helper.make_tensor_value_info(name, kind, None))

    def sample(self, name, domains=()):
        graph = helper.make_graph(self.nodes, "g", self.inputs, self.outputs, self.weights)
        opsets = [helper.make_opsetid("", self.opset)] + [helper.make_opsetid(domain, 1) for domain in domains]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
        return Sample(name, onnx.shape_inference.infer_shapes(model), self.feeds)


def before(g, shape):
    """A value of the shape, and what computes it."""
    rng, kind = g.rng, int(g.rng.integers(0, 9))
    small = lambda *size: (rng.normal(size=size) * 0.4).astype(g.dtype)
    rows, columns = shape
    if kind == 0:
        return g.input(shape)
    if kind == 1:
        return g.op("Add", g.input(shape), small(columns))
    if kind == 2:
        return g.op("Mul", g.op("Mul", g.input(shape), small(columns)), float(rng.normal()))
    if kind == 3:
        product = g.op("MatMul", g.input((rows, 8)), small(8, columns))
        return g.op("Add", product, small(columns))
    if kind == 4:
        return g.op("Mul", g.op("MatMul", g.input((rows, 8)), small(8, columns)), float(rng.normal()))
    if kind == 5:
        return g.op("Add", g.op("Add", g.input(shape), small(columns)), small(columns))
    if kind == 6:
        x = g.input(shape)
        return g.op("Add", g.op("Mul", x, small(columns)), g.op("Mul", x, small(columns)))
    if kind == 7:
        return g.op("Div", g.op("Sub", g.input(shape), small(columns)), float(1 + rng.random()))
    product = g.op("MatMul", g.op("MatMul", g.input((rows, 8)), small(8, 8)), small(8, columns))
    return g.op("Sub", product, small(columns))


def shape_of(g):
    return int(g.rng.integers(2, 6)), int(g.rng.integers(2, 9))


def by_constant(g):
    """(x + c) - c, where c is so large that it leaves x no digits behind some place."""
    rng, shape = g.rng, shape_of(g)
    x = before(g, shape)
    place = int(rng.integers(-4, 1))
    c = 1.5 * 2.0 ** (g.digits - 1 + place)
    if rng.random() < 0.3:
        c = np.full((shape[1],), c, g.dtype)
    way = int(rng.integers(0, 7))
    if way == 0:
        y = g.op("Sub", g.op("Add", x, c), c)
    elif way == 1:
        y = g.op("Add", g.op("Sub", x, c), c)
    elif way == 2:
        y = g.op("Sub", c, g.op("Sub", c, x))
    elif way == 3:
        y = g.op("Add", g.op("Add", c, x), np.negative(c).astype(g.dtype))
    elif way == 4:
        y = g.op("Sub", g.op("Sum", x, c), c)
    elif way == 5:
        y = g.op("Neg", g.op("Sub", c, g.op("Add", x, c)))
    else:
        y = g.op("Add", g.op("Neg", c), g.op("Add", x, c))
    if rng.random() < 0.4:  # the second constant keeps a small part
        y = g.op("Sub", g.op("Add", y, 3 * c), 3 * c)
    g.output(y)


def fake_quantize_by_constant(g):
    """((x / s + c) - c) s, within limits"""
    shape = shape_of(g)
    x, scale = before(g, shape), float(2.0 ** g.rng.integers(-3, 1) * (1 + g.rng.random()))
    c = 1.5 * 2.0 ** (g.digits - 1)
    scaled = g.op("Div", x, scale) if g.rng.random() < 0.5 else g.op("Mul", x, 1 / scale)
    rounded = g.op("Sub", g.op("Add", scaled, c), c)
    if g.rng.random() < 0.5:
        rounded = g.op("Clip", rounded, -8.0, 7.0)
    g.output(rounded)


def fake_quantize(g):
    """s clip(round(x / s)), in one of the ways to round"""
    rng, shape = g.rng, shape_of(g)
    x, scale = before(g, shape), float(2.0 ** rng.integers(-3, 1) * (1 + rng.random()))
    scaled = g.op("Div", x, scale) if rng.random() < 0.5 else g.op("Mul", x, 1 / scale)
    if rng.random() < 0.5:
        scaled = g.op("Add", scaled, float(rng.integers(0, 5)))
    way = int(rng.integers(0, 4))
    if way == 0:
        y = g.op("Round", scaled)
    elif way == 1:
        y = g.op("Floor", g.op("Add", scaled, 0.5))
    elif way == 2:
        y = g.op("Ceil", g.op("Sub", scaled, 0.5))
    else:
        y = g.op("Cast", g.op("Cast", scaled, to=TensorProto.INT32), to=TYPES[g.dtype])
    g.output(g.op("Clip", y, -8.0, 7.0))


def quantize(g):
    """QuantizeLinear, then DequantizeLinear"""
    rng, shape = g.rng, shape_of(g)
    x, kind = before(g, shape), [np.uint8, np.int8][int(rng.integers(0, 2))]
    scale, zero = np.asarray(0.02 + 0.2 * rng.random(), np.float32), np.asarray(rng.integers(0, 20), kind)
    if g.dtype != np.float32:
        x = g.op("Cast", x, to=TensorProto.FLOAT)
    scale, zero = g.constant(scale), g.constant(zero)
    q = g.op("QuantizeLinear", x, scale, zero)
    g.output(q, dtype=kind)
    g.output(g.op("DequantizeLinear", q, scale, zero), dtype=np.float32)


def split(g, x):
    """Veltkamp (Dekker 1971, section 5): x = high + low, of half the digits each."""
    t = g.op("Mul", x, float(2 ** ((g.digits + 1) // 2) + 1))
    high = g.op("Sub", t, g.op("Sub", t, x))
    return high, g.op("Sub", x, high)


def veltkamp(g):
    g.output(*split(g, before(g, shape_of(g))))


def veltkamp_other_way(g):
    """x c - (x c - x) with the sum the other way round: (x - x c) + x c"""
    x = before(g, shape_of(g))
    t = g.op("Mul", float(2 ** ((g.digits + 1) // 2) + 1), x)
    high = g.op("Add", g.op("Sub", x, t), t)
    g.output(high, g.op("Sub", x, high))


def two_product(g):
    """Dekker: x y = p + e exactly"""
    shape = shape_of(g)
    x, y = before(g, shape), before(g, shape)
    (xh, xl), (yh, yl) = split(g, x), split(g, y)
    p = g.op("Mul", x, y)
    e = g.op("Sub", g.op("Mul", xh, yh), p)
    for a, b in ((xh, yl), (xl, yh), (xl, yl)):
        e = g.op("Add", e, g.op("Mul", a, b))
    g.output(p, e)


def sum_and_rest(g, a, b):
    """TwoSum (Knuth): a + b = s + e exactly"""
    s = g.op("Add", a, b)
    t = g.op("Sub", s, a)
    return s, g.op("Add", g.op("Sub", a, g.op("Sub", s, t)), g.op("Sub", b, t))


def two_sum(g):
    shape = shape_of(g)
    a, b = before(g, shape), before(g, shape)
    if g.rng.random() < 0.4:  # one of the terms is known
        b = g.telling(shape).astype(g.dtype)
    g.output(*sum_and_rest(g, a, g.constant(b) if isinstance(b, np.ndarray) else b))


def fast_two_sum(g):
    """Dekker: s = a + b, e = b - (s - a)"""
    shape = shape_of(g)
    a, b = before(g, shape), before(g, shape)
    s = g.op("Add", a, b)
    g.output(s, g.op("Sub", b, g.op("Sub", s, a)))


def double_sum(g):
    """Sum of two numbers of two words each (Dekker, section 6)"""
    shape = shape_of(g)
    a, al, b, bl = (before(g, shape) for _ in range(4))
    s, e = sum_and_rest(g, a, b)
    e = g.op("Add", g.op("Add", e, al), bl)
    high = g.op("Add", s, e)
    g.output(high, g.op("Sub", e, g.op("Sub", high, s)))


def kahan(g):
    """Kahan: the sum of terms, what each addition loses carried over"""
    shape = shape_of(g)
    total, lost = before(g, shape), None
    for _ in range(int(g.rng.integers(2, 5))):
        term = before(g, shape)
        y = term if lost is None else g.op("Sub", term, lost)
        t = g.op("Add", total, y)
        lost = g.op("Sub", g.op("Sub", t, total), y)
        total = t
    g.output(total, lost)


def neumaier(g):
    """Sums of terms and of what TwoSum leaves of each"""
    shape = shape_of(g)
    total, rest = before(g, shape), None
    for _ in range(int(g.rng.integers(2, 4))):
        total, e = sum_and_rest(g, total, before(g, shape))
        rest = e if rest is None else g.op("Add", rest, e)
    g.output(g.op("Add", total, rest), rest)


# ---------------------------------------------------------------- cases that failed once, at inputs that told

def case_constant(g):
    """x + c - c as two additions of whole tensors: the inputs came back unrounded."""
    c = np.full(8, 1.5 * 2 ** 23, np.float32)
    g.output(g.op("Add", g.op("Add", g.input((8,), g.telling(8) * 40), c), -c))


def case_scaled_product(g):
    """(x c) z in f16: as c (x z) it was infinite."""
    x, z = (g.input(shape, np.full(shape, 30)) for shape in ((1, 64, 128), (1, 128, 32)))
    g.output(g.op("MatMul", g.op("Mul", x, 0.0884), z))


def case_two_products(g):
    """x w + z w in f16: as (x + z) w it was infinite."""
    x, z, w = (g.input((8, 64), np.full((8, 64), value)) for value in (40000, 40000, 0.1))
    g.output(g.op("Add", g.op("Mul", x, w), g.op("Mul", z, w)))


def case_quantized_convolution(g):
    """A convolution between quantizers, its bias in integers of a scale of their own: no file was written."""
    rng, f = g.rng, lambda value: g.constant(np.asarray(value, np.float32))
    grid = lambda scale, zero: (f(scale), g.constant(np.asarray(zero, np.uint8)))
    x_grid, w_grid, y_grid = grid(0.05, 120), grid([0.02, 0.004], [128, 120]), grid(0.1, 3)
    x = g.op("DequantizeLinear", g.op("QuantizeLinear", g.input((1, 3, 5, 5)), *x_grid), *x_grid)
    w = g.op("DequantizeLinear", rng.integers(3, 251, (2, 3, 3, 3)).astype(np.uint8), *w_grid, axis=0)
    b = g.op("DequantizeLinear", np.asarray([2000, -300000], np.int32), f([0.001, 0.0002]), axis=0)
    y = g.op("QuantizeLinear", g.op("Relu", g.op("Conv", x, w, b, pads=[1, 1, 1, 1])), *y_grid)
    g.output(g.op("DequantizeLinear", y, *y_grid))


CASES = [(case_constant, "float32"), (case_scaled_product, "float16"), (case_two_products, "float16"),
         (case_quantized_convolution, "float32")]


def case(number):
    build, dtype = CASES[number]
    graph = Builder(np.random.default_rng(number), dtype, opset=19)
    build(graph)
    return graph.sample(build.__name__)


# ---------------------------------------------------------------- kinds, in turn

KINDS = [by_constant, fake_quantize_by_constant, fake_quantize, quantize, veltkamp, veltkamp_other_way, two_product,
         two_sum, fast_two_sum, double_sum, kahan, neumaier]
COUNT = 200


def rounding_graph(number):
    """Number 0 to COUNT - 1; the kinds in turn, in f32 most often."""
    rng = np.random.default_rng(number)
    kind = KINDS[number % len(KINDS)]
    dtype = ["float32", "float32", "float16", "float64"][number // len(KINDS) % 4]
    graph = Builder(rng, dtype)
    kind(graph)
    return graph.sample(f"{kind.__name__}_{dtype}_{number}")
