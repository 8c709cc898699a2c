#!/usr/bin/env python3
"""The time of a step of training beside PyTorch's, on the same models, weights and batches, in one run.

    python bench/training/vs_pytorch_training.py --rewright build/release/rewright [--compile] [MODEL...]

Wants torch, torchvision, transformers and onnx. PyTorch runs its own modules (torchvision's resnet50, transformers'
BERT and GPT-2) in training mode with the fused AdamW; ours runs the same architecture from the model zoo, with batch
norms in training mode. Both start from the zoo's weights; the losses of the first steps are compared. Turns of some
steps alternate; while one side has its turn the process of the other one is stopped. A figure is the median over the
turns of each turn's median, the spread is their range. `--compile` times torch.compile, too. `share` is what our step
reaches of the rate of PyTorch's product of two matrices of 2048 x 2048, which is measured before each turn, with the
products and convolutions of PyTorch's step alone as its operations.
"""
import argparse
import json
import math
import os
import pathlib
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
import torch
import torch.utils.flop_counter
from onnx import helper, numpy_helper

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from table import machine, write_table  # noqa: E402

FIRST_STEPS = 3  # whose losses are compared
RATE = 1e-4


def weights_of(path):
    model = onnx.load(path)
    return {tensor.name: torch.from_numpy(numpy_helper.to_array(tensor).copy())
            for tensor in model.graph.initializer}


def in_training(path):
    """Sets every batch norm of the file to training mode, with its running averages as further results."""
    model = onnx.load(path)
    for node in model.graph.node:
        if node.op_type == "BatchNormalization":
            node.attribute.append(helper.make_attribute("training_mode", 1))
            node.output.extend([node.output[0] + ".mean", node.output[0] + ".var"])
    onnx.save(model, path)


class Zoo:
    """A model of `rewright zoo`: how PyTorch writes it, what it reads, what it is to learn."""

    def __init__(self, name, flags, module, inputs, loss, target, output=None):
        self.name, self.flags, self.module, self.inputs = name, flags, module, inputs
        self.loss, self.target, self.output = loss, target, output

    def write(self, rewright, path):
        subprocess.run([rewright, "zoo", self.name, *self.flags, "-o", path, "--quiet"], check=True)
        in_training(path)

    def load(self, path):
        module = self.module()
        weights = weights_of(path)
        state = module.state_dict()
        for name in state:
            for known in (name, name.removeprefix("transformer."), name.removeprefix("module.")):
                if known in weights and weights[known].shape == state[name].shape:
                    state[name] = weights[known]
                    break
            else:
                if not name.endswith(("num_batches_tracked", "position_ids", ".attn.bias", "lm_head.weight")):
                    raise SystemExit(f"{self.name}: the file has no tensor {name} {list(state[name].shape)}")
        module.load_state_dict(state)
        return module


class SmallConvNet(torch.nn.Module):
    def __init__(self):
        super().__init__()
        layers, channels = [], 3
        for out in (32, 64, 128):
            layers += [torch.nn.Conv2d(channels, out, 3, padding=1), torch.nn.BatchNorm2d(out), torch.nn.ReLU(),
                       torch.nn.MaxPool2d(2)]
            channels = out
        self.layers = torch.nn.Sequential(*layers)
        self.head = torch.nn.Linear(128, 10)

    def forward(self, x):
        return self.head(self.layers(x).mean((2, 3)))


class Mlp(torch.nn.Module):
    def __init__(self):
        super().__init__()
        sizes = [784, 1024, 1024, 10]
        self.layers = torch.nn.ModuleList(torch.nn.Linear(a, b) for a, b in zip(sizes, sizes[1:]))

    def forward(self, x):
        for layer in self.layers[:-1]:
            x = torch.relu(layer(x))
        return self.layers[-1](x)


class Own:
    """A small model that is written here, as a file with the weights of the module."""

    def __init__(self, name, module, inputs, target):
        self.name, self.module, self.inputs, self.target = name, module, inputs, target
        self.loss, self.output = "cross_entropy", None

    def write(self, _, path):
        torch.manual_seed(1)
        module = self.made = self.module()
        nodes, initializers = [], []

        def weight(name, tensor):
            initializers.append(numpy_helper.from_array(tensor.detach().numpy(), name))
            return name

        def add(kind, inputs, outputs, **attributes):
            nodes.append(helper.make_node(kind, inputs, outputs, **attributes))
            return outputs[0]

        def linear(x, layer, name, out):
            return add("Gemm", [x, weight(name + ".weight", layer.weight), weight(name + ".bias", layer.bias)], [out],
                       transB=1)

        x = "x"
        if isinstance(module, Mlp):
            for i, layer in enumerate(module.layers):
                last = i + 1 == len(module.layers)
                x = linear(x, layer, f"layers.{i}", "logits" if last else f"linear{i}")
                if not last:
                    x = add("Relu", [x], [f"relu{i}"])
        else:
            for i, layer in enumerate(module.layers):
                name = f"layers.{i}"
                if isinstance(layer, torch.nn.Conv2d):
                    x = add("Conv", [x, weight(name + ".weight", layer.weight), weight(name + ".bias", layer.bias)],
                            [name], pads=[1, 1, 1, 1], kernel_shape=[3, 3])
                elif isinstance(layer, torch.nn.BatchNorm2d):
                    x = add("BatchNormalization",
                            [x, weight(name + ".weight", layer.weight), weight(name + ".bias", layer.bias),
                             weight(name + ".mean", layer.running_mean), weight(name + ".var", layer.running_var)],
                            [name, name + ".next_mean", name + ".next_var"], training_mode=1)
                elif isinstance(layer, torch.nn.ReLU):
                    x = add("Relu", [x], [name])
                else:
                    x = add("MaxPool", [x], [name], kernel_shape=[2, 2], strides=[2, 2])
            x = add("GlobalAveragePool", [x], ["average"])
            x = add("Flatten", [x], ["flat"])
            linear(x, module.head, "head", "logits")
        shape = list(self.inputs(np.random.default_rng(0))["x"].shape)
        graph = helper.make_graph(
            nodes, self.name, [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)],
            [helper.make_tensor_value_info("logits", onnx.TensorProto.FLOAT, [shape[0], 10])], initializers)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)

    def load(self, _):
        return self.made


def resnet50():
    import torchvision
    return torchvision.models.resnet50()


def bert():
    import transformers

    class Bert(transformers.BertModel):
        def forward(self, input_ids, token_type_ids):
            return super().forward(input_ids=input_ids, token_type_ids=token_type_ids).last_hidden_state

    return Bert(transformers.BertConfig(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0))


def gpt2():
    import transformers

    class Gpt2(transformers.GPT2LMHeadModel):
        def forward(self, input_ids):
            return super().forward(input_ids=input_ids, use_cache=False).logits

    return Gpt2(transformers.GPT2Config(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0))


def tokens(rng, shape, most):
    return rng.integers(0, most, shape).astype("int64")


def normal(rng, shape):
    return rng.standard_normal(shape).astype("float32")


MODELS = {
    "mlp": Own("mlp", Mlp, lambda r: {"x": normal(r, (128, 784))}, lambda r: tokens(r, (128,), 10)),
    "conv_net": Own("conv_net", SmallConvNet, lambda r: {"x": normal(r, (64, 3, 32, 32))},
                    lambda r: tokens(r, (64,), 10)),
    "resnet50": Zoo("resnet50", ["--batch", "8"], resnet50, lambda r: {"input": normal(r, (8, 3, 224, 224))},
                    "cross_entropy", lambda r: tokens(r, (8,), 1000)),
    "bert_base": Zoo("bert_base", ["--batch", "4", "--sequence-length", "128"], bert,
                     lambda r: {"input_ids": tokens(r, (4, 128), 30000), "token_type_ids": tokens(r, (4, 128), 2)},
                     "mean_squared_error", lambda r: normal(r, (4, 128, 768)), "last_hidden_state"),
    "gpt2_small": Zoo("gpt2_small", ["--batch", "2", "--sequence-length", "128"], gpt2,
                      lambda r: {"input_ids": tokens(r, (2, 128), 50257)}, "cross_entropy",
                      lambda r: tokens(r, (2, 128), 50257)),
}


class Ours:
    """A running `rewright train`, stopped but for its turns."""

    def __init__(self, model, folder, batches, args):
        columns = {name: np.concatenate([inputs[name] for inputs, _ in batches]) for name in batches[0][0]}
        for name, array in columns.items():
            np.save(folder / f"{name}.npy", array)
        np.save(folder / "target.npy", np.concatenate([target for _, target in batches]))
        config = {
            "model": {"onnx": str(folder / "model.onnx")},
            "data": {"inputs": {name: f"{name}.npy" for name in columns}, "target": "target.npy",
                     "batch": len(batches[0][1])},
            "loss": model.loss,
            "optimizer": {"kind": "adamw", "learning_rate": RATE, "weight_decay": 0.01},
            "steps": 1000000,
        }
        if model.output:
            config["model"]["output"] = model.output
        (folder / "config.json").write_text(json.dumps(config))
        self.process = subprocess.Popen(
            [args.rewright, "train", str(folder / "config.json"), "--json", "--threads", str(args.threads),
             *args.train_flags.split()],
            stdout=subprocess.PIPE, text=True, bufsize=1)
        self.losses = []

    def step(self):
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"rewright train ended with status {self.process.wait()}")
        report = json.loads(line)
        self.losses.append(report["loss"])
        return report["seconds"]

    def turn(self, steps):
        while select.select([self.process.stdout], [], [], 0)[0]:
            self.step()
        os.kill(self.process.pid, signal.SIGCONT)
        self.step()  # the one that was stopped
        times = [self.step() for _ in range(steps)]
        os.kill(self.process.pid, signal.SIGSTOP)
        return statistics.median(times)

    def stop(self):
        os.kill(self.process.pid, signal.SIGSTOP)

    def peak_bytes(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) * 1024

    def end(self):
        self.process.kill()
        self.process.wait()


class Torch:
    def __init__(self, model, module, batches, compiled):
        self.module = module.train()
        self.optimizer = torch.optim.AdamW(module.parameters(), lr=RATE, weight_decay=0.01, fused=True)
        self.run = torch.compile(module) if compiled else module
        self.classes = model.loss == "cross_entropy"
        self.names = list(batches[0][0])
        self.batches = [([torch.from_numpy(inputs[name]) for name in self.names], torch.from_numpy(target))
                        for inputs, target in batches]
        self.at = 0
        self.losses = []

    def step(self):
        inputs, target = self.batches[self.at % len(self.batches)]
        self.at += 1
        start = time.perf_counter()
        result = self.run(*inputs)
        if self.classes:
            loss = torch.nn.functional.cross_entropy(result.reshape(-1, result.shape[-1]), target.reshape(-1))
        else:
            loss = torch.nn.functional.mse_loss(result, target)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        self.losses.append(loss.item())
        return time.perf_counter() - start

    def turn(self, steps):
        return statistics.median([self.step() for _ in range(steps + 1)][1:])

    def operations(self):
        """Of a step, forward and backward: products and convolutions, a multiplication and an addition as two."""
        with torch.utils.flop_counter.FlopCounterMode(display=False) as counter:
            self.step()
        return counter.get_total_flops()


def matmul_rate(size=2048):
    """Operations a second of PyTorch's product of two matrices, the best of a few."""
    x = torch.randn(size, size)
    times = []
    for _ in range(4):
        start = time.perf_counter()
        x @ x
        times.append(time.perf_counter() - start)
    return 2 * size ** 3 / min(times)


def compare(name, args):
    model = MODELS[name]
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        path = str(folder / "model.onnx")
        model.write(args.rewright, path)
        rng = np.random.default_rng(1)
        # One batch over and over: so the order of samples within it is all that differs, which no loss depends on.
        batch = (model.inputs(rng), model.target(rng))
        ours = Ours(model, folder, [batch], args)
        for _ in range(FIRST_STEPS):
            ours.step()
        ours.stop()
        torch.manual_seed(1)
        theirs = {"eager": Torch(model, model.load(path), [batch], False)}
        if args.channels_last and name in ("resnet50", "conv_net"):
            last = Torch(model, model.load(path).to(memory_format=torch.channels_last), [batch], False)
            last.batches = [([x.to(memory_format=torch.channels_last) for x in xs], t) for xs, t in last.batches]
            theirs["channels_last"] = last
        if args.compile:
            theirs["compile"] = Torch(model, model.load(path), [batch], True)
        for side in theirs.values():
            for _ in range(FIRST_STEPS):
                side.step()
        expected, found = theirs["eager"].losses, ours.losses[:FIRST_STEPS]
        apart = max(abs(a - b) / abs(b) for a, b in zip(found, expected))
        times = {side: [] for side in ("ours", *theirs)}
        operations, rates = theirs["eager"].operations(), []
        for _ in range(args.turns):
            rates.append(matmul_rate())
            times["ours"].append(ours.turn(args.steps))
            for side, runner in theirs.items():
                times[side].append(runner.turn(args.steps))
        peak = ours.peak_bytes()
        ours.end()
    row = {"model": name, "loss_apart": f"{apart:.1e}"}
    for side, values in times.items():
        row[f"{side}_ms"] = f"{1e3 * statistics.median(values):.4g}"
        row[f"{side}_spread"] = f"{1e3 * min(values):.4g}..{1e3 * max(values):.4g}"
    best = min(theirs, key=lambda side: statistics.median(times[side]))
    ratio = statistics.median(a / b for a, b in zip(times["ours"], times[best]))
    row.update({"best": best, "ratio": f"{ratio:.3f}", "peak_mb": f"{peak / 1e6:.0f}"})
    rate = statistics.median(rates)
    share = statistics.median(operations / seconds / rate for seconds, rate in zip(times["ours"], rates))
    row.update({"gflop": f"{operations * 1e-9:.4g}", "matmul_gflop_s": f"{rate * 1e-9:.4g}", "share": f"{share:.2f}"})
    print(row, flush=True)
    return ratio, row


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("models", nargs="*", metavar="MODEL")
    parser.add_argument("--rewright", default="build/release/rewright")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--steps", type=int, default=5, help="in a turn, after one that is not timed")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("--train-flags", default="", help="further flags of rewright train")
    parser.add_argument("--out")
    args = parser.parse_args()
    unknown = set(args.models) - set(MODELS)
    if unknown:
        parser.error(f"unknown models {', '.join(sorted(unknown))}; known: {', '.join(MODELS)}")
    torch.set_num_threads(args.threads)
    ratios, rows = [], []
    for name in args.models or MODELS:
        ratio, row = compare(name, args)
        ratios.append(ratio)
        rows.append(row)
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    print(f"geometric mean of ours over PyTorch's: {mean:.3f}")
    if args.out:
        about = f"{machine()}; torch {torch.__version__}; {args.threads} threads; {' '.join(sys.argv)}; mean {mean:.3f}"
        write_table(args.out, about, rows)


if __name__ == "__main__":
    main()
