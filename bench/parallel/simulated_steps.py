#!/usr/bin/env python3
"""Compares simulated steps of training with measured ones, on ranks of this machine.

    python bench/parallel/simulated_steps.py [--program build/release/rewright] [--ranks 2 4] [--turns 3]
        [--models mlp conv_net gpt] [--out bench/results/simulated_steps.csv]

The cluster is what `rewright profile --collectives` measures; subgraphs take what `rewright simulate --profile` measures
on one core: groups of nodes one by one, which takes longer than in a step. So the first layout of a model calibrates the
seconds of the others (`fixes`): its measured time over its simulated time. `ratio` is the simulated time, so scaled, over
the measured one, and errors are those of the others. `order` counts pairs of layouts whose measured times differ by over
10 %, and those of them that the simulation puts in the same order.
"""
import argparse
import csv
import itertools
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from parallel.ranks import ENVIRONMENT  # noqa: E402
from table import machine  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
EXAMPLES = ROOT / "tools/examples"
# Layouts by number of ranks.
PLAIN = {2: ["dp=2", "dp=2,zero=1", "dp=2,zero=2", "dp=2,zero=3", "pp=2", "pp=2,schedule=zero_bubble"],
         4: ["dp=4", "dp=4,zero=1", "dp=4,zero=3", "dp=2,pp=2", "pp=4"]}
CUT = {2: ["tp=2"], 4: ["dp=2,tp=2", "tp=4"]}
SEQUENCE = {2: ["cp=2"], 4: ["dp=2,cp=2"]}


def mlp():
    config = json.loads((EXAMPLES / "digits/digits.json").read_text())
    config["model"] = {"mlp": {"sizes": [64, 1024, 1024, 10]},
                       "places": {"layer0.weight": 1, "layer0.bias": 0, "layer1.weight": 0}}
    return config, EXAMPLES / "digits", 256, [PLAIN, CUT]


def conv_net():
    config = json.loads((EXAMPLES / "digits/conv_net.json").read_text())
    config["model"] = {"conv_net": {"image": [1, 8, 8], "channels": [32, 64], "classes": 10}}
    return config, EXAMPLES / "digits", 64, [PLAIN]


def gpt():
    config = json.loads((EXAMPLES / "characters/gpt.json").read_text())
    return config, EXAMPLES / "characters", 32, [PLAIN, SEQUENCE]


MODELS = {"mlp": mlp, "conv_net": conv_net, "gpt": gpt}


def absolute(config, folder):
    """The configuration with paths that hold from any folder, without validation."""
    config.pop("validation", None)
    for column in [*config["data"]["inputs"].items(), ("target", config["data"]["target"])]:
        name, value = column
        value = value if isinstance(value, dict) else {"file": value}
        value["file"] = str(folder / value["file"])
        if name == "target":
            config["data"]["target"] = value
        else:
            config["data"]["inputs"][name] = value


def write_config(name, folder, steps):
    config, data, batch, groups = MODELS[name]()
    absolute(config, data)
    config["data"].update(batch=batch, micro_batches=8)
    config.pop("epochs", None)
    config["steps"] = steps
    config["optimizer"].pop("schedule", None)
    path = pathlib.Path(folder) / f"{name}.json"
    path.write_text(json.dumps(config))
    return path, groups


def simulated(program, config, cluster, layout, profile):
    run = subprocess.run([program, "simulate", str(config), "--cluster", str(cluster), "--layout", layout, "--profile",
                          str(profile), "--threads", "1", "--json"], capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(f"{config.stem} {layout}: {run.stderr}")
    return json.loads(run.stdout)


def step_seconds(program, config, ranks, layout):
    """Of one run, the median of the second half of its steps."""
    bound = ["--bind-to", "core"] if ranks <= os.cpu_count() else ["--oversubscribe"]
    run = subprocess.run(["mpirun", *bound, "-n", str(ranks), program, "train", str(config), "--threads", "1", "--json",
                          "--quiet", "--keep-all", "--layout", layout], capture_output=True, text=True, env=ENVIRONMENT)
    if run.returncode != 0:
        sys.exit(f"{config.stem} {layout}: {run.stderr}")
    lines = [json.loads(line) for line in run.stdout.splitlines()]
    seconds = [line["seconds"] for line in lines if "seconds" in line and "step" in line]
    return statistics.median(seconds[len(seconds) // 2:])


def measured(program, config, ranks, layouts, turns):
    """Seconds of a step by layout, the median of the turns."""
    seconds = {layout: [] for layout in layouts}
    for _ in range(turns):
        for layout in layouts:
            seconds[layout].append(step_seconds(program, config, ranks, layout))
    return {layout: statistics.median(values) for layout, values in seconds.items()}


def order(rows):
    """Pairs that differ by over 10 %, and those of them in the right order."""
    pairs = right = 0
    for (_, a, b), (_, c, d) in itertools.combinations(rows, 2):
        if max(a, c) > 1.1 * min(a, c):
            pairs += 1
            right += (a < c) == (b < d)
    return pairs, right


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(ROOT / "build/release/rewright"))
    parser.add_argument("--ranks", type=int, nargs="+", default=[n for n in (2, 4) if n <= os.cpu_count()])
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--out")
    args = parser.parse_args()
    lines, errors, pairs, right = [], [], 0, 0
    with tempfile.TemporaryDirectory() as folder:
        for ranks in args.ranks:
            cluster = pathlib.Path(folder) / f"cluster{ranks}.json"
            subprocess.run(["mpirun", "--oversubscribe", "-n", str(ranks), args.program, "profile", "--threads", "1",
                            "--collectives", str(cluster)], check=True, env=ENVIRONMENT, stdout=subprocess.DEVNULL)
            for name in args.models:
                config, groups = write_config(name, folder, args.steps)
                layouts = [layout for group in groups for layout in group[ranks]]
                profile = pathlib.Path(folder) / "costs.db"
                found = measured(args.program, config, ranks, layouts, args.turns)
                made = {layout: simulated(args.program, config, cluster, layout, profile)["seconds"]
                        for layout in layouts}
                scale = found[layouts[0]] / made[layouts[0]]
                rows = [(layout, found[layout], scale * made[layout]) for layout in layouts]
                for layout, real, scaled in rows:
                    fixes = layout == layouts[0]
                    if not fixes:
                        errors.append(abs(scaled / real - 1))
                    lines.append([name, ranks, layout, f"{1e3 * real:.3f}", f"{1e3 * scaled / scale:.3f}",
                                  f"{scaled / real:.3f}", f"{scale:.3f}" if fixes else ""])
                    print("  ".join(map(str, lines[-1])), flush=True)
                of_model = order(rows)
                pairs, right = pairs + of_model[0], right + of_model[1]
    summary = [f"{len(errors)} steps: error {100 * statistics.median(errors):.1f} % in the median, "
               f"{100 * max(errors):.1f} % at worst", f"order: {right} of {pairs} pairs that differ by over 10 %"]
    print("\n".join(summary))
    if args.out:
        with open(args.out, "w", newline="") as file:
            for line in [machine(), *summary]:
                file.write(f"# {line}\n")
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["model", "ranks", "layout", "measured ms", "simulated ms", "ratio", "fixes"])
            writer.writerows(lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
