#!/usr/bin/env python3
"""The true laws of tests/verifier/prototype_rules.txt that have a rule, as a file of goals for `rewright derive`.

    bench/proofs/prototype_goals.py > goals.rules
    rewright derive --rules substitutions/rules/core.rules --rules substitutions/rules/laws.rules --rules ... --goals goals.rules
"""
import pathlib
import re

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "tests" / "verifier"
FILES = ["matmul", "conv", "elementwise", "structure", "taso_axioms"]


def main():
    laws = [line.split("|") for line in (FOLDER / "prototype_rules.txt").read_text().splitlines()
            if line and not line.startswith("#")]
    wanted = {law[2].strip() for law in laws} - {"-"}
    for name in FILES:
        text = re.sub(r"^#.*\n", "", (FOLDER / f"{name}.rules").read_text(), flags=re.M)
        for rule in re.split(r"^(?=rule )", text, flags=re.M):
            head = re.match(r"rule (\S+)", rule)
            if head and head.group(1) in wanted and "expect proved" in rule:
                wanted.remove(head.group(1))
                print(rule.strip() + "\n")


if __name__ == "__main__":
    main()
