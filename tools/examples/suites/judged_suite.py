"""A plugin of pytest for the tests of ONNX optimizers: each model that they make is proved equal to the one before.

    pip install rewright pytest onnxoptimizer
    git clone https://github.com/onnx/optimizer && cd optimizer
    PYTHONPATH=.../tools/examples/suites pytest -p judged_suite onnxoptimizer/test/optimizer_test.py

Nothing is edited: calls of the functions below return what they always do. A test fails where `rewright.equal` finds
different models; calls are counted by answer. onnx-simplifier's tests and OnnxSlim's are run alike:

    pytest -p judged_suite tests/test_python_api.py
    pytest -p judged_suite tests/test_fusion_patterns.py tests/test_elimination_patterns.py
"""
import collections
import functools
import importlib
import importlib.util

import onnx
import rewright
import rewright.testing

# The functions from a model, or its path, to a model, or to a tuple that begins with one.
OPTIMIZERS = {"onnxoptimizer": "optimize", "onnxsim": "simplify", "onnxslim": "slim"}
PASSES = ("proved", "equal up to constants", "open")
SECONDS = 30  # for each pair

answers = collections.Counter()


def judge(before, after):
    try:
        answers[rewright.testing.assert_equal(before, after, accept=PASSES, time_limit_seconds=SECONDS).answer] += 1
    except rewright.Error:  # an operator that is not read, or other inputs and outputs on purpose
        answers["refused"] += 1
    except AssertionError:
        answers["different"] += 1
        raise


def judged(optimizer):
    @functools.wraps(optimizer)
    def call(model, *arguments, **settings):
        before = onnx.ModelProto()
        before.CopyFrom(model if isinstance(model, onnx.ModelProto) else onnx.load(model))
        result = optimizer(model, *arguments, **settings)
        after = result[0] if isinstance(result, tuple) else result
        if isinstance(after, onnx.ModelProto):
            judge(before, after)
        return result
    return call


def pytest_configure():
    for module, name in OPTIMIZERS.items():
        if importlib.util.find_spec(module):
            module = importlib.import_module(module)
            setattr(module, name, judged(getattr(module, name)))


def pytest_terminal_summary(terminalreporter):
    terminalreporter.write_line("rewright: " + (", ".join(f"{count} {answer}" for answer, count in answers.most_common())
                                                or "no optimizer was called"))
