#!/usr/bin/env python3
"""Models that round on purpose, and quantized ones, before and after `rewright optimize`: every integer and every bit.

    python bench/rounding/rounding_graphs.py build/release/rewright [cases] [roundings] [exports] [quantized]
                                    [--out TABLE.csv] [--part K/N] [--only PATTERN] [--rules FILE ..]

cases      four small models that failed once
roundings  200 graphs that round by constants, split numbers, sum with compensation, fake-quantize (rounding_kinds.py):
           only rules that are exact by their records are used, all outputs have the original's bits
exports    12 models of onnxruntime's quantizer: QDQ, QOperator and dynamic, opsets 13 to 21
quantized  300 random ones

Of quantized models the integers of each quantizer that has its name in the rewritten file are the original's, and so
are those of all outputs; other outputs differ by no more than rounding. The file is no more than 1 % larger.
Both files are run by the interpreter and, where it has the kernels, by onnxruntime without its optimizations. Nothing
is timed: costs are those of analytic devices; every tenth model is optimized for the device onnxruntime as well. Status
1 where anything differs. Wants onnx and onnxruntime.
"""
import argparse
import concurrent.futures
import functools
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from models.reported_graphs import in_onnxruntime  # noqa: E402
from rounding import quantized_models  # noqa: E402
from rounding import rounding_kinds  # noqa: E402
from table import machine, part_of, write_table  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
WAYS = [("zen3", ["--cost", "analytic:zen3"]), ("v100", ["--cost", "analytic:v100"])]
DEVICE = ("onnxruntime", ["--device", "onnxruntime", "--cost", "analytic:zen3"])
QUANTIZERS = {"QuantizeLinear", "DynamicQuantizeLinear", "QLinearMatMul", "QLinearConv", "QGemm", "QLinearAdd"}
TOLERANCE = {"float64": 1e-9, "float32": 1e-5, "float16": 4e-3, "bfloat16": 3e-2}


class Wrong(Exception):
    """What differs, or how the program ended."""


def rewright(program, *arguments):
    command = [program, *map(str, arguments), "--threads", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != 0:
        raise Wrong(f"{arguments[0]} ended with {done.returncode}: {' '.join(done.stderr.split())[-300:]}")
    return done.stdout


@functools.cache
def exact_rules():
    """Names of rules by whether their record says exact: (f32 and f64, 16 bits)."""
    classes = {}
    for path in sorted(ROOT.glob("substitutions/*/*.rules")):
        name = None
        for line in path.read_text().splitlines():
            if line.startswith("rule "):
                name = line.split()[1]
            record = re.match(r"  proved (\S+)(.*)", line)
            if not record:
                continue
            halves = re.search(r" halves=(\S+)", record[2])
            exact = re.search(r' exact="([^"]*)"', record[2])
            classes[name] = (record[1] == "exact", halves is not None and halves[1] == "exact")
            for operator in exact[1].split() if exact else []:
                classes[f"{name}:{operator}"] = (True, True)
    return classes


def is_exact(rule, halves):
    known = exact_rules()
    return (known.get(rule) or known[rule.split(":")[0]])[halves]


def same_bits(a, b):
    """NaN is NaN."""
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    bytes_of = lambda x: np.ascontiguousarray(x).reshape(-1).view(np.uint8).reshape(x.size, -1)
    equal = (bytes_of(a) == bytes_of(b)).all(axis=1)
    if a.dtype.kind in "fV":
        equal |= np.isnan(a.astype(np.float64)).reshape(-1) & np.isnan(b.astype(np.float64)).reshape(-1)
    return bool(equal.all())


def near(a, b):
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.dtype.name not in TOLERANCE:
        return same_bits(a, b)
    tolerance = TOLERANCE[a.dtype.name]
    a, b = a.astype(np.float64), b.astype(np.float64)
    return np.allclose(a, b, rtol=0, atol=tolerance * max(1, np.abs(b).max(initial=0)), equal_nan=True)


def quantizer_outputs(model):
    return {node.output[0] for node in model.graph.node if node.op_type in QUANTIZERS}


def with_outputs(path, names):
    """The file with these tensors as outputs besides, and the names of all outputs."""
    model = onnx.load(path)
    have = {value.name for value in model.graph.output}
    model.graph.output.extend(onnx.helper.make_empty_tensor_value_info(name) for name in sorted(names - have))
    shown = pathlib.Path(str(path) + ".shown.onnx")
    inferred = onnx.shape_inference.infer_shapes(model)
    types = {value.name: value for value in inferred.graph.value_info}
    for value in model.graph.output:
        if value.name in types and not value.type.HasField("tensor_type"):
            value.CopyFrom(types[value.name])
    onnx.save(model, shown)
    return shown, [value.name for value in model.graph.output]


class Case:
    def __init__(self, program, sample, folder):
        self.program, self.sample, self.folder = program, sample, pathlib.Path(folder)
        self.path = self.folder / "model.onnx"
        onnx.save(sample.model, self.path)
        self.inputs = []
        for name, value in sample.feeds.items():
            np.save(self.folder / f"{name}.npy", value)
            self.inputs += ["--input", f"{name}={self.folder / name}.npy"]

    def optimize(self, arguments):
        path = self.folder / "rewritten.onnx"
        report = json.loads(rewright(self.program, "optimize", self.path, "-o", path, "--json", "--proof-limit", 2,
                                     *arguments))
        return path, report

    def interpret(self, path, names):
        target = self.folder / "outputs"
        target.mkdir(exist_ok=True)
        for old in target.iterdir():
            old.unlink()
        rewright(self.program, "run", path, *self.inputs, "--device", "reference", "--output-dir", target, "--json")
        files = {file.stem: file for file in target.iterdir()}
        return [np.load(files[name]) for name in names]

    def look(self, arguments, bits):
        """How many rewrites were made; raises Wrong. bits: every output keeps its own, by exact rules alone."""
        path, report = self.optimize(arguments)
        rewrites = {rewrite["rule"]: rewrite["count"] for rewrite in report["rewrites"]}
        if not bits and path.stat().st_size > self.path.stat().st_size * 1.01:
            raise Wrong(f"{path.stat().st_size} bytes from {self.path.stat().st_size}, by {rewrites}")
        if not report["rewritten"]:
            return 0, 0
        original, rewritten = onnx.load(self.path), onnx.load(path)
        kept = quantizer_outputs(original) & quantizer_outputs(rewritten)
        shown_before, names = with_outputs(self.path, kept)
        shown_after, _ = with_outputs(path, kept)
        runs = [("the interpreter", self.interpret)]
        try:
            in_onnxruntime(shown_before, self.sample.feeds)
            runs.append(("onnxruntime", self.in_onnxruntime))
        except Exception:  # no kernel of that type
            pass
        for where, run in runs:
            before, after = run(shown_before, names), run(shown_after, names)
            for name, a, b in zip(names, before, after):
                exactly = bits or a.dtype.kind in "iub"
                if exactly and not same_bits(a, b) or not exactly and not near(a, b):
                    differ = a.astype(np.float64) != b.astype(np.float64)
                    raise Wrong(f"{name} in {where}: {int(differ.sum())} of {a.size} elements, "
                                f"{a[differ][:1]} became {b[differ][:1]}, by {rewrites}")
        halves = any(value.dtype.itemsize == 2 and value.dtype.kind in "fV" for value in self.sample.feeds.values())
        inexact = [rule for rule in rewrites if not is_exact(rule, halves)]
        if bits and inexact:
            raise Wrong(f"by rules that are not exact: {inexact}")
        return sum(rewrites.values()), len(kept)

    def in_onnxruntime(self, path, names):
        return in_onnxruntime(path, self.sample.feeds)


PARTS = {"cases": (len(rounding_kinds.CASES), True), "roundings": (rounding_kinds.COUNT, True),
         "exports": (len(quantized_models.EXPORTS), False), "quantized": (quantized_models.COUNT, False)}


MAKE = {"cases": rounding_kinds.case, "roundings": rounding_kinds.rounding_graph, "exports": quantized_models.export,
        "quantized": quantized_models.random_model}


def look(program, part, number, rules):
    row = {"part": part, "number": number}
    try:
        sample = MAKE[part](number)
    except Exception as error:
        return row | {"model": "?", "result": f"not made: {error}"}
    row |= {"model": sample.name, "nodes": len(sample.model.graph.node)}
    ways = WAYS + ([DEVICE] if number % 10 == 0 or part == "cases" else [])
    with tempfile.TemporaryDirectory() as folder:
        case = Case(program, sample, folder)
        row["result"] = "ok"
        for name, arguments in ways:
            try:
                row[name], row["quantizers"] = case.look(arguments + rules, PARTS[part][1])
            except Wrong as wrong:
                row[name], row["result"] = "WRONG", f"{name}: {wrong}".replace("\n", " ")
            except Exception as error:
                row[name], row["result"] = "WRONG", f"{name}: {type(error).__name__} {error}"
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS) + " (default: all)")
    parser.add_argument("--out", help="write the table as CSV")
    parser.add_argument("--only", default="", help="models whose names match")
    parser.add_argument("--part", default="1/1", help="K/N: every Nth model, from number K on; today/N: another K each "
                        "day (REWRIGHT_DAY: its number), all with REWRIGHT_FULL in the environment")
    parser.add_argument("--rules", nargs="+", default=[], help="in the place of the default set")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    first, step = part_of(arguments.part)
    wanted = [(part, number) for part in arguments.parts or PARTS for number in range(PARTS[part][0])]
    rules = [item for file in arguments.rules for item in ("--rules", file)]
    with concurrent.futures.ProcessPoolExecutor(arguments.jobs) as pool:
        running = [pool.submit(look, arguments.program, part, number, rules) for part, number in wanted[first - 1::step]]
        rows = [done.result() for done in running]
    rows = [row for row in rows if re.search(arguments.only, row["model"])]
    wrong = [row for row in rows if row["result"] != "ok"]
    for row in wrong:
        print(f"{row['part']} {row['number']} {row['model']}: {row['result']}")
    rewritten = sum(isinstance(row.get(name), int) and row[name] > 0 for row in rows for name, _ in WAYS + [DEVICE])
    print(f"{len(rows)} models, {rewritten} files rewritten, {len(wrong)} wrong")
    if arguments.out:
        write_table(arguments.out, f"{machine()}; onnx {onnx.__version__}, onnxruntime {onnxruntime.__version__}", rows)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
