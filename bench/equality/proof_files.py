#!/usr/bin/env python3
"""How many optimized models carry a proof that tools/check_model.py accepts, and how long that takes.

    python bench/equality/proof_files.py build/release/rewright [--out bench/results/proof_files.csv] [--only PATTERN]
                            [--cost analytic:v100] [--keep FOLDER [--again]]

The zoo at small sizes, and exports of small PyTorch modules by both of its exporters. One row a model: its result, the
steps and laws of the proof, the verdict of the check, the seconds to read both files with the package onnx, those of
the check, and their ratio. `command` is the ratio of CPU times as commands: tools/check_model.py by that of a Python that
reads both files with the package and ends, the least of three each. Needs torch and onnxscript for the exports; without them the zoo alone is tried.
"""
import argparse
import collections
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
import warnings

import onnx

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
sys.path.insert(0, os.path.join(HERE, "..", "..", "tools"))
import check_model  # noqa: E402
from table import machine, write_table  # noqa: E402

ZOO = {
    "resnet50": "--image-size 64", "resnext50": "--image-size 64", "residual_block": "",
    "squeezenet": "--image-size 64", "vgg19": "", "inception_v3": "--image-size 107", "mobilenet_v2": "--image-size 64",
    "convnext_tiny": "--image-size 64", "bert_base": "--layers 1 --sequence-length 16",
    "gpt2_small": "--layers 1 --sequence-length 16 --width 128",
    "llama_small": "--layers 1 --sequence-length 16 --width 192",
    "nasnet_a": "--image-size 64 --layers 1 --width 264", "nasrnn": "--layers 2 --width 64",
    "random_layered": "--layers 20", "mlp": "", "taso_resnet50": "", "taso_resnext50": "",
    "taso_nasnet_a": "--image-size 56", "taso_nasrnn": "--layers 2", "taso_bert": "--layers 1", "mirage_gqa": "",
    "mirage_qk_norm": "", "mirage_rms_norm": "", "mirage_lora": "", "mirage_gated_mlp": "", "mirage_ntrans": "",
}


def modules():
    """Small modules by name, each with the shapes of its inputs."""
    import torch
    from torch import nn
    from torch.nn import functional

    class Of(nn.Module):
        """A module out of submodules and a function."""

        def __init__(self, run, **parts):
            super().__init__()
            self.run = run
            for name, part in parts.items():
                setattr(self, name, part)

        def forward(self, *inputs):
            return self.run(self, *inputs)

    def conv(i, o, k=3, act=nn.ReLU, **options):
        return nn.Sequential(nn.Conv2d(i, o, k, padding=k // 2, bias=False, **options), nn.BatchNorm2d(o), act())

    def attention(width, heads):
        def run(m, x):
            b, t, _ = x.shape
            q, k, v = (p(x).view(b, t, heads, width // heads).transpose(1, 2) for p in (m.q, m.k, m.v))
            weights = torch.softmax(q @ k.transpose(-2, -1) / (width // heads)**0.5, -1)
            return m.out((weights @ v).transpose(1, 2).reshape(b, t, width))
        return Of(run, **{name: nn.Linear(width, width) for name in ("q", "k", "v", "out")})

    def block(width, act):
        return Of(lambda m, x: (lambda y: y + m.mlp(m.n2(y)))(x + m.att(m.n1(x))), att=attention(width, 4),
                  n1=nn.LayerNorm(width), n2=nn.LayerNorm(width),
                  mlp=nn.Sequential(nn.Linear(width, 4 * width), act, nn.Linear(4 * width, width)))

    def rms(width):
        return Of(lambda m, x: m.w * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6),
                  w=nn.Parameter(torch.rand(width)))

    image, tokens, rows = [(1, 3, 16, 16)], [(2, 8, 32)], [(4, 32)]
    return {
        "linear": (nn.Sequential(nn.Linear(32, 16)), rows),
        "perceptron": (nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 5)),
                       rows),
        "conv_norm": (conv(3, 8), image),
        "conv_norms": (nn.Sequential(conv(3, 8), conv(8, 16, stride=2), conv(16, 16, 1)), image),
        "depthwise": (nn.Sequential(conv(3, 8), conv(8, 8, groups=8), conv(8, 16, 1, nn.ReLU6)), image),
        "residual": (Of(lambda m, x: torch.relu(m.b(m.a(x)) + m.a(x)), a=conv(3, 8), b=conv(8, 8)), image),
        "branches": (Of(lambda m, x: torch.cat([m.a(x), m.b(x), m.c(x)], 1), a=conv(3, 8, 1), b=conv(3, 8, 1),
                        c=conv(3, 8)), image),
        "fire": (Of(lambda m, x: (lambda s: torch.cat([m.a(s).relu(), m.b(s).relu()], 1))(m.s(x).relu()),
                    s=nn.Conv2d(3, 4, 1), a=nn.Conv2d(4, 8, 1), b=nn.Conv2d(4, 8, 3, padding=1)), image),
        "pools": (nn.Sequential(conv(3, 8), nn.MaxPool2d(2), nn.ReLU(), nn.AvgPool2d(2), nn.Conv2d(8, 4, 1)), image),
        "classifier": (nn.Sequential(conv(3, 8), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10)), image),
        "scaled_conv": (Of(lambda m, x: m.c(x) * m.g + m.h, c=nn.Conv2d(3, 8, 3), g=nn.Parameter(torch.rand(8, 1, 1)),
                           h=nn.Parameter(torch.rand(8, 1, 1))), image),
        "conv_transpose": (nn.Sequential(conv(3, 8), nn.ConvTranspose2d(8, 4, 2, stride=2)), image),
        "conv1d": (nn.Sequential(nn.Conv1d(8, 16, 3, padding=1), nn.BatchNorm1d(16), nn.ReLU()), [(2, 8, 20)]),
        "batch_norm": (nn.Sequential(nn.BatchNorm2d(3), nn.ReLU(), nn.Conv2d(3, 8, 3)), image),
        "group_norm": (nn.Sequential(nn.Conv2d(3, 8, 3), nn.GroupNorm(4, 8), nn.SiLU()), image),
        "instance_norm": (nn.Sequential(nn.Conv2d(3, 8, 3), nn.InstanceNorm2d(8), nn.ReLU()), image),
        "layer_norm": (nn.Sequential(nn.LayerNorm(32), nn.Linear(32, 32)), tokens),
        "rms_norm": (nn.Sequential(rms(32), nn.Linear(32, 32)), tokens),
        "attention": (attention(32, 4), tokens),
        "causal": (Of(lambda m, x: functional.scaled_dot_product_attention(x, x, x, is_causal=True)), [(1, 2, 8, 16)]),
        "block_gelu": (block(32, nn.GELU()), tokens),
        "block_tanh": (block(32, nn.GELU(approximate="tanh")), tokens),
        "block_relu": (block(32, nn.ReLU()), tokens),
        "swish_gate": (Of(lambda m, x: m.d(functional.silu(m.g(x)) * m.u(x)), g=nn.Linear(32, 64, bias=False),
                          u=nn.Linear(32, 64, bias=False), d=nn.Linear(64, 32, bias=False)), tokens),
        "low_rank": (Of(lambda m, x: m.w(x) + m.b(m.a(x)), w=nn.Linear(32, 32, bias=False),
                        a=nn.Linear(32, 4, bias=False), b=nn.Linear(4, 32, bias=False)), tokens),
        "hard_swish": (nn.Sequential(conv(3, 8, act=nn.Hardswish), nn.Hardsigmoid()), image),
        "squeeze_excite": (Of(lambda m, x: (lambda y: y * m.s(y))(m.c(x)), c=conv(3, 8), s=nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(8, 4, 1), nn.ReLU(), nn.Conv2d(4, 8, 1), nn.Sigmoid())), image),
        "shuffle": (Of(lambda m, x: m.c(x).view(1, 2, 4, 16, 16).transpose(1, 2).reshape(1, 8, 16, 16), c=conv(3, 8)),
                    image),
        "scaled_rows": (Of(lambda m, x: m.l(x * 2.0) / 4.0 + 1.0, l=nn.Linear(32, 16)), rows),
        "sums": (Of(lambda m, x: m.a(x) + m.b(x), a=nn.Linear(32, 16), b=nn.Linear(32, 16)), rows),
        "chain": (Of(lambda m, x: m.b(m.a(x)), a=nn.Linear(32, 4, bias=False), b=nn.Linear(4, 32, bias=False)), rows),
        "transposes": (Of(lambda m, x: torch.relu(x.transpose(1, 2)).transpose(1, 2) + 1.0), tokens),
        "reshapes": (Of(lambda m, x: torch.relu(x.reshape(2, 256)).reshape(2, 8, 32).reshape(16, 32)), tokens),
        "chunks": (Of(lambda m, x: torch.cat([torch.sigmoid(c) for c in m.l(x).chunk(4, -1)], -1),
                      l=nn.Linear(32, 64)), tokens),
        "lstm": (Of(lambda m, x: m.r(x)[0], r=nn.LSTM(32, 16, batch_first=True)), tokens),
        "embedding": (Of(lambda m, x: m.n(m.l(m.e(torch.arange(8)) + x)), e=nn.Embedding(16, 32), n=nn.LayerNorm(32),
                         l=nn.Linear(32, 32)), tokens),
        "upsample": (nn.Sequential(conv(3, 8), nn.Upsample(scale_factor=2), nn.Conv2d(8, 4, 3)), image),
        "mixer": (Of(lambda m, x: m.b(m.n(x + m.a(x.transpose(1, 2)).transpose(1, 2))), n=nn.LayerNorm(32),
                     a=nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8)), b=nn.Linear(32, 32)), tokens),
    }


def exports():
    """The exports by name, each a function that writes it."""
    try:
        import torch
    except ImportError:
        return {}
    warnings.filterwarnings("ignore")

    def make(module, shapes, dynamo):
        def write(path):
            torch.manual_seed(1)
            module.eval()
            for part in module.modules():
                if isinstance(part, torch.nn.modules.batchnorm._BatchNorm):
                    part.running_mean.uniform_(-0.5, 0.5)
                    part.running_var.uniform_(0.5, 2)
            torch.onnx.export(module, tuple(torch.randn(shape) for shape in shapes), path, dynamo=dynamo,
                              **({"external_data": False, "verbose": False} if dynamo else
                                 {"training": torch.onnx.TrainingMode.PRESERVE, "do_constant_folding": False}))
        return write

    found = {}
    for name, (module, shapes) in modules().items():
        for kind, dynamo in (("script", False), ("dynamo", True)):
            found[f"{name}.{kind}"] = make(module, shapes, dynamo)
    return found


def zoo(program):
    def make(name, options):
        return lambda path: subprocess.run([program, "zoo", name, *options.split(), "-o", path, "--quiet"], check=True,
                                           stdout=subprocess.DEVNULL)

    return {name: make(name, options) for name, options in ZOO.items()}


def optimized(program, source, result, proof, cost):
    """Optimizes a model with a proof. The last line of an error; empty: it worked."""
    done = subprocess.run([program, "optimize", source, "-o", result, "--proof", proof, "--cost", cost, "--no-check",
                           "--no-prove", "--quiet"], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else (done.stderr.strip().splitlines() or ["no message"])[-1]


def checked(source, result, proof, laws):
    """The verdict of the check with its seconds: those of reading, those after it."""
    begin = time.perf_counter()
    a, b = check_model.read_model(source), check_model.read_model(result)
    read = time.perf_counter()
    lines = check_model.read_proof(proof)
    checker, why = check_model.judge(a, b, lines, laws)
    return checker, lines, why, read - begin, time.perf_counter() - read


def cpu_seconds(*command):
    """The least CPU time of three runs."""
    def once():
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *command], stdout=subprocess.DEVNULL, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    return min(once() for _ in range(3))


def command_ratio(source, result, proof):
    reading = cpu_seconds("-c", f"import onnx; onnx.load({source!r}); onnx.load({result!r})")
    return cpu_seconds(check_model.__file__, source, result, proof) / reading


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--out", default="")
    parser.add_argument("--only", default="")
    parser.add_argument("--cost", default="analytic:v100")
    parser.add_argument("--keep", default="", help="a folder for the models and proofs")
    parser.add_argument("--again", action="store_true", help="check what is kept, without optimizing anew")
    flags = parser.parse_args()
    laws = check_model.read_laws(check_model.default_laws())
    columns = ["model", "result", "steps", "laws", "verdict", "read_s", "check_s", "ratio", "command", "why"]
    rows = []
    counts = collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        folder = flags.keep or folder
        for name, write in {**zoo(flags.program), **exports()}.items():
            if not re.search(flags.only, name):
                continue
            source, result, proof = (os.path.join(folder, name + end) for end in (".onnx", ".opt.onnx", ".proof"))
            try:
                if not os.path.exists(source):
                    write(source)
            except Exception as error:  # noqa: BLE001: exporters raise anything
                print(f"{name}: not exported: {str(error).splitlines()[0][:100]}", flush=True)
                continue
            kept = flags.again and os.path.exists(proof)
            error = "" if kept else optimized(flags.program, source, result, proof, flags.cost)
            if error:
                row = [name, "", "", "", "no proof", "", "", "", "", error]
            else:
                checker, lines, why, read, check = checked(source, result, proof, laws)
                row = [name, "rewritten" if lines[0]["rewritten"] else "original", checker.steps, len(checker.used),
                       "accepted" if why is None else "refused", f"{read:.3f}", f"{check:.3f}", f"{check / read:.2f}",
                       f"{command_ratio(source, result, proof):.2f}" if why is None else "", why or ""]
            counts[row[4], "zoo" if name in ZOO else "exports"] += 1
            rows.append(dict(zip(columns, row)))
            print(*row, sep="  ", flush=True)
            if not flags.keep:
                for path in (source, result, proof):
                    if os.path.exists(path):
                        os.unlink(path)
    ratios = [float(row["command"]) for row in rows if row["command"]]
    print(f"as commands: {sum(one <= 2 for one in ratios)} of {len(ratios)} in twice the time of reading; "
          f"most {max(ratios, default=0)}")
    for (verdict, kind), count in sorted(counts.items()):
        print(f"{kind}: {count} {verdict}")
    if flags.out:
        write_table(flags.out, f"{machine()}; onnx {onnx.__version__}: proofs of optimize, checked", rows)
    return 1 if counts["refused", "zoo"] + counts["refused", "exports"] else 0


if __name__ == "__main__":
    sys.exit(main())
