#!/usr/bin/env python3
"""What `rewright equal` says of pairs of small models that are equal, and of pairs that are not.

    python bench/equality/equal_pairs.py build/release/rewright [--out TABLE.csv] [--pairs 200] [--part K/N] [--only PATTERN]
                                                       [--seed N] [--keep DIR]

200 pairs compute the same over the real numbers: constants are folded, applications are ordered otherwise, elements go
through another type and back, an operator is written in parts, or B is what `rewright optimize` makes of A. 200 more
are such pairs in which one thing in B is changed by more than rounding: an element of a weight, an epsilon, an axis, an
activation, the place of a slice. Each is of f32, f16 or bf16, in turn. Weights that are folded are folded in f64, in
the type itself, or by several roundings.

Fails, with status 1, where an equal pair is called different, a changed one is called proved, fewer than 95 in 100
changed pairs are called different, or the program ends in another way. --keep leaves the models of failures there.
Wants onnx.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import random
import re
import subprocess
import sys
import tempfile

import onnx

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from equality.equal_kinds import CHANGED, EQUAL, Draw  # noqa: E402
from table import machine, write_table  # noqa: E402


def pair_of(number, seed, changed):
    """Pair `number`: a description and two models. Kinds and types in turn; changes in turn where there is a place."""
    kinds, types = list(EQUAL), ["f32", "f16", "bf16"]
    draw = Draw(random.Random(f"{seed} {number} {changed}"), types[number % len(types)])
    kind = kinds[number % len(kinds)]
    a, b = EQUAL[kind](draw)
    if draw.rng.random() < 0.5:
        a, b = b, a
    row = {"pair": number, "kind": kind, "type": draw.dtype, "change": ""}
    if changed:
        changes = list(CHANGED.items())
        draw.rng.shuffle(changes)
        for name, make in changes:
            if make(b, draw):
                row["change"] = name
                break
        else:
            return None
    return row, a, b


def valid(path):
    try:
        onnx.checker.check_model(path, full_check=True)
        return True
    except Exception:  # pylint: disable=broad-except  # a change may leave shapes that do not go together
        return False


def optimize(program, source, result):
    subprocess.run([program, "optimize", source, "-o", result, "--cost", "analytic:v100", "--budget", "50", "--quiet",
                    "--threads", "1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=600, check=True)


def answer_of(program, a, b):
    done = subprocess.run([program, "equal", a, b, "--threads", "1", "--json", "--quiet", "--time-limit", "300"],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=600, check=False)
    if done.returncode not in (0, 1):
        return {"answer": "error", "error": " ".join(done.stderr.split())[-300:]}
    return json.loads(done.stdout)


def judged(program, number, flags, changed, folder):
    made = pair_of(number, flags.seed, changed)
    if made is None:
        return None
    row, a, b = made
    paths = [os.path.join(folder, f"{'changed' if changed else 'equal'}_{number}_{side}.onnx") for side in "ab"]
    for model, path in zip((a, b), paths):
        model.save(path)
        if not valid(path):
            if not changed:
                raise RuntimeError(f"{path} is no model")
            return None
    if row["kind"] == "optimized" and not changed:
        optimize(program, *paths)
    found = answer_of(program, *paths)
    row["answer"] = found["answer"]
    ran = found.get("rounding") or {}
    for key in ("difference", "worst", "typical"):
        row[key] = f"{ran[key]:.2g}" if isinstance(ran.get(key), float) else ""
    row["error"] = found.get("error", "")
    good = row["answer"] != "error" and row["answer"] != ("proved" if changed else "different")
    if good:
        for path in paths:
            os.unlink(path)
    return row


def count(rows, say):
    """Prints what was answered and says whether all of it is right."""
    good = True
    for changed, name in ((False, "equal"), (True, "changed")):
        part = [row for row in rows if bool(row["change"]) == changed]
        answers = collections.Counter(row["answer"] for row in part)
        say(f"{name:8} {len(part):4} pairs: " + ", ".join(f"{n} {answer}" for answer, n in sorted(answers.items())))
        good = good and answers["error"] == 0 and answers["proved" if changed else "different"] == 0
        if changed:
            good = good and answers["different"] >= 0.95 * len(part)
        bad = [row for row in part if row["answer"] not in (("different",) if changed else ("proved",))]
        by = collections.Counter((row["answer"], row["kind"], row["change"], row["type"]) for row in bad)
        for key, n in sorted(by.items()):
            say(f"  {n} {' '.join(one for one in key if one)}")
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--out", default="")
    parser.add_argument("--pairs", type=int, default=200, help="of each sort (default 200)")
    parser.add_argument("--part", default="0/1", help="K/N: each Nth pair, from number K on")
    parser.add_argument("--only", default="", help="kinds that match")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--keep", default="", help="a folder for the models of wrong answers")
    flags = parser.parse_args()
    first, step = map(int, flags.part.split("/"))
    rows = []
    with tempfile.TemporaryDirectory() as scratch, concurrent.futures.ThreadPoolExecutor(flags.jobs) as pool:
        folder = flags.keep or scratch
        os.makedirs(folder, exist_ok=True)
        for changed in (False, True):
            tasks = []
            taken = (number for number in range(first, 10 * flags.pairs, step)
                     if re.search(flags.only, list(EQUAL)[number % len(EQUAL)]))
            wanted = -(-flags.pairs // step)
            done = 0
            while done < wanted:
                tasks = [pool.submit(judged, flags.program, number, flags, changed, folder)
                         for _, number in zip(range(wanted - done), taken)]
                if not tasks:
                    break
                found = [row for task in tasks if (row := task.result()) is not None]
                done += len(found)
                rows += found
    good = count(rows, print)
    if flags.out:
        write_table(flags.out, f"{machine()}: answers of rewright equal", rows)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
