#!/usr/bin/env python3
"""What `rewright verify` says of the rewrites of other programs (substitutions/rules/rulebook).

    python3 bench/proofs/rulebook.py build/release/rewright [--out TABLE.csv] [--part K/N | today/N] [--time-limit 60]
                                     [--threads N]

Each rule has a line `Origin:` in its comment. Rules of false.rules must be refuted and those of open.rules must not be
refuted; all others must be proved. Conditions for false ones are those that --infer finds. --part takes every Nth rule
from number K on; today/N takes another K each day (REWRIGHT_DAY: its number), and all with REWRIGHT_FULL in the
environment. Fails, with status 1, where a verdict is another one.
"""
import argparse
import collections
import json
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))
from table import machine, part_of, write_table  # noqa: E402

RULE = re.compile(r"((?:^#[^\n]*\n)+)rule (\S+)\n((?:^ [^\n]*\n)+)", re.MULTILINE)
EXPECTED = {"false.rules": "refuted", "open.rules": "unknown"}


def rules_of(path):
    """Name, comment and text of each rule of a file."""
    text = path.read_text()
    found = [(name, comment, f"{comment}rule {name}\n{body}\n") for comment, name, body in RULE.findall(text)]
    if len(found) != len(re.findall(r"^rule ", text, re.MULTILINE)):
        raise SystemExit(f"{path}: a rule has no comment")
    return found


def verdicts(program, text, flags, infer):
    with tempfile.NamedTemporaryFile("w", suffix=".rules") as file:
        file.write(text)
        file.flush()
        command = [program, "verify", file.name, "--json", "--quiet", "--rule-limit", str(flags.time_limit)]
        if flags.threads:
            command += ["--threads", str(flags.threads)]
        done = subprocess.run(command + (["--infer"] if infer else []), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, check=False)
    if done.returncode not in (0, 1):
        raise SystemExit(done.stderr)
    return {rule["name"]: rule for rule in json.loads(done.stdout)["rules"]}


def row_of(file, name, comment, verdict):
    origin = re.search(r"Origin: (.*?)\.?\s*$", comment.replace("\n# ", " "), re.DOTALL)
    if origin is None:
        raise SystemExit(f"{file}: rule {name} names no origin")
    inferred = " or ".join(one["when"] for one in verdict.get("inferred", {}).get("answers", []))
    return {"file": file, "rule": name, "origin": " ".join(origin.group(1).split()), "verdict": verdict["verdict"],
            "class": verdict.get("class", ""), "instances": verdict.get("instances", ""),
            "condition": inferred,
            "counterexample": verdict.get("reason", "") if verdict["verdict"] == "refuted" else ""}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--out", default="")
    parser.add_argument("--part", default="1/1")
    parser.add_argument("--time-limit", type=int, default=60)
    parser.add_argument("--threads", type=int, default=0)
    flags = parser.parse_args()
    first, step = part_of(flags.part)
    rows, number, wrong = [], 0, []
    for path in sorted((ROOT / "substitutions/rules/rulebook").glob("*.rules")):
        wanted = []
        for rule in rules_of(path):
            number += 1
            if (number - first) % step == 0:
                wanted.append(rule)
        if not wanted:
            continue
        expected = EXPECTED.get(path.name, "proved")
        found = verdicts(flags.program, "".join(text for _, _, text in wanted), flags, infer=expected == "refuted")
        for name, comment, _ in wanted:
            row = row_of(path.name, name, comment, found[name])
            rows.append(row)
            # A rule that was open and is proved is good news; the file is to be changed all the same.
            if row["verdict"] != expected and not (expected == "unknown" and row["verdict"] == "proved"):
                wrong.append(f"{path.name}: {name} is {row['verdict']}, expected {expected}: "
                             f"{found[name].get('reason', '')}")
    for file, counts in sorted(collections.Counter((row["file"], row["verdict"]) for row in rows).items()):
        print(f"{file[0]:20} {file[1]:8} {counts}")
    print("\n".join(wrong))
    if flags.out:
        write_table(flags.out, f"{machine()}: verdicts of the rulebook", rows)
    return 1 if wrong or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
