#!/usr/bin/env python3
"""Prints N variations of the shipped rules, seeded: what `rewright verify` does with large files.

A variation has a name of its own, and one of: another condition on sizes (true wherever the rule is), an operator
exchanged for another (nearly always false), or nothing else. Half of the rules therefore take a proof, and a good part
of the others a counterexample.

    python3 bench/proofs/rule_variations.py 1000 --seed 1 > variations.rules
"""
import argparse
import pathlib
import random
import re

RULES = pathlib.Path(__file__).resolve().parents[2] / "substitutions/rules/core.rules"
ELEMENTWISE = ["relu", "tanh", "sigmoid", "exp", "neg", "abs"]


def shipped_rules():
    """Names and laws, without comments and records of proofs."""
    for block in re.split(r"^rule ", RULES.read_text(), flags=re.M)[1:]:
        lines = [line for line in block.splitlines() if line.strip() and not line.startswith("#")]
        end = next((i for i, line in enumerate(lines) if line.lstrip().startswith("proved ")), len(lines))
        yield lines[0].strip(), lines[1:end]


def size_names(law):
    """Sizes that stand alone in a variable's shape."""
    shapes = re.findall(r"(?<![=?\w])[a-z]\w*\[([^\[\]~]*)\]", " ".join(law))
    items = [item.strip() for shape in shapes for item in shape.split(",")]
    return [item for item in items if re.fullmatch(r"[a-z]\w*", item)]


def with_condition(law, rng):
    sizes = size_names(law)
    if not sizes:
        return law
    condition = f"{rng.choice(sizes)} >= {rng.randint(2, 9)}"
    joined = any(line.lstrip().startswith("when ") for line in law)
    return law + [f"   and {condition}" if joined else f"  when {condition}"]


def with_other_operator(law, rng):
    text = "\n".join(law)
    places = [m for m in re.finditer(r"\b(" + "|".join(ELEMENTWISE) + r")\(", text)]
    if not places:
        places = [m for m in re.finditer(r"\b(add|mul|sub|max|min)\(", text)]
        names = ["add", "mul", "sub", "max", "min"]
    else:
        names = ELEMENTWISE
    if not places:
        return law
    place = rng.choice(places)
    name = rng.choice([n for n in names if n != place.group(1)])
    return (text[:place.start(1)] + name + text[place.end(1):]).split("\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    rng = random.Random(arguments.seed)
    rules = list(shipped_rules())
    print(f"# {arguments.count} variations, seed {arguments.seed}: made by bench/proofs/rule_variations.py\n")
    for number in range(arguments.count):
        name, law = rng.choice(rules)
        change = rng.choice([with_condition, with_condition, with_other_operator, lambda same, _: same])
        print("\n".join([f"rule {name}.v{number}"] + change(law, rng)) + "\n")


if __name__ == "__main__":
    main()
