#!/usr/bin/env python3
"""The estimate of rounding (docs/rounding.md) beside what rounding does: models of the zoo, and the exports of
foreign_models.py by both of PyTorch's exporters.

  .venv/bin/python bench/rounding/error_estimate.py [--program build/release/rewright] [--only PATTERN] [--no-exports]
                                           [--out bench/results/error_estimate.csv]

Each model is taken as it is (f32) and as if it were stored in f16 and in bf16. Four elements of its outputs are looked
at, the largest of each output among them, on two seeds of inputs: the interpreter computes them in that type and in
f64. Columns: `looks`; `above`, how many errors are above the worst case; `ratio`, the root of the mean square of error
/ typical, which is 1 of an estimate that is right; `slack`, the median of worst case / error; `decisions` that are not
covered; `times`, what one look takes in forward passes of the interpreter, by CPU time (the least of three, without
preparation, both after a run in f64), `forward_ms` and `prepare_ms`, what comes before it. Exports have inputs of the
size that they were exported with.
"""
import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from table import machine, write_table  # noqa: E402


ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ZOO = {
    "resnet50": "--image-size 64", "resnext50": "--image-size 64", "squeezenet": "--image-size 64",
    "inception_v3": "--image-size 107", "mobilenet_v2": "--image-size 64", "convnext_tiny": "--image-size 64",
    "bert_base": "--layers 1 --sequence-length 32", "gpt2_small": "--layers 2 --sequence-length 32 --width 256",
    "llama_small": "--layers 1 --sequence-length 32", "nasnet_a": "--image-size 64 --layers 1 --width 264",
    "nasrnn": "--layers 2 --width 64", "mlp": "", "residual_block": "", "taso_nasrnn": "--layers 2",
    "taso_bert": "--layers 1", "mirage_rms_norm": "", "mirage_lora": "", "mirage_gated_mlp": "", "mirage_ntrans": "",
}
SEEDS = (1, 2)


def rewright(program, *arguments):
    done = subprocess.run([program, *arguments, "--json", "--quiet"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError((done.stderr.strip() or "no output").splitlines()[-1])
    return json.loads(done.stdout) if done.stdout.strip() else {}


def look(program, path, precision):
    """The looks of all seeds, and how many decisions there are."""
    looks, decisions = [], 0
    for seed in SEEDS:
        found = rewright(program, "error", path, "--elements", "4", "--looks", "4", "--measure", "--seed", str(seed),
                         *(["--precision", precision] if precision != "f32" else []))
        looks += found["outputs"]
        decisions = found["decisions"]
    return [one for one in looks if all(isinstance(one[key], float) for key in ("worst", "typical", "measured"))], decisions


def row_of(program, name, path, precision):
    row = {"model": name, "precision": precision}
    try:
        looks, decisions = look(program, path, precision)
    except RuntimeError as error:
        return row | {"refused": str(error)[:200]}
    told = [one for one in looks if one["typical"] > 0]
    row |= {"looks": len(looks), "decisions": decisions,
            "above": sum(one["measured"] > one["worst"] * (1 + 1e-6) for one in looks)}
    if told:
        row["ratio"] = f"{math.sqrt(statistics.fmean((one['measured'] / one['typical']) ** 2 for one in told)):.3g}"
        row["typical"] = f"{statistics.median(one['typical'] / abs(one['value']) for one in told if one['value']):.2g}"
        off = [one["worst"] / one["measured"] for one in told if one["measured"] > 0]
        row["slack"] = f"{statistics.median(off):.3g}" if off else ""
    if precision == "f32":
        runs = [rewright(program, "error", path, "--looks", "1", "--measure") for _ in range(3)]
        row["times"] = f"{min(run['run_cpu_seconds'] for run in runs) / min(run['forward_cpu_seconds'] for run in runs):.2f}"
        row["forward_ms"] = f"{1e3 * min(run['forward_cpu_seconds'] for run in runs):.1f}"
        row["prepare_ms"] = f"{1e3 * min(run['prepare_cpu_seconds'] for run in runs):.0f}"
    return row


def exports(folder, only):
    """Paths by name, of each model by each exporter that takes it."""
    import torch
    sys.path.insert(0, os.path.join(ROOT, "bench"))
    from training.foreign_models import BATCH, MODELS, make
    from training.foreign_training import export
    for name in MODELS:
        for dynamo in (False, True):
            called = f"{name} ({'dynamo' if dynamo else 'script'})"
            if only not in called:
                continue
            module, x, *_ = make(name, 0)
            path = os.path.join(folder, "export.onnx")
            try:
                with torch.no_grad():
                    export(module, x[:BATCH], path, dynamo)
            except Exception as error:  # of an exporter, of any kind
                print(f"{called}: not exported: {str(error).splitlines()[0][:100]}", file=sys.stderr)
                continue
            yield called, path


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", default=os.path.join(ROOT, "build", "release", "rewright"))
    parser.add_argument("--only", default="")
    parser.add_argument("--no-exports", action="store_true")
    parser.add_argument("--out", default=os.path.join(ROOT, "bench", "results", "error_estimate.csv"))
    arguments = parser.parse_args()
    rows = []

    def add(name, path):
        for precision in ("f32", "f16", "bf16"):
            rows.append(row_of(arguments.program, name, path, precision))
            print(*(f"{key} {value}" for key, value in rows[-1].items()), sep="  ", flush=True)

    with tempfile.TemporaryDirectory() as folder:
        for name, flags in ZOO.items():
            if arguments.only in name:
                path = os.path.join(folder, name + ".onnx")
                made = subprocess.run([arguments.program, "zoo", name, *flags.split(), "-o", path, "--quiet"], check=False)
                if made.returncode == 0:
                    add(name, path)
                    os.remove(path)
        if not arguments.no_exports:
            for name, path in exports(folder, arguments.only):
                add(name, path)
    ratios = [float(row["ratio"]) for row in rows if row.get("ratio")]
    off = sorted(max(ratio, 1 / ratio) for ratio in ratios)
    # In models that take milliseconds a run costs more than the work of its operators.
    times = sorted(float(row["times"]) for row in rows if row.get("times") and float(row["forward_ms"]) >= 20)
    summary = (f"{len(rows)} rows, {sum(row.get('looks', 0) for row in rows)} errors, "
               f"{sum(row.get('above', 0) for row in rows)} above the worst case; typical off by a factor of "
               f"{statistics.median(off):.2f} in the median, {off[-1]:.2f} at most; a look takes "
               f"{statistics.median(times) if times else 0:.2f} forward passes in the median, {max(times, default=0):.2f} at "
               f"most, of {len(times)} models whose forward pass takes 20 ms or more")
    print(summary)
    write_table(arguments.out, f"{machine()}. {summary}", rows)


if __name__ == "__main__":
    main()
