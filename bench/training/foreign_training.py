#!/usr/bin/env python3
"""Whether models that users built and exported are trained as PyTorch trains them: the twenty of foreign_models.py.

    python bench/training/foreign_training.py [--rewright build/release/rewright] [--out TABLE.csv] [MODEL...]

Each is exported by both exporters of torch.onnx with their defaults and trained for 30 steps, and so is the module, in
float64 and float32, on the same batches. A deviation is the length of the difference from float64, over the length of
what float64 gives: of the losses of all steps, and of the outputs after the last one. Ours may be three times PyTorch's
own in float32 (where that is below 1e-7, what rounding the result costs, three times that). What has changed in the
checkpoint has to be a parameter of the module: constants, masks and tables keep their bits. A refusal is right where it
says why and ends with status 2. Where it asks for what the file does not say, whether tensors that it names are
parameters, the module tells it (model.trained and model.frozen), and the run is compared: "told". Where an exporter
computes with a parameter and what it writes is trained element by element, the file has other parameters than the
module: "repeated", not compared.

One line a model and exporter. Ends with status 1 where a run fails, deviates, or trains what is no parameter.
Wants torch, onnx, onnxscript and onnxruntime.
"""
import argparse
import contextlib
import copy
import io
import json
import logging
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import warnings

import numpy as np
import onnx
import onnxruntime
import torch
import torch.nn.functional as F
from onnx import numpy_helper
from torch.nn.utils.fusion import fuse_conv_bn_eval

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from table import machine, write_table  # noqa: E402
from training.foreign_models import BATCH, MODELS, make  # noqa: E402
from training.training_equal import load  # noqa: E402

STEPS = 30
FLOOR = 1e-7


def export(module, x, path, dynamo):
    """By torch.onnx's defaults, but for the message that it prints."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        torch.onnx.export(module, (x,), path, dynamo=dynamo, input_names=["x"])
    model = onnx.load(path)
    onnx.save(model, path)  # in one file
    return model


def fused(module):
    """The module as an exporter gives it that folds batch norms into convolutions."""
    for name, child in module.named_children():
        setattr(module, name, fused(child))
    if isinstance(module, torch.nn.Sequential) and len(module) > 1 and isinstance(module[1], torch.nn.BatchNorm2d):
        conv = fuse_conv_bn_eval(module[0], module[1]).requires_grad_(True)  # its bias, too
        return torch.nn.Sequential(conv, *module[2:])
    return module


def optimizer_of(parameters, options):
    options = dict(options, lr=options["learning_rate"])
    kind = options.pop("kind")
    del options["learning_rate"]
    if kind in ("sgd", "momentum", "nesterov"):
        return torch.optim.SGD(parameters, nesterov=kind == "nesterov", **options)
    return {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[kind](parameters, **{"weight_decay": 0, **options})


def trained_by_pytorch(module, x, target, loss, options, dtype):
    """Losses, and outputs of the first batch at the end, in float64."""
    module = copy.deepcopy(module).to(dtype)
    x, target = (a.to(dtype) if a.is_floating_point() else a for a in (x, target))
    optimizer = optimizer_of(module.parameters(), options)
    losses = []
    for step in range(STEPS):
        begin = step * BATCH % len(x)
        output, wanted = module(x[begin:begin + BATCH]), target[begin:begin + BATCH]
        if loss == "cross_entropy":
            error = F.cross_entropy(output.reshape(-1, output.shape[-1]), wanted.reshape(-1))
        else:
            error = F.mse_loss(output, wanted)
        optimizer.zero_grad()
        error.backward()
        optimizer.step()
        losses.append(error.item())
    with torch.no_grad():
        return np.array(losses), module(x[:BATCH]).to(torch.float64).numpy()


class Refused(Exception):
    pass


def trained_by_us(args, folder, x, target, loss, options, told):
    """Losses, outputs and the weights that the checkpoint holds; `told`: the fields of `model` that the user adds."""
    np.save(folder / "x.npy", x.numpy())
    np.save(folder / "target.npy", target.numpy())
    config = {"model": {"onnx": "model.onnx", **told}, "loss": loss, "optimizer": options, "steps": STEPS,
              "data": {"inputs": {"x": "x.npy"}, "target": "target.npy", "batch": BATCH, "shuffle": False},
              "checkpoint": {"every_steps": STEPS}}
    (folder / "config.json").write_text(json.dumps(config))
    run = subprocess.run([args.rewright, "train", str(folder / "config.json"), "--quiet", "--json", "--threads",
                          str(args.threads), "--checkpoint-dir", str(folder / "out"), "-o", str(folder / "out.onnx")],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if run.returncode == 2:
        raise Refused(" ".join(run.stderr.split()))
    if run.returncode != 0:
        raise RuntimeError(f"status {run.returncode}: {' '.join(run.stderr.split())}")
    lines = [json.loads(line) for line in run.stdout.splitlines()]
    losses = [line["loss"] for line in lines if "step" in line and "loss" in line]
    session = onnxruntime.InferenceSession(str(folder / "out.onnx"), providers=["CPUExecutionProvider"])
    (output,) = session.run(None, {"x": x[:BATCH].numpy()})
    return np.array(losses), output, load(folder / "out" / f"step-{STEPS:08d}" / "weights.safetensors")


def initial_tensors(model, x):
    """What initializers and nodes of the file are on these inputs, before training, by name."""
    found = {tensor.name: torch.from_numpy(numpy_helper.to_array(tensor).copy()) for tensor in model.graph.initializer}
    names = [name for node in model.graph.node for name in node.output if name]
    shown = copy.deepcopy(model)
    del shown.graph.output[:]
    shown.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(shown.SerializeToString(), options, providers=["CPUExecutionProvider"])
    found.update((name, torch.from_numpy(value)) for name, value in zip(names, session.run(None, {"x": x.numpy()})))
    return found


class Parameters:
    """The numbers that parameters of a module are."""

    def __init__(self, module):
        self.sorted = torch.cat([p.detach().reshape(-1) for p in module.parameters()]).double().sort().values

    def hold(self, tensor):
        """Whether all elements are among them, but for what rounding changes where an exporter computes with them."""
        sought = tensor.reshape(-1).double()
        place = torch.searchsorted(self.sorted, sought).clamp(1, len(self.sorted) - 1)
        nearest = torch.minimum((self.sorted[place] - sought).abs(), (self.sorted[place - 1] - sought).abs())
        return bool((nearest <= 1e-5 * sought.abs()).all())


def changed_tensors(initial, weights, parameters):
    """What has changed and has values that no parameter of the module had, and what has them several times: names."""
    constants, repeated = [], []
    for name, value in weights.items():
        if name not in initial:  # a part of one that was written once for several, or the elements of one, once each
            name = re.sub(r"\.(\d+|once)_*$", "", name)
        before = initial[name]
        if before.shape == value.shape and torch.equal(before, value):
            continue
        if not parameters.hold(before):
            constants.append(name)
        elif before.shape == value.shape and len(before.unique()) < 0.9 * before.numel():
            repeated.append(name)
    return constants, repeated


def told_by(module, reason, initial):
    """The fields of a configuration that say which tensors in a refusal are parameters; empty: it asks none."""
    names = re.findall(r"initializer (\S+) \S+ was computed by the exporter", reason)
    parameters = Parameters(module)
    fields = {"trained": [name for name in names if parameters.hold(initial[name])]}
    fields["frozen"] = [name for name in names if name not in fields["trained"]]
    return {key: value for key, value in fields.items() if value}


def deviation(found, expected):
    return float(np.linalg.norm(found - expected) / np.linalg.norm(expected))


def compare(name, dynamo, seed, args):
    module, x, target, loss, options = make(name, seed)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        model = export(module, x[:BATCH], str(folder / "model.onnx"), dynamo)
        if not any(node.op_type == "BatchNormalization" for node in model.graph.node):
            module = fused(copy.deepcopy(module))
        initial = initial_tensors(model, x[:BATCH])
        told = {}
        try:
            losses, output, weights = trained_by_us(args, folder, x, target, loss, options, told)
        except Refused as reason:
            told = told_by(module, str(reason), initial)
            if not told:
                raise
            losses, output, weights = trained_by_us(args, folder, x, target, loss, options, told)
    exact = trained_by_pytorch(module, x, target, loss, options, torch.float64)
    single = trained_by_pytorch(module, x, target, loss, options, torch.float32)
    row = {}
    for what, ours, index in (("losses", losses, 0), ("outputs", output, 1)):
        row[what] = deviation(ours, exact[index])
        row[f"{what}_of_pytorch"] = deviation(single[index], exact[index])
    return row, told, *changed_tensors(initial, weights, Parameters(module))


def verdict(name, dynamo, args):
    """A row of the table; medians over the seeds."""
    row = {"model": name, "exporter": "dynamo" if dynamo else "torchscript"}
    found, constants, repeated = [], set(), set()
    try:
        for seed in range(1, args.seeds + 1):
            numbers, told, *changed = compare(name, dynamo, seed, args)
            found.append(numbers)
            constants.update(changed[0])
            repeated.update(changed[1])
    except Refused as reason:
        return {**row, "verdict": "refused", "reason": str(reason)}
    except Exception as error:
        return {**row, "verdict": "FAILED", "reason": f"{type(error).__name__}: {error}"}
    median = {key: statistics.median(one[key] for one in found) for key in found[0]}
    ratios = [median[key] / max(median[f"{key}_of_pytorch"], FLOOR) for key in ("losses", "outputs")]
    row.update({key: f"{value:.1e}" for key, value in median.items()})
    row["ratio"] = f"{max(ratios):.2f}"
    if constants:
        return {**row, "verdict": "DIFFERS", "reason": "trains " + ", ".join(sorted(constants))}
    if repeated:
        return {**row, "verdict": "repeated", "reason": ", ".join(sorted(repeated))}
    if max(ratios) > 3:
        return {**row, "verdict": "DIFFERS"}
    if told:
        said = "; ".join(f"{key} {', '.join(names)}" for key, names in told.items())
        return {**row, "verdict": "told", "reason": f"refused without model.{said}"}
    return {**row, "verdict": "equal"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help=", ".join(MODELS))
    parser.add_argument("--rewright", default="build/release/rewright")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=3, help="each with weights and data of its own; medians count")
    parser.add_argument("--out", help="write the table as CSV")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    logging.getLogger("torch").setLevel(logging.ERROR)
    rows = []
    for name in args.models or MODELS:
        for dynamo in (True, False):
            rows.append(verdict(name, dynamo, args))
            print("  ".join(f"{key} {value}" for key, value in rows[-1].items() if value), flush=True)
    kinds = ("equal", "told", "repeated", "refused", "DIFFERS", "FAILED")
    counts = {kind: sum(row["verdict"] == kind for row in rows) for kind in kinds}
    print(", ".join(f"{count} {kind}" for kind, count in counts.items()))
    if args.out:
        write_table(args.out, f"{machine()}; PyTorch {torch.__version__}, {args.seeds} seeds, {STEPS} steps", rows)
    sys.exit(counts["DIFFERS"] + counts["FAILED"] > 0)


if __name__ == "__main__":
    main()
