#!/usr/bin/env python3
"""A step of training in half of its activation peak, with a second tier of memory beside it (docs/decisions/074).

    python bench/training/offload.py --rewright build/release/rewright [--out bench/results/offload.csv] [MODEL...]

Wants numpy. For models of the zoo, at the sizes of bench/training/vs_pytorch_training.py, steps are trained in turn with all kept
(`--keep-all`) and under a limit: states and half of what the arena has where all is kept (or `--share`), with a second
tier. Seconds of a step are medians over the steps of all runs but each run's first; losses are compared bit by bit. What
is reached without a second tier is said beside it.
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from table import machine, write_table  # noqa: E402

STEPS, RUNS = 8, 2


def ids(rng, shape, count):
    return rng.integers(0, count, shape)


MODELS = {
    "bert_base": (["--batch", "4", "--sequence-length", "128"], "last_hidden_state", "mean_squared_error",
                  lambda r: {"input_ids": ids(r, (4, 128), 30000), "token_type_ids": ids(r, (4, 128), 2)},
                  lambda r: r.standard_normal((4, 128, 768)).astype(np.float32)),
    "gpt2_small": (["--batch", "2", "--sequence-length", "128"], None, "cross_entropy",
                   lambda r: {"input_ids": ids(r, (2, 128), 50257)}, lambda r: ids(r, (2, 128), 50257)),
}


def write_config(name, args, folder):
    flags, output, loss, inputs, target = MODELS[name]
    subprocess.run([args.rewright, "zoo", name, *flags, "-o", folder / "model.onnx", "--quiet"], check=True)
    rng = np.random.default_rng(1)
    arrays, labels = inputs(rng), target(rng)
    for key, array in {**arrays, "target": labels}.items():
        np.save(folder / f"{key}.npy", array)
    config = {"model": {"onnx": "model.onnx", **({"output": output} if output else {})}, "loss": loss, "steps": STEPS,
              "data": {"inputs": {key: f"{key}.npy" for key in arrays}, "target": "target.npy", "batch": len(labels)},
              "optimizer": {"kind": "adamw", "learning_rate": 1e-4, "weight_decay": 0.01}}
    (folder / "config.json").write_text(json.dumps(config))
    return folder / "config.json"


def train(args, config, *flags):
    run = subprocess.run([args.rewright, "train", config, "--json", "--threads", str(args.threads), *flags],
                         capture_output=True, text=True)
    if run.returncode != 0:
        return {"error": run.stderr.strip().splitlines()[-1]}
    lines = [json.loads(line) for line in run.stdout.splitlines()]
    steps = [line for line in lines if "loss" in line]
    return {"losses": [step["loss"] for step in steps], "seconds": [step["seconds"] for step in steps[1:]],
            "last": lines[-1]}


def measure(name, args):
    with tempfile.TemporaryDirectory() as folder:
        config = write_config(name, args, pathlib.Path(folder))
        kept, tiered = [train(args, config, "--keep-all")], []
        last = kept[0]["last"]
        limit = int(last["state_bytes"] + args.share * last["arena_bytes"])
        alone = train(args, config, "--memory-limit", str(limit))
        for run in range(RUNS):
            tiered.append(train(args, config, "--memory-limit", str(limit), "--second-tier", "4G"))
            if "error" in tiered[-1]:
                raise SystemExit(tiered[-1]["error"])
            if run + 1 < RUNS:
                kept.append(train(args, config, "--keep-all"))
    of = lambda runs: statistics.median(second for run in runs for second in run["seconds"])
    spread = lambda runs: "{:.3f}..{:.3f}".format(*(f(s for run in runs for s in run["seconds"]) for f in (min, max)))
    mb = lambda size: f"{size / 1e6:.1f}"
    least = re.search(r"least that was reached is ([0-9.]+) MB", alone.get("error", ""))
    row = {"model": name, "kept_arena_mb": mb(last["arena_bytes"]), "limit_mb": mb(limit),
           "without_second_tier": f"at least {least.group(1)} MB" if least else "fits",
           "arena_mb": mb(tiered[0]["last"]["arena_bytes"]), "stored_mb": mb(tiered[0]["last"]["stored_bytes"]),
           "kept_s": f"{of(kept):.3f}", "kept_spread": spread(kept), "tiered_s": f"{of(tiered):.3f}",
           "tiered_spread": spread(tiered), "time_ratio": f"{of(tiered) / of(kept):.3f}",
           "same_losses": all(run["losses"] == kept[0]["losses"] for run in kept + tiered)}
    print(row, flush=True)
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("models", nargs="*", metavar="MODEL", default=[], help=", ".join(MODELS))
    parser.add_argument("--rewright", default="build/release/rewright")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--share", type=float, default=0.5, help="of the arena that the limit leaves")
    parser.add_argument("--out")
    args = parser.parse_args()
    rows = [measure(name, args) for name in args.models or MODELS]
    if args.out:
        write_table(args.out, f"{machine()}; {args.threads} threads", rows)


if __name__ == "__main__":
    main()
