#!/usr/bin/env python3
"""Memory that ranks take in a step, against what docs/training.md says that they keep. It is the peak of resident
memory in some steps, less that of the same run of the same model with layers of a few numbers: program and libraries.

    python3 bench/parallel/parallel_memory.py [--rewright build/release/rewright] [--out bench/results/parallel_memory.csv]

zero: a perceptron of equal layers with Adam in float32 and hardly an activation, one layer a bucket. `kept_mb` is what
  the table says: a rank's weights, sums of gradients, moments, and for zero 2 and 3 two layers' gradients and weights;
  `start_mb` the peak before, when every rank has the values that the run starts with.
pipeline: layers whose activations outweigh their weights; the first stage of some with some numbers of micro-batches of
  one size. gpipe holds all, so what a micro-batch holds is the slope of its memory between the two largest numbers, and
  the rest follows from the least; `held` is the memory of a run without that rest, in micro-batches.
"""
import argparse
import json
import os
import pathlib
import sys
import tempfile

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from parallel.ranks import Training, ranks_of  # noqa: E402
from table import machine, write_table  # noqa: E402

STEPS = 4
# With zero 0 to 3, bytes of a parameter: those that every rank keeps, and those that are cut. With zero 1 and 2 a rank
# has its blocks of the weights beside all of them.
KEPT = [(16, 0), (8, 12), (4, 16), (0, 16)]
CLASSES = 10


def peaks(args, folder, sizes, samples, micro, layout, flags=()):
    """Of each rank, in bytes: until two steps are done, and in the next ones."""
    rng = np.random.default_rng(1)
    batch = samples * micro
    np.save(folder / "x.npy", rng.standard_normal((batch, sizes[0])).astype("float32"))
    np.save(folder / "target.npy", rng.integers(0, CLASSES, batch))
    config = {"model": {"mlp": {"sizes": [*sizes, CLASSES]}},
              "data": {"inputs": {"x": "x.npy"}, "target": "target.npy", "batch": batch, "micro_batches": micro,
                       "prefetch_threads": 0},
              "loss": "cross_entropy", "optimizer": {"kind": "adamw", "learning_rate": 1e-4}, "steps": 1000000}
    (folder / "config.json").write_text(json.dumps(config))
    run = Training(args.rewright, folder / "config.json", ranks_of(layout), ("--layout", layout, *flags))
    try:
        run.turn(2)
        return run.peak_bytes(STEPS)
    finally:
        run.end()


def zero_rows(args, folder):
    width, layers, samples = 1024, 48, 8
    weight = 4 * width * width
    for ranks in (1, 2, 4):
        for zero in (0, 1, 2, 3) if ranks > 1 else (0,):
            layout = f"dp={ranks}" + (f",zero={zero}" if zero else "")
            flags = ("--bucket-mb", "1")
            start, taken = map(max, peaks(args, folder, [width] * (layers + 1), samples, ranks, layout, flags))
            small_start, small = map(max, peaks(args, folder, [16] * (layers + 1), samples, ranks, layout, flags))
            start -= small_start
            taken -= small
            whole, cut = KEPT[zero]
            kept = (whole + cut / ranks) * layers * weight / 4 + {2: 2, 3: 4}.get(zero, 0) * weight
            yield {"what": "zero", "layout": layout, "micro_batches": ranks,
                   "measured_mb": f"{taken / 1e6:.1f}", "kept_mb": f"{kept / 1e6:.1f}",
                   "of_kept": f"{taken / kept:.3f}", "bytes_a_parameter": f"{taken / (layers * weight / 4):.2f}",
                   "start_mb": f"{start / 1e6:.1f}"}


def pipeline_rows(args, folder):
    width, layers, samples = 128, 16, 8192
    for stages in (2, 4):
        most, taken = 4 * stages, {}
        for schedule in ("gpipe", "1f1b"):
            for micro in (stages, 2 * stages, most):
                layout = f"pp={stages},micro={micro},schedule={schedule}"
                taken[schedule, micro] = peaks(args, folder, [width] * (layers + 1), samples, micro, layout)[1][0]
        unit = (taken["gpipe", most] - taken["gpipe", 2 * stages]) / (most - 2 * stages)
        rest = taken["gpipe", stages] - stages * unit
        for (schedule, micro), measured in taken.items():
            yield {"what": "pipeline", "layout": f"pp={stages},schedule={schedule}", "micro_batches": micro,
                   "measured_mb": f"{measured / 1e6:.1f}", "micro_batch_mb": f"{unit / 1e6:.1f}",
                   "held": f"{(measured - rest) / unit:.2f}",
                   "most": micro if schedule == "gpipe" else min(micro, stages)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rewright", default="build/release/rewright")
    parser.add_argument("--out")
    parser.add_argument("what", nargs="*", default=["zero", "pipeline"])
    args = parser.parse_args()
    args.rewright = os.path.abspath(args.rewright)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for what in args.what:
            for row in {"zero": zero_rows, "pipeline": pipeline_rows}[what](args, pathlib.Path(folder)):
                rows.append(row)
                print(row, flush=True)
    if args.out:
        write_table(args.out, f"{machine()}; the rank that takes most (zero), the first stage (pipeline)", rows)


if __name__ == "__main__":
    main()
