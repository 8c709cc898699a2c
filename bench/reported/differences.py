"""Derivatives by finite differences in float64, computed by onnx.reference."""
import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator


def loss_added(model, outputs):
    """The model with the output `loss`, its first floating output times numbers, and the loss; None: it has none."""
    for value, found in zip(model.graph.output, outputs):
        found = np.asarray(found)
        produced = any(value.name in node.output for node in model.graph.node)
        if found.dtype != np.float32 or found.size == 0 or not produced:
            continue
        made = onnx.ModelProto()
        made.CopyFrom(model)
        factors = np.random.default_rng(5).uniform(0.5, 1.5, found.shape).astype(np.float32)
        made.graph.initializer.append(numpy_helper.from_array(factors, "factors"))
        made.graph.node.append(helper.make_node("Mul", [value.name, "factors"], ["loss"]))
        made.graph.output.append(helper.make_tensor_value_info("loss", TensorProto.FLOAT, found.shape))
        return made, found * factors
    return None


def widen(graph):
    for tensor in graph.initializer:
        widen_tensor(tensor)
    for value in [*graph.input, *graph.output, *graph.value_info]:
        if value.type.tensor_type.elem_type == TensorProto.FLOAT:
            value.type.tensor_type.elem_type = TensorProto.DOUBLE
    for node in graph.node:
        widen_node(node)


def widen_node(node):
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            widen(attribute.g)
        elif attribute.type == AttributeProto.TENSOR:
            widen_tensor(attribute.t)
        elif attribute.name in ("to", "dtype") and attribute.i == TensorProto.FLOAT:
            attribute.i = TensorProto.DOUBLE
        elif node.op_type == "Constant" and attribute.name in ("value_float", "value_floats"):
            values = np.float64(attribute.f if attribute.name == "value_float" else list(attribute.floats))
            attribute.CopyFrom(helper.make_attribute("value", numpy_helper.from_array(values)))


def widen_tensor(tensor):
    if tensor.data_type == TensorProto.FLOAT:
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float64), tensor.name))


class Unsettled(Exception):
    """Two steps give two slopes: a kink, or a kernel of onnx.reference that computes in float32."""


class Disagrees(Exception):
    """onnx.reference gives another value."""


class Differences:
    """Of the sum of an output, or of its mean squared distance from a target, around such inputs and the weights. The
    output is known to be `expected`."""

    def __init__(self, model, output, feeds, expected, target=None):
        self.model = onnx.ModelProto()
        self.model.CopyFrom(model)
        widen(self.model.graph)
        for function in self.model.functions:
            for node in function.node:
                widen_node(node)
        self.feeds = {key: x.astype(np.float64) if x.dtype == np.float32 else x for key, x in feeds.items()}
        self.weights = {t.name: numpy_helper.to_array(t) for t in self.model.graph.initializer}
        self.output, self.target = output, target
        if not np.allclose(self.result({}), expected, rtol=1e-4, atol=1e-5):
            raise Disagrees

    def value(self, moved):
        y = self.result(moved)
        return y.sum() if self.target is None else np.square(y - self.target).mean()

    def result(self, moved):
        model = onnx.ModelProto()
        model.CopyFrom(self.model)
        for tensor in model.graph.initializer:
            if tensor.name in moved:
                tensor.CopyFrom(numpy_helper.from_array(moved[tensor.name], tensor.name))
        feeds = {key: moved.get(key, x) for key, x in self.feeds.items()}
        (y,) = ReferenceEvaluator(model).run([self.output], feeds)
        if y.dtype != np.float64:
            raise TypeError(f"onnx.reference gives {y.dtype}")
        return y

    def contradict(self, gradients, tolerance=2e-3):
        """What is wrong with gradients by name, along three directions; or None."""
        rng = np.random.default_rng(11)
        for _ in range(3):
            places = {name: self.feeds.get(name, self.weights.get(name)) for name in gradients}
            ways = {name: rng.standard_normal(x.shape) for name, x in places.items()}
            expected, again = (self.slope(places, ways, step) for step in (1e-5, 3e-6))
            parts = [gradients[name].astype(np.float64) * ways[name] for name in gradients]
            found, scale = (sum(f(part).sum() for part in parts) for f in (np.asarray, np.abs))
            allowed = tolerance * (scale + abs(expected)) + 1e-5
            if not abs(again - expected) <= allowed / 4:
                raise Unsettled
            if not abs(found - expected) <= allowed:
                return f"{found} instead of {expected}"
        return None

    def slope(self, places, ways, step):
        ahead, behind = (self.value({name: x + sign * step * ways[name] for name, x in places.items()})
                         for sign in (1, -1))
        return (ahead - behind) / (2 * step)
