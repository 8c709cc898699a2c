"""The Python package against onnxruntime, on small models with a symbolic size."""

import functools
import gc
import itertools
import math
import os
import signal
import sys
import tempfile
import threading
import unittest
import unittest.mock

import ml_dtypes
import numpy
import onnx
import onnxruntime  # in one process with the package, each with a protobuf of its own
from onnx import TensorProto, helper, numpy_helper

import rewright


def small_model():
    """y = relu((x w) + b) reshaped; z = a constant; of x: f32[n, 6]."""
    rng = numpy.random.default_rng(5)
    weights = [
        numpy_helper.from_array(rng.normal(size=(6, 8)).astype(numpy.float32), "w"),
        numpy_helper.from_array(rng.normal(size=8).astype(numpy.float32), "b"),
        numpy_helper.from_array(numpy.arange(3, dtype=numpy.float32), "c"),
    ]
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("Transpose", ["p"], ["q"], perm=[1, 0]),
        helper.make_node("Transpose", ["q"], ["r"], perm=[1, 0]),
        helper.make_node("Add", ["r", "b"], ["s"]),
        helper.make_node("Relu", ["s"], ["t"]),
        helper.make_node("Relu", ["t"], ["y"]),
        helper.make_node("Identity", ["c"], ["z"]),
    ]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 6])],
        [
            helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 8]),
            helper.make_tensor_value_info("z", TensorProto.FLOAT, [3]),
        ],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def opaque_model():
    """y = inverse(relu(relu(x))), by an operator that only onnxruntime knows; of x: f32[n, n]."""
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Inverse", ["b"], ["y"], name="inv", domain="com.microsoft"),
    ]
    graph = helper.make_graph(
        nodes,
        "opaque",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", "n"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", "n"])],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def input_of(rows, seed=1):
    return numpy.random.default_rng(seed).normal(size=(rows, 6)).astype(numpy.float32)


class ModuleTest(unittest.TestCase):
    def setUp(self):
        self.proto = small_model()
        self.session = onnxruntime.InferenceSession(self.proto.SerializeToString())
        self.settings = {"cost": "analytic:zen3"}

    def expect_equal(self, model, rows):
        x = input_of(rows, seed=rows)
        y, z = self.session.run(None, {"x": x})
        found = model.run(x=x)
        self.assertEqual(list(found), ["y", "z"])
        numpy.testing.assert_allclose(found["y"], y, rtol=1e-5, atol=1e-5)
        numpy.testing.assert_array_equal(found["z"], z)

    def test_models_come_as_paths_bytes_and_protos(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "small.onnx")
            onnx.save(self.proto, path)
            for model in (path, self.proto.SerializeToString(), self.proto):
                self.expect_equal(rewright.load(model, dims={"n": 2}), 2)

    def test_optimizes_once_and_runs_at_any_size(self):
        model = rewright.optimize(self.proto, dims={"n": 4}, rules=["core.rules"], **self.settings)
        self.assertTrue(model.summary.rewritten, model.summary)
        self.assertGreater(len(model.summary.rewrites), 0)
        self.assertEqual(model.inputs, [("x", "float32", ("n", 6))])
        self.assertEqual(model.outputs, [("y", "float32", (4, 8)), ("z", "float32", (3,))])
        for rows in (1, 4, 7):
            self.expect_equal(model, rows)

    def test_saves_what_onnxruntime_reads(self):
        model = rewright.optimize(self.proto, dims={"n": 4}, settings=self.settings)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "out.onnx")
            model.save(path)
            x = input_of(4)
            y, _ = onnxruntime.InferenceSession(path).run(None, {"x": x})
            numpy.testing.assert_allclose(model.run(x=x)["y"], y, rtol=1e-5, atol=1e-5)

    def test_takes_nodes_that_only_onnxruntime_knows(self):
        proto = opaque_model()
        session = onnxruntime.InferenceSession(proto.SerializeToString())
        model = rewright.optimize(proto, dims={"n": 4}, settings=self.settings)
        self.assertTrue(model.summary.rewritten, model.summary)
        self.assertTrue(model.summary.checked)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "out.onnx")
            model.save(path)
            saved = rewright.load(path, dims={"n": 4})
            for rows in (1, 4, 7):
                x = input_of(rows * 6, seed=rows).reshape(-1)[: rows * rows].reshape(rows, rows)
                x += 4 * numpy.eye(rows, dtype=numpy.float32)
                (expected,) = session.run(None, {"x": x})
                for other in (model, saved):
                    numpy.testing.assert_allclose(other.run(x=x)["y"], expected, rtol=1e-4, atol=1e-5)
        os.environ["REWRIGHT_ONNXRUNTIME"] = "/nowhere/libonnxruntime.so"
        try:
            with self.assertRaisesRegex(rewright.Error, r'node "inv" \(com.microsoft.Inverse\): not known here'):
                rewright.load(proto, dims={"n": 2}).run(x=numpy.eye(2, dtype=numpy.float32))
        finally:
            del os.environ["REWRIGHT_ONNXRUNTIME"]

    def test_outputs_belong_to_the_caller(self):
        model = rewright.load(self.proto, dims={"n": 3})
        x = input_of(3)
        first = model.run(x=x)
        kept = {name: array.copy() for name, array in first.items()}
        for array in first.values():
            array.fill(7)  # a constant of the model is not written to
        second = model.run(x=x)
        del model
        gc.collect()
        for name, array in second.items():
            numpy.testing.assert_array_equal(array, kept[name])

    def test_takes_arrays_of_any_order_and_lists(self):
        model = rewright.load(self.proto, dims={"n": 3})
        x = input_of(3)
        wide = numpy.zeros((6, 9), numpy.float32)
        wide[:, ::3] = x.T
        for other in (numpy.asfortranarray(x), wide.T[::3], x):
            numpy.testing.assert_array_equal(model.run({"x": other})["y"], model.run(x=x)["y"])

    def test_takes_what_has_dlpack(self):
        class Foreign:
            """An array of another library: DLPack is all that it has."""

            def __init__(self, array):
                self.array = array

            def __dlpack__(self, **options):
                return self.array.__dlpack__(**options)

            def __dlpack_device__(self):
                return self.array.__dlpack_device__()

        model = rewright.load(self.proto, dims={"n": 4})
        x = input_of(4)
        numpy.testing.assert_array_equal(model.run(x=Foreign(x))["y"], model.run(x=x)["y"])

    def test_bfloat16_comes_and_goes_as_numpy_arrays(self):
        nodes = [helper.make_node("Add", ["x", "x"], ["y"]), helper.make_node("ReduceSum", ["x"], ["z"], keepdims=0)]
        graph = helper.make_graph(
            nodes,
            "narrow",
            [helper.make_tensor_value_info("x", TensorProto.BFLOAT16, [2, 3])],
            [
                helper.make_tensor_value_info("y", TensorProto.BFLOAT16, [2, 3]),
                helper.make_tensor_value_info("z", TensorProto.BFLOAT16, []),
            ],
        )
        opsets = [helper.make_opsetid("", 17)]
        model = rewright.load(helper.make_model(graph, opset_imports=opsets, ir_version=8))
        x = numpy.array([[1, -2, 0.5], [3, 0, 256]], ml_dtypes.bfloat16)
        found = model.run(x=x)
        self.assertEqual([found[name].dtype for name in "yz"], [x.dtype, x.dtype])
        numpy.testing.assert_array_equal(found["y"], x + x)
        self.assertEqual(found["z"].shape, ())
        self.assertEqual(float(found["z"]), 258)
        numpy.testing.assert_array_equal(model.run(x=numpy.asfortranarray(x))["y"], x + x)
        with unittest.mock.patch.dict(sys.modules, {"ml_dtypes": None}):  # not installed
            found = model.run(x=x)
        self.assertEqual([found[name].dtype for name in "yz"], [numpy.float32, numpy.float32])
        numpy.testing.assert_array_equal(found["y"], (x + x).astype(numpy.float32))
        self.assertEqual(found["z"].shape, ())

    def test_ctrl_c_ends_long_calls(self):
        chain = ["x"]
        nodes = []
        for number in range(400):
            nodes.append(helper.make_node("MatMul", [chain[-1], "w"], [f"p{number}"]))
            nodes.append(helper.make_node("Relu", [f"p{number}"], [f"q{number}"]))
            chain.append(f"q{number}")
        graph = helper.make_graph(
            nodes,
            "long",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [64, 64])],
            [helper.make_tensor_value_info(chain[-1], TensorProto.FLOAT, [64, 64])],
            [numpy_helper.from_array(0.1 * numpy.eye(64, dtype=numpy.float32), "w")],
        )
        model = rewright.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))
        x = numpy.ones((64, 64), numpy.float32)
        before = model.run(x=x)
        rules = "".join(
            f"rule r{number}\n  add(add(x[a..], y[a..]), z[a..]) => add(x, add(y, z))\n" for number in range(2000))
        for call in (model.optimize, lambda: rewright.verify(rules)):
            timer = threading.Timer(0.2, signal.raise_signal, [signal.SIGINT])
            timer.start()
            with self.assertRaises(KeyboardInterrupt):
                call()
            timer.join()
        self.assertIsNone(model.summary)
        for name, array in model.run(x=x).items():
            numpy.testing.assert_array_equal(array, before[name])

    def test_ctrl_c_ends_a_run_before_its_end(self):
        nodes = [helper.make_node("MatMul", [f"p{k}" if k else "x", "w"], [f"p{k + 1}"]) for k in range(200)]
        graph = helper.make_graph(
            nodes,
            "wide",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1 << 16, 128])],
            [helper.make_tensor_value_info("p200", TensorProto.FLOAT, [1 << 16, 128])],
            [numpy_helper.from_array(numpy.eye(128, dtype=numpy.float32), "w")],
        )
        proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        handle = rewright.load(proto, threads=1)._handle
        inputs = {"x": numpy.ones((1 << 16, 128), numpy.float32)}
        ended = []
        timer = threading.Timer(0.2, signal.raise_signal, [signal.SIGINT])
        timer.start()
        with self.assertRaises(KeyboardInterrupt):
            # No instruction of Python between the runs, where it would look for signals itself.
            ended.extend(map(handle.run, itertools.repeat(inputs, 4), itertools.repeat([])))
        timer.join()
        self.assertLess(len(ended), 4)

    def test_tells_its_progress(self):
        told = []
        model = rewright.optimize(self.proto, settings={"cost": "analytic:zen3"}, progress=told.append)
        self.assertTrue(model.summary.rewritten)
        self.assertIn("searching", told[0]["phase"])
        self.assertGreater(max(one["seconds_before"] for one in told), 0)
        for one in told:
            self.assertLessEqual(one["seconds_best"], one["seconds_before"])
            self.assertIsInstance(one["graphs"], int)

    def test_what_progress_raises_ends_the_search(self):
        def stop(_):
            raise KeyError("enough")

        model = rewright.load(self.proto)
        with self.assertRaisesRegex(KeyError, "enough"):
            model.optimize(cost="analytic:zen3", progress=stop)
        self.assertIsNone(model.summary)
        self.assertTrue(model.optimize(cost="analytic:zen3").rewritten)

    def test_errors_name_what_was_found_and_expected(self):
        model = rewright.load(self.proto, dims={"n": 2})
        for inputs, words in [
            ({}, "input x is not given"),
            ({"x": numpy.zeros((2, 5), numpy.float32)}, "axis 1: found size 5, expected 6"),
            ({"x": numpy.zeros((2, 6), numpy.complex64)}, "input x: its elements are of none of float32"),
            ({"x": numpy.zeros((2, 6), numpy.float16)}, "found f16[2,6]"),
            ({"x": numpy.zeros((2, 6))}, "found f64[2,6]"),
            ({"x": object()}, "input x: found"),
            ({"x": input_of(2), "u": input_of(2)}, "u"),
        ]:
            with self.assertRaisesRegex(rewright.Error, words.replace("[", r"\[")):
                model.run(inputs)
        with self.assertRaisesRegex(TypeError, "inputs: found ndarray, expected a dict of arrays by name"):
            model.run(input_of(2))
        with self.assertRaisesRegex(TypeError, "no option 'dim'; there are cached_sizes"):
            rewright.load(self.proto, dim={"n": 2})
        with self.assertRaisesRegex(TypeError, "setting 'rtol': found 'much', expected a value of type float"):
            model.optimize(rtol="much")
        with self.assertRaisesRegex(rewright.Error, "search: found fast"):
            model.optimize(search="fast")
        with self.assertRaisesRegex(rewright.Error, "not an ONNX model"):
            rewright.load(b"nothing")
        with self.assertRaises(rewright.Error):
            rewright.load("/nowhere/model.onnx")
        self.expect_equal(model, 2)

    def test_numbers_out_of_range_are_refused(self):
        nan, inf = math.nan, math.inf
        model = rewright.load(self.proto, dims={"n": 2})
        optimize = functools.partial(model.optimize, **self.settings)
        load = functools.partial(rewright.load, self.proto)
        equal = functools.partial(rewright.equal, self.proto, self.proto)
        verify = functools.partial(rewright.verify, "rule r\n  relu(relu(x[a..])) => relu(x)")
        for call, numbers in [
            (optimize, {"alpha": [nan, inf, 0.5], "budget": [-1], "egraph_nodes": [-1], "growth": [nan, -1.0],
                        "time_limit_seconds": [nan, inf, -1.0], "memory_limit_bytes": [-1], "tolerance": [nan, inf, -1.0, 2.0],
                        "rtol": [nan, inf, -1.0], "atol": [nan, inf], "proof_limit_seconds": [nan, inf, -1.0]}),
            (load, {"threads": [-1, 5000], "cached_sizes": [0, -1]}),
            (equal, {"time_limit_seconds": [nan, inf, 0.0, -1.0], "threads": [-1]}),
            (verify, {"time_limit_seconds": [nan, inf, 0.0, -1.0]}),
        ]:
            for name, values in numbers.items():
                for value in values:
                    found = f"{value:g}"
                    with self.assertRaisesRegex(ValueError, f"^{name}: found {found}, expected a number "):
                        call(**{name: value})
        for low, high in ((nan, 1.0), (2.0, 1.0)):
            with self.assertRaisesRegex(ValueError, "ranges of x: found .*expected the least number and the greatest"):
                optimize(ranges={"x": (low, high)})
        self.assertIsNone(model.summary)
        optimize(growth=inf, atol=-1.0, time_limit_seconds=0.0)

    def test_a_thousand_runs_from_four_threads_leave_nothing_behind(self):
        model = rewright.load(self.proto, dims={"n": 64}, threads=1)
        x = input_of(64)
        expected = model.run(x=x)["y"]
        wrong = []

        def work(runs):
            for _ in range(runs):
                if not numpy.array_equal(model.run(x=x)["y"], expected):
                    wrong.append(1)

        def resident():
            gc.collect()
            with open("/proc/self/statm") as file:
                return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

        def all_threads(runs):
            threads = [threading.Thread(target=work, args=(runs,)) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

        all_threads(25)
        before = resident()
        all_threads(250)
        self.assertEqual(wrong, [])
        # An output is 2 KiB: were they kept, 2 MiB would be.
        self.assertLess(resident() - before, 1 << 20)

    def test_judges_rules(self):
        judged = rewright.verify(
            "rule twice\n  relu(relu(x[a..])) => relu(x)\n"
            "rule wrong\n  relu(add(x[n], y[n])) => add(relu(x), relu(y))\n"
            "rule strange\n  frob(x[n]) => x\n"
        )
        self.assertEqual([(rule.name, rule.verdict) for rule in judged],
                         [("twice", "proved"), ("wrong", "refuted"), ("strange", "error")])
        self.assertEqual(judged[0].rule_class, "exact")
        self.assertIn("elements differ", judged[1].explanation)
        self.assertIn("found `frob`", judged[2].explanation)
        with self.assertRaisesRegex(rewright.Error, "expected `rule`"):
            rewright.verify("nothing")

    def test_stubs_name_what_there_is(self):
        with open(os.path.join(os.path.dirname(rewright.__file__), "__init__.pyi")) as file:
            stubs = file.read()
        for name in rewright.__all__:
            self.assertRegex(stubs, rf"(class|def) {name}\b")


try:
    import torch
except ImportError:
    torch = None


@unittest.skipIf(torch is None, "PyTorch is not installed")
class TorchBackendTest(unittest.TestCase):
    def compiled(self, module):
        from rewright import torch_backend

        torch.compiler.reset()
        options = {"settings": {"cost": "analytic:zen3"}}
        return torch.compile(module, backend=torch_backend.compile_graph, options=options)

    def test_equals_eager(self):
        torch.manual_seed(1)
        module = torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(288, 5)
        ).eval()
        x = torch.randn(2, 3, 8, 8)
        with torch.no_grad(), self.assertNoLogs("rewright"):
            torch.testing.assert_close(self.compiled(module)(x), module(x))

    def test_training_stays_with_pytorch(self):
        module = torch.nn.Linear(3, 2)
        with self.assertLogs("rewright", "INFO") as logs:
            self.compiled(module)(torch.randn(4, 3)).sum().backward()
        self.assertIn("gradients are asked for", logs.output[0])
        self.assertIsNotNone(module.weight.grad)

    def test_a_changed_input_stays_with_pytorch(self):
        def change(x):
            x.add_(1)
            return x * 2

        with torch.no_grad(), self.assertLogs("rewright", "INFO") as logs:
            x = torch.zeros(3)
            torch.testing.assert_close(self.compiled(change)(x), torch.full((3,), 2.0))
            torch.testing.assert_close(x, torch.ones(3))
        self.assertIn("changes its inputs", logs.output[0])

    def test_a_view_of_an_input_stays_with_pytorch(self):
        def turn(x):
            return x.t(), x * 2

        with torch.no_grad(), self.assertLogs("rewright", "INFO") as logs:
            x = torch.zeros(2, 3)
            turned, _ = self.compiled(turn)(x)
            x.fill_(5)
            torch.testing.assert_close(turned, torch.full((3, 2), 5.0))
        self.assertIn("a view of an input", logs.output[0])


if __name__ == "__main__":
    unittest.main()
