"""Sessions against plain runs: caches that are kept grow in place and give the same numbers."""

import unittest

import numpy
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import rewright

HIDDEN, HEADS = 8, 2
STATES = {"keys": "new_keys", "values": "new_values"}


def attention(extra=(), outputs=()):
    """One layer of attention with causal mask by position; of x: f32[1, n, 8] and a past of any length."""
    rng = numpy.random.default_rng(3)
    names = ["wq", "wk", "wv", "wo"]
    weights = [numpy_helper.from_array(rng.normal(0, 0.35, (HIDDEN, HIDDEN)).astype(numpy.float32), name) for name in names]
    weights += [numpy_helper.from_array(numpy.array(value), name) for name, value in {
        "heads": [0, 0, HEADS, HIDDEN // HEADS], "flat": [0, 0, HIDDEN], "zero": 0, "one": 1, "two": 2, "last": [1],
        "low": numpy.float32(-1e9), "none": numpy.float32(0), "scale": numpy.float32(0.5)}.items()]
    nodes = [helper.make_node("MatMul", ["x", weight], [weight[1]]) for weight in names[:3]]
    for name in ("q", "k", "v"):
        nodes += [helper.make_node("Reshape", [name, "heads"], [name + "4"]),
                  helper.make_node("Transpose", [name + "4"], [name + "h"], perm=[0, 2, 1, 3])]
    nodes += [
        helper.make_node("Concat", ["keys", "kh"], ["new_keys"], axis=2),
        helper.make_node("Concat", ["values", "vh"], ["new_values"], axis=2),
        helper.make_node("Transpose", ["new_keys"], ["kt"], perm=[0, 1, 3, 2]),
        helper.make_node("MatMul", ["qh", "kt"], ["products"]),
        helper.make_node("Mul", ["products", "scale"], ["scores"]),
        # Key j is seen from query i where j <= past + i.
        helper.make_node("Shape", ["keys"], ["shape_of_past"]),
        helper.make_node("Gather", ["shape_of_past", "two"], ["past_length"]),
        helper.make_node("Shape", ["new_keys"], ["shape_of_all"]),
        helper.make_node("Gather", ["shape_of_all", "two"], ["all_length"]),
        helper.make_node("Range", ["past_length", "all_length", "one"], ["rows"]),
        helper.make_node("Range", ["zero", "all_length", "one"], ["columns"]),
        helper.make_node("Unsqueeze", ["rows", "last"], ["rows2"]),
        helper.make_node("Greater", ["columns", "rows2"], ["hidden"]),
        helper.make_node("Where", ["hidden", "low", "none"], ["mask"]),
        helper.make_node("Add", ["scores", "mask"], ["masked"]),
        helper.make_node("Softmax", ["masked"], ["shares"], axis=-1),
        helper.make_node("MatMul", ["shares", "new_values"], ["mixed"]),
        helper.make_node("Transpose", ["mixed"], ["by_row"], perm=[0, 2, 1, 3]),
        helper.make_node("Reshape", ["by_row", "flat"], ["row"]),
        helper.make_node("MatMul", ["row", "wo"], ["y"]),
        *extra]
    cache = [1, HEADS, "past", HIDDEN // HEADS]
    grown = [1, HEADS, "past + n", HIDDEN // HEADS]
    graph = helper.make_graph(
        nodes, "attention",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
         for name, shape in (("x", [1, "n", HIDDEN]), ("keys", cache), ("values", cache))],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
         for name, shape in (("y", [1, "n", HIDDEN]), ("new_keys", grown), ("new_values", grown), *outputs)], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def rows(count, seed):
    return numpy.random.default_rng(seed).normal(size=(1, count, HIDDEN)).astype(numpy.float32)


def past_of(session):
    return {name: session.state(name) for name in STATES}


class SessionTest(unittest.TestCase):
    def test_runs_are_those_of_caches_that_are_passed_on(self):
        for device in ("cpu", "reference"):
            model = rewright.load(attention(), device=device, threads=2)
            truth = onnxruntime.InferenceSession(attention().SerializeToString(), providers=["CPUExecutionProvider"])
            session = model.session(STATES)
            caches = {name: numpy.zeros((1, HEADS, 0, HIDDEN // HEADS), numpy.float32) for name in STATES}
            length, kept = 0, []
            for step in range(100):  # more than there is room for at first
                x = rows({0: 5, 40: 3}.get(step, 1), seed=step)
                before = past_of(session) if step > 0 else None
                y, *grown = truth.run(None, {"x": x, **caches})
                caches = dict(zip(STATES, grown))
                found = session.run(x=x)
                self.assertEqual(list(found), ["y"])
                numpy.testing.assert_allclose(found["y"], y, rtol=0, atol=2e-6)
                length += x.shape[1]
                self.assertEqual(session.length, length)
                kept.append((found["y"], found["y"].copy()))
                if 0 < step <= 24:  # a plain run is compiled for each length
                    plain = model.run(x=x, **before)
                    numpy.testing.assert_array_equal(found["y"], plain["y"])
                    for name, new in STATES.items():
                        numpy.testing.assert_array_equal(session.state(name), plain[new])
                        numpy.testing.assert_array_equal(before[name], plain[new][:, :, :-1])
            for name, grown in caches.items():
                numpy.testing.assert_allclose(session.state(name), grown, rtol=0, atol=2e-6)
            for result, copy in kept:
                numpy.testing.assert_array_equal(result, copy)
            session.clear()
            self.assertEqual(session.length, 0)
            numpy.testing.assert_array_equal(session.run(x=rows(5, seed=0))["y"], kept[0][1])

    def test_an_optimized_model_runs_so_as_well(self):
        model = rewright.load(attention(), dims={"n": 1, "past": 7})
        self.assertTrue(model.optimize(cost="analytic:v100").rewritten)  # three products of x become one
        session, plain = model.session(STATES), rewright.load(attention()).session(STATES)
        for step in range(30):
            x = rows(4 if step == 0 else 1, seed=step)
            numpy.testing.assert_allclose(session.run(x=x)["y"], plain.run(x=x)["y"], rtol=0, atol=2e-6)

    def test_sessions_of_one_model_do_not_meet(self):
        model = rewright.load(attention())
        one, other = model.session(STATES), model.session(STATES, capacity=500)
        first = [one.run(x=rows(1, seed=k))["y"] for k in range(5)]
        for k in range(5):
            numpy.testing.assert_array_equal(other.run(x=rows(1, seed=k))["y"], first[k])
            one.run(x=rows(2, seed=50 + k))
        self.assertEqual((one.length, other.length), (15, 5))

    def test_an_error_leaves_the_states(self):
        # A table of four rows: an index outside is an error of the run, behind the new rows' writing or before it.
        table = [helper.make_node("Gather", ["new_keys", "index"], ["picked"], axis=1)]
        model = attention(table, [("picked", [1, 1, "past + n", HIDDEN // HEADS])])
        model.graph.input.append(helper.make_tensor_value_info("index", TensorProto.INT64, [1]))
        nodes = model.graph.node
        nodes.append(helper.make_node("ReduceSum", ["picked"], ["sum"], keepdims=0))
        model.graph.output.pop()
        model.graph.output.append(helper.make_tensor_value_info("sum", TensorProto.FLOAT, []))
        session = rewright.load(model).session(STATES)
        first = session.run(x=rows(2, seed=1), index=[1])
        before = past_of(session)
        with self.assertRaisesRegex(rewright.Error, "index"):
            session.run(x=rows(2, seed=2), index=[7])
        self.assertEqual(session.length, 2)
        for name, value in past_of(session).items():
            numpy.testing.assert_array_equal(value, before[name])
        again = session.run(x=rows(1, seed=3), index=[1])
        fresh = rewright.load(model).session(STATES)
        numpy.testing.assert_array_equal(fresh.run(x=rows(2, seed=1), index=[1])["sum"], first["sum"])
        numpy.testing.assert_array_equal(fresh.run(x=rows(1, seed=3), index=[1])["sum"], again["sum"])

    def test_what_is_wrong_is_said(self):
        def refused(model, states, text, **options):
            with self.assertRaisesRegex(rewright.Error, text):
                rewright.load(model, **options).session(states).run(x=rows(1, seed=1))

        refused(attention(), {"key": "new_keys"}, "no input `key`")
        refused(attention(), {"keys": "new"}, "no output `new`")
        refused(attention(), {"keys": "new_values"}, '"?new_values"? is not keys with new rows behind it')
        refused(attention(), {"keys": "new_keys"}, "input values is not given")
        refused(attention(), {}, "found none, expected an input and its output")
        mean = [helper.make_node("ReduceMean", ["new_keys"], ["mean"], axes=[2], keepdims=0)]
        refused(attention(mean, [("mean", [1, HEADS, HIDDEN // HEADS])]), STATES, "depends on the number of rows")
        turned = [helper.make_node("Slice", ["new_keys", "minus", "far", "two1", "minus"], ["turned"]),
                  helper.make_node("ReduceMax", ["turned"], ["most"], keepdims=0)]
        model = attention(turned, [("most", [])])
        for name, value in (("minus", -1), ("far", -1000), ("two1", 2)):
            model.graph.initializer.append(numpy_helper.from_array(numpy.array([value]), name))
        refused(model, STATES, "reads other rows|depends on the number of rows")
        alike = [helper.make_node("Identity", ["new_keys"], ["same"])]
        refused(attention(alike, [("same", [1, HEADS, "all", HIDDEN // HEADS])]), STATES, "is the next value of no state")
        for rows_ahead in (-5, 10**12):
            with self.assertRaisesRegex(ValueError, "capacity: found .*expected a number from 0 to"):
                rewright.load(attention()).session(STATES, capacity=rows_ahead)
        session = rewright.load(attention()).session(STATES)
        with self.assertRaisesRegex(rewright.Error, "input keys is a state of the session"):
            session.run(x=rows(1, seed=1), keys=numpy.zeros((1, HEADS, 4, 4), numpy.float32))
        with self.assertRaisesRegex(rewright.Error, "found no rows yet"):
            session.state("keys")

    def test_a_branch_on_an_empty_past_is_refused(self):
        empty = helper.make_node("Equal", ["past_length", "zero"], ["is_empty"])
        graphs = [helper.make_graph([helper.make_node(op, ["y"], ["inner"])], op, [],
                                    [helper.make_tensor_value_info("inner", TensorProto.FLOAT, None)])
                  for op in ("Neg", "Exp")]
        for use in ([helper.make_node("Cast", ["is_empty"], ["shift"], to=TensorProto.FLOAT),
                     helper.make_node("Add", ["y", "shift"], ["moved"])],
                    [helper.make_node("If", ["is_empty"], ["moved"], then_branch=graphs[0], else_branch=graphs[1])]):
            session = rewright.load(attention([empty, *use], [("moved", [1, "n", HIDDEN])])).session(STATES)
            with self.assertRaisesRegex(rewright.Error, "depends on the length of the past"):
                session.run(x=rows(3, seed=1))

    # The remainder of the length by 64 is the length, up to 63 rows.
    def test_lengths_at_which_the_model_differs_are_refused(self):
        for op, number, least in (("Mod", 64, 64), ("Mod", 2, 2), ("Min", 39, 41)):
            node = [helper.make_node(op, ["past_length", "number"], ["shift"]),
                    helper.make_node("Cast", ["shift"], ["shift_f"], to=TensorProto.FLOAT),
                    helper.make_node("Add", ["y", "shift_f"], ["moved"])]
            model = attention(node, [("moved", [1, "n", HIDDEN])])
            model.graph.initializer.append(numpy_helper.from_array(numpy.array(number), "number"))
            session = rewright.load(model).session(STATES)
            plain = rewright.load(model)
            caches = {}
            with self.assertRaisesRegex(rewright.Error, "depends on the length of the past"):
                for length in (least - 1, 1, 1):
                    at = session.length
                    found = session.run(x=rows(length, seed=length))["moved"]
                    if at > 0:
                        caches = {name: value[:, :, :at] for name, value in past_of(session).items()}
                        truth = plain.run(x=rows(length, seed=length), **caches)["moved"]
                        numpy.testing.assert_allclose(found, truth, rtol=1e-4, atol=1e-5)
            self.assertLessEqual(session.length, least)

    def test_positions_may_be_numbers_of_floating_type(self):
        node = [helper.make_node("Cast", ["rows2"], ["rows_f"], to=TensorProto.FLOAT),
                helper.make_node("Mul", ["rows_f", "speeds"], ["angles"]),
                helper.make_node("Cos", ["angles"], ["turns"]),
                helper.make_node("Mul", ["y", "turns"], ["moved"])]
        model = attention(node, [("moved", [1, "n", HIDDEN])])
        model.graph.initializer.append(numpy_helper.from_array(numpy.geomspace(1, 0.01, HIDDEN, dtype=numpy.float32), "speeds"))
        session, plain = rewright.load(model).session(STATES), rewright.load(model)
        for length in (3, 1, 90, 1):
            caches = past_of(session) if session.length > 0 else None
            found = session.run(x=rows(length, seed=length))["moved"]
            if caches is not None:
                truth = plain.run(x=rows(length, seed=length), **caches)["moved"]
                numpy.testing.assert_allclose(found, truth, rtol=0, atol=2e-6)

    # Neither comparison holds at the lengths at which the graph is made.
    def test_nodes_that_are_alike_but_for_a_number_are_told_apart(self):
        node = [helper.make_node("Equal", ["past_length", "thousand"], ["is_thousand"]),
                helper.make_node("Equal", ["past_length", "fifty"], ["is_fifty"]),
                helper.make_node("Or", ["is_thousand", "is_fifty"], ["is_one"]),
                helper.make_node("Cast", ["is_one"], ["shift"], to=TensorProto.FLOAT),
                helper.make_node("Add", ["y", "shift"], ["moved"])]
        model = attention(node, [("moved", [1, "n", HIDDEN])])
        for name, value in (("fifty", 50), ("thousand", 1000)):
            model.graph.initializer.append(numpy_helper.from_array(numpy.array(value), name))
        session = rewright.load(model).session(STATES)
        for length in (3, 46, 1):  # the mask of 46 rows is folded at a past of 3, and not at the capacity
            session.run(x=rows(length, seed=length))
        with self.assertRaisesRegex(rewright.Error, "has other nodes at other lengths"):
            session.run(x=rows(1, seed=1))
        self.assertEqual(session.length, 50)


if __name__ == "__main__":
    unittest.main()
