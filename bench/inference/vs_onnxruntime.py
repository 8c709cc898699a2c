#!/usr/bin/env python3
"""Latency of Rewright's CPU device beside onnxruntime's, on the same models, in one run.

Every model is made by `rewright zoo`. Each round times, one after the other and in processes of their own:
onnxruntime with all its optimizations, our executor on the unrewritten graph, and (with --optimized) on the graph that
`rewright optimize` wrote, beside the cost that was predicted for it; with --direct also the graph that it wrote with no
law that allows Winograd's kernels. A figure is the median over the rounds of each round's median; the spread is their
range. DNNL_MAX_CPU_ISA=AVX2 in the environment holds our side to that instruction set.

    bench/inference/vs_onnxruntime.py --rewright build/release/rewright --out results.csv
"""
import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from table import machine, write_table  # noqa: E402


MODELS = ["resnet50", "squeezenet", "vgg19", "inception_v3", "mobilenet_v2", "bert_base", "resnext50", "nasnet_a",
          "gpt2_small", "nasrnn", "convnext_tiny", "llama_small"]
LAWS = os.path.join(os.path.dirname(__file__), "../../substitutions/rules/winograd.rules")

ORT_CHILD = r"""
import json, sys, time
import numpy as np
import onnxruntime as ort
path, threads, iterations, warmup = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
options = ort.SessionOptions()
options.intra_op_num_threads = threads
options.inter_op_num_threads = 1
options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
rng = np.random.default_rng(1)
feeds = {}
for value in session.get_inputs():
    shape = [d if isinstance(d, int) else 1 for d in value.shape]
    if "int" in value.type:
        feeds[value.name] = rng.integers(0, 2, shape).astype("int64" if "64" in value.type else "int32")
    else:
        feeds[value.name] = rng.standard_normal(shape).astype("float32")
for _ in range(warmup):
    session.run(None, feeds)
times = []
for _ in range(iterations):
    begin = time.perf_counter()
    session.run(None, feeds)
    times.append((time.perf_counter() - begin) * 1e3)
print(json.dumps(times))
"""


def time_ort(path, args):
    command = [sys.executable, "-c", ORT_CHILD, path, str(args.threads), str(args.iterations), str(args.warmup)]
    times = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return statistics.median(times)


def no_winograd():
    """Flags that switch off every law of winograd.rules."""
    with open(LAWS) as file:
        return [word for line in file if line.startswith("rule ") for word in ("--no-rule", line.split()[1])]


def optimize(path, to, args, flags=()):
    """The cost that the search predicts for the graph that it wrote, in milliseconds."""
    command = [args.rewright, "optimize", path, "-o", to, "--profile", args.profile, "--threads", str(args.threads),
               "--json", "--quiet", *flags]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["cost_after_ms"]


def time_ours(path, args, flags=()):
    command = [args.rewright, "run", path, "--threads", str(args.threads), "--iterations", str(args.iterations),
               "--warmup", str(args.warmup), "--json", "--quiet", *flags]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["latency_ms"]["median"]


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def describe_run(args):
    import onnxruntime
    return (f"{machine()}; "
            f"onnxruntime {onnxruntime.__version__}; {args.threads} threads, batch 1, {args.rounds} rounds of "
            f"{args.iterations} iterations")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rewright", default="build/release/rewright")
    parser.add_argument("--models", nargs="*", default=MODELS)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--optimized", action="store_true", help="also time the superoptimized graphs")
    parser.add_argument("--direct", action="store_true", help="also time graphs without Winograd's kernels")
    parser.add_argument("--profile", default="build/vs_onnxruntime.db", help="profile database for --optimized")
    parser.add_argument("--out", help="write the table as CSV")
    args = parser.parse_args()

    laws = no_winograd()
    description = describe_run(args)
    print("#", description)
    columns = ["onnxruntime", "rewright"] + ["optimized"] * args.optimized + ["direct"] * args.direct
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name in args.models:
            path = os.path.join(folder, name + ".onnx")
            subprocess.run([args.rewright, "zoo", name, "-o", path, "--quiet"], check=True, stdout=subprocess.DEVNULL)
            optimized, direct = os.path.join(folder, name + ".opt.onnx"), os.path.join(folder, name + ".direct.onnx")
            predicted = optimize(path, optimized, args) if args.optimized else None
            if args.direct:
                optimize(path, direct, args, laws)
            samples = {column: [] for column in columns}
            for _ in range(args.rounds):
                samples["onnxruntime"].append(time_ort(path, args))
                samples["rewright"].append(time_ours(path, args))
                if args.optimized:
                    samples["optimized"].append(time_ours(optimized, args))
                if args.direct:
                    samples["direct"].append(time_ours(direct, args, laws))
            row = {"model": name}
            for column in columns:
                row[column + "_ms"] = round(statistics.median(samples[column]), 3)
                row[column + "_range_ms"] = f"{min(samples[column]):.2f}-{max(samples[column]):.2f}"
            for column in columns[1:]:
                row[column + "_ratio"] = round(row[column + "_ms"] / row["onnxruntime_ms"], 3)
            if predicted is not None:
                row["predicted_over_measured"] = round(predicted / row["optimized_ms"], 3)
            rows.append(row)
            print("  ".join(f"{key} {value}" for key, value in row.items()), flush=True)
            for leftover in (path, optimized, direct):
                if os.path.exists(leftover):
                    os.remove(leftover)
    for column in columns[1:]:
        print(f"geometric mean of {column} over onnxruntime: "
              f"{geometric_mean([row[column + '_ratio'] for row in rows]):.3f}")
    if args.optimized:
        errors = sorted(abs(row["predicted_over_measured"] - 1) for row in rows)
        print(f"error of predicted costs: median {statistics.median(errors):.3f}, worst {errors[-1]:.3f}")
    if args.out:
        write_table(args.out, description, rows)


if __name__ == "__main__":
    main()
