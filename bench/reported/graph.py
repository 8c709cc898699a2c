"""Builds graphs after public reports: ONNX files, inputs that tell, and the list of all families.

A family is a generator of graphs, each of another structure, shape, attribute or element type; reports name the public
reports whose kind it is, as owner/repository#number.
"""
import dataclasses
import functools
import inspect
import zlib

import ml_dtypes
import numpy as np
import onnx
from onnx import helper, numpy_helper

FAMILIES = []
INFINITY, NAN = float("inf"), float("nan")
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, INFINITY, -INFINITY, NAN, 1e-40]
SAMPLES = 4


def family(*reports):
    def add(make):
        FAMILIES.append((make, reports))
        return make
    return add


@dataclasses.dataclass
class Input:
    dtype: type
    shape: tuple
    values: list = None  # arrays or numbers, one after the other; none: drawn
    low: int = None  # of whole numbers, with high (not reached)
    high: int = None
    positive: bool = False

    def draw(self, rng, kind, specials, sizes):
        return np.array(self._drawn(rng, kind, specials, sizes), self.dtype, order="C")

    def _drawn(self, rng, kind, specials, sizes):
        shape = [sizes.get(size, size) for size in self.shape]
        if self.values is not None:
            value = np.asarray(self.values[kind % len(self.values)])
            return np.broadcast_to(value, shape)
        if self.dtype == np.bool_:
            return rng.integers(0, 2, shape)
        if np.issubdtype(self.dtype, np.integer):
            limits = np.iinfo(self.dtype)
            if self.low is not None:
                return rng.integers(self.low, self.high, shape)
            if kind == SAMPLES - 1:
                extremes = [limits.min, limits.max, limits.max - 1, limits.min + 1, 0, 1]
                return rng.choice(np.array(extremes, self.dtype), shape)
            low = -9 if limits.min < 0 else 0
            return rng.integers(low, 10, shape)
        x = rng.standard_normal(shape)
        if kind == 1:
            x = 300 * x
        elif kind == 2:
            x = rng.integers(-5, 6, shape) / 2  # ties
        elif kind == SAMPLES - 1:
            x = np.where(rng.random(shape) < 0.3, rng.choice(specials, shape), x) if specials else x / 1000
        return np.abs(x) if self.positive else x


def _of(dtype):
    return lambda *shape, **how: Input(dtype, shape, **how)


f32, f64, f16, bf16 = _of(np.float32), _of(np.float64), _of(np.float16), _of(ml_dtypes.bfloat16)
i8, i16, i32, i64 = _of(np.int8), _of(np.int16), _of(np.int32), _of(np.int64)
u8, u16, u32, u64, boolean = _of(np.uint8), _of(np.uint16), _of(np.uint32), _of(np.uint64), _of(np.bool_)


def element_type(dtype):
    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


class Graph:
    """Nodes of ONNX, one after the other; outputs are those that `returns` names, else what the last node gives."""

    seed = 0  # of weights and inputs, for all graphs

    def __init__(self, opset=17, special=True, big=False, tolerance=None, magnitude=0, unit=0, gradients=True, sizes=None,
                 **inputs):
        self.opset, self.inputs, self.sizes = opset, inputs, sizes or {}
        self.specials = SPECIAL + ([1e30, -1e30] if big else []) if special else None
        self.tolerance = tolerance  # relative to the greatest magnitude of an output; none: that of its element type
        self.magnitude = magnitude  # that counts at least as the greatest, where the truth itself is no more exact
        self.overflows = False  # finite in float64, so that a rewritten graph may be finite where this is not
        self.unit = unit  # by how much whole numbers may be apart: what is rounded lies at a half
        self.gradients = gradients  # whether finite differences tell anything
        self.nodes, self.tensors, self.outputs, self.domains = [], [], [], {"": opset}
        self.typed = {}  # the type and shape that the file declares of an output
        self.truth_of = None  # NumPy's, or "reference" for onnx.reference, in the place of onnxruntime's
        self.why = ""
        self.rng = np.random.default_rng(
            self.seed + zlib.crc32(repr(sorted((k, v.shape) for k, v in inputs.items())).encode()))

    def add(self, op, *inputs, results=1, domain="", **attributes):
        """The name of the result, or a list of them."""
        number = len(self.nodes)
        names = [f"{op.lower()}_{number}" + (f"_{k}" if results > 1 else "") for k in range(results)]
        self.domains.setdefault(domain, 1)
        self.nodes.append(helper.make_node(op, [self._name(x) for x in inputs], names, domain=domain, **attributes))
        return names[0] if results == 1 else names

    def _name(self, x):
        return "" if x is None else x if isinstance(x, str) else self.const(x)

    def const(self, value, dtype=None):
        """An initializer: whole numbers are int64, others float32, unless they are arrays."""
        array = np.asarray(value, dtype)
        if dtype is None and not isinstance(value, (np.ndarray, np.generic)):
            array = array.astype(np.float32 if array.dtype.kind == "f" else array.dtype)
        name = f"c{len(self.tensors)}"
        self.tensors.append(numpy_helper.from_array(array, name))
        return name

    def weight(self, *shape, dtype=np.float32, scale=1.0, positive=False):
        x = scale * self.rng.standard_normal(shape)
        return self.const((np.abs(x) + 0.1 if positive else x).astype(dtype))

    def returns(self, *names):
        self.outputs = list(names)
        return self

    def truth(self, function, why):
        """Outputs by NumPy, of the inputs by name; why not by onnxruntime."""
        self.truth_of, self.why = function, why
        return self

    def by_reference(self, why):
        self.truth_of, self.why = "reference", why
        return self

    def model(self):
        names = self.outputs or list(self.nodes[-1].output)
        inputs = [helper.make_tensor_value_info(name, element_type(x.dtype), list(x.shape))
                  for name, x in self.inputs.items()]
        outputs = [helper.make_tensor_value_info(name, *self.typed[name]) if name in self.typed
                   else onnx.ValueInfoProto(name=name) for name in names]
        graph = helper.make_graph(self.nodes, "reported", inputs, outputs, self.tensors)
        opsets = [helper.make_opsetid(domain, version) for domain, version in self.domains.items()]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
        known = {value.name: value.type for value in [*inputs, *onnx.shape_inference.infer_shapes(
            model, data_prop=True).graph.output]}
        known.update({tensor.name: helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
                      for tensor in self.tensors})
        for value in model.graph.output:
            if value.name not in self.typed:
                value.type.CopyFrom(known[value.name])
        return model

    def samples(self):
        """Inputs by name, so many sets of them."""
        rng = np.random.default_rng(7 + self.seed)
        return [{name: x.draw(rng, kind, self.specials, self.sizes) for name, x in self.inputs.items()}
                for kind in range(SAMPLES if self.inputs else 1)]


def single(op, *inputs, opset=17, attributes=None, results=1, **options):
    """A graph of one node on inputs a, b, .. (of class Input) and constants (anything else)."""
    named = {chr(ord("a") + k): x for k, x in enumerate(x for x in inputs if isinstance(x, Input))}
    g = Graph(opset=opset, **options, **named)
    names = iter(named)
    g.add(op, *(next(names) if isinstance(x, Input) else x for x in inputs), results=results, **(attributes or {}))
    return g


def structure(model):
    """The model without the numbers of its floating tensors and without names, to tell graphs apart."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for tensor in copy.graph.initializer:
        if tensor.data_type in (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.DOUBLE,
                                onnx.TensorProto.BFLOAT16) and np.prod(tensor.dims) > 4:
            tensor.ClearField("raw_data")
            tensor.ClearField("float_data")
    return copy.SerializeToString(deterministic=True)


@functools.cache
def all_graphs():
    """(name, reports, graph) of every graph, in a fixed order."""
    from . import arithmetic, fusions, layers, moves, narrow, norms, reductions, structures  # noqa: F401
    found, seen = [], {}
    for make, reports in FAMILIES:
        assert inspect.isgeneratorfunction(make), make
        for number, graph in enumerate(make()):
            name = f"{make.__name__}_{number}"
            key = structure(graph.model()), tuple((x.dtype, x.shape) for x in graph.inputs.values())
            assert key not in seen, f"{name} is {seen[key]} once more"
            seen[key] = name
            found.append((name, reports, graph))
    return found
