#!/usr/bin/env python3
"""What a tolerance buys: `rewright optimize --tolerance T` on models of the zoo, beside the model in f32.

  .venv/bin/python bench/inference/tolerances.py --rewright build/release/rewright [--out bench/results/tolerances.csv]

Columns: `narrow`, nodes in bf16, of `eligible`; `estimated`, the typical error, and `measured`, the largest one, as
shares of the largest element; `used`, measured over the tolerance; `ratio`, by how much the model is faster than what
`optimize` makes of it without a tolerance (interleaved pairs, the median).

With --errors-only the models are small ones of the zoo, and exports, and times are left out. `truth` is then the largest
error on two more sets of inputs, that the choice did not see, where 16 bits were faster.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from table import machine, write_table  # noqa: E402

MODELS = ["resnet50", "squeezenet", "vgg19", "inception_v3", "mobilenet_v2", "bert_base", "resnext50", "nasnet_a",
          "gpt2_small", "convnext_tiny", "llama_small"]


def truth_of(before, after):
    """The largest difference of an element, as a share of its output's largest, on inputs of other seeds."""
    import numpy
    import onnx
    import rewright
    models = [rewright.load(path) for path in (before, after)]
    largest = 0.0
    for seed in (11, 12):
        rng = numpy.random.default_rng(seed)
        feeds = {name: (rng.normal(size=shape) if "f" in str(numpy.dtype(dtype).kind) else rng.integers(0, 8, shape)).astype(dtype)
                 for name, dtype, shape in models[0].inputs}
        outputs = [model.run(**feeds) for model in models]
        for name, wanted in outputs[0].items():
            if wanted.dtype.kind == "f" and wanted.size:
                scale = numpy.abs(wanted).max()
                largest = max(largest, float(numpy.abs(wanted - outputs[1][name]).max() / scale) if scale else 0)
    return largest


def models(folder, args):
    for name in args.models:
        path = os.path.join(folder, "model.onnx")
        subprocess.run([args.rewright, "zoo", name, "-o", path, "--quiet"], check=True, stdout=subprocess.DEVNULL)
        yield name, path


def light_models(folder, program):
    from rounding.error_estimate import ZOO, exports
    for name, flags in ZOO.items():
        path = os.path.join(folder, "model.onnx")
        subprocess.run([program, "zoo", name, *flags.split(), "-o", path, "--quiet"], check=True, stdout=subprocess.DEVNULL)
        yield name, path
    yield from exports(folder, "script")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rewright", default="build/release/rewright")
    parser.add_argument("--models", nargs="*", default=MODELS)
    parser.add_argument("--tolerances", nargs="*", type=float, default=[0.001, 0.01, 0.03])
    parser.add_argument("--profile", default="build/tolerances.db")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--errors-only", action="store_true")
    parser.add_argument("--out", help="write the table as CSV")
    args = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, path in (light_models(folder, args.rewright) if args.errors_only else models(folder, args)):
            for tolerance in args.tolerances:
                narrow = os.path.join(folder, "narrow.onnx")
                command = [args.rewright, "optimize", path, "-o", narrow, "--tolerance", str(tolerance), "--no-prove",
                           "--json", "--quiet", "--fix-sizes", "--threads", str(args.threads)]
                command += ["--budget", "1"] if args.errors_only else ["--profile", args.profile]
                done = subprocess.run(command, check=False, capture_output=True, text=True)
                if done.returncode != 0:
                    print(f"{name}: {(done.stderr.strip() or 'failed').splitlines()[-1]}", file=sys.stderr)
                    break
                found = json.loads(done.stdout)["narrowing"]
                row = {"model": name, "tolerance": tolerance, "narrow": found["narrow"], "eligible": found["eligible"],
                       "estimated": f"{found['estimated']:.2g}", "measured": f"{found['measured']:.2g}",
                       "used": round(found["measured"] / tolerance, 2) if found["measured"] else ""}
                if args.errors_only:
                    row["truth"] = f"{truth_of(path, narrow):.4g}" if found["narrow"] else ""
                else:
                    row["ratio"] = round(found["ratio"], 2) if found["narrow"] else 1
                rows.append(row | {"verdict": found["verdict"]})
                print("  ".join(f"{key} {value}" for key, value in rows[-1].items()), flush=True)
    for tolerance in args.tolerances:
        of = [row for row in rows if row["tolerance"] == tolerance]
        used = [row["used"] for row in of if row["used"] != ""]
        if args.errors_only:
            truths = [float(r["truth"]) for r in of if r["truth"]]
            text = f"{sum(truth > tolerance for truth in truths)} of {len(truths)} beyond it on other inputs"
        else:
            text = f"geometric mean of the time {statistics.geometric_mean([1 / r['ratio'] for r in of]):.3f} of f32's"
        print(f"tolerance {tolerance}: {text}, {statistics.median(used) if used else 0:.2f} of it used in the median")
    if args.out:
        write_table(args.out, f"{machine()}; {args.threads} threads, batch 1", rows)


if __name__ == "__main__":
    main()
