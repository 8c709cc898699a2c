"""Exports models of torchvision and transformers by both of PyTorch's exporters, optimizes each, and looks at the file
that is written: whether the model is read, whether the checker accepts the file, whether onnxruntime gives the same on
it, its nodes after onnxruntime's own extended optimization, and its size.

    python bench/models/exports.py build/release/rewright OUT.csv [--only PATTERN] [--keep FOLDER] [--time-limit 10]
                            [--dtype float16|bfloat16] [--quantized qdq|qoperator|dynamic]
                            [--device onnxruntime] [--pairs 40]

Weights are random, sizes small: what is looked at is the graph. Models may be exported in 16 bits, or quantized by
onnxruntime afterwards. Needs torch, torchvision, transformers, onnx, onnxscript, onnxruntime; of these
tools/python_env.sh does not install torchvision and transformers. One row an export: name, exporter, nodes of the file, verdict, rewrites, nodes written, nodes of
both after onnxruntime, bytes of both, greatest difference relative to the greatest magnitude; and where the file was
rewritten the ratio of CPU times in onnxruntime, written / original on one thread, with the sign test over so many pairs
(onnxruntime_gains.py). Costs are those of a described processor, or measured in onnxruntime. The last lines name what
got worse: by nodes, by bytes, by time beyond the sign test at 0.01. Models of bfloat16 are not
run in onnxruntime, whose interface for Python does not take such arrays: there `rewright diff` tells whether the outputs
are equal.
"""
import argparse
import csv
import json
import logging
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import warnings

import numpy as np
import onnx
import onnxruntime as ort
import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from inference.onnxruntime_gains import timed  # noqa: E402
from models.narrow_types import is_valid  # noqa: E402

try:
    import torchvision
    import transformers
except ImportError as missing:
    sys.exit(f"exports.py: {missing}; it exports models of torchvision and transformers, which tools/python_env.sh does "
             "not install: run it with a Python that has them")

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)


TIMES = ["original_ms", "written_ms", "ratio", "wins", "losses", "p"]


class UNet(torch.nn.Module):
    """Transposed convolutions, group norm, a skip connection."""

    def __init__(self):
        super().__init__()
        nn = torch.nn
        self.down = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU())
        self.deep = nn.Sequential(nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.GroupNorm(4, 32), nn.GELU())
        self.up = nn.ConvTranspose2d(32, 16, 2, stride=2)
        self.out = nn.Conv2d(32, 4, 1)

    def forward(self, x):
        a = self.down(x)
        return self.out(torch.cat([a, self.up(self.deep(a))], 1))


class Recurrent(torch.nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.cells = getattr(torch.nn, kind)(12, 16, num_layers=2, bidirectional=True, batch_first=True)
        self.out = torch.nn.Linear(32, 5)

    def forward(self, x):
        return self.out(self.cells(x)[0])


class Sampler(torch.nn.Module):
    """Interpolation, grids, one-hot, top-k, cumulative sums."""

    def forward(self, x):
        functional = torch.nn.functional
        big = functional.interpolate(x, scale_factor=1.5, mode="bicubic")
        small = functional.interpolate(big, size=(7, 5), mode="bilinear", align_corners=True)
        theta = torch.tensor([[[1.0, 0.2, 0.0], [0.1, 0.8, 0.1]]])
        grid = functional.affine_grid(theta, [1, 3, 6, 6], align_corners=False)
        return small.cumsum(-1), functional.grid_sample(x, grid, align_corners=False)


def vision(name, size=64, **options):
    def make():
        return getattr(torchvision.models, name)(weights=None, **options), (torch.randn(1, 3, size, size),)
    return make


class Result(torch.nn.Module):
    """One result of a model that gives several."""

    def __init__(self, model, run):
        super().__init__()
        self.model = model
        self.run = run

    def forward(self, x):
        return self.run(self.model, x)


def segmentation(name):
    def make():
        model = getattr(torchvision.models.segmentation, name)(weights=None, weights_backbone=None, num_classes=5)
        return Result(model, lambda m, x: m(x)["out"]), (torch.randn(1, 3, 64, 64),)
    return make


def transformer(kind, config):
    settings = getattr(transformers, kind + "Config")(**config)
    settings._attn_implementation = "eager"
    return getattr(transformers, kind + "Model")(settings)


def language(kind, **config):
    """A model of transformers by its configuration, of tokens, without a cache."""
    def make():
        options = {} if kind in ENCODERS else {"use_cache": False}
        return (Result(transformer(kind, config), lambda m, tokens: m(input_ids=tokens, **options)[0]),
                (torch.randint(0, 90, (1, 12)),))
    return make


def pixels(kind, **config):
    def make():
        return Result(transformer(kind, config), lambda m, x: m(x)[0]), (torch.randn(1, 3, 32, 32),)
    return make


ENCODERS = {"Bert", "DistilBert", "Roberta", "Electra", "Albert", "Deberta", "MPNet"}
ENCODER = dict(vocab_size=100, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64)
DECODER = dict(vocab_size=100, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
               intermediate_size=64)
MODELS = {
    "unet": lambda: (UNet(), (torch.randn(1, 3, 32, 32),)),
    "lstm": lambda: (Recurrent("LSTM"), (torch.randn(1, 6, 12),)),
    "gru": lambda: (Recurrent("GRU"), (torch.randn(1, 6, 12),)),
    "sampler": lambda: (Sampler(), (torch.randn(1, 3, 8, 8),)),
    "alexnet": vision("alexnet"),
    "vgg11_bn": vision("vgg11_bn", 32),
    "resnet18": vision("resnet18"),
    "resnext50_32x4d": vision("resnext50_32x4d"),
    "densenet121": vision("densenet121"),
    "squeezenet1_1": vision("squeezenet1_1"),
    "googlenet": vision("googlenet", init_weights=False, aux_logits=False),
    "inception_v3": vision("inception_v3", 128, init_weights=False, aux_logits=False),
    "mobilenet_v2": vision("mobilenet_v2"),
    "mobilenet_v3_small": vision("mobilenet_v3_small"),
    "mnasnet0_5": vision("mnasnet0_5"),
    "shufflenet_v2_x0_5": vision("shufflenet_v2_x0_5"),
    "efficientnet_b0": vision("efficientnet_b0"),
    "efficientnet_v2_s": vision("efficientnet_v2_s"),
    "regnet_y_400mf": vision("regnet_y_400mf"),
    "convnext_tiny": vision("convnext_tiny"),
    "vit_b_32": vision("vit_b_32", 64, image_size=64),
    "swin_t": vision("swin_t"),
    "swin_v2_t": vision("swin_v2_t"),
    "maxvit_t": vision("maxvit_t", 224),
    "deeplabv3_mobilenet_v3_large": segmentation("deeplabv3_mobilenet_v3_large"),
    "lraspp_mobilenet_v3_large": segmentation("lraspp_mobilenet_v3_large"),
    "fcn_resnet50": segmentation("fcn_resnet50"),
    "bert": language("Bert", **ENCODER),
    "distilbert": language("DistilBert", vocab_size=100, dim=32, n_layers=2, n_heads=2, hidden_dim=64),
    "roberta": language("Roberta", **ENCODER),
    "electra": language("Electra", embedding_size=16, **ENCODER),
    "albert": language("Albert", embedding_size=16, **ENCODER),
    "deberta": language("Deberta", **ENCODER),
    "mpnet": language("MPNet", **ENCODER),
    "gpt2": language("GPT2", vocab_size=100, n_embd=32, n_layer=2, n_head=2),
    "gpt_neo": language("GPTNeo", vocab_size=100, hidden_size=32, num_layers=2, num_heads=2,
                        attention_types=[[["global", "local"], 1]]),
    "gpt_neox": language("GPTNeoX", **ENCODER),
    "opt": language("OPT", vocab_size=100, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, ffn_dim=64,
                    word_embed_proj_dim=32),
    "bloom": language("Bloom", vocab_size=100, hidden_size=32, n_layer=2, n_head=2),
    "llama": language("Llama", **DECODER),
    "mistral": language("Mistral", **DECODER),
    "qwen2": language("Qwen2", **DECODER),
    "qwen3": language("Qwen3", head_dim=8, **DECODER),
    "gemma": language("Gemma", head_dim=8, **DECODER),
    "gemma2": language("Gemma2", head_dim=8, **DECODER),
    "phi": language("Phi", **DECODER),
    "phi3": language("Phi3", pad_token_id=0, **DECODER),
    "falcon": language("Falcon", vocab_size=100, hidden_size=32, num_hidden_layers=2, num_attention_heads=2),
    "stablelm": language("StableLm", **DECODER),
    "olmo": language("Olmo", **DECODER),
    "vit": pixels("ViT", image_size=32, patch_size=8, hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
                  intermediate_size=64),
    "deit": pixels("DeiT", image_size=32, patch_size=8, hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
                   intermediate_size=64),
    "beit": pixels("Beit", image_size=32, patch_size=8, hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
                   intermediate_size=64),
    "dinov2": pixels("Dinov2", image_size=32, patch_size=8, hidden_size=32, num_hidden_layers=2, num_attention_heads=2),
    "segformer": pixels("Segformer", hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], num_attention_heads=[1, 1, 2, 2]),
    "poolformer": pixels("PoolFormer", hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1]),
    "convnextv2": pixels("ConvNextV2", hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1]),
    "resnet_hf": pixels("ResNet", embedding_size=8, hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1]),
    "mobilevit": pixels("MobileViT", image_size=32),
    "levit": pixels("Levit", image_size=32, hidden_sizes=[16, 24, 32], num_attention_heads=[1, 2, 2], depths=[1, 1, 1],
                    key_dim=[8, 8, 8]),
}


def export(make, exporter, path, dtype):
    torch.manual_seed(0)
    model, inputs = make()
    model.eval()
    # Statistics of a network that was trained: not zero and one, where batch norms would be nothing.
    for module in model.modules():
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm):
            torch.nn.init.uniform_(module.running_mean, -0.1, 0.1)
            torch.nn.init.uniform_(module.running_var, 0.8, 1.2)
    model.to(dtype)
    inputs = tuple(x.to(dtype) if x.is_floating_point() else x for x in inputs)
    with torch.no_grad():
        if exporter == "script":
            torch.onnx.export(model, inputs, str(path), dynamo=False, opset_version=17)
        else:
            torch.onnx.export(model, inputs, str(path), dynamo=True, external_data=False, verbose=False)


class Samples:
    """For calibration: two sets of inputs."""

    def __init__(self, path):
        session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        self.samples = iter([inputs_of(session, seed) for seed in range(1, 3)])

    def get_next(self):
        return next(self.samples, None)


def quantize(path, kind):
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_dynamic, quantize_static
    to = path.with_suffix(f".{kind}.onnx")
    if kind == "dynamic":
        quantize_dynamic(str(path), str(to))
    else:
        quantize_static(str(path), str(to), Samples(path), activation_type=QuantType.QUInt8,
                        weight_type=QuantType.QInt8,
                        quant_format=QuantFormat.QDQ if kind == "qdq" else QuantFormat.QOperator)
    to.replace(path)


def after_onnxruntime(path, folder):
    """The number of nodes that are left."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(folder / "ort.onnx")
    options.log_severity_level = 4
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return session, len(onnx.load(folder / "ort.onnx", load_external_data=False).graph.node)


def inputs_of(session, seed=0):
    random = np.random.default_rng(seed)
    feeds = {}
    for info in session.get_inputs():
        shape = [s if isinstance(s, int) else 1 for s in info.shape]
        feeds[info.name] = (random.integers(0, 90, shape) if "int" in info.type
                            else random.standard_normal(shape).astype(
                                np.float16 if "float16" in info.type else np.float32))
    return feeds


def equal_in_rewright(rewright, path, written):
    run = subprocess.run([rewright, "diff", str(path), str(written), "--json"], capture_output=True, text=True)
    return run.returncode in (0, 1) and json.loads(run.stdout)["max_rel_diff"] < 8 * 2.0**-8  # eight roundings


def look(arguments, path, folder, dtype):
    rewright, quantized = arguments.rewright, arguments.quantized
    written = folder / "optimized.onnx"
    how = ["--device", "onnxruntime", "--threads", "1"] if arguments.device else ["--cost", "analytic:zen3"]
    command = [rewright, "optimize", str(path), "-o", str(written), "--json", *how, "--time-limit",
               str(arguments.time_limit)]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode != 0:
        lines = (run.stderr.strip() or run.stdout.strip()).splitlines()
        return {"verdict": "refused: " + (lines[-1] if lines else "")[:300]}
    report = json.loads(run.stdout)
    row = {"rewrites": sum(r["count"] if isinstance(r, dict) and "count" in r else 1 for r in report.get("rewrites", []))
           if isinstance(report.get("rewrites"), list) else report.get("rewrites", "")}
    if not quantized and is_valid(path):  # onnxruntime's own operators are none of ONNX's
        onnx.checker.check_model(str(written), full_check=True)
    if dtype == torch.bfloat16:
        row["nodes_written"] = len(onnx.load(written).graph.node)
        row["bytes"], row["bytes_written"] = path.stat().st_size, written.stat().st_size
        row["verdict"] = "equal" if equal_in_rewright(rewright, path, written) else "DIFFERENT"
        return row
    before, row["ort_nodes"] = after_onnxruntime(path, folder)
    after, row["ort_nodes_written"] = after_onnxruntime(written, folder)
    row["nodes_written"] = len(onnx.load(written).graph.node)
    row["bytes"], row["bytes_written"] = path.stat().st_size, written.stat().st_size
    feeds = inputs_of(before)
    worst = 0.0
    for x, y in zip(before.run(None, feeds), after.run(None, feeds)):
        scale = np.abs(x).max() if x.size else 1
        worst = max(worst, float(np.abs(x.astype(np.float64) - y).max() / (scale or 1)) if x.size else 0)
    row["difference"] = f"{worst:.2g}"
    # For 16 bits eight roundings are allowed, as in the check of outputs. A quantized element that lies at a half may
    # be rounded to its other side.
    allowed = 2e-2 if quantized else 1e-3 if dtype == torch.float32 else 8 * 2.0**-11
    row["verdict"] = "equal" if worst < allowed else "DIFFERENT"
    if arguments.pairs and path.read_bytes() != written.read_bytes():
        row |= {key: value for key, value in timed(str(path), str(written), arguments.pairs).items() if key in TIMES}
    return row


def worse(row):
    """By what the written file is worse in onnxruntime."""
    if row.get("verdict") != "equal":
        return []
    slower = float(row.get("ratio", 1)) > 1 and float(row.get("p", 1)) < 0.01
    return [by for by, is_so in (("nodes", row.get("ort_nodes_written", 0) > row.get("ort_nodes", 0)),
                                 ("bytes", row["bytes_written"] > row["bytes"]), ("time", slower)) if is_so]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("rewright")
    parser.add_argument("out")
    parser.add_argument("--only", default="")
    parser.add_argument("--keep")
    parser.add_argument("--time-limit", type=float, default=10)
    parser.add_argument("--dtype", default="float32", choices=["float32", "float16", "bfloat16"])
    parser.add_argument("--device", choices=["onnxruntime"])
    parser.add_argument("--pairs", type=int, default=0, help="pairs of runs in onnxruntime (default: none)")
    parser.add_argument("--quantized", choices=["qdq", "qoperator", "dynamic"])
    arguments = parser.parse_args()
    dtype = getattr(torch, arguments.dtype)
    fields = ["model", "exporter", "nodes", "verdict", "rewrites", "nodes_written", "ort_nodes", "ort_nodes_written",
              "bytes", "bytes_written", "difference", *(TIMES if arguments.pairs else [])]
    rows = []
    with open(arguments.out, "w", newline="") as out, tempfile.TemporaryDirectory() as scratch:
        table = csv.DictWriter(out, fields)
        table.writeheader()
        folder = pathlib.Path(scratch)
        for name, make in MODELS.items():
            for exporter in ("dynamo", "script"):
                if not re.search(arguments.only, f"{name}.{exporter}"):
                    continue
                path = pathlib.Path(arguments.keep or scratch) / f"{name}.{exporter}.onnx"
                row = {"model": name, "exporter": exporter}
                try:
                    if not path.exists():
                        export(make, exporter, path, dtype)
                        if arguments.quantized:
                            quantize(path, arguments.quantized)
                except Exception as e:
                    row["verdict"] = f"not exported: {type(e).__name__}: {str(e)[:120]}"
                else:
                    row["nodes"] = len(onnx.load(path).graph.node)
                    try:
                        row |= look(arguments, path, folder, dtype)
                    except Exception as e:
                        row["verdict"] = f"failed: {type(e).__name__}: {str(e)[:300]}"
                rows.append(row)
                table.writerow(row)
                out.flush()
                print(name, exporter, *[row.get(f, "") for f in fields[2:]], file=sys.stderr, flush=True)
                if not arguments.keep:
                    path.unlink(missing_ok=True)
    for row in rows:
        if worse(row):
            print(f"{row['model']} {row['exporter']}: worse by {', '.join(worse(row))}")
    ratios = [float(row["ratio"]) for row in rows if "ratio" in row]
    if ratios:
        print(f"{len(ratios)} rewritten files take {statistics.geometric_mean(ratios):.3f} of the original's time")


if __name__ == "__main__":
    main()
