"""Operators that move elements: slices, gathers, scatters, padding, shapes; negative indices, empty results."""
import numpy as np
from onnx import TensorProto

from .graph import Graph, boolean, f16, f32, f64, family, i8, i32, i64, single, u8

LEAST, MOST = -2**63, 2**63 - 1


@family("apache/tvm#19532", "apache/tvm#9517", "iree-org/iree#24584", "onnx/onnx-tensorrt#453", "OAID/Tengine#1093",
        "inisis/OnnxSlim#277")
def slices():
    for starts, ends, axes, steps in (([0], [5], [0], [-1]), ([9], [0], [0], [-1]), ([9], [LEAST], [0], [-1]),
                                      ([-1], [-20], [0], [-3]), ([1], [MOST], [0], [2]), ([-3], [MOST], [0], [1]),
                                      ([20], [30], [0], [1]), ([7], [2], [0], [1]), ([2], [-2], [-2], [3]),
                                      ([8, 2], [1, 0], [0, 1], [-2, -1]), ([0, 1], [2**31 - 1, 2], [0, 1], [4, 1]),
                                      ([0], [10], [0], [1])):
        g = Graph(x=f32(10, 3))
        g.add("Add", g.add("Slice", "x", *(np.array(v, np.int64) for v in (starts, ends, axes, steps))), np.float32(1))
        yield g
    g = Graph(x=f32(4, 6))
    first = g.add("Slice", "x", np.array([1]), np.array([6]), np.array([1]))
    g.add("Slice", first, np.array([-1]), np.array([LEAST]), np.array([1]), np.array([-2]))
    yield g
    g = Graph(opset=9, x=f32(4, 6))
    g.add("Slice", "x", starts=[0, -4], ends=[100, -1], axes=[0, 1])
    yield g
    g = Graph(x=f32(4, 6))  # all of it, but for what a concatenation changes
    a, b = (g.add("Slice", "x", np.array([k]), np.array([k + 3]), np.array([1])) for k in (0, 3))
    g.add("Concat", a, b, axis=1)
    yield g
    g = Graph(x=f32(4, 6))
    a, b = (g.add("Slice", "x", np.array([k]), np.array([k + 3]), np.array([1])) for k in (0, 3))
    g.add("Concat", b, a, axis=1)
    yield g
    yield single("Slice", i64(5), np.array([-1]), np.array([LEAST]), np.array([0]), np.array([-1]))


@family("microsoft/onnxruntime#1533", "apache/tvm#20217", "apache/tvm#19436", "onnx/onnx#2260",
        "microsoft/onnxruntime#3645", "llvm/torch-mlir#3599")
def gathers():
    for indices, axis in (([0, -1], 0), ([[-3, 1], [2, -2]], 1), (-1, 0), ([], 0), ([2, 2, 2], -1), (1, 1)):
        g = Graph(x=f32(3, 4), gradients=indices != [])
        g.add("Gather", "x", np.array(indices, np.int64), axis=axis)
        yield g
    g = Graph(x=f32(5, 4), i=i64(2, 3, low=-5, high=5))
    g.add("Gather", "x", "i", axis=0)
    yield g
    yield single("GatherElements", f32(3, 4), i64(3, 4, low=-4, high=4), attributes={"axis": 1})
    yield single("GatherElements", f32(3, 4), i32(2, 4, low=-3, high=3), attributes={"axis": 0})
    yield single("GatherND", f32(3, 4), np.array([[-1, -1], [0, -2]]), opset=13)
    yield single("GatherND", f32(3, 4), i64(2, 1, low=-3, high=3), opset=13)
    yield single("GatherND", f32(2, 3, 4), i64(2, 2, 1, low=-3, high=3), opset=13, attributes={"batch_dims": 1})
    g = Graph(x=f32(6, 4))
    g.add("Gather", g.add("Gather", "x", np.array([5, 0, 3, 1])), np.array([-1, 2]))
    yield g
    g = Graph(x=f32(6, 4))
    shape = g.add("Shape", "x")
    g.add("Mul", "x", g.add("Cast", g.add("Gather", shape, np.int64(-1)), to=TensorProto.FLOAT))
    yield g
    g = Graph(i=i32(4, low=-3, high=3))
    g.add("Gather", g.weight(3, 2), "i")
    yield g


@family("onnx/onnx#4548", "onnx/onnx-mlir#3611", "ROCm/AMDMIGraphX#2210", "ROCm/AMDMIGraphX#2239",
        "pytorch/pytorch#131321", "tracel-ai/burn-onnx#487", "microsoft/onnxruntime#19540")
def scatters():
    for reduction in ("add", "mul", "max", "min"):
        g = Graph(opset=18, x=f32(4, 3), u=f32(3, 3), special=False)
        g.add("ScatterND", "x", np.array([[1], [-1], [1]]), "u", reduction=reduction)
        yield g
        g = Graph(opset=18, x=f32(3, 4), u=f32(2, 4), special=False, gradients=reduction in ("add",))
        g.add("ScatterElements", "x", np.array([[0, 1, -1, 0], [0, 2, 1, 0]]), "u", axis=0, reduction=reduction)
        yield g
    for indices, update in (([[0, -1], [2, 1]], (2,)), ([[[0], [2]]], (1, 2, 4)), ([[1]], (1, 4))):
        g = Graph(x=f32(3, 4), u=f32(*update))
        g.add("ScatterND", "x", np.array(indices), "u")
        yield g
    g = Graph(x=f32(2, 5), u=f32(2, 2))
    g.add("ScatterElements", "x", np.array([[-1, 1], [0, -4]]), "u", axis=1)
    yield g
    g = Graph(x=i32(4), u=i32(3))
    g.add("ScatterElements", "x", np.array([3, 0, 2]), "u")
    yield g
    g = Graph(x=f32(3, 4), u=f32(0, 4))
    g.add("ScatterND", "x", np.zeros((0, 1), np.int64), "u")
    yield g


@family("microsoft/onnxruntime#16401", "microsoft/onnxruntime#20801", "microsoft/onnxruntime#11828", "onnx/onnx#6735",
        "microsoft/onnxruntime#6442", "onnx/onnx#4294", "robertknight/rten#848", "microsoft/onnxruntime#8265")
def padding():
    for mode, pads in (("constant", [1, -1, 0, 2]), ("constant", [-1, -1, -1, 0]), ("reflect", [2, 0, 1, 3]),
                       ("edge", [0, 3, 2, 1]), ("edge", [4, 4, 4, 4]), ("reflect", [0, 1, 0, 0])):
        g = Graph(opset=18, x=f32(4, 5))
        g.add("Neg", g.add("Pad", "x", np.array(pads), mode=mode))
        yield g
    for pads in ([2, 1, 1, 1], [0, 2, 1, 0]):
        yield single("Pad", f32(3, 4), np.array(pads), opset=19, attributes={"mode": "wrap"})
    yield single("Pad", f32(3, 4), np.array([1, 2]), np.float32(-np.inf), np.array([-1]), opset=18, gradients=False)
    yield single("Pad", i64(3), np.array([1, 2]), np.int64(-7), opset=18)
    yield single("Pad", boolean(2, 2), np.array([1, 0, 0, 1]), np.array(True), opset=18)
    yield single("Pad", u8(2, 3), np.array([0, 1, 0, 1]), opset=18, attributes={"mode": "edge"})
    g = Graph(opset=18, x=f32(4, 4))
    g.add("Pad", g.add("Pad", "x", np.array([1, 0, 0, 1])), np.array([0, 2, 1, 0]), np.float32(3))
    yield g
    g = Graph(opset=18, x=f32(4, 4))
    g.add("Slice", g.add("Pad", "x", np.array([1, 1, 1, 1])), np.array([1, 1]), np.array([5, 5]), np.array([0, 1]))
    yield g
    yield single("Pad", f32(0, 3), np.array([1, 0, 1, 0]), opset=18, gradients=False)


@family("onnx/onnx#2446", "onnx/optimizer#253", "onnx/tensorflow-onnx#226", "apache/tvm#15598",
        "microsoft/onnxruntime#21821")
def transposes():
    for first, second in (([1, 0, 2], [0, 2, 1]), ([2, 0, 1], [2, 0, 1]), ([2, 0, 1], [1, 2, 0])):
        g = Graph(x=f32(2, 3, 4))
        g.add("Transpose", g.add("Transpose", "x", perm=first), perm=second)
        yield g
    g = Graph(x=f32(2, 3, 4))
    g.add("Add", g.add("Transpose", "x", perm=[0, 2, 1]), g.weight(3))
    yield g
    g = Graph(x=f32(2, 3, 4))
    g.add("Reshape", g.add("Transpose", "x", perm=[2, 0, 1]), np.array([4, -1]))
    yield g
    g = Graph(x=f32(1, 3, 1, 4))
    g.add("Squeeze", g.add("Squeeze", "x", np.array([0])), np.array([1]))
    yield g
    g = Graph(x=f32(1, 3, 1, 4))
    g.add("Unsqueeze", g.add("Squeeze", "x"), np.array([-1, 1]))
    yield g
    g = Graph(x=f32(3, 4))
    g.add("Unsqueeze", g.add("Unsqueeze", "x", np.array([1])), np.array([0, 3]))
    yield g
    g = Graph(x=f32(2, 3, 4, 4), special=False)
    turned = g.add("Conv", g.add("Transpose", "x", perm=[0, 1, 3, 2]), g.weight(2, 3, 2, 3))
    g.add("Transpose", turned, perm=[0, 1, 3, 2])
    yield g
    g = Graph(x=f32(2, 3, 4))
    g.add("ReduceMax", g.add("Transpose", "x", perm=[1, 2, 0]), axes=[0], keepdims=0)
    yield g
    g = Graph(x=f32(3, 4), y=f32(3, 5), special=False)
    g.add("MatMul", g.add("Transpose", "x"), "y")
    yield g
    yield single("Transpose", f32())
    yield single("Transpose", i8(2, 3, 4))


@family("microsoft/onnxruntime#28449", "microsoft/onnxruntime#28349", "robertknight/rten#1355", "apache/tvm#12734")
def reshapes():
    for shape, allow in (([0, -1], 0), ([3, 0, 2, -1], 0), ([-1], 0), ([1, 24, 1], 0), ([0, 0, 0], 0)):
        g = Graph(x=f32(2, 3, 4) if shape[0] != 3 else f32(3, 2, 4))
        g.add("Exp", g.add("Reshape", "x", np.array(shape), allowzero=allow))
        yield g
    yield single("Reshape", f32(0, 3), np.array([3, 0]), attributes={"allowzero": 1}, gradients=False)
    g = Graph(opset=18, x=f32(0, 8, 2), gradients=False)
    g.add("Reshape", g.add("Reshape", "x", np.array([4, 2, -1])), np.array([0, 0, 4]), allowzero=1)
    yield g.by_reference("onnxruntime's fusion forgets what zeros mean")
    g = Graph(x=f32(2, 3, 4))
    g.add("Reshape", g.add("Reshape", "x", np.array([6, 4])), np.array([0, 2, 2]))
    yield g
    g = Graph(x=f32(2, 3, 4))
    g.add("Flatten", g.add("Flatten", "x", axis=2), axis=0)
    yield g
    for axis in (-1, 3):
        yield single("Flatten", f32(2, 3, 4), attributes={"axis": axis})
    g = Graph(x=f32(4), y=f32(2, 2))
    g.add("Add", g.add("Reshape", "x", g.add("Shape", "y")), "y")
    yield g


@family("microsoft/onnxruntime#32105")
def shapes_of_shapes():
    g = Graph(opset=21, x=f32(4))
    shape = g.add("Reshape", g.add("Reshape", g.const(np.array([[2, 2]])), np.array([2, 1])), np.array([2]))
    g.add("Reshape", "x", shape)
    yield g
    g = Graph(x=f32(3, 5))
    shape = g.add("Concat", g.add("Slice", g.add("Shape", "x"), np.array([1]), np.array([2])), np.array([-1]), axis=0)
    g.add("Reshape", "x", shape)
    yield g
    g = Graph(opset=15, x=f32(2, 3, 4))
    g.add("Add", g.add("Cast", g.add("Shape", "x", start=-2, end=3), to=TensorProto.FLOAT), np.float32(0.5))
    yield g
    g = Graph(x=f32(2, 3))
    g.add("Mul", g.add("Size", "x"), np.int64(3))
    yield g
    g = Graph(x=f32(3, 1))
    g.add("Expand", "x", g.add("Concat", np.array([2]), g.add("Shape", "x"), axis=0))
    yield g


@family("microsoft/onnxruntime#681", "Xilinx/onnx-mlir#123", "microsoft/onnxruntime#8080")
def concatenations():
    g = Graph(x=f32(2, 0), y=f32(2, 3))
    g.add("Concat", "x", "y", axis=1)
    yield g
    g = Graph(x=f32(2, 3), y=f32(2, 1))
    g.add("Concat", "x", "y", "x", axis=-1)
    yield g
    g = Graph(x=f32(2, 3))
    g.add("Concat", "x", axis=0)
    yield g
    for sizes in ([1, 3, 2], [6, 0, 0]):
        g = Graph(x=f32(2, 6), gradients=0 not in sizes)
        a, b, c = g.add("Split", "x", np.array(sizes), axis=1, results=3)
        yield g.returns(c, a, b) if 0 in sizes else g.returns(g.add("Concat", c, a, b, axis=1))
    g = Graph(opset=18, x=f32(7, 2))
    a, b, c = g.add("Split", "x", num_outputs=3, results=3)
    yield g.returns(a, c, b)
    g = Graph(x=f32(2, 4))
    a, b = g.add("Split", "x", axis=1, results=2)
    g.add("Sub", g.add("Concat", a, b, axis=1), "x")
    yield g


@family("PINTO0309/onnx2tf#538", "openvinotoolkit/openvino#21172", "microsoft/onnxruntime#32013",
        "ROCm/AMDMIGraphX#1509")
def triangles():
    for upper in (0, 1):
        for k in (-1, 0, 2, 9, -9):
            yield single("Trilu", f32(3, 4) if k != 2 else f32(2, 3, 3), np.int64(k), attributes={"upper": upper},
                         special=k == 0)
    yield single("Trilu", i64(4, 3), attributes={"upper": 0})
    g = Graph(x=f32(1, 2, 4, 4))
    mask = g.add("Trilu", g.const(np.full((4, 4), -np.inf, np.float32)), np.int64(1), upper=1)
    g.add("Softmax", g.add("Add", "x", mask), axis=-1)
    g.specials = None
    yield g


@family("openvinotoolkit/openvino#31120", "onnx/onnx#8113", "microsoft/onnxruntime#1313", "llvm/torch-mlir#3334")
def one_hot():
    for axis in (-1, 0, 1, -2):
        g = Graph(i=i64(2, 3, low=-4, high=4), gradients=False)
        g.add("OneHot", "i", np.int64(4), np.float32([-0.5, 2.0]), axis=axis)
        yield g
    g = Graph(i=i64(5, values=[[0, -3, 7, 2, -4]]))
    g.add("OneHot", "i", np.array([3]), np.array([5, -1]))
    yield g
    g = Graph(i=i32(4, low=0, high=3), special=False)
    g.add("MatMul", g.add("OneHot", "i", np.int64(3), np.float32([0, 1])), g.weight(3, 2))
    yield g.by_reference("onnxruntime has no kernel for it")


@family("llvm/llvm-project#192916", "apache/tvm#18032")
def depth_and_space():
    for size in (2, 3):
        for mode in ("DCR", "CRD"):
            yield single("DepthToSpace", f32(1, 2 * size * size, 2, 3), attributes={"blocksize": size, "mode": mode})
    yield single("SpaceToDepth", f32(2, 1, 4, 6), attributes={"blocksize": 2})
    g = Graph(x=f32(1, 8, 2, 2))
    g.add("SpaceToDepth", g.add("DepthToSpace", "x", blocksize=2, mode="CRD"), blocksize=2)
    yield g
    yield single("DepthToSpace", f64(1, 4, 1, 1), attributes={"blocksize": 2})


@family("microsoft/onnxruntime#11870", "microsoft/onnxruntime#23187")
def tiles_and_expansions():
    for repeats in ([1, 1], [2, 3], [0, 2]):
        g = Graph(x=f32(2, 3), gradients=0 not in repeats)
        g.add("Tile", "x", np.array(repeats))
        yield g
    for shape, target in (((3, 1), [2, 1, 4]), ((3, 1), [1]), ((1, 4), [3, 1]), ((), [2, 2]), ((2, 3), [2, 3])):
        g = Graph(x=f32(*shape))
        g.add("Mul", g.add("Expand", "x", np.array(target)), np.float32(2))
        yield g
    g = Graph(a=f32(1, 5, 1), b=f32(5, 1))  # the ranks of both sums differ
    g.add("Add", g.add("Add", "b", "b"), g.add("Expand", "a", np.array([1, 1, 5, 1])))
    yield g
    g = Graph(x=f16(2, 1))
    g.add("ReduceSum", g.add("Expand", "x", np.array([2, 4])), np.array([1]))
    g.tolerance = 4e-3
    yield g


@family("apache/tvm#20263")
def slices_from_elsewhere():
    g = Graph(x=f32(5, 3))
    count = g.add("Neg", g.add("Slice", g.add("Shape", "x"), np.array([1]), np.array([2])))
    g.add("Slice", "x", count, np.array([MOST]), np.array([0]))
    yield g
    g = Graph(x=f32(6), s=i64(1, values=[[-2]]), gradients=False)
    g.add("Slice", "x", "s", np.array([MOST]), np.array([0]))
    yield g


@family("microsoft/onnxruntime#5917", "iree-org/iree#24229", "openvinotoolkit/openvino#20872", "iree-org/iree#20011",
        "pytorch/pytorch#91526", "sony/nnabla#1223")
def sequences_and_selections():
    for start, limit, delta in ((0, 5, 1), (5, -2, -2), (3, 3, 1), (0, 10, 4)):
        g = Graph(x=i64(1))
        g.add("Add", g.add("Range", *(np.int64(v) for v in (start, limit, delta))), "x")
        yield g
    g = Graph(x=f32(1))
    g.add("Mul", g.add("Range", np.float32(0), np.float32(1), np.float32(0.25)), "x")
    yield g
    g = Graph(x=f32(3, 4))
    g.add("Add", "x", g.add("ConstantOfShape", g.add("Shape", "x")))
    yield g
    g = Graph(x=f32(3, 3))
    g.add("Mul", "x", g.add("EyeLike", "x", k=-1))
    g.specials = None
    yield g
    g = Graph(x=f32(4))
    g.add("NonZero", "x")
    yield g
    g = Graph(x=f32(3, 3), special=False)
    g.add("Relu", g.add("Compress", g.add("Neg", "x"), np.array([True, False, True]), axis=0))
    yield g
    g = Graph(x=i64(6, low=0, high=3))
    y, *_ = g.add("Unique", "x", results=4)
    yield g.returns(y)
    g = Graph(x=f32(4, 3), special=False)
    g.add("ReverseSequence", "x", np.array([1, 4, 3]), time_axis=0, batch_axis=1)
    yield g
