"""Pairs of small models that are equal, and changes to one of a pair (equal_pairs.py): a function for each kind."""
import math

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper

TYPES = {
    "f32": (TensorProto.FLOAT, np.float32, 2.0**-24),
    "f16": (TensorProto.FLOAT16, np.float16, 2.0**-11),
    "bf16": (TensorProto.BFLOAT16, ml_dtypes.bfloat16, 2.0**-8),
    "f64": (TensorProto.DOUBLE, np.float64, 2.0**-53),
}


class Model:
    """A graph that is written line by line; values are names. Weights are in f64 until they are written."""

    def __init__(self, dtype):
        self.dtype, self.nodes, self.weights, self.inputs, self.outputs = dtype, [], {}, [], []

    def input(self, name, *shape):
        self.inputs.append((name, shape))
        return name

    def weight(self, name, values, dtype=None):
        """In the type of the model, unless another is said."""
        self.weights[name] = [np.asarray(values), dtype or self.dtype]
        return name

    def number(self, value):
        return self.weight(f"c{len(self.weights)}", np.float64(value))

    def integers(self, *values):
        return self.weight(f"i{len(self.weights)}", np.array(values, np.int64), "i64")

    def __getattr__(self, op):
        """model.MatMul("x", "w", axis=1) adds a node and gives its result, or a list where outputs=N is given."""
        if not op[0].isupper():
            raise AttributeError(op)

        def add(*operands, outputs=1, **attributes):
            names = [f"v{len(self.nodes)}_{k}" for k in range(outputs)]
            self.nodes.append(helper.make_node(op, list(operands), names, **attributes))
            return names[0] if outputs == 1 else names
        return add

    def cast(self, value, dtype):
        return self.Cast(value, to=TYPES[dtype][0])

    def output(self, value, *shape):
        self.outputs.append((value, f"y{len(self.outputs)}", shape))

    def save(self, path):
        code = TYPES[self.dtype][0]
        tensors = []
        for name, (values, dtype) in self.weights.items():
            kind, element = (TensorProto.INT64, np.int64) if dtype == "i64" else TYPES[dtype][:2]
            tensors.append(helper.make_tensor(name, kind, values.shape, values.astype(element).tobytes(), raw=True))
        nodes = self.nodes + [helper.make_node("Identity", [value], [name]) for value, name, _ in self.outputs]
        graph = helper.make_graph(nodes, "g",
                                  [helper.make_tensor_value_info(name, code, shape) for name, shape in self.inputs],
                                  [helper.make_tensor_value_info(name, code, shape) for _, name, shape in self.outputs],
                                  tensors)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10), path)


def rounded(values, dtype):
    """As the type holds them, in f64."""
    return np.asarray(values).astype(TYPES[dtype][1]).astype(np.float64)


class Draw:
    """The sizes, numbers and choices of one pair."""

    def __init__(self, rng, dtype):
        self.rng, self.dtype = rng, dtype
        self.numbers = np.random.default_rng(rng.randrange(2**32))

    def size(self, low=3, high=24):
        return self.rng.randint(low, high)

    def weight(self, *shape, low=None, high=None):
        """As the type holds them: normal, scaled as a layer's are, or within bounds."""
        values = (self.numbers.uniform(low, high, shape) if low is not None
                  else self.numbers.standard_normal(shape) / math.sqrt(shape[0] if len(shape) > 1 else 1))
        return rounded(values, self.dtype)

    def number(self, low=0.2, high=3.0):
        return float(rounded(self.rng.uniform(low, high), self.dtype))

    def folded(self, make, *operands):
        """What a program folds: in f64, or in the type, each step rounded."""
        if self.rng.random() < 0.5:
            return rounded(make(*operands), self.dtype)
        element = TYPES[self.dtype][1]
        return np.asarray(make(*[np.asarray(x).astype(element) for x in operands])).astype(np.float64)

    def models(self):
        return Model(self.dtype), Model(self.dtype)


EQUAL = {}


def equal(make):
    """A kind of pair: takes a Draw and gives two models that are equal over the real numbers."""
    EQUAL[make.__name__] = make
    return make


@equal
def scale_folded(d):
    a, b = models = d.models()
    m, k, n, c = d.size(), d.size(), d.size(), d.number()
    w = d.weight(k, n)
    for model in models:
        model.input("x", m, k)
    a.output(a.Relu(a.Mul(a.MatMul("x", a.weight("w", w)), a.number(c))), m, n)
    b.output(b.Relu(b.MatMul("x", b.weight("w", d.folded(np.multiply, w, c)))), m, n)
    return models


@equal
def products_folded(d):
    a, b = models = d.models()
    m, k, h, n = d.size(), d.size(), d.size(), d.size()
    w, v = d.weight(k, h), d.weight(h, n)
    for model in models:
        model.input("x", m, k)
    a.output(a.Tanh(a.MatMul(a.MatMul("x", a.weight("w", w)), a.weight("v", v))), m, n)
    b.output(b.Tanh(b.MatMul("x", b.weight("w", rounded(w @ v, d.dtype)))), m, n)
    return models


@equal
def quotient(d):
    a, b = models = d.models()
    m, n, c = d.size(), d.size(), d.number(1.1, 9)
    for model in models:
        model.input("x", m, n)
    a.output(a.Softmax(a.Div("x", a.number(c)), axis=-1), m, n)
    b.output(b.Softmax(b.Mul("x", b.number(1 / c)), axis=-1), m, n)
    return models


def attention(model, x, weights, scale):
    """`scale` is applied to the name of q, of the scores, or not at all."""
    q, k, v = (model.MatMul(x, model.weight(name, weights[name])) for name in ("wq", "wk", "wv"))
    q = scale.get("q", lambda one: one)(q)
    scores = model.MatMul(q, model.Transpose(k, perm=[0, 2, 1]))
    return model.MatMul(model.Softmax(scale.get("scores", lambda one: one)(scores), axis=-1), v)


@equal
def attention_scale(d):
    a, b = models = d.models()
    t, k, h = d.size(3, 10), d.size(), d.size(3, 12)
    weights = {name: d.weight(k, h) for name in ("wq", "wk", "wv")}
    c = float(rounded(math.sqrt(h), d.dtype))
    for model in models:
        model.input("x", 2, t, k)
    a.output(attention(a, "x", weights, {"scores": lambda one: a.Div(one, a.number(c))}), 2, t, h)
    way = d.rng.randrange(3)
    if way == 0:
        out = attention(b, "x", weights, {"q": lambda one: b.Mul(one, b.number(1 / c))})
    elif way == 1:
        out = attention(b, "x", weights, {"scores": lambda one: b.Mul(one, b.number(1 / c))})
    else:
        out = attention(b, "x", {**weights, "wq": d.folded(np.divide, weights["wq"], c)}, {})
    b.output(out, 2, t, h)
    return models


@equal
def detour(d):
    a, b = models = d.models()
    m, k, n = d.size(), d.size(), d.size()
    w, bias = d.weight(k, n), d.weight(n)
    through = d.rng.choice([t for t in TYPES if t != d.dtype])
    at = d.rng.randrange(3)

    def make(model, way):
        x = way("x") if at == 0 else "x"
        y = model.MatMul(x, model.weight("w", w))
        y = model.Add(way(y) if at == 1 else y, model.weight("b", bias))
        y = model.Sigmoid(y)
        model.output(way(y) if at == 2 else y, m, n)
    for model in models:
        model.input("x", m, k)
    make(a, lambda one: a.cast(a.cast(one, through), d.dtype))
    make(b, lambda one: one)
    return models


@equal
def computed_wider(d):
    a, b = models = d.models()
    m, n = d.size(), d.size()
    wide = "f32" if d.dtype != "f32" else "f64"
    for model in models:
        model.input("x", m, n)
    a.output(a.cast(a.Softmax(a.cast("x", wide), axis=-1), d.dtype), m, n)
    b.output(b.Softmax("x", axis=-1), m, n)
    return models


@equal
def weight_detour(d):
    a, b = models = d.models()
    m, k, n = d.size(), d.size(), d.size()
    w = rounded(d.numbers.standard_normal((k, n)) / math.sqrt(k), "f32")
    narrow = d.rng.choice(["f16", "bf16"])
    for model in models:
        model.input("x", m, k)
    a.output(a.Relu(a.MatMul("x", a.cast(a.cast(a.weight("w", w, "f32"), narrow), d.dtype))), m, n)
    b.output(b.Relu(b.MatMul("x", b.weight("w", rounded(rounded(w, narrow), d.dtype)))), m, n)
    return models


@equal
def norm_folded(d):
    a, b = models = d.models()
    i, o, s = d.size(2, 6), d.size(2, 6), d.size(4, 8)
    w = rounded(d.numbers.standard_normal((o, i, 3, 3)) / math.sqrt(9 * i), d.dtype)
    scale, shift, mean, var = d.weight(o, low=0.5, high=2), d.weight(o), d.weight(o), d.weight(o, low=0.3, high=2)
    for model in models:
        model.input("x", 1, i, s, s)
    y = a.Conv("x", a.weight("w", w), pads=[1, 1, 1, 1])
    names = [a.weight(name, values) for name, values in
             (("scale", scale), ("shift", shift), ("mean", mean), ("var", var))]
    a.output(a.Relu(a.BatchNormalization(y, *names, epsilon=1e-5)), 1, o, s, s)
    factor = scale / np.sqrt(var + 1e-5)
    y = b.Conv("x", b.weight("w", rounded(w * factor[:, None, None, None], d.dtype)),
               b.weight("b", rounded(shift - mean * factor, d.dtype)), pads=[1, 1, 1, 1])
    b.output(b.Relu(y), 1, o, s, s)
    return models


@equal
def sums_reordered(d):
    a, b = models = d.models()
    m, k, n = d.size(), d.size(), d.size()
    w, v, bias = d.weight(k, n), d.weight(k, n), d.weight(n)
    for model in models:
        model.input("x", m, k)
        model.input("z", m, k)
        for name, values in (("w", w), ("v", v), ("b", bias)):
            model.weight(name, values)
    a.output(a.Add(a.Add(a.MatMul("x", "w"), a.MatMul("z", "v")), "b"), m, n)
    b.output(b.Add(b.MatMul("x", "w"), b.Add("b", b.MatMul("z", "v"))), m, n)
    return models


@equal
def biases_folded(d):
    a, b = models = d.models()
    m, n = d.size(), d.size()
    p, q = d.weight(n), d.weight(n)
    for model in models:
        model.input("x", m, n)
    a.output(a.Sigmoid(a.Add(a.Add("x", a.weight("p", p)), a.weight("q", q))), m, n)
    b.output(b.Sigmoid(b.Add("x", b.weight("p", d.folded(np.add, p, q)))), m, n)
    return models


@equal
def gelu_erf(d):
    a, b = models = d.models()
    m, n = d.size(), d.size()
    for model in models:
        model.input("x", m, n)
    half = a.Mul("x", a.number(0.5)) if d.rng.random() < 0.5 else None
    inner = (a.Div("x", a.number(math.sqrt(2))) if d.rng.random() < 0.5 else
             a.Mul("x", a.number(math.sqrt(0.5))))
    grown = a.Add(a.Erf(inner), a.number(1))
    a.output(a.Mul(half, grown) if half else a.Mul(a.Mul("x", grown), a.number(0.5)), m, n)
    b.output(b.Gelu("x"), m, n)
    return models


@equal
def gelu_tanh(d):
    a, b = models = d.models()
    m, n = d.size(), d.size()
    for model in models:
        model.input("x", m, n)
    cube = a.Pow("x", a.number(3)) if d.rng.random() < 0.5 else a.Mul(a.Mul("x", "x"), "x")
    inner = a.Mul(a.Add("x", a.Mul(cube, a.number(0.044715))), a.number(math.sqrt(2 / math.pi)))
    a.output(a.Mul(a.Mul("x", a.number(0.5)), a.Add(a.Tanh(inner), a.number(1))), m, n)
    b.output(b.Gelu("x", approximate="tanh"), m, n)
    return models


@equal
def layer_norm(d):
    a, b = models = d.models()
    m, n = d.size(), d.size(6, 24)
    scale, shift = d.weight(n, low=0.5, high=2), d.weight(n)
    for model in models:
        model.input("x", m, n)
        model.weight("scale", scale)
        model.weight("shift", shift)
    centred = a.Sub("x", a.ReduceMean("x", a.integers(-1)))
    square = a.Pow(centred, a.number(2)) if d.rng.random() < 0.5 else a.Mul(centred, centred)
    deviation = a.Sqrt(a.Add(a.ReduceMean(square, a.integers(-1)), a.number(1e-3)))
    a.output(a.Add(a.Mul(a.Div(centred, deviation), "scale"), "shift"), m, n)
    b.output(b.LayerNormalization("x", "scale", "shift", axis=-1, epsilon=1e-3), m, n)
    return models


@equal
def products_added(d):
    a, b = models = d.models()
    m, k, n = d.size(), d.size(), d.size()
    w, v = d.weight(k, n), d.weight(k, n)
    for model in models:
        model.input("x", m, k)
    a.output(a.Relu(a.Add(a.MatMul("x", a.weight("w", w)), a.MatMul("x", a.weight("v", v)))), m, n)
    b.output(b.Relu(b.MatMul("x", b.weight("w", d.folded(np.add, w, v)))), m, n)
    return models


@equal
def scale_moved(d):
    a, b = models = d.models()
    m, k, n, c = d.size(), d.size(), d.size(), d.number()
    w = d.weight(k, n)
    for model in models:
        model.input("x", m, k)
        model.weight("w", w)
    a.output(a.Tanh(a.MatMul(a.Mul("x", a.number(c)), "w")), m, n)
    b.output(b.Tanh(b.Mul(b.MatMul("x", "w"), b.number(c))), m, n)
    return models


@equal
def silu(d):
    a, b = models = d.models()
    m, n = d.size(), d.size()
    for model in models:
        model.input("x", m, n)
    a.output(a.Mul("x", a.Sigmoid("x")), m, n)
    b.output(b.Div("x", b.Add(b.Exp(b.Neg("x")), b.number(1))), m, n)
    return models


@equal
def softmax_parts(d):
    a, b = models = d.models()
    m, k, n = d.size(), d.size(), d.size()
    w = d.weight(k, n)
    for model in models:
        model.input("x", m, k)
    y = a.MatMul("x", a.weight("w", w))
    grown = a.Exp(a.Sub(y, a.ReduceMax(y, a.integers(-1))) if d.rng.random() < 0.5 else y)
    a.output(a.Div(grown, a.ReduceSum(grown, a.integers(-1))), m, n)
    b.output(b.Softmax(b.MatMul("x", b.weight("w", w)), axis=-1), m, n)
    return models


@equal
def merged_products(d):
    a, b = models = d.models()
    m, k, n, p = d.size(), d.size(), d.size(), d.size()
    w, v = d.weight(k, n), d.weight(k, p)
    for model in models:
        model.input("x", m, k)
    a.output(a.Relu(a.MatMul("x", a.weight("w", w))), m, n)
    a.output(a.MatMul("x", a.weight("v", v)), m, p)
    y, z = b.Split(b.MatMul("x", b.weight("all", np.concatenate([w, v], 1))), b.integers(n, p), axis=1, outputs=2)
    b.output(b.Relu(y), m, n)
    b.output(z, m, p)
    return models


@equal
def transposed_weight(d):
    a, b = models = d.models()
    m, k, c = d.size(), d.size(), d.number()
    w, bias = d.weight(k, k), d.weight(k)
    for model in models:
        model.input("x", m, k)
        model.weight("b", bias)
    a.output(a.Relu(a.Add(a.Mul(a.MatMul("x", a.weight("w", w)), a.number(c)), "b")), m, k)
    b.output(b.Relu(b.Gemm("x", b.weight("w", d.folded(np.multiply, w.T, c)), "b", transB=1)), m, k)
    return models


@equal
def mean_as_sum(d):
    a, b = models = d.models()
    m, n = d.size(), d.size(3, 17)
    for model in models:
        model.input("x", m, n)
    a.output(a.Sub("x", a.ReduceMean("x", a.integers(1))), m, n)
    total = b.ReduceSum("x", b.integers(1))
    b.output(b.Sub("x", b.Mul(total, b.number(1 / n)) if d.rng.random() < 0.5 else b.Div(total, b.number(n))), m, n)
    return models


@equal
def root_mean_square(d):
    a, b = models = d.models()
    m, n = d.size(), d.size(4, 24)
    scale = d.weight(n, low=0.5, high=2)
    for model in models:
        model.input("x", m, n)
        model.weight("g", scale)

    def mean(model):
        return model.Add(model.ReduceMean(model.Mul("x", "x"), model.integers(-1)), model.number(1e-3))
    a.output(a.Mul(a.Div("x", a.Sqrt(mean(a))), "g"), m, n)
    b.output(b.Mul("x", b.Mul(b.Reciprocal(b.Sqrt(mean(b))), "g")), m, n)
    return models


@equal
def slices_joined(d):
    a, b = models = d.models()
    m, k, n = d.size(), d.size(), d.size(6, 24)
    w, c = d.weight(k, n), d.number()
    cut = d.rng.randint(2, n - 3)
    for model in models:
        model.input("x", m, k)
        model.weight("w", w)
    y = a.MatMul("x", "w")
    front = a.Slice(y, a.integers(0), a.integers(cut), a.integers(1))
    back = a.Slice(y, a.integers(cut), a.integers(n), a.integers(1))
    a.output(a.Mul(a.Concat(back, front, axis=1), a.number(c)), m, n)
    turned = np.concatenate([w[:, cut:], w[:, :cut]], 1)
    b.output(b.MatMul("x", b.weight("v", d.folded(np.multiply, turned, c))), m, n)
    return models


@equal
def optimized(d):
    """One of the other kinds; B is made of A by `rewright optimize` (judged)."""
    return EQUAL[d.rng.choice([name for name in EQUAL if name != "optimized"])](d)


# ---------------------------------------------------------------- changes

CHANGED = {}


def change(make):
    """A change: takes a model and a Draw, and says whether it found a place. It lies above rounding."""
    CHANGED[make.__name__] = make
    return make


def above(dtype):
    """Beyond the rounding of the type, of the greatest magnitude."""
    return {"f32": 1e-3, "f16": 0.05, "bf16": 0.25}[dtype]


def floats(model, least, most=10**9):
    """Weights of so many elements that are read."""
    read = {name for node in model.nodes for name in node.input}
    return [name for name, (values, dtype) in model.weights.items()
            if dtype != "i64" and least <= values.size <= most and name in read]


@change
def element(model, d):
    names = floats(model, 2)
    if not names:
        return False
    values = np.array(model.weights[name := d.rng.choice(names)][0])
    values.flat[d.rng.randrange(values.size)] += above(d.dtype) * max(np.abs(values).max(), 0.1)
    model.weights[name][0] = values
    return True


@change
def number(model, d):
    names = floats(model, 1, 1)
    if not names:
        return False
    name = d.rng.choice(names)
    model.weights[name][0] = model.weights[name][0] * (1 + above(d.dtype)) + 0.1 * above(d.dtype)
    return True


@change
def epsilon(model, d):
    places = [a for node in model.nodes for a in node.attribute if a.name == "epsilon"]
    for one in places:
        one.f = 0.5
    return bool(places)


@change
def axis(model, d):
    places = [a for node in model.nodes for a in node.attribute
              if a.name == "axis" and node.op_type in ("Softmax",)]
    for one in places:
        one.i = 0
    return bool(places)


@change
def activation(model, d):
    places = [node for node in model.nodes if node.op_type in ("Relu", "Tanh", "Sigmoid")]
    if not places:
        return False
    node = d.rng.choice(places)
    node.op_type = "Identity" if node.op_type == "Relu" else "Relu"
    return True


@change
def transposed(model, d):
    shapes = {name: model.weights[name][0].shape for name in floats(model, 4)}
    names = [name for name, shape in shapes.items() if len(shape) == 2 and shape[0] == shape[1]]
    if not names:
        return False
    name = d.rng.choice(names)
    model.weights[name][0] = model.weights[name][0].T.copy()
    return True


@change
def place(model, d):
    """A slice that begins and ends one earlier."""
    for node in model.nodes:
        if node.op_type == "Slice":
            for name in (node.input[1], node.input[2]):
                model.weights[name][0] = model.weights[name][0] - 1
            if model.weights[node.input[1]][0][0] >= 0:
                return True
            for name in (node.input[1], node.input[2]):
                model.weights[name][0] = model.weights[name][0] + 1
    return False


@change
def order(model, d):
    places = [node for node in model.nodes if node.op_type in ("Sub", "Div", "Concat")
              and not any(name in model.weights for name in node.input)]
    if not places:
        return False
    node = d.rng.choice(places)
    node.input[0], node.input[1] = node.input[1], node.input[0]
    return True


@change
def sign(model, d):
    maxima = {name for node in model.nodes if node.op_type == "ReduceMax" for name in node.output}
    places = [node for node in model.nodes if node.op_type in ("Sub", "Add") and maxima.isdisjoint(node.input)]
    if not places:
        return False
    node = d.rng.choice(places)
    node.op_type = "Add" if node.op_type == "Sub" else "Sub"
    return True
