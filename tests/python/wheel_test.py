"""The Python package in an environment that has nothing else: a new one, with what the wheel holds and the dependencies
that it declares (python/pyproject.toml), in which clean_environment.py runs; then the same package in the environment of
this test, in one process with torch, onnx and onnxruntime, as far as these are there.

    python tests/python/wheel_test.py SOURCES BUILD
    python tests/python/wheel_test.py SOURCES WHEEL

What the wheel holds is installed from the build folder, by the components that the wheel takes. With REWRIGHT_FULL in
the environment pip builds the wheel itself, which compiles everything once more. A WHEEL is installed as it is; its
program runs and trains, and the package is imported with the others in every order. Ends with 77 (skipped) where the
dependencies cannot be installed.
"""

import importlib.util
import itertools
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import venv

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

try:
    import tomllib
except ImportError:  # Python 3.10
    from pip._vendor import tomli as tomllib


def write_model(folder):
    w = numpy.random.default_rng(5).normal(size=(6, 8)).astype(numpy.float32)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Relu", ["p"], ["q"]),
             helper.make_node("Relu", ["q"], ["y"])]
    graph = helper.make_graph(nodes, "small", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 6])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 8])],
                              [numpy_helper.from_array(w, "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "small.onnx")
    numpy.save(folder / "w.npy", w)


def pip(*arguments):
    subprocess.run([sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments], check=True)


def install(sources, build, project, site, python):
    """The package and what it declares, into the folder `site` of the environment with that `python`."""
    # A version that is here already is at hand in pip's cache.
    dependencies = [f"{name}=={numpy.__version__}" if name == "numpy" else name
                    for name in project["project"]["dependencies"]]
    try:
        pip("--python", python, "install", *dependencies)
    except subprocess.CalledProcessError:
        print("skipped: pip cannot install", *dependencies)
        sys.exit(77)
    if build.is_file():
        pip("--python", python, "install", "--no-deps", str(build))
        return
    if os.environ.get("REWRIGHT_FULL"):
        with tempfile.TemporaryDirectory() as folder:
            pip("wheel", "--no-deps", "--wheel-dir", folder, str(sources / "python"))
            pip("--python", python, "install", *map(str, pathlib.Path(folder).glob("rewright-*.whl")))
        return
    package = site / "rewright"
    for component in project["tool"]["scikit-build"]["install"]["components"]:
        subprocess.run(["cmake", "--install", str(build), "--prefix", str(package), "--component", component],
                       check=True, stdout=subprocess.DEVNULL)
    shutil.copytree(sources / "python" / "rewright", package, dirs_exist_ok=True)


def try_program(sources, programs, folder, environment):
    """The command of the wheel, and training from Python by it."""
    model = str(folder / "small.onnx")
    for command in (["--version"], ["optimize", model, "-o", str(folder / "fast.onnx"), "--cost", "analytic:zen3"],
                    ["equal", model, str(folder / "fast.onnx")]):
        subprocess.run([programs / "rewright", *command], env=environment, check=True, capture_output=True)
    train = f"""
import rewright
steps = []
last = rewright.train({str(sources / "tools/examples/digits/digits.json")!r}, on_step=steps.append, output="digits.onnx")
assert last["steps"] == len(steps) == 1320 and last["accuracy"] > 0.97, last
assert rewright.load("digits.onnx").outputs
try:
    rewright.train({{"epochs": 1}})
except rewright.Error as error:
    assert "model" in str(error), error
else:
    raise AssertionError("a configuration without a model is trained")
"""
    subprocess.run([programs / "python", "-I", "-c", train], env=environment, check=True, cwd=folder)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sources, build = (pathlib.Path(argument).resolve() for argument in sys.argv[1:])
    project = tomllib.loads((sources / "python" / "pyproject.toml").read_text())
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        write_model(folder)
        environment = folder / "environment"
        venv.create(environment, with_pip=False)
        python = environment / "bin" / "python"
        site = environment / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
        install(sources, build, project, site, str(python))
        check = str(sources / "tests" / "python" / "clean_environment.py")
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "REWRIGHT_"))}
        subprocess.run([str(python), "-I", check, scratch], env=clean, check=True)
        if build.is_file():
            try_program(sources, environment / "bin", folder, clean)
        # The package alone, beside what is installed here.
        beside = folder / "beside"
        beside.mkdir()
        for name in site.glob("rewright*"):
            (beside / name.name).symlink_to(name)
        modules = [name for name in ("torch", "onnx", "onnxruntime") if importlib.util.find_spec(name) is not None]
        orders = itertools.permutations([*modules, "rewright"]) if build.is_file() else [modules, ["rewright", *modules]]
        for order in orders:
            subprocess.run([sys.executable, check, scratch, *order], env={**clean, "PYTHONPATH": str(beside)}, check=True)


if __name__ == "__main__":
    main()
