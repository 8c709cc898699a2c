#!/usr/bin/env python3
"""What onnxruntime's QLinearAdd computes: how many elements of random sums differ from formulas with other roundings.

    bench/rounding/quantized_sums.py [--sums N]

With the ratios r = scale / scale of the result and f = zero - (r_a * zero_a + r_b * zero_b): (a * r_a + f) + b * r_b with a
rounding after every operation, as the importer reads it, and a * r_a + (b * r_b + f) with one rounding for each product
and the sum that it is part of, as instructions that fuse the two round. The right operand is a tensor like the left one, or a
row. N sums each of 65,536 elements.
"""
import argparse

import numpy as np
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

f32 = np.float32


def fused(x, y, z):
    """x * y + z, rounded once: the product of an integer of 8 bits and an f32 is exact in f64."""
    return (np.asarray(x, np.float64) * np.float64(y) + np.asarray(z, np.float64)).astype(f32)


def session(scales, zeros, shape):
    def number(name, value, dtype):
        return numpy_helper.from_array(np.array(value, dtype), name)

    inputs = ["a", "sa", "za", "b", "sb", "zb", "sc", "zc"]
    node = helper.make_node("QLinearAdd", inputs, ["c"], domain="com.microsoft")
    given = [number("s" + x, s, f32) for x, s in zip("abc", scales)]
    given += [number("z" + x, z, np.uint8) for x, z in zip("abc", zeros)]
    graph = helper.make_graph(
        [node], "sum",
        [helper.make_tensor_value_info("a", TensorProto.UINT8, (64, 1024)),
         helper.make_tensor_value_info("b", TensorProto.UINT8, shape)],
        [helper.make_tensor_value_info("c", TensorProto.UINT8, (64, 1024))], given)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    return ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sums", type=int, default=30)
    arguments = parser.parse_args()
    rng = np.random.default_rng(0)
    cpu = next(line for line in open("/proc/cpuinfo") if line.startswith("model name")).split(":")[1].strip()
    print(f"# bench/rounding/quantized_sums.py on {cpu}, onnxruntime {ort.__version__}")
    for shape in ((64, 1024), (1024,)):
        differ = {"separate roundings": 0, "fused ones": 0}
        for _ in range(arguments.sums):
            sa, sb, sc = (f32(x) for x in rng.uniform(0.005, 0.05, 3))
            za, zb, zc = (int(x) for x in rng.integers(0, 256, 3))
            a, b = (rng.integers(0, 256, sizes).astype(np.uint8) for sizes in ((64, 1024), shape))
            found = session((sa, sb, sc), (za, zb, zc), shape).run(None, {"a": a, "b": b})[0]
            ra, rb = sa / sc, sb / sc
            a, b = a.astype(f32), b.astype(f32)
            formulas = {
                "separate roundings": (a * ra + (f32(zc) - (ra * f32(za) + rb * f32(zb)))) + b * rb,
                "fused ones": fused(a, ra, fused(b, rb, f32(zc) - fused(za, ra, rb * f32(zb)))),
            }
            for name, values in formulas.items():
                differ[name] += int((np.clip(np.rint(values), 0, 255).astype(np.uint8) != found).sum())
        counts = ", ".join(f"{count} with {name}" for name, count in differ.items())
        print(f"right operand {shape}: of {arguments.sums * 65536} elements differ {counts}")


if __name__ == "__main__":
    main()
