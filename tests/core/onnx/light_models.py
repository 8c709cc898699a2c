"""The nine light_* models of the onnx package, with their recorded outputs.

Each is imported; the graph must give the recorded output in the reference interpreter, and its export in onnxruntime.
Then it is optimized, and what comes out must give the recorded output in onnxruntime as well: with costs by formula, and
with the weights that the file generates written out, since a rewrite that needs them would make it larger.
One or two of them, others each day (REWRIGHT_DAY: the number of the day); with REWRIGHT_FULL in the environment all, with
measured costs.

Usage: light_models.py ONNX_PROGRAM REWRIGHT [PATTERN]
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
import onnx.numpy_helper
from onnx.backend.test.runner import Runner

from onnx_jobs import Program, difference, session

FOLDER = pathlib.Path(onnx.__file__).parent / "backend/test/data/light"
# As in onnx/backend/test/case/model/__init__.py.
RTOL = {"densenet121": 2e-3}
ATOL = 1e-7


def write_weights(path, target):
    model = onnx.load(path)
    known = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    model.ir_version = 8  # from 4 on weights are no inputs
    inputs = [value for value in model.graph.input if value.name not in known]
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    nodes = list(model.graph.node)
    del model.graph.node[:]
    for node in nodes:
        if node.op_type != "ConstantOfShape" or node.input[0] not in known:
            model.graph.node.append(node)
            continue
        value = next((onnx.numpy_helper.to_array(a.t) for a in node.attribute if a.name == "value"), np.zeros(1, np.float32))
        weight = np.full(known[node.input[0]], value[0], value.dtype)
        model.graph.initializer.append(onnx.numpy_helper.from_array(weight, node.output[0]))
    onnx.save(model, target)


def optimize(rewright, path, target):
    """The number of rewrites."""
    cost = "measured" if os.environ.get("REWRIGHT_FULL") else "analytic:v100"
    command = [rewright, "optimize", path, "-o", target, "--cost", cost, "--json", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"rewright optimize: {done.stderr.strip()}")
    return sum(rewrite["count"] for rewrite in json.loads(done.stdout)["rewrites"])


def run_model(program, rewright, path, directory):
    """What is wrong, or None, and the number of rewrites."""
    model = onnx.load(path)
    given = {t.name for t in model.graph.initializer}
    inputs = [i for i in model.graph.input if i.name not in given]
    data = [Runner.generate_dummy_data(i) for i in inputs]
    files = []
    for i, x in enumerate(data):
        files.append(directory / f"input_{i}.npy")
        np.save(files[-1], x)
    expected = onnx.numpy_helper.to_array(onnx.load_tensor(str(path.with_name(path.stem + "_output_0.pb"))))
    rtol = RTOL.get(path.stem.removeprefix("light_"), 1e-3)
    exported = directory / "exported.onnx"
    verdict, message = program.run(path, directory, exported, "-", files)
    if verdict != "ok":
        return f"{verdict}: {message}", 0
    wrong = difference(np.load(directory / "0.npy"), expected, rtol, ATOL)
    if wrong:
        return f"interpreted: {wrong}", 0
    feeds = {i.name: x for i, x in zip(inputs, data)}
    for path_written in (exported, directory / "kept_exported.onnx"):
        onnx.checker.check_model(str(path_written), full_check=True)
        wrong = difference(session(path_written).run(None, feeds)[0], expected, rtol, ATOL)
        if wrong:
            return f"{path_written.name} in onnxruntime: {wrong}", 0
    optimized = directory / "optimized.onnx"
    write_weights(path, directory / "whole.onnx")
    rewrites = optimize(rewright, directory / "whole.onnx", optimized)
    onnx.checker.check_model(str(optimized), full_check=True)
    wrong = difference(session(optimized).run(None, feeds)[0], expected, rtol, ATOL)
    return (f"optimized: {wrong}" if wrong else None), rewrites


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    pattern = re.compile(sys.argv[3] if len(sys.argv) > 3 else "")
    program = Program(sys.argv[1])
    failures = total = 0
    paths = [p for p in sorted(FOLDER.glob("light_*.onnx")) if pattern.search(p.stem)]
    if not pattern.pattern and not os.environ.get("REWRIGHT_FULL"):
        day = int(os.environ.get("REWRIGHT_DAY", time.time() // 86400))
        print(f"REWRIGHT_DAY={day}")
        paths = paths[day % 5::5]
    for path in paths:
        start = time.monotonic()
        with tempfile.TemporaryDirectory() as directory:
            wrong, rewrites = run_model(program, sys.argv[2], path, pathlib.Path(directory))
        failures += wrong is not None
        total += rewrites
        print(f"{path.stem:24} {wrong or 'right'}, {rewrites} rewrites ({time.monotonic() - start:.1f} s)", flush=True)
    print(f"{len(paths) - failures} of {len(paths)} right, {total} rewrites")
    # An optimizer that did nothing would not be tested.
    return 1 if failures or not paths or not total else 0


if __name__ == "__main__":
    sys.exit(main())
