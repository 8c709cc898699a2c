"""Elementwise operators: NaN, infinities, zeros of both signs, overflow, integers that wrap around, conversions."""
import numpy as np
from onnx import TensorProto

from .graph import Graph, INFINITY, NAN, boolean, f16, f32, f64, family, i8, i16, i32, i64, single, u8, u16, u32, u64

WHOLE = "onnxruntime divides by C's rules, which say nothing here"


@family("apache/tvm#19579", "microsoft/onnxruntime#11010", "apache/mxnet#11115", "tracel-ai/burn#5609")
def nan_through_rectifiers():
    for op, attributes in (("Relu", {}), ("LeakyRelu", {"alpha": 0.2}), ("ThresholdedRelu", {"alpha": 0.7}),
                           ("Elu", {"alpha": 1.5}), ("Selu", {}), ("Celu", {"alpha": 0.8}),
                           ("HardSigmoid", {"alpha": 0.3, "beta": 0.4}), ("Softplus", {}), ("Softsign", {})):
        g = Graph(x=f32(3, 7))
        g.add(op, g.add("Mul", "x", g.weight(7)), **attributes)
        yield g
    for op in ("Max", "Min"):
        g = Graph(x=f32(2, 5), y=f32(5))
        g.add(op, "x", "y")
        yield g
        g = Graph(x=f32(2, 5), y=f32(5))
        g.add("Relu", g.add(op, "x", g.add("Neg", "y"), np.float32(0.25)))
        yield g


@family("apache/tvm#19533", "onnx/onnx#6003", "NVIDIA/TensorRT#4773")
def clips():
    for low, high in ((-1.0, 1.0), (None, 0.5), (0.5, None), (None, None), (2.0, -2.0), (0.0, 0.0), (0.0, 6.0),
                      (-INFINITY, 1.0)):
        g = Graph(x=f32(3, 6), gradients=low != 2.0)
        g.add("Add", g.add("Clip", "x", *(x if x is None else np.float32(x) for x in (low, high))), 0.5)
        yield g.by_reference("it leaves infinities where a bound is missing") if None in (low, high) else g
    yield single("Clip", i64(8), np.int64(-3), np.int64(4))
    yield single("Clip", u8(8), np.uint8(10), np.uint8(200))
    yield single("Clip", f32(4, 4), f32(low=None, values=[-0.5]), f32(values=[0.75]))


@family("openxla/xla#14478", "jax-ml/jax#37919", "jax-ml/jax#7701", "StanfordPL/stoke#904")
def identities_of_the_reals_only():
    def chain(*steps, big=True, **inputs):
        g = Graph(big=big, **(inputs or {"x": f32(4, 5)}))
        x = "x"
        for op, *others in steps:
            x = g.add(op, *(x if other == "." else other for other in (others or ["."])))
        return g
    two, half = np.float32(2), np.float32(0.5)
    yield chain(("Mul", ".", "."), ("Abs",), ("Sqrt",))
    yield chain(("Sqrt",), ("Mul", ".", "."))
    # The roots of -0 and of -inf are no powers: a rule may change the sign of a zero, and make NaN of an infinity.
    yield chain(("Pow", ".", half), ("Div", np.float32(1), "."), x=f32(4, 5, positive=True))
    yield chain(("Pow", ".", np.float32(0)), ("Log",))
    yield chain(("Sub", ".", "."), ("Add", ".", 1.0))
    yield chain(("Div", ".", "."),)
    yield chain(("Mul", ".", np.float32(0)), ("Add", ".", "x"))
    yield chain(("Log",), ("Exp",))
    yield chain(("Exp",), ("Log",))
    yield chain(("Reciprocal",), ("Reciprocal",))
    yield chain(("Neg",), ("Sqrt",), ("Neg",))
    yield chain(("Pow", ".", two), ("Pow", ".", half))
    g = chain(("Mul", ".", np.float32(1e30)), ("Mul", ".", np.float32(1e-30)))
    g.overflows = True
    yield g
    yield chain(("Add", ".", np.float32(1e8)), ("Sub", ".", np.float32(1e8)))
    yield chain(("Sub", np.float32(0), "."), ("Sub", np.float32(0), "."))
    yield chain(("Sub", "x", "y"), ("Neg",), ("Div", ".", "x"), x=f32(3, 4), y=f32(4))
    yield chain(("Sign",), ("Mul", ".", "x"), ("Sub", ".", "x"))


@family("iree-org/iree#20803")
def a_value_less_itself():
    for shape, one in (((1,), np.float32(1)), ((3, 2), np.ones(2, np.float32)), ((2, 3), np.float32(3))):
        g = Graph(x=f32(*shape), tolerance=1e-3, special=False)
        g.add("Sub", "x", g.add("Add", "x", one))
        yield g
    g = Graph(x=i64(5))
    g.add("Sub", "x", g.add("Add", "x", np.int64(1)))
    yield g


@family("jax-ml/jax#4780", "pytorch/pytorch#186281")
def products_with_zero():
    g = Graph(x=f32(2, 3), m=boolean(2, 3))
    total = g.add("ReduceMean", g.add("Where", "m", np.float32(NAN), "x"), keepdims=0)
    g.add("Add", g.add("Mul", total, np.float32(0)), g.add("ReduceMean", "x", keepdims=0))
    yield g
    for zero in (np.float32(0), np.zeros((3, 1), np.float32), np.float32(-0.0)):
        g = Graph(x=f32(3, 4), big=True)
        g.add("Add", g.add("Mul", zero, "x"), np.float32(1))
        yield g
    g = Graph(x=i32(6))
    g.add("Mul", "x", np.int32(0))
    yield g


@family("onnx/onnx#1874", "openvinotoolkit/openvino#20898", "microsoft/onnxruntime#32369",
        "openvinotoolkit/openvino#5173")
def remainders():
    for dtype in (i8, i16, i32, i64, u8, u32):
        low = 0 if dtype in (u8, u32) else -20
        divisors = [3, 7, 1, 5] if dtype in (u8, u32) else [3, -3, 7, -5]
        yield single("Mod", dtype(4, 6, low=low, high=20), dtype(6, values=divisors))
    for dtype in (f32, f64, f16):
        yield single("Mod", dtype(5, 4), dtype(4, values=[2.5, -1.5, 0.75, 3.0]), attributes={"fmod": 1},
                     gradients=False)
    for dtype in (i32, i64):
        yield single("Mod", dtype(2, 6, low=-20, high=20), dtype(6, values=[3, -3]), attributes={"fmod": 1})
    g = single("Mod", i32(4), np.array([-1, -1, 1, -1], np.int32))
    yield g.truth(lambda a: [np.zeros_like(a)], WHOLE)


@family("pytorch/pytorch#190041", "numpy/numpy#29893", "onnx/onnx#3637", "apache/tvm#17835")
def quotients_of_whole_numbers():
    for dtype in (i8, i16, i32, i64, u8, u16, u32, u64):
        numpy_type = dtype(1).dtype
        yield single("Div", dtype(9), numpy_type(7))
    for divisor in (-3, 2, 1, -4):
        g = Graph(x=i32(3, 5))
        g.add("Div", "x", np.int32(divisor))
        yield g
    g = Graph(x=i64(7, low=-50, high=50))
    g.add("Mul", g.add("Div", "x", np.int64(6)), np.int64(6))
    yield g
    g = Graph(x=i64(7, low=-50, high=50))
    g.add("Div", g.add("Div", "x", np.int64(3)), np.int64(-2))
    yield g
    g = Graph(x=i32(5))
    g.add("Div", g.add("Mul", "x", np.int32(6)), np.int32(3))
    yield g
    yield single("Div", i32(4), np.int32(-1)).truth(lambda a: [np.negative(a)], WHOLE)


@family("openvinotoolkit/openvino#35647", "openvinotoolkit/openvino#36178", "pytorch/pytorch#183901")
def whole_numbers_that_wrap_around():
    for dtype in (u8, i8, i16, i32, i64, u16, u32, u64):
        for op in ("Add", "Mul", "Sub"):
            if (op == "Mul") == (dtype in (u8, i8, i32, i64)) or dtype in (u8, i64):
                yield single(op, dtype(2, 4), dtype(4))
    for dtype in (i8, i32, i64):
        g = Graph(x=dtype(6))
        g.add("Add", g.add("Abs", "x"), g.add("Neg", "x"))
        yield g
    g = Graph(x=i32(5))
    g.add("Sub", g.add("Mul", g.add("Add", "x", np.int32(2**30)), np.int32(4)), g.add("Mul", "x", np.int32(4)))
    yield g
    g = Graph(x=i64(4, values=[[1500000000, 3000000000, -7, 2**40]]))
    g.add("Mul", "x", np.array([1, 2, 3, 5], np.int64))
    yield g
    yield single("Pow", i64(5, low=-9, high=10), np.int64(3))
    yield single("Pow", i32(5, low=-9, high=10), np.float32(2.0))
    yield single("Pow", f32(5), np.int64(3))
    yield single("Pow", i64(4, values=[[2**27 + 1, -3, 0, 5]]), np.int64(2)).truth(
        lambda a: [a * a], "onnxruntime computes powers of whole numbers in double")


@family("microsoft/onnxruntime#28262", "microsoft/onnxruntime#2207", "onnx/onnx#8270")
def shifts_of_bits():
    for dtype, bits in ((u8, 8), (u16, 16), (u32, 32), (u64, 64)):
        for direction in ("LEFT", "RIGHT"):
            g = single("BitShift", dtype(2, 5), dtype(5, values=[[0, 1, 3, bits - 1, bits]]),
                       attributes={"direction": direction})

            def shifted(a, b, bits=bits, direction=direction):
                result = a << np.minimum(b, bits - 1) if direction == "LEFT" else a >> np.minimum(b, bits - 1)
                return [np.where(b < bits, result, 0).astype(a.dtype)]
            yield g.truth(shifted, "onnxruntime shifts by all bits as the processor does: by none")


@family("microsoft/onnxruntime#8880")
def truth_values_and_bits():
    for op in ("And", "Or", "Xor"):
        yield single(op, boolean(3, 1), boolean(1, 4))
    yield single("Xor", boolean(1), np.array([False]))
    g = Graph(a=boolean(4), b=boolean(4))
    g.add("Not", g.add("And", g.add("Not", "a"), g.add("Not", "b")))
    yield g
    for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
        yield single(op, i32(2, 3), i32(3), opset=18)
    yield single("BitwiseNot", u8(5), opset=18)
    for op in ("Equal", "Less", "GreaterOrEqual"):
        yield single(op, f32(3, 4), f32(4))
    yield single("Less", u64(4), u64(4))
    yield single("Equal", i64(4), np.int64(2**63 - 1))
    g = Graph(x=f32(6))
    g.add("Not", g.add("Less", "x", np.float32(0)))
    yield g
    g = Graph(x=f32(6))
    g.add("Or", g.add("IsNaN", "x"), g.add("IsInf", "x", detect_negative=0))
    yield g


@family("openxla/xla#44705", "jax-ml/jax#38681")
def truth_values_as_numbers():
    g = Graph(x=i32(5))
    a = g.add("Cast", g.add("Xor", g.add("Cast", "x", to=TensorProto.BOOL), g.add("Cast", "x", to=TensorProto.BOOL)),
              to=TensorProto.FLOAT)
    g.add("Add", g.add("Exp", a), a)
    yield g
    g = Graph(x=f32(5), y=f32(5))
    g.add("Mul", g.add("Cast", g.add("Greater", "x", "y"), to=TensorProto.FLOAT), "x")
    yield g
    g = Graph(x=f32(5))
    g.add("Cast", g.add("Cast", "x", to=TensorProto.BOOL), to=TensorProto.INT64)
    yield g


@family("apache/tvm#19542", "openvinotoolkit/openvino#38073", "pytorch/pytorch#190421")
def conversions():
    inside = [[0.0, -0.0, 1.5, -1.5, 2.5, 0.999, -100.7, 100.2], [3.0, -3.0, 0.5, -0.5, 17.0, 64.5, -64.5, 99.9]]
    for to in (TensorProto.INT8, TensorProto.INT16, TensorProto.INT32, TensorProto.INT64):
        yield single("Cast", f32(8, values=inside), attributes={"to": to})
    for to in (TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64):
        yield single("Cast", f64(8, values=[np.abs(x) for x in inside]), attributes={"to": to})
    for dtype in (i64, i32, u8, i8):
        for to in (TensorProto.INT8, TensorProto.UINT8, TensorProto.FLOAT):
            yield single("Cast", dtype(6), attributes={"to": to})
    for to in (TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.BOOL, TensorProto.BFLOAT16):
        g = single("Cast", f32(8), attributes={"to": to}, big=True)
        yield g.by_reference("its Python takes no arrays of bfloat16") if to == TensorProto.BFLOAT16 else g
    g = Graph(x=f32(6), gradients=False)
    g.add("Cast", g.add("Cast", "x", to=TensorProto.FLOAT16), to=TensorProto.FLOAT)
    yield g
    g = Graph(x=i64(6))
    g.add("Cast", g.add("Cast", "x", to=TensorProto.INT32), to=TensorProto.INT64)
    yield g
    g = Graph(x=i64(6, low=-1000, high=1000))
    g.add("Cast", g.add("Mul", g.add("Cast", "x", to=TensorProto.FLOAT), np.float32(0.5)), to=TensorProto.INT64)
    yield g


@family("apache/tvm#18590", "onnx/onnx#3755", "ml-explore/mlx#474", "moonbitlang/core#3912")
def rounding():
    halves = [[-4.5, -2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 4.5],
              [0.49999997, -0.49999997, 8388609.0, -0.2, 0.2, 3.5, -3.5, 7]]
    for op in ("Round", "Floor", "Ceil"):
        yield single(op, f32(8, values=halves), gradients=False)
    yield single("Round", f64(8, values=halves), gradients=False)
    yield single("Round", f16(8, values=halves), gradients=False)
    g = Graph(x=f32(5), gradients=False)
    g.add("Div", np.float32(1), g.add("Ceil", "x"))
    yield g
    g = Graph(x=f32(4, 4), gradients=False)
    g.add("Round", g.add("Sigmoid", "x"))
    yield g
    g = Graph(x=f32(2, 8), gradients=False)
    g.add("Mul", g.add("Floor", g.add("Add", "x", np.float32(0.5))), np.float32(0.25))
    yield g
    yield single("Sign", f32(9), gradients=False)
    yield single("Sign", i8(9))


def log_of_sigmoid(x):
    """In float64, but for the sigmoid's own rounding to float32: it has values below the least normal number."""
    with np.errstate(over="ignore", divide="ignore"):
        return [np.log((1 / (1 + np.exp(-x.astype(np.float64)))).astype(np.float32))]


@family("microsoft/onnxruntime#10491", "onnx/onnx-mlir#365")
def functions_of_large_numbers():
    large = [[-104.0, -88.0, -12.3392, 0.0, 12.0, 88.5, 104.0, 1e4]]
    for op, attributes in (("Softplus", {}), ("Sigmoid", {}), ("Tanh", {}), ("Mish", {}), ("Exp", {}), ("Erf", {}),
                           ("HardSwish", {}), ("Gelu", {}), ("Gelu", {"approximate": "tanh"}), ("Sinh", {}),
                           ("Atan", {}), ("Asinh", {})):
        yield single(op, f32(8, values=[large[0], np.linspace(-20, 20, 8), np.linspace(-1, 1, 8)]), opset=20,
                     attributes=attributes, tolerance=2e-6)
    for op in ("Log", "Sqrt", "Acosh", "Reciprocal", "Atanh", "Asin"):
        yield single(op, f32(9), special=True, gradients=op == "Reciprocal")
    g = Graph(x=f32(3, 8, values=large))
    g.add("Log", g.add("Sigmoid", "x"))
    yield g.truth(log_of_sigmoid, "onnxruntime's sigmoid is 0 from -18 down")
    g = Graph(x=f32(3, 8))
    g.add("Mul", "x", g.add("Sigmoid", g.add("Mul", "x", np.float32(1.702))))
    yield g
    yield single("Shrink", f32(9), attributes={"lambd": 0.75, "bias": 0.25})
    yield single("Swish", f32(9), opset=24, attributes={"alpha": 0.5})


@family("apache/tvm#18598", "PaddlePaddle/X2Paddle#418", "microsoft/onnxruntime#28743")
def slopes():
    for slope in ((), (1,), (4,), (3, 1), (2, 3, 4), (3, 1, 1)):
        shape = (2, 3, 4) if len(slope) < 3 or slope == (2, 3, 4) else (2, 3, 4, 5)
        g = Graph(x=f32(*shape), special=False)
        g.add("PRelu", "x", g.weight(*slope))
        yield g
    g = Graph(x=f32(3, 4), s=f32(4))
    g.add("PRelu", "x", "s")
    yield g
    g = Graph(x=i32(3, 4))
    g.add("PRelu", "x", np.int32(-2))
    yield g


@family("microsoft/onnxruntime#11024", "microsoft/onnxruntime#681")
def shapes_that_broadcast():
    for op in ("Add", "Div", "Pow"):
        g = Graph(x=f32(2, 1, 4, positive=True), y=f32(3, 1, positive=True))
        g.add(op, g.add("Add", "x", np.float32(1)), "y")
        yield g
    for shape, other in (((0, 3), (3,)), ((2, 0), (1,)), ((2, 1), (1, 0)), ((), ()), ((1, 1, 1), ())):
        g = Graph(x=f32(*shape), y=f32(*other), gradients=False)
        g.add("Relu", g.add("Mul", "x", "y"))
        yield g
    for op in ("Sum", "Mean", "Max"):
        g = Graph(x=f32(4, 1), y=f32(1, 3), z=f32(3))
        g.add(op, "x", "y", "z")
        yield g
    g = Graph(c=boolean(2, 1, 3), x=f32(4, 1), y=f32())
    g.add("Where", "c", "x", "y")
    yield g
    g = Graph(c=boolean(3), x=i64(2, 1), y=i64(1))
    g.add("Where", "c", "x", "y")
    yield g
    g = Graph(x=f32(3, 4))
    g.add("Where", g.add("Less", "x", np.float32(0)), g.add("Exp", "x"), np.float32(1))
    yield g
