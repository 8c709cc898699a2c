#!/usr/bin/env python3
"""Counts what the code repeats, at any revisions, so that they can be compared.

With --since BASE: lines by top folder at the revision and at BASE, whose files are counted where they lie at the
revision. Functions that are new since BASE (SINCE below) stand apart.

Lines and files by folder, and of core, backends and runtime by concern; files that look at kinds of index expressions;
floor divisions; evaluators and compilers of expressions; ways to run a schedule; comparisons with the name of an
operator. A definition is counted where a line defines it: the patterns are below.
"""
import argparse
import collections
import re
import subprocess

FOLDERS = ["core", "substitutions", "verifier", "search", "backends", "runtime", "tools", "bench", "tests"]

FLOOR_DIVISIONS = r"\bint64_t \w*[Ff]loor_?[Dd]iv\w*\(int64_t|\bauto floor_div = |\b\w*[Ff]loor_?[Dd]iv\w*\(int64_t a, int64_t b"
# Code that computes elements from expressions on this machine, without the oracle and without code that turns
# expressions into terms of a solver.
EVALUATORS = {
    "interpreter": r"^class (StageBuilder|BlockRunner)\b",
    "interpreter over integers": r"\bkExactInteger\b.*,|^struct ExactArith",
    "interpreter over a field": r"^struct FieldArith|^class FieldArith",
    "tape of the generator": r"^class Tape\b",
    "concrete instance of the verifier": r"^class ConcreteInstance\b",
    "scalars of a tile program": r"^double Evaluate\(const PointwiseProgram",
}
# Code that makes kernels of devices out of expressions.
COMPILERS = {
    "tile program of the CPU": r"^struct PointwiseProgram\b",
    "writer of CUDA text": r"^class ExpressionWriter\b",
}
INDEX_EVALUATORS = {
    "indices in core": r"^int64_t EvalIndex\(|EvalIndex\(const ExprPtr",
    "indices in the verifier": r"EvaluateIndex\(const ExprPtr",
}
RUNNERS = {
    "Executor": r"^class Executor\b",
    "DeviceExecutor": r"^class DeviceExecutor\b",
    "ScheduleMemory": r"^class ScheduleMemory\b",
    "TrialMemory": r"^class TrialMemory\b",
    "OperandSets": r"^class OperandSets\b",
    "tests' RunSchedule": r"\bRunSchedule\(.*\{$",
}


# The purpose of each file of core, backends or runtime: the first pattern that its path matches, at any revision. A
# concern that begins with a plus came after b69671d, as a function of its own. Additions to files of older concerns
# since then (more importers, more uses of each operator, more kernels of a file) are counted with these.
CONCERNS = [
    ("+ gradients", r"core/(adjoint|autodiff|lift)/|core/ir/(derivative|made_op)\.|core/ops/after\.|backends/cpu/kernels/pool_grad"),
    ("+ training, ranks, data", r"runtime/(train|training|comm|data|parallel)/|core/base/(sha256|queue_step)\.|core/onnx/(import|export)(_|/)training\."),
    ("+ sums where data says, orders, random numbers", r"core/(index/solve|interpreter/.*scatter|(ir|tensor)/random_bits|ops/(scatter|top_k|random_uniform|cumsum|placement))|core/onnx/import_scatter"),
    ("+ operators of ONNX", r"core/onnx/(import/)?(control_flow|(import_)?(attention|grid|linear_attention|recurrent|resize|select|signal))\."),
    ("+ nodes and sizes of the file that was read", r"core/onnx/(source|named_sizes)\.|core/index/fit\."),
    ("+ CPU: Winograd, general contractions, compiled loops, argmax", r"backends/cpu/(jit|codegen/(plugin|jit)|.*tile_text|.*winograd|kernels/(turn|transpose|convolution|dot_general|argmax|cumsum)\.)|core/ir/licences"),
    ("+ onnxruntime and OpenVINO as devices", r"backends/(onnxruntime|openvino|runtimes)/"),
    ("+ the oracle (in tests before)", r"core/interpreter/oracle\."),
    ("interpreter", r"core/(interpreter|evaluate)|core/folded_values"),
    ("indices", r"core/index/|core/(ir/)?index_(range|value)\.|backends/cuda/index_form|backends/meaning\.|backends/common/node_access\."),
    ("expressions and functions", r"core/(ir/)?(expr|rewrite|pointwise|function)"),
    ("operators that there were", r"core/ops/"),
    ("ONNX", r"core/onnx/|core/(ir|tensor)/npy\."),
    ("graphs, types, text, files", r"core/"),
    ("GPU", r"backends/cuda/"),
    ("CPU", r"backends/cpu/"),
    ("running a schedule", r"runtime/|backends/fallible"),
    ("devices in common", r"backends/"),
]


# Functions that came since the rooms were made (docs/decisions/124): folds and their kernels, certificates that are read
# without the prover, one pipeline of optimize, rule sets that are built, lists of actions and their simulation, models
# of which equal proves a part, a model that is reduced, judges of pairs of models, errors of a folded weight.
SINCE = re.compile(r"(tests/)?(core/(fold|numerics/running_error|onnx/part)|verifier/(claims/(fold_claims|proved_folds)|"
                   r"certificate/step_writer|check/(certificate_steps|step_reader|proof_check|declared_claims|rewright_check)|"
                   r"derivation/|equal/known_equal)|backends/(cpu/folds/|fold_group)|runtime/distributed/|"
                   r"tools/(check_main|library/(optimize_model|equal_models|rewright/equal)|make_rule_sets|one_pipeline|"
                   r"verbs/(reduce|simulate|equal/junit))|bench/equality/court|support/fold_cases|core/index/small_terms|"
                   r"recorded_list|support/(recorded_list|made_sets|small_terms)|verifier/(recorded_list|integer/small_terms)|"
                   r"python/equal_test)|docs/whole_idea|tests/(style|one_proof|rules_to_write)\.py")
COUNTED = (".cc", ".h", ".inc", ".cu", ".def", ".py", ".sh", ".cmake", "CMakeLists.txt")


def sources(revision, endings=(".cc", ".h", ".inc", ".cu", ".def")):
    """Path -> text of every C++ source."""
    names = subprocess.run(["git", "ls-tree", "-r", "--name-only", revision], check=True, capture_output=True, text=True)
    paths = [p for p in names.stdout.split("\n") if p.endswith(endings)]
    batch = subprocess.run(["git", "cat-file", "--batch"], input="".join(f"{revision}:{p}\n" for p in paths).encode(),
                           check=True, capture_output=True).stdout
    texts, at = {}, 0
    for path in paths:
        end = batch.index(b"\n", at)
        size = int(batch[at:end].split()[2])
        texts[path] = batch[end + 1:end + 1 + size].decode()
        at = end + 1 + size + 1
    return texts


def operator_names(texts):
    """Of operators and scalar functions: the first string that a declaration gives."""
    names = set()
    for path, text in texts.items():
        if path.startswith("core/ops/"):
            names.update(re.findall(r'(?:\.name = |return [A-Z]\w*\(\s*)"([a-z]\w*)"', text))
        if path.endswith("functions.def"):
            names.update(re.findall(r'^REWRIGHT_\w+\(\w+, "(\w+)"', text, re.M))
    return names


def found(texts, definitions):
    return [name for name, pattern in definitions.items()
            if any(re.search(pattern, text, re.M) for text in texts.values())]


def report(revision):
    texts = sources(revision)
    code = {p: t for p, t in texts.items() if not p.startswith(("tests/", "bench/"))}
    print(f"{revision}:")
    for folder in FOLDERS:
        inside = [t for p, t in texts.items() if p.startswith(folder + "/")]
        print(f"  {folder:14} {len(inside):4} files {sum(t.count(chr(10)) for t in inside):6} lines")
    lines, files = collections.Counter(), collections.Counter()
    for path, text in texts.items():
        if path.startswith(("core/", "backends/", "runtime/")):
            concern = next(name for name, pattern in CONCERNS if re.match(pattern, path))
            lines[concern] += text.count("\n")
            files[concern] += 1
    print("  core, backends and runtime by concern:")
    for concern in sorted(lines, key=lambda c: (c.startswith("+"), -lines[c])):
        print(f"    {concern:64} {files[concern]:4} files {lines[concern]:6} lines")
    for title, new in (("what there was at b69671d", False), ("what came since", True)):
        count = sum(n for concern, n in lines.items() if concern.startswith("+") == new)
        print(f"    {title:75} {count:6} lines")
    kinds = [p for p, t in code.items() if "ExprKind::" in t and not re.match(r"core/(ir/)?expr\.", p)]
    floors = {p: len(re.findall(FLOOR_DIVISIONS, t)) for p, t in code.items() if re.search(FLOOR_DIVISIONS, t)}
    operators = operator_names(texts)
    names = {f: sum(name in operators for p, t in code.items() if p.startswith(f + "/")
                    for name in re.findall(r'name\s*[!=]=\s*"(\w+)"', t)) for f in FOLDERS}
    short = [p for p, t in code.items() if t.count("\n") < 30]
    casts = sum(t.count("static_cast<size_t>") for t in code.values())
    print(f"  files that look at kinds of expressions: {len(kinds)}")
    print(f"  floor divisions: {sum(floors.values())} ({', '.join(f'{p} {n}' for p, n in floors.items())})")
    for title, definitions in (("evaluators of element expressions", EVALUATORS),
                               ("compilers of element expressions for devices", COMPILERS),
                               ("evaluators of indices over numbers", INDEX_EVALUATORS),
                               ("ways to run a schedule", RUNNERS)):
        there = found(texts if definitions is RUNNERS else code, definitions)
        print(f"  {title}: {len(there)} ({', '.join(there)})")
    print(f"  comparisons with the name of an operator or function: {sum(names.values())} "
          f"({', '.join(f'{f} {n}' for f, n in names.items() if n)})")
    print(f"  files under 30 lines: {len(short)}; casts to size_t: {casts}")


def since(base, revision):
    changes = subprocess.run(["git", "-c", "diff.renameLimit=9999", "diff", "-M40", "--name-status", base, revision],
                             check=True, capture_output=True, text=True).stdout
    moved = {old: new for old, new in re.findall(r"^R\d+\t(.*)\t(.*)$", changes, re.M)}
    before, after, new = collections.Counter(), collections.Counter(), collections.Counter()
    for path, text in sources(base, COUNTED).items():
        before[moved.get(path, path).split("/")[0]] += text.count("\n")
    for path, text in sources(revision, COUNTED).items():
        (new if SINCE.match(path) else after)[path.split("/")[0]] += text.count("\n")
    print(f"  {'folder':14} {base[:9]:>9} {revision[:9]:>9} {'more':>7} {'new functions, apart':>21}")
    for folder in FOLDERS + ["python", "docs"]:
        print(f"  {folder:14} {before[folder]:9} {after[folder]:9} {after[folder] - before[folder]:+7} {new[folder]:21}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("revisions", nargs="*", default=["HEAD"])
    parser.add_argument("--since", metavar="BASE")
    flags = parser.parse_args()
    for revision in flags.revisions:
        since(flags.since, revision) if flags.since else report(revision)


if __name__ == "__main__":
    main()
