#!/usr/bin/env python3
"""Three models in narrow types: our CPU device beside onnxruntime, in CPU time a run.

    bench/narrow_speed.py build/release/rewright [--folder FOLDER] [--runs N]

A convolutional network, a perceptron and attention with random weights, as float32, float16 and bfloat16, and quantized
by onnxruntime: in its quantized operators, and with scales that the data tell. One thread. CPU time is measured, which
other processes move less than time on the clock: of ours the difference between a process of N runs and one of 3 N,
of onnxruntime that of N runs in this process, each the least of three.
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
import torch
from onnxruntime.quantization import QuantFormat, QuantType, quantize_dynamic, quantize_static

import narrow_types

nn = torch.nn


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        weights = torch.softmax(self.q(x) @ self.k(x).transpose(1, 2) / 16, -1)
        x = x + self.out(weights @ self.v(x))
        return x + self.down(torch.relu(self.up(x)))


def convolutions():
    layers, channels = [], 3
    for width, stride in ((32, 2), (64, 1), (64, 2), (128, 1), (128, 2)):
        layers += [nn.Conv2d(channels, width, 3, stride=stride, padding=1), nn.ReLU()]
        channels = width
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(128 * 8 * 8, 10))


MODELS = {
    "conv": ((1, 3, 64, 64), convolutions),
    "mlp": ((32, 512), lambda: nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(),
                                             nn.Linear(1024, 64))),
    "attention": ((1, 128, 256), lambda: Attention(256)),
}


def export(name, dtype, path):
    shape, make = MODELS[name]
    torch.manual_seed(1)
    model = make().eval().to(dtype)
    with torch.no_grad():
        torch.onnx.export(model, (torch.randn(shape).to(dtype),), str(path), dynamo=False, opset_version=17,
                          input_names=["x"])


def ours(program, path, runs):
    def seconds(count):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([program, "run", path, "--threads", "1", "--iterations", str(count), "--warmup", "1", "--quiet"],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime - before.ru_utime
    few, many = min(seconds(runs) for _ in range(3)), min(seconds(3 * runs) for _ in range(3))
    return (many - few) / (2 * runs)


def onnxruntime(path, x, runs):
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    feeds = {session.get_inputs()[0].name: x}
    session.run(None, feeds)

    def seconds():
        start = time.process_time()
        for _ in range(runs):
            session.run(None, feeds)
        return (time.process_time() - start) / runs
    return min(seconds() for _ in range(3))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--folder")
    parser.add_argument("--runs", type=int, default=50)
    arguments = parser.parse_args()
    cpu = next(line for line in open("/proc/cpuinfo") if line.startswith("model name")).split(":")[1].strip()
    print(f"# bench/narrow_speed.py on {cpu}, onnxruntime {ort.__version__}; ms of CPU time a run, one thread")
    print("model,type,ours_ms,onnxruntime_ms,ratio")
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(arguments.folder or scratch)
        for name, (shape, _) in MODELS.items():
            x = np.random.default_rng(99).standard_normal(shape).astype(np.float32)
            plain = folder / f"{name}.float32.onnx"
            export(name, torch.float32, plain)
            for kind in ("float32", "float16", "bfloat16", "qoperator", "dynamic"):
                path, feed = folder / f"{name}.{kind}.onnx", x
                if kind in ("float16", "bfloat16"):
                    export(name, getattr(torch, kind), path)
                    feed = x.astype(np.float16 if kind == "float16" else
                                    onnx.helper.tensor_dtype_to_np_dtype(onnx.TensorProto.BFLOAT16))
                elif kind == "dynamic":
                    # Weights without a sign: onnxruntime has no ConvInteger of others.
                    quantize_dynamic(str(plain), str(path), weight_type=QuantType.QUInt8)
                elif kind == "qoperator":
                    quantize_static(str(plain), str(path), narrow_types.Samples(shape), quant_format=QuantFormat.QOperator,
                                    activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8)
                mine = ours(arguments.program, str(path), arguments.runs) * 1e3
                try:
                    theirs = onnxruntime(path, feed, arguments.runs) * 1e3
                    print(f"{name},{kind},{mine:.3f},{theirs:.3f},{mine / theirs:.2f}", flush=True)
                except Exception as error:
                    print(f"{name},{kind},{mine:.3f},,  # onnxruntime: {str(error)[:60]}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
