#!/usr/bin/env python3
"""How long `optimize --time-limit` takes, with an empty profile and again with what the first run measured.

    bench/search/time_limits.py build/release/rewright MODEL.onnx... [--limits 3 10] [--threads 2] [--device cpu]

One line a model and limit: seconds on the clock and of CPU time of both runs, how the search ended. The last line counts
the runs that were longer than their limit and two seconds.
"""
import argparse
import json
import pathlib
import resource
import subprocess
import tempfile
import time


def run(command):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True)
    seconds = time.monotonic() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: {done.stderr.strip()}")
    report = json.loads(done.stdout)
    return seconds, f"{seconds:6.1f} s ({cpu:.1f} of CPU time), {report['search_end']}, {report['written']}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("rewright")
    parser.add_argument("models", nargs="+")
    parser.add_argument("--limits", type=float, nargs="+", default=[3, 10])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    arguments = parser.parse_args()
    late = runs = 0
    for model in arguments.models:
        for limit in arguments.limits:
            with tempfile.TemporaryDirectory() as folder:
                command = [arguments.rewright, "optimize", model, "--json", "--quiet", "--time-limit", str(limit),
                           "--threads", str(arguments.threads), "--device", arguments.device,
                           "--profile", str(pathlib.Path(folder) / "profile.db"),
                           "-o", str(pathlib.Path(folder) / "out.onnx")]
                texts = []
                for _ in range(2):
                    seconds, text = run(command)
                    runs += 1
                    late += seconds > limit + 2
                    texts.append(text)
            print(f"{pathlib.Path(model).stem} {limit:g} s: {'; again '.join(texts)}", flush=True)
    print(f"{late} of {runs} runs took longer than their limit and two seconds")


if __name__ == "__main__":
    main()
