"""What the rules below share: reading of nodes, conditions, writing of nodes."""
import math
import types

import numpy as np
import onnx_ir as ir
from onnxscript.rewriter import RewriteRuleClassBase, RewriteRuleSet
from onnxscript.rewriter import pattern as onnxscript_pattern

ANY = onnxscript_pattern.ANY_VALUE
MOST_SIZE = 2**31 - 1  # sizes and integer attributes are no larger where a rule is proved


class Mismatch(Exception):
    """A condition of a rule does not hold, or cannot be checked."""


def need(condition, what="a condition does not hold"):
    if not condition:
        raise Mismatch(what)


def shape(value):
    need(value.shape is not None and all(isinstance(dim, int) for dim in value.shape), "a shape is not known")
    return Ints(int(dim) for dim in value.shape)


class Ints(tuple):
    """A list of the rules: arithmetic goes element by element, or with one integer; an order is of every element."""

    def _each(self, other, combine):
        others = other if isinstance(other, (tuple, list)) else [other] * len(self)
        need(len(others) == len(self), "two lists have other lengths")
        return [combine(a, b) for a, b in zip(self, others)]

    def __add__(self, other):
        return Ints(self._each(other, lambda a, b: a + b))

    def __sub__(self, other):
        return Ints(self._each(other, lambda a, b: a - b))

    def __mul__(self, other):
        return Ints(self._each(other, lambda a, b: a * b))

    def __lt__(self, other):
        return all(self._each(other, lambda a, b: a < b))

    def __le__(self, other):
        return all(self._each(other, lambda a, b: a <= b))

    def __gt__(self, other):
        return all(self._each(other, lambda a, b: a > b))

    def __ge__(self, other):
        return all(self._each(other, lambda a, b: a >= b))

    __radd__, __rmul__ = __add__, __mul__


# The functions of the rules' expressions.


def len_of(values):
    return len(values)


def prod_of(values):
    return math.prod(values)


def sum_of(values):
    return sum(values)


def rank_of(value):
    return len(shape(value))


def shape_of(value):
    return shape(value)


def dim_of(value, at):
    return shape(value)[at]


def iota_of(count):
    return Ints(range(count))


def repeat_of(value, count):
    return Ints([value] * count)


def take_of(values, count):
    return Ints(values[:count])


def drop_of(values, count):
    return Ints(values[count:])


def compose_of(first, second):
    return Ints(first[k] for k in second)


def inverse_of(perm):
    return Ints(perm.index(k) for k in range(len(perm)))


def replace_of(values, places, value):
    return Ints(value if k in places else one for k, one in enumerate(values))


def contains_of(values, value):
    return value in values


def count_less_of(values, value):
    return sum(one < value for one in values)


min_of, max_of = min, max


def axis_of(axis, rank):
    return axis + rank if axis < 0 else axis


def axes_of(axes, rank):
    return Ints(sorted(axis_of(one, rank) for one in axes))


def float32(number):
    return float(np.float32(number))


def exact(value, by):
    """The quotient where it is a whole number."""
    need(by not in (0, -1) and value % by == 0)
    return value // by


def elements(value):
    """Those of a constant or a weight that no input of the model replaces."""
    tensor = ir.convenience.get_const_tensor(value)
    need(tensor is not None and not value.is_graph_input(), "the elements are not known")
    return tensor.numpy()


def weight_of(value, depth=16):
    """It is computed from weights and constants alone."""
    if value is None or depth == 0:
        return False
    if ir.convenience.get_const_tensor(value) is not None and not value.is_graph_input():
        return True
    node = value.producer()
    return node is not None and bool(node.inputs) and all(weight_of(one, depth - 1) for one in node.inputs)


def constant_of(value):
    return ir.convenience.get_const_tensor(value) is not None and not value.is_graph_input()


def positive_of(value):
    return bool((elements(value) > 0).all() and np.isfinite(elements(value)).all())


def finite_of(value):
    return bool(np.isfinite(elements(value)).all())


def splat(value):
    """The number that every element of a constant is."""
    numbers = elements(value)
    need(numbers.size > 0 and (numbers == numbers.flat[0]).all(), "the elements differ")
    return numbers.flat[0]


def need_number(value, number):
    """Every element is the number, rounded to the constant's type."""
    need(splat(value) == elements(value).dtype.type(number), f"the constant is not {number}")


def finite_splat(value):
    number = float(splat(value))
    need(np.isfinite(number) and float(np.float32(number)) == number)
    return number


def broadcasts(value, target, most_rank):
    found = shape(value)
    need(len(found) <= len(target) <= most_rank, "it does not broadcast")
    need(all(dim in (1, size) for dim, size in zip(reversed(found), reversed(target))), "it does not broadcast")


def leaves_shape(result, constant):
    """The constant is not what gives the result its shape: some other operand has that shape."""
    others = [one for one in result.producer().inputs if one is not constant]
    need(any(shape(one) == shape(result) for one in others), "the constant widens the result")


def attribute(node, name, default):
    found = node.attributes.get(name)
    return default if found is None else found.value


def integers(node, place, name):
    """A list that is an input or, in older opsets, an attribute."""
    if len(node.inputs) > place and node.inputs[place] is not None:
        return [int(one) for one in elements(node.inputs[place]).reshape(-1)]
    return attribute(node, name, None)


def axis(node, default, rank):
    found = attribute(node, "axis", default)
    return found + rank if found < 0 else found


def window(node, *names):
    need(attribute(node, "auto_pad", "NOTSET") == "NOTSET" and len(shape(node.inputs[0])) == 4)
    need(attribute(node, "storage_order", 0) == 0)
    defaults = {"strides": [1, 1], "pads": [0, 0, 0, 0], "dilations": [1, 1], "ceil_mode": 0, "count_include_pad": 0}
    return {name: attribute(node, name, default) for name, default in defaults.items() if name in names}


# Attributes of an operator of the rules, read from a node of ONNX.


def read_conv2d(node):
    return window(node, "strides", "pads", "dilations") | {"groups": attribute(node, "group", 1)}


def read_max_pool2d(node):
    return window(node, "strides", "pads", "ceil_mode", "dilations") | {"kernel": attribute(node, "kernel_shape", None)}


def read_avg_pool2d(node):
    need(list(attribute(node, "dilations", [1, 1])) == [1, 1])
    return window(node, "strides", "pads", "ceil_mode", "count_include_pad") | {
        "kernel": attribute(node, "kernel_shape", None)}


def read_batch_norm(node):
    need(attribute(node, "training_mode", 0) == 0)
    return {"epsilon": attribute(node, "epsilon", 1e-5)}


def read_concat(node):
    return {"axis": axis(node, None, len(shape(node.inputs[0])))}


def read_split(node):
    at = axis(node, 0, len(shape(node.inputs[0])))
    return {"axis": at, "sizes": [shape(one)[at] for one in node.outputs]}


def read_slice(node):
    x = shape(node.inputs[0])
    starts, stops, steps = [0] * len(x), list(x), [1] * len(x)
    given = [integers(node, place, name) for place, name in ((1, "starts"), (2, "ends"), (3, "axes"), (4, "steps"))]
    axes = range(len(given[0])) if given[2] is None else given[2]
    for k, at in enumerate(axes):
        steps[at] = 1 if given[3] is None else given[3][k]
        need(steps[at] > 0)
        starts[at], stops[at], _ = slice(given[0][k], given[1][k]).indices(x[at])
        stops[at] = max(starts[at], stops[at])
    return {"starts": starts, "stops": stops, "steps": [] if set(steps) <= {1} else steps}


def read_reshape(node):
    return {"shape": shape(node.outputs[0])}


def read_transpose(node):
    default = range(len(shape(node.inputs[0])))[::-1]
    return {"perm": list(attribute(node, "perm", default))}


def read_reduce_mean(node):
    rank = len(shape(node.inputs[0]))
    axes = integers(node, 1, "axes")
    need(axes or not attribute(node, "noop_with_empty_axes", 0))
    return {"axes": sorted(one % rank for one in axes or range(rank)), "keepdims": attribute(node, "keepdims", 1)}


def attributes(value, operator):
    """Those of the node that computes the value, as lists and numbers; none of an operator without attributes."""
    reader = globals().get("read_" + operator)
    found = reader(value.producer()) if reader else {}
    return {name: Ints(one) if isinstance(one, (list, tuple)) else one for name, one in found.items()}


def plain(given):
    """Attributes as onnx_ir takes them."""
    return {name: list(one) if isinstance(one, tuple) else one for name, one in given.items()}


class Builder:
    """Writes operators of the rules as nodes of ONNX."""

    def __init__(self, op, dtype):
        self.op = op
        self.dtype = dtype

    def tensor(self, array):
        return self.op.Constant(value=ir.tensor(array))

    def integers(self, values):
        return self.tensor(np.array(values, np.int64))

    def full(self, number, sizes):
        return self.tensor(np.full(sizes, number, self.dtype))

    def apply(self, op_type, *operands):
        return getattr(self.op, op_type)(*operands)

    def conv2d(self, x, w, groups, **given):
        return self.op.Conv(x, w, group=groups, **plain(given))

    def max_pool2d(self, x, kernel, **given):
        return self.op.MaxPool(x, kernel_shape=list(kernel), **plain(given))

    def avg_pool2d(self, x, kernel, **given):
        return self.op.AveragePool(x, kernel_shape=list(kernel), **plain(given))

    def batch_norm(self, *operands, epsilon):
        return self.op.BatchNormalization(*operands, epsilon=epsilon)

    def layer_norm(self, *operands, axis, epsilon):
        return self.op.LayerNormalization(*operands, axis=axis, epsilon=epsilon)

    def concat(self, *operands, axis):
        return self.op.Concat(*operands, axis=axis)

    def split(self, x, axis, sizes):
        return self.op.Split(x, self.integers(sizes), axis=axis, _outputs=len(sizes))

    def slice(self, x, starts, stops, steps):
        axes = list(range(len(starts)))
        return self.op.Slice(x, *(self.integers(one) for one in (starts, stops, axes, steps or [1] * len(starts))))

    def reshape(self, x, shape):
        return self.op.Reshape(x, self.integers(shape))

    def transpose(self, x, perm):
        return self.op.Transpose(x, perm=list(perm))

    def rsqrt(self, x):
        return self.op.Reciprocal(self.op.Sqrt(x))

    def gelu(self, x):
        return self.op.Gelu(x)

    def gelu_tanh(self, x):
        return self.op.Gelu(x, approximate="tanh")


class ProvedRule(RewriteRuleClassBase):
    """A rule with the conditions under which it is proved: check() is true where all of them hold."""

    name = rounding = record = ""
    leaves, outputs, operators = [], [], []  # names of values; what ?f may stand for
    min_opset = 13
    most_rank, most_perm_rank, most_broadcast_rank = 6, 4, 4

    def __init__(self, operator=None):
        super().__init__(name=f"{self.name}:{operator}" if operator else self.name)
        self.operator = operator

    def bind(self, n):
        raise NotImplementedError

    def build(self, b, n):
        raise NotImplementedError

    def inside(self, values):
        """All tensors are floats of one type, known here, with no more axes than in the proof."""
        types = {value.dtype for value in values}
        need(len(types) == 1 and types <= {ir.DataType.FLOAT, ir.DataType.DOUBLE}, "the types are others")
        for value in values:
            need(len(shape(value)) <= self.most_rank and all(1 <= dim <= MOST_SIZE for dim in shape(value)),
                 "a rank or a size is beyond the proof")

    def apart(self, outputs, leaves):
        """Outputs are different values, and none is needed to compute an operand."""
        need(len({id(one) for one in outputs}) == len(outputs), "two outputs are one value")
        seen, todo = set(), list(leaves)
        while len(outputs) > 1 and todo:
            value = todo.pop()
            need(all(value is not one for one in outputs), "an output is needed to compute an operand")
            if value.producer() is not None and id(value) not in seen:
                seen.add(id(value))
                todo += [one for one in value.producer().inputs if one is not None]

    def bound(self, values):
        values = {name: value for name, value in values.items() if isinstance(value, ir.Value)}
        self.inside(values.values())
        self.apart([values[name] for name in self.outputs], [values[name] for name in self.leaves])
        graph = values[self.outputs[0]].producer().graph
        need(graph.opset_imports.get("", 0) >= self.min_opset, "the opset is older")
        n = types.SimpleNamespace(**values)
        try:
            self.bind(n)
        except (ValueError, TypeError, KeyError, IndexError, ZeroDivisionError) as fault:
            raise Mismatch(f"it does not match: {fault}") from fault
        return n

    def check(self, context, **values):
        result = onnxscript_pattern.MatchResult()
        try:
            self.bound(values)
        except Mismatch as why:
            result.fail(str(why))
        return result

    def rewrite(self, op, **values):
        n = self.bound(values)
        dtype = values[self.outputs[0]].dtype.numpy()
        return self.build(Builder(op, dtype), n)


def rules():
    """A rewrite rule for each proved rule, and of a rule about any operator ?f for each of its operators."""
    found = []
    for kind in PROVED:
        found += [kind.rule(operator) for operator in kind.operators or [None]]
    return found


def rewrite(model, only=None):
    """Applies the rules, or those with a name of `only`, to an onnx_ir.Model until none matches, a few times at most.
    Returns how often."""
    chosen = RewriteRuleSet([one for one in rules() if only is None or one.name.split(":")[0] in only], commute=True)
    count = chosen.apply_to_model(model)
    model.graph.sort()
    return count
