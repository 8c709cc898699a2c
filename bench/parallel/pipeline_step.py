#!/usr/bin/env python3
"""A step of a pipeline of two stages, one core each, against the least that its schedule allows.

    python3 bench/parallel/pipeline_step.py [--rewright build/release/rewright] [--out FILE.csv] [MODEL...]

With m micro-batches and p stages the slower stage computes for (m + p - 1) / m of its own time if nothing else is
waited for, with C chunks a rank for (m + (p - 1) / C) / m. That is `bound_ms`; `over_bound` is the step over it.
A stage's own time is what the thread that computes uses of its processor in a step, the update included; of the two
ranks `slower_ms` is that of the slower one. `speedup` is over one rank with the same micro-batches in turns of the same
run; `most_speedup` is p m / (m + (p - 1) / C), where both stages take half of its time. Costs of the operators, by
which stages are cut, are measured. Medians of turns; in brackets their range.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from parallel.ranks import Training, ranks_of  # noqa: E402
from table import machine, write_table  # noqa: E402

MICRO = 8
SCHEDULES = {"1f1b": 1, "gpipe": 1, "interleaved": 2}  # chunks of a rank
# A micro-batch of each model: architecture, arrays, loss. Models of the zoo have flags, others are built in.
MODELS = {
    "mlp": {"built_in": {"mlp": {"sizes": [1024] * 12 + [10]}}, "samples": 64, "inputs": {"x": ((1024,), None)},
            "target": ((), 10), "loss": "cross_entropy"},
    "gpt": {"built_in": {"gpt": {"vocabulary": 1024, "length": 64, "width": 256, "heads": 4, "layers": 8}},
            "samples": 8, "inputs": {"x": ((64,), 1024)}, "target": ((64,), 1024), "loss": "cross_entropy"},
    "resnet50": {"zoo": ["resnet50"], "samples": 4, "inputs": {"input": ((3, 224, 224), None)}, "target": ((), 1000),
                 "loss": "cross_entropy"},
    "bert_base": {"zoo": ["bert_base", "--sequence-length", "128"], "samples": 2,
                  "inputs": {"input_ids": ((128,), 30000), "token_type_ids": ((128,), 2)},
                  "target": ((128, 768), None), "loss": "mean_squared_error", "output": "last_hidden_state"},
}


def save(path, rng, samples, shape, most):
    """Token numbers below `most`, else normal numbers."""
    shape = (samples, *shape)
    np.save(path, rng.integers(0, most, shape) if most else rng.standard_normal(shape).astype("float32"))


def write_config(name, folder, args):
    model, rng = MODELS[name], np.random.default_rng(1)
    samples = model["samples"] * MICRO
    for tensor, (shape, most) in model["inputs"].items():
        save(folder / f"{tensor}.npy", rng, samples, shape, most)
    save(folder / "target.npy", rng, samples, *model["target"])
    config = {"data": {"inputs": {tensor: f"{tensor}.npy" for tensor in model["inputs"]}, "target": "target.npy",
                       "batch": samples, "micro_batches": MICRO},
              "loss": model["loss"], "optimizer": {"kind": "adamw", "learning_rate": 1e-4, "weight_decay": 0.01},
              "steps": 1000000}
    if "zoo" in model:
        subprocess.run([args.rewright, "zoo", *model["zoo"], "--batch", str(model["samples"]), "-o",
                        folder / "model.onnx", "--quiet"], check=True)
        config["model"] = {"onnx": "model.onnx"} | ({"output": model["output"]} if "output" in model else {})
    else:
        config["model"] = model["built_in"]
    path = folder / "config.json"
    path.write_text(json.dumps(config))
    return path


def spread(seconds):
    return f"{1e3 * statistics.median(seconds):.4g} [{1e3 * min(seconds):.4g}..{1e3 * max(seconds):.4g}]"


def compare(name, args):
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        config = write_config(name, folder, args)
        sides = {"one": Training(args.rewright, config, 1)}
        try:
            for schedule in args.schedules:
                layout = f"pp=2,micro={MICRO},schedule={schedule}"
                sides[schedule] = Training(args.rewright, config, ranks_of(layout),
                                           ("--layout", layout, "--profile", str(folder / "profile.db")))
            turns = {side: [] for side in sides}
            for _ in range(args.turns):
                for side, run in sides.items():
                    turns[side].append(run.turn(args.steps))
        finally:
            for run in sides.values():
                run.end()
    rows = []
    for schedule in args.schedules:
        share = (MICRO + 1 / SCHEDULES[schedule]) / MICRO  # of p = 2
        steps = [seconds for seconds, _ in turns[schedule]]
        slower = [max(computes for computes, _ in ranks) for _, ranks in turns[schedule]]
        other = [min(computes for computes, _ in ranks) for _, ranks in turns[schedule]]
        rows.append({
            "model": name, "samples_of_micro_batch": MODELS[name]["samples"], "schedule": schedule,
            "step_ms": spread(steps), "slower_ms": spread(slower), "other_ms": spread(other),
            "bound_ms": f"{1e3 * share * statistics.median(slower):.4g}",
            "over_bound": f"{statistics.median(a / (share * b) for a, b in zip(steps, slower)):.3f}",
            "one_rank_ms": spread([seconds for seconds, _ in turns["one"]]),
            "speedup": f"{statistics.median(one / step for (one, _), step in zip(turns['one'], steps)):.3f}",
            "most_speedup": f"{2 / share:.3f}"})
        print(rows[-1], flush=True)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help=", ".join(MODELS))
    parser.add_argument("--rewright", default="build/release/rewright")
    parser.add_argument("--schedules", nargs="+", default=["1f1b"], choices=SCHEDULES)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--steps", type=int, default=3, help="of a turn")
    parser.add_argument("--out")
    args = parser.parse_args()
    args.rewright = os.path.abspath(args.rewright)
    rows = [row for name in args.models or MODELS for row in compare(name, args)]
    if args.out:
        write_table(args.out, f"{machine()}; 2 ranks of one core, {MICRO} micro-batches", rows)


if __name__ == "__main__":
    main()
