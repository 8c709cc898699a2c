#!/usr/bin/env python3
"""Data parallel on two ranks of one core each, beside PyTorch's DistributedDataParallel over Gloo, interleaved in one
run.

    python bench/parallel/vs_pytorch_ddp.py --rewright build/release/rewright [--out bench/results/vs_pytorch_ddp.csv] [MODEL...]

Wants torch and onnx. The models are those of bench/training/vs_pytorch_training.py and a wide perceptron, with as many samples a
rank as in a batch there says; PyTorch's side is the same architecture in its own modules, in eager mode with the fused
AdamW. Sides take turns of some steps; all others are stopped meanwhile, or wait for a line of their input. `ratio` is
our throughput over PyTorch's: the median over the turns of the ratio of medians. `scaling` is the throughput of our two
ranks over that of one with the same samples a rank, `overlap` over that of two ranks that sum all gradients at the end.
Communication: CPU seconds a step and rank of all threads that do not compute (ours: all but the first; PyTorch's: all
but the first and autograd's, in which buckets are filled).
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
import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from parallel.ranks import Training, Usage  # noqa: E402
from table import machine, write_table  # noqa: E402
from training.training_memory import BertBase, resnet50  # noqa: E402
from training.vs_pytorch_training import MODELS, RATE, Mlp, Own, Torch, Zoo, normal, tokens  # noqa: E402

RANKS = 2


class WideMlp(Mlp):
    def __init__(self):
        torch.nn.Module.__init__(self)
        sizes = [1024, 4096, 4096, 10]
        self.layers = torch.nn.ModuleList(torch.nn.Linear(a, b) for a, b in zip(sizes, sizes[1:]))


# Samples of one rank.
SAMPLES = {
    "wide_mlp": Own("wide_mlp", WideMlp, lambda r: {"x": normal(r, (64, 1024))}, lambda r: tokens(r, (64,), 10)),
    "resnet50": Zoo("resnet50", ["--batch", "4"], resnet50, lambda r: {"input": normal(r, (4, 3, 224, 224))},
                    "cross_entropy", lambda r: tokens(r, (4,), 1000)),
    "bert_base": Zoo("bert_base", MODELS["bert_base"].flags, BertBase, MODELS["bert_base"].inputs,
                     MODELS["bert_base"].loss, MODELS["bert_base"].target, MODELS["bert_base"].output),
}


def ours(model, folder, ranks, args, flags=()):
    """`rewright train` on some ranks."""
    rng = np.random.default_rng(1)
    inputs, target = model.inputs(rng), model.target(rng)
    for name, array in inputs.items():
        np.save(folder / f"{name}.npy", np.concatenate([array] * RANKS))
    np.save(folder / "target.npy", np.concatenate([target] * RANKS))
    config = {"model": {"onnx": "model.onnx"},
              "data": {"inputs": {name: f"{name}.npy" for name in inputs}, "target": "target.npy",
                       "batch": len(target) * ranks, "micro_batches": ranks, "prefetch_threads": 0},
              "loss": model.loss, "optimizer": {"kind": "adamw", "learning_rate": RATE, "weight_decay": 0.01},
              "steps": 1000000}
    if model.output:
        config["model"]["output"] = model.output
    path = folder / f"config{ranks}{len(flags)}.json"
    path.write_text(json.dumps(config))
    return Training(args.rewright, path, ranks, flags)


class Theirs:
    """A process a rank, each of which waits for a line."""

    def __init__(self, name, folder):
        self.ranks = [subprocess.Popen([sys.executable, __file__, "--child", str(rank), "--store", str(folder / "store"),
                                        name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
                      for rank in range(RANKS)]
        self.turn(2)

    def turn(self, steps):
        self.all(1)
        usage = Usage([rank.pid for rank in self.ranks], ("pt_autograd_0",))
        seconds = self.all(steps)
        return seconds, [[value / steps for value in rank] for rank in usage.by_rank()]

    def all(self, steps):
        for rank in self.ranks:
            print(steps, file=rank.stdin, flush=True)
        lines = [rank.stdout.readline() for rank in self.ranks]
        if not all(lines):
            raise SystemExit("a rank of PyTorch's ended")
        return max(map(float, lines))

    def end(self):
        for rank in self.ranks:
            rank.kill()
            rank.wait()


def child(name, rank, store):
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[rank]})
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=RANKS)
    torch.manual_seed(1)
    model, rng = SAMPLES[name], np.random.default_rng(1)
    module = torch.nn.parallel.DistributedDataParallel(model.module())
    side = Torch(model, module, [(model.inputs(rng), model.target(rng))], False)
    for line in sys.stdin:
        print(statistics.median(side.step() for _ in range(int(line))), flush=True)


def compare(name, args):
    model = SAMPLES[name]
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        model.write(args.rewright, str(folder / "model.onnx"))
        sides = {"ours": ours(model, folder, RANKS, args)}
        try:
            sides["ddp"] = Theirs(name, folder)
            if not args.pair:
                sides["one"] = ours(model, folder, 1, args)
                sides["unoverlapped"] = ours(model, folder, RANKS, args, ("--bucket-mb", "1e6"))
            times, used = {side: [] for side in sides}, {side: [] for side in sides}
            for _ in range(args.turns):
                for side, runner in sides.items():
                    seconds, usage = runner.turn(args.steps)
                    times[side].append(seconds)
                    used[side].append(usage)
        finally:
            for runner in sides.values():
                runner.end()
    row = {"model": name, "samples_a_rank": len(model.target(np.random.default_rng(1)))}
    for side in sides:
        row[f"{side}_ms"] = f"{1e3 * statistics.median(times[side]):.4g}"
        row[f"{side}_spread"] = f"{1e3 * min(times[side]):.4g}..{1e3 * max(times[side]):.4g}"

    def gain(side, share=1):
        return f"{statistics.median(b / a for a, b in zip(times['ours'], times[side])) * share:.3f}"

    row["ratio"] = gain("ddp")
    if not args.pair:
        row["scaling"], row["overlap"] = gain("one", RANKS), gain("unoverlapped")
    for side in ("ours", "ddp"):
        communication = [statistics.mean(rest for _, rest in ranks) for ranks in used[side]]
        everything = [statistics.mean(map(sum, ranks)) for ranks in used[side]]
        row[f"{side}_communication_cpu_s"] = f"{statistics.median(communication):.3f}"
        row[f"{side}_cpu_s"] = f"{statistics.median(everything):.3f}"
    print(row, flush=True)
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("models", nargs="*", metavar="MODEL", help=", ".join(SAMPLES))
    parser.add_argument("--rewright", default="build/release/rewright")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--steps", type=int, default=5, help="of a turn")
    parser.add_argument("--pair", action="store_true", help="ours and PyTorch's alone")
    parser.add_argument("--out")
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--store", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child is not None:
        return child(args.models[0], args.child, args.store)
    args.rewright = os.path.abspath(args.rewright)
    rows = [compare(name, args) for name in args.models or SAMPLES]
    if args.out:
        write_table(args.out, f"{machine()}; torch {torch.__version__}; {RANKS} ranks of one core", rows)


if __name__ == "__main__":
    main()
