"""Rewright: ONNX models made faster by rewrites that are proved for tensors of every size.

    import rewright

    model = rewright.optimize("resnet50.onnx")      # or the bytes of a model, or an onnx.ModelProto
    outputs = model.run(input=images)               # NumPy arrays, or whatever has DLPack
    model.save("resnet50.opt.onnx")
    print(model.summary.verdict)

    for rule in rewright.verify('rule r\\n  relu(relu(x[a..])) => relu(x)'):
        print(rule.name, rule.verdict)

With PyTorch, `torch.compile(model, backend="rewright")` (see rewright.torch_backend).
"""

import collections.abc
import os
import sys

import numpy

from . import _rewright
from ._contents import contents as _contents
from ._rewright import EqualJudgement, Error, OptimizeSummary, RuleJudgement, __version__
from .program import diff, explain, inspect, report, train

# Where the library looks for onnxruntime, which runs nodes that are not known to it: beside this package. An embedded
# interpreter may have no program.
if sys.executable:
    os.environ.setdefault("REWRIGHT_PYTHON", sys.executable)

__all__ = ["EqualJudgement", "Error", "Model", "OptimizeSummary", "RuleJudgement", "Session", "diff", "equal", "explain",
           "inspect", "load", "optimize", "report", "train", "verify"]


def _bfloat16_of(bits):
    try:
        import ml_dtypes
    except ImportError:
        return numpy.asarray(bits.astype(numpy.uint32) << 16).view(numpy.float32)
    return bits.view(ml_dtypes.bfloat16)


def _filled(options, values, kind):
    for name, value in values.items():
        if not hasattr(options, name):
            known = ", ".join(sorted(field for field in dir(options) if not field.startswith("_")))
            raise TypeError(f"there is no {kind} {name!r}; there are {known}")
        try:
            setattr(options, name, value)
        except TypeError:
            wanted = type(getattr(options, name)).__name__
            raise TypeError(f"{kind} {name!r}: found {value!r}, expected a value of type {wanted}") from None
    return options


def _run(handle, bfloat16, inputs, named):
    if inputs is not None and not isinstance(inputs, collections.abc.Mapping):
        raise TypeError(f"inputs: found {type(inputs).__name__}, expected a dict of arrays by name")
    arrays = {**(inputs or {}), **named}
    bits = []
    for name, value in arrays.items():
        if not hasattr(value, "__dlpack__"):
            value = arrays[name] = numpy.asarray(value)
        if isinstance(value, numpy.ndarray) and value.dtype.name == "bfloat16":
            arrays[name] = value.view(numpy.uint16)
            bits.append(name)
    outputs = handle.run(arrays, bits)
    for name in bfloat16:
        if name in outputs:
            outputs[name] = _bfloat16_of(outputs[name])
    return outputs


class Model:
    """A model, ready to run. Made by `load` and `optimize`; runs may be made from several threads at a time."""

    def __init__(self, handle):
        self._handle = handle
        self._bfloat16 = [name for name, kind, _ in handle.outputs() if kind == "bfloat16"]
        #: The summary of `optimize`; None before.
        self.summary = None

    @property
    def inputs(self):
        """(name, element type, shape) of every input; a symbolic dimension stands there by its name."""
        return self._handle.inputs()

    @property
    def outputs(self):
        """(name, element type, shape) of every output, at the sizes that the model was loaded with."""
        return self._handle.outputs()

    @property
    def dims(self):
        """The sizes of symbolic dimensions that `optimize` and `save` take."""
        return self._handle.dims()

    @property
    def notes(self):
        """What the reader of the file has to say."""
        return self._handle.notes()

    def optimize(self, *, progress=None, **settings):
        """Searches for a faster graph, measures, checks and proves it. Returns the summary, and keeps it.

        `progress` is called now and then with a dict: phase, graphs (so far), seconds_before and seconds_best (costs).
        An exception of it ends the search and is raised.

        Settings: rules, baseline, disabled_rules, assume_finite, exact, trust_unverified, search, windows, alpha,
        budget, egraph_nodes, growth, cost, time_limit_seconds, memory_limit_bytes, fix_sizes, move_roundings, ranges,
        tolerance, check, rtol, atol, seed, prove, proof_limit_seconds, as `rewright optimize --help` explains them: the same
        settings give the same model there. After an error the model is as before, and so it is after Ctrl-C, which ends
        the search at once.
        """
        self.summary = self._handle.optimize(_filled(_rewright.OptimizeSettings(), settings, "setting"), progress)
        return self.summary

    def run(self, inputs=None, /, **named):
        """Outputs by name, as NumPy arrays.

        Inputs are given by name, as a dict, as keywords, or both: NumPy arrays, or whatever has DLPack, in the
        processor's memory. They are read where they lie; an array in another order than row-major is copied. Numbers
        and lists are made arrays first. NumPy has no bfloat16: arrays of it are those of the package ml_dtypes; where
        that is missing outputs have the same values in float32.
        """
        return _run(self._handle, self._bfloat16, inputs, named)

    def session(self, states, *, capacity=0):
        """Runs that keep the states: a dict from inputs to the outputs that are their next values.

        Each such output is its input with new rows joined behind it, as the caches of a language model that decodes
        are: {"past.0.key": "present.0.key", ..}. `capacity`: rows to have room for at first; 0: a few.
        """
        return Session(self._handle.session(dict(states), capacity), self._bfloat16)

    def save(self, path):
        """Writes the model as ONNX: the optimized one, which `optimize` has checked, or the input byte for byte."""
        self._handle.save(os.fspath(path))


class Session:
    """Runs of a model that keep its states, made by `Model.session`. Runs from several threads take turns."""

    def __init__(self, handle, bfloat16):
        self._handle = handle
        self._bfloat16 = bfloat16

    def run(self, inputs=None, /, **named):
        """Outputs but the next values of states, from inputs but the states, given as to `Model.run`."""
        return _run(self._handle, self._bfloat16, inputs, named)

    @property
    def length(self):
        """The rows that the states have."""
        return self._handle.length()

    def state(self, name):
        """A copy of a state, by the name of its input."""
        return self._handle.state(name)

    def clear(self):
        """Empties the states."""
        self._handle.clear()


def load(model, **options):
    """Reads a model: the path of a file, its bytes, or an onnx.ModelProto.

    Options: dims, fold_defaults, device, precision, profile, disabled_kernel_rules, threads, cached_sizes, as
    `rewright optimize --help` explains them. Inputs with a default need not be given to `run`; with fold_defaults they are no inputs.
    """
    options = _filled(_rewright.ModelOptions(), options, "option")
    model = _contents(model)
    if isinstance(model, bytes):
        return Model(_rewright.Model.from_bytes(model, options))
    return Model(_rewright.Model.load(model, options))


def optimize(model, *, settings=None, progress=None, **options):
    """`load`, then `Model.optimize`: takes the options of one and the settings of the other, these also as a dict."""
    given = {name: options.pop(name) for name in list(options) if hasattr(_rewright.OptimizeSettings, name)}
    loaded = load(model, **options)
    loaded.optimize(progress=progress, **given, **(settings or {}))
    return loaded


def verify(text, *, time_limit_seconds=60.0):
    """Judges the rules of a text, one by one: name, verdict (proved, refuted, unknown, or error where it is ill-formed), rule_class, explanation.

    The time limit is of CPU time, for each rule.
    """
    return _rewright.verify_rules(text, time_limit_seconds)


def equal(a, b, **settings):
    """Proves that two models compute the same over the real numbers, or shows where they do not.

    Models are given as to `load`. Settings: dims, fold_defaults, rules, time_limit_seconds, seed, threads, map: a dict from
    inputs and outputs of `a` to their names in `b`, where these are others. The result has the answer (proved,
    different, open, equal up to constants), a summary, of different models an output with an element of both, and the
    regions that are open. See docs/equal.md, and rewright.testing for tests.
    """
    return _rewright.judge_equal(_contents(a), _contents(b),
                                 _filled(_rewright.EqualSettings(), settings, "setting"))
