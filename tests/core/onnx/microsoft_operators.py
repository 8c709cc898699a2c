"""Operators of the domain com.microsoft, each as a model of one node: the interpreter, and the file that is written in our
own forms, against onnxruntime without its optimizations. Quantized ones must give its bits, at drawn scales and zero points,
but for those that it computes by tables of its own.

Usage: microsoft_operators.py ONNX_PROGRAM [PATTERN]
"""
import itertools
import pathlib
import re
import sys
import tempfile

import numpy as np
import onnx
import onnx.helper as helper
import onnxruntime
from onnx import numpy_helper

from onnx_jobs import Program, difference, session

BITS = (0, 0)
FLOATS = (2e-5, 2e-6)
UNIT = (0, 1)  # of quantized elements


class Case:
    """`inputs`: by name, arrays, or None where one is left away; those of `weights` are initializers. `fused`: what is
    written of the operator in parts is one node again after onnxruntime's optimizations."""

    def __init__(self, name, op, inputs, attributes=None, outputs=1, close=FLOATS, weights=(), domain="com.microsoft",
                 fused=False):
        self.name, self.op, self.inputs, self.attributes, self.fused = name, op, inputs, attributes or {}, fused
        self.outputs, self.close, self.weights, self.domain = outputs, close, weights, domain

    def feeds(self):
        return {n: x for n, x in self.inputs.items() if x is not None and n not in self.weights}

    def model(self):
        names = [n if x is not None else "" for n, x in self.inputs.items()]
        results = [f"y{i}" if self.outputs & (1 << i) else "" for i in range(self.outputs.bit_length())]
        node = helper.make_node(self.op, names, results, domain=self.domain, **self.attributes)
        graph = helper.make_graph(
            [node], "case",
            [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
             for n, x in self.feeds().items()],
            [onnx.ValueInfoProto(name=r) for r in results if r],
            [numpy_helper.from_array(self.inputs[n], n) for n in self.weights if self.inputs[n] is not None])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 16),
                                                        helper.make_opsetid("com.microsoft", 1)])
        model.ir_version = 8
        return model


def quantized(dtype, seed):
    """Cases of elements of a type."""
    random = np.random.default_rng(seed)
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    name = np.dtype(dtype).name

    def elements(*shape):
        return random.integers(low, high + 1, shape).astype(dtype)

    def scale():
        return np.float32(random.uniform(0.01, 0.1)).reshape(())

    def point():
        return np.array(random.integers(low + 60, high - 60), dtype)

    def parameters(*suffixes):
        return {k: v for s in suffixes for k, v in ((f"s{s}", scale()), (f"z{s}", point()))}

    def two():
        p = parameters("a", "b", "c")
        return dict(a=elements(3, 4000), sa=p["sa"], za=p["za"], b=elements(3, 4000), sb=p["sb"], zb=p["zb"],
                    sc=p["sc"], zc=p["zc"])

    def one(x, sigmoid=False):
        p = parameters("a", "c")
        fixed = dict(sc=np.float32(1 / 256).reshape(()), zc=np.array(low, dtype)) if sigmoid else {}
        return dict(x=x, sa=p["sa"], za=p["za"], sc=p["sc"], zc=p["zc"]) | fixed

    pair, single = ("sa", "za", "sb", "zb", "sc", "zc"), ("sa", "za", "sc", "zc")
    image = elements(2, 3, 14, 15)
    pool = dict(kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    every = np.arange(low, high + 1).astype(dtype).reshape(2, -1)
    yield Case(f"QLinearAdd_{name}", "QLinearAdd", two(), close=BITS, weights=pair)
    yield Case(f"QLinearMul_{name}", "QLinearMul", two(), close=BITS, weights=pair)
    yield Case(f"QLinearSigmoid_{name}", "QLinearSigmoid", one(every, True), close=BITS, weights=single)
    yield Case(f"QLinearLeakyRelu_{name}", "QLinearLeakyRelu", one(every), dict(alpha=0.3), close=BITS, weights=single)
    yield Case(f"QLinearSoftmax_{name}", "QLinearSoftmax", one(elements(64, 100), True), dict(axis=-1, opset=13),
               close=UNIT, weights=single)
    yield Case(f"QLinearGlobalAveragePool_{name}", "QLinearGlobalAveragePool", one(image), close=BITS, weights=single)
    for border in (0, 1):
        yield Case(f"QLinearAveragePool_{border}_{name}", "QLinearAveragePool", one(image),
                   pool | dict(count_include_pad=border), close=BITS, weights=single)
    p = parameters("a", "b", "c")
    yield Case(f"QLinearConcat_{name}", "QLinearConcat",
               dict(sc=p["sc"], zc=p["zc"], a=elements(2, 3, 50), sa=p["sa"], za=p["za"], b=elements(2, 4, 50),
                    sb=p["sb"], zb=p["zb"]), dict(axis=1), close=BITS, weights=pair)
    p = parameters("a", "b", "c")
    a, b = elements(9, 40), elements(40, 12)
    addend = random.integers(-9000, 9000, 12).astype(np.int32)
    columns = random.uniform(0.01, 0.1, 12).astype(np.float32)
    large = np.float32(20).reshape(())
    gemm = dict(a=a, sa=p["sa"], za=p["za"], b=b, sb=p["sb"], zb=p["zb"], c=addend)
    fixed = ("sa", "za", "b", "sb", "zb", "c", "sc", "zc")
    yield Case(f"QGemm_{name}", "QGemm", gemm | dict(sc=large, zc=p["zc"]), close=BITS, weights=fixed)
    yield Case(f"QGemm_transposed_{name}", "QGemm",
               gemm | dict(a=a.T.copy(), b=b.T.copy(), sb=columns, zb=np.full(12, p["zb"]), sc=large, zc=p["zc"]),
               dict(transA=1, transB=1, alpha=1.0), close=BITS, weights=fixed)
    yield Case(f"QGemm_real_{name}", "QGemm", gemm, close=(1e-6, 1e-6), weights=fixed[:6])
    yield Case(f"DequantizeLinear_{name}", "DequantizeLinear", dict(x=every, sa=p["sa"], za=p["za"]), close=BITS,
               weights=("sa", "za"))
    yield Case(f"QuantizeLinear_{name}", "QuantizeLinear",
               dict(x=random.uniform(-9, 9, (4, 500)).astype(np.float32), sa=p["sa"], za=p["za"]), close=BITS,
               weights=("sa", "za"))
    bias = random.standard_normal(12).astype(np.float32)
    for label, scales in (("", p["sb"]), ("columns_", columns)):
        yield Case(f"MatMulIntegerToFloat_{label}{name}", "MatMulIntegerToFloat",
                   dict(a=elements(9, 40).astype(np.uint8), b=b, sa=p["sa"], sb=scales, za=np.array(7, np.uint8),
                        zb=p["zb"] if not label else np.full(12, p["zb"]), bias=bias), close=(1e-6, 1e-6),
                   weights=("b", "sa", "sb", "za", "zb", "bias"))
    yield Case(f"DynamicQuantizeMatMul_{name}", "DynamicQuantizeMatMul",
               dict(x=random.standard_normal((2, 9, 40)).astype(np.float32), b=b, sb=p["sb"], zb=p["zb"], bias=bias),
               close=(1e-5, 1e-5), weights=("b", "sb", "zb", "bias"))


def floats():
    random = np.random.default_rng(7)

    def real(*shape):
        return random.standard_normal(shape).astype(np.float32)

    x, w, bias = real(2, 4, 9, 8), real(6, 4, 3, 3), real(6)
    for name, params in (("Relu", None), ("Sigmoid", None), ("Tanh", None), ("LeakyRelu", [0.2]), ("Clip", [0.0, 1.5]),
                         ("HardSigmoid", [0.3, 0.4])):
        options = dict(activation=name) | (dict(activation_params=params) if params else {})
        yield Case(f"FusedConv_{name}", "FusedConv", dict(x=x, w=w, b=bias), dict(pads=[1, 1, 1, 1]) | options)
    yield Case("FusedConv_sum", "FusedConv", dict(x=x, w=w, b=bias, z=real(2, 6, 7, 6)), dict(activation="Relu"))
    yield Case("FusedGemm", "FusedGemm", dict(a=real(5, 7), b=real(6, 7), c=real(6)),
               dict(transB=1, alpha=0.5, activation="LeakyRelu", activation_alpha=0.2))
    yield Case("FusedMatMul", "FusedMatMul", dict(a=real(2, 3, 7, 5), b=real(2, 3, 6, 7)),
               dict(transA=1, transB=1, alpha=0.3))
    for op in ("Gelu", "FastGelu", "QuickGelu"):
        yield Case(op, op, dict(x=3 * real(4, 33)), fused=True)
    yield Case("BiasGelu", "BiasGelu", dict(x=real(4, 33), b=real(33)))
    yield Case("FastGelu_bias", "FastGelu", dict(x=real(4, 33), b=real(33)))
    yield Case("LayerNormalization_16", "LayerNormalization", dict(x=real(2, 5, 32), s=real(32), b=real(32)),
               dict(epsilon=1e-3), domain="")
    yield Case("SimplifiedLayerNormalization", "SimplifiedLayerNormalization", dict(x=real(2, 5, 32), s=real(32)),
               dict(epsilon=1e-3), domain="")
    skip = dict(x=real(2, 5, 32), skip=real(2, 5, 32), s=real(32))
    yield Case("SkipLayerNormalization", "SkipLayerNormalization", skip | dict(b=real(32), bias=real(32)), outputs=9)
    yield Case("SkipLayerNormalization_plain", "SkipLayerNormalization", skip, dict(epsilon=1e-3))
    yield Case("SkipSimplifiedLayerNormalization", "SkipSimplifiedLayerNormalization", skip | dict(bias=real(32)),
               outputs=9)
    tokens = random.integers(0, 20, (2, 6)).astype(np.int32)
    embed = dict(ids=tokens, segments=tokens % 2, words=real(20, 16), positions=real(9, 16), kinds=real(2, 16),
                 s=real(16), b=real(16), mask=(tokens > 3).astype(np.int32))
    yield Case("EmbedLayerNormalization", "EmbedLayerNormalization", embed, outputs=3)
    yield Case("EmbedLayerNormalization_plain", "EmbedLayerNormalization",
               embed | dict(segments=None, kinds=None, mask=None), outputs=3)
    joined = dict(x=real(2, 5, 16), w=real(16, 48) / 4, bias=real(48))
    lengths = np.array([3, 5], np.int32)
    mask = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)
    yield Case("Attention", "Attention", joined, dict(num_heads=4))
    yield Case("Attention_lengths", "Attention", joined | dict(mask=lengths), dict(num_heads=4))
    yield Case("Attention_mask", "Attention", joined | dict(mask=mask), dict(num_heads=4, scale=0.3))
    yield Case("Attention_mask_of_queries", "Attention", joined | dict(mask=np.stack([mask] * 5, 1)), dict(num_heads=4))
    yield Case("Attention_causal_past", "Attention", joined | dict(mask=None, past=real(2, 2, 4, 3, 4)),
               dict(num_heads=4, unidirectional=1), outputs=3)
    yield Case("Attention_bias", "Attention", joined | dict(mask=None, past=None, bias2=real(2, 4, 5, 5)),
               dict(num_heads=4))
    many = dict(q=real(2, 5, 16), k=real(2, 7, 16), v=real(2, 7, 16))
    yield Case("MultiHeadAttention", "MultiHeadAttention", many | dict(bias=real(48)), dict(num_heads=4))
    yield Case("MultiHeadAttention_mask", "MultiHeadAttention",
               many | dict(bias=None, mask=np.array([[1] * 4 + [0] * 3, [1] * 7], np.int32)), dict(num_heads=4))
    yield Case("MultiHeadAttention_past", "MultiHeadAttention",
               many | dict(k=real(2, 5, 16), v=real(2, 5, 16), bias=None, mask=None, scores=real(1, 4, 5, 8),
                           past_k=real(2, 4, 3, 4), past_v=real(2, 4, 3, 4)), dict(num_heads=4), outputs=7)
    caches = dict(cos=np.cos(real(12, 4)), sin=np.sin(real(12, 4)))
    positions = random.integers(0, 12, (2, 5)).astype(np.int64)
    for interleaved in (0, 1):
        yield Case(f"RotaryEmbedding_{interleaved}", "RotaryEmbedding", dict(x=real(2, 5, 24), at=positions) | caches,
                   dict(interleaved=interleaved))
        yield Case(f"RotaryEmbedding_offset_{interleaved}", "RotaryEmbedding",
                   dict(x=real(2, 3, 5, 8), at=np.array([4], np.int64)) | caches, dict(interleaved=interleaved))


def narrow():
    """MatMulNBits at all bits and groups, zero points left away, packed and (where onnxruntime has them) real, depths that fill no group."""
    random = np.random.default_rng(11)
    for number, (bits, block, points, dtype, depth) in enumerate(itertools.product(
            (2, 4, 8), (16, 32, 64, 128, 256), (None, np.uint8, np.float32), (np.float32, np.float16), (96, 83))):
        if number % 7 and block != 32 or bits != 4 and points == np.float32:
            continue
        columns, groups = 12, -(-depth // block)
        zero = None
        if points == np.uint8:
            zero = random.integers(0, 256, (columns, -(-groups * bits // 8))).astype(np.uint8)
        elif points is not None:
            zero = random.integers(0, 2**bits, (columns, groups)).astype(dtype)
        inputs = dict(x=random.standard_normal((2, 3, depth)).astype(dtype),
                      w=random.integers(0, 256, (columns, groups, block * bits // 8)).astype(np.uint8),
                      s=random.uniform(0.01, 0.1, (columns, groups)).astype(dtype), z=zero, order=None,
                      bias=random.standard_normal(columns).astype(dtype) if number % 2 else None)
        label = f"{bits}_{block}_{depth}_{np.dtype(dtype).name}_{points.__name__ if points else 'none'}"
        yield Case(f"MatMulNBits_{label}", "MatMulNBits", inputs,
                   dict(K=depth, N=columns, bits=bits, block_size=block) | ({} if number % 3 else dict(accuracy_level=1)),
                   close=(2e-5, 2e-5) if dtype == np.float32 else (4e-3, 4e-3), weights=("w", "s", "z", "bias"))


def wrong_of(program, case, folder):
    model = folder / "model.onnx"
    onnx.save(case.model(), model)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    feeds = case.feeds()
    try:
        expected = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"]).run(None, feeds)
    except Exception as e:
        return f"the case is wrong: {str(e)[:200]}"
    files = []
    for i, x in enumerate(feeds.values()):
        files.append(folder / f"input_{i}.npy")
        np.save(files[-1], x)
    exported = folder / "exported.onnx"
    verdict, message = program.run(model, folder, exported, "-", files)
    if verdict != "ok":
        return f"{verdict}: {message}"
    found = [np.load(folder / f"{i}.npy") for i in range(len(expected))]
    for where, values in (("interpreted", found), ("exported", session(exported).run(None, feeds))):
        for value, truth in zip(values, expected, strict=True):
            wrong = difference(value, truth, *case.close)
            if wrong:
                return f"{where}: {wrong}"
    return wrong_fusion(case.op, onnx.load(exported), folder) if case.fused else None


def wrong_fusion(op, model, folder):
    """With a node behind it: not all results of a model are results of fusions."""
    graph = model.graph
    graph.node[-1].output[0] = "inner"
    graph.node.append(helper.make_node("Neg", ["inner"], [graph.output[0].name]))
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(folder / "optimized.onnx")
    onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    nodes = [node.op_type for node in onnx.load(folder / "optimized.onnx").graph.node]
    return None if nodes == [op, "Neg"] else f"onnxruntime makes of what is written {nodes}, expected {op} alone"


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    program = Program(sys.argv[1])
    pattern = re.compile(sys.argv[2] if len(sys.argv) > 2 else "")
    cases = [c for dtype in (np.uint8, np.int8) for seed in range(2) for c in quantized(dtype, seed)] + [*floats(), *narrow()]
    cases = [c for c in cases if pattern.search(c.name)]
    failures = 0
    for case in cases:
        with tempfile.TemporaryDirectory() as folder:
            wrong = wrong_of(program, case, pathlib.Path(folder))
        failures += wrong is not None
        if wrong:
            print(f"{case.name}: {wrong}", flush=True)
    print(f"{len(cases) - failures} of {len(cases)} right")
    return 1 if failures or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
