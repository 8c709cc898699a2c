"""What optimizers fuse, where a constant, a shape or another reader forbids it."""
import numpy as np

from .graph import Graph, f16, f32, family


def erf_gelu(g, x, root=2 ** 0.5, one=1.0, half=0.5):
    e = g.add("Add", g.add("Erf", g.add("Div", x, np.float32(root))), np.float32(one))
    return g.add("Mul", g.add("Mul", x, e), np.float32(half))


@family("microsoft/onnxruntime#2574", "microsoft/onnxruntime#25402")
def gelus_in_parts():
    for root, one, half in ((2 ** 0.5, 1.0, 0.5), (1.5, 1.0, 0.5), (2 ** 0.5, 1.1, 0.5),
                            (2 ** 0.5, 1.0, 0.4), (1.41, 1.0, 0.5)):
        g = Graph(x=f32(3, 5))
        erf_gelu(g, "x", root, one, half)
        yield g
    g = Graph(x=f32(3, 5), special=False)
    y = erf_gelu(g, g.add("Add", g.add("MatMul", "x", g.weight(5, 4)), g.weight(4)))
    yield g.returns(y, "erf_3")
    g = Graph(x=f32(3, 5))
    erf_gelu(g, g.add("Add", "x", g.weight(3, 1)))
    yield g
    for cube in (0.044715, 0.05):
        g = Graph(x=f32(3, 5), tolerance=5e-6)
        inner = g.add("Add", "x", g.add("Mul", g.add("Pow", "x", np.float32(3)), np.float32(cube)))
        t = g.add("Tanh", g.add("Mul", inner, np.float32((2 / np.pi) ** 0.5)))
        g.add("Mul", g.add("Mul", "x", np.float32(0.5)), g.add("Add", t, np.float32(1)))
        yield g


@family("onnx/optimizer#3", "onnx/onnx#707")
def addends_of_convolutions():
    for bias in ((3, 1, 1), (1, 3, 1, 1), (), (1,), (1, 1, 4, 4), (4,), (2, 1, 1, 1), (3, 4, 4)):
        g = Graph(x=f32(2, 2, 4, 4), special=False)
        g.add("Add", g.add("Conv", "x", g.weight(3, 2, 1, 1)), g.weight(*bias))
        yield g
    for factor in ((3, 1, 1), (4, 1), ()):
        g = Graph(x=f32(2, 2, 4, 4), special=False)
        g.add("Mul", g.weight(*factor), g.add("Conv", "x", g.weight(3, 2, 3, 3), g.weight(3), pads=[1, 1, 1, 1]))
        yield g
    g = Graph(x=f32(2, 3, 4, 4), special=False)
    y = g.add("Conv", "x", g.weight(3, 3, 3, 3), pads=[1, 1, 1, 1])
    g.add("Relu", g.add("Add", g.add("Relu", y), "x"))
    yield g


@family("microsoft/onnxscript#2838", "onnx/onnx#3260")
def padding_before_convolutions():
    for pads, mode, value in (([0, 0, 1, 1, 0, 0, 1, 1], "constant", 0.0), ([0, 0, 1, -1, 0, 0, 0, 2], "constant", 0.0),
                              ([0, 0, 1, 1, 0, 0, 1, 1], "constant", 1.5), ([0, 1, 0, 0, 0, 0, 0, 0], "constant", 0.0),
                              ([0, 0, 1, 1, 0, 0, 1, 1], "edge", None), ([1, 0, 0, 2, 0, 0, 1, 0], "constant", 0.0)):
        g = Graph(opset=18, x=f32(1, 3, 5, 5), special=False)
        padded = g.add("Pad", "x", np.array(pads), *([np.float32(value)] if value is not None else []), mode=mode)
        g.add("Conv", padded, g.weight(2, 3 + pads[1] + pads[5], 3, 3), pads=[1, 0, 0, 1])
        yield g
    g = Graph(opset=18, x=f32(1, 3, 6, 5), special=False)
    padded = g.add("Pad", "x", np.array([0, 0, 1, 0, 0, 0, 0, 1]))
    g.add("Conv", padded, g.weight(2, 3, 3, 3), auto_pad="SAME_UPPER", strides=[2, 2])
    yield g


@family("microsoft/onnxruntime#12767", "microsoft/onnxruntime#22762")
def products_that_share_an_operand():
    for axis in (0, 1):
        g = Graph(x=f32(3, 4), special=False)
        a, b = (g.add("MatMul", "x", g.weight(4, n)) for n in (2, 3 if axis else 2))
        g.add("Concat", a, b, axis=axis)
        yield g
    g = Graph(x=f32(3, 4), special=False)
    a, b = (g.add("Gemm", "x", g.weight(4, 5), g.weight(5)) for _ in range(2))
    g.add("Mul", g.add("Sigmoid", a), b)
    yield g
    g = Graph(x=f32(1, 2, 5, 5), special=False)
    a, b = (g.add("Conv", "x", g.weight(3, 2, k, k), pads=[k // 2] * 4) for k in (1, 3))
    g.add("Add", a, b)
    yield g
    g = Graph(x=f32(3, 4), special=False)
    g.add("MatMul", g.add("MatMul", "x", g.weight(4, 5)), g.weight(5, 2))
    yield g
    g = Graph(x=f32(3, 4), y=f32(3, 4), special=False)
    w = g.weight(4, 2)
    g.add("Add", g.add("MatMul", "x", w), g.add("MatMul", "y", w))
    yield g
    g = Graph(x=f32(5, 3), i=f32(2, 3), special=False)
    rows = g.add("Gather", "x", np.array([4, 0]))
    g.add("MatMul", rows, g.add("Transpose", "i"))
    yield g


@family("microsoft/onnxruntime#4110", "microsoft/onnxruntime#20951", "sbryngelson/ANEForge#94")
def attention():
    for mask in (None, "causal", "rows"):
        g = Graph(x=f32(2, 4, 6), special=False, tolerance=2e-5)
        q, k, v = (g.add("Transpose", g.add("Reshape", g.add("MatMul", "x", g.weight(6, 6, scale=0.4)),
                                            np.array([0, 0, 2, 3])), perm=[0, 2, 1, 3]) for _ in range(3))
        scores = g.add("Div", g.add("MatMul", q, g.add("Transpose", k, perm=[0, 1, 3, 2])), np.float32(3 ** 0.5))
        if mask == "causal":
            scores = g.add("Add", scores, g.const(np.triu(np.full((4, 4), -1e9, np.float32), 1)))
        if mask == "rows":
            scores = g.add("Where", g.const(np.array([True, False]).reshape(1, 2, 1, 1)), scores, np.float32(-1))
        out = g.add("MatMul", g.add("Softmax", scores, axis=-1), v)
        joined = g.add("Reshape", g.add("Transpose", out, perm=[0, 2, 1, 3]), np.array([0, 0, 6]))
        y = g.add("MatMul", joined, g.weight(6, 6))
        yield g.returns(y, scores) if mask == "causal" else g
    g = Graph(opset=23, q=f32(1, 2, 3, 4), k=f32(1, 2, 5, 4), v=f32(1, 2, 5, 4), special=False, tolerance=2e-5)
    g.add("Attention", "q", "k", "v")
    yield g


@family("pytorch/pytorch#2421", "pytorch/pytorch#184572", "ml-explore/mlx#3668", "pytorch/pytorch#3264")
def gradients_at_kinks():
    for op in ("ReduceL2", "ReduceL1", "ReduceMax"):
        g = Graph(opset=18, x=f32(3, 4), special=False)
        g.add(op, "x", np.array([1]), keepdims=0)
        g.specials = None
        g.add("Mul", g.nodes[-1].output[0], g.weight(3))
        yield g
    g = Graph(x=f32(3, 4), y=f32(4), special=False)
    g.add("Sqrt", g.add("Add", g.add("Mul", "x", "x"), g.add("Abs", "y")))
    yield g
    g = Graph(x=f32(3, 4), special=False)
    g.add("Where", g.add("Greater", "x", np.float32(0)), g.add("Sqrt", g.add("Abs", "x")), np.float32(0))
    yield g
    g = Graph(x=f32(2, 5), special=False)
    g.add("Div", "x", g.add("Clip", g.add("ReduceL2", "x", axes=[1]), np.float32(1e-12)))
    yield g


@family("triton-inference-server/onnxruntime_backend#122", "sonos/tract#2865", "microsoft/onnxruntime#3805")
def dropout():
    for opset, given, results in ((7, (), 1), (12, (np.float32(0.4),), 2), (13, (np.float32(0.9), np.array(False)), 1)):
        g = Graph(opset=opset, x=f32(3, 4))
        y = g.add("Dropout", g.add("Relu", "x"), *given, results=results)
        yield g.returns(*y) if results == 2 else g
    g = Graph(opset=13, x=f32(3, 4))
    g.add("Dropout", "x", np.float32(0.0), np.array(True))
    yield g
    g = Graph(x=f16(3, 4))
    g.add("Add", g.add("Dropout", "x"), g.add("Identity", "x"))
    yield g
