"""Small models as users build them in PyTorch, with their losses and data: foreign_training.py trains them.

All layers that exporters treat in ways of their own are there: recurrent ones, batch norms, attention with masks and
rotary tables, tied embeddings, transposed and depthwise convolutions. All elements of all parameters are drawn, so that
none has values that constants have, such as 0 and 1, or that another has: exporters write equal tensors once.
"""
import math

import torch
import torch.nn.functional as F
from torch import nn

BATCH = 4


class Residual(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return x + self.inner(x)


class Last(nn.Module):
    """The last step of a recurrent layer through a dense one."""

    def __init__(self, layer, width, classes):
        super().__init__()
        self.layer = layer
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        return self.head(self.layer(x)[0][:, -1])


class Cells(nn.Module):
    """A cell written out step by step, whose results are stacked."""

    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(5, 8)
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        state = x.new_zeros(x.shape[0], 8)
        states = []
        for step in range(x.shape[1]):
            state = self.cell(x[:, step], state)
            states.append(state)
        return self.head(torch.stack(states, 1))


class Attention(nn.Module):
    def __init__(self, width, heads, causal=False, rotary=False, bias=None):
        super().__init__()
        self.heads, self.causal, self.rotary = heads, causal, rotary
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.bias = bias
        length = 12
        self.register_buffer("mask", torch.full((length, length), -math.inf).triu(1))
        angles = torch.outer(torch.arange(length), 10000 ** -(torch.arange(0, width // heads, 2) / (width // heads)))
        self.register_buffer("cos", torch.cat([angles, angles], -1).cos(), persistent=False)
        self.register_buffer("sin", torch.cat([angles, angles], -1).sin(), persistent=False)

    def turned(self, x):
        first, second = x.chunk(2, -1)
        length = x.shape[2]
        return x * self.cos[:length] + torch.cat([-second, first], -1) * self.sin[:length]

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        if self.rotary:
            q, k = self.turned(q), self.turned(k)
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        if self.causal:
            scores = scores + self.mask[:length, :length]
        if self.bias is not None:
            scores = scores + self.bias(length)
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, width))


class RelativeBias(nn.Module):
    """T5's: a bias for each head and bucket of distances."""

    def __init__(self, heads, buckets=8):
        super().__init__()
        self.buckets = buckets
        self.table = nn.Embedding(buckets, heads)

    def forward(self, length):
        distance = torch.arange(length)[None, :] - torch.arange(length)[:, None]
        half = self.buckets // 2
        return self.table(distance.clamp(-half, half - 1) + half).permute(2, 0, 1)


class RmsNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return self.weight * x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)


class Gated(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.gate, self.up = nn.Linear(width, inner, False), nn.Linear(width, inner, False)
        self.down = nn.Linear(inner, width)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


def block(attention, norm, mlp):
    return nn.Sequential(Residual(nn.Sequential(norm(), attention)), Residual(nn.Sequential(norm(), mlp)))


def dense_block(width, gelu):
    return nn.Sequential(nn.Linear(width, 3 * width), gelu, nn.Linear(3 * width, width))


class Decoder(nn.Module):
    """A language model whose head is its embedding, as GPT-2 (learnt positions) or Llama (rotary ones)."""

    def __init__(self, rotary):
        super().__init__()
        norm = (lambda: RmsNorm(16)) if rotary else (lambda: nn.LayerNorm(16))
        self.token = nn.Embedding(20, 16)
        self.position = None if rotary else nn.Embedding(12, 16)
        mlp = (lambda: Gated(16, 24)) if rotary else (lambda: dense_block(16, nn.GELU("tanh")))
        self.blocks = nn.Sequential(*(block(Attention(16, 2, True, rotary), norm, mlp()) for _ in range(2)))
        self.norm = norm()
        self.head = nn.Linear(16, 20, bias=False)
        self.head.weight = self.token.weight

    def forward(self, x):
        y = self.token(x)
        if self.position is not None:
            y = y + self.position(torch.arange(x.shape[1]))
        return self.head(self.norm(self.blocks(y)))


class Encoder(nn.Module):
    """T5's, with one bias for all layers; the mean over the tokens that are not 0."""

    def __init__(self):
        super().__init__()
        self.token = nn.Embedding(20, 16)
        self.bias = RelativeBias(2)
        self.blocks = nn.Sequential(*(block(Attention(16, 2, bias=self.bias), lambda: nn.LayerNorm(16),
                                            dense_block(16, nn.GELU())) for _ in range(2)))
        self.head = nn.Linear(16, 3)

    def forward(self, x):
        y = self.blocks(self.token(x))
        kept = (x != 0).unsqueeze(-1).to(y.dtype)
        return self.head((y * kept).sum(1) / kept.sum(1).clamp(min=1))


class TorchEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, activation="gelu", batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(16, 3)

    def forward(self, x):
        return self.head(self.encoder(x).mean(1))


class Vit(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, 16, 4, 4)
        self.start = nn.Parameter(torch.zeros(1, 1, 16))
        self.position = nn.Parameter(torch.zeros(1, 5, 16))
        self.blocks = block(Attention(16, 4), lambda: nn.LayerNorm(16, eps=1e-6), dense_block(16, nn.GELU()))
        self.head = nn.Linear(16, 3)

    def forward(self, x):
        y = self.patches(x).flatten(2).transpose(1, 2)
        y = torch.cat([self.start.expand(x.shape[0], -1, -1), y], 1) + self.position
        return self.head(self.blocks(y)[:, 0])


class SqueezeExcite(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.down, self.up = nn.Conv2d(channels, 4, 1), nn.Conv2d(4, channels, 1)

    def forward(self, x):
        return x * F.hardsigmoid(self.up(F.relu(self.down(x.mean((2, 3), keepdim=True)))))


class ChannelNorm(nn.Module):
    """ConvNeXt's: over channels, which are last meanwhile."""

    def __init__(self, channels):
        super().__init__()
        self.norm = nn.LayerNorm(channels)

    def forward(self, x):
        return self.norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class LayerScale(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(channels, 1, 1))

    def forward(self, x):
        return self.scale * x


class Unet(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.down = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 12, 3, 2, 1)
        self.up, self.last = nn.ConvTranspose2d(12, 8, 2, 2), nn.Conv2d(16, 3, 3, padding=1)

    def forward(self, x):
        a = F.leaky_relu(self.first(x), 0.2)
        return self.last(torch.cat([a, F.leaky_relu(self.up(F.leaky_relu(self.down(a), 0.2)), 0.2)], 1))


class GatedConv(nn.Module):
    def __init__(self, channels, dilation):
        super().__init__()
        self.conv = nn.Conv1d(channels, 2 * channels, 3, padding=dilation, dilation=dilation)

    def forward(self, x):
        value, gate = self.conv(x).chunk(2, 1)
        return x + torch.tanh(value) * torch.sigmoid(gate)


class Mixer(nn.Module):
    def __init__(self, tokens, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.tokens, self.channels = dense_block(tokens, nn.GELU()), dense_block(width, nn.GELU())

    def forward(self, x):
        x = x + self.tokens(self.norm(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.norm(x))


class Recommender(nn.Module):
    """A factorization machine beside dense layers; all features in one table."""

    def __init__(self):
        super().__init__()
        self.register_buffer("offsets", torch.tensor([0, 7, 14]))
        self.table, self.linear = nn.Embedding(21, 6), nn.Embedding(21, 1)
        self.deep = nn.Sequential(nn.Linear(18, 8), nn.PReLU(8), nn.Linear(8, 1))

    def forward(self, x):
        index = x + self.offsets
        e = self.table(index)
        pairs = (e.sum(1).square() - e.square().sum(1)).sum(1, keepdim=True) / 2
        return self.linear(index).sum(1) + pairs + self.deep(e.flatten(1))


class Pool(nn.Module):
    def forward(self, x):
        return x.mean((2, 3))


def conv_norm(a, b, act, **options):
    return nn.Sequential(nn.Conv2d(a, b, 3, padding=1, bias=False, **options), nn.BatchNorm2d(b), act)


def images(rng, count):
    return torch.randn(count, 3, 8, 8, generator=rng)


def signals(rng, count):
    return torch.randn(count, 6, 5, generator=rng)


def tokens(rng, count):
    return torch.randint(0, 20, (count, 10), generator=rng)


def vectors(rng, count):
    return torch.randn(count, 7, generator=rng)


def features(rng, count):
    return torch.randint(0, 7, (count, 3), generator=rng)


ADAM = {"kind": "adam", "learning_rate": 0.003}
ADAMW = {"kind": "adamw", "learning_rate": 0.003, "weight_decay": 0.05}
SGD = {"kind": "sgd", "learning_rate": 0.02}
MOMENTUM = {"kind": "momentum", "learning_rate": 0.01, "momentum": 0.9, "weight_decay": 0.001}
NESTEROV = {"kind": "nesterov", "learning_rate": 0.005, "momentum": 0.9}

# name: how it is made, its inputs, its loss (classes of a cross entropy; None: the mean squared error), optimizer
MODELS = {
    "mlp": (lambda: nn.Sequential(nn.Linear(7, 16), nn.GELU(), nn.Linear(16, 16), nn.ELU(), nn.Linear(16, 3)),
            vectors, 3, SGD),
    "residual_mlp": (lambda: nn.Sequential(nn.Linear(7, 12), Residual(nn.Sequential(
        nn.LayerNorm(12), nn.Linear(12, 24), nn.SiLU(), nn.Dropout(0.1), nn.Linear(24, 12))), nn.Linear(12, 3)),
        vectors, 3, ADAMW),
    "conv_net": (lambda: nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 12, 3),
                                       nn.ReLU(), nn.Flatten(), nn.Linear(48, 3)), images, 3, MOMENTUM),
    "resnet": (lambda: nn.Sequential(conv_norm(3, 8, nn.ReLU()), Residual(nn.Sequential(
        conv_norm(8, 8, nn.ReLU()), conv_norm(8, 8, nn.Identity()))), nn.ReLU(), Pool(), nn.Linear(8, 3)),
        images, 3, MOMENTUM),
    "mobilenet": (lambda: nn.Sequential(conv_norm(3, 12, nn.Hardswish()), conv_norm(12, 12, nn.ReLU6(), groups=12),
                                        SqueezeExcite(12), nn.Conv2d(12, 20, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                                        nn.Linear(20, 3)), images, 3, ADAM),
    "convnext": (lambda: nn.Sequential(nn.Conv2d(3, 12, 2, 2), Residual(nn.Sequential(
        nn.Conv2d(12, 12, 7, padding=3, groups=12), ChannelNorm(12), nn.Conv2d(12, 24, 1), nn.GELU(),
        nn.Conv2d(24, 12, 1), LayerScale(12))), Pool(), nn.Linear(12, 3)), images, 3, ADAMW),
    "group_norm_net": (lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8), nn.Mish(), nn.Conv2d(8, 8, 3),
                                             nn.InstanceNorm2d(8, affine=True), nn.ReLU(), nn.AvgPool2d(2),
                                             nn.Flatten(), nn.Linear(32, 3)), images, 3, ADAM),
    "unet": (Unet, images, "image", ADAM),
    "upscaler": (lambda: nn.Sequential(nn.Conv2d(3, 12, 3, padding=1), nn.PReLU(), nn.PixelShuffle(2),
                                       nn.Conv2d(3, 8, 3, padding=1), nn.Softplus(), nn.AvgPool2d(2),
                                       nn.Conv2d(8, 3, 1)), images, "image", ADAM),
    "wavenet": (lambda: nn.Sequential(nn.Conv1d(6, 8, 1), GatedConv(8, 1), GatedConv(8, 2), nn.AdaptiveAvgPool1d(1),
                                      nn.Flatten(), nn.Linear(8, 3)), signals, 3, ADAM),
    "lstm": (lambda: Last(nn.LSTM(5, 8, 2, batch_first=True), 8, 3), signals, 3, ADAM),
    "gru": (lambda: Last(nn.GRU(5, 8, batch_first=True, bidirectional=True), 16, 3), signals, 3, ADAM),
    "cells": (Cells, signals, "steps", NESTEROV),
    "transformer": (TorchEncoder, lambda rng, count: torch.randn(count, 6, 16, generator=rng), 3, ADAM),
    "encoder": (Encoder, tokens, 3, ADAMW),
    "gpt": (lambda: Decoder(False), tokens, "tokens", ADAMW),
    "llama": (lambda: Decoder(True), tokens, "tokens", ADAMW),
    "vit": (Vit, images, 3, ADAMW),
    "mixer": (lambda: nn.Sequential(nn.Linear(5, 8), Mixer(6, 8), nn.Flatten(), nn.Linear(48, 3)), signals, 3, ADAM),
    "recommender": (Recommender, features, None, ADAM),
}


def make(name, seed):
    """The module, its inputs and its targets: for evaluation, since exporters take dropout and batch norms so."""
    build, draw, kind, optimizer = MODELS[name]
    torch.manual_seed(seed)
    module = build().eval()
    with torch.no_grad():
        for parameter in module.parameters():
            scale = 0.2 if parameter.dim() < 2 or not parameter.any() else 0.02
            parameter.add_(scale * torch.randn_like(parameter))
        for part in module.modules():
            if isinstance(part, nn.modules.batchnorm._BatchNorm) and part.running_var is not None:
                part.running_mean.normal_(0, 0.3)
                part.running_var.uniform_(0.5, 1.5)
    rng = torch.Generator().manual_seed(seed)
    count = 8 * BATCH
    x = draw(rng, count)
    with torch.no_grad():
        shape = module(x[:BATCH]).shape[1:]
    if kind is None or kind == "image":
        target = torch.randn(count, *shape, generator=rng)
    else:
        target = torch.randint(0, shape[-1], (count, *shape[:-1]), generator=rng)
    return module, x, target, "cross_entropy" if target.dtype == torch.int64 else "mean_squared_error", optimizer
