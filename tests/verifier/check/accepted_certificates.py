#!/usr/bin/env python3
"""Compares the certificates that the program without the prover takes with tests/verifier/lists/accepted_certificates.txt.

    accepted_certificates.py REWRIGHT REWRIGHT_CHECK MADE_SETS [--part K/N | today/N] [--others]

They are those of the shipped rules and of a set that the generator made; with --others, which prints and compares
nothing, also those of the rulebook and of the laws of sharding.
--part takes every Nth rule and operator from number K on; today/N takes another K each day (REWRIGHT_DAY: its number),
and all with REWRIGHT_FULL in the environment. A part leaves out what the list has as not proved or refused: these take
their limits, which are minutes. A line too many and a line too few both fail, and so does a count, where
all are taken. REWRIGHT_FULL=1 REWRIGHT_RECORD=1 make the list anew.
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))
from table import part_of  # noqa: E402

LIST = ROOT / "tests/verifier/lists/accepted_certificates.txt"
HEAD = """# Certificates that rewright_check takes: the file of the rules, how many are proved within the limit, how many of the
# certificates are taken. Below a file, the rules that have no certificate or a refused one, with the reason. Compared by
# tests/verifier/check/accepted_certificates.py.
"""
# Seconds of work for a rule, counted in steps: two transforms of Winograd need a minute.
LIMIT = "40"


def run(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode not in (0, 1):
        raise SystemExit(f"{' '.join(command)}: {done.stderr}")
    return done.stdout


class Sets:
    """Makes certificates of rules and of laws, has them checked, and keeps what came of each set."""

    def __init__(self, flags):
        self.flags = flags
        self.first, self.step = part_of(flags.part)
        self.without = set(re.findall(r"^  (\S+) \|", LIST.read_text(), re.MULTILINE))
        self.number = 0
        self.lines = []

    def todays(self, names):
        self.number += len(names)
        return [name for number, name in enumerate(names, self.number - len(names) + 1)
                if (number - self.first) % self.step == 0 and (self.step == 1 or name not in self.without)]

    def add(self, name, verify, unproved):
        """`verify` gives the command that writes certificates into a folder; `unproved` reads its output."""
        with tempfile.TemporaryDirectory() as folder:
            without = unproved(run(verify(folder)))
            count = len(list(pathlib.Path(folder).glob("*.cert")))
            out = run([self.flags.check, folder]) if count else ""
        refused = {}
        for rule, why in re.findall(r"^refused  \S*/([^/\s]+)\.cert:?\d*:? *(.*)$", out, re.MULTILINE):
            refused.setdefault(rule, why[:120])
        for rule in without:
            refused[rule] = "not proved within the limit"
        self.lines.append(f"{name} {count} {count - len(set(refused) - set(without))}")
        self.lines += [f"  {rule} | {why}" for rule, why in sorted(refused.items())]

    def add_rules(self, path):
        names = self.todays(re.findall(r"^rule (\S+)", path.read_text(), re.MULTILINE))
        if not names:
            return
        flags = [flag for name in names for flag in ("--rule", name)] if self.step > 1 else []
        self.add(path.stem,
                 lambda folder: [self.flags.program, "verify", str(path), "--certificates", folder, "--json", "--quiet",
                                 "--rule-limit", LIMIT] + flags,
                 lambda out: [rule["name"] for rule in json.loads(out)["rules"] if rule["verdict"] != "proved"])

    def add_sharding(self):
        every = [op["name"] for op in json.loads(run([self.flags.program, "ops", "--json"]))["ops"]]
        names = self.todays(every)
        if not names:
            return
        self.add("sharding",
                 lambda folder: [self.flags.program, "ops"] + (names if self.step > 1 else []) +
                                ["--sharding", "-o", os.path.join(folder, "laws.rules"), "--certificates", folder,
                                 "--quiet"],
                 lambda out: [])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("check")
    parser.add_argument("made")
    parser.add_argument("--part", default="1/1")
    parser.add_argument("--others", action="store_true")
    sets = Sets(parser.parse_args())
    rules = ROOT / "substitutions/rules"
    for path in sorted(rules.glob("*.rules")) + [ROOT / "substitutions/baseline/baseline.rules",
                                                 pathlib.Path(sets.flags.made) / "shape.rules"]:
        sets.add_rules(path)
    if sets.flags.others:
        for path in sorted((rules / "rulebook").glob("*.rules")):
            if path.stem not in ("false", "open"):
                sets.add_rules(path)
        sets.add_sharding()
    print("\n".join(sets.lines))
    if sets.flags.others:
        return
    if sets.step == 1 and os.environ.get("REWRIGHT_RECORD"):
        LIST.write_text(HEAD + "\n" + "\n".join(sets.lines) + "\n")
        return
    expected = [line for line in LIST.read_text().splitlines() if line and not line.startswith("#")]
    rows = [line.split(" | ")[0] for line in expected]
    wrong = [line for line in sets.lines if line.startswith("  ") and line.split(" | ")[0] not in rows]
    if sets.step == 1:
        wrong = sorted(set(expected) ^ set(sets.lines))
    if wrong:
        sys.exit(f"found other certificates that are taken than {LIST.name} has:\n" + "\n".join(wrong))


if __name__ == "__main__":
    main()
