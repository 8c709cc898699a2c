"""Graphs per rank from PyTorch, in the form that `rewright equal MODEL.onnx --ranks PLAN.json` reads.

    from rewright import ranks

    def whole(x, w1, w2):
        return torch.relu(x @ w1) @ w2

    def rank(mesh, x, w1, w2):
        return all_reduce(torch.relu(x @ w1) @ w2, "sum", mesh.get_group("tp"))

    ranks.export("mlp", whole, rank, mesh={"tp": 2}, outputs={"y": {}},
                 inputs={"x": (x, {}), "w1": (w1, {"tp": 1}), "w2": (w2, {"tp": 0})})

Each rank is traced in one process: the group of processes is PyTorch's fake one, whose collectives do nothing. A rank
may run functional collectives, DTensor, modules under parallelize_module, gradients by torch.autograd.grad.
The trace has the operators of one rank; a collective becomes a node of the domain `rewright.ranks`.

A placement says for axes of the mesh how ranks along them hold a tensor: {"tp": 1} is cut along axis 1 of the tensor,
{"tp": "sum"} and {"tp": "mean"} are shares of a sum and of a mean, and an axis that is not named holds all of it. Where
two axes of the mesh cut one axis of the tensor, the first makes the outer blocks.
"""

import functools
import json
import operator
import pathlib

import onnx
import onnx.helper
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.fx.experimental.proxy_tensor import make_fx

__all__ = ["export"]

DOMAIN = "rewright.ranks"
_COLLECTIVES = torch.ops._c10d_functional
_ATEN = torch.ops.aten


def export(folder, whole, rank, *, mesh, inputs, outputs):
    """Writes whole.onnx, rank0.onnx, .. and plan.json into the folder; returns the path of plan.json.

    `whole(*tensors)` is the module on one device, `rank(mesh, *blocks)` what a rank runs, given a DeviceMesh; both
    return a tensor or a tuple of them. `mesh` has the size of each axis by name; ranks are numbered row by row.
    `inputs` has (tensor of the whole, placement) by name, `outputs` the placement by name, both in order.
    """
    both = sorted(inputs.keys() & outputs.keys())
    if both:
        raise ValueError(f"found inputs and outputs of one name ({', '.join(both)}), expected names of their own")
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    tensors = [tensor for tensor, _ in inputs.values()]
    _write(whole, tensors, list(inputs), list(outputs), folder / "whole.onnx")
    count = 1
    for size in mesh.values():
        count *= size
    files = []
    for number in range(count):
        blocks = [_block(tensor, placement, mesh, number) for tensor, placement in inputs.values()]
        files.append(f"rank{number}.onnx")
        with _Ranks(mesh, number) as device_mesh:
            _write(lambda *given: rank(device_mesh, *given), blocks, list(inputs), list(outputs), folder / files[-1])
    plan = {
        "mesh": [{"axis": name, "size": size} for name, size in mesh.items()],
        "ranks": files,
        "inputs": {name: placement for name, (_, placement) in inputs.items()},
        "outputs": outputs,
    }
    path = folder / "plan.json"
    path.write_text(json.dumps(plan, indent=1) + "\n")
    return path


class _Ranks:
    """A process that passes for one of the ranks."""

    def __init__(self, mesh, number):
        self.mesh, self.number = mesh, number

    def __enter__(self):
        from torch.testing._internal.distributed.fake_pg import FakeStore

        shape = tuple(self.mesh.values())
        count = torch.Size(shape).numel()
        dist.init_process_group("fake", store=FakeStore(), rank=self.number, world_size=count)
        return init_device_mesh("cpu", shape, mesh_dim_names=tuple(self.mesh))

    def __exit__(self, *error):
        dist.destroy_process_group()


def _block(tensor, placement, mesh, number):
    """The part of a tensor that the rank of that number holds."""
    places = {}
    for name, size in reversed(mesh.items()):
        number, places[name] = divmod(number, size)
    for name, size in mesh.items():
        if name in placement:
            axis = placement[name]
            if tensor.shape[axis] % size:
                raise ValueError(f"axis {axis} of {tuple(tensor.shape)} cannot be cut over {name}: {size}")
            tensor = tensor.chunk(size, axis)[places[name]]
    return tensor.contiguous()


def _write(function, tensors, inputs, outputs, path):
    graph = make_fx(function, tracing_mode="real")(*(tensor.detach() for tensor in tensors))
    _merge_cuts(graph.graph)
    groups = _mark_collectives(graph.graph)
    _cut_out_pieces(graph.graph)
    _erase_unused(graph.graph)
    graph.recompile()
    constants = [(name, tensor.detach().numpy().tobytes()) for name, tensor in graph.named_buffers()]
    model = _model(_Traced(graph, tensors, (graph.code, tuple(constants), tuple(inputs), tuple(outputs))))
    for node in model.graph.node:
        if node.domain == DOMAIN:
            (number,) = [attribute for attribute in node.attribute if attribute.name == "number"]
            node.attribute.remove(number)
            node.attribute.append(onnx.helper.make_attribute("group", groups[number.i]))
    onnx.save(model, path)


class _Traced:
    """A trace, equal to others with the same operators, constants and names, on tensors of the same types."""

    def __init__(self, graph, tensors, text):
        self.graph, self.tensors = graph, tuple(tensors)
        self.inputs, self.outputs = text[-2:]
        self.key = text + tuple((tuple(tensor.shape), tensor.dtype) for tensor in tensors)

    def __eq__(self, other):
        return self.key == other.key

    def __hash__(self):
        return hash(self.key)


@functools.lru_cache(maxsize=16)
def _exported(traced):
    """The trace as a serialized model; ranks that run the same need it once."""
    program = torch.export.export(traced.graph, traced.tensors)
    written = torch.onnx.export(program, (), dynamo=True, optimize=False, verbose=False,
                                input_names=traced.inputs, output_names=traced.outputs)
    _name_values(written.model.graph, {*traced.inputs, *traced.outputs})
    return written.model_proto.SerializeToString()


def _model(traced):
    return onnx.ModelProto.FromString(_exported(traced))


def _name_values(graph, taken):
    """Names of their own for collectives, and for values that have the name of an input."""
    counts = {}
    for node in graph:
        for value in node.outputs:
            if value.is_graph_output():
                continue
            if node.domain == DOMAIN:
                counts[node.op_type] = counts.get(node.op_type, 0) + 1
                value.name = f"{node.op_type}_{counts[node.op_type]}"
            elif value.name in taken:
                value.name += "_inside"


def _is(node, *targets):
    return isinstance(node, torch.fx.Node) and node.op == "call_function" and node.target in targets


def _is_collective(node):
    return node.op == "call_function" and "c10d" in getattr(node.target, "namespace", "")


def _waited(node):
    """The collective that a wait is for."""
    return node.args[0] if _is(node, _COLLECTIVES.wait_tensor.default) else node


def _pieces(node):
    """(tensor, axis, how many) of a list of all equal pieces of a tensor, in order; else nothing."""
    if not isinstance(node, (list, tuple)) or not node:
        return None
    if not all(isinstance(one, torch.fx.Node) and one.target is operator.getitem for one in node):
        return None
    source = node[0].args[0]
    if not _is(source, _ATEN.split.Tensor) or [one.args for one in node] != [(source, k) for k in range(len(node))]:
        return None
    tensor, size = source.args[:2]
    axis = source.args[2] if len(source.args) > 2 else 0
    whole = tensor.meta["val"].shape[axis]
    return (tensor, axis, len(node)) if whole == size * len(node) else None


def _merge_cuts(graph):
    """Gathers and scatters along another axis than the first, which PyTorch composes of one along the first."""
    for node in list(graph.nodes):
        if not _is(node, _ATEN.cat.default):
            continue
        pieces = _pieces(node.args[0])
        axis = node.args[1] if len(node.args) > 1 else 0
        if pieces is None:
            continue
        tensor, cut, count = pieces
        gather = _waited(tensor)
        if cut == 0 and _is(gather, _COLLECTIVES.all_gather_into_tensor.default) and gather.args[1] == count:
            node.meta["gather"] = (gather, axis)
        users = [user for user in node.users if _is(user, _COLLECTIVES.reduce_scatter_tensor.default)]
        if axis == 0 and len(users) == 1 and len(node.users) == 1 and users[0].args[2] == count:
            users[0].meta["scatter"] = (tensor, cut)


def _mark_collectives(graph):
    """Replaces collectives by nodes of our domain, and waits by what they wait for; returns their groups."""
    groups = []
    kinds = {
        _COLLECTIVES.all_reduce.default: "AllReduce",
        _COLLECTIVES.all_gather_into_tensor.default: "AllGather",
        _COLLECTIVES.reduce_scatter_tensor.default: "ReduceScatter",
        _COLLECTIVES.all_to_all_single.default: "AllToAll",
    }
    for node in list(graph.nodes):
        if _is(node, _COLLECTIVES.wait_tensor.default):
            node.replace_all_uses_with(node.args[0])
            continue
        collective, axis, operand = node, 0, None
        if "gather" in node.meta:
            collective, axis = node.meta["gather"]
            operand = collective.meta.get("operand", collective.args[0])
        elif not _is(node, *kinds):
            if _is_collective(node):
                raise ValueError(f"{node.target}: this collective has no counterpart here")
            continue
        elif "scatter" in node.meta:
            operand, axis = node.meta["scatter"]
        operand = node.args[0] if operand is None else operand
        node.meta["operand"] = operand
        kind = kinds[collective.target]
        name = collective.args[-1]
        attrs = {"number": len(groups)}
        groups.append(dist.get_process_group_ranks(dist.distributed_c10d._resolve_process_group(name)))
        if kind in ("AllReduce", "ReduceScatter"):
            attrs["reduction"] = collective.args[1]
        if kind in ("AllGather", "ReduceScatter"):
            attrs["axis"] = axis
        if kind == "AllToAll" and any(len(set(sizes)) > 1 for sizes in collective.args[1:3]):
            raise ValueError(f"{node.name}: an all-to-all of unequal pieces has no counterpart here")
        value = node.meta["val"]
        with graph.inserting_before(node):
            made = graph.call_function(
                torch.onnx.ops.symbolic, (f"{DOMAIN}::{kind}", [operand], attrs),
                {"dtype": value.dtype, "shape": list(value.shape), "version": 1})
        made.meta["val"] = value
        node.replace_all_uses_with(made)
    return groups


def _cut_out_pieces(graph):
    """Pieces of a split as slices, which need no list of tensors."""
    for node in list(graph.nodes):
        if _is(node, operator.getitem) and _is(node.args[0], _ATEN.split.Tensor):
            tensor, size, axis = (*node.args[0].args, 0)[:3]
            with graph.inserting_before(node):
                piece = graph.call_function(_ATEN.slice.Tensor,
                                            (tensor, axis, node.args[1] * size, (node.args[1] + 1) * size))
            piece.meta["val"] = node.meta["val"]
            node.replace_all_uses_with(piece)


def _erase_unused(graph):
    for node in reversed(graph.nodes):  # collectives, too, which PyTorch keeps for their effects
        if not node.users and node.op == "call_function" and (_is_collective(node) or not node.is_impure()):
            graph.erase_node(node)
