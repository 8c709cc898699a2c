"""The stub of the Python package has what the module has: names, arguments with their defaults, settings, results."""

import ast
import inspect
import pathlib
import unittest

import rewright
from rewright import _rewright

STUB = ast.parse(pathlib.Path(rewright.__file__).with_suffix(".pyi").read_text())
CLASSES = {node.name: node for node in STUB.body if isinstance(node, ast.ClassDef)}
FUNCTIONS = {node.name: node for node in STUB.body if isinstance(node, ast.FunctionDef)}
# Functions of the module, and what their settings are set on.
SETTINGS = {"OptimizeSettings": _rewright.OptimizeSettings, "ModelOptions": _rewright.ModelOptions,
            "EqualSettings": _rewright.EqualSettings}


def public(names):
    return {name for name in names if not name.startswith("_")}


def members(node):
    fields = [one.target.id for one in node.body if isinstance(one, ast.AnnAssign)]
    return public([*fields, *(one.name for one in node.body if isinstance(one, ast.FunctionDef))])


def stub_arguments(function):
    """Names in order, "*" and "/" among them, and the text of defaults."""
    text = ast.unparse(ast.FunctionDef(name="f", args=function.args, body=[ast.Pass()], decorator_list=[], lineno=0))
    scope = {}
    exec("from __future__ import annotations\n" + text, scope)
    return arguments(scope["f"])


def arguments(function):
    return [(one.name, one.kind, one.default) for one in inspect.signature(function).parameters.values()]


class StubTest(unittest.TestCase):
    def test_names(self):
        settings = {*SETTINGS, "OptimizeProgress"}  # of dicts, which the module has no class for
        self.assertEqual(public([*CLASSES, *FUNCTIONS]) - settings, set(rewright.__all__))

    def test_arguments(self):
        for name, function in FUNCTIONS.items():
            self.assertEqual(stub_arguments(function), arguments(getattr(rewright, name)), name)
        for method in CLASSES["Model"].body:
            if isinstance(method, ast.FunctionDef) and not method.decorator_list:
                self.assertEqual(stub_arguments(method), arguments(getattr(rewright.Model, method.name)), method.name)

    def test_settings(self):
        for name, kind in SETTINGS.items():
            self.assertEqual(members(CLASSES[name]), public(dir(kind)), name)

    def test_results(self):
        for name in ("OptimizeSummary", "RuleJudgement", "EqualJudgement"):
            self.assertEqual(members(CLASSES[name]), public(dir(getattr(rewright, name))), name)
        self.assertEqual(members(CLASSES["Model"]) - {"summary"}, public(dir(rewright.Model)))

    def test_documented_settings(self):
        """Docstrings name every setting of their function."""
        for function, kind in ((rewright.Model.optimize, "OptimizeSettings"), (rewright.load, "ModelOptions"),
                               (rewright.equal, "EqualSettings")):
            missing = [name for name in members(CLASSES[kind]) if name not in function.__doc__]
            self.assertEqual(missing, [], function.__qualname__)


if __name__ == "__main__":
    unittest.main()
