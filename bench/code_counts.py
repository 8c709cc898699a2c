#!/usr/bin/env python3
"""Counts what the code repeats, at any revisions, so that they can be compared: bench/code_counts.py [REVISION...]

Lines and files by folder; files that look at kinds of index expressions; floor divisions; evaluators and compilers of
expressions; ways to run a schedule; comparisons with the name of an operator. A definition is counted where a
line defines it: the patterns are below.
"""
import re
import subprocess
import sys

FOLDERS = ["core", "substitutions", "verifier", "search", "backends", "runtime", "tools", "bench", "tests"]

FLOOR_DIVISIONS = r"\bint64_t \w*[Ff]loor_?[Dd]iv\w*\(int64_t|\bauto floor_div = |\b\w*[Ff]loor_?[Dd]iv\w*\(int64_t a, int64_t b"
# What computes elements from expressions on this machine: the oracle is not among them, nor what turns them into terms
# of a solver.
EVALUATORS = {
    "interpreter": r"^class (StageBuilder|BlockRunner)\b",
    "interpreter over integers": r"\bkExactInteger\b.*,|^struct ExactArith",
    "interpreter over a field": r"^struct FieldArith|^class FieldArith",
    "tape of the generator": r"^class Tape\b",
    "concrete instance of the verifier": r"^class ConcreteInstance\b",
    "scalars of a tile program": r"^double Evaluate\(const PointwiseProgram",
}
# What makes kernels of devices out of them.
COMPILERS = {
    "tile program of the CPU": r"^struct PointwiseProgram\b",
    "writer of CUDA text": r"^class ExpressionWriter\b",
}
INDEX_EVALUATORS = {
    "indices in core": r"^int64_t EvalIndex\(|EvalIndex\(const ExprPtr",
    "indices in the verifier": r"EvaluateIndex\(const ExprPtr",
}
RUNNERS = {
    "Executor": r"^class Executor\b",
    "DeviceExecutor": r"^class DeviceExecutor\b",
    "ScheduleMemory": r"^class ScheduleMemory\b",
    "TrialMemory": r"^class TrialMemory\b",
    "OperandSets": r"^class OperandSets\b",
    "tests' RunSchedule": r"\bRunSchedule\(.*\{$",
}


def sources(revision):
    """Path -> text of every C++ source."""
    names = subprocess.run(["git", "ls-tree", "-r", "--name-only", revision], check=True, capture_output=True, text=True)
    paths = [p for p in names.stdout.split("\n") if p.endswith((".cc", ".h", ".inc", ".cu", ".def"))]
    batch = subprocess.run(["git", "cat-file", "--batch"], input="".join(f"{revision}:{p}\n" for p in paths).encode(),
                           check=True, capture_output=True).stdout
    texts, at = {}, 0
    for path in paths:
        end = batch.index(b"\n", at)
        size = int(batch[at:end].split()[2])
        texts[path] = batch[end + 1:end + 1 + size].decode()
        at = end + 1 + size + 1
    return texts


def found(texts, definitions):
    return [name for name, pattern in definitions.items()
            if any(re.search(pattern, text, re.M) for text in texts.values())]


def report(revision):
    texts = sources(revision)
    code = {p: t for p, t in texts.items() if not p.startswith(("tests/", "bench/"))}
    print(f"{revision}:")
    for folder in FOLDERS:
        inside = [t for p, t in texts.items() if p.startswith(folder + "/")]
        print(f"  {folder:14} {len(inside):4} files {sum(t.count(chr(10)) for t in inside):6} lines")
    kinds = [p for p, t in code.items() if "ExprKind::" in t and not re.match(r"core/(ir/)?expr\.", p)]
    floors = sum(len(re.findall(FLOOR_DIVISIONS, t)) for t in code.values())
    named = re.compile(r'name\s*[!=]=\s*"')
    names = {f: sum(len(named.findall(t)) for p, t in code.items() if p.startswith(f + "/")) for f in FOLDERS}
    short = [p for p, t in code.items() if t.count("\n") < 30]
    casts = sum(t.count("static_cast<size_t>") for t in code.values())
    print(f"  files that look at kinds of expressions: {len(kinds)}")
    print(f"  floor divisions: {floors}")
    for title, definitions in (("evaluators of element expressions", EVALUATORS),
                               ("compilers of element expressions for devices", COMPILERS),
                               ("evaluators of indices over numbers", INDEX_EVALUATORS),
                               ("ways to run a schedule", RUNNERS)):
        there = found(texts if definitions is RUNNERS else code, definitions)
        print(f"  {title}: {len(there)} ({', '.join(there)})")
    print(f"  comparisons with an operator's name: {sum(names.values())} "
          f"({', '.join(f'{f} {n}' for f, n in names.items() if n)})")
    print(f"  files under 30 lines: {len(short)}; casts to size_t: {casts}")


for revision in sys.argv[1:] or ["HEAD"]:
    report(revision)
