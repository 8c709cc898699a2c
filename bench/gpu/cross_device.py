#!/usr/bin/env python3
"""The graph chosen for one device and the one chosen for another, each run on both: each should be best at home.

    bench/gpu/cross_device.py resnet50 squeezenet --devices cuda:0 cpu

Latencies on one device are measured by alternating runs of the program; a figure is the median of the rounds' medians.
Exit status: 0 every graph is best at home (or as good, within the spread of the rounds); 1 one is not; 2 no such device.
"""
import argparse
import os
import statistics

from common import describe, main_of, merge_rows, model_file, require_device, rewright

KEYS = ("model", "batch", "precision", "chosen_for", "run_on")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--devices", nargs=2, default=["cuda:0", "cpu"])
    parser.add_argument("--precision", default="tf32", help="on a GPU")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--rewright", default="build/release/rewright")
    parser.add_argument("--work", default="build/gpu")
    parser.add_argument("--profile")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--time-limit", type=float, default=60)
    parser.add_argument("--out", default="bench/results/gpu_cross_device.csv")
    args = parser.parse_args()
    profile = args.profile or os.path.join(args.work, "profile.db")
    precision = {device: args.precision if device.startswith("cuda") else "f32" for device in args.devices}
    for device in args.devices:
        require_device(args.rewright, args.work, device, precision[device])
    at_home = True
    for model in args.models:
        path = model_file(args.rewright, args.work, model, args.batch)
        graphs = {}
        for i, device in enumerate(args.devices):
            graphs[device] = path.replace(".onnx", f".for{i}.onnx")
            rewright(args.rewright, "optimize", path, "-o", graphs[device], "--no-check", "--device", device,
                     "--precision", precision[device], "--profile", profile, "--time-limit", args.time_limit)
        rows = []
        for device in args.devices:
            times = {chosen: [] for chosen in args.devices}
            for _ in range(args.rounds):
                for chosen in args.devices:
                    run = rewright(args.rewright, "run", graphs[chosen], "--device", device, "--precision",
                                   precision[device])
                    times[chosen].append(run["latency_ms"]["median"])
            home = statistics.median(times[device])
            best = min(statistics.median(values) for values in times.values())
            spread = max(times[device]) / min(times[device]) - 1
            at_home = at_home and home <= best * (1 + spread)
            for chosen in args.devices:
                median = statistics.median(times[chosen])
                rows.append({"model": model, "batch": args.batch, "precision": args.precision, "chosen_for": chosen,
                             "run_on": device, "median_ms": f"{median:.4f}", "over_home": f"{median / home:.4f}",
                             "spread_at_home": f"{spread:.4f}", **describe()})
                print(f"{model}: chosen for {chosen}, run on {device}: {median:.4f} ms, {median / home:.3f} of home's")
        merge_rows(args.out, rows, KEYS)
    return 0 if at_home else 1


if __name__ == "__main__":
    main_of(main)
