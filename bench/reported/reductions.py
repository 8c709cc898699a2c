"""Reductions, softmaxes, running sums, orders: no axes, empty axes, no elements, ties, NaN."""
import numpy as np

from .graph import Graph, INFINITY, NAN, boolean, f16, f32, f64, family, i8, i32, i64, single, u8

REDUCTIONS = ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2",
              "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp")


@family("onnx/onnx#7140", "microsoft/onnxruntime#19147", "microsoft/onnxruntime#26288", "onnx/onnx#6103")
def no_axes():
    for op in ("ReduceSum", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd"):
        for axes in (None, np.array([], np.int64)):
            special = op not in ("ReduceMax", "ReduceMin")  # onnxruntime's keep NaN or not by where it lies
            yield single(op, f32(2, 3), axes, opset=18, special=special,
                         attributes={"noop_with_empty_axes": 1, "keepdims": 0})
            yield single(op, f32(2, 3), axes, opset=18, special=special)
    for op in ("ReduceSumSquare", "ReduceL1", "ReduceLogSumExp"):
        g = single(op, f32(2, 3), np.array([], np.int64), opset=18, attributes={"noop_with_empty_axes": 1})
        made = {"ReduceSumSquare": np.square, "ReduceL1": np.abs, "ReduceLogSumExp": lambda a: a}[op]
        yield g.truth(lambda a, made=made: [made(a)], "onnxruntime passes the operand on, as ONNX said before")


@family("apache/tvm#11643", "xtensor-stack/xtensor#1573", "nntile/nntile#445", "csarofeen/pytorch#186")
def axes_of_reductions():
    for number, op in enumerate(REDUCTIONS):
        axes, keepdims = (([-1], 1), ([0, 2], 0), ([1, -1], 1), ([0], 0), ([-3, 1], 0))[number % 5]
        special = op not in ("ReduceMax", "ReduceMin")
        g = Graph(opset=18, x=f32(2, 3, 4, positive=op == "ReduceLogSum"), tolerance=5e-6, special=special)
        g.add("Mul", g.add(op, "x", np.array(axes, np.int64), keepdims=keepdims), np.float32(0.5))
        yield g
    for op, axes in (("ReduceSum", [0, 1]), ("ReduceMean", [2])):
        g = Graph(opset=11, x=f32(2, 3, 4))
        g.add(op, "x", axes=axes, keepdims=0) if op == "ReduceMean" else g.add(op, "x", axes=axes, keepdims=1)
        yield g
    for shape in ((3, 1), (1, 1, 4), ()):
        g = Graph(opset=18, x=f32(*shape), special=False)
        g.add("Add", g.add("ReduceMax", "x", keepdims=0), np.float32(1))
        yield g
    g = Graph(opset=18, x=f32(3, 4, 5))
    g.add("ReduceSum", g.add("ReduceSum", "x", np.array([2]), keepdims=0), np.array([1]), keepdims=1)
    yield g
    g = Graph(opset=18, x=f32(3, 4, 5), tolerance=5e-6)
    g.add("ReduceMean", g.add("ReduceMean", "x", np.array([1]), keepdims=1), np.array([2]), keepdims=0)
    yield g
    g = Graph(opset=18, x=f32(3, 4))
    g.add("ReduceSum", g.add("Transpose", g.add("Neg", "x"), perm=[1, 0]), np.array([0]), keepdims=0)
    yield g


@family("microsoft/onnxruntime#28353", "microsoft/onnxruntime#8421")
def reductions_of_nothing():
    for op in ("ReduceSum", "ReduceProd", "ReduceL2", "ReduceSumSquare"):
        yield single(op, f32(2, 0), np.array([1]), opset=18, attributes={"keepdims": 0}, gradients=False).by_reference(
            "onnxruntime's kernels differ in what they make of no elements")
    yield single("ReduceSum", f32(0, 3), np.array([1]), opset=18, gradients=False)


@family("microsoft/onnxruntime#28681", "microsoft/onnxruntime#10542")
def reductions_of_whole_numbers():
    for op in ("ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd"):
        yield single(op, i32(2, 3, low=-9, high=10), np.array([1]), opset=18)
    for op in ("ReduceMax", "ReduceMin"):
        yield single(op, i8(3, 4), np.array([0]), opset=18, attributes={"keepdims": 0})
        yield single(op, u8(3, 4), np.array([1]), opset=18)
    yield single("ReduceSum", i64(2, 5), np.array([1]), opset=18).truth(
        lambda a: [a.sum(1, keepdims=True)], "onnxruntime's sums of large numbers are rounded")
    yield single("ReduceL1", i32(2, 3, low=-9, high=10), np.array([1]), opset=18)
    g = Graph(opset=18, x=i64(2, 3, low=-9, high=10))
    g.add("ReduceMean", "x", np.array([1]))
    yield g


@family("microsoft/onnxruntime#32575", "onnx/onnx#8455")
def norms_of_extremes():
    for op, axes in (("ReduceL2", [1]), ("ReduceL1", [0]), ("ReduceSumSquare", [1])):
        yield single(op, f32(2, 3), np.array(axes), opset=18, special=False)
    yield single("ReduceL2", f64(2, 3, values=[[[0.0, 0, 0], [1e100, 3, 4]]]), np.array([1]), opset=18)
    yield single("LpNormalization", f32(3, 4), attributes={"axis": 1, "p": 1}, special=False)
    yield single("LpNormalization", f32(3, 4, 2), attributes={"axis": -2, "p": 2}, special=False)


@family("apache/tvm#19572")
def nan_through_reductions():
    for op, axis in (("ReduceSum", 1), ("ReduceMean", 0), ("ReduceProd", 1)):
        yield single(op, f32(3, 5), np.array([axis]), opset=18, attributes={"keepdims": 0})
    for op, reduced in (("ReduceMax", np.max), ("ReduceMin", np.min)):
        for axis in (0, 1):
            g = single(op, f32(3, 5), np.array([axis]), opset=18, attributes={"keepdims": 0})
            yield g.truth(lambda a, axis=axis, reduced=reduced: [reduced(a, axis)],
                          "onnxruntime's extrema keep NaN or not by where it lies")
    g = Graph(opset=18, x=f32(4, 6))
    g.add("Relu", g.add("ReduceMax", g.add("Neg", "x"), np.array([1])))
    yield g.truth(lambda x: [np.maximum((-x).max(1, keepdims=True), 0)], "as above")


@family("apache/tvm#19420", "openvinotoolkit/openvino#37823", "microsoft/onnxruntime#25402", "onnx/onnx-mlir#832",
        "onnx/onnx#3244")
def softmaxes_of_old_and_new():
    for op in ("Softmax", "LogSoftmax", "Hardmax"):
        for opset, axis in ((11, 1), (11, 0), (11, None), (13, 1), (13, None), (13, 0)):
            shape = (2, 3, 4) if axis != 0 else (3, 4)
            yield single(op, f32(*shape), opset=opset, attributes={} if axis is None else {"axis": axis},
                         special=op != "Hardmax", gradients=op != "Hardmax")
    yield single("Softmax", f32(1, 6), attributes={"axis": -2})
    yield single("Softmax", f32(2, 3, 4, 2), opset=11, attributes={"axis": -2})
    yield single("Softmax", f16(3, 8))
    g = Graph(x=f32(3, 6))
    g.add("Softmax", g.add("Add", "x", np.float32([0, 0, -INFINITY, -INFINITY, 0, -1e9])))
    yield g
    g = Graph(x=f32(3, 5))
    g.add("Floor", g.add("Add", g.add("ReduceSum", g.add("Softmax", "x", axis=1), np.array([1])), np.float32(0.25)))
    g.gradients = False
    yield g
    g = Graph(x=f32(3, 5))
    g.add("Log", g.add("Softmax", "x", axis=1))
    g.special = False
    yield g


@family("microsoft/onnxruntime#28461", "openvinotoolkit/openvino#32839", "openvinotoolkit/openvino#35677")
def logarithms_of_sums():
    rows = [[[-INFINITY] * 4, [1000.0, 1000, 0, 0], [-1000.0] * 4], [[INFINITY, 0, 1, 2], [88.0] * 4, [NAN, 1, 2, 3]]]

    def stable(x):
        top = x.max(1, keepdims=True)
        top = np.where(np.isfinite(top), top, 0)
        with np.errstate(all="ignore"):
            return [(np.log(np.exp(x.astype(np.float64) - top).sum(1, keepdims=True)) + top).astype(np.float32)]
    yield single("ReduceLogSumExp", f32(3, 4, values=rows), np.array([1]), opset=18, gradients=False).truth(
        lambda a: stable(a), "onnxruntime makes NaN of rows of infinities")
    g = Graph(opset=18, x=f32(3, 4, values=[rows[1], np.eye(3, 4)]), gradients=False)
    top = g.add("ReduceMax", "x", np.array([1]))
    g.add("Add", g.add("Log", g.add("ReduceSum", g.add("Exp", g.add("Sub", "x", top)), np.array([1]))), top)
    yield g
    yield single("ReduceLogSumExp", f16(2, 4, values=[[[11.0] * 4, [-3.0, 0, 2, 9]]]), np.array([1]), opset=18)


@family("NVIDIA/TensorRT#4513", "apache/tvm#18135", "onnx/onnx-tensorrt#1034", "sbryngelson/ANEForge#107")
def running_sums():
    for exclusive in (0, 1):
        for reverse in (0, 1):
            for axis in (0, -1):
                yield single("CumSum", f32(3, 4), np.int64(axis),
                             attributes={"exclusive": exclusive, "reverse": reverse})
    g = Graph(x=f32(4, 2, 3))
    a, b = (g.add("CumSum", "x", np.int64(axis), reverse=reverse) for axis, reverse in ((0, 1), (1, 0)))
    yield g.returns(a, b)
    yield single("CumSum", i32(7), np.int32(0))
    yield single("CumSum", f64(2, 1, 3), np.int64(1), attributes={"exclusive": 1})
    g = Graph(x=boolean(2, 6))
    g.add("CumSum", g.add("Cast", "x", to=6), np.int64(1))
    yield g


@family("openvinotoolkit/openvino#33626", "openvinotoolkit/openvino#35946", "apache/tvm#19558", "apache/tvm#18969")
def places_of_extremes():
    for op in ("ArgMax", "ArgMin"):
        for axis, last, keepdims in ((0, 0, 1), (1, 1, 0), (-1, 0, 0), (0, 1, 0)):
            yield single(op, f32(4, 5), attributes={"axis": axis, "select_last_index": last, "keepdims": keepdims},
                         special=False, gradients=False)
    for values in ([2.0, NAN, 7, 4, 1], [NAN, 2.0, 7, 4, 1], [NAN] * 5):
        g = Graph(x=f32(5, values=[values, values[::-1], np.negative(values)]), gradients=False)
        g.add("ArgMax", "x", axis=0, keepdims=int(values[0] == 2.0))
        if values[1] == 2.0:
            g.add("Cast", g.nodes[-1].output[0], to=6)
        yield g.truth(lambda x, kept=values[0] == 2.0, narrow=values[1] == 2.0: [
            np.argmax(x, 0, keepdims=kept).astype(np.int32 if narrow else np.int64)],
            "onnxruntime finds NaN or not by where it lies")
    yield single("ArgMax", i32(3, 4), attributes={"axis": 1})
    yield single("ArgMin", u8(3, 4), attributes={"axis": 0, "select_last_index": 1})


@family("openvinotoolkit/openvino#35898", "onnx/onnx#6593", "NervanaSystems/ngraph#2710")
def largest_and_smallest():
    for axis, largest, k in ((0, 1, 2), (1, 0, 3), (-1, 1, 5), (1, 1, 1), (0, 0, 4), (-1, 1, 0)):
        yield single("TopK", f32(4, 5), np.array([k]), results=2, attributes={"axis": axis, "largest": largest},
                     special=False, gradients=False).returns("topk_0_0", "topk_0_1")
    g = Graph(x=i64(3, 6))
    values, _ = g.add("TopK", "x", np.array([2]), results=2)
    g.add("Add", values, np.int64(1))
    yield g
    yield single("TopK", u8(7, values=[[3, 200, 3, 255, 0, 255, 3]]), np.array([4]), results=2, opset=24).returns(
        "topk_0_0", "topk_0_1")
