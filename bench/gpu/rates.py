#!/usr/bin/env python3
"""What the GPU reaches, by torch, on numbers drawn anew: the rates that a described device (backends/devices) is made of.

    bench/gpu/rates.py [--out bench/results/gpu_rates.csv]

Copies of 4 GB in memory (bytes read and written), products of 8192 x 8192 matrices by precision, and the time that one
kernel takes behind another in a recorded graph: an elementwise one of 1024 elements. Medians of 20, by events.
"""
import argparse
import statistics

from common import describe, merge_rows


def median_seconds(torch, work, repeats=20):
    for _ in range(3):
        work()
    times = []
    for _ in range(repeats):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        work()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) * 1e-3)
    return statistics.median(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default="bench/results/gpu_rates.csv")
    args = parser.parse_args()
    import torch
    device = torch.cuda.get_device_name()
    rates = {}
    source = torch.randn(1 << 29, device="cuda")
    target = torch.empty_like(source)
    rates["copy, B/s"] = 2 * 4 * source.numel() / median_seconds(torch, lambda: target.copy_(source))
    del source, target
    size = 8192
    for name, kind, tf32 in (("bf16", torch.bfloat16, False), ("f16", torch.float16, False),
                             ("tf32", torch.float32, True), ("f32", torch.float32, False)):
        torch.backends.cuda.matmul.allow_tf32 = tf32
        a, b = (torch.randn(size, size, device="cuda").to(kind) for _ in range(2))
        rates[f"product {name}, FLOP/s"] = 2 * size**3 / median_seconds(torch, lambda: torch.mm(a, b))
    x = torch.randn(1024, device="cuda")
    graph, kernels = torch.cuda.CUDAGraph(), 1000
    x.mul_(1.0)
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        for _ in range(kernels):
            x.mul_(1.0)
    rates["kernel behind a kernel, s"] = median_seconds(torch, graph.replay) / kernels
    rows = [{"device": device, "rate": name, "value": f"{value:.4g}", "torch": torch.__version__, **describe()}
            for name, value in rates.items()]
    for row in rows:
        print(f"{row['rate']:<28} {row['value']}")
    merge_rows(args.out, rows, ("device", "rate"))


if __name__ == "__main__":
    main()
