"""rewright optimize keeps the names of dimensions; what it writes is run by onnxruntime at many sizes.

Usage: named_sizes.py REWRIGHT
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

HIDDEN, HEADS, WORDS, LONGEST = 16, 2, 50, 40
random = np.random.default_rng(1)


class Graph:
    """Nodes of ONNX, one after the other."""

    def __init__(self):
        self.nodes, self.constants = [], []

    def constant(self, value, dtype=np.int64):
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.array(value, dtype), name))
        return name

    def weight(self, *shape):
        return self.constant(random.standard_normal(shape) / np.sqrt(shape[0]), np.float32)

    def add(self, op, *inputs, **attributes):
        name = f"{op.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], **attributes))
        return name

    def write(self, path, inputs, output, shape):
        self.nodes.append(helper.make_node("Identity", [output], ["y"]))
        graph = helper.make_graph(
            self.nodes, "g", [helper.make_tensor_value_info(name, kind, dims) for name, kind, dims in inputs],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)], self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.checker.check_model(model, full_check=True)
        onnx.save(model, path)


def attention(path):
    """Two layers of BERT: sizes of reshapes, positions and the mask are computed from shapes, as exporters write it."""
    g = Graph()
    shape = g.add("Shape", "ids")
    batch, length = (g.add("Gather", shape, g.constant(axis)) for axis in (0, 1))
    first, second = (g.add("Unsqueeze", size, g.constant([0])) for size in (batch, length))
    positions = g.add("Unsqueeze", g.add("Range", g.constant(0), length, g.constant(1)), g.constant([0]))
    x = g.add("Add", g.add("Gather", g.weight(WORDS, HIDDEN), "ids"), g.add("Gather", g.weight(LONGEST, HIDDEN), positions))
    mask = g.add("Unsqueeze", g.add("Cast", "mask", to=TensorProto.FLOAT), g.constant([1, 2]))
    mask = g.add("Expand", mask, g.add("Concat", first, g.constant([1]), second, second, axis=0))
    mask = g.add("Mul", g.add("Sub", g.constant(1, np.float32), mask), g.constant(-1e4, np.float32))
    by_head = g.add("Concat", first, second, g.constant([HEADS, HIDDEN // HEADS]), axis=0)
    joined = g.add("Concat", first, second, g.constant([HIDDEN]), axis=0)
    for _ in range(2):
        q, k, v = (g.add("Reshape", g.add("MatMul", x, g.weight(HIDDEN, HIDDEN)), by_head) for _ in range(3))
        scores = g.add("MatMul", g.add("Transpose", q, perm=[0, 2, 1, 3]), g.add("Transpose", k, perm=[0, 2, 3, 1]))
        scores = g.add("Softmax", g.add("Add", g.add("Div", scores, g.constant(8 ** 0.5, np.float32)), mask), axis=-1)
        context = g.add("Transpose", g.add("MatMul", scores, g.add("Transpose", v, perm=[0, 2, 1, 3])), perm=[0, 2, 1, 3])
        out = g.add("MatMul", g.add("Reshape", context, joined), g.weight(HIDDEN, HIDDEN))
        x = g.add("Relu", g.add("Relu", g.add("Add", g.add("Add", x, out), g.constant(np.zeros(HIDDEN), np.float32))))
    g.write(path, [(name, TensorProto.INT64, ["batch", "sequence"]) for name in ("ids", "mask")], x,
            ["batch", "sequence", HIDDEN])


def scaled(path):
    """Rows, scaled by their number and by a weight: a rule computes one weight of both."""
    g = Graph()
    count = g.add("Cast", g.add("Gather", g.add("Shape", "x"), g.constant(1)), to=TensorProto.FLOAT)
    y = g.add("Mul", g.add("Mul", g.add("Relu", "x"), g.weight(4)), count)
    g.write(path, [("x", TensorProto.FLOAT, ["batch", "rows", 4])], y, ["batch", "rows", 4])


def cached(path, total):
    """A step with a cache of keys: the mask is as long as the past and the step together, whatever that is called."""
    g = Graph()
    q, k = (g.add("MatMul", "x", g.weight(HIDDEN, HIDDEN)) for _ in range(2))
    keys = g.add("Concat", "past_keys", k, axis=1)
    scores = g.add("MatMul", q, g.add("Transpose", keys, perm=[0, 2, 1]))
    scores = g.add("Add", g.add("Relu", g.add("Relu", scores)), g.add("Unsqueeze", "mask", g.constant([1])))
    out = g.add("MatMul", g.add("Softmax", scores, axis=-1), keys)
    g.write(path, [("x", TensorProto.FLOAT, ["batch", 1, HIDDEN]),
                   ("past_keys", TensorProto.FLOAT, ["batch", "past", HIDDEN]),
                   ("mask", TensorProto.FLOAT, ["batch", total])], out, ["batch", 1, HIDDEN])


def optimize(program, model, written, *flags, **dims):
    command = [program, "optimize", str(model), "-o", str(written), "--json", "--cost", "analytic:zen3", *flags]
    for name, size in dims.items():
        command += ["--dim", f"{name}={size}"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def names(path):
    return [dim.dim_param or dim.dim_value for dim in onnx.load(path).graph.input[0].type.tensor_type.shape.dim]


def run(path, inputs):
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, inputs)[0]


def main(program):
    folder = pathlib.Path(tempfile.mkdtemp())
    model, written = folder / "in.onnx", folder / "out.onnx"

    attention(model)
    for dims in ({}, {"batch": 1, "sequence": 16}, {"batch": 2, "sequence": 7}):
        report = optimize(program, model, written, **dims)
        assert report["rewritten"], report
        assert report["names"] == ["batch", "sequence"] and not report["fixed_sizes"], report
        assert names(written) == ["batch", "sequence"], names(written)
        onnx.checker.check_model(onnx.load(written), full_check=True)
        for batch, length in ((1, 1), (1, 2), (2, 1), (1, 16), (3, 5), (2, 7), (8, LONGEST)):
            ids = random.integers(0, WORDS, (batch, length))
            mask = (random.random((batch, length)) < 0.7).astype(np.int64)
            found, expected = (run(path, {"ids": ids, "mask": mask}) for path in (written, model))
            assert found.shape == expected.shape, (found.shape, expected.shape)
            worst = np.abs(found - expected).max() / np.abs(expected).max()
            assert worst < 1e-5, (dims, batch, length, worst)

    for total in ("total", "past + 1"):
        cached(model, total)
        for dims in ({}, {"batch": 2, "past": 7, total: 8}):
            report = optimize(program, model, written, **dims)
            assert report["rewritten"] and not report["fixed_sizes"], report
            assert report["names"] == ["batch", "past"], report
            assert report["relations"] == [f"{total} = past + 1"], report
            mask = onnx.load(written).graph.input[2].type.tensor_type.shape
            assert [dim.dim_param for dim in mask.dim] == ["batch", total], mask
            for batch, past in ((1, 1), (1, 2), (3, 1), (2, 7), (1, 30)):
                inputs = {name: random.standard_normal((batch, length, HIDDEN)).astype(np.float32)
                          for name, length in (("x", 1), ("past_keys", past))}
                inputs["mask"] = random.standard_normal((batch, past + 1)).astype(np.float32)
                assert np.allclose(run(written, inputs), run(model, inputs), rtol=1e-4, atol=1e-5), (batch, past)

    scaled(model)
    report = optimize(program, model, written, batch=3, rows=6)
    assert not report["rewritten"] and report["fixing_sizes"], report
    assert "no rewrite that is wanted makes it cheaper by 0.3 %" in str(report), report
    assert names(written) == ["batch", "rows", 4], names(written)
    report = optimize(program, model, written, "--fix-sizes", batch=3, rows=6)
    assert report["rewritten"], report
    assert report["names"] == ["batch"] and list(report["fixed_sizes"]) == ["rows"], report
    assert names(written) == ["batch", 6, 4], names(written)
    for batch in (1, 3, 5):
        x = random.standard_normal((batch, 6, 4)).astype(np.float32)
        assert np.allclose(run(written, {"x": x}), run(model, {"x": x}), rtol=1e-5), batch
    print("names of sizes: all as expected")


if len(sys.argv) != 2:
    sys.exit(__doc__)
main(sys.argv[1])
