#!/usr/bin/env python3
"""Latency with all threads over latency with one, while another process keeps every processor busy.

A thread that waits for others at a barrier waits for the whole time slice of whoever has their processor, so that more
threads may be slower than one. Both are run in turns, in processes of their own; a figure is the median over the rounds
of each round's median.

    bench/inference/busy_processor.py --rewright build/release/rewright --out bench/results/busy_processor.csv
"""
import argparse
import contextlib
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from inference.vs_peers import time_ours  # noqa: E402
from table import machine, write_table  # noqa: E402



def spin():
    while True:
        pass


@contextlib.contextmanager
def busy(processors):
    """While it is open, a process keeps each of these processors busy."""
    hogs = [multiprocessing.Process(target=spin, daemon=True) for _ in processors]
    for hog, processor in zip(hogs, processors):
        hog.start()
        os.sched_setaffinity(hog.pid, {processor})
    try:
        yield
    finally:
        for hog in hogs:
            hog.kill()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rewright", default="build/release/rewright")
    parser.add_argument("--models", nargs="*", default=["resnet50", "squeezenet"])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--iterations", type=int, default=30)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--out", help="write the table as CSV")
    args = parser.parse_args()

    processors = sorted(os.sched_getaffinity(0))
    description = f"{machine()}; {args.rounds} rounds of {args.iterations} iterations"
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        paths = {name: os.path.join(folder, name + ".onnx") for name in args.models}
        for name, path in paths.items():
            subprocess.run([args.rewright, "zoo", name, "-o", path, "--quiet"], check=True, stdout=subprocess.DEVNULL)
        for busied in ([], processors):
            with busy(busied):
                for name, path in paths.items():
                    samples = {1: [], len(processors): []}
                    for _ in range(args.rounds):
                        for args.threads in samples:
                            samples[args.threads].append(time_ours(path, args)[1])
                    one, all_threads = (statistics.median(samples[threads]) for threads in samples)
                    rows.append({"model": name, "processors": "busy" if busied else "idle", "one_ms": round(one, 3),
                                 "threads": len(processors), "all_ms": round(all_threads, 3),
                                 "all_over_one": round(all_threads / one, 3)})
                    print("  ".join(f"{key} {value}" for key, value in rows[-1].items()), flush=True)
    if args.out:
        write_table(args.out, description, rows)


if __name__ == "__main__":
    main()
