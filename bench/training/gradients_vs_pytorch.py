#!/usr/bin/env python3
"""Exported gradients beside PyTorch's: `rewright grad` writes the backward graph of a model as ONNX, onnxruntime runs it.

    python bench/training/gradients_vs_pytorch.py --rewright build/release/rewright --runner PYTHON [MODEL...] > FILE

Wants torch, torchvision, transformers and onnx, and at PYTHON (default: this one) onnxruntime. The models are those of
`rewright zoo`, with the zoo's weights in both; the loss is the sum of one output's elements, each times a random number
that is an input. What counts is PyTorch's gradient in float64; PyTorch's in float32 stands beside ours, since where a relu
is nearly 0 rounding decides which way a gradient goes. Prints, by model, the largest difference of two gradients'
elements, relative to the largest element of all gradients; relative to the largest of the same gradient, where that is
1/1000 of the former at least (some are 0 but for rounding, such as that by the bias of attention's keys); and the length
of the difference, all gradients as one vector. Fails where the last figure exceeds 1e-4.
"""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import torch
from onnx import helper

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from table import machine  # noqa: E402
from training.vs_pytorch_training import bert, resnet50, tokens, weights_of, normal, Zoo  # noqa: E402

MODELS = {
    "bert_base": Zoo("bert_base", ["--batch", "1", "--sequence-length", "32"], bert,
                     lambda r: {"input_ids": tokens(r, (1, 32), 30000), "token_type_ids": tokens(r, (1, 32), 2)},
                     None, None, "last_hidden_state"),
    "resnet50": Zoo("resnet50", ["--batch", "1"], resnet50, lambda r: {"input": normal(r, (1, 3, 224, 224))}, None,
                    None),
}

RUN = """
import sys, numpy as np, onnxruntime
session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
inputs = dict(np.load(sys.argv[2]))
names = [output.name for output in session.get_outputs()]
np.savez(sys.argv[3], **dict(zip(names, session.run(names, {i.name: inputs[i.name] for i in session.get_inputs()}))))
print(onnxruntime.__version__)
"""


def with_loss(path, output):
    """Adds sum(output * u) as the only output; u is an input."""
    model = onnx.load(path)
    graph = model.graph
    value = next(o for o in graph.output if output in (None, o.name))
    shape = [d.dim_value for d in value.type.tensor_type.shape.dim]
    graph.input.append(helper.make_tensor_value_info("loss_weights", onnx.TensorProto.FLOAT, shape))
    graph.node.append(helper.make_node("Mul", [value.name, "loss_weights"], ["weighted"]))
    graph.node.append(helper.make_node("ReduceSum", ["weighted"], ["loss"], keepdims=0))
    del graph.output[:]
    graph.output.append(helper.make_tensor_value_info("loss", onnx.TensorProto.FLOAT, []))
    onnx.save(model, path)
    return shape


def compare(name, args):
    model = MODELS[name]
    rng = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        path = str(folder / "model.onnx")
        subprocess.run([args.rewright, "zoo", name, *model.flags, "-o", path, "--quiet"], check=True,
                       stdout=subprocess.DEVNULL)
        module = model.load(path).eval()
        inputs = model.inputs(rng)
        shape = with_loss(path, model.output)
        inputs["loss_weights"] = normal(rng, shape)
        backward = str(folder / "backward.onnx")
        subprocess.run([args.rewright, "grad", path, "-o", backward, "--quiet"], check=True)
        np.savez(folder / "inputs.npz", **inputs)
        run = subprocess.run([args.runner, "-c", RUN, backward, str(folder / "inputs.npz"), str(folder / "found.npz")],
                             check=True, stdout=subprocess.PIPE, text=True)
        found = np.load(folder / "found.npz")

        known = weights_of(path)
        weights = inputs.pop("loss_weights")

        def gradients(dtype):
            module.zero_grad()
            module.to(dtype)
            operands = [torch.from_numpy(x) for x in inputs.values()]
            result = module(*[x.to(dtype) if x.is_floating_point() else x for x in operands])
            loss = (result * torch.from_numpy(weights).to(dtype)).sum()
            loss.backward()
            return loss.item(), {n: p.grad.numpy().astype("float64") for n, p in module.named_parameters()
                                 if p.grad is not None and n in known}

        _, single = gradients(torch.float32)
        loss, expected = gradients(torch.float64)
        missing = [n for n in expected if f"grad_{n}" not in found]
        if missing:
            raise SystemExit(f"{name}: no gradient by {missing[:5]}")
        ours = {n: found[f"grad_{n}"] for n in expected}

        def figures(side):
            largest = max(np.abs(g).max() for g in expected.values())
            apart = {n: np.abs(side[n] - g).max() for n, g in expected.items()}
            by_itself = {n: apart[n] / np.abs(g).max() for n, g in expected.items()
                         if np.abs(g).max() >= largest / 1000}
            length = sum(((side[n] - g) ** 2).sum() for n, g in expected.items()) ** 0.5
            whole = sum((g ** 2).sum() for g in expected.values()) ** 0.5
            return max(apart.values()) / largest, max(by_itself.values()), length / whole

        kinds = len({n.op_type for n in onnx.load(backward).graph.node})
        print(f"{name}: {len(expected)} gradients, {kinds} kinds of nodes, loss {found['loss']:.7g} and {loss:.7g}, "
              f"onnxruntime {run.stdout.strip()}")
        for side, values in (("ours, by onnxruntime", ours), ("PyTorch in float32", single)):
            print(f"  {side}: largest difference {figures(values)[0]:.1e} of the largest element of all, "
                  f"{figures(values)[1]:.1e} of the largest of the same gradient; length of the difference "
                  f"{figures(values)[2]:.1e} of that of all gradients")
        return figures(ours)[2]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=list(MODELS))
    parser.add_argument("--rewright", default="build/release/rewright")
    parser.add_argument("--runner", default=sys.executable)
    args = parser.parse_args()
    print(f"# {machine()}, PyTorch {torch.__version__}")
    return int(max(compare(name, args) for name in args.models) > 1e-4)


if __name__ == "__main__":
    sys.exit(main())
