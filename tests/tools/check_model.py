#!/usr/bin/env python3
"""Tests optimize --proof and tools/check_model.py: what is accepted, what is refused, and what is told about bad input.

    tests/tools/check_model.py REWRIGHT
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

try:
    import numpy as np
    import onnx
    from onnx import helper, numpy_helper
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import check_model  # noqa: E402

PROGRAM = ""
FLOAT = onnx.TensorProto.FLOAT
RECORD = "proved exact max_rank=6 max_perm_rank=4 max_broadcast_rank=4 instances=1 prover=\"0\" spec=\"17\""


def model(nodes, inputs, outputs, weights=(), opset=17):
    infos = [[helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in side.items()]
             for side in (inputs, outputs)]
    graph = helper.make_graph(nodes, "graph", *infos, [numpy_helper.from_array(w, name) for name, w in weights])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def normed(size=64):
    """A convolution and a batch norm."""
    rng = np.random.default_rng(1)
    draw = lambda *shape: rng.uniform(0.5, 1.5, shape).astype(np.float32)  # noqa: E731
    return model([helper.make_node("Conv", ["x", "k"], ["c"], name="conv"),
                  helper.make_node("BatchNormalization", ["c", "g", "b", "m", "v"], ["n"], name="norm"),
                  helper.make_node("Relu", ["n"], ["y"], name="relu")],
                 {"x": [1, 3, size, size]}, {"y": [1, 8, size - 2 if isinstance(size, int) else None] + [
                     size - 2 if isinstance(size, int) else None]},
                 [("k", draw(8, 3, 3, 3)), *((name, draw(8)) for name in "gbmv")])


def judged(a, lines, law="", b=None):
    """Why the check refuses; None: it accepts. `law` is the text of the rule `r`, proved."""
    laws = {"r": (f"\n  {law}\n  {RECORD}", "laws")}
    return check_model.judge(a, b or a, [{"proof": 1, "sizes": {}}, *lines], laws)[1]


def step(**members):
    empty = {"variables": {}, "constants": [], "sizes": {}, "packs": {}, "attributes": {}, "matched": [],
             "replaced": []}
    return [{"law": "r", "record": "17"}, {"step": "r", **empty, **members}]


class Optimized(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.a, self.b, self.proof = (os.path.join(self.folder.name, name) for name in ("a.onnx", "b.onnx", "p.jsonl"))
        onnx.save(normed(), self.a)

    def tearDown(self):
        self.folder.cleanup()

    def optimize(self, *flags):
        return subprocess.run([PROGRAM, "optimize", self.a, "-o", self.b, "--proof", self.proof, "--cost",
                               "analytic:zen3", *flags], capture_output=True, text=True, check=False)

    def check(self, *flags):
        done = subprocess.run([sys.executable, str(ROOT / "tools/check_model.py"), self.a, self.b, self.proof, *flags],
                              capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    def test_a_folded_norm_is_accepted(self):
        self.assertEqual(self.optimize().returncode, 0)
        self.assertEqual([node.op_type for node in onnx.load(self.b).graph.node], ["Conv", "Relu"])
        status, text = self.check()
        self.assertEqual(status, 0, text)
        self.assertNotIn(" 0 steps", text)

    def test_a_weight_that_is_moved_is_refused_with_its_place(self):
        self.optimize()
        result = onnx.load(self.b)
        weight = max(result.graph.initializer, key=lambda t: len(t.dims))
        array = numpy_helper.to_array(weight).copy()
        array[0, 1, 2, 0] *= 1.001
        weight.CopyFrom(numpy_helper.from_array(array, weight.name))
        onnx.save(result, self.b)
        status, text = self.check()
        self.assertEqual(status, 1)
        self.assertIn("[0, 1, 2, 0]: found", text)

    def test_rounding_otherwise_is_accepted(self):
        self.optimize()
        result = onnx.load(self.b)
        for weight in result.graph.initializer:
            array = numpy_helper.to_array(weight)
            if array.dtype == np.float32:
                weight.CopyFrom(numpy_helper.from_array(np.nextafter(array, np.float32(9)), weight.name))
        onnx.save(result, self.b)
        self.assertEqual(self.check()[0], 0)

    def test_names_of_sizes_are_numbers_in_a_proof(self):
        onnx.save(normed("side"), self.a)
        self.assertEqual(self.optimize("--dim", "side=64").returncode, 0)
        status, text = self.check()
        self.assertEqual(status, 0, text)
        self.assertIn("at side = 64", text)
        self.assertNotIn(" 0 steps", text)

    def test_a_proof_does_not_replace_the_model(self):
        self.proof = self.a
        done = self.optimize()
        self.assertEqual(done.returncode, 2)
        self.assertIn("is read here, and would be lost", done.stderr)
        self.assertFalse(os.path.exists(self.b))

    def test_bad_files(self):
        self.optimize()
        lines = pathlib.Path(self.proof).read_text().splitlines()
        for text, told in (("", "expected the head of a proof"), ("{", "p.jsonl:1: found '{'"),
                           ("\n".join([lines[0], "]"]), "p.jsonl:2: found ']'"),
                           ('{"proof": 7}', "expected the head of a proof")):
            pathlib.Path(self.proof).write_text(text)
            status, said = self.check()
            self.assertEqual(status, 2, said)
            self.assertIn(told, said)
        pathlib.Path(self.proof).unlink()
        self.assertEqual(self.check()[0], 2)
        pathlib.Path(self.proof).write_text("\n".join(lines))
        self.assertIn("expected a file of rules", self.check("--laws", self.proof)[1])
        self.assertIn("expected one of the list of proved laws",
                      self.check("--laws", str(ROOT / "substitutions/rules/laws.rules"))[1])
        self.assertEqual(self.check("--certificates", self.folder.name)[0], 2)
        pathlib.Path(self.b).write_bytes(b"no model")
        status, text = self.check()
        self.assertEqual(status, 2)
        self.assertIn("b.onnx", text)


class Refusals(unittest.TestCase):
    """Laws that are applied where their proof says nothing."""

    def test_an_axis_that_has_size_one_by_chance_does_not_stretch(self):
        for shape, refused in (([2, 3], False), ([1, 3], True), ([3], True)):
            a = model([helper.make_node("Add", ["x", "y"], ["z"])], {"x": [2, 3], "y": shape}, {"z": [2, 3]})
            lines = [{"value": i, "tensor": name} for i, name in enumerate("xyz")]
            why = judged(a, lines + step(variables={"x": 0, "y": 1}, matched=[2], replaced=[[2, 2]]),
                         "add(x, y) => add(y, x)")
            self.assertEqual("stretched" in str(why), refused, why)

    def softmax(self, given, **more):
        a = model([helper.make_node("Softmax", ["x"], ["y"], axis=-1)], {"x": [2, 3]}, {"y": [2, 3]})
        lines = [{"value": 0, "tensor": "x"}, {"value": 1, "tensor": "y"}]
        return judged(a, lines + step(variables={"x": 0}, attributes={"a": given, **more}, packs={"shape(x)": [2, 3]},
                                      matched=[1], replaced=[[1, 1]]), "softmax(x, axis=?a) => softmax(x, axis=?a)")

    def test_axes_count_from_the_front(self):
        self.assertIsNone(self.softmax(1))
        self.assertIn("axes from the front", self.softmax(-1))

    def test_axes_of_a_bundle_count_from_the_front(self):
        for axis, refused in ((1, False), (-1, True)):
            a = model([helper.make_node("Softmax", ["x"], ["y"], axis=-1)], {"x": [2, 3]}, {"y": [2, 3]})
            lines = [{"value": 0, "tensor": "x"}, {"value": 1, "tensor": "y"}]
            why = judged(a, lines + step(variables={"x": 0}, attributes={"c.axis": axis}, matched=[1],
                                         replaced=[[1, 1]]), "softmax(x, attrs=?c) => softmax(x, attrs=?c)")
            self.assertEqual("axes from the front" in str(why), refused, why)

    def test_a_name_that_the_law_does_not_read_is_refused(self):
        self.assertIn("does not read", self.softmax(1, b=3))

    def test_conditions_and_types(self):
        a = model([helper.make_node("Relu", ["x"], ["y"])], {"x": [4]}, {"y": [4]})
        lines = [{"value": 0, "tensor": "x"}, {"value": 1, "tensor": "y"}]
        bound = {"variables": {"x": 0}, "sizes": {"n": 4}, "matched": [1], "replaced": [[1, 0]]}
        self.assertIn("conditions", judged(a, lines + step(**bound), "relu(x[n]) => x when n == 3"))
        self.assertIn("conditions", judged(a, lines + step(**bound), "relu(x[n]) => x when weight(x)"))
        self.assertIn("expected f64", judged(a, lines + step(**bound), "relu(x: f64[n]) => x"))
        self.assertIsNone(judged(a, lines + step(**bound), "relu(x[n]) => x when n == 4"))
        bound["sizes"] = {"n": 5}
        self.assertIn("expected shape (5,)", judged(a, lines + step(**bound), "relu(x[n]) => x"))

    def test_draws_are_not_one_function(self):
        nodes = [helper.make_node("Dropout", ["x", "", "t"], [name]) for name in ("p", "q")]
        weights = [("t", np.array(True))]
        a, b = (model([*nodes, helper.make_node("Add", ["p", other], ["y"])], {"x": [4]}, {"y": [4]}, weights)
                for other in "qp")
        self.assertIsNotNone(judged(a, [], b=b))

    def test_other_models(self):
        relu, tanh = (model([helper.make_node(op, ["x"], ["y"])], {"x": [4]}, {"y": [4]}) for op in ("Relu", "Tanh"))
        wide = model([helper.make_node("Relu", ["x"], ["y"])], {"x": [5]}, {"y": [5]})
        self.assertIsNone(judged(relu, [], b=relu))
        self.assertIn("(Tanh)", judged(relu, [], b=tanh))
        self.assertIn("inputs", judged(relu, [], b=wide))

    def test_bounds_that_are_infinite_accept_nothing(self):
        """A quotient by a number that rounding may make zero."""
        zero = (np.float32(1) + np.float32(1e-7) - np.float32(1)) * 0
        weights = [("w", np.ones(2, np.float32)), ("d", np.full(2, zero, np.float32))]
        nodes = [helper.make_node("Div", ["w", "d"], ["q"]), helper.make_node("Mul", ["x", "q"], ["y"])]
        a = model(nodes, {"x": [2]}, {"y": [2]}, weights)
        b = model(nodes[1:], {"x": [2]}, {"y": [2]}, [("q", np.array([7, 7], np.float32))])
        why = judged(a, [{"value": 1, "tensor": "q"}, {"weight": "q", "is": 1}], b=b)
        self.assertIn("q[0]: found 7", why)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    PROGRAM = sys.argv.pop(1)
    unittest.main()
