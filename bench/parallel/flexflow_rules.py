#!/usr/bin/env python3
"""The rules with parallel operators that FlexFlow released (Unity, OSDI 2022), restated for any degree, each with a
verdict.

    python3 bench/parallel/flexflow_rules.py graph_subst_3_v2.json --out bench/results/flexflow_rules.txt

The file is substitutions/graph_subst_3_v2.json of github.com/flexflow/FlexFlow; every degree in it is 2. Tensors there
have three axes: copies, samples, channels. What a parallel operator does to the elements of the whole tensor is read off
FlexFlow's src/parallel_ops: partition and combine leave them, replicate repeats them along an axis, reduce adds as many
blocks of an axis. linear(x, w) takes for every block of its output channels another copy of x, for every block of samples
another copy of w (src/ops/linear.cc, register_mappings). A rule is restated with these in the operators of
core/ops/placement.cc, with ?d for 2, and with sizes that are any multiples of powers of ?d that the rule divides by. An
input is one copy where the rule has a linear, any number otherwise. Where tensors lie is not compared, elements are.
"""
import argparse
import collections
import datetime
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PARALLEL = {"OP_PARTITION", "OP_COMBINE", "OP_REPLICATE", "OP_REDUCE"}


class Product:
    """A size: a power of the degree, times a symbol that may be equal to others; or a text that is neither."""

    def __init__(self, symbol="", power=0, text=""):
        self.symbol, self.power, self.text = symbol, power, text


class Equal:
    """Symbols, each a power of the degree times the one that stands for it and its equals."""

    def __init__(self):
        self.parents = {}

    def find(self, symbol):
        power = 0
        while symbol in self.parents:
            symbol, more = self.parents[symbol]
            power += more
        return symbol, power

    def unite(self, a, b):
        if a.text or b.text:
            return
        (x, p), (y, q) = self.find(a.symbol), self.find(b.symbol)
        if x == y:
            return
        if "" in (x, y):  # a power of the degree alone
            x, p, y, q, a, b = (x, p, y, q, a, b) if y == "" else (y, q, x, p, b, a)
            self.parents[x] = (y, b.power + q - a.power - p)
        else:
            self.parents[x] = (y, b.power + q - a.power - p)

    def exponents(self, symbols):
        return {symbol: self.find(symbol) for symbol in symbols}


def parameters(op):
    return {p["key"]: p["value"] for p in op["para"]}


class Shapes:
    """The sizes of all tensors of a rule."""

    def __init__(self, rule, equal, one_copy):
        self.equal, self.one_copy, self.inputs = equal, one_copy, {}
        self.sides = [self.of_side(rule[side]) for side in ("srcOp", "dstOp")]

    def tensor(self, made, ref):
        if ref["opId"] >= 0:
            return made[ref["opId"]][ref["tsId"]]
        number = -ref["opId"]
        return self.inputs.setdefault(number, [
            Product() if axis == 0 and self.one_copy else Product(f"s{number}_{axis}") for axis in range(3)])

    def of_side(self, ops):
        made = []
        for op in ops:
            key, values = op["type"][3:], parameters(op)
            operands = [self.tensor(made, ref) for ref in op["input"]]
            shape = list(operands[0])
            if key in ("REPLICATE", "REDUCE"):
                axis = values["PM_PARALLEL_DIM"]
                old = shape[axis]
                if old.text:
                    shape[axis] = Product(text=f"({old.text}) {'*' if key == 'REPLICATE' else 'div'} ?d")
                else:
                    shape[axis] = Product(old.symbol, old.power + (1 if key == "REPLICATE" else -1))
            elif key in ("EW_ADD", "EW_MUL"):
                for a, b in zip(*operands):
                    self.equal.unite(a, b)
            elif key == "CONCAT":
                for axis, (a, b) in enumerate(zip(*operands)):
                    if axis != values["PM_AXIS"]:
                        self.equal.unite(a, b)
                shape[values["PM_AXIS"]] = Product(text="?")
            elif key == "LINEAR":
                x, w = operands
                self.equal.unite(x[2], w[2])
                shape = [Product(), x[1], w[1]]
            made.append([shape] * (2 if key == "SPLIT" else 1))
        return made


class Side:
    """One side of a rule in the rule language, and the sizes of its tensors as text."""

    def __init__(self, ops, degree, sizes, seen):
        self.ops, self.degree, self.sizes, self.seen = ops, degree, sizes, seen
        self.divided = False

    def tensor(self, ref):
        if ref["opId"] >= 0:
            return self.output(ref["opId"], ref["tsId"])
        name = f"x{-ref['opId']}"
        shape = self.sizes[-ref["opId"]]
        text = name if name in self.seen else f"{name}[{', '.join(shape)}]"
        self.seen.add(name)
        return text, shape

    def output(self, number, output):
        op = self.ops[number]
        key, values, d = op["type"][3:], parameters(op), self.degree
        axis = values.get("PM_PARALLEL_DIM", values.get("PM_AXIS"))
        operands = [self.tensor(ref) for ref in op["input"]]
        (x, shape), shape = operands[0], list(operands[0][1])
        if key in ("PARTITION", "COMBINE"):
            return f"combine(partition({x}, axis={axis}, degree={d}), axis={axis})", shape
        if key == "REPLICATE":
            shape[axis] = d if shape[axis] == "1" else f"{d} * {shape[axis]}"
            return f"combine(replicate({x}, degree={d}), axis={axis})", shape
        if key == "REDUCE":
            shape[axis] = f"(({shape[axis]}) div {d})"
            return f"reduce_sum(partition({x}, axis={axis}, degree={d}), axes=[0], keepdims=0)", shape
        if key == "RELU":
            return f"relu({x})", shape
        if key in ("EW_ADD", "EW_MUL"):
            return f"{key[3:].lower()}({x}, {operands[1][0]})", shape
        if key == "CONCAT":
            parts = shape[axis], operands[1][1][axis]
            shape[axis] = f"({parts[0]} + {parts[1]})"
            return f"concat({x}, {operands[1][0]}, axis={axis})", shape
        if key == "SPLIT":
            half = f"(({shape[axis]}) div 2)"  # FlexFlow's split is into equal parts
            shape[axis] = half
            return f"split({x}, axis={axis}, sizes=[{half}, {half}]).{output}", shape
        assert key == "LINEAR", key
        w, w_shape = operands[1]
        copies = shape[0], w_shape[0]
        if copies == ("1", "1"):
            text = f"matmul({x}, transpose({w}, perm=[0, 2, 1]))"
        else:
            text = (f"replicate(combine(combine(matmul(partition({x}, axis=1, degree={copies[1]}), "
                    f"transpose(partition({w}, axis=1, degree={copies[0]}), perm=[1, 0, 3, 2])), axis=1), axis=1), "
                    "degree=1)")
        return (f"relu({text})" if values["PM_ACTI"] == 2 else text), ["1", shape[1], w_shape[1]]


def restate(rule, degree):
    """A rule for each output, by its text; None where the right side reads what the left does not."""
    has_linear = any(op["type"] == "OP_LINEAR" for op in rule["srcOp"] + rule["dstOp"])
    equal = Equal()
    shapes = Shapes(rule, equal, has_linear)
    for output in rule["mappedOutput"]:
        left = shapes.sides[0][output["srcOpId"]][output["srcTsId"]]
        right = shapes.sides[1][output["dstOpId"]][output["dstTsId"]]
        for a, b in zip(left, right):
            equal.unite(a, b)
    divisions = max(sum(op["type"] in PARALLEL for op in rule[side]) for side in ("srcOp", "dstOp"))
    found = {size.symbol: equal.find(size.symbol) for shape in shapes.inputs.values() for size in shape if size.symbol}
    least = min([power for _, power in found.values()], default=0)

    def size_text(size):
        if not size.symbol:
            return "1"
        root, power = found[size.symbol]
        if root == "" and power == 0:
            return "1"
        power = power if root == "" else power - least + divisions
        return " * ".join([degree] * power + ([root] if root else []))

    sizes = {number: [size_text(size) for size in shape] for number, shape in shapes.inputs.items()}
    texts = []
    for output in rule["mappedOutput"]:
        seen = set()
        left = Side(rule["srcOp"], degree, sizes, seen).output(output["srcOpId"], output["srcTsId"])[0]
        bound = set(seen)
        right = Side(rule["dstOp"], degree, sizes, seen).output(output["dstOpId"], output["dstTsId"])[0]
        if seen != bound:
            return None
        texts.append(f"replicate({left}, degree={degree})\n  => replicate({right}, degree={degree})")
    return texts


def verdicts(program, rules, degree, folder):
    """By number of a rule its verdict and the reason."""
    found, texts, numbers = {}, [], []
    for number, rule in rules:
        outputs = restate(rule, degree)
        if outputs is None:
            found[number] = ("no rule", "the right side reads a tensor that the left side does not have")
            continue
        for k, text in enumerate(outputs):
            texts.append(f"rule r{number}-{k}\n  {text}\n")
            numbers.append(number)
    path = folder / "flexflow.rules"
    path.write_text("\n".join(texts))
    done = subprocess.run([program, "verify", path, "--json", "--quiet"], capture_output=True, text=True)
    if done.returncode not in (0, 1):
        sys.exit(done.stderr)
    report = json.loads(done.stdout)
    for number, judged in zip(numbers, report["rules"]):
        verdict, reason = judged["verdict"], judged.get("reason", "")
        if verdict == "unknown" and "the right side" in reason:  # types or shapes differ before there is an element
            verdict = "refuted"
        order = ["no rule", "refuted", "unknown", "proved"]
        if number not in found or order.index(verdict) < order.index(found[number][0]):
            found[number] = (verdict, reason)
    return found, report["cpu_seconds"]


def operators(rule):
    def side(ops):
        texts = []
        for op in ops:
            values = parameters(op)
            axis = values.get("PM_PARALLEL_DIM", values.get("PM_AXIS", ""))
            texts.append(op["type"][3:].lower().replace("ew_", "") + str(axis) + ("+relu" if values.get("PM_ACTI") == 2
                                                                                  else ""))
        return ", ".join(texts)
    return f"{side(rule['srcOp'])} => {side(rule['dstOp'])}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--program", default=ROOT / "build/release/rewright", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--rules", type=pathlib.Path, help="keep the restated rules in this folder")
    args = parser.parse_args()
    rules = [(number, rule) for number, rule in enumerate(json.loads(args.file.read_text())["rule"])
             if any(op["type"] in PARALLEL for op in rule["srcOp"] + rule["dstOp"])]
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        by_degree, seconds = {}, {}
        for name, degree in (("any", "?d"), ("2", "2")):
            kept = args.rules / f"degree_{name}" if args.rules else pathlib.Path(folder)
            kept.mkdir(parents=True, exist_ok=True)
            by_degree[name], seconds[name] = verdicts(args.program, rules, degree, kept)
    counts = collections.Counter((by_degree["any"][number][0], by_degree["2"][number][0]) for number, _ in rules)
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout
    lines.append(f"# bench/parallel/flexflow_rules.py, {datetime.date.today()}, commit {commit.strip()}; "
                 f"{seconds['any']:.0f} s and {seconds['2']:.0f} s of CPU time")
    lines.append(f"# {len(rules)} rules with parallel operators; verdict for any degree, for degree 2: how many")
    for (for_any, for_two), count in sorted(counts.items(), key=lambda item: -item[1]):
        lines.append(f"# {for_any:8} {for_two:8} {count:4}")
    lines.append("# rule, operators with their axis, verdict for any degree, for degree 2, why")
    for number, rule in rules:
        (for_any, why), (for_two, why_two) = by_degree["any"][number], by_degree["2"][number]
        reason = " ".join((why or why_two).split())
        lines.append(f"{number}\t{operators(rule)}\t{for_any}\t{for_two}\t{reason}")
    text = "\n".join(lines) + "\n"
    if args.out:
        args.out.write_text(text)
    print("\n".join(line for line in lines if line.startswith("#")))


if __name__ == "__main__":
    main()
