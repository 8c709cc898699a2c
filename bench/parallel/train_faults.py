#!/usr/bin/env python3
"""Faults of training on four processes, in layouts of all kinds: ranks are killed, stopped or run out of
memory, disks become full, at random moments; every run goes on from its last checkpoint, a third of them in another
layout or on fewer processes. A death has to end the job within 5 s, a hang within its limit and 5 s more; the message
has to name the rank; no process may be left over; the weights have to be those of an undisturbed run. Of a rank without
memory the time counts from its death, since it dies when it next asks for some. A quarter of the stops are in the last
steps of a run.

    python3 bench/parallel/train_faults.py --out bench/results/train_faults.csv

Writes a line for each fault; full disks need the right to mount a file system.
"""
import argparse
import collections
import csv
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from parallel.ranks import ENVIRONMENT, processes_by_rank, ranks_of  # noqa: E402


ROOT = pathlib.Path(__file__).resolve().parents[2]
DIGITS = ROOT / "tools/examples/digits"
# Layouts of one kind give the same bits: of the first that of one rank, of the others those of the ranks that compute
# together. A run goes on in a layout of the same kind.
KINDS = [
    (["dp=4", "dp=4,zero=1", "dp=4,zero=2", "dp=4,zero=3", "pp=4", "pp=4,schedule=gpipe", "dp=2,pp=2",
      "dp=2,pp=2,zero=1", "dp=2,pp=2,zero=3"], ["dp=2", "dp=3", "dp=2,zero=3", "dp=3,zero=2", "pp=2", "pp=3"], "dp=1"),
    (["dp=2,tp=2,zero=1", "dp=2,tp=2,zero=3"], ["tp=2,zero=1", "tp=2,zero=3"], "tp=2,zero=1"),
    (["pp=2,tp=2"], ["pp=2,tp=2,schedule=gpipe"], "pp=2,tp=2"),
]


def is_alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


class Job:
    """A run under mpirun, and its processes by rank."""

    def __init__(self, args, config, checkpoints, layout, folder):
        self.ranks, self.disturbed = ranks_of(layout), False
        resume = ["--resume"] if (checkpoints / "latest").exists() else []
        self.out, self.err = open(folder / "out", "w+"), open(folder / "err", "w+")
        self.mpirun = subprocess.Popen(
            ["mpirun", "--oversubscribe", "-n", str(self.ranks), args.program, "train", "--threads", "1", "--json",
             "--quiet", "--layout", layout, "--bucket-mb", "0.004", "--timeout", str(args.timeout), config,
             "--checkpoint-dir", checkpoints, *resume], stdout=self.out, stderr=self.err, env=ENVIRONMENT)

    def text(self, file):
        file.flush()
        return pathlib.Path(file.name).read_text(errors="replace")

    def wait_for_step(self, number=None):
        """That step, else the first one that is printed."""
        line = '"step"' if number is None else f'"step":{number},'
        while self.mpirun.poll() is None and line not in self.text(self.out):
            time.sleep(0.005)

    def processes(self):
        return processes_by_rank(self.mpirun)

    def wait(self, seconds):
        """The status, None where there is none yet. Notes whether this process was stopped itself meanwhile."""
        end = now = time.monotonic()
        end += seconds
        while self.mpirun.poll() is None and now < end:
            time.sleep(0.02)
            before, now = now, time.monotonic()
            self.disturbed |= now - before > 2
        return self.mpirun.poll()


def strike(kind, job, rank, pid, disk):
    if kind == "kill":
        os.kill(pid, signal.SIGKILL)
    elif kind == "stop":
        os.kill(pid, signal.SIGSTOP)
    elif kind == "memory":
        subprocess.run(["prlimit", "--pid", str(pid), f"--as={1 << 20}"])  # more than it has is refused from now on
    else:
        try:
            with open(disk / "filler", "wb", buffering=0) as filler:
                while True:
                    filler.write(bytes(1 << 12))
        except OSError:
            pass


def is_named(kind, rank, err):
    if kind == "kill":
        return re.search(rf"process rank {rank} .*exited on signal 9", err.replace("\n", " ")) is not None
    if kind == "stop":
        return re.search(rf"for rank {rank}, which may hang", err) is not None
    if kind == "memory":
        return re.search(rf"rank {rank}: .*(memory|allocat|available)", err) is not None or \
            re.search(rf"process rank {rank} |Process name: \[\[\d+,\d+\],{rank}\]|reported by process \[\d+,{rank}\]",
                      err.replace("\n", " ")) is not None  # Open MPI's own words, while it starts
    return "No space left" in err


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=ROOT / "build/release/rewright", type=pathlib.Path)
    parser.add_argument("--kills", default=50, type=int)
    parser.add_argument("--stops", default=20, type=int)
    parser.add_argument("--memory", default=5, type=int, help="ranks that run out of memory")
    parser.add_argument("--disks", default=5, type=int, help="disks that become full")
    parser.add_argument("--timeout", default=10, type=int, help="seconds")
    parser.add_argument("--steps", default=400, type=int)
    parser.add_argument("--seed", default=1, type=int)
    parser.add_argument("--out", type=pathlib.Path)
    args = parser.parse_args()
    rng = random.Random(args.seed)
    kinds = ["kill"] * args.kills + ["stop"] * args.stops + ["memory"] * args.memory + ["disk"] * args.disks
    rng.shuffle(kinds)
    rows, bad, ended_well, resumed = [], 0, 0, 0

    folder = pathlib.Path(tempfile.mkdtemp())
    disk = folder / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", disk], capture_output=True).returncode == 0
    if not mounted:
        kinds = [kind for kind in kinds if kind != "disk"]
    try:
        config = folder / "config.json"
        config.write_text(json.dumps({
            "model": {"mlp": {"sizes": [64, 24, 24, 24, 12]},
                      "places": {"layer0.weight": 1, "layer0.bias": 0, "layer1.weight": 0, "layer2.weight": 1,
                                 "layer2.bias": 0, "layer3.weight": 0}},
            "data": {"inputs": {"x": {"file": str(DIGITS / "train_x.npy"), "scale": 0.0625}},
                     "target": str(DIGITS / "train_y.npy"), "batch": 32, "micro_batches": 4},
            "loss": "cross_entropy", "optimizer": {"kind": "adamw", "learning_rate": 0.01, "clip_norm": 1},
            "steps": args.steps, "checkpoint": {"every_steps": 3, "keep": 2}}))
        checkpoints = disk / "checkpoints"

        def undisturbed(layout):
            job = Job(args, config, checkpoints, layout, folder)
            if job.wait(600) != 0:
                sys.exit(job.text(job.err))
            shutil.rmtree(checkpoints)
            return json.loads(job.text(job.out).splitlines()[-1])["weights_sha256"]

        expected = [undisturbed(last) for _, _, last in KINDS]
        kind_of_run = 0

        def end_of(job):
            nonlocal ended_well, bad
            last = json.loads(job.text(job.out).splitlines()[-1])
            ended_well += 1
            if last["weights_sha256"] != expected[kind_of_run]:
                bad += 1
                print(f"BAD weights: {last}")
            shutil.rmtree(checkpoints)

        while kinds:
            resumes = (checkpoints / "latest").exists()
            resumed += resumes
            if not resumes:
                kind_of_run = rng.choices(range(len(KINDS)), [len(layouts) for layouts, _, _ in KINDS])[0]
            layouts, others, _ = KINDS[kind_of_run]
            layout = rng.choice(others if resumes and rng.random() < 1 / 3 else layouts)
            job = Job(args, config, checkpoints, layout, folder)
            # Memory is asked for at the beginning; later what was freed is used again.
            if kinds[-1] == "memory":
                while job.mpirun.poll() is None and len(job.processes()) < job.ranks:
                    time.sleep(0.02)
                time.sleep(rng.uniform(0, 0.6))
            elif kinds[-1] == "stop" and rng.random() < 1 / 4:
                job.wait_for_step(args.steps - rng.randrange(3))
            else:
                job.wait_for_step()
                time.sleep(rng.uniform(0, 0.6))
            processes = job.processes()
            if job.mpirun.poll() is not None or len(processes) < job.ranks:
                if job.wait(60) == 0:
                    end_of(job)
                    continue
                sys.exit(f"{layout}: {job.text(job.err)}")
            kind = kinds.pop()
            rank = 0 if kind == "disk" else rng.randrange(job.ranks)
            began = time.monotonic()
            strike(kind, job, rank, processes[rank], disk)
            while kind == "memory" and is_alive(processes[rank]) and time.monotonic() < began + 30:
                time.sleep(0.02)
            if kind == "memory":
                began = time.monotonic()
            limit = 5 + (args.timeout if kind == "stop" else 0)
            status = job.wait(limit + 15)
            seconds = time.monotonic() - began
            if kind == "disk":
                (disk / "filler").unlink()
            if status == 0:  # it ended before, or needed no more memory
                end_of(job)
                kinds.insert(0, kind)
                continue
            if job.disturbed or (kind == "memory" and status is None):
                job.mpirun.terminate()
                job.mpirun.wait()
                kinds.insert(0, kind)
                continue
            for _ in range(20):
                left = [pid for pid in processes.values() if is_alive(pid)]
                if not left:
                    break
                time.sleep(0.1)
            err = job.text(job.err)
            named = is_named(kind, rank, err)
            good = status is not None and seconds <= limit and named and not left
            bad += not good
            rows.append({"fault": kind, "layout": layout, "rank": rank, "seconds": f"{seconds:.1f}", "limit": limit,
                         "named": named, "left_over": len(left), "resumed": resumes})
            print(("" if good else "BAD ") + str(rows[-1]) + ("" if good else "\n" + err), flush=True)
            for pid in left:
                os.kill(pid, signal.SIGKILL)
            if status is None:
                job.mpirun.kill()
                job.mpirun.wait()
        # To the end.
        while (checkpoints / "latest").exists():
            job = Job(args, config, checkpoints, KINDS[kind_of_run][2], folder)
            if job.wait(300) != 0:
                sys.exit(job.text(job.err))
            end_of(job)
    finally:
        if mounted:
            subprocess.run(["umount", disk])
        shutil.rmtree(folder, ignore_errors=True)
    counts = collections.Counter(row["fault"] for row in rows)
    slowest = {kind: max(float(row["seconds"]) for row in rows if row["fault"] == kind) for kind in counts}
    print(f"{dict(counts)} faults, {resumed} runs resumed, {ended_well} ended with weights compared, {bad} bad; "
          f"longest time to the end: {slowest}")
    if args.out:
        with open(args.out, "w", newline="") as file:
            writer = csv.DictWriter(file, rows[0].keys())
            writer.writeheader()
            writer.writerows(rows)
    sys.exit(bad != 0)


if __name__ == "__main__":
    main()
