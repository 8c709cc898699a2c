#!/usr/bin/env python3
"""Whether tools/check_model.py refuses what it should: optimized models and their proofs, each with one damage.

    python bench/equality/damaged_proofs.py build/release/rewright [--count 1000] [--seed 1] [--zoo]
                            [--out bench/results/damaged_proofs.csv]

Kinds of damage to a model: an element of a weight moved by more than rounding, another number in an attribute, an edge
that reads another tensor of its type, a node passed by. To a proof: a bound size, attribute, operator or value changed,
a value described otherwise, a matched or replaced node exchanged, a step or a weight left out, the hash of a law's
record altered, a law that is not proved in the place of one, another head.

Every damage has to be refused. An accepted one has to be harmless, and the reason is looked for: the model that was
damaged gives the same bits as before on three random inputs, in NumPy's reference, and the kind of damage says why.
Anything else is a fault of the check, and the exit status is 1.
"""
import argparse
import collections
import copy
import json
import os
import random
import re
import sys
import tempfile

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
sys.path.insert(0, os.path.join(HERE, "..", "..", "tools"))
import check_model  # noqa: E402
from equality.proof_files import exports, optimized, zoo  # noqa: E402
from table import machine, write_table  # noqa: E402

MODELS = ["nasrnn", "squeezenet", "mlp", "mobilenet_v2", "nasnet_a", "mirage_ntrans", "mirage_qk_norm",
          "residual_block"]
EXPORTS = ["conv_norms", "branches", "fire", "pools", "depthwise", "attention", "block_gelu", "low_rank",
           "squeeze_excite"]


class Sample:
    """A model, its result and the proof."""

    def __init__(self, name, a, b, lines):
        self.name, self.a, self.b, self.lines = name, a, b, lines
        self.types = {}

    def copy(self):
        return Sample(self.name, self.a, self.b, copy.deepcopy(self.lines))


def copied(model):
    other = onnx.ModelProto()
    other.CopyFrom(model)
    return other


def read_tensors(model):
    return {name for node in model.graph.node for name in node.input} | {o.name for o in model.graph.output}


# ---------------------------------------------------------------- damages to models
#
# Each gives the damaged model and what was done; None where the model has no place for it.


def weight_moved(model, rng):
    read = read_tensors(model)
    weights = [t for t in model.graph.initializer if t.data_type in (onnx.TensorProto.FLOAT, onnx.TensorProto.INT64)
               and t.name in read and np.prod(t.dims) > 0]
    if not weights:
        return None
    tensor = rng.choice(weights)
    array = numpy_helper.to_array(tensor).copy()
    at = np.unravel_index(rng.randrange(array.size), array.shape)
    if array.dtype == np.int64:
        array[at] += 1
    else:
        array[at] += np.float32(max(np.abs(array).max() * rng.choice([0.001, 0.1, 2]), 1e-3))
    tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    return f"{tensor.name}{list(map(int, at))}"


def attribute_altered(model, rng):
    kinds = {onnx.AttributeProto.INT, onnx.AttributeProto.FLOAT, onnx.AttributeProto.INTS}
    places = [(node, a) for node in model.graph.node for a in node.attribute if a.type in kinds]
    if not places:
        return None
    node, attribute = rng.choice(places)
    if attribute.type == onnx.AttributeProto.INT:
        attribute.i = rng.choice([attribute.i + 1, attribute.i - 1, 1 - attribute.i])
    elif attribute.type == onnx.AttributeProto.FLOAT:
        attribute.f = attribute.f * 2 + 0.5
    elif attribute.ints:
        at = rng.randrange(len(attribute.ints))
        if rng.random() < 0.5 and len(set(attribute.ints)) > 1:
            order = list(attribute.ints)
            attribute.ints[:] = order[1:] + order[:1]
        else:
            attribute.ints[at] += 1
    return f"{attribute.name} of {node.op_type} {node.name}"


def edge_rewired(model, rng, types):
    places = [(i, k) for i, node in enumerate(model.graph.node) for k, name in enumerate(node.input) if name in types]
    rng.shuffle(places)
    for i, k in places[:50]:
        node = model.graph.node[i]
        before = [t.name for t in model.graph.initializer] + [x.name for x in model.graph.input]
        before += [name for earlier in model.graph.node[:i] for name in earlier.output]
        others = [name for name in before if name != node.input[k] and types.get(name) == types[node.input[k]]]
        if others:
            old, node.input[k] = node.input[k], rng.choice(others)
            return f"operand {k} of {node.op_type} {node.name}: {node.input[k]} for {old}"
    return None


def node_removed(model, rng, types):
    places = [i for i, node in enumerate(model.graph.node) if len(node.output) == 1
              and any(types.get(name) == types.get(node.output[0]) is not None for name in node.input)]
    if not places:
        return None
    i = rng.choice(places)
    node = model.graph.node[i]
    value = rng.choice([name for name in node.input if types.get(name) == types[node.output[0]]])
    text, gone = f"{node.op_type} {node.name}", node.output[0]
    del model.graph.node[i]
    for other in model.graph.node:
        other.input[:] = [value if name == gone else name for name in other.input]
    if gone in [o.name for o in model.graph.output]:
        model.graph.node.add(op_type="Identity", input=[value], output=[gone])
    return text


# ---------------------------------------------------------------- damages to proofs


def lines_of(lines, kind):
    return [line for line in lines if kind in line and next(iter(line)) == kind]


def size_altered(lines, rng):
    places = [(step, name) for step in lines_of(lines, "step") for name in step["sizes"]]
    places += [(step, name) for step in lines_of(lines, "step") for name, pack in step["packs"].items() if pack]
    if not places:
        return None
    step, name = rng.choice(places)
    if name in step["sizes"]:
        step["sizes"][name] = max(1, step["sizes"][name] + rng.choice([-1, 1, 7])) + (step["sizes"][name] == 1)
    else:
        step["packs"][name][0] += 1
    return f"{name} of {step['step']}"


def bound_attribute_altered(lines, rng):
    places = [(step, name) for step in lines_of(lines, "step") for name, v in step["attributes"].items()
              if isinstance(v, (int, float)) or isinstance(v, list) and v]
    if not places:
        return None
    step, name = rng.choice(places)
    value = step["attributes"][name]
    if isinstance(value, list):
        value[rng.randrange(len(value))] += 1
    else:
        step["attributes"][name] = value * 2 + 1
    return f"?{name} of {step['step']}"


def variable_exchanged(lines, rng):
    numbers = [line["value"] for line in lines_of(lines, "value")]
    places = [(step, name) for step in lines_of(lines, "step") for name in step["variables"]]
    if not places or len(numbers) < 2:
        return None
    step, name = rng.choice(places)
    step["variables"][name] = rng.choice([n for n in numbers if n != step["variables"][name]])
    return f"{name} of {step['step']}"


def node_exchanged(lines, rng):
    numbers = [line["value"] for line in lines_of(lines, "value")]
    steps = [step for step in lines_of(lines, "step") if step["matched"] and step["replaced"]]
    if not steps or len(numbers) < 2:
        return None
    step = rng.choice(steps)
    if rng.random() < 0.5:
        at = rng.randrange(len(step["matched"]))
        step["matched"][at] = rng.choice([n for n in numbers if n != step["matched"][at]])
        return f"matched of {step['step']}"
    pair = rng.choice(step["replaced"])
    side = rng.randrange(2)
    pair[side] = rng.choice([n for n in numbers if n != pair[side]])
    return f"replaced of {step['step']}"


def value_changed(lines, rng):
    places = [line for line in lines_of(lines, "value") if "operator" in line]
    if not places:
        return None
    line = rng.choice(places)
    kind = rng.randrange(3)
    if kind == 0 and line["attributes"]:
        name = rng.choice(list(line["attributes"]))
        value = line["attributes"][name]
        line["attributes"][name] = [*value[:-1], value[-1] + 1] if isinstance(value, list) and value else (
            [1] if isinstance(value, list) else 1 if isinstance(value, str) else value + 1)
        return f"{name} of the value {line['value']}"
    if kind == 1:
        line["operator"] = rng.choice([op for op in ("add", "sub", "relu", "matmul", "tanh") if op != line["operator"]])
        return f"operator of the value {line['value']}"
    numbers = [other["value"] for other in lines_of(lines, "value") if other["value"] < line["value"]]
    at = rng.randrange(len(line["operands"]))
    others = [n for n in numbers if n != line["operands"][at]]
    if not others:
        return None
    line["operands"][at] = rng.choice(others)
    return f"operand {at} of the value {line['value']}"


def leave_out(kind, lines, rng):
    """Removes a line of that kind; its name, or None where there is none."""
    found = lines_of(lines, kind)
    if not found:
        return None
    line = rng.choice(found)
    lines.remove(line)
    return line[kind]


def step_left_out(lines, rng):
    return leave_out("step", lines, rng)


def weight_left_out(lines, rng):
    return leave_out("weight", lines, rng)


def weight_exchanged(lines, rng):
    weights = lines_of(lines, "weight")
    if len({w["is"] for w in weights}) < 2:
        return None
    weight = rng.choice(weights)
    weight["is"] = rng.choice([w["is"] for w in weights if w["is"] != weight["is"]])
    return weight["weight"]


def hash_altered(lines, rng):
    laws = lines_of(lines, "law")
    if not laws:
        return None
    law = rng.choice(laws)
    at = rng.randrange(16)
    law["record"] = law["record"][:at] + format(int(law["record"][at], 16) ^ 1, "x") + law["record"][at + 1:]
    return law["law"]


def law_unproved(lines, rng):
    """A rule that nobody proved, or another proved one, in the place of the law."""
    laws = lines_of(lines, "law")
    if not laws:
        return None
    law = rng.choice(laws)
    old = law["law"]
    new = rng.choice([f"{old}-backwards", "add-is-sub", "add-zero" if old != "add-zero" else "mul-one"])
    law["law"] = new
    for step in lines_of(lines, "step"):
        if step["step"] == old:
            step["step"] = new
    return f"{new} for {old}"


def operator_exchanged(lines, rng):
    steps = [step for step in lines_of(lines, "step") if "for" in step]
    if not steps:
        return None
    step = rng.choice(steps)
    step["for"] = rng.choice([op for op in ("relu", "tanh", "neg", "abs", "cos") if op != step["for"]])
    return f"{step['for']} in {step['step']}"


def head_altered(lines, rng):
    lines[0] = rng.choice([{"proof": 2, "sizes": {}}, {"law": "add-zero"}, {"proof": "1"}])
    return str(lines[0])


ON_MODELS = [weight_moved, attribute_altered, edge_rewired, node_removed]
ON_PROOFS = [size_altered, bound_attribute_altered, variable_exchanged, node_exchanged, value_changed, step_left_out,
             weight_left_out, weight_exchanged, hash_altered, law_unproved, operator_exchanged, head_altered]


# ---------------------------------------------------------------- reasons


def runs(model, seed):
    rng = np.random.default_rng(seed)
    feeds = {}
    initializers = {t.name for t in model.graph.initializer}
    for info in model.graph.input:
        if info.name in initializers:
            continue
        shape = [d.dim_value or 1 for d in info.type.tensor_type.shape.dim]
        kind = onnx.helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
        feeds[info.name] = (rng.normal(size=shape) if kind.kind == "f" else rng.integers(0, 4, shape)).astype(kind)
    return ReferenceEvaluator(model).run(None, feeds)


def same_bits(model, damaged):
    """Whether both give the same on three inputs."""
    try:
        return all(np.array_equal(x, y, equal_nan=True) for seed in range(3)
                   for x, y in zip(runs(model, seed), runs(damaged, seed)))
    except Exception:  # noqa: BLE001: the reference raises anything on a model that is wrong
        return False


REASONS = {
    "attribute_altered": "the attribute does not count here",
    "edge_rewired": "both tensors hold the same elements",
    "node_removed": "the node gives what it reads",
    "weight_moved": "the element reaches no output",
}


def reason(kind, before, damaged, sample, after, told, checker):
    """Why an accepted damage is harmless; None if it is not known to be. `checker` has accepted it."""
    if kind in REASONS:
        return REASONS[kind] if same_bits(before, after) else None
    if kind == "weight_left_out":  # its elements are those of a tensor of the original
        weights = {t.name: numpy_helper.to_array(t) for t in sample.b.graph.initializer}
        known = [numpy_helper.to_array(t) for t in sample.a.graph.initializer]
        known += [numpy_helper.to_array(a.t) for n in sample.a.graph.node for a in n.attribute if a.name == "value"]
        if any(np.array_equal(weights[told], array) for array in known):
            return "the original has a tensor with these elements"
        values = {line["value"]: line for line in lines_of(sample.lines, "value")}
        number = next(line["is"] for line in lines_of(sample.lines, "weight") if line["weight"] == told)
        elements = checker.terms.elements(checker.values[number])
        moved = only_moves(values, number) and np.array_equal(elements, weights[told])
        return "the elements of tensors of the original, moved" if moved else None
    if kind == "step_left_out":  # its sides are equal by the other steps
        step = next(line for line in sample.lines if line not in damaged.lines)
        sides = [[checker.values.get(number) for number in pair] for pair in step["replaced"]]
        same = all(None not in pair and checker.terms.find(pair[0]) == checker.terms.find(pair[1]) for pair in sides)
        return "both sides are equal by the other steps" if same else None
    if kind in ("variable_exchanged", "node_exchanged", "value_changed", "weight_exchanged"):
        return exchanged_for_equal(sample, damaged)
    return None


def only_moves(values, number):
    """Whether a value is made of tensors by operators that move elements."""
    line = values[number]
    operands = line.get("operands", [line["of"]] if "of" in line else [])
    return line.get("operator", "concat") in check_model.MOVES and all(only_moves(values, o) for o in operands)


def exchanged_for_equal(sample, damaged):
    """Whether the number that is another one stands for the same value, by the proof that is not damaged."""
    checker, _ = check_model.judge(sample.a, sample.b, sample.lines, check_model.read_laws(check_model.default_laws()))
    old, new = next((x, y) for x, y in zip(sample.lines, damaged.lines) if x != y)
    texts = [re.findall(r"[^\s,\[\]{}]+", json.dumps(line)) for line in (old, new)]
    pairs = [(a, b) for a, b in zip(*texts) if a != b]
    same = len(texts[0]) == len(texts[1]) and all(a.isdigit() and b.isdigit() and checker.terms.find(
        checker.values[int(a)]) == checker.terms.find(checker.values[int(b)]) for a, b in pairs)
    return "both numbers stand for one value" if same else None


def samples(program, folder, everything):
    laws = check_model.read_laws(check_model.default_laws())
    writers = {name: write for name, write in zoo(program).items() if name in MODELS}
    if everything:
        writers |= {name: write for name, write in exports().items() if name.split(".")[0] in EXPORTS}
    for name, write in writers.items():
        source, result, proof = (os.path.join(folder, name + end) for end in (".onnx", ".opt.onnx", ".proof"))
        write(source)
        error = optimized(program, source, result, proof, "analytic:v100")
        if error:
            print(f"{name}: {error}")
            continue
        a, b, lines = onnx.load(source), onnx.load(result), check_model.read_proof(proof)
        _, why = check_model.judge(a, b, lines, laws)
        if why is not None:
            print(f"{name}: refused undamaged: {why}")
            continue
        if lines[0]["rewritten"]:
            yield Sample(name, a, b, lines)


def types_in(model):
    terms = check_model.Terms()
    reader = check_model.Reader(model, terms, {}, "the model")
    return {name: str(terms.type[term]) for name, term in reader.tensors.items()}


def damage(kind, sample, rng):
    """The damaged sample with what was done, and the model before and after where it is one."""
    other = sample.copy()
    if kind in ON_PROOFS:
        told = kind(other.lines, rng)
        return other, told, None, None
    side = rng.choice("ab")
    before = getattr(sample, side)
    after = copied(before)
    arguments = [types_in(before)] if kind in (edge_rewired, node_removed) else []
    told = kind(after, rng, *arguments)
    setattr(other, side, after)
    return other, told and f"{'original' if side == 'a' else 'result'}: {told}", before, after


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--count", type=int, default=1000, help="of damages that are not harmless")
    parser.add_argument("--out", default="")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--zoo", action="store_true", help="without exports of PyTorch")
    flags = parser.parse_args()
    laws = check_model.read_laws(check_model.default_laws())
    rng = random.Random(flags.seed)
    rows, counts = [], collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        whole = list(samples(flags.program, folder, not flags.zoo))
    if not whole:
        sys.exit("damaged_proofs.py: no sample")
    kinds, made, tries = ON_MODELS + ON_PROOFS, 0, 0
    while made < flags.count and tries < 20 * flags.count:
        kind, sample = kinds[tries % len(kinds)], rng.choice(whole)
        tries += 1
        damaged, told, before, after = damage(kind, sample, rng)
        if told is None or (damaged.lines == sample.lines and after is None):
            continue
        if after is not None and after.SerializeToString() == before.SerializeToString():
            continue
        try:
            checker, why = check_model.judge(damaged.a, damaged.b, damaged.lines, laws)
        except check_model.Unreadable as error:
            why = str(error)
        verdict = "refused"
        if why is None:
            why = reason(kind.__name__, before, damaged, sample, after, told, checker)
            verdict = "accepted: harmless" if why else "accepted"
        made += verdict != "accepted: harmless"
        counts[verdict] += 1
        rows.append({"model": sample.name, "damage": kind.__name__, "place": told, "verdict": verdict,
                     "why": why or ""})
        if verdict != "refused":
            print(*rows[-1].values(), sep="  ", flush=True)
    print(f"{sum(counts.values())} damages on {len(whole)} models: " + ", ".join(
        f"{n} {v}" for v, n in sorted(counts.items())))
    if flags.out:
        write_table(flags.out, f"{machine()}: verdicts of tools/check_model.py on damaged models and proofs", rows)
    return 1 if counts["accepted"] or made < flags.count else 0


if __name__ == "__main__":
    sys.exit(main())
