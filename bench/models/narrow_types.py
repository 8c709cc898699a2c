#!/usr/bin/env python3
"""Models of narrow types beside onnxruntime: the interpreter's outputs, and those of the file that is written.

    bench/models/narrow_types.py build/release/tests/core/onnx/onnx_program [--folder FOLDER]

Five small models with random weights are exported by PyTorch (as float16, as bfloat16, by both exporters where onnxscript
is there), quantized by onnxruntime (QDQ, its own quantized operators, integer operators with dynamic scales), and fused by
its extended optimizations. For each, the greatest difference, relative to the largest element, from onnxruntime without
its optimizations to: the interpreter (`ours`), the file with the nodes that were read in it (`kept`), the file in our own
forms (`own`), and for scale onnxruntime with its optimizations (`ort`). Models of bfloat16 are compared with PyTorch
instead.
"""
import argparse
import logging
import os
import pathlib
import sys
import tempfile
import warnings

import numpy as np
import onnx
import onnxruntime as ort
import torch
from onnxruntime.quantization import QuantFormat, QuantType, quantize_dynamic, quantize_static

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from inference.narrow_speed import Samples  # noqa: E402

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests/core/onnx"))
from onnx_jobs import Program  # noqa: E402

nn = torch.nn
warnings.filterwarnings("ignore")
logging.disable(logging.ERROR)
torch.set_num_threads(1)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(32, 32) for _ in range(4))
        self.norm = nn.LayerNorm(32)

    def forward(self, x):
        weights = torch.softmax(self.q(x) @ self.k(x).transpose(1, 2) / 5.6, -1)
        return self.norm(x + self.out(weights @ self.v(x)))


class Mixture(nn.Module):
    """Group norm, a transposed convolution, a skip connection, pools, cumulative sums."""

    def __init__(self):
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.SiLU())
        self.deep = nn.Sequential(nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.GroupNorm(4, 32), nn.GELU())
        self.up = nn.ConvTranspose2d(32, 16, 2, stride=2)

    def forward(self, x):
        a = self.down(x)
        return nn.functional.avg_pool2d(torch.cat([a, self.up(self.deep(a))], 1), 3).cumsum(-1)


class Residual(nn.Module):
    """Sums, products, a sigmoid and concatenations of quantized tensors, and pools of them."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.second = nn.Conv2d(8, 8, 3, padding=1)
        self.gate = nn.Conv2d(8, 8, 1)
        self.out = nn.Linear(16, 5)

    def forward(self, x):
        a = nn.functional.leaky_relu(self.first(x), 0.1)
        b = nn.functional.avg_pool2d(torch.sigmoid(self.gate(a)) * self.second(a) + a, 2)
        return torch.softmax(self.out(nn.functional.adaptive_avg_pool2d(torch.cat([b, b * b], 1), 1).flatten(1)), -1)


MODELS = {
    "conv": ((1, 3, 16, 16), lambda: nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 12, 3, stride=2), nn.ReLU(),
        nn.Flatten(), nn.Linear(108, 10))),
    "mlp": ((4, 33), lambda: nn.Sequential(nn.Linear(33, 47), nn.GELU(), nn.Linear(47, 19), nn.Sigmoid(),
                                           nn.Linear(19, 5))),
    "attention": ((1, 9, 32), Attention),
    "mixture": ((1, 3, 14, 14), Mixture),
    "residual": ((1, 3, 16, 16), Residual),
}


def run_onnxruntime(path, x, optimized=False):
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    if not optimized:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: x})[0]


def apart(a, b):
    a, b = a.astype(np.float64), b.astype(np.float64)
    return f"{np.abs(a - b).max() / np.abs(b).max():.2g}"


def is_valid(path):
    """PyTorch writes operators of bfloat16 that are older than ONNX has them for it."""
    try:
        onnx.checker.check_model(str(path), full_check=True)
    except Exception:
        return False
    return True


def look(program, path, x, folder, expected=None):
    np.save(folder / "x.npy", x)
    verdict, message = program.run(path, folder, folder / "own.onnx", "-", [folder / "x.npy"])
    if verdict != "ok":
        return f"{verdict}: {message[:200]}"
    ours = np.load(folder / "0.npy")
    if is_valid(path) and not is_valid(folder / "kept_own.onnx"):
        return "the file that is written is not valid"
    if expected is not None:  # of bfloat16
        return f"ours {apart(ours.view(x.dtype), expected)}"
    expected = run_onnxruntime(path, x)
    parts = [f"ours {apart(ours, expected)}"]
    for name, file in [("kept", "kept_own.onnx"), ("own", "own.onnx")]:
        try:
            parts.append(f"{name} {apart(run_onnxruntime(folder / file, x), expected)}")
        except Exception as error:
            parts.append(f"{name}: {str(error)[:80]}")
    return ", ".join([*parts, f"ort {apart(run_onnxruntime(path, x, optimized=True), expected)}"])


def exported(name, dtype, dynamo, path):
    """The model's input as an array, and what PyTorch gives on it."""
    torch.manual_seed(0)
    shape, make = MODELS[name]
    model = make().eval().to(dtype)
    x = torch.randn(*shape).to(dtype)
    with torch.no_grad():
        if dynamo:
            torch.onnx.export(model, (x,), str(path), dynamo=True, external_data=False, verbose=False,
                              input_names=["x"])
        else:
            torch.onnx.export(model, (x,), str(path), dynamo=False, opset_version=17, input_names=["x"])
        y = model(x)
    if dtype == torch.bfloat16:
        bfloat16 = onnx.helper.tensor_dtype_to_np_dtype(onnx.TensorProto.BFLOAT16)
        return x.float().numpy().astype(bfloat16), y.float().numpy().astype(bfloat16)
    return x.numpy(), y.numpy()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--folder")
    arguments = parser.parse_args()
    program = Program(arguments.program)
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(arguments.folder or scratch)
        for name, (shape, _) in MODELS.items():
            for dtype in (torch.float16, torch.bfloat16):
                for dynamo in (False, True):
                    label = f"{name} {str(dtype)[6:]} {'dynamo' if dynamo else 'script'}"
                    path = folder / f"{label.replace(' ', '.')}.onnx"
                    try:
                        x, y = exported(name, dtype, dynamo, path)
                    except Exception as error:
                        print(f"{label}: not exported: {type(error).__name__}: {str(error)[:80]}", flush=True)
                        continue
                    print(f"{label}: {look(program, path, x, folder, y if dtype == torch.bfloat16 else None)}",
                          flush=True)
            path = folder / f"{name}.onnx"
            exported(name, torch.float32, False, path)
            x = np.random.default_rng(99).standard_normal(shape).astype(np.float32)
            for kind in ("qdq", "qoperator", "dynamic", "fused"):
                quantized = folder / f"{name}.{kind}.onnx"
                if kind == "fused":  # floats, by onnxruntime's extended optimizations
                    options = ort.SessionOptions()
                    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
                    options.optimized_model_filepath = str(quantized)
                    options.log_severity_level = 4
                    ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
                elif kind == "dynamic":
                    quantize_dynamic(str(path), str(quantized))
                else:
                    quantize_static(str(path), str(quantized), Samples(shape),
                                    quant_format=QuantFormat.QDQ if kind == "qdq" else QuantFormat.QOperator,
                                    activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8)
                print(f"{name} {kind}: {look(program, quantized, x, folder)}", flush=True)


if __name__ == "__main__":
    main()
