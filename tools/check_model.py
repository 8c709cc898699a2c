#!/usr/bin/env python3
"""Checks that a model which was optimized computes what the original does, by the proof that was written with it.

    rewright optimize IN.onnx -o OUT.onnx --proof F.jsonl
    python tools/check_model.py IN.onnx OUT.onnx F.jsonl [--laws FILE.rules ..] [--certificates DIR] [--assume-finite]

The check reads both models, makes every step of the proof again on terms of its own, and looks at each: the law is one
of the list of proved laws, its left side is there with these bindings, its conditions hold, its right side is what the
proof says. Weights that were computed beforehand are computed again, and have to agree within the roundings of their
type. In the end every output of OUT.onnx has to be the same term as that of IN.onnx.

It needs NumPy and the package onnx, shares no code with the optimizer, and asks no solver. docs/proof_files.md tells
what it trusts. Exit status: 0 accepted, 1 refused, 2 a file or an argument that cannot be read.
"""
import argparse
import ast
import functools
import json
import math
import operator
import pathlib
import re
import sys
import time

import numpy as np
import onnx
from onnx import numpy_helper, reference, shape_inference

MOST_SIZE = 2**31 - 1  # of sizes and integer attributes, as proofs have it
MOST_SIBLINGS = 16
MOST_ELEMENTS = 2**28  # of constants that a proof makes
FLOATING = {"f16", "bf16", "f32", "f64"}
DTYPES = dict(zip("FLOAT DOUBLE FLOAT16 BFLOAT16 INT64 INT32 INT16 INT8 UINT64 UINT32 UINT16 UINT8 BOOL".split(),
                  "f32 f64 f16 bf16 i64 i32 i16 i8 u64 u32 u16 u8 bool".split()))
ONNX_OF = {ours: getattr(onnx.TensorProto, name) for name, ours in DTYPES.items()}
OURS_OF = {number: ours for ours, number in ONNX_OF.items()}
UNIT_ROUNDOFF = {"f64": 2.0**-52, "f32": 2.0**-24, "f16": 2.0**-11, "bf16": 2.0**-8}  # f64: of two
SMALLEST = {"f64": 2.0**-1074, "f32": 2.0**-149, "f16": 2.0**-24, "bf16": 2.0**-133}

class Refused(Exception):
    """The proof does not hold."""

class Unreadable(Exception):
    """A file that is no model, no proof or no list of laws."""

def read_text(path):
    try:
        return pathlib.Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise Unreadable(f"{path}: {error}") from None

def refuse(place, found, expected): raise Refused(f"{place}: found {found}, expected {expected}")
def numpy_type(dtype): return onnx.helper.tensor_dtype_to_np_dtype(ONNX_OF[dtype])

# ---------------------------------------------------------------- operators
#
# In an application all attributes are there. An axis counts from the front, a list of axes is sorted.

UNARY = set("abs acos acosh asin asinh atan atanh ceil cos cosh erf exp floor gelu gelu_tanh hard_swish identity log "
            "mish neg reciprocal relu round rsqrt sigmoid sign sin sinh softplus sqrt swish tan tanh logical_not "
            "leaky_relu elu clip cast".split())
ARITHMETIC = set("add sub mul div pow min max rem mod".split())
COMPARISONS = set("equal not_equal less less_equal greater greater_equal".split())
LOGIC = set("logical_and logical_or logical_xor".split())
BINARY = ARITHMETIC | COMPARISONS | LOGIC
COMMUTATIVE = {"add", "mul", "min", "max", "equal", "not_equal", "logical_and", "logical_or", "logical_xor"}
REDUCTIONS = {"reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_prod"}
# They move elements and look at none.
MOVES = set("identity reshape transpose concat split slice expand gather reverse".split())

# Attributes with their defaults; None: it has to be given. Their names tell their kinds.
WINDOW = {"strides": [1, 1], "pads": [0, 0, 0, 0]}
ATTRIBUTES = {
    "leaky_relu": {"alpha": 0.01}, "elu": {"alpha": 1.0}, "clip": {"min": None, "max": None}, "cast": {"to": None},
    "conv2d": {**WINDOW, "dilations": [1, 1], "groups": 1},
    "max_pool2d": {**WINDOW, "kernel": None, "ceil_mode": 0, "dilations": [1, 1]},
    "avg_pool2d": {**WINDOW, "kernel": None, "ceil_mode": 0, "count_include_pad": 0},
    "batch_norm": {"epsilon": 1e-5}, "layer_norm": {"axis": -1, "epsilon": 1e-5}, "softmax": {"axis": -1},
    "log_softmax": {"axis": -1}, "concat": {"axis": None}, "split": {"axis": None, "sizes": None},
    "slice": {"starts": None, "stops": None, "steps": []}, "reverse": {"axes": None}, "transpose": {"perm": None},
    "reshape": {"shape": None}, "expand": {"shape": None}, "gather": {"axis": 0},
    "pad": {"before": None, "after": None, "value": 0.0, "interior": []},
    **{name: {"axes": None, "keepdims": 1} for name in REDUCTIONS},
}
COUNTS = {**dict.fromkeys(UNARY, 1), **dict.fromkeys(BINARY, 2), "where": 3, "matmul": 2, "conv2d": 2, "gather": 2}
REALS = {"alpha", "epsilon", "min", "max", "value"}
INTEGERS = {"groups", "ceil_mode", "count_include_pad", "keepdims", "axis"}
OPERATORS = UNARY | BINARY | REDUCTIONS | set(ATTRIBUTES) | {"matmul", "where"}

def canonical_attributes(op, given, rank):
    """All attributes of an application as a sorted tuple, whose members can be hashed."""
    specs, result = ATTRIBUTES.get(op, {}), []
    if set(given) - set(specs): refuse(op, f"the attribute {min(set(given) - set(specs))}", "one that it has")
    for name, default in sorted(specs.items()):
        value = given.get(name, default)
        if value is None: refuse(op, f"no attribute {name}", "one")
        if name in REALS: value = float(value)
        elif name != "to":
            parts = [value] if name in INTEGERS else value
            if not isinstance(parts, (list, tuple)) or not all(
                    isinstance(v, (int, np.integer)) and abs(v) <= MOST_SIZE for v in parts):
                refuse(f"{op}: {name}", value, f"integers of at most {MOST_SIZE}")
            parts = [int(v) + rank if name in ("axis", "axes") and v < 0 else int(v) for v in parts]
            value = parts[0] if name in INTEGERS else tuple(sorted(parts) if name == "axes" else parts)
        result.append((name, value))
    return tuple(result)

def broadcast(op, *shapes):
    try:
        return tuple(np.broadcast_shapes(*shapes))
    except ValueError:
        raise Refused(f"{op}: the shapes {', '.join(map(str, shapes))} do not broadcast") from None

def window_sizes(shape, kernel, a, dilations):
    """The sizes of what windows give; none if a window does not fit."""
    sizes, ceil = [], a.get("ceil_mode", 0)
    for axis in range(2):
        padded, stride = shape[2 + axis] + a["pads"][axis] + a["pads"][2 + axis], a["strides"][axis]
        reach = (kernel[axis] - 1) * dilations[axis] + 1
        if reach > padded or stride < 1 or dilations[axis] < 1: return None
        count = (padded - reach + (stride - 1 if ceil else 0)) // stride + 1
        if ceil and (count - 1) * stride >= shape[2 + axis] + a["pads"][axis]: count -= 1
        sizes.append(count)
    return tuple(sizes)

def shapes_of(op, a, x, *others):
    """The shapes of the results, by the shapes of the operands; none if the application is ill-formed."""
    rank, axis = len(x), a.get("axis", 0)
    fits = 0 <= axis < max(rank, 1)
    if op in BINARY or op == "where": return [broadcast(op, x, *others)]
    if op in REDUCTIONS:
        fits = all(0 <= i < rank for i in a["axes"])
        kept = [1 if i in a["axes"] else n for i, n in enumerate(x) if a["keepdims"] or i not in a["axes"]]
        return fits and [tuple(kept)]
    if op == "matmul":
        y, = others
        fits = rank >= 2 and len(y) >= 2 and x[-1] == y[-2]
        return fits and [broadcast(op, x[:-2], y[:-2]) + (x[-2], y[-1])]
    if op == "conv2d":
        w, = others
        fits = rank == len(w) == 4 and a["groups"] >= 1 and x[1] == a["groups"] * w[1] and w[0] % a["groups"] == 0
        sizes = fits and min(a["pads"]) >= 0 and window_sizes(x, w[2:], a, a["dilations"])
        return sizes and [(x[0], w[0], *sizes)]
    if op in ("max_pool2d", "avg_pool2d"):
        dilations = a.get("dilations", (1, 1))
        fits = rank == 4 and all(0 <= a["pads"][i] <= (a["kernel"][i % 2] - 1) * dilations[i % 2] for i in range(4))
        sizes = fits and window_sizes(x, a["kernel"], a, dilations)
        return sizes and [(*x[:2], *sizes)]
    if op == "batch_norm": return len(others) == 4 and rank >= 2 and all(s == (x[1],) for s in others) and [x]
    if op == "layer_norm": return len(others) == 2 and others[0] == others[1] == x[axis:] and [x]
    if op == "concat":
        fits = fits and all(s[:axis] + s[axis + 1:] == x[:axis] + x[axis + 1:] and len(s) == rank for s in others)
        return fits and [x[:axis] + (x[axis] + sum(s[axis] for s in others),) + x[axis + 1:]]
    if op == "split":
        fits = fits and rank > 0 and sum(a["sizes"]) == x[axis] and min(a["sizes"]) >= 1
        return fits and [x[:axis] + (n,) + x[axis + 1:] for n in a["sizes"]]
    if op == "slice":
        steps = a["steps"] or (1,) * rank
        fits = len(a["starts"]) == len(a["stops"]) == len(steps) == rank and all(
            0 <= b <= e <= n and s >= 1 for b, e, s, n in zip(a["starts"], a["stops"], steps, x))
        return fits and [tuple(-(-(e - b) // s) for b, e, s in zip(a["starts"], a["stops"], steps))]
    if op == "transpose": return sorted(a["perm"]) == list(range(rank)) and [tuple(x[i] for i in a["perm"])]
    if op == "reshape": return math.prod(a["shape"]) == math.prod(x) and min((0, *a["shape"])) >= 0 and [a["shape"]]
    if op == "expand": return broadcast(op, x, a["shape"]) == a["shape"] and [a["shape"]]
    if op == "gather": return fits and rank > 0 and [x[:axis] + others[0] + x[axis + 1:]]
    if op == "pad":
        inner = a["interior"] or (0,) * rank
        sizes = tuple((n - 1) * (i + 1) + 1 + b + e for n, b, e, i in zip(x, a["before"], a["after"], inner))
        return len(a["before"]) == len(a["after"]) == len(inner) == rank and min(sizes, default=0) >= 0 and [sizes]
    return fits and [x]  # functions of each element, norms, softmaxes, reverse

def result_types(op, types, attributes):
    """The types of the results; an application that is ill-formed is refused."""
    dtypes, a = [dtype for dtype, _ in types], dict(attributes)
    alike = {"where": dtypes[1:], "gather": dtypes[1:]}.get(op, dtypes)
    fits = len(types) == COUNTS.get(op, len(types)) and len(set(alike)) == 1 and (
        op != "where" or dtypes[0] == "bool") and (op != "gather" or alike[0] in ("i32", "i64"))
    shapes = fits and shapes_of(op, a, *(shape for _, shape in types))
    if not shapes: refuse(op, f"operands {types} with {a}", "an application that is well-formed")
    dtype = a["to"] if op == "cast" else "bool" if op in COMPARISONS else dtypes[1 if op == "where" else 0]
    return [(dtype, shape) for shape in shapes]

# ---------------------------------------------------------------- known values

ELEMENTWISE = {name: getattr(np, name) for name in "abs ceil cos cosh exp floor log sign sin sinh sqrt tan tanh equal "
               "not_equal less less_equal greater greater_equal logical_not logical_and logical_or logical_xor where "
               "matmul".split()}
ELEMENTWISE.update({name: getattr(np, f"arc{name[1:]}") for name in "acos acosh asin asinh atan atanh".split()})
ELEMENTWISE.update({"add": np.add, "sub": np.subtract, "mul": np.multiply, "pow": np.power, "min": np.minimum,
                    "max": np.maximum, "neg": np.negative, "round": np.rint, "identity": lambda x: x,
                    "reciprocal": lambda x: x.dtype.type(1) / x, "relu": lambda x: np.maximum(x, x.dtype.type(0)),
                    "rsqrt": lambda x: x.dtype.type(1) / np.sqrt(x)})

def divide(x, y):
    """A quotient; of integers, rounded toward zero."""
    return x / y if x.dtype.kind not in "iu" else np.where((x < 0) == (y < 0), abs(x) // abs(y), -(abs(x) // abs(y)))

def moved(op, arrays, a, fill=0):
    """What operators do that move elements; None for other operators."""
    x = arrays[0]
    if op == "reshape": return x.reshape(a["shape"])
    if op == "transpose": return x.transpose(a["perm"])
    if op == "expand": return np.broadcast_to(x, a["shape"])
    if op == "concat": return np.concatenate(arrays, axis=a["axis"])
    if op == "split": return tuple(np.split(x, np.cumsum(a["sizes"])[:-1], axis=a["axis"]))
    if op == "slice":
        steps = a["steps"] or (1,) * x.ndim
        return x[tuple(slice(b, e, s) for b, e, s in zip(a["starts"], a["stops"], steps))]
    if op == "reverse": return np.flip(x, a["axes"])
    if op == "gather": return np.take(x, arrays[1].astype(np.int64) % x.shape[a["axis"]], axis=a["axis"])
    if op == "pad" and not any(a["interior"]) and min(a["before"] + a["after"], default=0) >= 0:
        return np.pad(x, list(zip(a["before"], a["after"])), constant_values=fill)
    return None

def computed(op, arrays, a):
    """The results of an application to arrays, in their own type."""
    result = moved(op, arrays, a, a.get("value", 0))
    if result is not None: return result
    with np.errstate(all="ignore"):
        if op == "div": return divide(*arrays)
        if op in ELEMENTWISE: return np.asarray(ELEMENTWISE[op](*arrays))
        if op == "cast": return arrays[0].astype(numpy_type(a["to"]))
        if op == "clip": return np.clip(arrays[0], a["min"], a["max"]).astype(arrays[0].dtype)
        if op in REDUCTIONS:
            result = getattr(np, op[7:])(arrays[0], axis=a["axes"], keepdims=bool(a["keepdims"]))
            return np.asarray(result).astype(arrays[0].dtype)
    raise Refused(f"a known value is computed by {op}, which is not computed here")

def bounded(op, operands, attributes, dtype):
    """The result in f64, and how far an evaluation in the type may be from it: the running error to all orders.

    Each operand is a pair of arrays, element and error.
    """
    a = dict(attributes)
    u, tiny = UNIT_ROUNDOFF[dtype], SMALLEST[dtype]
    values, errors = [v for v, _ in operands], [e for _, e in operands]
    value = moved(op, values, a, a.get("value", 0))
    if value is not None:
        bounds = moved(op, [errors[0], values[1]] if op == "gather" else errors, a)
        return list(zip(value, bounds)) if op == "split" else (value, bounds)
    with np.errstate(all="ignore"):
        if op in ("neg", "abs", "identity", "relu"): return ELEMENTWISE[op](values[0]), errors[0]
        if op in ("min", "max"): return ELEMENTWISE[op](*values), np.maximum(*np.broadcast_arrays(*errors))
        if op == "cast": return values[0], errors[0] + u * (np.abs(values[0]) + errors[0]) + tiny
        x, e = values[0], errors[0]
        magnitude = np.abs(x)
        if op in ("add", "sub"): value, error = ELEMENTWISE[op](*values), errors[0] + errors[1]
        elif op in ("mul", "matmul"):
            times, count = (np.matmul, x.shape[-1]) if op == "matmul" else (np.multiply, 0)
            value, absolute = times(x, values[1]), np.abs(values[1])
            error = times(magnitude, errors[1] + count * u * absolute) + times(e, absolute + errors[1])
        elif op in ("div", "reciprocal"):
            top, slack, bottom, below = ((x, e, values[1], errors[1]) if op == "div"
                                         else (np.ones_like(x), np.zeros_like(x), x, e))
            value = top / bottom
            room = np.abs(bottom) - below
            error = np.where(room > 0, (slack + np.abs(value) * below) / room, np.inf)
        elif op in ("sqrt", "rsqrt"):
            root = np.sqrt(x)
            slack = np.where(e == 0, 0, e / np.maximum(root + np.sqrt(np.maximum(x - e, 0)), 1e-300))
            value, error = root, slack
            if op == "rsqrt":
                slack = slack + u * root
                value, error = 1 / root, np.where(root > slack, slack / (root * (root - slack)), np.inf)
        elif op in ("reduce_sum", "reduce_mean"):
            count = math.prod(x.shape[axis] for axis in a["axes"])
            value, error, absolute = (np.sum(array, axis=a["axes"], keepdims=bool(a["keepdims"])) / (
                count if op == "reduce_mean" else 1) for array in (x, e, magnitude))
            error = error + (count + 1) * u * absolute
        elif op in ("exp", "tanh", "sigmoid"):
            value = ELEMENTWISE.get(op, lambda v: 1 / (1 + np.exp(-v)))(x)
            error = (value * np.expm1(e) if op == "exp" else e) + 2 * u * np.abs(value)
        else: raise Refused(f"a weight is computed by {op}, whose rounding is not bounded here")
        return value, error + u * (np.abs(value) + error) + tiny

DEFINITIONS = {
    "rsqrt": ("div", 1, ("sqrt", "x")),
    "swish": ("mul", "x", ("sigmoid", "x")),
    "mish": ("mul", "x", ("tanh", ("softplus", "x"))),
    "hard_swish": ("mul", "x", ("div", ("clip", ("add", "x", 3), {"min": 0.0, "max": 6.0}), 6)),
    "gelu": ("mul", ("mul", "x", ("add", ("erf", ("div", "x", math.sqrt(2))), 1)), 0.5),
    "gelu_tanh": ("mul", ("mul", "x", 0.5), ("add", ("tanh", ("mul", ("mul", "x", math.sqrt(2 / math.pi)),
                                                              ("add", ("mul", ("mul", "x", 0.044715), "x"), 1))), 1)),
}

# ---------------------------------------------------------------- terms
#
# Equal applications are one term. Terms that were shown to be equal are one class, and applications of equal operands
# are equal (congruence closure): a step that replaces a value somewhere replaces it everywhere.

class Terms:
    def __init__(self):
        self.parent, self.key, self.type, self.uses, self.table = [], [], [], [], {}
        self.leaf, self.known = [], []  # by class: the elements of a leaf in it, and a term whose elements are known
        self.values, self.bounds, self.by_form, self.leaf_of_term = {}, {}, {}, {}
        self.nodes = {}  # nodes of files that are not translated, by what stands for them in keys

    def type_of(self, term): return self.type[self.find(term)]

    def find(self, term):
        while self.parent[term] != term:
            self.parent[term] = self.parent[self.parent[term]]
            term = self.parent[term]
        return term

    def _canonical(self, key):
        op, attributes, operands = key
        operands = tuple(self.find(operand) for operand in operands)
        if op in COMMUTATIVE and operands[0] > operands[1]: operands = operands[::-1]
        return op, attributes, operands

    def _new(self, key, types, leaf=None, known=False):
        term = len(self.parent)
        self.parent.append(term)
        self.key.append(key)
        self.type.append(types)
        self.uses.append([])
        self.leaf.append(leaf)
        self.known.append(term if known else None)
        if key is not None:
            self.table[key] = term
            for operand in set(key[2]): self.uses[operand].append(term)
        return term

    def input(self, name, dtype, shape):
        key = ("input", name, ())
        return self.table[key] if key in self.table else self._new(key, (dtype, shape))

    def constant(self, array, dtype):
        """A leaf with these elements. Equal elements are one leaf."""
        array = np.asarray(array, order="C")
        ends = array.reshape(-1)[:8].tobytes(), array.reshape(-1)[-8:].tobytes()
        same = self.by_form.setdefault((dtype, array.shape, ends), [])
        for term in same:
            found = self.leaf_of_term[term]
            if np.array_equal(*(np.atleast_1d(a).view(f"u{a.itemsize}") for a in (found, array))): return term
        term = self._new(None, (dtype, tuple(array.shape)), array, True)
        self.leaf_of_term[term] = array
        same.append(term)
        return term

    def number(self, value, dtype, shape=()):
        kind = numpy_type(dtype)
        return self.constant(np.full(shape, value, kind) if shape else np.array(value, kind), dtype)

    def lookup(self, op, operands, given):
        """The application; None if there is none."""
        first = self.type_of(operands[0]) if operands else None
        attributes = canonical_attributes(op, given, len(first[1]) if isinstance(first, tuple) else 0)
        return self.table.get(self._canonical((op, attributes, tuple(operands))))

    def apply(self, op, operands, given=None):
        """The application: one term for all of its results."""
        types = [self.type_of(operand) for operand in operands]
        if not all(isinstance(kind, tuple) for kind in types): refuse(op, "an operand of no known type", "one value")
        if op not in OPERATORS: refuse("an operator", op, "one that is known here")
        attributes = canonical_attributes(op, given or {}, len(types[0][1]) if types else 0)
        key = self._canonical((op, attributes, tuple(operands)))
        if key in self.table: return self.table[key]
        results = result_types(op, types, attributes)
        known = all(map(self.is_known, operands))
        term = self._new(key, results[0] if op != "split" else results, None, known)
        self._define(term, op, operands)
        if known and op in MOVES and op != "split" and math.prod(results[0][1]) <= 4096 and all(
                self.leaf[self.find(operand)] is not None for operand in operands):
            self.union(term, self.constant(self.elements(term), results[0][0]))
        return term

    def result(self, application, number):
        types = self.type_of(application)
        count = len(types) if isinstance(types, list) else 1
        if not 0 <= number < count: refuse("a result", f"number {number}", f"one of {count}")
        if not isinstance(types, list): return application
        key = self._canonical(("result", number, (application,)))
        return self.table[key] if key in self.table else self._new(key, types[number], None, self.is_known(application))

    def opaque(self, name, operands, types, node):
        """A node of a file that is not translated: a function of its operands of which nothing else is known."""
        key = self._canonical((("onnx", *name), (), tuple(operands)))
        if key in self.table: return self.table[key]
        self.nodes[key[0]] = node
        known = bool(operands) and name[1] not in RANDOM and all(map(self.is_known, operands))
        return self._new(key, types, None, known)

    def _define(self, term, op, operands):
        """Operators that ONNX has no form of in all versions are equal to what they stand for."""
        dtype = self.type_of(operands[0])[0]
        if op not in DEFINITIONS or dtype not in FLOATING: return

        def build(form):
            if isinstance(form, (int, float)): return self.number(form, dtype)
            if form == "x": return operands[0]
            return self.apply(form[0], [build(part) for part in form[1:] if not isinstance(part, dict)],
                              form[-1] if isinstance(form[-1], dict) else {})

        self.union(term, build(DEFINITIONS[op]))

    def union(self, a, b):
        """Makes two classes one, with all that follows."""
        pending = [(a, b)]
        while pending:
            a, b = (self.find(term) for term in pending.pop())
            if a == b: continue
            if self.type[a] != self.type[b]:
                refuse("two values that are said to be equal", f"types {self.type[a]} and {self.type[b]}", "one type")
            if len(self.uses[a]) < len(self.uses[b]): a, b = b, a
            if self.leaf[a] is not None is not self.leaf[b]: refuse("two weights", "other elements", "the same ones")
            self.parent[b] = a
            self.leaf[a] = self.leaf[b] if self.leaf[a] is None else self.leaf[a]
            self.known[a] = self.known[b] if self.known[a] is None else self.known[a]
            for use in self.uses[b]:
                self.key[use] = self._canonical(self.key[use])
                found = self.table.setdefault(self.key[use], use)
                if self.find(found) != self.find(use): pending.append((found, use))
                self.uses[a].append(use)

    def is_known(self, term): return self.known[self.find(term)] is not None

    def elements(self, term):
        """The elements of a known value, computed in its own type."""
        root = self.find(term)
        if root in self.values: return self.values[root]
        if self.leaf[root] is not None: return self.leaf[root]
        if self.known[root] is None: refuse("a value", "one that depends on an input", "one that is known")
        op, attributes, operands = self.key[self.known[root]]
        if op == "result": value = self.elements(operands[0])[attributes]
        elif isinstance(op, tuple): value = self._run(op, operands)
        else: value = computed(op, [self.elements(operand) for operand in operands], dict(attributes))
        self.values[root] = value
        return value

    def _run(self, op, operands):
        """Computes a node of a file by the reference that comes with the package onnx."""
        node, version = self.nodes[op]
        names = [f"x{i}" for i in range(len(operands))]
        copy, places = onnx.NodeProto(), iter(names)
        copy.CopyFrom(node)
        copy.input[:] = [next(places) if name else "" for name in node.input]
        info = onnx.helper.make_empty_tensor_value_info
        graph = onnx.helper.make_graph([copy], "node", [info(x) for x in names], [info(y) for y in copy.output if y])
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", version)])
        try:
            results = reference.ReferenceEvaluator(model).run(None, dict(zip(names, map(self.elements, operands))))
        except Exception as error:  # noqa: BLE001: whatever the reference raises
            raise Refused(f"a known value is computed by {node.op_type}, which the reference cannot run: {error}")
        return results[0] if len(results) == 1 else tuple(results)

    def bound(self, term):
        """A known value in f64, and the bound of its rounding in its own type."""
        root = self.find(term)
        if root in self.bounds: return self.bounds[root]
        if self.leaf[root] is not None:
            value = self.leaf[root].astype(np.float64)
            result = value, np.zeros_like(value)
        else:
            op, attributes, operands = self.key[self.known[root]]
            types = self.type[root]
            dtype = (types[0] if isinstance(types, list) else types)[0]
            if isinstance(op, tuple) or dtype not in FLOATING:
                refuse("a weight", f"one of {dtype} that {op} computes", "operators whose rounding is bounded here")
            result = self.bound(operands[0])[attributes] if op == "result" else bounded(
                op, [self.bound(operand) for operand in operands], attributes, dtype)
        self.bounds[root] = result
        return result

    def uniform(self, term):
        """The number that all elements are; None if there is none."""
        if not self.is_known(term): return None
        array = np.asarray(self.elements(term)).reshape(-1)
        return array[0] if array.size and (array == array[0]).all() else None

# ---------------------------------------------------------------- models

FUNCTIONS = {name.capitalize(): name for name in "abs acos acosh asin asinh atan atanh ceil cos cosh erf exp floor log "
             "mish neg reciprocal relu round sigmoid sign sin sinh softplus sqrt tan tanh".split()}
FUNCTIONS.update({"Not": "logical_not", "HardSwish": "hard_swish"})
BINARIES = {"Add": "add", "Sub": "sub", "Mul": "mul", "Div": "div", "Equal": "equal", "Less": "less",
            "LessOrEqual": "less_equal", "And": "logical_and", "Or": "logical_or", "Xor": "logical_xor"}
RANDOM = {"Dropout", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli",
          "Multinomial"}

class Skip(Exception):
    """The node is not translated, and stays a function of which nothing is known."""

class Node:
    """A node of a file with its operands as terms: what the functions below translate."""

    def __init__(self, reader, proto, operands):
        self.terms, self.proto, self.operands, self.opset = reader.terms, proto, operands, reader.opset
        self.attributes = {a.name: onnx.helper.get_attribute_value(a) for a in proto.attribute}

    def __call__(self, op, operands, **attributes): return self.terms.apply(op, operands, attributes)

    def get(self, name, default=None):
        value = self.attributes.get(name, default)
        if value is None: raise Skip
        value = value.decode() if isinstance(value, bytes) else value
        return value if isinstance(value, (int, float, str)) else list(value)

    def type(self, term):
        kind = self.terms.type_of(term)
        if kind is None or isinstance(kind, list): raise Skip
        return kind

    def shape(self, term): return self.type(term)[1]
    def dtype(self, term): return self.type(term)[0]
    def has(self, i): return i < len(self.operands) and self.operands[i] is not None
    def number(self, value, like): return self.terms.number(value, self.dtype(like))

    def floating(self, term):
        if self.dtype(term) in FLOATING: return term
        raise Skip

    def ints(self, i):
        if not self.terms.is_known(self.operands[i]): raise Skip
        return [int(v) for v in np.asarray(self.terms.elements(self.operands[i])).reshape(-1)]

    def reshape(self, x, shape): return x if self.shape(x) == tuple(shape) else self("reshape", [x], shape=list(shape))
    def expand(self, x, shape): return x if self.shape(x) == tuple(shape) else self("expand", [x], shape=list(shape))
    def transpose(self, x, perm): return x if list(perm) == sorted(perm) else self("transpose", [x], perm=list(perm))

    def matrix(self, x, axis):
        """All axes before one joined, and all from it on."""
        return self.reshape(x, [math.prod(self.shape(x)[:axis]), math.prod(self.shape(x)[axis:])])

    def axis(self, value, rank, end=False):
        if not -rank <= value < rank + end: raise Refused(f"found axis {value}, expected one of {rank}")
        return value + rank if value < 0 else value

    def axes(self, since, rank):
        """Axes are an input from an opset on, an attribute before; None if there are none."""
        given = (self.ints(1) if self.has(1) else None) if self.opset >= since else self.attributes.get("axes")
        return None if given is None else [self.axis(axis, rank) for axis in given]

def windows(n, shape, kernel):
    """Strides, pads and dilations over two axes; a single axis counts as the second one."""
    count = len(kernel)
    strides, dilations = n.get("strides", [1] * count), n.get("dilations", [1] * count)
    pads, auto = n.get("pads", [0] * 2 * count), n.get("auto_pad", "NOTSET")
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        pads = [0] * 2 * count
        for i in range(count):
            size, reach = shape[2 + i], (kernel[i] - 1) * dilations[i] + 1
            total = max(0, (-(-size // strides[i]) - 1) * strides[i] + reach - size)
            pads[i] = total // 2 if auto == "SAME_UPPER" else total - total // 2
            pads[count + i] = total - pads[i]
    elif auto == "VALID": pads = [0] * 2 * count
    if count == 1: return [1, *kernel], [1, *strides], [0, pads[0], 0, pads[1]], [1, *dilations]
    if count != 2: raise Skip
    return list(kernel), strides, pads, dilations

def images(n, x, rank):
    """A line counts as an image of one row, and back."""
    shape = n.shape(x)
    if rank == 4: return x
    return n.reshape(x, [*shape[:2], 1, shape[2]] if len(shape) == 3 else [*shape[:2], shape[3]])

def read_conv(n):
    x, w = n.operands[:2]
    rank, kernel = len(n.shape(x)), list(n.shape(w)[2:])
    if rank not in (3, 4) or len(n.shape(w)) != rank: raise Skip
    if n.get("kernel_shape", kernel) != kernel:
        refuse(f"Conv {n.proto.name}", f"kernel_shape {n.get('kernel_shape', kernel)}", str(kernel))
    _, strides, pads, dilations = windows(n, n.shape(x), kernel)
    y = images(n, n("conv2d", [images(n, x, rank), images(n, w, rank)], strides=strides, pads=pads,
                    dilations=dilations, groups=n.get("group", 1)), rank)
    return [n("add", [y, n.reshape(n.operands[2], [1, n.shape(y)[1]] + [1] * (rank - 2))]) if n.has(2) else y]

def read_pool(n):
    average = n.proto.op_type == "AveragePool"
    x, rank = n.floating(n.operands[0]), len(n.shape(n.operands[0]))
    kernel, strides, pads, dilations = windows(n, n.shape(x), n.get("kernel_shape"))
    if any(n.proto.output[1:]) or average and set(dilations) != {1}: raise Skip
    more = {"count_include_pad": n.get("count_include_pad", 0)} if average else {"dilations": dilations}
    return [images(n, n("avg_pool2d" if average else "max_pool2d", [images(n, x, rank)], kernel=kernel, pads=pads,
                        strides=strides, ceil_mode=n.get("ceil_mode", 0), **more), rank)]

def read_matmul(n):
    a, b = n.operands
    rank_a, rank_b = len(n.shape(a)), len(n.shape(b))
    if rank_a == 0 or rank_b == 0: raise Skip
    a = n.reshape(a, [1, *n.shape(a)]) if rank_a == 1 else a
    y = n("matmul", [a, n.reshape(b, [*n.shape(b), 1]) if rank_b == 1 else b])
    shape = n.shape(y)
    return [n.reshape(y, shape[:-2] + shape[-2:][rank_a == 1:2 - (rank_b == 1)])]

def scaled(n, x, factor): return x if factor == 1 else n("mul", [x, n.number(factor, x)])

def read_gemm(n):
    a, b = (n.transpose(x, [1, 0]) if n.get(turned, 0) else x for x, turned in zip(n.operands, ("transA", "transB")))
    y, beta = scaled(n, n("matmul", [a, b]), n.get("alpha", 1.0)), n.get("beta", 1.0)
    return [n("add", [y, scaled(n, n.operands[2], beta)]) if n.has(2) and beta != 0 else y]

def epsilon_of(n): return n.get("epsilon", float(np.float32(1e-5)))

def read_batch_norm(n):
    if n.get("training_mode", 0) or not n.get("spatial", 1) or len({n.dtype(o) for o in n.operands}) > 1: raise Skip
    return [n("batch_norm", n.operands, epsilon=epsilon_of(n))]

def read_layer_norm(n):
    x = n.operands[0]
    if n.get("stash_type", 1) != 1 or any(n.proto.output[1:]): raise Skip
    axis = n.axis(n.get("axis", -1), len(n.shape(x)))
    inner = n.shape(x)[axis:]

    def parameter(value):
        shape = n.shape(value)
        while len(shape) > len(inner) and shape[0] == 1: shape = shape[1:]
        return n.expand(n.reshape(value, shape), inner)

    bias = n.operands[2] if n.has(2) else n.number(0, x)
    return [n("layer_norm", [x, parameter(n.operands[1]), parameter(bias)], axis=axis, epsilon=epsilon_of(n))]

def read_instance_norm(n):
    x, shape = n.operands[0], n.shape(n.operands[0])
    scale, bias = (n.reshape(o, [1, shape[1]] + [1] * (len(shape) - 2)) for o in n.operands[1:])
    over = {"axes": list(range(2, len(shape))), "keepdims": 1}
    centered = n("sub", [x, n("reduce_mean", [x], **over)])
    variance = n("add", [n("reduce_mean", [n("mul", [centered, centered])], **over), n.number(epsilon_of(n), x)])
    return [n("add", [n("mul", [n("div", [centered, n("sqrt", [variance])]), scale]), bias])]

def read_softmax(n):
    """Before opset 13 all axes from one on were joined."""
    op = {"Softmax": "softmax", "LogSoftmax": "log_softmax"}[n.proto.op_type]
    x, shape = n.operands[0], n.shape(n.operands[0])
    rank, old = len(shape), n.opset < 13
    axis = n.axis(n.get("axis", 1 if old else -1), rank, end=old)
    wide = [i for i in range(axis, rank) if shape[i] != 1]
    if not old: return [n(op, [x], axis=axis)]
    if axis < rank and len(wide) <= 1: return [n(op, [x], axis=wide[0] if wide else rank - 1)]
    return [n.reshape(n(op, [n.matrix(x, axis)], axis=1), shape)]

def read_reduce(n):
    x, since = n.operands[0], 13 if n.proto.op_type == "ReduceSum" else 18
    axes = n.axes(since, len(n.shape(x)))
    if n.dtype(x) == "bool": raise Skip
    if not axes and n.opset >= since and n.get("noop_with_empty_axes", 0): return [x]
    axes = axes or list(range(len(n.shape(x))))
    return [n("reduce_" + n.proto.op_type[6:].lower(), [x], axes=axes, keepdims=n.get("keepdims", 1)) if axes else x]

def read_reshape(n):
    x, shape = n.operands[0], n.ints(1)
    if not n.get("allowzero", 0): shape = [n.shape(x)[i] if size == 0 else size for i, size in enumerate(shape)]
    if shape.count(-1) > 1 or min(shape, default=0) < -1 or -1 in shape and 0 in shape: raise Skip
    return [n.reshape(x, [math.prod(n.shape(x)) // -math.prod(shape) if size == -1 else size for size in shape])]

def read_squeeze(n):
    x, shape = n.operands[0], n.shape(n.operands[0])
    given = n.axes(13, len(shape))
    axes = [i for i, size in enumerate(shape) if size == 1] if given is None else given
    if any(shape[axis] != 1 for axis in axes): raise Skip
    return [n.reshape(x, [size for i, size in enumerate(shape) if i not in axes])]

def read_unsqueeze(n):
    x, shape = n.operands[0], n.shape(n.operands[0])
    count = len(n.ints(1)) if n.opset >= 13 else len(n.get("axes"))
    axes, rest = n.axes(13, len(shape) + count), iter(shape)
    if len(set(axes)) != count: raise Skip
    return [n.reshape(x, [1 if i in axes else next(rest) for i in range(len(shape) + count)])]

def read_concat(n):
    rank = len(n.shape(n.operands[0]))
    axis = n.axis(n.get("axis"), rank)
    parts = [o for o in n.operands if len(n.shape(o)) != rank or n.shape(o)[axis] != 0]
    return [n("concat", parts, axis=axis) if len(parts) > 1 else (parts or n.operands)[0]]

def read_split(n):
    x, shape = n.operands[0], n.shape(n.operands[0])
    axis, count = n.axis(n.get("axis", 0), len(shape)), len(n.proto.output)
    if n.opset >= 13 and n.has(1): sizes = n.ints(1)
    elif n.opset < 13 and "split" in n.attributes: sizes = n.get("split")
    else:
        part = -(-shape[axis] // count)
        if n.opset < 18 and shape[axis] % count: raise Skip
        sizes = [part] * (count - 1) + [shape[axis] - part * (count - 1)]
    if len(sizes) != count or min(sizes) < 1 or n.get("num_outputs", count) != count: raise Skip
    if count == 1: return [x]
    application = n("split", [x], axis=axis, sizes=sizes)
    return [n.terms.result(application, i) for i in range(count)]

def read_slice(n):
    x, shape = n.operands[0], n.shape(n.operands[0])
    if n.opset < 10:
        begins, ends = n.get("starts"), n.get("ends")
        axes, steps = n.get("axes", list(range(len(begins)))), [1] * len(begins)
    else:
        begins, ends = n.ints(1), n.ints(2)
        axes = n.ints(3) if n.has(3) else list(range(len(begins)))
        steps = n.ints(4) if n.has(4) else [1] * len(begins)
    starts, stops, strides = [0] * len(shape), list(shape), [1] * len(shape)
    for begin, end, axis, step in zip(begins, ends, axes, steps):
        if step < 1: raise Skip
        axis = n.axis(axis, len(shape))
        size = shape[axis]
        starts[axis] = min(max(begin + size if begin < 0 else begin, 0), size)
        stops[axis] = min(max(end + size if end < 0 else end, starts[axis]), size)
        strides[axis] = step
    if starts == [0] * len(shape) and stops == list(shape) and max(strides, default=1) == 1: return [x]
    return [n("slice", [x], starts=starts, stops=stops, steps=strides if max(strides, default=1) > 1 else [])]

def read_pad(n):
    x, rank = n.floating(n.operands[0]), len(n.shape(n.operands[0]))
    if n.opset < 11 or n.get("mode", "constant") != "constant" or n.has(3): raise Skip
    pads, value = n.ints(1), n.terms.uniform(n.operands[2]) if n.has(2) else 0.0
    if len(pads) != 2 * rank or min(pads) < 0 or value is None: raise Skip
    return [n("pad", [x], before=pads[:rank], after=pads[rank:], value=float(value)) if any(pads) else x]

def read_cast(n):
    x, to = n.operands[0], OURS_OF.get(n.get("to"))
    if to is None or set(n.attributes) != {"to"}: raise Skip
    return [x if n.dtype(x) == to else n("cast", [x], to=to)]

def read_clip(n):
    x = n.floating(n.operands[0])
    if n.opset < 11: low, high = n.attributes.get("min"), n.attributes.get("max")
    else:
        low, high = (n.terms.uniform(n.operands[i]) if n.has(i) else None for i in (1, 2))
        if n.has(1) and low is None or n.has(2) and high is None: raise Skip
    if None not in (low, high) and low <= high: return [n("clip", [x], min=float(low), max=float(high))]
    if low == 0 and high is None: return [n("relu", [x])]
    x = n("max", [x, n.number(low, x)]) if low is not None else x
    return [n("min", [x, n.number(high, x)]) if high is not None else x]

def read_pow(n):
    x, exponent = n.floating(n.operands[0]), n.operands[1]
    if n.dtype(exponent) != n.dtype(x):
        number = n.terms.uniform(exponent)
        if number is None or n.shape(exponent) != () or np.asarray(number, numpy_type(n.dtype(x))) != number: raise Skip
        exponent = n("cast", [exponent], to=n.dtype(x))
    return [n("pow", [x, exponent])]

def read_dropout(n):
    if (n.has(2) and n.terms.uniform(n.operands[2]) != 0) or any(n.proto.output[1:]): raise Skip
    return [n.operands[0]]

def read_constant(n):
    value, name = n.attributes.get("value"), next(iter(n.attributes))
    if value is not None: return [n.terms.constant(numpy_helper.to_array(value), dtype_of(value.data_type))]
    if name not in ("value_float", "value_floats", "value_int", "value_ints"): raise Skip
    dtype = "f32" if "float" in name else "i64"
    return [n.terms.constant(np.array(n.get(name), numpy_type(dtype)), dtype)]

def read_constant_of_shape(n):
    shape, value = n.ints(0), n.attributes.get("value")
    if math.prod(shape) > MOST_ELEMENTS: raise Skip
    array, dtype = (np.zeros(1), "f32") if value is None else (numpy_helper.to_array(value), dtype_of(value.data_type))
    return [n.terms.number(array.reshape(-1)[0], dtype, tuple(shape))]

def read_shape(n):
    shape = n.shape(n.operands[0])
    return [n.terms.constant(np.array(shape[n.get("start", 0):n.get("end", len(shape))], np.int64), "i64")]

def read_hard_sigmoid(n):
    x, beta = n.floating(n.operands[0]), n.number(n.get("beta", 0.5), n.operands[0])
    alpha = n.get("alpha", float(np.float32(0.2)))
    sixth = alpha == float(np.float32(1) / np.float32(6))
    y = n("div", [x, n.number(6, x)]) if sixth else n("mul", [x, n.number(alpha, x)])
    return [n("clip", [n("add", [y, beta])], min=0.0, max=1.0)]

def rank_of(n): return len(n.shape(n.operands[0]))
def inner_axes(n): return {"axes": list(range(2, rank_of(n))), "keepdims": 1}
def left_to_right(op): return lambda n: [functools.reduce(lambda a, b: n(op, [a, b]), n.operands)]

READERS = {
    "Conv": read_conv, "MaxPool": read_pool, "AveragePool": read_pool, "MatMul": read_matmul, "Gemm": read_gemm,
    "BatchNormalization": read_batch_norm, "LayerNormalization": read_layer_norm, "Softmax": read_softmax,
    "LogSoftmax": read_softmax, "InstanceNormalization": read_instance_norm, "Reshape": read_reshape,
    "Squeeze": read_squeeze, "Unsqueeze": read_unsqueeze, "Concat": read_concat, "Split": read_split,
    "Slice": read_slice, "Pad": read_pad, "Cast": read_cast, "Clip": read_clip, "Pow": read_pow,
    "Dropout": read_dropout, "Constant": read_constant, "ConstantOfShape": read_constant_of_shape, "Shape": read_shape,
    "HardSigmoid": read_hard_sigmoid, "Min": left_to_right("min"), "Max": left_to_right("max"),
    "Sum": left_to_right("add"),
    "Identity": lambda n: [n.operands[0]],
    "Gelu": lambda n: [n("gelu" if n.get("approximate", "none") == "none" else "gelu_tanh", n.operands)],
    "GlobalAveragePool": lambda n: [n("reduce_mean", n.operands, **inner_axes(n))],
    "GlobalMaxPool": lambda n: [n("reduce_max", n.operands, **inner_axes(n))],
    "Transpose": lambda n: [n.transpose(n.operands[0], n.get("perm", list(range(rank_of(n)))[::-1]))],
    "Expand": lambda n: [n.expand(n.operands[0], broadcast("Expand", n.shape(n.operands[0]), n.ints(1)))],
    "Gather": lambda n: [n("gather", n.operands, axis=n.axis(n.get("axis", 0), rank_of(n)))],
    "Flatten": lambda n: [n.matrix(n.operands[0], n.axis(n.get("axis", 1), rank_of(n), end=True))],
    "Greater": lambda n: [n("less", n.operands[::-1])],
    "GreaterOrEqual": lambda n: [n("less_equal", n.operands[::-1])],
    "Where": lambda n: [n("where", n.operands)],
    "LeakyRelu": lambda n: [n("leaky_relu", n.operands, alpha=n.get("alpha", float(np.float32(0.01))))],
    "Elu": lambda n: [n("elu", n.operands, alpha=n.get("alpha", 1.0))],
    **{f"Reduce{kind}": read_reduce for kind in ("Sum", "Mean", "Max", "Min", "Prod")},
    **{name: (lambda op: lambda n: [n(op, n.operands)])(op) for name, op in {**FUNCTIONS, **BINARIES}.items()},
}

def dtype_of(number):
    if number in OURS_OF: return OURS_OF[number]
    raise Unreadable(f"elements of type {onnx.TensorProto.DataType.Name(number)}, which are not known here")

class Reader:
    """Reads a model into terms. `tensors` has a term for the name of each tensor."""

    def __init__(self, model, terms, sizes, where):
        self.model, self.terms, self.where, self.sizes = model, terms, where, sizes
        self.imports = {o.domain if o.domain != "ai.onnx" else "": o.version for o in model.opset_import}
        self.opset, graph = self.imports.get("", 0), model.graph
        self.tensors, self.inputs = {}, []
        if self.opset < 7: refuse(where, f"opset {self.opset}", "7 or later")
        if model.functions or graph.sparse_initializer:
            refuse(where, "functions of the file's own, or sparse initializers", "operators of ONNX and tensors")
        for proto in graph.initializer:
            self.define(proto.name, terms.constant(numpy_helper.to_array(proto), dtype_of(proto.data_type)))
        for info in graph.input:
            kind = (dtype_of(info.type.tensor_type.elem_type), self.shape_of(info))
            if info.name in self.tensors and model.ir_version < 4: continue  # an initializer
            self.define(info.name, terms.input(info.name, *kind))
            self.inputs.append((info.name, *kind))
        for proto in graph.node: self.read(proto)
        self.outputs = [info.name for info in graph.output]
        missing = set(self.outputs) - set(self.tensors)
        if missing: refuse(f"{where}: output {min(missing)}", "nothing that gives it", "a tensor")

    def define(self, name, term):
        if name in self.tensors: refuse(f"{self.where}: tensor {name}", "two that give it", "one")
        self.tensors[name] = term

    def shape_of(self, info):
        if not info.type.HasField("tensor_type") or not info.type.tensor_type.HasField("shape"):
            refuse(f"{self.where}: input {info.name}", "no shape", "one")
        shape = []
        for axis, dim in enumerate(info.type.tensor_type.shape.dim):
            name = dim.dim_param or f"{info.name}:{axis}"
            shape.append(dim.dim_value if dim.HasField("dim_value") else self.sizes.get(name))
            if shape[-1] is None: refuse(f"{self.where}: input {info.name}", f"the size {name}", "one that is given")
        return tuple(shape)

    def read(self, proto):
        place = f"{self.where}: node {proto.name or ','.join(proto.output)} ({proto.op_type})"
        operands = []
        for name in proto.input:
            if name and name not in self.tensors:
                refuse(place, f"the operand {name}, which nothing gives before it", "a tensor")
            operands.append(self.tensors[name] if name else None)
        reader = READERS.get(proto.op_type) if proto.domain in ("", "ai.onnx") else None
        results = None
        if reader is not None:
            schema = onnx.defs.get_schema(proto.op_type, self.opset)
            unknown = {a.name for a in proto.attribute} - set(schema.attributes)
            if unknown: refuse(place, f"the attribute {min(unknown)}", "one that the operator has")
            try:
                results = reader(Node(self, proto, operands))
            except Skip:
                pass
            except Refused as why:
                raise Refused(f"{place}: {why}") from None
        if results is None: results = self.untranslated(proto, operands, place)
        for name, term in zip(proto.output, results):
            if name: self.define(name, term)

    def untranslated(self, proto, operands, place):
        """A function of its operands, named by operator, version and attributes."""
        if any(a.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS) for a in proto.attribute):
            refuse(place, "a node that holds a graph", "nodes without")
        domain = "" if proto.domain == "ai.onnx" else proto.domain
        version = self.imports.get(domain, 0)
        schema = onnx.defs.get_schema(proto.op_type, version, domain) if onnx.defs.has(
            proto.op_type, version, domain) else None
        attributes = tuple(sorted(a.SerializeToString(deterministic=True) for a in proto.attribute))
        name = (domain, proto.op_type, schema.since_version if schema else version, attributes,
                tuple(operand is not None for operand in operands), tuple(bool(name) for name in proto.output))
        if proto.op_type in RANDOM or schema is None and domain == "":
            name += (self.where, proto.output[0])  # nothing else gives the same
        present, types = [o for o in operands if o is not None], self.infer(schema, proto, operands)
        term = self.terms.opaque(name, present, types if len(types) > 1 else types[0], (proto, self.opset))
        return [self.terms.result(term, i) for i in range(len(types))]

    def infer(self, schema, proto, operands):
        """The types of the results, by the package onnx; None for those that are not known."""
        types, data, found = {}, {}, {}
        for name, operand in zip(proto.input, operands):
            kind = None if operand is None else self.terms.type_of(operand)
            if not isinstance(kind, tuple): continue
            types[name] = onnx.helper.make_tensor_type_proto(ONNX_OF[kind[0]], kind[1])
            if kind[0] in ("i64", "i32") and math.prod(kind[1]) <= 64 and self.terms.is_known(operand):
                data[name] = numpy_helper.from_array(np.asarray(self.terms.elements(operand)), name)
        if schema is not None and all(name in types for name in proto.input if name):
            try:
                found = shape_inference.infer_node_outputs(schema, proto, types, data, None, self.model.opset_import,
                                                           self.model.ir_version)
            except (shape_inference.InferenceError, RuntimeError):
                pass
        return [self.inferred(found.get(name)) for name in proto.output]

    @staticmethod
    def inferred(kind):
        if kind is None or not kind.HasField("tensor_type") or not kind.tensor_type.HasField("shape"): return None
        dims = kind.tensor_type.shape.dim
        if kind.tensor_type.elem_type not in OURS_OF or any(not dim.HasField("dim_value") for dim in dims): return None
        return OURS_OF[kind.tensor_type.elem_type], tuple(dim.dim_value for dim in dims)

# ---------------------------------------------------------------- laws
#
# The text of rules (docs/rules.md) as nested tuples. Tensors: ("apply", operator, operands, attributes, bundle),
# ("name", name, type, shape), ("number", expression, type, shape), ("matrix", rows), ("pick", term, output or "all").
# Expressions: numbers, ("name", ..), ("attribute", ..), ("list", ..), ("splice", ..), ("call", name, ..),
# ("item", list, index), (operator, a, b). Python's own parser reads the text, once its tokens are exchanged: `?a` for
# Q_a, `x: bool[n]` for x >> bool[n], `[~ n]` for [STRETCH, n], `s..` for s @ ALL, `s.1` for s.out1, `div` for //.

TOKEN = re.compile(r"\s*(?:#[^\n]*\n\s*)*(?:(\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)|(\??[A-Za-z_]\w*)|(\"[^\"]*\")|"
                   r"(=>|\.\.|==|!=|<=|>=|[-()\[\]{},:~.=+*/<>]))")
LIMITS = ("max_rank", "max_perm_rank", "max_broadcast_rank")
CERTIFICATE = re.compile(r"^domain (.*)\nclass (.*)$(?:\n.*)*?\nlaw\n  rule (.*)((?:\n   .*)*)", re.MULTILINE)
HEAD = re.compile(r"^rule[ \t]+(\S+)[ \t]*$", re.MULTILINE)
EXCHANGED = {":": ">>", "~": "STRETCH,", "..": "@ALL", "div": "//", "mod": "%"}
SIGNS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "div", ast.Mod: "mod", ast.Eq: "==",
         ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.And: "and", ast.Or: "or"}

def is_splice(node): return isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult)

def expression(node):
    if isinstance(node, ast.Constant): return node.value
    if isinstance(node, ast.Name): return ("attribute", node.id[2:]) if node.id[:2] == "Q_" else ("name", node.id)
    if isinstance(node, ast.Attribute): return "attribute", f"{node.value.id[2:]}.{node.attr}"
    if isinstance(node, ast.List): return "list", [expression(item) for item in node.elts]
    if isinstance(node, ast.Call): return "call", node.func.id, [expression(item) for item in node.args]
    if isinstance(node, ast.Subscript): return "item", expression(node.value), expression(node.slice)
    if is_splice(node): return "splice", expression(node.left)
    if isinstance(node, ast.UnaryOp):
        return ("not", expression(node.operand)) if isinstance(node.op, ast.Not) else ("-", 0, expression(node.operand))
    if isinstance(node, ast.BoolOp): parts, op = node.values, node.op
    elif isinstance(node, ast.Compare): (op,), parts = node.ops, [node.left, *node.comparators]
    else: parts, op = [node.left, node.right], node.op
    return functools.reduce(lambda a, b: (SIGNS[type(op)], a, b), map(expression, parts))

def term(node):
    if is_splice(node): return "pick", term(node.left), "all"
    if isinstance(node, ast.Attribute): return "pick", term(node.value), int(node.attr[3:])
    dtype = shape = None
    base, kind = (node.left, node.right) if isinstance(node, ast.BinOp) else (node, node)
    if isinstance(kind, ast.Subscript):
        items = kind.slice.elts if isinstance(kind.slice, ast.Tuple) else [kind.slice]
        stretches = bool(items) and isinstance(items[0], ast.Name) and items[0].id == "STRETCH"
        shape = (stretches, [expression(item) for item in items[stretches:]])
        base, kind = (kind.value, kind.value) if base is kind else (base, kind.value)
    if base is not kind: dtype = kind.id.replace("Q_", "?")
    if isinstance(base, ast.List): return "matrix", expression(base)
    if isinstance(base, ast.Call) and base.func.id != "scalar":
        attributes = [(k.arg, expression(k.value)) for k in base.keywords if k.arg != "attrs"]
        bundle = next((k.value.id[2:] for k in base.keywords if k.arg == "attrs"), None)
        return "apply", base.func.id.replace("Q_", "?"), [term(operand) for operand in base.args], attributes, bundle
    if isinstance(base, ast.Name) and not base.id.startswith("Q_"): return "name", base.id, dtype, shape
    value = expression(base.args[0] if isinstance(base, ast.Call) else base)
    return "number", -value[2] if isinstance(base, ast.UnaryOp) else value, dtype, shape

def parsed(tokens):
    text = ""
    for before, token, after in zip(["", *tokens], tokens, [*tokens[1:], ""]):
        if token == "." and after.isdigit(): text += ".out"
        elif token == "[" and after == "]" and re.match(r"[\w)]", before[-1:]): text += "[()"  # the shape of a scalar
        else:
            if token not in ("div", "mod") or re.match(r"[\w)\]]", before[-1:]):  # else the operator div is applied
                token = "Q_" + token[1:] if token.startswith("?") else EXCHANGED.get(token, token)
            text += token if before == "." else f" {token}"
    return ast.parse(text.strip(), mode="eval").body

def side_of(tokens):
    lets = []
    while tokens and tokens[0] == "let":
        end = tokens.index("in")
        lets.append((tokens[1], term(parsed(tokens[3:end]))))
        tokens = tokens[end + 1:]
    body = parsed(tokens)
    return lets, [term(output) for output in (body.elts if isinstance(body, ast.Set) else [body])]

def record_of(text):
    """The record of a proof: `exact max_rank=6 ..`; None if there is none."""
    head, _, rest = text.strip().partition(" ")
    return {"class": head, **{key: value.strip('"') for key, value in re.findall(r'(\w+)=("[^"]*"|\S+)', rest)}}

class Law:
    def __init__(self, name, text, where):
        self.name, self.where = name, where
        law, _, record = re.sub(r"#[^\n]*", "", text).partition("\n  proved ")
        law = re.sub(r"\s+expect \w+", "", law)
        self.record = record_of(record) if record else None
        try:
            tokens, position = [], 0
            while position < len(law.rstrip()):
                match = TOKEN.match(law, position)
                tokens.append(match.group(match.lastindex))
                position = match.end()
            arrow = tokens.index("=>")
            when = tokens.index("when") if "when" in tokens else len(tokens)
            self.left, self.right = side_of(tokens[:arrow]), side_of(tokens[arrow + 1:when])
            self.conditions = [expression(parsed(tokens[when + 1:]))] if when < len(tokens) else []
        except (SyntaxError, ValueError, AttributeError, KeyError, IndexError, TypeError) as error:
            raise Unreadable(f"{where}: rule {name}: found `{' '.join(law.split())[:60]}`, expected a rule ({error})"
                             ) from None
        applied = {e[1] if e[0] == "apply" else "a number" for side in (self.left, self.right)
                   for e in terms_of(side) if e[0] in ("apply", "number", "matrix")}
        self.only_moves = applied <= MOVES
        self.variable_operator = next((op for op in applied if op.startswith("?")), None)
        self.specs = {e[1]: e[3] for e in terms_of(self.left) if e[0] == "name" and e[3] is not None}
        self.siblings = len(self.left[1]) == 1 and self.left[1][0][0] == "pick" and self.left[1][0][2] == "all"

def terms_of(side):
    stack = [term for _, term in side[0]] + list(side[1])
    while stack:
        term = stack.pop()
        yield term
        if term[0] == "pick": stack.append(term[1])
        elif term[0] == "apply": stack.extend(term[2])

def read_laws(paths):
    """The texts of the rules of files by name, each with its file."""
    laws = {}
    for path in paths:
        text = read_text(path)
        heads = list(HEAD.finditer(text))
        if not heads: raise Unreadable(f"{path}: found no rule, expected a file of rules")
        for head, after in zip(heads, [*(h.start() for h in heads[1:]), len(text)]):
            laws[head.group(1)] = (text[head.end():after], str(path))
    return laws

# ---------------------------------------------------------------- steps

class Step:
    """A law with everything that it binds."""

    def __init__(self, terms, law, line, term_of, place):
        self.terms, self.law, self.line, self.place = terms, law, line, place
        self.sizes, self.packs = self.member("sizes", dict), self.member("packs", dict)
        self.attributes = self.member("attributes", dict)
        self.variables = {name: term_of(number) for name, number in self.member("variables", dict).items()}
        self.constants = [term_of(number) for number in self.member("constants", list)]
        self.sibling = self.dtype = None
        self.lets, self.used, self.applications = {}, set(), []
        limits = self.law.record
        self.most_rank, self.most_perm, self.most_stretched = (int(limits.get(name, 0)) for name in LIMITS)
        for value in [size for sizes in (self.sizes.values(), *self.packs.values()) for size in sizes]:
            if type(value) is not int or not 1 <= value <= MOST_SIZE: self.refuse("a size", value, f"1 to {MOST_SIZE}")
        self.operator = line.get("for")
        if (self.law.variable_operator is None) != (self.operator is None):
            self.refuse("operator", self.operator, "one where the law is about any operator, and none elsewhere")
        if self.operator is not None and self.operator not in limits.get("operators", "").split():
            self.refuse("operator", self.operator, "one for which the law is proved")
        self.count = line.get("siblings")
        if self.law.siblings != (self.count is not None) or self.law.siblings and not 1 <= self.count <= MOST_SIBLINGS:
            self.refuse("siblings", self.count, "a number where the law is about siblings")

    def refuse(self, what, found, expected): refuse(f"{self.place}: {what}", found, expected)

    def member(self, name, kind):
        value = self.line.get(name)
        if not isinstance(value, kind): self.refuse(name, json.dumps(value), f"a {kind.__name__}")
        return value

    def look_up(self, name, table):
        """What the proof binds a name to: a list of all siblings' outside of a sibling."""
        if self.law.siblings and name not in table and f"{name}_1" in table:
            if self.sibling is None:
                self.used.update(f"{name}_{i}" for i in range(1, self.count + 1))
                return [table[f"{name}_{i}"] for i in range(1, self.count + 1)]
            name = f"{name}_{self.sibling}"
        if name not in table: self.refuse(name, "nothing", "what it is bound to")
        self.used.add(name)
        return table[name]

    def value(self, e):
        if not isinstance(e, tuple): return e
        kind = e[0]
        if kind == "name":
            if e[1] in ONNX_OF: return e[1]
            return list(self.look_up(e[1], self.packs)) if e[1] in self.packs else self.look_up(e[1], self.sizes)
        if kind == "attribute":
            value = self.look_up(e[1], self.attributes)
            return float(value) if value in ("inf", "-inf", "nan") else value
        if kind == "list": return self.items(e[1])
        if kind == "item": return self.value(e[1])[self.value(e[2])]
        if kind == "call": return self.call(e[1], e[2])
        if kind == "not": return not self.value(e[1])
        if kind in ("and", "or"):
            first = self.value(e[1])
            return self.value(e[2]) if first == (kind == "and") else first
        return self.arithmetic(kind, self.value(e[1]), self.value(e[2]))

    def arithmetic(self, op, a, b):
        if op in ("==", "!="): return (a == b) == (op == "==")
        if isinstance(a, list) or isinstance(b, list):
            count = len(a) if isinstance(a, list) else len(b)
            left, right = (v if isinstance(v, list) else [v] * count for v in (a, b))
            if len(left) != len(right): self.refuse(op, f"lists of {len(left)} and {len(right)}", "equal lengths")
            each = [self.arithmetic(op, x, y) for x, y in zip(left, right)]
            return all(each) if op in ("<", "<=", ">", ">=") else each
        if op in ("div", "mod") and b <= 0 or op == "/" and b == 0: self.refuse(op, f"the divisor {b}", "another one")
        return {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "<": operator.lt,
                "<=": operator.le, ">": operator.gt, ">=": operator.ge, "div": operator.floordiv, "mod": operator.mod,
                "min": min, "max": max}[op](a, b)

    def items(self, items):
        """A list, with the elements of those that are spliced."""
        parts = [self.value(e[1]) if isinstance(e, tuple) and e[0] == "splice" else [self.value(e)] for e in items]
        return [element for part in parts for element in part]

    def shape(self, name): return list(self.terms.type_of(self.tensor(name))[1])

    def tensor(self, e):
        name = e[1]
        return self.lets[name] if name in self.lets else self.look_up(name, self.variables)

    def call(self, name, arguments):
        if name in ("increasing", "odd", "keeps_zero"): return True  # proved of each operator of the record
        if name in ("rank", "shape"):
            shape = self.shape(arguments[0])
            return len(shape) if name == "rank" else shape
        if name == "dim": return self.shape(arguments[0])[self.value(arguments[1])]
        if name in ("weight", "constant", "positive", "finite"):
            if arguments[0][0] == "attribute": return self.value(arguments[0]) > 0
            term = self.tensor(arguments[0])
            if not self.terms.is_known(term): return False
            if name in ("weight", "constant"): return True
            array = np.asarray(self.terms.elements(term))
            return bool(np.isfinite(array).all() and (name == "finite" or (array > 0).all()))
        v = self.items(arguments)
        if name in ("min", "max"): return functools.reduce(lambda a, b: self.arithmetic(name, a, b), v)
        functions = {"len": len, "sum": sum, "prod": math.prod, "iota": lambda n: list(range(n)),
                     "repeat": lambda x, n: [x] * n, "take": lambda x, n: x[:n], "drop": lambda x, n: x[n:],
                     "compose": lambda p, q: [p[i] for i in q], "contains": lambda x, y: y in x,
                     "inverse": lambda p: [p.index(i) for i in range(len(p))],
                     "replace": lambda x, places, y: [y if i in places else old for i, old in enumerate(x)],
                     "count_less": lambda x, y: sum(z < y for z in x)}
        if name not in functions: self.refuse("function", name, "one of the language of rules")
        return functions[name](*v)

    def check_type(self, term, name, dtype):
        kind = self.terms.type_of(term)
        if kind is None or isinstance(kind, list): self.refuse(name, "a value of no known type", "one tensor")
        if any(not 1 <= n <= MOST_SIZE for n in kind[1]): self.refuse(name, f"shape {kind[1]}", "sizes above zero")
        if len(kind[1]) > self.most_rank:
            self.refuse(name, f"{len(kind[1])} axes", f"at most {self.most_rank}, for which it is proved")
        if dtype is not None:
            wanted = self.value(("attribute", dtype[1:])) if dtype.startswith("?") else dtype
            if kind[0] != wanted: self.refuse(name, kind[0], wanted)
            return
        if self.dtype is None: self.dtype = kind[0]
        allowed = kind[0] in ("f32", "f64") or self.law.only_moves or (
            kind[0] in FLOATING and ("halves" in self.law.record or self.law.record["class"] == "exact"))
        if kind[0] != self.dtype or not allowed:
            self.refuse(name, kind[0], f"elements of one type for which the law holds ({self.dtype})")

    def check_shape(self, term, name, spec):
        if spec is None: return
        found, wanted = self.terms.type_of(term)[1], tuple(self.items(spec[1]))
        if spec[0]:
            if len(wanted) > self.most_stretched:
                self.refuse(name, f"{len(wanted)} axes", f"at most {self.most_stretched}")
            tail = wanted[len(wanted) - len(found):] if len(found) <= len(wanted) else None
            if tail is None or any(n not in (1, m) for n, m in zip(found, tail)):
                self.refuse(name, f"shape {found}", f"one that broadcasts to {wanted}")
        elif found != wanted: self.refuse(name, f"shape {found}", f"shape {wanted}")

    def build(self, e, left):
        """The term of one side: on the left one that is there, on the right one that may be new."""
        if e[0] == "pick":
            application = self.build(e[1], left)
            return application if e[2] == "all" else self.terms.result(application, e[2])
        if e[0] == "name":
            term = self.tensor(e)
            if left and e[1] not in self.lets:
                self.check_type(term, e[1], e[2])
                self.check_shape(term, e[1], e[3])
            return term
        if e[0] == "matrix":
            rows = [self.items(row[1]) for row in e[1][1]]
            return self.terms.constant(np.array(rows, numpy_type(self.dtype)), self.dtype)
        if e[0] == "number": return self.constant(e) if left else self.new_constant(e)
        _, op, parts, given, bundle = e
        op = self.operator if op.startswith("?") else op
        operands = [operand for part in parts for operand in self.operands(part, left)]
        attributes = {name: self.value(value) for name, value in given}
        for name in set(ATTRIBUTES.get(op, {}) if bundle is not None else {}) - set(attributes):
            attributes[name] = self.value(("attribute", f"{bundle}.{name}"))
        for name, value in attributes.items() if left else ():
            e = dict(given).get(name, ("attribute", bundle))
            if name == "perm" and len(value) > self.most_perm:
                self.refuse("perm", f"{len(value)} axes", f"at most {self.most_perm}")
            axes = {"axes": value, "axis": [value]}.get(name, [])
            if "'attribute'" in repr(e) and (axes != sorted(set(axes)) or min(axes, default=0) < 0):
                self.refuse(name, value, "axes from the front, in order")
        if not left: return self.terms.apply(op, operands, attributes)
        if op in BINARY or op in ("where", "matmul"): self.check_stretched(op, parts, operands)
        found = self.terms.lookup(op, operands, attributes)
        if found is None:
            refuse(self.place, f"no {op} of these operands with {attributes}", "the left side of the rule")
        kind = self.terms.type_of(found)
        for part, operand in zip(parts, operands):
            if part[0] == "number" and part[3] is None and kind[1] != broadcast(op, *(
                    self.terms.type_of(o)[1] for o in operands if o != operand)):
                refuse(self.place, "a number that changes the shape of the result", "one that leaves it")
        for _, shape in kind if isinstance(kind, list) else [kind]:
            if len(shape) > self.most_rank: self.refuse(op, f"{len(shape)} axes", f"at most {self.most_rank}")
        self.applications.append(found)
        return found

    def operands(self, e, left):
        """What stands for an operand: one value, or those that `..` splices."""
        if e[0] != "pick" or e[2] != "all": return [self.build(e, left)]
        if e[1][0] == "name" and e[1][1] not in self.lets: return self.tensor(e[1])  # of all siblings
        return self.results(self.build(e[1], left))

    def results(self, term):
        kind = self.terms.type_of(term)
        return [self.terms.result(term, i) for i in range(len(kind))] if isinstance(kind, list) else [term]

    def ones(self, e):
        """The axes, counted from the last, that have size one whatever the bindings are; None if the shape is free.

        A law is about sizes as written: an axis that has size one by chance does not stretch."""
        while e[0] == "name" and e[1] in self.let_terms:
            e = self.let_terms[e[1]]
        if e[0] == "pick": return set()
        if e[0] == "number": return {"all"} if e[3] is None else self.ones_of(e[3][1])
        if e[0] == "name":
            if e[1] not in self.law.specs: return None
            stretches, dims = self.law.specs[e[1]]
            return {"all"} if stretches else self.ones_of(dims)
        _, op, parts, given, _ = e
        if op in ("reshape", "expand"):
            return self.ones_of(given[0][1][1]) if given and given[0][1][0] == "list" else set()
        if op in REDUCTIONS:
            rank, given = len(self.terms.type_of(self.build(parts[0], True))[1]), dict(given)
            axes = self.value(given["axes"]) if given.get("keepdims", 1) == 1 else []
            return {rank - axis % rank for axis in axes}
        if op.startswith("?") or op in UNARY | BINARY:
            each = [self.ones(part) for part in parts]
            return None if None in each else each[0] if len(each) == 1 else (
                (each[0] if "all" in each[1] else each[1] if "all" in each[0] else each[0] & each[1]))
        return None if op == "transpose" else set()

    @staticmethod
    def ones_of(dims):
        """Literal ones among the last sizes of a shape."""
        found = set()
        for at, dim in enumerate(reversed(dims), 1):
            if isinstance(dim, tuple) and dim[0] == "splice": break
            if dim == 1: found.add(at)
        return found

    def check_stretched(self, op, parts, operands):
        inner = 2 if op == "matmul" else 0
        shapes = [self.terms.type_of(operand)[1] for operand in operands]
        shapes = [shape[:len(shape) - inner] for shape in shapes]
        whole = broadcast(op, *shapes)
        for part, shape in zip(parts, shapes):
            ones = set() if shape == whole else self.ones(part)
            if shape == whole or ones is not None and "all" in ones: continue
            stretched = {at + inner for at in range(1, len(shape) + 1) if shape[-at] != whole[-at]}
            if ones is None or not stretched <= ones:
                self.refuse(op, f"an operand {shape} that is stretched to {whole}", "a law that says so")

    def constant(self, e):
        """A constant of the left side: the next one that the proof gives."""
        if not self.constants: self.refuse("constants", "none left", "one for each number of the left side")
        term = self.constants.pop(0)
        self.check_type(term, "a constant", e[2])
        self.check_shape(term, "a constant", e[3])
        dtype = self.terms.type_of(term)[0]
        found, wanted = self.terms.uniform(term), self.value(e[1])
        literal = not isinstance(e[1], tuple)  # the nearest number of the type; a bound value is the element itself
        if found is None or (np.array(wanted).astype(numpy_type(dtype)) if literal else wanted) != found:
            self.refuse("a constant", found, f"elements that are all {wanted}")
        return term

    def new_constant(self, e):
        dtype = e[2] or self.dtype
        if dtype is not None and dtype.startswith("?"): dtype = self.value(("attribute", dtype[1:]))
        shape = tuple(self.items(e[3][1])) if e[3] is not None else ()
        if any(size < 1 for size in shape): self.refuse("a constant", f"the shape {shape}", "sizes of at least 1")
        return self.terms.number(self.value(e[1]), dtype or "f32", shape)

    def outputs(self, side, left):
        self.lets, self.let_terms = {}, dict(side[0])
        for name, term in side[0]: self.lets[name] = self.build(term, left)
        results = []
        for self.sibling in range(1, self.count + 1) if left and self.law.siblings else [None]:
            results.extend(self.build(term[1] if self.sibling else term, left) for term in side[1])
        self.sibling = None
        return [value for term in results for value in self.results(term)]

    def replay(self, term_of):
        left = self.outputs(self.law.left, True)
        if self.constants: self.refuse("constants", f"{len(self.constants)} too many", "one for each number")
        for condition in self.law.conditions:
            if self.value(condition) is not True:
                self.refuse(f"conditions of {self.law.name}", "one that does not hold", "all to hold")
        find = self.terms.find
        matched = {find(term_of(number)) for number in self.member("matched", list)}
        if matched != {find(term) for term in self.applications}:
            self.refuse("matched", "other nodes", "those of the left side")
        right = self.outputs(self.law.right, False)
        if len(left) != len(right): refuse(self.place, f"{len(left)} and {len(right)} outputs", "as many on both sides")
        told = {(find(term_of(a)), find(term_of(b))) for a, b in self.member("replaced", list)}
        own = {(find(a), find(b)) for a, b in zip(left, right)}
        if not told <= own or {pair for pair in own if pair[0] != pair[1]} - told:
            self.refuse("replaced", "other values", "the outputs of both sides")
        for name, pack in self.packs.items():  # of a variable whose shape the law leaves open
            if name.startswith("shape(") and name[6:-1] in self.variables and pack == self.shape(("name", name[6:-1])):
                self.used.add(name)
        spare = set().union(self.sizes, self.packs, self.attributes, self.variables) - self.used
        if spare: self.refuse(f"{min(spare)}", "a name that the law does not read", "no other names")
        for a, b in zip(left, right): self.terms.union(a, b)

# ---------------------------------------------------------------- the check

class Checker:
    def __init__(self, original, result, laws, certificates=None, assume_finite=False):
        self.terms = Terms()
        self.original, self.result, self.laws = original, result, laws
        self.certificates, self.assume_finite = certificates, assume_finite
        self.values, self.used, self.steps = {}, {}, 0

    def refuse(self, what, found, expected): refuse(f"{self.place}: {what}", found, expected)

    def term_of(self, number):
        if type(number) is not int or number not in self.values:
            refuse(self.place, f"the value {number}", "one that is described before")
        return self.values[number]

    def check(self, lines, where):
        self.place = f"{where}:1"
        head = lines[0] if lines else {}
        if not isinstance(head, dict) or head.get("proof") != 1:
            raise Unreadable(f"{where}:1: found {json.dumps(head)[:40]}, expected the head of a proof (\"proof\": 1)")
        self.sizes = sizes = head.get("sizes", {})
        self.a = Reader(self.original, self.terms, sizes, "the original")
        weights = []
        for number, line in enumerate(lines[1:], 2):
            self.place = f"{where}:{number}"
            if not isinstance(line, dict) or not line: refuse(self.place, json.dumps(line)[:40], "an object")
            kind = next(iter(line))
            if kind == "value":
                if line["value"] in self.values: refuse(self.place, f"the value {line['value']} again", "a new number")
                self.values[line["value"]] = self.describe(line)
            elif kind == "law": self.take_law(line)
            elif kind == "step":
                law = self.used.get(line["step"])
                if law is None: refuse(self.place, f"the law {line['step']}", "one that a line names before")
                Step(self.terms, law, line, self.term_of, self.place).replay(self.term_of)
                self.steps += 1
            elif kind == "weight": weights.append((self.place, line["weight"], self.term_of(line["is"])))
            else: refuse(self.place, kind, "value, law, step or weight")
        self.b = Reader(self.result, self.terms, sizes, "the result")
        for self.place, name, term in weights: self.fold(name, term)
        self.compare()

    def describe(self, line):
        if "tensor" in line:
            if line["tensor"] not in self.a.tensors:
                refuse(self.place, f"the tensor {line['tensor']}", "one of the original")
            return self.a.tensors[line["tensor"]]
        if "constant" in line:
            if line["constant"] not in ONNX_OF: refuse(self.place, line["constant"], "a type")
            kind, shape = numpy_type(line["constant"]), tuple(line["shape"])
            if math.prod(shape) > MOST_ELEMENTS:
                refuse(self.place, f"a constant of {math.prod(shape)} elements", f"at most {MOST_ELEMENTS}")
            elements = [float(e) if isinstance(e, str) else e for e in line.get("elements", [line.get("every")])]
            if "every" in line: return self.terms.number(elements[0], line["constant"], shape)
            return self.terms.constant(np.array(elements).astype(kind).reshape(shape), line["constant"])
        if "operator" in line:
            return self.terms.apply(line["operator"], [self.term_of(o) for o in line["operands"]], line["attributes"])
        if "output" in line: return self.terms.result(self.term_of(line["of"]), line["output"])
        refuse(self.place, "a value without a description", "tensor, constant, operator or output")

    def take_law(self, line):
        name = line["law"]
        if name not in self.laws: refuse(self.place, f"the law {name}", "one of the list of proved laws")
        text, path = self.laws[name]
        law = Law(name, text, path)
        if law.record is None or not law.record.get("spec"):
            refuse(self.place, f"the law {name}, which is not proved", f"one with a record of its proof in {path}")
        if line.get("record") != law.record["spec"]:
            refuse(self.place, f"the record {line.get('record')} of {name}", f"{law.record['spec']}, as in {path}")
        if law.record["class"] == "finite-only" and not self.assume_finite:
            refuse(self.place, f"{name}, which holds for finite numbers", "other laws (--assume-finite)")
        if self.certificates is not None: self.check_certificate(law)
        self.used[name] = law

    def check_certificate(self, law):
        """The certificate is about the law of the list, its class and its domain."""
        path = pathlib.Path(self.certificates) / f"{law.name}.cert"
        domain, found = " ".join(f"{key}={law.record.get(key)}" for key in LIMITS), CERTIFICATE.search(read_text(path))
        if found is None or found.group(1, 2, 3) != (domain, law.record["class"], law.name):
            refuse(path, found and found.group(1, 2, 3), (domain, law.record["class"], law.name))
        proved = Law(law.name, found.group(4), str(path))
        if (proved.left, proved.right, proved.conditions) != (law.left, law.right, law.conditions):
            refuse(path, "another law", f"that of {law.where}")

    def fold(self, name, term):
        """A weight of the result is a known value: the same elements, or what computing it in its type may give."""
        if name not in self.b.tensors: refuse(self.place, f"the weight {name}", "a tensor of the result")
        weight, terms = self.b.tensors[name], self.terms
        if terms.find(weight) == terms.find(term): return
        array, dtype = terms.leaf[terms.find(weight)], terms.type_of(weight)[0]
        if not terms.is_known(term) or array is None:
            self.refuse(name, "a value that depends on inputs", "a weight that is known")
        shape = terms.type_of(term)[1]
        if array.shape == (math.prod(shape),) != shape:  # a bias that is written as a vector
            vector = terms.apply("reshape", [term], {"shape": list(array.shape)})
            terms.union(terms.apply("reshape", [vector], {"shape": list(shape)}), term)
            term = vector
        if terms.type_of(weight) != terms.type_of(term): self.refuse(name, terms.type_of(weight), terms.type_of(term))
        if not self.same_elements(term, array):
            if dtype not in FLOATING: self.refuse(name, "other elements", "those of its computation")
            value, error = terms.bound(term)
            apart = np.abs(array.astype(np.float64) - value)
            with np.errstate(invalid="ignore"):
                wrong = ~((apart <= 1.01 * error) & np.isfinite(error) | (array == value))
            if wrong.any():
                at = np.unravel_index(np.argmax(wrong), array.shape)
                self.refuse(f"{name}{list(map(int, at))}", array[at],
                       f"{np.asarray(value)[at]} within {np.broadcast_to(error, array.shape)[at]:.2g}")
        terms.union(weight, term)

    def same_elements(self, term, array):
        try:
            return np.array_equal(np.asarray(self.terms.elements(term)), array)
        except Refused:  # it is not computed here, perhaps it is bounded
            return False

    def compare(self):
        if self.a.inputs != self.b.inputs: refuse("the inputs of the result", self.b.inputs, self.a.inputs)
        if self.a.outputs != self.b.outputs: refuse("the outputs of the result", self.b.outputs, self.a.outputs)
        find = self.terms.find
        for name in self.a.outputs:
            if find(self.a.tensors[name]) != find(self.b.tensors[name]): self.explain(name)

    def explain(self, output):
        """Names the first tensor of the result that is no value of the original."""
        find = self.terms.find
        there = {find(term) for term in [*self.values.values(), *self.a.tensors.values()]}
        for node, name in ((node, name) for node in self.b.model.graph.node for name in node.output if name):
            if find(self.b.tensors[name]) not in there:
                refuse(f"output {output} of the result: node {node.name or name} ({node.op_type})",
                       f"{name}, which is no value of the original after these steps", "one of them")
        refuse(f"output {output} of the result", "another value", "that of the original")

def default_laws():
    here = pathlib.Path(__file__).resolve().parent  # installed, beside the rules
    here = here if (here / "rules").exists() else here.parent / "substitutions"
    return [here / "rules/core.rules", here / "rules/laws.rules", here / "baseline/baseline.rules"]

def read_model(path):
    try:
        return onnx.load(path)
    except Exception as error:  # noqa: BLE001: protobuf and the file system raise errors of many kinds
        raise Unreadable(f"{path}: {error}; expected a model") from None

def read_proof(path):
    lines = []
    for number, line in enumerate(read_text(path).splitlines(), 1):
        try:
            lines.append(json.loads(line))
        except json.JSONDecodeError as error:
            raise Unreadable(f"{path}:{number}: found {line[:40]!r}, expected a line of JSON ({error.msg})") from None
    return lines

def judge(original, result, lines, laws, where="the proof", **options):
    """None if the proof holds, else why it does not."""
    checker = Checker(original, result, laws, **options)
    try:
        checker.check(lines, where)
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
        return checker, f"{checker.place}: found something that cannot be read ({error!r}), expected a step"
    except Refused as why:
        text = str(why)
        return checker, text if text.startswith((where, "the ", "output ")) else f"{checker.place}: {text}"
    return checker, None

def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    for name, text in (("original", "the model that was read"), ("result", "the model that was written"),
                       ("proof", "the file of rewright optimize --proof")):
        parser.add_argument(name, help=text)
    parser.add_argument("--laws", action="append", help="a file of proved laws (repeatable; default: optimize's)")
    parser.add_argument("--certificates", help="a folder that has a certificate of each law, by rewright verify")
    parser.add_argument("--assume-finite", action="store_true", help="also laws that hold for finite numbers alone")
    arguments = parser.parse_args()
    try:
        start = time.perf_counter()
        original, result = read_model(arguments.original), read_model(arguments.result)
        loaded = time.perf_counter()
        checker, why = judge(original, result, read_proof(arguments.proof),
                             read_laws(arguments.laws or default_laws()), arguments.proof,
                             certificates=arguments.certificates, assume_finite=arguments.assume_finite)
    except Unreadable as error:
        print(f"check_model.py: {error}", file=sys.stderr)
        return 2
    if why is None:
        sizes = "".join(f", at {name} = {size}" for name, size in checker.sizes.items())
        print(f"accepted  {arguments.result} is {arguments.original}{sizes}: {checker.steps} steps by "
              f"{len(checker.used)} laws (reading {loaded - start:.2f} s, check {time.perf_counter() - loaded:.2f} s)")
    else: print(f"refused   {why}")
    return 0 if why is None else 1

if __name__ == "__main__": sys.exit(main())
