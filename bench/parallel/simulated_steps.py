#!/usr/bin/env python3
"""Compares simulated steps of training with measured ones, on ranks of this machine.

    python bench/parallel/simulated_steps.py [--program build/release/rewright] [--ranks 2 4] [--turns 3]
        [--models mlp conv_net gpt] [--journal DIR] [--out bench/results/simulated_steps.csv]

The links are those that `rewright profile --collectives` measures, the seconds of subgraphs those that `rewright
simulate --profile` measures on every core at the same time, as ranks of a step compute: groups of nodes one by one,
with operands that are not in the cache. Three layouts of a model calibrate it (`fixes`): the factor for the seconds of
all its subgraphs and updates with which their simulated steps are as long as the measured ones, in the geometric mean.
All other layouts are predicted; errors are theirs. `order` counts pairs of layouts whose measured times differ by over
10 %, and those of them that the simulation puts in the same order.

A measured step is the median of the second half of the steps of a run; of several runs, which take turns with those of
other layouts, the shortest counts. A run beside which other processes took over 3 % of the processors is not counted:
ranks that poll for messages lose a time slice of the scheduler, 4 ms, wherever something else runs. With --journal what
was measured is kept there, and later calls add turns to it: a machine that others use can be measured a little at a
time. `--turns 0` measures nothing more.
"""
import argparse
import csv
import itertools
import json
import os
import pathlib
import re
import resource
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from parallel.ranks import ENVIRONMENT  # noqa: E402
from table import machine  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
EXAMPLES = ROOT / "tools/examples"
CALIBRATING = 3
# Layouts by number of ranks; the first of a model calibrate it.
PLAIN = {2: ["dp=2", "pp=2", "dp=2,zero=3", "dp=2,zero=1", "dp=2,zero=2", "pp=2,schedule=gpipe",
             "pp=2,schedule=zero_bubble", "pp=2,schedule=interleaved"],
         4: ["dp=4", "pp=4", "dp=4,zero=3", "dp=4,zero=1", "dp=2,pp=2", "dp=2,pp=2,zero=2"]}
CUT = {2: ["tp=2"], 4: ["dp=2,tp=2", "tp=4"]}
SEQUENCE = {2: ["cp=2"], 4: ["dp=2,cp=2"]}


def mlp():
    config = json.loads((EXAMPLES / "digits/digits.json").read_text())
    config["model"] = {"mlp": {"sizes": [64, 1024, 1024, 1024, 10]},
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
    path = folder / f"{name}.json"
    path.write_text(json.dumps(config))
    return path, groups


class Undisturbed:
    """Tells how much of the processors other processes took since it was made."""

    def __init__(self):
        self.start = self.now()

    @staticmethod
    def now():
        user, nice, system, idle, wait, *rest = map(int, open("/proc/stat").readline().split()[1:])
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        own = (children.ru_utime + children.ru_stime) * os.sysconf("SC_CLK_TCK")
        busy = user + nice + system + sum(rest[:3])  # interrupts, and what other machines took
        return busy - own, busy + idle + wait

    def share_of_others(self):
        busy, everything = self.now()
        return (busy - self.start[0]) / max(1, everything - self.start[1])

    def __bool__(self):
        return self.share_of_others() < 0.03


def run(command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, env=ENVIRONMENT)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: {done.stderr}")
    return done.stdout


def ranks_of(count):
    bound = ["--bind-to", "core"] if count <= os.cpu_count() else ["--oversubscribe"]
    return ["mpirun", *bound, "-n", count]


class Measurements:
    """What was measured of one model on some ranks, in a folder."""

    def __init__(self, args, name, ranks, folder):
        self.program, self.ranks, self.folder = args.program, ranks, folder / f"{name}{ranks}"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.cluster = folder / f"cluster{ranks}.json"
        self.config, groups = write_config(name, self.folder, args.steps)
        self.layouts = [layout for group in groups for layout in group[ranks]]
        self.file = self.folder / "seconds.json"
        self.seconds = json.loads(self.file.read_text()) if self.file.exists() else {}

    def plan(self, layout):
        return self.folder / (re.sub(r"[=,]", "_", layout) + ".plan")

    def prepare(self):
        """Links, and the plans of all layouts with seconds that every core measures while the others do."""
        while not self.cluster.exists():
            undisturbed = Undisturbed()
            run([*ranks_of(self.ranks), self.program, "profile", "--threads", 1, "--collectives", self.cluster])
            if not undisturbed:
                self.cluster.unlink()
        cores = min(self.ranks, os.cpu_count())
        for layout in [layout for layout in self.layouts if not self.plan(layout).exists()]:
            jobs = [subprocess.Popen(
                ["taskset", "-c", str(core), self.program, "simulate", str(self.config), "--cluster", str(self.cluster),
                 "--layout", layout, "--threads", "1", "--profile", str(self.folder / f"costs{core}.db"), "--plan",
                 f"{self.plan(layout)}.{core}"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) for core in
                    range(cores)]
            for job in jobs:
                _, error = job.communicate()
                if job.returncode != 0:
                    sys.exit(f"{self.config.stem} {layout}: {error.decode()}")
            os.rename(f"{self.plan(layout)}.0", self.plan(layout))

    def turn(self):
        for layout in self.layouts:
            undisturbed = Undisturbed()
            lines = [json.loads(line) for line in run(
                [*ranks_of(self.ranks), self.program, "train", self.config, "--threads", 1, "--json", "--quiet",
                 "--keep-all", "--layout", layout]).splitlines()]
            steps = [line["seconds"] for line in lines if "seconds" in line and "step" in line]
            if undisturbed:
                self.seconds.setdefault(layout, []).append(statistics.median(steps[len(steps) // 2:]))
                self.file.write_text(json.dumps(self.seconds))

    def measured(self, layout):
        return min(self.seconds[layout])

    def simulated(self, layout, factor):
        """The step where subgraphs and updates take `factor` times their seconds."""
        scaled = self.folder / "scaled.plan"
        scaled.write_text(re.sub(r"seconds (\S+)", lambda found: f"seconds {factor * float(found[1]):.9g}",
                                 self.plan(layout).read_text()))
        return json.loads(run([self.program, "simulate", scaled, "--cluster", self.cluster, "--json"]))["seconds"]

    def factor(self):
        """That of the layouts which calibrate."""
        factors = []
        for layout in self.layouts[:CALIBRATING]:
            low, high = 0.01, 10.0
            while high / low > 1.001:
                middle = (low * high) ** 0.5
                longer = self.simulated(layout, middle) > self.measured(layout)
                low, high = (low, middle) if longer else (middle, high)
            factors.append(low)
        return statistics.geometric_mean(factors)


def order(rows):
    """Pairs of layouts (measured, simulated) that differ by over 10 %, and those of them in the right order."""
    pairs = right = 0
    for (a, b), (c, d) in itertools.combinations(rows, 2):
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
    parser.add_argument("--journal", type=pathlib.Path)
    parser.add_argument("--out")
    args = parser.parse_args()
    lines, errors, pairs, right = [], [], 0, 0
    with tempfile.TemporaryDirectory() as temporary:
        found = [Measurements(args, name, ranks, args.journal or pathlib.Path(temporary))
                 for ranks in args.ranks for name in args.models]
        for one in found if args.turns else []:
            one.prepare()
        for _ in range(args.turns):
            for one in found:
                one.turn()
        for one in found:
            missing = [layout for layout in one.layouts if layout not in one.seconds]
            if missing:
                print(f"{one.config.stem}, {one.ranks} ranks: left out, no undisturbed run of {', '.join(missing)}")
                continue
            factor = one.factor()
            rows = [(one.measured(layout), one.simulated(layout, factor)) for layout in one.layouts]
            for layout, (real, made) in zip(one.layouts, rows):
                fixes = layout in one.layouts[:CALIBRATING]
                if not fixes:
                    errors.append(abs(made / real - 1))
                lines.append([one.config.stem, one.ranks, layout, len(one.seconds[layout]), f"{1e3 * real:.3f}",
                              f"{1e3 * made:.3f}", f"{made / real:.3f}", f"{factor:.3f}" if fixes else ""])
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
            writer.writerow(["model", "ranks", "layout", "turns", "measured ms", "simulated ms", "ratio", "fixes"])
            writer.writerows(lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
