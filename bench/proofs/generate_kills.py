#!/usr/bin/env python3
"""Kills a resumable run of `rewright generate` at random times, and resumes it until it ends by itself.

The rule file has to be, byte for byte, that of an undisturbed run. Prints a line for every kill: after how many seconds
it came and what the run was at, by the files it had written.

    python3 bench/proofs/generate_kills.py --kills 20 -- --ops matmul,relu,concat0_2d,split0 --max-ops 4
"""
import argparse
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=ROOT / "build/release/rewright", type=pathlib.Path)
    parser.add_argument("--kills", default=20, type=int)
    parser.add_argument("--seed", default=1, type=int)
    parser.add_argument("--shortest", default=0.02, type=float, help="before a kill, of the undisturbed run's time")
    parser.add_argument("--longest", default=0.3, type=float)
    parser.add_argument("flags", nargs="+", help="of rewright generate: the space")
    args = parser.parse_args()
    rng = random.Random(args.seed)
    command = [args.program, "generate", "--quiet", *args.flags]

    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        # The file begins with the command, which names it.
        expected, found = folder / "undisturbed" / "out.rules", folder / "killed" / "out.rules"
        expected.parent.mkdir()
        found.parent.mkdir()
        began = time.monotonic()
        subprocess.run([*command, "-o", expected], check=True, stdout=subprocess.DEVNULL)
        whole = time.monotonic() - began
        print(f"undisturbed: {whole:.1f} s, {expected.stat().st_size} bytes", flush=True)

        journals = folder / "journals"
        kills = runs = 0
        while True:
            runs += 1
            began = time.monotonic()
            process = subprocess.Popen([*command, "--resume", journals, "-o", found], stdout=subprocess.DEVNULL)
            # Most runs are killed before they can get far, so that 20 kills fall into one run's work.
            after = rng.uniform(args.shortest, args.longest) * whole if kills < args.kills else None
            try:
                if process.wait(timeout=after) != 0:
                    sys.exit(f"exit status {process.returncode}")
                seconds = time.monotonic() - began
                if kills >= args.kills:
                    break
                # It ended before it could be killed: once more from the beginning.
                print(f"run {runs}: ended by itself after {seconds:.1f} s", flush=True)
                check(expected, found)
                shutil.rmtree(journals)
                found.unlink()
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                process.wait()
                kills += 1
                files = sorted(file for file in journals.rglob("*") if file.is_file())
                sizes = ", ".join(f"{file.relative_to(journals)} {file.stat().st_size}" for file in files)
                print(f"kill {kills}: after {after:.1f} s; {sizes}", flush=True)
        check(expected, found)
        print(f"{kills} kills, {runs} runs: the same rule file, byte for byte ({expected.stat().st_size} bytes)")


def check(expected, found):
    if expected.read_bytes() != found.read_bytes():
        sys.exit(f"the rule files differ: {expected.stat().st_size} and {found.stat().st_size} bytes")


if __name__ == "__main__":
    main()
