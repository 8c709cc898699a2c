#!/usr/bin/env python3
"""What the search finds and what it takes: `rewright optimize` on models of the zoo, with costs by formula.

    bench/search/search_bench.py taso      the graphs that TASO is timed on, beside what TASO finds on the same formula
    bench/search/search_bench.py growth    transformers of 1 to 96 layers, medians of three runs
    bench/search/search_bench.py random    a random graph of 10,000 operators, on one and on two threads
    bench/search/search_bench.py gap       by windows beside as a whole, every model that has under 200 nodes or has with two layers
    bench/search/search_bench.py determinism   20 runs on one and on two threads, half of them on a machine under load
    bench/search/search_bench.py strategies   backtrack, greedy and eqsat side by side on the zoo
    bench/search/search_bench.py rules     hand-written and generated rule sets on the zoo
    bench/search/search_bench.py block     a residual block on described devices: which graph is the cheapest where

Every row is a process of its own; search time is CPU time, memory is the process's peak without the weights. A second
process checks the outputs against the original's where --check is given.
"""
import argparse
import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from table import machine, write_table  # noqa: E402


# Cost before and after by TASO's own search, in ms, under the formula of analytic:v100 (Jia et al., SOSP'19, run by us
# on its published rules with alpha 1.05). NasNet-A: 5.6742 rests on merges of grouped convolutions that are not equal.
TASO = {
    "taso_bert": (0.7409, 0.5216, 0.2),
    "taso_nasrnn": (1.2194, 0.9042, 0.5),
    "taso_resnet50": (1.4597, 1.4547, 0.2),
    "taso_resnext50": (1.5404, 1.5350, 0.2),
    "taso_nasnet_a": (None, 5.6742, 2.0),
}


class Program:
    def __init__(self, path, folder):
        self.path, self.folder = path, folder

    def json(self, *arguments):
        command = [self.path, *map(str, arguments), "--json", "--quiet"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode not in (0, 1):
            sys.exit(f"{' '.join(command)}: status {done.returncode} {done.stderr.strip()}")
        return json.loads(done.stdout)

    def model(self, name, **sizes):
        path = os.path.join(self.folder, "-".join([name, *map(str, sizes.values())]) + ".onnx")
        flags = [text for key, value in sizes.items() for text in (f"--{key}", str(value))]
        made = self.json("zoo", name, "-o", path, *flags)
        return path, made["parameters"] * 4

    def optimize(self, model, cost, *flags):
        path, weights = model
        found = self.json("optimize", path, "-o", os.path.join(self.folder, "optimized.onnx"), "--cost",
                          f"analytic:{cost}", *flags)
        found["search_mb"] = max(0, found["peak_rss_bytes"] - weights) / 1e6
        return found


def row_of(name, cost, found):
    return {"model": name, "device": cost, "nodes": found["nodes_before"], "nodes_after": found["nodes_after"],
            "before_ms": round(found["cost_before_ms"], 4), "after_ms": round(found["cost_after_ms"], 4),
            "cpu_s": round(found["search_cpu_seconds"], 3), "memory_mb": round(found["search_mb"])}


def thrice(program, model, cost, *flags):
    """The run with the median search time, as a row with the spread."""
    runs = sorted((program.optimize(model, cost, *flags) for _ in range(3)), key=lambda found: found["search_cpu_seconds"])
    return {"cpu_s_least": round(runs[0]["search_cpu_seconds"], 3),
            "cpu_s_most": round(runs[2]["search_cpu_seconds"], 3)}, runs[1]


def taso(program, args):
    for name, (before, after, seconds) in TASO.items():
        if args.models and name not in args.models:
            continue
        model = program.model(name)
        for cost in ("v100", "v100-strict"):
            spread, found = thrice(program, model, cost, "--alpha", "1.05", "--no-check")
            row = row_of(name, cost, found) | spread
            row |= {"taso_before_ms": before if cost == "v100" else None,
                    "taso_after_ms": after if cost == "v100" else None, "most_cpu_s": seconds}
            if args.check:
                row["equal"] = program.optimize(model, cost, "--alpha", "1.05")["equal"]
            yield row


def growth(program, args):
    for name in args.models or ("bert_base", "gpt2_small"):
        for layers in (1, 12, 48, 96):
            model = program.model(name, layers=layers)
            spread, found = thrice(program, model, "v100", "--no-check")
            yield row_of(f"{name} {layers}", "v100", found) | spread
            for file in os.listdir(program.folder):  # gigabytes of weights
                os.remove(os.path.join(program.folder, file))


def random(program, args):
    for seed in (1, 2, 3):
        model = program.model("random_layered", seed=seed)
        for threads in (1, 2):
            found = program.optimize(model, "v100", "--threads", threads, *([] if args.check else ["--no-check"]))
            yield row_of(f"random_layered seed {seed}", "v100", found) | {
                "threads": threads, "wall_s": round(found["search_seconds"], 2), "end": found["search_end"],
                "equal": found["equal"] if args.check else None}


def gap(program, args):
    for name in (entry["name"] for entry in program.json("zoo")["models"]):
        # Models of more nodes than that count with two of their layers, steps or cells.
        sizes = {"layers": 2} if name in ("bert_base", "gpt2_small", "nasrnn", "taso_nasrnn", "random_layered") else {}
        model = program.model(name, **sizes)
        if program.json("inspect", model[0])["nodes"] < 300:
            whole = program.optimize(model, "v100", "--windows", "never", "--no-check")
            windows = program.optimize(model, "v100", "--windows", "always", "--no-check")
            yield {"model": f"{name} 2" if sizes else name, "nodes": whole["nodes_before"],
                   "before_ms": round(whole["cost_before_ms"], 4), "whole_ms": round(whole["cost_after_ms"], 4),
                   "windows_ms": round(windows["cost_after_ms"], 4),
                   "gap_percent": round(100 * (windows["cost_after_ms"] / whole["cost_after_ms"] - 1), 3),
                   "whole_cpu_s": round(whole["search_cpu_seconds"], 3),
                   "windows_cpu_s": round(windows["search_cpu_seconds"], 3)}
        for file in os.listdir(program.folder):
            os.remove(os.path.join(program.folder, file))


def determinism(program, args):
    """Each run's output file, to the byte; in every second pair of runs two other processes keep the machine busy."""
    for name, sizes in (("random_layered", {"layers": 60}), ("taso_nasnet_a", {}), ("squeezenet", {})):
        model = program.model(name, **sizes)
        files, seconds = set(), {1: [], 2: []}
        for run in range(20):
            threads = 1 + run % 2
            load = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * (run // 2 % 2))]
            try:
                found = program.optimize(model, "v100", "--threads", threads, "--budget", 300, "--no-check")
            finally:
                for process in load:
                    process.kill()
                    process.wait()
            if not load:
                seconds[threads].append(found["search_seconds"])
            with open(os.path.join(program.folder, "optimized.onnx"), "rb") as file:
                files.add(hashlib.sha256(file.read()).hexdigest())
        yield {"model": name, "runs": 20, "different_results": len(files),
               "wall_s_1_thread": round(statistics.median(seconds[1]), 3),
               "wall_s_2_threads": round(statistics.median(seconds[2]), 3)}


def block(program, args):
    for name in ("residual_block",):
        model = program.model(name)
        for cost in ("k80", "v100-roofline", "h200", "zen3"):
            found = program.optimize(model, cost, "--assume-finite")  # a grown kernel multiplies by zeros
            yield row_of(name, cost, found) | {
                "rewrites": " ".join(f"{r['count']}x{r['rule']}" for r in found["rewrites"])}


ZOO = ["taso_bert", "taso_nasrnn", "taso_resnet50", "taso_resnext50", "taso_nasnet_a", "squeezenet", "vgg19", "resnet50",
       "resnext50", "inception_v3", "mobilenet_v2", "bert_base", "gpt2_small", "nasnet_a", "nasrnn", "residual_block",
       "mlp"]


def strategies(program, args):
    for name in args.models or ZOO:
        model = program.model(name)
        for strategy in ("backtrack", "greedy", "eqsat"):
            found = program.optimize(model, "v100", "--search", strategy, "--no-check")
            row = row_of(name, "v100", found)
            yield {"model": row.pop("model"), "strategy": strategy} | row | {
                "gain": round(found["cost_before_ms"] / found["cost_after_ms"], 4), "steps": found["steps"]}
        for file in os.listdir(program.folder):
            os.remove(os.path.join(program.folder, file))


GENERATED = ["linear", "conv", "reduce-softmax", "elementwise", "shape", "definitions"]


def rules(program, args):
    """Costs with core.rules, with the generated files in its place, and with all.rules, which is made of both."""
    generated = [flag for name in GENERATED for flag in ("--rules", name)]  # made by the target rule_sets
    core, combined = ["--rules", "core"], ["--rules", "all"]
    for name in args.models or ZOO:
        model = program.model(name)
        row = {"model": name, "device": "v100"}
        for label, flags in (("core", core), ("generated", generated), ("all", combined)):
            found = program.optimize(model, "v100", "--alpha", "1.05", "--time-limit", 60, "--no-check", *flags)
            row |= {"before_ms": round(found["cost_before_ms"], 4), f"{label}_ms": round(found["cost_after_ms"], 4),
                    f"{label}_cpu_s": round(found["search_cpu_seconds"], 3)}
        yield row
        for file in os.listdir(program.folder):
            os.remove(os.path.join(program.folder, file))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["taso", "growth", "random", "gap", "determinism", "strategies", "block", "rules"])
    parser.add_argument("--models", nargs="+", help="taso, growth, strategies, rules: only these")
    parser.add_argument("--rewright", default="build/release/rewright")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--out", help="write the table as CSV")
    args = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for row in globals()[args.part](Program(args.rewright, folder), args):
            rows.append(row)
            print("  ".join(f"{key} {value}" for key, value in row.items()), flush=True)
    if args.out:
        write_table(args.out, machine(), rows)


if __name__ == "__main__":
    main()
