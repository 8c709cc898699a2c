#!/usr/bin/env python3
"""The memory of a step of training: what is planned, what a process takes beside PyTorch's eager mode, and what a limit
costs in time.

    python bench/training/training_memory.py --rewright build/release/rewright [--out bench/results/training_memory.csv] [MODEL...]

Wants torch and onnx; the models are those of bench/training/vs_pytorch_training.py. PyTorch's side is the same architecture in
its own modules, with its own weights: what they are changes no memory. Planned: activations and gradients in the arena,
against the largest sum of live tensors, states (weights, AdamW's moments) added to both. Processes: the largest resident
memory of a process that trains some steps, of PyTorch's less what it had before there was a model. Four ways: all is kept
(`--keep-all`), what is free is computed again (the default), under a limit, states and half of what the arena has
where all is kept (or `--share`; where that cannot be reached, what is said), and under that limit with a second tier.
Losses are compared bit by bit; the CPU time of a step is from runs of two lengths, so that the start does not count. That
of the thread that copies counts.
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import numpy as np
import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from table import machine, write_table  # noqa: E402
from training.vs_pytorch_training import MODELS, RATE, Torch  # noqa: E402

STEPS = 3, 8  # two lengths of a run


def resident(pid="self", which="VmRSS"):
    """0 where the process has ended."""
    found = re.search(which + r":\s*(\d+) kB", pathlib.Path(f"/proc/{pid}/status").read_text())
    return int(found.group(1)) * 1024 if found else 0


def usage_of(command):
    """Output, largest resident bytes and CPU seconds of a process. (What wait4 calls its largest resident memory is
    never less than that of the process that started it.)"""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = subprocess.Popen(command, stdout=out, stderr=err)
        peak = 0
        while True:
            peak = max(peak, resident(process.pid, "VmHWM"))
            pid, status, used = os.wait4(process.pid, os.WNOHANG)
            if pid != 0:
                break
            time.sleep(0.02)
        process.returncode = os.waitstatus_to_exitcode(status)
        for file in (out, err):
            file.seek(0)
        return process.returncode, out.read(), err.read(), peak, used.ru_utime + used.ru_stime


def train(args, config, steps, *flags):
    path = config.parent / f"{steps}.json"
    path.write_text(json.dumps({**json.loads(config.read_text()), "steps": steps}))
    status, out, err, peak, seconds = usage_of(
        [args.rewright, "train", str(path), "--json", "--threads", str(args.threads), *flags])
    if status != 0:
        return {"error": err.strip().splitlines()[-1]}
    lines = [json.loads(line) for line in out.splitlines()]
    return {"losses": [line["loss"] for line in lines if "loss" in line], "last": lines[-1], "peak": peak,
            "seconds": seconds, "notes": err}


def write_config(model, args, folder):
    model.write(args.rewright, str(folder / "model.onnx"))
    rng = np.random.default_rng(1)
    inputs, target = model.inputs(rng), model.target(rng)
    for name, array in inputs.items():
        np.save(folder / f"{name}.npy", array)
    np.save(folder / "target.npy", target)
    config = {"model": {"onnx": "model.onnx"},
              "data": {"inputs": {name: f"{name}.npy" for name in inputs}, "target": "target.npy",
                       "batch": len(target)},
              "loss": model.loss,
              "optimizer": {"kind": "adamw", "learning_rate": RATE, "weight_decay": 0.01}, "steps": 1}
    if model.output:
        config["model"]["output"] = model.output
    (folder / "config.json").write_text(json.dumps(config))
    return folder / "config.json"




class Bottleneck(torch.nn.Module):
    def __init__(self, channels, width, stride):
        super().__init__()
        out = 4 * width

        def conv(a, b, kernel, step=1):
            return [torch.nn.Conv2d(a, b, kernel, step, kernel // 2, bias=False), torch.nn.BatchNorm2d(b)]

        relu = torch.nn.ReLU(inplace=True)
        self.main = torch.nn.Sequential(*conv(channels, width, 1), relu, *conv(width, width, 3, stride), relu,
                                        *conv(width, out, 1))
        same = stride == 1 and channels == out
        self.side = torch.nn.Identity() if same else torch.nn.Sequential(*conv(channels, out, 1, stride))

    def forward(self, x):
        return torch.relu_(self.main(x) + self.side(x))


def resnet50():
    layers = [torch.nn.Conv2d(3, 64, 7, 2, 3, bias=False), torch.nn.BatchNorm2d(64), torch.nn.ReLU(inplace=True),
              torch.nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for stage, (width, blocks) in enumerate([(64, 3), (128, 4), (256, 6), (512, 3)]):
        for block in range(blocks):
            layers.append(Bottleneck(channels, width, 2 if stage > 0 and block == 0 else 1))
            channels = 4 * width
    return torch.nn.Sequential(*layers, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(),
                               torch.nn.Linear(channels, 1000))


class BertBase(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = torch.nn.Embedding(30522, 768), torch.nn.Embedding(512, 768)
        self.kinds, self.norm = torch.nn.Embedding(2, 768), torch.nn.LayerNorm(768)
        layer = torch.nn.TransformerEncoderLayer(768, 12, 3072, dropout=0.0, activation="gelu", batch_first=True)
        self.layers = torch.nn.TransformerEncoder(layer, 12)

    def forward(self, words, kinds):
        places = self.places(torch.arange(words.shape[1]))
        return self.layers(self.norm(self.words(words) + places + self.kinds(kinds)))


MODULES = {"resnet50": resnet50, "bert_base": BertBase}


def pytorch_child(name, threads):
    """Run in a process of its own: prints what it took beside its libraries."""
    torch.set_num_threads(threads)
    model = MODELS[name]
    torch.manual_seed(1)
    before = resident()
    rng = np.random.default_rng(1)
    side = Torch(model, MODULES[name](), [(model.inputs(rng), model.target(rng))], False)
    for _ in range(STEPS[0]):
        side.step()
    print(resident(which="VmHWM") - before)


def measure(name, args):
    with tempfile.TemporaryDirectory() as folder:
        config = write_config(MODELS[name], args, pathlib.Path(folder))
        kept = [train(args, config, steps, "--keep-all") for steps in STEPS]
        short, long = (train(args, config, steps) for steps in STEPS)
        for run in (*kept, short, long):
            if "error" in run:
                raise SystemExit(run["error"])
        states, arena, live = (short["last"][key] for key in ("state_bytes", "arena_bytes", "peak_live_bytes"))
        limit = int(states + args.share * kept[0]["last"]["arena_bytes"])
        less = [train(args, config, steps, "--memory-limit", str(limit)) for steps in STEPS]
        tiered = [train(args, config, steps, "--memory-limit", str(limit), "--second-tier", args.second_tier)
                  for steps in STEPS]
        child = [sys.executable, __file__, "--pytorch-child", name, "--threads", str(args.threads)]
        status, out, err, _, _ = usage_of(child)
        if status != 0:
            raise SystemExit(err)
    per_step = lambda runs: (runs[1]["seconds"] - runs[0]["seconds"]) / (STEPS[1] - STEPS[0])
    mb = lambda size: f"{size / 1e6:.1f}"
    row = {
        "model": name, "states_mb": mb(states), "kept_arena_mb": mb(kept[0]["last"]["arena_bytes"]), "arena_mb": mb(arena), "live_mb": mb(live),
        "planned_over_live": f"{(states + arena) / (states + live):.4f}",
        "process_mb": mb(long["peak"]), "pytorch_mb": mb(int(out)),
        "process_over_pytorch": f"{long['peak'] / int(out):.3f}",
        "same_losses": long["losses"] == kept[1]["losses"],
        "kept_cpu_s_per_step": f"{per_step(kept):.3f}", "time_ratio": f"{per_step([short, long]) / per_step(kept):.3f}",
        "limit_mb": mb(limit),
    }
    for which, runs in (("limited", less), ("tiered", tiered)):
        if "error" in runs[0]:
            row[which + "_error"] = runs[0]["error"]
            continue
        row.update({which + "_arena_mb": mb(runs[0]["last"]["arena_bytes"]),
                    which + "_process_mb": mb(runs[1]["peak"]),
                    which + "_same_losses": runs[1]["losses"] == kept[1]["losses"],
                    which + "_time_ratio": f"{per_step(runs) / per_step(kept):.3f}"})
    if "error" not in tiered[0]:
        row["tiered_stored_mb"] = mb(tiered[0]["last"]["stored_bytes"])
    print(row, flush=True)
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("models", nargs="*", metavar="MODEL", default=[], help=", ".join(MODULES))
    parser.add_argument("--rewright", default="build/release/rewright")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--share", type=float, default=0.5, help="of the arena that the limit leaves")
    parser.add_argument("--second-tier", default="4G", help="its size")
    parser.add_argument("--out")
    parser.add_argument("--pytorch-child", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.pytorch_child:
        return pytorch_child(args.pytorch_child, args.threads)
    rows = [measure(name, args) for name in args.models or MODULES]
    if args.out:
        write_table(args.out, f"{machine()}; torch {torch.__version__}; {args.threads} threads", rows)


if __name__ == "__main__":
    main()
