#!/usr/bin/env python3
"""Whether training is PyTorch's: the four examples of tools/examples from PyTorch's initial weights, on the same
batches, for 200 steps, with dropout off and the samples in the order of the file.

    python bench/training/training_equal.py [--rewright build/release/rewright] [--out TABLE.csv] [EXAMPLE...]

Per step the weights are compared with those that PyTorch has in float64: the length of the difference over the length
of the weights, once for ours and once for PyTorch's own float32, each the median over five seeds. `worst_ratio` is the
largest quotient of the two over all steps (at most 3 is wanted), `first_20` our largest deviation in the first 20 steps
(at most 1e-4). Ours runs as it is derived and, in rows with `searched`, as `--search-time` finds it. Wants torch.
"""
import argparse
import fnmatch
import json
import math
import os
import pathlib
import statistics
import struct
import subprocess
import sys
import tempfile

import numpy as np
import torch
import torch.nn.functional as F

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from table import machine, write_table  # noqa: E402

STEPS, SEEDS, WARMUP = 200, 5, 40
EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "tools" / "examples"


class Mlp:
    def __init__(self, options):
        self.sizes = options["sizes"]

    def shapes(self):
        for i, (a, b) in enumerate(zip(self.sizes, self.sizes[1:])):
            yield from dense(f"layer{i}", a, b)

    def __call__(self, w, x):
        for i in range(len(self.sizes) - 1):
            x = linear(w, f"layer{i}", x if i == 0 else F.relu(x))
        return x


class ConvNet:
    def __init__(self, options):
        self.image = options["image"]
        self.channels = [self.image[0], *options["channels"]]
        self.classes = options["classes"]

    def shapes(self):
        for i, (a, b) in enumerate(zip(self.channels, self.channels[1:])):
            yield f"conv{i}.weight", (b, a, 3, 3), 1 / math.sqrt(9 * a)
            yield from norm(f"norm{i}", b)
        yield from dense("head", self.channels[-1], self.classes)

    def __call__(self, w, x):
        x = x.reshape(-1, *self.image)
        for i in range(len(self.channels) - 1):
            x = F.conv2d(x, w[f"conv{i}.weight"], padding=1)
            x = F.batch_norm(x, None, None, w[f"norm{i}.scale"], w[f"norm{i}.bias"], training=True, eps=1e-5)
            x = F.max_pool2d(F.relu(x), 2)
        return linear(w, "head", x.mean((2, 3)))


class Lstm:
    def __init__(self, options):
        self.vocabulary, self.hidden = options["vocabulary"], options["hidden"]
        self.width, self.layers = options["width"], options.get("layers", 1)

    def shapes(self):
        yield "embedding.weight", (self.vocabulary, self.width), 1
        for i in range(self.layers):
            bound = 1 / math.sqrt(self.hidden)
            yield from dense(f"lstm{i}.input", self.hidden if i else self.width, 4 * self.hidden, bound)
            yield f"lstm{i}.recurrent.weight", (self.hidden, 4 * self.hidden), bound
        yield from dense("head", self.hidden, self.vocabulary)

    def __call__(self, w, x):
        x = w["embedding.weight"][x]
        for i in range(self.layers):
            start = x.new_zeros(1, x.shape[0], self.hidden)
            bias = w[f"lstm{i}.input.bias"]
            parameters = [w[f"lstm{i}.input.weight"].t(), w[f"lstm{i}.recurrent.weight"].t(), bias,
                          torch.zeros_like(bias)]
            x = torch.lstm(x, (start, start), parameters, True, 1, 0.0, True, False, True)[0]
        return linear(w, "head", x)


class Gpt:
    def __init__(self, options):
        self.vocabulary, self.length = options["vocabulary"], options["length"]
        self.width, self.heads, self.layers = options["width"], options["heads"], options["layers"]

    def shapes(self):
        width, bound = self.width, 0.02 * math.sqrt(3)
        yield "token.weight", (self.vocabulary, width), bound
        yield "position.weight", (self.length, width), bound
        for i in range(self.layers):
            yield from norm(f"layer{i}.norm0", width)
            yield from dense(f"layer{i}.attention", width, 3 * width, bound)
            yield from dense(f"layer{i}.projection", width, width, bound)
            yield from norm(f"layer{i}.norm1", width)
            yield from dense(f"layer{i}.expand", width, 4 * width, bound)
            yield from dense(f"layer{i}.contract", 4 * width, width, bound)
        yield from norm("norm", width)

    def __call__(self, w, x):
        def normed(name, x):
            return F.layer_norm(x, (self.width,), w[name + ".scale"], w[name + ".bias"], eps=1e-5)

        batch, length = x.shape
        x = w["token.weight"][x] + w["position.weight"]
        for i in range(self.layers):
            name = f"layer{i}."
            parts = linear(w, name + "attention", normed(name + "norm0", x)).split(self.width, 2)
            q, k, v = (p.reshape(batch, length, self.heads, -1).transpose(1, 2) for p in parts)
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)
            x = x + linear(w, name + "projection", mixed.reshape(batch, length, self.width))
            inner = F.gelu(linear(w, name + "expand", normed(name + "norm1", x)))
            x = x + linear(w, name + "contract", inner)
        return normed("norm", x) @ w["token.weight"].t()


def dense(name, inputs, outputs, bound=None):
    bound = bound or 1 / math.sqrt(inputs)
    yield name + ".weight", (inputs, outputs), bound
    yield name + ".bias", (outputs,), bound


def norm(name, channels):
    yield name + ".scale", (channels,), None  # ones
    yield name + ".bias", (channels,), 0


def linear(w, name, x):
    return x @ w[name + ".weight"] + w[name + ".bias"]


MODELS = {"mlp": Mlp, "conv_net": ConvNet, "lstm": Lstm, "gpt": Gpt}
CONFIGS = {"digits": "digits/digits.json", "conv_net": "digits/conv_net.json", "lstm": "characters/lstm.json",
           "gpt": "characters/gpt.json"}


def initial(model, seed):
    generator = torch.Generator().manual_seed(seed)
    return {name: torch.ones(shape) if bound is None else (2 * torch.rand(shape, generator=generator) - 1) * bound
            for name, shape, bound in model.shapes()}


def save(path, weights):
    header, data = {}, b""
    for name, tensor in weights.items():
        raw = tensor.numpy().tobytes()
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def load(path):
    raw = path.read_bytes()
    size = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8:8 + size])
    return {name: torch.from_numpy(np.frombuffer(raw[8 + size:][slice(*entry["data_offsets"])], "<f4")
                                   .reshape(entry["shape"]).copy())
            for name, entry in header.items() if name != "__metadata__" and entry["dtype"] == "F32"}


def column(folder, config, length):
    """All samples of a column, as one array."""
    path = folder / (config if isinstance(config, str) else config["file"])
    scale = 1 if isinstance(config, str) else config.get("scale", 1)
    if isinstance(config, dict) and "tokens" in config:
        tokens = np.frombuffer(path.read_bytes(), "u1").astype("int64")
        stride, shift = config["tokens"].get("stride", length), config["tokens"].get("shift", 0)
        count = (len(tokens) - 1 - length) // stride + 1
        return torch.from_numpy(np.stack([tokens[i * stride + shift:][:length] for i in range(count)]))
    array = torch.from_numpy(np.load(path))
    return array.to(torch.float64) * scale if scale != 1 else array.to(torch.int64)


def rate_at(step, config):
    rate, s = config["learning_rate"], step
    if s < WARMUP:
        return rate * (s + 1) / WARMUP
    return rate * (1 + math.cos(math.pi * (s - WARMUP) / (STEPS - WARMUP))) / 2


class Torch:
    """The weights after each step, as one long vector in float64."""

    def __init__(self, model, weights, config, dtype):
        self.model, self.config, self.dtype = model, config["optimizer"], dtype
        self.weights = {name: tensor.to(dtype).requires_grad_() for name, tensor in weights.items()}
        groups = []
        for name, tensor in self.weights.items():
            decay = next((group["weight_decay"] for group in self.config.get("groups", [])
                          if fnmatch.fnmatchcase(name, group["match"])), self.config["weight_decay"])
            groups.append({"params": [tensor], "weight_decay": decay})
        self.optimizer = torch.optim.AdamW(groups)

    def step(self, number, x, target):
        logits = self.model(self.weights, x.to(self.dtype) if x.dtype.is_floating_point else x)
        loss = F.cross_entropy(logits.reshape(-1, logits.shape[-1]), target.reshape(-1))
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        clip = self.config.get("clip_norm", 0)
        if clip:
            length = torch.stack([w.grad.square().sum() for w in self.weights.values()]).sum().sqrt()
            for w in self.weights.values():
                w.grad.mul_(torch.clamp(clip / length, max=1))
        for group in self.optimizer.param_groups:
            group["lr"] = rate_at(number, self.config)
        self.optimizer.step()
        return flat({name: w.detach() for name, w in self.weights.items()})


def flat(weights):
    return torch.cat([weights[name].reshape(-1).to(torch.float64) for name in sorted(weights)])


def ours(args, config, folder, flags):
    (folder / "config.json").write_text(json.dumps(config))
    checkpoints = folder / f"checkpoints{len(flags)}"
    subprocess.run([args.rewright, "train", str(folder / "config.json"), "--quiet", "--threads", str(args.threads),
                    "--checkpoint-dir", str(checkpoints), *flags], check=True, stdout=subprocess.DEVNULL)
    return [checkpoints / f"step-{step + 1:08d}" / "weights.safetensors" for step in range(STEPS)]


def compare(name, args):
    path = EXAMPLES / CONFIGS[name]
    config = json.loads(path.read_text())
    (kind, options), = config["model"].items()
    options.pop("dropout", None)
    model, data = MODELS[kind](options), config["data"]
    length = options.get("length", 0)
    xs, targets = column(path.parent, data["inputs"]["x"], length), column(path.parent, data["target"], length)
    for entry in (data["inputs"], data):
        key = "x" if "x" in entry else "target"
        if isinstance(entry[key], str):
            entry[key] = {"file": entry[key]}
        entry[key]["file"] = str(path.parent / entry[key]["file"])
    for key in ("validation", "epochs"):
        config.pop(key, None)
    data["shuffle"] = False
    config["steps"] = STEPS
    config["optimizer"]["schedule"] = {"kind": "cosine", "warmup": WARMUP, "steps": STEPS - WARMUP}
    config["checkpoint"] = {"every_steps": 1, "keep": STEPS}
    config["model"]["weights"] = "weights.safetensors"

    kinds = {"as derived": [], "searched": ["--search-time", str(args.search_time)]}
    deviations = {kind: [] for kind in ("PyTorch", *kinds)}  # [seed][step]
    for seed in range(1, SEEDS + 1):
        weights = initial(model, seed)
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            save(folder / "weights.safetensors", weights)
            found = {kind: ours(args, config, folder, flags) for kind, flags in kinds.items()}
            exact, single = (Torch(model, weights, config, dtype) for dtype in (torch.float64, torch.float32))
            rows = {kind: [] for kind in deviations}
            batches = len(xs) // data["batch"]
            for step in range(STEPS):
                begin = step % batches * data["batch"]
                batch = [array[begin:begin + data["batch"]] for array in (xs, targets)]
                expected = exact.step(step, *batch)
                others = {"PyTorch": single.step(step, *batch)}
                for kind, files in found.items():
                    tensors = load(files[step])
                    others[kind] = flat({name: tensors[name] for name in weights})
                for kind, vector in others.items():
                    rows[kind].append(float((vector - expected).norm() / expected.norm()))
            for kind, row in rows.items():
                deviations[kind].append(row)
    median = {kind: [statistics.median(column) for column in zip(*rows)] for kind, rows in deviations.items()}
    for kind in kinds:
        ratios = [a / b for a, b in zip(median[kind], median["PyTorch"])]
        yield {"example": name, "step": kind, "worst_ratio": round(max(ratios), 2),
               "at_step": ratios.index(max(ratios)) + 1, "median_ratio": round(statistics.median(ratios), 2),
               "first_20": f"{max(max(row[:20]) for row in deviations[kind]):.1e}",
               "last": f"{median[kind][-1]:.1e}", "last_of_pytorch": f"{median['PyTorch'][-1]:.1e}"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("examples", nargs="*", metavar="EXAMPLE", help=", ".join(CONFIGS))
    parser.add_argument("--rewright", default="build/release/rewright")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--search-time", type=int, default=5)
    parser.add_argument("--out", help="write the table as CSV")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    rows = []
    for name in args.examples or CONFIGS:
        for row in compare(name, args):
            rows.append(row)
            print("  ".join(f"{key} {value}" for key, value in row.items()), flush=True)
    if args.out:
        write_table(args.out, f"{machine()}; PyTorch {torch.__version__}, {SEEDS} seeds, {STEPS} steps", rows)
    sys.exit(any(row["worst_ratio"] > 3 or float(row["first_20"]) > 1e-4 for row in rows))


if __name__ == "__main__":
    main()
