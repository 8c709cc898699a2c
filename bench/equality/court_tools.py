"""Optimizers of ONNX models that the court judges: each pass of onnxoptimizer, onnxsim, onnxslim, onnxruntime's three
levels, its fusions for transformers (those of optimum as well) and what its quantizer does to floats beforehand,
onnxscript's optimizer and rewriter, ONNX's inliner. A tool is a name and a function from a model and the path
of its file to a model. Tools that are not installed are left out.
"""
import contextlib
import importlib.metadata
import importlib.util
import os
import tempfile

import onnx


def onnxoptimizer_tools():
    import onnxoptimizer
    skipped = {"rename_input_output", "split_init", "split_predict", "rewrite_input_dtype",
               "lift_lexical_references"}  # another interface
    tools = {f"onnxoptimizer.{name}": (lambda model, _, name=name: onnxoptimizer.optimize(model, [name]))
             for name in onnxoptimizer.get_available_passes() if name not in skipped}
    tools["onnxoptimizer.default"] = lambda model, _: onnxoptimizer.optimize(
        model, onnxoptimizer.get_fuse_and_elimination_passes())
    return tools


def onnxsim_tools():
    import onnxsim
    return {"onnxsim": lambda model, _: onnxsim.simplify(model)[0]}


def onnxslim_tools():
    import onnxslim
    return {"onnxslim": lambda model, _: onnxslim.slim(model)}


def onnxruntime_tools():
    import onnxruntime as ort

    def at(level):
        def run(_, path):
            with tempfile.TemporaryDirectory() as folder:
                options = ort.SessionOptions()
                options.graph_optimization_level = level
                options.optimized_model_filepath = os.path.join(folder, "optimized.onnx")
                options.intra_op_num_threads = 1
                options.log_severity_level = 4
                # Blocked layouts are of one processor, in operators of a domain of their own.
                ort.InferenceSession(path, options, providers=["CPUExecutionProvider"],
                                     disabled_optimizers=["NchwcTransformer"])
                return onnx.load(options.optimized_model_filepath)
        return run

    level = ort.GraphOptimizationLevel
    return {"onnxruntime.basic": at(level.ORT_ENABLE_BASIC), "onnxruntime.extended": at(level.ORT_ENABLE_EXTENDED),
            "onnxruntime.all": at(level.ORT_ENABLE_ALL)}


def transformer_tools():
    """The fusions that onnxruntime writes in Python, by the kind of model that they are for."""
    from onnxruntime.transformers import optimizer
    kinds = ("bert", "gpt2", "bart", "t5", "clip", "vit", "swin")
    return {f"onnxruntime.transformers.{kind}":
             (lambda _, path, kind=kind: optimizer.optimize_model(path, model_type=kind, opt_level=0).model)
             for kind in kinds if kind in optimizer.MODEL_TYPES}


def preprocessing_tools():
    """What onnxruntime's quantizer does before it rounds anything."""
    from onnxruntime.quantization.shape_inference import quant_pre_process

    def run(_, path):
        with tempfile.TemporaryDirectory() as folder:
            result = os.path.join(folder, "result.onnx")
            quant_pre_process(path, result, skip_symbolic_shape=importlib.util.find_spec("sympy") is None)
            return onnx.load(result)

    return {"onnxruntime.quant_pre_process": run}


def onnxscript_tools():
    import onnxscript.optimizer
    import onnxscript.rewriter
    return {"onnxscript.optimizer": lambda model, _: onnxscript.optimizer.optimize(model),
            "onnxscript.rewriter": lambda model, _: onnxscript.rewriter.rewrite(model)}


def onnx_tools():
    import onnx.inliner
    return {"onnx.inliner": lambda model, _: onnx.inliner.inline_local_functions(model)}


# The package, and functions that make its tools.
FAMILIES = {"onnxoptimizer": [onnxoptimizer_tools], "onnxsim": [onnxsim_tools], "onnxslim": [onnxslim_tools],
            "onnxruntime": [onnxruntime_tools, transformer_tools, preprocessing_tools],
            "onnxscript": [onnxscript_tools], "onnx": [onnx_tools]}


def all_tools():
    """Tools by name, and the versions of the packages that are there."""
    tools, versions = {}, {}
    for family, makers in FAMILIES.items():
        if importlib.util.find_spec(family) is None:
            continue
        with open(os.devnull, "w") as null, contextlib.redirect_stdout(null), contextlib.redirect_stderr(null):
            for make in makers:
                tools |= make()
        versions[family] = importlib.metadata.version(family)
    return tools, versions
