#!/usr/bin/env python3
"""Writes the table of results of README.md from bench/results, so that it says what was measured.

    bench/readme.py            writes it
    bench/readme.py --check    exit status 1: the table is not what the results give
"""
import csv
import math
import os
import statistics
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
BEGIN, END = "<!-- made by bench/readme.py -->", "<!-- end of what bench/readme.py makes -->"


def read(name):
    """The rows of a table, without its description; none where it is absent."""
    path = os.path.join(ROOT, "bench/results", name)
    if not os.path.exists(path):
        return []
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


def processor(name):
    """The processor that a table was measured on, from its first line."""
    with open(os.path.join(ROOT, "bench/results", name), encoding="utf-8") as file:
        return file.readline().lstrip("# ").split(",")[0].replace("(R)", "").strip()


def mean(ratios):
    return math.exp(statistics.fmean(math.log(ratio) for ratio in ratios))


def ratios(name, column, of="model"):
    return {row[of]: float(row[column]) for row in read(name) if row.get(column)}


def spread(found):
    """'0.77 (128: 0.85 .. 4096: 0.66)', the geometric mean and both ends."""
    least, most = min(found, key=found.get), max(found, key=found.get)
    return f"{mean(found.values()):.2f} ({least} {found[least]:.2f} to {most} {found[most]:.2f})"


def times():
    """Rows about time: question, part of the other's time, processor, table."""
    peers = ratios("vs_peers.csv", "ratio")
    if peers:
        yield (f"inference of {len(peers)} models in f32, beside the best of onnxruntime and OpenVINO for each",
               spread(peers), "vs_peers.csv")
    yield ("attention alone, 128 to 4,096 keys, beside the best of onnxruntime, OpenVINO and PyTorch",
           spread(ratios("attention.csv", "fold_over_best", "length")), "attention.csv")
    gains = {name.removesuffix(".dynamo"): ratio for name, ratio in ratios("onnxruntime_gains.csv", "ratio").items()}
    yield (f"{len(gains)} exports of PyTorch in onnxruntime by `optimize --for onnxruntime`, beside themselves",
           spread(gains), "onnxruntime_gains.csv")
    for name in ("training_pytorch_xeon.csv", "training_pytorch.csv"):
        yield ("a training step, beside the best of PyTorch's ways", spread(ratios(name, "ratio")), name)
    narrow = {row["model"]: 1 / float(row["ratio"]) for row in read("tolerances.csv") if float(row["tolerance"]) == 0.01}
    yield ("`optimize --tolerance 0.01` beside our f32", spread(narrow), "tolerances.csv")


def counts():
    """Rows about correctness: question, result, table."""
    rules = read("rulebook.csv")
    verdicts = [row["verdict"] for row in rules]
    yield (f"{len(rules)} rewrites of XLA, StableHLO, onnxruntime, onnxscript, Inductor, TVM and Grappler, restated",
           f"{verdicts.count('proved')} proved for all sizes, {verdicts.count('refuted')} refuted with an example, "
           f"{verdicts.count('unknown')} open", "rulebook.csv")
    pairs = [row for row in read("court.csv") if row["answer"] not in ("unchanged", "tool failed")]
    answers = [row["answer"] for row in pairs]
    yield (f"{len(pairs)} results of other ONNX optimizers, judged by `equal`",
           f"{answers.count('proved')} proved, {answers.count('different')} different (all confirmed by runs)", "court.csv")
    graphs = read("reported_graphs.csv")
    wrong = sum(any(value.startswith(("wrong", "crash")) for key, value in row.items() if value and key != "graph") for row in graphs)
    yield (f"{len(graphs)} graphs after public bug reports, through six verbs", f"{wrong} wrong", "reported_graphs.csv")
    graphs = read("rounding_graphs.csv")
    wrong = sum(row["result"] != "ok" for row in graphs)
    yield (f"{len(graphs)} quantized models and graphs that round on purpose, optimized", f"{wrong} with another integer or bit",
           "rounding_graphs.csv")


def table():
    lines = [BEGIN, "Time as a part of the other's, in the geometric mean and for the models at both ends; below 1 ours is faster:", "",
             "| what | part of the time | processor | table |", "|---|---|---|---|"]
    lines += [f"| {what} | {part} | {processor(name)} | [{name}](bench/results/{name}) |" for what, part, name in times()]
    lines += ["", "| what was checked | result | table |", "|---|---|---|"]
    lines += [f"| {what} | {result} | [{name}](bench/results/{name}) |" for what, result, name in counts()]
    return "\n".join(lines + [END])


def main():
    path = os.path.join(ROOT, "README.md")
    with open(path, encoding="utf-8") as file:
        text = file.read()
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    new = before + table() + after
    if "--check" in sys.argv:
        if new != text:
            print("README.md: its results are not those of bench/results; `bench/readme.py` writes them")
        return int(new != text)
    with open(path + ".part", "w", encoding="utf-8") as file:
        file.write(new)
    os.replace(path + ".part", path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
