"""The cost of the graph that `rewright optimize` finds with each of several rule sets.

    python bench/search/rule_sets.py build/release/rewright OUT.txt MODEL.onnx.. --sets FILE[,FILE] FILE[,FILE] ..
                              [--devices v100 zen3 h100 k80 v100-roofline]

Costs are those of described devices, so the figures are the same on every machine; the baseline is carried out first
with every set, as by default. CPU time is that of `optimize` as a whole, the reading of the model included.
"""
import argparse
import os
import pathlib
import resource
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from search.rule_gains import optimize  # noqa: E402
from table import machine  # noqa: E402


DEVICES = ["v100", "zen3", "h100", "k80", "v100-roofline"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("rewright")
    parser.add_argument("out")
    parser.add_argument("models", nargs="+")
    parser.add_argument("--sets", nargs="+", required=True)
    parser.add_argument("--devices", nargs="+", default=DEVICES)
    arguments = parser.parse_args()
    seconds = [0.0] * len(arguments.sets)
    lines = []
    for model in arguments.models:
        for device in arguments.devices:
            costs = []
            for number, files in enumerate(arguments.sets):
                arguments.rules = files.split(",")
                before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
                found = optimize(arguments, model, device)
                seconds[number] += resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
                costs.append(found[0] if found else float("nan"))
            rest = "".join(f"{cost:14.6f} {cost / costs[0] - 1:+10.4%}" for cost in costs[1:])
            lines.append(f"{pathlib.Path(model).stem:17s}{device:14s}{costs[0]:14.6f}{rest}")
        print(pathlib.Path(model).stem, flush=True)
    names = [" + ".join(pathlib.Path(file).name for file in files.split(",")) for files in arguments.sets]
    with open(arguments.out, "w") as out:
        out.write(f"# {machine()}\n# Cost in ms with {'; with '.join(names)}, relative to the first; bench/search/rule_sets.py\n"
                  f"# CPU seconds: {', '.join(f'{all_of_it:.1f}' for all_of_it in seconds)}\n")
        out.writelines(line + "\n" for line in lines)


if __name__ == "__main__":
    main()
