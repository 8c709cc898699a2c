"""Which model gains by which rule: the cost of the graph that `rewright optimize` finds without the rule, relative to
the cost with it, for every rule on the way to a best graph.

    python bench/search/rule_gains.py build/release/rewright OUT.txt MODEL.onnx.. [--rules FILE ..] [--devices v100 zen3]
                               [--only PATTERN]

Models are ONNX files, such as those of `rewright zoo` and of bench/models/exports.py --keep. Costs are those of described
devices, so the figures are the same on every machine. A search that is forced to another way may end lower: a negative
figure says that.
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from table import machine  # noqa: E402


GAIN = 1e-4  # Less than this part of a model's cost is no gain.
SHOWN = 3


def optimize(arguments, model, device, without=()):
    """The cost that is found in milliseconds, and the rules on the way; None where the model is refused."""
    command = [arguments.rewright, "optimize", model, "--baseline", "--no-check", "--no-prove", "--cost",
               f"analytic:{device}", "--budget", "1000", "--json", "--quiet"]
    for file in arguments.rules:
        command += ["--rules", file]
    for name in without:
        command += ["--disable-rule", name]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode != 0:
        return None
    report = json.loads(run.stdout)
    # A rule with an operator variable is NAME:OPERATOR there.
    return report["cost_after_ms"], list(dict.fromkeys(row["rule"].split(":")[0] for row in report["rewrites"]))


def measure(arguments):
    """For each rule the gains (part of the cost, model, device), the largest first."""
    gains = {}
    for model in arguments.models:
        name = pathlib.Path(model).stem
        for device in arguments.devices:
            best = optimize(arguments, model, device)
            if best is None:
                print(f"{name}: refused")
                break
            cost, rules = best
            for rule in filter(re.compile(arguments.only).search, rules):
                without = optimize(arguments, model, device, [rule])
                if without is not None:
                    gains.setdefault(rule, []).append((without[0] / cost - 1, name, device))
        print(name, flush=True)
    return {rule: sorted(row, reverse=True) for rule, row in gains.items()}


def shown(gains):
    return ", ".join(f"{model} {device} {gain:+.2%}" for gain, model, device in gains[:SHOWN])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("rewright")
    parser.add_argument("out")
    parser.add_argument("models", nargs="+")
    parser.add_argument("--rules", nargs="+", default=["substitutions/rules/core.rules", "substitutions/rules/laws.rules"])
    parser.add_argument("--devices", nargs="+", default=["v100", "zen3"])
    parser.add_argument("--only", default="", help="rules that are measured: a regular expression of their names")
    arguments = parser.parse_args()
    gains = measure(arguments)
    lines = [line for file in arguments.rules for line in pathlib.Path(file).read_text().splitlines()]
    names = [line.split()[1] for line in lines if line.startswith("rule ") and re.search(arguments.only, line.split()[1])]
    rows = sorted(((gains[name][0][0], name) for name in names if name in gains), reverse=True)
    with open(arguments.out, "w") as out:
        out.write(f"# {machine()}\n# {len(arguments.models)} models; devices {', '.join(arguments.devices)}; "
                  "bench/search/rule_gains.py\n# Cost without the rule relative to that with it, the largest three of those that "
                  "have it on their way.\n")
        for gain, name in rows:
            gaining = sum(part >= GAIN for part, _, _ in gains[name])
            out.write(f"{name:38s} {len(gains[name]):3d} ways, {gaining:3d} gain: {shown(gains[name])}\n")
        out.write("# On the way to no best graph: " + " ".join(name for name in names if name not in gains) + "\n")


if __name__ == "__main__":
    main()
