#!/usr/bin/env python3
"""Agreement of the CUDA device with the interpreter: its tests, all at a time, each in a process of its own.

    bench/gpu/agree.py TESTS --precisions bf16 tf32 f32 [--seconds 90] [--logs DIR] [--compile MODEL.onnx...]

TESTS is the program of tests (`runtime_test`, in a bundle `gpu_test`). Correctness needs no quiet GPU, so that the
processors do what they can meanwhile: --compile lets torch.compile fill its caches for models, in bf16; what is not
ready when the tests end goes on until the time is up. Prints a line for each process, and of those that fail the end of
the log. Exit status: 0 all tests passed; 1 one failed, took too long, or ran no test.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time

TOOLS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "peers")
COMPILERS = 4  # at a time: each has processes of its own
PROPERTIES = ("EveryOperator", "RandomGraphs", "LargeKernels", "Attention", "EndsOfNetworks", "Branches")


def write_inputs(model, folder):
    """What tools/peers/peers.py reads: names and values of the inputs, sizes that are symbolic being 1."""
    import numpy as np
    import onnx
    graph = onnx.load(model, load_external_data=False).graph
    weights = {tensor.name for tensor in graph.initializer}
    inputs = [value for value in graph.input if value.name not in weights]
    for i, value in enumerate(inputs):
        kind = value.type.tensor_type
        shape = [dim.dim_value or 1 for dim in kind.shape.dim]
        np.save(os.path.join(folder, f"{i}.npy"),
                np.random.default_rng(i).random(shape).astype(onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)))
    with open(os.path.join(folder, "inputs.json"), "w") as file:
        json.dump([value.name for value in inputs], file)


def report(name, status, tested, log, seconds):
    """Prints how a process ended, with the ends of its log where it went wrong; whether a test failed."""
    with open(log, errors="replace") as file:
        lines = file.read().splitlines()
    text = "\n".join(lines)
    passed = re.search(r"\[  PASSED  \] (\d+) test", text)
    failed = tested and (status != 0 or not passed or int(passed.group(1)) == 0 or "[  SKIPPED ]" in text)
    print(f"{name}: status {status}, {seconds:.0f} s{', FAILED' if failed else ''}", flush=True)
    if failed or (not tested and "ready" not in text):
        print("\n".join("    " + line[:200] for line in [*lines[:25], "...", *lines[-12:]]), flush=True)
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tests")
    parser.add_argument("--precisions", nargs="+", default=["bf16", "tf32", "f32"])
    parser.add_argument("--seconds", type=float, default=90)
    parser.add_argument("--logs", help="folder of the logs (default: a temporary one)")
    parser.add_argument("--compile", nargs="*", default=[], help="ONNX models")
    parser.add_argument("--device", default="cuda:0", help="on which torch compiles")
    args = parser.parse_args()
    begin = time.monotonic()
    logs = args.logs or tempfile.mkdtemp()
    os.makedirs(logs, exist_ok=True)

    def start(name, command, **words):
        log = open(os.path.join(logs, name + ".txt"), "wb")
        return name, subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, **words)

    filters = {f"{name}-{precision}": f"*Gpu.{name}*/{precision}"
               for precision in args.precisions for name in PROPERTIES}
    filters["queues"] = "GpuQueues.*"
    running = dict(start(name, [args.tests, f"--gtest_filter={one}"]) for name, one in filters.items())
    waiting = list(args.compile)

    def compile_next():
        model, folder = waiting.pop(0), tempfile.mkdtemp()
        write_inputs(model, folder)
        python = os.environ.get("REWRIGHT_PYTHON", sys.executable)  # the libraries of the machine, not the bundle's
        name, process = start("compile-" + os.path.basename(model), [
            python, os.path.join(TOOLS, "peers.py"), "torch-compile", model, folder, "1", args.device, "bf16"])
        running[name] = process

    bad = 0
    while running or waiting:
        while waiting and sum(name not in filters for name in running) < COMPILERS:
            compile_next()
        late = time.monotonic() - begin > args.seconds
        if late:
            waiting.clear()
        for name, process in list(running.items()):
            status = process.poll()
            if status is None and not late:
                continue
            del running[name]
            if status is None:
                process.kill()
                process.wait()
                status = "took too long"
            bad += report(name, status, name in filters, os.path.join(logs, name + ".txt"), time.monotonic() - begin)
        time.sleep(0.1)
    print(f"{len(filters) - bad} of {len(filters)} agree")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
