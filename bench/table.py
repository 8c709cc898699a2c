"""What the measured comparisons share: the machine they ran on, tables that are whole or absent, parts of a run."""
import csv
import os
import platform
import subprocess
import sys
import time


def machine():
    """Processor, system and commit, in one line."""
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "?")
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    return f"{cpu}, {os.cpu_count()} cores, {platform.system()} {platform.release()}; commit {commit}"


def write_table(path, description, rows):
    """Rows as CSV under the description and the command line; what a row has no value for stays empty."""
    with open(path + ".part", "w", newline="") as file:
        file.write(f"# {description}\n# {' '.join(sys.argv)}\n")
        writer = csv.DictWriter(file, fieldnames=list(dict.fromkeys(key for row in rows for key in row)))
        writer.writeheader()
        writer.writerows(rows)
    os.replace(path + ".part", path)


def part_of(text):
    """The first case and the step of a part: K/N, or today/N, which takes another K each day."""
    first, step = text.split("/")
    if first != "today":
        return int(first), int(step)
    if os.environ.get("REWRIGHT_FULL"):
        return 1, 1
    day = int(os.environ.get("REWRIGHT_DAY", time.time() // 86400))
    print(f"REWRIGHT_DAY={day}")
    return 1 + day % int(step), int(step)
