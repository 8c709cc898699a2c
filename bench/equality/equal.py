#!/usr/bin/env python3
"""How many pairs of models `rewright equal` proves, and whether it ever proves what is false.

For each model of the zoo: the model against its optimized graph, against what onnxruntime's basic optimizations make
of it, and against what onnxsim makes of it. Then the same files with one seeded change each (an element of a weight, an
attribute, the order of operands, an axis): none of these may be proved unless the change changes nothing.

  .venv/bin/python bench/equality/equal.py [--models a,b] [--damaged 200] [--out bench/results/equal.txt]

Needs the packages onnx, onnxruntime and (left out where it is missing) onnxsim.
"""

import argparse
import datetime
import json
import os
import platform
import random
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from table import machine  # noqa: E402


try:
    import onnxsim
except ImportError:
    onnxsim = None

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM = os.path.join(ROOT, "build", "release", "rewright")
SMALL = {  # for --small and the damaged files
    "resnet50": "--image-size 64", "resnext50": "--image-size 64", "squeezenet": "--image-size 64",
    "vgg19": "", "inception_v3": "--image-size 107", "mobilenet_v2": "--image-size 64",
    "bert_base": "--layers 1 --sequence-length 16", "gpt2_small": "--layers 1 --sequence-length 16 --width 128",
    "nasnet_a": "--image-size 64 --layers 1 --width 264", "nasrnn": "--layers 2 --width 64", "mlp": "",
    "residual_block": "", "taso_nasrnn": "--layers 2", "taso_bert": "--layers 1", "taso_nasnet_a": "--image-size 56",
    "taso_resnet50": "", "taso_resnext50": "",
}


def rewright(*arguments):
    """The exit status and the JSON object of a verb."""
    done = subprocess.run([PROGRAM, *arguments, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          check=False)
    try:
        return done.returncode, json.loads(done.stdout)
    except json.JSONDecodeError:
        return done.returncode, {"error": done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "no output"}


def make_variants(name, folder, small):
    """The model and what others make of it: paths by the maker's name."""
    source = os.path.join(folder, name + ".onnx")
    status, found = rewright("zoo", name, *(SMALL[name].split() if small else []), "-o", source)
    if status != 0:
        raise RuntimeError(f"{name}: {found}")
    paths = {}
    optimized = os.path.join(folder, name + ".optimized.onnx")
    status, _ = rewright("optimize", source, "-o", optimized, "--cost", "analytic:v100", "--no-check", "--budget", "200",
                         "--time-limit", "10")
    if status == 0:
        paths["optimized"] = optimized
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = os.path.join(folder, name + ".ort.onnx")
    options.log_severity_level = 3
    try:
        onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
        paths["onnxruntime"] = options.optimized_model_filepath
    except Exception as error:  # pylint: disable=broad-except  # whatever it raises, the others are compared
        print(f"{name}: onnxruntime: {error}", file=sys.stderr)
    if onnxsim is not None:
        try:
            simplified, _ = onnxsim.simplify(onnx.load(source))
            paths["onnxsim"] = os.path.join(folder, name + ".sim.onnx")
            onnx.save(simplified, paths["onnxsim"])
        except Exception as error:  # pylint: disable=broad-except
            print(f"{name}: onnxsim: {error}", file=sys.stderr)
            paths.pop("onnxsim", None)
    return source, paths


def change_weight(model, rng):
    """One element of an initializer moved by a tenth of the greatest."""
    floats = [t for t in model.graph.initializer if t.data_type == onnx.TensorProto.FLOAT and np.prod(t.dims) > 0]
    if not floats:
        return None
    tensor = rng.choice(floats)
    values = numpy_helper.to_array(tensor).copy()
    flat = values.reshape(-1)
    at = rng.randrange(flat.size)
    flat[at] += 0.1 * max(float(np.abs(flat).max()), 1e-3)
    tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
    return f"weight {tensor.name}[{at}]"


def change_attribute(model, rng):
    """One integer of a list, one integer or one real of an attribute."""
    places = [(node, a) for node in model.graph.node for a in node.attribute
              if (a.type == onnx.AttributeProto.INTS and len(a.ints) > 0) or a.type == onnx.AttributeProto.FLOAT
              or (a.type == onnx.AttributeProto.INT and a.name not in ("to", "axis"))]
    if not places:
        return None
    node, attribute = rng.choice(places)
    if attribute.type == onnx.AttributeProto.FLOAT:
        attribute.f = attribute.f * 2 + 0.5
    elif attribute.type == onnx.AttributeProto.INT:
        attribute.i += 1
    elif attribute.name in ("perm", "pads") and len(attribute.ints) > 1:
        a, b = rng.sample(range(len(attribute.ints)), 2)
        if attribute.ints[a] == attribute.ints[b]:
            attribute.ints[a] += 1
            attribute.ints[b] = max(attribute.ints[b] - 1, 0)
        else:
            attribute.ints[a], attribute.ints[b] = attribute.ints[b], attribute.ints[a]
    else:
        attribute.ints[rng.randrange(len(attribute.ints))] += 1
    return f"attribute {node.op_type}.{attribute.name}"


def change_order(model, rng):
    """Two operands of an application that is not commutative exchanged."""
    places = [node for node in model.graph.node if len(set(node.input)) > 1 and
              node.op_type in ("Sub", "Div", "MatMul", "Concat", "Pow", "Gemm", "Where", "Add", "Mul")]
    places = [node for node in places if node.op_type not in ("Add", "Mul")] or \
             [node for node in model.graph.node if node.op_type == "Concat"]
    if not places:
        return None
    node = rng.choice(places)
    node.input[0], node.input[1] = node.input[1], node.input[0]
    return f"order {node.op_type}"


def change_axis(model, rng):
    """Another axis."""
    places = [(node, a) for node in model.graph.node for a in node.attribute if a.name == "axis"]
    if not places:
        return None
    node, attribute = rng.choice(places)
    attribute.i = attribute.i - 1 if attribute.i != 0 else 1
    return f"axis {node.op_type}"


CHANGES = [change_weight, change_attribute, change_order, change_axis]


def outputs_of(path, seed):
    """Outputs on random inputs by onnxruntime without optimizations, by name."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(seed)
    feed = {}
    for one in session.get_inputs():
        shape = [d if isinstance(d, int) else 1 for d in one.shape]
        feed[one.name] = (rng.integers(0, 2, shape).astype(np.int64) if "int64" in one.type
                          else rng.standard_normal(shape).astype(np.float32))
    return {o.name: value for o, value in zip(session.get_outputs(), session.run(None, feed))}


def really_differs(source, damaged):
    """Whether onnxruntime computes something else: of the largest element, more than 1e-4."""
    a, b = outputs_of(source, 1), outputs_of(damaged, 1)
    return any(a[k].shape != b[k].shape or
               np.abs(a[k].astype(float) - b[k]).max() > 1e-4 * max(np.abs(a[k].astype(float)).max(), 1e-30) for k in a)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(SMALL))
    parser.add_argument("--small", action="store_true", help="small versions of the models")
    parser.add_argument("--no-pairs", action="store_true", help="damaged files alone")
    parser.add_argument("--damaged", type=int, default=200, help="files with one change (default 200)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--time-limit", type=float, default=60)
    parser.add_argument("--out", default="")
    flags = parser.parse_args()
    lines = [f"# {machine()}, {datetime.date.today()}, onnxruntime {onnxruntime.__version__}"
             + (f", onnxsim {onnxsim.__version__}" if onnxsim else ""), "# " + " ".join(sys.argv)]

    def say(line):
        print(line, flush=True)
        lines.append(line)
        if flags.out:
            with open(flags.out, "w", encoding="utf-8") as out:
                out.write("\n".join(lines) + "\n")

    tally = {}
    if not flags.no_pairs:
        say(f"{'model':16} {'against':12} {'answer':10} {'seconds':>8} {'values':>6} {'shared':>6} {'rules':>5} {'prover':>6} "
            f"{'weights':>7} {'rounding':>9}")
    with tempfile.TemporaryDirectory() as folder:
        for name in [] if flags.no_pairs else flags.models.split(","):
            source, paths = make_variants(name, folder, flags.small)
            for maker, path in paths.items():
                _, found = rewright("equal", source, path, "--time-limit", str(flags.time_limit))
                answer = found.get("answer", "error")
                tally.setdefault(maker, []).append(answer)
                if answer == "error":
                    say(f"{name:16} {maker:12} {answer:10} {found['error'][:120]}")
                    continue
                rounding = max([f["error"] for f in found["foldings"]], default=0)
                say(f"{name:16} {maker:12} {answer:10} {found['seconds']:8.1f} {found['values']:6} {found['shared']:6} "
                    f"{found['regions_by_rules']:5} {found['regions_by_prover']:6} {len(found['foldings']):7} "
                    f"{rounding:9.2g}")
            for path in [source, *paths.values()]:
                os.unlink(path)
        for maker, answers in tally.items():
            say(f"# {maker}: {answers.count('proved')} of {len(answers)} proved")
        if flags.damaged:
            damage(flags, folder, say)


def damage(flags, folder, say):
    """Files with one change, and what becomes of them."""
    rng = random.Random(flags.seed)
    files = {}
    counts = {"different": 0, "open": 0, "proved": 0}
    by_kind = {}
    false_proofs = 0
    names = flags.models.split(",")
    made = 0
    for _ in range(50 * flags.damaged):
        if made == flags.damaged:
            break
        name = rng.choice(names)
        if name not in files:
            files[name] = make_variants(name, folder, small=True)
        source, paths = files[name]
        if not paths:
            continue
        maker = rng.choice(list(paths))
        model = onnx.load(paths[maker])
        change = rng.choice(CHANGES)
        what = change(model, rng)
        if what is None:
            continue
        path = os.path.join(folder, "damaged.onnx")
        onnx.save(model, path)
        try:
            differs = really_differs(source, path)
        except Exception:  # pylint: disable=broad-except  # no model any more
            continue
        _, found = rewright("equal", source, path, "--time-limit", "20")
        answer = found.get("answer", "refused")
        if answer == "refused" or (not differs and answer != "different"):
            continue  # operators that are not ONNX's own; a change that changes nothing that is seen
        made += 1
        counts[answer] += 1
        kind = by_kind.setdefault(what.split()[0], {"different": 0, "open": 0, "proved": 0})
        kind[answer] += 1
        if answer == "proved" and differs:
            false_proofs += 1
        if answer != "different":
            say(f"# damaged {name} {maker} {what}: {answer} {found.get('error', '')[:100]}")
    say(f"# {made} damaged files: " + ", ".join(f"{count} {answer}" for answer, count in counts.items())
        + f"; false proofs: {false_proofs}")
    for kind, answers in sorted(by_kind.items()):
        say(f"#   {kind}: " + ", ".join(f"{count} {answer}" for answer, count in answers.items()))


if __name__ == "__main__":
    main()
