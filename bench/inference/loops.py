#!/usr/bin/env python3
"""Loops that are compiled while the program runs against tiles, on chains of pointwise operators: one run of both, in turns.

    .venv/bin/python bench/inference/loops.py [--rewright PROGRAM] [--rounds N] > bench/results/loops.txt

A chain of eight cheap operations, a norm of rows by their root mean square (768 columns) as models have it and as it is
rewritten, by the reciprocal of the root, and the update of a weight by AdamW (16 operations, of which three divide and
one takes a root; four tensors are read and three written), one thread. `start` is the time of a whole run of the program on the
smallest chain, with the compiler and without it: what loading it and compiling one loop costs.
"""
import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CHAIN = "Mul x a 1;Add 1 y 2;Sub 2 b 3;Mul 3 x 4;Max 4 c 5;Add 5 y 6;Mul 6 a 7;Sub 7 x z"
ADAMW = ("Mul m b1 1;Mul g c1 2;Add 1 2 m';Mul v b2 3;Mul g g 4;Mul 4 c2 5;Add 3 5 v';Div m' k1 6;Div v' k2 7;Sqrt 7 8;"
         "Add 8 e 9;Div 6 9 10;Mul w d 11;Add 10 11 12;Mul 12 l 13;Sub w 13 w'")
RMS_NORM = "Mul x x 1;ReduceMean 1 axes 2;Add 2 e 3;Sqrt 3 4;Div x 4 5;Mul 5 scale y"
RECIPROCAL = "Mul x x 1;ReduceMean 1 axes 2;Add 2 e 3;Sqrt 3 4;Reciprocal 4 5;Mul x 5 6;Mul 6 scale y"
COLUMNS = 768
CONSTANTS = {"a": 1.5, "b": 0.3, "c": 0.0, "b1": 0.9, "c1": 0.1, "b2": 0.999, "c2": 0.001, "k1": 0.1, "k2": 0.001, "e": 1e-8,
             "d": 0.01, "l": 1e-3}


def write(path, text, inputs, outputs, size):
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper
    nodes = [helper.make_node(op, operands[:-1], operands[-1:])
             for op, *operands in (line.split() for line in text.split(";"))]
    used = {name for node in nodes for name in node.input}
    shape = [size // COLUMNS, COLUMNS] if "axes" in used else [size]
    value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
    constants = {name: np.float32(number) for name, number in CONSTANTS.items()}
    constants |= {"axes": np.array([-1]), "scale": np.linspace(0.5, 1.5, COLUMNS, dtype=np.float32)}
    graph = helper.make_graph(nodes, "chain", [value(name) for name in inputs], [value(name) for name in outputs],
                              [numpy_helper.from_array(number, name) for name, number in constants.items()
                               if name in used])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    model.ir_version = 8
    onnx.save(model, path)


def run(program, path, compiled, iterations):
    """Median milliseconds of an inference, and seconds of the program."""
    begin = time.perf_counter()
    result = subprocess.run([program, "run", path, "--iterations", str(iterations), "--threads", "1", "--quiet", "--json"],
                            check=True, capture_output=True, text=True, env=dict(os.environ, REWRIGHT_JIT=str(int(compiled))))
    seconds = time.perf_counter() - begin
    return float(json.loads(result.stdout)["latency_ms"]["median"]), seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rewright", default=os.path.join(ROOT, "build/release/rewright"))
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    print("chain,elements,tiles_us,loop_us,ratio,gigabytes_per_second")
    with tempfile.TemporaryDirectory() as folder:
        for name, text, inputs, outputs in (("eight", CHAIN, ["x", "y"], ["z"]),
                                            ("rms_norm", RMS_NORM, ["x"], ["y"]),
                                            ("rms_norm_rewritten", RECIPROCAL, ["x"], ["y"]),
                                            ("adamw", ADAMW, ["w", "g", "m", "v"], ["w'", "m'", "v'"])):
            for size in [COLUMNS << k for k in (6, 7, 9, 11, 12)]:
                path = os.path.join(folder, f"{name}-{size}.onnx")
                write(path, text, inputs, outputs, size)
                iterations = max(20, (1 << 24) // size)
                turns = [[run(args.rewright, path, compiled, iterations)[0] for compiled in (False, True)]
                         for _ in range(args.rounds)]
                tiles, loop = (statistics.median(turn[k] for turn in turns) for k in (0, 1))
                moved = 4 * size * (len(inputs) + len(outputs))
                print(f"{name},{size},{tiles * 1e3:.1f},{loop * 1e3:.1f},{tiles / loop:.2f},{moved / loop * 1e-6:.1f}",
                      flush=True)
        path = os.path.join(folder, f"eight-{COLUMNS << 7}.onnx")
        turns = [[run(args.rewright, path, compiled, 1)[1] for compiled in (False, True)] for _ in range(3 * args.rounds)]
        print(f"# start: {statistics.median(t[0] for t in turns) * 1e3:.0f} ms with tiles, "
              f"{statistics.median(t[1] for t in turns) * 1e3:.0f} ms with a loop")


if __name__ == "__main__":
    main()
