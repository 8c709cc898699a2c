#!/usr/bin/env python3
"""A language model that decodes, one token at a time with a cache: our CPU device beside onnxruntime and OpenVINO.

The model is like Llama (norms by the root mean square, rotary positions, grouped heads, gated layers), with random weights,
exported by PyTorch with any number of tokens behind any past: the prompt is one run, then each token is one. Caches are
states of a session here and of OpenVINO's model; onnxruntime is given them. Products have f32 weights, or weights of 8 or
4 bits in groups of 32 (MatMulNBits, by onnxruntime's quantizer; "int8": its products of integers). Each program runs in a
process of its own. A time is the median of the tokens behind the prompt; `part` is the bytes of weights that a token reads
a second, of what loads alone reach before and after (decoding_bench). Tokens are the largest logits; PyTorch has run the
f32 model.

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

        def by_head(self, x, count):
            return x.reshape(1, x.shape[1], count, head).transpose(1, 2)

        def forward(self, x, mask, cos, sin, keys, values):
            y = self.before(x)
            q = self.turned(self.by_head(self.q(y), heads), cos, sin)
            keys = torch.cat([keys, self.turned(self.by_head(self.k(y), shared), cos, sin)], 2)
            values = torch.cat([values, self.by_head(self.v(y), shared)], 2)
            q = q.reshape(1, shared, heads // shared, x.shape[1], head)
            shares = torch.softmax(q @ keys.unsqueeze(2).transpose(3, 4) * head**-0.5 + mask, -1)
            mixed = (shares @ values.unsqueeze(2)).reshape(1, heads, x.shape[1], head)
            x = x + self.o(mixed.transpose(1, 2).reshape(1, x.shape[1], hidden))
            y = self.between(x)
            return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y)), keys, values

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(sizes["words"], hidden)
            self.layers = nn.ModuleList(Layer() for _ in range(sizes["layers"]))
            self.last, self.logits = Norm(), linear(hidden, sizes["words"])
            angles = torch.outer(torch.arange(length), 10000.0 ** (-torch.arange(0, head, 2) / head))
            self.register_buffer("cos", torch.cat([angles.cos()] * 2, -1))
            self.register_buffer("sin", torch.cat([angles.sin()] * 2, -1))

        def forward(self, tokens, positions, *caches):
            x = self.words(tokens)
            total = caches[0].shape[2] + tokens.shape[1]
            mask = torch.where(torch.arange(total) > positions.unsqueeze(1), -1e9, 0.0)
            cos, sin = self.cos[positions], self.sin[positions]
            new = []
            for i, layer in enumerate(self.layers):
                x, keys, values = layer(x, mask, cos, sin, caches[2 * i], caches[2 * i + 1])
                new += [keys, values]
            return (self.logits(self.last(x[:, -1:])), *new)

    return Model().eval()


def names(sizes):
    return [f"{kind}{i}" for i in range(sizes["layers"]) for kind in ("keys", "values")]


def cache(sizes, length):
    return (1, sizes["shared"], length, sizes["hidden"] // sizes["heads"])


def export(sizes, path):
    import torch
    caches = tuple(torch.zeros(cache(sizes, 7)) for _ in names(sizes))
    tokens, past = torch.export.Dim("tokens", min=1, max=1024), torch.export.Dim("past", min=1, max=4096)
    inputs = (torch.zeros(1, 3, dtype=torch.int64), torch.arange(7, 10), *caches)
    with torch.no_grad():
        torch.onnx.export(build(sizes), inputs, path, input_names=["tokens", "positions"] + names(sizes),
                          output_names=["logits"] + ["new_" + n for n in names(sizes)], opset_version=18, dynamo=True,
                          dynamic_shapes=({1: tokens}, {0: tokens}, tuple({2: past} for _ in caches)),
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


def decode(run, count):
    """The tokens behind the prompt and the seconds of each but the first; run(tokens, positions) gives logits."""
    import numpy as np
    positions = np.arange(len(PROMPT))
    tokens, seconds = [int(np.argmax(run(np.array([PROMPT]), positions)))], []
    while len(tokens) < count:
        positions = positions[-1:] + 1
        begin = time.perf_counter()
        logits = run(np.array([tokens[-1:]]), positions)
        seconds.append(time.perf_counter() - begin)
        tokens.append(int(np.argmax(logits)))
    return tokens, seconds


def runner(program, path, sizes, threads):
    import numpy as np
    caches = [np.zeros(cache(sizes, 0), np.float32) for _ in names(sizes)]
    if program == "torch":
        import torch
        torch.set_num_threads(threads)
        model = build(sizes)

        @torch.inference_mode()
        def run(tokens, positions):
            logits, *caches[:] = model(*(torch.as_tensor(x) for x in (tokens, positions, *caches)))
            return logits.numpy()
        return run
    if program == "onnxruntime":
        import onnxruntime as ort
        options = ort.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])

        def run(tokens, positions):
            feeds = {"tokens": tokens, "positions": positions, **dict(zip(names(sizes), caches))}
            logits, *caches[:] = session.run(None, feeds)
            return logits
        return run
    if program == "openvino":
        import openvino as ov
        from openvino._offline_transformations import apply_make_stateful_transformation
        model = ov.Core().read_model(path)
        apply_make_stateful_transformation(model, {name: "new_" + name for name in names(sizes)})
        config = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": threads}
        request = ov.Core().compile_model(model, "CPU", config).create_infer_request()
        for state in request.query_state():
            state.state = ov.Tensor(caches[0])
        return lambda tokens, positions: request.infer({"tokens": tokens, "positions": positions})["logits"]
    import rewright
    session = rewright.load(path, threads=threads).session({name: "new_" + name for name in names(sizes)})
    return lambda tokens, positions: session.run(tokens=tokens, positions=positions)["logits"]


def child(program, path, sizes, threads, count):
    tokens, seconds = decode(runner(program, path, sizes, threads), count)
    print(json.dumps({"tokens": tokens, "ms": statistics.median(seconds) * 1e3, "least": min(seconds) * 1e3}))


def measured(program, path, sizes, args):
    call = [sys.executable, os.path.abspath(__file__), "--child", program, path, json.dumps(sizes), str(args.threads),
            str(args.tokens)]
    before = bandwidth(args)
    done = subprocess.run(call, capture_output=True, text=True)
    if done.returncode == 0:
        return {**json.loads(done.stdout.splitlines()[-1]), "loads": (before + bandwidth(args)) / 2}
    print(f"{program}: {done.stderr.strip().splitlines()[-1:]}", flush=True)
    return None


def bandwidth(args):
    """Bytes a second of loads alone, as the first product of decoding_bench has beside it."""
    with subprocess.Popen([args.bench, str(args.threads), "1"], stdout=subprocess.PIPE, text=True) as process:
        process.stdout.readline()
        rate = float(process.stdout.readline().split(",")[5]) * 1e9
        process.kill()
    return rate


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", required=True)
    parser.add_argument("--out")
    parser.add_argument("--folder", help="where models are kept between runs")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--programs", default="rewright,onnxruntime,openvino")
    parser.add_argument("--forms", default="f32,8,8 int8,4,4 int8")
    for name, value in dict(layers=24, hidden=896, heads=14, shared=2, inner=4864, words=65536, length=1024).items():
        parser.add_argument("--" + name, type=int, default=value)
    args = parser.parse_args()
    sizes = {k: getattr(args, k) for k in ("layers", "hidden", "heads", "shared", "inner", "words", "length")}
    folder = args.folder or tempfile.mkdtemp()
    os.makedirs(folder, exist_ok=True)
    plain = os.path.join(folder, "f32.onnx")
    if not os.path.exists(plain):
        export(sizes, plain)
    rows, truth = [], None
    for form in args.forms.split(","):
        path = os.path.join(folder, form.replace(" ", "_") + ".onnx")
        if not os.path.exists(path):
            narrow(plain, path, int(form.split()[0]), 4 if form.endswith("int8") else 1)
        size = weight_bytes(path)
        for program in ["torch"] * (form == "f32") + args.programs.split(","):
            found = measured(program, path, sizes, args)
            if found is None:
                continue
            truth = truth or found["tokens"]
            same = next((i for i, (a, b) in enumerate(zip(found["tokens"], truth)) if a != b), args.tokens)
            rows.append({"weights": form, "program": program, "ms": round(found["ms"], 2),
                         "least_ms": round(found["least"], 2), "gb": round(size * 1e-9, 3),
                         "loads_gb_per_s": round(found["loads"] * 1e-9, 1),
                         "part": round(size / found["ms"] * 1e3 / found["loads"], 3),
                         "tokens_as_torch": same if form == "f32" else ""})
            print(rows[-1], flush=True)
    if args.out:
        write_table(args.out, f"{machine()}; {sizes}; {args.threads} threads", rows)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2], sys.argv[3], json.loads(sys.argv[4]), int(sys.argv[5]), int(sys.argv[6]))
    else:
        main()
