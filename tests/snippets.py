#!/usr/bin/env python3
"""Runs the code of pages.

    snippets.py SOURCES BUILD

Each block of README.md and docs/ that is fenced by ```python or ```cpp is run in a folder with small models under the
names that the pages use, behind a few lines that define what it takes as given. Blocks of docs/paths/ are parts of the
sources: they stand there as the page has them, or begin with the name of something that is to be added.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

if len(sys.argv) != 3:
    sys.exit(__doc__)
SOURCES, BUILD = (pathlib.Path(argument).resolve() for argument in sys.argv[1:])
ADDED = ("OpDef CeluOp()", '{"celu", "Celu"')  # by the page about a new operator
GIVEN = {
    ("README.md", "python"): """
import numpy
images = numpy.ones((1, 3, 8, 8), numpy.float32)
try:
    import torch
except ImportError:
    from types import SimpleNamespace as Names
    torch, module = Names(compile=lambda module, backend: module), None
else:
    import rewright.torch_backend  # adds the backend, as the entry point of an installed package does
    module = torch.nn.Linear(3, 2)
""",
    ("README.md", "cpp"): "std::vector<std::int64_t> ids(3 * 40, 1);\n",
    ("docs/models.md", "python"): "prompt, token = [[1, 2]], 0\n",
    ("docs/equal.md", "python"): """
import onnx
make_model = lambda: onnx.load("resnet50.onnx")
my_optimizer = lambda model: model
""",
}
CALLED = {"docs/equal.md": "test_fusion_keeps_the_function()\n"}


def save(path, op, inputs, kind, shape, weight):
    graph = helper.make_graph([helper.make_node(op, inputs, ["a"]), helper.make_node("Relu", ["a"], ["y"])], "small",
                              [helper.make_tensor_value_info(name, kind, shape) for name in inputs if name != "w"],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
                              [numpy_helper.from_array(weight, "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def save_decoder(path):
    """Attention of one head without positions, whose caches are joined with the new rows."""
    parts = {name: numpy.random.default_rng(1).normal(size=(4, 4)).astype(numpy.float32) for name in ("e", "q", "k", "v")}
    nodes = [helper.make_node("Gather", ["e", "input_ids"], ["x"]),
             *(helper.make_node("MatMul", ["x", name], [f"new_{name}"]) for name in "qkv"),
             *(helper.make_node("Concat", [f"past.0.{name}", f"new_{name[0]}"], [f"present.0.{name}"], axis=1)
               for name in ("key", "value")),
             helper.make_node("Transpose", ["present.0.key"], ["keys"], perm=[0, 2, 1]),
             helper.make_node("MatMul", ["new_q", "keys"], ["scores"]),
             helper.make_node("Softmax", ["scores"], ["shares"], axis=-1),
             helper.make_node("MatMul", ["shares", "present.0.value"], ["logits"])]
    real = lambda name, rows: helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, rows, 4])  # noqa: E731
    graph = helper.make_graph(nodes, "decoder",
                              [helper.make_tensor_value_info("input_ids", TensorProto.INT64, [1, "tokens"]),
                               real("past.0.key", "past"), real("past.0.value", "past")],
                              [real("logits", "tokens"), real("present.0.key", "all"), real("present.0.value", "all")],
                              [numpy_helper.from_array(value, name) for name, value in parts.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def blocks(page):
    for kind, code in re.findall(r"^```(python|cpp)\n(.*?)^```$", page.read_text(encoding="utf-8"), re.M | re.S):
        yield kind, code


def run(kind, code, name, folder):
    given = GIVEN.get((name, kind), "")
    if kind == "python":
        command = [sys.executable, "-c", given + code + CALLED.get(name, "")]
        return subprocess.run(command, cwd=folder, env={**os.environ, "PYTHONPATH": str(BUILD / "python")}, text=True,
                              capture_output=True, check=False)
    heads = "".join(re.findall(r"#include.*\n", code))
    body = code.replace(heads, "")
    source, program = folder / "snippet.cc", folder / "snippet"
    source.write_text(f"#include <vector>\n{heads}int main() {{\n{given}{body}}}\n")
    compiled = subprocess.run(["c++", "-std=c++17", f"-I{SOURCES}/tools/library", source, f"-L{BUILD}", "-lrewright",
                               f"-Wl,-rpath,{BUILD}", "-o", program], text=True, capture_output=True, check=False)
    return compiled if compiled.returncode else subprocess.run([program], cwd=folder, text=True, capture_output=True,
                                                               check=False)


def faults(folder):
    for page in (SOURCES / "README.md", *sorted((SOURCES / "docs").glob("*.md"))):
        name = str(page.relative_to(SOURCES))
        for kind, code in blocks(page):
            if kind == "python" and not any((BUILD / "python/rewright").glob("_rewright*")):
                continue  # no package was built
            done = run(kind, code, name, folder)
            if done.returncode != 0:
                yield f"{name}: {code}ends with status {done.returncode}:\n{done.stdout}{done.stderr}"
    folders = ("core", "verifier", "tools", "runtime", "search", "substitutions", "backends")
    sources = "".join(file.read_text(encoding="utf-8") for name in folders for ending in ("*.cc", "*.h")
                      for file in (SOURCES / name).rglob(ending))
    for page in sorted((SOURCES / "docs/paths").glob("*.md")):
        for _, code in blocks(page):
            code = re.sub(r"^ *//.*\n", "", code, flags=re.M)  # comments are the page's own
            if code not in sources and not any(name in code for name in ADDED):
                yield f"{page.relative_to(SOURCES)}: no source has\n{code}"


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        weights = numpy.random.default_rng(1).normal(size=(4, 3, 3, 3)).astype(numpy.float32)
        save(folder / "resnet50.onnx", "Conv", ["input", "w"], TensorProto.FLOAT, [1, 3, 8, 8], weights)
        save(folder / "bert.onnx", "Gather", ["w", "input_ids"], TensorProto.INT64, ["batch", "sequence"], weights[0, 0])
        save_decoder(folder / "decoder.onnx")
        found = list(faults(folder))
        if not (folder / "bert.opt.onnx").exists():
            found.append("the example of the library wrote no file")
    print("\n".join(found) or "all blocks run")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
