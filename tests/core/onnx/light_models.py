"""The nine light_* models of the onnx package, with their recorded outputs.

Each is imported; the graph must give the recorded output in the reference interpreter, and its export in onnxruntime
(about a minute for all).

Usage: light_models.py ONNX_PROGRAM [PATTERN]
"""
import pathlib
import re
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


def run_model(program, path, directory):
    """None, or what is wrong."""
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
        return f"{verdict}: {message}"
    wrong = difference(np.load(directory / "0.npy"), expected, rtol, ATOL)
    if wrong:
        return f"interpreted: {wrong}"
    onnx.checker.check_model(str(exported), full_check=True)
    found = session(exported).run(None, {i.name: x for i, x in zip(inputs, data)})[0]
    wrong = difference(found, expected, rtol, ATOL)
    return f"in onnxruntime: {wrong}" if wrong else None


def main():
    pattern = re.compile(sys.argv[2] if len(sys.argv) > 2 else "")
    program = Program(sys.argv[1])
    failures = 0
    paths = [p for p in sorted(FOLDER.glob("light_*.onnx")) if pattern.search(p.stem)]
    for path in paths:
        start = time.monotonic()
        with tempfile.TemporaryDirectory() as directory:
            wrong = run_model(program, path, pathlib.Path(directory))
        failures += wrong is not None
        print(f"{path.stem:24} {wrong or 'right'} ({time.monotonic() - start:.1f} s)", flush=True)
    print(f"{len(paths) - failures} of {len(paths)} right")
    return 1 if failures or not paths else 0


if __name__ == "__main__":
    sys.exit(main())
