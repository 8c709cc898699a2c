"""Jobs for onnx_program, and comparisons; shared by the Python tests of this folder."""
import subprocess

import numpy as np
import onnxruntime

onnxruntime.set_default_logger_severity(4)


class Program:
    """onnx_program, kept running; restarted after a crash."""

    def __init__(self, path):
        self.path = path
        self.process = None

    def run(self, model, outputs="-", exported="-", dims="-", inputs=()):
        """The verdict (ok, unsupported, error, crash) and the message."""
        if self.process is None:
            self.process = subprocess.Popen([self.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                            stderr=subprocess.PIPE, text=True)
        self.process.stdin.write("\t".join([str(model), str(outputs), str(exported), dims, *map(str, inputs)]) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            _, errors = self.process.communicate()
            self.process = None
            return "crash", errors[-500:]
        verdict, _, message = line.rstrip("\n").partition("\t")
        return verdict, message


def difference(found, expected, rtol, atol):
    """None where the tensors agree, otherwise what is wrong."""
    found, expected = np.asarray(found), np.asarray(expected)
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return f"{found.dtype}{list(found.shape)} instead of {expected.dtype}{list(expected.shape)}"
    if found.dtype.name == "bfloat16":
        found, expected = found.astype(np.float32), expected.astype(np.float32)
    if np.allclose(found, expected, rtol=rtol, atol=atol, equal_nan=True):
        return None
    if found.dtype == bool:
        return f"{np.count_nonzero(found != expected)} of {found.size} truth values differ"
    worst = np.nanargmax(np.abs(found.astype(np.float64) - expected.astype(np.float64)))
    return f"element {worst} is {found.flat[worst]} instead of {expected.flat[worst]}"


def session(path):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
