"""The form of a file: outputs that are inputs, repeated outputs, subgraphs, functions, symbolic sizes, defaults."""
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from .graph import Graph, boolean, f32, family, i64

FLOAT = TensorProto.FLOAT


@family("onnx/onnx#755", "microsoft/onnxruntime#7312", "onnx/tensorflow-onnx#382", "onnx/tensorflow-onnx#1127",
        "onnx/onnx#860", "microsoft/onnxruntime#8654", "microsoft/onnxruntime#26339")
def outputs_of_all_kinds():
    g = Graph(x=f32(2, 3))
    g.add("Identity", g.add("Identity", g.add("Identity", "x")))
    yield g
    g = Graph(x=f32(2, 3))  # an input that is an output
    yield g.returns(g.add("Relu", "x"), "x")
    g = Graph(x=f32(2, 3))  # two outputs that are one value
    y = g.add("Abs", "x")
    yield g.returns(y, g.add("Identity", y))
    g = Graph(x=f32(2, 3))  # two outputs computed alike
    yield g.returns(g.add("Exp", "x"), g.add("Exp", "x"))
    g = Graph(x=f32(2, 3))  # an initializer that is an output
    w = g.weight(3)
    yield g.returns(g.add("Add", "x", w), w)
    g = Graph(x=f32(2, 3))  # an output that no input reaches
    yield g.returns(g.add("Neg", "x"), g.add("Mul", g.weight(2, 2), g.weight(2)))
    g = Graph(x=f32(2, 3), unused=f32(4))
    g.add("Sigmoid", "x")
    yield g
    g = Graph(x=f32(2, 3))  # nodes that no node reads
    g.add("Sinh", g.add("MatMul", "x", g.weight(3, 4)))
    yield g.returns(g.add("Tanh", "x"))
    g = Graph(x=f32(2, 3))  # what is in between leaves, too
    y = g.add("Add", "x", np.float32(0.5))
    yield g.returns(g.add("Relu", y), y)
    g = Graph(x=f32(2, 3), y=f32(2, 3))
    yield g.returns("y", "x")
    g = Graph()
    g.add("Exp", g.weight(2, 3))
    yield g


@family("microsoft/onnxruntime#8422", "inisis/OnnxSlim#15", "microsoft/onnxruntime#168", "pytorch/pytorch#189787")
def constants_that_fold():
    g = Graph(x=f32(2, 3))
    big = g.add("Pow", np.float32(10), np.float32(38.4))
    g.add("Mul", "x", g.add("Div", big, big))
    yield g
    g = Graph(x=i64(3))
    g.add("Add", "x", g.add("Mul", np.int64(2**62), np.int64(3)))
    yield g
    g = Graph(x=f32(3))
    g.add("Add", "x", g.add("Cast", np.int64(2**24 + 1), to=FLOAT))
    yield g
    g = Graph(x=f32(3))
    g.add("Mul", "x", g.add("Cast", g.add("Div", np.int64(-7), np.int64(2)), to=FLOAT))
    yield g
    g = Graph(x=f32(2, 2))
    g.add("Add", "x", g.add("MatMul", g.weight(2, 3), g.weight(3, 2)))
    yield g
    g = Graph(x=f32(4))
    g.add("Add", "x", g.add("Range", np.float32(0), np.float32(4), np.float32(1)))
    yield g
    g = Graph(x=f32(2, 3))
    value = onnx.helper.make_node("Constant", [], ["k"], value_floats=[0.5, 1.5, -2.0])
    g.nodes.append(value)
    g.add("Mul", "x", "k")
    yield g
    g = Graph(x=f32(2, 4))
    sparse = helper.make_sparse_tensor(numpy_helper.from_array(np.float32([3, -1]), "s"),
                                       numpy_helper.from_array(np.array([1, 3]), "i"), [4])
    g.nodes.append(onnx.helper.make_node("Constant", [], ["k"], sparse_value=sparse))
    g.add("Add", "x", "k")
    yield g


def body(nodes, inputs, outputs, tensors=()):
    def info(name, kind=FLOAT, shape=None):
        return helper.make_tensor_value_info(name, kind, shape)
    return helper.make_graph(nodes, "body", [info(*x) for x in inputs], [info(*y) for y in outputs], list(tensors))


@family("microsoft/onnxruntime#8825", "microsoft/onnxruntime#858", "microsoft/onnxruntime#31978",
        "microsoft/onnxruntime#8694", "microsoft/onnxruntime#23213")
def subgraphs():
    def branch(op, *inputs):
        return body([helper.make_node(op, inputs, ["b"])], [], [("b", FLOAT, [2, 3])])
    for known in (True, False):
        g = Graph(x=f32(2, 3), **({} if known else {"c": boolean()}))
        condition = g.const(np.array(True)) if known else "c"
        doubled = g.add("Add", "x", "x")
        g.add("If", condition, then_branch=branch("Relu", doubled), else_branch=branch("Neg", "x"))
        yield g
    g = Graph(x=f32(2, 3))  # decided by a shape
    rows = g.add("Gather", g.add("Shape", "x"), np.int64(0))
    g.add("If", g.add("Greater", rows, np.int64(5)), then_branch=branch("Abs", "x"), else_branch=branch("Exp", "x"))
    yield g
    for count, scans in ((3, 0), (3, 1), (0, 0), (1, 1)):
        g = Graph(x=f32(2, 3), special=False)
        w = g.const(np.float32([0.5, -1.0, 2.0]))
        nodes = [helper.make_node("Identity", ["go"], ["go_on"]), helper.make_node("Mul", ["state", w], ["scaled"]),
                 helper.make_node("Add", ["scaled", "x"], ["next"])]
        if scans:
            nodes.append(helper.make_node("Tanh", ["next"], ["seen"]))
        given = [("i", TensorProto.INT64, []), ("go", TensorProto.BOOL, []), ("state", FLOAT, [2, 3])]
        made = [("go_on", TensorProto.BOOL, []), ("next", FLOAT, [2, 3]), ("seen", FLOAT, [2, 3])]
        loop = body(nodes, given, made[:2 + scans])
        results = g.add("Loop", np.int64(count), g.const(np.array(True)), "x", results=1 + scans, body=loop)
        yield g.returns(*results) if scans else g
    g = Graph(x=f32(4, 3), special=False)
    step = body([helper.make_node("Add", ["sum", "row"], ["next"]), helper.make_node("Mul", ["next", "row"], ["out"])],
                [("sum", FLOAT, [3]), ("row", FLOAT, [3])], [("next", FLOAT, [3]), ("out", FLOAT, [3])])
    last, rows = g.add("Scan", g.weight(3), "x", num_scan_inputs=1, results=2, body=step)
    yield g.returns(last, rows)
    g = Graph(x=f32(4, 3), special=False)
    last, rows = g.add("Scan", g.weight(3), "x", num_scan_inputs=1, scan_input_directions=[1],
                       scan_output_directions=[1], results=2, body=step)
    yield g.returns(rows)


@family("onnx/tensorflow-onnx#1112", "onnx/tensorflow-onnx#1763", "onnx/keras-onnx#122")
def symbolic_sizes():
    g = Graph(x=f32("n", 4), sizes={"n": 3}, special=False)
    g.add("Relu", g.add("Gemm", "x", g.weight(4, 2), g.weight(2)))
    yield g
    g = Graph(x=f32("n", "m", 4), sizes={"n": 2, "m": 3}, special=False)
    shape = g.add("Concat", g.add("Slice", g.add("Shape", "x"), np.array([0]), np.array([2])), np.array([2, 2]), axis=0)
    g.add("Transpose", g.add("Reshape", "x", shape), perm=[0, 2, 1, 3])
    yield g
    g = Graph(x=f32("n", 3), y=f32("m", 3), sizes={"n": 2, "m": 4})
    g.add("Concat", "x", g.add("Neg", "y"), axis=0)
    yield g
    g = Graph(x=f32("n", 4), sizes={"n": 5}, special=False)
    g.add("Softmax", g.add("MatMul", "x", g.add("Transpose", "x")), axis=1)
    yield g
    g = Graph(x=f32("n", 6), sizes={"n": 4})
    count = g.add("Cast", g.add("Gather", g.add("Shape", "x"), np.int64(0)), to=FLOAT)
    g.add("Div", g.add("ReduceSum", "x", np.array([0]), keepdims=0), count)
    yield g
    g = Graph(x=f32("n"), sizes={"n": 6})
    g.add("Slice", "x", np.array([1]), np.array([-1]), np.array([0]), np.array([2]))
    yield g


@family("microsoft/onnxruntime#18211", "microsoft/onnxruntime#18212", "onnx/tensorflow-onnx#580", "apache/tvm#17876",
        "apache/tvm#17835", "openvinotoolkit/openvino#25744", "openvinotoolkit/openvino#30996",
        "NVIDIA/TensorRT#4473")
def values_with_many_readers():
    g = Graph(x=f32(3, 4), special=False)
    y = g.add("MatMul", "x", g.weight(4, 4))
    z = g.add("Relu", y)
    yield g.returns(g.add("Add", z, y), g.add("ReduceSum", z, np.array([1])), z)
    g = Graph(x=f32(3, 4))
    y = g.add("Mul", "x", "x")
    g.add("Sub", g.add("Add", y, y), g.add("Mul", y, y))
    yield g
    g = Graph(x=f32(1, 2, 4, 4), special=False)
    y = g.add("Conv", "x", g.weight(2, 2, 1, 1))
    g.add("Concat", y, g.add("Relu", y), "x", y, axis=1)
    yield g
    g = Graph(x=f32(2, 3))
    y = g.add("Transpose", "x")
    yield g.returns(g.add("Transpose", y), g.add("Exp", y))
    g = Graph(x=f32(4))
    y = "x"
    for k in range(12):
        y = g.add(("Neg", "Abs", "Neg", "Relu")[k % 4], y)
    yield g
    g = Graph(x=f32(6, 2), special=False)
    parts = g.add("Split", "x", results=3, num_outputs=3) if g.opset >= 18 else g.add("Split", "x", results=3)
    g.add("Sum", *parts)
    yield g


@family("microsoft/onnxscript#2673", "microsoft/onnxruntime#4507", "onnx/optimizer#325")
def parts_of_files():
    class WithFunction(Graph):
        def model(self):
            made = super().model()
            nodes = [helper.make_node("Constant", [], ["one"], value_int=1),
                     helper.make_node("Cast", ["one"], ["f"], to=1), helper.make_node("Sub", ["f", "a"], ["r"])]
            opsets = [helper.make_opsetid("", self.opset)]
            made.functions.append(helper.make_function("this", "lessone", ["a"], ["r"], nodes, opsets))
            for value in made.graph.output:
                value.type.CopyFrom(helper.make_tensor_type_proto(FLOAT, [2, 3]))
            return made
    for inside in (False, True):
        g = WithFunction(opset=19, x=f32(2, 3))
        y = g.add("lessone", g.add("Abs", "x") if inside else "x", domain="this")
        g.typed[y] = (FLOAT, [2, 3])
        yield g

    class WithDefault(Graph):
        def model(self):
            made = super().model()
            for tensor in made.graph.initializer:
                made.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
            return made
    g = WithDefault(x=f32(2, 3), special=False)
    g.add("Add", g.add("MatMul", "x", g.weight(3, 4)), g.weight(4))
    yield g
    g = WithDefault(x=f32(1, 2, 3, 3), special=False)
    g.add("BatchNormalization", g.add("Conv", "x", g.weight(2, 2, 1, 1)), g.weight(2), g.weight(2), g.weight(2),
          g.weight(2, positive=True))
    yield g
