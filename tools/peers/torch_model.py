"""An ONNX model as a torch module, operator by operator, for `rewright compare`.

Covers the operators of the model zoo; another one is an error that names it. Shapes, axes and bounds that a model gives as
constants are taken when the module is made, so that torch.compile sees one graph without branches.
"""
import numpy as np
import torch
import torch.nn.functional as F
from onnx_steps import OnnxSteps


def padded(x, pads, value=0.0):
    """ONNX pads [top, left, bottom, right]; what is even is left to the operator itself: (x, symmetric pads)."""
    top, left, bottom, right = pads
    if top == bottom and left == right:
        return x, (top, left)
    return F.pad(x, (left, right, top, bottom), value=value), (0, 0)


def conv(attrs, _):
    groups, strides = attrs.get("group", 1), tuple(attrs.get("strides", [1, 1]))
    dilations, pads = tuple(attrs.get("dilations", [1, 1])), attrs.get("pads", [0, 0, 0, 0])

    def run(x, w, b=None):
        x, even = padded(x, pads)
        return F.conv2d(x, w, b, strides, even, dilations, groups)
    return run


def max_pool(attrs, _):
    kernel, strides = tuple(attrs["kernel_shape"]), tuple(attrs.get("strides", [1, 1]))
    pads, dilations = attrs.get("pads", [0, 0, 0, 0]), tuple(attrs.get("dilations", [1, 1]))

    def run(x):
        x, even = padded(x, pads, float("-inf"))
        return F.max_pool2d(x, kernel, strides, even, dilations, bool(attrs.get("ceil_mode", 0)))
    return run


def average_pool(attrs, _):
    kernel, strides = tuple(attrs["kernel_shape"]), tuple(attrs.get("strides", [1, 1]))
    pads, counted = attrs.get("pads", [0, 0, 0, 0]), bool(attrs.get("count_include_pad", 0))
    if not counted and (pads[0] != pads[2] or pads[1] != pads[3]):
        raise NotImplementedError("AveragePool with uneven pads that do not count")

    def run(x):
        x, even = padded(x, pads)
        return F.avg_pool2d(x, kernel, strides, even, bool(attrs.get("ceil_mode", 0)), counted)
    return run


def slice_(_, constants):
    starts, ends = constants[1].tolist(), constants[2].tolist()
    axes = constants[3].tolist() if constants.get(3) is not None else list(range(len(starts)))
    steps = constants[4].tolist() if constants.get(4) is not None else [1] * len(starts)
    if any(step < 1 for step in steps):
        raise NotImplementedError("Slice with a negative step")

    def run(x):
        index = [slice(None)] * x.dim()
        for axis, start, end, step in zip(axes, starts, ends, steps):
            index[axis] = slice(start, min(end, x.shape[axis]), step)
        return x[tuple(index)]
    return run


def pad(attrs, constants):
    if attrs.get("mode", b"constant") != b"constant":
        raise NotImplementedError("Pad that repeats")
    pads, rank = constants[1].tolist(), len(constants[1]) // 2
    value = float(constants[2]) if constants.get(2) is not None else 0.0
    flat = [amount for axis in reversed(range(rank)) for amount in (pads[axis], pads[rank + axis])]
    return lambda x: F.pad(x, flat, value=value)


def reduction(function):
    def make(attrs, constants):
        axes = attrs.get("axes") or (constants[1].tolist() if constants.get(1) is not None else None)
        keep = bool(attrs.get("keepdims", 1))
        return lambda x: function(x, tuple(axes) if axes else tuple(range(x.dim())), keep)
    return make


def reshape(_, constants):
    shape = constants[1].tolist()
    return lambda x: x.reshape([x.shape[i] if size == 0 else size for i, size in enumerate(shape)])


def clip(_, constants):
    low = float(constants[1]) if constants.get(1) is not None else None
    high = float(constants[2]) if constants.get(2) is not None else None
    return lambda x: torch.clamp(x, low, high)


def split(attrs, constants):
    sizes = constants[1].tolist()
    return lambda x: torch.split(x, sizes, attrs.get("axis", 0))


def plain(function):
    return lambda attrs, constants: function


OPERATORS = {
    "Add": plain(torch.add), "Sub": plain(torch.sub), "Mul": plain(torch.mul), "Div": plain(torch.div),
    "Pow": plain(torch.pow), "MatMul": plain(torch.matmul), "Relu": plain(torch.relu), "Tanh": plain(torch.tanh),
    "Sigmoid": plain(torch.sigmoid), "Erf": plain(torch.erf), "Exp": plain(torch.exp), "Sqrt": plain(torch.sqrt),
    "HardSwish": plain(F.hardswish),
    "LeakyRelu": lambda attrs, _: lambda x: F.leaky_relu(x, attrs.get("alpha", 0.01)),
    "HardSigmoid": lambda attrs, _: lambda x: (attrs.get("alpha", 0.2) * x + attrs.get("beta", 0.5)).clamp(0, 1),
    "Neg": plain(torch.neg), "Identity": plain(lambda x: x), "Where": plain(torch.where),
    "Conv": conv, "MaxPool": max_pool, "AveragePool": average_pool, "Slice": slice_, "Pad": pad, "Reshape": reshape,
    "Clip": clip, "Split": split,
    "ReduceMean": reduction(torch.mean), "ReduceSum": reduction(torch.sum), "ReduceMax": reduction(torch.amax),
    "GlobalAveragePool": plain(lambda x: x.mean((2, 3), keepdim=True)),
    "BatchNormalization": lambda attrs, _: lambda x, g, b, m, v: F.batch_norm(
        x, m, v, g, b, False, 0.0, attrs.get("epsilon", 1e-5)),
    "LayerNormalization": lambda attrs, _: lambda x, g, b=None: F.layer_norm(
        x, x.shape[attrs.get("axis", -1):], g, b, attrs.get("epsilon", 1e-5)),
    "Softmax": lambda attrs, _: lambda x: torch.softmax(x, attrs.get("axis", -1)),
    "Concat": lambda attrs, _: lambda *xs: torch.cat(xs, attrs["axis"]),
    "Transpose": lambda attrs, _: lambda x: x.permute(attrs["perm"]),
    "Gather": lambda attrs, _: lambda x, i: torch.index_select(x, attrs.get("axis", 0), i.reshape(-1)).reshape(
        list(x.shape[:attrs.get("axis", 0)]) + list(i.shape) + list(x.shape[attrs.get("axis", 0) + 1:])),
    "Gelu": lambda attrs, _: lambda x: F.gelu(x, approximate=attrs.get("approximate", b"none").decode()),
    "Gemm": lambda attrs, _: lambda a, b, c=0: attrs.get("alpha", 1.0) * (
        (a.t() if attrs.get("transA") else a) @ (b.t() if attrs.get("transB") else b)) + attrs.get("beta", 1.0) * c,
}


class TorchModel(torch.nn.Module):
    """Called with the inputs in the order of `input_names`, gives the outputs in the model's order."""

    def __init__(self, path):
        super().__init__()
        self.model = OnnxSteps(path, OPERATORS)
        self.input_names = self.model.input_names
        # Buffers by the name of the tensor: names of tensors may hold dots, which those of buffers may not.
        self.slots = {name: f"weight_{i}" for i, name in enumerate(self.model.weights)}
        for name, slot in self.slots.items():
            self.register_buffer(slot, torch.from_numpy(np.array(self.model.weights[name])))

    def forward(self, *inputs):
        values = dict(zip(self.input_names, inputs))
        for name, slot in self.slots.items():
            values[name] = getattr(self, slot)
        return self.model.run(values)
