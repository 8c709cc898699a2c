#!/usr/bin/env python3
"""Attacks proved pairs of the court: both models run in onnxruntime, without its optimizations, on many inputs.

    python bench/equality/court_attack.py build/release/rewright [--inputs 1000000] [--pairs 50] [--jobs 2]
                                          [--out bench/results/court_attack.csv]

The pairs are those of small models (court_cases.py, reported graphs) with one input of f32 that bench/results/court.csv
has as proved, made anew by the tools that are installed and proved anew, each graph once. Inputs are normal of magnitudes from 0.01 to 100; a quarter of the
elements are small whole numbers and halves, where branches meet. A pair is broken where outputs are further apart than
rounding may put them (APART of court.py). Fails, with status 1, where one is. Wants onnx, onnxruntime and tools.
"""
import argparse
import concurrent.futures
import multiprocessing
import os
import sys
import tempfile

import numpy as np
import onnxruntime

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from equality.court import APART, ask, contents, made, read  # noqa: E402
from equality.court_models import cases, reported  # noqa: E402
from equality.court_tools import all_tools  # noqa: E402
from table import machine, write_table  # noqa: E402

AT_ONCE = 1000  # inputs that are drawn and compared together
MOST_ELEMENTS = 4096  # of an input


def session(path):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def drawn(rng, shape):
    x = rng.standard_normal((AT_ONCE, *shape)) * 10.0 ** rng.uniform(-2, 2, (AT_ONCE, *[1] * len(shape)))
    return np.where(rng.random(x.shape) < 0.25, rng.integers(-6, 7, x.shape) / 2, x).astype(np.float32)


def apart(first, second):
    """The worst run: how far outputs are apart, in parts of its greatest magnitude and of what rounding may do."""
    allowed = APART.get(str(first.dtype), 0)
    x, y = (out.reshape(len(out), -1).astype(np.float64) for out in (first, second))
    if x.shape != y.shape or (np.isfinite(x) != np.isfinite(y)).any():
        return float("inf")
    if x.size == 0:
        return 0.0
    x, y = np.nan_to_num(x), np.nan_to_num(y)
    most = np.abs(x).max(1)
    by = (np.abs(x - y).max(1) / np.where(most > 0, most, 1)).max()
    return by / allowed if allowed else (float("inf") if by else 0.0)


def attack(a, b, inputs, seed):
    rng = np.random.default_rng(seed)
    sides = session(a), session(b)
    (source,) = sides[0].get_inputs()
    worst = 0.0
    for _ in range(0, inputs, AT_ONCE):
        feeds = drawn(rng, source.shape)
        first, second = ([side.run(None, {source.name: np.asarray(one)}) for one in feeds] for side in sides)
        for x, y in zip(zip(*first), zip(*second)):
            worst = max(worst, apart(np.stack(x), np.stack(y)))
    return worst


def is_attacked(path):
    """One input, of f32 and few elements."""
    inputs = session(path).get_inputs()
    return (len(inputs) == 1 and inputs[0].type == "tensor(float)" and
            all(isinstance(size, int) for size in inputs[0].shape) and np.prod(inputs[0].shape) <= MOST_ELEMENTS)


def runs(path):
    """False for what onnxruntime has no kernel for."""
    source = session(path).get_inputs()[0]
    try:
        session(path).run(None, {source.name: np.ones(source.shape, np.float32)})
    except Exception:  # pylint: disable=broad-except
        return False
    return True


def pairs(program, folder, most):
    """Proved pairs: model, tool, and both files. Graphs that several tools make are taken once."""
    tools, models, seen = all_tools()[0], cases() | reported(), set()
    found = []
    for number, row in enumerate(read("bench/results/court.csv")[0]):
        if row["answer"] != "proved" or row["model"] not in models or row["tool"] not in tools:
            continue
        a, b = (os.path.join(folder, f"{number}.{side}.onnx") for side in "ab")
        models[row["model"]](a)
        if not is_attacked(a) or not runs(a):
            continue
        if made(tools[row["tool"]], a, b) or str((row["model"], contents(b))) in seen or contents(a) == contents(b):
            continue
        seen.add(str((row["model"], contents(b))))
        if runs(b) and ask(program, a, b, 60, os.path.join(folder, "x"))["answer"] == "proved":
            found.append((row["model"], row["tool"], a, b))
        if len(found) == most:
            break
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--inputs", type=int, default=1000000)
    parser.add_argument("--pairs", type=int, default=50)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out")
    flags = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        with concurrent.futures.ProcessPoolExecutor(flags.jobs, multiprocessing.get_context("spawn")) as pool:
            tasks = [(model, tool, pool.submit(attack, a, b, flags.inputs, seed))
                     for seed, (model, tool, a, b) in enumerate(pairs(flags.program, folder, flags.pairs))]
            for model, tool, task in tasks:
                rows.append({"model": model, "tool": tool, "inputs": flags.inputs, "apart": f"{task.result():.3g}"})
                print(*rows[-1].values(), flush=True)
    broken = [row for row in rows if float(row["apart"]) > 1]
    print(f"{len(rows)} pairs, {len(broken)} broken")
    if flags.out:
        write_table(flags.out, f"{len(rows)} proved pairs under attack, {len(broken)} broken; {machine()}", rows)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
