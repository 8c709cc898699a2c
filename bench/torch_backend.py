#!/usr/bin/env python3
"""torch.compile with the backend `rewright` beside PyTorch itself: ten models with random weights.

    PYTHONPATH=build/release/python python bench/torch_backend.py [--measured] [NAME...]

Wants torch, transformers and onnxscript. One line a model: how many graphs of it run here and how many stay with
PyTorch, and the largest difference of any output from eager's, as a part of the largest element. Ends with status 1
where a model differs by more than 1e-4. `--measured` searches by measured costs; else by a model of the processor.
"""

import argparse
import logging
import sys

import torch
import transformers

from rewright import torch_backend

TEXT = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 200}
IMAGE = {"image_size": 64, "hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 96}


def tokens(vocabulary=200, length=17):
    return {"input_ids": torch.randint(1, vocabulary, (2, length))}


def pixels(size=64):
    return {"pixel_values": torch.randn(2, 3, size, size)}


def models():
    t = transformers
    yield "bert", t.BertModel, t.BertConfig(**TEXT), tokens()
    yield "roberta", t.RobertaModel, t.RobertaConfig(**TEXT, pad_token_id=0), tokens()
    yield "distilbert", t.DistilBertModel, t.DistilBertConfig(vocab_size=200, dim=64, n_layers=2, n_heads=4,
                                                              hidden_dim=128), tokens()
    yield "albert", t.AlbertModel, t.AlbertConfig(**TEXT, embedding_size=32), tokens()
    yield "gpt2", t.GPT2Model, t.GPT2Config(vocab_size=200, n_embd=64, n_layer=2, n_head=4, use_cache=False), tokens()
    yield "llama", t.LlamaModel, t.LlamaConfig(**TEXT, use_cache=False), tokens()
    yield "vit", t.ViTModel, t.ViTConfig(**IMAGE, patch_size=16), pixels()
    yield "resnet", t.ResNetModel, t.ResNetConfig(embedding_size=16, hidden_sizes=[16, 32, 64, 64],
                                                  depths=[1, 1, 1, 1], layer_type="basic"), pixels()
    yield "convnext", t.ConvNextModel, t.ConvNextConfig(hidden_sizes=[16, 32, 64, 64], depths=[1, 1, 2, 1]), pixels()
    yield "mobilenet_v2", t.MobileNetV2Model, t.MobileNetV2Config(image_size=64, depth_multiplier=0.35), pixels()


def tensors(output):
    return [value for value in output.to_tuple() if isinstance(value, torch.Tensor)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
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
    for name, kind, config, inputs in models():
        if flags.names and name not in flags.names:
            continue
        torch.manual_seed(1)
        torch.compiler.reset()
        reasons.clear()
        graphs = 0

        def counted(graph, values, **options):
            nonlocal graphs
            graphs += 1
            return torch_backend.compile_graph(graph, values, options={"settings": settings})

        model = kind(config).eval()
        with torch.no_grad():
            expected = tensors(model(**inputs))
            found = tensors(torch.compile(model, backend=counted)(**inputs))
        worst = max(float((a - b).abs().max() / b.abs().max()) for a, b in zip(found, expected, strict=True))
        failed += not worst <= 1e-4
        print(f"{name}: {graphs - len(reasons)} of {graphs} graphs, largest difference {worst:.2g}", flush=True)
        for reason in reasons:
            print(f"    {reason}")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
