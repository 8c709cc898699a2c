#!/usr/bin/env python3
"""All-reduce between two processes of one core each, beside that of torch.distributed over Gloo, in turns.

    python bench/parallel/vs_gloo.py --bench build/release/bench/all_reduce_bench [--out FILE.csv] [--megabytes 100 1 ...]

Each turn starts both, one after the other; a process repeats the all-reduce, on a vector that it fills anew, and gives
the median, until the slower rank is done, and its processor time. `ratio` is our time over Gloo's: the median of the
turns', with their least and largest.
"""
import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from parallel.ranks import ENVIRONMENT  # noqa: E402
from table import machine, write_table  # noqa: E402


RANKS = 2
BOUND = ["mpirun", "--bind-to", "core", "-n", str(RANKS)]


def ours(args, megabytes):
    command = [*BOUND, args.bench, "--megabytes", str(megabytes), "--repeats", str(args.repeats)]
    return numbers(subprocess.run(command, check=True, capture_output=True, text=True, env=ENVIRONMENT).stdout)


def gloo(args, megabytes):
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, "--store", f"{folder}/store", "--megabytes", str(megabytes), "--repeats",
                   str(args.repeats), "--child"]
        ranks = [subprocess.Popen([*command, str(rank)], stdout=subprocess.PIPE, text=True) for rank in range(RANKS)]
        found = [rank.communicate()[0] for rank in ranks]
        if any(rank.returncode for rank in ranks):
            raise SystemExit("a rank of Gloo's ended")
        return numbers(found[0])


def numbers(text):
    return [float(word) for word in text.split()]


def child(args):
    import torch
    import torch.distributed as dist

    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[args.child]})
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{args.store}", rank=args.child, world_size=RANKS)
    numbers_of_rank = torch.arange(args.megabytes[0] * 1000000 // 4) % 1000 + args.child
    seconds, processor = [], []
    for i in range(-2, args.repeats):
        vector = numbers_of_rank.float()
        dist.barrier()
        begin, cpu = time.perf_counter(), time.process_time()
        dist.all_reduce(vector)
        used = time.process_time() - cpu
        dist.barrier()
        if i >= 0:
            seconds.append(time.perf_counter() - begin)
            processor.append(used)
    assert torch.equal(vector, (2 * numbers_of_rank + 1 - 2 * args.child).float())
    print(statistics.median(seconds), statistics.median(processor), flush=True)
    dist.destroy_process_group()


def compare(args, megabytes):
    sides = {"ours": [], "gloo": []}
    for _ in range(args.turns):
        sides["ours"].append(ours(args, megabytes))
        sides["gloo"].append(gloo(args, megabytes))
    row = {"megabytes": megabytes}
    for side, found in sides.items():
        milliseconds = [1e3 * seconds for seconds, _ in found]
        row[f"{side}_ms"] = f"{statistics.median(milliseconds):.4g}"
        row[f"{side}_spread"] = f"{min(milliseconds):.4g}..{max(milliseconds):.4g}"
        row[f"{side}_cpu_ms"] = f"{1e3 * statistics.median(cpu for _, cpu in found):.4g}"
    ratios = [a[0] / b[0] for a, b in zip(sides["ours"], sides["gloo"])]
    row["ratio"] = f"{statistics.median(ratios):.3f}"
    row["ratio_spread"] = f"{min(ratios):.3f}..{max(ratios):.3f}"
    print(row, flush=True)
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--bench", default="build/release/bench/all_reduce_bench")
    parser.add_argument("--megabytes", type=int, nargs="+", default=[100])
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--repeats", type=int, default=10, help="of a turn")
    parser.add_argument("--out")
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--store", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child is not None:
        return child(args)
    import torch

    rows = [compare(args, megabytes) for megabytes in args.megabytes]
    if args.out:
        write_table(args.out, f"{machine()}; torch {torch.__version__}; {RANKS} processes of one core", rows)


if __name__ == "__main__":
    main()
