"""torch.compile with the backend `rewright` against PyTorch itself: ten models with random weights.

    PYTHONPATH=build/release/python python tests/python/torch_models_test.py [--measured] [NAME...]

Without a name three of them, others each day (REWRIGHT_DAY: the number of the day); with REWRIGHT_FULL in the
environment all. One line a model: how many graphs of it run here and how many stay with PyTorch, why, and the largest
difference of any output from eager's, as a part of the largest element. Ends with status 1 where a model differs by
more than 1e-4 or none of its graphs runs here, and with 77 (skipped) where torch, torchvision, transformers or
onnxscript are missing. `--measured` searches by measured costs; else by a model of the processor.
"""

import argparse
import logging
import os
import sys
import time

try:
    import onnxscript  # noqa: F401: what torch's exporter needs
    import torch
    import torchvision
    import transformers
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

from rewright import torch_backend

TEXT = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 200}
IMAGE = {"image_size": 64, "hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 96}


def of_transformers(kind, inputs, **config):
    def make():
        settings = getattr(transformers, kind + "Config")(**config)
        return getattr(transformers, kind + "Model")(settings), inputs()
    return make


def of_torchvision(name):
    def make():
        return getattr(torchvision.models, name)(weights=None), {"x": torch.randn(2, 3, 64, 64)}
    return make


def tokens():
    return {"input_ids": torch.randint(1, 200, (2, 17))}


def pixels():
    return {"pixel_values": torch.randn(2, 3, 64, 64)}


MODELS = {
    "bert": of_transformers("Bert", tokens, **TEXT),
    "resnet18": of_torchvision("resnet18"),
    "gpt2": of_transformers("GPT2", tokens, vocab_size=200, n_embd=64, n_layer=2, n_head=4, use_cache=False),
    "llama": of_transformers("Llama", tokens, **TEXT, use_cache=False),
    "mobilenet_v3_small": of_torchvision("mobilenet_v3_small"),
    "distilbert": of_transformers("DistilBert", tokens, vocab_size=200, dim=64, n_layers=2, n_heads=4, hidden_dim=128),
    "roberta": of_transformers("Roberta", tokens, **TEXT, pad_token_id=0),
    "shufflenet_v2_x0_5": of_torchvision("shufflenet_v2_x0_5"),
    "vit": of_transformers("ViT", pixels, **IMAGE, patch_size=16),
    "convnext": of_transformers("ConvNext", pixels, hidden_sizes=[16, 32, 64, 64], depths=[1, 1, 2, 1]),
}


def chosen(names):
    if names:
        return names
    if os.environ.get("REWRIGHT_FULL"):
        return list(MODELS)
    first = 3 * int(os.environ.get("REWRIGHT_DAY", time.time() // 86400))
    return [list(MODELS)[(first + i) % len(MODELS)] for i in range(3)]


def tensors(output):
    if isinstance(output, torch.Tensor):
        return [output]
    return [value for value in output.to_tuple() if isinstance(value, torch.Tensor)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[*MODELS, []])
    parser.add_argument("--measured", action="store_true")
    flags = parser.parse_args()
    logging.getLogger("torch").setLevel(logging.ERROR)
    reasons = []

    class Keep(logging.Handler):
        def emit(self, record):
            reasons.append(record.getMessage())

    log = logging.getLogger("rewright")
    log.setLevel(logging.INFO)
    log.propagate = False
    log.addHandler(Keep())
    settings = {} if flags.measured else {"cost": "analytic:zen3"}
    failed = 0
    for name in chosen(flags.names):
        torch.manual_seed(1)
        torch.compiler.reset()
        reasons.clear()
        graphs = 0

        def counted(graph, values, **options):
            nonlocal graphs
            graphs += 1
            return torch_backend.compile_graph(graph, values, options={"settings": settings})

        model, inputs = MODELS[name]()
        model.eval()
        with torch.no_grad():
            expected = tensors(model(**inputs))
            found = tensors(torch.compile(model, backend=counted)(**inputs))
        worst = max(float((a - b).abs().max() / b.abs().max()) for a, b in zip(found, expected, strict=True))
        failed += not worst <= 1e-4 or len(reasons) == graphs
        print(f"{name}: {graphs - len(reasons)} of {graphs} graphs, largest difference {worst:.2g}", flush=True)
        for reason in reasons:
            print(f"    {reason}")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
