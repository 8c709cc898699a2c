#!/usr/bin/env python3
"""Bytes that every rank sends in a step of training, counted by Open MPI's own monitoring, against what its plan says,
in layouts of all kinds on 2, 3 and 4 ranks. What is sent once (at the start and the end) is taken off by the difference
of two runs, of which one has twice the steps.

    python3 bench/parallel/train_bytes.py --out bench/results/train_bytes.csv

Where a layout has a formula that knows nothing of the plan, it is held against that, too: data parallel, ZeRO 1 and 2
send 2 (N - 1) / N of the bytes of the gradients, ZeRO 3 at most 3 (N - 1) / N, with one micro-batch a rank. It fails
where a rank is off its plan by more than 2 %, and says how far the worst is over the formula.
"""
import argparse
import csv
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from parallel.ranks import ENVIRONMENT, ranks_of  # noqa: E402


ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "tools/examples"
STEPS = 4
OPTIMIZER = {"kind": "adamw", "learning_rate": 0.01, "weight_decay": 0.01}
MLP = {
    "model": {"mlp": {"sizes": [64, 240, 120, 240, 12]},
              "places": {"layer0.weight": 1, "layer0.bias": 0, "layer1.weight": 0,
                         "layer2.weight": 1, "layer2.bias": 0, "layer3.weight": 0}},
    "data": {"inputs": {"x": {"file": str(EXAMPLES / "digits/train_x.npy"), "scale": 0.0625}},
             "target": str(EXAMPLES / "digits/train_y.npy"), "batch": 240},
    "loss": "cross_entropy", "optimizer": OPTIMIZER}
GPT = {
    "model": {"gpt": {"vocabulary": 128, "length": 24, "width": 48, "heads": 4, "layers": 2},
              "places": {"*.expand.weight": 1, "*.expand.bias": 0, "*.contract.weight": 0}},
    "data": {"inputs": {"x": {"file": str(EXAMPLES / "characters/train.txt"), "tokens": {"stride": 24}}},
             "target": {"file": str(EXAMPLES / "characters/train.txt"), "tokens": {"stride": 24, "shift": 1}},
             "batch": 24},
    "loss": "cross_entropy", "optimizer": dict(OPTIMIZER, clip_norm=1)}
LAYOUTS = [f"dp={n}{zero}" for n in (2, 3, 4) for zero in ("", ",zero=1", ",zero=2", ",zero=3")] + [
    "tp=2", "tp=3", "tp=4", "pp=2", "pp=3", "pp=4", "pp=2,schedule=gpipe", "pp=2,schedule=interleaved",
    "dp=2,tp=2", "dp=2,tp=2,zero=1", "dp=2,tp=2,zero=2", "dp=2,tp=2,zero=3", "tp=2,zero=1", "tp=2,zero=3",
    "dp=2,pp=2", "dp=2,pp=2,zero=1", "dp=2,pp=2,zero=2", "dp=2,pp=2,zero=3", "dp=2,pp=2,zero=3,schedule=interleaved",
    "pp=2,tp=2"]
SEQUENCES = dict(GPT, model={"gpt": GPT["model"]["gpt"]})  # which cp cuts, in the place of weights
OF_SEQUENCES = ["cp=2", "cp=3", "dp=2,cp=2", "cp=2,zero=3"]


def sent(file):
    """Returns the bytes of the program's messages in the file of one rank; MPI's own are left out."""
    return sum(int(line.split()[3]) for line in file.read_text().splitlines() if line.startswith("E\t"))


def run(args, model, layout, steps, micro, folder):
    """The bytes that each rank sent, and the last line of the program."""
    config = folder / "config.json"
    config.write_text(json.dumps(dict(model, steps=steps)))
    counts = folder / "counts"
    ranks = ranks_of(layout)
    outcome = subprocess.run(
        ["mpirun", "--oversubscribe", "-n", str(ranks), "--mca", "pml_monitoring_enable", "1", "--mca",
         "pml_monitoring_enable_output", "3", "--mca", "pml_monitoring_filename", counts, args.program, "train",
         "--threads", "1", "--json", "--quiet", "--layout", f"{layout},micro={micro}", config],
        env=ENVIRONMENT, capture_output=True, text=True)
    if outcome.returncode != 0:
        sys.exit(f"{layout}: {outcome.stderr}")
    bytes_of = [sent(pathlib.Path(f"{counts}.{rank}.prof")) for rank in range(ranks)]
    return bytes_of, json.loads(outcome.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=ROOT / "build/release/rewright", type=pathlib.Path)
    parser.add_argument("--layouts", help="only those that match this regular expression")
    parser.add_argument("--out", type=pathlib.Path)
    args = parser.parse_args()
    rows, worst, over = [], 0, 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for kind, model, layouts in (("mlp", MLP, LAYOUTS), ("gpt", GPT, LAYOUTS), ("gpt", SEQUENCES, OF_SEQUENCES)):
            for layout in layouts:
                if args.layouts and not re.search(args.layouts, layout):
                    continue
                ranks = ranks_of(layout)
                plain = re.fullmatch(r"dp=\d(,zero=\d)?", layout)
                micro = ranks if plain else 1 if re.fullmatch(r"[tc]p=\d", layout) else 6
                once, _ = run(args, model, layout, STEPS, micro, folder)
                twice, last = run(args, model, layout, 2 * STEPS, micro, folder)
                gradients = last["state_bytes"] // 3  # a weight and two moments each
                share = 3 if layout.endswith("zero=3") else 2
                for rank in range(ranks):
                    counted = (twice[rank] - once[rank]) / STEPS
                    planned = last["planned_bytes_of_step"][rank]
                    off = 100 * (counted / planned - 1)
                    of_formula = counted / (share * (ranks - 1) / ranks * gradients)
                    worst = max(worst, abs(off))
                    over = max(over, 100 * (of_formula - 1) if plain else 0)
                    rows.append({"model": kind, "layout": layout, "micro_batches": micro, "rank": rank,
                                 "counted_bytes_of_step": f"{counted:.0f}", "planned": planned,
                                 "deviation_percent": f"{off:.2f}",
                                 "of_formula": f"{of_formula:.3f}" if plain else ""})
                    print(rows[-1], flush=True)
    print(f"{len(rows)} ranks, largest deviation from the plan {worst:.2f} %, most over the formula {over:.1f} %")
    if args.out:
        with open(args.out, "w", newline="") as file:
            writer = csv.DictWriter(file, rows[0].keys())
            writer.writeheader()
            writer.writerows(rows)
    sys.exit(worst > 2)


if __name__ == "__main__":
    main()
