#!/usr/bin/env python3
"""Latency of Rewright's CPU device beside other runtimes, on the same models, in one run.

Every model is made by `rewright zoo`. Each round times, one after the other and in processes of their own, the peers,
our executor on the unrewritten graph and on the graph that `rewright optimize` wrote; with --direct also the graph that
it wrote with no law that allows Winograd's kernels. Peers, as far as they are installed:

onnxruntime  all optimizations, one thread pool of --threads
openvino     latency hint, f32, one stream, --threads
torch        torch.compile with freezing and max-autotune of what onnx2torch makes of the file (asked for by --peers)

A figure is the least time of all rounds, the spread the range of the rounds' medians. `ratio`: optimized over the best
peer's figure, less than 1 where ours is faster. DNNL_MAX_CPU_ISA=AVX2 in the environment holds our side to that
instruction set, ONEDNN_MAX_CPU_ISA=AVX2 OpenVINO's.

    bench/inference/vs_peers.py --rewright build/release/rewright --out results.csv
"""
import argparse
import importlib.util
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

# A peer's program: `prepare(path, threads)` returns the inputs' names with shapes and types, and a function that runs
# the model on arrays by name.
FRAME = r"""
import json, sys, time
import numpy as np
path, threads, iterations, warmup = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
inputs, run = prepare(path, threads)
rng = np.random.default_rng(1)
feeds = {}
for name, shape, dtype in inputs:
    feeds[name] = (rng.integers(0, 2, shape) if np.issubdtype(dtype, np.integer) else rng.standard_normal(shape)).astype(dtype)
for _ in range(warmup):
    run(feeds)
times = []
for _ in range(iterations):
    begin = time.perf_counter()
    run(feeds)
    times.append((time.perf_counter() - begin) * 1e3)
print(json.dumps(times))
"""
PEERS = {
    "onnxruntime": r"""
def prepare(path, threads):
    import numpy as np
    import onnxruntime as ort
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    types = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}
    inputs = [(v.name, [d if isinstance(d, int) else 1 for d in v.shape], types.get(v.type, np.float32))
              for v in session.get_inputs()]
    return inputs, lambda feeds: session.run(None, feeds)
""",
    "openvino": r"""
def prepare(path, threads):
    import openvino as ov
    core = ov.Core()
    compiled = core.compile_model(path, "CPU", {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32",
                                                "INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1})
    request = compiled.create_infer_request()
    inputs = [(v.get_any_name(), list(v.get_shape()), v.get_element_type().to_dtype()) for v in compiled.inputs]
    return inputs, lambda feeds: request.infer(feeds, share_inputs=True, share_outputs=True)
""",
    "torch": r"""
def prepare(path, threads):
    import numpy as np
    import onnx
    import onnx2torch
    import torch
    import torch._inductor.config
    torch.set_num_threads(threads)
    torch._inductor.config.freezing = True
    model = onnx.load(path)
    module = torch.compile(onnx2torch.convert(model).eval(), mode="max-autotune")
    known = {one.name for one in model.graph.initializer}
    inputs = [(v.name, [d.dim_value or 1 for d in v.type.tensor_type.shape.dim],
               onnx.helper.tensor_dtype_to_np_dtype(v.type.tensor_type.elem_type))
              for v in model.graph.input if v.name not in known]
    def run(feeds):
        with torch.inference_mode():
            module(*[torch.from_numpy(feed) for feed in feeds.values()])
    return inputs, run
""",
}


def time_peer(peer, path, args):
    command = [sys.executable, "-c", PEERS[peer] + FRAME, path, str(args.threads), str(args.iterations), str(args.warmup)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        print(f"# {peer} refuses {os.path.basename(path)}: {(done.stderr.strip() or '?').splitlines()[-1][:160]}")
        return None
    times = json.loads(done.stdout.splitlines()[-1])
    return min(times), statistics.median(times)


def no_winograd():
    """Flags that switch off every law of winograd.rules."""
    with open(LAWS) as file:
        return [word for line in file if line.startswith("rule ") for word in ("--disable-kernel-law", line.split()[1])]


def optimize(path, to, args, flags=()):
    """The cost that the search predicts for the graph that it wrote, in milliseconds."""
    command = [args.rewright, "optimize", path, "-o", to, "--profile", args.profile, "--threads", str(args.threads),
               "--json", "--quiet", *flags]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["cost_after_ms"]


def time_ours(path, args, flags=()):
    """The least and the median time, in milliseconds."""
    command = [args.rewright, "run", path, "--threads", str(args.threads), "--iterations", str(args.iterations),
               "--warmup", str(args.warmup), "--json", "--quiet", *flags]
    latency = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["latency_ms"]
    return latency["min"], latency["median"]


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def describe_run(args):
    versions = []
    for peer in args.peers:
        module = importlib.import_module(peer)
        versions.append(f"{peer} {module.__version__}")
    return (f"{machine()}; {', '.join(versions)}; {args.threads} threads, batch 1, {args.rounds} rounds of "
            f"{args.iterations} iterations, the least of all")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rewright", default="build/release/rewright")
    parser.add_argument("--models", nargs="*", default=MODELS)
    parser.add_argument("--peers", nargs="*", choices=list(PEERS),
                        default=[peer for peer in ("onnxruntime", "openvino") if importlib.util.find_spec(peer)])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--direct", action="store_true", help="also time graphs without Winograd's kernels")
    parser.add_argument("--profile", default="build/vs_peers.db", help="profile database of optimize")
    parser.add_argument("--keep", help="keep rewritten models in this folder, and time those that it has")
    parser.add_argument("--out", help="write the table as CSV")
    args = parser.parse_args()

    laws = no_winograd()
    description = describe_run(args)
    print("#", description)
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        for name in args.models:
            folder = args.keep or temporary
            path, optimized, direct = (os.path.join(folder, name + end) for end in (".onnx", ".opt.onnx", ".direct.onnx"))
            predicted = None
            if not os.path.exists(optimized):
                subprocess.run([args.rewright, "zoo", name, "-o", path, "--quiet"], check=True, stdout=subprocess.DEVNULL)
                predicted = optimize(path, optimized, args)
            if args.direct:
                optimize(path, direct, args, laws)
            ways = {peer: lambda peer=peer: time_peer(peer, path, args) for peer in args.peers}
            ways["rewright"] = lambda: time_ours(path, args)
            ways["optimized"] = lambda: time_ours(optimized, args)
            if args.direct:
                ways["direct"] = lambda: time_ours(direct, args, laws)
            samples = {way: [] for way in ways}
            for _ in range(args.rounds):
                for way, measure in ways.items():
                    if None not in samples[way]:
                        samples[way].append(measure())
            row = {"model": name}
            for way, times in samples.items():
                if None in times:
                    row[way + "_ms"] = row[way + "_range_ms"] = ""
                    continue
                medians = [median for _, median in times]
                row[way + "_ms"] = round(min(least for least, _ in times), 3)
                row[way + "_range_ms"] = f"{min(medians):.2f}-{max(medians):.2f}"
            told = [row[peer + "_ms"] for peer in args.peers if row[peer + "_ms"]]
            if told:
                row["ratio"] = round(row["optimized_ms"] / min(told), 3)
            if predicted is not None:
                row["predicted_over_measured"] = round(predicted / row["optimized_ms"], 3)
            rows.append(row)
            print("  ".join(f"{key} {value}" for key, value in row.items()), flush=True)
            for leftover in (path, optimized, direct):
                if not args.keep and os.path.exists(leftover):
                    os.remove(leftover)
    for peer in args.peers:
        ratios = [row["optimized_ms"] / row[peer + "_ms"] for row in rows if row[peer + "_ms"]]
        if ratios:
            print(f"geometric mean of optimized over {peer}: {geometric_mean(ratios):.3f} ({len(ratios)} models)")
    ratios = [row["ratio"] for row in rows if "ratio" in row]
    if ratios:
        print(f"geometric mean of optimized over the best peer of each: {geometric_mean(ratios):.3f}")
    errors = sorted(abs(row["predicted_over_measured"] - 1) for row in rows if "predicted_over_measured" in row)
    if errors:
        print(f"error of predicted costs: median {statistics.median(errors):.3f}, worst {errors[-1]:.3f}")
    if args.out:
        write_table(args.out, description, rows)


if __name__ == "__main__":
    main()
