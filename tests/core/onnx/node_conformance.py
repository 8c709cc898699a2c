"""The node tests of the onnx package: every model that is imported must give its recorded outputs, and so must its
export, which must satisfy onnx.checker, in onnxruntime. Then the versions of operators that the package knows are
compared with those that the importer knows. At least MOST cases must pass, and those that are refused are so for a reason
in refused_cases.txt.

Usage: node_conformance.py ONNX_PROGRAM [--verbose] [PATTERN]
"""
import collections
import pathlib
import re
import subprocess
import sys
import tempfile
import warnings

import numpy as np
import onnx
import onnx.numpy_helper
import onnx.version_converter
from onnx.backend.test.loader import load_model_tests

from onnx_jobs import Program, difference, session

# Tests of models older than opset 7 that the package's converter does not convert: the slope has its old shape.
UNCONVERTED = {"test_PReLU_1d_multiparam", "test_PReLU_2d_multiparam", "test_PReLU_3d_multiparam"}


def tensor(item):
    """An array also of a number, which has no axes; what is no tensor (a list, a map) as it is."""
    if isinstance(item, onnx.TensorProto):
        return onnx.numpy_helper.to_array(item)
    return np.asarray(item) if isinstance(item, (np.generic, float, int)) else item


def load_case(case, directory):
    """The model's path and its data sets, for tests in Python and in files."""
    if case.model is not None:
        path = directory / "model.onnx"
        onnx.save(case.model, path)
        return path, [([tensor(x) for x in inputs], [tensor(y) for y in outputs]) for inputs, outputs in case.data_sets]
    folder = pathlib.Path(case.model_dir)
    sets = []
    for data in sorted(folder.glob("test_data_set_*")):
        def load(kind):
            files = sorted(data.glob(f"{kind}_*.pb"), key=lambda f: int(re.search(r"\d+", f.name)[0]))
            return [onnx.numpy_helper.to_array(onnx.load_tensor(str(f))) for f in files]
        sets.append((load("input"), load("output")))
    return folder / "model.onnx", sets


def concrete_dims(model, inputs):
    """Sizes of the symbolic dimensions of a model, from the data."""
    dims = {}
    given = {t.name for t in model.graph.initializer}
    for info, value in zip([i for i in model.graph.input if i.name not in given], inputs):
        for axis, dim in enumerate(info.type.tensor_type.shape.dim):
            if not dim.HasField("dim_value"):
                dims[dim.dim_param or f"{info.name}:{axis}"] = value.shape[axis]
    return ",".join(f"{name}={size}" for name, size in dims.items()) or "-"


def freeze(model, inputs, name):
    """Makes an input of the model an initializer: shapes, axes and the like must be known beforehand."""
    names = [i.name for i in model.graph.input]
    at = names.index(name)
    model.graph.initializer.append(onnx.numpy_helper.from_array(inputs[at], name))
    del model.graph.input[at]
    return inputs[:at] + inputs[at + 1:]


def run_program(program, path, inputs, directory):
    """As Program.run, with inputs frozen that must be known; the inputs that remain."""
    model = onnx.load(path)
    if any(o.domain == "" and o.version < 7 for o in model.opset_import):
        model = onnx.version_converter.convert_version(model, 13)
    while True:
        onnx.save(model, directory / "frozen.onnx")
        files = []
        for i, x in enumerate(inputs):
            files.append(directory / f"input_{i}.npy")
            np.save(files[-1], np.ascontiguousarray(x).reshape(x.shape))
        verdict, message = program.run(directory / "frozen.onnx", directory, directory / "exported.onnx",
                                       concrete_dims(model, inputs), files)
        unknown = re.search(r'tensor "(.*?)"\) depends on the inputs', message)
        if verdict != "unsupported" or not unknown or unknown[1] not in [i.name for i in model.graph.input]:
            return verdict, message, inputs
        inputs = freeze(model, inputs, unknown[1])


def check_export(exported, inputs, expected, case):
    """Whether the exported model is well formed and gives the outputs in onnxruntime, where that can run it."""
    try:
        onnx.checker.check_model(str(exported), full_check=True)
    except Exception as e:
        return "export", str(e)[:300]
    if any(x.dtype.name == "bfloat16" for x in [*inputs, *expected]):
        return "passed", "bfloat16, which onnxruntime's interface for Python does not take"
    names = [i.name for i in onnx.load(exported).graph.input]
    try:
        runtime = session(exported)
    except Exception as e:
        if any(text in str(e) for text in ("NOT_IMPLEMENTED", "Could not find an implementation",
                                           "is under development and support for this is limited")):
            return "passed", "not in onnxruntime"
        return "export", str(e)[:300]
    known = {i.name for i in runtime.get_inputs()}
    try:
        found = runtime.run(None, {n: x for n, x in zip(names, inputs) if n in known})
    except Exception as e:
        return "passed" if "is not defined for empty set with bool type" in str(e) else "export", str(e)[:300]
    for i, (x, y) in enumerate(zip(found, expected)):
        wrong = difference(x, y, max(case.rtol, 1e-3, rounding(y)), max(case.atol, 1e-5))
        if wrong:
            return "export", f"output {i}: {wrong}"
    return "passed", ""


def rounding(expected):
    """What numbers of 16 bits may be off, eight roundings: those that are recorded were rounded at other places."""
    return {"float16": 2.0**-8, "bfloat16": 2.0**-5}.get(expected.dtype.name, 0)


def run_case(program, case, directory):
    """The verdict and the message."""
    path, data_sets = load_case(case, directory)
    verdict, message = "unsupported", "no data"
    for inputs, expected in data_sets:
        if not all(isinstance(x, np.ndarray) for x in [*inputs, *expected]):
            return "unsupported", "not tensors"
        verdict, message, inputs = run_program(program, path, inputs, directory)
        if verdict != "ok":
            return verdict, message
        for i, y in enumerate(expected):
            found = np.load(directory / f"{i}.npy")
            if found.dtype.kind == "V":  # bf16, which NumPy does not have
                found = found.view(y.dtype)
            wrong = difference(found, y, max(case.rtol, rounding(y)), max(case.atol, 1e-6))
            if wrong:
                return "wrong", f"output {i}: {wrong}"
        verdict, message = check_export(directory / "exported.onnx", inputs, expected, case)
        if verdict != "passed":
            return verdict, message
        # With the node itself: where onnxruntime lacks it, or gives something else, it does so in the original.
        kept, message = check_export(directory / "kept_exported.onnx", inputs, expected, case)
        if kept != "passed" and check_export(directory / "frozen.onnx", inputs, expected, case)[0] == "passed":
            return kept, f"kept: {message}"
    return verdict, message


MOST = 1560


def check_refused(refused):
    """What differs from the list of reasons, as text. `refused`: (name, message)."""
    lines = (pathlib.Path(__file__).parent / "refused_cases.txt").read_text().splitlines()
    reasons = {line.split(" :: ")[0]: 0 for line in lines if line and not line.startswith("#")}
    wrong = []
    for name, message in refused:
        fitting = [reason for reason in reasons if re.search(reason, message)]
        for reason in fitting:
            reasons[reason] += 1
        if not fitting:
            wrong.append(f"{name}: refused for a reason that is not in the list: {message[:300]}")
    return wrong + [f"refused_cases.txt: no case for `{reason}`" for reason, count in reasons.items() if count == 0]


# In ONNX's domain, by onnxruntime.
OF_ONNXRUNTIME = {"SimplifiedLayerNormalization"}
EARLIER_IN_ONNXRUNTIME = {"LayerNormalization"}


def check_versions(program, newest_opset=28):
    """Operators whose definitions have versions that the importer does not know, as text."""
    versions = collections.defaultdict(set)
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == "" and schema.since_version <= newest_opset:
            versions[schema.name].add(schema.since_version)
    wrong = []
    for line in subprocess.check_output([program, "--operators"], text=True).splitlines():
        name, first, newest = line.split("\t")
        if "." in name or name in OF_ONNXRUNTIME:  # what ONNX does not define
            continue
        if name in EARLIER_IN_ONNXRUNTIME:
            first = min(versions[name])
        if max(versions[name]) != int(newest) or int(first) not in versions[name]:
            wrong.append(f"{name}: known from {first} to {newest}, defined in {sorted(versions[name])}")
    return wrong


def main():
    arguments = [a for a in sys.argv[1:] if a != "--verbose"]
    if len(arguments) not in (1, 2):
        sys.exit(__doc__)
    verbose = "--verbose" in sys.argv
    pattern = re.compile(arguments[1] if len(arguments) > 1 else "")
    warnings.simplefilter("ignore")
    program = Program(arguments[0])
    verdicts = collections.defaultdict(list)
    for kind in ["node", "simple", "pytorch-converted", "pytorch-operator"]:
        for case in load_model_tests(kind=kind):
            if not pattern.search(case.name) or case.name in UNCONVERTED:
                continue
            with tempfile.TemporaryDirectory() as directory:
                try:
                    verdict, message = run_case(program, case, pathlib.Path(directory))
                except Exception as e:  # a failing check names its test
                    verdict, message = "failed", f"{type(e).__name__}: {str(e)[:300]}"
            verdicts[verdict].append((case.name, message))
            if verbose or verdict not in ("passed", "unsupported"):
                print(f"{verdict:12} {case.name}: {message}", flush=True)
    print({verdict: len(cases) for verdict, cases in verdicts.items()})
    bad = [name for verdict, cases in verdicts.items() if verdict not in ("passed", "unsupported")
           for name, _ in cases]
    wrong = check_versions(arguments[0])
    if not pattern.pattern:
        wrong += check_refused(verdicts["unsupported"])
    print("\n".join(wrong) or "every operator's newest version is known")
    enough = len(verdicts["passed"]) >= (1 if pattern.pattern else MOST)
    return 1 if bad or wrong or not enough else 0


if __name__ == "__main__":
    sys.exit(main())
