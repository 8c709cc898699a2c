#!/usr/bin/env python3
"""What `rewright equal` says of models and what other optimizers make of them.

    python bench/equality/court.py build/release/rewright [--out bench/results/court.csv] [--page docs/court.md]
                                   [--exports DIR] [--models PATTERN] [--tools PATTERN] [--time-limit 60] [--jobs N]
                                   [--keep DIR]
    python bench/equality/court.py --page docs/court.md --from bench/results/court.csv

Every tool (court_tools.py) is applied to every model (court_models.py; --exports has files that bench/models/exports.py
--keep has left). A pair whose graph the tool left as it was is counted and not asked about. Each verdict is held against
onnxruntime without its optimizations and against onnx.reference, which is NumPy:

    different   both models are run on the inputs that `equal` found. The verdict is confirmed where one of the two says
                that outputs are apart, and doubtful where both run and say that they are not
    proved      both models are run on random inputs. The verdict is doubtful where they are further apart than
                rounding may put them
    refused     where onnxruntime runs the model and not what the tool made of it, that is `invalid`; where outputs
                have other shapes the pair is `different`

Fails, with status 1, where a verdict is doubtful. A tool runs in a process of its own, so that a crash is a result as
well. --keep leaves the models of pairs that are different, open or refused there. Wants onnx, onnxruntime and the tools.
"""
import argparse
import collections
import concurrent.futures
import csv
import glob
import json
import multiprocessing
import os
import re
import subprocess
import sys
import tempfile
import time
import warnings

import numpy as np
import onnx

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from equality.court_models import all_models  # noqa: E402
from equality.court_tools import all_tools  # noqa: E402
from table import machine, write_table  # noqa: E402

warnings.filterwarnings("ignore")
TOOL_SECONDS = 120
# Rounding alone may part results of random inputs by this share of the greatest magnitude, by the outputs' type.
APART = {"float64": 1e-6, "float32": 2e-3, "float16": 5e-2, "bfloat16": 0.2}
ANSWERS = ("proved", "equal up to constants", "open", "different", "invalid", "refused", "time out")


def contents(path):
    """The parts of a model that decide on its results."""
    model = onnx.load(path)
    nodes = [(node.domain.replace("ai.onnx", ""), node.op_type, list(node.input), list(node.output),
              sorted(one.SerializeToString(deterministic=True) for one in node.attribute)) for node in model.graph.node]
    weights = sorted((tensor.name, tensor.data_type, list(tensor.dims), onnx.numpy_helper.to_array(tensor).tobytes())
                     for tensor in model.graph.initializer)
    opsets = sorted((one.domain.replace("ai.onnx", ""), one.version) for one in model.opset_import)
    interface = [[one.name for one in side] for side in (model.graph.input, model.graph.output)]
    return nodes, weights, opsets, interface


def apply(tool, source, result):
    """In a process of its own."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    try:
        onnx.save(tool(onnx.load(source), source), result)
    except BaseException as fault:  # pylint: disable=broad-except
        with open(result + ".fault", "w") as file:
            file.write(f"{type(fault).__name__}: {str(fault)[:300]}")
        os._exit(1)
    os._exit(0)


def made(tool, source, result):
    """"" where the tool gave a model, else how it ended."""
    process = multiprocessing.get_context("fork").Process(target=apply, args=(tool, source, result))
    process.start()
    process.join(TOOL_SECONDS)
    if process.is_alive():
        process.kill()
        process.join()
        return "more than two minutes"
    if process.exitcode == 0:
        return ""
    if os.path.exists(result + ".fault"):
        return open(result + ".fault").read()
    return f"ended by signal {-process.exitcode}"


def ask(program, a, b, seconds, folder):
    command = [program, "equal", a, b, "--threads", "1", "--json", "--quiet", "--time-limit", str(seconds), "-o", folder]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=2 * seconds + 60,
                              check=False)
    except subprocess.TimeoutExpired:
        return {"answer": "time out"}
    if done.returncode in (0, 1):
        return json.loads(done.stdout)
    return {"answer": "refused", "error": " ".join(done.stderr.split())[-400:]}


def reduced(program, a, b, folder):
    """The operators that `rewright reduce` leaves of both models; "" where it finds no part that differs."""
    command = [program, "reduce", a, b, "-o", folder, "--threads", "1", "--json", "--quiet"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TOOL_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return ""
    if done.returncode != 0:
        return ""
    found = json.loads(done.stdout)
    return " and ".join("+".join(found[side]) or "nothing" for side in ("nodes_a", "nodes_b"))


def reason_of(error):
    """The kind of a refusal, without names of files, nodes and sizes."""
    found = re.findall(r"\(((?:[\w.]+\.)?[A-Z]\w+)\)", error)
    text = re.sub(r"\S*\.onnx:?", "", error.replace("rewright equal:", ""))
    text = re.sub(r"\"[^\"]*\"|`[^`]*`|\[[^\]]*\]|\d+", "_", text)
    return (f"{found[0]}: " if found else "") + " ".join(text.split())[:120]


def by_onnxruntime(path, feeds):
    import onnxruntime as ort
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return dict(zip([one.name for one in session.get_outputs()],
                    session.run(None, {one.name: feeds[one.name] for one in session.get_inputs()})))


def by_numpy(path, feeds):
    from onnx.reference import ReferenceEvaluator
    evaluator = ReferenceEvaluator(path)
    with np.errstate(all="ignore"):
        return dict(zip(evaluator.output_names, evaluator.run(None, {name: feeds[name] for name in evaluator.input_names})))


def apart(run, a, b, feeds):
    """How far outputs are apart, in parts of the greatest magnitude and of what rounding may do; None: it cannot run."""
    try:
        first, second = run(a, feeds), run(b, feeds)
    except Exception:  # pylint: disable=broad-except
        return None
    worst = 0.0
    for name, x in first.items():
        y = second.get(name)
        if y is None or not hasattr(x, "shape") or x.shape != y.shape:
            return float("inf")
        allowed = APART.get(str(x.dtype), 0)
        x, y = x.astype(np.float64), y.astype(np.float64)
        if (np.isfinite(x) != np.isfinite(y)).any():
            return float("inf")
        finite = np.isfinite(x)
        if not finite.any():
            continue
        by = np.abs(x[finite] - y[finite]).max() / (np.abs(x[finite]).max() or 1)
        worst = max(worst, by / allowed if allowed else (float("inf") if by else 0))
    return worst


def in_process(*arguments):
    """What `apart` gives, in a process of its own: a kernel may crash."""
    with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as pool:
        try:
            return pool.submit(apart, *arguments).result(TOOL_SECONDS)
        except Exception:  # pylint: disable=broad-except
            return None


def random_feeds(path):
    """Inputs that are drawn; None where a type is not known here or a size is symbolic."""
    rng = np.random.default_rng(1)
    model = onnx.load(path)
    known = {tensor.name for tensor in model.graph.initializer}
    feeds = {}
    for info in model.graph.input:
        if info.name in known:
            continue
        kind = info.type.tensor_type
        try:
            dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
        except Exception:  # pylint: disable=broad-except
            return None
        shape = [dim.dim_value or 1 for dim in kind.shape.dim]
        if np.issubdtype(dtype, np.floating) or str(dtype) == "bfloat16":
            feeds[info.name] = rng.standard_normal(shape).astype(dtype)
        elif dtype == np.bool_ or np.issubdtype(dtype, np.integer):
            feeds[info.name] = rng.integers(0, 2, shape).astype(dtype)
        else:
            return None
    return feeds


def found_feeds(folder, path):
    feeds = {}
    for info in onnx.load(path).graph.input:
        file = os.path.join(folder, re.sub(r"[^A-Za-z0-9.-]", "_", info.name) + ".npy")
        if os.path.exists(file):
            feeds[info.name] = np.load(file)
    return feeds


def shapes(run, path, feeds):
    """Shapes of the outputs; None where the model does not run."""
    try:
        return {name: getattr(x, "shape", None) for name, x in run(path, feeds).items()}
    except Exception:  # pylint: disable=broad-except
        return None


def settled(row, a, b):
    """What onnxruntime, or else NumPy, says of a pair that `equal` refuses: the tool's model may be none, or of another
    shape."""
    feeds = random_feeds(a)
    for run in (by_onnxruntime, by_numpy):
        first = None if feeds is None else shapes(run, a, feeds)
        if first is None:
            continue
        second = shapes(run, b, feeds)
        if second != first:
            row["answer"], row["held"] = "invalid" if second is None else "different", "confirmed"
        return


def held(row, a, b, folder):
    """Holds the verdict against onnxruntime and NumPy."""
    if row["answer"] == "refused":
        settled(row, a, b)
        return
    different = row["answer"] == "different"
    if not different and row["answer"] != "proved":
        return
    feeds = found_feeds(folder, a) if different else random_feeds(a)
    if feeds is None:
        row["held"] = "not run"
        return
    by = [in_process(run, a, b, feeds) for run in (by_onnxruntime, by_numpy)]
    row["onnxruntime_apart"], row["numpy_apart"] = ("" if x is None else f"{x:.2g}" for x in by)
    ran = [x for x in by if x is not None]
    # A difference may be far less than a tolerance for random inputs: `equal` counts what rounding explains.
    if not ran:
        row["held"] = "not run"
    elif different:
        row["held"] = "confirmed" if max(ran) > 0.01 else "doubtful"
    else:
        row["held"] = "agrees" if min(ran) <= 1 else "doubtful"


def judge(flags, name, tool_name, tool, source, folder):
    row = {"model": name, "tool": tool_name}
    result = os.path.join(folder, "result.onnx")
    found = os.path.join(folder, "found")
    for old in glob.glob(result + "*") + glob.glob(found + "/*.npy"):
        os.unlink(old)
    fault = made(tool, source, result)
    if fault:
        return row | {"answer": "tool failed", "reason": fault.split("\n")[0][:160]}
    if contents(source) == contents(result):
        return row | {"answer": "unchanged"}
    start = time.time()
    answer = ask(flags.program, source, result, flags.time_limit, found)
    row |= {"answer": answer["answer"], "seconds": f"{time.time() - start:.1f}"}
    if answer["answer"] == "refused":
        row["reason"] = reason_of(answer["error"])
        row["error"] = re.sub(r"/\S*/(\w+\.onnx)", r"\1", answer["error"])
    elif answer["answer"] == "different":
        row["reason"] = answer["difference"]["first"]
        row["reduced"] = reduced(flags.program, source, result, os.path.join(folder, "reduced"))
    elif answer["answer"] == "open":
        row["reason"] = "time limit" if answer["time_out"] else " ".join(
            f"{one['a']} / {one['b']}" for one in answer["open"][:1])[:160]
        row["applications"] = answer["open"][0]["applications"] if answer["open"] else ""
    elif answer["answer"] == "equal up to constants":
        row["reason"] = "by " + max((f"{one['error']:.2g}" for one in answer["constants"]), key=float)
    held(row, source, result, found)
    if flags.keep and (row["answer"] not in ("proved", "equal up to constants") or row.get("held") == "doubtful"):
        kept = os.path.join(flags.keep, f"{name}.{tool_name}".replace("/", "."))
        onnx.save(onnx.load(source), kept + ".a.onnx")
        onnx.save(onnx.load(result), kept + ".b.onnx")
    return row


def judge_model(flags, name, write, tools):
    """All tools on one model, in a process of its own."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "source.onnx")
        try:
            write(source)
        except Exception as fault:  # pylint: disable=broad-except
            return [{"model": name, "tool": "", "answer": "not made", "reason": f"{type(fault).__name__}: {fault}"[:160]}]
        for tool_name, tool in tools.items():
            row = judge(flags, name, tool_name, tool, source, folder)
            rows.append(row)
            if row["answer"] not in ("unchanged", "proved"):
                print(name, tool_name, row["answer"], row.get("held", ""), row.get("reason", ""), flush=True)
    return rows


def family_of(tool):
    return tool.split(".")[0] if tool.startswith("onnxoptimizer") else tool


def table_of(rows):
    """Answers by tool. Answers that no pair has are left out; tools of one family with the same counts share a line."""
    groups = collections.defaultdict(collections.Counter)
    for row in rows:
        groups[family_of(row["tool"])][row["answer"]] += 1
        groups["all"][row["answer"]] += 1
    shown = [one for one in ANSWERS if groups["all"][one]]
    lines = collections.defaultdict(list)
    for name, counts in sorted(groups.items(), key=lambda one: (one[0] == "all", one[0])):
        family, _, member = name.rpartition(".")
        cells = [sum(counts[one] for one in ANSWERS), *(counts[one] for one in shown)]
        lines[family, tuple(map(str, cells))].append(member)
    return ["| tool | pairs | " + " | ".join(shown) + " |", "|---" * (len(shown) + 2) + "|",
            *(f"| {family}{'.' * bool(family)}{', '.join(members)}{', each' * (len(members) > 1)} | {' | '.join(cells)} |"
              for (family, cells), members in lines.items())]


# Kinds of fault that DiTOX found of onnxoptimizer's default passes, its figures, and the models here that they are of.
DITOX = (("no model, or an invalid one", "9.2 % of all models", ""),
         ("images: other outputs", "30 % of classifiers, 16.6 % of detectors and segmenters",
          "squeezenet|beit|convnext|deit"),
         ("texts: other outputs", "hardly any", "bert|gpt|llama|bloom|nasrnn"),
         ("single operators and small graphs: other outputs", "not among its models", "^(case|reported|onnx)/|mlp"))


def ditox_of(rows):
    """Models with a fault of each kind, by onnxoptimizer and by any tool."""
    lines = ["| kind | DiTOX | models here | faults: onnxoptimizer | any tool |", "|---|---|---|---|---|"]
    for kind, theirs, which in DITOX:
        faults = ("different",) if which else ("tool failed", "invalid")
        of = [row for row in rows if re.search(which, row["model"])]
        faulty = [row for row in of if row["answer"] in faults]
        ours = {row["model"] for row in faulty if row["tool"].startswith("onnxoptimizer")}
        lines.append(f"| {kind} | {theirs} | {len({row['model'] for row in of})} | {len(ours)} | "
                     f"{len({row['model'] for row in faulty})} |")
    return lines


def listed(rows, title, text, what):
    """A section with what was found, each said once, and the tools that it was found of."""
    if not rows:
        return []
    tools = collections.defaultdict(lambda: collections.defaultdict(list))
    for row in rows:
        family, _, member = row["tool"].rpartition(".")
        tools[what(row)][family].append(member)
    said = {one: ", ".join(f"{family}{'.' * bool(family)}{'|'.join(sorted(of))}" for family, of in sorted(found.items()))
            for one, found in tools.items()}
    return [f"## {title}", "", text, "",
            *(f"- {said[one]}: {one}" for one in
              sorted(tools, key=lambda one: (-sum(map(len, tools[one].values())), one))[:40]), ""]


def plain(text):
    return (text or "").replace("|", "/").replace("<", "&lt;")


SOURCES = {"zoo": "of the zoo", "export": "exports of PyTorch", "onnx": "inside the onnx package",
           "onnxruntime": "inside the onnxruntime package",
           "case": "small cases beside those that passes are about", "reported": "graphs after public bug reports"}


def found_text(row):
    """What differs: the application, or what `equal` said of models that it cannot compare."""
    text = row.get("error") or row["reason"]
    return plain(" ".join(re.sub(r"\S*\.onnx:?|rewright equal:", "", text).split()))


def page(rows, head):
    models = {row["model"] for row in rows}
    counts = collections.Counter(model.split("/")[0] for model in models)
    sources = ", ".join(f"{counts[source]} {text}" for source, text in SOURCES.items() if counts[source])
    asked = [row for row in rows if row["answer"] in ANSWERS]
    held_counts = collections.Counter(row.get("held") for row in asked if row.get("held"))
    lines = [
        "# Other programs' optimizers, judged", "",
        "`bench/equality/court.py` makes this page. It is for whoever uses or ships an optimizer of ONNX models: each tool",
        "is applied to each model, and `rewright equal` ([equal.md](equal.md)) is asked if the result computes the same.", "",
        f"There are {len(models)} models: {sources}. {len(rows)} pairs were made; "
        f"{sum(row['answer'] == 'unchanged' for row in rows)} graphs the tool left as they were, and "
        f"{sum(row['answer'] == 'tool failed' for row in rows)} times it gave no model. {len(asked)} pairs are "
        f"judged (none: {', '.join(one for one in ANSWERS if one not in {row['answer'] for row in rows})}):", "",
        *table_of(rows), "",
        f"Machine and versions: {head}", "",
        "- `different` pairs are run by onnxruntime without its optimizations and by onnx.reference (NumPy) on the inputs "
        f"that `equal` found: {sum(row['answer'] == 'different' and row.get('held') == 'confirmed' for row in rows)} are "
        "confirmed.",
        f"- `proved` pairs are run on random inputs: {held_counts['agrees']} agree within rounding.",
        f"- {held_counts['doubtful']} verdicts are doubtful, and {held_counts['not run']} pairs run in neither program.", ""]
    lines += ["## Beside DiTOX", "",
              "DiTOX (Louloudakis and Rajan, arXiv:2505.01892) runs 130 models before and after onnxoptimizer. It compares "
              "outputs, so that rounding is among its differences; `equal` leaves rounding out.", "", *ditox_of(rows), ""]

    def of(answer):
        return [row for row in rows if row["answer"] == answer]

    lines += listed(of("different"), "Differences",
                    "Tools, model and first application that computes something else; nodes that `rewright reduce` leaves "
                    "of both.",
                    lambda row: f"{row['model']}: {found_text(row)}" + ("" if row.get("held") == "confirmed" else
                                                                        f" ({row.get('held')})") +
                    (f"; reduced to {row['reduced']}" if row.get("reduced") else ""))
    lines += listed(of("invalid"), "Invalid models",
                    "onnxruntime runs the model, and not what the tool made of it. The reason is that of `equal`.",
                    lambda row: f"{row['model']}: {found_text(row)}")
    lines += listed(of("open"), "Left open",
                    "The rows of `bench/results/court.csv` have the values between which the smallest region lies.",
                    lambda row: row["model"])
    lines += listed(of("refused"), "Refused", "What `equal` does not read or compare, by its message.",
                    lambda row: plain(row["reason"]))
    lines += listed(of("tool failed"), "Tools that gave no model", "By their message.",
                    lambda row: plain(row["reason"])[:100])
    return "\n".join(lines).rstrip() + "\n"


def read(path):
    with open(path) as file:
        head = file.readline()[2:].strip()
        file.readline()
        return list(csv.DictReader(file)), head


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", nargs="?", default="")
    parser.add_argument("--out", default="")
    parser.add_argument("--page", default="")
    parser.add_argument("--from", dest="sources", nargs="+", default=[], help="make the page from these tables; --out joins them")
    parser.add_argument("--exports", default="", help="a folder of exported models")
    parser.add_argument("--models", default="", help="those that match")
    parser.add_argument("--tools", default="", help="those that match")
    parser.add_argument("--time-limit", type=int, default=60)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--keep", default="")
    flags = parser.parse_args()
    if flags.sources:
        rows = []
        known = {}  # a later table's row stands for an earlier one
        for source in flags.sources:
            part, head = read(source)
            known |= {(row["model"], row["tool"]): row for row in part}
        rows = list(known.values())
        if flags.out:
            write_table(flags.out, head, rows)
    else:
        tools, versions = all_tools()
        tools = {name: tool for name, tool in tools.items() if re.search(flags.tools, name)}
        models = {name: write for name, write in all_models(flags.program, flags.exports).items()
                  if re.search(flags.models, name)}
        if flags.keep:
            os.makedirs(flags.keep, exist_ok=True)
        rows = []
        with concurrent.futures.ThreadPoolExecutor(flags.jobs) as pool:
            for part in pool.map(lambda one: judge_model(flags, *one, tools), models.items()):
                rows += part
                if flags.out and rows:  # what there is, in case of an interrupt
                    write_table(flags.out, "", rows)
        head = f"{machine()}; " + ", ".join(f"{name} {version}" for name, version in versions.items())
        if flags.out:
            write_table(flags.out, head, rows)
    rows = [row for row in rows if row["tool"]]
    print("\n".join(table_of(rows)))
    if flags.page:
        with open(flags.page, "w") as file:
            file.write(page(rows, head))
    return 1 if any(row.get("held") == "doubtful" for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
