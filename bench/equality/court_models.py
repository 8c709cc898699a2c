"""Models for the court, made at small sizes: the zoo of the program, exports of PyTorch, those inside the packages of onnx
and onnxruntime, small cases beside those that passes are about, and graphs after public bug reports. A model is a name and
a function that writes it to a path.
"""
import glob
import os
import subprocess

import onnx
import onnx.version_converter
import onnxruntime

from equality.court_cases import CASES, case_model

# Architectures of `rewright zoo` with options that make them small.
ZOO = {
    "mlp": "", "squeezenet": "--image-size 64", "nasrnn": "--layers 2 --width 64",
    "gpt2_small": "--layers 1 --sequence-length 16 --width 128", "bert_base": "--layers 1 --sequence-length 16",
    "llama_small": "--layers 1 --sequence-length 16 --width 192", "mobilenet_v2": "--image-size 64",
    "resnet50": "--image-size 32", "inception_v3": "--image-size 107", "convnext_tiny": "--image-size 32",
    "nasnet_a": "--image-size 64 --layers 1 --width 264", "residual_block": "", "taso_nasrnn": "--layers 2",
}
# Reported graphs: every so many of all, so that each family has some.
STEP_OF_REPORTED = 12


def zoo(program):
    def make(name, options):
        def write(path):
            subprocess.run([program, "zoo", name, *options.split(), "-o", path, "--quiet"], check=True,
                           stdout=subprocess.PIPE)
        return write
    return {f"zoo/{name}": make(name, options) for name, options in ZOO.items()}


def newer(model):
    """The model in an opset that all tools take; those of the package are of PyTorch 0.3, when weights were inputs."""
    if all(one.version >= 13 for one in model.opset_import if one.domain in ("", "ai.onnx")):
        return model
    model = onnx.version_converter.convert_version(model, 18)
    model.ir_version = 8
    known = {weight.name for weight in model.graph.initializer}
    inputs = [one for one in model.graph.input if one.name not in known]
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    return model


def packaged():
    folder = os.path.join(os.path.dirname(onnx.__file__), "backend", "test", "data")

    def make(source):
        return lambda path: onnx.save(newer(onnx.load(source)), path)

    found = {f"onnx/{os.path.basename(source)[:-5]}": make(source)
             for source in sorted(glob.glob(os.path.join(folder, "light", "*.onnx")))}
    for source in sorted(glob.glob(os.path.join(folder, "*", "*", "model.onnx"))):
        found[f"onnx/{os.path.basename(os.path.dirname(source))}"] = make(source)
    for source in sorted(glob.glob(os.path.join(os.path.dirname(onnxruntime.__file__), "datasets", "*.onnx"))):
        found[f"onnxruntime/{os.path.basename(source)[:-5]}"] = make(source)
    return found


def reported():
    from reported.graph import all_graphs

    def make(graph):
        return lambda path: onnx.save(graph.model(), path)

    return {f"reported/{name}": make(graph) for name, _, graph in list(all_graphs())[::STEP_OF_REPORTED]}


def cases():
    return {f"case/{name}": (lambda path, name=name: onnx.save(case_model(name), path)) for name in CASES}


def exported(folder):
    """Files that bench/models/exports.py --keep left in a folder."""
    def make(source):
        return lambda path: onnx.save(onnx.load(source), path)

    return {f"export/{os.path.basename(source)[:-5]}": make(source)
            for source in sorted(glob.glob(os.path.join(folder, "*.onnx")))} if folder else {}


def all_models(program, exports):
    return zoo(program) | packaged() | cases() | reported() | exported(exports)
