#!/usr/bin/env python3
"""What torch.compile makes of Mirage's workloads: the kernels and calls of one run and the bytes that they read and write.

    python bench/gpu/torch_plans.py [--rewright PROGRAM] > bench/results/torch_workloads.txt

Needs torch and onnx, no GPU: the plans are those for the CPU, in bf16 with frozen weights. What is fused is decided before
code is written, by rules that both kinds of devices share; on a GPU `compare` counts the kernels that are launched. Bytes
are those of every operand of every call, each once, as cuda_steps_bench counts ours.
"""
import argparse
import math
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tools", "peers"))
WORKLOADS = ["gqa", "qk_norm", "rms_norm", "lora", "gated_mlp", "ntrans"]
BYTES = {"float32": 4, "bfloat16": 2, "bool": 1, "int64": 8, "int32": 4, "uint8": 1}
CALL = re.compile(r"^\s+(?:(buf\d+) = )?((?:cpp_fused\w*|extern_kernels\.\w+|torch\.ops\.[\w.]+))\((.*)\)$", re.M)


def numbers(text):
    return math.prod(int(part) for part in text.replace(" ", "").split(",") if part)


def plan(code):
    """Names of the calls of a generated module, and the megabytes of their operands."""
    body = code[code.index("def call("):]
    sizes = {}
    for name, shape, dtype in re.findall(r"(\w+) = (?:empty_strided_\w+|rand_strided)\(\(([^)]*)\), \([^)]*\),.*?torch\.(\w+)\)",
                                         body):
        sizes[name] = numbers(shape) * BYTES[dtype]
    for name, shape, dtype in re.findall(r"assert_tensor_metadata\((\w+), \(([^)]*)\), \([^)]*\), torch\.(\w+)", body):
        sizes[name] = numbers(shape) * BYTES[dtype]
    for name, other in re.findall(r"^\s+(buf\d+) = (buf\d+)(?:;.*)?$", body, re.M):
        if name in sizes or other in sizes:
            sizes.setdefault(name, sizes.get(other))
            sizes.setdefault(other, sizes.get(name))
    calls, total = [], 0
    for result, name, operands in CALL.findall(body):
        used = set(re.findall(r"\b(?:buf\d+|arg\d+_\d+|_frozen_param\d+)\b", operands)) | ({result} if result else set())
        unknown = sorted(used - set(sizes))
        if unknown:
            raise RuntimeError(f"{name}: sizes of {unknown} are not in the module")
        calls.append(name)
        total += sum(sizes[one] for one in used)
    return calls, total * 1e-6


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rewright", default=os.path.join(ROOT, "build/release/rewright"))
    args = parser.parse_args()
    import torch
    import torch._inductor.config
    from torch._inductor.utils import run_and_get_code
    from torch_model import TorchModel
    import onnx
    torch._inductor.config.freezing = True
    print(f"# bench/gpu/torch_plans.py, torch {torch.__version__}, bf16, frozen weights, code for the CPU")
    print("model,kernels_and_calls,megabytes")
    with tempfile.TemporaryDirectory() as folder:
        for batch in (1, 8, 16):
            for name in WORKLOADS:
                path = os.path.join(folder, f"{name}.onnx")
                subprocess.run([args.rewright, "zoo", f"mirage_{name}", "--batch", str(batch), "-o", path, "--quiet"],
                               check=True, stdout=subprocess.DEVNULL)
                module = TorchModel(path).eval().to(torch.bfloat16)
                shapes = {value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim]
                          for value in onnx.load(path, load_external_data=False).graph.input}
                inputs = [torch.randn(shapes[one]).to(torch.bfloat16) for one in module.input_names]
                torch._dynamo.reset()
                with torch.inference_mode():
                    _, code = run_and_get_code(torch.compile(module), *inputs)
                calls, megabytes = plan("\n".join(code))
                print(f"mirage_{name}-b{batch},{len(calls)},{megabytes:.1f}")
                for call in calls:
                    print(f"#     {call}", flush=True)


if __name__ == "__main__":
    main()
