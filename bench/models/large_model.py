#!/usr/bin/env python3
"""Time and memory of `optimize` on a decoder-only language model whose weights are many.

    bench/models/large_model.py build/release/rewright [--width 2048] [--layers 20] [--vocabulary 43000] [--tokens 16]
                                [--inside] [--two-products] [--folder DIR] [--cost measured analytic:zen3]
                                [--float16] [--equal] [--out bench/results/large_model.csv]

The model is made of f32 weights in external data, or with --inside in the model file itself, which then has to stay
below 2 GiB. With --two-products the feed-forward part multiplies two inputs by one weight, as an adapter beside the
norm does, so that a rewrite gains what a measurement tells. --float16 makes its elements f16. --equal also proves the
written model equal to the first by `rewright equal`. One line a cost: seconds on the clock, the peak of resident
memory as /usr/bin/time measures it, which counts pages of files as well, and its ratio to the bytes of model and
external data.
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy
import onnx
from onnx import TensorProto, helper

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import table  # noqa: E402


ALIGNMENT = 4096


class Weights:
    """Numbers like those of a normal distribution: cuts of one block, each of another scale."""

    def __init__(self, data, dtype):
        self.data, self.dtype = data, numpy.dtype(dtype)
        self.type = helper.np_dtype_to_tensor_dtype(self.dtype)
        self.offset = 0
        self.block = numpy.random.default_rng(1).standard_normal(1 << 22, dtype=numpy.float32)
        self.tensors = []

    def add(self, name, *shape, scale=0.02, shift=0.0):
        count = int(numpy.prod(shape))
        start = (len(self.tensors) * 7919) % len(self.block)
        factor = numpy.float32(scale * (1 + len(self.tensors) % 13 / 100))
        if self.data is None:
            values = numpy.resize(numpy.roll(self.block, -start), count) * factor + numpy.float32(shift)
            tensor = helper.make_tensor(name, self.type, shape, values.astype(self.dtype).tobytes(), raw=True)
        else:
            self.offset = -(-self.offset // ALIGNMENT) * ALIGNMENT
            self.data.seek(self.offset)
            tensor = TensorProto(name=name, data_type=self.type, dims=shape, data_location=TensorProto.EXTERNAL)
            for key, value in (("location", pathlib.Path(self.data.name).name), ("offset", self.offset),
                               ("length", self.dtype.itemsize * count)):
                tensor.external_data.add(key=key, value=str(value))
            rolled = (numpy.roll(self.block, -start) * factor + numpy.float32(shift)).astype(self.dtype)
            for done in range(0, count, len(rolled)):
                self.data.write(memoryview(rolled[:count - done]).cast("B"))
            self.offset += self.dtype.itemsize * count
        self.tensors.append(tensor)
        return name


def make_model(path, width, layers, vocabulary, tokens, inside, two_products, dtype):
    """Gives the bytes of the files."""
    heads = width // 64
    data = None if inside else open(str(path) + ".weights", "wb")
    weights = Weights(data, dtype)
    nodes = []

    def node(op, *inputs, **attributes):
        output = f"t{len(nodes)}"
        nodes.append(helper.make_node(op, list(inputs), [output], name=f"{op}_{len(nodes)}", **attributes))
        return output

    def constant(name, values):
        weights.tensors.append(onnx.numpy_helper.from_array(numpy.array(values), name))
        return name

    def linear(x, name, inputs, outputs):
        product = node("MatMul", x, weights.add(name + ".weight", inputs, outputs))
        return node("Add", product, weights.add(name + ".bias", outputs))

    def norm(x, name):
        return node("LayerNormalization", x, weights.add(name + ".weight", width, shift=1.0),
                    weights.add(name + ".bias", width), axis=-1, epsilon=1e-5)

    split = constant("split", numpy.array([1, tokens, heads, 64], numpy.int64))
    merged = constant("merged", numpy.array([1, tokens, width], numpy.int64))
    mask = constant("mask", numpy.triu(numpy.full((tokens, tokens), -1e4, dtype), 1))
    eighth, root, one, half = (constant(name, dtype(value)) for name, value in
                               (("eighth", 0.125), ("root", 2 ** 0.5), ("one", 1), ("half", 0.5)))
    x = node("Add", node("Gather", weights.add("tokens", vocabulary, width), "ids"),
             weights.add("positions", tokens, width))
    for layer in range(layers):
        name = f"layer{layer}"
        normed = norm(x, name + ".norm1")
        parts = [node("Transpose", node("Reshape", linear(normed, f"{name}.{part}", width, width), split),
                      perm=[0, 2, 3, 1] if part == "key" else [0, 2, 1, 3]) for part in ("query", "key", "value")]
        scores = node("Add", node("Mul", node("MatMul", parts[0], parts[1]), eighth), mask)
        mixed = node("MatMul", node("Softmax", scores, axis=-1), parts[2])
        mixed = node("Reshape", node("Transpose", mixed, perm=[0, 2, 1, 3]), merged)
        x = node("Add", x, linear(mixed, name + ".out", width, width))
        wide = linear(norm(x, name + ".norm2"), name + ".up", width, 4 * width)
        if two_products:
            wide = node("Add", node("MatMul", mixed, name + ".up.weight"), wide)
        wide = node("Mul", node("Mul", wide, node("Add", node("Erf", node("Div", wide, root)), one)), half)
        x = node("Add", x, linear(wide, name + ".down", 4 * width, width))
    nodes.append(helper.make_node("MatMul", [norm(x, "norm"), weights.add("head", width, vocabulary)], ["logits"]))
    graph = helper.make_graph(nodes, "decoder", [helper.make_tensor_value_info("ids", TensorProto.INT64, [1, tokens])],
                              [helper.make_tensor_value_info("logits", weights.type, [1, tokens, vocabulary])],
                              weights.tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)
    if data is not None:
        data.close()
    return sum(pathlib.Path(name).stat().st_size for name in [path] + ([data.name] if data else []))


def measure(command):
    """What /usr/bin/time says of a run, and its report."""
    done = subprocess.run(["/usr/bin/time", "-v", *command], capture_output=True, text=True)
    if done.returncode not in (0, 1):
        raise SystemExit(f"{' '.join(command)}: {done.stderr.strip()}")
    hours, minutes, seconds = re.search(r"Elapsed.*: (?:(\d+):)?(\d+):([\d.]+)", done.stderr).groups()
    resident = 1024 * int(re.search(r"Maximum resident set size.*: (\d+)", done.stderr).group(1))
    return 3600 * int(hours or 0) + 60 * int(minutes) + float(seconds), resident, json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("rewright")
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--layers", type=int, default=20)
    parser.add_argument("--vocabulary", type=int, default=43000)
    parser.add_argument("--tokens", type=int, default=16)
    parser.add_argument("--inside", action="store_true")
    parser.add_argument("--two-products", action="store_true")
    parser.add_argument("--float16", action="store_true")
    parser.add_argument("--equal", action="store_true")
    parser.add_argument("--folder", default=None)
    parser.add_argument("--cost", nargs="+", default=["measured", "analytic:zen3"])
    parser.add_argument("--more", nargs="*", default=[], help="further flags of optimize, such as time-limit=100")
    parser.add_argument("--out", default=None)
    arguments = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        path = pathlib.Path(folder) / "model.onnx"
        size = make_model(path, arguments.width, arguments.layers, arguments.vocabulary, arguments.tokens,
                          arguments.inside, arguments.two_products,
                          numpy.float16 if arguments.float16 else numpy.float32)
        out = pathlib.Path(folder) / "out.onnx"
        for cost in arguments.cost:
            seconds, resident, report = measure(
                [arguments.rewright, "optimize", str(path), "-o", str(out), "--cost", cost, "--json", "--quiet",
                 *("--" + word for word in arguments.more)])
            rows.append({"cost": cost, "model_bytes": size, "seconds": round(seconds, 1), "peak_resident": resident,
                         "ratio": round(resident / size, 2), "written": report["written"],
                         "nodes_before": report["nodes_before"], "nodes_after": report["nodes_after"],
                         "verdict": report["verdict"]})
            if arguments.equal:
                seconds, resident, report = measure(
                    [arguments.rewright, "equal", str(path), str(out), "--json", "--quiet"])
                rows[-1] |= {"equal": report["answer"], "equal_seconds": round(seconds, 1), "equal_resident": resident}
            print(rows[-1], flush=True)
    if arguments.out:
        table.write_table(arguments.out, f"optimize of a large model; {table.machine()}", rows)


if __name__ == "__main__":
    main()
