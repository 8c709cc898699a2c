"""Functions of the package that run the program."""

import os
import tempfile
import unittest

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

import rewright


def model(*relus):
    """y = relu(..relu(x)) w; of x: f32[n, 3]."""
    nodes = [helper.make_node("Relu", [a], [b]) for a, b in zip(("x", *relus), relus)]
    nodes.append(helper.make_node("MatMul", [relus[-1], "w"], ["y"]))
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 2])],
        [numpy_helper.from_array(numpy.arange(6, dtype=numpy.float32).reshape(3, 2), "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


class ProgramTest(unittest.TestCase):
    def test_inspect(self):
        found = rewright.inspect(model("a", "b"), dims={"n": 4})
        self.assertEqual(found["onnx_operators"], {"Relu": 2, "MatMul": 1})
        self.assertEqual(found["inputs"][0]["shape"], [4, 3])
        self.assertEqual(found["parameters"], 6)

    def test_diff(self):
        once, twice = model("a"), model("a", "b")
        found = rewright.diff(once.SerializeToString(), twice, prove=True)
        self.assertTrue(found["equal"])
        self.assertFalse(found["same_structure"])
        self.assertEqual(found["proof"]["answer"], "proved")
        twice.graph.initializer[0].raw_data = numpy.ones((3, 2), numpy.float32).tobytes()
        self.assertFalse(rewright.diff(once, twice, dims={"n": 20})["equal"])

    def test_explain(self):
        answers = rewright.explain(model("a", "b"), rule="relu-of-relu", cost="analytic:zen3")
        self.assertIn("relu-of-relu", str(answers))
        self.assertNotEqual(answers, rewright.explain(model("a"), rule="relu-of-relu", cost="analytic:zen3"))

    def test_report(self):
        with tempfile.TemporaryDirectory() as folder:
            page, fast, slow = (os.path.join(folder, name) for name in ("page.html", "fast.onnx", "slow.onnx"))
            onnx.save(model("a", "b"), slow)
            found = rewright.report(slow, page, output=fast, cost="analytic:zen3")
            self.assertTrue(found["rewritten"])
            self.assertEqual(len(onnx.load(fast).graph.node), 2)
            with open(page, encoding="utf-8") as file:
                self.assertIn("<html", file.read())

    def test_errors_are_those_of_the_program(self):
        with self.assertRaisesRegex(rewright.Error, "nothing.onnx"):
            rewright.inspect("nothing.onnx")
        with self.assertRaisesRegex(rewright.Error, "--growht"):
            rewright.diff(model("a"), model("a"), growht=1)


if __name__ == "__main__":
    unittest.main()
