#!/usr/bin/env python3
"""Small graphs after public bug reports of other runtimes and compilers, through all that the program does to one.

    python bench/models/reported_graphs.py build/release/rewright [--out TABLE.csv] [--only PATTERN] [--part K/N] [--jobs N]
        [--seed N]

The graphs are those of bench/reported/: each family names the reports whose kind it is, and no two graphs have the same
structure. For each, on several sets of inputs (ordinary, large, with ties, with infinities, NaN and zeros of both
signs):

    run        by the interpreter and on the device cpu
    optimize   for the devices cpu and onnxruntime; what is written is run in onnxruntime and on the device cpu
    equal      of the graph and what optimize wrote: never `different`; of the graph and one that is plainly another:
               never `proved`
    grad       by the inputs, against finite differences in float64 (onnx.reference)
    train      one step of gradient descent, against finite differences, where the graph has weights and a batch

The truth is onnxruntime without its optimizations; where it has no kernel, or is known to be wrong or to leave a choice
open, onnx.reference or NumPy, and the graph says why. Where a result is infinite a rewritten graph may give NaN, as the
rules say. A refusal, status 2 with a message, is right, and counted by its reason. What is wrong, a crash, an internal
error (status 3) or more than a minute fails, with status 1. Wants onnx and onnxruntime.
"""
import argparse
import collections
import concurrent.futures
import csv
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import warnings

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from reported.differences import Differences, loss_added  # noqa: E402
from reported.graph import Graph, all_graphs  # noqa: E402
from table import machine, part_of, write_table  # noqa: E402

onnxruntime.set_default_logger_severity(4)
warnings.filterwarnings("ignore")
# Tolerances: parts of the greatest magnitude and of the element itself.
TOLERANCE = {"float64": 1e-9, "float32": 2e-6, "float16": 2e-3, "bfloat16": 1.6e-2}
ONCE = ("--iterations", 1, "--warmup", 0)
STEPS = ("run", "optimize_cpu", "optimize_onnxruntime", "equal", "unequal", "grad", "train")


class Fault(Exception):
    """What is wrong, or how the program ended."""


class Refusal(Exception):
    """Status 2, and why."""


def rewright(program, *arguments):
    """What optimize and equal report. A negative answer is no fault."""
    command = [program, *map(str, arguments), "--threads", "1", "--json"]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=600,
                              check=False)
    except subprocess.TimeoutExpired:
        raise Fault(f"CRASH: {arguments[0]} took more than ten minutes") from None
    said = " ".join(done.stderr.split())
    if done.returncode == 2:
        raise Refusal(said)
    if done.returncode not in (0, 1):
        raise Fault(f"CRASH: {arguments[0]} ended with {done.returncode}: {said[-300:]}")
    return json.loads(done.stdout) if arguments[0] in ("optimize", "equal") else {}


def difference(found, expected, tolerance=None, magnitude=0, unit=0, rewritten=False, overflows=False):
    """None where the tensors agree."""
    found, expected = np.asarray(found), np.asarray(expected)
    if found.dtype.kind == "V" and found.dtype.itemsize == 2:
        found = found.view(ml_dtypes.bfloat16)
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return f"{found.dtype}{list(found.shape)} instead of {expected.dtype}{list(expected.shape)}"
    if expected.dtype.name not in TOLERANCE:
        far = found != expected
        if unit:
            far = np.abs(found.astype(object) - expected.astype(object)) > unit
    else:
        if tolerance is None:
            tolerance = TOLERANCE[expected.dtype.name]
        found, expected = found.astype(np.float64), expected.astype(np.float64)
        finite = np.isfinite(expected)
        scale = np.abs(expected[finite]).max(initial=magnitude)
        with np.errstate(invalid="ignore"):
            near = np.abs(found - expected) <= tolerance * (np.abs(expected) + scale)
        same = (found == expected) | (np.isnan(found) & np.isnan(expected)) | (finite & near)
        same |= (np.isnan(found) & rewritten | overflows) & np.isinf(expected)
        far = ~same
    far = np.asarray(far, bool)
    if not far.any():
        return None
    place = tuple(int(k[0]) for k in np.nonzero(far)) if far.ndim else ()
    return f"{int(far.sum())} of {far.size} elements, {place}: {found[place]} instead of {expected[place]}"


def in_onnxruntime(path, feeds):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


class Case:
    """One graph in a folder of its own."""

    def __init__(self, program, name, graph, folder):
        self.program, self.name, self.graph, self.folder = program, name, graph, pathlib.Path(folder)
        self.model = graph.model()
        self.path = self.folder / "model.onnx"
        onnx.save(self.model, self.path)
        self.samples = graph.samples()
        self.results = [value.name for value in self.model.graph.output]
        self.dims = [item for name, size in graph.sizes.items() for item in ("--dim", f"{name}={size}")]
        self.oracle = "onnxruntime"
        self.expected = [self.truth(feeds) for feeds in self.samples]
        self.files = []
        for number, feeds in enumerate(self.samples):
            arguments = []
            for key, value in feeds.items():
                np.save(self.folder / f"{key}.{number}.npy", value)
                arguments += ["--input", f"{key}={self.folder / f'{key}.{number}.npy'}"]
            self.files.append(arguments)

    def truth(self, feeds):
        if callable(self.graph.truth_of):
            self.oracle = "NumPy"
            return self.graph.truth_of(**feeds)
        if self.graph.truth_of == "reference":
            self.oracle = "onnx.reference"
            return ReferenceEvaluator(self.model).run(None, feeds)
        return in_onnxruntime(self.path, feeds)

    def compare(self, outputs, number, rewritten, what):
        overflows = self.graph.overflows and what != "reference"  # devices round within a group as they like
        for name, found, expected in zip(self.results, outputs, self.expected[number]):
            wrong = difference(found, expected, self.graph.tolerance, self.graph.magnitude, self.graph.unit, rewritten,
                               overflows)
            if wrong:
                raise Fault(f"WRONG: {what}, {name}, inputs {number}: {wrong}")

    def run_all(self, path, device, rewritten=False):
        for number, inputs in enumerate(self.files):
            out = self.folder / f"out_{device}"
            rewright(self.program, "run", path, "--device", device, *ONCE, "--output-dir", out, *inputs, *self.dims)
            self.compare([np.load(out / f"{name}.npy") for name in self.results], number, rewritten,
                         f"{'written, ' if rewritten else ''}{device}")

    def run(self):
        self.run_all(self.path, "reference")
        self.run_all(self.path, "cpu")
        return ""

    def optimize(self, device):
        written = self.folder / f"{device}.onnx"
        # Costs by formula for the processor: graphs of a few elements are measured equal, whatever is done to them.
        how = ["--cost", "analytic:v100"] if device == "cpu" else []
        report = rewright(self.program, "optimize", self.path, "-o", written, "--device", device, "--time-limit", 20,
                          *how, *self.dims)
        if written.read_bytes() == self.path.read_bytes():
            return "unchanged"
        self.run_all(written, "cpu", rewritten=True)
        if self.oracle == "onnxruntime":
            for number, feeds in enumerate(self.samples):
                self.compare(in_onnxruntime(written, feeds), number, True, "written, onnxruntime")
        return " ".join(f"{rule['rule']}" for rule in report.get("rewrites", []))

    def optimize_cpu(self):
        return self.optimize("cpu")

    def optimize_onnxruntime(self):
        return self.optimize("onnxruntime")

    def equal(self):
        found = {rewright(self.program, "equal", self.path, written, "--time-limit", 10, *self.dims)["answer"]
                 for written in (self.folder / "cpu.onnx", self.folder / "onnxruntime.onnx") if written.exists()}
        if "different" in found:
            raise Fault("WRONG: equal calls what optimize wrote different")
        return " ".join(sorted(found))

    def unequal(self):
        """The first output that has elements, changed by a node behind it: by 3, and by what its type can tell."""
        places = [k for k, value in enumerate(self.expected[0]) if np.asarray(value).size]
        if not places:
            return "nothing to change"
        known = np.asarray(self.expected[0][places[0]])
        finite = np.abs(known[np.isfinite(known)].astype(np.float64)) if known.dtype.kind == "f" else np.zeros(0)
        verdicts = []
        for change in sorted({3.0, max(3.0, finite.max(initial=0) / 1000)}):
            if not self.write_changed(places[0], change):
                return "nothing to change"
            verdicts.append(rewright(self.program, "equal", self.path, self.folder / "other.onnx", "--time-limit", 5,
                                     *self.dims)["answer"])
            if verdicts[-1] == "proved":
                raise Fault("WRONG: equal proves two graphs that differ")
        return verdicts[-1]

    def write_changed(self, place, change):
        """Writes other.onnx, with that much added to the output; false where no node computes it."""
        name = self.results[place]
        other = onnx.ModelProto()
        other.CopyFrom(self.model)
        kind = other.graph.output[place].type.tensor_type.elem_type
        if name in {value.name for value in other.graph.input} | {tensor.name for tensor in other.graph.initializer}:
            return False
        known = other.graph.value_info.add()
        known.CopyFrom(other.graph.output[place])
        known.name = "before"
        for node in other.graph.node:
            for names in (node.input, node.output):
                for k, one in enumerate(names):
                    if one == name:
                        names[k] = "before"
        if kind == onnx.TensorProto.BOOL:
            other.graph.node.append(helper.make_node("Not", ["before"], [name]))
        else:
            one = numpy_helper.from_array(np.array(change, helper.tensor_dtype_to_np_dtype(kind)), "change")
            other.graph.initializer.append(one)
            other.graph.node.append(helper.make_node("Add", ["before", "change"], [name]))
        onnx.save(other, self.folder / "other.onnx")
        return True

    def grad(self):
        if not self.graph.gradients or not any(x.dtype == np.float32 for x in self.graph.inputs.values()):
            return "nothing to differentiate"
        with_loss = loss_added(self.model, self.expected[0])
        if with_loss is None:
            return "nothing to differentiate"
        model, expected = with_loss
        onnx.save(model, self.folder / "loss.onnx")
        made = self.folder / "grad.onnx"
        rewright(self.program, "grad", self.folder / "loss.onnx", "--loss", "loss", "--by", "inputs", "-o", made,
                 *self.dims)
        out = self.folder / "gradients"
        rewright(self.program, "run", made, *ONCE, "--output-dir", out, *self.files[0])
        gradients = {key: np.load(out / f"grad_{key}.npy") for key in self.samples[0]
                     if (out / f"grad_{key}.npy").exists()}
        return self.held("gradient", gradients, model, "loss", self.samples[0], expected)

    def train(self):
        feeds, outputs = self.samples[0], self.expected[0]
        weights = [t.name for t in self.model.graph.initializer if t.data_type == onnx.TensorProto.FLOAT]
        batches = {np.shape(value)[:1] for value in [*feeds.values(), outputs[0]]}
        if not weights or len(batches) != 1 or batches == {()} or np.asarray(outputs[0]).dtype != np.float32:
            return "nothing to train"
        batch, rate = batches.pop()[0], 0.125
        if batch == 0:
            return "nothing to train"
        for key, value in feeds.items():
            np.save(self.folder / f"{key}.npy", value)
        target = np.random.default_rng(3).standard_normal(outputs[0].shape).astype(np.float32)
        np.save(self.folder / "target.npy", target)
        config = {"model": {"onnx": "model.onnx", "output": self.results[0], "trained": ["*"]}, "steps": 1,
                  "loss": "mean_squared_error", "optimizer": {"kind": "sgd", "learning_rate": rate},
                  "data": {"inputs": {key: f"{key}.npy" for key in feeds}, "target": "target.npy", "batch": batch,
                           "shuffle": False}, "checkpoint": {"every_steps": 1}}
        (self.folder / "config.json").write_text(json.dumps(config))
        rewright(self.program, "train", self.folder / "config.json", "--checkpoint-dir", self.folder / "checkpoints",
                 "-o", self.folder / "trained.onnx")
        after = {t.name: numpy_helper.to_array(t) for t in onnx.load(self.folder / "trained.onnx").graph.initializer}
        before = {t.name: numpy_helper.to_array(t) for t in self.model.graph.initializer}
        moved = {name: (before[name].astype(np.float64) - after[name]) / rate for name in weights
                 if name in after and after[name].shape == before[name].shape}
        if not all(np.isfinite(value).all() for value in moved.values()):
            raise Fault("WRONG: a weight that is not finite after a step")
        changed = {name: value for name, value in moved.items() if value.any()}
        if not self.graph.gradients or not changed:
            return "not compared: nothing moved" if not changed else "not compared"
        return self.held("step", changed, self.model, self.results[0], feeds, outputs[0], target, tolerance=1e-2)

    @staticmethod
    def held(what, found, *differences, **options):
        """Derivatives that were found, against differences of outputs (Differences)."""
        try:
            wrong = Differences(*differences).contradict(found, **options)
        except Exception as error:
            return f"not compared: {type(error).__name__}"
        if wrong:
            raise Fault(f"WRONG: {what}: {wrong}")
        return "compared"


def kind_of(reason):
    """A refusal without what is this graph's own."""
    reason = re.sub(r"^.*?\brewright \w+: ", "", reason)
    reason = re.sub(r"/\S+/", "", re.sub(r"`[^`]*`|\"[^\"]*\"", "..", reason))
    return re.sub(r"\d+", "N", re.sub(r"\[[^\]]*\]", "[]", reason))[:140]


def look(program, name, steps):
    """A row of the table."""
    reports, graph = next((reports, graph) for one, reports, graph in all_graphs() if one == name)
    row = {"graph": name, "reports": " ".join(reports)}
    with tempfile.TemporaryDirectory() as folder:
        try:
            case = Case(program, name, graph, folder)
        except Exception as error:
            return {**row, "run": f"NO TRUTH: {type(error).__name__}: {' '.join(str(error).split())[:300]}"}
        row["truth"] = case.oracle + (f": {graph.why}" if graph.why else "")
        for step in steps:
            try:
                row[step] = f"ok {getattr(case, step)()}".strip()
            except Refusal as reason:
                row[step] = f"refused: {reason}"
            except Fault as fault:
                row[step] = str(fault)
            except Exception as error:
                row[step] = f"CRASH: {type(error).__name__}: {' '.join(str(error).split())[:300]}"
    return row


def is_bad(verdict):
    return verdict.startswith(("WRONG", "CRASH", "NO TRUTH"))


def summary(rows):
    refusals = collections.Counter()
    for step in (step for step in STEPS if any(step in row for row in rows)):
        verdicts = [row[step] for row in rows if step in row]
        wrong, crashed = (sum(v.startswith(kind) for v in verdicts) for kind in ("WRONG", "CRASH"))
        refused = [v for v in verdicts if v.startswith("refused")]
        refusals.update((step, kind_of(v[len("refused: "):])) for v in refused)
        compared = sum(v.startswith("ok compared") for v in verdicts)
        note = f" ({compared} compared)" if step in ("grad", "train") else ""
        print(f"{step}: {sum(v.startswith('ok') for v in verdicts)} ok{note}, {len(refused)} refused, {wrong} wrong, "
              f"{crashed} crashed")
    for (step, reason), count in sorted(refusals.items(), key=lambda item: -item[1]):
        print(f"  {count} refused by {step}: {reason}")
    rewritten = sum(row.get(f"optimize_{device}", "ok unchanged").startswith("ok") and
                    row.get(f"optimize_{device}", "ok unchanged") != "ok unchanged"
                    for row in rows for device in ("cpu", "onnxruntime"))
    families = {row["graph"].rsplit("_", 1)[0] for row in rows}
    reports = {report for row in rows for report in row["reports"].split()}
    faults = [f"{row['graph']} {step}: {row[step]}" for row in rows for step in STEPS if is_bad(row.get(step, ""))]
    print(f"{len(rows)} graphs of {len(families)} families after {len(reports)} reports, {rewritten} files rewritten, "
          f"{len(faults)} faults")
    for fault in faults:
        print(fault)
    return not faults


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--out", help="write the table as CSV")
    parser.add_argument("--only", default="", help="graphs whose names match")
    parser.add_argument("--part", default="1/1", help="K/N: every Nth graph, from number K on; today/N: another K each "
                        "day (REWRIGHT_DAY: its number), all graphs with REWRIGHT_FULL in the environment")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--seed", type=int, default=0, help="of weights and inputs: another one draws others")
    parser.add_argument("--steps", nargs="+", choices=STEPS, default=STEPS, metavar="STEP", help=", ".join(STEPS))
    parser.add_argument("--list", action="store_true", help="only print what there is")
    arguments = parser.parse_args()
    Graph.seed = arguments.seed  # processes are forked
    first, step = part_of(arguments.part)
    chosen = [(name, reports) for name, reports, _ in all_graphs() if re.search(arguments.only, name)][first - 1::step]
    if arguments.list:
        csv.writer(sys.stdout).writerows((name, " ".join(reports)) for name, reports in chosen)
        return
    with concurrent.futures.ProcessPoolExecutor(arguments.jobs) as pool:
        running = [pool.submit(look, arguments.program, name, arguments.steps) for name, _ in chosen]
        for number, done in enumerate(concurrent.futures.as_completed(running)):
            row = done.result()
            for one in STEPS:
                if is_bad(row.get(one, "")):  # at once
                    print(number, row["graph"], one, row[one], file=sys.stderr, flush=True)
    rows = [done.result() for done in running]
    if arguments.out:
        write_table(arguments.out, f"{machine()}; onnx {onnx.__version__}, onnxruntime {onnxruntime.__version__}", rows)
    sys.exit(not summary(rows))


if __name__ == "__main__":
    main()
