#!/usr/bin/env python3
"""Proved rules in the formats of other programs: what `rewright rules --export` says, and what onnxscript makes of it.

    python bench/proofs/exported_rules.py build/release/rewright [--models 200] [--seed 1] [--out TABLE.csv]
                                          [--keep DIR]

Prints how many of core.rules each format has, and how many stand in two formats besides JSON's. Each random model is
the left side of a rule at random sizes and attributes, out of the JSON export, with a softsign behind each output.
onnxscript rewrites it by the exported module: the first round by that rule alone, which has to fire, the others by all
rules. Both models run in onnxruntime, and `rewright equal` has to prove them. egglog, where it is installed, reads the
text and has to find that (x y) z = x (y z). Fails, with status 1, where a rule does not fire, outputs are apart, or a
pair is not proved; or where less than 95 % of the rules stand in two formats. Wants onnx, onnxruntime and onnxscript.
"""
import argparse
import importlib.util
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import warnings

if importlib.util.find_spec("onnx_ir") is None:
    print("skipped: there is no onnxscript; tools/python_env.sh installs it")
    sys.exit(77)

import numpy as np
import onnx
import onnx_ir as ir
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from table import machine, write_table  # noqa: E402

warnings.filterwarnings("ignore")
FORMATS = ("json", "onnxscript", "egglog", "taso")
OPSET = 20
TRIES = 200


class Unfit(Exception):
    """Sizes that were drawn do not go together."""


# ---------------------------------------------------------------- a left side at random sizes

class Nodes:
    """Nodes as onnxscript's contexts write them, of values by name."""

    def __init__(self):
        self.nodes = []

    def __getattr__(self, op_type):
        def write(*inputs, _outputs=1, **attributes):
            names = [f"t{len(self.nodes)}_{k}" for k in range(_outputs)]
            given = {name: ir.serde.serialize_tensor(one) if isinstance(one, ir.TensorProtocol) else one
                     for name, one in attributes.items()}
            self.nodes.append(helper.make_node(op_type, inputs, names, **given))
            return names if _outputs > 1 else names[0]
        return write


class LeftSide:
    """Names of a rule bound at random, and its left side as nodes."""

    def __init__(self, rule, module, seed):
        self.rule, self.module = rule, module
        self.random = random.Random(seed)
        self.numpy = np.random.default_rng(seed)
        self.names, self.values, self.shapes = {}, [], {}
        self.inputs, self.weights = [], []
        self.axes = [self.random.randint(4, 6) for _ in range(self.random.randint(2, 4))]  # of every free shape
        self.operator = self.random.choice([one for one in rule["proof"].get("operators", [""])
                                            if not one or one in module.OPERATORS])
        self.known = {tree[1] for tree in rule["condition_trees"] if tree[0] in ("weight", "constant", "positive")}
        self.known |= {part[1] for tree in rule["condition_trees"] if tree[0] == "and"
                       for part in tree[1:] if part[0] == "weight"}
        self.context = Nodes()
        self.builder = module.Builder(self.context, np.float32)

    # Expressions: numbers, names, [function, arguments..].

    def value(self, tree):
        if isinstance(tree, (int, float)):
            return tree
        if isinstance(tree, str):
            return self.names[tree] if tree in self.names else self.bound(tree)
        head, *args = tree
        if head == "list":
            return self.listed(args)
        if head == "rank":
            return len(self.shapes[args[0]])
        if head == "dim":
            return self.shapes[args[0]][args[1]]
        found = [self.value(one) for one in args]
        signs = {"+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "div": lambda a, b: a // b,
                 "==": lambda a, b: a == b, ">=": lambda a, b: a >= b, "<=": lambda a, b: a <= b,
                 ">": lambda a, b: a > b, "and": lambda a, b: a and b}
        if head in signs:
            return signs[head](*found)
        return {"len": len, "prod": math.prod, "sum": sum,
                "iota": lambda n: self.module.Ints(range(n)),
                "repeat": lambda v, n: self.module.Ints([v] * n)}[head](*found)

    def listed(self, trees):
        items = []
        for tree in trees:
            if isinstance(tree, list) and tree[0] == "splice":
                items += list(self.pack(tree[1]))
            else:
                items.append(self.value(tree))
        return self.module.Ints(items)

    def bound(self, name):
        """A size that is not bound."""
        self.names[name] = self.random.randint(2, 4)
        return self.names[name]

    def pack(self, tree):
        if not isinstance(tree, str):
            return self.value(tree)
        if tree not in self.names:
            free = tree.startswith("shape(")
            self.names[tree] = self.module.Ints(
                self.axes if free else [self.random.randint(2, 3) for _ in range(self.random.randint(0, 2))])
        return self.names[tree]

    # Leaves and applications.

    def leaf(self, leaf):
        if "value" in leaf:
            number = leaf["value"]
            if isinstance(number, str):
                number = self.names.setdefault(number, 0.25)
            return self.weight(np.full(self.shape(leaf) if "shape" in leaf else [], number, np.float32))
        sizes = self.shapes[leaf["name"]] = self.shape(leaf)
        if leaf["name"] in self.known or self.random.random() < 0.2:
            return self.weight(self.numpy.uniform(0.2, 0.9, sizes).astype(np.float32))
        self.inputs.append(helper.make_tensor_value_info(leaf["name"], TensorProto.FLOAT, sizes))
        return leaf["name"]

    def shape(self, leaf):
        if "shape" in leaf:
            return list(self.listed(leaf["shape"]))
        target = list(self.listed(leaf["broadcasts_to"]))
        if self.random.random() < 0.5:
            return target
        return [dim if self.random.random() < 0.6 else 1 for dim in target][self.random.randint(0, len(target)):]

    def weight(self, array):
        name = f"weight{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(array, name))
        self.shapes[name] = list(array.shape)
        return name

    def attributes(self, node, operands):
        x = self.shapes[operands[0]]
        return {name: self.attribute(name, tree, x, node["operator"]) for name, tree in node["attributes"].items()}

    def attribute(self, name, tree, x, operator):
        free = [one for one in ([tree] if isinstance(tree, str) else tree[1:] if isinstance(tree, list) else [])
                if isinstance(one, str) and one.startswith("?") and one not in self.names]
        if free:
            drawn = self.drawn(name, x, operator, len(free))
            if isinstance(tree, str):
                self.names[tree] = drawn
            else:
                self.names.update(zip(free, drawn))
        found = self.value(tree)
        return found % len(x) if name == "axis" and found < 0 else found

    def drawn(self, name, x, operator, count):
        """Of an attribute that the rule leaves open."""
        choose = self.random.randint
        if name == "perm":
            return self.module.Ints(self.random.sample(range(len(x)), len(x)))
        if name == "axis":
            return choose(0, len(x) - 1)
        if name == "shape":
            return self.module.Ints(self.random.choice([[math.prod(x)], x[::-1], [x[0], math.prod(x[1:])]]))
        if name == "sizes":  # of the axis that is drawn already
            size = x[self.names.get("?a", 0)] if "?a" in self.names else x[0]
            cuts = sorted(self.random.sample(range(1, size), count - 1))
            return [b - a for a, b in zip([0, *cuts], [*cuts, size])]
        if name == "starts":
            return self.module.Ints(choose(0, 1) for _ in x)
        if name == "stops":
            return self.module.Ints(choose(2, dim) for dim in x)
        if name == "kernel":
            return self.module.Ints([2, choose(2, 3)])
        square = {"strides": (2, choose(1, 2)), "pads": (4, choose(0, 1)), "dilations": (2, 1)}
        if name in square:
            times, value = square[name]
            return self.module.Ints([value] * times)
        return {"groups": 1, "epsilon": 0.125, "ceil_mode": 0, "count_include_pad": choose(0, 1)}[name]

    def apply(self, node):
        operands = [self.values[one[0]] if len(one) == 1 or not isinstance(self.values[one[0]], (list, tuple))
                    else self.values[one[0]][one[1]] for one in node["operands"]]
        operator = self.operator if node["operator"] == "?f" else node["operator"]
        given = self.attributes(node, operands)
        if not given and operator in self.module.OPERATORS:
            result = self.builder.apply(self.module.OPERATORS[operator], *operands)
        else:
            result = getattr(self, "write_" + operator, getattr(self.builder, operator, None))(*operands, **given)
        self.infer()
        return result

    def write_reduce_mean(self, x, axes, keepdims):
        return self.context.ReduceMean(x, self.builder.integers(axes), keepdims=keepdims)

    def infer(self):
        """Shapes of the values so far."""
        try:
            inferred = onnx.shape_inference.infer_shapes(self.model(), strict_mode=True, data_prop=True)
        except Exception as fault:
            raise Unfit(str(fault)) from fault
        for info in [*inferred.graph.value_info, *inferred.graph.output]:
            self.shapes[info.name] = [dim.dim_value for dim in info.type.tensor_type.shape.dim]
        return inferred

    def model(self):
        """Outputs are what no node reads."""
        read = {name for node in self.context.nodes for name in node.input}
        outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, self.shapes.get(name))
                   for node in self.context.nodes for name in node.output if name not in read]
        graph = helper.make_graph(self.context.nodes, "left", self.inputs, outputs, self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)

    def write(self):
        """The left side, with a function behind each output, so that what it leads to is there as well."""
        for node in self.rule["nodes"][:self.rule["nodes_of_left_side"]]:
            self.values.append(self.leaf(node) if "name" in node else self.apply(node))
        outputs = []
        for node, *output in self.rule["left"]:
            found = self.values[node]
            outputs += [found[output[0]]] if output and isinstance(found, (list, tuple)) else (
                list(found) if isinstance(found, (list, tuple)) else [found])
        if not all(self.value(tree) for tree in self.rule["condition_trees"] if self.checkable(tree)):
            raise Unfit("a condition does not hold")
        for one in outputs:
            self.context.Softsign(one)
        return self.infer()

    def checkable(self, tree):
        """It is about sizes: the module checks what is about elements."""
        heads = {"==", ">=", "<=", ">", "and", "+", "-", "*", "len", "list", "prod", "rank", "dim", "iota"}
        return not isinstance(tree, list) or (tree[0] in heads and all(self.checkable(one) for one in tree[1:]))


def left_side(rule, module, seed):
    """A model with the rule's left side; None where no sizes that were drawn go together."""
    fault = None
    for attempt in range(TRIES):
        try:
            made = LeftSide(rule, module, seed * TRIES + attempt).write()
            onnx.checker.check_model(made, full_check=True)
            outputs_of(made, seed)
            return made, None
        except Exception as found:  # pylint: disable=broad-except
            fault = found
    return None, fault


# ---------------------------------------------------------------- what is asked

def outputs_of(model, seed):
    import onnxruntime as ort
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    drawn = np.random.default_rng(seed)
    feeds = {one.name: drawn.uniform(0.2, 0.9, one.shape).astype(np.float32) for one in session.get_inputs()}
    return session.run(None, feeds)


def agree(a, b, seed):
    return all(x.shape == y.shape and np.allclose(x, y, rtol=1e-3, atol=1e-4, equal_nan=True)
               for x, y in zip(outputs_of(a, seed), outputs_of(b, seed)))


def proved(program, a, b, folder):
    paths = [os.path.join(folder, name) for name in ("a.onnx", "b.onnx")]
    for model, path in zip((a, b), paths):
        onnx.save(model, path)
    done = subprocess.run([program, "equal", *paths, "--json", "--quiet", "--threads", "1"], capture_output=True,
                          text=True, check=False)
    return json.loads(done.stdout)["answer"] if done.returncode in (0, 1) else "refused: " + done.stderr.strip()[-200:]


def judge(flags, rule, module, number, alone, folder):
    made, fault = left_side(rule, module, flags.seed * 100003 + number)
    row = {"model": number, "rule": rule["name"], "rules": "this one" if alone else "all"}
    if made is None:
        return row | {"answer": f"not made: {fault}"[:200]}
    model = ir.serde.deserialize_model(made)
    row["fired"] = module.rewrite(model, only=[rule["name"]] if alone else None)
    rewritten = ir.serde.serialize_model(model)
    if flags.keep:
        for name, one in (("a", made), ("b", rewritten)):
            onnx.save(one, os.path.join(flags.keep, f"{number}.{rule['name']}.{name}.onnx"))
    row["agrees"] = agree(made, rewritten, number)
    row["answer"] = proved(flags.program, made, rewritten, folder)
    return row


def export(program, form, folder):
    path = os.path.join(folder, "proved_rules.py" if form == "onnxscript" else "rules." + form)
    done = subprocess.run([program, "rules", "--export", form, "-o", path, "--json", "--quiet"], capture_output=True,
                          text=True, check=True)
    return path, json.loads(done.stdout)


def load(path):
    spec = importlib.util.spec_from_file_location("proved_rules", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


ASSOCIATED = """
(let $x (Leaf "x")) (let $y (Leaf "y")) (let $z (Leaf "z"))
(set (shape $x) (Snoc (Snoc (Nil) 2) 3))
(set (shape $y) (Snoc (Snoc (Nil) 3) 4))
(set (shape $z) (Snoc (Snoc (Nil) 4) 5))
(let $start (Matmul (Matmul $x $y) $z))
(run 6)
(check (= $start (Matmul $x (Matmul $y $z))))
(fail (check (= $start (Matmul $x $y))))
"""


def in_egglog(path):
    """"" where egglog is not installed, else what it says."""
    try:
        from egglog import bindings
    except ImportError:
        return "not installed"
    graph = bindings.EGraph()
    try:
        graph.run_program(*graph.parse_program(open(path).read() + ASSOCIATED))
    except Exception as fault:  # pylint: disable=broad-except
        return f"fault: {str(fault)[:200]}"
    return "reads and rewrites"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--models", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", default="")
    parser.add_argument("--keep", default="")
    flags = parser.parse_args()
    flags.program = os.path.abspath(flags.program)
    if flags.keep:
        os.makedirs(flags.keep, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        exports = {form: export(flags.program, form, folder) for form in FORMATS}
        for form, (_, report) in exports.items():
            print(f"{form}: {report['written']} of {report['rules']} rules")
        rules = {rule["name"]: rule for rule in json.load(open(exports["json"][0]))["rules"]}
        twice = [name for name in rules
                 if sum(name not in exports[form][1]["left_out"] for form in FORMATS[1:]) >= 2]
        print(f"in two formats besides JSON: {len(twice)} of {len(rules)} rules, {len(twice) / len(rules):.1%}")
        egglog = in_egglog(exports["egglog"][0])
        print(f"egglog: {egglog}")
        module = load(exports["onnxscript"][0])
        said = [rules[kind.name] for kind in module.PROVED]
        # A stride that has no factor in common with their number takes rules of all parts of the file.
        rows = [judge(flags, said[number * 23 % len(said)], module, number, number < len(said), folder)
                for number in range(flags.models)]
    fired = sum(bool(row.get("fired")) for row in rows if row["rules"] == "this one")
    alone = sum(row["rules"] == "this one" for row in rows)
    good = [row for row in rows if row["answer"] == "proved" and row["agrees"]]
    print(f"{len(rows)} models: {fired} of {alone} rules fire alone; {len(good)} proved equal and alike in onnxruntime")
    for row in rows:
        if row not in good or not row["fired"]:
            print("  ", row)
    if flags.out:
        write_table(flags.out, f"{machine()}; egglog {egglog}; " + ", ".join(
            f"{form} {report['written']} of {report['rules']}" for form, (_, report) in exports.items()), rows)
    whole = len(good) == len(rows) and fired == alone and len(twice) >= 0.95 * len(rules)
    return 0 if whole and not egglog.startswith("fault") else 1


if __name__ == "__main__":
    sys.exit(main())
