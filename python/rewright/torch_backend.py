"""The backend of torch.compile: `torch.compile(model, backend="rewright")`.

Each graph that PyTorch hands over is exported to ONNX, with its parameters as constants, optimized, and run by
Rewright. What cannot be (training, sizes that are symbols, inputs that the graph changes, element types or operators
that are not read, tensors on another device) stays with PyTorch; the logger `rewright` says why.

Options: `torch.compile(model, backend="rewright", options={...})` takes those of rewright.load; `settings` are those of
Model.optimize, or None: the graph is run as it is read.
"""

import io
import logging

import torch

import rewright

_log = logging.getLogger("rewright")


class _Frozen(torch.nn.Module):
    """The graph with some of its inputs given: the parameters and buffers of the module that is compiled."""

    def __init__(self, graph, values):
        super().__init__()
        self.graph = graph
        self.free = [number for number, value in enumerate(values) if value is None]
        self.count = len(values)
        for number, value in enumerate(values):
            if value is not None:
                self.register_buffer(f"constant_{number}", value.detach())

    def forward(self, *inputs):
        inputs = dict(zip(self.free, inputs))
        return self.graph(
            *(inputs[n] if n in inputs else getattr(self, f"constant_{n}") for n in range(self.count))
        )


class _Stays(Exception):
    """Why a graph stays with PyTorch."""


def _is_static(node, value):
    if isinstance(value, torch.nn.Parameter):
        return True
    return node.meta.get("_dynamo_static_input_type") is not None or getattr(value, "_dynamo_static_input_type", None)


def _shares_memory(program):
    def memory(nodes):
        values = [node.meta.get("val") for node in nodes if isinstance(node, torch.fx.Node)]
        return {value.untyped_storage()._cdata for value in values if isinstance(value, torch.Tensor)}

    nodes = program.graph.nodes
    outputs = [node for node in nodes if node.op == "output"]
    return bool(memory(n for n in nodes if n.op == "placeholder") & memory(n for o in outputs for n in o.args[0]))


def _model_of(graph, inputs, options, settings):
    if not all(isinstance(value, torch.Tensor) for value in inputs):
        raise _Stays("a size is a symbol")
    if torch.is_grad_enabled() and any(value.requires_grad for value in inputs):
        raise _Stays("gradients are asked for (torch.no_grad, torch.inference_mode)")
    if any(value.device.type != "cpu" for value in inputs):
        raise _Stays("a tensor lies on another device")
    places = [node for node in graph.graph.nodes if node.op == "placeholder"]
    frozen = _Frozen(graph, [v if _is_static(n, v) else None for n, v in zip(places, inputs)])
    inputs = tuple(inputs[number] for number in frozen.free)
    if not inputs:
        raise _Stays("it has no inputs")
    frozen.eval()
    program = torch.export.export(frozen, inputs, strict=False)
    if _shares_memory(program):
        raise _Stays("an output is a view of an input")
    program = program.run_decompositions({})  # writes are results of their own now
    signature = program.graph_signature
    if signature.user_inputs_to_mutate or signature.buffers_to_mutate:
        raise _Stays("it changes its inputs or buffers")
    written = io.BytesIO()
    torch.onnx.export(program, inputs, dynamo=True, verbose=False).save(written)
    model = rewright.load(written.getvalue(), **options)
    if settings is not None:
        model.optimize(**settings)
    return model, frozen.free


def compile_graph(graph, inputs, options=None, **_):
    """For PyTorch, by the entry point `torch_dynamo_backends`."""
    options = dict(options or {})
    settings = options.pop("settings", {})
    try:
        with torch.no_grad() if not torch.is_grad_enabled() else torch.enable_grad():
            model, free = _model_of(graph, inputs, options, settings)
    except _Stays as reason:
        _log.info("a graph stays with PyTorch: %s", reason)
        return graph.forward
    except TypeError:
        raise  # options that there are none of
    except Exception as error:  # whatever PyTorch's exporter or our reader does not know
        _log.warning("a graph stays with PyTorch: %s: %s", type(error).__name__, str(error).split("\n")[0])
        return graph.forward
    names = [name for name, _, _ in model.inputs]

    def run(*values):
        arrays = {name: values[number].detach() for name, number in zip(names, free)}
        return tuple(torch.from_dlpack(array) for array in model.run(arrays).values())

    return run
