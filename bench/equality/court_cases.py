"""Small models around what optimizers look for: the cases beside those that a pass is about. Bounds that exclude one
another, padding beside what a convolution or a pool pads itself, ranks that grow, negative axes and steps, axes that are
not the last ones.
"""
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

N = helper.make_node


def f(name, value):
    return numpy_helper.from_array(np.array(value, np.float32), name)


def i(name, value):
    return numpy_helper.from_array(np.array(value, np.int64), name)


# Name: nodes from x to y, initializers, the shape of x.
CASES = {
    "relu_clip_neg": ([N("Relu", ["x"], ["a"]), N("Clip", ["a", "l", "h"], ["y"])], [f("l", -3), f("h", -1)], (2, 3)),
    "pad_avg": ([N("Pad", ["x", "p"], ["a"]), N("AveragePool", ["a"], ["y"], kernel_shape=[2, 2])], [i("p", [0, 0,
         1, 1, 0, 0, 1, 1])], (1, 1, 4, 4)),
    "pad_avg_big": ([N("Pad", ["x", "p"], ["a"]), N("AveragePool", ["a"], ["y"], kernel_shape=[2, 2])], [i("p", [0,
         0, 3, 3, 0, 0, 3, 3])], (1, 1, 4, 4)),
    "pad_avg_strided": ([N("Pad", ["x", "p"], ["a"]), N("AveragePool", ["a"], ["y"], kernel_shape=[3, 3],
         strides=[2, 2], pads=[1, 1, 1, 1])], [i("p", [0, 0, 1, 1, 0, 0, 1, 1])], (1, 1, 5, 5)),
    "pad_max": ([N("Pad", ["x", "p"], ["a"]), N("MaxPool", ["a"], ["y"], kernel_shape=[2, 2])], [i("p", [0, 0, 1, 1,
         0, 0, 1, 1])], (1, 1, 4, 4)),
    "pad_max_strided": ([N("Pad", ["x", "p"], ["a"]), N("MaxPool", ["a"], ["y"], kernel_shape=[3, 3], strides=[2,
         2], pads=[1, 1, 1, 1])], [i("p", [0, 0, 1, 1, 0, 0, 1, 1])], (1, 1, 5, 5)),
    "pad_conv_neg": ([N("Pad", ["x", "p"], ["a"]), N("Conv", ["a", "w"], ["y"])], [i("p", [0, 0, -1, -1, 0, 0, -1,
         -1]), f("w", np.ones((1, 1, 2, 2)))], (1, 1, 5, 5)),
    "pad_conv_same": ([N("Pad", ["x", "p"], ["a"]), N("Conv", ["a", "w"], ["y"], auto_pad="SAME_UPPER", strides=[2,
         2])], [i("p", [0, 0, 1, 1, 0, 0, 0, 0]), f("w", np.arange(9).reshape((1, 1, 3, 3)))], (1, 1, 5, 5)),
    "clip_clip": ([N("Clip", ["x", "l", "h"], ["a"]), N("Clip", ["a", "c", "d"], ["y"])], [f("l", 0), f("h", 1),
         f("c", 2), f("d", 3)], (2, 3)),
    "unsq_unsq": ([N("Unsqueeze", ["x", "a1"], ["a"]), N("Unsqueeze", ["a", "a2"], ["y"])], [i("a1", [1]), i("a2",
         [0])], (2, 3)),
    "unsq_unsq2": ([N("Unsqueeze", ["x", "a1"], ["a"]), N("Unsqueeze", ["a", "a2"], ["y"])], [i("a1", [0, 3]),
         i("a2", [1])], (2, 3)),
    "mul_broadcast_one": ([N("Mul", ["x", "o"], ["y"])], [f("o", np.ones((1, 1, 1)))], (2, 3)),
    "add_zero_rank": ([N("Add", ["x", "o"], ["y"])], [f("o", np.zeros((1, 1, 1)))], (2, 3)),
    "pow_one": ([N("Pow", ["x", "o"], ["y"])], [f("o", np.ones((2, 1, 1)))], (2, 3)),
    "transposes": ([N("Transpose", ["x"], ["a"], perm=[1, 2, 0]), N("Transpose", ["a"], ["y"], perm=[1, 2, 0])], [],
         (2, 3, 4)),
    "squeezes": ([N("Squeeze", ["x", "a1"], ["a"]), N("Squeeze", ["a", "a2"], ["y"])], [i("a1", [1]), i("a2", [0])],
         (1, 1, 3, 1, 2)),
    "slices": ([N("Slice", ["x", "s", "e", "ax", "st"], ["a"]), N("Slice", ["a", "s", "e", "ax", "st"], ["y"])],
         [i("s", [1]), i("e", [2**62]), i("ax", [0]), i("st", [2])], (9, 3)),
    "slices_neg": ([N("Slice", ["x", "s", "e", "ax", "st"], ["a"]), N("Slice", ["a", "s", "e", "ax", "st"], ["y"])],
         [i("s", [-1]), i("e", [-2**62]), i("ax", [0]), i("st", [-2])], (9, 3)),
    "argmax_mono": ([N("Sqrt", ["x"], ["a"]), N("ArgMax", ["a"], ["b"], axis=1), N("Cast", ["b"], ["y"], to=1)], [],
         (2, 3)),
    "argmax_softmax0": ([N("Softmax", ["x"], ["a"], axis=0), N("ArgMax", ["a"], ["b"], axis=1), N("Cast", ["b"],
         ["y"], to=1)], [], (4, 3)),
    "logsoftmax": ([N("Softmax", ["x"], ["a"], axis=0), N("Log", ["a"], ["y"])], [], (4, 3)),
    "conv_add_wide": ([N("Conv", ["x", "w"], ["a"]), N("Add", ["a", "b"], ["y"])], [f("w", np.ones((2, 1, 1, 1))),
         f("b", np.arange(2).reshape(2, 1, 1))], (1, 1, 2, 2)),
    "conv_add_last": ([N("Conv", ["x", "w"], ["a"]), N("Add", ["a", "b"], ["y"])], [f("w", np.ones((2, 1, 1, 1))),
         f("b", np.arange(2))], (1, 1, 2, 2)),
    "matmul_add_rank": ([N("MatMul", ["x", "w"], ["a"]), N("Add", ["a", "b"], ["y"])], [f("w", np.ones((3, 2))),
         f("b", np.arange(4).reshape(2, 1, 2))], (1, 3)),
    "matmul_add_rows": ([N("MatMul", ["x", "w"], ["a"]), N("Add", ["a", "b"], ["y"])], [f("w", np.ones((3, 2))),
         f("b", np.arange(8).reshape(4, 2))], (1, 3)),
    "gemm_bias_up": ([N("Gemm", ["x", "w"], ["a"]), N("Add", ["a", "b"], ["y"])], [f("w", np.ones((3, 2))), f("b",
         np.arange(8).reshape(4, 2))], (1, 3)),
    "where_bool": ([N("Sign", ["x"], ["y"])], [], (2, 3)),
    "cast_trunc": ([N("Cast", ["x"], ["a"], to=7), N("Cast", ["a"], ["y"], to=1)], [], (2, 3)),
    "cast_bool": ([N("Cast", ["x"], ["a"], to=9), N("Cast", ["a"], ["y"], to=1)], [], (2, 3)),
    "cast_half": ([N("Cast", ["x"], ["a"], to=10), N("Cast", ["a"], ["y"], to=1)], [], (2, 3)),
    "dropout": ([N("Dropout", ["x", "r"], ["y"])], [f("r", 0.5)], (2, 3)),
    "reduce_unsq": ([N("ReduceSum", ["x", "ax"], ["a"], keepdims=0), N("Unsqueeze", ["a", "ax2"], ["y"])], [i("ax",
         [1]), i("ax2", [0])], (2, 3)),
    "concat_concat": ([N("Concat", ["x", "x"], ["a"], axis=0), N("Concat", ["a", "x"], ["y"], axis=0)], [], (2, 3)),
    "einsum_mm": ([N("Einsum", ["x", "w"], ["y"], equation="ij, kj->ik")], [f("w", np.arange(6).reshape(2, 3))], (2,
         3)),
    "einsum_out": ([N("Einsum", ["x", "w"], ["y"], equation="ij, jk->ki")], [f("w", np.arange(6).reshape(3, 2))],
         (2, 3)),
    "expand_div": ([N("Expand", ["x", "s"], ["a"]), N("Div", ["w", "a"], ["y"])], [i("s", [2, 3]), f("w",
         np.arange(1, 4))], (1, 3)),
    "clip_only_max": ([N("Clip", ["x", "", "h"], ["a"]), N("Relu", ["a"], ["y"])], [f("h", -1)], (2, 3)),
    "min_max": ([N("Min", ["x", "h"], ["a"]), N("Max", ["a", "l"], ["y"])], [f("h", -1), f("l", 1)], (2, 3)),
    "max_min": ([N("Max", ["x", "l"], ["a"]), N("Min", ["a", "h"], ["y"])], [f("h", -1), f("l", 1)], (2, 3)),
    "min_vec": ([N("Min", ["x", "h"], ["a"]), N("Min", ["a", "l"], ["y"])], [f("h", [-1, 0, 2]), f("l",
         np.arange(12).reshape(2, 2, 3)-3)], (2, 3)),
    "reshape_zero": ([N("Reshape", ["x", "s"], ["a"]), N("Reshape", ["a", "t"], ["y"])], [i("s", [3, 2]), i("t", [0,
         -1])], (2, 3)),
    "reshape_zero2": ([N("Reshape", ["x", "s"], ["a"]), N("Reshape", ["a", "t"], ["y"])], [i("s", [3, 2, 2]), i("t",
         [0, 0, 2])], (2, 6)),
}


def case_model(name):
    nodes, initializers, shape = CASES[name]
    graph = helper.make_graph(nodes, name, [helper.make_tensor_value_info("x", TensorProto.FLOAT, list(shape))],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    return onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)
