"""An ONNX model as a list of steps that a library's own functions carry out, for `rewright compare`.

Shapes, axes and bounds that a model gives as constants are taken when the steps are made; weights stay values.
"""
import onnx
from onnx import helper, numpy_helper

# Operands that have to be constants, by operator.
CONSTANT_OPERANDS = {"Reshape": [1], "Slice": [1, 2, 3, 4], "Pad": [1, 2], "Clip": [1, 2], "Split": [1],
                     "ReduceMean": [1], "ReduceSum": [1], "ReduceMax": [1]}


class OnnxSteps:
    """`operators`: by ONNX name, a function of the attributes and of the constant operands (by position), which gives
    the function to call with the others.

    input_names, output_names: the model's, in its order. weights: arrays by name, those that are used.
    """

    def __init__(self, path, operators):
        graph = onnx.load(path).graph
        constants = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
        for node in graph.node:
            if node.op_type == "Constant":
                constants[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)
        self.input_names = [value.name for value in graph.input if value.name not in constants]
        self.output_names = [value.name for value in graph.output]
        self.weights = {}
        self._steps = []
        for node in graph.node:
            if node.op_type == "Constant":
                continue
            if node.op_type not in operators:
                raise NotImplementedError(f"operator {node.op_type}")
            attrs = {a.name: helper.get_attribute_value(a) for a in node.attribute}
            taken = CONSTANT_OPERANDS.get(node.op_type, [])
            fixed = {i: constants[node.input[i]] for i in taken if i < len(node.input) and node.input[i]}
            operands = [name for i, name in enumerate(node.input) if i not in taken and name]
            self.weights.update({name: constants[name] for name in operands if name in constants})
            self._steps.append((operators[node.op_type](attrs, fixed), operands, list(node.output)))

    def run(self, values):
        """The outputs, in the model's order. `values`: inputs and weights by name; what is computed is added to it."""
        for function, operands, outputs in self._steps:
            result = function(*[values[name] for name in operands])
            for name, value in zip(outputs, result if isinstance(result, (tuple, list)) else (result,)):
                values[name] = value
        return [values[name] for name in self.output_names]
