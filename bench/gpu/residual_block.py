#!/usr/bin/env python3
"""The residual block (conv 3x3 beside conv 1x1, add, relu): every alternative's measured time beside the prediction of
the analytic device.

    bench/gpu/residual_block.py --device cuda:0 --analytic analytic:h200

Alternatives are the original and what the search chooses for each described device and for the device itself; the rules
that led to one are then disabled and the search is asked again, until nothing is found.
"""
import argparse
import hashlib
import os
import statistics
import subprocess

from common import describe, main_of, merge_rows, model_file, require_device, rewright

KEYS = ("device", "precision", "alternative")


def alternatives(args, path):
    """Files by the rewrites that made them."""
    found = {"original": path}
    ways = [["--cost", name] for name in args.choose_for]
    ways.append(["--device", args.device, "--precision", args.precision,
                 "--profile", os.path.join(args.work, "profile.db")])
    for way in ways:
        disabled = []
        while True:
            words = [word for rule in disabled for word in ("--disable-rule", rule)]
            out = os.path.join(args.work, "residual_block.candidate.onnx")
            # Kernels of two sizes become one by zeros around the smaller, which holds for finite images, a law outside
            # of the default set.
            chosen = rewright(args.rewright, "optimize", path, "-o", out, "--no-check", "--assume-finite", "--alpha", 1.5,
                              "--growth", "inf", "--rules", "core.rules", "--rules", "laws.rules", "--baseline", *way, *words)
            rules = [rewrite["rule"] for rewrite in chosen["rewrites"]]
            if not rules:
                break
            name = " ".join(f"{rewrite['count']}x{rewrite['rule']}" for rewrite in chosen["rewrites"])
            if name not in found:
                kept = os.path.join(args.work, f"residual_block.{hashlib.sha256(name.encode()).hexdigest()[:8]}.onnx")
                os.replace(out, kept)
                found[name] = kept
            disabled += rules
    return found


def described_device():
    """The description of the GPU at hand, where there is one; else the H200's."""
    try:
        found = subprocess.run(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"], capture_output=True, text=True)
    except OSError:
        return "analytic:h200"
    return "analytic:h100" if "H100" in found.stdout else "analytic:h200"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--precision", default="f32")
    parser.add_argument("--analytic", default=described_device(), help="whose prediction stands beside")
    parser.add_argument("--choose-for", nargs="*", default=["analytic:k80", "analytic:v100-roofline", "analytic:h100",
                                                            "analytic:h200", "analytic:zen3"])
    parser.add_argument("--rewright", default="build/release/rewright")
    parser.add_argument("--work", default="build/gpu")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", default="bench/results/gpu_residual_block.csv")
    args = parser.parse_args()
    require_device(args.rewright, args.work, args.device, args.precision)
    graphs = alternatives(args, model_file(args.rewright, args.work, "residual_block"))
    predicted, measured = {}, {name: [] for name in graphs}
    for name, path in graphs.items():
        out = os.path.join(args.work, "residual_block.candidate.onnx")
        predicted[name] = rewright(args.rewright, "optimize", path, "-o", out, "--no-check", "--budget", 0, "--cost",
                                   args.analytic)["cost_before_ms"]
    for _ in range(args.rounds):
        for name, path in graphs.items():
            run = rewright(args.rewright, "run", path, "--device", args.device, "--precision", args.precision)
            measured[name].append(run["latency_ms"]["median"])
    rows = []
    for name in sorted(graphs, key=lambda each: statistics.median(measured[each])):
        median = statistics.median(measured[name])
        rows.append({"device": args.device, "precision": args.precision, "alternative": name,
                     "measured_ms": f"{median:.4f}", "predicted_by": args.analytic,
                     "predicted_ms": f"{predicted[name]:.4f}", **describe()})
        print(f"measured {median:.4f} ms, predicted {predicted[name]:.4f} ms: {name}")
    merge_rows(args.out, rows, KEYS)
    return 0


if __name__ == "__main__":
    main_of(main)
