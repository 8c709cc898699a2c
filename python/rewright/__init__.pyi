from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any, Literal, Protocol, TypedDict, Unpack

import numpy

__version__: str

class Error(RuntimeError): ...

class OptimizeSummary:
    @property
    def rewritten(self) -> bool: ...
    @property
    def verdict(self) -> str: ...
    @property
    def seconds_before(self) -> float: ...
    @property
    def seconds_after(self) -> float: ...
    @property
    def checked(self) -> bool: ...
    @property
    def max_abs_diff(self) -> float: ...
    @property
    def proved(self) -> bool: ...
    @property
    def proof(self) -> str: ...
    @property
    def rewrites(self) -> list[tuple[str, int]]: ...

class RuleJudgement:
    @property
    def name(self) -> str: ...
    @property
    def verdict(self) -> Literal["proved", "refuted", "unknown", "error"]: ...
    @property
    def rule_class(self) -> str: ...
    @property
    def explanation(self) -> str: ...

class EqualJudgement:
    @property
    def answer(self) -> Literal["proved", "different", "open", "equal up to constants"]: ...
    @property
    def summary(self) -> str: ...
    @property
    def output(self) -> str: ...
    @property
    def at(self) -> list[int]: ...
    @property
    def a(self) -> float: ...
    @property
    def b(self) -> float: ...
    @property
    def tolerance(self) -> float: ...
    @property
    def first(self) -> str: ...
    @property
    def open(self) -> list[str]: ...

class EqualSettings(TypedDict, total=False):
    dims: Mapping[str, int]
    map: Mapping[str, str]
    fold_defaults: bool
    rules: Sequence[str]
    time_limit_seconds: float
    seed: int
    threads: int

class OptimizeProgress(TypedDict):
    phase: str
    graphs: int
    seconds_before: float
    seconds_best: float

class ModelOptions(TypedDict, total=False):
    dims: Mapping[str, int]
    fold_defaults: bool
    device: str
    precision: Literal["f32", "tf32", "f16", "bf16"]
    profile: str
    disabled_kernel_rules: Sequence[str]
    threads: int
    cached_sizes: int

class OptimizeSettings(TypedDict, total=False):
    rules: Sequence[str]
    baseline: bool | None
    disabled_rules: Sequence[str]
    assume_finite: bool
    fix_sizes: bool
    exact: bool
    trust_unverified: bool
    search: Literal["backtrack", "greedy", "eqsat"]
    windows: Literal["auto", "always", "never"]
    alpha: float
    budget: int
    egraph_nodes: int
    growth: float
    cost: str
    time_limit_seconds: float
    memory_limit_bytes: int
    move_roundings: bool
    ranges: Mapping[str, tuple[float, float]]
    tolerance: float
    check: bool
    rtol: float
    atol: float
    seed: int
    prove: bool
    proof_limit_seconds: float

class _OptimizeOptions(ModelOptions, OptimizeSettings, total=False): ...

class _ModelProto(Protocol):
    def SerializeToString(self) -> bytes: ...

_Source = str | PathLike[str] | bytes | bytearray | memoryview | _ModelProto
_Info = tuple[str, str, tuple[int | str, ...]]

class Model:
    summary: OptimizeSummary | None
    @property
    def inputs(self) -> list[_Info]: ...
    @property
    def outputs(self) -> list[_Info]: ...
    @property
    def dims(self) -> dict[str, int]: ...
    @property
    def notes(self) -> list[str]: ...
    def optimize(self, *, progress: Callable[[OptimizeProgress], object] | None = None,
                 **settings: Unpack[OptimizeSettings]) -> OptimizeSummary: ...
    def run(self, inputs: Mapping[str, Any] | None = None, /, **named: Any) -> dict[str, numpy.ndarray]: ...
    def session(self, states: Mapping[str, str], *, capacity: int = 0) -> Session: ...
    def save(self, path: str | PathLike[str]) -> None: ...

class Session:
    @property
    def length(self) -> int: ...
    def run(self, inputs: Mapping[str, Any] | None = None, /, **named: Any) -> dict[str, numpy.ndarray]: ...
    def state(self, name: str) -> numpy.ndarray: ...
    def clear(self) -> None: ...

def load(model: _Source, **options: Unpack[ModelOptions]) -> Model: ...
def optimize(model: _Source, *, settings: OptimizeSettings | None = None,
             progress: Callable[[OptimizeProgress], object] | None = None,
             **options: Unpack[_OptimizeOptions]) -> Model: ...
def verify(text: str, *, time_limit_seconds: float = 60.0) -> list[RuleJudgement]: ...
def equal(a: _Source, b: _Source, **settings: Unpack[EqualSettings]) -> EqualJudgement: ...
def inspect(model: _Source, **settings: Any) -> dict[str, Any]: ...
def diff(a: _Source, b: _Source, **settings: Any) -> dict[str, Any]: ...
def explain(model: _Source, **settings: Any) -> dict[str, Any]: ...
def report(model: _Source, page: str | PathLike[str], **settings: Any) -> dict[str, Any]: ...
def train(config: str | PathLike[str] | Mapping[str, Any], *, on_step: Callable[[dict[str, Any]], object] | None = None,
          **settings: str | float | bool | PathLike[str] | None) -> dict[str, Any]: ...
