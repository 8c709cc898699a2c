#!/usr/bin/env python3
"""Attention alone: our CPU device beside onnxruntime, PyTorch and OpenVINO, in one run.

The model is softmax(q k^T * scale) v for `--heads` heads of `--size` numbers, as five plain operators of ONNX. Each
round times every program in a process of its own, one after the other: `rewright run` with the fold (docs/folds.md) and
with its parts (`--disable-kernel-law fold`), onnxruntime with all its optimizations, PyTorch's scaled_dot_product_attention, and
OpenVINO (latency hint, f32) where it is installed. A figure is the least time of all rounds.

    bench/inference/attention.py --rewright build/release/rewright --out results.csv
"""
import argparse
import json
import math
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from table import machine, write_table  # noqa: E402

CHILD = r"""
import json, sys, time
import numpy as np
program, path, threads, seconds, heads, length, size = sys.argv[1:4] + [float(sys.argv[4])] + list(map(int, sys.argv[5:]))
threads = int(threads)
rng = np.random.default_rng(1)
q, k, v = (rng.standard_normal((1, heads, length, size)).astype("float32") for _ in range(3))
if program == "onnxruntime":
    import onnxruntime as ort
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    run = lambda: session.run(None, {"q": q, "k": k, "v": v})
elif program == "torch":
    import torch
    torch.set_num_threads(threads)
    tensors = [torch.from_numpy(x) for x in (q, k, v)]
    @torch.inference_mode()
    def run():
        return torch.nn.functional.scaled_dot_product_attention(*tensors)
else:
    import openvino as ov
    config = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": threads}
    request = ov.Core().compile_model(path, "CPU", config).create_infer_request()
    inputs = {"q": q, "k": k, "v": v}
    run = lambda: request.infer(inputs, share_inputs=True)
for _ in range(3):
    run()
best, end = float("inf"), time.perf_counter() + seconds
while time.perf_counter() < end:
    begin = time.perf_counter()
    run()
    best = min(best, time.perf_counter() - begin)
print(json.dumps(best * 1e3))
"""


def write_model(path, heads, length, size):
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper
    shape = [1, heads, length, size]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in "qkvo"]
    nodes = [
        helper.make_node("Transpose", ["k"], ["turned"], perm=[0, 1, 3, 2]),
        helper.make_node("MatMul", ["q", "turned"], ["products"]),
        helper.make_node("Mul", ["products", "scale"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["shares"], axis=-1),
        helper.make_node("MatMul", ["shares", "v"], ["o"]),
    ]
    scale = numpy_helper.from_array(np.array(1 / math.sqrt(size), dtype="float32"), "scale")
    graph = helper.make_graph(nodes, "attention", values[:3], values[3:], [scale])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def has(module):
    return subprocess.run([sys.executable, "-c", f"import {module}"], capture_output=True).returncode == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rewright", default="build/release/rewright")
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--lengths", type=int, nargs="*", default=[128, 256, 512, 1024, 2048, 4096])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="of a program in a round")
    parser.add_argument("--out", help="write the table as CSV")
    args = parser.parse_args()

    others = [name for name in ("onnxruntime", "torch", "openvino") if has(name)]
    description = (f"{machine()}; {args.heads} heads of {args.size}, {args.threads} threads, least of {args.rounds} "
                   f"rounds; beside {', '.join(others)}")
    print("#", description)

    def ours(path, iterations, flags=()):
        command = [args.rewright, "run", path, "--threads", str(args.threads), "--iterations", str(iterations),
                   "--warmup", "3", "--json", "--quiet", *flags]
        return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["latency_ms"]["min"]

    def other(name, path, length):
        command = [sys.executable, "-c", CHILD, name, path, args.threads, args.seconds, args.heads, length, args.size]
        return json.loads(subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True).stdout)

    rows, ratios = [], []
    with tempfile.TemporaryDirectory() as folder:
        for length in args.lengths:
            path = os.path.join(folder, "attention.onnx")
            write_model(path, args.heads, length, args.size)
            programs = {"fold": lambda count: ours(path, count), "parts": lambda count: ours(path, count, ["--disable-kernel-law", "fold"])}
            for name in others:
                programs[name] = lambda count, name=name: other(name, path, length)
            least = {name: math.inf for name in programs}
            count = 3
            for _ in range(args.rounds):
                for name, time in programs.items():
                    least[name] = min(least[name], time(count))
                count = max(3, int(args.seconds * 1e3 / least["fold"]))
            best = min(least[name] for name in others) if others else math.nan
            ratios.append(least["fold"] / best)
            rows.append({"length": length, **{name + "_ms": round(ms, 3) for name, ms in least.items()},
                         "fold_over_parts": round(least["fold"] / least["parts"], 3),
                         "fold_over_best": round(ratios[-1], 3)})
            print("  ".join(f"{key} {value}" for key, value in rows[-1].items()), flush=True)
    print(f"geometric mean over the best other: {math.exp(sum(map(math.log, ratios)) / len(ratios)):.3f}")
    if args.out:
        write_table(args.out, description, rows)


if __name__ == "__main__":
    main()
