#!/usr/bin/env python3
"""A language model that decodes, one token at a time with a cache: our CPU device beside onnxruntime and OpenVINO.

The model is like Llama (norms by the root mean square, rotary positions, grouped heads, gated layers), with random weights,
exported by PyTorch as one step: a token, its position and the caches go in, logits and the caches come out. Products have
f32 weights, or weights of 8 or 4 bits in groups of 32 (MatMulNBits, by onnxruntime's quantizer). Each program runs in a
process of its own. A time is the median of the tokens behind the prompt; `part` is the bytes of weights that a token reads
a second of it, of what loads alone reach (decoding_bench). Tokens are the largest logits; PyTorch has run the f32 model.

    PYTHONPATH=build/release/python bench/inference/decoding.py --bench build/release/bench/decoding_bench --out results.csv
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from table import machine, write_table  # noqa: E402

PROMPT = [5, 17, 2, 300, 41, 9]


def build(sizes, seed=1):
    import torch
    from torch import nn
    hidden, heads, shared, inner, length = (sizes[k] for k in ("hidden", "heads", "shared", "inner", "length"))
    head = hidden // heads
    torch.manual_seed(seed)

    def linear(inputs, outputs):
        layer = nn.Linear(inputs, outputs, bias=False)
        nn.init.normal_(layer.weight, std=inputs**-0.5)
        return layer

    class Norm(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(hidden))

        def forward(self, x):
            return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * self.scale

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.before, self.between = Norm(), Norm()
            self.q, self.k, self.v = linear(hidden, hidden), linear(hidden, shared * head), linear(hidden, shared * head)
            self.o = linear(hidden, hidden)
            self.gate, self.up, self.down = linear(hidden, inner), linear(hidden, inner), linear(inner, hidden)

        def turned(self, x, cos, sin):
            left, right = x.chunk(2, -1)
            return x * cos + torch.cat([-right, left], -1) * sin

        def forward(self, x, here, mask, cos, sin, keys, values):
            y = self.before(x)
            q = self.turned(self.q(y).reshape(1, heads, 1, head), cos, sin).reshape(1, shared, heads // shared, head)
            k = self.turned(self.k(y).reshape(1, shared, 1, head), cos, sin)
            keys = torch.where(here, k, keys)
            values = torch.where(here, self.v(y).reshape(1, shared, 1, head), values)
            shares = torch.softmax(q @ keys.transpose(2, 3) * head**-0.5 + mask, -1)
            x = x + self.o((shares @ values).reshape(1, 1, hidden))
            y = self.between(x)
            return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y)), keys, values

    class Step(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(sizes["words"], hidden)
            self.layers = nn.ModuleList(Layer() for _ in range(sizes["layers"]))
            self.last, self.logits = Norm(), linear(hidden, sizes["words"])
            angles = torch.outer(torch.arange(length), 10000.0 ** (-torch.arange(0, head, 2) / head))
            self.register_buffer("cos", torch.cat([angles.cos()] * 2, -1))
            self.register_buffer("sin", torch.cat([angles.sin()] * 2, -1))
            self.register_buffer("places", torch.arange(length))

        def forward(self, token, position, *caches):
            x = self.words(token).reshape(1, 1, hidden)  # of rank 3: products are MatMul, not Gemm
            here = (self.places == position).reshape(1, 1, length, 1)
            mask = torch.where(self.places > position, -1e9, 0.0)
            cos, sin = self.cos[position], self.sin[position]
            new = []
            for i, layer in enumerate(self.layers):
                x, keys, values = layer(x, here, mask, cos, sin, caches[2 * i], caches[2 * i + 1])
                new += [keys, values]
            return (self.logits(self.last(x)), *new)

    shape = (1, shared, length, head)
    return Step().eval(), shape


def names(sizes):
    return [f"{kind}{i}" for i in range(sizes["layers"]) for kind in ("keys", "values")]


def export(sizes, path):
    import torch
    model, shape = build(sizes)
    caches = tuple(torch.zeros(shape) for _ in names(sizes))
    inputs = (torch.zeros(1, dtype=torch.int64), torch.zeros(1, dtype=torch.int64), *caches)
    with torch.no_grad():
        torch.onnx.export(model, inputs, path, input_names=["token", "position"] + names(sizes),
                          output_names=["logits"] + ["new_" + n for n in names(sizes)], opset_version=18, dynamo=True,
                          external_data=True, verbose=False)


def narrow(path, to, bits, accuracy):
    """The model with weights of products in groups of 32."""
    import logging
    import onnx
    from onnxruntime.quantization import matmul_nbits_quantizer as nbits
    logging.disable(logging.INFO)
    config = nbits.DefaultWeightOnlyQuantConfig(block_size=32, is_symmetric=True, accuracy_level=accuracy, bits=bits)
    quantizer = nbits.MatMulNBitsQuantizer(onnx.load(path), bits=bits, block_size=32, is_symmetric=True,
                                           accuracy_level=accuracy, algo_config=config)
    quantizer.process()
    quantizer.model.save_model_to_file(to, use_external_data_format=True)


def weight_bytes(path):
    """Bytes of the weights of products."""
    import onnx
    import numpy as np
    model = onnx.load(path, load_external_data=False)
    sizes = {w.name: int(np.prod(w.dims)) * (1 if w.data_type == onnx.TensorProto.UINT8 else 4)
             for w in model.graph.initializer}
    return sum(sizes.get(name, 0) for node in model.graph.node if node.op_type in ("MatMul", "Gemm", "MatMulNBits")
               for name in node.input[1:])


def decode(run, sizes, count):
    """The tokens behind the prompt and the seconds of each; run(token, position, caches) gives logits and caches."""
    import numpy as np
    head = sizes["hidden"] // sizes["heads"]
    caches = [np.zeros((1, sizes["shared"], sizes["length"], head), np.float32) for _ in names(sizes)]
    tokens, seconds, token = [], [], PROMPT[0]
    for position in range(len(PROMPT) + count - 1):
        begin = time.perf_counter()
        logits, caches = run(np.array([token]), np.array([position]), caches)
        seconds.append(time.perf_counter() - begin)
        token = int(np.argmax(logits))
        if position + 1 < len(PROMPT):
            token = PROMPT[position + 1]
        else:
            tokens.append(token)
    return tokens, seconds[len(PROMPT):]


def runner(program, path, sizes, threads):
    feeds = lambda token, position, caches: {"token": token, "position": position, **dict(zip(names(sizes), caches))}
    if program == "torch":
        import torch
        torch.set_num_threads(threads)
        model, _ = build(sizes)

        @torch.inference_mode()
        def run(token, position, caches):
            logits, *new = model(*(torch.as_tensor(x) for x in (token, position, *caches)))
            return logits.numpy(), new
        return run
    if program == "onnxruntime":
        import onnxruntime as ort
        options = ort.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])

        def run(token, position, caches):
            logits, *new = session.run(None, feeds(token, position, caches))
            return logits, new
        return run
    if program == "openvino":
        import openvino as ov
        config = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": threads}
        request = ov.Core().compile_model(path, "CPU", config).create_infer_request()

        def run(token, position, caches):
            result = request.infer(feeds(token, position, caches), share_inputs=True)
            logits, *new = [result[i].copy() for i in range(1 + len(caches))]
            return logits, new
        return run
    import rewright
    model = rewright.load(path, threads=threads)

    def run(token, position, caches):
        result = model.run(feeds(token, position, caches))
        return result["logits"], [result["new_" + n] for n in names(sizes)]
    return run


def child(program, path, sizes, threads, count):
    tokens, seconds = decode(runner(program, path, sizes, threads), sizes, count)
    print(json.dumps({"tokens": tokens, "ms": statistics.median(seconds) * 1e3, "least": min(seconds) * 1e3}))


def measured(program, path, sizes, args):
    call = [sys.executable, os.path.abspath(__file__), "--child", program, path, json.dumps(sizes), str(args.threads),
            str(args.tokens)]
    done = subprocess.run(call, capture_output=True, text=True)
    if done.returncode == 0:
        return json.loads(done.stdout.splitlines()[-1])
    print(f"{program}: {done.stderr.strip().splitlines()[-1:]}", flush=True)
    return None


def bandwidth(args):
    """Bytes a second of loads alone, the most of all lines."""
    text = subprocess.run([args.bench, str(args.threads), "1"], capture_output=True, text=True, check=True).stdout
    return max(float(line.split(",")[5]) for line in text.splitlines()[1:]) * 1e9


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", required=True)
    parser.add_argument("--out")
    parser.add_argument("--folder", help="where models are kept between runs")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--programs", default="rewright,onnxruntime,openvino")
    parser.add_argument("--forms", default="f32,8,4,4 int8")
    for name, value in dict(layers=24, hidden=896, heads=14, shared=2, inner=4864, words=65536, length=128).items():
        parser.add_argument("--" + name, type=int, default=value)
    args = parser.parse_args()
    sizes = {k: getattr(args, k) for k in ("layers", "hidden", "heads", "shared", "inner", "words", "length")}
    folder = args.folder or tempfile.mkdtemp()
    os.makedirs(folder, exist_ok=True)
    plain = os.path.join(folder, "f32.onnx")
    if not os.path.exists(plain):
        export(sizes, plain)
    rate, rows = bandwidth(args), []
    truth = measured("torch", plain, sizes, args)
    for form in args.forms.split(","):
        path = os.path.join(folder, form.replace(" ", "_") + ".onnx")
        if not os.path.exists(path):
            narrow(plain, path, int(form.split()[0]), 4 if form.endswith("int8") else 1)
        size = weight_bytes(path)
        for program in ["torch"] * (form == "f32") + args.programs.split(","):
            found = truth if program == "torch" else measured(program, path, sizes, args)
            if found is None:
                continue
            same = next((i for i, (a, b) in enumerate(zip(found["tokens"], truth["tokens"])) if a != b), args.tokens)
            rows.append({"weights": form, "program": program, "ms": round(found["ms"], 2),
                         "least_ms": round(found["least"], 2), "gb": round(size * 1e-9, 3),
                         "part": round(size / found["ms"] * 1e3 / rate, 3), "tokens_as_torch": same})
            print(rows[-1], flush=True)
    if args.out:
        write_table(args.out, f"{machine()}; {sizes}; loads alone {rate * 1e-9:.1f} GB/s, {args.threads} threads", rows)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2], sys.argv[3], json.loads(sys.argv[4]), int(sys.argv[5]), int(sys.argv[6]))
    else:
        main()
