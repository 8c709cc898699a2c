#!/usr/bin/env python3
"""One model on one device beside its peers.

    bench/gpu/model.py resnet50 --batch 1 --precision tf32

In this order: outputs of the original and of the optimized graph against the interpreter, within the precision's
tolerance; both graphs timed by themselves, and where their time goes, group by group; these rows are written before
any peer starts (--own: and that is all). Then original, rule-based baseline, optimized graph, torch, torch.compile
(max-autotune; frozen where TORCHINDUCTOR_FREEZING=1, as lease.sh sets it) and JAX (jit), as far as they are installed,
measured interleaved in one run. The rows go into a table that grows from run to run.
Exit status: 0 done; 1 outputs differ; 2 the device is not there. `--device cpu` tries everything without a GPU.
"""
import argparse
import csv
import os
import tempfile
import time

from common import (TOLERANCE, describe, expected_outputs, largest_error, main_of, merge_rows, model_file, outputs_of,
                    rewright, roofline_ms)

PEERS = ("torch", "torch-compile", "jax", "onnxruntime-all")
KEYS = ("device", "model", "batch", "precision", "contestant")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a name that `rewright zoo` lists")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--precision", choices=sorted(TOLERANCE), default="f32")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--rewright", default="build/release/rewright")
    parser.add_argument("--work", default="build/gpu", help="models, expected outputs, optimized models")
    parser.add_argument("--profile", help="database of measured costs (default: in the work folder)")
    parser.add_argument("--out", default="bench/results/gpu.csv")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--time-limit", type=float, default=60, help="seconds to search")
    parser.add_argument("--zoo-flags", default="", help="further flags of `rewright zoo`, such as '--layers 2'")
    parser.add_argument("--iterations", type=int, default=200, help="runs by which a graph is timed by itself")
    parser.add_argument("--own", action="store_true", help="nothing but our own graphs, by themselves")
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--peer", action="append", default=[], help="a peer by name (repeatable; default all)")
    parser.add_argument("--reuse", action="store_true",
                        help="the contest alone, where --own left the optimized graph in the work folder")
    parser.add_argument("--expect-only", action="store_true", help="compute the expected outputs, which needs no GPU")
    return parser.parse_args()


def own_figures(args, paths, flags):
    """The device's name, latencies and largest errors of each graph by itself, and what computed the expected outputs;
    prints what the last one's groups take."""
    oracle, expected = expected_outputs(args.rewright, args.work, paths["original"], args.batch)
    tolerance, graphs = TOLERANCE[args.precision], {}
    for name, path in paths.items():
        with tempfile.TemporaryDirectory() as folder:
            report, found = outputs_of(args.rewright, path, folder, "--device", args.device, "--precision",
                                       args.precision, "--iterations", args.iterations)
        error = largest_error(found, expected)
        graphs[name] = report["latency_ms"], error
        print(f"  {name:<22} {report['latency_ms']['median']:10.4f} ms by itself; largest error {error:.2e} against the "
              f"{oracle}, tolerance {tolerance:.2e}: {'equal' if error <= tolerance else 'DIFFERS'}", flush=True)
    last = list(paths.values())[-1]
    costs = rewright(args.rewright, "profile", last, *flags)
    groups = sorted(costs["models"][0]["rows"], key=lambda row: -row["cost_ms"] * row["count"])
    for row in groups[:25]:
        print(f"    {row['cost_ms'] * row['count']:8.4f} ms  {row['count']:3} x {row['operators']} {row['types']}")
    return costs["device"], graphs, oracle


def figures_before(args):
    """What own_figures gave when it wrote its rows."""
    with open(args.out, newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["model"] == args.model and row["batch"] == str(args.batch) and
                row["precision"] == args.precision and row["contestant"] in ("original", "optimized")]
    return rows[-1]["device"], {row["contestant"]: (None, float(row["largest_error"])) for row in rows}, \
        rows[-1]["checked_against"]


def main():
    args = arguments()
    os.makedirs(args.work, exist_ok=True)
    path = model_file(args.rewright, args.work, args.model, args.batch, *args.zoo_flags.split())
    if args.expect_only:
        expected_outputs(args.rewright, args.work, path, args.batch)
        return 0
    profile = args.profile or os.path.join(args.work, "profile.db")
    common = ["--device", args.device, "--precision", args.precision, "--profile", profile, "--time-limit",
              args.time_limit]
    optimized = path.replace(".onnx", f".{args.device.split(':')[0]}.{args.precision}.opt.onnx")
    flags = ["--device", args.device, "--precision", args.precision, "--profile", profile]
    tolerance = TOLERANCE[args.precision]
    chosen = {}
    if args.reuse and os.path.exists(optimized):
        device, graphs, oracle = figures_before(args)
    else:
        begin = time.monotonic()
        chosen = rewright(args.rewright, "optimize", path, "-o", optimized, "--no-check", *common)
        print(f"  searched for {time.monotonic() - begin:.1f} s: {chosen['verdict']}; {chosen['search_end']}, {len(chosen['dropped'])} dropped", flush=True)
        print("  rewrites: " + (", ".join(f"{row['count']} x {row['rule']}" for row in chosen["rewrites"]) or "none"))
        for row in chosen["dropped"]:
            print(f"  dropped: {row['why']}: {row['text'][:160]}")
        device, graphs, oracle = own_figures(args, {"original": path, "optimized": optimized}, flags)
    errors = [error for _, error in graphs.values()]
    bound = roofline_ms(args.rewright, path, device, args.precision)
    if not args.reuse or chosen:
        merge_rows(args.out, [{
            "device": device, "model": args.model, "batch": args.batch, "precision": args.precision, "contestant": name,
            "median_ms": f"{latency['median']:.4f}", "min_ms": f"{latency['min']:.4f}",
            "spread": f"{latency['spread']:.4f}",
            "of_roofline": f"{bound / latency['median']:.4f}" if bound else "", "largest_error": f"{error:.3g}",
            "checked_against": oracle, "equal": int(error <= tolerance), "zoo_flags": args.zoo_flags, **describe()}
            for name, (latency, error) in graphs.items()], KEYS)
    if args.own:
        return 0 if max(errors) <= tolerance else 1

    # The outputs are judged by the tolerances above, so a negative answer is read, not obeyed.
    contest = rewright(args.rewright, "compare", path, "--optimized", optimized, "--iterations", args.rounds, "--seed", 1,
                       *flags, *(["--no-peers"] if args.no_peers else []),
                       *(word for peer in args.peer for word in ("--peer", peer)), negative_is_fine=True)
    table = contest["models"][0]
    medians = {row["name"]: row["median_ms"] for row in table["rows"]}
    best_peer = min((medians[name] for name in PEERS if name in medians), default=None)
    rows, equal = [], max(errors) <= tolerance
    for row in table["rows"]:
        known = {"original": errors[0], "optimized": errors[1]}.get(row["name"])
        error = errors[0] + row["max_rel_diff"] if known is None else known
        agrees = error <= 2 * tolerance if known is None else error <= tolerance
        rows.append({
            "device": device, "model": args.model, "batch": args.batch, "precision": args.precision,
            "contestant": row["name"], "median_ms": f"{row['median_ms']:.4f}", "min_ms": f"{row['min_ms']:.4f}",
            "spread": f"{row['spread']:.4f}",
            "over_best_peer": f"{row['median_ms'] / best_peer:.4f}" if best_peer else "",
            "over_baseline": f"{row['median_ms'] / medians['baseline']:.4f}",
            "of_roofline": f"{bound / row['median_ms']:.4f}" if bound else "",
            "largest_error": f"{error:.3g}", "checked_against": oracle, "equal": int(agrees), "text": row["text"],
            "search_cpu_seconds": f"{chosen.get('search_cpu_seconds', 0):.2f}", "zoo_flags": args.zoo_flags,
            **describe()})
        print(f"  {row['name']:<22} {row['median_ms']:10.4f} ms  "
              f"{'' if not bound else format(bound / row['median_ms'], '6.1%') + ' of the roofline  '}{row['text']}")
    for absent in table["absent"]:
        print(f"  {absent['name']:<22} absent: {absent['reason']}")
    merge_rows(args.out, rows, KEYS)
    return 0 if equal else 1


if __name__ == "__main__":
    main_of(main)
