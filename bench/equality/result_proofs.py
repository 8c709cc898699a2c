#!/usr/bin/env python3
"""What it costs `rewright optimize` to prove its own result equal to the original, over the zoo.

  .venv/bin/python bench/equality/result_proofs.py [--models a,b] [--small] [--limit 60] [--out bench/results/result_proofs.txt]

For each model: the seconds of the whole command without the proof, those of the proof, and what became of it; the
search's costs are those of an analytic device, and outputs are not compared, so that the command is as short as it gets.
"""

import argparse
import datetime
import os
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from equality.equal import SMALL, rewright  # noqa: E402
from table import machine  # noqa: E402



def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(SMALL))
    parser.add_argument("--small", action="store_true", help="small versions of the models")
    parser.add_argument("--limit", type=float, default=60, help="seconds for a proof (default 60)")
    parser.add_argument("--out", default="")
    flags = parser.parse_args()
    lines = [f"# {machine()}, {datetime.date.today()}", "# " + " ".join(sys.argv)]

    def say(line):
        print(line, flush=True)
        lines.append(line)

    say(f"{'model':16} {'steps':>6} {'optimize':>9} {'proof':>7} {'values':>6} {'shared':>6} {'rules':>5} {'prover':>6}  "
        "answer")
    answers = []
    with tempfile.TemporaryDirectory() as folder:
        for name in flags.models.split(","):
            source, result = os.path.join(folder, name + ".onnx"), os.path.join(folder, "result.onnx")
            status, found = rewright("zoo", name, *(SMALL[name].split() if flags.small else []), "-o", source)
            if status != 0:
                raise RuntimeError(f"{name}: {found}")
            begin = time.time()
            _, found = rewright("optimize", source, "-o", result, "--cost", "analytic:v100", "--no-check",
                                "--proof-limit", str(flags.limit))
            seconds = time.time() - begin
            proof = found.get("proof", {"text": "the original" if "verdict" in found else found["error"], "seconds": 0})
            answers.append(proof.get("answer", ""))
            say(f"{name:16} {found.get('steps', 0):6} {seconds - proof['seconds']:9.2f} {proof['seconds']:7.2f} "
                f"{proof.get('values', 0):6} {proof.get('shared', 0):6} {proof.get('regions_by_rules', 0):5} "
                f"{proof.get('regions_by_prover', 0):6}  {proof['text']}")
            os.unlink(source)
    say(f"# {answers.count('proved')} of {len(answers)} proved, {answers.count('')} are the original")
    if flags.out:
        with open(flags.out, "w", encoding="utf-8") as out:
            out.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
