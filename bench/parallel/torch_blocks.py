"""Blocks of models on one device and on the ranks of a mesh, with published bugs, for torch_ranks.py."""

import functools

import torch
import torch.distributed._functional_collectives as fc
from torch.nn import functional as F

CASES = []


def case(mesh, bugs=None, other_meshes=()):
    """Registers a block: a function that, given a bug or None, returns (whole, rank, inputs, outputs).

    On other meshes it is given their sizes, and what a rank has is as large: the claims must be the same there.
    """

    def add(block):
        CASES.append((block.__name__, mesh, block, bugs or {}))
        for other in other_meshes:
            CASES.append((block.__name__, other, functools.partial(block, **other), {}))
        return block

    return add


def randn(*shape):
    return torch.randn(shape)


def tokens(*shape, high):
    return torch.randint(high, shape)


# ---- collectives with gradients, as Megatron has them


class Copy(torch.autograd.Function):
    """x on every rank; its gradient is the sum of theirs."""

    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return fc.all_reduce(grad, "sum", ctx.group), None


class Reduce(torch.autograd.Function):
    """The sum over the ranks; every rank has its gradient."""

    @staticmethod
    def forward(ctx, x, group):
        return fc.all_reduce(x, "sum", group)

    @staticmethod
    def backward(ctx, grad):
        return grad, None


class Gather(torch.autograd.Function):
    """The sequence (axis 0) of all ranks; the gradient is summed and cut."""

    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return fc.all_gather_tensor(x, 0, group)

    @staticmethod
    def backward(ctx, grad):
        return fc.reduce_scatter_tensor(grad, "sum", 0, ctx.group), None


class Scatter(torch.autograd.Function):
    """The sum, of which each rank has its part of the sequence; the gradient is gathered."""

    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return fc.reduce_scatter_tensor(x, "sum", 0, group)

    @staticmethod
    def backward(ctx, grad):
        return fc.all_gather_tensor(grad, 0, ctx.group), None


def gradients(loss, *weights):
    return torch.autograd.grad(loss, weights)


def leaves(*tensors):
    return [tensor.detach().requires_grad_() for tensor in tensors]


def rms_norm(x, scale):
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5) * scale


# ---- forward passes


@case({"tp": 2}, {
    "missing": "TrainVerify: a missing all-reduce",
    "gather": "TrainVerify: an all-reduce replaced by an all-gather",
    "copy": "SkyRL PR 1886: all-reduce of a copy",
    "scalar": "pytorch #163193: a scalar added to a partial sum on every rank",
    "twice": "an all-reduce of what is already the sum",
})
def mlp(bug):
    def whole(x, w1, b1, w2, b2):
        return F.gelu(x @ w1 + b1) @ w2 + b2

    def rank(mesh, x, w1, b1, w2, b2):
        group = mesh.get_group("tp")
        y = F.gelu(x @ w1 + b1) @ w2
        if bug == "scalar":
            return fc.all_reduce(y + b2, "sum", group)
        if bug == "copy":
            fc.all_reduce(y.clone(), "sum", group)
        elif bug == "gather":
            y = fc.all_gather_tensor(y, 0, group)
        elif bug != "missing":
            y = fc.all_reduce(y, "sum", group)
        if bug == "twice":
            y = fc.all_reduce(y, "sum", group)
        return y + b2

    return whole, rank, {"x": (randn(3, 4, 8), {}), "w1": (randn(8, 12), {"tp": 1}), "b1": (randn(12), {"tp": 0}),
                         "w2": (randn(12, 8), {"tp": 0}), "b2": (randn(8), {})}, {"y": {}}


@case({"dp": 2, "tp": 2}, {"group": "#7452, no. 5: over the wrong group"})
def mlp_on_a_mesh(bug):
    def whole(x, w1, w2):
        return torch.relu(x @ w1) @ w2

    def rank(mesh, x, w1, w2):
        return fc.all_reduce(torch.relu(x @ w1) @ w2, "sum", mesh.get_group("dp" if bug else "tp"))

    return whole, rank, {"x": (randn(4, 8), {"dp": 0}), "w1": (randn(8, 12), {"tp": 1}),
                         "w2": (randn(12, 8), {"tp": 0})}, {"y": {"dp": 0}}


@case({"tp": 2}, {
    "maximum": "pytorch PR 165962: maximum before the reduction",
    "norm": "pytorch PR 159856: norm of partial sums",
})
def norm_of_a_sum(bug):
    def whole(x, w):
        y = x @ w
        return y.amax(-1), (y * y).sum().sqrt()

    def rank(mesh, x, w):
        group = mesh.get_group("tp")
        part = x @ w
        y = fc.all_reduce(part, "sum", group)
        most = fc.all_reduce(part.amax(-1), "sum", group) if bug == "maximum" else y.amax(-1)
        if bug == "norm":
            return most, fc.all_reduce((part * part).sum(), "sum", group).sqrt()
        return most, (y * y).sum().sqrt()

    return whole, rank, {"x": (randn(4, 8), {"tp": 1}), "w": (randn(8, 6), {"tp": 0})}, {"most": {}, "norm": {}}


@case({"a": 2, "b": 2}, {"order": "pytorch #166598: contraction axes cut in different orders"})
def contraction_over_two_axes(bug):
    def whole(x, w):
        return x @ w

    def rank(mesh, x, w):
        if bug:
            w = fc.all_gather_tensor(fc.all_gather_tensor(w, 0, mesh.get_group("b")), 0, mesh.get_group("a"))
            w = w.chunk(4)[mesh.get_local_rank("b") * 2 + mesh.get_local_rank("a")]
        y = fc.all_reduce(x @ w, "sum", mesh.get_group("b"))
        return fc.all_reduce(y, "sum", mesh.get_group("a"))

    return whole, rank, {"x": (randn(3, 8), {"a": 1, "b": 1}), "w": (randn(8, 6), {"a": 0, "b": 0})}, {"y": {}}


@case({"tp": 2}, {"exponent": "TrainVerify: one rank's exponent differs"})
def norm_of_columns(bug):
    def whole(x, w):
        return torch.relu(x @ w) ** 3.0

    def rank(mesh, x, w):
        exponent = 4.0 if bug and mesh.get_rank() == 1 else 3.0
        return fc.all_gather_tensor(torch.relu(x @ w) ** exponent, 1, mesh.get_group("tp"))

    return whole, rank, {"x": (randn(4, 8), {}), "w": (randn(8, 6), {"tp": 1})}, {"y": {}}


@case({"tp": 2}, {"unmasked": "an unmasked look-up of a cut table"})
def vocabulary_parallel_embedding(bug):
    def whole(ids, table):
        return F.embedding(ids, table)

    def rank(mesh, ids, table):
        rows = table.shape[0]
        local = ids - mesh.get_local_rank("tp") * rows
        outside = (local < 0) | (local >= rows)
        found = F.embedding(torch.where(outside, 0, local), table)
        if not bug:
            found = torch.where(outside.unsqueeze(-1), 0.0, found)
        return fc.all_reduce(found, "sum", mesh.get_group("tp"))

    return whole, rank, {"ids": (tokens(3, 5, high=8), {}), "table": (randn(8, 6), {"tp": 0})}, {"y": {}}


def attend(q, k, v, before):
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    return F.softmax(torch.where(before, scores, -1e9), -1) @ v


def heads(x, size):
    return x.unflatten(-1, (-1, size)).transpose(0, 1)  # [s, h] -> [heads, s, size]


def joined(x):
    return x.transpose(0, 1).flatten(-2)


@case({"tp": 2}, {"missing": "TrainVerify: a missing all-reduce, in attention"})
def attention(bug):
    def block(x, at, wq, wk, wv):
        before = at[:, None] >= at[None, :]
        return joined(attend(heads(x @ wq, 4), heads(x @ wk, 4), heads(x @ wv, 4), before))

    def whole(x, at, wq, wk, wv, wo):
        return x + block(x, at, wq, wk, wv) @ wo

    def rank(mesh, x, at, wq, wk, wv, wo):
        y = block(x, at, wq, wk, wv) @ wo
        return x + (y if bug else fc.all_reduce(y, "sum", mesh.get_group("tp")))

    weight = {"tp": 1}
    return whole, rank, {"x": (randn(6, 16), {}), "at": (torch.arange(6), {}), "wq": (randn(16, 16), weight),
                         "wk": (randn(16, 16), weight), "wv": (randn(16, 16), weight),
                         "wo": (randn(16, 16), {"tp": 0})}, {"y": {}}


@case({"cp": 2}, {
    "mask": "Megatron-LM PR 5563: the mask stays whole while activations are cut",
    "keys": "keys of the rank alone",
})
def context_parallel_attention(bug):
    def whole(q, k, v, at):
        return attend(heads(q, 4), heads(k, 4), heads(v, 4), at[:, None] >= at[None, :])

    def rank(mesh, q, k, v, at):
        group = mesh.get_group("cp")
        if bug != "keys":
            k, v = fc.all_gather_tensor(k, 0, group), fc.all_gather_tensor(v, 0, group)
        every = at if bug == "keys" else fc.all_gather_tensor(at, 0, group)
        before = every[:, None] >= every[None, :]
        if bug == "mask":
            before = before[:at.shape[0]]
        elif bug is None:
            before = at[:, None] >= every[None, :]
        return attend(heads(q, 4), heads(k, 4), heads(v, 4), before)

    cut = {"cp": 0}
    return whole, rank, {"q": (randn(6, 8), cut), "k": (randn(6, 8), cut), "v": (randn(6, 8), cut),
                         "at": (torch.arange(6), cut)}, {"y": {"cp": 1}}


@case({"cp": 2}, {"rolled": "verl PR 4250: labels rolled after the cut"})
def next_token_labels(bug):
    def whole(logits, ids):
        return (logits * ids.roll(-1, 0)).sum()

    def rank(mesh, logits, ids):
        group, size, at = mesh.get_group("cp"), ids.shape[0], mesh.get_local_rank("cp")
        if bug:
            labels = ids.roll(-1, 0)
        else:
            labels = fc.all_gather_tensor(ids, 0, group).roll(-1, 0).narrow(0, at * size, size)
        return fc.all_reduce((logits * labels).sum(), "sum", group)

    return whole, rank, {"logits": (randn(8), {"cp": 0}), "ids": (randn(8), {"cp": 0})}, {"loss": {}}


def decoder(x, at, n1, wq, wk, wv, wo, n2, wg, wu, wd, gather, everywhere, scatter, every):
    y = gather(rms_norm(x, n1))
    k, v = everywhere(y @ wk), everywhere(y @ wv)
    before = at[:, None] >= every(at)[None, :]
    x = x + scatter(joined(attend(heads(y @ wq, 5), heads(k, 5), heads(v, 5), before)) @ wo)
    y = gather(rms_norm(x, n2))
    return x + scatter((F.silu(y @ wg) * (y @ wu)) @ wd)


@case({"cp": 2, "tp": 2}, {"group": "keys gathered over the wrong group"}, [{"cp": 4, "tp": 2}, {"cp": 2, "tp": 4}])
def decoder_block(bug, cp=2, tp=2):
    """Tensor, sequence and context parallel: a rank has the keys of its heads, gathered over cp."""

    def whole(*tensors):
        same = [lambda x: x] * 4
        return decoder(*tensors, *same)

    def rank(mesh, *tensors):
        tp, cp = mesh.get_group("tp"), mesh.get_group("cp")
        return decoder(*tensors, lambda x: fc.all_gather_tensor(x, 0, tp),
                       lambda x: fc.all_gather_tensor(x, 0, tp if bug else cp),
                       lambda x: fc.reduce_scatter_tensor(x, "sum", 0, tp), lambda x: fc.all_gather_tensor(x, 0, cp))

    # The sizes of a rank's tensors differ from one another on all meshes.
    column, row, length, model, heads_in_all, wide = {"tp": 1}, {"tp": 0}, 3 * cp * tp, 11, 10 * tp, 7 * tp
    return whole, rank, {
        "x": (randn(length, model), {"cp": 0, "tp": 0}), "at": (torch.arange(length), {"cp": 0}),
        "n1": (randn(model), {}),
        "wq": (randn(model, heads_in_all), column), "wk": (randn(model, heads_in_all), column),
        "wv": (randn(model, heads_in_all), column), "wo": (randn(heads_in_all, model), row), "n2": (randn(model), {}),
        "wg": (randn(model, wide), column), "wu": (randn(model, wide), column), "wd": (randn(wide, model), row)}, {
        "y": {"cp": 0, "tp": 0}}


# ---- training


@case({"tp": 2}, {
    "reversed": "TrainVerify: a backward pass that returns outputs in reverse",
    "copy": "a missing all-reduce in the backward pass",
})
def mlp_gradients(bug):
    class Swapped(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            ctx.save_for_backward(a, b)
            return a * b

        @staticmethod
        def backward(ctx, grad):
            a, b = ctx.saved_tensors
            return grad * a, grad * b  # that of a is grad * b

    def whole(x, w1, w2, w3):
        x, w1, w2, w3 = leaves(x, w1, w2, w3)
        return gradients(((((x @ w1) * (x @ w2)) @ w3) ** 2).sum(), x, w1, w2, w3)

    def rank(mesh, x, w1, w2, w3):
        group = mesh.get_group("tp")
        x, w1, w2, w3 = leaves(x, w1, w2, w3)
        y = x if bug == "copy" else Copy.apply(x, group)
        product = Swapped.apply(y @ w1, y @ w2) if bug == "reversed" else (y @ w1) * (y @ w2)
        return gradients((Reduce.apply(product @ w3, group) ** 2).sum(), x, w1, w2, w3)

    return whole, rank, {"x": (randn(4, 8), {}), "w1": (randn(8, 12), {"tp": 1}), "w2": (randn(8, 12), {"tp": 1}),
                         "w3": (randn(12, 8), {"tp": 0})}, {"dx": {}, "dw1": {"tp": 1}, "dw2": {"tp": 1},
                                                            "dw3": {"tp": 0}}


@case({"tp": 2}, {
    "final": "Megatron-LM #1446: gradients of the final norm not reduced over TP with sequence parallel",
    "cut": "ROCm/TransformerEngine PR 715: a replicated weight marked as cut",
    "average": "inconsistent scaling: a sum averaged",
})
def sequence_parallel_gradients(bug):
    def loss(x, n1, w1, w2, n2, gather, scatter):
        y = x + scatter(torch.relu(gather(rms_norm(x, n1)) @ w1) @ w2)
        return (rms_norm(y, n2) ** 3).sum()

    def whole(*tensors):
        tensors = leaves(*tensors)
        return gradients(loss(*tensors, lambda x: x, lambda x: x), *tensors[1:])

    def rank(mesh, *tensors):
        group = mesh.get_group("tp")
        tensors = leaves(*tensors)
        part = loss(*tensors, lambda x: Gather.apply(x, group), lambda x: Scatter.apply(x, group))
        n1, w1, w2, n2 = gradients(part, *tensors[1:])
        if bug != "cut":
            n1 = fc.all_reduce(n1, "avg" if bug == "average" else "sum", group)
        return n1, w1, w2, n2 if bug == "final" else fc.all_reduce(n2, "sum", group)

    return whole, rank, {"x": (randn(4, 8), {"tp": 0}), "n1": (randn(8), {}), "w1": (randn(8, 12), {"tp": 1}),
                         "w2": (randn(12, 8), {"tp": 0}), "n2": (randn(8), {})}, {
        "dn1": {}, "dw1": {"tp": 1}, "dw2": {"tp": 0}, "dn2": {}}


@case({"dp": 2, "cp": 2}, {
    "group": "Megatron-LM #673, #906: loss scaled by one group, gradients averaged over another",
    "extra": "Megatron-LM #3943: a loss divided by an extra group size",
    "dp": "gradients reduced over dp alone, with context parallel",
})
def averaged_gradients(bug):
    def whole(x, w, t):
        (w,) = leaves(w)
        return gradients(((x @ w - t) ** 2).mean(), w)

    def rank(mesh, x, w, t):
        (w,) = leaves(w)
        loss = ((x @ w - t) ** 2).mean()
        if bug == "extra":
            loss = loss / mesh.size(1)
        (grad,) = gradients(loss / (mesh.size(0) if bug in ("group", "dp") else 1), w)
        if bug in ("group", "dp"):
            grad = fc.all_reduce(grad, "sum", mesh.get_group("dp"))
            return grad if bug == "dp" else fc.all_reduce(grad, "sum", mesh.get_group("cp"))
        return fc.all_reduce(fc.all_reduce(grad, "avg", mesh.get_group("cp")), "avg", mesh.get_group("dp"))

    return whole, rank, {"x": (randn(2, 6, 7), {"dp": 0, "cp": 1}), "w": (randn(7, 5), {}),
                         "t": (randn(2, 6, 5), {"dp": 0, "cp": 1})}, {"dw": {}}


@case({"dp": 2}, {
    "last": "Automodel PR 3530: only the last micro-batch counts",
    "scaled": "torchtitan #1733: the accumulated gradient is scaled at every step",
    "early": "TrainVerify: the reducer starts before the second micro-batch is done",
    "tokens": "#2972: gradients too large by the number of tokens",
})
def accumulated_gradients(bug):
    def whole(x, w, t):
        (w,) = leaves(w)
        return gradients(((x @ w - t) ** 2).mean(), w)

    def rank(mesh, x, w, t):
        group = mesh.get_group("dp")
        (w,) = leaves(w)
        total = None
        for part in range(2):
            rows = slice(2 * part, 2 * part + 2)
            (grad,) = gradients(((x[rows] @ w - t[rows]) ** 2).mean(), w)
            if bug != "tokens":
                grad = grad / 4
            if total is None or bug == "last":
                total = grad
            elif bug == "early":
                return fc.all_reduce(total, "sum", group) + grad
            else:
                total = (total / 2 if bug == "scaled" else total) + grad
        return fc.all_reduce(total, "sum", group)

    return whole, rank, {"x": (randn(8, 6), {"dp": 0}), "w": (randn(6, 5), {}), "t": (randn(8, 5), {"dp": 0})}, {
        "dw": {}}


@case({"tp": 2}, {"tied": "Megatron-LM PR 7228: a weight that ranks share counted twice in the gradient norm"})
def gradient_norm(bug):
    def whole(cut, shared):
        return ((cut * cut).sum() + (shared * shared).sum()).sqrt()

    def rank(mesh, cut, shared):
        group = mesh.get_group("tp")
        if bug:
            return fc.all_reduce((cut * cut).sum() + (shared * shared).sum(), "sum", group).sqrt()
        return (fc.all_reduce((cut * cut).sum(), "sum", group) + (shared * shared).sum()).sqrt()

    return whole, rank, {"cut": (randn(6, 4), {"tp": 0}), "shared": (randn(5), {})}, {"norm": {}}


@case({"ep": 2}, {"scale": "Megatron-LM PR 5956: expert gradients too large by the expert-parallel size"})
def expert_gradients(bug):
    """Two experts, one on each rank; tokens go to theirs and back by all-to-all."""

    def loss(y, t):
        return ((y - t) ** 2).sum(-1)

    def whole(x, w, t):  # x[source, expert, token, feature]
        (w,) = leaves(w)
        y = torch.relu(torch.einsum("setf,efg->setg", x, w))
        return gradients(loss(y, t).mean(), w)

    def rank(mesh, x, w, t):
        group = mesh.get_group("ep")
        (w,) = leaves(w)
        sent = fc.all_to_all_single(x.transpose(0, 1), None, None, group)  # [source, this expert, token, feature]
        labels = fc.all_to_all_single(t.transpose(0, 1), None, None, group)
        part = loss(torch.relu(torch.einsum("setf,efg->setg", sent, w)), labels).mean()
        return gradients(part if bug else part / mesh.size(0), w)

    return whole, rank, {"x": (randn(2, 2, 3, 4), {"ep": 0}), "w": (randn(2, 4, 5), {"ep": 0}),
                         "t": (randn(2, 2, 3, 5), {"ep": 0})}, {"dw": {"ep": 0}}


@case({"tp": 2}, {"drift": "BLOOM-176B: layer norms drift apart over TP"})
def norm_step(bug):
    def whole(x, n, w, t):
        (n,) = leaves(n)
        return n - 0.1 * gradients(((rms_norm(x, n) @ w - t) ** 2).sum(), n)[0]

    def rank(mesh, x, n, w, t):
        group = mesh.get_group("tp")
        (n,) = leaves(n)
        y = rms_norm(x, n)
        (grad,) = gradients((((y if bug else Copy.apply(y, group)) @ w - t) ** 2).sum(), n)
        return n - 0.1 * grad

    return whole, rank, {"x": (randn(4, 8), {}), "n": (randn(8), {}), "w": (randn(8, 6), {"tp": 1}),
                         "t": (randn(4, 6), {"tp": 1})}, {"next": {}}


@case({"tp": 2})
def parallelized_module(bug):
    """PyTorch's own: parallelize_module, whose parameters are DTensor."""
    from torch.distributed.tensor import DTensor
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
    from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing

    def module():
        return torch.nn.Sequential(torch.nn.Linear(8, 12), torch.nn.ReLU(), torch.nn.Linear(12, 8))

    def called(model, names, tensors):
        return torch.func.functional_call(model, dict(zip(names, tensors[1:])), tensors[0])

    single = module()
    names = [name for name, _ in single.named_parameters()]

    def whole(*tensors):
        return called(single, names, tensors)

    def rank(mesh, *tensors):
        with disable_proxy_modes_tracing():
            model = parallelize_module(module(), mesh["tp"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
        local = [DTensor.from_local(tensor, mesh, parameter.placements)
                 for tensor, parameter in zip(tensors[1:], model.parameters())]
        return called(model, names, [tensors[0], *local])

    return whole, rank, {"x": (randn(4, 8), {}), "w1": (randn(12, 8), {"tp": 0}), "b1": (randn(12), {"tp": 0}),
                         "w2": (randn(8, 12), {"tp": 1}), "b2": (randn(8), {})}, {"y": {}}
