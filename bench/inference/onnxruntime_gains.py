#!/usr/bin/env python3
"""What `rewright optimize --for onnxruntime` gains in onnxruntime: the file that was read and the file that was
written, run in turn by onnxruntime's own Python package in one process, on one thread.

    bench/inference/onnxruntime_gains.py --rewright build/release/rewright --out gains.csv MODEL.onnx...

The table in bench/results is of twenty exports that `bench/models/exports.py --keep FOLDER` leaves there.

The times are CPU times of the process, which other processes on the machine disturb less than the clock's; a sample has
so many runs that it lasts two milliseconds. `ratio` is the median over the pairs of written / original: below 1 the
written file is faster; wins and losses are pairs, p the two-sided sign test of their difference. A file that came back
byte for byte is the same file, and is not timed: its ratio is 1. `difference` is the largest between the outputs of the
two, relative to the largest element, `bytes` the size of the written file as a part of the original's. `told` is the
ratio that `optimize` reports. The last lines count the models whose file is slower by the sign test (5 %), larger, and
those for which `told` lies within 3 % of `ratio`.

Rows of a table that is there stay, where machine, versions and settings are the same and another model is run: so each
model can have its own quiet minute.
"""
import argparse
import csv
import json
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnxruntime as ort

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from table import machine, write_table  # noqa: E402


SAMPLE_SECONDS = 0.002


def session_of(path):
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def feeds_of(session):
    rng = np.random.default_rng(1)
    feeds = {}
    for value in session.get_inputs():
        shape = [d if isinstance(d, int) else 1 for d in value.shape]
        kind = value.type[len("tensor("):-1]
        dtype = {"float": "float32", "double": "float64", "bool": "bool"}.get(kind, kind)
        real = "float" in dtype
        feeds[value.name] = (rng.standard_normal(shape) if real else rng.integers(0, 2, shape)).astype(dtype)
    return feeds


def sample(session, feeds, runs):
    begin = time.process_time()
    for _ in range(runs):
        session.run(None, feeds)
    return (time.process_time() - begin) / runs


def sign_test(wins, losses):
    n = wins + losses
    tail = sum(math.comb(n, k) for k in range(max(wins, losses), n + 1)) / 2 ** n
    return min(1.0, 2 * tail)


def timed(original, written, pairs):
    sessions = [session_of(original), session_of(written)]
    feeds = feeds_of(sessions[0])
    outputs = [session.run(None, feeds) for session in sessions]
    difference = max((np.abs(a.astype("float64") - b).max(initial=0) / max(np.abs(a).max(initial=0), 1e-30)
                      for a, b in zip(*outputs) if a.dtype != bool), default=0)
    runs = max(1, round(SAMPLE_SECONDS / max(sample(sessions[0], feeds, 3), 1e-7)))
    samples = [[], []]
    for pair in range(-3, pairs):
        for turn in range(2):
            which = (pair + turn) % 2
            seconds = sample(sessions[which], feeds, runs)
            if pair >= 0:
                samples[which].append(seconds)
    wins = sum(b < a for a, b in zip(*samples))
    losses = sum(b > a for a, b in zip(*samples))
    return {"original_ms": round(statistics.median(samples[0]) * 1e3, 4),
            "written_ms": round(statistics.median(samples[1]) * 1e3, 4),
            "ratio": round(statistics.median(b / a for a, b in zip(*samples)), 3),
            "wins": wins, "losses": losses, "p": f"{sign_test(wins, losses):.2g}", "difference": f"{difference:.2g}"}


def optimized(path, written, args):
    """The row of a model as `optimize` tells it, and whether another file was written."""
    command = [args.rewright, "optimize", path, "-o", written, "--for", "onnxruntime", "--threads", "1", "--time-limit",
               args.time_limit, "--json", "--quiet"] + (["--profile", args.profile] if args.profile else [])
    report = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    row = {"model": name_of(path), "written": report["written"],
           "rewrites": sum(rewrite["count"] for rewrite in report["rewrites"]),
           "bytes": round(os.path.getsize(written) / os.path.getsize(path), 4)}
    if report["written"] == "input":
        with open(path, "rb") as a, open(written, "rb") as b:
            assert a.read() == b.read(), path
        return row | {"told": 1.0}
    return row | {"told": round(1 / float(re.match(r"([\d.]+) times faster", report["verdict"]).group(1)), 3)}


def name_of(path):
    return os.path.splitext(os.path.basename(path))[0]


def kept(path, description):
    """The rows of a table of the same machine, versions and settings, by model."""
    if not path or not os.path.exists(path):
        return {}
    with open(path, newline="") as file:
        if not file.readline().startswith(f"# {description};"):
            return {}
        file.readline()
        return {row["model"]: row for row in csv.DictReader(file)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="MODEL.onnx")
    parser.add_argument("--rewright", default="build/release/rewright")
    parser.add_argument("--pairs", type=int, default=60)
    parser.add_argument("--time-limit", default="40", help="seconds of each search")
    parser.add_argument("--profile", default="", help="profile database, kept between runs")
    parser.add_argument("--out", help="write the table as CSV, or the rows of these models into it")
    args = parser.parse_args()

    version = subprocess.run([args.rewright, "--version"], capture_output=True, text=True).stdout.strip()
    description = (f"{machine().rsplit(';', 1)[0]}; {version}; onnxruntime {ort.__version__}, 1 thread; CPU time, "
                   f"{args.pairs} interleaved pairs; --time-limit {args.time_limit}")
    print("#", description)
    rows = kept(args.out, description)
    with tempfile.TemporaryDirectory() as folder:
        for path in args.models:
            written = os.path.join(folder, "written.onnx")
            row = optimized(path, written, args)
            same = {"ratio": 1.0, "wins": 0, "losses": 0, "p": 1, "difference": 0}
            row |= same if row["written"] == "input" else timed(path, written, args.pairs)
            rows[row["model"]] = row
            print("  ".join(f"{key} {value}" for key, value in row.items()), flush=True)
    every = list(rows.values())
    mean = math.exp(statistics.mean(math.log(float(row["ratio"])) for row in every))
    slower = sum(int(row["losses"]) > int(row["wins"]) and float(row["p"]) < 0.05 for row in every)
    larger = sum(float(row["bytes"]) > 1 for row in every)
    right = sum(abs(float(row["told"]) / float(row["ratio"]) - 1) <= 0.03 for row in every)
    print(f"geometric mean of written / original over {len(every)} models: {mean:.3f}")
    print(f"slower: {slower}; larger: {larger}; reported within 3 % of what is measured here: {right} of {len(every)}")
    if args.out:
        write_table(args.out, f"{description}; geometric mean of ratio {mean:.3f}", every)


if __name__ == "__main__":
    main()
