"""The backend of torch.compile: `torch.compile(model, backend="rewright")`.

Each graph that PyTorch hands over is exported to ONNX, with its parameters and buffers as constants, optimized, and run
by Rewright; outputs have the strides of eager mode. What cannot be (training, inputs that the graph changes, element types or operators that are not read,
tensors on another device, outputs of another type or shape than the module's) stays with PyTorch; the logger `rewright`
says why: a warning for the first graph of each reason, at level INFO for others.

Sizes that change, such as that of a batch, become symbols, for which PyTorch compiles a second time. That graph is
exported and optimized once for all sizes, and each is compiled when it is first met (cached_sizes).

Weights may change between calls. Each call looks at all of them: whether they are the same tensors, how often PyTorch
has written to them, where they lie, and at their bytes (of a tensor above 64 KiB, at 64 in each 4 KiB), which tells of
writes that PyTorch does not count (`weight.data.mul_(2)`, NumPy). Where they have changed, PyTorch computes; once they
stay as they are for some calls, the graph is compiled anew with them. How many calls doubles each time: two, four, ...

An installed package has the name by its entry point; where there is none (a build folder on the path), this module adds
it when it is imported.

Options: `torch.compile(model, backend="rewright", options={...})` takes those of rewright.load; `settings` are those of
Model.optimize, or None: the graph is run as it is read.
"""

import functools
import importlib.metadata
import io
import logging
import math
import threading

import numpy
import torch

import rewright
from rewright import _rewright

_log = logging.getLogger("rewright")
_told = set()  # reasons that a warning has told


class _Frozen(torch.nn.Module):
    """The graph with some of its inputs given: the parameters and buffers of the module that is compiled. Sizes among its
    inputs are those of the tensors: `sizes` has by number the tensor and the axis."""

    def __init__(self, graph, inputs, static, sizes):
        super().__init__()
        self.graph = graph
        self.sizes = sizes
        self.free = [number for number in range(len(inputs)) if number not in static and number not in sizes]
        self.count = len(inputs)
        for number in static:
            self.register_buffer(f"constant_{number}", inputs[number].detach())

    def forward(self, *inputs):
        inputs = dict(zip(self.free, inputs))
        for number, (tensor, axis) in self.sizes.items():
            inputs[number] = inputs[tensor].shape[axis]
        return self.graph(
            *(inputs[n] if n in inputs else getattr(self, f"constant_{n}") for n in range(self.count))
        )


class _Stays(Exception):
    """Why a graph stays with PyTorch."""


class _Weights:
    """Those of the inputs that are parameters or buffers, as they were when this was made."""

    def __init__(self, numbers, inputs):
        # The alias keeps the memory, so that no other tensor comes to lie at its address.
        self._seen = [(n, inputs[n], *self._state(inputs[n]), inputs[n].detach()) for n in numbers]
        self._sample = _rewright.MemorySample([self._place(inputs[n]) for n in numbers])

    @staticmethod
    def _state(value):
        return value._version, value.data_ptr(), value.stride()

    @staticmethod
    def _place(value):
        if value.numel() == 0:
            return value.data_ptr(), 0
        last = sum((size - 1) * stride for size, stride in zip(value.shape, value.stride()))
        return value.data_ptr(), (last + 1) * value.element_size()

    def are(self, inputs):
        """Whether these inputs are the same ones, and nothing was written to them."""
        for number, tensor, version, address, strides, _ in self._seen:
            value = inputs[number]
            if value is not tensor or value._version != version:
                return False
            if value.data_ptr() != address or value.stride() != strides:
                return False
        return self._sample.same()


def _is_static(node, value):
    if isinstance(value, torch.nn.Parameter):
        return True
    return node.meta.get("_dynamo_static_input_type") is not None or getattr(value, "_dynamo_static_input_type", None)


def _number(size):
    """A size; of a symbol that of the inputs at hand."""
    number = size if isinstance(size, int) else size.node.hint
    if number is None:
        raise _Stays("a size depends on values")
    return int(number)


def _numbers(sizes):
    return tuple(map(_number, sizes))


def _share_elements(values):
    """Whether a piece of memory, of which these tensors are views, has an element that two of them have."""
    views = [(_numbers(v.shape), _numbers(v.stride()), _number(v.storage_offset())) for v in values]
    taken = numpy.zeros(1 + max(sum((n - 1) * s for n, s in zip(shape, strides)) + offset
                                for shape, strides, offset in views), bool)
    for shape, strides, offset in views:
        view = numpy.lib.stride_tricks.as_strided(taken[offset:], shape, strides)
        if view.any():
            return True
        view[...] = True
    return False


def _share_memory(program):
    """Whether an output shares memory with an input, or elements with another output."""

    def by_memory(nodes):
        found = {}
        for node in nodes:
            value = node.meta.get("val") if isinstance(node, torch.fx.Node) else None
            if isinstance(value, torch.Tensor) and _number(value.numel()) > 0:
                found.setdefault(value.untyped_storage()._cdata, []).append(value)
        return found

    nodes = program.graph.nodes
    inputs = by_memory(node for node in nodes if node.op == "placeholder")
    outputs = by_memory(value for node in nodes if node.op == "output" for value in node.args[0])
    return bool(inputs.keys() & outputs.keys()) or any(map(_share_elements, outputs.values()))


def _is_random(node):
    """Whether a node of the exported graph draws random numbers."""
    if node.op != "call_function" or torch.Tag.nondeterministic_seeded not in getattr(node.target, "tags", ()):
        return False
    known = node.target._schema.arguments
    given = {argument.name: argument.default_value for argument in known if argument.has_default_value()}
    given.update(zip((argument.name for argument in known), node.args))
    given.update(node.kwargs)
    trains = given.get("train", given.get("training", True)) is not False
    return trains and all(given.get(name) != 0 for name in ("p", "dropout", "dropout_p"))


def _type(value):
    return str(value.dtype).removeprefix("torch."), _numbers(value.shape)


def _outputs(graph):
    """The outputs of a graph that PyTorch hands over, as tensors without elements."""
    (output,) = [node for node in graph.graph.nodes if node.op == "output"]
    found = [node.meta.get("example_value", node.meta.get("val")) if isinstance(node, torch.fx.Node) else None
             for node in output.args[0]]
    if not all(isinstance(value, torch.Tensor) for value in found):
        raise _Stays("an output is no tensor")
    return found


def _with_strides(tensor, strides):
    """The tensor with other strides. An axis of stride 0 has one element in memory."""
    if tensor.stride() == strides:
        return tensor
    stored = tensor[tuple(slice(0, 1) if stride == 0 else slice(None) for stride in strides)]
    return torch.empty_strided(stored.shape, strides, dtype=tensor.dtype).copy_(stored).as_strided(tensor.shape, strides)


def _check_types(what, found, expected):
    found = [(kind, tuple(shape)) for _, kind, shape in found]
    if found != expected:
        raise _Stays(f"its {what} would be {found}, expected {expected}")


def _check_inputs(inputs, static):
    """The static ones are weights."""
    tensors = [value for value in inputs if isinstance(value, torch.Tensor)]
    if not all(isinstance(value, (torch.Tensor, torch.SymInt, int)) for value in inputs):
        raise _Stays("an input is neither a tensor nor a size")
    if torch.is_grad_enabled() and any(value.requires_grad for value in tensors):
        raise _Stays("gradients are asked for (torch.no_grad, torch.inference_mode)")
    if any(value.device.type != "cpu" for value in tensors):
        raise _Stays("a tensor lies on another device")
    if len(static) == len(tensors):
        raise _Stays("it has no inputs")
    for number in static:
        value = inputs[number]
        if type(value) not in (torch.Tensor, torch.nn.Parameter) or value.layout != torch.strided:
            raise _Stays(f"a weight is a {type(value).__name__} of layout {value.layout}")
        if value.is_inference():
            raise _Stays("a weight was made in inference mode, where PyTorch does not count what is written to it")
        if value.is_shared():
            raise _Stays("a weight lies in memory that is shared with other processes")


class _Symbols:
    """The sizes of a graph that are symbols."""

    def __init__(self, graph, static):
        values = [node.meta.get("example_value") for node in graph.graph.nodes if node.op == "placeholder"]
        #: The symbol at (number of an input, axis).
        self.at = {(number, axis): size.node.expr
                   for number, value in enumerate(values) if isinstance(value, torch.Tensor) and number not in static
                   for axis, size in enumerate(value.shape) if isinstance(size, torch.SymInt)}
        #: (number of a tensor, axis) by the number of an input that is a size.
        self.places = {number: self._place(value) for number, value in enumerate(values)
                       if not isinstance(value, torch.Tensor)}

    def _place(self, value):
        for place, symbol in self.at.items():
            if isinstance(value, torch.SymInt) and value.node.expr == symbol:
                return place
        raise _Stays("a size is that of no input")

    def strides(self, outputs):
        """A function from the inputs to the strides that eager mode gives the outputs."""
        places = {symbol: place for place, symbol in self.at.items() if symbol.is_Symbol}
        wanted = [tuple(s if isinstance(s, int) else s.node.expr for s in value.stride()) for value in outputs]
        if any(not s.free_symbols <= places.keys() for strides in wanted for s in strides if not isinstance(s, int)):
            raise _Stays("a stride depends on no size of an input")

        @functools.lru_cache
        def at(sizes):
            values = dict(zip(places, sizes))
            return [tuple(s if isinstance(s, int) else int(s.subs(values)) for s in strides) for strides in wanted]
        return lambda inputs: at(tuple(inputs[number].shape[axis] for number, axis in places.values()))

    def for_export(self, free):
        """What torch.export takes, for inputs with these numbers."""
        axes = [{axis: torch.export.Dim.AUTO for number, axis in self.at if number == wanted} for wanted in free]
        return (tuple(axes),) if self.at else None

    def dims(self, model, inputs, free):
        """The sizes by their names in the model, which has one for each symbol."""
        names, sizes = {}, {}
        for (_, _, shape), value, number in zip(model.inputs, inputs, free):
            for axis, name in enumerate(shape):
                symbol = self.at.get((number, axis))
                if (symbol is None) != isinstance(name, int) or (symbol and names.setdefault(name, symbol) != symbol):
                    raise _Stays("its export has other symbols for sizes")
                if symbol is not None:
                    sizes[name] = value.shape[axis]
        return sizes


def _model_of(graph, inputs, static, options, settings):
    """The model, the numbers of its inputs among those of the graph, and a function to the strides of outputs."""
    if any(isinstance(value, torch.Tensor) for value in (*graph.parameters(), *graph.buffers())):
        raise _Stays("it holds weights that are no inputs")
    outputs = _outputs(graph)
    expected = list(map(_type, outputs))
    symbols = _Symbols(graph, static)
    strides = symbols.strides(outputs)
    frozen = _Frozen(graph, inputs, static, symbols.places)
    inputs = tuple(inputs[number] for number in frozen.free)
    frozen.eval()
    program = torch.export.export(frozen, inputs, strict=False, dynamic_shapes=symbols.for_export(frozen.free))
    if _share_memory(program):
        raise _Stays("an output is a view of an input or of another output")
    if any(map(_is_random, program.graph.nodes)):
        raise _Stays("it draws random numbers")
    program = program.run_decompositions({})  # writes are results of their own now
    signature = program.graph_signature
    if signature.user_inputs_to_mutate or signature.buffers_to_mutate:
        raise _Stays("it changes its inputs or buffers")
    written = io.BytesIO()
    torch.onnx.export(program, inputs, dynamo=True, verbose=False).save(written)
    model = rewright.load(written.getvalue(), **options)
    if symbols.at:
        sizes = symbols.dims(model, inputs, frozen.free)
        model = rewright.load(written.getvalue(), **{**options, "dims": sizes})
    found = [(name, kind, tuple(model.dims.get(size, size) for size in shape)) for name, kind, shape in model.inputs]
    _check_types("inputs", found, [_type(value) for value in inputs])
    _check_types("outputs", model.outputs, expected)
    if settings is not None:
        model.optimize(**settings)
    return model, frozen.free, strides


class _Runner:
    """A model, run on those of the graph's inputs that are its own."""

    def __init__(self, model, free, strides):
        self._strides = strides
        self._handle = model._handle
        self._inputs = [(name, number) for (name, _, _), number in zip(model.inputs, free)]
        self._bfloat16 = [kind == "bfloat16" for _, kind, _ in model.outputs]

    def __call__(self, values):
        arrays = {name: values[number].detach().resolve_neg() for name, number in self._inputs}
        outputs = map(torch.from_numpy, self._handle.run(arrays, []).values())
        outputs = (t.view(torch.bfloat16) if bits else t for t, bits in zip(outputs, self._bfloat16))
        return tuple(map(_with_strides, outputs, self._strides(values)))


class _Compiled:
    """A graph, compiled with the weights that it has. May be called from several threads at a time."""

    def __init__(self, graph, inputs, options, settings):
        self._graph = graph
        places = [node for node in graph.graph.nodes if node.op == "placeholder"]
        self._static = [number for number, pair in enumerate(zip(places, inputs)) if _is_static(*pair)]
        self._options = options
        self._settings = settings
        self._lock = threading.Lock()
        self._compiled = None  # weights and what runs the model that holds them
        self._weights = None  # where nothing is compiled: the last that were seen
        self._calls = 0  # since then
        self._wait = 1  # as many calls with the same weights are waited for
        self._compile(inputs)

    def _compile(self, inputs):
        try:
            # The exporter may change the mode of gradients, and what it assumes of sizes is no guard of the graph that
            # PyTorch is compiling meanwhile.
            with torch.set_grad_enabled(torch.is_grad_enabled()), torch._guards.tracing(None):
                _check_inputs(inputs, self._static)
                weights = _Weights(self._static, inputs)
                runner = _Runner(*_model_of(self._graph, inputs, self._static, self._options, self._settings))
            self._compiled = weights, runner
            return
        except _Stays as reason:
            level = logging.INFO if str(reason) in _told else logging.WARNING
            _told.add(str(reason))
            _log.log(level, "a graph stays with PyTorch: %s", reason)
        except Exception as error:  # whatever PyTorch's exporter or our reader does not know
            _log.warning("a graph stays with PyTorch: %s: %s", type(error).__name__, str(error).split("\n")[0])
        self._wait = math.inf

    @property
    def stays(self):
        return self._compiled is None

    def __call__(self, *inputs):
        compiled = self._compiled
        if compiled is not None and compiled[0].are(inputs):
            return compiled[1](inputs)
        with self._lock:
            compiled = self._for_changed(inputs)
        return self._graph.forward(*inputs) if compiled is None else compiled[1](inputs)

    def _for_changed(self, inputs):
        if self._compiled is not None:
            if self._compiled[0].are(inputs):  # another thread has compiled it
                return self._compiled
            self._compiled = None
            self._weights = None
            self._wait *= 2
            _log.warning("weights have changed: PyTorch computes until %d calls find the same", self._wait)
        if self._weights is None or not self._weights.are(inputs):
            self._weights = _Weights(self._static, inputs)
            self._calls = 0
        self._calls += 1
        if self._calls == self._wait:
            self._compile(inputs)
        return self._compiled


def compile_graph(graph, inputs, options=None, **_):
    """For PyTorch, by the entry point `torch_dynamo_backends`."""
    options = dict(options or {})
    settings = options.pop("settings", {})
    rewright._filled(_rewright.ModelOptions(), options, "option")
    rewright._filled(_rewright.OptimizeSettings(), settings or {}, "setting")
    compiled = _Compiled(graph, inputs, options, settings)
    return graph.forward if compiled.stays else compiled


if not any(entry.name == "rewright" for entry in importlib.metadata.entry_points(group="torch_dynamo_backends")):
    import torch._dynamo

    torch._dynamo.register_backend(compile_graph, name="rewright")
