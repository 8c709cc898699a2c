"""Proofs that two models are equal, from Python: the judgement and the assertion for tests."""

import os
import tempfile
import unittest

import onnx
from onnx import TensorProto, helper

import rewright
import rewright.testing


def model(*nodes, shape=("n", 4), opset=17):
    graph = helper.make_graph(
        [helper.make_node(op, inputs, outputs, **attributes) for op, inputs, outputs, attributes in nodes],
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, list(shape))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, list(shape))],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


RELU_TWICE = model(("Relu", ["x"], ["a"], {}), ("Relu", ["a"], ["y"], {}))
RELU = model(("Relu", ["x"], ["y"], {}))
SOFTMAX = [model(("Softmax", ["x"], ["y"], {"axis": axis}), shape=(3, 4)) for axis in (0, 1)]


class EqualTest(unittest.TestCase):
    def test_equal_models_are_proved(self):
        judgement = rewright.equal(RELU_TWICE, RELU.SerializeToString(), dims={"n": 3}, threads=1)
        self.assertEqual(judgement.answer, "proved")
        self.assertEqual(judgement.open, [])
        self.assertIn("regions", judgement.summary)

    def test_models_that_are_equal_at_one_row_alone_differ(self):
        largest = model(("ReduceMax", ["x"], ["a"], {"axes": [0], "keepdims": 1}), ("Max", ["x", "a"], ["b"], {}),
                        ("Relu", ["b"], ["y"], {}))
        judgement = rewright.equal(RELU, largest, threads=1)
        self.assertEqual((judgement.answer, judgement.dims), ("different", {"n": 3}))
        judgement = rewright.equal(RELU, largest, dims={"n": 1}, threads=1)
        self.assertEqual((judgement.answer, judgement.dims), ("proved", {"n": 1}))
        self.assertIn("proved, at n=1\n", judgement.summary)

    def test_a_size_that_one_model_fixes_is_that_of_both(self):
        fixed = model(("Relu", ["x"], ["y"], {}), shape=(1, 4))
        judgement = rewright.equal(RELU, fixed, threads=1)
        self.assertEqual((judgement.answer, judgement.dims), ("proved", {"n": 1}))

    def test_a_difference_has_its_place(self):
        judgement = rewright.equal(*SOFTMAX, threads=1)
        self.assertEqual(judgement.answer, "different")
        self.assertEqual(judgement.output, "y")
        self.assertEqual(len(judgement.at), 2)
        self.assertGreater(abs(judgement.a - judgement.b), judgement.tolerance)
        self.assertIn("softmax", judgement.first)

    def test_files_are_read(self):
        with tempfile.TemporaryDirectory() as folder:
            paths = [os.path.join(folder, name) for name in ("a.onnx", "b.onnx")]
            for path, one in zip(paths, (RELU, RELU_TWICE)):
                onnx.save(one, path)
            self.assertEqual(rewright.equal(*paths, threads=1).answer, "proved")

    def test_names_are_matched_by_the_user(self):
        other = onnx.ModelProto.FromString(RELU.SerializeToString())
        other.graph.node[0].input[0] = other.graph.input[0].name = "image"
        self.assertEqual(rewright.equal(RELU_TWICE, other, map={"x": "image"}, threads=1).answer, "proved")
        with self.assertRaisesRegex(rewright.Error, "found no input or output picture, expected one of image, y"):
            rewright.equal(RELU_TWICE, other, map={"x": "picture"})

    def test_rules_are_files_or_names_of_those_that_come_along(self):
        self.assertEqual(rewright.equal(RELU, RELU_TWICE, rules=["core", "laws.rules"], threads=1).answer, "proved")
        with self.assertRaisesRegex(rewright.Error, "none.rules: No such file"):
            rewright.equal(RELU, RELU_TWICE, rules=["none.rules"])

    def test_models_that_cannot_be_compared_are_an_error(self):
        other = model(("Relu", ["x"], ["y"], {}), shape=("n", 5))
        with self.assertRaisesRegex(rewright.Error, "input x"):
            rewright.equal(RELU, other)
        with self.assertRaisesRegex(rewright.Error, "no symbolic dimension rows"):
            rewright.equal(RELU, RELU, dims={"rows": 2})
        with self.assertRaisesRegex(TypeError, "there is no setting 'time'"):
            rewright.equal(RELU, RELU, time=3)

    def test_assertion(self):
        self.assertEqual(rewright.testing.assert_equal(RELU, RELU_TWICE, threads=1).answer, "proved")
        with self.assertRaisesRegex(AssertionError, r"not proved equal: different\noutput: y at \["):
            rewright.testing.assert_equal(*SOFTMAX, threads=1)
        with self.assertRaisesRegex(AssertionError, "different"):
            rewright.testing.assert_equal(*SOFTMAX, threads=1, accept=("proved", "open", "equal up to constants"))
        with self.assertRaisesRegex(ValueError, "accept"):
            rewright.testing.assert_equal(RELU, RELU, accept=("different",))


if __name__ == "__main__":
    unittest.main()
