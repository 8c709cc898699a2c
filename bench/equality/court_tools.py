"""Optimizers of ONNX models that the court judges: each pass of onnxoptimizer, onnxsim, onnxslim, onnxruntime's three
levels, onnxscript's optimizer and rewriter, ONNX's inliner. A tool is a name and a function from a model and the path
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


def onnxscript_tools():
    import onnxscript.optimizer
    import onnxscript.rewriter
    return {"onnxscript.optimizer": lambda model, _: onnxscript.optimizer.optimize(model),
            "onnxscript.rewriter": lambda model, _: onnxscript.rewriter.rewrite(model)}


def onnx_tools():
    import onnx.inliner
    return {"onnx.inliner": lambda model, _: onnx.inliner.inline_local_functions(model)}


FAMILIES = {"onnxoptimizer": onnxoptimizer_tools, "onnxsim": onnxsim_tools, "onnxslim": onnxslim_tools,
            "onnxruntime": onnxruntime_tools, "onnxscript": onnxscript_tools, "onnx": onnx_tools}


def all_tools():
    """Tools by name, and the versions of the packages that are there."""
    tools, versions = {}, {}
    for family, make in FAMILIES.items():
        if importlib.util.find_spec(family) is None:
            continue
        with open(os.devnull, "w") as null, contextlib.redirect_stdout(null), contextlib.redirect_stderr(null):
            tools |= make()
        versions[family] = importlib.metadata.version(family)
    return tools, versions
