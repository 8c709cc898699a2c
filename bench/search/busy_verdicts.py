#!/usr/bin/env python3
"""Counts how often `optimize` gives the same verdict beside a process that keeps one processor busy.

    bench/search/busy_verdicts.py --rewright build/release/rewright --out bench/results/busy_verdicts.csv

Each run has an empty profile, so that it measures everything itself. A verdict is that the model was rewritten, that it
was not, or that the machine is too busy to tell; `same` counts the more frequent of the first two and the third.
"""
import argparse
import collections
import contextlib
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from table import machine, write_table  # noqa: E402


def spin():
    while True:
        pass


@contextlib.contextmanager
def busy(processor):
    """While it is open, a process keeps the processor busy."""
    hog = multiprocessing.Process(target=spin, daemon=True)
    hog.start()
    os.sched_setaffinity(hog.pid, {processor})
    try:
        yield
    finally:
        hog.kill()


def verdict_of(args, path):
    command = [args.rewright, "optimize", path, "--json", "--quiet", "--time-limit", str(args.time_limit)]
    report = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    if report["rewritten"]:
        return "rewritten"
    return "too busy to tell" if "too busy to tell" in report["verdict"] else "original"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rewright", default="build/release/rewright")
    parser.add_argument("--models", nargs="*", default=["squeezenet", "nasrnn"])
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--time-limit", type=float, default=20)
    parser.add_argument("--out", help="write the table as CSV")
    args = parser.parse_args()

    rows = []
    with tempfile.TemporaryDirectory() as folder, busy(min(os.sched_getaffinity(0))):
        for name in args.models:
            path = os.path.join(folder, name + ".onnx")
            subprocess.run([args.rewright, "zoo", name, "-o", path, "--quiet"], check=True, stdout=subprocess.DEVNULL)
            counts = collections.Counter(verdict_of(args, path) for _ in range(args.runs))
            untold = counts["too busy to tell"]
            rows.append({"model": name, "runs": args.runs, "rewritten": counts["rewritten"],
                         "original": counts["original"], "too_busy": untold,
                         "same": max(counts["rewritten"], counts["original"]) + untold})
            print("  ".join(f"{key} {value}" for key, value in rows[-1].items()), flush=True)
    if args.out:
        write_table(args.out, f"{machine()}; --time-limit {args.time_limit:g}; one processor is busy", rows)


if __name__ == "__main__":
    main()
