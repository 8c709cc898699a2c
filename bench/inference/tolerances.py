#!/usr/bin/env python3
"""What a tolerance buys: `rewright optimize --tolerance T` on models of the zoo, beside the model in f32.

  .venv/bin/python bench/inference/tolerances.py --rewright build/release/rewright [--out bench/results/tolerances.csv]

Columns: `narrow`, nodes in bf16, of `eligible`; `estimated`, the typical error, and `measured`, the largest one, as
shares of the largest element; `used`, measured over the tolerance; `ratio`, by how much the model is faster than what
`optimize` makes of it without a tolerance (interleaved pairs, the median).
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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rewright", default="build/release/rewright")
    parser.add_argument("--models", nargs="*", default=MODELS)
    parser.add_argument("--tolerances", nargs="*", type=float, default=[0.001, 0.01, 0.03])
    parser.add_argument("--profile", default="build/tolerances.db")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", help="write the table as CSV")
    args = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name in args.models:
            path = os.path.join(folder, "model.onnx")
            subprocess.run([args.rewright, "zoo", name, "-o", path, "--quiet"], check=True, stdout=subprocess.DEVNULL)
            for tolerance in args.tolerances:
                command = [args.rewright, "optimize", path, "-o", os.path.join(folder, "narrow.onnx"), "--tolerance",
                           str(tolerance), "--profile", args.profile, "--threads", str(args.threads), "--no-prove",
                           "--json", "--quiet"]
                done = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
                found = done["narrowing"]
                row = {"model": name, "tolerance": tolerance, "narrow": found["narrow"], "eligible": found["eligible"],
                       "estimated": f"{found['estimated']:.2g}", "measured": f"{found['measured']:.2g}",
                       "used": round(found["measured"] / tolerance, 2) if found["narrow"] else "",
                       "ratio": round(found["ratio"], 2) if found["narrow"] else 1, "verdict": found["verdict"]}
                rows.append(row)
                print("  ".join(f"{key} {value}" for key, value in row.items()), flush=True)
    for tolerance in args.tolerances:
        of = [row for row in rows if row["tolerance"] == tolerance]
        used = [row["used"] for row in of if row["used"] != ""]
        print(f"tolerance {tolerance}: geometric mean of the time {statistics.geometric_mean([1 / r['ratio'] for r in of]):.3f} "
              f"of f32's, {statistics.median(used) if used else 0:.2f} of the tolerance used in the median")
    if args.out:
        write_table(args.out, f"{machine()}; {args.threads} threads, batch 1", rows)


if __name__ == "__main__":
    main()
