"""Convolutions, pools, products, resizing and recurrent layers: padding of every kind, odd sizes, NaN."""
import numpy as np
from onnx import numpy_helper

from .graph import Graph, bf16, f16, f32, f64, family, i64, single


@family("microsoft/onnxruntime#495", "onnx/onnx#2043", "onnx/onnx#3153", "microsoft/onnxruntime#20582",
        "microsoft/onnxscript#3037")
def convolutions_padded_alike():
    for auto_pad in ("SAME_UPPER", "SAME_LOWER", "VALID"):
        for strides, kernel in (((1, 1), (2, 2)), ((2, 2), (3, 3)), ((2, 3), (4, 1)), ((3, 1), (1, 2))):
            g = Graph(x=f32(1, 2, 7, 5), special=False)
            g.add("Conv", "x", g.weight(3, 2, *kernel), auto_pad=auto_pad, strides=strides)
            yield g
    g = Graph(x=f32(1, 1, 9), special=False)
    g.add("Conv", "x", g.weight(2, 1, 4), auto_pad="SAME_LOWER", strides=[2])
    yield g
    g = Graph(x=f32(1, 2, 9, 8), special=False)
    g.add("Conv", "x", g.weight(3, 2, 3, 3), auto_pad="VALID", dilations=[2, 3])
    yield g
    for auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        g = Graph(x=f32(1, 2, 9, 8), special=False)
        g.add("Conv", "x", g.weight(3, 2, 3, 2), auto_pad=auto_pad, dilations=[2, 2])
        yield g.by_reference("onnxruntime refuses dilations beside such padding")


@family("iree-org/iree#22987", "iree-org/iree#22865")
def convolutions_of_odd_forms():
    for weights, attributes in (((4, 1, 3, 3), {"group": 4, "pads": [1, 1, 1, 1]}),
                                ((8, 1, 3, 3), {"group": 4, "pads": [0, 1, 2, 0]}),
                                ((6, 2, 1, 3), {"group": 2, "pads": [0, 2, 0, 1], "strides": [2, 1]}),
                                ((3, 4, 3, 3), {"dilations": [2, 1], "pads": [3, 0, 1, 0]}),
                                ((5, 4, 6, 6), {}), ((1, 4, 1, 1), {"strides": [3, 3]}),
                                ((3, 4, 2, 2), {"pads": [3, 3, 3, 3]})):
        g = Graph(x=f32(2, 4, 6, 6), special=False)
        g.add("LeakyRelu", g.add("Conv", "x", g.weight(*weights), g.weight(weights[0]), **attributes), alpha=0.1)
        yield g
    for rank, attributes in ((1, {"pads": [2, 0]}), (3, {"pads": [1, 0, 1, 0, 1, 0], "strides": [1, 2, 1]})):
        g = Graph(x=f32(1, 2, *[4] * rank), special=False)
        g.add("Conv", "x", g.weight(3, 2, *[2] * rank), **attributes)
        yield g
    g = Graph(x=f64(1, 2, 4, 4), special=False)
    g.add("Conv", "x", g.weight(3, 2, 3, 3, dtype=np.float64))
    yield g.by_reference("onnxruntime has no kernel for it")
    g = Graph(x=f32(1, 2, 4, 4), w=f32(3, 2, 3, 3), special=False)
    g.add("Conv", "x", "w", pads=[1, 1, 1, 1])
    yield g


@family("apache/tvm#19579", "microsoft/onnxruntime#11010")
def nan_behind_products():
    g = Graph(x=f32(3, 5), tolerance=1e-4)
    g.add("Relu", g.add("Gemm", "x", g.weight(5, 4), g.weight(4)))
    yield g
    g = Graph(x=f32(2, 3, 5), tolerance=1e-4)
    g.add("Clip", g.add("Add", g.add("MatMul", "x", g.weight(5, 4)), g.weight(4)), np.float32(0), np.float32(6))
    yield g
    for kernel, activation in ((1, "Sigmoid"), (3, "LeakyRelu")):
        g = Graph(x=f32(1, 3, 6, 6), tolerance=1e-4)
        g.add(activation, g.add("Conv", "x", g.weight(4, 3, kernel, kernel)))
        yield g
    g = Graph(x=f32(1, 3, 6, 6), special=False)  # onnxruntime's maxima of windows lose NaN
    g.add("MaxPool", g.add("Conv", "x", g.weight(4, 3, 1, 1)), kernel_shape=[2, 2])
    yield g


@family("onnx/onnx#4299", "microsoft/onnxruntime#4698", "onnx/onnx#2788", "microsoft/onnxruntime#11927",
        "apache/tvm#18601", "openvinotoolkit/openvino#33397", "openvinotoolkit/openvino#32608")
def transposed_convolutions():
    for kernel, attributes in (((3, 3), {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
                               ((3, 3), {"auto_pad": "SAME_LOWER", "strides": [2, 2]}),
                               ((3, 3), {"auto_pad": "SAME_UPPER", "strides": [1, 1]}),
                               ((3, 3), {"strides": [2, 2], "output_padding": [1, 1], "pads": [1, 1, 1, 1]}),
                               ((3, 2), {"strides": [3, 2], "output_padding": [2, 1]}),
                               ((2, 2), {"strides": [2, 2], "pads": [1, 0, 0, 1]}),
                               ((3, 3), {"dilations": [2, 2], "pads": [1, 1, 1, 1]}),
                               ((3, 3), {"strides": [2, 2], "output_shape": [8, 7]}),
                               ((3, 3), {"strides": [2, 2], "output_shape": [8, 8], "auto_pad": "SAME_LOWER"}),
                               ((1, 1), {"strides": [2, 3]}), ((4, 4), {"strides": [2, 2], "pads": [1, 1, 1, 1]})):
        g = Graph(x=f32(1, 2, 4, 3), special=False)
        g.add("ConvTranspose", "x", g.weight(2, 3, *kernel), g.weight(3), **attributes)
        yield g
    g = Graph(x=f32(2, 4, 5), special=False)
    g.add("ConvTranspose", "x", g.weight(4, 2, 3), group=2, strides=[2])
    yield g
    g = Graph(x=f32(1, 2, 3, 3, 2), special=False)
    g.add("ConvTranspose", "x", g.weight(2, 1, 2, 2, 2), strides=[2, 1, 2])
    yield g


@family("onnx/onnx#4958", "microsoft/onnxruntime#16203", "microsoft/onnxruntime#16351", "microsoft/onnxruntime#15446",
        "microsoft/onnxruntime#24681", "microsoft/onnxruntime#29629", "PINTO0309/onnx2tf#211")
def pools_that_round_up():
    for kernel, strides, pads, counts in ((3, 2, 0, 0), (3, 2, 1, 1), (2, 2, 0, 1), (3, 3, 1, 0), (5, 3, 2, 1)):
        g = single("AveragePool", f32(1, 2, 9, 8), opset=22, special=False, attributes={
            "kernel_shape": [kernel] * 2, "strides": [strides] * 2, "pads": [pads] * 4, "count_include_pad": counts,
            "ceil_mode": 1})
        yield g
        yield single("MaxPool", f32(1, 2, 9, 8), opset=12 + counts, special=False, attributes={
            "kernel_shape": [kernel] * 2, "strides": [strides] * 2, "pads": [pads] * 4, "ceil_mode": 1})
    yield single("AveragePool", f32(1, 2, 9), opset=19, special=False, attributes={
        "kernel_shape": [7], "strides": [3], "pads": [3, 3], "ceil_mode": 1, "count_include_pad": 1})
    yield single("MaxPool", f32(1, 2, 3, 6, 5), opset=14, special=False, attributes={
        "kernel_shape": [3] * 3, "strides": [3] * 3, "pads": [1] * 6, "ceil_mode": 1})


@family("microsoft/onnxruntime#24681", "onnx/onnx#5235")
def pools_with_padding():
    for opset in (11, 19):
        for auto_pad in ("SAME_LOWER", "SAME_UPPER"):
            yield single("AveragePool", f32(1, 1, 6, 2), opset=opset, special=False, attributes={
                "kernel_shape": [5, 1], "auto_pad": auto_pad, "count_include_pad": 0})
    yield single("AveragePool", f32(1, 2, 7, 7), opset=19, special=False, attributes={
        "kernel_shape": [3, 2], "dilations": [2, 3], "pads": [1, 0, 2, 1], "count_include_pad": 1})
    yield single("MaxPool", f32(1, 2, 7, 7), special=False, attributes={
        "kernel_shape": [3, 2], "dilations": [2, 3], "pads": [2, 1, 0, 1]})
    for counts in (0, 1):
        g = Graph(opset=19, x=f32(2, 3, 6, 6), special=False)
        padded = g.add("Pad", "x", np.array([0, 0, 1, 1, 0, 0, 1, 1]))
        g.add("AveragePool", padded, kernel_shape=[3, 3], count_include_pad=counts)
        yield g
    g = Graph(x=f32(2, 3, 6, 6), special=False)
    padded = g.add("Pad", "x", np.array([0, 0, 1, 1, 0, 0, 1, 1]), np.float32(-10))
    g.add("MaxPool", padded, kernel_shape=[2, 2], strides=[2, 2])
    yield g
    for op in ("GlobalAveragePool", "GlobalMaxPool"):
        g = Graph(x=f32(2, 3, 4, 5), special=False)
        g.add("Relu", g.add(op, g.add("Neg", "x")))
        yield g
    yield single("GlobalLpPool", f32(2, 3, 4), attributes={"p": 3}, special=False)
    yield single("LpPool", f32(1, 2, 6, 6), opset=18, attributes={"kernel_shape": [2, 2], "p": 3, "pads": [1, 0, 0, 1]},
                 special=False)
    g = Graph(x=f32(1, 1, 5, 5, values=[np.arange(25.0).reshape(5, 5) % 3, np.ones((5, 5))]), gradients=False)
    values, places = g.add("MaxPool", "x", kernel_shape=[3, 3], strides=[2, 2], results=2)
    yield g.returns(values, places)


@family("kraiskil/onnx2c#12", "onnx/tensorflow-onnx#902", "emmtrix/emx-onnx-cgen#134", "emmtrix/emx-onnx-cgen#512")
def products_with_addends():
    for c in ((), (1,), (4,), (3, 1), (1, 4), (3, 4), None):
        for trans_a, trans_b in ((0, 1), (1, 0)) if c in ((), (3, 1)) else ((1, 1),):
            g = Graph(x=f32(*((5, 3) if trans_a else (3, 5))), special=False)
            g.add("Gemm", "x", g.weight(*((4, 5) if trans_b else (5, 4))), *([g.weight(*c)] if c is not None else []),
                  transA=trans_a, transB=trans_b, alpha=0.5, beta=-2.0)
            yield g
    g = Graph(x=f32(3, 5), c=f32(4), special=False)
    g.add("Gemm", "x", g.weight(5, 4), "c", beta=0.0)
    yield g
    g = Graph(x=f32(3, 5), special=False)
    g.add("Gemm", "x", g.weight(5, 4), g.weight(4), alpha=0.0)
    yield g
    yield single("Gemm", i64(2, 3), i64(3, 2), attributes={"alpha": 1.0}).truth(
        lambda a, b: [a @ b], "onnxruntime has no kernel for it, and onnx.reference multiplies by a float")


@family("microsoft/onnxruntime#3764", "inisis/OnnxSlim#323", "onnx/optimizer#66", "apache/tvm#16961",
        "microsoft/onnxruntime#25663", "microsoft/onnxruntime#24908", "openvinotoolkit/openvino#37499")
def products_of_batches():
    for a, b in (((5,), (5,)), ((5,), (5, 3)), ((2, 5), (5,)), ((4, 2, 5), (5,)), ((5,), (4, 5, 3)),
                 ((1, 2, 5), (4, 5, 3)), ((2, 1, 3, 5), (4, 5, 2)), ((3, 2, 5), (1, 5, 2)), ((0, 2, 5), (1, 5, 2))):
        g = Graph(x=f32(*a), y=f32(*b), special=False, gradients=0 not in a)
        g.add("MatMul", "x", "y")
        yield g
    for bias in ((4,), (3, 4), (1, 4), (3, 1), (2, 1, 4), (1, 1, 1, 3, 4), ()):
        g = Graph(x=f32(3, 5), special=False)
        g.add("Add", g.add("MatMul", "x", g.weight(5, 4)), g.weight(*bias))
        yield g
    g = Graph(x=f32(3, 3), y=f32(1, 4), special=False)  # the sum is wider than the product
    g.add("Add", g.add("MatMul", "x", g.weight(3, 1)), g.add("Mul", np.float32(0.5), "y"))
    yield g
    for dtype in (np.float16, np.float64, np.int32):
        inputs = {np.float16: f16, np.float64: f64}.get(dtype)
        g = Graph(x=inputs(2, 3) if inputs else i64(2, 3), special=False)
        if inputs:
            g.add("MatMul", "x", g.weight(3, 4, dtype=dtype))
        else:
            g.add("MatMul", g.add("Cast", "x", to=6), g.const(np.arange(12, dtype=np.int32).reshape(3, 4)))
        yield g


@family("robertknight/rten#303", "microsoft/onnxruntime#7375", "tinygrad/tinygrad#18207", "numpy/numpy#5667",
        "onnx/onnx#8207", "arogozhnikov/einops#305")
def sums_of_products():
    for equation, shapes in (("ii->i", [(4, 4)]), ("ii->", [(4, 4)]), ("bii->bi", [(2, 3, 3)]),
                             ("iij->ij", [(3, 3, 2)]),
                             ("ij->ji", [(2, 3)]), ("ij->", [(2, 3)]), ("ij", [(2, 3)]), ("ba", [(2, 3)]),
                             ("abc,cd,def->abd", [(2, 3, 4), (4, 5), (5, 2, 3)]), ("i,j->ij", [(3,), (4,)]),
                             ("...ij,...jk->...ik", [(2, 1, 3, 4), (1, 5, 4, 2)]),
                             ("bhqd,bhkd->bhqk", [(1, 2, 3, 4), (1, 2, 5, 4)]),
                             ("ij,ij->", [(2, 3), (2, 3)]), ("ij,j->i", [(2, 3), (3,)]), ("ii,ij->j", [(3, 3), (3, 2)]),
                             ("...,...->...", [(1, 3), (2, 3)]), (" i j , j k -> i k ", [(2, 3), (3, 2)])):
        g = Graph(special=False, **{chr(ord("x") + k): f32(*shape) for k, shape in enumerate(shapes)})
        g.add("Einsum", *g.inputs, equation=equation)
        operands = equation.replace("...", "").replace(" ", "").split("->")[0].split(",")
        repeats = any(len(set(part)) < len(part) for part in operands)
        yield g.by_reference("onnxruntime takes few diagonals") if repeats else g


RESIZE = ("onnx/onnx#4583", "microsoft/onnxruntime#28291", "onnx/onnx#7841", "onnx/onnx#4275",
          "microsoft/onnxruntime#5151", "onnx/onnx#4862", "onnx/onnx#5148", "apache/tvm#18133")


@family(*RESIZE)
def resizing():
    for mode, transform, nearest, sizes in (
            ("nearest", "half_pixel", "round_prefer_floor", (3, 7)), ("nearest", "asymmetric", "floor", (8, 3)),
            ("nearest", "align_corners", "ceil", (5, 9)), ("nearest", "half_pixel", "round_prefer_ceil", (6, 2)),
            ("linear", "half_pixel", "", (7, 3)), ("linear", "align_corners", "", (1, 9)),
            ("linear", "pytorch_half_pixel", "", (1, 5)), ("linear", "asymmetric", "", (9, 9)),
            ("cubic", "half_pixel", "", (9, 7)), ("cubic", "align_corners", "", (3, 8)),
            ("cubic", "pytorch_half_pixel", "", (1, 8)), ("linear", "half_pixel_symmetric", "", (6, 3))):
        g = Graph(opset=19, x=f32(1, 2, 4, 5), special=False, tolerance=2e-5)
        attributes = {"nearest_mode": nearest} if nearest else {}
        g.add("Resize", "x", None, None, np.array([1, 2, *sizes]), mode=mode,
              coordinate_transformation_mode=transform, **attributes)
        yield g
    for scales, how in (((1, 1, 2, 2), {"mode": "nearest"}), ((1, 1, 0.6, 1.7), {"mode": "linear"}),
                        ((1, 1, 1.5, 0.8), {"mode": "cubic", "cubic_coeff_a": -0.5, "exclude_outside": 1}),
                        ((1, 1, 2, 3), {"mode": "nearest", "coordinate_transformation_mode": "asymmetric",
                                        "nearest_mode": "floor"})):
        g = Graph(opset=13, x=f32(1, 1, 5, 4), special=False, tolerance=2e-5)
        g.add("Resize", "x", None, np.float32(scales), **how)
        yield g
    g = Graph(opset=13, x=f32(1, 1, 1, 20), special=False)  # 4.5 and 14.5 are places of elements
    g.add("Resize", "x", None, None, np.array([1, 1, 1, 6]), mode="nearest", nearest_mode="round_prefer_ceil")
    yield g.truth(lambda x: [x[..., [1, 5, 8, 11, 15, 18]]], "onnxruntime rounds 14.5 down in float32")
    g = Graph(opset=18, x=f32(2, 3, 4), special=False)
    g.add("Resize", "x", None, np.float32([2.0]), axes=[1], mode="linear")
    yield g
    g = Graph(opset=9, x=f32(1, 2, 2, 3), special=False)
    g.add("Upsample", "x", np.float32([1, 1, 2, 2]), mode="nearest")
    yield g


@family("microsoft/onnxruntime#10607", "microsoft/onnxruntime#28090", "onnx/onnx#4033", "pytorch/pytorch#23925",
        "antimora/burn-flex#29")
def samples_at_grids():
    for mode, padding, align in (("linear", "zeros", 0), ("linear", "border", 1), ("linear", "reflection", 0),
                                 ("linear", "reflection", 1), ("nearest", "border", 0), ("nearest", "zeros", 1),
                                 ("cubic", "zeros", 0), ("cubic", "border", 1), ("cubic", "reflection", 0)):
        grids = [np.linspace(low, high, 24).reshape(1, 4, 3, 2) for low, high in ((-1.4, 1.3), (0.97, -0.91))]
        g = Graph(opset=20, x=f32(1, 2, 4, 5), grid=f32(1, 4, 3, 2, values=grids), special=False, tolerance=2e-5,
                  gradients=mode == "linear")
        g.add("GridSample", "x", "grid", mode=mode, padding_mode=padding, align_corners=align)
        yield g


@family("apache/tvm#19501")
def regions():
    rois = [[[0.0, 0.0, 4.0, 4.0], [1.3, 0.7, 5.9, 3.2]], [[2.0, 2.0, 2.5, 2.5], [-1.0, -1.0, 7.0, 8.0]]]
    for mode in ("avg", "max"):
        for transform in ("half_pixel", "output_half_pixel"):
            g = Graph(opset=16, x=f32(1, 2, 6, 6), r=f32(2, 4, values=rois), special=False, gradients=False)
            g.add("RoiAlign", "x", "r", np.array([0, 0]), mode=mode, coordinate_transformation_mode=transform,
                  output_height=2, output_width=3, sampling_ratio=2)
            yield g


def lstm_of_relu(w, r, b):
    """Y and Y_h of a forward LSTM that begins with zeros and whose new cells are relu, of its three weights."""
    def sigmoid(x):
        return np.exp(-np.logaddexp(0, -x))

    def outputs(x):
        h = c = np.zeros((x.shape[1], r.shape[-1]))
        every = []
        for step in x.astype(np.float64):
            gates = step @ w[0].T + h @ r[0].T + b[0].reshape(2, -1).sum(0, dtype=np.float64)
            i, o, f, new = np.split(gates, 4, axis=1)
            c = sigmoid(f) * c + sigmoid(i) * np.maximum(new, 0)
            h = sigmoid(o) * np.tanh(c)
            every.append(h[None])
        return [np.array(y, np.float32) for y in (every, h[None])]
    return outputs


@family("onnx/onnx-tensorflow#342", "onnx/onnx-tensorflow#227", "microsoft/onnxscript#2852",
        "microsoft/onnxruntime#3893", "sony/nnabla#444")
def recurrent_layers():
    steps, batch, width, hidden = 4, 3, 2, 3

    def layer(op, gates, direction="forward", lens=None, bias=True, start=False, outputs=2, **attributes):
        ways = 2 if direction == "bidirectional" else 1
        # onnxruntime's sigmoid is exact to 1e-8.
        g = Graph(opset=14, x=f32(steps, batch, width), special=False, tolerance=2e-5, magnitude=0.01)
        given = ["x", g.weight(ways, gates * hidden, width), g.weight(ways, gates * hidden, hidden),
                 g.weight(ways, 2 * gates * hidden) if bias else None,
                 None if lens is None else g.const(np.array(lens, np.int32)),
                 g.weight(ways, batch, hidden) if start else None]
        if op == "LSTM":
            given += [g.weight(ways, batch, hidden) if start else None]
        while given[-1] is None:
            given.pop()
        results = g.add(op, *given, hidden_size=hidden, direction=direction, results=outputs, **attributes)
        return g.returns(*results)
    yield layer("LSTM", 4, "reverse", outputs=3)
    yield layer("LSTM", 4, "bidirectional", lens=[4, 2, 3], outputs=3)
    yield layer("LSTM", 4, start=True, outputs=3)
    yield layer("LSTM", 4, bias=False, clip=0.5)
    yield layer("LSTM", 4, "reverse", lens=[1, 4, 2])
    g = layer("LSTM", 4, activations=["Sigmoid", "Relu", "Tanh"])
    yield g.truth(lstm_of_relu(*map(numpy_helper.to_array, g.tensors)), "onnxruntime's sigmoid is 0 from -18 down")
    for after in (0, 1):
        yield layer("GRU", 3, "bidirectional", linear_before_reset=after)
        yield layer("GRU", 3, bias=False, linear_before_reset=after)
        yield layer("GRU", 3, "reverse", lens=[3, 1, 4], start=True, linear_before_reset=after)
    yield layer("RNN", 1, "bidirectional", start=True)
    yield layer("RNN", 1, activations=["Relu"], lens=[2, 4, 1])
    yield layer("RNN", 1, "reverse", bias=False, activations=["Softsign"])


@family("onnx/onnx#8455", "microsoft/onnxruntime#28681")
def sums_of_narrow_numbers():
    for shape in ((2, 4), (1, 2, 4)):
        g = Graph(x=bf16(*shape), special=False, tolerance=2e-2)
        g.add("Relu", g.add("Add", g.add("MatMul", "x", g.weight(4, 3, dtype=bf16(1).dtype)),
                            g.weight(3, dtype=bf16(1).dtype)))
        yield g.by_reference("onnxruntime has no kernel for it")
    g = Graph(opset=18, x=bf16(2, 8), special=False, tolerance=2e-2)
    g.add("ReduceL2", "x", np.array([1]))
    yield g.by_reference("onnxruntime has no kernel for it")
    g = Graph(opset=18, x=f16(2, 64), special=False, tolerance=4e-3)
    g.add("ReduceSum", "x", np.array([1]))
    yield g
