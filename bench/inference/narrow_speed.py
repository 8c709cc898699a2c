#!/usr/bin/env python3
"""Three models in narrow types: our CPU device beside onnxruntime, in CPU time a run.

    bench/inference/narrow_speed.py build/release/rewright [--folder FOLDER] [--runs N]

A convolutional network, a perceptron and attention with random weights, written as PyTorch's older exporter writes them, as
float32, float16 and bfloat16, and quantized by onnxruntime: in its quantized operators, and with scales that the data tell.
One thread. CPU time is measured, which other processes move less than time on the clock: of ours the difference between a
process of N runs and one of 5 N, of onnxruntime that of N runs in this process, each the least of five, in turn. The
outputs are compared: the largest difference, of the largest element.
"""
import argparse
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static


class Samples(CalibrationDataReader):
    def __init__(self, shape):
        self.samples = iter([{"x": np.random.default_rng(i).standard_normal(shape).astype(np.float32)}
                             for i in range(8)])

    def get_next(self):
        return next(self.samples, None)


class Writer:
    """The nodes and weights of a model, from the input x to the output y."""

    def __init__(self, dtype):
        self.dtype, self.nodes, self.weights = dtype, [], []
        self.random = np.random.default_rng(1)

    def op(self, op, *inputs, **attributes):
        name = f"{op}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], name=name, **attributes))
        return name

    def constant(self, values):
        name = f"w{len(self.weights)}"
        values = np.asarray(values, np.float32).astype(helper.tensor_dtype_to_np_dtype(self.dtype))
        self.weights.append(numpy_helper.from_array(values, name))
        return name

    def weight(self, fan_in, *shape):
        return self.constant(self.random.uniform(-1, 1, shape) / np.sqrt(fan_in))

    def linear(self, x, inputs, outputs):
        """A row of features, or a sequence of such rows."""
        return self.op("Gemm", x, self.weight(inputs, outputs, inputs), self.weight(inputs, outputs), transB=1)

    def linear_of_sequences(self, x, inputs, outputs):
        product = self.op("MatMul", x, self.weight(inputs, inputs, outputs))
        return self.op("Add", self.weight(inputs, outputs), product)

    def model(self, y, shape, out_shape):
        self.nodes.append(helper.make_node("Identity", [y], ["y"]))
        graph = helper.make_graph(self.nodes, "model", [helper.make_tensor_value_info("x", self.dtype, shape)],
                                  [helper.make_tensor_value_info("y", self.dtype, out_shape)], self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def convolutions(w):
    x, channels = "x", 3
    for width, stride in ((32, 2), (64, 1), (64, 2), (128, 1), (128, 2)):
        weights = [w.weight(9 * channels, width, channels, 3, 3), w.weight(9 * channels, width)]
        x = w.op("Relu", w.op("Conv", x, *weights, kernel_shape=[3, 3], strides=[stride] * 2, pads=[1] * 4))
        channels = width
    return w.linear(w.op("Flatten", x), 128 * 8 * 8, 10)


def perceptron(w):
    x = w.op("Relu", w.linear("x", 512, 1024))
    return w.linear(w.op("Relu", w.linear(x, 1024, 1024)), 1024, 64)


def attention(w, width=256):
    q, k, v = (w.linear_of_sequences("x", width, width) for _ in range(3))
    scores = w.op("Div", w.op("MatMul", q, w.op("Transpose", k, perm=[0, 2, 1])), w.constant(16))
    mixed = w.op("MatMul", w.op("Softmax", scores, axis=-1), v)
    x = w.op("Add", "x", w.linear_of_sequences(mixed, width, width))
    wide = w.op("Relu", w.linear_of_sequences(x, width, 4 * width))
    return w.op("Add", x, w.linear_of_sequences(wide, 4 * width, width))


MODELS = {
    "conv": ((1, 3, 64, 64), (1, 10), convolutions),
    "mlp": ((32, 512), (32, 64), perceptron),
    "attention": ((1, 128, 256), (1, 128, 256), attention),
}
TYPES = {"float32": TensorProto.FLOAT, "float16": TensorProto.FLOAT16, "bfloat16": TensorProto.BFLOAT16}


def write(name, kind, path):
    shape, out_shape, nodes = MODELS[name]
    writer = Writer(TYPES[kind])
    onnx.save(writer.model(nodes(writer), shape, out_shape), path)


def seconds_of(program, path, count):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([program, "run", path, "--threads", "1", "--iterations", str(count), "--warmup", "1", "--quiet"],
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before.ru_utime


def outputs_of(program, path, x, folder):
    np.save(folder / "x.npy", x)
    subprocess.run([program, "run", path, "--threads", "1", "--iterations", "1", "--warmup", "0", "--quiet", "--input",
                    f"x={folder / 'x.npy'}", "--output-dir", folder / "out"], check=True, stdout=subprocess.DEVNULL)
    return np.load(folder / "out" / "y.npy").astype(np.float64)


class Onnxruntime:
    def __init__(self, path, x):
        options = ort.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = 1
        self.session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        self.feeds = {"x": x}

    def run(self):
        return self.session.run(None, self.feeds)[0].astype(np.float64)

    def seconds(self, runs):
        start = time.process_time()
        for _ in range(runs):
            self.session.run(None, self.feeds)
        return (time.process_time() - start) / runs


def measure(program, path, x, runs, folder):
    """A row: ms of ours and of onnxruntime, their ratio, the largest difference of the outputs."""
    try:
        theirs = Onnxruntime(path, x)
        expected = theirs.run()
    except Exception:  # it has no kernels for a type
        theirs = None
    few, many, other = [], [], []
    for _ in range(5):
        few.append(seconds_of(program, path, runs))
        many.append(seconds_of(program, path, 5 * runs))
        if theirs is not None:
            other.append(theirs.seconds(runs))
    mine = (min(many) - min(few)) / (4 * runs) * 1e3
    if theirs is None:
        return f"{mine:.3f},,,"
    difference = np.abs(outputs_of(program, path, x, folder) - expected).max() / np.abs(expected).max()
    return f"{mine:.3f},{min(other) * 1e3:.3f},{mine / min(other) / 1e3:.2f},{difference:.2g}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--folder")
    parser.add_argument("--runs", type=int, default=50)
    arguments = parser.parse_args()
    cpu = next(line for line in open("/proc/cpuinfo") if line.startswith("model name")).split(":")[1].strip()
    print(f"# bench/inference/narrow_speed.py on {cpu}, onnxruntime {ort.__version__}; ms of CPU time a run, one thread")
    print("model,type,ours_ms,onnxruntime_ms,ratio,difference")
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(arguments.folder or scratch)
        for name, (shape, _, _) in MODELS.items():
            x = np.random.default_rng(99).standard_normal(shape).astype(np.float32)
            plain = folder / f"{name}.float32.onnx"
            write(name, "float32", plain)
            for kind in (*TYPES, "qoperator", "dynamic"):
                path, feed = folder / f"{name}.{kind}.onnx", x
                if kind in TYPES:
                    write(name, kind, path)
                    feed = x.astype(helper.tensor_dtype_to_np_dtype(TYPES[kind]))
                elif kind == "dynamic":
                    # Weights without a sign: onnxruntime has no ConvInteger of others.
                    quantize_dynamic(str(plain), str(path), weight_type=QuantType.QUInt8)
                else:
                    quantize_static(str(plain), str(path), Samples(shape), quant_format=QuantFormat.QOperator,
                                    activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8)
                print(f"{name},{kind},{measure(arguments.program, path, feed, arguments.runs, folder)}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
